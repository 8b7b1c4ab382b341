"""Attention statistics and pictures."""

import keras
import numpy as np
import pytest
from written_files import is_png

from memlm_keras import LanguageModel
from memlm_keras import analysis
from memlm_keras.data import Batches
from memlm_keras.data import Vocabulary
from memlm_keras.memory import Attention
from memlm_keras.memory import MemoryBlock
from memlm_keras.memory import NGram


@pytest.mark.parametrize(
    "memory, full",
    [(Attention(4), 4), (MemoryBlock(3), 2)],
    ids=["steps before", "current word"],
)
def test_mean_attention_is_the_mean_over_full_memories(memory, full, tmp_path):
    """A memory that includes the current word is full one step earlier."""
    model = LanguageModel(13, 6, [keras.layers.LSTM(8)], memory)
    tokens = np.random.default_rng(1).integers(0, 13, 40).astype("int32")
    starts = [0, 11, 30]
    batches = Batches(tokens, 2, 5, document_starts=starts)
    mean = analysis.mean_attention(model, batches)
    weights = []
    for document in np.split(tokens, starts[1:]):
        inputs = np.concatenate([[0], document[:-1]])[None]
        weights.append(model.attention(inputs)[0, full:])
    expected = np.concatenate(weights).mean(axis=0)
    np.testing.assert_allclose(mean, expected, rtol=1e-5)
    assert mean.sum() == pytest.approx(1.0, rel=1e-5)
    analysis.plot_mean_attention(mean, tmp_path / "mean.png")
    assert is_png(tmp_path / "mean.png")


@pytest.mark.parametrize("steps_back", [0, 1])
def test_cells_name_the_token_that_they_hold(steps_back, tmp_path, monkeypatch):
    named, rows = [], []
    monkeypatch.setattr(
        "matplotlib.axes.Axes.set_yticks",
        lambda self, places, labels, **style: rows.extend(labels),
    )
    monkeypatch.setattr(
        "matplotlib.axes.Axes.text",
        lambda self, position, step, text, **style: named.append(
            (step, position, text)
        ),
    )
    path = tmp_path / "new" / "map.png"
    analysis.plot_attention(
        np.full((3, 2), 0.5), ["a", "b", "c"], path, steps_back=steps_back
    )
    assert is_png(path)
    # The memory has two positions, the most recent one last.
    expected = {
        1: [(1, 1, "a"), (2, 0, "a"), (2, 1, "b")],
        0: [(0, 1, "a"), (1, 0, "a"), (1, 1, "b"), (2, 0, "b"), (2, 1, "c")],
    }
    assert named == expected[steps_back]
    assert rows == ["a → b", "b → c", "c →"]


@pytest.mark.parametrize("memory", [None, NGram(2)])
@pytest.mark.parametrize(
    "call",
    [
        lambda lm, text, _: analysis.mean_attention(lm, Batches(text, 1, 3)),
        lambda lm, text, words: analysis.attention_columns(lm, text, words, 2),
        lambda lm, _, words: analysis.sentence_predictions(lm, "d", words),
        lambda lm, text, words: analysis.distant_pairs(lm, text, text, words),
    ],
)
def test_a_model_that_does_not_attend(memory, call):
    model = LanguageModel(13, 6, [keras.layers.LSTM(8)], memory)
    vocabulary = Vocabulary([chr(97 + index) for index in range(11)])
    with pytest.raises(ValueError, match="memory that attends"):
        call(model, np.append(np.arange(8), 0), vocabulary)


def test_what_does_not_fit_is_refused(tmp_path):
    model = LanguageModel(13, 6, [keras.layers.LSTM(8)], Attention(4))
    with pytest.raises(ValueError, match="too short to fill"):
        analysis.mean_attention(model, Batches(np.arange(4), 2, 2))
    with pytest.raises(ValueError, match="3 tokens and weights of shape"):
        analysis.plot_attention(np.zeros((4, 2)), ["a"] * 3, tmp_path / "x.png")
    with pytest.raises(ValueError, match="at least one model"):
        analysis.plot_mean_attention({}, tmp_path / "x.png")
    with pytest.raises(ValueError, match="`steps_back`.*None"):
        weights, tokens = np.zeros((3, 2)), ["a"] * 3
        analysis.plot_attention(
            weights, tokens, tmp_path / "x.png", steps_back=None
        )
    assert not list(tmp_path.iterdir())


def test_characters_that_the_font_lacks_are_one_warning(tmp_path):
    words = ["🦜", "ก", "한", "a"]
    with pytest.warns(UserWarning) as caught:
        analysis.plot_attention(np.eye(4), words, tmp_path / "a.png")
    (message,) = (str(warning.message) for warning in caught)
    assert "lacks 3 characters" in message
    assert all(word in message for word in words[:3])

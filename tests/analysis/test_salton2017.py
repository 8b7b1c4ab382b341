"""Tests the picture of Salton et al. (2017) word by word."""

import numpy as np
import pytest
from language_models import sharpened
from written_files import is_png

from memlm_keras import analysis
from memlm_keras.data import Vocabulary
from memlm_keras.memory import Attentive
from memlm_keras.memory import MemoryBlock

VOCABULARY = Vocabulary(["$", "b$c", "d", "e", "f"])
SENTENCE = "$ b$c d e f d d"


def predictions(model, sentence=SENTENCE):
    return analysis.sentence_predictions(model, sentence, VOCABULARY)


@pytest.mark.parametrize("memory", [MemoryBlock, Attentive])
@pytest.mark.parametrize("window", [1, 3, 8, 20])
def test_each_weight_is_that_of_its_word(memory, window):
    memory = memory(window=window)
    found = predictions(sharpened(memory, 7))
    weights = analysis.attention_by_word(found)
    assert weights.shape == (8, 8)
    for step, word in np.ndindex(8, 8):
        back = step - word - memory.steps_back
        held = 0 <= back < window
        expected = found.weights[step, window - 1 - back] if held else 0.0
        assert weights[step, word] == expected
    # Weights sum to one while the window holds all previous words.
    sums = weights[memory.steps_back : window].sum(axis=1)
    np.testing.assert_allclose(sums, 1.0, rtol=1e-5)


def test_both_scores_are_drawn_side_by_side(tmp_path):
    both = {
        score: predictions(sharpened(Attentive(score, window=20), 7))
        for score in ("combined", "single")
    }
    path = tmp_path / "sentence.png"
    analysis.plot_sentence_attention(both, path, title="a $ sentence")
    assert is_png(path)
    one = tmp_path / "one.png"
    analysis.plot_sentence_attention({"single": both["single"]}, one)
    assert one.stat().st_size < path.stat().st_size
    assert len(list(tmp_path.iterdir())) == 2


def test_other_sentences_are_not_drawn_together(tmp_path):
    model = sharpened(Attentive(window=5), 7)
    both = {"a": predictions(model), "b": predictions(model, "d e f")}
    for wrong, received in ((both, "<eos> d e f"), ({}, "Received: {}")):
        with pytest.raises(ValueError, match=f"one sentence.*{received}"):
            analysis.plot_sentence_attention(wrong, tmp_path / "sentence.png")
    assert not list(tmp_path.iterdir())

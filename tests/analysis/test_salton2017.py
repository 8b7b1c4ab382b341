"""The picture of Salton et al. (2017), against the equations word by word."""

import keras
import numpy as np
import pytest
from written_files import is_png

from memlm_keras import LanguageModel
from memlm_keras import analysis
from memlm_keras.data import Vocabulary
from memlm_keras.memory import Attentive
from memlm_keras.memory import MemoryBlock

VOCABULARY = Vocabulary(["$", "b$c", "d", "e", "f"])
SENTENCE = "$ b$c d e f d d"


def trained(memory):
    model = LanguageModel(len(VOCABULARY), 6, [keras.layers.LSTM(6)], memory)
    # Attention as it is initialized hardly differs from slot to slot.
    for weight in model.weights:
        weight.assign(weight * 4.0)
    return model


def predictions(model, sentence=SENTENCE):
    return analysis.sentence_predictions(model, sentence, VOCABULARY)


def test_a_single_score_weighs_the_words_before():
    model = trained(Attentive("single", window=20))
    found = predictions(model)
    weights = analysis.attention_by_word(found)

    tokens = VOCABULARY.encode(["<eos>", *SENTENCE.split()])[None]
    outputs = model.recurrent[0](model.embedding(tokens))[0]
    kernel, score = (
        np.array(keras.ops.convert_to_numpy(weight), "float64")
        for weight in (model.memory.memory_kernel, model.memory.score_kernel)
    )
    outputs = np.array(keras.ops.convert_to_numpy(outputs[0]), "float64")
    scores = np.exp(np.tanh(outputs @ kernel) @ score)[:, 0]
    expected = np.zeros((8, 8))
    for step in range(1, 8):
        expected[step, :step] = scores[:step] / scores[:step].sum()
    np.testing.assert_allclose(weights, expected, atol=1e-5)


@pytest.mark.parametrize("window", [1, 3, 8, 20])
def test_each_weight_is_that_of_its_word(window):
    model = trained(MemoryBlock(window))
    found = predictions(model)
    weights = analysis.attention_by_word(found)
    assert weights.shape == (8, 8)
    for step, word in np.ndindex(8, 8):
        slot = window - 1 - (step - word)
        held = 0 <= step - word < window
        expected = found.weights[step, slot] if held else 0.0
        assert weights[step, word] == expected
    np.testing.assert_allclose(weights.sum(axis=1), 1.0, rtol=1e-5)


def test_both_scores_are_drawn_side_by_side(tmp_path):
    both = {
        score: predictions(trained(Attentive(score, window=20)))
        for score in ("combined", "single")
    }
    path = tmp_path / "sentence.png"
    analysis.plot_sentence_attention(both, path, title="a $ sentence")
    assert is_png(path)
    one = tmp_path / "one.png"
    analysis.plot_sentence_attention({"single": both["single"]}, one)
    assert one.stat().st_size < path.stat().st_size
    assert sorted(p.name for p in tmp_path.iterdir()) == [
        "one.png",
        "sentence.png",
    ]


def test_other_sentences_are_not_drawn_together(tmp_path):
    model = trained(Attentive(window=5))
    both = {"a": predictions(model), "b": predictions(model, "d e f")}
    with pytest.raises(ValueError, match="one sentence.*<eos> d e f"):
        analysis.plot_sentence_attention(both, tmp_path / "sentence.png")
    with pytest.raises(ValueError, match="one sentence.*Received: {}"):
        analysis.plot_sentence_attention({}, tmp_path / "sentence.png")
    assert not list(tmp_path.iterdir())

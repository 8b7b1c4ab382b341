import pytest

from memlm_keras import LanguageModel
from memlm_keras import presets


@pytest.mark.parametrize(
    "row, words, causal",
    [
        ("completion_lstm_256", 0, True),
        ("completion_rm_256", 15, True),
        ("completion_birm_512", 10, False),
    ],
)
def test_models_that_complete_sentences(row, words, causal):
    model = LanguageModel.from_preset(f"tran2016/{row}", 11, scale=0.05)
    assert (len(model.recurrent), len(model.recurrent_above)) == (3, 0)
    # "After each LSTM layer", and so not on the embeddings.
    rates = [layer.rate for layer in model.backbone.dropouts]
    assert rates == [0.0, 0.3, 0.3, 0.3]
    assert (model.memory and model.memory.window or 0) == words
    assert model.causal == causal


@pytest.mark.parametrize(
    "row, layers",
    [("memn", (0, 0)), ("rm_tm_gated", (1, 0)), ("rmr_notm_linear", (1, 1))],
)
def test_place_of_the_memory(row, layers):
    model = LanguageModel.from_preset(f"tran2016/{row}", 11, scale=0.05)
    assert (len(model.recurrent), len(model.recurrent_above)) == layers


def test_published_numbers_by_text():
    published = presets.get("tran2016/rm_tm_gated")["published"]
    del published["corpus"]
    assert published == {
        "german_test_perplexity": 118.6,
        "italian_test_perplexity": 88.9,
        "english_test_perplexity": 128.8,
        "penn_treebank_test_perplexity": 123.5,
    }
    completion = presets.get("tran2016/completion_rm_512")["published"]
    assert completion["completion_accuracy"] == 0.692

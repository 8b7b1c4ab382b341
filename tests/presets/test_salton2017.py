import keras
import numpy as np
import pytest

from memlm_keras import LanguageModel
from memlm_keras import data
from memlm_keras import presets
from memlm_keras.evaluation import perplexity


@pytest.mark.parametrize("corpus", ["ptb", "wikitext2"])
def test_the_row_without_a_memory(corpus):
    """But for the memory it is the single row, in model and training."""
    lstm = presets.get(f"salton2017/{corpus}_lstm")
    single = presets.get(f"salton2017/{corpus}_single")
    assert lstm["model"].pop("memory") is None
    del single["model"]["memory"]
    for preset in (lstm, single):
        del preset["name"], preset["published"]
    assert lstm == single


def test_biases_begin_as_zeros():
    model = LanguageModel.from_preset("salton2017/ptb_combined", 31, units=6)
    biases = [w for w in model.trainable_variables if w.name == "bias"]
    assert len(biases) == 4
    for bias in biases:
        assert not keras.ops.any(bias), bias.path


def test_parameters_that_the_paper_prints_otherwise():
    """Its equations give no 50M on WikiText-2."""
    for row, millions in (("single", 52.3), ("combined", 53.3)):
        count = presets.count_params(f"salton2017/wikitext2_{row}", 33_278)
        assert round(count / 1e6, 1) == millions


def test_batches_of_cut_and_padded_sentences():
    assert presets.get("salton2017/ptb_single")["data"] == {
        "batch_size": 32,
        "sentences": True,
        "longest": 35,
        "equal_lengths": False,
    }


@pytest.mark.parametrize("row", ["ptb_single", "ptb_combined"])
def test_training_and_evaluation_sentence_by_sentence(row):
    """Cut and padded in training, whole in evaluation, in segments."""
    random = np.random.default_rng(0)
    sentences = [[*range(1, random.integers(1, 8)), 0] for _ in range(15)] + [
        [*range(1, 10), 0]
    ]
    split = data.Split(np.concatenate(sentences).astype("int32"))
    words = [chr(97 + index) for index in range(8)]
    corpus = data.Corpus("tiny", data.Vocabulary(words), split, split, split)
    preset = presets.get(f"salton2017/{row}", units=16)
    model = LanguageModel.from_preset(
        preset["name"], 10, units=16, window=10, dropout=0.0
    )
    model.compile(
        keras.optimizers.deserialize(preset["optimizer"]),
        keras.losses.deserialize(preset["loss"]),
    )
    train = corpus.sentence_batches(
        "train", 4, shuffle=True, longest=5, equal_lengths=False
    )
    evaluation = corpus.batches("test", 3, 4, sentences=True)
    before = perplexity(model, evaluation, verbose=0)
    model.fit(train, validation_data=evaluation, epochs=3, verbose=0)
    result = perplexity(model, evaluation, verbose=0, also=("salton2017",))
    assert result.perplexity < 0.97 * before.perplexity
    scores = [model.score(np.array([[0, *s]])).sum() for s in sentences]
    assert result.loss == pytest.approx(-sum(scores), rel=1e-4)
    assert result.predicted_tokens == len(split)
    others = result.others["salton2017"]
    assert others.predicted_tokens == len(split) - len(sentences)

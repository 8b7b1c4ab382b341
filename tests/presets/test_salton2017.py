import keras
import numpy as np
import pytest

from memlm_keras import LanguageModel
from memlm_keras import data
from memlm_keras import presets
from memlm_keras.evaluation import perplexity


@pytest.mark.parametrize("corpus", ["ptb", "wikitext2"])
@pytest.mark.parametrize("row", ["lstm", "projected"])
def test_the_rows_without_a_memory(corpus, row):
    """But for the memory each is the single row, in model and training."""
    other = presets.get(f"salton2017/{corpus}_{row}")
    single = presets.get(f"salton2017/{corpus}_single")
    for preset in (other, single):
        for key in ("name", "published"):
            del preset[key]
        del preset["model"]["memory"]
    assert other == single


def test_the_control_is_the_attentive_model_without_its_context():
    """At a first step there is nothing to attend to."""
    attentive, control = [
        LanguageModel.from_preset(f"salton2017/ptb_{row}", 31, units=6)
        for row in ("single", "projected")
    ]
    tokens = np.array([[3], [5]], "int32")
    for model in (attentive, control):
        model(tokens)
    both = [
        w
        for w in attentive.weights
        if w.name not in ("memory_kernel", "score_kernel")
    ]
    for weight, kept in zip(control.weights, both, strict=True):
        weight.assign(kept[: weight.shape[0]])
    np.testing.assert_allclose(
        *(keras.ops.convert_to_numpy(m(tokens)) for m in (attentive, control)),
        rtol=1e-5,
    )


def test_biases_begin_as_zeros():
    model = LanguageModel.from_preset("salton2017/ptb_combined", 31, units=6)
    biases = [w for w in model.trainable_variables if w.name == "bias"]
    assert len(biases) == 4
    for bias in biases:
        assert not keras.ops.any(bias), bias.path


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

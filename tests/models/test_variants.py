"""Tests variational dropout with masks per sequence and with fixed masks."""

import keras
import numpy as np
import pytest
from language_models import array

from memlm_keras import Ensemble
from memlm_keras import LanguageModel
from memlm_keras.data import Batches
from memlm_keras.embeddings import Embedding
from memlm_keras.evaluation import monte_carlo_perplexity
from memlm_keras.evaluation import perplexity
from memlm_keras.memory import KeyValuePredict
from memlm_keras.memory import Projection
from memlm_keras.mixtures import NeuralCache
from memlm_keras.models.variants import draw_masks
from references.gal2016 import probabilities_with_masks

pytestmark = pytest.mark.backend

V = 13
RATES = {
    "dropout": {
        "embeddings": 0.2,
        "between": 0.25,
        "outputs": 0.5,
        "variational": True,
    },
    "word_dropout": 0.3,
}


def lstms(**rates):
    return [keras.layers.LSTM(6, **rates), keras.layers.LSTM(5, **rates)]


def make(recurrent=None, embedding_dim=5, word_dropout=0.0, **arguments):
    return LanguageModel(
        V,
        embedding_dim,
        recurrent or lstms(),
        initializer=keras.initializers.RandomUniform(-0.9, 0.9),
        embedding=Embedding(
            word_dropout=word_dropout,
            embeddings_initializer=keras.initializers.RandomUniform(-0.9, 0.9),
        ),
        **arguments,
    )


def text(length=40, seed=0):
    return np.random.default_rng(seed).integers(V, size=length).astype("int32")


def probabilities(model, tokens):
    return array(keras.ops.softmax(model(tokens)))


@pytest.mark.backend(one_in=5)
@pytest.mark.parametrize("tie_embeddings", [False, True])
@pytest.mark.parametrize(
    "rates",
    [
        {"dropout": 0.4, "recurrent_dropout": 0.3},
        {"dropout": 0.4},
        {"recurrent_dropout": 0.3},
        {},
    ],
)
def test_masked_weights_are_masked_activations(rates, tie_embeddings):
    model = make(lstms(**rates), tie_embeddings=tie_embeddings, **RATES)
    fixed = model.with_fixed_dropout(3)
    masks = draw_masks(model, 3)
    for name in ("kernels", "recurrent_kernels"):
        rate = rates.get(name.replace("kernels", "dropout"), 0)
        per_gate = rate and "recurrent_dropout" in rates
        assert {*map(len, masks[name])} == {4 if per_gate else 1}
    embeddings = array(model.embedding.embeddings).astype("float64")
    kernel = embeddings.T if tie_embeddings else array(model.head.kernel)
    weights = {
        "E": embeddings,
        "layers": [layer.get_weights() for layer in model.recurrent],
        "head": (kernel, array(model.head.bias)),
    }
    tokens = text(9)
    expected = probabilities_with_masks(tokens, weights, masks)
    found = probabilities(fixed, tokens[None])[0]
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-6)
    plain = probabilities(model, tokens[None])[0]
    assert np.abs(plain - expected).max() > 0.01
    assert not fixed.tie_embeddings
    # A copy with fixed dropout has no dropout in training.
    again = array(keras.ops.softmax(fixed(tokens[None], training=True)))[0]
    np.testing.assert_allclose(again, expected, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(
    "layer", [keras.layers.GRU, keras.layers.SimpleRNN, keras.layers.LSTM]
)
def test_masks_that_are_drawn_are_those_of_keras(layer):
    rates = {"dropout": 0.4, "recurrent_dropout": 0.3}
    model = make([layer(6, **rates)])
    fixed = model.with_fixed_dropout(5)
    masks = draw_masks(model, 5)
    cell = model.recurrent[0].cell

    def unpacked(mask):
        mask = keras.ops.convert_to_tensor(mask)
        return mask[:, None] if len(mask) > 1 else mask[:1]

    tokens = text(7)[None]
    # Keras draws no masks if the cell already has some.
    cell._dropout_mask = unpacked(masks["kernels"][0])
    cell._recurrent_dropout_mask = unpacked(masks["recurrent_kernels"][0])
    expected = array(keras.ops.softmax(model(tokens, training=True)))
    np.testing.assert_allclose(
        probabilities(fixed, tokens), expected, rtol=1e-4, atol=1e-6
    )


def test_mean_and_variance_of_the_masks():
    layer = keras.layers.SimpleRNN(
        1000, dropout=0.5, recurrent_dropout=0.3, recurrent_initializer="zeros"
    )
    model = LanguageModel(
        *(9000, 1000, [layer]),
        dropout=0.25,
        embedding=Embedding(word_dropout=0.3),
    )
    masks = draw_masks(model, 0)
    for mask, rate in (
        (masks["words"], 0.3),
        (masks["inputs"][0], 0.25),
        (masks["inputs"][1], 0.25),
        (masks["kernels"][0], 0.5),
        (masks["recurrent_kernels"][0], 0.3),
    ):
        np.testing.assert_allclose(
            np.unique(mask), [0.0, 1 / (1 - rate)], rtol=1e-6
        )
        np.testing.assert_allclose(mask.mean(), 1.0, atol=0.1)
        np.testing.assert_allclose(mask.var(), rate / (1 - rate), rtol=0.1)
    other = draw_masks(model, 1)
    assert (masks["words"] != other["words"]).any()
    for first, second in zip(masks["inputs"], draw_masks(model, 0)["inputs"]):
        np.testing.assert_array_equal(first, second)


@pytest.mark.backend(one_in=2)
@pytest.mark.parametrize("samples", [1, 2])
def test_the_average_one_at_a_time_is_the_ensemble(samples, capsys):
    model = make(lstms(dropout=0.4, recurrent_dropout=0.3), **RATES)
    batches = Batches(text(50), batch_size=2, segment_length=7)
    average = monte_carlo_perplexity(model, batches, samples, seed=4)
    assert f"mean of {samples} network" in capsys.readouterr().out
    seeds = range(4, 4 + samples)
    ensemble = Ensemble([model.with_fixed_dropout(seed) for seed in seeds])
    expected = perplexity(ensemble, batches, verbose=0)
    assert not capsys.readouterr().out
    assert average.predicted_tokens == expected.predicted_tokens
    np.testing.assert_allclose(
        average.perplexity, expected.perplexity, rtol=1e-5
    )
    with pytest.raises(ValueError, match="`samples` must be an integer"):
        monte_carlo_perplexity(model, batches, samples=0)


def test_dropout_before_a_memory_is_refused():
    stacked = keras.layers.StackedRNNCells(
        [keras.layers.LSTMCell(6, recurrent_dropout=0.3)]
    )
    cell = keras.layers.StackedRNNCells([keras.layers.LSTMCell(6)])
    without_kernel = "a StackedRNNCells without a kernel"
    memory, above = {"memory": KeyValuePredict(2)}, [keras.layers.LSTM(6)]
    above = {**memory, "recurrent_above": above, "mixture": NeuralCache(3)}
    for arguments, message in (
        ({**memory, "dropout": 0.1}, "a KeyValuePredict"),
        ({**above, "dropout": {"outputs": 0.1}}, "a NeuralCache"),
        ({"recurrent": [stacked]}, "stacked cells with dropout"),
        ({"recurrent": [*lstms(), cell], "dropout": 0.1}, without_kernel),
    ):
        arguments = {"recurrent": [keras.layers.LSTM(6)], **arguments}
        with pytest.raises(ValueError, match=f"Received: {message}"):
            make(**arguments).with_fixed_dropout(0)
    capped = Embedding(logit_soft_cap=5.0)
    model = LanguageModel(
        *(V, 6, [keras.layers.LSTM(6)]), embedding=capped, tie_embeddings=True
    )
    with pytest.raises(ValueError, match="an `embedding` without `logit_soft"):
        model.with_fixed_dropout(0)


def test_dropout_elsewhere_in_a_model_with_a_memory():
    model = make(
        [keras.layers.LSTM(6, recurrent_dropout=0.5)],
        memory=Projection(),
        recurrent_above=[keras.layers.LSTM(5)],
        dropout={"embeddings": 0.3, "outputs": 0.5},
        word_dropout=0.3,
    )
    masks = draw_masks(model, 0)
    fixed = model.with_fixed_dropout(0)
    np.testing.assert_allclose(
        array(fixed.head.kernel),
        array(model.head.kernel) * masks["inputs"][2][:, None],
    )
    np.testing.assert_array_equal(
        array(fixed.memory.output_kernel), array(model.memory.output_kernel)
    )

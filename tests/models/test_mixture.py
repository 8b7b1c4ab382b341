"""Tests language models with a mixture of words read before."""

import keras
import keras_nlp
import language_models
import numpy as np
import pytest
from language_models import V
from language_models import array
from language_models import close
from language_models import stepped
from language_models import tokens_of
from scipy.special import softmax

import memlm_keras
from memlm_keras.data import Batches
from memlm_keras.heads import OutputProjection
from memlm_keras.heads import projection
from memlm_keras.memory import KeyValuePredict
from memlm_keras.mixtures import NeuralCache
from memlm_keras.mixtures import PointerSentinel
from memlm_keras.training import SentenceCrossEntropy
from references.merity2017 import pointer_sentinel

pytestmark = pytest.mark.backend


def make(mixture=None, memory="none", **arguments):
    return language_models.make("lstm", memory, mixture=mixture, **arguments)


def pointer():
    return PointerSentinel(4, keras.initializers.RandomUniform(-1, 1))


def cache():
    return NeuralCache(5, theta=2.0, weight=0.4)


every_mixture = pytest.mark.parametrize("mixture", [pointer, cache])


def refused(*arguments):
    raise AssertionError("computed for all words")


def text(length=60):
    return tokens_of(1, length)[0]


@pytest.mark.backend(one_in=2)
@every_mixture
@pytest.mark.parametrize("memory", ["none", "key_value_predict"])
def test_one_token_at_a_time_equals_the_whole_text(mixture, memory, reloaded):
    model = make(mixture(), memory)
    tokens = text(18).reshape(2, 9)
    whole = array(model(tokens))
    np.testing.assert_allclose(np.exp(whole).sum(-1), 1.0, rtol=1e-5)
    found, state = stepped(model, tokens)
    close(found, whole)
    close(model.read(tokens), state)
    close(reloaded(model)(tokens), whole, 1e-6)
    # Without a memory that attends, attention is the mixture's.
    slots = 3 if memory != "none" else {pointer: 4, cache: 5}[mixture]
    assert model.attention(tokens).shape == (2, 9, slots)


@every_mixture
def test_making_a_model_computes_nothing_of_a_whole_vocabulary(
    mixture, monkeypatch
):
    """On PyTorch, Keras would infer shapes with 89 rows of 89 steps."""
    kind = type(mixture())
    copied, asked = kind.copy_distribution, []

    def counted(self, weights, words, vocabulary_size):
        asked.append(vocabulary_size)
        return copied(self, weights, words, vocabulary_size)

    monkeypatch.setattr(kind, "copy_distribution", counted)
    model = make(mixture())
    assert asked and max(asked) < V
    assert model.output_shape == (None, None, V)
    assert model.outputs[0].dtype == "float32"


@pytest.mark.backend("torch")
@every_mixture
def test_losses_need_no_probabilities_of_other_words(mixture, monkeypatch):
    model = make(mixture())
    model.compile(keras.optimizers.SGD(0.1))
    batches = Batches(text(61), batch_size=2, segment_length=10)
    # Keras infers shapes in the first call of `fit`.
    model.fit(batches, validation_data=batches, verbose=0)

    monkeypatch.setattr(type(model.mixture), "copy_distribution", refused)
    found = model.fit(batches, validation_data=batches, verbose=0).history
    assert np.isfinite(found["loss"] + found["val_loss"]).all()
    scores, _ = model.score_batches(batches)
    assert np.isfinite(scores).all()


def test_a_copy_with_a_cache_leaves_the_model_as_it_was():
    plain = make()
    tokens = text(8)[None]
    before = array(plain(tokens))
    cached = plain.with_mixture(NeuralCache(5, weight=0.0))
    np.testing.assert_array_equal(array(plain(tokens)), before)
    expected = before - np.log(np.exp(before).sum(-1, keepdims=True))
    np.testing.assert_allclose(array(cached(tokens)), expected, atol=1e-5)
    assert plain.mixture is None
    without = cached.with_mixture(None)
    np.testing.assert_allclose(array(without(tokens)), before, atol=1e-6)


@pytest.mark.backend(one_in=2)
@pytest.mark.parametrize("loss", ["auto", SentenceCrossEntropy()])
def test_training_a_pointer_adds_its_term_to_the_loss(loss):
    model = make(pointer())
    model.compile(keras.optimizers.SGD(0.0), loss=loss)
    tokens = text(2 * 7 + 1)
    batches = Batches(tokens, batch_size=2, segment_length=9)
    (inputs, targets, weight) = batches[0]
    assert 0 < weight.sum() < weight.size
    history = model.fit(batches, verbose=0).history

    ids, head = inputs["token_ids"], model.get_layer("head")
    logits, outputs = (
        array(keras.Model(model.inputs, part)(ids)).astype("float64")
        for part in (head.output, head.input)
    )
    kernel, bias, sentinel = map(np.float64, model.mixture.get_weights())
    symbols = {"W": kernel.T, "b": bias, "s": sentinel}
    total = 0.0
    for row in range(2):
        mixed, _, pointed = pointer_sentinel(
            outputs[row], ids[row], softmax(logits[row], -1), symbols, 4
        )
        logs = (np.log(mixed) + np.log(pointed))[np.arange(9), targets[row]]
        total -= np.sum(weight[row] * logs)
    expected = total / (weight.sum() if loss == "auto" else 2)
    np.testing.assert_allclose(history["loss"][0], expected, rtol=1e-4)
    # Perplexity and evaluation do not include the additional loss.
    evaluated = model.evaluate(batches, return_dict=True, verbose=0)
    assert evaluated["loss"] < history["loss"][0]


@pytest.mark.backend("torch")
def test_a_cache_takes_no_part_in_training():
    plain = make()
    cached = plain.with_mixture(cache())
    batches = Batches(text(61), batch_size=2, segment_length=10)
    histories = []
    for model in (plain, cached):
        model.compile(keras.optimizers.SGD(0.5))
        history = model.fit(batches, epochs=2, verbose=0).history
        histories.append(history["perplexity"])
        evaluated = model.evaluate(batches, verbose=0, return_dict=True)
        result = memlm_keras.evaluation.perplexity(model, batches, verbose=0)
        np.testing.assert_allclose(
            evaluated["perplexity"], result.perplexity, rtol=1e-5
        )
        histories[-1].append(evaluated["perplexity"])
    np.testing.assert_allclose(histories[0][:2], histories[1][:2], rtol=1e-6)
    # A mixture without weights changes only validation.
    assert abs(histories[0][2] - histories[1][2]) > 1e-2


@pytest.mark.backend("torch")
def test_metrics_and_losses_of_logits():
    batches = Batches(text(61), batch_size=2, segment_length=10)
    model = make(pointer())
    loss = keras.losses.SparseCategoricalCrossentropy(
        from_logits=True, reduction="mean_with_sample_weight"
    )
    metrics = [
        memlm_keras.training.Nats(),
        keras_nlp.metrics.Perplexity(from_logits=True),
        "accuracy",
    ]
    found = []
    for arguments in ({}, {"loss": loss, "weighted_metrics": metrics}):
        model.compile(keras.optimizers.SGD(0.0), **arguments)
        found.append(model.fit(batches, verbose=0).history)
    assert 0 < found[1]["accuracy"][0] < 1
    for name in ("loss", "nats", "perplexity"):
        np.testing.assert_allclose(found[1][name], found[0][name], rtol=1e-5)


@pytest.mark.backend("torch")
@every_mixture
def test_training_takes_a_sample_of_the_words(mixture, monkeypatch):
    model = make(mixture(), head=OutputProjection(num_sampled=6))
    model.compile(keras.optimizers.SGD(0.1))
    batches = Batches(text(61), batch_size=2, segment_length=10)

    model.fit(batches, verbose=0)
    monkeypatch.setattr(projection, "token_losses", refused)
    losses = model.fit(batches, epochs=3, verbose=0).history["loss"]
    assert np.isfinite(losses).all()
    with pytest.raises(AssertionError, match="computed for all words"):
        model.evaluate(batches, verbose=0)


def test_a_mixture_is_one():
    with pytest.raises(ValueError, match="`mixture` must be a .*KeyValuePred"):
        make(mixture=KeyValuePredict(2))

import keras
import numpy as np
import pytest
from language_models import V
from language_models import array
from language_models import close
from language_models import make
from language_models import stepped
from language_models import tokens_of
from scipy.special import softmax

import memlm_keras
from memlm_keras import Ensemble
from memlm_keras.data import Batches
from memlm_keras.mixtures import NeuralCache

pytestmark = pytest.mark.backend


def members():
    return [make(), make("gru_rnn", "none", mixture=NeuralCache(3, 0.5, 0.3))]


def probabilities(model, tokens):
    return softmax(array(model(tokens)).astype("float64"), axis=-1)


def test_it_streams_and_is_saved(reloaded):
    ensemble, tokens = Ensemble(members()), tokens_of(2, 7)
    whole = array(ensemble(tokens))
    found, state = stepped(ensemble, tokens)
    close(found, whole)
    close(ensemble.read(tokens), state)
    close(reloaded(ensemble)(tokens), whole, 1e-6)
    expected = np.take_along_axis(whole[:, :-1], tokens[:, 1:, None], axis=-1)
    close(ensemble.score(tokens), expected[..., 0])
    sampled = ensemble.generate(tokens[0], max_length=9, sampler="greedy")
    assert sampled.shape == (9,)
    assert sampled[7] == np.argmax(whole[0, -1])


@pytest.mark.backend("torch")
def test_its_perplexity_is_that_of_the_averaged_probabilities():
    models = members()
    tokens = tokens_of(1, 40)[0]
    batches = Batches(tokens, batch_size=1, segment_length=6)
    ensemble = Ensemble(models)
    assert ensemble.count_params() == sum(m.count_params() for m in models)
    result = memlm_keras.evaluation.perplexity(ensemble, batches, verbose=0)
    inputs = np.append(0, tokens[:-1]).astype("int32")[None]
    mean = np.mean([probabilities(m, inputs)[0] for m in models], axis=0)
    nats = -np.log(mean[np.arange(40), tokens])
    np.testing.assert_allclose(result.nats, nats.mean(), rtol=1e-5)
    evaluated = ensemble.evaluate(batches, return_dict=True, verbose=0)
    np.testing.assert_allclose(
        evaluated["perplexity"], result.perplexity, rtol=1e-4
    )
    assert ensemble.evaluate(batches, verbose=0) == list(evaluated.values())


@pytest.mark.backend("torch")
def test_wrong_members():
    one = members()[0]
    other = make(vocabulary_size=V + 1)
    for models, message in (
        ([], "at least one language model"),
        (one, "must be a list"),
        ([one, keras.layers.Dense(2)], "must hold instances.*Dense"),
        ([one, one], "the same model twice"),
        ([one, other], r"one vocabulary. Received: .*\[23, 24\]"),
    ):
        with pytest.raises(ValueError, match=message):
            Ensemble(models)


def test_inputs_that_it_would_misread():
    ensemble = Ensemble(members())
    batches = Batches(np.arange(20), 2, 5)
    for read in (ensemble.predict, lambda batches: ensemble(batches[0][0])):
        with pytest.raises(ValueError, match="call `evaluate`.*token_ids"):
            read(batches)
    with pytest.raises(ValueError, match="`inputs`.*-1"):
        ensemble(np.array([[-1, 5]]))

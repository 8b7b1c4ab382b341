"""Compares dynamic evaluation with float64 loops and finite differences."""

import keras
import numpy as np
import pytest

from memlm_keras import Ensemble
from memlm_keras import LanguageModel
from memlm_keras import memory as memories
from memlm_keras.data import Batches
from memlm_keras.evaluation import DynamicEvaluator
from memlm_keras.evaluation import choose_dynamic
from memlm_keras.evaluation import mean_squared_gradients
from memlm_keras.evaluation import perplexity
from memlm_keras.mixtures import NeuralCache
from memlm_keras.mixtures import PointerSentinel
from references.finite_differences import central_differences

pytestmark = pytest.mark.backend

V, UNITS = 5, 3


def text(length=23, seed=0):
    return np.random.default_rng(seed).integers(V, size=length)


def make(recurrent=keras.layers.SimpleRNN, **arguments):
    arguments["initializer"] = keras.initializers.RandomUniform(-0.8, 0.8)
    return LanguageModel(V, 2, [recurrent(UNITS)], **arguments)


def values_of(model):
    return [
        keras.ops.convert_to_numpy(variable).astype("float64")
        for variable in model.trainable_variables
    ]


def nats(weights, inputs, targets, hidden):
    """Returns the loss of each step of a simple RNN, and the last state."""
    embeddings, kernel, recurrent, bias, head, head_bias = weights
    found = []
    for word, target in zip(inputs, targets):
        hidden = np.tanh(embeddings[word] @ kernel + hidden @ recurrent + bias)
        logits = hidden @ head + head_bias
        found.append(np.log(np.exp(logits).sum()) - logits[target])
    return np.array(found), hidden


def differences(weights, inputs, targets, hidden):
    """Returns finite-difference gradients of the mean loss."""

    def loss(weights):
        return nats(weights, inputs, targets, hidden)[0].mean()

    return central_differences(loss, weights)


def reference(model, tokens, length, rate, decay, squares=None, epsilon=2e-5):
    """Evaluates a text in segments; returns its losses and the last weights."""
    weights, trained = values_of(model), values_of(model)
    hidden, inputs, found = np.zeros(UNITS), np.append(0, tokens[:-1]), []
    if squares is not None:
        everything = np.concatenate([np.sqrt(s).ravel() for s in squares])
    for begin in range(0, len(tokens), length):
        part = slice(begin, begin + length)
        gradients = differences(weights, inputs[part], tokens[part], hidden)
        losses, hidden = nats(weights, inputs[part], tokens[part], hidden)
        found.extend(losses)
        for index, weight in enumerate(weights):
            for place in np.ndindex(weight.shape):
                step, pull = rate, decay
                if squares is not None:
                    root = np.sqrt(squares[index][place])
                    step = rate / (root + epsilon)
                    pull = min(1.0, decay * root / everything.mean())
                away = trained[index][place] - weight[place]
                change = pull * away - step * gradients[index][place]
                weight[place] += change
    return np.array(found), weights


@pytest.fixture
def model():
    return make()


@pytest.mark.parametrize("rule", ["sgd", "rms"])
def test_scores_and_weights_equal_the_reference(rule, model):
    tokens, squares = text(), None
    rate, decay = 0.3, 0.1
    if rule == "rms":
        rate, decay = 0.02, 0.6
        squares = mean_squared_gradients(model, Batches(text(40, 1), 2, 4))
    before = values_of(model)
    evaluator = DynamicEvaluator(model, rate, decay, squares)
    scores, weights = evaluator.score_batches(Batches(tokens, 1, 4))
    expected, moved = reference(model, tokens, 4, rate, decay, squares)
    found = -scores[weights > 0]
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-4)
    for found, expected_value, old in zip(evaluator.weights, moved, before):
        found = keras.ops.convert_to_numpy(found)
        np.testing.assert_allclose(found, expected_value, rtol=1e-3, atol=1e-4)
        assert np.abs(expected_value - old).max() > 1e-2
    # Dynamic evaluation does not change the weights of the model itself.
    for found, expected_value in zip(values_of(model), before):
        np.testing.assert_array_equal(found, expected_value)
    again, _ = evaluator.score_batches(Batches(tokens, 1, 4))
    np.testing.assert_array_equal(again, scores)


def test_mean_squares_equal_the_reference(model):
    tokens = text(12, 2)
    found = mean_squared_gradients(model, Batches(tokens, 1, 4))
    weights, inputs = values_of(model), np.append(0, tokens[:-1])
    hidden, sums = np.zeros(UNITS), 0
    for begin in range(0, 12, 4):
        part = slice(begin, begin + 4)
        gradients = differences(weights, inputs[part], tokens[part], hidden)
        _, hidden = nats(weights, inputs[part], tokens[part], hidden)
        sums = sums + np.array([g**2 for g in gradients], dtype=object)
    for square, total in zip(found, sums, strict=True):
        np.testing.assert_allclose(
            square, total.astype("float64") / 3, rtol=1e-3, atol=1e-6
        )


@pytest.mark.backend(one_in=3)
@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"memory": memories.KeyValuePredict(window=2)},
        {"memory": memories.MemoryBlock(window=2)},
        {"mixture": NeuralCache(4, 0.5, 0.2)},
        {"mixture": PointerSentinel(window=3)},
        {"recurrent": keras.layers.LSTM, "dropout": 0.5},
    ],
    ids=str,
)
def test_any_model(arguments):
    model = make(**arguments)
    batches = Batches(np.tile(text(6), 20), 1, 5)
    expected = perplexity(model, batches, verbose=0)
    still = perplexity(DynamicEvaluator(model, 0.0), batches, verbose=0)
    assert still.loss == pytest.approx(expected.loss, rel=1e-4)
    moving = perplexity(DynamicEvaluator(model, 0.3), batches, verbose=0)
    assert moving.loss < 0.95 * expected.loss
    assert "by the rule sgd, rate=0.3, decay=0" in moving.protocol
    assert perplexity(model, batches, verbose=0).loss == expected.loss


def test_segments_that_begin_anew(model):
    tokens = text(14)
    batches = Batches(tokens, 1, 4, document_starts=[0, 6])
    scores, weights = DynamicEvaluator(model, 0.3).score_batches(batches)
    evaluator = DynamicEvaluator(model, 0.3)
    found = []
    for begin, end in ((0, 6), (6, 14)):
        state = model.initial_state(1)
        words = np.append(0, tokens[begin:end])
        for start in range(0, end - begin, 4):
            part = words[None, start : start + 5]
            score, state = evaluator.read(part[:, :-1], part[:, 1:], state)
            found.extend(keras.ops.convert_to_numpy(score)[0])
    np.testing.assert_allclose(scores[weights > 0], found, rtol=1e-4)


def test_the_best_rate_and_decay(model, capsys):
    batches = Batches(np.tile(text(6), 10), 1, 5)
    choice = choose_dynamic(model, batches, rates=(0.0, 0.3), decays=(0, 0.1))
    assert choice.perplexities.shape == (2, 2)
    best = choice.evaluator
    assert (best.rate, best.decay) == (0.3, 0)
    printed = capsys.readouterr().out
    assert "4 of 4, dynamic evaluation by the rule sgd, rate=0.3" in printed
    assert printed.count("\nperplexity ") == 4
    found = perplexity(best, batches, verbose=0)
    assert found.perplexity == pytest.approx(choice.perplexities[1, 0])
    part = choose_dynamic(
        model, batches, rates=(0.3,), decays=(0,), segments=3, verbose=0
    )
    scores, weights = best.score_batches(batches, segments=3)
    expected = np.exp(-(scores * weights).sum() / weights.sum())
    assert part.perplexities[0, 0] == pytest.approx(expected, rel=1e-5)
    assert scores.shape == (3, 5)


@pytest.mark.backend("torch")
@pytest.mark.parametrize("score", [np.nan, -np.inf, -1e30])
def test_weights_that_diverge_are_never_the_best(score, model, monkeypatch):
    read = DynamicEvaluator.score_batches

    def score_batches(self, *arguments):
        scores, weights = read(self, *arguments)
        return (scores * 0 + score if self.rate == 1 else scores), weights

    monkeypatch.setattr(DynamicEvaluator, "score_batches", score_batches)
    batches = Batches(text(6), 1, 5)
    options = {"decays": (0,), "verbose": 0}
    choice = choose_dynamic(model, batches, rates=(1, 0.01), **options)
    assert not np.isfinite(choice.perplexities[0, 0])
    assert choice.evaluator.rate == 0.01
    with pytest.raises(ValueError, match="one perplexity must be finite"):
        choose_dynamic(model, batches, rates=(1,), **options)


@pytest.mark.backend("torch")
def test_wrong_arguments(model):
    both = make(memory=memories.BidirectionalMemoryBlock(window=2))
    shapes = "`mean_squares` must have.*Received: the shapes"
    for arguments, message in (
        ((model, -1.0), "`rate` must be at least 0"),
        ((model, 1.0, 1.5), "`decay`.*decay=1.5"),
        ((model, 1.0, 0.1, None, 0), "`epsilon` must be above 0"),
        ((model, 1.0, 0.1, [np.ones(3)]), shapes),
        ((Ensemble([model]), 1.0), "must be a single"),
        ((both, 1.0), "needs a causal model"),
    ):
        with pytest.raises(ValueError, match=message):
            DynamicEvaluator(*arguments)
    with pytest.raises(ValueError, match="must have one row.*batch_size=2"):
        DynamicEvaluator(model, 1.0).score_batches(Batches(text(), 2, 4))
    with pytest.raises(ValueError, match="`segments` must be .*segments=0"):
        mean_squared_gradients(model, Batches(text(), 1, 4), segments=0)
    with pytest.raises(ValueError, match="at least one number each"):
        choose_dynamic(model, Batches(text(), 1, 4), rates=())

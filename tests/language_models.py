"""Small language models for tests, and functions that tests apply to them."""

import functools

import keras
import numpy as np
import pytest
from layers import assert_close

from memlm_keras import Ensemble
from memlm_keras import LanguageModel
from memlm_keras import cells
from memlm_keras import memory as memories
from memlm_keras.data import Batches
from memlm_keras.data import Vocabulary
from memlm_keras.mixtures import NeuralCache
from memlm_keras.ngrams import KneserNey
from memlm_keras.ngrams import Mixture
from memlm_keras.ngrams import UnigramCache
from references import daniluk2017 as reference

V = 23
WORDS = [f"w{number}" for number in range(V - 2)]
VOCABULARY = Vocabulary(WORDS)
UNITS = 12
RECURRENT = {
    "lstm": lambda: [keras.layers.LSTM(UNITS)],
    "gru_rnn": lambda: [keras.layers.GRU(7), keras.layers.SimpleRNN(UNITS)],
    "cell": lambda: [keras.layers.LSTMCell(UNITS)],
    "fofe_hornn": lambda: [cells.FOFEHORNNCell(UNITS)],
    "gated_hornn": lambda: [cells.GatedHORNNCell(UNITS, order=2)],
    "none": lambda: [],
}
MEMORY = {
    "none": lambda: None,
    "attention": lambda: memories.Attention(window=3),
    "key_value": lambda: memories.KeyValue(window=4),
    "key_value_predict": lambda: memories.KeyValuePredict(window=3),
    "ngram": lambda: memories.NGram(order=3),
    "projection": lambda: memories.Projection(),
    "attentive_single": lambda: memories.Attentive(window=3),
    "attentive_combined": lambda: memories.Attentive("combined", window=3),
    "induction": lambda: memories.InductionAttention(window=3),
    "delta_rule": lambda: memories.DeltaRule(2, 3, kernel_size=3, decay=True),
    "holographic": lambda: memories.DeltaRule(UNITS // 2, 3, holographic=True),
    "memory_block": lambda: memories.MemoryBlock(
        window=3, kernel_initializer=keras.initializers.RandomUniform(-1, 1)
    ),
    "memory_network": lambda: memories.MemoryNetwork(
        window=3, kernel_initializer=keras.initializers.RandomUniform(-1, 1)
    ),
}
# Each memory and each kind of recurrent layer, but not all their pairs.
COMBINATIONS = [
    ("lstm", "none"),
    ("lstm", "attention"),
    ("gru_rnn", "key_value"),
    ("lstm", "key_value_predict"),
    ("cell", "key_value_predict"),
    ("gru_rnn", "ngram"),
    ("fofe_hornn", "projection"),
    ("gated_hornn", "attention"),
    ("lstm", "attentive_single"),
    ("gru_rnn", "attentive_combined"),
    ("lstm", "induction"),
    ("lstm", "delta_rule"),
    ("cell", "holographic"),
    ("lstm", "memory_block"),
    ("none", "memory_network"),
]
every_model = pytest.mark.parametrize("recurrent, memory", COMBINATIONS)


def make(recurrent="lstm", memory="key_value_predict", **arguments):
    """Returns a model; large weights make results of two models differ."""
    keras.utils.set_random_seed(7)
    draw = keras.initializers.RandomUniform(-0.7, 0.7)
    arguments = {"initializer": draw, **arguments}
    return LanguageModel(
        arguments.pop("vocabulary_size", V),
        arguments.pop("embedding_dim", 5),
        RECURRENT[recurrent](),
        memory=MEMORY[memory](),
        **arguments,
    )


def sharpened(memory, size):
    """A model with weights four times as large, so attention differs by
    slot."""
    model = LanguageModel(size, 8, [keras.layers.LSTM(8)], memory)
    for weight in model.weights:
        weight.assign(weight * 4.0)
    return model


# Tests that do not change a model share it, so it is compiled only once.
shared = functools.cache(make)


@functools.cache
def counted():
    """Returns a trigram model with the vocabulary of the small models."""
    tokens = np.random.default_rng(0).zipf(1.5, 400).astype("int32") % V
    tokens[7::8] = 0
    return KneserNey(V, order=3, discounts=0.5).fit(tokens, verbose=0)


# One model of each kind that scores words, made when called.
KINDS = {
    "lstm": lambda: shared("lstm", "none"),
    "memory": shared,
    "cache": lambda: shared("lstm", "none").with_mixture(
        NeuralCache(4, 0.5, 0.3)
    ),
    "ensemble": lambda: Ensemble([shared("lstm", "none"), shared()]),
    "ngrams": counted,
    "mixed": lambda: Mixture([counted(), UnigramCache(V, 5, 0.9)], [0.8, 0.2]),
}


class Preferring:
    """A model that gives lower ids a higher score."""

    causal, vocabulary_size, vocabulary = True, V, VOCABULARY

    def score(self, text):
        return -text.tokens.astype("float64")


def tokens_of(batch, time, seed=0):
    random = np.random.default_rng(seed)
    return random.integers(V, size=(batch, time)).astype("int32")


def array(tensor):
    return keras.ops.convert_to_numpy(tensor)


def close(found, expected, tolerance=1e-5):
    """Compares tensors, or dicts of tensors with the same keys."""
    if isinstance(expected, dict):
        assert set(found) == set(expected)
    assert_close(found, expected, rtol=tolerance, atol=tolerance)


def stepped(model, tokens, state=None):
    """Returns the logits of one-token steps, and the state after the last
    one."""
    state = model.initial_state(len(tokens)) if state is None else state
    logits = []
    for column in np.split(tokens, tokens.shape[1], axis=1):
        column_logits, state = model.step(column, state)
        logits.append(array(column_logits))
    return np.concatenate(logits, axis=1), state


def summed(model, text, eos=False, begin=0, mean=False):
    """Returns the sum of log-probabilities from token `begin`, step by step."""
    ids = [0, *(VOCABULARY[word] for word in text.split()), *[0] * eos]
    total = 0.0
    if hasattr(model, "step"):
        state = model.initial_state(1)
    for place, target in enumerate(ids[1:]):
        if hasattr(model, "step"):
            logits, state = model.step(np.array([[ids[place]]], "int32"), state)
            row = array(logits)[0, 0].astype("float64")
            row = row - np.log(np.exp(row).sum())
        else:
            row = model.log_probabilities_at(
                np.array(ids[1:], "int32"), place, place + 1
            )[0]
        total += row[target] if place >= begin else 0.0
    return total / (len(ids) - 1 - begin) if mean else total


def expected_of_batches(model, batches, attends=False):
    """Computes batches step by step, and resets rows where `"reset"` is
    true."""
    start = state = model.initial_state(batches.batch_size)
    scores, attention, weights = [], [], []
    for inputs, targets, sample_weight in batches:
        state = {
            name: np.where(
                inputs["reset"].reshape((-1,) + (1,) * (value.ndim - 1)),
                array(start[name]),
                value,
            )
            for name, value in ((n, array(v)) for n, v in state.items())
        }
        if attends:
            seen, _ = model.backbone.attend(
                keras.ops.convert_to_tensor(inputs["token_ids"]), state
            )
            attention.append(array(seen))
        logits, state = stepped(model, inputs["token_ids"], state)
        logs = reference.log_softmax(logits.astype("float64"))
        scores.append(np.take_along_axis(logs, targets[..., None], -1)[..., 0])
        weights.append(sample_weight)
    return {
        "scores": np.concatenate(scores),
        "weights": np.concatenate(weights),
        "attention": attention,
        "state": state,
    }


def documents(batch_size=3, seed=5):
    tokens = tokens_of(1, 37, seed)[0]
    return Batches(tokens, batch_size, 4, document_starts=[0, 5, 17, 18, 30])


def carried_on(model, state, training):
    """Asserts that the model carries `state`, by comparing with `step`."""
    rows = len(next(iter(state.values())))
    probe = tokens_of(rows, 2, seed=9)
    logits = model(
        {"token_ids": probe, "reset": np.zeros(rows, "bool")}, training=training
    )
    close(logits, model.step(probe, state)[0])

"""Tests models quantized in place: layers, accuracy and methods."""

import keras
import numpy as np
import pytest
from language_models import UNITS
from language_models import V
from language_models import array
from language_models import close
from language_models import documents
from language_models import make
from language_models import stepped
from language_models import tokens_of

import memlm_keras as memlm

pytestmark = pytest.mark.backend

# Models with all of this package's layers that have matrices.
MODELS = {
    "attention": lambda: make("gated_hornn", "attention"),
    "ngram": lambda: make("fofe_hornn", "ngram"),
    "attentive_tied": lambda: make(
        memory="attentive_single", embedding_dim=UNITS, tie_embeddings=True
    ),
    "memory_block": lambda: make("gru_rnn", "memory_block"),
    "memory_network": lambda: make("none", "memory_network"),
    "projection": lambda: make(memory="projection"),
    "delta_rule": lambda: make(memory="delta_rule"),
    "holographic": lambda: make(memory="holographic"),
    "pointer": lambda: make(
        memory="none", mixture=memlm.mixtures.PointerSentinel(window=4)
    ),
}
CELLS = {
    "zoneout": lambda: memlm.cells.ZoneoutLSTMCell(UNITS),
    "associative": lambda: memlm.cells.AssociativeGRUCell(UNITS),
}
# Keras' own recurrent layers.
LAYERS = {
    "lstm": lambda: [keras.layers.LSTM(UNITS, implementation=1)],
    "gru": lambda: [keras.layers.GRU(UNITS)],
    "gru_reset_before": lambda: [keras.layers.GRU(UNITS, reset_after=False)],
    "simple_rnn": lambda: [keras.layers.SimpleRNN(UNITS, use_bias=False)],
    "stack": lambda: [
        keras.layers.LSTM(UNITS),
        keras.layers.RNN(
            [keras.layers.GRUCell(UNITS), keras.layers.SimpleRNNCell(UNITS)]
        ),
    ],
}


def of(name):
    if name in MODELS:
        return MODELS[name]()
    if name in LAYERS:
        return memlm.LanguageModel(V, 6, LAYERS[name]())
    layer = memlm.cells.ProjectedRNN(CELLS[name]())
    return memlm.LanguageModel(V, 6, [layer])


@pytest.mark.backend(one_in=5)
@pytest.mark.parametrize("name", [*MODELS, *CELLS, *LAYERS])
def test_quantized_models_read_stream_and_are_saved(name, reloaded):
    model, tokens = of(name), tokens_of(2, 5)
    before = model.score(tokens)
    model.quantize("int8", verbose=False)
    size = sum(one.bytes_after for one in model.quantized_layers)
    assert size == sum(array(weight).nbytes for weight in model.weights)
    quantized = model.score(tokens)
    assert 0 < np.abs(quantized - before).max() < 0.1
    logits = array(model(tokens))
    close(stepped(model, tokens)[0], logits)
    loaded = reloaded(model)
    close(loaded.score(tokens), quantized)
    assert [(weight.name, weight.dtype) for weight in loaded.weights] == [
        (weight.name, weight.dtype) for weight in model.weights
    ]


def test_account(capsys):
    model = make(embedding_dim=UNITS // 3, tie_embeddings=True)
    model.quantize("int8")
    found = {one.layer: one for one in model.quantized_layers}
    assert {name: one.what for name, one in found.items()} == {
        "embedding": "int8",
        "head": "shares its matrix",
        "recurrent_0": "int8",
        "memory": "int8",
    }
    # Each row of the embedding and each column of a kernel has a scale.
    assert found["embedding"].bytes_before == V * 4 * 4
    assert found["embedding"].bytes_after == V * 4 + V * 4
    assert found["memory"].bytes_before == 4 * (4 * 4 * 4 + 4)
    assert found["memory"].bytes_after == 4 * (4 * 4 + 4 * 4) + 4 + 4
    printed = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in printed] == ["layer", *found, "all"]
    # Layers of a subclass stay in float32.
    model = memlm.LanguageModel(V, 6, [OwnLSTM(UNITS)])
    model.quantize("int8", filters="cell", verbose=False)
    assert {one.what for one in model.quantized_layers} == {"left in float32"}


class OwnLSTM(keras.layers.LSTM):
    """A subclass of a Keras layer, whose computation may differ."""


@pytest.mark.parametrize("name", LAYERS)
def test_layers_of_keras_equal_those_of_the_same_rounded_matrices(name):
    model, tokens = of(name), tokens_of(3, 9)
    rounded = model.with_mixture(memlm.mixtures.NeuralCache(size=3))
    rounded = rounded.with_mixture(None)
    names = [one.name for one in model.recurrent]
    model.quantize("int8", filters="cell", verbose=False)
    whats = {one.layer: one.what for one in model.quantized_layers}
    assert whats.pop("embedding") == whats.pop("head") == "left in float32"
    assert set(whats.values()) == {"int8"}
    assert [one.name for one in model.recurrent] == names
    for one in model.quantized_layers:
        if one.what == "int8":
            assert one.bytes_after < 0.6 * one.bytes_before
    for layer in rounded.recurrent:
        for cell in getattr(layer.cell, "cells", [layer.cell]):
            for matrix in (cell.kernel, cell.recurrent_kernel):
                value = array(matrix)
                scale = 127 / np.abs(value).max(axis=0)
                matrix.assign(np.round(value * scale) / scale)
    close(model.score(tokens), rounded.score(tokens))
    # Compare single steps with a loop over all steps.
    close(stepped(model, tokens)[0], array(rounded(tokens)))


def test_quantization_discards_compiled_functions():
    model, tokens = make(), tokens_of(2, 5)
    before = model.step(tokens, model.initial_state(2))[0]
    model.measure_words(tokens[0], [0])
    model.quantize("int8", verbose=False)
    after = model.step(tokens, model.initial_state(2))[0]
    assert np.abs(array(after) - array(before)).max() > 0
    close(after, array(model(tokens)))
    scores = model.score(np.concatenate([[0], tokens[0]])[None])
    close(model.measure_words(tokens[0], [0])[:, 0], -scores[0])
    member = make()
    ensemble = memlm.Ensemble([member, make()])
    member.step(tokens, member.initial_state(2))
    size = ensemble.count_params()
    ensemble.quantize("int8", verbose=False)
    assert ensemble.count_params() == size
    after = member.step(tokens, member.initial_state(2))[0]
    close(after, array(member(tokens)))


@pytest.mark.backend("torch")
def test_quantized_autoencoders_encode_by_int8():
    model = memlm.SequenceAutoencoder(
        *(V, 6, memlm.cells.AssociativeGRUCell(6, num_copies=2)),
        memlm.cells.DualAssociativeGRUCell(6, num_copies=2),
    )
    source = keras.ops.convert_to_tensor(tokens_of(2, 4))
    lengths = keras.ops.convert_to_tensor(np.array([4, 3], "int32"))
    before = array(model._encode(source, lengths)[-1])
    model.quantize("int8")
    after = array(model._encode(source, lengths)[-1])
    assert np.abs(after - before).max() > 0
    close(after, array(model.backbone.encode(source, lengths)[-1]))


@pytest.mark.backend("torch")
def test_training_smoothing_and_copies():
    model, tokens = make(), tokens_of(2, 5)
    model.compile("adam")
    model.quantize("int8", verbose=False)
    with pytest.raises(
        ValueError, match="cannot be trained.*Do this before `quantize`"
    ):
        model.fit(documents(), verbose=0)
    with pytest.raises(ValueError, match="already quantized"):
        model.quantize("int8", verbose=False)
    copy = model.with_mixture(memlm.mixtures.NeuralCache(size=3))
    copy = copy.with_mixture(None)
    close(copy.score(tokens), model.score(tokens))
    smoothed = memlm.LanguageModel.from_preset(
        "kong2019/vs_kneser_ney_512", V, scale=0.02
    )
    with pytest.raises(ValueError, match="`model.with_fixed_matrices"):
        smoothed.quantize("int8")
    fixed = smoothed.with_fixed_matrices()
    fixed.quantize("int8", verbose=False)
    assert fixed.embedding.quantization_mode == "int8"


@pytest.mark.backend("torch")
def test_memory_in_a_model_of_ones_own_is_quantized(reloaded):
    inputs = keras.Input((None, 6))
    outputs = memlm.memory.KeyValue(window=3)(inputs)
    model = keras.Model(inputs, keras.layers.Dense(4)(outputs))
    steps = np.ones((2, 7, 6), "float32")
    before = array(model(steps))
    model.quantize("int8")
    quantized = array(model(steps))
    assert 0 < np.abs(quantized - before).max() < 0.1
    close(reloaded(model)(steps), quantized)
    memory = next(one for one in model.layers if "key_value" in one.name)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = memory.nothing


@pytest.mark.backend("tensorflow")
def test_quantized_models_are_served(tmp_path):
    import tensorflow as tf

    vocabulary = memlm.data.Vocabulary([f"word_{i}" for i in range(V - 2)])
    model = make(vocabulary=vocabulary)
    model.quantize("int8", verbose=False)
    memlm.serving.export(model, tmp_path / "1")
    served = tf.saved_model.load(str(tmp_path / "1")).signatures
    text = "word_3 word_9 word_9"
    found = served["score"](text=tf.constant([text]))["log_probabilities"]
    close(found[0], model.score(text))

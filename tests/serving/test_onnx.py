"""ONNX files: one streamed step, equal to `step` in onnxruntime."""

import collections
import importlib.util
import json

import keras
import numpy as np
import pytest
from preset_families import families
from preset_families import small

import memlm_keras as memlm
from memlm_keras.models.copies import in_float32
from memlm_keras.serving import export

onnx = pytest.importorskip("onnx")
pytest.importorskip("tf2onnx")
onnxruntime = pytest.importorskip("onnxruntime")

on_tensorflow = pytest.mark.skipif(
    keras.backend.backend() != "tensorflow",
    reason="what the graph holds does not depend on the backend",
)
ROWS = 3


def array(tensor):
    return keras.ops.convert_to_numpy(tensor)


def session(path):
    return onnxruntime.InferenceSession(
        str(path), providers=["CPUExecutionProvider"]
    )


def metadata(engine):
    properties = engine.get_modelmeta().custom_metadata_map
    return {name: json.loads(value) for name, value in properties.items()}


def difference(lm, path, steps=100):
    """Largest difference from `step` over some steps, of the whole answer."""
    engine = session(path)
    token_ids, *state = engine.get_inputs()
    assert (token_ids.name, token_ids.type) == ("token_ids", "tensor(int64)")
    outputs = [output.name for output in engine.get_outputs()]
    said = metadata(engine)["initial_state"]
    carried = {
        one.name: np.zeros((ROWS, *one.shape[1:]), types[one.type])
        + np.asarray(said.get(one.name, 0), types[one.type])
        for one in state
    }
    own = lm.initial_state(ROWS)
    random = np.random.default_rng(3)
    worst = 0.0
    for _ in range(steps):
        ids = random.integers(lm.vocabulary_size, size=(ROWS, 1))
        logits, own = lm.step(ids, own)
        expected = array(keras.ops.log_softmax(logits[:, -1]))
        answer = dict(
            zip(outputs, engine.run(None, {"token_ids": ids, **carried}))
        )
        found = answer.pop("log_probabilities")
        assert found.shape == expected.shape
        carried = {
            name.removeprefix("next_"): value for name, value in answer.items()
        }
        worst = max(worst, np.max(np.abs(found - expected)))
    for name, value in carried.items():
        np.testing.assert_allclose(value, array(own[name]), atol=1e-5)
    return worst


types = {"tensor(float)": "float32", "tensor(int32)": "int32"}


def operators(path):
    """How often each operator stands in a file."""
    nodes = onnx.load(path).graph.node
    return collections.Counter(node.op_type for node in nodes)


@pytest.fixture(scope="module")
def streamed(model, tmp_path_factory):
    path = tmp_path_factory.mktemp("onnx") / "model.onnx"
    export(model, path, format="onnx")
    return path


def test_it_is_equal_over_a_hundred_steps(model, streamed):
    assert difference(model, streamed) < 1e-5


def test_it_has_native_operators_and_no_loop(streamed):
    found = operators(streamed)
    assert found["LSTM"] == 2
    assert not found["Loop"] + found["Scan"] + found["If"]
    assert onnx.load(streamed).opset_import[0].version == 17


def test_it_knows_its_words(streamed, vocabulary):
    said = metadata(session(streamed))
    assert said == {
        "vocabulary_size": len(vocabulary),
        "initial_state": {},
        "tokens": list(vocabulary.tokens),
        "end_of_sentence_id": 0,
        "unknown_id": 1,
    }


def test_what_is_there_is_kept(model, streamed, tmp_path):
    before = streamed.read_bytes()
    with pytest.raises(FileExistsError, match="`overwrite=True` to replace"):
        export(model, streamed, format="onnx")
    with pytest.raises(ValueError, match=r"end with .onnx.*Try: .*model.onnx"):
        export(model, tmp_path / "model", format="onnx")
    assert streamed.read_bytes() == before
    assert not list(tmp_path.iterdir())


def test_a_missing_package_is_named(model, tmp_path, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ImportError, match=r"pip install memlm_keras\[onnx\]"):
        export(model, tmp_path / "model.onnx", format="onnx")


def test_what_is_not_written_in_float32_is_refused(vocabulary, tmp_path):
    lm = memlm.LanguageModel(len(vocabulary), 4, [keras.layers.LSTM(4)])
    lm.quantize("int8")
    with pytest.raises(ValueError, match="must not be quantized.*head"):
        export(lm, tmp_path / "model.onnx", format="onnx")
    with pytest.raises(ValueError, match="`model` must be .* Received: Dense"):
        export(keras.layers.Dense(1), tmp_path / "model.onnx", format="onnx")
    assert not list(tmp_path.iterdir())


@keras.saving.register_keras_serializable(package="tests.serving")
class CellThatBegins(keras.layers.SimpleRNNCell):
    """A cell whose state does not begin with zeros."""

    def get_initial_state(self, batch_size=None):
        start = keras.ops.arange(self.units, dtype="float32") / self.units
        return [keras.ops.tile(start[None], (batch_size, 1))]


def ensemble():
    layers = keras.layers.LSTM(6), keras.layers.GRU(5)
    models = [memlm.LanguageModel(11, 4, [layer]) for layer in layers]
    return memlm.Ensemble(models)


def language_model(*recurrent, **arguments):
    return memlm.LanguageModel(11, 4, recurrent, **arguments)


MODELS = {
    "ensemble": (ensemble, {"LSTM": 1, "GRU": 1}),
    "cells": (
        lambda: language_model(
            keras.layers.RNN(keras.layers.GRUCell(6, reset_after=False)),
            keras.layers.LSTMCell(6, use_bias=False),
        ),
        {"LSTM": 1, "GRU": 1},
    ),
    "other_activations": (
        lambda: language_model(keras.layers.LSTM(6, activation="relu")),
        {},
    ),
    "nothing_remembered": (
        lambda: language_model(
            keras.layers.GRU(6, use_bias=False),
            mixture=memlm.mixtures.PointerSentinel(window=1),
        ),
        {"GRU": 1},
    ),
    "begun": (lambda: language_model(CellThatBegins(6)), {}),
    "in_bfloat16": (
        lambda: language_model(
            keras.layers.LSTM(6, dtype="mixed_bfloat16"),
            memory=memlm.memory.KeyValue(window=3),
            dtype="mixed_float16",
        ),
        {"LSTM": 1},
    ),
}


@on_tensorflow
@pytest.mark.parametrize("name", MODELS)
def test_other_models(name, tmp_path):
    make, expected = MODELS[name]
    lm = make()
    for weight in lm.trainable_weights:
        weight.assign(keras.random.uniform(weight.shape, -0.7, 0.7))
    export(lm, tmp_path / "model.onnx", format="onnx")
    if name == "in_bfloat16":
        lm = in_float32(lm)
    assert difference(lm, tmp_path / "model.onnx", 20) < 1e-5
    found = operators(tmp_path / "model.onnx")
    assert expected.items() <= found.items()
    assert found["LSTM"] + found["GRU"] == sum(expected.values())
    assert not found["Loop"]


@on_tensorflow
@pytest.mark.parametrize("name", families())
def test_every_family(name, tmp_path):
    lm = small(name)
    path = tmp_path / "model.onnx"
    if not lm.causal:
        with pytest.raises(ValueError, match="needs a causal model"):
            export(lm, path, format="onnx")
        return
    export(lm, path, format="onnx")
    assert difference(lm, path, 30) < 1e-5
    assert not operators(path)["Loop"]

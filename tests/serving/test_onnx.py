"""Tests that an ONNX file of one step gives the results of `step` in
onnxruntime."""

import importlib.util
import json

import keras
import numpy as np
import pytest
from exported_models import MODELS
from exported_models import language_model
from onnx_runs import CellThatBegins
from onnx_runs import metadata
from onnx_runs import operators
from onnx_runs import require_close
from onnx_runs import require_equal
from onnx_runs import session
from told import python

import memlm_keras as memlm
from memlm_keras.models.variants import in_float32
from memlm_keras.serving import export

pytestmark = pytest.mark.backend

onnx = pytest.importorskip("onnx")
pytest.importorskip("tf2onnx")
pytest.importorskip("onnxruntime")

on_tensorflow = pytest.mark.backend("tensorflow")


@pytest.fixture(scope="module")
def streamed(model, tmp_path_factory):
    path = tmp_path_factory.mktemp("onnx") / "model.onnx"
    export(model, path, format="onnx")
    return path


def test_it_is_equal_by_native_operators(model, streamed):
    require_equal(model, streamed)
    found = operators(streamed)
    assert found["LSTM"] == 2
    assert not found["Loop"] + found["Scan"] + found["If"]
    assert onnx.load(streamed).opset_import[0].version == 17


@on_tensorflow
def test_no_rows_are_an_error(streamed, vocabulary):
    """Runs in its own process, since onnxruntime's LSTM may end the process."""
    code = f"""
import numpy as np, onnxruntime
from memlm_keras import serving
exported = serving.load({str(streamed)!r})
state = exported.initial_state(0)
try:
    exported.run(np.zeros((0, 1), "int64"), state)
except Exception as error:
    print("ended", type(error).__module__.split(".")[0])
for ids in (np.zeros((0, 1)), np.zeros((1, 0)), [[{len(vocabulary)}]], [[-1]]):
    try:
        exported.step(np.asarray(ids, "int64"), state)
    except ValueError as error:
        print(error)
"""
    first, *others = python("-c", code).out.splitlines()
    assert first == "ended onnxruntime"
    assert [line.rpartition(". Received: ")[2] for line in others] == [
        "shape (0, 1)",
        "shape (1, 0)",
        str(len(vocabulary)),
        "-1",
    ]


def test_it_knows_its_words(streamed, vocabulary):
    properties = metadata(session(streamed))
    assert {name: json.loads(text) for name, text in properties.items()} == {
        "vocabulary_size": len(vocabulary),
        "initial_state": {},
        "tokens": list(vocabulary.tokens),
        "end_of_sentence_id": 0,
        "unknown_id": 1,
    }
    # The metadata has no JSON escapes, which some engines would print.
    assert '"café"' in properties["tokens"]


def test_a_missing_package_is_named(model, tmp_path, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ImportError, match="pip install onnx tf2onnx"):
        export(model, tmp_path / "model.onnx", format="onnx")


def test_models_that_are_not_in_float32_are_refused(vocabulary, tmp_path):
    lm = memlm.LanguageModel(len(vocabulary), 4, [keras.layers.LSTM(4)])
    lm.quantize("int8")
    with pytest.raises(ValueError, match="not be quantized.*layer embedding"):
        export(lm, tmp_path / "model.onnx", format="onnx")
    assert not list(tmp_path.iterdir())


# For each model, the numbers of native recurrent operators in its file.
OPERATORS = {
    "ensemble": {"LSTM": 1, "GRU": 1},
    "induction": {"GRU": 1},
    "delta_rule": {"GRU": 1},
    "holographic": {"GRU": 1},
    "in_bfloat16": {"LSTM": 1},
    "cells": {"LSTM": 1, "GRU": 1},
    "other_activations": {},
    "nothing_remembered": {"GRU": 1},
    "begun": {},
}
OTHERS = {
    **MODELS,
    "cells": lambda: language_model(
        keras.layers.RNN(keras.layers.GRUCell(6, reset_after=False)),
        keras.layers.LSTMCell(6, use_bias=False),
    ),
    "other_activations": lambda: language_model(
        keras.layers.LSTM(6, activation="relu")
    ),
    "nothing_remembered": lambda: language_model(
        keras.layers.GRU(6, use_bias=False),
        mixture=memlm.mixtures.PointerSentinel(window=1),
    ),
    "begun": lambda: language_model(CellThatBegins(6)),
}


class DigammaCell(keras.layers.SimpleRNNCell):
    """A cell with a function for which ONNX has no operator."""

    def call(self, inputs, states, training=False):
        import tensorflow as tf

        outputs, states = super().call(inputs, states, training)
        return tf.math.digamma(outputs + 2.0), states


@on_tensorflow
def test_an_operator_that_onnx_lacks_is_named(tmp_path):
    lm = language_model(DigammaCell(6))
    with pytest.raises(ValueError, match="cannot be written in ONNX.*Digamma"):
        export(lm, tmp_path / "model.onnx", format="onnx")
    assert not list(tmp_path.iterdir())


@on_tensorflow
@pytest.mark.parametrize("name", OPERATORS)
def test_other_models(name, tmp_path):
    lm, expected = OTHERS[name](), OPERATORS[name]
    for weight in lm.trainable_weights:
        weight.assign(keras.random.uniform(weight.shape, -0.7, 0.7))
    export(lm, tmp_path / "model.onnx", format="onnx")
    if name == "in_bfloat16":
        lm = in_float32(lm)
    require_equal(lm, tmp_path / "model.onnx", 20)
    found = operators(tmp_path / "model.onnx")
    assert expected.items() <= found.items()
    assert found["LSTM"] + found["GRU"] == sum(expected.values())
    assert not found["Loop"]


def test_exports_by_keras_are_right_or_refused(tmp_path):
    lm = language_model(keras.layers.LSTM(6), memory=memlm.memory.NGram(2))
    ids = np.array([[0, 3, 9, 10], [5, 5, 1, 2]], "int32")
    expected = keras.ops.convert_to_numpy(lm(ids))
    path = tmp_path / "model.onnx"
    if keras.backend.backend() != "tensorflow":
        formats = {"torch": ("onnx", "tf_saved_model")}
        for each in formats.get(keras.backend.backend(), ("onnx",)):
            with pytest.raises(ValueError, match="`memlm_keras.serving.export"):
                lm.export(path, format=each)
            assert not path.exists()
        return
    lm.export(path, format="onnx", verbose=False)
    engine = session(path)
    (name,) = (value.name for value in engine.get_inputs())
    for rows, steps in ((2, 4), (1, 3), (2, 1)):
        (found,) = engine.run(None, {name: ids[:rows, :steps]})
        require_close(found, expected[:rows, :steps])

"""Runs ONNX files as engines do, for comparison with `step`."""

import collections

import keras
import numpy as np
from language_models import array
from serving.engine_client import OnnxRuntime

ROWS = 3


@keras.saving.register_keras_serializable(package="tests")
class CellThatBegins(keras.layers.SimpleRNNCell):
    """A cell with an initial state that is not zero."""

    def get_initial_state(self, batch_size=None):
        start = keras.ops.arange(self.units, dtype="float32") / self.units
        return [keras.ops.tile(start[None], (batch_size, 1))]


def session(path):
    import onnxruntime

    return onnxruntime.InferenceSession(
        str(path), providers=["CPUExecutionProvider"]
    )


def metadata(engine):
    return engine.get_modelmeta().custom_metadata_map


def some_ids(lm, steps):
    """Draws ids `(steps, ROWS, 1)`; each row begins with an end of a
    sentence."""
    random = np.random.default_rng(3)
    ids = random.integers(lm.vocabulary_size, size=(steps, ROWS, 1))
    ids[0] = 0
    return ids


def by_step(lm, ids):
    """Computes log-probabilities `(steps, ROWS, V)` and the last state by
    `step`."""
    state, found = lm.initial_state(ROWS), []
    for column in ids:
        logits, state = lm.step(column, state)
        found.append(array(keras.ops.log_softmax(logits[:, -1])))
    return np.array(found), {name: array(v) for name, v in state.items()}


def by_name(path, ids):
    """Computes the results of `by_step` from a file whose states have names."""
    engine = OnnxRuntime(str(path), ROWS)
    found = [engine.step(column) for column in ids]
    return np.array(found), engine.state


def by_sherpa(path, ids):
    """Computes the results of `by_step` as sherpa-onnx does: inputs by
    position, states that begin with zeros."""
    engine = session(path)
    properties = metadata(engine)
    size = (int(properties["num_layers"]), ROWS, int(properties["hidden_size"]))
    x, h, c = (value.name for value in engine.get_inputs())
    states, found = [np.zeros(size, "float32")] * 2, []
    for column in [np.full((ROWS, 1), int(properties["sos_id"])), *ids[1:]]:
        inputs = dict(zip((x, h, c), (column, *states)))
        scores, *states = engine.run(None, inputs)
        found.append(scores[:, 0])
    return np.array(found)


def require_close(found, expected):
    assert found.shape == expected.shape
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5)


def require_equal(lm, path, steps=100):
    ids = some_ids(lm, steps)
    expected, last = by_step(lm, ids)
    found, carried = by_name(path, ids)
    require_close(found, expected)
    for name, value in carried.items():
        require_close(value, last[name])


def operators(path):
    """Counts the operators in an ONNX file."""
    import onnx

    nodes = onnx.load(path).graph.node
    return collections.Counter(node.op_type for node in nodes)

"""Compares the hand-written backward pass of associative cells with gradients
of the cells' steps."""

import keras
import numpy as np
import pytest
from keras import ops
from layers import assert_close
from layers import layer_of
from layers import uniform

from memlm_keras.cells import AssociativeGRUCell
from memlm_keras.cells import DualAssociativeGRUCell
from memlm_keras.cells import associative_backward

pytestmark = pytest.mark.backend


def made(source_key, **arguments):
    arguments["kernel_initializer"] = uniform()
    if source_key is None:
        cell = AssociativeGRUCell(6, num_copies=3, **arguments)
    else:
        cell = DualAssociativeGRUCell(
            6, num_copies=3, source_key=source_key, **arguments
        )
    layer = layer_of(cell)
    layer.build((None, None, 4))
    return layer


@pytest.fixture
def runs(monkeypatch):
    """Records the arguments of all calls of `associative_backward.run`."""
    run, calls = associative_backward.run, []

    def recorded(*arguments):
        calls.append(arguments)
        return run(*arguments)

    monkeypatch.setattr(associative_backward, "run", recorded)
    return calls


def outputs_and_gradients(layer, time, mask, training, gradients):
    random = np.random.default_rng(1)
    variables = layer.trainable_variables
    states = [
        random.uniform(-1, 1, (3, size)).astype("float32")
        for size in layer.cell.state_size
    ]
    inputs = random.normal(size=(3, time, 4)).astype("float32")
    direction = random.normal(size=(3, time, 6)).astype("float32")
    count = len(states)

    def run(tensors):
        mapping = list(zip(variables, tensors[1 + count :]))
        with keras.StatelessScope(state_mapping=mapping):
            return layer(
                tensors[0],
                initial_state=tensors[1 : 1 + count],
                mask=mask,
                training=training,
            )

    def loss(tensors):
        outputs, *last = run(tensors)
        terms = [ops.sum(ops.multiply(outputs, direction))]
        terms += [(i + 1) * ops.sum(state**2) for i, state in enumerate(last)]
        return sum(terms)

    tensors = [inputs, *states, *map(ops.convert_to_numpy, variables)]
    found = [ops.convert_to_numpy(part) for part in run(tensors)]
    return found, gradients(loss, tensors)


MASKS = {
    "none": None,
    "lengths": np.arange(5) < np.array([[5], [2], [1]]),
    "begins_late": np.array(
        [[0, 0, 1, 1, 1], [0, 1, 0, 1, 0], [0, 0, 0, 0, 0]], "bool"
    ),
}


@pytest.mark.backend(one_in=5)
@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize(
    "source_key, key",
    [
        (None, "bound"),
        ("shared", "bound"),
        ("separate", "bound"),
        ("separate", "unit"),
    ],
)
def test_outputs_states_and_gradients(source_key, key, mask, gradients, runs):
    mask = MASKS[mask]
    layer = made(source_key, key=key)
    expected = outputs_and_gradients(layer, 5, mask, False, gradients)
    assert not runs
    found = outputs_and_gradients(layer, 5, mask, True, gradients)
    assert runs
    assert_close(found[0], expected[0])
    assert_close(found[1], expected[1], rtol=1e-3, atol=1e-4)


def test_bfloat16_differentiates_its_steps(runs):
    layer = made(None, dtype="mixed_bfloat16")
    layer(np.ones((2, 3, 4), "float32"), training=True)
    assert not runs


def test_equations_of_a_subclass_are_differentiated():
    class Doubled(AssociativeGRUCell):
        def step(self, projected, states):
            output, states = super().step(projected, states)
            return 2 * output, states

    assert AssociativeGRUCell(4).has_own_gradient
    assert DualAssociativeGRUCell(4).has_own_gradient
    assert not Doubled(4).has_own_gradient

"""Tests the LSTM that attends to its own states and to states of a source."""

import keras
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from layers import arrays
from layers import assert_close

from memlm_keras import EntailmentClassifier
from memlm_keras.cells import LSTMNetworkCell
from memlm_keras.cells import ProjectedRNN
from references.cheng2016 import lstm_network
from references.finite_differences import assert_derivatives

pytestmark = pytest.mark.backend


def make(units=3, window=4, fusion=False, input_dim=2):
    cell = LSTMNetworkCell(units, window, fusion)
    cell.build((None, input_dim))
    random = np.random.default_rng(3)
    for weight in cell.trainable_variables:
        weight.assign(random.uniform(-1, 1, weight.shape))
    return cell


def by_name(cell, values=None):
    """Returns a dict of the weights by the paper's symbols, as matrices that
    multiply from the left."""
    if values is None:
        values = [arrays(w).astype("float64") for w in cell.trainable_variables]
    named = {
        weight.path.rpartition("/")[2]: value
        for weight, value in zip(cell.trainable_variables, values)
    }
    h = cell.units
    columns = np.split(named["kernel"], range(4 * h, 7 * h, h), axis=1)
    found = {
        "W": np.concatenate([columns[0], named["recurrent_kernel"]]).T,
        "W_x": columns[1].T,
        "b": named["bias"],
        "W_h": named["key_kernel"].T,
        "W_h~": named["read_kernel"].T,
        "v": named["score_kernel"][:, 0],
    }
    if cell.fusion:
        found |= {
            "W_g": named["source_key_kernel"].T,
            "W_y": columns[2].T,
            "W_g~": named["source_read_kernel"].T,
            "u": named["source_score_kernel"][:, 0],
            "W_r": np.concatenate([columns[3], named["source_gate_kernel"]]).T,
        }
    return found


def states_with(cell, source, batch_size=1):
    """Returns initial states whose tape begins with the source's states."""
    states = [arrays(state) for state in cell.get_initial_state(batch_size)]
    h = cell.units
    tape = np.zeros((cell.window, 3 * h), "float32")
    for slot, (gamma, alpha) in enumerate(source):
        tape[slot, h : 2 * h], tape[slot, 2 * h :] = gamma, alpha
    states[-1] = np.tile(tape.reshape(1, -1), (batch_size, 1))
    states[-2] = np.zeros_like(states[-2])
    states[-2][:, : len(source)] = 1
    return states


@given(
    time=st.integers(1, 7),
    units=st.integers(1, 4),
    window=st.integers(1, 5),
    source=st.one_of(st.none(), st.integers(0, 5)),
    seed=st.integers(0, 2**16),
    unroll=st.booleans(),
)
def test_outputs_equal_the_reference(time, units, window, source, seed, unroll):
    fusion = source is not None
    cell = make(units, window, fusion)
    random = np.random.default_rng(seed)
    inputs = random.normal(size=(2, time, 2)).astype("float32")
    pairs = [
        random.normal(size=(2, units)) for _ in range(min(source or 0, window))
    ]
    start = cell.get_initial_state(2)
    if fusion:
        start = states_with(cell, pairs, 2)
    layer = ProjectedRNN(cell, return_sequences=True, unroll=unroll)
    found = arrays(layer(inputs, initial_state=start))
    for row in range(2):
        expected = lstm_network(
            inputs[row].astype("float64"), by_name(cell), window, pairs
        )
        assert_close(found[row], np.array([h for h, _ in expected]))


@pytest.mark.parametrize("fusion", [False, True])
def test_gradients(fusion, gradients):
    cell = make(2, 2, fusion)
    random = np.random.default_rng(1)
    inputs = random.normal(size=(1, 4, 2)).astype("float32")
    pairs = [random.normal(size=(2, 2)) for _ in range(2)] if fusion else []
    start = states_with(cell, pairs) if fusion else cell.get_initial_state(1)
    projection = random.normal(size=(4, 2)).astype("float32")
    layer = ProjectedRNN(cell, return_sequences=True)
    layer(inputs, initial_state=start)
    weights = [arrays(weight) for weight in cell.trainable_variables]

    def loss(tensors):
        mapping = list(zip(cell.trainable_variables, tensors))
        with keras.StatelessScope(state_mapping=mapping):
            outputs = layer(inputs, initial_state=start)
        return keras.ops.sum(outputs[0] * keras.ops.array(projection))

    def reference_loss(values):
        found = lstm_network(
            inputs[0].astype("float64"), by_name(cell, values), 2, pairs
        )
        return np.sum(np.stack([h for h, _ in found]) * projection)

    assert_derivatives(gradients, loss, reference_loss, weights)


def test_conditioning_of_a_classifier():
    with pytest.raises(ValueError, match='conditioning="memory" does not w'):
        EntailmentClassifier(9, 4, LSTMNetworkCell(4))

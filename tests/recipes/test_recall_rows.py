"""Tests the rows of the recall suite."""

import dataclasses

import keras
import numpy as np
import pytest
from language_models import array

import recall_rows
import recall_runs
from memlm_keras.data.recall import MQAR

TASK = MQAR(16, length=12, pairs=2)


def test_previous_inputs_stand_beside_inputs(random):
    inputs = random.normal(size=(2, 5, 3)).astype("float32")
    cell = recall_runs.PreviousInputCell(3)
    layer = keras.layers.RNN(cell, return_sequences=True, return_state=True)
    before = np.concatenate([np.zeros((2, 1, 3)), inputs[:, :-1]], axis=1)
    expected = np.concatenate([inputs, before], axis=-1)
    outputs, state = layer(inputs)
    np.testing.assert_array_equal(array(outputs), expected)
    np.testing.assert_array_equal(array(state), inputs[:, -1])
    # A layer continues from its last state.
    _, state = layer(inputs[:, :2])
    outputs, _ = layer(inputs[:, 2:], initial_state=state)
    np.testing.assert_array_equal(array(outputs), expected[:, 2:])
    again = keras.layers.RNN.from_config(layer.get_config())
    assert again.cell.output_size == 6


@pytest.mark.parametrize("window", [None, 3])
def test_windows_are_the_papers_or_as_long_as_rows(window):
    row = dataclasses.replace(recall_rows.ROWS["attention"], window=window)
    setting = recall_rows.RecallSetting()
    model = recall_runs.make_model(row, setting, TASK, units=8)
    assert model.memory.window == (window or 12)


@pytest.mark.parametrize("name", recall_rows.ROWS)
def test_bytes_of_state_are_all_that_a_step_keeps(name):
    row, setting = recall_rows.ROWS[name], recall_rows.RecallSetting()
    model = recall_runs.make_model(row, setting, TASK, units=8, shift=True)
    state = model.initial_state(1)
    for token_id in range(3):
        _, state = model.step(np.array([[token_id]], "int32"), state)
    kept = sum(array(value).nbytes for value in state.values())
    assert recall_runs.state_bytes(model) == kept


def test_settings_of_zoology_are_the_papers():
    found = {
        (s.length, s.pairs, s.batch_size)
        for name, s in recall_rows.SETTINGS.items()
        if name.startswith("zoology") and s.zoology and not s.training
    }
    assert found == {(64, 4, 512), (128, 8, 512), (256, 16, 256)}
    mix = recall_rows.SETTINGS["zoology_mix"]
    assert mix.rows == sum(rows for _, _, rows in mix.training) == 180_000
    assert [pairs for pairs, _, _ in mix.test] == [4 * 2**i for i in range(7)]
    assert mix.test[-1] == (256, 1024, 1000) and mix.zoology
    np.testing.assert_allclose(mix.rates, np.logspace(-3, -1.5, 4), rtol=0.02)
    setting = recall_rows.SETTINGS["zoology_64"]
    assert setting.rows == 100_000 and setting.epochs == 64
    row = recall_rows.ROWS["key_value"]
    model = recall_runs.make_model(row, setting, TASK, units=8)
    assert model.tie_embeddings
    assert [layer.units for layer in model.recurrent] == [8, 16]
    assert 0.01 < np.std(array(model.embedding.embeddings)) < 0.03
    optimizer = recall_runs.make_optimizer(setting, 0.01, steps=100)
    assert optimizer.weight_decay == 0.1
    rates = [float(optimizer._learning_rate(s)) for s in (0, 50, 100)]
    np.testing.assert_allclose(rates, [0.01, 0.005, 0], atol=1e-8)

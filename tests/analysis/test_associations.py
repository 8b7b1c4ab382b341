"""Tests the writes and reads of an associative memory step by step."""

import csv

import keras
import numpy as np
import pytest
from language_models import array
from written_files import is_png

from memlm_keras import EntailmentClassifier
from memlm_keras import LanguageModel
from memlm_keras import SequenceAutoencoder
from memlm_keras import analysis
from memlm_keras.cells import AssociativeGRUCell
from memlm_keras.cells import AssociativeMemoryCell
from memlm_keras.cells import DualAssociativeGRUCell
from references import weissenborn2016 as reference
from references.delta_rule import complex_of
from references.delta_rule import reals

V, H = 11, 6
SOURCE, TARGET = [5, 7, 2, 9], [7, 2, 3]


def classifier(cell, conditioning):
    return EntailmentClassifier(V, 4, cell, conditioning=conditioning)


MODELS = {
    "dual": lambda: classifier(DualAssociativeGRUCell(H), "source"),
    "memory": lambda: classifier(
        AssociativeMemoryCell(keras.layers.LSTMCell(H)), "memory"
    ),
    "dual_own": lambda: classifier(DualAssociativeGRUCell(H), "memory"),
    "alone": lambda: classifier(AssociativeGRUCell(H), None),
    "autoencoder": lambda: SequenceAutoencoder(
        V, 4, AssociativeGRUCell(H), DualAssociativeGRUCell(H)
    ),
}


def read_by_hand(cell, key, memory):
    copies = memory.reshape(cell.num_copies, -1)
    copies = [*map(complex_of, copies)]
    return reals(reference.read(key, copies, array(cell.permutations)))


def key_by_hand(model, cell, token, output):
    x = array(model.vectors(np.array([[token]])))[0, 0]
    kernel, recurrent = array(cell.kernel), array(cell.recurrent_kernel)
    key = (x @ kernel + output @ recurrent)[: cell.memory_units]
    return reference.normalize(complex_of(key), "bound")


def states_after(model, reader, tokens, start):
    """Returns the states before the first step and after each step of a
    layer."""
    vectors = model.vectors(np.array([tokens]))
    states = [start]
    for step in range(len(tokens)):
        x = vectors[:, step : step + 1]
        _, *new = reader(x, initial_state=list(states[-1]))
        states.append(new)
    return [[array(state)[0] for state in s] for s in states]


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("written", ["written", "state"])
def test_steps_are_those_of_the_layers(name, written):
    model = MODELS[name]()
    for index, weight in enumerate(model.trainable_variables):
        random = np.random.default_rng(index)
        weight.assign(random.uniform(-0.7, 0.7, weight.shape))
    found = analysis.associations(model, SOURCE, TARGET, written)
    first, second = model.readers
    states = states_after(model, first, SOURCE, first.get_initial_state(1))
    cell = first.cell
    for step, token in enumerate(SOURCE):
        before, after = states[step], states[step + 1]
        key = key_by_hand(model, cell, token, before[0])
        expected = reals(key)
        np.testing.assert_allclose(found.keys[step], expected, atol=1e-5)
        stored = found.written[step]
        if written == "state":
            own = read_by_hand(cell, key, before[1])
            stored = stored - own
        # Compare with the change of the first copy, whose keys are not
        # permuted.
        change = complex_of((after[1] - before[1])[:H])
        stored = key * complex_of(stored)
        np.testing.assert_allclose(stored, change, atol=1e-4)
    start = [keras.ops.convert_to_tensor(state[None]) for state in states[-1]]
    start = model.states_for_target(start)
    memory = array(start[-1])[0]
    states = states_after(model, second, TARGET, start)
    for step, token in enumerate(TARGET):
        key = key_by_hand(model, second.cell, token, states[step][0])
        of = memory if model.conditioning == "source" else states[step][1]
        np.testing.assert_allclose(
            found.read[step], read_by_hand(second.cell, key, of), atol=1e-4
        )
    norms = [np.linalg.norm(x, axis=1) for x in (found.read, found.written)]
    cosines = found.read @ found.written.T / np.maximum(np.outer(*norms), 1e-9)
    np.testing.assert_allclose(found.similarity, cosines, atol=1e-4)


def test_pictures_and_numbers(tmp_path):
    similarity = np.array([[0.5, -1.0, 0.25], [0.0, 1.0, 0.125]])
    source, target = ["a", "$b", "c"], ["x", "y"]
    path = tmp_path / "a.png"
    analysis.plot_associations(similarity, source, target, path, title="pair")
    assert is_png(path)
    analysis.write_associations(similarity, source, target, tmp_path / "a.csv")
    with open(tmp_path / "a.csv", newline="") as file:
        rows = list(csv.reader(file))
    assert rows[0] == ["read at", "a", "$b", "c"]
    assert [row[0] for row in rows[1:]] == target
    found = np.array([row[1:] for row in rows[1:]], float)
    np.testing.assert_allclose(found, similarity)
    for write in (analysis.plot_associations, analysis.write_associations):
        with pytest.raises(ValueError, match=r"\(2, 3\).*shape \(3, 2\)"):
            write(similarity.T, source, target, tmp_path / "b")


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"written": "all"}, "`written` must be one of"),
        ({"source": []}, r"`source` must be of shape \(time,\)"),
        ({"target": [[1, 2]]}, r"`target` must be of shape \(time,\)"),
        ({"target": [0.5]}, "`target` must be integers"),
        ({"source": [3, 11]}, "`source` must be .*below the vocab"),
        (
            {"model": lambda: classifier(keras.layers.GRU(H), "memory")},
            "must read both sequences with an associative memory",
        ),
        (
            {"model": lambda: LanguageModel(V, 4, [keras.layers.GRU(H)])},
            "Received: LanguageModel",
        ),
    ],
)
def test_wrong_arguments(arguments, message):
    make = arguments.get("model", MODELS["dual"])
    values = {"source": SOURCE, "target": TARGET, **arguments, "model": make()}
    with pytest.raises(ValueError, match=message):
        analysis.associations(**values)

"""What was written against what was read, step by step."""

import csv

import keras
import numpy as np
import pytest

from memlm_keras import EntailmentClassifier
from memlm_keras import LanguageModel
from memlm_keras import SequenceAutoencoder
from memlm_keras import analysis
from memlm_keras.cells import AssociativeGRUCell
from memlm_keras.cells import AssociativeMemoryCell
from memlm_keras.cells import DualAssociativeGRUCell

V, H = 11, 6
SOURCE, TARGET = [5, 7, 2, 9], [7, 2, 3]


def enlarged(model):
    for index, weight in enumerate(model.trainable_variables):
        random = np.random.default_rng(index)
        weight.assign(random.uniform(-0.7, 0.7, weight.shape))
    return model


def classifier(cell, conditioning):
    return enlarged(EntailmentClassifier(V, 4, cell, conditioning=conditioning))


def autoencoder():
    cells = AssociativeGRUCell(H), DualAssociativeGRUCell(H)
    return enlarged(SequenceAutoencoder(V, 4, *cells))


MODELS = {
    "dual": lambda: classifier(DualAssociativeGRUCell(H), "source"),
    "memory": lambda: classifier(
        AssociativeMemoryCell(keras.layers.LSTMCell(H)), "memory"
    ),
    "alone": lambda: classifier(AssociativeGRUCell(H), None),
    "autoencoder": autoencoder,
}


def states_after(model, reader, tokens, start):
    """States after each step, by the layer itself, and before the first."""
    vectors = model.vectors(np.array([tokens]))
    states = [start]
    for step in range(len(tokens)):
        _, *new = reader(
            vectors[:, step : step + 1], initial_state=list(states[-1])
        )
        states.append(new)
    return [
        [keras.ops.convert_to_numpy(state)[0] for state in s] for s in states
    ]


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("written", ["written", "state"])
def test_steps_are_those_of_the_layers(name, written):
    model = MODELS[name]()
    found = analysis.associations(model, SOURCE, TARGET, written)
    assert found.written.shape == (4, H) and found.read.shape == (3, H)
    first, second = model.readers
    states = states_after(model, first, SOURCE, first.get_initial_state(1))
    copies = first.cell.num_copies
    for step in range(4):
        change = states[step + 1][1] - states[step][1]
        # The first copy of the keys is not permuted: |r (x) x| = |r| |x|.
        change = change.reshape(copies, H)[0]
        stored = found.written[step]
        if written == "written":
            modulus = np.hypot(*np.split(change, 2))
            bound = np.hypot(*np.split(stored, 2))
            assert (modulus <= bound + 1e-5).all()
            assert modulus.max() > 1e-3
        elif name != "memory":
            # The state of a GRU is its output.
            np.testing.assert_allclose(
                stored, states[step + 1][0], rtol=1e-4, atol=1e-5
            )
    norms = np.linalg.norm(found.read, axis=1)[:, None] * np.linalg.norm(
        found.written, axis=1
    )
    expected = (found.read @ found.written.T) / np.maximum(norms, 1e-12)
    np.testing.assert_allclose(found.similarity, expected, atol=1e-5)
    assert (np.abs(found.similarity) <= 1 + 1e-5).all()


def test_the_target_reads_the_source():
    """Nothing can be read of a source that wrote nothing."""
    model = MODELS["dual"]()
    with_source = analysis.associations(model, SOURCE, TARGET).read
    other = analysis.associations(model, SOURCE[::-1], TARGET).read
    assert np.abs(with_source - other).max() > 1e-3
    alone = MODELS["alone"]()
    read = analysis.associations(alone, SOURCE, TARGET).read
    assert not read[0].any()


def test_pictures_and_numbers(tmp_path):
    similarity = np.array([[0.5, -1.0, 0.25], [0.0, 1.0, 0.125]])
    source, target = ["a", "$b", "c"], ["x", "y"]
    analysis.plot_associations(
        similarity, source, target, tmp_path / "a.png", title="pair"
    )
    assert (tmp_path / "a.png").read_bytes()[:4] == b"\x89PNG"
    analysis.write_associations(similarity, source, target, tmp_path / "a.csv")
    with open(tmp_path / "a.csv", newline="") as file:
        rows = list(csv.reader(file))
    assert rows[0] == ["read at", "a", "$b", "c"]
    assert [row[0] for row in rows[1:]] == target
    np.testing.assert_allclose(
        np.array([row[1:] for row in rows[1:]], float), similarity
    )
    with pytest.raises(ValueError, match=r"\(2, 3\).*shape \(3, 2\)"):
        analysis.plot_associations(
            similarity.T, source, target, tmp_path / "b.png"
        )


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"written": "all"}, "`written` must be one of"),
        ({"source": []}, "`source` must be a 1-D array"),
        ({"target": [[1, 2]]}, "`target` must be a 1-D array"),
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

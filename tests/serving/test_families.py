"""Makes the documentation's table of exports: each kind of preset in each
format."""

import pathlib
import types

import keras
import numpy as np
import onnx_runs
import pytest
from litert_runs import Session
from litert_runs import require_names
from preset_families import V
from preset_families import families
from preset_families import inputs_of
from preset_families import small

import memlm_keras as memlm
from memlm_keras.serving import export
from memlm_keras.serving import load
from memlm_keras.serving.export import require_zero_state

pytestmark = [pytest.mark.backend("tensorflow"), pytest.mark.slow]

for package in ("onnx", "tf2onnx", "onnxruntime", "ai_edge_litert"):
    pytest.importorskip(package)

tf = pytest.importorskip("tensorflow")

PAGE = pathlib.Path(__file__).parents[2] / "docs" / "how_to" / "formats.md"
# Number of steps, more than the size of any window.
STEPS = 20
LABELS = ("entailment", "neutral", "contradiction")


@pytest.fixture(scope="module")
def table():
    """Collects the table's cells by row and format."""
    return {}


@pytest.fixture(autouse=True)
def few_signatures(only_signatures):
    """Exports only some signatures; the others use the same functions."""
    names = "serving_default", "score_ids", "step", "initial_state"
    with only_signatures(*names):
        yield


@pytest.fixture(scope="module", params=families())
def family(request):
    """Makes a model and, if it is causal, ids with the results of `step`."""
    model = small(request.param)
    found = types.SimpleNamespace(name=request.param, model=model)
    if getattr(model, "causal", False):
        found.ids = onnx_runs.some_ids(model, STEPS).astype("int32")
        found.expected, found.state = onnx_runs.by_step(model, found.ids)
    return found


# === One function per format, which returns a cell of the table ===


def saved_model(family, folder):
    if isinstance(family.model, memlm.EntailmentClassifier):
        return classifier(family.model, folder)
    export(family.model, folder / "1", top_k=V, max_length=STEPS)
    served = load(folder / "1")
    state, read = served.initial_state(onnx_runs.ROWS), 0
    for steps in (1, 1, STEPS - 5, 3):
        ids = family.ids[read : read + steps, :, 0].T
        found, state = served.step(ids, state)
        read += steps
        onnx_runs.require_close(found[:, -1].data, family.expected[read - 1])
    assert read == STEPS and np.all(state.pop("fingerprint") > 0)
    require_state(state, family.state)
    ids = family.ids[..., 0].T
    expected = family.expected[:-1].swapaxes(0, 1)
    expected = np.take_along_axis(expected, ids[:, 1:, None], axis=2)
    onnx_runs.require_close(served.score(ids), expected[..., 0])
    return "works"


def require_state(found, expected):
    """Asserts that a state equals the model's state without empty tensors."""
    expected = {name: v for name, v in expected.items() if v.size}
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        onnx_runs.require_close(found[name], value)


def classifier(model, folder):
    export(model, folder / "1", labels=LABELS)
    served = tf.saved_model.load(folder / "1").signatures
    inputs, texts = inputs_of(model), {}
    for name in ("premise", "hypothesis"):
        rows = zip(inputs[name], inputs[f"{name}_length"])
        words = [model.vocabulary.decode(row[:length]) for row, length in rows]
        texts[name] = tf.constant([*map(" ".join, words)])
    found = served["serving_default"](**texts)["probabilities"].numpy()
    expected = onnx_runs.array(keras.ops.softmax(model(inputs)))
    onnx_runs.require_close(found, expected)
    assert np.ptp(expected) > 0.01
    return "works"


def onnx(family, folder):
    path = folder / "model.onnx"
    export(family.model, path, format="onnx")
    found, state = onnx_runs.by_name(path, family.ids.astype("int64"))
    onnx_runs.require_close(found, family.expected)
    require_state(state, family.state)
    # Packed states must begin with zeros; test_onnx_contracts.py tests results.
    require_zero_state(family.model, "sherpa")
    operators = onnx_runs.operators(path)
    assert not operators["Loop"] + operators["Scan"]
    layers = [name for name in ("LSTM", "GRU") if operators[name]]
    native = [f"{operators[name]} {name}" for name in layers]
    return ", ".join(["works", *native])


def litert(family, folder):
    session, found = by_litert(family, folder / "x.tflite")
    onnx_runs.require_close(found, family.expected)
    require_state(session.state, family.state)
    assert not session.constants(np.int8)
    return "works"


def litert_int8(family, folder):
    session, found = by_litert(family, folder / "x.tflite", "int8")
    assert session.constants(np.int8) > 1024
    targets = family.ids[1:]
    scores = [
        np.take_along_axis(one[:-1], targets, axis=2).mean()
        for one in (found, family.expected)
    ]
    # The perplexity changes by less than 1%.
    assert abs(scores[0] - scores[1]) < 0.01
    assert 0 < np.abs(found - family.expected).max() < 0.1
    return "works"


def by_litert(family, path, quantize=None):
    rows = onnx_runs.ROWS
    export(family.model, path, format="litert", rows=rows, quantize=quantize)
    session = Session(path)
    require_names(session)
    found = [session.step(ids)["log_probabilities"] for ids in family.ids]
    return session, np.array(found)


# For each format: the function of its cell, and the export's file and
# arguments.
FORMATS = {
    "SavedModel": (saved_model, "1", {}),
    "ONNX": (onnx, "x.onnx", {"format": "onnx"}),
    "LiteRT": (litert, "x.tflite", {"format": "litert"}),
    "LiteRT, int8": (
        *(litert_int8, "x.tflite"),
        {"format": "litert", "quantize": "int8"},
    ),
}


def refusal(model, format):
    """Returns the error of an export and the table's cell, or `None`."""
    if isinstance(model, memlm.LanguageModel):
        if not model.causal:
            return "needs a causal model", "no: reads whole sentences"
    elif not isinstance(model, memlm.EntailmentClassifier):
        return "`model` must be a `memlm_keras.Lang", "no: an autoencoder"
    elif format != "SavedModel":
        return "for a SavedModel, an `Entail", "no: reads two sentences"
    return None


@pytest.mark.parametrize("format", FORMATS)
def test_every_family(family, format, table, tmp_path):
    refused = refusal(family.model, format)
    run, name, arguments = FORMATS[format]
    if refused is None:
        cell = run(family, tmp_path)
    else:
        message, cell = refused
        with pytest.raises(ValueError, match=message):
            export(family.model, tmp_path / name, **arguments)
        assert not list(tmp_path.iterdir())
    table.setdefault(family.name, {})[format] = cell


def test_the_table_of_the_page_is_this(table):
    if any(table.get(name, {}).keys() != FORMATS.keys() for name in families()):
        pytest.skip("only some cells were made")
    lines = [f"| preset | {' | '.join(FORMATS)} |", "|---|" + "---|" * 4]
    for name, row in table.items():
        lines.append(f"| `{name}` | {' | '.join(row.values())} |")
    text = "\n".join(lines)
    assert text in PAGE.read_text(encoding="utf-8"), f"it should be:\n{text}"

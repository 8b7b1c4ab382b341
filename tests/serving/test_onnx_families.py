"""The table of what is exported: each kind of preset."""

import pathlib

import keras
import onnx_runs
import pytest
from preset_families import families
from preset_families import small

import memlm_keras as memlm
from memlm_keras.serving import export
from memlm_keras.serving.file_requirements import require_zero_state

pytest.importorskip("onnx")
pytest.importorskip("tf2onnx")
pytest.importorskip("onnxruntime")

if keras.backend.backend() != "tensorflow":
    pytest.skip(
        "what the graph holds does not depend on the backend",
        allow_module_level=True,
    )

PAGE = pathlib.Path(memlm.__file__).parents[1] / "docs" / "how_to" / "onnx.md"
STEPS = 12


def row(name, folder):
    """One row of the table, of a model that is exported and run."""
    lm = small(name)
    if not lm.causal:
        with pytest.raises(ValueError, match="needs a causal model"):
            export(lm, folder / "model.onnx", format="onnx")
        return ["refused: it reads whole sentences", "", ""]
    ids = onnx_runs.some_ids(lm, STEPS)
    expected, _ = onnx_runs.by_step(lm, ids)
    path = folder / "model.onnx"
    export(lm, path, format="onnx")
    found, _ = onnx_runs.by_name(path, ids)
    onnx_runs.require_close(found, expected)
    # All that packing asks for; what it computes is in test_onnx_contracts.py.
    require_zero_state(lm, "sherpa")
    operators = onnx_runs.operators(path)
    assert not operators["Loop"] + operators["Scan"]
    native = [
        f"{operators[name]} {name}"
        for name in ("LSTM", "GRU")
        if operators[name]
    ]
    return ["equal", ", ".join(native), "fits"]


@pytest.fixture(scope="module")
def table():
    """Rows by name, as far as tests have made them."""
    return {}


@pytest.mark.parametrize("name", families())
def test_every_family(name, table, tmp_path):
    table[name] = row(name, tmp_path)


def test_the_table_of_the_page_is_this(table):
    kinds = families()
    if table.keys() != kinds.keys():
        pytest.skip("only some rows were made")
    lines = [
        "| preset | others alike | ONNX | native operators | sherpa-onnx |",
        "|---|---|---|---|---|",
    ]
    for name, cells in table.items():
        cells = [f"`{name}`", str(len(kinds[name]) - 1), *cells]
        lines.append(f"| {' | '.join(cells)} |")
    text = "\n".join(lines)
    assert text in PAGE.read_text(encoding="utf-8"), f"it should be:\n{text}"

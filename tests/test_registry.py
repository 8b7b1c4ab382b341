import dataclasses
import json
import random
import sys
import warnings

import keras
import numpy as np
import pytest

import memlm_keras
from memlm_keras import presets
from memlm_keras import registry

pytestmark = pytest.mark.usefixtures("papers_kept")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Row(presets.Row):
    """A row of a paper that does not exist."""

    window: int = 4
    initial_range: float = 0.2
    where: str = "Table 7"

    def model(self):
        limit = self.initial_range
        draw = keras.initializers.RandomUniform(-limit, limit)
        return {
            "embedding_dim": self.embedding_size,
            "recurrent": [keras.layers.GRU(self.units, dropout=0.1)],
            "memory": memlm_keras.memory.Attention(
                self.window, kernel_initializer=draw
            ),
        }


SMALL = Row(units=12, embedding_dim=8)
ROWS = {"small": SMALL, "large": Row(units=40, units_divisor=4)}


def test_a_paper_of_another_package():
    table = presets.Table(
        "seven", "Table 7", (presets.TableRow("small", "mine2027/small"),)
    )
    about = {"title": "On Nothing", "year": 2027, "tables": (table,)}
    about["authors"] = ("Nemo", "Nobody", "Noone")
    paper = presets.register("mine2027", ROWS, **about)
    assert presets.papers()["mine2027"] is paper
    assert presets.tables()["mine2027/seven"] is table
    assert presets.names()[-2:] == ["mine2027/small", "mine2027/large"]
    preset = presets.get("mine2027/small", window=3)
    assert json.loads(json.dumps(preset)) == preset
    # The preset does not depend on the program's precision.
    keras.config.set_dtype_policy("mixed_bfloat16")
    try:
        assert presets.get("mine2027/small", window=3) == preset
    finally:
        keras.config.set_dtype_policy("float32")
    assert preset["source"] == "Nemo et al. (2027), On Nothing, Table 7"
    assert preset["model"]["memory"]["config"]["window"] == 3
    model = memlm_keras.LanguageModel.from_preset(
        "mine2027/large", 11, scale=0.2, initial_range=0.5
    )
    assert (model.recurrent[0].units, model.embedding_dim) == (8, 8)
    assert model.memory.kernel_initializer.maxval == 0.5
    model.compile(keras.optimizers.deserialize(preset["optimizer"]))
    tokens = np.arange(60) % 11
    batches = memlm_keras.data.Batches(tokens, 2, 5)
    assert np.isfinite(model.fit(batches, verbose=0).history["loss"]).all()


@pytest.mark.parametrize(
    "paper, rows, message",
    [
        ("daniluk2017", ROWS, "'daniluk2017' is registered already"),
        ("mine/2027", ROWS, "without a slash.*'mine/2027'"),
        ("mine2027", {"": ROWS["small"]}, "without a slash.*''"),
        ("mine2027", {}, "at least one row.*rows={}"),
        ("mine2027", None, "at least one row"),
        ("mine2027", {"small": {"units": 3}}, "'units': 3.* for 'small'"),
        (presets.Paper("mine2027", ROWS), ROWS, "`paper` must be a string"),
    ],
)
def test_papers_that_are_refused(paper, rows, message):
    before = presets.names()
    with pytest.raises(ValueError, match=message):
        presets.register(paper, rows)
    assert presets.names() == before


@pytest.mark.parametrize(
    "name, nearest",
    [
        ("daniluk2017/key_value_predct", "daniluk2017/key_value_predict"),
        ("daniluk/key_value_predict", "daniluk2017/key_value_predict"),
        ("key_value", "daniluk2017/key_value"),
        ("salton2017/ptb_singel", "salton2017/ptb_single"),
        ("pointer_sentinel", "merity2017/ptb_pointer_sentinel"),
        ("tran2016/pointer_sentinel", "merity2017/ptb_pointer_sentinel"),
        ("xyzzy", None),
        ("", None),
    ],
)
def test_the_nearest_name(name, nearest):
    with pytest.raises(ValueError, match="Unknown preset") as error:
        presets.get(name)
    message = str(error.value)
    assert repr(name) in message
    assert "\n" not in message and len(message) < 200
    assert ("nearest" in message) == (nearest is not None)
    assert nearest is None or repr(nearest) in message


@pytest.mark.parametrize("name", presets.names())
def test_presets_can_be_looked_at_without_a_trace(name):
    state = random.getstate()
    with keras.StatelessScope(initialize_variables=False):
        first = presets.get(name)
    assert first == presets.get(name)
    assert random.getstate() == state

    def items(value, found):
        if isinstance(value, dict):
            for key, item in value.items():
                found.append((key, item))
                items(item, found)
        elif isinstance(value, list):
            for item in value:
                items(item, found)
        return found

    for key, item in items(first["model"], []):
        assert key not in ("dtype", "trainable")
        # Only the permutations of an associative memory have a seed, 0.
        assert key != "seed" or item == 0


DISTRIBUTION = """\
Metadata-Version: 2.1
Name: {name}
Version: 1.0
"""
MODULE = """\
import dataclasses

import keras

from memlm_keras import presets


@dataclasses.dataclass(frozen=True, kw_only=True)
class Row(presets.Row):
    def model(self):
        return {{
            "embedding_dim": self.embedding_size,
            "recurrent": [keras.layers.GRU(self.units)],
        }}


def add():
    # Looking at the others does not load this a second time.
    assert "zaremba2014/small" in presets.names()
    presets.register("{paper}", {{"small": Row(units=6)}})
"""


@pytest.fixture
def install(tmp_path, monkeypatch):
    """Returns a function that installs a package with an entry point."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(registry, "_TO_LOAD", None)

    def install(name, entry_point, module):
        info = tmp_path / f"{name}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(DISTRIBUTION.format(name=name))
        (info / "entry_points.txt").write_text(
            f"[memlm_keras.presets]\n{name} = {entry_point}\n"
        )
        (tmp_path / f"{name}.py").write_text(module)
        monkeypatch.delitem(sys.modules, name, raising=False)

    return install


def test_papers_of_installed_packages(install, capfd):
    install("called", "called:add", MODULE.format(paper="called2027"))
    imported = MODULE.format(paper="imported2027") + "\n\nadd()\n"
    # TensorFlow, which many packages import, writes such a log.
    imported += "import os\nos.write(2, b'a log')\n"
    install("imported", "imported", imported)
    with warnings.catch_warnings(action="error"):
        assert {"called2027/small", "imported2027/small"} < set(presets.names())
    assert capfd.readouterr().err == ""
    assert presets.get("called2027/small")["units"] == 6
    model = memlm_keras.LanguageModel.from_preset("imported2027/small", 11)
    assert model.recurrent[0].units == 6
    presets.names()  # A second call must not register the paper again.


@pytest.mark.parametrize(
    "entry_point, module, error",
    [
        ("broken:add", "import no_such_module_at_all", "ModuleNotFoundError"),
        ("broken:no_such_function", "", "AttributeError"),
        ("broken:add", MODULE.format(paper="tran2016"), "registered already"),
    ],
)
def test_a_broken_entry_point_warns_once(install, entry_point, module, error):
    install("broken", entry_point, module)
    install("whole", "whole:add", MODULE.format(paper="whole2027"))
    with pytest.warns(UserWarning) as caught:
        names = presets.names()
    (warning,) = caught
    assert f"'broken' = '{entry_point}'" in str(warning.message)
    assert error in str(warning.message)
    assert "tran2016/lstm_1" in names and "whole2027/small" in names
    with warnings.catch_warnings(action="error"):
        assert presets.names() == names

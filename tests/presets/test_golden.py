"""Compares every preset with a table of the papers' settings.

`golden.txt` has one line for each preset. `parameters` is computed from the
paper's equations and vocabulary size, without embeddings if that size is 0;
`printed` is the paper's own number, if the equations give this number. In
`layers`, `>` stands for a memory between layers. `others` contains all settings
without a column of their own.
"""

import itertools
import json
import pathlib
import re

import keras
import pytest

from memlm_keras import models
from memlm_keras import presets
from memlm_keras import registry
from memlm_keras.training import SentenceCrossEntropy

LINES = pathlib.Path(__file__).with_name("golden.txt").read_text().splitlines()
HEADER, *ROWS = map(str.split, LINES)
GOLDEN = {cells[0]: dict(zip(HEADER, cells, strict=True)) for cells in ROWS}
every_preset = pytest.mark.parametrize("name", GOLDEN)


def settings(name):
    """Returns the table's cells for a preset's model and training."""
    preset = presets.get(name)
    model, data, schedule = (preset[k] for k in ("model", "data", "schedule"))
    optimizer = preset["optimizer"]["config"]
    drawn = model.get("initializer", model.get("embeddings_initializer"))
    drawn = drawn or model["embedding"]["config"]["embeddings_initializer"]
    rates = model.get("dropout")
    if isinstance(rates, dict):
        rates = ",".join(f"{key}={value}" for key, value in rates.items())
    memory = model.get("memory") or model.get("mixture")
    published = (
        "/".join(map(cell, one.numbers.values()))
        for one in registry.find(name)[1].published
    )
    cells = {
        "units": preset["units"],
        "embedding": model["embedding_dim"],
        "tied": model.get("tie_embeddings"),
        "range": drawn["config"]["maxval"],
        # Papers name optimizers by equations, so omit "Fused" from the class.
        "optimizer": preset["optimizer"]["class_name"].removeprefix("Fused"),
        "rate": optimizer["learning_rate"],
        "clip": optimizer.get("global_clipnorm"),
        "loss": "sum" if "loss" in preset else "mean",
        "batch": data["batch_size"],
        "steps": data.get("segment_length", data.get("longest")),
        "text": next(
            (k for k in ("documents", "sentences") if k in data), None
        ),
        "epochs": schedule.get("epochs"),
        "halve_after": schedule.get("halve_after"),
        "factor": schedule.get("factor") and round(schedule["factor"], 3),
        "patience": schedule.get("patience"),
        "best_by": schedule["selected_by"].split()[-1],
        "published": ";".join(published),
        "memory": memory and described(memory),
        "dropout": rates,
        "layers": layers(model),
        "others": ";".join(others(preset)),
    }
    return {key: cell(value) for key, value in cells.items()}


# Settings that have their own columns, and names of modules.
_COLUMNS = re.compile(
    r"name|kind|source|units|embedding_dim|tie_embeddings|loss.*|tuned.*|"
    r"(also_)?published.*|(recurrent|memory|mixture|dropout|encoder).*|"
    r"(decoder|top|(.*\.)?((embeddings|kernel)_)?initializer)(\..*)?|"
    r"optimizer(\.learning_rate|\.global_clipnorm)?|"
    r"data\.(batch_size|segment_length|longest|documents|sentences)|"
    r"schedule\.(epochs|halve_after|factor|patience|selected_by)|"
    r".*(module|registered_name)"
)


def others(value, path=""):
    """Yields settings without a column, such as `cache.size=500`."""
    if not isinstance(value, dict):
        if not _COLUMNS.fullmatch(path) and value is not None:
            yield f"{path}={value}".replace(" ", "_")
        return
    for key, part in value.items():
        if key in ("model", "config", "class_name"):
            yield from others(part, path)
        else:
            yield from others(part, f"{path}.{key}".lstrip("."))


def cell(value):
    return "-" if value in (None, "") else str(value)


def layers(model):
    """Returns all recurrent layers of a model, the lowest first."""
    parts = ("recurrent", "recurrent_hypothesis", "encoder", "decoder", "top")
    below = []
    for part in filter(None, map(model.get, parts)):
        below += part if isinstance(part, list) else [part]
    above = model.get("recurrent_above", [])
    return ">".join(map(stacked, filter(None, (below, above))))


def stacked(layers):
    groups = itertools.groupby(map(described, layers))
    counts = ((name, len(list(group))) for name, group in groups)
    return "+".join(f"{n}*{name}" if n > 1 else name for name, n in counts)


def described(serialized):
    """Returns the class of an object, and its arguments except the units."""
    config = dict(serialized["config"])
    if serialized["class_name"] == "ProjectedRNN":
        return described(config["cell"])
    inner = config.pop("cell", None)
    config.pop("units", None)
    parts = [described(inner)] if inner else []
    parts += [
        f"{key}={value}"
        for key, value in config.items()
        if isinstance(value, (int, float, str))
    ]
    return f"{serialized['class_name']}({','.join(parts)})"


def test_every_preset_has_a_line():
    assert list(GOLDEN) == presets.names()


@every_preset
def test_settings(name):
    found = settings(name)
    assert found == {key: GOLDEN[name][key] for key in found}


@every_preset
def test_presets_are_plain_values(name):
    preset = presets.get(name)
    assert json.loads(json.dumps(preset)) == preset
    assert preset["name"] == name
    if "loss" in preset:
        loss = keras.losses.deserialize(preset["loss"])
        assert isinstance(loss, SentenceCrossEntropy)
    optimizer = keras.optimizers.deserialize(preset["optimizer"]).get_config()
    for key, value in preset["optimizer"]["config"].items():
        assert optimizer[key] == pytest.approx(value)


@every_preset
def test_parameters(name):
    golden = GOLDEN[name]
    parameters = int(golden["parameters"])
    found = presets.count_params(name, int(golden["vocabulary"]))
    assert found == parameters
    if golden["printed"] != "-":
        number, unit = re.fullmatch("(.*)([kM])", golden["printed"]).groups()
        digits = len(number.partition(".")[2])
        # Some papers round numbers, and some truncate them.
        rest = parameters / {"k": 1e3, "M": 1e6}[unit] - float(number)
        assert abs(rest) < 10**-digits


@every_preset
def test_the_model_has_the_parameters_of_its_row(name):
    fixed, per_word = registry.find(name)[1].parameters
    preset = presets.get(name)
    config = {**preset["model"], "vocabulary_size": 40}
    if "mixture" in config:
        # Use a small window: its size adds no weights, but tracing takes long.
        spans = {"window", "size"} & set(config["mixture"]["config"])
        config["mixture"]["config"] |= dict.fromkeys(spans, 2)
    with keras.StatelessScope(initialize_variables=False):
        model = getattr(models, preset["kind"]).from_config(config)
    # Keras keeps a list of uninitialized variables, and would create them
    # later.
    keras.utils.clear_session(free_memory=False)
    assert model.count_params() == fixed + per_word * 40

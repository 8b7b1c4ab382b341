"""Names in the glossary exist."""

import functools
import inspect
import pathlib
import re

import pytest
from preset_families import families
from preset_families import small

import memlm_keras as memlm

PAGE = pathlib.Path(__file__).parents[2] / "docs" / "glossary.md"
_NAME = re.compile(
    r"(?P<path>[\w.]+?)"
    r"(?:\((?P<argument>\w+)\)|\[\"(?P<entry>\w+)\"\]|\.(?P<attribute>\w+))?"
)
PARTS = memlm.memory, memlm.cells, memlm.smoothing, memlm.mixtures, memlm.heads


def code_names():
    """Returns the code names in the tables' first column."""
    rows = re.findall(r"^\| (`[^|]*) \|", PAGE.read_text("utf-8"), re.M)
    return [name for row in rows for name in re.findall(r"`([^`]+)`", row)]


NAMES = code_names()
# Read the presets' names before a test registers another preset.
PRESETS = [*families(), "salton2017/ptb_combined"]


def resolved(path):
    """Returns a public object by name; classes need no module."""
    thing = memlm
    if "." not in path and path not in memlm.__all__:
        modules = (*PARTS, memlm.embeddings, memlm.evaluation)
        (thing,) = [module for module in modules if path in module.__all__]
    for part in path.split("."):
        assert part in getattr(thing, "__all__", vars(thing)), path
        thing = getattr(thing, part)
    return thing


@functools.cache
def layers():
    """Returns all layers of one small model of each kind."""
    return [
        layer
        for name in PRESETS
        for layer in small(name)._flatten_layers(include_self=False)
    ]


def of_class(kind):
    chosen = [layer for layer in layers() if isinstance(layer, kind)]
    assert chosen, kind
    return chosen


def require(name):
    """Asserts that a name of the glossary exists."""
    parts = _NAME.fullmatch(name)
    attribute = parts["attribute"]
    if attribute is not None and parts["path"][0].islower():
        resolved(name)
        return
    kind = resolved(parts["path"])
    if parts["argument"] is not None:
        arguments = [
            argument
            for base in inspect.getmro(kind)
            for argument in inspect.signature(base.__init__).parameters
        ]
        assert parts["argument"] in arguments
    if parts["entry"] is not None:
        assert any(
            parts["entry"] in layer.initial_state(1) for layer in of_class(kind)
        )
    if attribute is not None and not hasattr(kind, attribute):
        weights = [getattr(layer, attribute, None) for layer in of_class(kind)]
        assert any(hasattr(weight, "assign") for weight in weights)


@pytest.mark.parametrize("name", NAMES)
def test_names_exist(name):
    require(name)


@pytest.mark.parametrize("module", PARTS, ids=lambda module: module.__name__)
def test_every_public_layer_is_listed(module):
    assert not [
        name
        for name in module.__all__
        if name not in NAMES and f"{module.__name__[12:]}.{name}" not in NAMES
    ]

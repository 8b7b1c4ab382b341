"""The glossary, held beside the classes that it names."""

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
MODULES = (
    memlm.memory,
    memlm.cells,
    memlm.smoothing,
    memlm.mixtures,
    memlm.heads,
)


def code_names():
    """Names between backticks in the first column of the tables."""
    rows = re.findall(
        r"^\| (`[^|]*) \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE
    )
    return [name for row in rows for name in re.findall(r"`([^`]+)`", row)]


NAMES = code_names()
# Before any test registers a preset of its own.
PRESETS = [*families(), "salton2017/ptb_combined"]


def resolved(path):
    """A public name, with its module or, where it is a class, without."""
    found = memlm
    if "." not in path and path not in memlm.__all__:
        modules = (*MODULES, memlm.embeddings, memlm.evaluation)
        (found,) = [module for module in modules if path in module.__all__]
    for part in path.split("."):
        assert part in getattr(found, "__all__", vars(found)), path
        found = getattr(found, part)
    return found


@functools.cache
def layers():
    """All layers of a small model of each kind."""
    return [
        layer
        for name in PRESETS
        for layer in small(name)._flatten_layers(include_self=False)
    ]


def of_class(kind):
    found = [layer for layer in layers() if isinstance(layer, kind)]
    assert found, kind
    return found


def require(name):
    """Asserts that a name of the glossary is what the glossary says."""
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
def test_names_are_there(name):
    require(name)


@pytest.mark.parametrize(
    "name",
    [
        "KeyValuePredicts",
        "memory.KeyValuePredicts",
        "KeyValuePredict(size)",
        'KeyValuePredict["context"]',
        "KeyValuePredict.source_kernel",
    ],
)
def test_names_that_are_not_there(name):
    with pytest.raises((AssertionError, ValueError)):
        require(name)


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)
def test_every_public_layer_is_in_it(module):
    assert not [
        name
        for name in module.__all__
        if name not in NAMES and f"{module.__name__[12:]}.{name}" not in NAMES
    ]

"""Guards of the package's structure: imports, names and docstrings.

All is read from the source, so an import inside a function counts as one at
the top of a file, and a private docstring as a public one.
"""

import ast
import graphlib
import pathlib
import re

import pytest

import memlm_keras

ROOT = pathlib.Path(memlm_keras.__file__).parent

# === Imports point one way ===

GROUND = {
    "arguments",
    "files",
    "gradients",
    "kernels",
    "masking",
    "registry",
    "serialization",
    "version",
}
WORDS = {"cells", "embeddings", "heads", "memory", "mixtures", "smoothing"}
# The folders and modules that each may import, beside itself.
ARROWS = {
    **{module: GROUND for module in GROUND},
    "data": GROUND,
    "cells": GROUND,
    "embeddings": GROUND,
    "heads": GROUND | {"embeddings"},
    "memory": GROUND | {"cells", "embeddings"},
    "mixtures": GROUND | {"memory"},
    "smoothing": GROUND | {"data", "embeddings", "heads"},
    "training": GROUND | {"data", "heads"},
    "models": GROUND | WORDS | {"data", "training"},
    "presets": GROUND | WORDS | {"models", "training"},
    "evaluation": GROUND | {"data", "mixtures", "models"},
    "ngrams": GROUND | {"data", "evaluation"},
    "analysis": GROUND | {"data", "models"},
    "serving": GROUND | {"data", "models"},
}
# What a user imports, and the programs above it.
ARROWS["memlm_keras"] = set(ARROWS)
ARROWS["experiments"] = set(ARROWS)
ARROWS["__main__"] = {"experiments"}


def sources():
    """Dict from dotted name to syntax tree of every module."""
    found = {}
    for path in sorted(ROOT.rglob("*.py")):
        parts = path.relative_to(ROOT.parent).with_suffix("").parts
        if parts[-1] == "__init__":
            parts = parts[:-1]
        found[".".join(parts)] = ast.parse(path.read_text(encoding="utf-8"))
    return found


SOURCES = sources()


def imports(name):
    """Modules that one imports, at its top and in its functions."""
    tree = SOURCES[name]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{name} has a relative import"
            found = [
                full if full in SOURCES else node.module
                for alias in node.names
                for full in [f"{node.module}.{alias.name}"]
            ]
        else:
            continue
        yield from (module for module in found if module in SOURCES)


def folder(name):
    return name.split(".")[1] if "." in name else name


def test_imports_point_one_way():
    found = {
        (folder(name), folder(module))
        for name in SOURCES
        for module in imports(name)
    }
    unknown = {begin for begin, _ in found} - set(ARROWS)
    assert not unknown, "say in ARROWS what these may import"
    allowed = {(begin, end) for begin, ends in ARROWS.items() for end in ends}
    back = {
        (begin, end)
        for begin, end in found
        if begin != end and (begin, end) not in allowed
    }
    assert not back


def test_the_allowed_arrows_make_no_circle():
    """Whoever adds an arrow cannot close a circle with it."""
    above = {name: ends - GROUND for name, ends in ARROWS.items()}
    list(graphlib.TopologicalSorter(above).static_order())


def test_no_import_cycles():
    """Nor by imports in functions."""
    graph = {name: set(imports(name)) - {name} for name in SOURCES}
    # Raises an error that shows a cycle.
    list(graphlib.TopologicalSorter(graph).static_order())


# === Names are the field's ===

# Words that have one of the field in their place, as parts of names.
INSTEAD = {
    "ahead": "causal",
    "article": "document",
    "articles": "documents",
    "chooser": "sampler, scorer or enumerator",
    "copied": "copy distribution",
    "given": "default, or what was given",
    "history": "context or state",
    "pointed": "pointer log-probability",
    "recalled": "what it holds",
    "shut": "freeze",
    "tell": "report or warn",
    "tells": "report or warn",
    "thinned": "fixed dropout",
    "thinning": "fixed dropout",
    "told": "report or warn",
    "walker": "enumerator",
}
PHRASES = {
    "gradient_gate": "gradient_mask",
    "known_to_vary": "with_dynamic_time",
    "make_ready": "compile or build",
    "of_scores": "from_scores",
    "one_stream": "continuous text",
}


def public_names(tree):
    """Every name that a module defines for others: functions, their arguments,
    classes, attributes and constants."""
    inner = {
        id(node)
        for function in ast.walk(tree)
        if isinstance(function, ast.FunctionDef)
        for statement in function.body
        for node in ast.walk(statement)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            if id(node) in inner or node.name.startswith("_"):
                continue
            yield node.name
            arguments = node.args
            for argument in (
                *arguments.posonlyargs,
                *arguments.args,
                *arguments.kwonlyargs,
            ):
                yield argument.arg
        elif isinstance(node, ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Attribute):
            if isinstance(node.ctx, ast.Store):
                yield node.attr
        elif isinstance(node, ast.Name):
            if isinstance(node.ctx, ast.Store) and id(node) not in inner:
                yield node.id


def in_words(name):
    """Lower-case words of a name in any case, joined by `_`."""
    name = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name)
    return name.lower()


def words_to_replace(name):
    whole = in_words(name)
    for word in whole.split("_"):
        if word in INSTEAD:
            yield f"{name}: {INSTEAD[word]}"
    for phrase, better in PHRASES.items():
        if phrase in whole:
            yield f"{name}: {better}"


def test_words_are_found_in_names_of_any_case():
    assert list(words_to_replace("GradientGate")) == [
        "GradientGate: gradient_mask"
    ]
    assert list(words_to_replace("reads_ahead")) == ["reads_ahead: causal"]
    assert not list(words_to_replace("GatedHORNNCell"))
    assert not list(words_to_replace("particles"))
    tree = ast.parse("def f(articles):\n    history = 1\n    return history")
    assert list(public_names(tree)) == ["f", "articles"]


@pytest.mark.parametrize("name", SOURCES)
def test_public_names_are_the_fields(name):
    names = {*name.split("."), *public_names(SOURCES[name])}
    names = {each for each in names if not each.startswith("_")}
    assert not [
        found for each in sorted(names) for found in words_to_replace(each)
    ]


# === Docstrings say what a thing is or does ===

_OPENING = re.compile(r"(What|Has|Tells|Who|How)\b|As (of\b|`)")


@pytest.mark.parametrize("name", SOURCES)
def test_docstrings_open_with_the_thing_itself(name):
    described = (ast.Module, ast.ClassDef, ast.FunctionDef)
    openings = [
        docstring.splitlines()[0]
        for node in ast.walk(SOURCES[name])
        if isinstance(node, described)
        and (docstring := ast.get_docstring(node))
    ]
    assert not list(filter(_OPENING.match, openings))


# === Calls name their arguments ===


@pytest.mark.parametrize("name", SOURCES)
def test_no_call_is_made_of_pieces_of_a_tuple(name):
    """`f(*(a, b), c=d)` hides from the reader what is what."""
    found = [
        call.lineno
        for call in ast.walk(SOURCES[name])
        if isinstance(call, ast.Call)
        for argument in call.args
        if isinstance(argument, ast.Starred)
        and isinstance(argument.value, (ast.Tuple, ast.List))
    ]
    assert not found


# === Tests of what a backend computes run on every backend ===

ON_EVERY_BACKEND = {
    "cells",
    "embeddings",
    "heads",
    "memory",
    "mixtures",
    "models",
    "smoothing",
    "training",
}
# Files and counts alone.
ON_ONE_BACKEND = {"test_pretrained.py", "test_statistics.py"}


def test_tests_of_layers_and_models_are_marked():
    tests = pathlib.Path(__file__).parent
    unmarked = [
        str(path.relative_to(tests))
        for folder in sorted(ON_EVERY_BACKEND)
        for path in (tests / folder).glob("test_*.py")
        if path.name not in ON_ONE_BACKEND
        and not re.search(
            r"^pytestmark = .*pytest\.mark\.backend\b",
            path.read_text(encoding="utf-8"),
            re.M | re.S,
        )
    ]
    assert not unmarked, "these lack `pytestmark = pytest.mark.backend`"

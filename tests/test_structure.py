"""Checks the package's structure: imports, names and docstrings.

The checks read the source, so imports inside functions and docstrings of
private functions count, too.
"""

import ast
import collections
import functools
import graphlib
import importlib
import pathlib
import re
import sys

import keras
import pytest

import memlm_keras
from memlm_keras import keras_private

ROOT = pathlib.Path(memlm_keras.__file__).parent

# === Imports have one direction ===

GROUND = """
    arguments children files formats gradients keras_private kernels masking
    registry trained version
"""
GROUND = {*GROUND.split()}
WORDS = {"cells", "embeddings", "heads", "memory", "mixtures", "smoothing"}
# Other folders and modules that each folder or module may import.
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
    "linguistics": GROUND | {"analysis", "data", "evaluation", "models"},
    "ngrams": GROUND | {"data", "evaluation"},
    "analysis": GROUND | {"data", "models"},
    "serving": GROUND | {"data", "models"},
    # No other folder imports the integrations.
    "integrations": GROUND | {"data", "models", "serving"},
}
# The package that a user imports, and the programs that use the package.
ARROWS["memlm_keras"] = set(ARROWS) - {"integrations"}
ARROWS["experiments"] = set(ARROWS) - {"integrations"}
ARROWS["__main__"] = {"experiments"}


def sources():
    """Returns a dict from the dotted name of each module to its syntax tree."""
    found = {}
    for path in sorted(ROOT.rglob("*.py")):
        parts = path.relative_to(ROOT.parent).with_suffix("").parts
        if parts[-1] == "__init__":
            parts = parts[:-1]
        found[".".join(parts)] = ast.parse(path.read_text(encoding="utf-8"))
    return found


SOURCES = sources()


def imports(name):
    """Yields the modules that a module imports, also inside functions."""
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


def test_no_import_cycles():
    graph = {name: set(imports(name)) - {name} for name in SOURCES}
    # If imports have a cycle, this raises an error that shows the cycle.
    list(graphlib.TopologicalSorter(graph).static_order())


def test_modules_import_without_the_extras():
    """Only a module of one backend or extra may import it at the top: others
    are imported on every backend, and tools import all modules in turn."""
    allowed = set(sys.stdlib_module_names) | {"memlm_keras"}
    setup = (ROOT.parent / "setup.py").read_text(encoding="utf-8")
    required = setup.split("install_requires=[")[1].split("]")[0]
    required = re.findall(r'"([\w-]+)', required)
    # absl-py is imported as absl.
    allowed |= {each.removesuffix("-py").replace("-", "_") for each in required}
    allowed |= {"torch", "transformers"}
    found = {}
    for name, tree in SOURCES.items():
        for node in tree.body:
            if isinstance(node, ast.Import):
                modules = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                modules = [node.module]
            else:
                continue
            roots = {module.split(".")[0] for module in modules}
            if roots - allowed:
                found[name] = sorted(roots - allowed)
    assert not found


def test_the_tower_has_few_floors():
    """Limits the longest chain of imports within `experiments`."""

    @functools.cache
    def floor(name):
        below = {each for each in imports(name) if each in tower} - {name}
        return 1 + max(map(floor, below), default=0)

    head = "memlm_keras.experiments"
    tower = {name for name in SOURCES if name.startswith(f"{head}.")}
    assert max(map(floor, tower)) <= 7


def test_private_modules_of_keras_are_imported_in_one_file():
    lines = [
        (str(path.relative_to(ROOT)), line)
        for path in ROOT.rglob("*.py")
        for line in path.read_text(encoding="utf-8").splitlines()
        if re.search(r"keras\.src", line)
    ]
    assert lines
    assert {name for name, _ in lines} == {"keras_private.py"}


def test_a_keras_without_a_private_function_is_named(monkeypatch):
    monkeypatch.delattr(keras.src.backend, "rnn")
    with pytest.raises(ImportError, match=r"pip install 'keras==3\.15\.\*'"):
        importlib.reload(keras_private)


# === Limits of the package's rings, pages and logs ===

# Folders of each ring ("" for modules outside folders), and the ring's maximum
# number of Python lines. A commit that raises a limit must say what the lines
# are for.
RINGS = {
    "papers": (
        " cells memory heads mixtures embeddings smoothing models presets",
        # 100 lines are for recorded steps on PyTorch, 60 halve the time of the
        # first answer, 41 read batches for TensorFlow and PyTorch, 7 are for
        # LSTMN, 10 refuse masks of other shapes, 2 are for sequences without
        # steps, 3 for a server that only its own machine reaches, 10 for
        # processes that replace the same path at once, 24 compute losses in
        # place on PyTorch, and the terms of a mask once before a loop, 10 run
        # several steps a call on JAX, and 99 refuse ids, seeds, layers, batches
        # and quantized models that gave wrong results.
        16849,
    ),
    # 250 lines record steps on PyTorch, and run them as CUDA graphs; 45 run
    # several steps a call on JAX, for which callbacks count all steps; 55
    # refuse vocabularies, ids and labels that gave wrong results.
    "craft": ("data training evaluation ngrams analysis serving", 15340),
    # 11 lines leave out boundary marks, and refuse overlapping regions and
    # vocabularies with other ids.
    "linguistics": ("linguistics", 2472),
    # 25 lines measure papers' trained models as their runs; 52 halve the time
    # of the first answer, 52 choose the precision of matrix products, 47 tell
    # what is closed, missing, taken, counted, written or measured, 9 keep
    # freed memory in all threads, which halves some steps on TensorFlow, and
    # 52 leave out or refuse options that do not fit a text or a model, and 5
    # let several runs share a GPU.
    "experiments": ("experiments", 7748),
    # 4 lines leave out the state that is carried in training.
    "integrations": ("integrations", 729),
}
# Maximum numbers of words: of all pages of `docs`, of one page, and of a page
# of results without the numbers and marks of its tables.
DOCS, PAGE, RESULT = 45000, 1800, 900
LOG_FILES = 30


def test_rings_keep_their_limits():
    lines = collections.Counter()
    for path in ROOT.rglob("*.py"):
        room = path.relative_to(ROOT).parts[0]
        lines["" if room.endswith(".py") else room] += len(
            path.read_text(encoding="utf-8").splitlines()
        )
    rooms = {ring: names.split(" ") for ring, (names, _) in RINGS.items()}
    assert set(lines) <= {room for found in rooms.values() for room in found}
    sizes = {
        ring: sum(lines[room] for room in found)
        for ring, found in rooms.items()
    }
    over = {ring: size for ring, size in sizes.items() if size > RINGS[ring][1]}
    assert not over


def test_pages_and_logs_keep_their_limits():
    docs = ROOT.parent / "docs"
    if not docs.exists():
        pytest.skip("an installed package has no docs/")
    words = {
        path.relative_to(docs): path.read_text(encoding="utf-8").split()
        for path in docs.rglob("*.md")
    }
    assert sum(map(len, words.values())) <= DOCS
    for page, found in words.items():
        letters = sum(any(map(str.isalpha, word)) for word in found)
        if page.parts[0] == "results":
            assert letters <= RESULT, page
        assert len(found) <= PAGE, page
    logs = (docs / "results" / "logs").rglob("*")
    assert sum(path.is_file() for path in logs) <= LOG_FILES


# === Names use the field's terms ===

# Words that names must not contain, with the field's terms to use instead.
INSTEAD = {
    "ahead": "causal",
    "article": "document",
    "articles": "documents",
    "chooser": "sampler, scorer or enumerator",
    "copied": "copy distribution",
    "given": "default, or what was given",
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
    "known_to_vary": "as_dataset",
    "make_ready": "compile or build",
    "of_scores": "from_scores",
    "one_stream": "continuous text",
}


def public_names(tree):
    """Returns all public names in a module: functions, arguments, classes,
    attributes and constants."""
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
            of = node.args
            for argument in (*of.posonlyargs, *of.args, *of.kwonlyargs):
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
    """Converts a name to lower-case words joined by `_`."""
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


def test_public_names_are_the_fields():
    found = {
        f"{module}: {better}"
        for module, tree in SOURCES.items()
        for name in {*module.split("."), *public_names(tree)}
        if not name.startswith("_")
        for better in words_to_replace(name)
    }
    assert not found


# === Docstrings say what a thing is or does ===

_OPENING = re.compile(r"(What|Has|Tells|Who|How)\b|As (of\b|`)")


def test_docstrings_open_with_the_thing_itself():
    described = (ast.Module, ast.ClassDef, ast.FunctionDef)
    assert not [
        (name, docstring.splitlines()[0])
        for name, tree in SOURCES.items()
        for node in ast.walk(tree)
        if isinstance(node, described)
        and (docstring := ast.get_docstring(node))
        and _OPENING.match(docstring)
    ]


# === Tests of what a backend computes run on every backend ===

ON_EVERY_BACKEND = WORDS | {"models", "training"}
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

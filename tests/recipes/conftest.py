"""Programs of `recipes/`, each with flags of its own."""

import contextlib
import importlib.util
import pathlib

import pytest
from absl import flags

RECIPES = pathlib.Path(__file__).parents[2] / "recipes"


@contextlib.contextmanager
def loaded(name):
    """The module of a program, with flags of its own."""
    with pytest.MonkeyPatch.context() as patch:
        own = dict(vars(flags.FLAGS)["__flags"])
        patch.setitem(vars(flags.FLAGS), "__flags", own)
        spec = importlib.util.spec_from_file_location(
            name, RECIPES / f"{name}.py"
        )
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        yield module


@pytest.fixture
def program():
    """`program(name)`: the module of a program."""
    with contextlib.ExitStack() as stack:
        yield lambda name: stack.enter_context(loaded(name))

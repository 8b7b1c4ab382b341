"""Loads programs of `recipes/`, each with only its own flags."""

import contextlib
import importlib.util
import pathlib

import pytest
from absl import flags

RECIPES = pathlib.Path(__file__).parents[2] / "recipes"


@contextlib.contextmanager
def loaded(name):
    """Yields a program's module, while only the program's own flags exist."""
    with pytest.MonkeyPatch.context() as patch:
        # Keep absl's own flags, which TensorFlow's exports read, and remove
        # flags of other programs, whose names may be the same as this
        # program's.
        every = vars(flags.FLAGS)["__flags"]
        modules = flags.FLAGS.flags_by_module_dict().items()
        of_absl = [f for m, fs in modules if m.startswith("absl") for f in fs]
        own = {name: flag for name, flag in every.items() if flag in of_absl}
        patch.setitem(vars(flags.FLAGS), "__flags", own)
        spec = importlib.util.spec_from_file_location(
            name, RECIPES / f"{name}.py"
        )
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        yield module


@pytest.fixture
def program():
    """`program(name)`: returns the module of a program."""
    with contextlib.ExitStack() as stack:
        yield lambda name: stack.enter_context(loaded(name))

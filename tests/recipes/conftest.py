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
        # TensorFlow's exports read flags of absl; those of other programs may
        # have the names of this program's.
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
    """`program(name)`: the module of a program."""
    with contextlib.ExitStack() as stack:
        yield lambda name: stack.enter_context(loaded(name))

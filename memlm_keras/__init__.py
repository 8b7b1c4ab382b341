"""Memory-augmented recurrent language models in Keras 3."""

import importlib
import pathlib
import sys

from memlm_keras.version import __version__  # noqa: F401

_CLASSES = (
    "Ensemble",
    "EntailmentClassifier",
    "LanguageModel",
    "SequenceAutoencoder",
)

__all__ = [
    *_CLASSES,
    "analysis",
    "cells",
    "data",
    "embeddings",
    "evaluation",
    "experiments",
    "heads",
    "linguistics",
    "memory",
    "mixtures",
    "ngrams",
    "presets",
    "serving",
    "smoothing",
    "training",
]


def load_all():
    """Imports the whole package, which registers its classes with Keras."""
    for name in __all__:
        globals()[name] = __getattr__(name)


def __getattr__(name):
    if name in _CLASSES:
        return getattr(importlib.import_module("memlm_keras.models"), name)
    if name in __all__:
        return importlib.import_module(f"memlm_keras.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__():
    return sorted({*globals(), *__all__})


def _is_program():
    """Returns whether `memlm` or a script of `recipes/` started the process."""
    if sys.argv[:1] == ["-m"]:
        return "memlm_keras" in sys.orig_argv
    program = pathlib.Path(sys.argv[0] if sys.argv else "").resolve()
    folder = program.parent
    if program.name == "memlm" or program.match("memlm_keras/__main__.py"):
        return True
    return folder.name == "recipes" and folder.with_name("memlm_keras").is_dir()


# Keras loads a saved model only if its classes are registered. `memlm` and
# recipes import Keras later, because their flags set the backend.
if "keras" in sys.modules or not _is_program():
    load_all()

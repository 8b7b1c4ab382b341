"""Memory-augmented recurrent language models in Keras 3."""

import importlib
import pathlib
import sys

from memlm_keras.version import __version__  # noqa: F401

__all__ = [
    "Ensemble",
    "EntailmentClassifier",
    "LanguageModel",
    "SequenceAutoencoder",
    "analysis",
    "cells",
    "data",
    "embeddings",
    "evaluation",
    "experiments",
    "heads",
    "memory",
    "mixtures",
    "ngrams",
    "presets",
    "serving",
    "smoothing",
    "training",
]

_CLASSES = (
    "Ensemble",
    "EntailmentClassifier",
    "LanguageModel",
    "SequenceAutoencoder",
)


def load_all():
    """Imports all of the package, so that Keras knows all of its classes."""
    models = importlib.import_module("memlm_keras.models")
    for name in __all__:
        if name in _CLASSES:
            globals()[name] = getattr(models, name)
        else:
            importlib.import_module(f"memlm_keras.{name}")


def __getattr__(name):
    if name in __all__:
        load_all()
        return globals()[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def _is_program():
    """Whether a program of this package begins, which chooses the backend.

    `memlm`, `python -m memlm_keras` and the recipes must import the package
    before they know the backend, and so before Keras may be imported.
    """
    if sys.argv[:1] == ["-m"]:
        return "memlm_keras" in sys.orig_argv
    program = pathlib.Path(sys.argv[0] if sys.argv else "")
    return program.stem == "memlm" or program.parent.name == "recipes"


# Everybody else gets all of it at once: a model that Keras loads is known.
if "keras" in sys.modules or not _is_program():
    load_all()

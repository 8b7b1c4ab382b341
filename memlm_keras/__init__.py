"""Memory-augmented recurrent language models in Keras 3."""

import importlib
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
    "memory",
    "mixtures",
    "ngrams",
    "presets",
    "serving",
    "smoothing",
    "training",
]


class _LoadAllWithKeras:
    """Import hook that loads the whole package once Keras is imported.

    Keras loads a saved model only if its classes are registered, whether Keras
    was imported before this package or after it. Without Keras, a module of
    the package is loaded where it is first used.
    """

    def __init__(self):
        self.importing = False

    def find_spec(self, name, path=None, target=None):
        known = name == "keras" or name.startswith("memlm_keras.")
        if self.importing or not known:
            return None
        finders = (finder for finder in sys.meta_path if finder is not self)
        specs = (finder.find_spec(name, path, target) for finder in finders)
        spec = next(filter(None, specs), None)
        if spec is not None:
            execute = spec.loader.exec_module

            def execute_and_load_all(module):
                self.importing = True
                try:
                    execute(module)
                finally:
                    self.importing = False
                # After the outermost import: no module is half loaded.
                if "keras" in sys.modules:
                    load_all()

            spec.loader.exec_module = execute_and_load_all
        return spec


_HOOK = _LoadAllWithKeras()


def load_all():
    """Imports the whole package, which registers its classes with Keras."""
    if _HOOK in sys.meta_path:
        sys.meta_path.remove(_HOOK)
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


if "keras" in sys.modules:
    load_all()
else:
    sys.meta_path.insert(0, _HOOK)

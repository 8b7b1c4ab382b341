"""Experiments, which train and measure presets, and the `memlm` command.

Names are imported on first use, so that the backend can be chosen before Keras
is imported."""

import importlib

__all__ = ["Experiment", "RunFolder", "TableRuns", "choose_preset"]

_MODULES = {
    "Experiment": "experiment",
    "RunFolder": "run_folder",
    "TableRuns": "tables.table",
    "choose_preset": "choice",
}


def __getattr__(name):
    if name in _MODULES:
        module = importlib.import_module(f"{__name__}.{_MODULES[name]}")
        return getattr(module, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__():
    return sorted([*globals(), *__all__])

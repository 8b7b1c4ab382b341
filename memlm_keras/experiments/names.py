"""Names of presets, n-gram models and trained models, as users type them."""

import os
import pathlib
import re
from typing import NamedTuple

from memlm_keras import presets
from memlm_keras import registry
from memlm_keras import trained
from memlm_keras.experiments import options

# The n-gram models of Tran et al. (2016, Table 2); other orders are accepted.
NGRAM_MODELS = ("kneser_ney_5", "kneser_ney_5_cache")
_NGRAM_MODEL = re.compile(r"kneser_ney_([1-9])(_cache)?")


class Preset(NamedTuple):
    """A preset, an n-gram model or a trained model."""

    name: str  # full name
    kind: str  # kind of model
    trained: pathlib.Path | None = None  # folder of a trained model
    order: int | None = None  # order of an n-gram model


def find_preset(name):
    """Returns the `Preset` with a name, which may omit the paper if the row's
    name is unique; presets take precedence over trained models."""
    if ngrams := _NGRAM_MODEL.fullmatch(name):
        return Preset(name, options.KNESER_NEY, order=int(ngrams[1]))
    rows = {}
    for full in presets.names():
        rows.setdefault(full.partition("/")[2], []).append(full)
    names = [name] if name in presets.names() else rows.get(name, [])
    if len(names) == 1:
        return Preset(names[0], registry.find(names[0])[1].kind)
    if names:
        raise options.UsageError(
            f"Several papers have a row {name}. Name one: {', '.join(names)}."
        )
    with options.wrong_use():
        folder = trained.find(name)
    if folder is not None:
        # An absolute path works from any working directory.
        full = name if name in trained.names() else os.path.abspath(name)
        return Preset(full, options.LANGUAGE_MODEL, folder)
    if os.path.isabs(name) and not os.path.exists(name):
        raise options.UsageError(f"There is no trained model at {name}.")
    known = [*presets.names(), *NGRAM_MODELS]
    more = trained.names() if "/" in name else rows
    hint = options.nearest(name, [*more, *known])
    for row, (*_, full) in rows.items():
        hint = hint.replace(f" mean {row}?", f" mean {full}?")
    if os.path.exists(name):
        hint = f" A text is read by memlm train --dataset={name}"
    raise options.UsageError(
        f"There is no preset {name}.{hint or ' `memlm presets` lists all.'}"
    )

"""Names of presets, n-gram models and trained models, as users type them."""

import os
import re

from memlm_keras import presets
from memlm_keras import registry
from memlm_keras import trained
from memlm_keras.experiments.options import KNESER_NEY
from memlm_keras.experiments.options import LANGUAGE_MODEL
from memlm_keras.experiments.options import UsageError
from memlm_keras.experiments.options import nearest

# The n-gram models of Tran et al. (2016, Table 2); other orders are accepted.
NGRAM_MODELS = ("kneser_ney_5", "kneser_ney_5_cache")
_NGRAM_MODEL = re.compile(r"kneser_ney_([1-9])(_cache)?")


def order_of(name):
    """Order of an n-gram model by its name, or `None`."""
    match = _NGRAM_MODEL.fullmatch(name)
    return match and int(match[1])


def folder_of_trained(name):
    """Folder of a trained model, by its name or path, or `None`; rows come
    first."""
    if name in presets.names() or order_of(name):
        return None
    return trained.find(name)


def kind_of(name):
    """Kind of the model of a preset, by its full name."""
    if order_of(name):
        return KNESER_NEY
    if folder_of_trained(name) is not None:
        return LANGUAGE_MODEL
    return registry.find(name)[1].kind


def resolve(name):
    """Returns the full name of a preset; unique rows need no paper."""
    names = [*presets.names(), *NGRAM_MODELS]
    if name in names or order_of(name):
        return name
    matches = [full for full in names if full.partition("/")[2] == name]
    if len(matches) == 1:
        return matches[0]
    if matches:
        raise UsageError(
            f"Several papers have a row {name}: {', '.join(matches)}. Name "
            "the paper too."
        )
    if trained.find(name) is not None:
        # A run goes on from any folder.
        return name if name in trained.names() else os.path.abspath(name)
    if os.path.isabs(name) and not os.path.exists(name):
        raise UsageError(f"There is no trained model at {name}.")
    rows = {full.partition("/")[2]: full for full in names}
    hint = nearest(
        name, [*names, *trained.names()] if "/" in name else [*rows, *names]
    )
    for row, full in rows.items():
        hint = hint.replace(f" mean {row}?", f" mean {full}?")
    if os.path.exists(name):
        hint = f" A text is read by memlm train --dataset={name}"
    raise UsageError(
        f"There is no preset {name}.{hint or ' `memlm presets` lists all.'}"
    )

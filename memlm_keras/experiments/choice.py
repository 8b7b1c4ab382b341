"""Finds presets by name, or chooses a preset and its settings for a text.

docs/results/defaults.md says which numbers in this file were measured."""

import dataclasses
import itertools
import os
import pathlib
import re
from typing import NamedTuple

from memlm_keras import presets
from memlm_keras import registry
from memlm_keras import trained
from memlm_keras.data.corpus import split_for
from memlm_keras.data.text_store import TextSource
from memlm_keras.experiments import options
from memlm_keras.experiments.datasets import Dataset
from memlm_keras.experiments.datasets import unit_of

# N-gram models of Table 2 (Tran et al., 2016); other orders are accepted.
NGRAM_MODELS = {
    "kneser_ney_5": "Kneser-Ney smoothing; orders are 1 to 9, here 5",
    "kneser_ney_5_cache": "the same with a cache of recent words",
}
_NGRAM_MODEL = re.compile(r"kneser_ney_([1-9])(_cache)?")
_OWN = "memlm/"
SMALLEST = "memlm/small"
_ANY = float("inf")
# Each dict maps a choice to the maximum number of training tokens for it. A
# text of 100,000 tokens, for example, gets the dropout rate 0.5.
_ROWS = {"small": 10_000_000, "medium": 50_000_000, "large": _ANY}
_DROPOUT = {0.6: 60_000, 0.5: 300_000, 0.4: 1_000_000, 0.3: _ANY}
# On long texts, the smallest preset trains for fewer epochs with less dropout.
_SMALLEST_DROPOUT = _DROPOUT | {0.4: 700_000}
_BATCH_SIZE = {5: 60_000, 20: _ANY}
# Epochs of the smallest preset. In runs of at most `_FEW` epochs, the learning
# rate falls from `_FALLING_RATE` to zero, and the loss samples `_NUM_SAMPLED`
# words.
_EPOCHS, _FEW = {40: 100_000, 20: 300_000, 7: _ANY}, 7
_FALLING_RATE, _NUM_SAMPLED = 0.005, 2000
# Sizes of the smallest preset for 300,000 to 1,000,000 training tokens.
_PROJECTED, _PROJECTS = {"units": 248, "embedding_dim": 200}, (300_000, 10**6)
# For longer texts, `memlm/medium` is better but needs a GPU.
_LONG = 500_000
# Maximum number of epochs of all presets except the smallest.
_MOST_EPOCHS = 40
# The `memlm/` preset `ours` in `_fitted`, which limits a paper's sizes.
_FITTED_TO = {"small": 200_000, "medium": 2_000_000, "large": _ANY}
_SIZES = {"scale", "units", "embedding_dim"}
_SCHEDULES = ("halve_after", "linear_decay", "halve")
# A tokenizer is chosen by the first `_LINES` lines of a text. `_SPLITS` maps
# each tokenizer to the sentence that explains the choice to the user.
_LINES = 1000
_SPLITS = {
    "characters": "This text has few spaces between its words, so its tokens "
    "are characters.",
    "unicode_script": "Punctuation is attached to words in this text, so it is "
    "split off.",
}
# An English text has these words among its `_FREQUENT` most frequent ones.
_ENGLISH, _FREQUENT = {"the", "of", "and", "to", "in"}, 40


# === Names, as users type them ===


class Preset(NamedTuple):
    """A preset, an n-gram model or a trained model."""

    name: str  # Full name.
    kind: str  # Kind of model.
    trained: pathlib.Path | None = None  # Folder of a trained model.
    order: int | None = None  # Order of an n-gram model.


def find_preset(name):
    """Returns the `Preset` called `name`: `"paper/row"`, or `"row"` if no other
    paper has this row. If a preset and a trained model have the same name,
    returns the preset."""
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
            f"Several papers have a preset {name}. Give a full name: "
            f"{', '.join(names)}."
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
        hint = f" To train on this text: memlm train --dataset={name}"
    raise options.UsageError(
        f"There is no preset {name}.{hint or ' `memlm presets` lists all.'}"
    )


# === A preset for a text ===


@dataclasses.dataclass(frozen=True)
class Choice:
    """Preset and options chosen for a text, with the reasons as sentences."""

    preset: str
    options: dict
    running: dict
    reasons: list
    corpus: object

    @property
    def is_own(self):
        """Whether the preset is one of the package's own."""
        return _is_own(self.preset)

    @property
    def is_english(self):
        """Whether the text is untokenized English: punctuation is attached to
        words, and its most frequent words are English."""
        tokens = self.corpus.vocabulary.tokens[:_FREQUENT]
        return self.options.get("tokenize") == "unicode_script" and (
            _ENGLISH <= {token.lower() for token in tokens}
        )


def choose_preset(dataset, preset=None, **given):
    """Chooses a preset and options for a text, or options for a given preset.

    Without `preset`, chooses a `memlm/` preset. The text's length decides the
    preset, sizes and rates. A tokenizer is chosen only for `memlm/` presets.

    Args:
        dataset: string, as for `Experiment`.
        preset: string, as for `Experiment`, or `None`.
        **given: options that the user set, which are kept; may include
            `epochs`.

    Returns:
        `None` if `preset` is a trained model or is not a neural language
        model. Otherwise, an object with the attributes `preset`, `options`
        (dict, overrides for `Experiment`), `running` (dict, arguments for its
        `run`), `reasons` (list of sentences that explain the choice), `corpus`
        and `is_english`.

    Raises:
        UsageError: as for `Experiment`.
        ValueError: if the text cannot be read.

    Example:

    >>> from memlm_keras.experiments import choose_preset
    >>> choose_preset("embedded").preset
    'memlm/small'
    """
    if preset is not None:
        preset, kind, is_trained, _ = find_preset(preset)
        if is_trained or kind != options.LANGUAGE_MODEL:
            return None
    names = [option.name for option in options.READING]
    reading = {name: given[name] for name in names if name in given}
    settings, reasons = {}, []
    if "tokenize" not in given and dataset not in options.TEXTS:
        first = options.split_paths(dataset)[0]
        tokenize, reason = _tokenize(pathlib.Path(first))
        if tokenize is not None and (preset is None or _is_own(preset)):
            settings["tokenize"] = reading["tokenize"] = tokenize
            reasons.append(reason)
        elif tokenize is not None:
            reasons.append(
                "Words are split at white space only, as in the paper "
                f"(--tokenize={tokenize} suits this text)."
            )
    corpus = Dataset(dataset, options.LANGUAGE_MODEL, reading=reading).load()
    tokens, size = len(corpus.train.tokens), len(corpus.vocabulary)
    if preset is None:
        preset = _OWN + _up_to(tokens, _ROWS)
        reasons.append(
            f"{preset} suits a text of {tokens:,} tokens and {size:,} "
            f"{unit_of(corpus.vocabulary)}."
        )
        if preset == SMALLEST and tokens > _LONG:
            reasons.append(f"With a GPU, {_OWN}medium is better for this text.")
    choose = _own_settings if _is_own(preset) else _fitted_settings
    chosen, running = choose(preset, corpus, given, reasons)
    return Choice(preset, settings | chosen, running, reasons, corpus)


def _own_settings(preset, corpus, given, reasons):
    """Returns options and `run` arguments for a `memlm/` preset, two dicts."""
    tokens, size = len(corpus.train.tokens), len(corpus.vocabulary)
    smallest = preset == SMALLEST
    sized = not given.keys().isdisjoint(_SIZES)
    scheduled = not given.keys().isdisjoint(_SCHEDULES)
    epochs = _up_to(tokens, _EPOCHS) if smallest else _MOST_EPOCHS
    few = epochs <= _FEW
    above, most = _PROJECTS
    rates = _SMALLEST_DROPOUT if smallest else _DROPOUT
    settings = {
        "dropout": _up_to(tokens, rates),
        "batch_size": _up_to(tokens, _BATCH_SIZE),
    }
    if smallest and above < tokens <= most and not sized:
        settings |= _PROJECTED
        reasons.append(
            f"In {preset}, {settings['units']} outputs are projected to the "
            "size of the embeddings, which helps for a text of this length."
        )
    if few and size > 2 * _NUM_SAMPLED:
        settings["num_sampled"] = _NUM_SAMPLED
    if few and "epochs" not in given and not scheduled:
        settings["linear_decay"] = epochs
        if not sized:
            settings["learning_rate"] = _FALLING_RATE
    settings = {k: v for k, v in settings.items() if k not in given}
    if "dropout" in settings:
        reasons.append(
            f"The dropout is {settings['dropout']}, for {tokens:,} tokens."
        )
    if "num_sampled" in settings:
        reasons.append(
            f"Targets are compared with {_NUM_SAMPLED:,} of the words in "
            "training: faster, but about 1% worse (--num_sampled=0: all)."
        )
    if "linear_decay" in settings:
        reasons.append(
            "The learning rate falls linearly to zero, because training on a "
            "long text takes few epochs."
        )
    row = dataclasses.asdict(registry.find(preset)[1]) | given | settings
    reasons.append(
        f"An update reads {row['batch_size']} rows of {row['segment_length']} "
        f"tokens, at a learning rate of {row['learning_rate']:g}."
    )
    running = {} if "epochs" in given else {"epochs": epochs}
    epochs = given.get("epochs", epochs)
    reasons.append(
        f"Training takes at most {epochs} epoch{'s' * (epochs > 1)}. It stops "
        "earlier if the validation perplexity no longer improves. An estimate "
        "of the time follows after some seconds."
    )
    return settings, running


def _fitted_settings(preset, corpus, given, reasons):
    """Returns options and `run` arguments for a paper's preset, two dicts."""
    tokens, starts = len(corpus.train.tokens), corpus.train.document_starts
    row = registry.find(preset)[1]
    own_row = registry.find(_OWN + _up_to(tokens, _FITTED_TO))[1]
    settings = _fitted(row, own_row, tokens)
    if not given.keys().isdisjoint(_SCHEDULES):
        del settings["halve"]
    settings = {k: v for k, v in settings.items() if k not in given}
    running = {"epochs": _MOST_EPOCHS, "patience": own_row.patience}
    running = {k: v for k, v in running.items() if k not in given}
    reasons.append(
        f"{preset} is made for a larger text. Its size, optimizer and rates "
        f"are fitted to {tokens:,} tokens (--as_published keeps the paper's)."
    )
    batch_size = (given | settings)["batch_size"]
    reads_each = row.data().get("documents", False)
    too_few = starts is not None and len(starts) < 2 * batch_size
    if reads_each and too_few and "documents" not in given:
        settings["documents"] = False
        reasons.append(
            f"The {len(starts)} documents are read as one text, as they are "
            f"too few to fill {batch_size} rows (--documents separates them)."
        )
    return settings, running


def _is_own(preset):
    return preset.startswith(_OWN)


def _up_to(tokens, limits):
    """Returns the first key in `limits` whose value is at least `tokens`."""
    return next(key for key, most in limits.items() if tokens <= most)


def _fitted(row, ours, tokens):
    """Returns options that adapt a paper's preset `row` to a text of `tokens`
    tokens. `ours`, a `memlm/` preset for such a text, sets upper limits for
    the sizes, and may set the learning rate."""
    # A batch gets about as many tokens as in training a `memlm/` preset. With
    # the paper's larger batches, an epoch of a short text would have few
    # updates, and the learning rate would fall too soon.
    batch = _up_to(tokens, _BATCH_SIZE) * ours.segment_length
    fitted = {
        "batch_size": min(round(batch / row.segment_length), ours.batch_size),
        "dropout": _up_to(tokens, _DROPOUT),
    }
    if ours.units < row.units:
        fitted["scale"] = round(ours.units / row.units, 3)
    if getattr(row, "initial_range", None):
        # With smaller weights, a model learns word frequencies first and then
        # stalls, so the learning rate would be halved too soon.
        fitted["initial_range"] = ours.initial_range
    by_adam = row.optimizer()["class_name"] in ("Adam", "FusedAdam")
    if not by_adam:
        # A paper's learning rate for an optimizer other than Adam suits only
        # the paper's sizes.
        fitted["optimizer"] = "adam"
    if not by_adam or "scale" in fitted:
        fitted["learning_rate"] = ours.learning_rate
    return {**fitted, "halve": True}


def _tokenize(path):
    """Returns the name of a tokenizer for a text and the reason for choosing
    it, or `(None, None)` if splitting at white space is enough."""
    for training in (path / "train", path / "train.txt"):
        path = training if training.exists() else path
    try:
        lines = itertools.islice(TextSource(path).sentences(), _LINES)
        words = [word for line, _ in lines for word in line.split()]
    except (OSError, ValueError):
        # A text that cannot be read raises an error when the corpus is loaded.
        return None, None
    split = split_for(words)
    return split, _SPLITS.get(split)

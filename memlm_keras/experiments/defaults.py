"""The choice of a row and of settings for a text of one's own.

docs/results/defaults.md has what was measured. The other numbers are choices.
"""

import dataclasses
import itertools
import math
import os
import pathlib

from memlm_keras import registry
from memlm_keras.data.corpus import split_for
from memlm_keras.data.text_store import TextSource
from memlm_keras.experiments import process
from memlm_keras.experiments.datasets import Dataset
from memlm_keras.experiments.datasets import unit_of
from memlm_keras.experiments.names import folder_of_trained
from memlm_keras.experiments.names import kind_of
from memlm_keras.experiments.names import resolve
from memlm_keras.experiments.options import LANGUAGE_MODEL
from memlm_keras.experiments.options import READING
from memlm_keras.experiments.options import TEXTS
from memlm_keras.experiments.options import split_paths
from memlm_keras.presets import count_params

OWN = "memlm"
# Tokens of training text up to which a row is chosen.
_ROWS = {"small": 200_000, "medium": 2_000_000, "large": float("inf")}
# Rates of dropout, and the tokens of training text up to which each is chosen.
_DROPOUT = {0.6: 60_000, 0.5: 300_000, 0.4: 1_000_000, 0.3: float("inf")}
# The smallest row has time for few epochs of a longer text.
_SMALLEST_DROPOUT = _DROPOUT | {0.4: 700_000}
# Sizes of the smallest row for texts of more tokens than the first number, and
# no more than the second.
_PROJECTED, _PROJECTS = {"units": 248, "embedding_dim": 200}, (300_000, 10**6)
# Rows of an update, and the tokens of training text up to which each is chosen.
_BATCH_SIZE = {5: 60_000, 20: float("inf")}
# Operations of a core in ten minutes. The speed is that of a core times the
# square root of the number of cores, and of at most so many.
_OPERATIONS, _MOST_CORES = 2.1e13, 16
# Operations that take as long as the update of a weight. Fits one and two cores
# within a quarter.
_UPDATE = 180
# A GPU is so many times as fast as a core, and an update takes so many
# milliseconds more. Fits three rows on an H100 within a quarter, on PyTorch and
# JAX; on TensorFlow it was not measured.
_GPU, _GPU_UPDATE = 250, {"torch": 9, "jax": 2.5, "tensorflow": 9}
# Minutes of training for texts of up to so many tokens, for longer ones in
# proportion, and at most.
_MINUTES, _TOKENS, _MOST_MINUTES = 7.5, 500_000, 180
# Share of the memory that a row may take.
_MEMORY = 0.5
# Epochs at least, for which a row that is not the smallest must have time, and
# at most.
_FEWEST_EPOCHS, _ENOUGH_EPOCHS, _MOST_EPOCHS = 3, 12, 40
# Where there is no time for enough epochs, the rate of the smallest row falls
# linearly from this one.
_FALLING_RATE = 0.005
_SCHEDULES = ("halve_after", "linear_decay", "halve")
# Options that change how long an epoch takes.
_SIZES = ("scale", "units", "embedding_dim")
# Words that a target is compared with where all would take too long.
_NUM_SAMPLED = 2000
# Lines that decide how words are split, and the reasons.
_LINES = 1000
_SPLITS = {
    "characters": "This text has few spaces between its words, so its tokens "
    "are characters.",
    "unicode_script": "Punctuation is attached to words in this text, so it is "
    "split off.",
}
# Words that are among so many most frequent ones of an English text.
_ENGLISH, _FREQUENT = {"the", "of", "and", "to", "in"}, 40


@dataclasses.dataclass(frozen=True)
class Choice:
    """A preset and options that suit a text, with the reasons."""

    preset: str
    options: dict
    running: dict
    reasons: list
    corpus: object

    @property
    def is_own(self):
        """Whether the preset is one of the package's own rows."""
        return _is_own(self.preset)

    @property
    def is_english(self):
        """Whether the text is English as it is printed: its punctuation is
        attached to words, and the most frequent words are English ones."""
        tokens = self.corpus.vocabulary.tokens[:_FREQUENT]
        return self.options.get("tokenize") == "unicode_script" and (
            _ENGLISH <= {token.lower() for token in tokens}
        )


def choose_preset(dataset, preset=None, **given):
    """Chooses a preset, or the options of one, for a text.

    Without `preset`, the row of `memlm/` of the text's size is chosen, and how
    words are split. A paper's row gets the size and the rates of that row.

    Args:
        dataset: string, as for `Experiment`.
        preset: string, as for `Experiment`, or `None`.
        **given: options that are set already, which are not changed; `epochs`
            may be among them.

    Returns:
        `None` for a trained model, and for a preset that is not of a neural
        language model. Otherwise an object with the attributes `preset`,
        `options` (a dict of overrides for an `Experiment`), `running` (a dict
        of arguments of its `run`), `reasons` (a list of sentences), `corpus`
        and `is_english`.

    Raises:
        UsageError: as for `Experiment`.
        ValueError: for a text that cannot be read.

    Example:

    >>> from memlm_keras.experiments import choose_preset
    >>> choose_preset("embedded").preset
    'memlm/small'
    """
    if preset is not None:
        preset = resolve(preset)
        is_trained = folder_of_trained(preset) is not None
        if is_trained or kind_of(preset) != LANGUAGE_MODEL:
            return None
    reading = {o.name: given[o.name] for o in READING if o.name in given}
    options, reasons = {}, []
    if "tokenize" not in given and dataset not in TEXTS:
        tokenize, reason = _tokenize(pathlib.Path(split_paths(dataset)[0]))
        if tokenize is not None and (preset is None or _is_own(preset)):
            options["tokenize"] = reading["tokenize"] = tokenize
            reasons.append(reason)
        elif tokenize is not None:
            reasons.append(
                "Words are divided at white space alone, as the paper's text "
                f"is (--tokenize={tokenize} suits this text)."
            )
    corpus = Dataset(dataset, LANGUAGE_MODEL, reading=reading).load()
    tokens, size = len(corpus.train.tokens), len(corpus.vocabulary)
    rows = _up_to(tokens, _BATCH_SIZE)
    if preset is None:
        preset, refused = _own_row(tokens, size, **{"batch_size": rows} | given)
        reasons += refused
        reasons.append(
            f"{preset} suits a text of {tokens:,} tokens and {size:,} "
            f"{unit_of(corpus.vocabulary)}."
        )
    if not _is_own(preset):
        # Whatever this machine is, so that others continue the run.
        own_row = registry.find(f"{OWN}/{_up_to(tokens, _ROWS)}")[1]
        fitted = _fitted(registry.find(preset)[1], own_row, tokens)
        if not given.keys().isdisjoint(_SCHEDULES):
            del fitted["halve"]
        options |= {k: v for k, v in fitted.items() if k not in given}
        running = {"epochs": _MOST_EPOCHS, "patience": own_row.patience}
        running = {k: v for k, v in running.items() if k not in given}
        reasons.append(
            f"{preset} is made for a larger text. Its size, optimizer and "
            f"rates are fitted to {tokens:,} tokens (--as_published keeps the "
            "paper's)."
        )
        starts = corpus.train.document_starts
        reads_each = registry.find(preset)[1].data().get("documents", False)
        batch_size = (given | options)["batch_size"]
        too_few = starts is not None and len(starts) < 2 * batch_size
        if reads_each and too_few and "documents" not in given:
            options["documents"] = False
            reasons.append(
                f"The {len(starts)} documents are read as one text, as they "
                f"are too few to fill {batch_size} rows (--documents: each by "
                "itself)."
            )
        return Choice(preset, options, running, reasons, corpus)
    above, most = _PROJECTS
    smallest = preset == f"{OWN}/{next(iter(_ROWS))}"
    sized = not given.keys().isdisjoint(_SIZES)
    if smallest and above < tokens <= most and not sized:
        options |= _PROJECTED
        given |= _PROJECTED
        reasons.append(
            f"Its {given['units']} outputs are projected to the size of the "
            "embeddings, which pays for a text of this size."
        )
    if "dropout" not in given:
        rates = _SMALLEST_DROPOUT if smallest else _DROPOUT
        options["dropout"] = _up_to(tokens, rates)
        reasons.append(
            f"The dropout is {options['dropout']}, for {tokens:,} tokens."
        )
    if "batch_size" not in given:
        given["batch_size"] = options["batch_size"] = rows
    running, words = {}, _compared(preset, tokens, size, **given)
    if given.get("num_sampled") is None and words < size:
        options["num_sampled"] = words
        reasons.append(
            f"In training, targets are compared with {words:,} of the "
            "words, which is faster and costs about 1% (--num_sampled=0: all)."
        )
    minutes = _minutes(preset, tokens, words, size, **given)
    epochs = given.get("epochs")
    if epochs is None:
        epochs = int(_allowed(tokens) / minutes)
        epochs = min(max(epochs, _FEWEST_EPOCHS), _MOST_EPOCHS)
        running["epochs"] = epochs
        falls = given.keys().isdisjoint(_SCHEDULES)
        if falls and epochs < _ENOUGH_EPOCHS:
            options["linear_decay"] = epochs
            reasons.append(
                "The learning rate falls in a line to zero, as "
                "there is no time to wait until it gains no more."
            )
            if smallest and "learning_rate" not in given and not sized:
                given["learning_rate"] = _FALLING_RATE
                options["learning_rate"] = _FALLING_RATE
    row = dataclasses.asdict(registry.find(preset)[1]) | given
    reasons.append(
        f"An update reads {row['batch_size']} rows of {row['segment_length']} "
        f"tokens, at a rate of {row['learning_rate']:g}."
    )
    reasons.append(
        f"It is trained for at most {epochs} epoch{'s' * (epochs > 1)}, "
        f"by estimate {math.ceil(epochs * minutes):,} min on {_machine()}, "
        "and ends earlier if the validation text gains no more."
    )
    return Choice(preset, options, running, reasons, corpus)


def _is_own(preset):
    return preset.partition("/")[0] == OWN


def _up_to(tokens, limits):
    """Returns the first key whose limit is at least `tokens`."""
    return next(key for key, most in limits.items() if tokens <= most)


def _own_row(tokens, size, **given):
    """The row for a text, and why each larger one is not for this machine."""
    best = _up_to(tokens, _ROWS)
    rows = [f"{OWN}/{row}" for row in _ROWS]
    rows, reasons = rows[: rows.index(f"{OWN}/{best}") + 1], []
    while len(rows) > 1 and (
        reason := _too_large(rows[-1], tokens, size, **given)
    ):
        reasons.append(f"{rows.pop()} {reason}.")
    return rows[-1], reasons


def _compared(preset, tokens, size, num_sampled=None, **given):
    """Words that a target is compared with: as given, or a sample if there is
    no time for enough epochs with all."""
    if num_sampled is not None:
        return min(num_sampled or size, size)
    minutes = _ENOUGH_EPOCHS * _minutes(preset, tokens, size, size, **given)
    samples = size > 2 * _NUM_SAMPLED and minutes > _allowed(tokens)
    return _NUM_SAMPLED if samples else size


def _allowed(tokens):
    """Minutes that training may take."""
    return min(_MINUTES * max(tokens / _TOKENS, 1), _MOST_MINUTES)


def _minutes(preset, tokens, words, size, **given):
    """Minutes of an epoch in which a target is compared with so many words,
    with six operations a weight and token, and an update of all weights."""
    row = dataclasses.asdict(registry.find(preset)[1]) | given
    sizes = {name: given[name] for name in _SIZES if name in given}
    if sizes:
        # They are counted in a model.
        process.import_keras()
    updates = tokens / (row["batch_size"] * row["segment_length"])
    operations = 6 * count_params(preset, words, **sizes) * tokens
    operations += _UPDATE * count_params(preset, size, **sizes) * updates
    minutes = 10 * operations / (_speed() * _OPERATIONS)
    if _has_gpu():
        minutes += _GPU_UPDATE[process.backend()] * updates / 60_000
    return minutes


def _too_large(preset, tokens, size, **given):
    """Why a row is not for this machine, or `None`."""
    if _bytes(preset, size) > _memory():
        return "needs more than half of the memory"
    words = _compared(preset, tokens, size, **given)
    minutes = _ENOUGH_EPOCHS * _minutes(preset, tokens, words, size, **given)
    if minutes > _allowed(tokens):
        return (
            f"would take about {minutes:,.0f} min for {_ENOUGH_EPOCHS} epochs "
            f"on {_machine()}"
        )
    return None


def _machine():
    return "a GPU like an H100" if _has_gpu() else f"{_cores()} CPU"


def _has_gpu():
    return bool(process.accelerators(process.backend()))


def _speed():
    """The speed of this machine as a multiple of a core's."""
    if _has_gpu():
        return _GPU
    return min(_cores(), _MOST_CORES) ** 0.5


def _cores():
    """Cores that this process may use."""
    allowed = getattr(os, "sched_getaffinity", None)
    count = len(allowed(0)) if allowed else os.cpu_count() or 1
    quota, *period = _limit("cpu.max")
    if period:
        count = min(count, max(1, round(quota / period[0])))
    return count


def _limit(name):
    """Numbers of a limit of the container, infinite where there is none."""
    try:
        words = pathlib.Path("/sys/fs/cgroup", name).read_text().split()
        return [float("inf" if word == "max" else word) for word in words]
    except (OSError, ValueError):
        return [float("inf")]


def _bytes(preset, size):
    """Bytes of a row in training: weights, their gradients and the two moments
    of Adam, and three arrays of probabilities."""
    row = registry.find(preset)[1]
    probabilities = row.batch_size * row.segment_length * size
    return 4 * (4 * count_params(preset, size) + 3 * probabilities)


def _memory():
    """Bytes that a row may take; without limit where it is not known."""
    try:
        total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        total = 0
    total = total if total > 0 else float("inf")
    return _MEMORY * min(total, _limit("memory.max")[0])


def _fitted(row, ours, tokens):
    """Options that give a paper's row the size, the optimizer and the rates of
    ours."""
    # An update of a short text reads as many tokens as ours. With more, there
    # are so few in an epoch that the rate is halved too soon.
    rows = _up_to(tokens, _BATCH_SIZE) * ours.segment_length
    fitted = {
        "batch_size": min(round(rows / row.segment_length), ours.batch_size),
        "dropout": _up_to(tokens, _DROPOUT),
    }
    if ours.units < row.units:
        fitted["scale"] = round(ours.units / row.units, 3)
    if getattr(row, "initial_range", None):
        # With smaller weights, training first learns word frequencies alone,
        # and then stops improving, so that the rate would be halved too soon.
        fitted["initial_range"] = ours.initial_range
    by_adam = row.optimizer()["class_name"] in ("Adam", "FusedAdam")
    if not by_adam:
        # Rates of other optimizers suit the published sizes.
        fitted["optimizer"] = "adam"
    if not by_adam or "scale" in fitted:
        fitted["learning_rate"] = ours.learning_rate
    return {**fitted, "halve": True}


def _tokenize(path):
    """The splitter for the words of a text, and the reason; `None` where white
    space divides them well."""
    for training in (path / "train", path / "train.txt"):
        path = training if training.exists() else path
    try:
        lines = TextSource(path).sentences()
    except (OSError, ValueError):
        # Reading the corpus says what is wrong.
        return None, None
    lines = itertools.islice(lines, _LINES)
    words = [word for line, _ in lines for word in line.split()]
    split = split_for(words)
    return split, _SPLITS.get(split)

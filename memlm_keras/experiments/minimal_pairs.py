"""`memlm pairs`: minimal pairs by paradigm, phenomenon and field."""

import json
import math
import statistics
import time

from scipy import special

from memlm_keras import files
from memlm_keras.data import tables
from memlm_keras.data.tables import table_text
from memlm_keras.experiments import run_folder
from memlm_keras.experiments.options import UsageError
from memlm_keras.experiments.report import markdown_table
from memlm_keras.linguistics import minimal_pairs
from memlm_keras.linguistics import read_minimal_pairs
from memlm_keras.linguistics import read_suites
from memlm_keras.linguistics import suite_results
from memlm_keras.linguistics.minimal_pairs import SUFFIXES
from memlm_keras.linguistics.minimal_pairs import published_mean
from memlm_keras.linguistics.minimal_pairs import read_published
from memlm_keras.linguistics.plots import draw_accuracies

# Columns of tables, and the attributes of accuracies.
_COLUMNS = {
    "pairs": "pairs",
    "items": "items",
    "accuracy": "accuracy",
    "95% interval": "interval",
    "half credit": "half_credit",
    "ties": "ties",
    "same": "same",
    "of the rest": "accuracy_of_rest",
    "unknown": "unknown",
}
_NOTE = (
    "accuracy: share of pairs whose good sentence scores higher; of several "
    "paradigms, their mean. same: ties whose sentences are the same for the "
    "model, by unknown words. of the rest: accuracy without these pairs."
)
_NOTE_OF_SUITES = (
    "accuracy: share of items whose predictions all hold; of several suites, "
    "their mean. ties: items in which < or > compares equal numbers. unknown: "
    "items with a word that is not in the vocabulary."
)


def measure_runs(path, load, runs, values):
    """Measures runs, by name, on the pairs or suites of a path, and prints
    tables.

    `load` returns the model of a run and its vocabulary, or `None` for its own;
    `values` are the options of the command."""
    measure, note = _suites(path, values) or _pairs(path, values)
    published = {}
    if "published" in values:
        published = read_published(values["published"])
    measured = {}
    for run in runs:
        model, vocabulary = load(run)
        begin = time.monotonic()
        measured[run] = result = measure(model, vocabulary)
        seconds = time.monotonic() - begin
        print(f"# {run}\n\n{result.accuracy}\n\n{result.protocol}", end="")
        print(f"; {len(result)} in {seconds:.1f} s\n", flush=True)
        print("\n".join(_table(result, published)), end="\n\n")
    print("\n".join([note, *_over_seeds(measured)]))
    if "out" in values:
        with files.atomic_path(values["out"]) as temporary:
            temporary.write_text(_rows(measured), encoding="utf-8")
    if "plot" in values:
        draw_accuracies(measured, values["plot"], published)


def _pairs(path, values):
    """A function that measures a model on minimal pairs, and a note."""
    pairs = read_minimal_pairs(path)

    def measure(model, vocabulary):
        result = minimal_pairs(
            model,
            pairs,
            vocabulary,
            method=values["method"],
            eos=values.get("eos", False),
            mean=values.get("mean", False),
            verbose=0,
        )
        if left_out := len(pairs) - len(result):
            print(f"{left_out} pairs lack the fields of the method.")
        return result

    return measure, _NOTE


def _suites(path, values):
    """The same for test suites, or `None` if there are none."""
    names = [name for name, _ in tables.read_texts(path, (".json", *SUFFIXES))]
    kinds = {name.suffix.lower() == ".json" for name in names}
    if True not in kinds:
        return None
    if len(kinds) > 1:
        raise UsageError(
            f"{path} has both suites (.json) and pairs. Measure one at a time."
        )
    for name in ("eos", "mean"):
        if values.get(name) or values["method"] != "simple":
            raise UsageError("Suites take no --method, --eos and --mean.")
    suites = read_suites(path)

    def measure(model, vocabulary):
        return suite_results(model, suites, vocabulary, verbose=0)

    return measure, _NOTE_OF_SUITES


def _table(result, published):
    """Lines of the accuracies of one run, overall and by level."""
    columns = {
        column: name
        for column, name in _COLUMNS.items()
        if hasattr(result.accuracy, name)
    }
    lowest = result.levels[-1]
    every = set().union(*result.paradigms(lowest).values())
    rows = [("overall", result.accuracy, every)]
    for level in result.levels:
        paradigms = result.paradigms(level)
        for value, accuracy in result.by(level).items():
            rows.append((f"{level} {value}", accuracy, paradigms[value]))
    cells = []
    for name, accuracy, paradigms in rows:
        means = [published_mean(p, paradigms) for p in published.values()]
        values = [getattr(accuracy, column) for column in columns.values()]
        cells.append([name, *map(_cell, [*values, *means])])
    return markdown_table(["", *columns, *published], cells)


def _cell(value):
    """A number, an interval or `None` as text."""
    if isinstance(value, tuple):
        return " to ".join(map(_cell, value))
    if isinstance(value, float):
        return f"{value:.3f}"
    return "" if value is None else value


def _over_seeds(measured):
    """Lines with the mean of runs that differ in their seed alone."""
    settings = {}
    for run, result in measured.items():
        folder = run_folder.find(run)
        if folder is not None:
            recipe = {**folder.recipe()}
            seed = recipe.pop("seed", 0)
            seeds = settings.setdefault(json.dumps(recipe, sort_keys=True), {})
            seeds[seed] = result.accuracy.accuracy
    for recipe, seeds in settings.items():
        if len(seeds) > 1:
            values = list(seeds.values())
            mean, number = statistics.mean(values), len(values)
            error = statistics.stdev(values) / math.sqrt(number)
            half = special.stdtrit(number - 1, 0.975) * error
            yield (
                f"{json.loads(recipe)['preset']}, seeds "
                f"{', '.join(map(str, seeds))}: accuracy {mean:.4f}, 95% "
                f"interval over seeds {mean - half:.4f} to {mean + half:.4f}"
            )


def _rows(measured):
    """Rows of all pairs; of several runs, each row names its own."""
    text = []
    for run, result in measured.items():
        columns = result.columns()
        if len(measured) > 1:
            columns = {"run": [str(run)] * len(result), **columns}
        header, *lines = table_text(columns).splitlines(keepends=True)
        text += lines if text else [header, *lines]
    return "".join(text)

"""`memlm pairs` and `memlm certify`: tests of grammar and of probabilities."""

import dataclasses
import functools
import json
import math
import statistics
import time

import memlm_keras as memlm
from memlm_keras.experiments import options
from memlm_keras.experiments import process
from memlm_keras.experiments.command_line import command
from memlm_keras.experiments.opened import average
from memlm_keras.experiments.opened import open_run
from memlm_keras.experiments.opened import require_different
from memlm_keras.experiments.tables.report import markdown_table

# Columns of a table, and the attributes of `PairAccuracy` that they show.
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
    "accuracy: share of pairs whose good sentence scores higher; the mean over "
    "paradigms. same: ties whose sentences differ only in unknown words. of "
    "the rest: accuracy without these pairs."
)
_NOTE_OF_SUITES = (
    "accuracy: share of items whose predictions all hold; the mean over "
    "suites. ties: items in which < or > compares equal numbers. unknown: "
    "items with a word that is not in the vocabulary."
)


@command(
    "Prints how often models prefer the good sentence of minimal pairs, by "
    "paradigm, phenomenon and field; or how often predictions of SyntaxGym's "
    "suites hold, by circuit. PATH is a file (BLiMP's .jsonl; .csv or .tsv "
    "with sentence_good and sentence_bad; a suite as .json), a folder of "
    "files, or a .zip archive.",
    {"RUN": "+", "PATH": None},
    options.Option(
        "method",
        str,
        "Compare whole sentences or, for pairs with BLiMP's fields, two words "
        "after one prefix, or one word after two prefixes.",
        choices=("simple", "one_prefix", "two_prefix"),
    ),
    options.Option("eos", bool, "Score the end of the sentence too."),
    options.Option("mean", bool, "Compare means over tokens instead of sums."),
    options.to_write(
        "out", help="Table to write, with a row for each pair or each region."
    ),
    options.to_write(
        "plot",
        help="Picture of accuracies by phenomenon or circuit to write.",
        writes=".png",
    ),
    options.Option(
        "published",
        str,
        "File of published accuracies: BLiMP's models_summary.jsonl, or a .csv "
        "with model, suite, item and correct.",
    ),
)
def pairs(
    run: list,
    path: str,
    method: str = "simple",
    eos: bool = False,
    mean: bool = False,
    out: str | None = None,
    plot: str | None = None,
    published: str | None = None,
):
    require_different(run)
    process.import_keras()
    from memlm_keras.linguistics import plots
    from memlm_keras.linguistics.minimal_pairs import read_published

    with options.wrong_use():
        measure, number, note = _reader(path, method, eos, mean)
        theirs = {} if published is None else read_published(published)
    opened, measured = [*map(open_run, run)], {}
    for each in opened:
        model = each.model_that("score")
        begin = time.monotonic()
        with options.wrong_use(), memlm.data.tables.naming(path):
            result = measure(model, vocabulary=each.vocabulary, verbose=0)
        measured[each.path] = result
        seconds = time.monotonic() - begin
        if left_out := number - len(result):
            print(f"{left_out} pairs without the method's fields are left out.")
        print(
            f"# {each.path}\n\n{result.accuracy}\n\n{result.protocol}; "
            f"{len(result)} in {seconds:.1f} s\n",
            flush=True,
        )
        print("\n".join(_table(result, theirs)), end="\n\n")
    print("\n".join([note, *_over_seeds(opened, measured)]))
    if out is not None:
        with process.writing(out) as file:
            file.write(_rows(measured))
    if plot is not None:
        plots.draw_accuracies(measured, plot, theirs)


def _reader(path, method, eos, mean):
    """Reads minimal pairs or test suites. Returns three values: a function that
    measures a model on all pairs or items, the number of pairs or items, and a
    note to print below the table."""
    from memlm_keras.linguistics.minimal_pairs import SUFFIXES

    linguistics = memlm.linguistics
    texts = memlm.data.tables.read_texts(path, (".json", *SUFFIXES))
    kinds = {name.suffix.lower() == ".json" for name, _ in texts}
    if len(kinds) > 1:
        raise options.UsageError(
            f"{path} has both test suites (.json) and minimal pairs. Put "
            "them in different folders, and measure each folder."
        )
    if True in kinds:
        if eos or mean or method != "simple":
            raise options.UsageError(
                "--method, --eos and --mean do not apply to suites."
            )
        suites = linguistics.read_suites(path)
        measure = functools.partial(linguistics.suite_results, suites=suites)
        return measure, sum(len(s.items) for s in suites), _NOTE_OF_SUITES
    pairs = linguistics.read_minimal_pairs(path)
    given = {"pairs": pairs, "method": method, "eos": eos, "mean": mean}
    measure = functools.partial(linguistics.minimal_pairs, **given)
    return measure, len(pairs), _NOTE


def _table(result, published):
    """Returns the lines of a table: accuracy on all items, and on the items of
    each group, such as a paradigm or a suite."""
    from memlm_keras.linguistics.minimal_pairs import published_mean

    columns = {
        column: name
        for column, name in _COLUMNS.items()
        if hasattr(result.accuracy, name)
    }
    lowest = result.levels[-1]
    every = set().union(*result.paradigms(lowest).values())
    if published and not any(map(every.intersection, published.values())):
        print("--published has no accuracy of these paradigms.\n")
        published = {}
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
    if isinstance(value, tuple):
        return " to ".join(map(_cell, value))
    if isinstance(value, float):
        return f"{value:.3f}"
    return "" if value is None else value


def _over_seeds(opened, measured):
    """Yields lines with the mean accuracy of runs that differ only in seed."""
    from scipy import special

    settings = {}
    for run in opened:
        result = measured[run.path]
        if run.folder is not None:
            recipe = {**run.folder.recipe()}
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
    """Returns a table of all pairs or regions as text. With several runs, the
    first column of the table names the run."""
    text = []
    for run, result in measured.items():
        columns = result.columns()
        if len(measured) > 1:
            rows = len(next(iter(columns.values())))
            columns = {"run": [str(run)] * rows, **columns}
        lines = memlm.data.tables.table_text(columns).splitlines(True)
        text += lines[bool(text) :]
    return "".join(text)


@command(
    "Checks, from its outputs alone, that a model (or the average of several) "
    "gives valid probabilities: causal, normalised, and more. RUN may also be "
    "an exported .onnx or .tflite file, or the folder of a SavedModel. The "
    "exit status is 1 if a check fails.",
    {"RUN": "+"},
    options.Option(
        "same_as",
        str,
        "Another RUN, such as the model of an exported file, which must give "
        "the same probabilities.",
    ),
    options.CACHE,
    options.RATE,
    options.Option(
        "tolerance", float, "Largest difference that passes, in nats.", above=0
    ),
    options.seed("Seed of the random texts to read."),
    options.Option(
        "length",
        int,
        "Tokens in each random text; by default more than the longest window "
        "and chunk of the model.",
        at_least=32,
    ),
    options.to_write("out", help="JSON file to write as well."),
)
def certify(
    run: list,
    same_as: str | None = None,
    cache: bool = False,
    rate: float | None = None,
    tolerance: float = 1e-4,
    seed: int = 0,
    length: int | None = None,
    out: str | None = None,
):
    process.import_keras()
    from memlm_keras.serving.exported import find_exported

    def load(paths, rate=None):
        if rate is None and len(paths) == 1:
            with options.wrong_use():
                if find_exported(paths[0]):
                    return memlm.serving.load(paths[0])
        return average([*map(open_run, paths)], rate, cache)

    model, other = load(run, rate), same_as and load([same_as])
    with options.wrong_use():
        certificate = memlm.linguistics.certify(
            model, same_as=other, tolerance=tolerance, seed=seed, length=length
        )
    certificate = dataclasses.replace(
        certificate, model=f"{' '.join(run)}: {certificate.model}"
    )
    print(certificate)
    if out is not None:
        certificate.write(out)
    return 0 if certificate.passed else 1

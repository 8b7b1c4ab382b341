"""`memlm pairs`: minimal pairs by paradigm, phenomenon and field."""

import json
import math
import statistics
import time

from memlm_keras import files
from memlm_keras.evaluation import minimal_pairs
from memlm_keras.evaluation import read_minimal_pairs
from memlm_keras.experiments import run_folder
from memlm_keras.experiments.claims import t_quantile
from memlm_keras.experiments.report import markdown_table
from memlm_keras.models.surprisal import table_text

# Rows of BLiMP's summary of its authors' models, and their names in the paper.
PUBLISHED = {
    "ngram": "5-gram",
    "lstm": "LSTM",
    "txl": "Transformer-XL",
    "gpt2": "GPT-2",
}
_COLUMNS = (
    "pairs",
    "accuracy",
    "95% interval",
    "half credit",
    "ties",
    "same",
    "of the rest",
)
_NOTE = (
    "accuracy: share of pairs whose good sentence scores higher; of several "
    "paradigms, their mean. same: ties whose sentences are the same for the "
    "model, by unknown words. of the rest: accuracy without these pairs."
)


def measure_runs(path, load, runs, values):
    """Measures runs, by name, on the pairs of a path, and prints tables.

    `load` returns the model of a run and its vocabulary, or `None` for its own;
    `values` are the options of the command."""
    pairs = read_minimal_pairs(path)
    published = {}
    if "published" in values:
        published = read_published(values["published"])
    measured = {}
    for run in runs:
        model, vocabulary = load(run)
        begin = time.monotonic()
        measured[run] = result = minimal_pairs(
            model,
            pairs,
            vocabulary,
            method=values["method"],
            eos=values.get("eos", False),
            mean=values.get("mean", False),
            verbose=0,
        )
        seconds = time.monotonic() - begin
        print(f"# {run}\n\n{result.accuracy}\n\n{result.protocol}", end="")
        if left_out := len(pairs) - len(result):
            print(f"; {left_out} pairs without its fields are left out", end="")
        print(f"; {len(result)} pairs in {seconds:.1f} s\n", flush=True)
        print("\n".join(_table(result, published)), end="\n\n")
    print("\n".join([_NOTE, *_over_seeds(measured)]))
    if "out" in values:
        with files.atomic_path(values["out"]) as temporary:
            temporary.write_text(_rows(measured), encoding="utf-8")
    if "plot" in values:
        draw(measured, values["plot"], published)


def read_published(path):
    """Reads accuracies of other models from JSON lines such as BLiMP's
    `models_summary.jsonl`: `{model: {paradigm: accuracy}}`."""
    remedy = "Expected BLiMP's models_summary.jsonl, or lines like its own."
    published = {}
    with files.reading(path, "summary of models", remedy):
        with open(path, encoding="utf-8") as file:
            for row in map(json.loads, filter(str.strip, file)):
                paradigm = row["UID"]
                for name, value in row.items():
                    if isinstance(value, (int, float)):
                        model = PUBLISHED.get(name, name)
                        published.setdefault(model, {})[paradigm] = value
        if not published:
            raise ValueError("it has no accuracy")
    return published


def published_mean(accuracies, paradigms):
    """Mean of published accuracies over paradigms; `None` if one is missing."""
    values = [accuracies.get(name) for name in paradigms]
    return None if None in values else statistics.mean(values)


def _table(result, published):
    """Lines of the accuracies of one run, overall and by level."""
    every = set().union(*result.paradigms("paradigm").values())
    rows = [_row("overall", result.accuracy, published, every)]
    for level in result.levels:
        paradigms = result.paradigms(level)
        for value, accuracy in result.by(level).items():
            name = f"{level} {value}"
            rows.append(_row(name, accuracy, published, paradigms[value]))
    return markdown_table(["", *_COLUMNS, *published], rows)


def _row(name, accuracy, published, paradigms):
    low, high = accuracy.interval
    means = (published_mean(each, paradigms) for each in published.values())
    return [
        name,
        accuracy.pairs,
        f"{accuracy.accuracy:.3f}",
        f"{low:.3f} to {high:.3f}",
        f"{accuracy.half_credit:.3f}",
        accuracy.ties,
        accuracy.same,
        f"{accuracy.accuracy_of_rest:.3f}",
        *("" if mean is None else f"{mean:.3f}" for mean in means),
    ]


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
            half = t_quantile(0.05, number - 1) * error
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


def draw(measured, path, published):
    """Draws accuracies by phenomenon, or by paradigm without any, as PNG."""
    from matplotlib.figure import Figure

    first = next(iter(measured.values()))
    level = "phenomenon" if first.by("phenomenon") else "paradigm"
    groups = list(first.by(level))
    figure = Figure((8, 1.5 + 0.4 * len(groups)), layout="constrained")
    axes = figure.subplots()
    places = range(len(groups))
    for number, (run, result) in enumerate(measured.items()):
        found = [result.by(level)[name] for name in groups]
        middle = [each.accuracy for each in found]
        ends = [
            [m - each.interval[0], each.interval[1] - m]
            for m, each in zip(middle, found)
        ]
        shift = 0.1 * (number - (len(measured) - 1) / 2)
        axes.errorbar(
            middle,
            [place + shift for place in places],
            xerr=list(zip(*ends)),
            fmt="o",
            capsize=3,
            label=str(run),
        )
    paradigms = first.paradigms(level)
    for (model, accuracies), marker in zip(published.items(), "x+^dvs1234"):
        means = [published_mean(accuracies, paradigms[name]) for name in groups]
        axes.plot(
            [math.nan if mean is None else mean for mean in means],
            places,
            marker,
            color="grey",
            label=f"{model}, published",
        )
    axes.axvline(0.5, color="lightgrey", zorder=0)
    axes.set_yticks(places, groups)
    axes.set_ylim(len(groups) - 0.5, -0.5)
    axes.set_xlim(0, 1)
    axes.set_xlabel("accuracy")
    figure.legend(loc="outside lower center", ncols=3)
    with files.atomic_path(path) as temporary:
        figure.savefig(temporary, format="png", dpi=150)

"""Commands that list, train and tabulate, once Keras is there."""

import fnmatch
import itertools
import pathlib
import re
import shlex

from memlm_keras import registry
from memlm_keras.experiments import figures
from memlm_keras.experiments import options
from memlm_keras.experiments import report
from memlm_keras.experiments import settings
from memlm_keras.experiments.evaluation_commands import print_numbers
from memlm_keras.experiments.experiment import Experiment
from memlm_keras.experiments.options import UsageError
from memlm_keras.experiments.options import read_options
from memlm_keras.experiments.options import take
from memlm_keras.experiments.table import TableRuns
from memlm_keras.experiments.tasks import smoothing_of
from memlm_keras.presets import count_params


def presets(positional, values, command):
    """Lists presets by paper: sizes, and what each is."""
    pattern = positional.pattern or "*"
    names = registry.names()
    found = [
        name
        for name in names
        if pattern in name or fnmatch.fnmatch(name, pattern)
    ]
    if not found:
        raise UsageError(
            f"No preset is like {pattern}.{options.nearest(pattern, names)}"
        )
    size = values.get("vocabulary_size", 10_000)
    scale = values.get("scale", 1.0)
    width = max(map(len, found))
    print(f"{'preset':{width}} {'units':>5} {f'V={size:,}':>12}  what it is")
    last = None
    for name in found:
        paper = registry.find(name)[0]
        if paper is not last:
            print(f"\n{paper.source()}")
            last = paper
        preset = registry.get(name, scale=scale)
        count = count_params(name, size, scale=scale)
        print(
            f"{name:{width}} {preset['units']:>5} {count:>12,}  "
            f"{describe(preset)}",
            flush=True,
        )


def describe(preset):
    """Says in words what a preset is.

    Args:
        preset: dict, as `memlm_keras.presets.get` returns.

    Example:

    >>> describe(memlm_keras.presets.get("daniluk2017/key_value_predict"))
    'LSTM 834, key value predict of window 5'
    """
    model = preset["model"]
    parts = [model[key] for key in ("encoder", "decoder") if key in model]
    layers = model.get("recurrent", parts)
    layers = layers if isinstance(layers, list) else [layers]
    layers += [
        model[k] for k in ("recurrent_hypothesis", "top") if model.get(k)
    ]
    layers += model.get("recurrent_above") or []
    words = []
    for text, equal in itertools.groupby(map(_in_words, layers)):
        count = len(list(equal))
        words.append(text if count == 1 else f"{count} x {text}")
    for part in ("memory", "mixture"):
        if model.get(part) is not None:
            words.append(_in_words(model[part]))
    for what, noise in (
        ("smoothing", smoothing_of(model)),
        ("data noising", preset.get("noise")),
    ):
        if noise:
            scheme = noise["scheme"].replace("_", " ")
            each = "element-wise " * noise.get("element_wise", False)
            words.append(f"{each}{scheme} {what}")
    if model.get("tie_embeddings"):
        words.append("tied embeddings")
    return ", ".join(words)


def _in_words(layer):
    """A serialized layer as its name with the sizes that it is known by."""
    while "cell" in layer["config"]:
        layer = layer["config"]["cell"]
    name = layer["class_name"].removesuffix("Cell")
    # A hump begins a word, but of all that is written in capitals.
    words = re.findall(r"[A-Z]+(?![a-z])|[A-Z][a-z]+", name)
    text = " ".join(w if w.isupper() else w.lower() for w in words)
    config = layer["config"]
    kind = config.get("composition") or config.get("score")
    text = f"{kind} {text}" if kind else text
    if "units" in config:
        return f"{text} {config['units']}"
    for size in ("window", "order", "size"):
        if config.get(size) is not None:
            return f"{text} of {size} {config[size]}"
    return text


def train(positional, values, command):
    """Trains, and tells what came of it and what may come next."""
    running = take(settings.RUNNING, values)
    pictures = take(settings.PICTURES, values)
    measures = take(settings.MEASURES, values)
    run_dir = values.pop("run_dir", "runs")
    overwrite = values.pop("overwrite", False)
    experiment = Experiment(
        positional.preset, values.pop("dataset", "embedded"), **values
    )
    measures = read_options(settings.MEASURES, measures, experiment.kind)
    figures.check_pictures(experiment, pictures)
    folder = pathlib.Path(run_dir, experiment.name)
    results = experiment.run(
        folder,
        **running,
        measures=measures,
        pictures=pictures,
        overwrite=overwrite,
        command=command,
    )
    _tell(experiment, folder, results, measures)


def _tell(experiment, folder, results, measures):
    """Prints what came of a run, and what may be typed next."""
    print(report.outcome(results, experiment.task.measures))
    wanted = experiment.task.wanted(experiment, measures)
    print_numbers({key: results[key] for key in wanted})
    print(f"All of it is in {folder}")
    path = shlex.quote(str(folder))
    lines = []
    if experiment.kind == options.LANGUAGE_MODEL:
        words = figures.drawn_words(experiment.corpus)[:3]
        prompt = " ".join(words).replace('"', "")
        lines.append(f'memlm generate {path} "{prompt}"')
    elif experiment.kind == options.CLASSIFIER:
        decode = experiment.corpus.vocabulary.decode
        test = experiment.corpus.test
        pair = (test.premises[0], test.hypotheses[0])
        texts = [shlex.quote(" ".join(decode(sequence))) for sequence in pair]
        lines.append(f"memlm predict {path} {' '.join(texts)}")
    if list(folder.glob("*.png")):
        lines.append(f"memlm attention {path}")
    if experiment.kind in (options.LANGUAGE_MODEL, options.CLASSIFIER):
        lines.append(f"memlm export {path}")
    if lines:
        print("\n  ".join(["Next, for instance:", *lines]))


def table(positional, values, command):
    """Trains a table; returns the exit status."""
    rows = values.pop("rows", None)
    seeds = _integers(values.pop("seeds", "0"))
    finished_only = values.pop("finished_only", False)
    overwrite = values.pop("overwrite", False)
    passed = {
        **take(settings.RUNNING, values),
        **take(settings.PICTURES, values),
    }
    measures = take(settings.MEASURES, values)
    run_dir = values.pop("run_dir", "runs")
    dataset = values.pop("dataset", None)
    overrides = read_options(settings.OVERRIDES.values(), values)
    runs = TableRuns(
        positional.table,
        dataset,
        run_dir=run_dir,
        rows=None if rows is None else rows.split(","),
        grid=_grid(positional.grid or ()),
        overrides=overrides,
        measures=measures,
    )
    failed = runs.fill(seeds, passed, finished_only, overwrite, command)
    return 1 if failed else 0


def _grid(texts):
    """`SETTING=VALUE,VALUE` as a dict of lists."""
    grid = {}
    for text in texts:
        name, equals, values = text.partition("=")
        if not equals or not values:
            raise UsageError(
                "--grid lists settings, such as learning_rate=0.1,1. "
                f"Received: {text!r}"
            )
        grid[name.lstrip("-")] = values.split(",")
    return grid


def _integers(text):
    parts = text.split(",")
    if not all(p.strip().isdecimal() for p in parts) or len(
        {int(p) for p in parts}
    ) < len(parts):
        raise UsageError(
            "--seeds must list different integers, such as 0,1,2. Received: "
            f"{text!r}"
        )
    return [int(part) for part in parts]

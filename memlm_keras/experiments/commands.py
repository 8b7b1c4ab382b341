"""What each subcommand of `memlm` does, once Keras is there."""

import fnmatch
import math
import pathlib
import shlex
import sys

import keras
import numpy as np

import memlm_keras
from memlm_keras import presets as all_presets
from memlm_keras.experiments import figures
from memlm_keras.experiments import options
from memlm_keras.experiments import report
from memlm_keras.experiments import run_folder
from memlm_keras.experiments.experiment import Experiment
from memlm_keras.experiments.options import UsageError
from memlm_keras.experiments.options import read_options
from memlm_keras.presets import count_params

_END = "(end of sentence)"
_TOP_K = 10


def presets(given, values, command):
    """Lists presets as one line each."""
    pattern = given.pattern or "*"
    names = all_presets.names()
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
    print(f"{'preset':{width}} {'units':>6} {f'V={size:,}':>12}  source")
    for name in found:
        preset = all_presets.get(name, scale=scale)
        count = count_params(name, size, scale=scale)
        print(
            f"{name:{width}} {preset['units']:>6} {count:>12,}  "
            f"{preset['source']}",
            flush=True,
        )


def train(given, values, command):
    """Trains, and tells what came of it and what may come next."""
    running = read_options(options.RUNNING, _take(options.RUNNING, values))
    measures = _take(options.MEASURES, values)
    pictures = read_options(options.PICTURES, _take(options.PICTURES, values))
    run_dir = values.pop("run_dir", "runs")
    overwrite = values.pop("overwrite", False)
    experiment = Experiment(
        given.preset, values.pop("dataset", "embedded"), **values
    )
    measures = read_options(options.MEASURES, measures, experiment.kind)
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
    _tell(experiment, folder, results)


def _tell(experiment, folder, results):
    print(report.outcome(results, experiment.task.measures))
    print(f"All of it is in {folder}")
    if not experiment.task.is_trained:
        return
    path = shlex.quote(str(folder))
    lines = [f"memlm attention {path}", f"memlm export {path}"]
    if not list(folder.glob("*.png")):
        lines.pop(0)
    if experiment.kind == options.LANGUAGE_MODEL:
        lines.insert(0, f'memlm generate {path} "{_prompt(experiment)}"')
    elif experiment.kind == options.CLASSIFIER:
        decode = experiment.corpus.vocabulary.decode
        test = experiment.corpus.test
        pair = (
            shlex.quote(" ".join(decode(sequence[0])))
            for sequence in (test.premises, test.hypotheses)
        )
        lines.insert(0, f"memlm predict {path} {' '.join(pair)}")
    else:
        lines.pop()
    if lines:
        print("\n  ".join(["Next, for instance:", *lines]))


def _prompt(experiment):
    """The first words of the test text."""
    words = figures.drawn_words(experiment.corpus)[:3]
    return " ".join(words).replace('"', "")


def evaluate(given, values, command):
    """Measures a run again, and by what is asked for besides."""
    verbose = values.pop("verbose", 1)
    measures = _take(options.MEASURES, values)
    folders = [run_folder.find(path) for path in given.run]
    if len(folders) > 1:
        return _evaluate_mean(given.run, folders, verbose)
    folder = folders[0]
    if folder is None:
        raise UsageError(
            f"{given.run[0]} is a model without its run folder, so nobody "
            "knows which text it is to be measured on. Name the run folder."
        )
    recipe = {**folder.recipe(), **values}
    experiment = _again(recipe, folder if not values else None)
    measures = read_options(options.MEASURES, measures, experiment.kind)
    experiment.task.check_measures(experiment, measures)
    model = folder.model()
    found = experiment.task.measure(experiment, model, verbose)
    if not values and folder.results() is not None:
        more = experiment.task.measure_more(
            experiment, model, measures, verbose, folder.results()
        )
        found = folder.add_results({**found, **more})
    _tell_numbers(found)


def _evaluate_mean(paths, folders, verbose):
    """Measures the mean of what several models predict."""
    from memlm_keras.evaluation import perplexity
    from memlm_keras.experiments.language_models import evaluation_batches

    if None in folders:
        raise UsageError("Several models are named by their run folders.")
    experiments = [_again(folder.recipe(), folder) for folder in folders]
    first = experiments[0]
    for path, experiment in zip(paths, experiments):
        if experiment.kind != options.LANGUAGE_MODEL:
            raise UsageError(f"{path} is no language model.")
        if experiment.corpus.fingerprint != first.corpus.fingerprint:
            raise UsageError(
                f"{path} is of another text than {paths[0]}, or of another "
                "vocabulary."
            )
        if experiment.dataset.sentences != first.dataset.sentences:
            raise UsageError(
                "Models that all read sentences can be averaged, or that none "
                f"does. Received: {paths[0]} and {path}"
            )
    ensemble = memlm_keras.Ensemble([folder.model() for folder in folders])
    found = {
        split: report.plain_perplexity(
            perplexity(ensemble, batches, verbose=verbose)
        )
        for split, batches in evaluation_batches(first, ensemble).items()
    }
    count = ensemble.count_params()
    print(f"Average of {len(folders)} models, {count:,} parameters:")
    _tell_numbers(found)


def _tell_numbers(found):
    """Prints the numbers of results, one a line."""
    for key, value in found.items():
        if not isinstance(value, dict):
            continue
        if "validation" in value or "test" in value or key == "cbt":
            _tell_numbers(
                {
                    f"{key}, {split}": inner
                    for split, inner in value.items()
                    if isinstance(inner, dict)
                }
            )
            continue
        for name in (
            "perplexity",
            "accuracy",
            "token_accuracy",
            "sequence_accuracy",
        ):
            if name in value:
                print(f"{key}: {name.replace('_', ' ')} {value[name]:.3f}")


def score(given, values, command):
    """Prints the log-probability of each word, and of the end."""
    model, vocabulary = _load(given.run, "score")
    total, length, count = 0.0, 0, 0
    end = vocabulary.end_of_sentence_id
    for text in given.text or _lines():
        ids = [end, *vocabulary.encode(text), end]
        found = np.asarray(model.score(np.asarray([ids], "int32")))[0]
        words = [*vocabulary.decode(ids[1:-1]), _END]
        width = max(map(len, words))
        for word, value in zip(words, found, strict=True):
            print(f"{word:{width}} {value:10.4f}")
        print(_summary(found.sum(), len(found)), end="\n\n")
        total, length = total + found.sum(), length + len(found)
        count += 1
    if count > 1:
        print(f"{count} sentences: {_summary(total, length)}")


def _lines():
    if sys.stdin.isatty():
        print("Type sentences, one a line, and end with Ctrl-D:")
    for line in sys.stdin:
        if line.strip():
            yield line.rstrip("\n")


def _summary(total, length):
    return (
        f"log-probability {total:.4f}, {length} predicted tokens, perplexity "
        f"{math.exp(-total / length):.2f}"
    )


def generate(given, values, command):
    """Prints what a model goes on with."""
    model, vocabulary = _load(given.run, "generate")
    if "seed" in values:
        keras.utils.set_random_seed(values["seed"])
    prompt = given.prompt or vocabulary.end_of_sentence
    texts = model.generate(
        [prompt] * values.get("sentences", 3),
        values.get("max_length", 50),
        values.get("sampler", "top_k"),
        vocabulary=vocabulary,
        stop_token_ids=[vocabulary.end_of_sentence_id],
    )
    end = vocabulary.end_of_sentence
    for text in texts:
        print(text.removeprefix(end).removesuffix(end).strip())


def attention(given, values, command):
    """Draws what a trained model shows."""
    verbose = values.pop("verbose", 1)
    values = read_options(options.PICTURES, values)
    folder = _run(given.run)
    experiment = _again(folder.recipe(), folder)
    figures.check_pictures(experiment, values)
    drawn = experiment.task.draw(
        experiment, folder.model(), folder, values, verbose
    )
    if not drawn:
        raise UsageError(
            f"{experiment.preset_name} attends to nothing that could be drawn."
        )
    for path in drawn:
        print(path)


def export(given, values, command):
    """Writes a SavedModel."""
    model, vocabulary = _load(given.run)
    folder = run_folder.find(given.run)
    name = pathlib.Path(given.run).resolve()
    name = name.stem if folder is None else folder.path.resolve().name
    path = pathlib.Path(given.folder or pathlib.Path("saved_models", name))
    if not path.name.isdecimal():
        versions = [int(p.name) for p in path.glob("*") if p.name.isdecimal()]
        path = path / str(max(versions, default=0) + 1)
    if isinstance(model, memlm_keras.EntailmentClassifier):
        extra = {"labels": _run(given.run).results()["labels"]}
    else:
        extra = {"top_k": min(_TOP_K, model.vocabulary_size)}
    memlm_keras.serving.export(model, path, vocabulary=vocabulary, **extra)
    print(f"Exported for TensorFlow Serving: {path}")
    print(
        "  tensorflow_model_server --rest_api_port=8501 "
        f"--model_name={path.parent.name} "
        f"--model_base_path={path.parent.resolve()}"
    )


def predict(given, values, command):
    """Prints what a classifier says of a pair."""
    from memlm_keras.data import PairBatches

    folder = _run(given.run)
    model, vocabulary = _load(given.run)
    if not isinstance(model, memlm_keras.EntailmentClassifier):
        raise UsageError(f"{given.run} is no classifier of sentence pairs.")
    ids = [vocabulary.encode(t) for t in (given.premise, given.hypothesis)]
    if not all(map(len, ids)):
        raise UsageError("PREMISE and HYPOTHESIS must hold words.")
    batches = PairBatches([ids[0]], [ids[1]], [0], 1)
    logits = model.predict(batches, verbose=0)
    probabilities = keras.ops.convert_to_numpy(keras.ops.softmax(logits))[0]
    labels = folder.results()["labels"]
    for index in np.argsort(-probabilities):
        print(f"{probabilities[index]:.3f} {labels[index]}")


def table(given, values, command):
    """Trains a table; returns the exit status."""
    from memlm_keras.experiments import table as tables

    rows = values.pop("rows", None)
    seeds = _integers(values.pop("seeds", "0"))
    finished_only = values.pop("finished_only", False)
    passed = {
        **read_options(options.RUNNING, _take(options.RUNNING, values)),
        **_take(options.PICTURES, values),
        **{k: values.pop(k) for k in ("overwrite",) if k in values},
    }
    measures = read_options(options.MEASURES, _take(options.MEASURES, values))
    run_dir = values.pop("run_dir", "runs")
    dataset = values.pop("dataset", None)
    overrides = read_options(options.OVERRIDES.values(), values)
    runs = tables.TableRuns(
        given.table,
        dataset,
        run_dir=run_dir,
        rows=None if rows is None else rows.split(","),
        grid=_grid(given.grid or ()),
        overrides=overrides,
        measures=measures,
    )

    def flags_of(recipe):
        recipe = dict(recipe)
        preset = recipe.pop("preset")
        told = {
            **recipe,
            **passed,
            **measures,
            "run_dir": run_dir,
            "backend": keras.backend.backend(),
            # A progress bar would fill the log with every step.
            "verbose": 2,
        }
        return [preset, *(_flag(k, v) for k, v in told.items())]

    failed = tables.fill(runs, seeds, flags_of, finished_only, command)
    return 1 if failed else 0


def _flag(name, value):
    if isinstance(value, bool):
        return f"--{name}" if value else f"--no{name}"
    return f"--{name}={value}"


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


def _take(group, values):
    """Takes the flags of a group of options out of all that are given."""
    return {o.name: values.pop(o.name) for o in group if o.name in values}


def _run(path):
    folder = run_folder.find(path)
    if folder is None:
        raise UsageError(
            f"{path} is a model without its run folder, which this needs."
        )
    return folder


def _load(path, method=None):
    """The model of a run, which must have a method, and its vocabulary."""
    folder = run_folder.find(path)
    model_path = pathlib.Path(path) if folder is None else folder.model_path
    model = run_folder.load_model(model_path)
    if method is not None and not hasattr(model, method):
        raise UsageError(
            f"{path} is no language model, and cannot {method}: it is of a "
            f"{type(model).__name__}."
        )
    vocabulary = getattr(model, "vocabulary", None)
    if vocabulary is None:
        words = model_path.with_name("vocabulary.json")
        if not words.is_file():
            raise UsageError(
                f"{model_path} does not know its words: there is no {words}."
            )
        vocabulary = memlm_keras.data.Vocabulary.from_file(words)
    return model, vocabulary


def _again(recipe, folder):
    """The experiment of a run, of the text that it was of."""
    experiment = Experiment(**recipe)
    if folder is not None:
        corpus = folder.settings().get("corpus")
        if corpus != experiment.corpus.fingerprint:
            raise UsageError(
                f"{experiment.dataset.name} is not the text any more that "
                f"{folder.path} was trained on."
            )
    return experiment

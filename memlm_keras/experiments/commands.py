"""The commands of `memlm`, a function each; what needs Keras is imported late.

Each takes positional arguments, a dict of options, and the typed command.
"""

import contextlib
import dataclasses
import fnmatch
import functools
import itertools
import math
import os
import pathlib
import re
import shlex
import sys

import memlm_keras as memlm
from memlm_keras import files
from memlm_keras import formats
from memlm_keras import registry
from memlm_keras import trained
from memlm_keras.data.tables import naming
from memlm_keras.data.text_store import EnteredText
from memlm_keras.experiments import choice as choosing
from memlm_keras.experiments import comparison
from memlm_keras.experiments import datasets
from memlm_keras.experiments import figures
from memlm_keras.experiments import measurements
from memlm_keras.experiments import options
from memlm_keras.experiments import process
from memlm_keras.experiments import run_folder
from memlm_keras.experiments.experiment import Experiment
from memlm_keras.experiments.experiment import experiment_of
from memlm_keras.experiments.experiment import reopen
from memlm_keras.experiments.names import resolve
from memlm_keras.experiments.options import NoUseError
from memlm_keras.experiments.options import UsageError
from memlm_keras.experiments.options import as_flag
from memlm_keras.experiments.options import read_options
from memlm_keras.experiments.options import take
from memlm_keras.experiments.pairs import predict_pairs
from memlm_keras.experiments.report import outcome

_ENGLISH = "memlm/english"
# Options that a paper's row may have and still be fitted to a text.
_FITTED_TOO = ("halve", "optimizer", "distribution")
_TOP_K = 10
# Sentences that a bidirectional model reads at once, and the multiple that
# lengths are padded to: neither changes what it predicts.
_ROWS, _MULTIPLE = 64, 8

# Options of `memlm surprisal` for tables of sentences.
_TABLES = (".csv", ".tsv")
_OF_STIMULI = ("sentence", "regions", "by", "frequency", "spillover")

# === Presets ===


def presets(positional, values, command):
    """Lists presets by paper, with their sizes and a description, and trained
    models."""
    pattern = positional.pattern or "*"
    names = [*registry.names(), *trained.SOURCES, *trained.names()]
    names = list(dict.fromkeys(names))
    matches = [
        name
        for name in names
        if pattern in name or fnmatch.fnmatch(name, pattern)
    ]
    if not matches:
        raise UsageError(
            f"No preset matches {pattern!r}.{options.nearest(pattern, names)}"
        )
    rows = set(registry.names())
    size = values.get("vocabulary_size", 10_000)
    sizes = {name: values[name] for name in ("scale",) if name in values}
    width = max(map(len, matches))
    print(
        f"{'preset':{width}} {'units':>5} {f'V={size:,}':>12}  "
        "what it is; its weights are random until it is trained"
    )
    last = None
    for name in filter(rows.__contains__, matches):
        paper, row = registry.find(name)
        if paper is not last:
            print(f"\n{paper.source()}")
            last = paper
        if registry.resized(name, row, sizes).parameters is None:
            # They are counted in a model.
            process.import_keras()
        preset = registry.get(name, **sizes)
        count = memlm.presets.count_params(name, size, **sizes)
        print(
            f"{name:{width}} {preset['units']:>5} {count:>12,}  "
            f"{describe(preset)}",
            flush=True,
        )
    matches = [name for name in matches if name not in rows]
    if matches:
        print("\nTrained models, each with its own vocabulary")
    for name in matches:
        count, words = _describe_trained(name)
        print(f"{name:{width}} {'':>5} {count:>12}  {words}")


def _describe_trained(name):
    """Parameters of a trained model, and its size and quality in words."""
    if name not in trained.names():
        return "", f"not installed. {trained.SOURCES[name]}"
    folder = trained.find(name)
    metadata = trained.read_metadata(folder)
    card = metadata["card"]
    words = f"{trained.size_of(folder) / 1e6:.1f} MB"
    if "perplexity" in card:
        words += f", perplexity {card['perplexity']:.2f}"
    if "text" in card:
        words += f", {card['text']}"
    return f"{metadata['parameters']:,}", words


def describe(preset):
    """Describes a preset: 'LSTM 834, key value predict of window 5'."""
    model = preset["model"]
    parts = [model[key] for key in ("encoder", "decoder") if key in model]
    layers = model.get("recurrent", parts)
    layers = layers if isinstance(layers, list) else [layers]
    layers += [
        model[k] for k in ("recurrent_hypothesis", "top") if model.get(k)
    ]
    layers += model.get("recurrent_above") or []
    words = []
    for text, equal in itertools.groupby(map(_describe_layer, layers)):
        count = len(list(equal))
        words.append(text if count == 1 else f"{count} x {text}")
    words += [
        _describe_layer(model[part])
        for part in ("memory", "mixture")
        if model.get(part) is not None
    ]
    for kind, noise in (
        ("smoothing", datasets.smoothing_of(model)),
        ("data noising", preset.get("noise")),
    ):
        if noise:
            scheme = noise["scheme"].replace("_", " ")
            each = "element-wise " * noise.get("element_wise", False)
            words.append(f"{each}{scheme} {kind}")
    if model.get("tie_embeddings"):
        words.append("tied embeddings")
    return ", ".join(words)


def _describe_layer(layer):
    """Name and main size of a serialized layer."""
    while "cell" in layer["config"]:
        layer = layer["config"]["cell"]
    name = layer["class_name"].removesuffix("Cell")
    # Camel case as words, except names in capitals.
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


# === Training ===


def train(positional, values, command):
    """Trains, and prints results and the commands that may follow."""
    verbose = values["verbose"]
    running = take(options.RUNNING, values)
    pictures = take(options.PICTURES, values)
    measures = take(options.MEASURING, values)
    run_dir, overwrite = values.pop("run_dir"), values.pop("overwrite", False)
    with process.quiet(verbose):
        experiment, name, running, measures = _experiment_to_train(
            positional.preset,
            values,
            running,
            measures,
            pictures,
        )
        folder = pathlib.Path(run_dir, name)
        results = experiment.run(
            folder,
            **running,
            measures=measures,
            pictures=pictures,
            overwrite=overwrite,
            command=command,
        )
    print(outcome(results, experiment.columns))
    if bits := measurements.describe_bits(results.get("test", {})):
        print(f"test: {bits}")
    _print_measured(
        results, measurements.requests(experiment, measures, results)
    )
    if "cache" in results and verbose:
        print(
            "`memlm score`, `surprisal`, `generate` and `export` use its cache "
            "with --cache."
        )
    print(f"All of it is in {folder}")
    if not results.get("finite", True):
        kept = results["best_epoch"]
        raise RuntimeError(
            f"Training diverged in epoch {results['epochs']}: its loss or "
            f"perplexity was not finite. {folder} holds the weights "
            f"{f'of epoch {kept}' if kept else 'from before training'}. Try a "
            "lower --learning_rate."
        )
    path = shlex.quote(str(folder))
    lines = experiment.examples(path)
    if {picture.name for picture in folder.glob("*.png")} - {figures.CURVE}:
        lines.insert(1, f"memlm attention {path}")
    if lines and verbose:
        print("\n  ".join(["Next, for instance:", *lines]))


def _experiment_to_train(preset, values, running, measures, pictures):
    """The experiment that was asked for or that suits a text, the name of its
    folder, and arguments and measures of its run."""
    dataset = values.pop("dataset", None)
    if dataset is None:
        dataset = "embedded"
        print(
            "No --dataset was given: this run reads the small text that comes "
            "with the package. --dataset=FILE reads your own."
        )
    published = values.pop("as_published", False)
    if published and preset is None:
        raise UsageError("--as_published needs the name of a paper's preset.")
    own_text = dataset not in options.TEXTS
    sized = any(
        o.name in values
        for o in (*options.SIZES, *options.TRAINING)
        if o.name not in _FITTED_TOO
    )
    # Wrong options are refused before a text is read.
    measures = Experiment(preset or choosing.SMALLEST, dataset, **values).check(
        measures, pictures, running.get("devices")
    )
    choice = None
    if preset is None or (own_text and not (published or sized)):
        choice = choosing.choose_preset(dataset, preset, **values, **running)
    if choice is None:
        experiment = Experiment(preset, dataset, **values)
        name = experiment.name
        language_model = experiment.kind == options.LANGUAGE_MODEL
        if "trained" in experiment.preset:
            if published:
                raise UsageError(
                    "--as_published is for a paper's preset. Received: "
                    f"{preset}, a trained model"
                )
            print(f"{preset} is trained further, and keeps its vocabulary.")
        elif own_text and sized and language_model and not published:
            print(
                "You gave a size or a rate, so the others stay as published. "
                "Without any, all are fitted to the text."
            )
    else:
        name = Experiment(choice.preset, dataset, **values).name
        name += "" if choice.is_own else "-fitted"
        experiment = Experiment(
            choice.preset,
            dataset,
            corpus=choice.corpus,
            **values,
            **choice.options,
        )
        experiment.check_measures(measures)
        print("\n".join(choice.reasons))
        typed = {**values, **choice.options, **choice.running, **running}
        print(f"Chosen: {_command(choice.preset, dataset, typed)}")
        if preset is None:
            print("To change a choice, give its flag (memlm train --help).")
            if choice.is_english and (further := _further(dataset, values)):
                print(
                    "This is English. For prose such as novels, a trained "
                    f"model can be trained further: {further}"
                )
        running = {**choice.running, **running}
    if (
        own_text
        and experiment.kind == options.LANGUAGE_MODEL
        and datasets.can_be_counted(experiment.corpus)
    ):
        measures.setdefault("compare", True)
    return experiment, name, running, measures


def _command(preset, dataset, values):
    """The command that trains with these options."""
    flags = [as_flag(name, value) for name, value in values.items()]
    return shlex.join(
        ["memlm", "train", preset, f"--dataset={dataset}", *flags]
    )


def _further(dataset, values):
    """The command that trains the English model further, without the options
    that it refuses, or `None`."""
    try:
        Experiment(_ENGLISH, dataset, **values)
    except NoUseError as error:
        rest = {k: v for k, v in values.items() if k != error.option}
        return _further(dataset, rest)
    except UsageError:
        return None
    return _command(_ENGLISH, dataset, values)


def _print_measured(results, requests):
    """Prints what was requested; the comparison has a table of its own, with
    what the preset requests."""
    compared = comparison.NAME in results
    if compared:
        print("\n".join(comparison.describe(results)))
    print_numbers(
        {
            request.name: results[request.name]
            for request in requests
            if request.name != comparison.NAME
            and (request.typed or not compared)
        }
    )


def table(positional, values, command):
    """Trains a table, or shows those of a paper; returns the exit status."""
    if positional.table in registry.papers():
        return _show_tables(positional.table, shlex.split(command)[3:])
    process.import_keras()
    from memlm_keras.experiments.table import TableRuns

    grid = values.pop("grid", [])
    if positional.settings and not grid:
        raise UsageError(
            f"Unexpected argument {positional.settings[0]!r}: settings need "
            "--grid."
        )
    rows, seeds = values.pop("rows", None), _integers(values.pop("seeds"))
    finished_only = values.pop("finished_only", False)
    overwrite = values.pop("overwrite", False)
    only_list = values.pop("list", False)
    if only_list and (finished_only or overwrite):
        raise UsageError(
            "--list prints the commands of missing runs, and does nothing "
            "else. Leave out --finished_only and --overwrite."
        )
    run_dir, dataset = values.pop("run_dir"), values.pop("dataset", None)
    passed = {
        **take(options.RUNNING, values),
        **take(options.PICTURES, values),
    }
    measures = take(options.MEASURING, values)
    runs = TableRuns(
        positional.table,
        dataset,
        run_dir=run_dir,
        rows=None if rows is None else rows.split(","),
        grid=_grid([*grid, *positional.settings]),
        overrides=read_options(options.OVERRIDES.values(), values),
        measures=measures,
    )
    if dataset is None and runs.dataset == "embedded":
        print(
            "No --dataset was given: the runs of this table read the small "
            "text that comes with the package, of 75 words. --dataset=FILE "
            "reads your own.",
            file=sys.stderr,
        )
    if only_list:
        runs.list_missing(seeds, passed)
        return 0
    failed = runs.fill(seeds, passed, finished_only, overwrite, command)
    return 1 if failed else 0


def _show_tables(paper, others):
    """Prints the tables of a paper."""
    tables = {f"{paper}/{t.name}": t for t in registry.papers()[paper].tables}
    if others:
        raise UsageError(
            f"memlm table {paper} shows the paper's tables, and trains nothing."
            f" Name one to train it: {', '.join(tables)}. Received: {others[0]}"
        )
    print(registry.papers()[paper].source())
    print("\nTables of the paper, at its sizes:")
    for name, found in tables.items():
        rows = sum(math.prod(map(len, row.grid.values())) for row in found.rows)
        print(f"\n  {found.title}; {rows} runs a seed")
        print(f"    memlm table {name} --dataset={found.dataset or 'FILE'}")
    return 0


def _grid(texts):
    """`SETTING=VALUE,VALUE` as a dict of lists."""
    grid = {}
    for text in texts:
        name, _, values = text.partition("=")
        if not values:
            raise UsageError(
                "--grid lists settings, such as learning_rate=0.1,1. "
                f"Received: {text!r}"
            )
        grid[name.lstrip("-")] = values.split(",")
    return grid


def _integers(text):
    parts = [part.strip() for part in text.split(",")]
    if not all(map(str.isdecimal, parts)) or len({*map(int, parts)}) < len(
        parts
    ):
        raise UsageError(
            "--seeds must list different integers, such as 0,1,2. Received: "
            f"{text!r}"
        )
    return [int(part) for part in parts]


# === Evaluation ===


def evaluate(positional, values, command):
    """Measures a run again, with the measurements that are asked for."""
    verbose = values.pop("verbose")
    measures = take(options.MEASURING, values)
    paths, folders = zip(*map(_path_and_folder, positional.run))
    by = take(options.BY, values)
    if "by" in by:
        return _evaluate_by(
            paths, folders, values, by, measures, verbose, command
        )
    for name, value in by.items():
        raise UsageError(f"{name} needs --by=recency. Received: {name}={value}")
    if len(folders) > 1:
        _evaluate_mean(paths, folders, {**values, **measures}, verbose)
    elif folders[0] is None:
        _evaluate_file(paths[0], values, measures, verbose)
    elif values:
        _evaluate_run(folders[0], values, measures, verbose)
    else:
        # Measurements are added to the results of the run.
        with files.hold(folders[0].path):
            _evaluate_run(folders[0], values, measures, verbose)


def _path_and_folder(path):
    """A path of a run and its folder, or, where a script registered the run's
    preset, the path of its model and `None`."""
    folder = run_folder.find(path)
    if folder is not None and folder.model_path.exists():
        try:
            resolve(folder.recipe()["preset"])
        except UsageError:
            return str(folder.model_path), None
    return path, folder


def _evaluate_run(folder, values, measures, verbose):
    """Measures a run, on its own text or on another."""
    kind = folder.kind
    measures = read_options(options.MEASURING, measures, kind)
    with process.quiet(verbose):
        experiment, model = _experiment_of(folder, values, verbose)
        experiment.check_measures(measures)
        results = experiment.measure(model, verbose)
        before = {} if values else folder.results() or {}
        requests = measurements.requests(experiment, measures, before)
        known = before | results
        for request in requests:
            if not request.is_in(before):
                known[request.name] = request.make(model, verbose, known)
    if before:
        folder.add_results(known)
    print_numbers(results)
    requested = {request.name: known[request.name] for request in requests}
    preset = {"preset": experiment.preset_name}
    _print_measured(preset | results | requested, requests)


def _experiment_of(folder, values, verbose):
    """The experiment of a run, with the text of `values` if there are any, and
    its model."""
    if folder.kind == options.KNESER_NEY:
        # No file keeps the model, as counting takes seconds.
        experiment = reopen(folder)
        _, model = experiment.count(verbose)
        vocabulary = experiment.corpus.vocabulary
    else:
        model = folder.model()
        vocabulary = model.vocabulary
        experiment = None if values else reopen(folder)
    if values:
        experiment = experiment_of(folder, **values)
        # Another text is read with the model's vocabulary.
        labels = getattr(model, "labels", None)
        trained_on = os.path.realpath(folder.recipe().get("dataset", ""))
        corpus = experiment.dataset.load(
            vocabulary,
            labels,
            whole=os.path.realpath(experiment.dataset.name) != trained_on,
        )
        experiment = experiment_of(folder, corpus, **values)
    return experiment, model


def _evaluate_file(path, values, measures, verbose):
    """Measures a language model without its run folder."""
    _require_no_measures(path, measures)
    with process.quiet(verbose):
        model, corpus, batches = _file_and_text(path, values)
        results = measurements.perplexities(model, batches, verbose, corpus)
    print_numbers(results)


def _require_no_measures(path, measures):
    for name, value in measures.items():
        raise UsageError(
            f"{name} needs the run folder of a preset. Received: "
            f"{name}={value} and {path}"
        )


def _file_and_text(path, values):
    """A language model without its run folder, the corpus of `values`, and a
    function from a split to batches."""
    if "dataset" not in values:
        raise UsageError(
            f"{path} is a model without the run folder of a preset, which "
            "would say what text to measure it on. Give --dataset, or name the "
            "run folder."
        )
    reading = {**values}
    dataset = reading.pop("dataset")
    kind = options.LANGUAGE_MODEL
    reading = read_options(options.READING, reading, kind)
    model = run_folder.load_model(path)
    if not hasattr(model, "score_batches"):
        raise UsageError(
            f"{path} is of class {type(model).__name__}. Without its run "
            "folder, only a language model can be measured; name the run "
            "folder."
        )
    _require_vocabulary(path, model)
    corpus = datasets.Dataset(dataset, kind, reading=reading).load(
        model.vocabulary
    )
    documents = reading.get("documents", False)
    way = "the text as a single stream"
    if not model.causal:
        way = "each sentence by itself"
    elif datasets.has_documents(corpus, documents):
        way += " (--documents begins each afresh)"
        way = "each document by itself" if documents else way
    print(f"No preset says how {path} was trained to read: it reads {way}.")

    def batches(split):
        if model.causal:
            return corpus.batches(split, 1, 100, documents=documents)
        return corpus.sentence_batches(split, _ROWS, length_multiple=_MULTIPLE)

    return model, corpus, batches


def _evaluate_mean(paths, folders, given, verbose):
    """Measures the average of the predictions of several models."""
    for name, value in given.items():
        raise UsageError(
            f"--{name} needs a single RUN: several are measured by the "
            "perplexity of their average, on their own text. "
            f"Received: --{name}={value} and {len(paths)} runs"
        )
    if None in folders:
        raise UsageError("Several models must be run folders of presets.")
    if len({folder.path.resolve() for folder in folders}) < len(folders):
        raise UsageError(
            f"Several runs must be different ones. Received: {' '.join(paths)}"
        )
    with process.quiet(verbose):
        experiments = [reopen(folder) for folder in folders]
    first = experiments[0]
    for path, experiment in zip(paths, experiments):
        if experiment.kind != options.LANGUAGE_MODEL:
            raise UsageError(f"{path} is not a language model.")
        if experiment.corpus.fingerprint != first.corpus.fingerprint:
            raise UsageError(
                f"{path} and {paths[0]} were trained on different texts or "
                "vocabularies."
            )
        if experiment.dataset.sentences != first.dataset.sentences:
            raise UsageError(
                "Models that all read sentences can be averaged, or that none "
                f"does. Received: {paths[0]} and {path}"
            )
    models = [folder.model() for folder in folders]
    ensemble = memlm.Ensemble(models)
    batches = functools.partial(datasets.evaluation_batches, first, ensemble)
    results = measurements.perplexities(
        ensemble, batches, verbose, first.corpus
    )
    count = ensemble.count_params()
    print(f"Average of {len(folders)} models, {count:,} parameters:")
    print_numbers(results)


def _evaluate_by(paths, folders, values, by, measures, verbose, command):
    """Measures runs side by side, by how far back each word occurred."""
    for name, value in measures.items():
        if name != "cache_size":
            raise UsageError(
                f"{name} is not measured by recency. Received: {name}={value}"
            )
    if len({*paths}) < len(paths):
        raise UsageError(
            f"Several runs must be different ones. Received: {' '.join(paths)}"
        )
    for folder in folders:
        if folder is not None:
            kind = folder.kind
            read_options(options.BY, by, kind)
            if len(folders) == 1:
                read_options(options.MEASURING, measures, kind)
    process.import_keras()
    from memlm_keras.experiments import recency

    recency.compare(
        _side_by_side(paths, folders, values, measures, verbose),
        by.get("split", "test"),
        verbose,
        command,
        by.get("out"),
        by.get("plot"),
    )


def _side_by_side(paths, folders, values, measures, verbose):
    """Yields name, model, corpus and a function from a split to batches of each
    run, and with `cache_size` those of models with a cache: of runs without a
    mixture of their own."""
    names = [_name_of(path) for path in paths]
    names = names if len({*names}) == len(names) else paths
    for name, path, folder in zip(names, paths, folders):
        if folder is None:
            _require_no_measures(path, measures)
            yield name, *_file_and_text(path, values)
            continue
        experiment, model = _experiment_of(folder, values, verbose)
        batches = functools.partial(
            datasets.evaluation_batches, experiment, model
        )
        yield name, model, experiment.corpus, batches
        alone = getattr(model, "mixture", model) is None
        if measures and (alone or len(paths) == 1):
            experiment.check_measures(measures)
            before = {} if values else folder.results() or {}
            cached, _ = measurements.add_cache(
                experiment, model, measures, verbose, before.get("cache")
            )
            yield f"{name} with a cache", cached, experiment.corpus, batches


def print_numbers(results):
    """Prints the numbers of `results.json`, or of a part of it, one a line."""
    for key, value in results.items():
        if not isinstance(value, dict):
            continue
        if "validation" in value or "test" in value or key == "cbt":
            print_numbers({f"{key}, {k}": v for k, v in value.items()})
            continue
        for name in measurements.NUMBERS:
            if name in value:
                print(f"{key}: {name.replace('_', ' ')} {value[name]:.3f}")
        if bits := measurements.describe_bits(value):
            print(f"{key}: {bits}")


# === Use of a trained model ===


def score(positional, values, command):
    """Prints the log-probability of each token, and of the end."""
    for text in positional.text or ():
        if os.path.isfile(text):
            raise UsageError(
                f"TEXT must be a sentence, and {text} is a file. memlm score "
                "RUN < FILE scores its lines, and memlm surprisal RUN FILE "
                "writes a table."
            )
    model = _load(positional.run, "score", values.get("cache"))
    vocabulary = model.vocabulary
    total, length, count = 0.0, 0, 0
    entered = EnteredText(vocabulary)
    for text in map(entered.line, positional.text or _typed_lines()):
        scores = list(map(float, model.score(text)))
        words = vocabulary.decode(vocabulary.encode_sentence(text))
        width = max(map(len, words))
        for word, value in zip(words, scores, strict=True):
            print(f"{word:{width}} {value:10.4f} nats")
        print(_summary(sum(scores), len(scores)), end="\n\n")
        total, length = total + sum(scores), length + len(scores)
        count += 1
    if count > 1:
        print(f"{count} sentences: {_summary(total, length)}")
    _print_notes(entered)


def _print_notes(entered):
    for note in entered.notes():
        print(note, file=sys.stderr)


def _typed_lines():
    if sys.stdin.isatty():
        print("Type sentences, one a line, and end with Ctrl-D:")
    for line in sys.stdin:
        if line.strip():
            yield line.rstrip("\n")


def _summary(total, length):
    found = memlm.evaluation.Perplexity(-total, length, length, "")
    return (
        f"log-probability {total:.4f} nats ({total / math.log(2):.4f} bits), "
        f"{length} predicted tokens, perplexity "
        f"{found.perplexity:.2f}"
    )


def surprisal(positional, values, command):
    """Writes a table of the words of files, a line each."""
    if "segment_length" in values and "rate" not in values:
        raise UsageError("--segment_length is for --rate.")
    paths = [*positional.run, *positional.file]
    # The last path is a text, and so are all from the first file that is no
    # model on.
    first = 1
    while first < len(paths) - 1 and not (
        pathlib.Path(paths[first]).is_file()
        and _suffix(paths[first]) != ".keras"
    ):
        first += 1
    runs, texts = paths[:first], paths[first:]
    has_documents = (
        len(texts) > 1
        or pathlib.Path(texts[0]).is_dir()
        or "document_start" in values
    )
    tables = [path for path in texts if _suffix(path) in _TABLES]
    for name in _OF_STIMULI:
        if name in values and not tables:
            raise UsageError(f"--{name} needs a .csv or .tsv file.")
    if tables and (has_documents or "shard" in values):
        raise UsageError(
            f"A table is read alone and whole, and {tables[0]} is a table. "
            "Several files, folders, --document_start and --shard are of texts."
        )
    out, part = values.get("out"), (1, 1)
    if "shard" in values:
        if not has_documents:
            raise UsageError(
                f"--shard divides documents, and {texts[0]} is one. Give "
                "several files, a folder of .txt files, or --document_start."
            )
        part, out = _shard(values["shard"], out)
        if out.exists():
            print(f"{out} is finished. Delete it to make it again.")
            return
    model, vocabulary = _model_of(runs, values.get("rate"), values.get("cache"))
    if tables:
        return _stimuli(texts[0], runs, values, model, vocabulary)
    from memlm_keras.data.tables import table_text

    vocabulary = vocabulary or model.vocabulary
    store = memlm.data.text_store
    if has_documents:
        start = values.get("document_start")
        with _wrong_use():
            documents = store.read_documents(texts, start, *part)
    else:
        # It may be a pipe.
        documents = [(texts[0], list(store.read_lines(texts[0])))]
    count = unknown = 0
    entered = EnteredText(vocabulary)
    with (
        _writing(out) as file,
        # The table alone goes to the standard output.
        contextlib.redirect_stdout(sys.stderr),
    ):
        for name, lines in documents:
            lines = [*map(entered.line, lines)]
            if not any(map(vocabulary.tokenizer.tokenize, lines)):
                continue
            surprisals = memlm.evaluation.surprisal(
                model,
                lines,
                vocabulary,
                unit=values["unit"],
                reset=values.get("reset", False),
                segment_length=values.get("segment_length"),
            )
            if not values.get("tokens"):
                surprisals = surprisals.by_word(vocabulary)
            columns = surprisals.columns()
            if has_documents:
                columns = {"document": [name] * len(surprisals), **columns}
            header, _, rows = table_text(columns).partition("\n")
            file.write(rows if count else f"{header}\n{rows}")
            count += len(surprisals)
            unknown += surprisals.unknown.sum()
        if not count:
            raise UsageError(f"There is no word in {' '.join(texts)}.")
    if unknown:
        print(
            f"{unknown} of {count} tokens are read as {vocabulary.unknown}.",
            file=sys.stderr,
        )
    _print_notes(entered)


@contextlib.contextmanager
def _wrong_use():
    """Makes a `ValueError` one of what was typed."""
    try:
        yield
    except ValueError as error:
        raise UsageError(str(error)) from None


def _suffix(path):
    return pathlib.Path(path).suffix.lower()


def _shard(text, out):
    """The numbers of `--shard`, and the file of the shard."""
    match = re.fullmatch(r"(\d+)/(\d+)", text)
    part, parts = map(int, match.groups()) if match else (0, 0)
    if not 1 <= part <= parts:
        raise UsageError(
            "--shard must be a part and the number of parts, such as 3/16. "
            f"Received: {text!r}"
        )
    if out is None:
        raise UsageError(
            "--shard needs --out: --out=words.tsv writes part 3 of 16 to "
            "words-03-of-16.tsv."
        )
    out = pathlib.Path(out)
    name = f"{out.stem}-{part:0{len(str(parts))}}-of-{parts}{out.suffix}"
    return (part, parts), out.with_name(name)


@contextlib.contextmanager
def _writing(path):
    """A file that is written whole or not at all, or the standard output."""
    if path is None:
        yield sys.stdout
        return
    with files.atomic_path(path) as temporary:
        with open(temporary, "w", encoding="utf-8") as file:
            yield file


def _stimuli(path, runs, values, model, vocabulary):
    """Writes a table of the words or regions of a table of sentences."""
    if values.get("tokens"):
        raise UsageError("--tokens needs a text file, not a table.")
    if "by" in values and "regions" not in values:
        raise UsageError("--by needs --regions.")
    rows = memlm.linguistics.read_stimuli(path)
    names = [name for name in rows[0] if name.lower() == "sentence"]
    sentence = values.get("sentence", names[0] if names else None)
    if sentence is None:
        raise UsageError(
            f"{path} has no column called sentence: name one with "
            f"--sentence. Received: {', '.join(rows[0])}"
        )
    vocabulary = vocabulary or model.vocabulary
    counts = None
    if "frequency" in values:
        text = values["frequency"]
        if text == "train":
            folder = run_folder.find(runs[0])
            if folder is None:
                raise UsageError(
                    f"{runs[0]} has no run folder, which would say "
                    "what text it was trained on. Give --frequency=FILE."
                )
            # The table alone goes to the standard output.
            with contextlib.redirect_stdout(sys.stderr):
                text = reopen(folder).corpus.train
        else:
            text = memlm.data.text_store.read_lines(text)
        counts = memlm.linguistics.count_words(text, vocabulary)
    with naming(path):
        result = memlm.linguistics.stimulus_surprisal(
            model,
            rows,
            vocabulary,
            sentence=sentence,
            regions=values.get("regions"),
            unit=values["unit"],
            reset=values.get("reset", True),
            counts=counts,
            spillover=values.get("spillover", 0),
            segment_length=values.get("segment_length"),
        )
    by = values.get("by", "word")
    if "out" in values:
        result.write(values["out"], by)
    else:
        print(result.to_tsv(by), end="")
    if unknown := result.words.unknown.sum():
        print(
            f"{unknown} of {len(result.words)} words have unknown tokens.",
            file=sys.stderr,
        )


def pairs(positional, values, command):
    """Measures models by minimal pairs."""
    process.import_keras()
    from memlm_keras.experiments import minimal_pairs

    if len({*positional.run}) < len(positional.run):
        raise UsageError(
            "Several runs must be different ones. Received: "
            f"{' '.join(positional.run)}"
        )
    minimal_pairs.measure_runs(
        positional.path, _load_or_count, positional.run, values
    )


def certify(positional, values, command):
    """Checks a model from outside; returns the exit status."""
    from memlm_keras.serving.exported import find_exported

    def load(paths, rate=None):
        if rate is None and len(paths) == 1 and find_exported(paths[0]):
            return memlm.serving.load(paths[0])
        return _model_of(paths, rate, values.get("cache"))[0]

    runs, other = positional.run, values.get("same_as")
    certificate = memlm.linguistics.certify(
        load(runs, values.get("rate")),
        same_as=other and load([other]),
        tolerance=values["tolerance"],
        seed=values["seed"],
        length=values.get("length"),
    )
    certificate = dataclasses.replace(
        certificate, model=f"{' '.join(runs)}: {certificate.model}"
    )
    print(certificate)
    if "out" in values:
        certificate.write(values["out"])
    return 0 if certificate.passed else 1


def _model_of(paths, rate=None, cache=False):
    """The model of a run or the average of several, which may learn from what
    it reads, and the vocabulary of an n-gram model."""
    models = [_load_or_count(path, cache) for path in paths]
    model, vocabulary = models[0]
    if len(models) > 1:
        model = memlm.Ensemble([each for each, _ in models])
    if rate is not None:
        model = memlm.evaluation.DynamicEvaluator(model, rate)
    return model, vocabulary


def _load_or_count(path, cache=False):
    """The model of a run, and the vocabulary of an n-gram model."""
    folder = run_folder.find(path)
    if folder is None or folder.kind != options.KNESER_NEY:
        return _load(path, "score", cache), None
    if cache:
        raise UsageError(
            f"{path} is an n-gram model; a neural cache needs a neural model. "
            "A run of the preset kneser_ney_5_cache has a cache of its own."
        )
    # The table alone goes to the standard output.
    with contextlib.redirect_stdout(sys.stderr):
        experiment = reopen(folder)
        _, model = experiment.count(verbose=0)
    return model, experiment.corpus.vocabulary


def generate(positional, values, command):
    """Prints continuations of a text."""
    model = _load(positional.run, "generate", values.get("cache"))
    if "seed" in values:
        import keras

        keras.utils.set_random_seed(values["seed"])
    unknown = [] if values.get("unknown") else [model.vocabulary.unknown_id]
    prompt = positional.prompt or ""
    ids = list(model.vocabulary.encode(prompt))
    if number := ids.count(model.vocabulary.unknown_id):
        print(
            f"{number} of the prompt's {len(ids)} tokens are read as "
            f"{model.vocabulary.unknown}.",
            file=sys.stderr,
        )
    for text in model.generate(
        [prompt] * values["sentences"],
        values["max_length"],
        values["sampler"],
        suppress_token_ids=unknown,
    ):
        print(text)


def attention(positional, values, command):
    """Draws the attention of a trained model."""
    verbose = values.pop("verbose")
    if "out" in values:
        _write_page(positional, values)
        return
    pictures = read_options(
        options.PICTURES, {**values, "sentence": positional.text}
    )
    folder = run_folder.find(positional.run)
    if folder is None:
        raise UsageError(
            f"{positional.run} is a model without its run folder, which this "
            "needs."
        )
    with process.quiet(verbose):
        experiment = reopen(folder)
    if pictures:
        figures.check_pictures(experiment, pictures)
    with files.hold(folder.path), process.quiet(verbose):
        paths = experiment.draw(folder.model(), folder.path, pictures, verbose)
    if not paths:
        raise UsageError(
            f"{experiment.preset_name} attends to nothing that could be drawn."
        )
    print("\n".join(map(str, paths)))


def _write_page(positional, values):
    """Writes the page of one text."""
    if positional.text is None or len(values) > 1:
        raise UsageError(
            "--out needs a TEXT, and no other option: memlm attention RUN "
            '"some words" --out=map.html'
        )
    model = _load(positional.run, "attention")
    # Classifiers attend from one sentence to another, and have no such page.
    if getattr(model, "attending", None) is None:
        raise UsageError(
            f"{positional.run} attends to nothing that could be drawn."
        )
    analysis = memlm.analysis
    predictions = analysis.sentence_predictions(
        model, positional.text, top=min(_TOP_K, model.vocabulary_size)
    )
    name = _name_of(positional.run)
    analysis.write_sentence_page(
        predictions, values["out"], f"Attention of {name}"
    )
    print(values["out"])


def predict(positional, values, command):
    """Prints the probability of each label of a pair, or a table of those of a
    file."""
    premise, hypothesis = positional.premise, positional.hypothesis
    if hypothesis is None and not os.path.isfile(premise):
        raise UsageError(
            "memlm predict RUN needs a file of pairs, or a PREMISE and a "
            f"HYPOTHESIS. Received: {premise}, which is no file"
        )
    if hypothesis is not None and "out" in values:
        raise UsageError("--out needs a file of pairs.")
    model = _load(positional.run, "classify")
    if hypothesis is None:
        table, notes = predict_pairs(model, premise)
        with _writing(values.get("out")) as file:
            file.write(table)
        for note in notes:
            print(note, file=sys.stderr)
        return
    with _wrong_use():
        labels = model.classify(premise, hypothesis)
    for label, probability in sorted(labels.items(), key=lambda i: -i[1]):
        print(f"{probability:.3f} {label}")


def export(positional, values, command):
    """Writes a model for other programs."""
    if "for" in values and "format" in values:
        raise UsageError("--for says the format: leave out --format.")
    format = values.get("for") or values.get("format", "tf_saved_model")
    cache = values.get("cache", False)
    model = _load(positional.run, cache=cache)
    name = _name_of(positional.run) + "-cache" * cache
    about = formats.formats()[format]
    path = positional.folder or about.place.format(name=name)
    overwrite = values.get("overwrite", False)
    with _wrong_use():
        memlm.serving.check_path(path, overwrite, format)
    path = memlm.serving.export(
        model,
        path,
        top_k=min(_TOP_K, model.vocabulary_size),
        overwrite=overwrite,
        format=format,
        quantize=values.get("quantize"),
        contract=values.get("contract"),
        tokens=values.get("tokens"),
        card=(
            _facts_of(positional.run, cache)
            if format == "tf_saved_model"
            else None
        ),
    )
    print(f"Exported for {about.server}: {path}")
    if about.start:
        folder = path.resolve().parent
        start = about.start.format(
            path=shlex.quote(str(path)),
            folder=shlex.quote(str(folder)),
            name=shlex.quote(folder.name),
        )
        print(f"  {start}")


def _facts_of(path, cache):
    """Facts of a model for its card, from its folder, if any."""
    if folder := trained.find(path):
        return trained.read_metadata(folder)["card"]
    folder = run_folder.find(path)
    results = folder and folder.results()
    if not results:
        return {}
    paper = registry.papers().get(results["preset"].partition("/")[0])
    found = results["cache"] if cache else results
    facts = {
        "preset": results["preset"],
        "paper": paper and paper.source(),
        "data": results["dataset"],
        "seed": results.get("seed"),
        **{
            f"{split} {name}": f"{found[split][name]:.2f}"
            for split in ("validation", "test")
            for name in ("perplexity", "accuracy")
            if name in found.get(split, {})
        },
        # The tokens that the perplexity is over.
        "perplexity": results.get("test", {}).get("protocol"),
        "trained": f"{results['date']}, {results['backend']}",
    }
    return {key: value for key, value in facts.items() if value is not None}


def _name_of(path):
    """Name of a run folder, or of the file of a model without one."""
    folder = run_folder.find(path)
    if folder is None:
        return pathlib.Path(path).resolve().stem
    return folder.path.resolve().name


def _load(path, method=None, cache=False):
    """The model of a run, which must have a method and a vocabulary, with the
    cache that was chosen for it if that is asked for."""
    folder = run_folder.find(path)
    model = run_folder.load_model(path) if folder is None else folder.model()
    if method is not None and not hasattr(model, method):
        raise UsageError(
            f"{path} is of class {type(model).__name__}, which cannot {method}."
        )
    _require_vocabulary(path, model)
    if not cache:
        return model
    if folder is None:
        raise UsageError(
            "--cache needs a run folder, in which `memlm train` keeps the "
            f"cache that it chose. Received: {path}, a model without one"
        )
    return model.with_mixture(_cache_of(folder))


def _cache_of(folder):
    """The cache that was chosen for a run."""
    found = (folder.results() or {}).get("cache")
    if found is None:
        raise UsageError(
            f"No cache was chosen for {folder.path}: memlm evaluate "
            f"{folder.path} --cache_size=500"
        )
    try:
        return measurements.cache_of(found)
    except ValueError as error:
        raise ValueError(f"The cache of {folder.path}: {error}") from None


def _require_vocabulary(path, model):
    if model.vocabulary is None:
        raise UsageError(
            f"{path} does not know its words: it was made without `vocabulary`."
        )

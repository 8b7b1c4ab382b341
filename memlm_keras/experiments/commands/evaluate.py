"""`memlm evaluate`."""

import functools
import math
import os

import memlm_keras as memlm
from memlm_keras import files
from memlm_keras.experiments import datasets
from memlm_keras.experiments import measurements
from memlm_keras.experiments import options
from memlm_keras.experiments import process
from memlm_keras.experiments.choice import find_preset
from memlm_keras.experiments.command_line import command
from memlm_keras.experiments.experiment import Experiment
from memlm_keras.experiments.experiment import experiment_of
from memlm_keras.experiments.opened import Opened
from memlm_keras.experiments.opened import open_run
from memlm_keras.experiments.opened import require_different
from memlm_keras.experiments.run_folder import write_json
from memlm_keras.experiments.tables.report import markdown_table

# Batch size of a bidirectional model, and the multiple to which lengths are
# padded; neither changes predictions.
_ROWS, _MULTIPLE = 64, 8
# A model keeps the vocabulary of its training text.
_READING = tuple(
    option
    for option in options.READING
    if option.name not in ("training_lines", "vocabulary_size", "minimum_count")
)
_NOTE = (
    "Tokens by the distance to the last occurrence of the same word in the "
    "document. Unknown words and ends of sentences are only in their own rows."
)


@command(
    "Measures a trained model, or the average of several. A .keras file "
    "without its run folder needs --dataset.",
    {"RUN": "+"},
    options.VERBOSE,
    text=(options.DATASET, *_READING),
    measures=options.MEASURING,
    parts=options.BY,
)
def evaluate(
    run: list, verbose: int, text: dict, measures: dict, parts: dict, typed: str
):
    runs = [*map(_measured_run, run)]
    if "by" in parts:
        return _evaluate_by(runs, text, parts, measures, verbose, typed)
    for name, value in parts.items():
        raise options.UsageError(
            f"{name} needs --by=recency. Received: {name}={value}"
        )
    if len(runs) > 1:
        _evaluate_mean(runs, {**text, **measures}, verbose)
    elif runs[0].recipe is None:
        _evaluate_file(runs[0], text, measures, verbose)
    elif text or runs[0].folder is None:
        _evaluate_run(runs[0], text, measures, verbose)
    else:
        # Measurements are added to the results of the run.
        with files.hold(runs[0].folder.path):
            _evaluate_run(runs[0], text, measures, verbose)


def _measured_run(path):
    """Opens a run. If no registered paper has the run's preset, opens only the
    run's model file, without settings."""
    opened = open_run(path)
    if opened.folder is not None and opened.folder.model_path.exists():
        try:
            find_preset(opened.folder.recipe()["preset"])
        except options.UsageError:
            return Opened(str(opened.folder.model_path), None)
    return opened


def _evaluate_run(opened, text, measures, verbose):
    """Measures a run or a trained model on its own text or on another one."""
    folder = opened.folder
    measures = options.read_options(options.MEASURING, measures, opened.kind)
    with process.quiet(verbose):
        experiment, model = _experiment_and_model(opened, text, verbose)
        experiment.check_measures(measures)
        results = experiment.measure(model, verbose)
        before = _results_before(opened, text)
        requests = measurements.requests(experiment, measures, before)
        known = before | results
        for request in requests:
            if not request.is_in(before):
                known[request.name] = request.make(model, verbose, known)
    if before:
        folder.add_results(known)
    measurements.print_numbers(results)
    requested = {request.name: known[request.name] for request in requests}
    preset = {"preset": experiment.preset_name}
    epochs = {k: before[k] for k in ("epochs", "best_epoch") if k in before}
    measurements.print_requested(
        preset | epochs | results | requested, requests
    )


def _experiment_and_model(opened, text, verbose):
    """Returns a run's experiment and its model. If `text` has a `dataset`, the
    experiment is on that dataset, read with the model's vocabulary."""
    if opened.counts:
        # Counting takes seconds, so n-gram models are not saved.
        experiment = opened.experiment
        _, model = experiment.count(verbose)
        vocabulary = experiment.corpus.vocabulary
    else:
        model = opened.model
        vocabulary = model.vocabulary
    if opened.folder is None:
        experiment = Experiment(**{**opened.recipe, **text})
    elif text:
        experiment = experiment_of(opened.folder, **text)
    else:
        return opened.experiment, model
    trained_on = os.path.realpath(opened.recipe.get("dataset", ""))
    corpus = experiment.dataset.load(
        vocabulary,
        getattr(model, "labels", None),
        whole=os.path.realpath(experiment.dataset.name) != trained_on,
    )
    return experiment.with_corpus(corpus), model


def _results_before(opened, text):
    """Returns a run's stored results; `{}` if there are none, or if `text`
    has options."""
    if text or opened.folder is None:
        return {}
    return opened.folder.results() or {}


def _evaluate_file(opened, text, measures, verbose):
    _require_no_measures(opened, measures)
    with process.quiet(verbose):
        model, corpus, batches = _file_and_text(opened, text)
        results = measurements.perplexities(model, batches, verbose, corpus)
    measurements.print_numbers(results)


def _require_no_measures(opened, measures):
    for name, value in measures.items():
        raise options.UsageError(
            f"{name} needs a run folder, which `memlm train` writes. Name a "
            f"run folder, or omit {name}. Received: {name}={value} and "
            f"{opened.path}"
        )


def _file_and_text(opened, text):
    """For a file that is in no run folder, returns the language model, the
    corpus of `text`, and a function from a split to its batches."""
    path = opened.path
    if "dataset" not in text:
        raise options.UsageError(
            f"{path} is a model without a run folder, so its text is unknown. "
            "Give --dataset, or name the run folder."
        )
    kind = options.LANGUAGE_MODEL
    reading = {k: v for k, v in text.items() if k != "dataset"}
    reading = options.read_options(options.READING, reading, kind)
    model = opened.model
    if not hasattr(model, "score_batches"):
        raise options.UsageError(
            f"{path} is of class {type(model).__name__}. Without its run "
            "folder, only a language model can be measured; name the run "
            "folder."
        )
    dataset = datasets.Dataset(text["dataset"], kind, reading=reading)
    corpus = dataset.load(opened.vocabulary)
    documents = reading.get("documents", False)
    way = "the text as a single stream"
    if not model.causal:
        way = "each sentence by itself"
    elif datasets.has_documents(corpus, documents):
        way += " (--documents: each document by itself)"
        way = "each document by itself" if documents else way
    print(f"{path} does not record how it reads text. Here it reads {way}.")

    def batches(split):
        if model.causal:
            return corpus.batches(split, 1, 100, documents=documents)
        return corpus.sentence_batches(split, _ROWS, length_multiple=_MULTIPLE)

    return model, corpus, batches


def _evaluate_mean(runs, given, verbose):
    for name, value in given.items():
        raise options.UsageError(
            f"--{name} needs a single RUN. The average of several models is "
            "measured only on the text of their runs. Name one RUN, or omit "
            f"--{name}. Received: --{name}={value} and {len(runs)} runs"
        )
    if any(run.folder is None for run in runs):
        raise options.UsageError(
            "To average several models, name their run folders."
        )
    require_different([str(run.folder.path.resolve()) for run in runs])

    def reading(one):
        return one.dataset.sentences, one.settings.get("documents")

    with process.quiet(verbose):
        first, *_ = experiments = [run.experiment for run in runs]
    for run, experiment in zip(runs, experiments):
        if experiment.kind != options.LANGUAGE_MODEL:
            raise options.UsageError(f"{run.path} is not a language model.")
        if experiment.corpus.fingerprint != first.corpus.fingerprint:
            raise options.UsageError(
                f"{run.path} and {runs[0].path} were trained on different "
                "texts or vocabularies. Name runs that share both."
            )
        if reading(experiment) != reading(first):
            raise options.UsageError(
                "Models can be averaged if all of them read sentences, all "
                "read documents, or all read continuous text. Received: "
                f"{runs[0].path} and {run.path}"
            )
    ensemble = memlm.Ensemble([run.model for run in runs])
    batches = functools.partial(datasets.evaluation_batches, first, ensemble)
    found = measurements.perplexities(ensemble, batches, verbose, first.corpus)
    count = ensemble.count_params()
    print(f"Average of {len(runs)} models, {count:,} parameters:")
    measurements.print_numbers(found)


def _evaluate_by(runs, text, parts, measures, verbose, typed):
    """Compares the perplexity of runs by the distance to each word's last
    occurrence. Prints a table, and writes the files in `parts`."""
    for name, value in measures.items():
        if name != "cache_size":
            raise options.UsageError(
                f"{name} cannot be used with --by. Received: {name}={value}"
            )
    require_different([run.path for run in runs])
    for run in runs:
        if run.recipe is not None:
            options.read_options(options.BY, parts, run.kind)
            if len(runs) == 1:
                options.read_options(options.MEASURING, measures, run.kind)
    process.import_keras()
    from memlm_keras.linguistics.plots import draw_recency

    results, first, split = {}, None, parts.get("split", "test")
    with process.quiet(verbose):
        for name, model, corpus, batches in _side_by_side(
            runs, text, measures, verbose
        ):
            first = first or (name, corpus)
            if corpus.fingerprint != first[1].fingerprint:
                raise options.UsageError(
                    f"{name} and {first[0]} were trained on different texts or "
                    "vocabularies. Name runs that share both."
                )
            results[name] = result = memlm.linguistics.perplexity_by_recency(
                model, batches(split), verbose=0
            )
            print(f"{name}: {result.total}", flush=True)
    print("\n".join(["", *_table(results), "", _NOTE]))
    if "out" in parts:
        found = {
            "corpus": first[1].name,
            "split": split,
            "bins": result.bins,
            "tokens": result.tokens.tolist(),
            "runs": {name: _values(each) for name, each in results.items()},
            **process.provenance(typed),
        }
        write_json(parts["out"], found)
    if "plot" in parts:
        draw_recency(results, parts["plot"], f"{first[1].name}, {split}")


def _side_by_side(runs, text, measures, verbose):
    """Yields each run's name, model, corpus and a function from a split to
    batches. With `cache_size`, also yields each model with a cache."""
    names = [run.name for run in runs]
    if len({*names}) < len(names):
        names = [run.path for run in runs]
    for name, run in zip(names, runs):
        if run.recipe is None:
            _require_no_measures(run, measures)
            yield name, *_file_and_text(run, text)
            continue
        experiment, model = _experiment_and_model(run, text, verbose)
        batches = functools.partial(
            datasets.evaluation_batches, experiment, model
        )
        yield name, model, experiment.corpus, batches
        alone = getattr(model, "mixture", model) is None
        if measures and (alone or len(runs) == 1):
            experiment.check_measures(measures)
            before = _results_before(run, text)
            cached, _ = measurements.add_cache(
                experiment, model, measures, verbose, before
            )
            yield f"{name} with a cache", cached, experiment.corpus, batches


def _table(results):
    """Returns the lines of a table with a column for each run."""
    one = next(iter(results.values()))
    rows = [
        [bin, f"{tokens:,}", f"{share:.1%}", *map(_cell, perplexities)]
        for bin, tokens, share, *perplexities in zip(
            one.bins,
            one.tokens,
            one.shares,
            *(each.perplexities for each in results.values()),
        )
    ]
    totals = [_cell(each.total.perplexity) for each in results.values()]
    rows.append(["all", f"{one.tokens.sum():,}", "100.0%", *totals])
    return markdown_table(["tokens back", "tokens", "share", *results], rows)


def _cell(perplexity):
    return "" if math.isnan(perplexity) else f"{perplexity:,.2f}"


def _values(result):
    """Returns a `RecencyPerplexity` as a dict, with `None` for empty bins."""
    return {
        "perplexity": result.total.perplexity,
        "loss": result.total.loss,
        "protocol": result.total.protocol,
        "losses": result.losses.tolist(),
        "perplexities": [
            None if math.isnan(each) else each for each in result.perplexities
        ],
    }

"""The command that measures trained models, once Keras is there."""

from memlm_keras.evaluation import perplexity
from memlm_keras.experiments import report
from memlm_keras.experiments import run_folder
from memlm_keras.experiments import settings
from memlm_keras.experiments.datasets import Dataset
from memlm_keras.experiments.datasets import evaluation_batches
from memlm_keras.experiments.datasets import has_documents
from memlm_keras.experiments.experiment import again
from memlm_keras.experiments.experiment import of_run
from memlm_keras.experiments.options import KNESER_NEY
from memlm_keras.experiments.options import LANGUAGE_MODEL
from memlm_keras.experiments.options import UsageError
from memlm_keras.experiments.options import read_options
from memlm_keras.experiments.options import take
from memlm_keras.experiments.tasks import kind_of
from memlm_keras.models import Ensemble

_NUMBERS = ("perplexity", "accuracy", "token_accuracy", "sequence_accuracy")
# Sentences that a bidirectional model reads at once, and what they are padded
# to a multiple of: neither changes what it predicts.
_ROWS, _MULTIPLE = 64, 8


def evaluate(positional, values, command):
    """Measures a run again, and by what is asked for besides."""
    verbose = values.pop("verbose", 1)
    measures = take(settings.MEASURES, values)
    folders = [run_folder.find(path) for path in positional.run]
    if len(folders) > 1:
        _evaluate_mean(positional.run, folders, {**values, **measures}, verbose)
    elif folders[0] is None:
        _evaluate_file(positional.run[0], values, measures, verbose)
    else:
        _evaluate_run(folders[0], values, measures, verbose)


def _evaluate_run(folder, values, measures, verbose):
    """Measures a run, on its own text or on another."""
    kind = kind_of(folder.recipe()["preset"])
    measures = read_options(settings.MEASURES, measures, kind)
    if kind == KNESER_NEY:
        # It takes seconds, and no file keeps it.
        experiment = again(folder)
        _, model = experiment.task.count(experiment, verbose)
        vocabulary = experiment.corpus.vocabulary
    else:
        model = folder.model()
        vocabulary = model.vocabulary
        experiment = None if values else again(folder)
    if values:
        experiment = of_run(folder, **values)
        # Another text is read with the words that the model knows.
        experiment.corpus = experiment.dataset.load(vocabulary)
    experiment.task.check_measures(experiment, measures)
    found = experiment.task.measure(experiment, model, verbose)
    before = {} if values else folder.results() or {}
    wanted = experiment.task.wanted(experiment, measures)
    missing = experiment.task.missing(experiment, measures, before)
    more = {key: make(model, verbose) for key, make in missing.items()}
    if before:
        folder.add_results({**found, **more})
    print_numbers({**found, **{key: {**before, **more}[key] for key in wanted}})


def _evaluate_file(path, values, measures, verbose):
    """Measures a language model without its run folder."""
    if "dataset" not in values:
        raise UsageError(
            f"{path} is a model without its run folder, which would say what "
            "text to measure it on. Give --dataset, or name the run folder."
        )
    for name, value in measures.items():
        raise UsageError(
            f"{name} needs the run folder of a model. Received: {name}={value} "
            f"and {path}, a file without one"
        )
    dataset = values.pop("dataset")
    reading = read_options(settings.READING, values, LANGUAGE_MODEL)
    model = run_folder.load_model(path)
    if not hasattr(model, "score_batches"):
        raise UsageError(
            f"{path} is of a {type(model).__name__}. Of files without a run "
            "folder, language models are measured; name the run folder."
        )
    if model.vocabulary is None:
        raise UsageError(
            f"{path} does not know its words: it was made without `vocabulary`."
        )
    corpus = Dataset(dataset, LANGUAGE_MODEL, reading=reading).load(
        model.vocabulary
    )
    told, make = _way_of_reading(model, corpus, reading.get("documents"))
    print(
        f"No run folder says how {path} was trained to read: it reads {told}."
    )
    print_numbers(
        {
            split: report.plain_perplexity(
                perplexity(model, make(split), verbose=verbose)
            )
            for split in ("validation", "test")
        }
    )


def _way_of_reading(model, corpus, documents):
    """The way in which a model reads a corpus if nothing says so.

    Returns:
        What to tell of it, and a function from a split to its batches.
    """
    if not model.causal:
        return "each sentence by itself", lambda split: corpus.sentence_batches(
            split, _ROWS, length_multiple=_MULTIPLE
        )
    has = has_documents(corpus, documents)
    told = "the text as a single stream"
    if documents:
        told = "each document by itself"
    elif has:
        told += " (--documents begins each afresh)"
    return told, lambda split: corpus.batches(
        split, 1, 100, documents=bool(documents)
    )


def _evaluate_mean(paths, folders, given, verbose):
    """Measures the mean of what several models predict."""
    for name, value in given.items():
        raise UsageError(
            f"{name} is of one RUN at a time: several are measured by the "
            "perplexity of their average, on the text that they are of. "
            f"Received: {name}={value} and {len(paths)} runs"
        )
    if None in folders:
        raise UsageError("Several models are named by their run folders.")
    seen = {}
    for path, folder in zip(paths, folders):
        place = folder.path.resolve()
        if place in seen:
            raise UsageError(
                "Several runs must be different ones. Received: "
                f"{seen[place]} and {path}, which are the same"
            )
        seen[place] = path
    experiments = [again(folder) for folder in folders]
    first = experiments[0]
    for path, experiment in zip(paths, experiments):
        if experiment.kind != LANGUAGE_MODEL:
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
    ensemble = Ensemble([folder.model() for folder in folders])
    found = {
        split: report.plain_perplexity(
            perplexity(
                ensemble,
                evaluation_batches(first, ensemble, split),
                verbose=verbose,
            )
        )
        for split in ("validation", "test")
    }
    count = ensemble.count_params()
    print(f"Average of {len(folders)} models, {count:,} parameters:")
    print_numbers(found)


def print_numbers(found):
    """Prints the numbers of results, one a line.

    Args:
        found: dict, of what `results.json` holds.
    """
    for key, value in found.items():
        if not isinstance(value, dict):
            continue
        parts = {f"{key}, {k}": v for k, v in value.items()}
        if "validation" in value or "test" in value or key == "cbt":
            print_numbers(parts)
            continue
        for name in _NUMBERS:
            if name in value:
                print(f"{key}: {name.replace('_', ' ')} {value[name]:.3f}")

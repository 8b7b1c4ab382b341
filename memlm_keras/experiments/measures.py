"""Measures of trained language models besides their perplexity."""

import functools
import pathlib
import zlib

from memlm_keras.data import cbt_questions
from memlm_keras.data import completion_questions
from memlm_keras.evaluation import choose_cache
from memlm_keras.evaluation import choose_dynamic
from memlm_keras.evaluation import cloze_accuracy
from memlm_keras.evaluation import mean_squared_gradients
from memlm_keras.evaluation import monte_carlo_perplexity
from memlm_keras.evaluation import perplexity
from memlm_keras.evaluation import sampled_perplexity
from memlm_keras.experiments import report
from memlm_keras.experiments.datasets import evaluation_batches
from memlm_keras.experiments.datasets import reads_sentences
from memlm_keras.experiments.options import UsageError
from memlm_keras.experiments.tasks import smoothing_of
from memlm_keras.models import copies

WORD_TYPES = ("NE", "CN", "V", "P")
COMPLETION = "completion"
_FILES = ("questions", "answers")
# As Krause et al. (2018) and their code have them: steps that are learned from
# at once, rows of the gradient statistics, and a part of the validation text.
_DYNAMIC_STEPS = 5
_DYNAMIC_ROWS = 100
_DYNAMIC_SEGMENTS = 6000


def wanted(experiment, measures):
    """The measures of an experiment: what is asked for, and its preset's.

    Args:
        experiment: `Experiment` of a language model.
        measures: dict, by the names of `settings.MEASURES`.

    Returns:
        A dict, as of `Task.wanted`.
    """
    found = {}

    def add(key, apart, make, *arguments):
        found[key] = apart, functools.partial(make, experiment, *arguments)

    cache = experiment.preset.get("cache")
    if "cache_size" in measures:
        cache = {**(cache or {}), "size": measures["cache_size"]}
    if cache is not None:
        add("cache", {"size": cache["size"]}, _with_cache, cache)
    if measures.get("dynamic"):
        add("dynamic", {}, _by_dynamic_evaluation)
        if cache is not None:
            size = {"size": cache["size"]}
            add("dynamic_with_cache", size, _by_both, cache)
    if "monte_carlo" in measures:
        draws = measures["monte_carlo"]
        add("monte_carlo", {"samples": draws}, _by_masks, draws)
    if "samples" in measures:
        draws = measures["samples"]
        add("by_samples", {"samples": draws}, _by_samples, draws)
        add("by_mode", {}, _by_mode)
    if "questions" in measures:
        paths = [measures[name] for name in _FILES]
        files = {"files": identity(paths)}
        add(COMPLETION, files, _answer_completion, paths)
    return found


def check(experiment, measures):
    """Refuses what cannot be measured, before anything is trained.

    Raises:
        UsageError: if a model or a file does not allow it.
    """
    name, model = experiment.preset_name, experiment.preset["model"]
    if "cache_size" in measures and model.get("mixture") is not None:
        raise UsageError(
            "cache_size is of models without a mixture of their own. Received: "
            f"preset={name}"
        )
    if "samples" in measures and not smoothing_of(model):
        raise UsageError(
            "samples needs a smoothed model, such as kong2019/vs_linear_512. "
            f"Received: preset={name}"
        )
    given = [name for name in _FILES if name in measures]
    if len(given) == 1:
        raise UsageError(
            "questions and answers need each other. Received: "
            f"{given[0]}={measures[given[0]]}"
        )
    for file in given:
        if not pathlib.Path(measures[file]).is_file():
            raise UsageError(f"There is no file {file}={measures[file]}.")
    if given:
        completion_questions(*(measures[file] for file in given))
    if experiment.dataset.name == "cbt":
        _read_cbt(experiment)
    if "monte_carlo" in measures:
        made = experiment.task.make(experiment)
        if not copies.drops(made):
            raise UsageError(
                "monte_carlo is of models with dropout. Received: "
                f"preset={name}, without"
            )
        try:
            copies.require_masks(made)
        except ValueError as error:
            raise UsageError(f"monte_carlo cannot read {name}: {error}") from (
                None
            )


def answer_cbt(experiment, model, verbose):
    """Accuracy on the test questions of each word type, as plain values."""
    return {
        word_type: _answered(experiment, model, questions, verbose)
        for word_type, questions in _read_cbt(experiment).items()
    }


def identity(paths):
    """Numbers that say which files these are."""
    return [zlib.crc32(pathlib.Path(path).read_bytes()) for path in paths]


def _read_cbt(experiment):
    data_dir = experiment.overrides.get("data_dir")
    return {
        word_type: cbt_questions(word_type, "test", data_dir=data_dir)
        for word_type in WORD_TYPES
    }


def _answer_completion(experiment, paths, model, verbose):
    questions = completion_questions(*paths)
    found = _answered(experiment, model, questions, verbose)
    return {**found, "files": identity(paths)}


def _answered(experiment, model, questions, verbose):
    vocabulary = experiment.corpus.vocabulary
    result = cloze_accuracy(model, questions, vocabulary, verbose=verbose)
    return {
        "accuracy": result.accuracy,
        "interval": result.interval,
        "correct": result.correct,
        "questions": result.questions,
        "unknown_answers": result.unknown_answers,
        "protocol": result.protocol,
    }


def _measured(experiment, model, split, verbose):
    batches = evaluation_batches(experiment, model, split)
    return report.plain_perplexity(perplexity(model, batches, verbose=verbose))


def _cached(experiment, cache, model, verbose):
    """A model with the best cache, and what that is."""
    validation = evaluation_batches(experiment, model, "validation")
    chosen = choose_cache(model, validation, verbose=verbose, **cache).cache
    told = {name: getattr(chosen, name) for name in ("size", "theta", "weight")}
    return model.with_mixture(chosen), told


def _with_cache(experiment, cache, model, verbose):
    cached, told = _cached(experiment, cache, model, verbose)
    return {
        **told,
        **{
            split: _measured(experiment, cached, split, verbose)
            for split in ("validation", "test")
        },
    }


def _by_both(experiment, cache, model, verbose):
    cached, told = _cached(experiment, cache, model, verbose)
    name = "Dynamic evaluation with a cache"
    return {**told, **_by_dynamic_evaluation(experiment, cached, verbose, name)}


def _by_dynamic_evaluation(
    experiment, model, verbose, name="Dynamic evaluation"
):
    def batches(split, rows=1):
        return experiment.corpus.batches(
            split,
            rows,
            _DYNAMIC_STEPS,
            sentences=reads_sentences(experiment.preset),
            documents=bool(experiment.settings.get("documents")),
        )

    def tell(part, what):
        if verbose:
            print(f"{name}, part {part} of 3: {what}")

    tell(1, "mean squares of gradients, one pass over the training text")
    squares = mean_squared_gradients(
        model, batches("train", _DYNAMIC_ROWS), verbose=verbose
    )
    tell(2, "rate and decay, chosen on the validation text")
    choice = choose_dynamic(
        model,
        batches("validation"),
        squares,
        segments=_DYNAMIC_SEGMENTS,
        verbose=verbose,
    )
    best = choice.evaluator
    tell(3, "the validation and the test text by the best of them")
    return {
        "rate": best.rate,
        "decay": best.decay,
        **{
            split: report.plain_perplexity(
                perplexity(best, batches(split), verbose=verbose)
            )
            for split in ("validation", "test")
        },
    }


def _by_masks(experiment, samples, model, verbose):
    found = monte_carlo_perplexity(
        model,
        evaluation_batches(experiment, model, "test"),
        samples=samples,
        seed=experiment.seed,
        verbose=int(verbose == 1),
    )
    return {"samples": samples, "test": report.plain_perplexity(found)}


def _by_samples(experiment, samples, model, verbose):
    batches = evaluation_batches(experiment, model, "validation")
    found = sampled_perplexity(
        model, batches, samples, experiment.seed, verbose
    )
    return {"samples": samples, **report.plain_perplexity(found)}


def _by_mode(experiment, model, verbose):
    mode = model.with_prediction("mode")
    return _measured(experiment, mode, "validation", verbose)

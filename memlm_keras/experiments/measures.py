"""Measures of trained language models besides their perplexity."""

import functools
import pathlib
import zlib

from memlm_keras.data import cbt_questions
from memlm_keras.data import completion_questions
from memlm_keras.evaluation import choose_cache
from memlm_keras.evaluation import cloze_accuracy
from memlm_keras.evaluation import monte_carlo_perplexity
from memlm_keras.evaluation import perplexity
from memlm_keras.evaluation import sampled_perplexity
from memlm_keras.experiments import report
from memlm_keras.experiments.options import UsageError
from memlm_keras.experiments.tasks import smoothing_of
from memlm_keras.models import copies

WORD_TYPES = ("NE", "CN", "V", "P")
COMPLETION = "completion"
_FILES = ("questions", "answers")


def wanted(experiment, measures):
    """The measures of an experiment: what is asked for, and its preset's.

    Args:
        experiment: `Experiment` of a language model.
        measures: dict, by the names of `settings.MEASURES`.

    Returns:
        Dict by the key of `results.json` of pairs: what sets the measure apart
        there, and a function of model, batches by split and verbosity that
        makes it.
    """
    found = {}
    cache = experiment.preset.get("cache")
    if measures.get("cache_size") is not None:
        cache = {**(cache or {}), "size": measures["cache_size"]}
    if cache is not None:
        make = functools.partial(_with_cache, cache)
        found["cache"] = {"size": cache["size"]}, make
    draws = measures.get("monte_carlo")
    if draws is not None:
        make = functools.partial(_by_masks, draws, experiment.seed)
        found["monte_carlo"] = {"samples": draws}, make
    samples = measures.get("samples")
    if samples is not None:
        make = functools.partial(_by_samples, samples, experiment.seed)
        found["by_samples"] = {"samples": samples}, make
        found["by_mode"] = {}, _by_mode
    if measures.get("questions") is not None:
        paths = [measures[name] for name in _FILES]
        make = functools.partial(_answer_completion, experiment, paths)
        found[COMPLETION] = {"files": identity(paths)}, make
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
        made = experiment.task.new_model(experiment)
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


def missing(experiment, measures, results):
    """Those of `wanted` that are not in what `results.json` holds."""
    return {
        key: make
        for key, (apart, make) in wanted(experiment, measures).items()
        if key not in results
        or any(results[key].get(k) != value for k, value in apart.items())
    }


def measure(experiment, model, measures, verbose, results):
    """Makes what is missing, as plain values by its key of `results.json`."""
    makers = missing(experiment, measures, results)
    if not makers:
        return {}
    from memlm_keras.experiments.language_models import evaluation_batches

    evaluation = evaluation_batches(experiment, model)
    return {
        key: make(model, evaluation, verbose) for key, make in makers.items()
    }


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


def _answer_completion(experiment, paths, model, evaluation, verbose):
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


def _with_cache(cache, model, evaluation, verbose):
    choice = choose_cache(
        model, evaluation["validation"], verbose=verbose, **cache
    )
    chosen = choice.cache
    cached = model.with_mixture(chosen)
    return {
        "size": chosen.size,
        "theta": chosen.theta,
        "weight": chosen.weight,
        **{
            split: report.plain_perplexity(
                perplexity(cached, batches, verbose=verbose)
            )
            for split, batches in evaluation.items()
        },
    }


def _by_masks(samples, seed, model, evaluation, verbose):
    found = monte_carlo_perplexity(
        model,
        evaluation["test"],
        samples=samples,
        seed=seed,
        verbose=int(verbose == 1),
    )
    return {"samples": samples, "test": report.plain_perplexity(found)}


def _by_samples(samples, seed, model, evaluation, verbose):
    found = sampled_perplexity(
        model, evaluation["validation"], samples, seed, verbose
    )
    return {"samples": samples, **report.plain_perplexity(found)}


def _by_mode(model, evaluation, verbose):
    mode = model.with_prediction("mode")
    found = perplexity(mode, evaluation["validation"], verbose=verbose)
    return report.plain_perplexity(found)

"""Measurements of trained models.

Every language model is measured by `perplexities`. A user or a preset can
request further `MEASUREMENTS`."""

import dataclasses
import math
import pathlib
import zlib
from collections.abc import Callable

import memlm_keras as memlm
from memlm_keras.experiments import comparison
from memlm_keras.experiments import datasets
from memlm_keras.experiments import process
from memlm_keras.experiments.options import UsageError

WORD_TYPES = ("NE", "CN", "V", "P")
# Results that `memlm` prints.
BITS = ("bits_per_word", "bits_per_character")
NUMBERS = ("perplexity", "accuracy", "token_accuracy", "sequence_accuracy")
_ROWS = 50  # Batch size of autoencoders.
# Defaults for dynamic evaluation (Krause et al., 2018, and their code): time
# steps per update, and the number of segments of validation text to read.
_DYNAMIC = {"steps": 5, "segments": 6000}
_CACHE = ("size", "theta", "weight")  # Arguments of a neural cache.
# Batch size for the statistics of gradients (Krause et al., 2018).
_DYNAMIC_ROWS = 100


@dataclasses.dataclass(frozen=True)
class Measurement:
    """A measurement that runs on request."""

    name: str  # Key in `results.json`, such as `"cache"`.
    # Called with (experiment, model, asked, verbose, before), where `asked` is
    # a dict of options and `before` a dict of earlier results; returns a dict.
    function: Callable
    # Maps each required option to its key in the results, or to `None` if it
    # has no key. If several options are required, the user must give the first
    # one, because a preset cannot request the measurement.
    needs: dict
    check: Callable | None = None  # Called with (experiment, asked).


@dataclasses.dataclass(frozen=True)
class Request:
    """A requested measurement of an experiment."""

    experiment: object
    measurement: Measurement
    asked: dict  # Options of the user and of the preset.
    settings: dict
    typed: bool  # True if requested by the user, False if by the preset.

    @property
    def name(self):
        return self.measurement.name

    def make(self, model, verbose, before):
        found = self.measurement.function(
            self.experiment, model, self.asked, verbose, before
        )
        return {**self.settings, **found}

    def is_in(self, results):
        """Returns whether `results` has the measurement with these settings."""
        made = results.get(self.name)
        return made is not None and all(
            made.get(key) == value for key, value in self.settings.items()
        )


def requests(experiment, asked, before):
    """Returns a list of `Request`s, from the options `asked` and the preset.

    Measurements that need several options run only if the user asks for them.
    If the earlier results `before` have a cache size, it replaces the cache
    size of the preset."""
    typed = {option for option, value in asked.items() if value}
    if cache := experiment.preset.get("cache"):
        size = before.get("cache", cache)["size"]
        asked = {"cache_size": size, **asked}
    if dynamic := experiment.preset.get("dynamic"):
        corpus = experiment.corpus
        tokens = len(corpus.validation) + len(corpus.test)
        most = dynamic.get("most_tokens", tokens)
        asked = {"dynamic": tokens <= most, **asked}
    found = []
    for each in MEASUREMENTS:
        by_option = next(iter(each.needs)) in typed
        if not all(map(asked.get, each.needs)) or (
            len(each.needs) > 1 and not by_option
        ):
            continue
        settings = {key: asked[o] for o, key in each.needs.items() if key}
        if each.name == COMPLETION:
            settings = {"files": identity(map(asked.get, each.needs))}
        found.append(Request(experiment, each, asked, settings, by_option))
    return found


# === Perplexities ===


def plain_perplexity(result):
    """Converts a `Perplexity`, and those in its dict `others`, to a dict."""
    names = "perplexity loss predicted_tokens total_tokens protocol".split()
    others = {k: plain_perplexity(v) for k, v in result.others.items()}
    return {name: getattr(result, name) for name in names} | others


def perplexities(
    model,
    batches,
    verbose,
    corpus,
    also=(),
    splits=("validation", "test"),
    scores=lambda split: None,
):
    """Returns perplexity and bits per word and character for each split.

    `batches` is a function from the name of a split to batches. `scores` is a
    function from the name of a split to scores, or to `None` if they must be
    computed."""
    results = {}
    for split in splits:
        if verbose:
            print(f"{split} text:")
        found = memlm.evaluation.perplexity(
            model, batches(split), verbose, also, scores=scores(split)
        )
        results[split] = plain_with_bits(found, corpus, split)
    return results


def plain_with_bits(result, corpus, split):
    """Returns a `Perplexity` as a dict, with bits per word and character if the
    split has counts of its words and characters."""
    values, split = plain_perplexity(result), getattr(corpus, split)
    if split.counts is None or not result.causal:
        return values
    bits = memlm.evaluation.text_bits(result, split, corpus.vocabulary)
    return {
        **values,
        **dict(zip(BITS, (bits.per_word, bits.per_character))),
        "spelling_bits_per_word": bits.spelling / bits.words,
    }


def describe_bits(values):
    """Returns a line with the bits per word and per character in the results
    `values` of a split; `None` if the results have none."""
    if BITS[0] not in values:
        return None
    by_word, by_character = (values[name] for name in BITS)
    line = (
        f"{by_word:.2f} bits a word between spaces, {by_character:.2f} bits a "
        "character"
    )
    if spelling := values["spelling_bits_per_word"]:
        line += f"; {spelling:.2f} bits a word spell unknown words"
    return line


def add_cache(experiment, model, asked, verbose, before):
    """Returns the model with its best cache, and the cache's settings. Searches
    for settings unless the results `before` have them for this cache size."""
    known = before.get("cache")
    if known and known["size"] == asked["cache_size"]:
        cache = cache_of(known)
    else:
        cache = _choose_cache(experiment, model, asked, verbose).cache
    return model.with_mixture(cache), _settings_of(cache)


def cache_of(results):
    return memlm.mixtures.NeuralCache(**{k: results[k] for k in _CACHE})


def _settings_of(cache):
    return {name: getattr(cache, name) for name in _CACHE}


def _choose_cache(experiment, model, asked, verbose):
    """Chooses a cache on the validation text; returns a `CacheChoice`."""
    choices = {
        **(experiment.preset.get("cache") or {}),
        "size": asked["cache_size"],
    }
    return _try_caches(experiment, model, "validation", choices, verbose)


def _try_caches(experiment, model, split, choices, verbose):
    """Tries settings of a cache on a split; returns a `CacheChoice`."""
    return memlm.evaluation.choose_cache(
        model,
        datasets.evaluation_batches(experiment, model, split),
        verbose=verbose,
        scores=experiment.scores(model, split, verbose),
        **choices,
    )


def _with_cache(experiment, model, asked, verbose, before):
    def perplexity(choice):
        best, count = choice.perplexity, choice.predicted_tokens
        return {
            "perplexity": best,
            "loss": count * math.log(best),
            "predicted_tokens": count,
        }

    chosen = _choose_cache(experiment, model, asked, verbose)
    settings = _settings_of(chosen.cache)
    only = {
        "size": settings["size"],
        "thetas": [settings["theta"]],
        "weights": [settings["weight"]],
    }
    test = _try_caches(experiment, model, "test", only, verbose)
    return {
        **settings,
        "validation": perplexity(chosen),
        "test": perplexity(test),
    }


def _check_cache(experiment, asked):
    if experiment.preset["model"].get("mixture") is not None:
        raise UsageError(
            "--cache_size needs a model without a mixture. Received: "
            f"preset={experiment.preset_name}"
        )


def _dynamic_with_cache(experiment, model, asked, verbose, before):
    cached, settings = add_cache(experiment, model, asked, verbose, before)
    name = "Dynamic evaluation with a cache"
    found = _dynamic(experiment, cached, asked, verbose, before, name)
    return {**settings, **found}


def _dynamic(
    experiment, model, asked, verbose, before, name="Dynamic evaluation"
):
    evaluation = memlm.evaluation
    reading = experiment.preset.get("dynamic") or _DYNAMIC

    def batches(split, rows=1):
        return experiment.corpus.batches(
            split,
            rows,
            reading["steps"],
            sentences=datasets.reads_sentences(experiment.preset),
            documents=bool(experiment.settings.get("documents")),
        )

    def report(part, text):
        if verbose:
            print(f"{name}, part {part} of 3: {text}")

    report(1, "mean squares of gradients of the training text")
    squares = evaluation.mean_squared_gradients(
        model,
        batches("train", _DYNAMIC_ROWS),
        verbose=verbose,
        segments=reading.get("training_segments"),
    )
    report(2, "rate and decay, chosen on the validation text")
    best = evaluation.choose_dynamic(
        model,
        batches("validation"),
        squares,
        segments=reading["segments"],
        verbose=verbose,
    ).evaluator
    splits = reading.get("splits", ("validation", "test"))
    report(3, f"{' and '.join(splits)} text with this rate and decay")
    results = perplexities(
        best, batches, verbose, experiment.corpus, splits=splits
    )
    return {"rate": best.rate, "decay": best.decay, **results}


def _monte_carlo(experiment, model, asked, verbose, before):
    result = memlm.evaluation.monte_carlo_perplexity(
        model,
        datasets.evaluation_batches(experiment, model, "test"),
        samples=asked["monte_carlo"],
        seed=experiment.seed,
        verbose=int(verbose == 1),
    )
    return {"test": plain_perplexity(result)}


def _check_monte_carlo(experiment, asked):
    process.import_keras()
    from memlm_keras.models import variants

    name = experiment.preset_name
    model = experiment.make_model()
    if not variants.drops(model):
        raise UsageError(
            f"--monte_carlo needs a model with dropout. Received: {name}"
        )
    try:
        variants.require_masks(model)
    except ValueError as error:
        raise UsageError(f"monte_carlo cannot read {name}: {error}") from None


def _by_samples(experiment, model, asked, verbose, before):
    batches = datasets.evaluation_batches(experiment, model, "validation")
    batches = experiment.noised(batches)
    return plain_perplexity(
        memlm.evaluation.sampled_perplexity(
            model, batches, asked["samples"], experiment.seed, verbose
        )
    )


def _by_mode(experiment, model, asked, verbose, before):
    # With data noising, "mode" means predictions from the text without noise.
    mode = model.with_prediction("mode") if model.smoothing else model
    batches = datasets.evaluation_batches(experiment, mode, "validation")
    result = memlm.evaluation.perplexity(mode, batches, verbose=verbose)
    return plain_perplexity(result)


def _check_samples(experiment, asked):
    preset = experiment.preset
    if not (preset.get("noise") or datasets.smoothing_of(preset["model"])):
        raise UsageError(
            "--samples needs a smoothed or a noised model, such as "
            "kong2019/vs_linear_512 or kong2019/dn_linear_512. Received: "
            f"preset={experiment.preset_name}"
        )


def _last_epoch(experiment, model, asked, verbose, before):
    measured = {"epoch": before["epochs"]}
    if before.get("finite", True):
        last = experiment.last_model()
        measured |= experiment.measure(last, verbose)
    return measured


def _check_last(experiment, asked):
    if experiment.run_folder is None:
        raise UsageError(
            "--test_last needs a run folder, and measures on the text of its "
            "run. Name a run folder, without options such as --dataset."
        )


# === Cloze questions ===

COMPLETION = "completion"


def answer_cbt(experiment, model, verbose):
    """Computes the accuracy on the test questions of each word type."""
    return {
        word_type: _answer(experiment, model, questions, verbose)
        for word_type, questions in cbt_questions(experiment).items()
    }


def cbt_questions(experiment):
    data_dir = experiment.overrides.get("data_dir")
    return {
        word_type: memlm.data.cbt_questions(
            word_type, "test", data_dir=data_dir
        )
        for word_type in WORD_TYPES
    }


def identity(paths):
    """Returns a list of the files' checksums, which identify them."""
    return [zlib.crc32(pathlib.Path(path).read_bytes()) for path in paths]


def _complete(experiment, model, asked, verbose, before):
    questions = memlm.data.completion_questions(
        asked["questions"], asked["answers"]
    )
    return _answer(experiment, model, questions, verbose)


def _check_completion(experiment, asked):
    paths = {n: asked[n] for n in ("questions", "answers") if n in asked}
    if len(paths) == 1:
        ((name, path),) = paths.items()
        raise UsageError(
            f"Give both --questions and --answers. Received: --{name}={path}"
        )
    for name, path in paths.items():
        if not pathlib.Path(path).is_file():
            raise UsageError(f"There is no file --{name}={path}.")
    memlm.data.completion_questions(*paths.values())


def _answer(experiment, model, questions, verbose):
    result = memlm.evaluation.cloze_accuracy(
        model, questions, experiment.corpus.vocabulary, verbose=verbose
    )
    names = "accuracy interval correct questions unknown_answers protocol"
    return {name: getattr(result, name) for name in names.split()}


# === Autoencoders ===


def reconstruction(experiment, model, split, sampler, verbose):
    """Computes the reconstruction accuracies of a split, in percent."""
    batches = memlm.data.AutoencodingBatches(
        getattr(experiment.corpus, split).tokens,
        _ROWS,
        longest=experiment.settings["longest"],
    )
    result = memlm.evaluation.reconstruction(model, batches, sampler, verbose)
    return {
        **result._asdict(),
        "token_accuracy": 100 * result.token_accuracy,
        "sequence_accuracy": 100 * result.sequence_accuracy,
    }


def _by_beams(experiment, model, asked, verbose, before):
    sampler = _beam_sampler(experiment, asked)
    return reconstruction(experiment, model, "test", sampler, verbose)


def _beam_sampler(experiment, asked):
    process.import_keras()
    from memlm_keras.models.generation import beam_sampler

    return beam_sampler("--beams", num_beams=asked["beams"])


MEASUREMENTS = (
    Measurement("last_epoch", _last_epoch, {"test_last": None}, _check_last),
    Measurement(
        comparison.NAME,
        comparison.compare,
        {"compare": None},
        datasets.require_counts,
    ),
    Measurement("cache", _with_cache, {"cache_size": "size"}, _check_cache),
    Measurement("dynamic", _dynamic, {"dynamic": None}),
    Measurement(
        "dynamic_with_cache",
        _dynamic_with_cache,
        {"dynamic": None, "cache_size": "size"},
    ),
    Measurement(
        "monte_carlo",
        _monte_carlo,
        {"monte_carlo": "samples"},
        _check_monte_carlo,
    ),
    Measurement(
        "by_samples", _by_samples, {"samples": "samples"}, _check_samples
    ),
    Measurement("by_mode", _by_mode, {"samples": None}),
    Measurement(
        COMPLETION,
        _complete,
        {"questions": "files", "answers": "files"},
        _check_completion,
    ),
    Measurement("test_by_beams", _by_beams, {"beams": "beams"}, _beam_sampler),
)


# === Printing ===


def print_requested(results, requests):
    """Prints the measurements requested by the user. Also prints a comparison
    with n-grams, if there is one, or else the preset's measurements."""
    compared = comparison.NAME in results
    if compared:
        print("\n".join(comparison.describe(results)))
    shown = [r.name for r in requests if r.typed or not compared]
    shown = [name for name in shown if name != comparison.NAME]
    print_numbers({name: results[name] for name in shown})


def print_numbers(results):
    """Prints the numbers in `results.json` or in a part of it, one per line."""
    for key, value in results.items():
        if not isinstance(value, dict):
            continue
        if "validation" in value or "test" in value or key == "cbt":
            print_numbers({f"{key}, {k}": v for k, v in value.items()})
            continue
        for name in NUMBERS:
            if name in value:
                print(f"{key}: {name.replace('_', ' ')} {value[name]:.3f}")
        if bits := describe_bits(value):
            print(f"{key}: {bits}")

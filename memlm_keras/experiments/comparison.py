"""Compares a trained language model with n-gram models.

A neural model that predicts no better than n-grams has learned too little."""

import math
import re
import warnings

import memlm_keras as memlm
from memlm_keras.experiments import datasets

NAME = "comparison"
_ORDER = 5
# Number of words to print, and their minimum count in the test text.
_WORDS, _OFTEN = 8, 3
# A word is printed if the neural model saves more than this number of bits per
# occurrence, compared with n-grams. Smaller numbers would be printed as 0.0.
_LEAST = 0.05
_LINES, _LONGEST = 3, 25
_BITS = math.log(2.0)
# A model has learned little if its perplexity is above this share of the
# unigram model's.
_LEARNED = 0.8


def compare(experiment, model, asked, verbose, before):
    """Returns a dict with the perplexities of n-gram models, the words that the
    neural model predicts much better, and generated lines."""
    import numpy as np

    from memlm_keras.data.batches import concatenate_batches
    from memlm_keras.ngrams.mixture import mixed
    from memlm_keras.ngrams.mixture import mixture_weights

    corpus = experiment.corpus
    unigram, counted = _counted(corpus, 1), _counted(corpus, _ORDER)
    cached = memlm.ngrams.with_cache(counted, corpus.validation, verbose=0)

    def scores(split):
        """Returns the targets and the two models' log-probabilities."""
        batches = datasets.evaluation_batches(experiment, model, split)
        found, weights = experiment.scores(model, split, verbose)
        # The cache reads the running text, also if the model does not.
        text = getattr(corpus, split)
        offsets = ((each,) for _, each, _ in batches.of_offsets())
        (places,) = concatenate_batches(offsets)
        kept = weights > 0
        places = places[kept]
        by_counts = cached.score(text)[places]
        return text.tokens[places], found[kept].astype("float64"), by_counts

    words, found, by_counts = scores("test")
    shares = mixture_weights(scores("validation")[1:])
    averaged = mixed([found, by_counts], shares)
    return {
        "unit": datasets.unit_of(corpus.vocabulary),
        **_before_training(experiment, verbose),
        "unigram": _perplexities(unigram, corpus),
        "kneser_ney": _perplexities(counted, corpus),
        "kneser_ney_with_cache": _perplexities(cached, corpus),
        "averaged": {"test": {"perplexity": float(np.exp(-averaged.mean()))}},
        "gained": _gained(corpus.vocabulary, words, found - by_counts),
        "generated": _generated(experiment, model),
    }


def _before_training(experiment, verbose):
    if "trained" not in experiment.preset:
        return {}
    model = experiment.make_model()
    batches = datasets.evaluation_batches(experiment, model, "test")
    result = memlm.evaluation.perplexity(model, batches, verbose)
    return {"before": {"test": {"perplexity": result.perplexity}}}


def _counted(corpus, order):
    model = memlm.ngrams.KneserNey(len(corpus.vocabulary), order=order)
    with warnings.catch_warnings():
        # For a small text, Kneser-Ney warns that it uses default discounts.
        # These discounts are good enough for a comparison.
        warnings.filterwarnings("ignore", "Counts of counts")
        return model.fit(corpus.train, verbose=0)


def _perplexities(model, corpus):
    splits = {"validation": corpus.validation, "test": corpus.test}
    found = {k: model.perplexity(v, verbose=0) for k, v in splits.items()}
    return {k: {"perplexity": v.perplexity} for k, v in found.items()}


def warn_if_little_is_learned(experiment, results, command, compared=False):
    """Prints advice if the test perplexity is hardly below the unigram model's.
    If `compared`, does not advise training longer, because `describe` does."""
    corpus = experiment.corpus
    if not datasets.can_be_counted(corpus):
        return
    unigram = _counted(corpus, 1).perplexity(corpus.test, verbose=0)
    by_frequency, by_model = unigram.perplexity, results["test"]["perplexity"]
    if by_model < _LEARNED * by_frequency:
        return
    how = "little better" if by_model < by_frequency else "worse"
    line = (
        f"The model is {how} than word frequencies: on the test text, its "
        f"perplexity is {by_model:.1f}, and that of the frequencies is "
        f"{by_frequency:.1f}."
    )
    if experiment.preset.get("trained") is None:
        own = experiment.preset_name.startswith("memlm/")
        given = {*experiment.overrides}
        typed = _flags(command) if command else given
        chosen = own or not given <= typed
        gains = results["best_epoch"] == results["epochs"]
        adam = experiment.preset["optimizer"]["class_name"].endswith("Adam")
        halves = own or experiment.settings.get("halve")
        flags = ["--optimizer=adam"] * (not adam) + ["--halve"] * (not halves)
        flags += ["a smaller --batch_size", "a larger --initial_range"]
        # If the last epoch was the best, the model can improve further. If the
        # command also chose the settings, no other settings are advised.
        flags *= not (gains and chosen)
        flags = [f for f in flags if not _flags(f) <= typed]
        if gains and "learning_rate" in typed:
            flags.append("a larger --learning_rate")
        if gains and not compared:
            flags.append("more --epochs")
        if flags:
            *some, last = flags
            line += f" Try {', '.join(some)}{' or ' * bool(some)}{last}."
    print(line)


def _flags(command):
    """Returns the names of a command's flags, without the prefix "no"."""
    return set(re.findall(r"--(?:no)?(\w+)", command))


def _gained(vocabulary, words, nats):
    """Returns `[word, count, mean bits saved]` for the words for which the
    model saves the most bits, compared with n-grams."""
    import numpy as np

    counts = np.bincount(words, minlength=len(vocabulary))
    sums = np.bincount(words, nats, minlength=len(vocabulary)) / _BITS
    sums[[vocabulary.unknown_id, vocabulary.end_of_sentence_id]] = 0
    sums[counts < _OFTEN] = 0
    best = np.argsort(-sums)[:_WORDS]
    return [
        [vocabulary.tokens[word], int(counts[word]), sums[word] / counts[word]]
        for word in best
        if sums[word] > _LEAST * counts[word]
    ]


def _generated(experiment, model):
    import keras

    if not model.causal:
        return []
    keras.utils.set_random_seed(experiment.seed)
    return model.generate(
        [""] * _LINES,
        _LONGEST,
        "top_k",
        suppress_token_ids=[model.vocabulary.unknown_id],
    )


def _behind_counting(results, rows):
    """Yields advice if the model is worse than Kneser-Ney. A model with a cache
    is compared with Kneser-Ney with a cache."""
    pairs = {"": (rows["this model"], rows["Kneser-Ney, order 5"])}
    if cached := rows.get("this model with a cache"):
        pairs[" with a cache"] = cached, rows["Kneser-Ney with a cache"]
    behind = {n: model > counts for n, (model, counts) in pairs.items()}
    if not any(behind.values()):
        return
    line = "; ".join(
        f"this model{name} is {'behind' if behind[name] else 'ahead of'} "
        f"Kneser-Ney{name} ({model:.1f} and {counts:.1f})"
        for name, (model, counts) in pairs.items()
    )
    line = f"T{line[1:]}."
    epochs = results.get("epochs")
    if epochs and results["best_epoch"] == epochs:
        line += " Its last epoch was the best: more --epochs may help."
    elif epochs and all(behind.values()):
        line += " More epochs do not help: later ones were no better."
    own = results["preset"].startswith("memlm/")
    if all(behind.values()) and ("before" in results[NAME] or not own):
        line += " `memlm train` without a preset chooses another model."
    yield line


def describe(results):
    """Returns lines of text about the comparison in `results.json`."""
    found = results[NAME]
    rows = {
        "word frequencies": found["unigram"],
        "Kneser-Ney, order 5": found["kneser_ney"],
        "Kneser-Ney with a cache": found["kneser_ney_with_cache"],
        f"{results['preset']} as it was": found.get("before"),
        "this model": results,
        "this model with a cache": results.get("cache"),
        "this model, dynamic evaluation": results.get("dynamic"),
        "this model, both": results.get("dynamic_with_cache"),
        "this model and Kneser-Ney, averaged": found["averaged"],
    }
    rows = {n: row["test"]["perplexity"] for n, row in rows.items() if row}
    width = max(map(len, rows))
    unit = found.get("unit", "words")
    lines = [
        f"Perplexity of the test text, over {unit} (if vocabularies differ, "
        "compare bits):"
    ]
    lines += [f"  {name:{width}} {value:9.1f}" for name, value in rows.items()]
    lines += _behind_counting(results, rows)
    if found["gained"]:
        words = ", ".join(
            f"{word!r} ({bits:.1f}, {count} times)"
            for word, count, bits in found["gained"]
        )
        lines.append(
            f"{unit.capitalize()} that it predicts better than Kneser-Ney with "
            f"a cache, and the bits saved each time: {words}"
        )
    if found["generated"]:
        lines += ["It writes:", *(f"  {line}" for line in found["generated"])]
    return lines

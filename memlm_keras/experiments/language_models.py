"""Experiments with language models."""

import functools
import math

import keras
import numpy as np

from memlm_keras import presets
from memlm_keras import smoothing
from memlm_keras import training
from memlm_keras.data import sentence_starts
from memlm_keras.evaluation import perplexity
from memlm_keras.experiments import figures
from memlm_keras.experiments import measures
from memlm_keras.experiments import report
from memlm_keras.experiments.datasets import evaluation_batches
from memlm_keras.experiments.datasets import reads_documents
from memlm_keras.experiments.datasets import reads_sentences
from memlm_keras.experiments.datasets import sentence_batches
from memlm_keras.experiments.options import LANGUAGE_MODEL
from memlm_keras.experiments.options import NoUseError
from memlm_keras.experiments.options import UsageError
from memlm_keras.experiments.tasks import Task
from memlm_keras.experiments.tasks import smoothing_of
from memlm_keras.memory import KeyValuePredict

# Which of our perplexities a paper's own protocol stands beside.
_ALSO = {"salton2017": ("salton2017",)}
# Bytes of the logits of a batch that are worth a word before training.
LARGE_LOGITS = 2**30
_MEMORY_WINDOW = 5
# Of the perplexity by frequency: above it, little is learnt.
_LEARNT = 0.8


class LanguageModelTask(Task):
    """A language model that reads continuous text, documents or sentences."""

    kind = LANGUAGE_MODEL

    def preset(self, name, overrides):
        """Extends `Task`: with noise, smoothing and memory as they are told."""
        sizes = dict(overrides)
        window = sizes.pop("window", None) if "memory" in sizes else None
        preset = super().preset(name, sizes)
        _change_smoothing(name, preset, overrides)
        if "memory" in overrides:
            _put_memory(name, preset["model"], window or _MEMORY_WINDOW)
        return preset

    def settings(self, experiment):
        """Extends `Task`: with how much is read at once, and schedules."""
        preset, overrides = experiment.preset, experiment.overrides
        data, schedule = preset["data"], preset["schedule"]
        smooth = smoothing_of(preset["model"]) or {}
        noise = preset.get("noise") or {}
        if reads_sentences(preset):
            reading = {
                "longest": overrides.get("segment_length", data.get("longest")),
                "length_multiple": overrides.get("length_multiple", 8),
            }
        else:
            length = overrides.get("segment_length", data["segment_length"])
            reading = {
                "segment_length": length,
                "documents": reads_documents(experiment),
            }
        return {
            "units": units_of(experiment),
            **super().settings(experiment),
            **reading,
            "halve_after": overrides.get(
                "halve_after", schedule.get("halve_after")
            ),
            "factor": schedule.get("factor"),
            "rate": noise.get("rate", smooth.get("rate")),
            "l2": preset.get("l2"),
            **{
                name: overrides.get(name)
                for name in (
                    "match_parameters",
                    "window",
                    "other_words",
                    "memory",
                )
            },
        }

    def make(self, experiment):
        """Extends `Task`: at the size that matches; smoothing has its text."""
        overrides = experiment.overrides
        if overrides.get("match_parameters"):
            names = ("window", "initial_range", "dropout")
            sizes = {n: overrides[n] for n in names if n in overrides}
            sizes["units"] = units_of(experiment)
            sizes["embedding_dim"] = experiment.preset["model"]["embedding_dim"]
            changed = Task.preset(self, experiment.preset_name, sizes)
            experiment.preset["model"] = changed["model"]
        model = super().make(experiment)
        if model.smoothing is not None:
            model.smoothing.adapt(statistics(experiment))
        return model

    def callbacks(self, experiment, model):
        """Schedules of the learning rate."""
        settings = experiment.settings
        if "halve_after" in settings:
            schedule = training.halve_after(
                settings["halve_after"], settings.get("factor", 0.5)
            )
            return [keras.callbacks.LearningRateScheduler(schedule)]
        plateau = experiment.preset["schedule"].get("reduce_on_plateau")
        if plateau is None:
            return []
        return [keras.callbacks.ReduceLROnPlateau(**plateau)]

    def training_batches(self, experiment, model):
        """Sentences, documents or continuous text, as the preset reads."""
        settings, corpus = experiment.settings, experiment.corpus
        if reads_sentences(experiment.preset):
            _warn_of_long_sentences(experiment)
            batches = sentence_batches(
                experiment,
                "train",
                shuffle=True,
                longest=settings.get("longest"),
                equal_lengths=experiment.preset["data"].get(
                    "equal_lengths", True
                ),
            )
        else:
            size, length = settings["batch_size"], settings["segment_length"]
            documents = settings["documents"]
            batches = corpus.batches(
                "train",
                batch_size=size,
                segment_length=length,
                documents=documents,
                shuffle=documents,
                seed=experiment.seed,
            )
            if not documents:
                if corpus.train.document_starts is not None:
                    print(
                        f"{corpus.name} has documents, and this run reads "
                        "across them; --documents begins each afresh."
                    )
                validation = corpus.batches("validation", size, length)
                return self._noised(experiment, batches), validation
        validation = evaluation_batches(experiment, model, "validation")
        return self._noised(experiment, batches), validation

    def _noised(self, experiment, batches):
        noise = experiment.preset.get("noise")
        if not noise:
            return batches
        return smoothing.NoisedBatches(
            batches,
            statistics=statistics(experiment),
            seed=experiment.seed,
            **noise,
        )

    def measure(self, experiment, model, verbose):
        """Perplexities, and what a corpus has questions for."""
        also = _ALSO.get(experiment.preset_name.partition("/")[0], ())
        found = {}
        for split in ("validation", "test"):
            batches = evaluation_batches(experiment, model, split)
            found[split] = report.plain_perplexity(
                perplexity(model, batches, verbose=verbose, also=also)
            )
        _say_if_little_is_learnt(experiment.corpus, found["test"])
        if experiment.dataset.name == "cbt":
            found["cbt"] = measures.answer_cbt(experiment, model, verbose)
        return found

    def check_measures(self, experiment, asked):
        """See `Task`."""
        measures.check(experiment, asked)

    def wanted(self, experiment, asked):
        """See `Task`."""
        return measures.wanted(experiment, asked)

    def draw(self, experiment, model, folder, pictures, verbose):
        """See `Task`."""
        return figures.draw_language_model(
            experiment, model, folder, pictures, verbose
        )


def _say_if_little_is_learnt(corpus, found):
    """Compares a perplexity with that of words by how often they occur."""
    counts = np.bincount(
        np.asarray(corpus.train.tokens), minlength=len(corpus.vocabulary)
    )
    # No word is impossible.
    nats = np.log(np.sum(counts + 1)) - np.log(counts + 1)
    by_frequency = np.exp(np.mean(nats[np.asarray(corpus.test.tokens)]))
    if not found["perplexity"] < _LEARNT * by_frequency:
        print(
            "The model knows little more than how frequent words are: that "
            f"alone has a perplexity of {by_frequency:.0f} on the test text. "
            "The preset's settings may suit a larger text: try a smaller "
            "--batch_size, a higher --learning_rate, with --scale a larger "
            "--initial_range, or more --epochs."
        )


def units_of(experiment):
    """Units of the recurrent layers, matched if that is asked for."""
    name, overrides = experiment.preset_name, experiment.overrides
    if not overrides.get("match_parameters"):
        return experiment.preset["units"]
    return _matched_units(
        name,
        len(experiment.corpus.vocabulary),
        experiment.preset["model"]["embedding_dim"],
        overrides.get("scale", 1.0),
        overrides.get("window"),
        experiment.preset["units"],
    )


@functools.cache
def _matched_units(name, size, embedding_dim, scale, window, units):
    paper = presets.papers()[name.partition("/")[0]]
    row = name.partition("/")[2]
    if paper.matched_to is None:
        raise UsageError(
            f"match_parameters: {paper.citation} has no row that the others "
            f"are as large as. Received: preset={name}"
        )
    if row in paper.unmatched:
        return units
    reference = presets.count_params(
        f"{paper.name}/{paper.matched_to}", size, scale=scale
    )
    return presets.match_parameters(
        reference,
        name,
        size,
        embedding_dim=embedding_dim,
        **({} if window is None else {"window": window}),
    )


def statistics(experiment):
    """Counts of the training text, for noise and smoothing."""
    return smoothing.StreamStatistics.count(
        experiment.corpus.train.tokens, len(experiment.corpus.vocabulary)
    )


def _warn_of_long_sentences(experiment):
    """Prints how large the largest batch is, if that may be too large."""
    settings, corpus = experiment.settings, experiment.corpus
    tokens = np.asarray(corpus.train.tokens)
    starts = sentence_starts(tokens, corpus.vocabulary.end_of_sentence_id)
    longest = int(np.diff([*starts, len(tokens)]).max())
    longest = min(longest, settings.get("longest", longest))
    rows = settings["batch_size"]
    size = 4 * math.prod((rows, longest, len(corpus.vocabulary)))
    if size > LARGE_LOGITS:
        print(
            f"The longest sentence of the training text has {longest:,} "
            f"tokens: the logits of {rows} such rows take "
            f"{size / 2**30:.1f} GiB, and training several times that. "
            "Lower --batch_size, or divide such lines in the text."
        )


def _change_smoothing(name, preset, overrides):
    """Sets the rate of noise or smoothing, and other words."""
    noise = preset.get("noise")
    smooth = smoothing_of(preset["model"])
    if "rate" in overrides and not (noise or smooth):
        raise NoUseError(
            "rate",
            "rate is of models that are noised or smoothed. Received: "
            f"preset={name}",
        )
    kneser_ney = smooth and smooth["scheme"] == "kneser_ney"
    if "other_words" in overrides and not kneser_ney:
        raise NoUseError(
            "other_words",
            "other_words is of Kneser-Ney smoothing, such as "
            f"kong2019/vs_kneser_ney_512. Received: preset={name}",
        )
    if noise and "rate" in overrides:
        noise["rate"] = overrides["rate"]
    if smooth:
        for option in ("rate", "other_words"):
            if option in overrides:
                smooth[option] = overrides[option]


def _put_memory(name, model, window):
    """Puts a key-value-predict memory above the recurrent layers."""
    if model.get("memory") is not None:
        raise NoUseError(
            "memory",
            f"memory is of presets without one. Received: preset={name}",
        )
    last = model["recurrent"][-1]["config"]
    while "cell" in last:
        last = last["cell"]["config"]
    last["units"] *= 3
    model["memory"] = keras.saving.serialize_keras_object(
        KeyValuePredict(window=window)
    )

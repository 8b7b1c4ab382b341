"""Tasks: how models of one kind are made, trained and measured.

`pairs` has those of models of two sequences, `experiment` chooses among them.
"""

import copy
import functools
import itertools
import math
import os
import re
import time

import numpy as np

import memlm_keras as memlm
from memlm_keras import registry
from memlm_keras import trained
from memlm_keras.experiments import figures
from memlm_keras.experiments import measures
from memlm_keras.experiments.datasets import evaluation_batches
from memlm_keras.experiments.datasets import reads_documents
from memlm_keras.experiments.datasets import reads_sentences
from memlm_keras.experiments.datasets import sentence_batches
from memlm_keras.experiments.measures import smoothing_of
from memlm_keras.experiments.options import KNESER_NEY
from memlm_keras.experiments.options import LANGUAGE_MODEL
from memlm_keras.experiments.options import NoUseError
from memlm_keras.experiments.options import UsageError
from memlm_keras.experiments.options import nearest
from memlm_keras.presets import Measure
from memlm_keras.presets.rows import serialized

# The protocols of papers, which results have next to the standard one.
_ALSO = {"salton2017": ("salton2017",)}
# Bytes of the logits of a batch that are worth a warning.
LARGE_LOGITS = 2**30
_MEMORY_WINDOW = 5
# Words of the prompt that is proposed.
_PROMPT = 3
# Its optimizer and schedule are those of trained models and `--halve`.
_OWN = "memlm/small"
# A trained model is trained further at this rate, up to the first epoch that
# is no better.
_FURTHER_RATE, _FURTHER_EPOCHS, _FURTHER_PATIENCE = 0.001, 10, 1
# Options that do not change its sizes and its vocabulary.
_FURTHER_OPTIONS = {
    "data_dir",
    "document_start",
    "cbt_train_on",
    "documents",
    "dropout",
    "batch_size",
    "segment_length",
    "learning_rate",
    "distribution",
    "halve_after",
    "linear_decay",
    "halve",
}


class Task:
    """Experiments with one kind of model; a task has no state.

    A subclass defines `training_batches(experiment, model)`, which returns
    batches to train on and those to choose the best epoch, and
    `measure(experiment, model, verbose)`, which returns plain values by split.
    """

    kind = None
    monitor = "val_perplexity"  # chooses the best epoch
    mode = "min"  # of `monitor`, or "max"
    # Results to print.
    columns = [
        Measure("validation", ("validation", "perplexity")),
        Measure("test", ("test", "perplexity")),
    ]
    is_trained = True  # whether there are epochs

    def preset(self, name, overrides):
        """Returns the preset of an experiment, with its overrides."""
        sizes = {k: v for k, v in overrides.items() if k in registry.SIZES}
        row = registry.find(name)[1]
        for size in ("window", "key", "l2", "output_bias", "num_sampled"):
            if size in sizes and getattr(row, size, None) is None:
                raise NoUseError(
                    size,
                    f"{name} has no {size}. Received: {size}={sizes[size]}",
                )
        try:
            preset = registry.get(name, **sizes)
        except ValueError as error:
            raise UsageError(str(error)) from None
        if "dropout" in overrides:
            _set_dropout(preset["model"], overrides["dropout"])
        return preset

    def settings(self, experiment):
        """Returns sizes and rates of an experiment, a dict of plain values."""
        preset, overrides = experiment.preset, experiment.overrides
        size = preset["data"]["batch_size"]
        rate = preset["optimizer"]["config"]["learning_rate"]
        return {
            "embedding_dim": preset["model"]["embedding_dim"],
            "scale": overrides.get("scale", 1.0),
            "initial_range": overrides.get("initial_range"),
            "dropout": preset["model"].get("dropout", 0.0),
            "batch_size": overrides.get("batch_size", size),
            "learning_rate": overrides.get("learning_rate", rate),
            "distribution": overrides.get("distribution"),
        }

    def vocabulary(self, experiment):
        """Returns the vocabulary that the text is read with; `None` is that of
        the text itself."""
        return None

    def make(self, experiment, **arguments):
        """Returns the model of an experiment, not compiled."""
        return getattr(memlm, self.kind).from_config(
            {
                "vocabulary": experiment.corpus.vocabulary,
                # Keras takes cells out of the layers that they are in.
                **copy.deepcopy(experiment.preset["model"]),
                **arguments,
            }
        )

    def compile(self, experiment, model):
        """Compiles a model; returns the callbacks that its preset needs."""
        from keras.saving import deserialize_keras_object

        preset = experiment.preset
        optimizer = deserialize_keras_object(preset["optimizer"])
        optimizer.learning_rate = experiment.settings["learning_rate"]
        loss = deserialize_keras_object(preset.get("loss") or "auto")
        model.compile(optimizer, loss)
        return self.callbacks(experiment, model)

    def callbacks(self, experiment, model):
        """Returns the callbacks of this kind."""
        return []

    def epochs(self, experiment, epochs, patience):
        """Returns epochs and patience, of the preset where they are `None`."""
        schedule = experiment.preset["schedule"]
        planned = schedule.get("epochs")
        if epochs is None:
            epochs = 30 if planned is None else planned
        if patience is None:
            patience = schedule.get(
                "patience", 2 if planned is None else epochs
            )
        return epochs, patience

    def keep_better(self, experiment, model, validation):
        """Gives a trained model, which training did not improve, its weights
        back; returns whether it did improve it."""
        return True

    def draw(self, experiment, model, folder, pictures, verbose):
        """Draws pictures in a folder; returns a list of their paths."""
        return []

    def examples(self, experiment, path):
        """Returns a list of commands that use the model of a run folder."""
        return []


class LanguageModelTask(Task):
    """A language model of continuous text, documents or sentences."""

    kind = LANGUAGE_MODEL

    def preset(self, name, overrides):
        folder = folder_of_trained(name)
        if folder is not None:
            return _preset_of_trained(name, folder, overrides)
        sizes = dict(overrides)
        window = sizes.pop("window", None) if "memory" in sizes else None
        preset = super().preset(name, sizes)
        _change_smoothing(name, preset, overrides)
        _change_training(preset, overrides)
        if "memory" in overrides:
            _add_memory(name, preset["model"], window or _MEMORY_WINDOW)
        return preset

    def settings(self, experiment):
        preset, overrides = experiment.preset, experiment.overrides
        data, schedule = preset["data"], preset["schedule"]
        smoothing = smoothing_of(preset["model"]) or {}
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
            "weights": _checksum(preset),
            "units": _units_of(experiment),
            **super().settings(experiment),
            **reading,
            **_rates(overrides, schedule),
            "halve": overrides.get("halve"),
            "optimizer": overrides.get("optimizer"),
            "rate": noise.get("rate", smoothing.get("rate")),
            "l2": preset.get("l2"),
            "match_parameters": overrides.get("match_parameters"),
            "window": overrides.get("window"),
            "other_words": overrides.get("other_words"),
            "memory": overrides.get("memory"),
            "num_sampled": overrides.get("num_sampled") or None,
        }

    def vocabulary(self, experiment):
        if "trained" not in experiment.preset:
            return None
        return self.make(experiment).vocabulary

    def make(self, experiment):
        overrides = experiment.overrides
        if "trained" in experiment.preset:
            return _make_trained(experiment)
        if overrides.get("match_parameters"):
            names = ("window", "initial_range", "dropout")
            sizes = {n: overrides[n] for n in names if n in overrides}
            sizes["units"] = experiment.settings["units"]
            sizes["embedding_dim"] = experiment.preset["model"]["embedding_dim"]
            matched = Task.preset(self, experiment.preset_name, sizes)
            experiment.preset["model"] = matched["model"]
        model = super().make(experiment)
        if model.smoothing is not None:
            model.smoothing.adapt(_statistics(experiment))
        return model

    def callbacks(self, experiment, model):
        """Returns schedules of the learning rate, or sets one by batch."""
        from keras import callbacks
        from keras.optimizers import schedules

        settings, optimizer = experiment.settings, model.optimizer
        if "linear_decay" in settings:
            batches = _text_batches(experiment).batches_per_epoch
            optimizer.learning_rate = schedules.PolynomialDecay(
                settings["learning_rate"],
                settings["linear_decay"] * batches,
                end_learning_rate=0.0,
            )

            def log_rate(epoch, logs):
                logs["learning_rate"] = float(optimizer.learning_rate)

            return [callbacks.LambdaCallback(on_epoch_end=log_rate)]
        if "halve_after" in settings:
            schedule = memlm.training.halve_after(
                settings["halve_after"], settings.get("factor", 0.5)
            )
            return [callbacks.LearningRateScheduler(schedule)]
        plateau = experiment.preset["schedule"].get("reduce_on_plateau")
        return [callbacks.ReduceLROnPlateau(**plateau)] if plateau else []

    def training_batches(self, experiment, model):
        settings, corpus = experiment.settings, experiment.corpus
        batches, validation = _text_batches(experiment), None
        if reads_sentences(experiment.preset):
            _warn_of_long_sentences(experiment)
        elif settings["documents"]:
            _warn_of_few_documents(corpus, batches)
        else:
            rows = settings["batch_size"]
            split = _shortened(
                corpus.validation,
                rows,
                experiment.preset.get("validation_tokens"),
            )
            validation = corpus.batches(split, rows, settings["segment_length"])
            if corpus.train.document_starts is not None:
                print(
                    f"{corpus.name} has documents, and this run reads "
                    "across them; --documents begins each afresh."
                )
        if validation is None:
            validation = evaluation_batches(experiment, model, "validation")
        return self.noised(experiment, batches), validation

    def noised(self, experiment, batches):
        """Returns batches with the noise of the preset, if it has any."""
        if noise := experiment.preset.get("noise"):
            batches = memlm.smoothing.NoisedBatches(
                batches,
                statistics=_statistics(experiment),
                seed=experiment.seed,
                **noise,
            )
        return batches

    def keep_better(self, experiment, model, validation):
        if "trained" not in experiment.preset:
            return True
        before = self.make(experiment)
        found, expected = [
            memlm.evaluation.perplexity(each, validation, verbose=0).perplexity
            for each in (model, before)
        ]
        improved = found < expected
        if not improved:
            pairs = zip(model.trainable_weights, before.trainable_weights)
            for weight, value in pairs:
                weight.assign(value)
            print(
                "No epoch is better than the model as it was: the perplexity "
                f"of the validation text is {found:.2f}, and was "
                f"{expected:.2f}. Its weights are kept. Try a lower "
                "--learning_rate."
            )
        return improved

    def measure(self, experiment, model, verbose):
        """Measures perplexities, and answers the questions of a corpus."""
        batches = functools.partial(evaluation_batches, experiment, model)
        also = _ALSO.get(experiment.preset_name.partition("/")[0], ())
        scores = functools.partial(experiment.scores, model, verbose=verbose)
        results = measures.perplexities(
            model, batches, verbose, experiment.corpus, also, scores=scores
        )
        if experiment.dataset.name == "cbt":
            results["cbt"] = measures.answer_cbt(experiment, model, verbose)
        return results

    def draw(self, experiment, model, folder, pictures, verbose):
        return figures.draw_language_model(
            experiment, model, folder, pictures, verbose
        )

    def examples(self, experiment, path):
        prompt = _prompt(experiment.corpus)
        return [f'memlm generate {path} "{prompt}"', f"memlm export {path}"]


def _prompt(corpus):
    """Known words without punctuation, which a shell might read: the beginning
    of a sentence of the test text, or else words within one."""
    vocabulary, tokens = corpus.vocabulary, np.asarray(corpus.test.tokens)
    end, within = vocabulary.end_of_sentence_id, []
    for sentence in np.split(tokens, np.flatnonzero(tokens == end)):
        words = vocabulary.detokenize(sentence[sentence != end])
        words = words.split()
        first = words[:_PROMPT]
        if len(first) == _PROMPT and all(map(str.isalpha, first)):
            return " ".join(first)
        runs = itertools.groupby(words, str.isalpha)
        runs = ([*run][:_PROMPT] for plain, run in runs if plain)
        within = max([within, *runs], key=len)
    return " ".join(within)


def _preset_of_trained(name, folder, overrides):
    """The preset of a trained model, which is trained further in the manner of
    our smallest row."""
    kind = trained.read_metadata(folder)["kind"]
    if kind != LANGUAGE_MODEL:
        raise UsageError(
            f"{name} is a trained {kind}; language models are trained further."
        )
    for option in overrides.keys() - _FURTHER_OPTIONS:
        raise NoUseError(
            option,
            f"{name} is a trained model, which has its sizes and its "
            f"vocabulary. Received: {option}={overrides[option]}",
        )
    model = trained.read_config(folder)
    if model.pop("vocabulary", None) is None:
        raise UsageError(
            f"{name} has no vocabulary, with which a text could be read."
        )
    preset = registry.get(_OWN)
    _change_training(preset, overrides)
    preset["optimizer"]["config"]["learning_rate"] = _FURTHER_RATE
    preset["schedule"]["epochs"] = _FURTHER_EPOCHS
    preset["schedule"]["patience"] = _FURTHER_PATIENCE
    if model.get("mixture") is not None:
        # The model has a mixture already.
        del preset["cache"]
    others = {"name": name, "trained": str(folder), "units": None}
    return {**preset, **others, "model": {**model, **_dropout_of(overrides)}}


def _checksum(preset):
    """SHA-256 of the weights that a run begins with, or `None`."""
    if "trained" not in preset:
        return None
    metadata = trained.read_metadata(preset["trained"])
    return metadata["sha256"][trained.WEIGHTS]


def _dropout_of(overrides):
    return {k: v for k, v in overrides.items() if k == "dropout"}


def _make_trained(experiment):
    """The model of a trained preset, as it was."""
    model = trained.load(
        experiment.preset["trained"],
        memlm.LanguageModel,
        **_dropout_of(experiment.overrides),
    )
    if not model.causal:
        raise UsageError(
            f"{experiment.preset_name} reads its text from both sides; models "
            "that read from the left are trained further."
        )
    return model


def _text_batches(experiment):
    """The training text of an experiment, as its preset reads it."""
    settings = experiment.settings
    if reads_sentences(experiment.preset):
        return sentence_batches(
            experiment,
            "train",
            shuffle=True,
            longest=settings.get("longest"),
            equal_lengths=experiment.preset["data"].get("equal_lengths", True),
        )
    return experiment.corpus.batches(
        "train",
        batch_size=settings["batch_size"],
        segment_length=settings["segment_length"],
        documents=settings["documents"],
        shuffle=settings["documents"],
        seed=experiment.seed,
    )


def _shortened(split, rows, most):
    """Returns at most `most` tokens of a split, in `rows` pieces from equal
    distances."""
    if most is None or len(split) <= most:
        return split
    length = len(split) // rows
    places = split.tokens[: rows * length].reshape(rows, length)
    part = places[:, : most // rows].ravel()
    print(
        f"After each epoch, {len(part):,} of the {len(split):,} tokens for "
        "validation are read."
    )
    return memlm.data.Split(part)


def _change_training(preset, overrides):
    """Sets another optimizer, and a rate that is halved or not."""
    schedules = ("linear_decay", "halve_after", "halve")
    given = {n: overrides[n] for n in schedules if overrides.get(n)}
    if len(given) > 1:
        received = " and ".join(f"{n}={value}" for n, value in given.items())
        raise UsageError(
            "linear_decay, halve_after and halve are schedules of the learning "
            f"rate; give one of them. Received: {received}"
        )
    if overrides.keys().isdisjoint(("optimizer", "halve")):
        return
    own = registry.get(_OWN)
    if "optimizer" in overrides:
        preset["optimizer"] = own["optimizer"]
    if "halve" in overrides:
        for key in ("halve_after", "factor", "reduce_on_plateau"):
            preset["schedule"].pop(key, None)
        if overrides["halve"]:
            halving = own["schedule"]["reduce_on_plateau"]
            preset["schedule"]["reduce_on_plateau"] = halving


def _rates(overrides, schedule):
    """Settings of the learning rates of the epochs."""
    if epochs := overrides.get("linear_decay"):
        return {"linear_decay": epochs}
    halve_after = overrides.get("halve_after", schedule.get("halve_after"))
    return {"halve_after": halve_after, "factor": schedule.get("factor")}


def _units_of(experiment):
    """Units of the recurrent layers, matched if that is asked for."""
    units, overrides = experiment.preset["units"], experiment.overrides
    if not overrides.get("match_parameters"):
        return units
    name = experiment.preset_name
    paper, row = registry.find(name)[0], name.partition("/")[2]
    if paper.matched_to is None:
        raise UsageError(
            f"match_parameters: {paper.citation} has no row that the others "
            f"are as large as. Received: preset={name}"
        )
    if row in paper.unmatched:
        return units
    return _matched_units(
        f"{paper.name}/{paper.matched_to}",
        name,
        len(experiment.corpus.vocabulary),
        experiment.preset["model"]["embedding_dim"],
        overrides.get("scale", 1.0),
        overrides.get("window"),
    )


@functools.cache
def _matched_units(reference, name, size, embedding_dim, scale, window):
    """Units of a preset with as many parameters as the `reference`."""
    budget = memlm.presets.count_params(reference, size, scale=scale)
    sizes = {} if window is None else {"window": window}
    return memlm.presets.match_parameters(
        budget, name, size, embedding_dim=embedding_dim, **sizes
    )


def _statistics(experiment):
    """Counts of the training text, for noise and smoothing."""
    return memlm.smoothing.StreamStatistics.count(
        experiment.corpus.train.tokens, len(experiment.corpus.vocabulary)
    )


def _warn_of_few_documents(corpus, batches):
    """Prints the share of padding, if that is most of an epoch."""
    places = batches.batch_size * batches.segment_length
    empty = 1 - batches.num_tokens / (batches.batches_per_epoch * places)
    if empty > 0.5:
        print(
            f"{corpus.name} has {len(corpus.train.document_starts)} documents "
            f"in {batches.batch_size} rows, so {empty:.0%} of an epoch is "
            "padding, which takes time; --nodocuments reads across them."
        )


def _warn_of_long_sentences(experiment):
    """Prints the size of the largest batch, if that is very large."""
    settings, corpus = experiment.settings, experiment.corpus
    tokens = np.asarray(corpus.train.tokens)
    starts = memlm.data.sentence_starts(
        tokens, corpus.vocabulary.end_of_sentence_id
    )
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


def _set_dropout(model, rate):
    """Sets all rates of dropout that a model has, or else that of layers."""
    rates = model.get("dropout")
    if isinstance(rates, dict):
        places = [place for place in rates if place != "variational"]
        stated = [(rates, place) for place in places if rates[place]]
    else:
        stated = [(model, "dropout")] if rates else []
    for layer in model.get("recurrent") or ():
        if isinstance(layer, dict) and layer["config"].get("dropout"):
            stated.append((layer["config"], "dropout"))
    for config, name in stated or [(model, "dropout")]:
        config[name] = rate


def _change_smoothing(name, preset, overrides):
    """Sets the rate of noise or smoothing, and `other_words`."""
    noise = preset.get("noise")
    smoothing = smoothing_of(preset["model"])
    if "rate" in overrides:
        if not (noise or smoothing):
            raise NoUseError(
                "rate",
                "rate is for models that are noised or smoothed. Received: "
                f"preset={name}",
            )
        for config in filter(None, (noise, smoothing)):
            config["rate"] = overrides["rate"]
    if "other_words" in overrides:
        if not smoothing or smoothing["scheme"] != "kneser_ney":
            raise NoUseError(
                "other_words",
                "other_words is for Kneser-Ney smoothing, such as "
                f"kong2019/vs_kneser_ney_512. Received: preset={name}",
            )
        smoothing["other_words"] = overrides["other_words"]


def _add_memory(name, model, window):
    """Adds a key-value-predict memory above the recurrent layers."""
    if model.get("memory") is not None:
        raise NoUseError(
            "memory",
            f"memory is for presets without one. Received: preset={name}",
        )
    last = model["recurrent"][-1]["config"]
    while "cell" in last:
        last = last["cell"]["config"]
    last["units"] *= 3
    model["memory"] = serialized(
        "memlm_keras.memory.KeyValuePredict", window=window
    )


# === n-gram models of Tran et al. (2016, Table 2) ===

# Those of the paper; other orders are accepted too.
NGRAM_MODELS = ("kneser_ney_5", "kneser_ney_5_cache")
_NGRAM_MODEL = re.compile(r"kneser_ney_([1-9])(_cache)?")


class KneserNeyTask(Task):
    """A Kneser-Ney model, by itself or with a cache."""

    kind = KNESER_NEY
    is_trained = False

    def preset(self, name, overrides):
        return {
            "name": name,
            "kind": self.kind,
            "order": int(_NGRAM_MODEL.fullmatch(name)[1]),
            "data": {"sentences": True},
        }

    def settings(self, experiment):
        return {"order": experiment.preset["order"]}

    def epochs(self, experiment, epochs, patience):
        return 1, 0

    def count(self, experiment, verbose=1):
        """Counts; returns the model without cache, and that of the preset."""
        corpus, order = experiment.corpus, experiment.preset["order"]
        ngrams = memlm.ngrams
        counted = ngrams.KneserNey(len(corpus.vocabulary), order=order)
        counted.fit(corpus.train, verbose)
        if not experiment.preset_name.endswith("cache"):
            return counted, counted
        cached = ngrams.with_cache(counted, corpus.validation, verbose=verbose)
        return counted, cached

    def measure(self, experiment, model, verbose):
        return {
            split: measures.plain_with_bits(
                model.perplexity(getattr(experiment.corpus, split)),
                experiment.corpus,
                split,
            )
            for split in ("validation", "test")
        }

    def estimate(self, experiment):
        """Counts and measures; returns plain values for the results."""
        corpus = experiment.corpus
        begin = time.perf_counter()
        counted, model = self.count(experiment)
        seconds = time.perf_counter() - begin
        return {
            "parameters": sum(counted.num_ngrams),
            "units": "",
            "epochs": 1,
            "best_epoch": 1,
            "seconds_per_epoch": seconds,
            "tokens_per_second": len(corpus.train) / seconds,
            "ended": True,
            **self.measure(experiment, model, verbose=0),
        }


# === Presets by the names that users type ===


def folder_of_trained(name):
    """Folder of a trained model, by its name or path, or `None`; rows come
    first."""
    if name in registry.names() or _NGRAM_MODEL.fullmatch(name):
        return None
    return trained.find(name)


def kind_of(name):
    """Kind of the model of a preset, by its full name."""
    if _NGRAM_MODEL.fullmatch(name):
        return KNESER_NEY
    if folder_of_trained(name) is not None:
        return LANGUAGE_MODEL
    return registry.find(name)[1].kind


def resolve(name):
    """Returns the full name of a preset; unique rows need no paper."""
    names = [*registry.names(), *NGRAM_MODELS]
    if name in names or _NGRAM_MODEL.fullmatch(name):
        return name
    matches = [full for full in names if full.partition("/")[2] == name]
    if len(matches) == 1:
        return matches[0]
    if matches:
        raise UsageError(
            f"Several papers have a row {name}: {', '.join(matches)}. Name "
            "the paper too."
        )
    if trained.find(name) is not None:
        # A run goes on from any folder.
        return name if name in trained.names() else os.path.abspath(name)
    if os.path.isabs(name) and not os.path.exists(name):
        raise UsageError(f"There is no trained model at {name}.")
    rows = {full.partition("/")[2]: full for full in names}
    hint = nearest(
        name, [*names, *trained.names()] if "/" in name else [*rows, *names]
    )
    for row, full in rows.items():
        hint = hint.replace(f" mean {row}?", f" mean {full}?")
    if os.path.exists(name):
        hint = f" A text is read by memlm train --dataset={name}"
    raise UsageError(
        f"There is no preset {name}.{hint or ' `memlm presets` lists all.'}"
    )

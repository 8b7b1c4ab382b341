"""Experiments with language models."""

import functools
import itertools
import math

import numpy as np

import memlm_keras as memlm
from memlm_keras import registry
from memlm_keras import trained
from memlm_keras.experiments import comparison
from memlm_keras.experiments import datasets
from memlm_keras.experiments import figures
from memlm_keras.experiments import measurements
from memlm_keras.experiments import options
from memlm_keras.experiments import process
from memlm_keras.experiments.experiment import Experiment
from memlm_keras.experiments.experiment import read_preset
from memlm_keras.presets.rows import serialized

# Protocols of papers, reported in addition to the standard protocol.
_ALSO = {"salton2017": ("salton2017",)}
# Size of a batch's logits, in bytes, above which a warning is printed.
LARGE_LOGITS = 2**30
_MEMORY_WINDOW = 5
_PROMPT = 3  # Number of words in the suggested prompt.
# Preset whose optimizer and schedule are used to train a trained model further,
# and to train any preset with `--optimizer` or `--halve`.
_OWN = "memlm/small"
# Learning rate, epochs and patience of further training.
_FURTHER_RATE, _FURTHER_EPOCHS, _FURTHER_PATIENCE = 0.001, 10, 1
# Options that do not change the sizes and vocabulary of a trained model.
_FURTHER_OPTIONS = set(
    "data_dir document_start cbt_train_on documents dropout batch_size "
    "segment_length learning_rate distribution halve_after linear_decay "
    "halve".split()
)
# Overrides whose values are copied to the settings of a run.
_STATED = "halve optimizer match_parameters window other_words memory".split()


class LanguageModelExperiment(Experiment):
    """Experiment with a language model of text, documents or sentences."""

    kind = options.LANGUAGE_MODEL

    def _make_preset(self):
        name, overrides = self.preset_name, self.overrides
        if self._found.trained is not None:
            return _preset_of_trained(name, self._found.trained, overrides)
        sizes = dict(overrides)
        window = sizes.pop("window", None) if "memory" in sizes else None
        preset = read_preset(name, sizes)
        _change_smoothing(name, preset, overrides)
        _change_training(preset, overrides)
        if "memory" in overrides:
            _add_memory(name, preset["model"], window or _MEMORY_WINDOW)
        return preset

    @property
    def is_further(self):
        """Whether the experiment continues the training of a trained model."""
        return "trained" in self.preset

    def _settings(self):
        preset, overrides = self.preset, self.overrides
        data, schedule = preset["data"], preset["schedule"]
        smoothing = datasets.smoothing_of(preset["model"]) or {}
        noise = preset.get("noise") or {}
        if datasets.reads_sentences(preset):
            reading = {
                "longest": overrides.get("segment_length", data.get("longest")),
                "length_multiple": overrides.get("length_multiple", 8),
            }
        else:
            length = overrides.get("segment_length", data["segment_length"])
            reading = {
                "segment_length": length,
                "documents": datasets.reads_documents(self),
            }
        return {
            "weights": preset.get("sha256"),
            "units": self._units(),
            **super()._settings(),
            **reading,
            **_rates(overrides, schedule),
            **{name: overrides.get(name) for name in _STATED},
            "rate": noise.get("rate", smoothing.get("rate")),
            "l2": preset.get("l2"),
            "num_sampled": overrides.get("num_sampled") or None,
        }

    def _vocabulary(self):
        return self.make_model().vocabulary if self.is_further else None

    def make_model(self):
        if not self.is_further:
            model = super().make_model()
            if model.smoothing is not None:
                model.smoothing.adapt(self._statistics())
            return model
        process.import_keras()
        model = trained.load(
            self.preset["trained"],
            memlm.LanguageModel,
            **_dropout_of(self.overrides),
        )
        if not model.causal:
            raise options.UsageError(
                f"Only causal models can be trained further. Received: "
                f"{self.preset_name}, which reads text from both sides"
            )
        return model

    def _model_config(self):
        overrides = self.overrides
        mixture = self.preset["model"].get("mixture") or {}
        if mixture.get("class_name") == "NeuralCache":
            # The cache is chosen after training.
            return {**self.preset["model"], "mixture": None}
        if not overrides.get("match_parameters"):
            return self.preset["model"]
        names = ("window", "initial_range", "dropout")
        sizes = {n: overrides[n] for n in names if n in overrides}
        sizes["units"] = self.settings["units"]
        sizes["embedding_dim"] = self.preset["model"]["embedding_dim"]
        return read_preset(self.preset_name, sizes)["model"]

    def _callbacks(self, model):
        """Returns callbacks that set the learning rate. For a linear decay, the
        optimizer gets a schedule, and the callback only logs its rate."""
        from keras import callbacks
        from keras.optimizers import schedules

        settings, optimizer = self.settings, model.optimizer
        if "linear_decay" in settings:
            batches = self._text_batches().batches_per_epoch
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
        plateau = self.preset["schedule"].get("reduce_on_plateau")
        return [callbacks.ReduceLROnPlateau(**plateau)] if plateau else []

    def _units(self):
        """Returns the units of the recurrent layers; `match_parameters` gives
        the model as many parameters as the paper's LSTM."""
        units, overrides = self.preset["units"], self.overrides
        if not overrides.get("match_parameters"):
            return units
        for other in {"memory", "units"} & overrides.keys():
            raise options.UsageError(
                "match_parameters chooses the units of the preset's own model. "
                f"Received: match_parameters and {other}={overrides[other]}"
            )
        name, paper = self.preset_name, registry.find(self.preset_name)[0]
        if paper.matched_to is None:
            raise options.UsageError(
                "match_parameters needs a preset of a paper that compares "
                "models with the same number of parameters, such as "
                f"daniluk2017/key_value_predict. Received: preset={name}"
            )
        if name.partition("/")[2] in paper.unmatched:
            return units
        return _matched_units(
            f"{paper.name}/{paper.matched_to}",
            name,
            len(self.corpus.vocabulary),
            self.preset["model"]["embedding_dim"],
            overrides.get("scale", 1.0),
            overrides.get("window"),
        )

    def training_batches(self, model):
        settings, corpus = self.settings, self.corpus
        batches, validation = self._text_batches(), None
        if datasets.reads_sentences(self.preset):
            self._warn_of_long_sentences()
        elif settings["documents"]:
            _warn_of_few_documents(corpus, batches)
        else:
            rows = settings["batch_size"]
            most = self.preset.get("validation_tokens")
            split = _shortened(corpus.validation, rows, most)
            validation = corpus.batches(split, rows, settings["segment_length"])
            if corpus.train.document_starts is not None:
                print(
                    f"{corpus.name} has documents, and this run reads them as "
                    "one text; with --documents, each starts from the initial "
                    "state."
                )
        if validation is None:
            validation = datasets.evaluation_batches(self, model, "validation")
        return self.noised(batches), validation

    def _text_batches(self):
        """Returns the training batches, before data noising."""
        settings = self.settings
        if datasets.reads_sentences(self.preset):
            return datasets.sentence_batches(
                self,
                "train",
                shuffle=True,
                longest=settings.get("longest"),
                equal_lengths=self.preset["data"].get("equal_lengths", True),
            )
        return self.corpus.batches(
            "train",
            batch_size=settings["batch_size"],
            segment_length=settings["segment_length"],
            documents=settings["documents"],
            shuffle=settings["documents"],
            seed=self.seed,
        )

    def _warn_of_long_sentences(self):
        """Prints a warning if the longest sentence needs very large logits."""
        settings, corpus = self.settings, self.corpus
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
                f"{size / 2**30:.1f} GiB, and training takes several times as "
                "much. Lower --batch_size, or split such lines of the text."
            )

    def noised(self, batches):
        if noise := self.preset.get("noise"):
            batches = memlm.smoothing.NoisedBatches(
                batches, statistics=self._statistics(), seed=self.seed, **noise
            )
        return batches

    def _statistics(self):
        return memlm.smoothing.StreamStatistics.count(
            self.corpus.train.tokens, len(self.corpus.vocabulary)
        )

    def _keep_better(self, model, validation):
        if not self.is_further:
            return True
        before = self.make_model()
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
                "No epoch improved the model: the perplexity of the validation "
                f"text is {found:.2f}, and was {expected:.2f} before. The "
                "original weights are kept. Try a lower --learning_rate."
            )
        return improved

    def measure(self, model, verbose=0):
        """Measures perplexity; on the Children's Book Test, also accuracy."""
        batches = functools.partial(datasets.evaluation_batches, self, model)
        also = _ALSO.get(self.preset_name.partition("/")[0], ())
        scores = functools.partial(self.scores, model, verbose=verbose)
        results = measurements.perplexities(
            model, batches, verbose, self.corpus, also, scores=scores
        )
        if self.dataset.name == "cbt":
            results["cbt"] = measurements.answer_cbt(self, model, verbose)
        return results

    def check_measures(self, measures):
        super().check_measures(measures)
        if self.dataset.name == "cbt":
            measurements.cbt_questions(self)

    def _warn(self, results, command, compared):
        comparison.warn_if_little_is_learned(self, results, command, compared)

    def _go_on_as_1_0(self):
        if smoothing := datasets.smoothing_of(self.preset["model"]):
            smoothing["other_words"] = self.overrides.get("other_words", "mean")

    def draw(self, model, folder, pictures=None, verbose=0):
        return figures.draw_language_model(
            self, model, folder, pictures or {}, verbose
        )

    def examples(self, path):
        prompt = _prompt(self.corpus)
        if "Bidirectional" in str(self.preset["model"].get("memory")):
            return [f'memlm score {path} "{prompt}"']
        return [f'memlm generate {path} "{prompt}"', f"memlm export {path}"]


def _prompt(corpus):
    """Returns words of a test sentence as an example prompt, if possible its
    first words. Leaves out punctuation, which a shell might interpret."""
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
    """Returns the preset for training a trained model further, with the
    optimizer and schedule of `memlm/small`."""
    metadata = trained.read_metadata(folder)
    if (kind := metadata["kind"]) != options.LANGUAGE_MODEL:
        raise options.UsageError(
            "Only language models can be trained further. Received: "
            f"{name}, a trained {kind}"
        )
    for option in overrides.keys() - _FURTHER_OPTIONS:
        raise options.NoUseError(
            option,
            f"{name} is a trained model and keeps its sizes and vocabulary. "
            f"Received: {option}={overrides[option]}",
        )
    model = trained.read_config(folder)
    if model.pop("vocabulary", None) is None:
        raise options.UsageError(
            f"{name} has no vocabulary, so it cannot read text."
        )
    preset = registry.get(_OWN)
    _change_training(preset, overrides)
    preset["optimizer"]["config"]["learning_rate"] = _FURTHER_RATE
    preset["schedule"]["epochs"] = _FURTHER_EPOCHS
    preset["schedule"]["patience"] = _FURTHER_PATIENCE
    if model.get("mixture") is not None:
        # A model with a mixture gets no neural cache.
        del preset["cache"]
    return {
        **preset,
        "name": name,
        "trained": str(folder),
        "sha256": metadata["sha256"][trained.WEIGHTS],
        "units": None,
        "model": {**model, **_dropout_of(overrides)},
    }


def _dropout_of(overrides):
    return {k: v for k, v in overrides.items() if k == "dropout"}


def _shortened(split, rows, most):
    """Shortens a split to at most `most` tokens: the beginnings of `rows`
    equally long parts of the text."""
    if most is None or len(split) <= most:
        return split
    length = len(split) // rows
    places = split.tokens[: rows * length].reshape(rows, length)
    part = places[:, : most // rows].ravel()
    print(
        f"After each epoch, {len(part):,} of the {len(split):,} validation "
        "tokens are read."
    )
    return memlm.data.Split(part)


def _change_training(preset, overrides):
    """Applies the overrides `optimizer` and `halve` to a preset."""
    schedules = ("linear_decay", "halve_after", "halve")
    given = {n: overrides[n] for n in schedules if overrides.get(n)}
    if len(given) > 1:
        received = " and ".join(f"{n}={value}" for n, value in given.items())
        raise options.UsageError(
            "Give only one of linear_decay, halve_after and halve. Received: "
            f"{received}"
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
    if epochs := overrides.get("linear_decay"):
        return {"linear_decay": epochs}
    halve_after = overrides.get("halve_after", schedule.get("halve_after"))
    return {"halve_after": halve_after, "factor": schedule.get("factor")}


@functools.cache
def _matched_units(reference, name, size, embedding_dim, scale, window):
    """Returns the number of units that gives a preset as many parameters as the
    preset `reference`."""
    budget = memlm.presets.count_params(reference, size, scale=scale)
    sizes = {} if window is None else {"window": window}
    return memlm.presets.match_parameters(
        budget, name, size, embedding_dim=embedding_dim, **sizes
    )


def _warn_of_few_documents(corpus, batches):
    """Prints a warning if more than half of an epoch is padding."""
    places = batches.batch_size * batches.segment_length
    empty = 1 - batches.num_tokens / (batches.batches_per_epoch * places)
    if empty > 0.5:
        print(
            f"{corpus.name} has {len(corpus.train.document_starts)} documents "
            f"in {batches.batch_size} rows, so {empty:.0%} of an epoch is "
            "padding, which takes time; --nodocuments reads them as one text."
        )


def _change_smoothing(name, preset, overrides):
    noise = preset.get("noise")
    smoothing = datasets.smoothing_of(preset["model"])
    if "rate" in overrides:
        if not (noise or smoothing):
            raise options.NoUseError(
                "rate",
                "--rate needs a smoothed or a noised model. Received: "
                f"preset={name}",
            )
        for config in filter(None, (noise, smoothing)):
            config["rate"] = overrides["rate"]
    if "other_words" in overrides:
        if not smoothing or smoothing["scheme"] != "kneser_ney":
            raise options.NoUseError(
                "other_words",
                "--other_words needs a preset with Kneser-Ney smoothing, such "
                f"as kong2019/vs_kneser_ney_512. Received: preset={name}",
            )
        smoothing["other_words"] = overrides["other_words"]


def _add_memory(name, model, window):
    """Adds a key-value-predict memory above the recurrent layers."""
    if model.get("memory") is not None:
        raise options.NoUseError(
            "memory",
            f"--memory needs a preset without memory. Received: preset={name}",
        )
    last = model["recurrent"][-1]["config"]
    while "cell" in last:
        last = last["cell"]["config"]
    last["units"] *= 3
    model["memory"] = serialized(
        "memlm_keras.memory.KeyValuePredict", window=window
    )

"""Tasks: models of one kind, made, trained and measured in an experiment.

The kinds that are trained extend `Task` in `language_models` and
`dual_sequences`; `experiment` chooses among them.
"""

import re
import time

import keras

from memlm_keras import models
from memlm_keras import ngrams
from memlm_keras import presets
from memlm_keras import registry
from memlm_keras.experiments.options import KNESER_NEY
from memlm_keras.experiments.options import NoUseError
from memlm_keras.experiments.options import UsageError
from memlm_keras.experiments.options import nearest
from memlm_keras.experiments.report import plain_perplexity


class Task:
    """Experiments of one kind of model.

    A task has no state: all that it knows stands in the experiment.

    Attributes:
        kind: string, as presets have it.
        monitor: string, the metric that the best epoch is chosen by.
        measures: list of `memlm_keras.presets.Measure`s, what is printed.
        is_trained: whether it has epochs at all.
    """

    kind = None
    monitor = "val_perplexity"
    measures = [
        presets.Measure("validation", ("validation", "perplexity")),
        presets.Measure("test", ("test", "perplexity")),
    ]
    is_trained = True

    def preset(self, name, overrides):
        """The preset of an experiment, with what is changed of it."""
        sizes = {k: v for k, v in overrides.items() if k in registry.SIZES}
        row = registry.find(name)[1]
        for size in ("window", "key", "l2", "output_bias"):
            if size in sizes and getattr(row, size, None) is None:
                raise NoUseError(
                    size,
                    f"{size} is of presets that have one; {name} has none. "
                    f"Received: {size}={sizes[size]}",
                )
        try:
            preset = presets.get(name, **sizes)
        except ValueError as error:
            raise UsageError(str(error)) from None
        if "dropout" in overrides:
            set_dropout(preset["model"], overrides["dropout"])
        return preset

    def settings(self, experiment):
        """Sizes and rates of an experiment."""
        preset, overrides = experiment.preset, experiment.overrides
        rate = preset["optimizer"]["config"]["learning_rate"]
        return {
            "embedding_dim": preset["model"]["embedding_dim"],
            "scale": overrides.get("scale", 1.0),
            "initial_range": overrides.get("initial_range"),
            "dropout": preset["model"].get("dropout", 0.0),
            "batch_size": overrides.get(
                "batch_size", preset["data"]["batch_size"]
            ),
            "learning_rate": overrides.get("learning_rate", rate),
            "distribution": overrides.get("distribution"),
        }

    def make(self, experiment, **arguments):
        """The model of an experiment, not compiled, with its words."""
        return getattr(models, self.kind).from_config(
            {
                "vocabulary": experiment.corpus.vocabulary,
                **experiment.preset["model"],
                **arguments,
            }
        )

    def compile(self, experiment, model):
        """Compiles it; returns the callbacks that its preset trains with."""
        preset = experiment.preset
        optimizer = keras.saving.deserialize_keras_object(preset["optimizer"])
        optimizer.learning_rate = experiment.settings["learning_rate"]
        loss = keras.saving.deserialize_keras_object(
            preset.get("loss") or "auto"
        )
        model.compile(optimizer, loss)
        return self.callbacks(experiment, model)

    def callbacks(self, experiment, model):
        """Callbacks that only this kind has."""
        return []

    def epochs(self, experiment, epochs, patience):
        """Most epochs, and patience, where they are not given."""
        schedule = experiment.preset["schedule"]
        planned = schedule.get("epochs")
        if epochs is None:
            epochs = 30 if planned is None else planned
        if patience is None:
            patience = schedule.get(
                "patience", 2 if planned is None else epochs
            )
        return epochs, patience

    def training_batches(self, experiment, model):
        """Batches to train on, and those to choose the best epoch on."""
        raise NotImplementedError(
            f"{type(self).__name__} must implement `training_batches`."
        )

    def measure(self, experiment, model, verbose):
        """Measures a trained model; returns plain values for its results."""
        raise NotImplementedError(
            f"{type(self).__name__} must implement `measure`."
        )

    def check_measures(self, experiment, measures):
        """Refuses what cannot be measured, before anything is trained."""

    def wanted(self, experiment, measures):
        """Measures that are asked for, besides those of `measure`.

        Args:
            experiment: `Experiment`.
            measures: dict, by the names of `settings.MEASURES`.

        Returns:
            Dict by the key of `results.json` of pairs: a dict of what sets the
            measure apart there, and a function of model and verbosity that
            makes it.
        """
        return {}

    def missing(self, experiment, measures, results):
        """Functions of `wanted` whose values are not in `results` yet."""
        return {
            key: make
            for key, (apart, make) in self.wanted(experiment, measures).items()
            if key not in results
            or any(results[key].get(k) != v for k, v in apart.items())
        }

    def draw(self, experiment, model, folder, pictures, verbose):
        """Draws what a trained model shows, in a folder.

        Returns:
            List of the paths of the pictures.
        """
        return []


# === n-gram models of Tran et al. (2016, Table 2) ===

# Those of the paper; any order may be asked for.
NGRAM_MODELS = ("kneser_ney_5", "kneser_ney_5_cache")
_NGRAM_MODEL = re.compile(r"kneser_ney_([1-9])(_cache)?")


class KneserNeyTask(Task):
    """A Kneser-Ney model, by itself or with a cache."""

    kind = KNESER_NEY
    is_trained = False

    def preset(self, name, overrides):
        """Nothing of it can be changed."""
        return {
            "name": name,
            "kind": self.kind,
            "order": int(_NGRAM_MODEL.fullmatch(name)[1]),
            "data": {"sentences": True},
        }

    def settings(self, experiment):
        """See `Task`."""
        return {"order": experiment.preset["order"]}

    def epochs(self, experiment, epochs, patience):
        """It is counted once."""
        return 1, 0

    def count(self, experiment, verbose=1):
        """Counts; returns the model without cache, and that of the preset."""
        corpus, order = experiment.corpus, experiment.preset["order"]
        counted = ngrams.KneserNey(len(corpus.vocabulary), order=order)
        counted.fit(corpus.train, verbose)
        if not experiment.preset_name.endswith("cache"):
            return counted, counted
        cached = ngrams.with_cache(counted, corpus.validation, verbose=verbose)
        return counted, cached

    def measure(self, experiment, model, verbose):
        """See `Task`."""
        return {
            split: plain_perplexity(
                model.perplexity(getattr(experiment.corpus, split))
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


def kind_of(name):
    """Kind of the model of a preset, by its full name."""
    if _NGRAM_MODEL.fullmatch(name):
        return KNESER_NEY
    return registry.find(name)[1].kind


def resolve(name):
    """Full name of a preset whose row alone may be given.

    Args:
        name: string, `"paper/row"`, or `"row"`.

    Returns:
        One of `memlm_keras.presets.names()`, or of `NGRAM_MODELS`.

    Raises:
        UsageError: if there is none, or several papers have such a row.
    """
    names = [*presets.names(), *NGRAM_MODELS]
    if name in names or _NGRAM_MODEL.fullmatch(name):
        return name
    found = [full for full in names if full.partition("/")[2] == name]
    if len(found) == 1:
        return found[0]
    if found:
        raise UsageError(
            f"Several papers have a row {name}: {', '.join(found)}. Name the "
            "paper too."
        )
    rows = {full.partition("/")[2]: full for full in names}
    hint = nearest(name, names if "/" in name else [*rows, *names])
    for row, full in rows.items():
        hint = hint.replace(f" mean {row}?", f" mean {full}?")
    raise UsageError(
        f"There is no preset {name}.{hint or ' `memlm presets` lists all.'}"
    )


def set_dropout(model, rate):
    """Sets the rates of dropout that a model has, or that of all layers."""
    layers = [
        layer["config"]
        for layer in model.get("recurrent") or ()
        if isinstance(layer, dict)
    ]
    rates = model.get("dropout")
    if isinstance(rates, dict):
        places = [place for place in rates if place != "variational"]
        stated = [(rates, place) for place in places if rates[place]]
    else:
        stated = [(model, "dropout")] if rates else []
    stated += [(layer, "dropout") for layer in layers if layer.get("dropout")]
    for config, name in stated or [(model, "dropout")]:
        config[name] = rate


def smoothing_of(model):
    """Arguments of the smoothing of a preset's model, a dict; or `None`."""
    embedding = model.get("embedding") or {"config": {}}
    smoothing = embedding["config"].get("smoothing")
    return smoothing and smoothing["config"]

"""Tasks: models of one kind, made, trained and measured in an experiment."""

import keras

import memlm_keras
from memlm_keras import presets
from memlm_keras.experiments.options import NoUseError
from memlm_keras.experiments.options import UsageError
from memlm_keras.experiments.options import nearest

_SIZES = ("scale", "units", "embedding_dim", "window", "initial_range")


class Task:
    """Experiments of one kind of model.

    A task has no state: all that it knows stands in the experiment.

    Attributes:
        kind: string, as presets have it.
        monitor: string, the metric that the best epoch is chosen by.
        measures: list of pairs of a heading and the keys that lead to a number
            in `results.json`.
        is_trained: whether it has epochs at all.
    """

    kind = None
    monitor = "val_perplexity"
    measures = [
        ("validation", ("validation", "perplexity")),
        ("test", ("test", "perplexity")),
    ]
    is_trained = True

    def preset(self, name, overrides):
        """The preset of an experiment, with what is changed of it."""
        sizes = {k: v for k, v in overrides.items() if k in _SIZES}
        preset = get_preset(name, **sizes)
        if "dropout" in overrides:
            set_dropout(preset["model"], overrides["dropout"])
        return preset

    def settings(self, experiment):
        """Settings of an experiment that only this kind has."""
        raise NotImplementedError

    def new_model(self, experiment):
        """The model of an experiment, not compiled."""
        kind = getattr(memlm_keras, self.kind)
        return kind.from_config(
            {
                "vocabulary_size": len(experiment.corpus.vocabulary),
                **experiment.preset["model"],
            }
        )

    def make(self, experiment):
        """The model of an experiment, ready to be compiled."""
        return self.new_model(experiment)

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
        raise NotImplementedError

    def measure(self, experiment, model, verbose):
        """Measures a trained model; returns plain values for its results."""
        raise NotImplementedError

    def check_measures(self, experiment, measures):
        """Refuses what cannot be measured, before anything is trained."""

    def lacks(self, experiment, measures, results):
        """Whether something is asked for besides that is not in `results`."""
        return False

    def measure_more(self, experiment, model, measures, verbose, results):
        """Measures what is asked for and not in `results`, as plain values."""
        return {}

    def draw(self, experiment, model, run_folder, pictures, verbose):
        """Draws what a trained model shows, in its run folder.

        Returns:
            List of the paths of the pictures.
        """
        return []


def task_of(name):
    """The `Task` of a preset, by its name."""
    from memlm_keras.experiments.dual_sequences import AutoencoderTask
    from memlm_keras.experiments.dual_sequences import ClassifierTask
    from memlm_keras.experiments.language_models import LanguageModelTask
    from memlm_keras.experiments.ngram_models import KneserNeyTask
    from memlm_keras.experiments.ngram_models import is_name

    if is_name(name):
        return KneserNeyTask()
    kind = presets.get(name)["kind"]
    for task in (LanguageModelTask, ClassifierTask, AutoencoderTask):
        if task.kind == kind:
            return task()
    raise UsageError(f"{name} is of a {kind}, of which experiments know none.")


def resolve(name):
    """Full name of a preset whose row alone may be given.

    Args:
        name: string, `"paper/row"`, or `"row"`.

    Returns:
        One of `memlm_keras.presets.names()`, or of `ngram_models.NAMES`.

    Raises:
        UsageError: if there is none, or several papers have such a row.
    """
    from memlm_keras.experiments.ngram_models import NAMES
    from memlm_keras.experiments.ngram_models import is_name

    names = [*presets.names(), *NAMES]
    if name in names or is_name(name):
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
    known = names if "/" in name else [*rows, *names]
    hint = nearest(name, known)
    for row, full in rows.items():
        hint = hint.replace(f" mean {row}?", f" mean {full}?")
    raise UsageError(
        f"There is no preset {name}.{hint or ' `memlm presets` lists all.'}"
    )


def get_preset(name, **sizes):
    """`presets.get`, for what users typed.

    Raises:
        NoUseError: for the window of a row without one.
        UsageError: for any other size that it refuses.
    """
    paper, _, row = name.partition("/")
    window = getattr(presets.papers()[paper].rows[row], "window", None)
    if "window" in sizes and window is None:
        raise NoUseError(
            "window",
            f"window is of models whose memory has one; {name} has none. "
            f"Received: window={sizes['window']}",
        )
    try:
        return presets.get(name, **sizes)
    except ValueError as error:
        raise UsageError(str(error)) from None


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

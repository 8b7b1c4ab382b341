"""One experiment: a preset, a dataset and what is changed of the preset."""

import contextlib
import functools
import shlex

import keras

from memlm_keras import training
from memlm_keras.experiments import interruption
from memlm_keras.experiments import report
from memlm_keras.experiments.datasets import Dataset
from memlm_keras.experiments.datasets import reads_sentences
from memlm_keras.experiments.dual_sequences import AutoencoderTask
from memlm_keras.experiments.dual_sequences import ClassifierTask
from memlm_keras.experiments.language_models import LanguageModelTask
from memlm_keras.experiments.options import KNESER_NEY
from memlm_keras.experiments.options import MissingTextError
from memlm_keras.experiments.options import UsageError
from memlm_keras.experiments.options import read_options
from memlm_keras.experiments.run_folder import RunFolder
from memlm_keras.experiments.settings import OVERRIDES
from memlm_keras.experiments.settings import READING
from memlm_keras.experiments.tasks import KneserNeyTask
from memlm_keras.experiments.tasks import kind_of
from memlm_keras.experiments.tasks import resolve

TASKS = {
    task.kind: task()
    for task in (
        LanguageModelTask,
        ClassifierTask,
        AutoencoderTask,
        KneserNeyTask,
    )
}
# Overrides that are no settings by themselves: others follow from them.
_READING = ("document_start", "tokenize")
# In run folders' names, without their value.
_SWITCHES = {
    "match_parameters": "matched",
    "lowercase": "lowercase",
    "distribution": "data_parallel",
}
# Paths: the texts that they lead to are known by the fingerprint.
_UNNAMED = ("data_dir", "document_start", "tokenize", "vectors")


class Experiment:
    """A preset trained on a dataset, and measured.

    The same experiment has the same settings and the same results, whichever
    way it is asked for: here, by `memlm train` or as a row of a table.

    Args:
        preset: string, one of `memlm_keras.presets.names()`, its row alone
            where no other paper has one of that name, or `"kneser_ney_5"` or
            `"kneser_ney_5_cache"`, the n-gram models of Tran et al. (2016).
        dataset: string, as for `memlm_keras.experiments.datasets.Dataset`.
        seed: integer, of weights, dropout and shuffling.
        **overrides: what is to be other than in the preset, by the names of
            `memlm_keras.experiments.settings.OVERRIDES`, such as `scale`,
            `batch_size` or `tokenize`; `None` is the preset's.

    Attributes:
        preset: the preset as a plain value, at the sizes that are asked for.
        kind: string, the kind of model.
        dataset: `Dataset`.
        overrides: dict of the overrides that are given.

    Raises:
        UsageError: (a `ValueError`) for a name, an override or a path that
            cannot be; nothing has been written then.

    Example:

    >>> from memlm_keras.experiments import Experiment
    >>> experiment = Experiment(
    ...     "daniluk2017/key_value_predict", scale=0.05, batch_size=64
    ... )
    >>> experiment.name
    'embedded-daniluk2017-key_value_predict-scale0.05-batch_size64-seed0'
    >>> results = experiment.run("runs/kvp", epochs=1)  # doctest: +SKIP
    """

    def __init__(self, preset, dataset="embedded", *, seed=0, **overrides):
        self.preset_name = resolve(preset)
        self.seed = int(seed)
        self.kind = kind_of(self.preset_name)
        if self.kind not in TASKS:
            raise UsageError(
                f"{self.preset_name} is of a {self.kind}; experiments are of "
                f"{', '.join(TASKS)}."
            )
        self.task = TASKS[self.kind]
        self.overrides = read_options(
            OVERRIDES.values(), overrides, kind=self.kind
        )
        self.preset = self.task.preset(self.preset_name, self.overrides)
        self.dataset = Dataset(
            dataset,
            self.kind,
            sentences=reads_sentences(self.preset),
            reading={
                option.name: self.overrides[option.name]
                for option in READING
                if option.name in self.overrides
            },
        )

    @property
    def name(self):
        """Name of the run's folder: dataset, row, what is changed, seed."""
        parts = [self.dataset.label, self.preset_name.replace("/", "-")]
        parts += name_parts(self.overrides)
        return "-".join([*parts, f"seed{self.seed}"])

    @property
    def recipe(self):
        """All arguments, plain: `Experiment(**recipe)` is this one again."""
        return {
            "preset": self.preset_name,
            "dataset": self.dataset.name,
            "seed": self.seed,
            **self.overrides,
        }

    @functools.cached_property
    def corpus(self):
        """The corpus, loaded where it is first needed."""
        return self.dataset.load()

    @functools.cached_property
    def settings(self):
        """Plain values that say what the run is."""
        own = self.task.settings(self)
        settings = {
            "preset": self.preset_name,
            "units": self.preset.get("units"),
            "dataset": self.dataset.label,
            "corpus": self.corpus.fingerprint,
            "vocabulary_size": len(self.corpus.vocabulary),
            **{k: v for k, v in self.overrides.items() if k in _READING},
            **own,
            "seed": self.seed,
            "backend": keras.backend.backend(),
        }
        return {k: v for k, v in settings.items() if v is not None}

    def epochs(self, epochs=None, patience=None):
        """Most epochs, and patience, where they are not given."""
        return self.task.epochs(self, epochs, patience)

    def make(self):
        """Makes the model, compiled; call `keras.utils.set_random_seed` first.

        Returns:
            The model, and the callbacks that its preset trains with.
        """
        model = self.task.make(self)
        return model, self.task.compile(self, model)

    def run(
        self,
        folder,
        epochs=None,
        patience=None,
        devices=None,
        checkpoint_frequency=500,
        tensorboard=False,
        verbose=1,
        measures=None,
        pictures=None,
        overwrite=False,
        command=None,
    ):
        """Trains to the best epoch, measures and draws, in a run folder.

        Nothing is destroyed: a run that is finished is not trained again but
        measured by what is new in `measures`, one that was interrupted goes on,
        and a folder of other settings is refused.

        Args:
            folder: path of the run folder.
            epochs, patience: integers; `None` is the preset's, and, of a
                finished run, what it was trained with.
            devices: integer, of an experiment with a `distribution`, how many
                to train on; `None` for all.
            checkpoint_frequency: integer, batches between checkpoints.
            tensorboard: whether to log for TensorBoard too.
            verbose: 0 silent, 1 progress bar, 2 lines.
            measures: dict of what is measured besides, by the names of
                `memlm_keras.experiments.settings.MEASURES`.
            pictures: dict of what is drawn, by those of `PICTURES`.
            overwrite: whether to move an older folder aside, and begin anew.
            command: string, what to tell that was typed, in the results.

        Returns:
            What `results.json` holds, a dict.

        Raises:
            UsageError: if the folder holds a run of other settings, something
                cannot be measured of this model, or there are not so many
                devices.
            OSError: if the folder cannot be written.
        """
        measures = measures or {}
        self.task.check_measures(self, measures)
        scope = self._scope(devices)
        run_folder = RunFolder(folder)
        if overwrite:
            run_folder.move_aside()
        state = run_folder.open(self.settings, epochs, patience)
        if state == "finished":
            print(f"{folder} is finished, and is not trained again.")
            return self._measure_more(run_folder, None, measures, verbose)
        keras.utils.set_random_seed(self.seed)
        epochs, patience = self.epochs(epochs, patience)
        run_folder.write_config(self.settings, self.recipe, command)
        if not self.task.is_trained:
            results = self.task.estimate(self)
            return run_folder.write_results(
                self.settings, results, epochs, patience, command
            )
        with scope:
            model, callbacks = self.make()
            print(
                f"{self.preset_name}: {model.count_params():,} parameters on "
                f"{self.corpus.name}, run folder {folder}"
            )
            if tensorboard:
                path = run_folder.path / "tensorboard"
                callbacks.append(keras.callbacks.TensorBoard(str(path)))
            finite = self._train(
                model,
                callbacks,
                run_folder,
                epochs=epochs,
                patience=patience,
                frequency=checkpoint_frequency,
                verbose=verbose,
            )
            measured = {
                "parameters": model.count_params(),
                "finite": finite,
                **report.summary_of_log(run_folder.log(), self.task.monitor),
                **self.task.measure(self, model, verbose),
            }
        run_folder.write_results(
            self.settings, measured, epochs, patience, command
        )
        results = self._measure_more(run_folder, model, measures, verbose)
        self.task.draw(self, model, run_folder.path, pictures or {}, verbose)
        return results

    def _scope(self, devices):
        """Context in which the model is made and trained."""
        if "distribution" not in self.overrides:
            if devices is not None:
                raise UsageError(
                    "devices is of --distribution=data_parallel. Received: "
                    f"devices={devices}"
                )
            return contextlib.nullcontext()
        try:
            return training.data_parallel(devices)
        except ValueError as error:
            raise UsageError(str(error)) from None

    def _measure_more(self, run_folder, model, measures, verbose):
        """Adds what is asked for and lacking to the results; returns them."""
        results = run_folder.results()
        missing = self.task.missing(self, measures, results)
        if not missing:
            return results
        model = model or run_folder.model()
        return run_folder.add_results(
            {key: make(model, verbose) for key, make in missing.items()}
        )

    def _train(
        self,
        model,
        callbacks,
        run_folder,
        *,
        epochs,
        patience,
        frequency,
        verbose,
    ):
        """Trains, or goes on; returns whether the loss stayed finite."""
        batches, validation = self.task.training_batches(self, model)
        stop_on_nan = training.StopOnNaN()
        monitor = self.task.monitor
        callbacks = [
            *callbacks,
            training.Throughput(batches),
            stop_on_nan,
            keras.callbacks.EarlyStopping(
                monitor=monitor,
                mode=report.better(monitor).__name__,
                patience=patience,
                restore_best_weights=True,
                verbose=verbose,
            ),
            keras.callbacks.CSVLogger(
                str(run_folder.log_path),
                append=run_folder.checkpoint.exists(),
            ),
        ]
        checkpoint = training.Checkpoint(
            run_folder.checkpoint,
            batches,
            callbacks,
            frequency=frequency,
            # The settings of the folder say that it began with the same.
            learning_rate="checkpoint",
        )
        if checkpoint.resumed_from:
            epoch, batch = checkpoint.resumed_from
            print(
                f"Going on in {run_folder.path} in epoch {epoch + 1} at batch "
                f"{batch}."
            )
        model.fit(
            batches,
            epochs=epochs,
            validation_data=validation,
            callbacks=[*callbacks, checkpoint, interruption.between_batches()],
            verbose=verbose,
        )
        run_folder.save(model)
        if stop_on_nan.stopped:
            print("The loss was not finite; the last good weights were kept.")
        return not stop_on_nan.stopped


def name_parts(overrides):
    """Parts of a folder's name that say what is other than in the preset."""
    parts = []
    for name, value in overrides.items():
        if name in _SWITCHES:
            parts += [_SWITCHES[name]] if value else []
        elif name not in _UNNAMED:
            text = f"{value:g}" if isinstance(value, float) else value
            parts.append(f"{name}{text}")
    return parts


def of_run(folder, **changes):
    """The experiment of a run, or that with some arguments changed.

    Args:
        folder: `RunFolder` of the run.
        **changes: arguments of `Experiment` in place of the run's.

    Raises:
        UsageError: if its text is not there any more, or a change cannot be.
    """
    recipe = folder.recipe()
    try:
        return Experiment(**{**recipe, **changes})
    except MissingTextError:
        if "dataset" in changes:
            raise
        told = (
            f"The text of {folder.path} was at {recipe['dataset']}, as its "
            "config.json says, and is not there now. Put it there again"
        )
        # Without its text, an n-gram model cannot be counted.
        if kind_of(recipe["preset"]) != KNESER_NEY:
            told += (
                ", or say where it is: memlm evaluate "
                f"{shlex.quote(str(folder.path))} --dataset=NEWPATH"
            )
        raise UsageError(told) from None


def again(folder):
    """The experiment of a run, of the text that it was of.

    Args:
        folder: `RunFolder` of the run.

    Raises:
        UsageError: if the text is another one now, or not there.
    """
    experiment = of_run(folder)
    if folder.settings().get("corpus") != experiment.corpus.fingerprint:
        raise UsageError(
            f"{experiment.dataset.name} is not the text any more that "
            f"{folder.path} was trained on."
        )
    return experiment

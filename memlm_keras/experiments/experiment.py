"""One experiment: a preset, a dataset and what is changed of the preset."""

import contextlib
import functools
import shlex
import statistics

import memlm_keras as memlm
from memlm_keras import files
from memlm_keras.experiments import comparison
from memlm_keras.experiments import figures
from memlm_keras.experiments import measures as measuring
from memlm_keras.experiments import process
from memlm_keras.experiments.datasets import Dataset
from memlm_keras.experiments.datasets import evaluation_batches
from memlm_keras.experiments.datasets import reads_sentences
from memlm_keras.experiments.options import KNESER_NEY
from memlm_keras.experiments.options import MEASURES
from memlm_keras.experiments.options import OVERRIDES
from memlm_keras.experiments.options import READING
from memlm_keras.experiments.options import MissingTextError
from memlm_keras.experiments.options import UsageError
from memlm_keras.experiments.options import read_options
from memlm_keras.experiments.pairs import AutoencoderTask
from memlm_keras.experiments.pairs import ClassifierTask
from memlm_keras.experiments.run_folder import CONFIG
from memlm_keras.experiments.run_folder import RunFolder
from memlm_keras.experiments.tasks import KneserNeyTask
from memlm_keras.experiments.tasks import LanguageModelTask
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


class Experiment:
    """A preset trained on a dataset, and measured.

    Equal experiments have equal settings and results, whether they are made in
    Python, by `memlm train` or as rows of a table.

    Args:
        preset: string, one of `memlm_keras.presets.names()`, its row alone if
            no other paper has a row of that name; `"kneser_ney_5"` or
            `"kneser_ney_5_cache"`, the n-gram models of Tran et al. (2016); or
            a trained model, by name or folder, which is trained further.
        dataset: string, as the flag `--dataset` of `memlm train --help`.
        seed: integer, of weights, dropout and shuffling.
        **overrides: changes of the preset, by the names of
            `memlm_keras.experiments.options.OVERRIDES`, such as `scale`,
            `batch_size` or `tokenize`; `None` is the preset's value.

    Attributes:
        preset: the preset as a plain value, with its overrides.
        kind: string, the kind of model.
        dataset: `Dataset`.
        overrides: dict of the overrides that are given.
        run_folder: `RunFolder` of the run that this is of, or `None`.

    Raises:
        UsageError: (a `ValueError`) for an unknown name, an override that is
            not accepted or a path without a text; nothing is written then.

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
        self._scores = None, {}
        self.run_folder = None
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
        """Name of the run's folder: dataset, row, overrides, seed."""
        # Of the path of a trained model, no more than of a name.
        parts = [self.dataset.label, *self.preset_name.split("/")[-2:]]
        parts += name_parts(self.overrides)
        return "-".join([*parts, f"seed{self.seed}"])

    @property
    def recipe(self):
        """All arguments: `Experiment(**recipe)` is an equal experiment."""
        return {
            "preset": self.preset_name,
            "dataset": self.dataset.name,
            "seed": self.seed,
            **self.overrides,
        }

    @functools.cached_property
    def corpus(self):
        """The corpus, loaded where it is first needed."""
        return self.dataset.load(self.task.vocabulary(self))

    @functools.cached_property
    def settings(self):
        """Plain values that identify the run."""
        settings = {
            "preset": self.preset_name,
            "units": self.preset.get("units"),
            "dataset": self.dataset.label,
            "corpus": self.corpus.fingerprint,
            "vocabulary_size": len(self.corpus.vocabulary),
            "document_start": self.overrides.get("document_start"),
            "tokenize": self.overrides.get("tokenize"),
            **self.task.settings(self),
            "seed": self.seed,
            "backend": process.backend(),
        }
        return {k: v for k, v in settings.items() if v is not None}

    def epochs(self, epochs=None, patience=None):
        """Returns epochs and patience, of the preset where they are `None`."""
        return self.task.epochs(self, epochs, patience)

    def make(self):
        """Makes the model, compiled; call `keras.utils.set_random_seed` first.

        Returns:
            The model, and the callbacks that its preset trains with.
        """
        model = self.task.make(self)
        return model, self.task.compile(self, model)

    def check(self, measures, pictures=None, devices=None):
        """Returns the measures of a run; raises `UsageError`, before a text is
        read, for arguments of `run` that do not go together."""
        if devices is not None and "distribution" not in self.overrides:
            raise UsageError(
                "devices is of --distribution=data_parallel. Received: "
                f"devices={devices}"
            )
        if pictures:
            figures.check_pictures(self, pictures)
        return read_options(MEASURES, measures, self.kind)

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

        Nothing is lost: a finished run is not trained again but measured by
        what is new in `measures`, an interrupted one continues, and a folder
        with other settings is refused.

        Args:
            folder: path of the run folder.
            epochs, patience: integers; `None` is the preset's, and for a
                finished run, those that it was trained with.
            devices: integer, for an experiment with a `distribution`, the
                number of devices to train on; `None` for all.
            checkpoint_frequency: integer, batches between checkpoints.
            tensorboard: whether to log for TensorBoard too.
            verbose: 0 silent, 1 progress bar, 2 lines.
            measures: dict of further measurements, by the names of
                `memlm_keras.experiments.options.MEASURES`.
            pictures: dict of pictures, by the names of `PICTURES` there.
            overwrite: whether to move an older folder aside, and start again.
            command: string, the command to record in the results.

        Returns:
            The contents of `results.json`, a dict.

        Raises:
            UsageError: if the folder has a run of other settings, the model
                cannot be measured so, or there are fewer devices.
            OSError: if the folder cannot be written, or another process uses
                it.
        """
        measures = self.check(measures or {}, pictures, devices)
        self.run_folder = run_folder = RunFolder(folder)
        with process.quiet(verbose):
            measuring.check(self, measures)
            scope = self._scope(devices)
            if tensorboard:
                files.import_package(
                    "tensorflow.summary",
                    "--tensorboard",
                    "tensorflow tensorboard",
                )
            if overwrite:
                run_folder.move_aside()
            # Before the folder is made, as this may raise.
            settings = self.settings
        with files.hold(folder), process.quiet(verbose):
            state = run_folder.open(settings, epochs, patience)
            if state == "finished":
                print(f"{folder} is finished, and is not trained again.")
                return self._measure_more(run_folder, None, measures, verbose)
            process.import_keras()
            import keras

            keras.utils.set_random_seed(self.seed)
            epochs, patience = self.epochs(epochs, patience)
            run_folder.write_config(settings, self.recipe, self.kind, command)
            if not self.task.is_trained:
                results = self.task.estimate(self)
                return run_folder.write_results(
                    settings, results, epochs, patience, command
                )
            with scope:
                model, callbacks = self.make()
                print(
                    f"{self.preset_name}: {model.count_params():,} parameters "
                    f"on {self.corpus.name}, run folder {folder}"
                )
                if tensorboard:
                    path = run_folder.path / "tensorboard"
                    callbacks.append(keras.callbacks.TensorBoard(str(path)))
                finite, improved = self._train(
                    model,
                    callbacks,
                    run_folder,
                    epochs,
                    patience,
                    checkpoint_frequency,
                    verbose,
                )
                results = {
                    "parameters": model.count_params(),
                    "finite": finite,
                    **self._summary(log := run_folder.log(), improved, finite),
                    **self.task.measure(self, model, verbose),
                }
            if finite and isinstance(self.task, LanguageModelTask):
                comparison.warn_if_little_is_learned(
                    self, results, command, measures.get("compare")
                )
            # Before the results, with which the run is finished.
            curve = run_folder.path / figures.CURVE
            title = f"{self.preset_name} on {self.corpus.name}"
            figures.draw_curve(log, self.task.monitor, curve, title)
            self.task.draw(
                self, model, run_folder.path, pictures or {}, verbose
            )
            run_folder.write_results(
                settings, results, epochs, patience, command
            )
            return self._measure_more(run_folder, model, measures, verbose)

    def scores(self, model, split, verbose=0):
        """Scores of a split by a trained language model.

        Those of the last model are kept: for a large vocabulary, they take most
        of the time of a measurement. Its weights must not change in between.

        Args:
            model: a `memlm_keras.LanguageModel`.
            split: `"train"`, `"validation"` or `"test"`.
            verbose: as in `keras.Model.predict`.

        Returns:
            `(scores, sample_weight)`, two float32 arrays `(rows, time)` as from
            `model.score_batches`, which says what it refuses.

        Example:

        >>> experiment = Experiment("memlm/small", "embedded")
        >>> model, _ = experiment.make()
        >>> scores, weight = experiment.scores(model, "test")
        >>> scores.shape == weight.shape
        True
        """
        of, scores = self._scores
        if of is not model:
            self._scores = of, scores = model, {}
        if split not in scores:
            batches = evaluation_batches(self, model, split)
            scores[split] = model.score_batches(batches, verbose=verbose)
        return scores[split]

    def last_model(self):
        """The model of the last epoch of the finished run, from its checkpoint;
        the folder keeps that of the best epoch."""
        folder = self.run_folder
        if not folder.checkpoint.exists():
            raise UsageError(
                f"--test_last needs {folder.checkpoint}, which has the weights "
                "of the last epoch, and is not there."
            )
        results = folder.results()
        with self._scope(None):
            model, callbacks = self.make()
            # No epoch is left to train.
            self._fit(
                model,
                callbacks,
                folder,
                results["epochs"],
                results["patience"],
                last=True,
            )
        return model

    def _scope(self, devices):
        """Context in which the model is made and trained."""
        if "distribution" not in self.overrides:
            return contextlib.nullcontext()
        process.import_keras()
        try:
            return memlm.training.data_parallel(devices)
        except ValueError as error:
            raise UsageError(str(error)) from None

    def _measure_more(self, run_folder, model, measures, verbose):
        """Adds missing measurements to the results; returns all of them."""
        results = run_folder.results()
        for request in measuring.requests(self, measures, results):
            if not request.is_in(results):
                model = model or run_folder.model()
                made = request.make(model, verbose, results)
                results = run_folder.add_results({request.name: made})
        return results

    def _summary(self, log, improved, finite):
        """Epochs and speed of a run; the first of equal epochs is the best, and
        the best is 0 where none improved a model, or the first diverged."""
        best = max if self.task.mode == "max" else min
        monitor = [row[self.task.monitor] for row in log]
        if not finite:
            monitor.pop()
        best_epoch = 0
        if improved and monitor:
            best_epoch = 1 + monitor.index(best(monitor))
        speed = next(name for name in log[0] if name.endswith("_per_second"))
        return {
            "epochs": len(log),
            "best_epoch": best_epoch,
            "seconds_per_epoch": statistics.median(r["seconds"] for r in log),
            speed: statistics.median(row[speed] for row in log),
        }

    def _train(
        self, model, callbacks, folder, epochs, patience, frequency, verbose
    ):
        """Trains or continues, and saves the best epoch; returns whether the
        loss stayed finite, and whether an epoch is better than what the model
        began with."""
        finite, validation = self._fit(
            model, callbacks, folder, epochs, patience, frequency, verbose
        )
        improved = self.task.keep_better(self, model, validation)
        folder.save(model)
        return finite, improved

    def _fit(
        self,
        model,
        callbacks,
        folder,
        epochs,
        patience,
        frequency=None,
        verbose=0,
        last=False,
    ):
        """Trains or continues to the weights of the best epoch, or of the last;
        returns whether the loss stayed finite, and the validation batches."""
        import keras

        from memlm_keras.training.callbacks import CSVLogger
        from memlm_keras.training.callbacks import TimeEstimate

        training = memlm.training
        batches, validation = self.task.training_batches(self, model)
        stop_on_nan = training.StopOnNaN()
        callbacks = [
            *callbacks,
            training.Throughput(batches),
            stop_on_nan,
            keras.callbacks.EarlyStopping(
                monitor=self.task.monitor,
                mode=self.task.mode,
                patience=patience,
                restore_best_weights=not last,
                verbose=verbose,
            ),
            CSVLogger(str(folder.log_path), folder.log),
        ]
        checkpoint = training.Checkpoint(
            folder.checkpoint,
            batches,
            callbacks,
            frequency=frequency,
            # The run started with the learning rate of its settings.
            learning_rate="checkpoint",
        )
        if checkpoint.resumed_from and not last:
            epoch, batch = checkpoint.resumed_from
            print(
                f"Going on in {folder.path} in epoch {epoch + 1} at batch "
                f"{batch}."
            )
        try:
            with process.signals_wait(checkpoint.save_here) as interruptible:
                model.fit(
                    batches,
                    epochs=epochs,
                    validation_data=validation,
                    callbacks=[
                        *callbacks,
                        checkpoint,
                        interruptible,
                        *([TimeEstimate()] if verbose else []),
                    ],
                    verbose=verbose,
                )
        except ValueError as error:
            if f"The checkpoint {folder.checkpoint}" not in str(error):
                raise
            what = str(error).partition(" Resume with ")[0]
            raise UsageError(
                f"{what} A default of {self.preset_name} may have changed "
                "since, as CHANGELOG.md says: give the old value by its flag, "
                "which begins another run, or --overwrite to begin this again."
            ) from None
        return not stop_on_nan.stopped, validation


def name_parts(overrides):
    """Parts of a folder's name for the overrides of an experiment."""
    parts = []
    for name, value in overrides.items():
        label = OVERRIDES[name].label
        if label is None:
            text = f"{value:g}" if isinstance(value, float) else value
            parts.append(f"{name}{text}")
        elif label and value:
            parts.append(label)
    return parts


def of_run(folder, **changes):
    """Returns the experiment of a `RunFolder`, with some arguments changed."""
    recipe = folder.recipe()
    try:
        experiment = Experiment(**{**recipe, **changes})
        experiment.run_folder = None if changes else folder
        return experiment
    except MissingTextError:
        if "dataset" in changes:
            raise
        message = (
            f"The text of {folder.path} was at {recipe['dataset']}, as its "
            "config.json says, and is not there now. Put it there again"
        )
        # Without its text, an n-gram model cannot be counted.
        if folder.kind != KNESER_NEY:
            message += (
                ", or say where it is: memlm evaluate "
                f"{shlex.quote(str(folder.path))} --dataset=NEWPATH"
            )
        raise UsageError(message) from None
    except UsageError as error:
        if changes:
            raise
        raise UsageError(
            f"The settings in {folder.path / CONFIG} are refused: {error}"
        ) from None


def again(folder):
    """Returns the experiment of a run; raises if its text has changed."""
    experiment = of_run(folder)
    if folder.settings().get("corpus") != experiment.corpus.fingerprint:
        raise UsageError(
            f"The text at {experiment.dataset.name} has changed since "
            f"{folder.path} was trained."
        )
    return experiment

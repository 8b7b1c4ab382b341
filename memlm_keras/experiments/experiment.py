"""An experiment: a preset, a dataset and overrides of the preset."""

import contextlib
import copy
import functools
import importlib
import pathlib
import shlex
import statistics

import memlm_keras as memlm
from memlm_keras import files
from memlm_keras import registry
from memlm_keras.experiments import datasets
from memlm_keras.experiments import measurements
from memlm_keras.experiments import options
from memlm_keras.experiments import process
from memlm_keras.experiments.choice import find_preset
from memlm_keras.experiments.run_folder import CONFIG
from memlm_keras.experiments.run_folder import RunFolder
from memlm_keras.presets import Measure

# Module and class of the experiment for each kind of model.
_CLASSES = {
    options.LANGUAGE_MODEL: ("language_model", "LanguageModelExperiment"),
    options.CLASSIFIER: ("pairs", "ClassifierExperiment"),
    options.AUTOENCODER: ("pairs", "AutoencoderExperiment"),
    options.KNESER_NEY: ("ngram_model", "NgramExperiment"),
}


class Experiment:
    """Trains a preset on a dataset and measures it.

    The same arguments give the same settings and results in Python, with
    `memlm train --as_published`, and for a row that `memlm table` trains.

    Args:
        preset: string. A name in `memlm_keras.presets.names()`, `"paper/row"`,
            or only `"row"` if no other paper has this row; an n-gram model of
            Tran et al. (2016), `"kneser_ney_5"` or `"kneser_ney_5_cache"`; or
            the name or folder of a trained model, to train it further.
        dataset: string, as for the flag `--dataset` of `memlm train`.
        seed: integer, seed of weights, dropout and shuffling.
        corpus: the corpus of `dataset`, if it was loaded before.
        run_folder: `RunFolder` of an earlier run of this experiment.
        **overrides: changes of the preset, named as in
            `memlm_keras.experiments.options.OVERRIDES`, such as `scale`,
            `batch_size` or `tokenize`; `None` keeps the preset's value.

    The constructor returns an instance of the subclass for the preset's kind.

    Attributes:
        preset: dict, the preset with the overrides applied.
        kind: string, the kind of model.
        dataset: `Dataset`.
        overrides: dict, the changes of the preset that are not `None`.
        run_folder: `RunFolder`, or `None` before a run.

    Raises:
        UsageError: a `ValueError` for an unknown name, an invalid override or a
            path without a text; nothing is written.

    Example:

    >>> from memlm_keras.experiments import Experiment
    >>> experiment = Experiment(
    ...     "daniluk2017/key_value_predict", scale=0.05, batch_size=64
    ... )
    >>> experiment.name
    'embedded-daniluk2017-key_value_predict-scale0.05-batch_size64-seed0'
    >>> results = experiment.run("runs/kvp", epochs=1)  # doctest: +SKIP
    """

    kind = None
    monitor = "val_perplexity"  # Metric that selects the best epoch.
    mode = "min"  # "max" if larger values of `monitor` are better.
    # Results that are printed after training.
    columns = [
        Measure("validation", ("validation", "perplexity")),
        Measure("test", ("test", "perplexity")),
    ]
    is_trained = True  # False for models that only count n-grams.

    def __new__(cls, preset=None, *args, **kwargs):
        if preset is None:  # called by `copy`
            return super().__new__(cls)
        found = find_preset(preset)
        if cls is Experiment:
            if found.kind not in _CLASSES:
                raise options.UsageError(
                    f"The kind of model must be one of {', '.join(_CLASSES)}. "
                    f"Received: preset={found.name}, a {found.kind}"
                )
            module, name = _CLASSES[found.kind]
            module = importlib.import_module(f"{__package__}.{module}")
            cls = getattr(module, name)
        self = super().__new__(cls)
        self._found = found
        return self

    def __init__(
        self,
        preset,
        dataset="embedded",
        *,
        seed=0,
        corpus=None,
        run_folder=None,
        **overrides,
    ):
        self._scores = None, {}
        self.run_folder = run_folder
        self.preset_name = self._found.name
        self.seed = int(seed)
        self.overrides = options.read_options(
            options.OVERRIDES.values(), overrides, kind=self.kind
        )
        self.preset = self._make_preset()
        self.dataset = datasets.Dataset(
            dataset,
            self.kind,
            sentences=datasets.reads_sentences(self.preset),
            reading={
                option.name: self.overrides[option.name]
                for option in options.READING
                if option.name in self.overrides
            },
        )
        self._corpus = corpus

    def with_corpus(self, corpus):
        """Returns the same experiment with a corpus that was loaded before."""
        return type(self)(
            **self.recipe, corpus=corpus, run_folder=self.run_folder
        )

    @property
    def name(self):
        """Name of the run folder: dataset, preset, overrides and seed."""
        return run_name(
            self.dataset.label, self.preset_name, self.overrides, self.seed
        )

    @property
    def recipe(self):
        """Dict of the arguments of `Experiment` that make this experiment."""
        return {
            "preset": self.preset_name,
            "dataset": self.dataset.name,
            "seed": self.seed,
            **self.overrides,
        }

    @property
    def corpus(self):
        """The corpus, loaded on first access."""
        if self._corpus is None:
            self._corpus = self.dataset.load(self._vocabulary())
        return self._corpus

    @functools.cached_property
    def settings(self):
        """Dict of JSON values that identify the run."""
        settings = {
            "preset": self.preset_name,
            "units": self.preset.get("units"),
            "dataset": self.dataset.label,
            "corpus": self.corpus.fingerprint,
            "vocabulary_size": len(self.corpus.vocabulary),
            "document_start": self.overrides.get("document_start"),
            "tokenize": self.overrides.get("tokenize"),
            **self._settings(),
            "seed": self.seed,
            "backend": process.backend(),
            "matmul_precision": process.matmul_precision(),
        }
        return {k: v for k, v in settings.items() if v is not None}

    def epochs(self, epochs=None, patience=None):
        """Returns `(epochs, patience)`, with the preset's values for `None`."""
        schedule = self.preset["schedule"]
        planned = schedule.get("epochs")
        if epochs is None:
            epochs = 30 if planned is None else planned
        if patience is None:
            patience = schedule.get(
                "patience", 2 if planned is None else epochs
            )
        return epochs, patience

    def make(self):
        """Makes and compiles the model; Keras' global seed fixes its weights.
        Returns `(model, callbacks)`, with the callbacks for its training."""
        from keras.saving import deserialize_keras_object

        model = self.make_model()
        optimizer = deserialize_keras_object(self.preset["optimizer"])
        optimizer.learning_rate = self.settings["learning_rate"]
        loss = deserialize_keras_object(self.preset.get("loss") or "auto")
        model.compile(optimizer, loss)
        return model, self._callbacks(model)

    def make_model(self):
        """Makes the model without compiling it."""
        config = {
            "vocabulary": self.corpus.vocabulary,
            # `from_config` of Keras' RNN removes the cell from its argument.
            **copy.deepcopy(self._model_config()),
        }
        return getattr(memlm, self.kind).from_config(config)

    # === Subclasses define the first two methods and may override others ===

    def training_batches(self, model):
        """Returns training batches and validation batches."""

    def measure(self, model, verbose=0):
        """Measures a trained model; returns a dict from splits to results."""

    def draw(self, model, folder, pictures=None, verbose=0):
        """Draws pictures in a folder; returns a list of their paths."""
        return []

    def examples(self, path):
        """Returns a list of example commands for the model of a run folder."""
        return []

    def _make_preset(self):
        """Returns the preset with the overrides applied."""
        return read_preset(self.preset_name, self.overrides)

    def _settings(self):
        """Returns a dict of the sizes and rates in `settings`."""
        preset, overrides = self.preset, self.overrides
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

    def _vocabulary(self):
        """Returns the vocabulary, or `None` to build one from the text."""
        return None

    def _model_config(self):
        """Returns the model's arguments without its vocabulary."""
        return self.preset["model"]

    def _callbacks(self, model):
        """Returns the callbacks for training this kind of model."""
        return []

    def _keep_better(self, model, validation):
        """Returns whether training improved a trained model; if not, restores
        its initial weights."""
        return True

    def _warn(self, results, command, compared):
        """Prints warnings about the results, if any."""

    def _go_on_as_1_0(self):
        """Sets the defaults of version 1.0 for a run that 1.0 began."""

    # === Running ===

    def check(self, measures, pictures=None, devices=None):
        """Checks the arguments of `run` before a text is read; returns the
        converted `measures`, or raises `UsageError`."""
        if devices is not None and "distribution" not in self.overrides:
            raise options.UsageError(
                "devices needs --distribution=data_parallel. Received: "
                f"devices={devices}"
            )
        if pictures:
            from memlm_keras.experiments import figures

            figures.check_pictures(self, pictures)
        return options.read_options(options.MEASURING, measures, self.kind)

    def check_measures(self, measures):
        """Raises `UsageError` for measures that do not apply to the model or
        the text."""
        for measurement in measurements.MEASUREMENTS:
            asked = any(option in measures for option in measurement.needs)
            if asked and measurement.check:
                with options.wrong_use():
                    measurement.check(self, measures)

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
        """Trains a model, measures its best epoch, and draws pictures.

        A finished run is not trained again; only missing `measures` are added.
        An interrupted run continues.

        Args:
            folder: path of the run folder.
            epochs, patience: integers; `None` means the preset's values or, for
                a finished run, the values that it was trained with.
            devices: integer, number of devices to train on, for an experiment
                with a `distribution`; `None` for all.
            checkpoint_frequency: integer, batches between checkpoints.
            tensorboard: boolean, whether to log for TensorBoard too.
            verbose: 0 silent, 1 progress bar, 2 lines.
            measures: dict of further measurements, named as in
                `memlm_keras.experiments.options.MEASURING`.
            pictures: dict of pictures, named as in `options.PICTURES`.
            overwrite: boolean, whether to rename an older folder and start
                again.
            command: string, the command to record in the results.

        Returns:
            The contents of `results.json`, a dict.

        Raises:
            UsageError: if the folder has a run with other settings, a measure
                does not apply to the model, or there are too few devices.
            OSError: if the folder cannot be written or is in use by another
                process.
        """
        measures = self.check(measures or {}, pictures, devices)
        self.run_folder = run_folder = RunFolder(folder)
        with process.quiet(verbose):
            self.check_measures(measures)
            scope = self._scope(devices)
            if tensorboard:
                files.import_package(
                    "tensorflow.summary",
                    "--tensorboard",
                    "tensorflow tensorboard",
                )
            if overwrite:
                run_folder.move_aside()
            # `settings` may raise an error: read it before creating the folder.
            settings = self.settings
        with self._using(folder), process.quiet(verbose):
            state = run_folder.open(settings, epochs, patience)
            if state == "finished":
                print(f"{folder} is finished, and is not trained again.")
                if self.is_trained and not run_folder.model_path.exists():
                    print(run_folder.missing_model)
                return self._measure_more(None, measures, verbose)
            process.import_keras()
            import keras

            keras.utils.set_random_seed(self.seed)
            epochs, patience = self.epochs(epochs, patience)
            is_of_1_0 = run_folder.is_of_1_0
            if is_of_1_0 and state == "interrupted":
                self._go_on_as_1_0()
            kind = None if is_of_1_0 else self.kind
            with scope:
                # An invalid size raises before `config.json` is written.
                with options.wrong_use():
                    made = self.make() if self.is_trained else None
                run_folder.write_config(settings, self.recipe, kind, command)
                if made is None:
                    results = self.estimate()
                    return run_folder.write_results(
                        settings, results, epochs, patience, command
                    )
                model, callbacks = made
                print(
                    f"{self.preset_name}: {model.count_params():,} parameters "
                    f"on {self.corpus.name}, run folder {folder}"
                )
                if tensorboard:
                    path = run_folder.path / "tensorboard"
                    callbacks.append(keras.callbacks.TensorBoard(str(path)))
                finite, validation = self._fit(
                    model,
                    callbacks,
                    epochs,
                    patience,
                    checkpoint_frequency,
                    verbose,
                )
                improved = self._keep_better(model, validation)
                run_folder.save(model)
                results = {
                    "parameters": model.count_params(),
                    "finite": finite,
                    **self._summary(log := run_folder.log(), improved, finite),
                    **self.measure(model, verbose),
                }
            if finite:
                self._warn(results, command, measures.get("compare"))
            # Pictures come before the results, which mark the run as finished.
            from memlm_keras.experiments import figures

            curve = run_folder.path / figures.CURVE
            title = f"{self.preset_name} on {self.corpus.name}"
            try:
                figures.draw_curve(log, self.monitor, curve, title)
                self.draw(model, run_folder.path, pictures, verbose)
            except ImportError as error:
                print(f"There are no pictures. {error}")
            run_folder.write_results(
                settings, results, epochs, patience, command
            )
            return self._measure_more(model, measures, verbose)

    @contextlib.contextmanager
    def _using(self, folder):
        """Context that locks a folder, and removes an empty one at the end."""
        try:
            with files.hold(folder):
                yield
        finally:
            # `rmdir` fails if the folder has files.
            with contextlib.suppress(OSError):
                pathlib.Path(folder).rmdir()

    def scores(self, model, split, verbose=0):
        """Returns a trained language model's scores of a split.

        Caches the scores of the last model, because computing them takes most
        of the time of a measurement. The model must not change between calls.

        Args:
            model: a `memlm_keras.LanguageModel`.
            split: `"train"`, `"validation"` or `"test"`.
            verbose: as in `keras.Model.predict`.

        Returns:
            `(scores, sample_weight)`, two float32 arrays of shape `(rows,
            time)`, from `model.score_batches`, whose errors are also raised.

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
            batches = datasets.evaluation_batches(self, model, split)
            scores[split] = model.score_batches(batches, verbose=verbose)
        return scores[split]

    def last_model(self):
        """Returns the model of a finished run's last epoch."""
        folder = self.run_folder
        if not folder.checkpoint.exists():
            raise options.UsageError(
                f"--test_last needs the weights of the last epoch in "
                f"{folder.checkpoint}, which does not exist."
            )
        results = folder.results()
        with self._scope(None):
            model, callbacks = self.make()
            # All epochs are done, so `_fit` only loads the checkpoint.
            epochs, patience = results["epochs"], results["patience"]
            self._fit(model, callbacks, epochs, patience, last=True)
        return model

    def _scope(self, devices):
        """Returns the scope that distributes the model over devices."""
        if "distribution" not in self.overrides:
            return contextlib.nullcontext()
        process.import_keras()
        with options.wrong_use():
            return memlm.training.data_parallel(devices)

    def _measure_more(self, model, measures, verbose):
        """Adds missing measurements to the results; returns all of them."""
        run_folder = self.run_folder
        results = run_folder.results()
        for request in measurements.requests(self, measures, results):
            if not request.is_in(results):
                model = model or run_folder.model()
                made = request.make(model, verbose, results)
                results = run_folder.add_results({request.name: made})
        return results

    def _summary(self, log, improved, finite):
        """Returns a dict with the epochs and the speed of a run. If several
        epochs are equally good, `best_epoch` is the first; if no epoch improved
        the model, it is 0."""
        best = max if self.mode == "max" else min
        monitor = [row[self.monitor] for row in log]
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

    def _fit(
        self,
        model,
        callbacks,
        epochs,
        patience,
        frequency=None,
        verbose=0,
        last=False,
    ):
        """Trains or resumes, and keeps the weights of the best epoch (of the
        last one if `last`). Returns two values: whether the loss stayed
        finite, and the validation batches."""
        import keras

        from memlm_keras.training.callbacks import CSVLogger
        from memlm_keras.training.callbacks import TimeEstimate

        training, folder = memlm.training, self.run_folder
        batches, validation = self.training_batches(model)
        stop_on_nan = training.StopOnNaN()
        callbacks = [
            *callbacks,
            training.Throughput(batches),
            stop_on_nan,
            keras.callbacks.EarlyStopping(
                monitor=self.monitor,
                mode=self.mode,
                patience=patience,
                restore_best_weights=not last,
                verbose=verbose,
            ),
            CSVLogger(str(folder.log_path), folder.log),
        ]
        checkpoint = training.Checkpoint(
            folder.checkpoint,
            batches,
            # TensorBoard has no state, and may be given only sometimes.
            [
                each
                for each in callbacks
                if not isinstance(each, keras.callbacks.TensorBoard)
            ],
            frequency=frequency,
            # A resumed run keeps the learning rate of its checkpoint.
            learning_rate="checkpoint",
        )
        if checkpoint.resumed_from and not last:
            epoch, batch = checkpoint.resumed_from
            print(
                f"Continuing the run in {folder.path} at batch {batch} of "
                f"epoch {epoch + 1}."
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
                        *([TimeEstimate(batches)] if verbose else []),
                    ],
                    verbose=verbose,
                )
        except ValueError as error:
            if f"The checkpoint {folder.checkpoint}" not in str(error):
                raise
            what = str(error).partition(" Resume with ")[0]
            raise options.UsageError(
                f"{what} A default of {self.preset_name} may have changed (see "
                "CHANGELOG.md). Give --overwrite to start again with the new "
                "default. Or pass the old value with its flag; because flags "
                "are part of a run's name, this starts another run."
            ) from None
        return not stop_on_nan.stopped, validation


# Overrides that only some rows have.
_ROW_SIZES = (
    "window initial_range key l2 embedding_range output_bias num_sampled"
).split()


def read_preset(name, overrides):
    """Returns the preset called `name` with the overrides applied."""
    sizes = {k: v for k, v in overrides.items() if k in registry.SIZES}
    row = registry.find(name)[1]
    for size in _ROW_SIZES:
        if size in sizes and getattr(row, size, None) is None:
            raise options.NoUseError(
                size, f"{name} has no {size}. Received: {size}={sizes[size]}"
            )
    with options.wrong_use():
        preset = registry.get(name, **sizes)
    if "dropout" in overrides:
        _set_dropout(preset["model"], overrides["dropout"])
    return preset


def _set_dropout(model, rate):
    """Sets all nonzero dropout rates of a model; if all are zero, sets its
    argument `dropout`."""
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


def run_name(label, preset, overrides, seed):
    """Returns the name of a run folder."""
    # The path of a trained model is shortened to its last two parts.
    parts = [label, *preset.split("/")[-2:], *name_parts(overrides)]
    return "-".join([*parts, f"seed{seed}"])


def name_parts(overrides):
    """Returns the parts that overrides add to the name of a run folder."""
    parts = []
    for name, value in overrides.items():
        label = options.OVERRIDES[name].label
        if label is None:
            text = f"{value:g}" if isinstance(value, float) else value
            parts.append(f"{name}{text}")
        elif label and value:
            parts.append(label)
    return parts


def experiment_of(folder, **changes):
    """Returns a run's `Experiment`, with `changes` to its arguments."""
    recipe = folder.recipe()
    if (dataset := changes.get("dataset")) not in (None, recipe.get("dataset")):
        # How the other text was read; the vocabulary has its tokenizer.
        old = (
            "document_start tokenize training_lines cbt_train_on "
            "vocabulary_size minimum_count"
        ).split()
        if dataset not in (*options.TEXTS, *options.PAIRS):
            old.append("data_dir")
        recipe = {k: v for k, v in recipe.items() if k not in old}
    try:
        own = None if changes else folder
        return Experiment(**{**recipe, **changes}, run_folder=own)
    except options.MissingTextError:
        if "dataset" in changes:
            raise
        message = (
            f"The text of {folder.path} was at {recipe['dataset']}, as its "
            "config.json says, but is not there now. Put it back"
        )
        # N-grams are counted again, so the training text itself is needed.
        if folder.kind != options.KNESER_NEY:
            message += (
                ", or say where it is: memlm evaluate "
                f"{shlex.quote(str(folder.path))} --dataset=NEWPATH"
            )
        raise options.UsageError(message) from None
    except options.UsageError as error:
        if changes:
            raise
        raise options.UsageError(
            f"The settings in {folder.path / CONFIG} are invalid: {error}"
        ) from None


def reopen(folder):
    """Returns a run's experiment, or raises if its text has changed."""
    experiment = experiment_of(folder)
    if folder.settings().get("corpus") != experiment.corpus.fingerprint:
        raise options.UsageError(
            f"The text at {experiment.dataset.name} has changed since "
            f"{folder.path} was trained. Restore the text, or start a new run."
        )
    return experiment

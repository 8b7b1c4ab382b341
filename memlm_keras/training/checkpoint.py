"""Checkpoints that resume training exactly, and their file format."""

import itertools
import json
import pathlib
import sys
import zlib

import keras
import numpy as np

from memlm_keras import files
from memlm_keras.arguments import require_one_of
from memlm_keras.arguments import require_positive_integer
from memlm_keras.training import distribution

FORMAT = 2

# Attributes that Keras' callbacks change during training.
_CALLBACK_STATE = {
    "EarlyStopping": ("wait", "best", "best_epoch", "stopped_epoch"),
    "ReduceLROnPlateau": ("wait", "best", "cooldown_counter"),
    "ModelCheckpoint": ("best",),
    "History": ("epoch", "history"),
}


class Checkpoint(keras.callbacks.Callback):
    """Saves the whole state of a training run, and resumes from it.

    A checkpoint contains the weights, the carried state, the metrics of an
    unfinished epoch, the position in the data, and the states of the optimizer,
    random generators and callbacks (patience, best weights, history). A resumed
    run ends with the same weights as an uninterrupted run: bit for bit on JAX,
    and on TensorFlow with op determinism and one inter-op thread.

    Keras' `BackupAndRestore` restores weights and optimizer at the start of an
    epoch, but not the carried state, position in the data, or callbacks.

    If `path` exists, its run is resumed: the constructor moves the batches to
    the saved position, and `fit` restores the rest when it begins. A finished
    run can continue with more epochs, or with a more patient `EarlyStopping`,
    as if these had been set from the beginning. Put the checkpoint last in the
    list of callbacks. Data, batches, callbacks, backend, model, optimizer and
    learning rate (but see `learning_rate`) must be those of the saved run.

    Args:
        path: Path of the checkpoint file, `.npz`, replaced at each save.
        batches: `memlm_keras.data.Batches` for training. Batches of another
            class need `identity()`, which returns JSON values that identify the
            batches, and `start_at(epoch, batch)`, which sets their position.
        callbacks: List of the other callbacks, whose state is saved, too. Your
            own need `get_state()`, which returns JSON, and `set_state(state)`.
        frequency: Integer or `None`, number of batches between checkpoints in
            an epoch; a checkpoint is also saved after each epoch.
        learning_rate: Learning rate of a resumed run: `"checkpoint"` for the
            run's last rate, `"model"` for the compiled model's rate. `None` is
            like `"checkpoint"`, but raises an error if the compiled model's
            rate is neither the run's first nor the run's last rate.

    Raises:
        ValueError: An argument is invalid; or, in the constructor or in `fit`,
            the checkpoint is damaged or belongs to another run.

    Example:

    >>> callbacks = [keras.callbacks.EarlyStopping("loss")]
    >>> checkpoint = memlm_keras.training.Checkpoint(
    ...     "run/checkpoint.npz", batches, callbacks, frequency=100)
    >>> lm.fit(batches, epochs=2, callbacks=[*callbacks, checkpoint])
    """

    def __init__(
        self, path, batches, callbacks=(), frequency=None, learning_rate=None
    ):
        super().__init__()
        if frequency is not None:
            require_positive_integer("frequency", frequency)
        choices = ("checkpoint", "model", None)
        require_one_of("learning_rate", learning_rate, choices)
        self.path = pathlib.Path(path)
        self.batches = batches
        self.callbacks = list(callbacks)
        self.frequency = frequency
        self.learning_rate = learning_rate
        self.resumed_from = None
        # The run's first learning rate, and the rate at which it continues.
        self._first_rate = self._next_rate = None
        self._epoch = self._first_batch = 0
        self._saved = None
        # Data loaders and validation change random states between epochs.
        # Before the next batch, the states after the last batch are restored.
        self._counters = None
        # Number of batches read in this epoch, and the training metrics after
        # its last batch, which validation overwrites.
        self._done, self._metrics = 0, None
        # Whether the saved run stopped during validation. Keras validates only
        # after a training step, so the resumed run repeats the last step of the
        # epoch, and then restores the saved state.
        self._validating = False
        if self.path.exists():
            self._saved = read(self.path)
            position = self._saved["meta"]
            self._check(position)
            self.resumed_from = (position["epoch"], position["batch"])
            self._epoch, self._first_batch = self.resumed_from
            if self._first_batch == batches.batches_per_epoch:
                self._validating = True
                self._first_batch -= 1
            batches.start_at(self._epoch, self._first_batch)

    def on_train_begin(self, logs=None):
        optimizer = self.model.optimizer
        if self._saved is None:
            if self._first_rate is None:
                self._first_rate = _rate(optimizer)
            return
        # Building a `LossScaleOptimizer` twice would duplicate its variables.
        if not optimizer.built:
            optimizer.build(self.model.trainable_variables)
        self._check_optimizer()
        self._choose_rate()
        self._assign("model")
        self._assign("optimizer")
        self._set_rate()
        self._counters = self._numbered("counter")
        states = self._saved["meta"]["callbacks"]
        for index, callback in enumerate(self.callbacks):
            best_weights = self._numbered(f"callback_{index}_weight")
            state = states[index][1]
            if hasattr(callback, "set_state"):
                callback.set_state(state)
                continue
            for name, value in state.items():
                setattr(callback, name, value)
            if best_weights:
                callback.best_weights = best_weights
        ended = self._saved["meta"]["ended"]
        for callback in self.callbacks:
            # A stopped run continues if the callback is more patient now.
            if getattr(callback, "stopped_epoch", 0):
                if callback.wait < callback.patience:
                    callback.stopped_epoch, ended = 0, False
        # Keras' `BackupAndRestore` also sets this attribute to resume `fit`.
        self.model._initial_epoch = sys.maxsize if ended else self._epoch

    def on_epoch_begin(self, epoch, logs=None):
        self._epoch = epoch

    def on_train_batch_begin(self, batch, logs=None):
        if self._counters is not None:
            _set_counters(self.model, self._counters)
            self._counters = None
        if self._saved is not None and (self._first_batch or self._validating):
            # A scheduler has changed the rate again at the start of the epoch.
            self._set_rate()

    def on_train_batch_end(self, batch, logs=None):
        if self._saved is not None:
            # Keras builds metrics in the first step, so sums that were saved
            # within an epoch are added after that step.
            if self._validating:
                for group in self._variables():
                    self._assign(group)
                _set_counters(self.model, self._numbered("counter"))
                self._validating = False
            elif self._first_batch:
                self._assign("metric", add=True)
            self._saved = None
        # With `steps_per_execution`, `batch` may be beyond the last batch.
        last = self.batches.batches_per_epoch
        self._done = done = min(self._first_batch + batch + 1, last)
        if done == last:
            self._counters = _counters(self.model)
            self._metrics = list(map(_array, self.model.metrics_variables))
        elif self.frequency:
            if done % self.frequency < self.model.steps_per_execution:
                self.save(self._epoch, done)

    def on_epoch_end(self, epoch, logs=None):
        self._first_batch = self._done = 0
        self._metrics = None
        self.save(epoch + 1, 0)

    def on_train_end(self, logs=None):
        self.model._initial_epoch = None

    def save_here(self):
        """Writes a checkpoint between two batches or during validation, unless
        training is about to stop."""
        if self._done and not self.model.stop_training:
            self.save(self._epoch, self._done)

    def save(self, epoch, batch):
        """Writes a checkpoint of the state before batch `batch` of `epoch`."""
        optimizer = self.model.optimizer
        distribution.gather_rows(
            self.model,
            [
                variable
                for variable in self.model.non_trainable_variables
                if "carried_training_state_" in variable.path
            ],
        )
        meta = {
            "backend": keras.backend.backend(),
            "epoch": epoch,
            "batch": batch,
            "ended": batch == 0 and bool(self.model.stop_training),
            "batches": plain(self.batches.identity()),
            "optimizer": _optimizer_config(optimizer),
            "first_learning_rate": self._first_rate,
            "callbacks": [],
        }
        numbered = {
            group: map(_array, variables)
            for group, variables in self._variables().items()
        }
        numbered["counter"] = self._counters or _counters(self.model)
        numbered["metric"] = self._metrics or numbered["metric"]
        for index, callback in enumerate(self.callbacks):
            name = type(callback).__name__
            if hasattr(callback, "get_state"):
                state = callback.get_state()
            else:
                names = _CALLBACK_STATE.get(name, ())
                state = {each: getattr(callback, each, None) for each in names}
                state = json.loads(json.dumps(state, default=float))
            meta["callbacks"].append([name, state])
            numbered[f"callback_{index}_weight"] = (
                getattr(callback, "best_weights", None) or []
            )
        arrays = {
            f"{name}_{index}": array
            for name, group in numbered.items()
            for index, array in enumerate(group)
        }
        if isinstance(_rate(optimizer), float):
            arrays["learning_rate"] = _array(optimizer.learning_rate)
        write(self.path, meta, arrays)

    def _variables(self):
        """Returns the variables to save, by group, such as `"optimizer"`."""
        metrics = self.model.metrics_variables
        excluded = {id(variable) for variable in metrics}
        return {
            # Each evaluation begins with an empty state.
            "model": [
                variable
                for variable in self.model.variables
                if id(variable) not in excluded
                and "carried_evaluation_state_" not in variable.path
            ],
            # The learning rate, no variable with a schedule, is saved apart.
            "optimizer": [
                variable
                for variable in self.model.optimizer.variables
                if variable.name != "learning_rate"
            ],
            "metric": metrics,
        }

    def _assign(self, group, add=False):
        """Assigns saved arrays to the variables in a group."""
        variables = self._variables()[group]
        arrays = self._numbered(group)
        expected = [tuple(variable.shape) for variable in variables]
        received = [array.shape for array in arrays]
        if received != expected:
            paths = [variable.path for variable in variables]
            first, shape, saved = next(
                parts
                for parts in itertools.zip_longest(
                    paths, expected, received, fillvalue="none"
                )
                if parts[1] != parts[2]
            )
            raise ValueError(
                f"The checkpoint {self.path} belongs to another model: for "
                f"{first}, of shape {shape}, it has an array of shape {saved}. "
                "Resume with the same model, optimizer and metrics, or start "
                "again with another `path`."
            )
        for variable, array in zip(variables, arrays):
            if add:
                variable.assign_add(array)
            else:
                variable.assign(array)

    def _numbered(self, name):
        """Returns the list of saved arrays `name_0`, `name_1` and so on."""
        keys = (f"{name}_{index}" for index in itertools.count())
        return [
            self._saved[key]
            for key in itertools.takewhile(self._saved.__contains__, keys)
        ]

    def _set_rate(self):
        if isinstance(self._next_rate, float):
            self.model.optimizer.learning_rate = self._next_rate

    def _check(self, meta):
        backend = keras.backend.backend()
        if meta["backend"] != backend:
            raise ValueError(
                f"The checkpoint {self.path} was made with the backend "
                f"{meta['backend']}; random numbers differ between backends. "
                f"Received: backend {backend}. Resume with KERAS_BACKEND="
                f"{meta['backend']}."
            )
        saved = [name for name, _ in meta["callbacks"]]
        given = [type(callback).__name__ for callback in self.callbacks]
        if given != saved:
            raise ValueError(
                f"The checkpoint {self.path} belongs to the callbacks {saved}, "
                f"in this order. Received: callbacks {given}"
            )
        received = plain(self.batches.identity())
        self._require_same("other batches", meta["batches"], received)

    def _check_optimizer(self):
        expected = self._saved["meta"]["optimizer"]
        received = _optimizer_config(self.model.optimizer)
        if received["class_name"] != expected["class_name"]:
            expected = {"class_name": expected["class_name"]}
            received = {"class_name": received["class_name"]}
        self._require_same("another optimizer", expected, received)

    def _require_same(self, other, expected, received):
        differences = "; ".join(
            f"{key} is {received.get(key)!r}, but in the checkpoint it is "
            f"{expected.get(key)!r}"
            for key in {**expected, **received}
            if received.get(key) != expected.get(key)
        )
        if differences:
            raise ValueError(
                f"The checkpoint {self.path} belongs to {other}: "
                f"{differences}. Resume with the saved values, or start again "
                "with another `path`."
            )

    def _choose_rate(self):
        first = self._saved["meta"]["first_learning_rate"]
        last = self._saved.get("learning_rate")
        # With a schedule, the checkpoint has only the first rate.
        last = first if last is None else float(last)
        asked = _rate(self.model.optimizer)
        self._first_rate, self._next_rate = first, last
        if self.learning_rate == "model":
            self._first_rate, self._next_rate = asked, asked
        elif asked not in (first, last):
            floats = isinstance(last, float) and isinstance(asked, float)
            if floats and self.learning_rate == "checkpoint":
                return
            first, last, asked = map(_shown, (first, last, asked))
            by_checkpoint = f", or use `learning_rate='checkpoint'` for {last}"
            raise ValueError(
                f"The checkpoint {self.path} belongs to a run with a first "
                f"learning rate of {first} and a last one of {last}. Received: "
                f"a model compiled with {asked}. To continue, compile the "
                f"model with {first}{by_checkpoint if floats else ''}, or use "
                f"`learning_rate='model'` for {asked}."
            )


# === Parts of the state ===


def _counters(model):
    """Returns a list of arrays: the states of the model's seeds, the number of
    steps, and the states of PyTorch's random generators."""
    counters = [
        keras.ops.convert_to_numpy(variable).copy()
        for variable in _counter_variables(model)
    ]
    return [*counters, *distribution.generator_states()]


def _set_counters(model, counters):
    """Restores the counters that `_counters` returned."""
    variables = _counter_variables(model)
    for variable, value in zip(variables, counters):
        variable.assign(value)
    distribution.set_generator_states(counters[len(variables) :])


def _counter_variables(model):
    seeds = [v for v in model.variables if v.name == "seed_generator_state"]
    # With gradient accumulation, `iterations` counts updates; the optimizer's
    # first variable counts steps.
    return [*seeds, _inner(model.optimizer).variables[0]]


def _inner(optimizer):
    """Returns the optimizer, or the one inside a `LossScaleOptimizer`."""
    return getattr(optimizer, "inner_optimizer", optimizer)


def _rate(optimizer):
    """Returns the learning rate as a float, or its schedule as JSON values."""
    return plain(_inner(optimizer).get_config()["learning_rate"])


def _optimizer_config(optimizer):
    """Returns an optimizer's class and arguments without its learning rate."""
    config = {"class_name": type(optimizer).__name__, **optimizer.get_config()}
    if hasattr(optimizer, "inner_optimizer"):
        config["inner_optimizer"] = _optimizer_config(optimizer.inner_optimizer)
    for key in ("learning_rate", "name"):
        config.pop(key, None)
    return plain(config)


def plain(value):
    """Returns a copy with only JSON's types; other objects become strings."""
    return json.loads(json.dumps(value, default=repr))


def _array(variable):
    array = keras.ops.convert_to_numpy(variable)
    # NumPy's file format has no bfloat16, whose values are exact in float32.
    return array.astype("float32") if variable.dtype == "bfloat16" else array


def _shown(rate):
    # More than six digits would show rounding errors of float32.
    if isinstance(rate, float):
        return f"{rate:.6g}"
    return rate["class_name"] if isinstance(rate, dict) else str(rate)


# === File ===


def write(path, meta, arrays):
    """Writes a dict of arrays and the JSON values `meta`, atomically."""
    meta = json.loads(json.dumps({"format": FORMAT, **meta}))
    meta["checksum"] = _checksum(meta, arrays)
    with files.atomic_path(path) as temporary, open(temporary, "wb") as file:
        np.savez(file, meta=np.array(json.dumps(meta)), **arrays)


def read(path):
    """Reads a checkpoint: a dict of arrays, with JSON values under `"meta"`."""
    remedy = "Remove it to start again, or replace it with an intact copy."
    with files.reading(path, "checkpoint", remedy):
        with np.load(path, allow_pickle=False) as archive:
            saved = {key: archive[key] for key in archive.files}
        meta = json.loads(str(saved.pop("meta")))
        if meta["format"] == FORMAT:
            # A ZIP archive has checksums for arrays, but not for their names.
            if meta.pop("checksum") != _checksum(meta, saved):
                raise ValueError("its checksum is wrong")
    if meta["format"] != FORMAT:
        raise ValueError(
            f"The checkpoint {path} is of format {meta['format']}; "
            f"this version reads format {FORMAT}. Resume it with the version "
            "of memlm_keras that wrote it."
        )
    return {**saved, "meta": meta}


def _checksum(meta, arrays):
    value = zlib.crc32(json.dumps(meta, sort_keys=True).encode())
    for name, array in sorted(arrays.items()):
        array = np.ascontiguousarray(array)
        header = f"{name} {array.dtype} {array.shape}"
        value = zlib.crc32(array, zlib.crc32(header.encode(), value))
    return value

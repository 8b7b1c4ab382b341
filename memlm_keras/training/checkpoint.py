"""Checkpoints from which training goes on exactly."""

import json
import pathlib
import sys
import zipfile

import keras
import numpy as np

from memlm_keras import files
from memlm_keras.training.counters import get_counters
from memlm_keras.training.counters import set_counters

FORMAT = 1

# What Keras' callbacks change in themselves while they watch a training run.
_CALLBACK_STATE = {
    "EarlyStopping": ("wait", "best", "best_epoch", "stopped_epoch"),
    "ReduceLROnPlateau": ("wait", "best", "cooldown_counter"),
    "ModelCheckpoint": ("best",),
    "History": ("epoch", "history"),
}


class Checkpoint(keras.callbacks.Callback):
    """Saves all that a training run consists of, and resumes from it.

    A checkpoint holds weights, optimizer, carried state, random state of the
    dropout layers, metrics in progress, the position in the data, and what the
    callbacks remember (patience, best weights, history). A run that was killed
    and resumed ends with the weights of one left alone: bit for bit on JAX and
    on TensorFlow with op determinism and one inter-op thread.

    Keras' `BackupAndRestore` restores weights and optimizer at the beginning of
    an epoch; state, data position and the other callbacks are lost on it.

    If `path` exists, its run is resumed: the batches are moved to where it
    stopped when the callback is made, the rest is restored when `fit` begins.
    A run that has ended goes on with more epochs, or with `EarlyStopping` of
    more patience, as if it had had them from the beginning. Put it last in the
    list of callbacks.

    Args:
        path: path of the checkpoint file, `.npz`; replaced at each save.
        batches: the `memlm_keras.data.Batches` that are trained on.
        callbacks: list of the other callbacks, whose state is kept too. A
            callback that Keras does not have takes part if it has `get_state`
            (returning JSON values) and `set_state`.
        frequency: integer or `None`, batches between checkpoints; there is one
            at the end of each epoch besides.

    Raises:
        ValueError: if `path` holds a damaged checkpoint, one of another model
            or of other batches, each when it is found.

    Example:

    >>> callbacks = [keras.callbacks.EarlyStopping(patience=3)]
    >>> checkpoint = memlm_keras.training.Checkpoint(
    ...     "run/checkpoint.npz", batches, callbacks, frequency=100)
    >>> lm.fit(batches, epochs=10, callbacks=[*callbacks, checkpoint])
    """

    def __init__(self, path, batches, callbacks=(), frequency=None):
        super().__init__()
        if frequency is not None and frequency < 1:
            raise ValueError(
                "`frequency` must be a positive number of batches, or None. "
                f"Received: frequency={frequency}"
            )
        self.path = pathlib.Path(path)
        self.batches = batches
        self.callbacks = list(callbacks)
        self.frequency = frequency
        self.resumed_from = None
        self._epoch = 0
        self._first_batch = 0
        self._saved = None
        # Counters to put back before the next batch. Between the last batch of
        # an epoch and the first of the next, loaders and validation move them,
        # and not in the same way in a whole epoch and in a resumed one.
        self._counters = None
        if self.path.exists():
            self._saved = _read(self.path)
            position = self._saved["meta"]
            self._check(position)
            self.resumed_from = (position["epoch"], position["batch"])
            self._epoch, self._first_batch = self.resumed_from
            batches.start_at(*self.resumed_from)

    def on_train_begin(self, logs=None):
        if self._saved is None:
            return
        self.model.optimizer.build(self.model.trainable_variables)
        _assign(self._variables(metrics=False), self._saved, self.path)
        self._counters = _loaded_counters(self._saved)
        for index, callback in enumerate(self.callbacks):
            _restore_callback(callback, index, self._saved)
        # The way in which Keras' own BackupAndRestore tells `fit`. A run that
        # had come to its end has no epoch left.
        ended = self._saved["meta"]["ended"]
        for callback in self.callbacks:
            # With more patience than it had, it may go on.
            if getattr(callback, "stopped_epoch", 0):
                if callback.wait < callback.patience:
                    callback.stopped_epoch, ended = 0, False
        self.model._initial_epoch = sys.maxsize if ended else self._epoch

    def on_epoch_begin(self, epoch, logs=None):
        self._epoch = epoch

    def on_train_batch_begin(self, batch, logs=None):
        if self._counters is not None:
            set_counters(self.model, self._counters)
            self._counters = None
        if self._saved is not None and self._first_batch:
            # A scheduler has just changed the rate, at what it takes for the
            # beginning of an epoch.
            for key, variable in self._variables(metrics=False).items():
                if variable.name == "learning_rate":
                    variable.assign(self._saved[key])

    def on_train_batch_end(self, batch, logs=None):
        if self._saved is not None:
            # TensorFlow makes the metrics in the first step. They are sums
            # over batches, so those of before the interruption are added.
            metrics = self._variables(metrics=True)
            _assign(metrics, self._saved, self.path, add=True)
            self._saved = None
        done = self._first_batch + batch + 1
        if done == self.batches.batches_per_epoch:
            self._counters = get_counters(self.model)
        if self.frequency and done % self.frequency == 0:
            if done < self.batches.batches_per_epoch:
                self.save(self._epoch, done)

    def on_epoch_end(self, epoch, logs=None):
        self._first_batch = 0
        self.save(epoch + 1, 0)

    def on_train_end(self, logs=None):
        self.model._initial_epoch = None

    def save(self, epoch, batch):
        """Writes the checkpoint: the next batch to train on is `batch`."""
        arrays = {}
        meta = {
            "format": FORMAT,
            "backend": keras.backend.backend(),
            "epoch": epoch,
            "batch": batch,
            "ended": batch == 0 and bool(self.model.stop_training),
            **self.batches.identity(),
            "callbacks": [],
        }
        for key, variable in self._variables().items():
            array = keras.ops.convert_to_numpy(variable)
            # NumPy's file format has no bfloat16; float32 holds it exactly.
            lossless = (
                "float32" if variable.dtype == "bfloat16" else array.dtype
            )
            arrays[key] = array.astype(lossless)
        counters = self._counters or get_counters(self.model)
        for index, value in enumerate(counters):
            arrays[f"counter_{index}"] = value
        for index, callback in enumerate(self.callbacks):
            name = type(callback).__name__
            meta["callbacks"].append([name, _callback_state(callback)])
            for position, weight in enumerate(_best_weights(callback)):
                arrays[f"callback_{index}_weight_{position}"] = weight
        with files.atomic_path(self.path) as temporary:
            with open(temporary, "wb") as file:
                np.savez(file, meta=np.array(json.dumps(meta)), **arrays)

    def _variables(self, metrics=None):
        """Variables by key; `metrics` picks only those, or all but those."""
        metric_variables = self.model.metrics_variables
        left_out = {id(variable) for variable in metric_variables}
        groups = {
            # Each evaluation begins anew, so what it carries need not be kept.
            "model": [
                variable
                for variable in self.model.variables
                if id(variable) not in left_out
                and "carried_evaluation_state_" not in variable.path
            ],
            "optimizer": self.model.optimizer.variables,
            "metric": metric_variables,
        }
        return {
            f"{group}_{index}": variable
            for group, variables in groups.items()
            if metrics in (None, group == "metric")
            for index, variable in enumerate(variables)
        }

    def _check(self, meta):
        backend = keras.backend.backend()
        if meta["backend"] != backend:
            raise ValueError(
                f"The checkpoint {self.path} was made with the backend "
                f"{meta['backend']}, and random numbers differ. Received: "
                f"backend {backend}. Resume with KERAS_BACKEND="
                f"{meta['backend']}."
            )
        saved = [name for name, _ in meta["callbacks"]]
        given = [type(callback).__name__ for callback in self.callbacks]
        if given != saved:
            raise ValueError(
                f"The checkpoint {self.path} belongs to the callbacks {saved}, "
                f"in this order. Received: callbacks {given}"
            )
        expected = self.batches.identity()
        received = {key: meta.get(key) for key in expected}
        if received != expected:
            raise ValueError(
                f"The checkpoint {self.path} belongs to other batches. "
                f"Received batches with {expected}; the checkpoint was made "
                f"with {received}. Resume with the same data and sizes, or "
                "begin anew with another `path`."
            )


def _loaded_counters(saved):
    names = sorted(
        (name for name in saved if name.startswith("counter_")),
        key=lambda name: int(name.removeprefix("counter_")),
    )
    return [saved[name] for name in names]


def _read(path):
    try:
        with np.load(path, allow_pickle=False) as archive:
            saved = {key: archive[key] for key in archive.files}
        saved["meta"] = json.loads(str(saved["meta"]))
    except (
        OSError,
        ValueError,
        KeyError,
        EOFError,
        zipfile.BadZipFile,
    ) as error:
        raise ValueError(
            f"The checkpoint {path} is damaged and cannot be read ({error}). "
            "Remove it to begin anew, or put an intact copy in its place."
        ) from error
    if saved["meta"]["format"] != FORMAT:
        raise ValueError(
            f"The checkpoint {path} is of format {saved['meta']['format']}; "
            f"this version reads format {FORMAT}. Resume it with the version "
            "of memlm_keras that wrote it."
        )
    return saved


def _assign(variables, saved, path, add=False):
    expected = {key: tuple(v.shape) for key, v in variables.items()}
    received = {key: saved[key].shape for key in expected if key in saved}
    if received != expected:
        wrong = sorted(k for k in expected if received.get(k) != expected[k])
        raise ValueError(
            f"The checkpoint {path} belongs to another model: "
            f"{variables[wrong[0]].path} has shape {expected[wrong[0]]}, in "
            f"the checkpoint it is {received.get(wrong[0])}. Resume with the "
            "model, optimizer and callbacks that it was made with."
        )
    for key, variable in variables.items():
        if add:
            variable.assign_add(saved[key])
        else:
            variable.assign(saved[key])


def _callback_state(callback):
    if hasattr(callback, "get_state"):
        return callback.get_state()
    names = _CALLBACK_STATE.get(type(callback).__name__, ())
    return {name: _plain(getattr(callback, name, None)) for name in names}


def _restore_callback(callback, index, saved):
    _, state = saved["meta"]["callbacks"][index]
    if hasattr(callback, "set_state"):
        callback.set_state(state)
        return
    for name, value in state.items():
        setattr(callback, name, value)
    weights = []
    while f"callback_{index}_weight_{len(weights)}" in saved:
        weights.append(saved[f"callback_{index}_weight_{len(weights)}"])
    if weights:
        callback.best_weights = weights


def _best_weights(callback):
    return getattr(callback, "best_weights", None) or []


def _plain(value):
    """Returns a value that JSON can hold."""
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if value is None or isinstance(value, (bool, int, str)):
        return value
    return float(value)

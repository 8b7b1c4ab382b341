"""Checkpoints from which training goes on exactly."""

import pathlib
import sys

import keras

from memlm_keras.arguments import require_positive_integer
from memlm_keras.training import distribution
from memlm_keras.training import run_state


class Checkpoint(keras.callbacks.Callback):
    """Saves all that a training run consists of, and resumes from it.

    A checkpoint holds weights, optimizer, carried state, random state of the
    dropout layers, metrics in progress, the position in the data, and what the
    callbacks remember (patience, best weights, history). A run that was killed
    and resumed ends with the weights of one left alone: bit for bit on JAX, and
    to the last bit of float32 on TensorFlow with op determinism and one
    inter-op thread.

    Keras' `BackupAndRestore` restores weights and optimizer at the beginning of
    an epoch; state, data position and the other callbacks are lost on it.

    If `path` exists, its run is resumed: the batches are moved to where it
    stopped when the callback is made, the rest is restored when `fit` begins.
    A run that has ended goes on with more epochs, or with `EarlyStopping` of
    more patience, as if it had had them from the beginning. Put it last in the
    list of callbacks.

    What would make another run of it is refused: other data, batches, callbacks
    or backend, another model or optimizer, and another learning rate, unless
    `learning_rate` says which of the two is meant.

    Args:
        path: path of the checkpoint file, `.npz`; replaced at each save.
        batches: the `memlm_keras.data.Batches` that are trained on. Of batches
            of another kind, `identity()` returns plain values that say which
            they are, and `start_at(epoch, batch)` moves them.
        callbacks: list of the other callbacks, whose state is kept too. A
            callback that Keras does not have takes part if it has `get_state`
            (returning JSON values) and `set_state`.
        frequency: integer or `None`, batches between checkpoints; there is one
            at the end of each epoch besides.
        learning_rate: `None`, or which learning rate a resumed run goes on
            with: `"checkpoint"` for the one that it had come to, `"model"` for
            the one that the model is compiled with. With `None` it is the
            checkpoint's, and a model compiled with another one than the run
            began with is refused.

    Raises:
        ValueError: if an argument is none of these; if `path` holds a damaged
            checkpoint, or one of another run, each when it is found.

    Example:

    >>> callbacks = [keras.callbacks.EarlyStopping("loss")]
    >>> checkpoint = memlm_keras.training.Checkpoint(
    ...     "run/checkpoint.npz", batches, callbacks, frequency=100)
    >>> lm.fit(batches, epochs=2, callbacks=[*callbacks, checkpoint])
    """

    def __init__(
        self,
        path,
        batches,
        callbacks=(),
        frequency=None,
        learning_rate=None,
    ):
        super().__init__()
        if frequency is not None:
            require_positive_integer("frequency", frequency)
        if learning_rate not in (None, "checkpoint", "model"):
            raise ValueError(
                "`learning_rate` must be 'checkpoint', 'model' or None. "
                f"Received: learning_rate={learning_rate!r}"
            )
        self.path = pathlib.Path(path)
        self.batches = batches
        self.callbacks = list(callbacks)
        self.frequency = frequency
        self.learning_rate = learning_rate
        self.resumed_from = None
        # The rates that the run began with and that it goes on with.
        self._first_rate = None
        self._next_rate = None
        self._epoch = 0
        self._first_batch = 0
        self._saved = None
        # Counters to put back before the next batch. Between the last batch of
        # an epoch and the first of the next, loaders and validation move them,
        # and not in the same way in a whole epoch and in a resumed one.
        self._counters = None
        if self.path.exists():
            self._saved = run_state.read(self.path)
            position = self._saved["meta"]
            self._check(position)
            self.resumed_from = (position["epoch"], position["batch"])
            self._epoch, self._first_batch = self.resumed_from
            batches.start_at(*self.resumed_from)

    def on_train_begin(self, logs=None):
        optimizer = self.model.optimizer
        if self._saved is None:
            if self._first_rate is None:
                self._first_rate = run_state.get_rate(optimizer)
            return
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
            run_state.set_callback_state(callback, state, best_weights)
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
            run_state.set_counters(self.model, self._counters)
            self._counters = None
        if self._saved is not None and self._first_batch:
            # A scheduler has just changed the rate, at what it takes for the
            # beginning of an epoch.
            self._set_rate()

    def on_train_batch_end(self, batch, logs=None):
        if self._saved is not None:
            # TensorFlow makes the metrics in the first step. They are sums
            # over batches, so those of before the interruption are added. At
            # the beginning of an epoch they are of the epoch before.
            if self._first_batch:
                self._assign("metric", add=True)
            self._saved = None
        done = self._first_batch + batch + 1
        if done == self.batches.batches_per_epoch:
            self._counters = run_state.get_counters(self.model)
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
            "batches": run_state.plain(self.batches.identity()),
            "optimizer": run_state.get_optimizer_config(optimizer),
            "first_learning_rate": self._first_rate,
            "callbacks": [],
        }
        arrays = {
            key: _array(variable) for key, variable in self._variables().items()
        }
        if isinstance(run_state.get_rate(optimizer), float):
            arrays["learning_rate"] = _array(optimizer.learning_rate)
        counters = self._counters or run_state.get_counters(self.model)
        for index, value in enumerate(counters):
            arrays[f"counter_{index}"] = value
        for index, callback in enumerate(self.callbacks):
            name = type(callback).__name__
            state = run_state.get_callback_state(callback)
            meta["callbacks"].append([name, state])
            best_weights = run_state.get_best_weights(callback)
            for position, weight in enumerate(best_weights):
                arrays[f"callback_{index}_weight_{position}"] = weight
        run_state.write(self.path, meta, arrays)

    def _variables(self, group=None):
        """Variables by key, of one group or of all."""
        metrics = self.model.metrics_variables
        left_out = {id(variable) for variable in metrics}
        groups = {
            # Each evaluation begins anew, so what it carries need not be kept.
            "model": [
                variable
                for variable in self.model.variables
                if id(variable) not in left_out
                and "carried_evaluation_state_" not in variable.path
            ],
            # The learning rate is no variable where it follows a schedule.
            "optimizer": [
                variable
                for variable in self.model.optimizer.variables
                if variable.name != "learning_rate"
            ],
            "metric": metrics,
        }
        return {
            f"{name}_{index}": variable
            for name, variables in groups.items()
            if group in (None, name)
            for index, variable in enumerate(variables)
        }

    def _assign(self, group, add=False):
        """Assigns the arrays of the checkpoint to the variables of a group."""
        variables = list(self._variables(group).values())
        arrays = self._numbered(group)
        expected = [tuple(variable.shape) for variable in variables]
        received = [array.shape for array in arrays]
        if received != expected:
            same = [a == b for a, b in zip(expected, received)]
            first = same.index(False) if False in same else len(same)
            named = "nothing"
            if first < len(variables):
                named = f"{variables[first].path}, of shape {expected[first]}"
            found = "nothing"
            if first < len(received):
                found = f"an array of shape {received[first]}"
            raise ValueError(
                f"The checkpoint {self.path} belongs to another model: for "
                f"{named}, it has {found}. Resume with the model, optimizer "
                "and metrics that it was made with, or begin anew with another "
                "`path`."
            )
        for variable, array in zip(variables, arrays):
            (variable.assign_add if add else variable.assign)(array)

    def _numbered(self, name):
        """The arrays `<name>_0`, `<name>_1` and so on of the checkpoint."""
        arrays = []
        while f"{name}_{len(arrays)}" in self._saved:
            arrays.append(self._saved[f"{name}_{len(arrays)}"])
        return arrays

    def _set_rate(self):
        if isinstance(self._next_rate, float):
            self.model.optimizer.learning_rate = self._next_rate

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
        expected, received = (
            meta["batches"],
            run_state.plain(self.batches.identity()),
        )
        if received != expected:
            raise ValueError(
                f"The checkpoint {self.path} belongs to other batches: "
                f"{_differences(expected, received)}. Resume with the same "
                "data and sizes, or begin anew with another `path`."
            )

    def _check_optimizer(self):
        expected = self._saved["meta"]["optimizer"]
        received = run_state.get_optimizer_config(self.model.optimizer)
        if received["class_name"] != expected["class_name"]:
            expected = {"class_name": expected["class_name"]}
            received = {"class_name": received["class_name"]}
        if received != expected:
            raise ValueError(
                f"The checkpoint {self.path} belongs to another optimizer: "
                f"{_differences(expected, received)}. Compile the model with "
                "that optimizer, or begin anew with another `path`."
            )

    def _choose_rate(self):
        first = self._saved["meta"]["first_learning_rate"]
        last = self._saved.get("learning_rate")
        # Of a schedule there is none but the first.
        last = first if last is None else float(last)
        asked = run_state.get_rate(self.model.optimizer)
        self._first_rate, self._next_rate = first, last
        if self.learning_rate == "model":
            self._first_rate, self._next_rate = asked, asked
        elif asked not in (first, last):
            floats = isinstance(last, float) and isinstance(asked, float)
            if floats and self.learning_rate == "checkpoint":
                return
            first, last, asked = map(_shown, (first, last, asked))
            advice = [f"compile the model with {first}"]
            if floats:
                advice.append(f"say `learning_rate='checkpoint'` for {last}")
            advice.append(f"say `learning_rate='model'` for {asked}")
            raise ValueError(
                f"The checkpoint {self.path} belongs to a run that began with "
                f"a learning rate of {first} and has come to {last}. Received "
                f"a model compiled with {asked}. To go on, "
                f"{', or '.join(advice)}."
            )


def _array(variable):
    array = keras.ops.convert_to_numpy(variable)
    # NumPy's file format has no bfloat16; float32 holds it exactly.
    return array.astype("float32") if variable.dtype == "bfloat16" else array


def _shown(rate):
    # Of a float in single precision no more digits are meant.
    if isinstance(rate, float):
        return f"{rate:.6g}"
    return rate["class_name"] if isinstance(rate, dict) else str(rate)


def _differences(expected, received):
    differences = [
        f"{key} is {received.get(key)!r}, in the checkpoint it is "
        f"{expected.get(key)!r}"
        for key in {**expected, **received}
        if received.get(key) != expected.get(key)
    ]
    return "; ".join(differences)

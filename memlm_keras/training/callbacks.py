"""Callbacks and schedules that Keras lacks."""

import math
import time

import keras
import numpy as np
from keras import ops

from memlm_keras import files
from memlm_keras.arguments import require_number
from memlm_keras.arguments import require_positive_integer


class StopOnNaN(keras.callbacks.TerminateOnNaN):
    """Stops on a NaN or infinite loss and restores the last finite weights.

    Training also stops after an epoch whose validation loss or perplexity is
    NaN or infinite, because the perplexity may overflow while the weights are
    finite. The optimizer's state is restored too, so that training can
    continue. Keras' `TerminateOnNaN` leaves NaN weights in the model.

    Snapshots are taken before the first batch, after each epoch and every
    `frequency` batches, if all weights are finite.

    Args:
        frequency: Integer or `None`, number of batches between snapshots.

    Attributes:
        stopped: Whether training was stopped.

    Raises:
        ValueError: `frequency` is not positive, or the weights are not finite
            before training begins.

    Example:

    >>> lm.fit(batches, callbacks=[memlm_keras.training.StopOnNaN()])
    """

    _VALIDATED = ("val_loss", "val_perplexity")

    def __init__(self, frequency=None):
        super().__init__()
        if frequency is not None:
            require_positive_integer("frequency", frequency)
        self.frequency = frequency
        self.stopped = False
        self._finite_values = None

    def get_state(self):
        """Returns the state for a `Checkpoint`: whether training stopped."""
        return {"stopped": self.stopped}

    def set_state(self, state):
        """Restores a result of `get_state`."""
        self.stopped = state.get("stopped", False)

    def on_train_begin(self, logs=None):
        self.stopped = False
        self._finite_values = None

    def on_epoch_begin(self, epoch, logs=None):
        if self._finite_values is None and not self._keep_weights():
            raise ValueError(
                "The model has weights that are not finite before training "
                "begins. Load or initialize the model again."
            )

    def on_batch_end(self, batch, logs=None):
        loss = (logs or {}).get("loss")
        if loss is not None and not np.isfinite(loss):
            super().on_batch_end(batch, logs)
            self._roll_back()
        elif self.frequency:
            several = self.model.steps_per_execution
            if (batch + 1) % self.frequency < several:
                self._keep_weights()

    def on_epoch_end(self, epoch, logs=None):
        found = [(logs or {}).get(name, 0.0) for name in self._VALIDATED]
        if not self.stopped and not (
            np.isfinite(found).all() and self._keep_weights()
        ):
            self.model.stop_training = True
            self._roll_back()

    def _roll_back(self):
        self.stopped = True
        # The gradient made the optimizer's moments NaN, too.
        for variable, value in zip(self._variables(), self._finite_values):
            variable.assign(value)

    def _variables(self):
        return [*self.model.weights, *self.model.optimizer.variables]

    def _keep_weights(self):
        """Copies the weights if all are finite, and returns whether all are."""
        values = [
            np.array(keras.ops.convert_to_numpy(variable))
            for variable in self._variables()
        ]
        finite = all(np.isfinite(value).all() for value in values)
        if finite:
            self._finite_values = values
        return finite


class CSVLogger(keras.callbacks.CSVLogger):
    """Rewrites the CSV log after each epoch; checkpoints contain its rows.
    Keras' logger appends lines: a power cut may truncate the last line, and a
    resumed run may log an epoch twice. Checkpoints of version 1.0 do not
    contain the log; for these, `read()` must return the rows of the file."""

    def __init__(self, filename, read):
        super().__init__(filename)
        self.read = read
        self.rows = []

    def get_state(self):
        """Returns the state for a `Checkpoint`: the rows of the log."""
        return {"rows": self.rows}

    def set_state(self, state):
        """Restores the result of `get_state`, and writes the CSV file."""
        self.rows = state["rows"] if "rows" in state else self.read()
        self._write()

    def on_train_begin(self, logs=None):
        self.rows = []

    def on_epoch_begin(self, epoch, logs=None):
        self.rows = self.rows[:epoch]
        if len(self.rows) < epoch:
            raise ValueError(
                f"{self.filename} ends before epoch {epoch}, at which training "
                "continues. Restore the complete file, or train again."
            )

    def on_epoch_end(self, epoch, logs=None):
        numbers = {name: float(logs[name]) for name in sorted(logs)}
        self.rows.append({"epoch": epoch, **numbers})
        self._write()

    def on_train_end(self, logs=None):
        """Does nothing, since Keras' method would close a file."""

    def _write(self):
        names = dict.fromkeys(name for row in self.rows for name in row)
        rows = [[row.get(n, math.nan) for n in names] for row in self.rows]
        files.write_csv(self.filename, names, rows)


class TimeEstimate(keras.callbacks.Callback):
    """Prints an estimate of the training time, measured over at least `seconds`
    and `steps`, after at least as many in which the model compiles."""

    seconds, steps = 2.0, 10

    def __init__(self, batches):
        super().__init__()
        # Not `params["steps"]`, which is smaller for a resumed epoch.
        self._batches = batches
        self._epoch = self._count = 0
        # Numbers of batches and times: before training, then at the ends of the
        # first batch, of the warm-up and of the measurement.
        self._marks = [(-math.inf, -math.inf)]

    def on_epoch_begin(self, epoch, logs=None):
        self._epoch = epoch

    def on_train_batch_end(self, batch, logs=None):
        if len(self._marks) == 4:
            return
        now, self._count = time.perf_counter(), self._count + 1
        count, begin = self._marks[-1]
        if now - begin >= self.seconds and self._count - count >= self.steps:
            self._marks.append((self._count, now))
        if len(self._marks) == 4:
            epochs = self.params["epochs"] - self._epoch
            seconds = (now - begin) / (self._count - count)
            epoch = seconds * self._batches.batches_per_epoch
            print(
                f"\nAn epoch takes about {_minutes(epoch)}; {epochs} "
                f"epoch{'s' * (epochs > 1)}, if training does not stop "
                f"early, {_minutes(epoch * epochs)}."
            )


def _minutes(seconds):
    if seconds < 90:
        return f"{seconds:.0f} seconds"
    return f"{seconds / 60:.0f} minutes"


class HalveOnDrop(keras.callbacks.Callback):
    """Halves the learning rate when a metric is worse than `epochs` epochs ago.

    Weissenborn (2016, Section 5.1) halves the rate when the validation accuracy
    falls over an epoch. Keras' `ReduceLROnPlateau` compares a metric with its
    best value, so it also reduces the rate while the metric recovers from a
    drop. Two halvings are at least `epochs` epochs apart, since a halving
    discards all values of the metric except the last.

    Args:
        monitor: String, name of a metric; larger values are better.
        epochs: Integer, number of epochs of `fit` between the two values of the
            metric that are compared.
        factor: Float in (0, 1) that multiplies the learning rate.

    Raises:
        ValueError: An argument is invalid; or, in `fit`, the metric is not in
            the logs.

    Example:

    >>> halve = memlm_keras.training.HalveOnDrop("val_accuracy")
    """

    def __init__(self, monitor="val_accuracy", epochs=1, factor=0.5):
        super().__init__()
        require_positive_integer("epochs", epochs)
        require_number("factor", factor, above=0, below=1)
        self.monitor = monitor
        self.epochs = epochs
        self.factor = factor
        self.values = []

    def on_epoch_end(self, epoch, logs=None):
        if self.monitor not in (logs or {}):
            raise ValueError(
                f"`monitor` {self.monitor!r} must be in the logs. Validation "
                f"metrics need validation data. Received: {sorted(logs or {})}"
            )
        self.values.append(float(logs[self.monitor]))
        if len(self.values) > self.epochs:
            if self.values.pop(0) > self.values[-1]:
                optimizer = self.model.optimizer
                rate = float(optimizer.learning_rate)
                optimizer.learning_rate = rate * self.factor
                self.values = self.values[-1:]

    def get_state(self):
        """Returns the state for a `Checkpoint`: the metric's values so far."""
        return {"values": self.values}

    def set_state(self, state):
        """Restores a result of `get_state`."""
        self.values = list(state["values"])


class FreezeEmbeddings(keras.callbacks.Callback):
    """Freezes the embeddings of some words in the first epochs.

    Pretrained vectors are not trained until the rest of the model has adapted
    to them (Weissenborn, 2016, Section 5.1). Unfreezing needs no recompilation.

    The callback restores the vectors after each batch, because an optimizer's
    momentum or weight decay also moves vectors without a gradient. Adam's bias
    correction also counts the steps with frozen vectors, so the first updates
    after unfreezing are up to `1 / sqrt(1 - beta_2)` times as large as those
    at the start of training: 32 times if `beta_2` is 0.999.

    Args:
        epochs: Integer of at least 0, number of epochs with frozen vectors.
        words: Boolean array `(V,)`, true for words with frozen vectors, such
            as `WordVectors.found`; `None` for all.

    Raises:
        ValueError: `epochs` is negative; or, in `fit`, the model has no
            `gradient_mask`, a vocabulary of another size than `words`, or a
            `steps_per_execution` other than 1.

    Example:

    >>> freeze = memlm_keras.training.FreezeEmbeddings(1, vectors.found)
    """

    def __init__(self, epochs=1, words=None):
        super().__init__()
        require_positive_integer("epochs", epochs, 0)
        self.epochs = epochs
        self.words = words
        self._frozen = None

    def on_train_begin(self, logs=None):
        mask = getattr(self.model, "gradient_mask", None)
        if mask is None:
            raise ValueError(
                "`FreezeEmbeddings` needs a model with a `gradient_mask`, a "
                "`memlm_keras.embeddings.GradientMask` after its embeddings, "
                "such as `memlm_keras.EntailmentClassifier`. Received: "
                f"{type(self.model).__name__}"
            )
        expected = (mask.vocabulary_size,)
        if self.words is not None and np.shape(self.words) != expected:
            raise ValueError(
                "`words` must have an entry for each word of the model's "
                f"vocabulary, shape {expected}. Received: shape "
                f"{np.shape(self.words)}"
            )
        if self.model.steps_per_execution != 1:
            raise ValueError(
                "`FreezeEmbeddings` needs a model that is compiled with "
                "`steps_per_execution=1`. Received: "
                f"{self.model.steps_per_execution}"
            )

    def on_epoch_begin(self, epoch, logs=None):
        if epoch < self.epochs:
            self.model.gradient_mask.freeze(self.words)
            self._frozen = ops.copy(self._vectors())
        else:
            self._unfreeze()

    def on_train_batch_end(self, batch, logs=None):
        if self._frozen is not None:
            words = True
            if self.words is not None:
                words = ops.convert_to_tensor(self.words, "bool")[:, None]
            # Assign a new tensor, since JAX reuses the assigned buffer.
            vectors = ops.where(words, self._frozen, self._vectors())
            self.model.embedding.embeddings.assign(vectors)

    def on_train_end(self, logs=None):
        self._unfreeze()

    def _vectors(self):
        table = self.model.embedding.embeddings
        return ops.stop_gradient(ops.convert_to_tensor(table))

    def _unfreeze(self):
        self.model.gradient_mask.unfreeze()
        self._frozen = None


class Throughput(keras.callbacks.Callback):
    """Logs `seconds` and `tokens_per_second` for each epoch.

    For `memlm_keras.data.PairBatches`, logs `pairs_per_second` instead.
    Validation time does not count. Put this callback before loggers.

    Args:
        batches: Training batches from `memlm_keras.data`.

    Example:

    >>> callbacks = [
    ...     memlm_keras.training.Throughput(batches),
    ...     keras.callbacks.CSVLogger("log.csv")]
    """

    def __init__(self, batches):
        super().__init__()
        self.batches = batches
        self._batches_seen = 0

    def on_epoch_begin(self, epoch, logs=None):
        self._batches_seen = 0
        self._begin = self._end = time.perf_counter()

    def on_train_batch_end(self, batch, logs=None):
        # With `steps_per_execution`, `batch` may be beyond the last batch.
        last = (self.params or {}).get("steps") or math.inf
        self._batches_seen = min(batch + 1, last)
        self._end = time.perf_counter()

    def on_epoch_end(self, epoch, logs=None):
        if logs is None or not self._batches_seen:
            return
        seconds = self._end - self._begin
        share = self._batches_seen / self.batches.batches_per_epoch
        logs["seconds"] = seconds
        if hasattr(self.batches, "pairs_per_epoch"):
            pairs = self.batches.pairs_per_epoch * share
            logs["pairs_per_second"] = pairs / seconds
        else:
            tokens = self.batches.predicted_tokens * share
            logs["tokens_per_second"] = tokens / seconds


def halve_after(epochs, factor=0.5):
    """Returns a schedule that halves the learning rate in each later epoch.

    Tran et al. (2016, Section 4) begin to halve the rate after four epochs, and
    Salton et al. (2017, Section 4) after twelve. Zaremba et al. (2014) use the
    factor 0.5, 1 / 1.2 or 1 / 1.15, depending on the size of the model.

    Args:
        epochs: Integer, number of epochs at the initial rate.
        factor: Float in (0, 1) that multiplies the rate in each epoch after the
            first `epochs` epochs.

    Returns:
        A function for `keras.callbacks.LearningRateScheduler`.

    Raises:
        ValueError: `epochs` is negative, or `factor` is not in (0, 1).

    Example:

    >>> scheduler = keras.callbacks.LearningRateScheduler(halve_after(4))
    """
    require_positive_integer("epochs", epochs, 0)
    require_number("factor", factor, above=0, below=1)

    def schedule(epoch, learning_rate):
        return learning_rate * factor if epoch >= epochs else learning_rate

    return schedule

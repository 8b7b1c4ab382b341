"""Halving the learning rate when a metric falls."""

import keras


class HalveOnDrop(keras.callbacks.Callback):
    """Halves the learning rate when a metric is worse than some epochs ago.

    Weissenborn (2016, Section 5.1) halves when the accuracy on validation text
    falls over an epoch. Keras' `ReduceLROnPlateau` compares with the best value
    so far instead, and so halves where a metric has recovered in part. After a
    halving the values before it count no more, so that there is at most one in
    so many epochs.

    Args:
        monitor: string, the metric, larger ones being better.
        epochs: integer, how many epochs of `fit` lie between the two values
            compared: as many as a pass over the data has.
        factor: float in (0, 1).

    Raises:
        ValueError: if `epochs` is not positive or `factor` not in (0, 1); and
            in `fit`, if the logs lack the metric.

    Example:

    >>> halve = memlm_keras.training.HalveOnDrop("val_accuracy")
    """

    def __init__(self, monitor="val_accuracy", epochs=1, factor=0.5):
        super().__init__()
        if epochs < 1:
            raise ValueError(
                f"`epochs` must be at least 1. Received: epochs={epochs}"
            )
        if not 0 < factor < 1:
            raise ValueError(
                f"`factor` must lie between 0 and 1. Received: factor={factor}"
            )
        self.monitor = monitor
        self.epochs = epochs
        self.factor = factor
        self.values = []

    def on_epoch_end(self, epoch, logs=None):
        if self.monitor not in (logs or {}):
            raise ValueError(
                f"There is no {self.monitor!r} to halve the learning rate by; "
                f"is there validation data? Received: {sorted(logs or {})}"
            )
        self.values.append(float(logs[self.monitor]))
        if len(self.values) > self.epochs:
            before = self.values.pop(0)
            if self.values[-1] < before:
                optimizer = self.model.optimizer
                rate = float(optimizer.learning_rate)
                optimizer.learning_rate = rate * self.factor
                self.values = self.values[-1:]

    def get_state(self):
        """What a `Checkpoint` keeps."""
        return {"values": self.values}

    def set_state(self, state):
        """Goes on from what `get_state` returned."""
        self.values = list(state["values"])

"""How fast a run trains, as part of its log."""

import time

import keras


class Throughput(keras.callbacks.Callback):
    """Adds `seconds` and `tokens_per_second` of each epoch to the logs.

    Of `memlm_keras.data.PairBatches` it is `pairs_per_second`. Validation is
    not counted. Put it before the loggers, so that they see it.

    Args:
        batches: batches of `memlm_keras.data` that are trained on.

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
        self._batches_seen += 1
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

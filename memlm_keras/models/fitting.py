"""`fit` over batches that know their epoch, and may begin within one."""

import keras
from keras import tree

from memlm_keras.models.varying_time import known_to_vary


def fit_batches(
    model,
    fit,
    x,
    epochs=1,
    verbose="auto",
    callbacks=None,
    validation_data=None,
    initial_epoch=0,
    **kwargs,
):
    """Trains a model by the `fit` of Keras.

    Keras is kept from shuffling a `PyDataset`. Batches with a `start_at` are
    told of each epoch, as their order follows it, and trained on from the
    `start_batch` of the `epoch` that they stand at.

    Args:
        model: `keras.Model`.
        fit: bound method of the model, `keras.Model.fit`.
        x: any dataset, or batches of `memlm_keras.data`.
        epochs, verbose, callbacks, validation_data, initial_epoch, **kwargs:
            as of `keras.Model.fit`.

    Returns:
        `keras.callbacks.History`.
    """
    if isinstance(x, keras.utils.PyDataset):
        kwargs["shuffle"] = False

    def train(**arguments):
        return fit(
            known_to_vary(x),
            verbose=verbose,
            validation_data=known_to_vary(validation_data),
            **kwargs,
            **arguments,
        )

    moves = hasattr(x, "start_at")
    if moves:
        callbacks = [FollowEpoch(x), *tree.flatten(callbacks or [])]
    if not moves or not x.start_batch or x.epoch >= epochs:
        return train(
            epochs=epochs, initial_epoch=initial_epoch, callbacks=callbacks
        )
    # Keras asks for the number of batches once and keeps it for all epochs, so
    # the rest of an epoch is a `fit` of its own.
    run = OneRun(
        callbacks,
        add_history=True,
        add_progbar=verbose != 0,
        model=model,
        verbose=verbose,
        epochs=epochs,
        steps=len(x),
    )
    epoch = x.epoch
    train(epochs=epoch + 1, initial_epoch=epoch, callbacks=run)
    if epoch + 1 < epochs and not model.stop_training:
        x.start_at(epoch + 1)
        run.set_params({**run.params, "steps": len(x)})
        model._initial_epoch = None
        train(epochs=epochs, initial_epoch=epoch + 1, callbacks=run)
    run.end()
    return model.history


class FollowEpoch(keras.callbacks.Callback):
    """Tells batches which epoch `fit` is in, as their order follows it."""

    def __init__(self, batches):
        super().__init__()
        self.batches = batches

    def on_epoch_begin(self, epoch, logs=None):
        if epoch != self.batches.epoch:
            self.batches.start_at(epoch)


class OneRun(keras.callbacks.CallbackList):
    """Callbacks that see two calls of `fit` as one training run."""

    _begun = False

    def on_train_begin(self, logs=None):
        if not self._begun:
            super().on_train_begin(logs)
        self._begun = True

    def on_train_end(self, logs=None):
        self._last_logs = logs

    def end(self):
        super().on_train_end(self._last_logs)

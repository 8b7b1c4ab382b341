"""A program with a small training run that can be killed and resumed.

    python resumed_run.py FOLDER KILL_AT

The process kills itself with SIGKILL after KILL_AT batches. If KILL_AT is not a
whole number, the process kills itself KILL_AT seconds after the first batch. If
KILL_AT is -1, training ends and writes `weights.npz` and `history.json`.
"""

import json
import os
import pathlib
import signal
import sys
import threading

import keras
import numpy as np

import memlm_keras

EPOCHS = 4


class Kill(keras.callbacks.Callback):
    def __init__(self, kill_at):
        super().__init__()
        self.kill_at = kill_at
        self.batches = 0

    def on_train_batch_end(self, batch, logs=None):
        self.batches += 1
        if self.batches == self.kill_at:
            kill()
        if self.batches == 1 and not self.kill_at.is_integer():
            timer = threading.Timer(self.kill_at, kill)
            timer.daemon = True
            timer.start()


def kill():
    os.kill(os.getpid(), signal.SIGKILL)


def main(folder, kill_at):
    if keras.backend.backend() == "tensorflow":
        import tensorflow as tf

        # Without these two settings, the bits of two runs may differ.
        tf.config.experimental.enable_op_determinism()
        tf.config.threading.set_inter_op_parallelism_threads(1)
    keras.utils.set_random_seed(11)
    generator = np.random.default_rng(5)
    tokens = generator.integers(0, 23, size=700).astype("int32")
    starts = np.arange(0, 700, 35)
    batches = memlm_keras.data.Batches(
        tokens, 4, 6, document_starts=starts, shuffle=True, seed=3
    )
    statistics = memlm_keras.smoothing.StreamStatistics.count(tokens, 23)
    batches = memlm_keras.smoothing.NoisedBatches(
        batches, "kneser_ney", 0.2, statistics, seed=4
    )
    validation = memlm_keras.data.Batches(tokens[:150], 3, 6)
    model = memlm_keras.LanguageModel(
        23,
        8,
        [keras.layers.LSTM(12)],
        memlm_keras.memory.KeyValuePredict(3),
        dropout=0.25,
        embedding=memlm_keras.smoothing.SmoothedEmbedding(
            smoothing=memlm_keras.smoothing.VariationalSmoothing(
                "kneser_ney", 0.2, element_wise=True
            )
        ),
    )
    model.smoothing.adapt(statistics)
    model.compile(keras.optimizers.Adam(0.01, global_clipnorm=1.0))
    callbacks = [
        keras.callbacks.History(),
        keras.callbacks.EarlyStopping(
            "val_perplexity", patience=1, mode="min", restore_best_weights=True
        ),
        keras.callbacks.ReduceLROnPlateau(
            "val_loss", factor=0.5, patience=1, min_delta=10.0
        ),
        keras.callbacks.LearningRateScheduler(
            memlm_keras.training.halve_after(1, 0.7)
        ),
    ]
    checkpoint = memlm_keras.training.Checkpoint(
        folder / "checkpoint.npz", batches, callbacks, frequency=7
    )
    model.fit(
        batches,
        epochs=EPOCHS,
        validation_data=validation,
        callbacks=[*callbacks, checkpoint, Kill(kill_at)],
        verbose=0,
    )
    np.savez(folder / "weights.npz", *model.get_weights()[:8])
    (folder / "history.json").write_text(json.dumps(callbacks[0].history))


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]), float(sys.argv[2]))

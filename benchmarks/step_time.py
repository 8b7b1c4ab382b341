"""Time of a training step, side by side in one run.

    python benchmarks/step_time.py --backend=tensorflow
    python benchmarks/step_time.py --compare=presets --scale=0.4
    python benchmarks/step_time.py --compare=cells --units=300 \
        --vocabulary_size=1000
    python benchmarks/step_time.py --compare=associative --units=100 \
        --vocabulary_size=1000
    python benchmarks/step_time.py --compare=smoothing --scale=0.4 \
        --segment_length=35

What is compared:

* memory: key-value-predict against the same model without its memory, that is
  an LSTM of the same hidden size whose prediction part goes through the same
  tanh layer to the same output size.
* presets: rows of Daniluk et al. (2017) matched in parameters, with the seconds
  of an epoch of Penn Treebank.
* cells: higher-order cells against an LSTM of the same hidden size, with their
  inputs projected for the whole sequence and, as `keras.layers.RNN` would, in
  every step. A small vocabulary leaves most of the time to the cells.
* associative: cells with associative memory against a GRU of the same hidden
  size.
* smoothing: rows of Kong et al. (2019) against the tied one without noise and
  smoothing.

The models take turns, so that a machine that slows down slows all of them;
the ratio is the median of the rounds' ratios.
"""

import os
import statistics
import time

from absl import app
from absl import flags

FLAGS = flags.FLAGS
flags.DEFINE_enum(
    "backend", None, ("tensorflow", "jax", "torch"), "Keras backend."
)
flags.DEFINE_enum(
    "compare",
    "memory",
    ("memory", "presets", "cells", "associative", "smoothing"),
    "What to compare.",
)
flags.DEFINE_float(
    "scale", 0.4, "Factor on the papers' sizes, for presets and smoothing."
)
flags.DEFINE_integer(
    "units", 834, "Hidden size, for memory, cells and associative."
)
flags.DEFINE_integer("window", 5, "Attention window, for memory.")
flags.DEFINE_integer("vocabulary_size", 10_000, "Number of words.")
flags.DEFINE_integer("batch_size", 64, "Rows of a batch.")
flags.DEFINE_integer("segment_length", 20, "Steps of a batch.")
flags.DEFINE_integer(
    "steps", 20, "Steps in each turn, enough to hide the beginning of `fit`."
)
flags.DEFINE_integer("rounds", 5, "Turns of each model.")

PTB_TRAINING_TOKENS = 929_589
ROWS = ("lstm", "attention", "key_value", "key_value_predict", "ngram_4")
SMOOTHING_ROWS = (
    "vanilla_tied",
    "dn_linear",
    "dn_kneser_ney",
    "vs_linear",
    "vs_kneser_ney",
    "vs_elementwise",
)


def main(argv):
    del argv
    if FLAGS.backend is not None:
        os.environ["KERAS_BACKEND"] = FLAGS.backend
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

    import keras
    import numpy as np

    from memlm_keras.data import Batches

    compared = {
        "memory": memory_models,
        "presets": preset_models,
        "cells": cell_models,
        "associative": associative_models,
        "smoothing": smoothing_models,
    }
    models = compared[FLAGS.compare]()
    tokens_per_step = FLAGS.batch_size * FLAGS.segment_length
    tokens = np.random.default_rng(0).integers(
        0, FLAGS.vocabulary_size, FLAGS.steps * tokens_per_step
    )
    batches = Batches(tokens, FLAGS.batch_size, FLAGS.segment_length)
    read = dict.fromkeys(models, batches)
    if FLAGS.compare == "smoothing":
        read = noised_batches(models, tokens, batches)
    seconds = {name: [] for name in models}
    for name, model in models.items():
        model.compile(keras.optimizers.Adam(1e-3, global_clipnorm=5.0))
        model.fit(read[name], verbose=0)
    for _ in range(FLAGS.rounds):
        for name, model in models.items():
            begin = time.perf_counter()
            model.fit(read[name], verbose=0)
            elapsed = time.perf_counter() - begin
            seconds[name].append(elapsed / FLAGS.steps)

    first = next(iter(models))
    print(
        f"backend {keras.backend.backend()}, {os.cpu_count()} cores, batch "
        f"{FLAGS.batch_size} x {FLAGS.segment_length}, vocabulary "
        f"{FLAGS.vocabulary_size:,}; medians of {FLAGS.rounds} rounds of "
        f"{FLAGS.steps} steps"
    )
    print(
        "| model | parameters | ms a step | tokens a second | s a PTB epoch "
        f"| ratio to {first} |"
    )
    print("|---|---|---|---|---|---|")
    for name, model in models.items():
        median = statistics.median(seconds[name])
        ratio = statistics.median(
            mine / base for mine, base in zip(seconds[name], seconds[first])
        )
        print(
            f"| {name} | {model.count_params():,} | {1000 * median:.1f} | "
            f"{tokens_per_step / median:,.0f} | "
            f"{PTB_TRAINING_TOKENS * median / tokens_per_step:.0f} | "
            f"{ratio:.3f} |"
        )


def memory_models():
    """Key-value-predict, and the same model without its memory."""
    import keras

    from memlm_keras import LanguageModel
    from memlm_keras.memory import KeyValuePredict
    from memlm_keras.memory import Memory

    class Project(Memory):
        """h* = tanh(W^x p_t), Eq. 17 without the memory's term."""

        def build(self, outputs_shape):
            self.kernel = self.add_weight(
                shape=(outputs_shape[-1] // 3, outputs_shape[-1] // 3)
            )

        def initial_state(self, batch_size):
            return {}

        def read(self, outputs, state, token_ids=None, mask=None):
            predict = keras.ops.split(outputs, 3, axis=-1)[2]
            outputs = keras.ops.tanh(keras.ops.matmul(predict, self.kernel))
            return outputs, {}, outputs[..., :0]

    def model(memory):
        return LanguageModel(
            FLAGS.vocabulary_size, 300, [keras.layers.LSTM(FLAGS.units)], memory
        )

    return {
        "lstm of the same sizes": model(Project()),
        "key_value_predict": model(KeyValuePredict(FLAGS.window)),
    }


def cell_models():
    """Higher-order cells of third order, and an LSTM of as many units."""
    import keras

    from memlm_keras import LanguageModel
    from memlm_keras import cells

    def model(recurrent):
        return LanguageModel(FLAGS.vocabulary_size, FLAGS.units, [recurrent])

    return {
        "lstm": model(keras.layers.LSTM(FLAGS.units)),
        "fofe_hornn": model(cells.FOFEHORNNCell(FLAGS.units)),
        "gated_hornn": model(cells.GatedHORNNCell(FLAGS.units)),
        "fofe_hornn, inputs projected in every step": model(
            keras.layers.RNN(cells.FOFEHORNNCell(FLAGS.units))
        ),
        "gated_hornn, inputs projected in every step": model(
            keras.layers.RNN(cells.GatedHORNNCell(FLAGS.units))
        ),
    }


def preset_models():
    """Rows of the paper's table, matched to the LSTM in parameters."""
    from memlm_keras import LanguageModel
    from memlm_keras import presets

    lstm = LanguageModel.from_preset(
        "daniluk2017/lstm", FLAGS.vocabulary_size, scale=FLAGS.scale
    )
    models = {"lstm": lstm}
    for row in ROWS[1:]:
        units = presets.match_parameters(
            lstm.count_params(),
            f"daniluk2017/{row}",
            FLAGS.vocabulary_size,
            embedding_dim=lstm.embedding_dim,
        )
        models[row] = LanguageModel.from_preset(
            f"daniluk2017/{row}",
            FLAGS.vocabulary_size,
            units=units,
            embedding_dim=lstm.embedding_dim,
        )
    return models


def associative_models():
    """A GRU, and cells with associative memory of as many units."""
    import keras

    from memlm_keras import LanguageModel
    from memlm_keras import cells

    def model(recurrent):
        return LanguageModel(FLAGS.vocabulary_size, FLAGS.units, [recurrent])

    return {
        "gru": model(keras.layers.GRU(FLAGS.units)),
        "associative_gru of one copy": model(
            cells.AssociativeGRUCell(FLAGS.units, num_copies=1)
        ),
        "associative_gru": model(cells.AssociativeGRUCell(FLAGS.units)),
        "dual_associative_gru": model(
            cells.DualAssociativeGRUCell(FLAGS.units)
        ),
        "associative memory of a gru": model(
            cells.AssociativeMemoryCell(keras.layers.GRUCell(FLAGS.units))
        ),
    }


def smoothing_models():
    """Rows of the smoothing table of one size, the plain one first."""
    from memlm_keras import LanguageModel

    return {
        row: LanguageModel.from_preset(
            f"kong2019/{row}_512", FLAGS.vocabulary_size, scale=FLAGS.scale
        )
        for row in SMOOTHING_ROWS
    }


def noised_batches(models, tokens, batches):
    """Batches of each row, once the smoothed ones know the statistics."""
    from memlm_keras import presets
    from memlm_keras import smoothing

    statistics = smoothing.StreamStatistics.count(tokens, FLAGS.vocabulary_size)
    read = {}
    for row, model in models.items():
        if model.smoothing is not None:
            model.smoothing.adapt(statistics)
        noise = presets.get(f"kong2019/{row}_512")["noise"]
        read[row] = batches
        if noise:
            read[row] = smoothing.NoisedBatches(
                batches, statistics=statistics, seed=0, **noise
            )
    return read


if __name__ == "__main__":
    app.run(main)

"""Rows of the recall suite, and the settings that they are trained in."""

import dataclasses
from collections.abc import Callable

import keras
from keras import ops

from memlm_keras import LanguageModel
from memlm_keras import cells
from memlm_keras import memory
from memlm_keras import mixtures


@keras.saving.register_keras_serializable(package="memlm_keras")
class PreviousInputCell(keras.layers.Layer):
    """Recurrent cell whose output is `[x_t; x_{t-1}]`, zero before the first.

    A pair of a key and a value is two tokens: a memory over these vectors finds
    a value by the key beside it, without a recurrent layer to join them.

    Args:
        units: integer, size of an input.
    """

    def __init__(self, units, **kwargs):
        super().__init__(**kwargs)
        self.units = self.state_size = units
        self.output_size = 2 * units

    def call(self, inputs, states, training=None):
        return ops.concatenate([inputs, states[0]], axis=-1), [inputs]

    def get_initial_state(self, batch_size=None):
        """Zeros `(batch, units)`."""
        return [ops.zeros((batch_size, self.units), self.compute_dtype)]

    def get_config(self):
        return {**super().get_config(), "units": self.units}


@dataclasses.dataclass(frozen=True)
class Row:
    """A model of the suite.

    Args:
        layer: function from units to a recurrent layer or cell, or `None`.
        memory: function from a window to a memory, or `None`.
        mixture: function from a window to a mixture, or `None`.
        parts: integer, equal parts that the memory splits an output in.
        window: integer, the paper's; `None` is the length of a row.
        rate: float, learning rate in place of a setting's only one.
        expected_failure: string, why the row is expected to fail where a word
            must be found by the word beside it alone; empty where it is not.
    """

    layer: Callable | None = keras.layers.LSTM
    memory: Callable | None = None
    mixture: Callable | None = None
    parts: int = 1
    window: int | None = None
    rate: float | None = None
    expected_failure: str = ""


def _associative_gru(key):
    return lambda units: cells.AssociativeGRUCell(units, num_copies=8, key=key)


def _associative_lstm(key):
    return lambda units: cells.AssociativeMemoryCell(
        keras.layers.LSTMCell(units), num_copies=8, key=key
    )


_NO_QUERY = "its score does not depend on the question"
_WORDS = "a slot does not know the previous word"
_SHORT = "what is asked lies behind its window"

# What needs another learning rate than the others has its own.
ROWS = {
    "lstm": Row(),
    "gru": Row(keras.layers.GRU),
    "gated_hornn": Row(lambda units: cells.GatedHORNNCell(units, order=3)),
    "ngram_4": Row(
        memory=lambda window: memory.NGram(4), parts=4, expected_failure=_SHORT
    ),
    "attention_10": Row(memory=memory.Attention, window=10),
    "attention": Row(memory=memory.Attention),
    "key_value_10": Row(memory=memory.KeyValue, parts=2, window=10),
    "key_value": Row(memory=memory.KeyValue, parts=2),
    "key_value_predict_5": Row(
        memory=memory.KeyValuePredict, parts=3, window=5
    ),
    "key_value_predict": Row(memory=memory.KeyValuePredict, parts=3),
    "memory_block_15": Row(
        memory=memory.MemoryBlock, window=15, expected_failure=_WORDS
    ),
    "memory_block": Row(memory=memory.MemoryBlock, expected_failure=_WORDS),
    "attentive_single": Row(
        memory=lambda window: memory.Attentive("single", window),
        expected_failure=_NO_QUERY,
    ),
    "attentive_combined": Row(
        memory=lambda window: memory.Attentive("combined", window)
    ),
    "am_gru": Row(_associative_gru("bound")),
    "am_gru_unit": Row(_associative_gru("unit")),
    "am_lstm": Row(_associative_lstm("bound")),
    "am_lstm_unit": Row(_associative_lstm("unit")),
    "pointer_sentinel": Row(mixture=mixtures.PointerSentinel, rate=0.003),
    # No recurrent layer that learns, but the embedding of the word before.
    "attention_without_lstm": Row(layer=None, memory=memory.Attention),
}


@dataclasses.dataclass(frozen=True)
class Setting:
    """Sizes of a task, and what models are made and trained with.

    Args:
        vocabulary_size, length, pairs: integers, of the task.
        initializer: of embeddings and projection.
        rates: learning rates, of which the best counts.
        batch_size: integer.
        rows: integer, training rows of an epoch.
        epochs: integer, at most; less where validation is above 0.99.
        validation_rows: integer, rows that are held out.
        fresh: whether every epoch has rows of its own.
        layers: integer, recurrent layers.
        zoology: whether embeddings are tied, and AdamW decays weights by 0.1
            and its rate along a cosine.
    """

    vocabulary_size: int = 512
    length: int = 64
    pairs: int = 4
    initializer: keras.initializers.Initializer = (
        keras.initializers.RandomUniform(-0.5, 0.5)
    )
    rates: tuple = (0.01,)
    batch_size: int = 64
    rows: int = 6_000
    epochs: int = 25
    validation_rows: int = 640
    fresh: bool = True
    layers: int = 1
    zoology: bool = False


def _figure_2(length, pairs, batch_size):
    return Setting(
        vocabulary_size=8192,
        length=length,
        pairs=pairs,
        initializer=keras.initializers.RandomNormal(stddev=0.02),
        rates=(1e-4, 4.6e-4, 2.2e-3, 1e-2),
        batch_size=batch_size,
        rows=100_000,
        epochs=64,
        validation_rows=3_000,
        fresh=False,
        layers=2,
        zoology=True,
    )


SETTINGS = {
    "small": Setting(),
    "large": Setting(vocabulary_size=8192),
    "large_128": Setting(vocabulary_size=8192, length=128, pairs=8),
    "zoology_64": _figure_2(64, 4, 512),
    "zoology_128": _figure_2(128, 8, 512),
    "zoology_256": _figure_2(256, 16, 256),
}


def make_model(row, setting, task, units=64, shift=False):
    """Makes the language model of a row.

    Args:
        row: `Row`.
        setting: `Setting`.
        task: of `memlm_keras.data.recall`.
        units: integer, size of embeddings and of what is projected.
        shift: whether the recurrent layers read the previous word's embedding
            beside the current one's.
    """
    window = row.window or task.length
    recurrent = []
    if shift or row.layer is None:
        recurrent.append(PreviousInputCell(units))
    if row.layer is not None:
        recurrent += [row.layer(units) for _ in range(setting.layers - 1)]
        recurrent.append(row.layer(units * row.parts))
    return LanguageModel(
        vocabulary_size=task.vocabulary_size,
        embedding_dim=units,
        recurrent=recurrent,
        memory=row.memory and row.memory(window),
        mixture=row.mixture and row.mixture(window),
        # What two embeddings make is no size that can be tied.
        tie_embeddings=setting.zoology and row.layer is not None,
        initializer=setting.initializer,
    )


def make_optimizer(setting, rate, steps):
    """Makes the optimizer of a run of so many steps."""
    if not setting.zoology:
        return keras.optimizers.Adam(rate)
    schedule = keras.optimizers.schedules.CosineDecay(rate, decay_steps=steps)
    return keras.optimizers.AdamW(schedule, weight_decay=0.1)


def state_bytes(model):
    """Bytes of all that a model remembers of one text."""
    return sum(
        ops.convert_to_numpy(value).nbytes
        for value in model.initial_state(1).values()
    )

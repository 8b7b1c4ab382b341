"""Models and settings for recall tasks. This module does not import Keras."""

import dataclasses
from collections.abc import Callable

import memlm_keras


def _keras_layer(name):
    def make(units):
        import keras

        return getattr(keras.layers, name)(units)

    return make


def _memory(name):
    return lambda window: getattr(memlm_keras.memory, name)(window)


def _attentive(score):
    return lambda window: memlm_keras.memory.Attentive(score, window)


def _associative_gru(key):
    return lambda units: memlm_keras.cells.AssociativeGRUCell(
        units, num_copies=8, key=key
    )


def _associative_lstm(key):
    return lambda units: memlm_keras.cells.AssociativeMemoryCell(
        _keras_layer("LSTMCell")(units), num_copies=8, key=key
    )


def _pointer(window):
    return memlm_keras.mixtures.PointerSentinel(window)


def _delta_rule(num_heads=2, key_dim=16, **arguments):
    return lambda window: memlm_keras.memory.DeltaRule(
        num_heads, key_dim, negative_eigenvalues=True, **arguments
    )


@dataclasses.dataclass(frozen=True)
class RecallRow:
    """A model for recall tasks."""

    layer: Callable | None = _keras_layer("LSTM")  # Makes a layer, given units.
    memory: Callable | None = None  # Makes a memory, given its window.
    mixture: Callable | None = None  # Makes a mixture, given its window.
    parts: int = 1  # The memory splits an output into this many vectors.
    window: int | None = None  # `None` means the whole sequence.
    rate: float | None = None  # `None` means the setting's learning rate.
    tied: bool = False  # Whether embedding and head share a matrix.
    expected_failure: str = ""  # Why the model must fail at recall.


_NO_QUERY = "its score does not depend on the query"
_WORDS = "a slot does not depend on neighbouring words"
_SHORT = "what is asked for lies outside its window"

ROWS = {
    "lstm": RecallRow(),
    "gru": RecallRow(_keras_layer("GRU")),
    "gated_hornn": RecallRow(
        lambda units: memlm_keras.cells.GatedHORNNCell(units, order=3)
    ),
    "ngram_4": RecallRow(
        memory=lambda window: memlm_keras.memory.NGram(4),
        parts=4,
        expected_failure=_SHORT,
    ),
    "attention_10": RecallRow(memory=_memory("Attention"), window=10),
    "attention": RecallRow(memory=_memory("Attention")),
    "key_value_10": RecallRow(memory=_memory("KeyValue"), parts=2, window=10),
    "key_value": RecallRow(memory=_memory("KeyValue"), parts=2),
    "key_value_predict_5": RecallRow(
        memory=_memory("KeyValuePredict"), parts=3, window=5
    ),
    "key_value_predict": RecallRow(memory=_memory("KeyValuePredict"), parts=3),
    "induction_10": RecallRow(memory=_memory("InductionAttention"), window=10),
    "induction": RecallRow(memory=_memory("InductionAttention")),
    "delta_rule": RecallRow(memory=_delta_rule()),
    "delta_rule_convolution": RecallRow(memory=_delta_rule(kernel_size=4)),
    "delta_rule_previous": RecallRow(memory=_delta_rule(previous_keys=True)),
    "delta_rule_holographic": RecallRow(
        memory=_delta_rule(
            num_heads=32,
            key_dim=8,
            value_dim=1,
            previous_keys=True,
            holographic=True,
        )
    ),
    "delta_rule_tied": RecallRow(memory=_delta_rule(), tied=True),
    "delta_rule_pointer": RecallRow(memory=_delta_rule(), mixture=_pointer),
    "memory_block_15": RecallRow(
        memory=_memory("MemoryBlock"), window=15, expected_failure=_WORDS
    ),
    "memory_block": RecallRow(
        memory=_memory("MemoryBlock"), expected_failure=_WORDS
    ),
    "attentive_single": RecallRow(
        memory=_attentive("single"), expected_failure=_NO_QUERY
    ),
    "attentive_combined": RecallRow(memory=_attentive("combined")),
    "am_gru": RecallRow(_associative_gru("bound")),
    "am_gru_unit": RecallRow(_associative_gru("unit")),
    "am_gru_unit_tied": RecallRow(_associative_gru("unit"), tied=True),
    "am_gru_unit_pointer": RecallRow(
        _associative_gru("unit"), mixture=_pointer
    ),
    "am_lstm": RecallRow(_associative_lstm("bound")),
    "am_lstm_unit": RecallRow(_associative_lstm("unit")),
    # The pointer needs a smaller learning rate than the other models.
    "pointer_sentinel": RecallRow(mixture=_pointer, rate=0.003),
    # Without a layer, the memory reads embeddings of two successive words.
    "attention_without_lstm": RecallRow(
        layer=None, memory=_memory("Attention")
    ),
}


@dataclasses.dataclass(frozen=True)
class RecallSetting:
    """Sizes of the multi-query task, and training options for all tasks."""

    vocabulary_size: int = 512
    length: int = 64
    pairs: int = 4
    rates: tuple = (0.01,)  # Learning rates to try.
    batch_size: int = 64
    rows: int = 6_000  # Number of training sequences in an epoch.
    epochs: int = 25  # Maximum number: training stops at 99% accuracy.
    validation_rows: int = 640  # Number of held-out sequences of a task.
    # `(pairs, length, rows)` of each task of a mix; `pairs` has no effect.
    training: tuple = ()
    test: tuple = ()
    # Train as the Zoology paper: fixed sequences, AdamW, a cosine schedule.
    zoology: bool = False


def _figure_2(length, pairs, batch_size):
    return RecallSetting(
        vocabulary_size=8192,
        length=length,
        pairs=pairs,
        rates=(1e-4, 4.6e-4, 2.2e-3, 1e-2),
        batch_size=batch_size,
        rows=100_000,
        epochs=64,
        validation_rows=3_000,
        zoology=True,
    )


# The learning rates in Zoology's README, 10^-3 to 10^-1.5.
_RATES = (1e-3, 3.2e-3, 1e-2, 3.2e-2)

SETTINGS = {
    "small": RecallSetting(),
    "small_rates": RecallSetting(rates=(0.003, 0.01, 0.03)),
    "large": RecallSetting(vocabulary_size=8192),
    "large_128": RecallSetting(vocabulary_size=8192, length=128, pairs=8),
    "zoology_64": _figure_2(64, 4, 512),
    "zoology_128": _figure_2(128, 8, 512),
    "zoology_256": _figure_2(256, 16, 256),
    "mix": RecallSetting(
        rates=_RATES,
        validation_rows=256,
        training=((4, 64, 3_000), (16, 64, 3_000)),
        test=(
            (4, 64, 1_000),
            (8, 64, 1_000),
            (16, 64, 1_000),
            (32, 128, 1_000),
        ),
    ),
    # Zoology's README shows a figure of results for these tasks.
    "zoology_mix": RecallSetting(
        vocabulary_size=8192,
        rates=_RATES,
        batch_size=256,
        rows=180_000,
        epochs=32,
        validation_rows=1_000,
        zoology=True,
        training=(
            (4, 64, 100_000),
            (8, 128, 20_000),
            (16, 256, 20_000),
            (32, 256, 20_000),
            (64, 256, 20_000),
        ),
        test=(
            (4, 64, 1_000),
            (8, 64, 1_000),
            (16, 64, 1_000),
            (32, 128, 1_000),
            (64, 256, 1_000),
            (128, 512, 1_000),
            (256, 1_024, 1_000),
        ),
    ),
}

# Bytes of state and accuracy on `zoology_mix`, read from the curve in the
# README of HazyResearch/zoology at d88d6f5, within about 0.005. A number in a
# state has four bytes. RWKV-7's bytes are scaled as in Zoology's plot script.
PUBLISHED = {
    "DeltaNet": ((8_960, 0.793), (34_304, 0.963), (134_144, 0.994)),
    "Gated DeltaNet": ((17_152, 0.890), (67_072, 0.988)),
    "GLA": ((4_835, 0.532), (17_846, 0.771), (68_281, 0.949)),
    "RWKV-7": ((17_152, 0.816), (33_051, 0.914), (65_326, 0.981)),
    "Mamba-2": (
        (8_192, 0.520),
        (16_384, 0.690),
        (32_768, 0.784),
        (65_536, 0.831),
    ),
    "Based": ((9_341, 0.667), (24_600, 0.839), (80_166, 0.985)),
    "sliding-window attention": (
        (9_683, 0.082),
        (34_097, 0.310),
        (132_200, 0.656),
        (523_700, 0.936),
    ),
    "attention": ((524_288, 1.0),),
}

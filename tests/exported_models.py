"""Small models of all kinds, whose exports are compared with them."""

import keras

import memlm_keras as memlm


def language_model(*recurrent, **arguments):
    return memlm.LanguageModel(11, 4, [*recurrent], **arguments)


def of_memory(memory):
    return language_model(keras.layers.GRU(6), memory=memory)


def ensemble():
    layers = keras.layers.LSTM(6), keras.layers.GRU(5)
    return memlm.Ensemble([language_model(layer) for layer in layers])


MODELS = {
    "ensemble": ensemble,
    "induction": lambda: of_memory(memlm.memory.InductionAttention(window=3)),
    "delta_rule": lambda: of_memory(
        memlm.memory.DeltaRule(2, 4, kernel_size=3, decay=True)
    ),
    "holographic": lambda: of_memory(
        memlm.memory.DeltaRule(3, 2, decay=True, holographic=True)
    ),
    "in_bfloat16": lambda: language_model(
        keras.layers.LSTM(6, dtype="mixed_bfloat16"),
        memory=memlm.memory.KeyValue(window=3),
        dtype="mixed_float16",
    ),
}

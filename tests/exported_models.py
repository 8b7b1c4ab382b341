"""Small models of all kinds, for comparison with their exports."""

import keras

import memlm_keras as memlm

# Where the pieces end that `step` reads, and different lengths of rows.
STOPS, LENGTHS = (1, 5, 7), (2, 7, 5)


def language_model(*recurrent, size=11, **arguments):
    return memlm.LanguageModel(size, 4, [*recurrent], **arguments)


def of_memory(kind, *sizes, **options):
    return lambda size=11: language_model(
        keras.layers.GRU(6), size=size, memory=kind(*sizes, **options)
    )


def meta_graph(saved_model):
    """Returns the graph of a SavedModel, with its signatures."""
    from tensorflow.core.protobuf import saved_model_pb2

    content = (saved_model / "saved_model.pb").read_bytes()
    return saved_model_pb2.SavedModel.FromString(content).meta_graphs[0]


def tensor_names(saved_model):
    """Returns the names of the tensors of each signature, `"inputs"` and
    `"outputs"`."""
    definitions = meta_graph(saved_model).signature_def
    return {
        signature: {
            side: {name: one.name for name, one in getattr(found, side).items()}
            for side in ("inputs", "outputs")
        }
        for signature, found in definitions.items()
    }


DeltaRule = memlm.memory.DeltaRule
# Functions that make a model with a given vocabulary size.
MODELS = {
    "induction": of_memory(memlm.memory.InductionAttention, 3),
    "delta_rule": of_memory(DeltaRule, 2, 4, kernel_size=3, decay=True),
    "holographic": of_memory(DeltaRule, 3, 2, decay=True, holographic=True),
    "in_bfloat16": lambda size=11: language_model(
        keras.layers.LSTM(6, dtype="mixed_bfloat16"),
        size=size,
        memory=memlm.memory.KeyValue(window=3),
        dtype="mixed_float16",
    ),
    "ensemble": lambda size=11: memlm.Ensemble(
        [
            language_model(layer, size=size)
            for layer in (keras.layers.LSTM(6), keras.layers.GRU(5))
        ]
    ),
}

"""Base class and layers of models that read a source and then a target."""

import keras
import numpy as np
from keras import ops
from keras import tree

from memlm_keras.arguments import config_of
from memlm_keras.arguments import constructor_arguments
from memlm_keras.arguments import require_one_of
from memlm_keras.arguments import require_positive_integer
from memlm_keras.arguments import require_rate
from memlm_keras.arguments import serialize
from memlm_keras.embeddings import Embedding
from memlm_keras.models import layers
from memlm_keras.models.sequence_model import SequenceModel

CONDITIONINGS = ("memory", "source")


class DualSequenceModel(SequenceModel):
    """A model that reads a source sequence, and then a target sequence.
    Subclasses have an attribute for each constructor argument, and `embedding`,
    `projection_layer` (or `None`), `readers` (the recurrent layers for source
    and target), `conditioning` and, optionally, `gradient_mask`."""

    def vectors(self, token_ids):
        """Returns the inputs of the recurrent layers, without dropout."""
        vectors = self.embedding(token_ids)
        if self.projection_layer is not None:
            vectors = self.projection_layer(vectors)
        return vectors

    def states_for_target(self, states):
        """Makes the target's initial states from the source's states."""
        _, reader = self.readers
        start = starting_states(self.conditioning, states, reader)
        if start is None:
            return reader.get_initial_state(ops.shape(states[0])[0])
        return start

    def fit(self, *args, **kwargs):
        self._unfreeze()
        try:
            return super().fit(*args, **kwargs)
        finally:
            # A callback may freeze the embeddings, but only during this `fit`.
            self._unfreeze()

    def _unfreeze(self):
        if (mask := getattr(self, "gradient_mask", None)) is not None:
            mask.unfreeze()

    def get_config(self):
        others = {
            "embeddings_initializer": self.embedding.embeddings_initializer,
            "dtype": self.embedding.dtype_policy,
        }
        names = constructor_arguments(type(self))
        return {
            **config_of(self, *[name for name in names if name not in others]),
            **{name: serialize(value) for name, value in others.items()},
        }


@keras.saving.register_keras_serializable(package="memlm_keras")
class LengthMask(keras.layers.Layer):
    """Computes a mask `(batch, time)`, true for the first `lengths` steps."""

    def call(self, tokens, lengths):
        steps = ops.arange(ops.shape(tokens)[1], dtype="int32")
        return steps[None] < ops.cast(lengths, "int32")[:, None]

    def compute_output_spec(self, tokens, lengths):
        return keras.KerasTensor(tokens.shape, dtype="bool")


class LayerMaker:
    """Makes all layers of a model except the recurrent ones."""

    def __init__(self, dropout, initializer, dtype):
        require_rate("dropout", dropout)
        self.dropout = dropout
        self.initializer = keras.initializers.get(initializer)
        self.policy = keras.dtype_policies.get(
            dtype or keras.config.dtype_policy()
        )
        self._count = 0

    def _initializer(self, default):
        self._count += 1
        return layers.initializer_of(self.initializer, self._count, default)

    def embedding(self, vocabulary_size, embedding_dim, initializer, readers):
        """Makes the `Embedding` that the layers `readers` read."""
        require_positive_integer("vocabulary_size", vocabulary_size)
        require_positive_integer("embedding_dim", embedding_dim)
        if initializer is None:
            start = layers.embeddings_start(readers)
            initializer = self._initializer(start)
        else:
            # A model's config has an `initializer`, and draws the same weights.
            self._count += 1
        return Embedding(
            vocabulary_size,
            embedding_dim,
            embeddings_initializer=initializer,
            dtype=self.policy,
            name="embedding",
        )

    def dense(self, units, name, activation=None):
        """Makes a `keras.layers.Dense`."""
        require_positive_integer(name, units)
        return keras.layers.Dense(
            units,
            activation,
            kernel_initializer=self._initializer("glorot_uniform"),
            dtype=self.policy,
            name=name,
        )

    def dropout_layer(self, name):
        """Makes a `keras.layers.Dropout`."""
        return keras.layers.Dropout(self.dropout, dtype=self.policy, name=name)


def padded(name, rows):
    """Pads nonempty 1-D integer arrays to int64 `(batch, time)`; returns the
    padded array and the lengths of its rows, int32 `(batch,)`."""
    rows = [np.asarray(row) for row in rows]
    right = [
        row.ndim == 1 and len(row) and np.issubdtype(row.dtype, np.integer)
        for row in rows
    ]
    if not rows or not all(right):
        raise ValueError(
            f"`{name}` must hold sentences of at least one token each, as "
            f"strings or 1-D arrays of ids. Received: {name}={rows!r}"
        )
    ids = keras.utils.pad_sequences(rows, dtype="int64", padding="post")
    return ids, np.array([len(row) for row in rows], "int32")


def require_single_cells(*readers):
    """Raises `ValueError` for layers with stacked cells, whose first state is
    not that of the last cell."""
    for reader in readers:
        if hasattr(getattr(reader, "cell", None), "cells"):
            raise ValueError(
                "Models of two sequences need recurrent layers with one cell. "
                f"Received: {reader!r} with stacked cells"
            )


def require_conditioning(conditioning, source, target):
    """Raises `ValueError` if a layer does not support the `conditioning`."""
    require_one_of("conditioning", conditioning, (None, *CONDITIONINGS))
    require_single_cells(source, target)
    cell = getattr(target, "cell", None)
    if conditioning == "source" and not getattr(cell, "reads_source", False):
        raise ValueError(
            'conditioning="source" needs a layer that reads a source memory, '
            f"such as a `DualAssociativeGRUCell`. Received: {target!r}"
        )
    if conditioning == "memory" and not getattr(cell, "continues_source", True):
        raise ValueError(
            f'conditioning="memory" does not work with {type(cell).__name__}, '
            'which has no memory state to continue: use "source", or None. '
            'Received: conditioning="memory"'
        )
    if conditioning is None:
        return
    cells = [getattr(layer, "cell", layer) for layer in (source, target)]
    remembered = [_memory_of(cell) for cell in cells]
    if remembered[0] != remembered[1]:
        names = [
            f"{type(cell).__name__} with {values}"
            for cell, values in zip(cells, remembered)
        ]
        raise ValueError(
            "The layers that read source and target must have equal memory "
            f"settings. Received: {names[0]}, and {names[1]}"
        )


def _memory_of(cell):
    """Returns the settings that must agree if a cell uses another's memory."""
    if hasattr(cell, "memory_identity"):
        return cell.memory_identity
    units = getattr(cell, "output_size", None)
    return {"units": units, "states": len(tree.flatten(cell.state_size))}


def starting_states(conditioning, states, reader):
    """Returns the target layer's initial states; `None` means zeros."""
    if conditioning is None:
        return None
    if conditioning == "source":
        return reader.cell.states_after_source(states)
    if len(states) == 1:
        return states
    # `states[0]` is the output, and `states[1]` is the memory.
    count = len(tree.flatten(reader.get_initial_state(1)))
    empty = [ops.zeros_like(state) for state in states]
    return [empty[0], states[1], *empty[2:count]]

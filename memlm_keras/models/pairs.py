"""Models of two sequences: reading one after the other."""

import keras
import numpy as np
from keras import ops
from keras import tree

from memlm_keras.arguments import require_positive_integer
from memlm_keras.arguments import require_rate
from memlm_keras.embeddings import Embedding
from memlm_keras.models import layers
from memlm_keras.models.layers import Initializers
from memlm_keras.models.sequence_model import SequenceModel

CONDITIONINGS = ("memory", "source")


class DualSequenceModel(SequenceModel):
    """A model that reads a source sequence, and then a target sequence.

    Subclasses have `embedding`, `projection_layer` (or `None`), `readers`, the
    recurrent layers of source and target, and `conditioning`, as
    `starting_states` takes it; some have a `gradient_mask`.
    """

    def vectors(self, token_ids):
        """Vectors of token ids as recurrent layers read them, without dropout.

        Args:
            token_ids: integer tensor `(batch, time)`.

        Returns:
            Float tensor `(batch, time, units)`.
        """
        found = self.embedding(token_ids)
        if self.projection_layer is not None:
            found = self.projection_layer(found)
        return found

    def states_for_target(self, states):
        """The states that a target is read from.

        Args:
            states: list of the source's final states.

        Returns:
            List of tensors, the states of the layer that reads the target.
        """
        _, reader = self.readers
        start = starting_states(self.conditioning, states, reader)
        if start is None:
            return reader.get_initial_state(ops.shape(states[0])[0])
        return start

    def fit(self, *args, **kwargs):
        """Trains the model; takes the arguments of `keras.Model.fit`.

        Batches of `memlm_keras.data` that begin within an epoch are trained on
        from there.

        Raises:
            ValueError: if the batches hold what the model has no room for.
        """
        self._unfreeze()
        try:
            return super().fit(*args, **kwargs)
        finally:
            # Whatever callbacks did: it is of this training only.
            self._unfreeze()

    def _unfreeze(self):
        mask = getattr(self, "gradient_mask", None)
        if mask is not None:
            mask.unfreeze()


@keras.saving.register_keras_serializable(package="memlm_keras")
class LengthMask(keras.layers.Layer):
    """Which steps of padded rows count: the first `lengths` of each.

    Call arguments:
        tokens: tensor `(batch, time)`.
        lengths: int32 tensor `(batch,)`.

    Returns:
        Boolean tensor `(batch, time)`.
    """

    def call(self, tokens, lengths):
        steps = ops.arange(ops.shape(tokens)[1], dtype="int32")
        return steps[None] < ops.cast(lengths, "int32")[:, None]

    def compute_output_spec(self, tokens, lengths):
        return keras.KerasTensor(tokens.shape, dtype="bool")


class LayerMaker:
    """Makes the layers of a model that are not recurrent.

    Args:
        dropout: float in [0, 1).
        initializer: Keras initializer of all matrices, or `None` for Keras'
            own: Glorot uniform, but for embeddings.
        dtype: dtype policy, or `None` for the global one.

    Raises:
        ValueError: for another dropout; the methods, for sizes that are not
            positive integers.
    """

    def __init__(self, dropout, initializer, dtype):
        require_rate("dropout", dropout)
        self.dropout = dropout
        self.initializer = keras.initializers.get(initializer)
        self._initializers = Initializers(self.initializer)
        self.policy = keras.dtype_policies.get(
            dtype or keras.config.dtype_policy()
        )
        self._count = 0

    def _initializer(self, default):
        self._count += 1
        return self._initializers.get(self._count, default)

    def embedding(self, vocabulary_size, embedding_dim, initializer, readers):
        """Makes an `Embedding`.

        Args:
            vocabulary_size, embedding_dim: integers.
            initializer: Keras initializer, or `None` for that of all matrices
                or else `layers.embeddings_start`.
            readers: recurrent layers that read the vectors.
        """
        require_positive_integer("vocabulary_size", vocabulary_size)
        require_positive_integer("embedding_dim", embedding_dim)
        return Embedding(
            vocabulary_size,
            embedding_dim,
            embeddings_initializer=initializer
            or self._initializer(layers.embeddings_start(readers)),
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

    def dropped(self, tensor, name):
        """Returns what a new dropout layer makes of a tensor."""
        return self.dropout_layer(name)(tensor)


def recurrent_layer(name, layer):
    """The layer of an argument that is a recurrent layer or a cell.

    Raises:
        ValueError: if it is neither, runs backwards or is `stateful`.
    """
    (layer,) = layers.as_recurrent_layers(name, [layer], at_least=1)
    return layer


def padded(name, rows):
    """Makes one array of sentences.

    Args:
        name: string, name of the argument.
        rows: list of 1-D integer arrays.

    Returns:
        int64 array `(batch, time)` and int32 array `(batch,)`, the lengths.

    Raises:
        ValueError: if there is no row, or one is empty or none of integers.
    """
    rows = [np.asarray(row) for row in rows]
    right = [
        row.ndim == 1 and len(row) and np.issubdtype(row.dtype, np.integer)
        for row in rows
    ]
    if not rows or not all(right):
        raise ValueError(
            f"`{name}` must hold sentences of at least one token each, strings "
            f"or 1-D arrays of ids. Received: {name}={rows!r}"
        )
    lengths = np.array([len(row) for row in rows], "int32")
    ids = np.zeros((len(rows), lengths.max()), "int64")
    for index, row in enumerate(rows):
        ids[index, : len(row)] = row
    return ids, lengths


def require_conditioning(conditioning, source, target):
    """Raises `ValueError` for a conditioning that two layers cannot have.

    Args:
        conditioning: `None`, or one of `CONDITIONINGS`.
        source, target: recurrent layers that read the sequences.
    """
    if conditioning not in (None, *CONDITIONINGS):
        raise ValueError(
            f"`conditioning` must be one of {CONDITIONINGS} or None. "
            f"Received: conditioning={conditioning!r}"
        )
    cell = getattr(target, "cell", None)
    if conditioning == "source" and not getattr(cell, "reads_source", False):
        raise ValueError(
            'conditioning="source" needs a layer that reads a source memory, '
            "such as `memlm_keras.cells.DualAssociativeGRUCell`. Received: "
            f"{target!r}"
        )
    if conditioning == "memory" and not getattr(cell, "continues_source", True):
        raise ValueError(
            'conditioning="memory" has no meaning for a '
            f"{type(cell).__name__}, whose memory is read whole: take "
            '"source", or None. Received: conditioning="memory"'
        )
    if conditioning is not None:
        _require_same_memory(source, target)


def _require_same_memory(source, target):
    cells = [getattr(layer, "cell", layer) for layer in (source, target)]
    remembered = [_memory_of(cell) for cell in cells]
    if remembered[0] != remembered[1]:
        names = [
            f"{type(cell).__name__} with {values}"
            for cell, values in zip(cells, remembered)
        ]
        raise ValueError(
            "The layers that read source and target must remember in the same "
            f"way. Received: {names[0]}, and {names[1]}"
        )


def _memory_of(cell):
    """Properties that two cells share, to read what the other wrote."""
    if hasattr(cell, "memory_identity"):
        return cell.memory_identity
    units = getattr(cell, "output_size", None)
    return {"units": units, "states": len(tree.flatten(cell.state_size))}


def starting_states(conditioning, states, reader):
    """The states that a target is read from, or `None` for empty ones.

    The first state is an output and the second what is remembered, where they
    are two: so do LSTMs and cells with an associative memory have it.

    Args:
        conditioning: `"memory"`, the target is read from the source's final
            memory on; `"source"`, that is the reader's source memory; or
            `None`.
        states: list of the source's final states.
        reader: recurrent layer that reads the target.
    """
    if conditioning is None:
        return None
    if conditioning == "source":
        return reader.cell.states_after_source(states)
    if len(states) == 1:
        return states
    count = len(tree.flatten(reader.get_initial_state(1)))
    empty = [ops.zeros_like(state) for state in states]
    return [empty[0], states[1], *empty[2:count]]

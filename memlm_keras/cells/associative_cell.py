"""Base of the cells with an associative memory.

Weissenborn (2016), "Neural Associative Memory for Dual-Sequence Modeling",
Sections 3 and 4.
"""

import keras
import numpy as np
from keras import ops

from memlm_keras.arguments import require_positive_integer
from memlm_keras.cells import complex_vectors
from memlm_keras.kernels import DistinctKernels

SOURCE_KEYS = ("shared", "separate")


class AssociativeCell(DistinctKernels, keras.layers.Layer):
    """A cell whose state is in a redundant associative memory.

    Its states are flat: the last output, `(B, k)`, the memory, `(B, N_c H)`,
    then what else the inner cell remembers; and, where there is a `source_key`,
    the memory of a source sequence, `(B, N_c H)`, which is read and never
    written.

    Keys of the copies are permuted by fixed permutations, which are weights
    that are not trained: they are drawn from `seed` and saved with the model.
    Cells of one seed, size and number of copies have the same.

    What is written to an empty memory is read back times `|r|^2`, number by
    number. So vectors that keys are made of must not be short, or keys be of
    unit modulus: models draw embeddings from U(-0.5, 0.5), which is the size of
    GloVe's, where nothing else is said and such a cell reads them.

    Args:
        memory_units: integer, numbers in a value of the memory, H.
        output_units: integer, k.
        num_copies: integer, redundant copies of the memory, N_c.
        seed: integer, from which the permutations follow.
        kernel_initializer: initializer of all matrices.
        key: string, one of `complex_vectors.KEYS`.
        **kwargs: arguments of `keras.layers.Layer`.

    Attributes:
        embedding_range: float r, embeddings begin as U(-r, r).
        source_key: `None`, `"shared"` or `"separate"`: whether a source memory
            is read, and under the key of the own memory or another.
        remainder: tuple of integers, sizes of what else is remembered.
    """

    embedding_range = 0.5
    source_key = None
    remainder = ()

    def __init__(
        self,
        memory_units,
        output_units,
        num_copies,
        seed,
        kernel_initializer,
        key,
        **kwargs,
    ):
        require_positive_integer("num_copies", num_copies)
        if key not in complex_vectors.KEYS:
            raise ValueError(
                f"`key` must be one of {', '.join(complex_vectors.KEYS)}. "
                f"Received: key={key!r}"
            )
        if memory_units % 2:
            raise ValueError(
                f"{type(self).__name__} keeps complex numbers, of two real "
                "ones each, so its `units` must be even. Received: "
                f"units={memory_units}"
            )
        super().__init__(kernel_initializer, **kwargs)
        self.memory_units = memory_units
        self.output_size = output_units
        self.num_copies = num_copies
        self.seed = seed
        self.key = key

    @property
    def state_size(self):
        """List of the sizes of the states."""
        flat = self.num_copies * self.memory_units
        # Where a step is masked, Keras takes the first for the output.
        sizes = [self.output_size, flat, *self.remainder]
        return sizes if self.source_key is None else [*sizes, flat]

    @property
    def reads_source(self):
        """Whether there is the memory of a source to read."""
        return self.source_key is not None

    @property
    def memory_identity(self):
        """Settings that a cell must share to read the memory of this one."""
        return {
            "memory_units": self.memory_units,
            "num_copies": self.num_copies,
            "seed": self.seed,
            "key": self.key,
        }

    def states_after_source(self, states):
        """The states to begin with after a source was read.

        Args:
            states: list of the final states of the source's cell, as of a call.

        Returns:
            List of tensors, as of a call: the source's memory, and empty ones.
        """
        empty = [ops.zeros_like(state) for state in states]
        return [*empty[: len(self.state_size) - 1], states[1]]

    @property
    def num_keys(self):
        """Number of keys that a step computes."""
        return 2 if self.source_key == "separate" else 1

    def build(self, inputs_shape):
        self.permutations = self.add_weight(
            name="permutations",
            shape=(self.num_copies, self.memory_units // 2),
            initializer=self._draw,
            dtype="int32",
            trainable=False,
        )

    def _draw(self, shape, dtype):
        copies, numbers = shape
        random = np.random.default_rng(self.seed)
        drawn = [random.permutation(numbers) for _ in range(copies - 1)]
        return ops.convert_to_tensor(
            np.array([np.arange(numbers), *drawn]), dtype=dtype
        )

    def get_initial_state(self, batch_size=None):
        """Returns zeros for each state: no output, an empty memory."""
        return [
            ops.zeros((batch_size, size), dtype=self.compute_dtype)
            for size in self.state_size
        ]

    def call(self, inputs, states, training=None):
        projected = self.project_inputs(inputs)
        output, states, _ = self.trace(projected, states, training)
        return output, states

    def copies(self, memory):
        """The copies of a flat memory `(B, N_c H)`.

        Returns:
            Pair of float tensors `(B, N_c, H / 2)`.
        """
        shape = (-1, self.num_copies, 2, self.memory_units // 2)
        parts = ops.reshape(memory, shape)
        return parts[:, :, 0], parts[:, :, 1]

    def flat(self, memory):
        """The way back of `copies`."""
        return ops.reshape(
            ops.stack(memory, axis=2),
            (-1, self.num_copies * self.memory_units),
        )

    def read_all(self, projected_keys, memories, permute, axis=-1):
        """Reads the memory and, where there is one, the source's.

        Args:
            projected_keys: float tensor `(B, num_keys H)`, what keys are
                made of.
            memories: list of the memory and, where there is one, the source's,
                each a pair, as of `copies`.
            permute: function from a key, a pair of `(B, H / 2)`, to its copies,
                a pair of `(B, N_c, H / 2)`.
            axis: integer, the axis of a key's numbers; 0 where all axes are
                the other way round.

        Returns:
            A tuple of the own memory's keys, a pair of `(B, N_c, H / 2)`, and
            a list of what was read of each memory, `(B, H)`.
        """
        keys = [
            permute(self.as_key(complex_vectors.split(projected, axis)))
            for projected in ops.split(projected_keys, self.num_keys, axis=axis)
        ]
        # A shared key is the last as well as the first.
        values = [
            complex_vectors.join(complex_vectors.read(key, memory), axis)
            for key, memory in zip([keys[0], keys[-1]], memories)
        ]
        return keys[0], values

    def as_key(self, vector):
        """Makes a key of a pair of `(..., H / 2)`, r of Equation 8."""
        return complex_vectors.normalize(vector, self.key)

    def memories(self, states):
        """The memory and, where there is one, the source's, as of `copies`."""
        flat = [states[1]]
        if self.source_key is not None:
            flat.append(states[-1])
        return [self.copies(memory) for memory in flat]

    def step(self, projected, states):
        """Computes one output and the new states, see `trace`."""
        return self.step_function()(projected, states)

    def step_function(self):
        """`step`, with what all steps of a sequence share made once."""
        shared = self.shared_by_steps()

        def step(projected, states):
            output, states, _ = self.trace(projected, states, shared=shared)
            return output, states

        return step

    def shared_by_steps(self):
        """Makes the matrix that all steps of a sequence permute keys by."""
        return complex_vectors.matrix_of(self.permutations, self.compute_dtype)

    def trace(self, projected, states, training=None, shared=None):
        """One step, and what it read and wrote.

        Args:
            projected: `(B, projected units)`, as of `project_inputs`.
            states: list of the states before.
            training: optional bool.
            shared: as of `shared_by_steps`, or `None` for just that.

        Returns:
            A tuple of the output, the list of new states, and a dict of float
            tensors `(B, H)`: the `"key"`, what was `"read"`, the `"state"` that
            it became, what was `"written"`, and, with a source memory, what was
            read of that, `"source"`.
        """
        raise NotImplementedError(
            f"{type(self).__name__} must implement `trace`."
        )

    def traced(self, key, values, state, written):
        """The dict that `trace` returns.

        Args:
            key: `(B, H)`.
            values: as of `read_all`.
            state: `(B, H)`, what the value became.
            written: `(B, H)`, the change.
        """
        names = ["read", "source"][: len(values)]
        return {
            "key": key,
            **dict(zip(names, values)),
            "state": state,
            "written": written,
        }

    def get_config(self):
        config = super().get_config()
        if self.source_key is not None:
            config["source_key"] = self.source_key
        return {
            **config,
            "num_copies": self.num_copies,
            "seed": self.seed,
            "key": self.key,
        }


def require_source_key(source_key):
    """Raises `ValueError` unless it is one of `SOURCE_KEYS`."""
    if source_key not in SOURCE_KEYS:
        raise ValueError(
            f"`source_key` must be one of {SOURCE_KEYS}. Received: "
            f"source_key={source_key!r}"
        )

"""What a case of the benchmark is: sizes, work, and who takes part."""

import dataclasses

import numpy as np


@dataclasses.dataclass(frozen=True)
class Contender:
    """One way to do the work of a case, which runs in a process of its own.

    Attributes:
        peer: string, module of `benchmarks.peers`.
        backend: string, whose library does the arithmetic.
        variant: string, what the module makes of the case.
        precision: string, a Keras dtype policy, or `"int8"` of what is
            exported.
        tolerance: float, by how much its loss may differ from that of the
            first that computes the same, relatively.
        computes: string, what it computes, if not what all of its case do.
    """

    peer: str
    backend: str
    variant: str = "plain"
    precision: str = "float32"
    tolerance: float = 1e-4
    computes: str = ""

    @property
    def name(self):
        parts = [self.peer, self.backend]
        if self.variant != "plain":
            parts.append(self.variant)
        if self.precision != "float32":
            parts.append(self.precision)
        return " ".join(parts)


@dataclasses.dataclass(frozen=True)
class Case:
    """Work that all of its contenders do alike.

    Attributes:
        name: string.
        title: string, what the work is.
        contenders: tuple of `Contender`s, first those that others are compared
            with.
        kind: string, `"training"` of a language model; `"memories"`, the same
            with more work than that of its LSTMs; `"layer"`, a recurrent layer
            alone, forward and backward; `"step"`, reading, a token at a time or
            more;
            `"smoothing"`, training on noised or smoothed words; or `"input"`,
            making batches alone.
        batch, time, vocabulary, units, embedding, layers: integers.
        tied: bool, whether embedding and output share a matrix.
        window: integer, of a memory.
        copies: integer, of an associative memory.
        over: dict of variants, each with the variant that it is compared with,
            by the same peer and backend; without, it is the first contender.
    """

    name: str
    title: str
    contenders: tuple
    kind: str = "training"
    batch: int = 32
    time: int = 35
    vocabulary: int = 10_000
    units: int = 650
    embedding: int = 650
    layers: int = 1
    tied: bool = False
    window: int = 5
    copies: int = 8
    over: dict = dataclasses.field(default_factory=dict)

    def base(self, contender):
        """Name of the contender that one is compared with."""
        variant = self.over.get(contender.variant)
        same = (contender.peer, contender.backend, variant)
        for other in self.contenders:
            if (other.peer, other.backend, other.variant) == same:
                return other.name
        return self.contenders[0].name

    @property
    def tokens(self):
        """Tokens of a step."""
        return self.batch * self.time

    @property
    def flop(self):
        """Floating-point operations of a step's matrix products, or `None`.

        Known for LSTMs alone: four gates read inputs and outputs, the head
        reads outputs, and the backward pass has two products for each.
        """
        if self.kind != "training":
            return None
        below = [self.embedding, *[self.units] * (self.layers - 1)]
        gates = sum(8 * self.units * (size + self.units) for size in below)
        return 3 * self.tokens * (gates + 2 * self.units * self.vocabulary)

    def batches(self, steps):
        """Token ids of some steps.

        Returns:
            `(inputs, targets)`: int32 arrays `(steps, batch, time)`.
        """
        random = np.random.default_rng(0)
        shape = (self.batch, steps * self.time + 1)
        # Words as frequent as in a text: the gradient of a table sees repeats.
        tokens = (random.zipf(1.3, shape) - 1) % self.vocabulary
        tokens = tokens.astype("int32")

        def cut(rows):
            rows = rows.reshape(self.batch, steps, self.time)
            return np.ascontiguousarray(rows.transpose(1, 0, 2))

        return cut(tokens[:, :-1]), cut(tokens[:, 1:])

    def draw(self, shapes):
        """Weights to begin with: the same numbers for the same shapes.

        Args:
            shapes: shapes of all weights, in the order of Keras.

        Returns:
            List of float32 arrays.
        """
        random = np.random.default_rng(1)
        return [
            random.uniform(-0.05, 0.05, shape).astype("float32")
            for shape in shapes
        ]

    def weights(self, memory=(), outputs=None):
        """Weights that all contenders begin with, by the names of Keras.

        Args:
            memory: shapes of the weights of a memory.
            outputs: integer, what it gives on, if not the units.

        Returns:
            Dict of float32 arrays: `embedding`, `kernel_i`,
            `recurrent_kernel_i`, `bias_i` of each layer, `memory_i` of each
            weight of the memory, `output_kernel` unless it is tied, and
            `output_bias`.
        """
        shapes = {"embedding": (self.vocabulary, self.embedding)}
        size, units = self.embedding, self.units
        for layer in range(self.layers):
            shapes[f"kernel_{layer}"] = (size, 4 * units)
            shapes[f"recurrent_kernel_{layer}"] = (units, 4 * units)
            shapes[f"bias_{layer}"] = (4 * units,)
            size = units
        shapes |= {f"memory_{i}": shape for i, shape in enumerate(memory)}
        if not self.tied:
            shapes["output_kernel"] = (outputs or size, self.vocabulary)
        shapes["output_bias"] = (self.vocabulary,)
        return dict(zip(shapes, self.draw(shapes.values())))

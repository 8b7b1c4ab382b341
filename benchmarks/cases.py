"""Cases of the benchmark: sizes, work and contenders."""

import dataclasses
import functools

import numpy as np


@dataclasses.dataclass(frozen=True)
class Contender:
    """One implementation of a case, which runs in its own process.

    Attributes:
        peer: string, module of `benchmarks.peers`.
        backend: string, the library that computes.
        variant: string, the model that the module makes for the case.
        precision: string, a Keras dtype policy, or `"int8"` for exports.
        tolerance: float, largest relative difference between this loss and the
            loss of the first contender with the same `computes`.
        computes: string, name of the computation, if the case has several.
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
    """The work that all contenders of a benchmark do.

    Attributes:
        name: string.
        title: string, description of the work.
        contenders: tuple of `Contender`s; the first is the usual baseline.
        kind: string. `"training"`: a language model; `"memories"`: a language
            model with a memory; `"layer"`: forward and backward pass of a
            recurrent layer; `"step"`: reading one or more tokens;
            `"smoothing"`: training on noised or smoothed words; `"input"`:
            making batches.
        batch, time, vocabulary, units, embedding, layers: integers.
        tied: bool, whether embedding and output share a matrix.
        window: integer, window of a memory.
        copies: integer, copies of an associative memory.
        over: dict from a variant to its baseline, a variant of the same peer
            and backend. The default baseline is the first contender.
        over_library: bool, whether the default baseline is the first contender
            of the same backend.
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
    over_library: bool = False

    def base(self, contender):
        """Returns the name of the contender's baseline."""
        variant = self.over.get(contender.variant)
        same = (contender.peer, contender.backend, variant)
        for other in self.contenders:
            if (other.peer, other.backend, other.variant) == same:
                return other.name
        return next(
            other.name
            for other in self.contenders
            if not self.over_library or other.backend == contender.backend
        )

    @property
    def tokens(self):
        """Number of tokens of a step."""
        return self.batch * self.time

    @property
    def flop(self):
        """Floating-point operations of a step's matrix products, or `None`.

        Four gates of an LSTM read inputs and outputs, and the head reads
        outputs. The backward pass has two products for each forward product.
        """
        if self.kind != "training":
            return None
        below = [self.embedding, *[self.units] * (self.layers - 1)]
        gates = sum(8 * self.units * (size + self.units) for size in below)
        return 3 * self.tokens * (gates + 2 * self.units * self.vocabulary)

    def batches(self, steps):
        """Makes inputs and targets, int32 arrays `(steps, batch, time)`."""
        return _batches(steps, self.batch, self.time, self.vocabulary)

    def lengths(self):
        """Draws the lengths of padded rows, an array `(batch,)`."""
        longest = self.time + 1
        return np.random.default_rng(3).integers(
            longest // 2, longest, self.batch
        )

    def inputs(self):
        """Draws inputs of a layer, float32 `(batch, time, embedding)`."""
        shape = (self.batch, self.time, self.embedding)
        return np.random.default_rng(2).normal(size=shape).astype("float32")

    def draw(self, shapes):
        """Draws initial weights with shapes in Keras' order."""
        random = np.random.default_rng(1)
        return [
            random.uniform(-0.05, 0.05, shape).astype("float32")
            for shape in shapes
        ]

    def weights(self, memory=(), outputs=None):
        """Draws a dict of initial weights; `memory` lists a memory's shapes."""
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


# Keep batches: drawing them takes as long as a small model's steps on a GPU.
@functools.lru_cache(maxsize=4)
def _batches(steps, batch, time, vocabulary):
    random = np.random.default_rng(0)
    # Words repeat as in real texts, and so do rows of embedding gradients.
    tokens = random.zipf(1.3, (batch, steps * time + 1)) - 1
    tokens = (tokens % vocabulary).astype("int32")

    def cut(rows):
        rows = rows.reshape(batch, steps, time)
        return np.ascontiguousarray(rows.transpose(1, 0, 2))

    return cut(tokens[:, :-1]), cut(tokens[:, 1:])

"""Cases of the benchmark: sizes, work, and who takes part."""

import dataclasses

import numpy as np

BACKENDS = ("tensorflow", "jax", "torch")


@dataclasses.dataclass(frozen=True)
class Contender:
    """One way to do the work of a case, which runs in a process of its own.

    Attributes:
        peer: string, module of `benchmarks.peers`.
        backend: string, whose library does the arithmetic.
        variant: string, what the module makes of the case.
        precision: string, a Keras dtype policy.
        tolerance: float, by how much its loss may differ from that of the
            first, relatively.
    """

    peer: str
    backend: str
    variant: str = "plain"
    precision: str = "float32"
    tolerance: float = 1e-4

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
        kind: string, `"training"` of a language model, `"memories"`, the same
            with more work than that of its LSTMs, or `"layer"`, a recurrent
            layer alone, forward and backward.
        batch, time, vocabulary, units, embedding, layers: integers.
        tied: bool, whether embedding and output share a matrix.
        window: integer, of a memory.
        copies: integer, of an associative memory.
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
        """Token ids of so many steps.

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

    def weights(self):
        """Weights that all contenders begin with, by the names of Keras.

        Returns:
            Dict of float32 arrays: `embedding`, `kernel_i`,
            `recurrent_kernel_i`, `bias_i` of each layer, `output_kernel`
            unless it is tied, and `output_bias`.
        """
        random = np.random.default_rng(1)

        def draw(*shape):
            return random.uniform(-0.05, 0.05, shape).astype("float32")

        weights = {"embedding": draw(self.vocabulary, self.embedding)}
        size = self.embedding
        for layer in range(self.layers):
            weights[f"kernel_{layer}"] = draw(size, 4 * self.units)
            weights[f"recurrent_kernel_{layer}"] = draw(
                self.units, 4 * self.units
            )
            weights[f"bias_{layer}"] = draw(4 * self.units)
            size = self.units
        if not self.tied:
            weights["output_kernel"] = draw(size, self.vocabulary)
        weights["output_bias"] = draw(self.vocabulary)
        return weights


def _package(*variants, precision="float32", tolerance=None):
    if tolerance is None:
        # Other variants are other models, with losses of their own.
        tolerance = float("inf") if variants else 1e-4
    return tuple(
        Contender("package", backend, variant, precision, tolerance)
        for backend in BACKENDS
        for variant in variants or ("plain",)
    )


CASES = {
    case.name: case
    for case in (
        Case(
            "zaremba_medium",
            "Two LSTM layers of 650 units, tied, 32 rows of 35 steps",
            (
                Contender("pytorch", "torch"),
                Contender("handwritten_jax", "jax"),
                # Their state is not carried from batch to batch.
                *(
                    Contender("plain_keras", backend, tolerance=1e-3)
                    for backend in BACKENDS
                ),
                *_package(),
                # Without the implementations of `memlm_keras.cells.fused`.
                Contender("package", "jax", "layers_of_keras"),
                Contender("package", "torch", "layers_of_keras"),
            ),
            layers=2,
            tied=True,
        ),
        Case(
            "zaremba_medium_bfloat16",
            "The same in mixed bfloat16, beside float32 and autocast",
            (
                Contender("pytorch", "torch"),
                Contender(
                    "pytorch",
                    "torch",
                    precision="mixed_bfloat16",
                    tolerance=0.01,
                ),
                *_package(),
                *_package(precision="mixed_bfloat16", tolerance=0.01),
            ),
            layers=2,
            tied=True,
        ),
        Case(
            "memories",
            "A step with a memory over an LSTM of the same hidden and output "
            "sizes",
            # Parts: what of an LSTM's outputs a memory gives on.
            _package(
                "lstm",
                "lstm_3_parts",
                "key_value_predict",
                "ngram_4",
                "attention",
                "rm_tm_gated",
                "attentive_single",
                "attentive_combined",
            ),
            kind="memories",
            batch=64,
            time=20,
            units=600,
            embedding=300,
        ),
        Case(
            "long_window",
            "The same with a window of 64 steps",
            _package(
                "lstm",
                "lstm_2_parts",
                "lstm_3_parts",
                "attention",
                "key_value",
                "key_value_predict",
            ),
            kind="memories",
            batch=64,
            time=64,
            units=96,
            embedding=64,
            vocabulary=2_000,
            window=64,
        ),
        Case(
            "associative_layer",
            "Recurrent layers alone, forward and backward, of 100 units",
            _package("gru", "associative_gru", "dual_associative_gru"),
            kind="layer",
            batch=50,
            time=20,
            units=100,
            embedding=100,
        ),
    )
}

SUITES = {"cpu": tuple(CASES), "gpu": tuple(CASES)}

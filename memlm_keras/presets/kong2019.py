"""Rows of Kong, Melis, Ling, Yu and Yogatama (2019), Table 2.

docs/papers/kong2019.md lists the paper's errata and our choices.
"""

import dataclasses

from memlm_keras.presets.rows import SummedLossRow
from memlm_keras.presets.rows import projected_rnn
from memlm_keras.presets.rows import serialized
from memlm_keras.presets.table import Table
from memlm_keras.presets.table import perplexities
from memlm_keras.presets.table import table_rows
from memlm_keras.registry import Paper

# Values of hyperparameters to try; validation perplexity selects the best.
TUNED = {
    "learning_rate": [0.002, 0.003, 0.004],
    "l2": [1e-4, 1e-3],
    "rate": [0.1, 0.2, 0.3, 0.4],
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class KongRow(SummedLossRow):
    """Two LSTM layers, trained with noise, smoothing or neither."""

    where: str = "Section 5 and Table 2"
    layers: int = 2
    tied: bool = True
    noise: str | None = None
    # Name of a smoothing scheme; `model.smoothing.adapt` sets its statistics.
    smoothing: str | None = None
    element_wise: bool = False
    rate: float = 0.2
    # Weight of the penalty in the loss. The penalty is the divergence from the
    # prior for smoothed matrices, and the sum of squares for the matrices that
    # are not smoothed. Biases have no penalty.
    l2: float = 1e-4
    # The paper does not say whether the output projection has a bias.
    output_bias: bool = True
    dropout: float
    recurrent_dropout: float = 0.2
    learning_rate: float = 0.003
    batch_size: int = 64
    # Our choices, since the paper states none: `epochs`, `patience`, weights
    # from U(-0.05, 0.05), a forget-gate bias of 1, a loss summed over time.
    epochs: int | None = 100
    patience: int | None = 10

    def model(self):
        penalty = serialized("keras.regularizers.L2", l2=self.l2)
        layer = projected_rnn(
            "memlm_keras.cells.RecurrentDropoutLSTMCell",
            units=self.units,
            **{**self.drawn, "bias_initializer": "zeros"},
            kernel_regularizer=penalty,
            recurrent_regularizer=penalty,
            rate=self.recurrent_dropout,
        )
        if self.smoothing is None:
            embedding = serialized(
                "memlm_keras.embeddings.Embedding",
                embeddings_initializer=self.weights,
                embeddings_regularizer=penalty,
            )
        else:
            embedding = serialized(
                "memlm_keras.smoothing.SmoothedEmbedding",
                smoothing=serialized(
                    "memlm_keras.smoothing.VariationalSmoothing",
                    scheme=self.smoothing,
                    rate=self.rate,
                    element_wise=self.element_wise,
                    l2=self.l2,
                ),
                embeddings_initializer=self.weights,
            )
        head, settings = "heads.TiedProjection", {}
        if self.smoothing == "kneser_ney":
            head = "smoothing.SmoothedProjection"
        elif not self.tied:
            head = "heads.OutputProjection"
            settings = {
                "kernel_initializer": self.weights,
                "kernel_regularizer": penalty,
            }
        return self.language_model(
            [layer] * self.layers,
            dropout={"embeddings": self.dropout, "outputs": self.dropout},
            tie_embeddings=self.tied,
            embedding=embedding,
            head=serialized(
                f"memlm_keras.{head}", use_bias=self.output_bias, **settings
            ),
        )

    def optimizer(self):
        return serialized(
            "keras.optimizers.RMSprop",
            learning_rate=self.learning_rate,
            global_clipnorm=self.clipnorm,
        )

    def more(self):
        noise = None
        if self.noise is not None:
            noise = {"scheme": self.noise, "rate": self.rate}
        return {"noise": noise, "l2": self.l2, "tuned": TUNED}


# The settings of each method and, for each number of units, the published
# validation and test perplexities on Penn Treebank, then on WikiText-2.
_METHODS = {
    "vanilla_untied": (
        {"tied": False},
        {512: (89.6, 84.5, 106.3, 100.8), 1024: (90.3, 85.5, 97.6, 91.9)},
    ),
    "vanilla_tied": (
        {},
        {512: (80.0, 74.0, 90.6, 86.6), 1024: (75.9, 70.2, 85.2, 81.0)},
    ),
    "dn_linear": (
        {"noise": "linear_interpolation"},
        {512: (79.4, 73.3, 88.9, 84.6), 1024: (75.5, 70.2, 84.3, 80.1)},
    ),
    "dn_kneser_ney": (
        {"noise": "kneser_ney"},
        {512: (75.0, 70.7, 86.1, 82.1), 1024: (71.4, 67.3, 81.9, 78.3)},
    ),
    "vs_linear": (
        {"smoothing": "linear_interpolation"},
        {512: (76.3, 71.2, 84.0, 79.6), 1024: (71.7, 67.8, 80.5, 76.6)},
    ),
    "vs_kneser_ney": (
        {"smoothing": "kneser_ney"},
        {512: (74.5, 70.6, 84.9, 80.9), 1024: (70.8, 66.9, 80.9, 76.7)},
    ),
    "vs_elementwise": (
        {"smoothing": "kneser_ney", "element_wise": True},
        {512: (70.5, 66.8, None, None), 1024: (68.6, 64.5, None, None)},
    ),
}
_DROPOUT = {512: 0.5, 1024: 0.7}

ROWS = {
    f"{method}_{units}": KongRow(
        units=units,
        # Each of the two layers has four gates. Each word adds an embedding
        # vector, a bias and, if the embeddings are not tied, an output vector.
        parameters=(
            16 * units**2 + 8 * units,
            (units if settings.get("tied", True) else 2 * units) + 1,
        ),
        dropout=_DROPOUT[units],
        published=(
            perplexities("Penn Treebank", *numbers[:2]),
            perplexities("WikiText-2", *numbers[2:]),
        ),
        **settings,
    )
    for method, (settings, published) in _METHODS.items()
    for units, numbers in published.items()
}


TABLES = (
    Table(
        name="ptb",
        title="Table 2, Penn Treebank",
        rows=table_rows("kong2019", ROWS, corpus="Penn Treebank"),
        dataset="ptb",
    ),
    Table(
        name="wikitext2",
        title="Table 2, WikiText-2",
        rows=table_rows("kong2019", ROWS, corpus="WikiText-2"),
        dataset="wikitext-2",
    ),
    Table(
        name="grid",
        title="Figure 1, validation perplexity by gamma",
        rows=tuple(
            dataclasses.replace(row, published=(), grid={"rate": TUNED["rate"]})
            for row in table_rows(
                "kong2019", {"vs_kneser_ney_512": ROWS["vs_kneser_ney_512"]}
            )
        ),
        dataset="ptb",
        lines=("rate", "dev"),
        choose_by="dev",
    ),
)

PAPER = Paper(
    name="kong2019",
    title="Variational Smoothing in Recurrent Neural Network Language Models",
    authors=("Kong", "Melis", "Ling", "Yu", "Yogatama"),
    year=2019,
    where="ICLR; arXiv:1901.09296",
    rows=ROWS,
    tables=TABLES,
)

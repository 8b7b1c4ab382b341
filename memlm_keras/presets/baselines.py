"""Rows and tables of the papers that Salton et al. (2017) compare with.

docs/papers/baselines.md lists the papers' errata and our choices.
"""

import dataclasses

from memlm_keras.presets import weissenborn2016
from memlm_keras.presets.rows import SummedLossRow
from memlm_keras.presets.rows import UniformRow
from memlm_keras.presets.rows import projected_rnn
from memlm_keras.presets.rows import serialized
from memlm_keras.presets.table import OF_PERPLEXITIES
from memlm_keras.presets.table import PERPLEXITIES
from memlm_keras.presets.table import Measure
from memlm_keras.presets.table import Table
from memlm_keras.presets.table import perplexities
from memlm_keras.presets.table import table_rows
from memlm_keras.registry import Paper

PTB = "Penn Treebank"
WIKITEXT2 = "WikiText-2"

# === Zaremba et al. (2014) ===


@dataclasses.dataclass(frozen=True, kw_only=True)
class ZarembaRow(SummedLossRow):
    """Two LSTM layers with dropout between them."""

    where: str = "Section 4.1 and Table 1"
    layers: int = 2
    dropout: float = 0.0
    tied: bool | None = None
    # Whether an extra projection with an L2 penalty precedes the softmax.
    penalized: bool = False

    def model(self):
        memory = None
        if self.penalized:
            memory = serialized(
                "memlm_keras.memory.Projection",
                kernel_initializer=self.weights,
                activation="linear",
                use_bias=True,
                bias_initializer=self.weights,
                # This weight is from the authors' code; the paper prints 0.15.
                kernel_regularizer=serialized(
                    "keras.regularizers.L2", l2=0.5 / (6.5 * self.batch_size)
                ),
            )
        return self.language_model(
            self.lstms(self.layers, unit_forget_bias=False),
            memory,
            dropout=self.dropout,
            tie_embeddings=self.tied,
        )


# Sizes and schedules of Zaremba et al. and of Gal and Ghahramani.
_MEDIUM = {
    "units": 650,
    "embedding_dim": 650,
    "parameters": (6_765_200, 1301),
    "epochs": 39,
    "halve_after": 6,
    "factor": 1 / 1.2,
}
_LARGE = {
    "units": 1500,
    "embedding_dim": 1500,
    "parameters": (36_012_000, 3001),
    "initial_range": 0.04,
    "clipnorm": 10.0,
    "epochs": 55,
    "factor": 1 / 1.15,
}

ZAREMBA = Paper(
    name="zaremba2014",
    title="Recurrent Neural Network Regularization",
    authors=("Zaremba", "Sutskever", "Vinyals"),
    year=2014,
    where="arXiv:1409.2329",
    rows={
        "small": ZarembaRow(
            units=200,
            embedding_dim=200,
            parameters=(641_600, 401),
            initial_range=0.1,
            segment_length=20,
            epochs=13,
            halve_after=4,
            factor=0.5,
            published=(perplexities(PTB, 120.7, 114.5),),
        ),
        "medium": ZarembaRow(
            **_MEDIUM, dropout=0.5, published=(perplexities(PTB, 86.2, 82.7),)
        ),
        "large": ZarembaRow(
            **_LARGE,
            dropout=0.65,
            halve_after=14,
            published=(perplexities(PTB, 82.2, 78.4),),
        ),
    },
)

# === Gal and Ghahramani (2016) ===


@dataclasses.dataclass(frozen=True, kw_only=True)
class GalRow(ZarembaRow):
    """Two LSTM layers with variational dropout."""

    where: str = "Table 1"
    # The authors' code has these rates for the large model. We also use them
    # for the medium model.
    dropout: float = 0.5
    recurrent_dropout: float = 0.3
    word_dropout: float = 0.3
    # Unlike the authors' code, Keras multiplies the decay by the learning rate.
    weight_decay: float | None = 1e-7

    def model(self):
        return {
            **super().model(),
            "recurrent": self.lstms(
                self.layers,
                unit_forget_bias=False,
                dropout=self.dropout,
                recurrent_dropout=self.recurrent_dropout,
            ),
            "dropout": {"outputs": self.dropout, "variational": True},
            "embedding": serialized(
                "memlm_keras.embeddings.Embedding",
                word_dropout=self.word_dropout,
                embeddings_initializer=self.weights,
            ),
        }

    def optimizer(self):
        optimizer = super().optimizer()
        if self.weight_decay is not None:
            optimizer["config"]["weight_decay"] = self.weight_decay
        return optimizer


GAL = Paper(
    name="gal2016",
    title=(
        "A Theoretically Grounded Application of Dropout in Recurrent Neural "
        "Networks"
    ),
    authors=("Gal", "Ghahramani"),
    year=2016,
    where="NIPS; arXiv:1512.05287",
    rows={
        "medium": GalRow(
            **_MEDIUM,
            published=(
                perplexities(PTB, 81.9, 79.7, monte_carlo_test_perplexity=78.6),
            ),
        ),
        "large": GalRow(
            **_LARGE,
            # The authors' code begins to reduce the rate in the twelfth epoch.
            halve_after=11,
            published=(
                perplexities(PTB, 77.9, 75.2, monte_carlo_test_perplexity=73.4),
            ),
        ),
    },
)

# === Press and Wolf (2016) ===


def _press(row, parameters, numbers, **changes):
    """Returns `row` with `changes`; by default, with tied embeddings."""
    changes = {"tied": True, **changes}
    if changes["tied"]:
        # Tied embeddings have the size of the recurrent layers.
        changes["embedding_dim"] = None
    return dataclasses.replace(
        row,
        where="Section 4",
        parameters=parameters,
        published=(perplexities(PTB, *numbers),),
        **changes,
    )


_SMALL = ZAREMBA.rows["small"]
PRESS = Paper(
    name="press2016",
    title="Using the Output Embedding to Improve Language Models",
    authors=("Press", "Wolf"),
    year=2016,
    where="EACL 2017; arXiv:1608.05859",
    rows={
        "small_wt": _press(_SMALL, (641_600, 201), (117.5, 112.4)),
        "small_pr": _press(
            _SMALL, (681_800, 401), (116.0, 111.7), tied=False, penalized=True
        ),
        "small_wt_pr": _press(
            _SMALL, (681_800, 201), (104.9, 100.9), penalized=True
        ),
        "large_wt": _press(
            ZAREMBA.rows["large"], (36_012_000, 1501), (77.7, 74.3)
        ),
        "large_wt_bd": _press(
            GAL.rows["large"],
            (36_012_000, 1501),
            (75.8, 73.2),
            weight_decay=None,
        ),
    },
)

# === Grave et al. (2017) ===


@dataclasses.dataclass(frozen=True, kw_only=True)
class GraveRow(UniformRow):
    """One LSTM layer, with or without a cache of `cache_size` outputs."""

    where: str = "Section 5"
    units: int = 1024
    embedding_dim: int | None = 1024
    cache_size: int | None = None
    segment_length: int = 30
    # The paper does not state `epochs`, `patience`, the size of the embeddings,
    # whether the projection is tied and has a bias, the initial bias of the
    # forget gate, and the cache's thetas and weights.
    epochs: int | None = 100
    patience: int | None = 10

    def model(self):
        mixture = None
        if self.cache_size is not None:
            mixture = serialized(
                "memlm_keras.mixtures.NeuralCache", size=self.cache_size
            )
        return self.language_model(
            self.lstms(1, unit_forget_bias=False), dropout=0.65, mixture=mixture
        )

    def optimizer(self):
        return serialized(
            "keras.optimizers.Adagrad",
            learning_rate=0.2,
            global_clipnorm=0.1,
            # Keras' default, 0.1, would outweigh the accumulated squares: the
            # squared norm of a clipped gradient is at most 0.01.
            initial_accumulator_value=0.0,
        )

    def more(self):
        if self.cache_size is None:
            return {"cache": None}
        return {
            "cache": {
                "size": self.cache_size,
                "thetas": [round(0.1 * step, 1) for step in range(11)],
                "weights": [round(0.05 * step, 2) for step in range(1, 11)],
            }
        }


GRAVE = Paper(
    name="grave2017",
    title="Improving Neural Language Models with a Continuous Cache",
    authors=("Grave", "Joulin", "Usunier"),
    year=2017,
    where="ICLR; arXiv:1612.04426",
    rows={
        name: GraveRow(
            parameters=(8_392_704, 2049),
            cache_size=size,
            published=(perplexities(corpus, test=test),),
        )
        for name, corpus, size, test in (
            ("ptb_lstm", PTB, None, 82.3),
            ("ptb_cache_500", PTB, 500, 72.1),
            ("wikitext2_lstm", WIKITEXT2, None, 99.3),
            ("wikitext2_cache_100", WIKITEXT2, 100, 81.6),
            ("wikitext2_cache_2000", WIKITEXT2, 2000, 68.9),
        )
    },
)

# === Merity et al. (2017) ===


@dataclasses.dataclass(frozen=True, kw_only=True)
class MerityRow(SummedLossRow):
    """Two LSTM layers with zoneout, with or without a pointer."""

    where: str = "Tables 2 and 3"
    units: int = 650
    embedding_dim: int | None = 650
    layers: int = 2
    window: int | None = None
    dropout: float = 0.5
    # Krueger et al. use these zoneout rates for character-level models.
    cell_zoneout: float = 0.5
    hidden_zoneout: float = 0.05
    # The paper does not state the initial bias of the forget gate, or whether
    # the loss is summed over time.
    batch_size: int = 32
    segment_length: int = 100
    clipnorm: float = 1.0
    epochs: int | None = 64
    patience: int | None = 3

    def model(self):
        layer = projected_rnn(
            "memlm_keras.cells.ZoneoutLSTMCell",
            units=self.units,
            **self.drawn,
            unit_forget_bias=False,
            cell_zoneout=self.cell_zoneout,
            hidden_zoneout=self.hidden_zoneout,
        )
        mixture = None
        if self.window is not None:
            mixture = serialized(
                "memlm_keras.mixtures.PointerSentinel",
                window=self.window,
                kernel_initializer=self.weights,
            )
        return self.language_model(
            [layer] * self.layers,
            dropout={
                "embeddings": self.dropout,
                "between": self.dropout,
                "outputs": self.dropout,
                "variational": True,
            },
            mixture=mixture,
        )

    def schedule(self):
        # Keras' callback compares with the best epoch, the paper with the last.
        halving = {"monitor": "val_nats", "factor": 0.5, "patience": 0}
        return {**super().schedule(), "reduce_on_plateau": halving}


def _merity(corpus, validation, test, window=None):
    return MerityRow(
        window=window,
        parameters=(6_765_200 if window is None else 7_189_000, 1301),
        published=(perplexities(corpus, validation, test),),
    )


MERITY = Paper(
    name="merity2017",
    title="Pointer Sentinel Mixture Models",
    authors=("Merity", "Xiong", "Bradbury", "Socher"),
    year=2017,
    where="ICLR; arXiv:1609.07843",
    rows={
        "ptb_zoneout_variational": _merity(PTB, 84.4, 80.6),
        "ptb_pointer_sentinel": _merity(PTB, 72.4, 70.9, window=100),
        "wikitext2_variational_lstm": dataclasses.replace(
            GAL.rows["medium"],
            where=MerityRow.where,
            published=(perplexities(WIKITEXT2, 101.7, 96.3),),
        ),
        "wikitext2_zoneout_variational": _merity(WIKITEXT2, 108.7, 100.9),
        "wikitext2_pointer_sentinel": _merity(
            WIKITEXT2, 84.8, 80.8, window=100
        ),
    },
)

# === Tables ===

PAPERS = (ZAREMBA, PRESS, GAL, GRAVE, MERITY)

MEASURES = (
    *PERPLEXITIES,
    Measure("dev, cache", ("cache", "validation", "perplexity"), optional=True),
    Measure("test, cache", ("cache", "test", "perplexity"), optional=True),
    Measure(
        "test, Monte Carlo",
        ("monte_carlo", "test", "perplexity"),
        optional=True,
    ),
)


def _rows(corpus):
    for paper in (*PAPERS, weissenborn2016.PAPER):
        for name, row in paper.rows.items():
            if row.kind == "LanguageModel":
                cached = getattr(row, "cache_size", None) is not None
                names = {
                    key: f"{name}, cache" if cached else name
                    for key, name in OF_PERPLEXITIES.items()
                }
                names["monte_carlo_test_perplexity"] = "test, Monte Carlo"
                yield from table_rows(paper.name, {name: row}, names, corpus)


TABLES = Paper(
    name="baselines",
    rows={},
    title="Baselines of Salton et al. (2017), and others",
    tables=tuple(
        Table(
            name=name,
            title=corpus,
            rows=tuple(_rows(corpus)),
            measures=MEASURES,
            dataset=dataset,
        )
        for name, corpus, dataset in (
            ("ptb", PTB, "ptb"),
            ("wikitext2", WIKITEXT2, "wikitext-2"),
        )
    ),
)

"""Claims of the five papers: what is compared, how it is decided, our verdicts.

`memlm claims` trains both models of a claim with several seeds, keeps small
text files of the finished runs, and writes `claims.md` from these files alone.
"""

import concurrent.futures
import dataclasses
import glob
import json
import math
import pathlib
import shlex
import shutil
import statistics
import threading
import time

import keras
import numpy as np

from memlm_keras import files
from memlm_keras import presets
from memlm_keras.evaluation import sentence_losses
from memlm_keras.experiments import report
from memlm_keras.experiments.datasets import evaluation_batches
from memlm_keras.experiments.experiment import again
from memlm_keras.experiments.options import CLASSIFIER
from memlm_keras.experiments.options import UsageError
from memlm_keras.experiments.options import nearest
from memlm_keras.experiments.run_folder import RunFolder
from memlm_keras.experiments.subcommands import as_flag
from memlm_keras.experiments.table import experiment_of
from memlm_keras.experiments.table_runs import in_fresh_process
from memlm_keras.experiments.table_runs import train_one

HOLDS = "holds"
DOES_NOT_HOLD = "does not hold"
NOT_DECIDED = "not decided at this size"
NOT_RUN = "not run"
SEEN = "seen, not compared"

LOSSES = "test_losses.csv"
_COPIED = ("results.json", "log.csv")

# The share of intervals that may miss, and of claims that may be wrong.
_LEVEL = 0.05
# Nats a token, or shares of pairs, that are too small for a claim.
_SMALLEST = 0.005


@dataclasses.dataclass(frozen=True)
class Setting:
    """A corpus and sizes that all runs of some claims share.

    Args:
        name: string.
        description: string, in words.
        datasets: pair of strings, at the small size and at the paper's.
        small: dict of overrides and options of training, at a size that a
            machine without an accelerator can train.
        paper: dict of the same at the paper's size.
        seeds: integer, the number of runs of a model that decides; more runs
            that are kept count as well.
    """

    name: str
    description: str
    datasets: tuple
    small: dict
    paper: dict
    seeds: int = 3


@dataclasses.dataclass(frozen=True)
class Claim:
    """A statement of a paper that compares two models.

    Args:
        name: string.
        paper: string, name of the paper's presets.
        where: string, where in the paper it stands.
        statement: string.
        published: string, the paper's numbers and their text.
        settings: tuple of names of `Setting`s; empty where it cannot be tested.
        better, than: strings, presets of the model that is said to be better
            and of the other, each with its own flags, if any.
        margin: float, for a claim that two models are equally good: the
            difference of losses that does not matter; `None` for a claim that
            one is better.
        missing: string, why it cannot be tested, and what could test it.
        seen: string, for a claim that compares no two models: what our models
            show.
        caution: string, what a verdict at the small size does not show.
    """

    name: str
    paper: str
    where: str
    statement: str
    published: str
    settings: tuple = ()
    better: str | None = None
    than: str | None = None
    margin: float | None = None
    missing: str = ""
    seen: str = ""
    caution: str = ""


# === The settings ===

_LITTLE_TEXT = {
    "training_lines": 1000,
    "other_words": "sample",
    "output_bias": True,
}

SETTINGS = {
    setting.name: setting
    for setting in (
        Setting(
            "kong2019_little_text",
            "Penn Treebank, the first 1,000 lines of its training text, two "
            "layers of 100 units, until the best epoch is past",
            ("ptb", "ptb"),
            {
                **_LITTLE_TEXT,
                "units": 100,
                "rate": 0.2,
                "dropout": 0.1,
                "batch_size": 10,
                "segment_length": 20,
                "epochs": 40,
                "patience": 6,
            },
            _LITTLE_TEXT,
        ),
        Setting(
            "kong2019",
            "Penn Treebank, two layers of 200 units; an epoch of one model "
            "takes a CPU core seven minutes",
            ("ptb", "ptb"),
            {
                "units": 200,
                "rate": 0.1,
                "epochs": 40,
                "patience": 3,
                "other_words": "sample",
                "output_bias": True,
            },
            {"rate": 0.2, "other_words": "sample", "output_bias": True},
        ),
        Setting(
            "daniluk2017_penn_treebank",
            "Penn Treebank, the paper's sizes times 0.4, until dev turns, at "
            "a learning rate of 0.003",
            ("ptb", "ptb"),
            {
                "scale": 0.4,
                "initial_range": 0.158,
                "learning_rate": 0.003,
                "epochs": 12,
                "patience": 1,
            },
            {"epochs": 40, "patience": 2},
            seeds=2,
        ),
        Setting(
            "daniluk2017",
            "WikiText-2 by articles, V = 33,278, the paper's sizes times 0.4; "
            "an epoch of one model takes a CPU core half an hour",
            ("wikitext-2", "wikitext-2"),
            {
                "documents": True,
                "scale": 0.4,
                "initial_range": 0.158,
                "epochs": 8,
                "patience": 1,
            },
            {"documents": True, "epochs": 30, "patience": 2},
            seeds=2,
        ),
        Setting(
            "weissenborn2016",
            "SICK, 4,500 training pairs; embeddings begin at the size of "
            "GloVe's",
            ("sick", "snli"),
            {},
            {},
            seeds=5,
        ),
        Setting(
            "salton2017_little_text",
            "Penn Treebank, the first 10,000 lines of its training text, two "
            "layers of 100 units, at a learning rate of 0.5",
            ("ptb", "ptb"),
            {
                "training_lines": 10000,
                "units": 100,
                "dropout": 0.1,
                "initial_range": 0.128,
                "learning_rate": 0.5,
                "halve_after": 8,
                "epochs": 20,
                "patience": 2,
            },
            {"training_lines": 10000},
        ),
        Setting(
            "salton2017",
            "Penn Treebank, two layers of 200 units; an epoch of one model "
            "takes a CPU core about seven minutes",
            ("ptb", "ptb"),
            {"units": 200, "dropout": 0.3, "epochs": 16, "patience": 3},
            {},
        ),
        Setting(
            "tran2016",
            "Penn Treebank, d = 128 as published, until three epochs, each at "
            "half the rate of the one before, have not been better",
            ("ptb", "ptb"),
            {"patience": 3},
            {},
        ),
    )
}

# === The claims ===

_WIKIPEDIA = "Wikipedia, V 77,003"
_NEWS = "German news, V 111,000"


def _daniluk(name, statement, published, better, than, **more):
    return Claim(
        name,
        "daniluk2017",
        "Figure 2",
        statement,
        f"test perplexity {published}; {_WIKIPEDIA}",
        ("daniluk2017_penn_treebank", "daniluk2017"),
        better,
        than,
        **more,
    )


def _tran(name, statement, published, better, than, where="Table 2", **more):
    return Claim(
        name,
        "tran2016",
        where,
        statement,
        f"perplexity {published}",
        ("tran2016",),
        better,
        than,
        **more,
    )


def _kong(name, statement, published, better, than):
    return Claim(
        name,
        "kong2019",
        "Table 1",
        statement,
        f"test perplexity {published}; Penn Treebank, 512 units",
        ("kong2019_little_text", "kong2019"),
        f"{better}_512",
        f"{than}_512",
    )


def _weissenborn(name, statement, published, better, than, **more):
    return Claim(
        name,
        "weissenborn2016",
        "Table 1",
        statement,
        f"test accuracy {published}; SNLI",
        ("weissenborn2016",),
        better,
        than,
        **more,
    )


CLAIMS = (
    # === Daniluk et al. (2017) ===
    _daniluk(
        "attention",
        "An LSTM that attends to its last outputs predicts better than one "
        "that does not",
        "82.0 against 85.2",
        "attention",
        "lstm",
    ),
    _daniluk(
        "key_value",
        "Keys apart from values are better than outputs that serve as both",
        "78.2 against 82.0",
        "key_value",
        "attention",
    ),
    _daniluk(
        "key_value_predict",
        "A third part that only predicts is better still",
        "75.8 against 78.2",
        "key_value_predict_786",
        "key_value",
    ),
    _daniluk(
        "control",
        "Key-value-predict attention is better than its LSTM without a "
        "memory, projected to a third: a control that the paper lacks",
        "75.8 against no number",
        "key_value_predict_786",
        "lstm_projected",
    ),
    _daniluk(
        "ngram",
        "Parts of the last three outputs, side by side without attention, are "
        "as good as key-value-predict attention",
        "75.9 against 75.8",
        "ngram_4",
        "key_value_predict_786",
        margin=0.02,
    ),
    _daniluk(
        "ngram_lstm",
        "They are better than an LSTM",
        "75.9 against 85.2",
        "ngram_4",
        "lstm",
    ),
    _daniluk(
        "window",
        "Attention over the last output alone is as good as over fifteen",
        "82.2 against 82.8",
        "attention --window=1",
        "attention --window=15",
        margin=0.02,
    ),
    _daniluk(
        "memory_block",
        "Key-value-predict attention is better than the memory block of Tran "
        "et al. (2016)",
        "75.8 against 80.1",
        "key_value_predict_786",
        "rm_tm_gated",
    ),
    _daniluk(
        "higher_order",
        "Higher-order networks without an LSTM are behind it",
        "85.2 against 97.1",
        "lstm",
        "gated_hornn",
    ),
    Claim(
        "recent",
        "daniluk2017",
        "Figure 3",
        "Attention goes to the last few outputs, whatever the window",
        "mean weights by position",
        seen="It does, in each of the models drawn in [daniluk2017.md]"
        "(daniluk2017.md#where-they-attend), one seed each.",
    ),
    Claim(
        "cloze",
        "daniluk2017",
        "Figure 2 (d)",
        "The models with a memory answer no cloze questions better than an "
        "LSTM, but for named entities",
        "accuracy .523 to .538; Children's Book Test",
        missing="`memlm table daniluk2017/cbt` decides it where the corpus, "
        "of 120 MB, can be had.",
    ),
    # === Tran et al. (2016) ===
    _tran(
        "memory_block",
        "A memory block on one LSTM layer is better than three LSTM layers",
        "123.5 against 126.1; Penn Treebank",
        "rm_tm_gated",
        "lstm_3",
        "Section 5",
        caution="one LSTM layer alone is nearly as far ahead, see the next",
    ),
    _tran(
        "one_layer",
        "It is better than the same LSTM without",
        f"118.6 against 135.8; {_NEWS}",
        "rm_tm_gated",
        "lstm_1",
    ),
    _tran(
        "above",
        "An LSTM above the block makes it worse",
        f"118.6 against 126.2; {_NEWS}",
        "rm_tm_gated",
        "rmr_tm_gated",
    ),
    _tran(
        "temporal",
        "With gates, temporal vectors are needed",
        f"118.6 against 129.7; {_NEWS}",
        "rm_tm_gated",
        "rm_notm_gated",
    ),
    _tran(
        "gates",
        "Gates are better than a sum where there are temporal vectors",
        f"118.6 against 121.5; {_NEWS}",
        "rm_tm_gated",
        "rm_tm_linear",
    ),
    _tran(
        "memory_network",
        "A memory network without a recurrent layer is behind an LSTM",
        f"135.8 against 169.3; {_NEWS}",
        "lstm_1",
        "memn",
    ),
    Claim(
        "completion",
        "tran2016",
        "Table 4",
        "A memory block completes sentences better than an LSTM",
        "accuracy 69.2 against 56.0; Sentence Completion Challenge",
        missing="`memlm train tran2016/completion_rm_512 --questions=... "
        "--answers=...` decides it where 522 novels and the questions are at "
        "hand.",
    ),
    Claim(
        "distance",
        "tran2016",
        "Figures 3 and 6, Table 3",
        "The block attends to the last words most, and beyond them to words "
        "joined with the predicted one by grammar",
        "mean weights by position and dependency",
        seen="The last words, yes; words joined by grammar, but for "
        "prepositions and determiners, cannot be told from chance with the "
        "treebanks at hand: [tran2016.md](tran2016.md#where-it-attends), one "
        "seed.",
    ),
    # === Salton et al. (2017) ===
    Claim(
        "attention",
        "salton2017",
        "Table 1",
        "Attention over all outputs of the sentence makes an LSTM predict "
        "better",
        "test perplexity 70.1 (their protocol) against 82.7; Penn Treebank",
        ("salton2017_little_text", "salton2017"),
        "ptb_single",
        "ptb_lstm",
    ),
    Claim(
        "single",
        "salton2017",
        "Tables 1 and 2",
        "A score of the past output alone is as good as one of both outputs",
        "test perplexity 70.1 against 70.7; Penn Treebank",
        ("salton2017_little_text", "salton2017"),
        "ptb_single",
        "ptb_combined",
        margin=0.02,
    ),
    Claim(
        "averages",
        "salton2017",
        "Tables 1 and 2",
        "One attentive model is as good as averages of many LSTMs",
        "test perplexity 70.1 against 69.5 of ten and 68.7 of 38; Penn "
        "Treebank",
        missing="The paper's own numbers are of different protocols, and ten "
        "models of its size are out of reach here.",
    ),
    # === Weissenborn (2016) ===
    _weissenborn(
        "memory",
        "A GRU with an associative memory reads pairs better than one without",
        "82.9 against 81.9",
        "am_gru_shared",
        "gru_shared",
    ),
    _weissenborn(
        "dual",
        "Reading the premise's memory as well is better still",
        "84.4 against 82.9",
        "dual_am_gru_shared",
        "am_gru_shared",
    ),
    _weissenborn(
        "attention",
        "It is better than word-by-word attention",
        "84.4 against 83.5",
        "dual_am_gru_shared",
        "lstm_attention",
        caution="so few pairs teach word-by-word attention hardly more than "
        "the most frequent label, 57%",
    ),
    Claim(
        "one_key",
        "weissenborn2016",
        "Section 6",
        "An autoencoder with an associative memory writes all under one key",
        "a picture of similarities",
        seen="It does not: keys of words five apart have a cosine of 0.15 in "
        "[weissenborn2016.md](weissenborn2016.md#auto-encoding), one seed.",
    ),
    # === Kong et al. (2019) ===
    _kong(
        "noise",
        "Kneser-Ney noise in the data is better than none",
        "70.7 against 74.0",
        "dn_kneser_ney",
        "vanilla_tied",
    ),
    _kong(
        "linear_noise",
        "Noise drawn from single words is better than none",
        "73.3 against 74.0",
        "dn_linear",
        "vanilla_tied",
    ),
    _kong(
        "smoothing",
        "Variational smoothing with Kneser-Ney is better than none",
        "70.6 against 74.0",
        "vs_kneser_ney",
        "vanilla_tied",
    ),
    _kong(
        "smoothing_noise",
        "It is better than the same noise in the data",
        "70.6 against 70.7",
        "vs_kneser_ney",
        "dn_kneser_ney",
    ),
    _kong(
        "linear",
        "So it is with linear interpolation",
        "71.2 against 73.3",
        "vs_linear",
        "dn_linear",
    ),
    _kong(
        "elements",
        "Smoothing of single elements is better than of whole vectors",
        "66.8 against 70.6",
        "vs_elementwise",
        "vs_kneser_ney",
    ),
    _kong(
        "tied",
        "Tied embeddings are better than two matrices",
        "74.0 against 84.5",
        "vanilla_tied",
        "vanilla_untied",
    ),
    Claim(
        "samples",
        "kong2019",
        "Table 3",
        "Predicting by the mean is better than by samples",
        "dev perplexity 74.5 against 89.8; Penn Treebank, 512 units",
        seen="It is, in each of three runs with `--samples=20` in "
        "[kong2019.md](kong2019.md#by-the-mean-the-mode-and-20-samples)"
        ".",
    ),
)

# === Statistics ===


@dataclasses.dataclass(frozen=True, eq=False)
class Losses:
    """Losses of a model on each sentence of a test text, or on each pair.

    Args:
        losses: float array `(seeds, sentences)`.
        counts: integer array `(sentences,)`, the predictions in each.
        parameters: integer, the model's number of parameters, or `None`.
    """

    losses: np.ndarray
    counts: np.ndarray
    parameters: int | None = None

    @property
    def by_seed(self):
        """Mean loss of a prediction, `(seeds,)`."""
        return self.losses.sum(axis=1) / self.counts.sum()


@dataclasses.dataclass(frozen=True)
class Difference:
    """The difference between two models, with what its interval needs.

    Attributes:
        mean: float, in nats a token, or in shares of pairs.
        seeds: integer, of the model that has fewer.
        seed_error: float, standard error of the mean over seeds; infinite where
            a model has a single seed.
        freedom: float, Welch's degrees of freedom of `seed_error`.
        sentence_error: float, standard error over the test sentences.
        sentences: integer.
    """

    mean: float
    seeds: int
    seed_error: float
    freedom: float
    sentence_error: float = 0.0
    sentences: int = 2

    def interval(self, level=_LEVEL):
        """The two ends of the interval that misses with probability `level`.

        Half its width is the root of two squares: that of Welch's interval
        over seeds, and that of the interval over sentences.
        """
        if math.isinf(self.seed_error):
            return -math.inf, math.inf
        half = math.hypot(
            t_quantile(level, self.freedom) * self.seed_error,
            t_quantile(level, self.sentences - 1) * self.sentence_error,
        )
        return self.mean - half, self.mean + half


def t_quantile(tail, freedom):
    """The t with P(|T| > t) = `tail`, of Student's distribution.

    With t = sqrt(freedom) tan(angle), its density is cos(angle)^(freedom - 1).

    Args:
        tail: float, between 0 and 1.
        freedom: float of at least 1.

    Example:

    >>> round(t_quantile(0.05, 1), 2), round(t_quantile(0.05, 4), 2)
    (12.71, 2.78)
    """
    angles = np.linspace(np.pi / 2, 0, 100_001)
    density = np.maximum(np.cos(angles), 0) ** (freedom - 1)
    outside = np.cumsum((density[1:] + density[:-1]) / 2)
    angle = np.interp(tail, outside / outside[-1], angles[1:])
    return float(np.sqrt(freedom) * np.tan(angle))


def difference(better, than):
    """Compares two models by all seeds and sentences.

    Args:
        better, than: `Losses` on the same text.

    Returns:
        `Difference`, positive where `better` is.

    Raises:
        ValueError: if they are of different texts.

    Example:

    >>> counts = np.array([3, 4, 2])
    >>> good = Losses(np.array([[2.0, 3.0, 1.5], [2.2, 2.9, 1.4]]), counts)
    >>> poor = Losses(good.losses + counts, counts)
    >>> round(difference(good, poor).mean, 6)
    1.0
    """
    counts = better.counts
    if not np.array_equal(counts, than.counts):
        raise ValueError(
            "`better` and `than` must be of the same sentences. Received: "
            f"{len(counts)} sentences of {counts.sum()} "
            f"predictions, and {len(than.counts)} of {than.counts.sum()}"
        )
    seeds = [len(side.losses) for side in (better, than)]
    mean = than.by_seed.mean() - better.by_seed.mean()
    error, freedom = math.inf, 1.0
    if min(seeds) > 1:
        squares = [
            side.by_seed.var(ddof=1) / n
            for side, n in zip((better, than), seeds)
        ]
        error = math.sqrt(sum(squares))
        if error:
            parts = sum(s**2 / (n - 1) for s, n in zip(squares, seeds))
            freedom = sum(squares) ** 2 / parts
    # Of the same sentences, read by the mean over seeds of each model.
    apart = than.losses.mean(axis=0) - better.losses.mean(axis=0)
    number = len(counts)
    spread = ((apart - mean * counts) ** 2).sum() * number / (number - 1)
    return Difference(
        mean=float(mean),
        seeds=min(seeds),
        seed_error=error,
        freedom=freedom,
        sentence_error=float(math.sqrt(spread) / counts.sum()),
        sentences=number,
    )


def verdict(claim, low, high):
    """The verdict on a claim, from an interval of the difference.

    Returns:
        `HOLDS`, `DOES_NOT_HOLD` or `NOT_DECIDED`.

    Example:

    >>> claim = Claim("a", "b", "c", "d", "e")
    >>> verdict(claim, 0.05, 0.15), verdict(claim, -0.05, 0.15)
    ('holds', 'not decided at this size')
    """
    if claim.margin is not None:
        if -claim.margin < low and high < claim.margin:
            return HOLDS
        apart = low > claim.margin or high < -claim.margin
        return DOES_NOT_HOLD if apart else NOT_DECIDED
    if low > 0:
        return HOLDS
    return DOES_NOT_HOLD if high < _SMALLEST else NOT_DECIDED


def verdicts(tests):
    """The verdicts on several claims, by Holm's procedure.

    The probability that any of them is wrong is at most 0.05: of n tests that
    are open, one is decided by an interval that misses with probability
    0.05 / n, and then n - 1 are open.

    Args:
        tests: list of triples of a `Claim`, a `Difference` or `None`, and the
            integer number of seeds that the claim needs.

    Returns:
        List of verdicts.
    """
    found = [NOT_DECIDED] * len(tests)
    unsettled = [
        index
        for index, (_, between, seeds) in enumerate(tests)
        if between is not None and between.seeds >= seeds
    ]
    while unsettled:
        level = _LEVEL / len(unsettled)
        for index in unsettled:
            claim, between, _ = tests[index]
            found[index] = verdict(claim, *between.interval(level))
        still = [i for i in unsettled if found[i] == NOT_DECIDED]
        if len(still) == len(unsettled):
            break
        unsettled = still
    return found


# === Runs ===


@dataclasses.dataclass(frozen=True)
class Model:
    """A model of a claim in a setting.

    Args:
        paper: string.
        text: string, its preset and its own flags.
        setting: `Setting`.
        size: `"small"` or `"paper"`.
    """

    paper: str
    text: str
    setting: Setting
    size: str

    def run(self, seed, run_dir="runs", data_dir=None):
        """The `ClaimRun` of a seed."""
        preset, *own = self.text.split()
        changes = dict(flag[2:].split("=") for flag in own)
        values = dict(getattr(self.setting, self.size))
        running = {
            name: values.pop(name)
            for name in ("epochs", "patience")
            if name in values
        }
        if data_dir is not None:
            values["data_dir"] = data_dir
        experiment = experiment_of(
            {
                "preset": f"{self.paper}/{preset}",
                "dataset": self.setting.datasets[self.size == "paper"],
                "seed": seed,
                "overrides": values,
                "changes": changes,
            }
        )
        recipe = experiment.recipe
        preset = recipe.pop("preset")
        recipe.pop("data_dir", None)
        flags = [as_flag(k, v) for k, v in {**recipe, **running}.items()]
        folder = pathlib.Path(run_dir, experiment.name)
        return ClaimRun(folder, [preset, *flags], experiment.dataset)


@dataclasses.dataclass(frozen=True)
class ClaimRun:
    """A model trained with one seed: its run folder, flags and `Dataset`."""

    folder: pathlib.Path
    flags: list
    dataset: object

    @property
    def command(self):
        """The command that trains it."""
        return shlex.join(["memlm", "train", *self.flags])


def models_of(claims, size="small"):
    """All models of claims, those of a setting together.

    Args:
        claims: iterable of `Claim`s.
        size: `"small"` or `"paper"`.

    Returns:
        Dict of `Model`s by the name of the setting and the text.
    """
    return {
        (name, text): Model(claim.paper, text, setting, size)
        for name, setting in SETTINGS.items()
        for claim in claims
        if name in claim.settings
        for text in (claim.better, claim.than)
    }


def claims(positional, values, command):
    """Trains what is missing, and writes the verdicts.

    Returns:
        The exit status: 1 where a run failed.
    """
    if values.get("queue") and values.get("finished_only"):
        raise UsageError(
            "--queue shows the runs to come, and --finished_only trains "
            "nothing. Give one of them."
        )
    size = values.get("size", "small")
    out = pathlib.Path(values.get("out", "claims"))
    run_dir = pathlib.Path(values.get("run_dir", "runs"))
    models = _selected(positional.claim, values.get("setting"), size)
    # In a setting, the first seed of all models comes before the second.
    order = list(SETTINGS)
    runs = [
        model.run(seed, run_dir, values.get("data_dir"))
        for _, seed, _, model in sorted(
            (order.index(name), seed, position, model)
            for position, ((name, _), model) in enumerate(models.items())
            for seed in range(model.setting.seeds)
        )
    ]
    kept = out / "logs" / size
    queue = [
        run for run in runs if not (kept / run.folder.name / LOSSES).exists()
    ]
    if values.get("queue"):
        print(f"{len(queue)} of {len(runs)} runs are to come:")
        for run in queue:
            print(f"  {run.command}")
        return 0
    failed = 0
    if not values.get("finished_only"):
        failed = _train_all(queue, kept, values)
    elif len(queue) == len(runs):
        print(
            f"None of {len(runs)} runs is finished in {kept}. Those that are "
            "published with the package are in a clone of its repository: "
            "--out=docs/results."
        )
    # The document has all claims, whichever were asked for.
    every = models_of(CLAIMS, size)
    losses = {key: losses_of(model, kept) for key, model in every.items()}
    path = out / "claims.md"
    write(path, every, losses, size, command)
    print(f"See {path}")
    return 1 if failed else 0


def _selected(names, setting, size):
    """The models that claims of some names need in a setting, or in all."""
    known = {f"{claim.paper}/{claim.name}": claim for claim in CLAIMS}
    chosen = []
    for name in names or [""]:
        matches = [
            claim
            for full, claim in known.items()
            if name in ("", claim.paper, full)
        ]
        if not matches:
            papers = list(dict.fromkeys(claim.paper for claim in CLAIMS))
            raise UsageError(
                f"There is no claim {name}.{nearest(name, [*papers, *known])} "
                f"Claims are all of a paper, {', '.join(papers)}, or one: "
                f"{', '.join(known)}."
            )
        chosen += matches
    if setting is not None and setting not in SETTINGS:
        raise UsageError(
            f"There is no setting {setting}.{nearest(setting, list(SETTINGS))} "
            f"Settings are {', '.join(SETTINGS)}."
        )
    models = models_of(chosen, size)
    found = {k: m for k, m in models.items() if setting in (None, k[0])}
    if not found:
        others = dict.fromkeys(name for name, _ in models)
        raise UsageError(
            f"No run of setting {setting} tests {', '.join(names)}. Settings "
            f"that do: {', '.join(others)}."
            if others
            else f"No runs test {', '.join(names)}: `memlm claims "
            "--finished_only` writes why."
        )
    return found


# === Training ===


def _train_all(queue, kept, values):
    """Trains runs, as many at once as asked for; returns how many failed."""
    minutes = values.get("minutes", math.inf)
    until = time.monotonic() + 60 * minutes
    # Fail once, before training, where a corpus cannot be read.
    for dataset in {run.dataset.name: run.dataset for run in queue}.values():
        dataset.load()
    stop = threading.Event()
    more = {
        "backend": keras.backend.backend(),
        # A progress bar would fill the log with every step.
        "verbose": 2,
        **{k: values[k] for k in ("data_dir", "run_dir") if k in values},
    }
    more = [as_flag(name, value) for name, value in more.items()]

    def train(number, run):
        begin = time.monotonic()
        if begin >= until:
            return False
        head = f"{number}/{len(queue)}"
        print(f"{head} {run.command}", flush=True)
        failure = train_one(run, [*run.flags, *more], until - begin, stop)
        interrupted = stop.is_set() or time.monotonic() >= until
        if failure is None:
            in_fresh_process(keep, run.folder, kept / run.folder.name)
            failure = f"{time.monotonic() - begin:.0f} seconds"
            interrupted = failed = False
        else:
            failed = not interrupted
        print(f"{head} {'interrupted' if interrupted else failure}", flush=True)
        return failed

    with concurrent.futures.ThreadPoolExecutor(values.get("jobs", 1)) as pool:
        ended = [
            pool.submit(train, number, run)
            for number, run in enumerate(queue, 1)
        ]
        try:
            failed = sum(run.result() for run in ended)
        except BaseException:
            stop.set()
            pool.shutdown(cancel_futures=True)
            raise
    if time.monotonic() >= until:
        print("The time is over; the same command goes on.")
    return failed


# === What is kept of a run ===


def keep(folder, kept):
    """Copies the small files of a finished run, and adds its test losses.

    Args:
        folder: path of the run folder.
        kept: path of a folder, which is made whole or not at all.
    """
    run_folder = RunFolder(folder)
    experiment = again(run_folder)
    losses, counts = _test_losses(experiment, run_folder.model())
    with files.atomic_path(pathlib.Path(kept)) as temporary:
        temporary.mkdir()
        for name in _COPIED:
            shutil.copy(run_folder.path / name, temporary / name)
        np.savetxt(
            temporary / LOSSES,
            np.stack([losses, counts], axis=1),
            fmt=["%.4f", "%d"],
            delimiter=",",
        )


def _test_losses(experiment, model):
    """Losses of test sentences, or 1 for each pair with a wrong label."""
    if experiment.kind != CLASSIFIER:
        return sentence_losses(
            model, evaluation_batches(experiment, model, "test")
        )
    wrong = []
    for inputs, labels, *weights in experiment.corpus.batches("test", 64):
        predicted = keras.ops.argmax(model.predict_on_batch(inputs), axis=-1)
        found = keras.ops.convert_to_numpy(predicted) != labels
        counted = weights[0] > 0 if weights else np.ones(len(found), "bool")
        wrong.append(found[counted])
    wrong = np.concatenate(wrong)
    return wrong.astype("float64"), np.ones(len(wrong), "int64")


def losses_of(model, kept):
    """Reads the `Losses` of all seeds of a `Model`; `None` if there are none.

    Args:
        model: `Model`.
        kept: `pathlib.Path` of the folder of all runs that are kept.
    """
    found, parameters = [], None
    all_seeds = glob.escape(model.run(0).folder.name.removesuffix("0"))
    for path in sorted(kept.glob(f"{all_seeds}*/{LOSSES}")):
        with files.reading(path, "losses of a run", "Delete its folder."):
            found.append(np.loadtxt(path, delimiter=",", ndmin=2))
            results = json.loads(path.with_name("results.json").read_text())
            parameters = results["parameters"]
    if not found:
        return None
    counts = found[0][:, 1].astype("int64")
    losses = np.stack([losses[:, 0] for losses in found])
    return Losses(losses, counts, parameters)


# === The document ===

_INTRODUCTION = """# Claims

Each claim of the five papers about which model is better, the numbers that it
rests on there, and what our runs show. A difference is in per cent of the
perplexity of the second model (for pairs, in points of accuracy), positive
where the claim is right. Its interval of 95% is Welch's over the seeds of both
models, widened by the spread over the test sentences, which both models read.
Few seeds give a wide interval: two seeds have a t of 4.3 to 12.7, where many
have 2.0. A claim *holds* where the whole interval is above zero, and *does not
hold* where all of it is below half a per cent, or half a point; for equal
models (*as good as*) the interval must lie within 2%. Verdicts use wider
intervals than those shown, so that all of them together are right with a
probability of 95% (Holm's correction for the number of claims tested); so an
interval above zero may still be *not decided*. With fewer seeds than a setting
needs, nothing is decided. *Not run* means that one of the two models was never
trained. A setting without runs is left out where another setting tests the
claim; its commands are below. The papers' numbers are for other texts or sizes:
compare them with each other only. Numbers of parameters are in brackets.
"""
_COLUMNS = (
    "claim",
    "theirs",
    "setting",
    "ours",
    "difference",
    "seeds",
    "verdict",
)


def write(path, models, losses, size, command):
    """Writes the document, whole.

    Args:
        path: path of a Markdown file.
        models: dict of `Model`s by setting and text.
        losses: dict of their `Losses`, or `None` where there are none yet.
        size: `"small"` or `"paper"`.
        command: string, the command line.
    """
    lines = [_INTRODUCTION, f"    {command}", ""]
    rows = _rows(losses, size)
    for name in dict.fromkeys(claim.paper for claim in CLAIMS):
        lines += [f"## {presets.papers()[name].citation}", ""]
        lines += report.markdown_table(
            _COLUMNS, [row for claim, row in rows if claim.paper == name]
        )
        lines.append("")
    lines += ["## Settings and runs", ""]
    for name, setting in SETTINGS.items():
        in_words = (
            "At the paper's size" if size == "paper" else (setting.description)
        )
        lines += [f"### {name}", "", f"{in_words}.", ""]
        keys = [key for key in models if key[0] == name]
        lines += [f"    {models[key].run(0).command}" for key in keys]
        finished = sum(
            min(len(losses[key].losses), setting.seeds)
            for key in keys
            if losses[key]
        )
        total = setting.seeds * len(keys)
        lines += ["", f"{finished} of {total} runs are finished.", ""]
    with files.atomic_path(path) as temporary:
        temporary.write_text("\n".join(lines) + "\n", encoding="utf-8")


def _rows(losses, size):
    """Pairs of a claim and the cells of one of its rows, for all claims."""
    tests = [
        (claim, SETTINGS[name], [losses[name, t] for t in _both(claim)])
        for claim in CLAIMS
        for name in _settings_shown(claim, losses)
    ]
    between = [
        None if None in both else difference(*both) for _, _, both in tests
    ]
    decided = iter(
        verdicts(
            [
                (claim, found, setting.seeds)
                for (claim, setting, _), found in zip(tests, between)
            ]
        )
    )
    rows = []
    for (claim, setting, both), found in zip(tests, between):
        word = next(decided)
        text = f"*{NOT_RUN if found is None else word}*"
        if claim.caution and found is not None and size == "small":
            text += f", but {claim.caution}"
        seeds = 0 if found is None else found.seeds
        pairs = claim.paper == "weissenborn2016"
        rows.append(
            (
                claim,
                (
                    _stated(claim),
                    claim.published,
                    setting.name,
                    ", ".join(
                        f"{name} {_level(side, pairs)}"
                        for name, side in zip(_both(claim), both)
                    ),
                    "" if found is None else _in_percent(found, pairs),
                    str(seeds)
                    if seeds >= setting.seeds
                    else f"{seeds} of {setting.seeds}",
                    text,
                ),
            )
        )
    for claim in CLAIMS:
        if not claim.settings:
            word = SEEN if claim.seen else NOT_DECIDED
            shown = claim.seen or claim.missing
            cells = (_stated(claim), claim.published, "", shown, "", "")
            rows.append((claim, (*cells, f"*{word}*")))
    order = {claim: index for index, claim in enumerate(CLAIMS)}
    return sorted(rows, key=lambda row: order[row[0]])


def _both(claim):
    return claim.better, claim.than


def _stated(claim):
    return f"`{claim.paper}/{claim.name}`: {claim.statement} ({claim.where})"


def _settings_shown(claim, losses):
    """Names of the settings in which a model has run; of all if none has."""
    run = [
        name
        for name in claim.settings
        if any(losses[name, text] for text in _both(claim))
    ]
    return run or claim.settings


def _level(losses, pairs):
    """Mean and standard deviation of a perplexity, or of an accuracy."""
    if losses is None:
        return "?"
    found = losses.by_seed
    values = 100 * (1 - found) if pairs else np.exp(found)
    text = f"{values.mean():.1f}"
    if len(values) > 1:
        text += f" ± {statistics.stdev(values):.1f}"
    if losses.parameters is not None:
        text += f" ({losses.parameters / 1e6:.2f}M)"
    return text


def _in_percent(found, pairs):
    """A `Difference` and its interval, in per cent or points."""

    def percent(number):
        return 100 * (number if pairs else 1 - math.exp(-number))

    if math.isinf(found.seed_error):
        return f"{percent(found.mean):.1f} (one seed has no interval)"
    low, high = map(percent, found.interval())
    return f"{percent(found.mean):.1f} ({low:.1f} to {high:.1f})"

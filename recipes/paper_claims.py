"""Claims of the five papers, and settings of the runs that test each claim."""

import dataclasses
import functools


@dataclasses.dataclass(frozen=True)
class Setting:
    """The corpus and the options of runs that test claims."""

    description: str
    dataset: str
    options: dict  # Options of presets, or flags of `memlm train`.
    size: str = "paper"  # Size of the models, "paper" or "small".
    seeds: int = 3  # Number of seeds that a verdict needs.


@dataclasses.dataclass(frozen=True)
class Claim:
    """A paper's claim about two models, or a claim in words."""

    name: str
    models: tuple = ()  # Two tuples `(preset, published number)`.
    changes: tuple = ({}, {})  # Changed options of each of the two models.
    paper: str = ""
    where: str = ""  # Section or table in the paper.
    metric: str = ""
    text: str = ""  # Text on which the paper tests its models.
    settings: tuple = ()  # Names in `SETTINGS`.
    margin: float | None = None  # Models that differ less are equally good.
    statement: str = ""  # The claim in words, if `models` is empty.
    missing: str = ""  # Why the claim was not tested.
    seen: str = ""  # Our result for a claim without a verdict.
    caution: str = ""  # A remark that the page prints after the verdict.


_KONG_SMALL = {
    "training_lines": 1000,
    # The paper does not state the values of these two options.
    "other_words": "mode",
    "output_bias": True,
    "units": 100,
    "rate": 0.2,
    "dropout": 0.1,
    "batch_size": 10,
    "segment_length": 20,
    "epochs": 40,
    "patience": 6,
}

SETTINGS = {
    "kong2019_little_text": Setting(
        "the first 1,000 lines of Penn Treebank's training text, two layers of "
        "100 units, early stopping",
        "ptb",
        _KONG_SMALL,
        "small",
    ),
    # The logged runs of the claim `elements` use "sample", not "mode".
    "kong2019_little_text_sampled": Setting(
        "the settings of `kong2019_little_text`, `--other_words=sample`",
        "ptb",
        {**_KONG_SMALL, "other_words": "sample"},
        "small",
    ),
    "kong2019": Setting(
        "Penn Treebank, one point of the paper's grid", "ptb", {}
    ),
    "daniluk2017_two_fifths": Setting(
        "Penn Treebank, the paper's sizes times 0.4, early stopping, a "
        "learning rate of 0.003",
        "ptb",
        {
            "scale": 0.4,
            "initial_range": 0.158,
            "learning_rate": 0.003,
            "epochs": 12,
            "patience": 1,
        },
        "small",
        seeds=2,
    ),
    "daniluk2017_penn_treebank": Setting(
        "the paper's sizes and training on another corpus, Penn Treebank, "
        "until two epochs are no better",
        "ptb",
        {"epochs": 40, "patience": 2},
    ),
    "daniluk2017": Setting(
        "the paper's sizes and training on another corpus, WikiText-2 by "
        "articles, V = 33,278, until two epochs are no better",
        "wikitext-2",
        {"documents": True, "epochs": 30, "patience": 2},
        seeds=2,
    ),
    "weissenborn2016": Setting(
        "the paper's sizes and training on another corpus, SICK (4,500 "
        "training pairs), with initial embeddings of the size of GloVe's",
        "sick",
        {},
        seeds=5,
    ),
    "salton2017_little_text": Setting(
        "the first 10,000 lines of Penn Treebank's training text, two layers "
        "of 100 units, a learning rate of 0.5",
        "ptb",
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
        "small",
    ),
    "salton2017": Setting(
        "Penn Treebank and the published settings", "ptb", {}
    ),
    "tran2016": Setting(
        "Penn Treebank, d = 128 and a schedule as published, except that "
        "training stops after 3 epochs without improvement",
        "ptb",
        {"patience": 3},
    ),
}

_daniluk = functools.partial(
    Claim,
    paper="daniluk2017",
    where="Figure 2",
    metric="test perplexity",
    text="Wikipedia, V 77,003",
    settings=(
        "daniluk2017_two_fifths",
        "daniluk2017_penn_treebank",
        "daniluk2017",
    ),
)
_tran = functools.partial(
    Claim,
    paper="tran2016",
    where="Table 2",
    metric="perplexity",
    text="German news, V 111,000",
    settings=("tran2016",),
)
_salton = functools.partial(
    Claim,
    paper="salton2017",
    where="Table 1",
    metric="test perplexity",
    text="Penn Treebank",
    settings=("salton2017_little_text", "salton2017"),
)
_weissenborn = functools.partial(
    Claim,
    paper="weissenborn2016",
    where="Table 1",
    metric="test accuracy",
    text="SNLI",
    settings=("weissenborn2016",),
)
_kong = functools.partial(
    Claim,
    paper="kong2019",
    where="Table 2",
    metric="test perplexity",
    text="Penn Treebank, 512 units",
    settings=("kong2019_little_text", "kong2019"),
)

CLAIMS = (
    # === Daniluk et al. (2017) ===
    _daniluk("attention", (("attention", "82.0"), ("lstm", "85.2"))),
    _daniluk("key_value", (("key_value", "78.2"), ("attention", "82.0"))),
    _daniluk(
        "key_value_predict",
        (("key_value_predict_786", "75.8"), ("key_value", "78.2")),
    ),
    _daniluk(
        "control",
        (("key_value_predict_786", "75.8"), ("lstm_projected", "no number")),
    ),
    _daniluk(
        "ngram",
        (("ngram_4", "75.9"), ("key_value_predict_786", "75.8")),
        margin=0.02,
    ),
    _daniluk("ngram_lstm", (("ngram_4", "75.9"), ("lstm", "85.2"))),
    _daniluk(
        "window",
        (("attention", "82.2"), ("attention", "82.8")),
        changes=({"window": 1}, {"window": 15}),
        margin=0.02,
    ),
    _daniluk(
        "memory_block",
        (("key_value_predict_786", "75.8"), ("rm_tm_gated", "80.1")),
    ),
    _daniluk("higher_order", (("lstm", "85.2"), ("gated_hornn", "97.1"))),
    _daniluk(
        "recent",
        statement="Models mainly use the most recent outputs",
        where="Figure 3",
        seen="agrees, with [one seed](daniluk2017.md#where-they-attend)",
    ),
    _daniluk(
        "cloze",
        statement="A memory helps only with verbs and prepositions",
        where="Figure 2 (d)",
        missing="needs a corpus of 120 MB (`memlm table daniluk2017/cbt`)",
    ),
    # === Tran et al. (2016) ===
    _tran(
        "memory_block",
        (("rm_tm_gated", "123.5"), ("lstm_3", "126.1")),
        text="Penn Treebank",
        where="Section 4.3",
        caution="one LSTM layer alone is nearly as good",
    ),
    _tran("one_layer", (("rm_tm_gated", "118.6"), ("lstm_1", "135.8"))),
    _tran("above", (("rm_tm_gated", "118.6"), ("rmr_tm_gated", "126.2"))),
    _tran("temporal", (("rm_tm_gated", "118.6"), ("rm_notm_gated", "129.7"))),
    _tran("gates", (("rm_tm_gated", "118.6"), ("rm_tm_linear", "121.5"))),
    _tran("memory_network", (("lstm_1", "135.8"), ("memn", "169.3"))),
    _tran(
        "completion",
        statement="A memory block completes sentences better than an LSTM",
        where="Table 4",
        missing="needs 522 novels and the questions (`memlm table "
        "tran2016/completion`)",
    ),
    _tran(
        "distance",
        statement="A memory block attends most to the last words, and also to "
        "some distant dependencies",
        where="Figures 3 and 6",
        seen="agrees for the last words; of dependencies, only prepositions "
        "and determiners ([one seed](tran2016.md#where-it-attends))",
    ),
    # === Salton et al. (2017) ===
    _salton(
        "attention",
        (
            ("ptb_single", "70.1 (their protocol)"),
            ("ptb_lstm", "82.7 (of Zaremba et al., untied)"),
        ),
    ),
    _salton(
        "control", (("ptb_single", "70.1"), ("ptb_projected", "no number"))
    ),
    _salton(
        "single",
        (("ptb_single", "70.1"), ("ptb_combined", "70.7")),
        margin=0.02,
    ),
    _salton(
        "averages",
        statement="One attentive model is as good as an average of ten LSTMs",
        missing="the two numbers follow different protocols",
    ),
    _salton(
        "weights",
        statement="Weights are spread over the sentence evenly",
        where="Figures 2 and 3",
        seen="agrees, with [one seed](salton2017.md#where-it-attends)",
    ),
    # === Weissenborn (2016) ===
    _weissenborn("memory", (("am_gru_shared", "82.9"), ("gru_shared", "81.9"))),
    _weissenborn(
        "dual", (("dual_am_gru_shared", "84.4"), ("am_gru_shared", "82.9"))
    ),
    _weissenborn(
        "attention",
        (("dual_am_gru_shared", "84.4"), ("lstm_attention", "83.5")),
        caution="attention is hardly better than the most frequent label",
    ),
    _weissenborn(
        "one_key",
        statement="An autoencoder writes all values under one key",
        where="Figure 3",
        seen="disagrees, with [one seed](weissenborn2016.md#auto-encoding)",
    ),
    # === Kong et al. (2019) ===
    _kong(
        "noise", (("dn_kneser_ney_512", "70.7"), ("vanilla_tied_512", "74.0"))
    ),
    _kong(
        "linear_noise",
        (("dn_linear_512", "73.3"), ("vanilla_tied_512", "74.0")),
    ),
    _kong(
        "smoothing",
        (("vs_kneser_ney_512", "70.6"), ("vanilla_tied_512", "74.0")),
    ),
    _kong(
        "smoothing_noise",
        (("vs_kneser_ney_512", "70.6"), ("dn_kneser_ney_512", "70.7")),
    ),
    _kong("linear", (("vs_linear_512", "71.2"), ("dn_linear_512", "73.3"))),
    _kong(
        "elements",
        (("vs_elementwise_512", "66.8"), ("vs_kneser_ney_512", "70.6")),
        settings=("kong2019_little_text_sampled", "kong2019"),
    ),
    _kong(
        "tied", (("vanilla_tied_512", "74.0"), ("vanilla_untied_512", "84.5"))
    ),
    _kong(
        "samples",
        statement="Predicting with the mean is better than with samples",
        where="Section 5.4",
        seen="agrees by mean log-probability, as in the paper, with "
        "[three seeds](kong2019.md#by-the-mean-the-mode-and-20-samples)",
    ),
)

"""The claims of the five papers."""

from memlm_keras.experiments.claims import Claim

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
        "models of its size are out of reach here; what averaging gives small "
        "models is in [salton2017.md]"
        "(salton2017.md#averages-of-two-and-five-models).",
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

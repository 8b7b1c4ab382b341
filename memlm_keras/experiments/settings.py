"""All options of experiments, said once for Python and for commands.

`OVERRIDES` make an experiment what it is, `RUNNING` says how long it is
trained, `MEASURES` and `PICTURES` what is made of the trained model.
"""

from memlm_keras.experiments.options import AUTOENCODER
from memlm_keras.experiments.options import CLASSIFIER
from memlm_keras.experiments.options import KNESER_NEY
from memlm_keras.experiments.options import LANGUAGE_MODEL
from memlm_keras.experiments.options import NEURAL
from memlm_keras.experiments.options import Option

_TEXTS = (LANGUAGE_MODEL, AUTOENCODER, KNESER_NEY)
_LANGUAGE_MODELS = (LANGUAGE_MODEL,)
_CLASSIFIERS = (CLASSIFIER,)
_AUTOENCODERS = (AUTOENCODER,)

# What the text is, and how it is read.
READING = (
    Option(
        "data_dir",
        str,
        "Folder of the files of a public corpus; downloaded if not given.",
    ),
    Option(
        "document_start",
        str,
        "With files of your own: regular expression that matches the lines "
        "that begin a document.",
        kinds=_TEXTS,
    ),
    Option(
        "tokenize",
        str,
        "With files of your own: how to part words; by default at white space.",
        choices=("unicode_script",),
        kinds=_TEXTS,
    ),
    Option(
        "vocabulary_size",
        int,
        "Number of most frequent words to keep, special tokens counted; by "
        "default 77,003 where documents are dealt, and else all.",
        at_least=2,
    ),
    Option(
        "minimum_count",
        int,
        "Words seen fewer times in training are unknown; by default 2 for cbt "
        "and for text of your own that has no <unk>, so that there are "
        "unknown words to learn from, and else 1.",
        at_least=1,
    ),
    Option(
        "cbt_train_on",
        str,
        "With --dataset=cbt: the books, or the questions of one word type.",
        choices=("books", "NE", "CN", "V", "P"),
        kinds=_LANGUAGE_MODELS,
    ),
    Option(
        "lowercase",
        bool,
        "Lower-case all tokens.",
        kinds=_CLASSIFIERS,
    ),
    Option(
        "documents",
        bool,
        "Begin each document afresh, or read them as one continuous text; by "
        "default as the preset does.",
        kinds=_LANGUAGE_MODELS,
    ),
)

# How large the model is, and how it begins.
SIZES = (
    Option(
        "scale",
        float,
        "Factor on the paper's sizes, which keeps their proportions.",
        at_least=1e-6,
        kinds=NEURAL,
    ),
    Option(
        "units",
        int,
        "Units of the recurrent layers, instead of the paper's.",
        at_least=1,
        kinds=NEURAL,
    ),
    Option(
        "embedding_dim",
        int,
        "Size of the embeddings, instead of the paper's.",
        at_least=1,
        kinds=NEURAL,
    ),
    Option(
        "window",
        int,
        "Window of the memory, instead of the paper's.",
        at_least=1,
        kinds=_LANGUAGE_MODELS,
    ),
    Option(
        "initial_range",
        float,
        "Weights are drawn from U(-r, r) with this r instead of the paper's. "
        "With --scale=s, the paper's divided by sqrt(s) begins as the paper's "
        "sizes do.",
        at_least=0,
        kinds=NEURAL,
    ),
    Option(
        "match_parameters",
        bool,
        "Choose the hidden size that gives the parameters of the paper's LSTM "
        "row at this scale and vocabulary, as the sizes of Daniluk et al. do "
        "at 77,003 words; but for rows that are larger there too.",
        kinds=_LANGUAGE_MODELS,
    ),
    Option(
        "memory",
        str,
        "A memory above the recurrent layers of a preset without one, the "
        "last of which then has three times the units.",
        choices=("key_value_predict",),
        kinds=_LANGUAGE_MODELS,
    ),
)

# How it is trained.
TRAINING = (
    Option(
        "dropout",
        float,
        "Dropout rate instead of the preset's: of embeddings, layers and "
        "outputs, those of them that it drops; not of recurrent connections.",
        at_least=0,
        at_most=1,
        kinds=NEURAL,
    ),
    Option(
        "batch_size",
        int,
        "Rows of a batch, instead of the preset's.",
        at_least=1,
        kinds=NEURAL,
    ),
    Option(
        "segment_length",
        int,
        "Steps of back-propagation, or, where the preset reads sentences, the "
        "length that they are cut at in training; by autoencoders, always.",
        at_least=1,
        kinds=(LANGUAGE_MODEL, AUTOENCODER),
    ),
    Option(
        "length_multiple",
        int,
        "Where the preset reads sentences: they are padded, without effect, "
        "to a multiple of this length, so that few shapes are compiled.",
        at_least=1,
        kinds=_LANGUAGE_MODELS,
    ),
    Option(
        "learning_rate",
        float,
        "Learning rate, instead of the preset's.",
        at_least=0,
        kinds=NEURAL,
    ),
    Option(
        "halve_after",
        int,
        "Epochs at the initial learning rate, instead of the preset's.",
        at_least=0,
        kinds=_LANGUAGE_MODELS,
    ),
    Option(
        "rate",
        float,
        "gamma_0, how much is noised or smoothed, instead of the preset's.",
        at_least=0,
        at_most=1,
        kinds=_LANGUAGE_MODELS,
    ),
    Option(
        "l2",
        float,
        "Weight of the divergence of smoothed models; of others, that of the "
        "squares of their embeddings.",
        at_least=0,
        kinds=_LANGUAGE_MODELS,
    ),
    Option(
        "other_words",
        str,
        "Of Kneser-Ney smoothing: which output vectors the words that are not "
        "the target have while training, instead of their means.",
        choices=("mean", "mode"),
        kinds=_LANGUAGE_MODELS,
    ),
    Option(
        "vectors",
        str,
        "File of word vectors, such as glove.840B.300d.txt or its .zip. They "
        "are kept as they are for one pass over the pairs, and then trained.",
        kinds=_CLASSIFIERS,
    ),
    Option(
        "embedding_range",
        float,
        "Embeddings begin as U(-r, r) instead of r = 0.05; those of GloVe are "
        "about as large as with r = 0.5.",
        at_least=0,
        kinds=_CLASSIFIERS,
    ),
    Option(
        "halve",
        bool,
        "Halve the learning rate when accuracy falls over a pass, as the "
        "presets do.",
        kinds=_CLASSIFIERS,
    ),
)

# What makes an experiment what it is, besides preset, dataset and seed.
OVERRIDES = {o.name: o for o in (*READING, *SIZES, *TRAINING)}

# How long it is trained and what is told: a run is the same with others.
RUNNING = (
    Option("epochs", int, "Most epochs to train.", at_least=1),
    Option(
        "patience",
        int,
        "Epochs without a better validation perplexity, or accuracy.",
        at_least=0,
    ),
    Option(
        "checkpoint_frequency",
        int,
        "Batches between checkpoints; by default 500.",
        at_least=1,
    ),
    Option(
        "tensorboard",
        bool,
        "Log for TensorBoard too; needs `pip install tensorboard`.",
    ),
    Option(
        "verbose",
        int,
        "0 silent, 1 progress bar, 2 lines; by default 1.",
        choices=(0, 1, 2),
    ),
)

# What is measured of a trained model besides.
MEASURES = (
    Option(
        "cache_size",
        int,
        "Outputs in a neural cache (Grave et al., 2017) on top of the trained "
        "model; its theta and weight are chosen on the validation text.",
        at_least=1,
        kinds=_LANGUAGE_MODELS,
    ),
    Option(
        "monte_carlo",
        int,
        "Samples of a Monte Carlo average (Gal and Ghahramani, 2016) of the "
        "test text, of a model trained with dropout.",
        at_least=1,
        kinds=_LANGUAGE_MODELS,
    ),
    Option(
        "samples",
        int,
        "Of smoothed models: evaluate the validation text by the mode and by "
        "the mean of so many samples as well.",
        at_least=1,
        kinds=_LANGUAGE_MODELS,
    ),
    Option(
        "questions",
        str,
        "Questions of the Sentence Completion Challenge, a file such as "
        "Holmes.machine_format.questions.txt, for a model of novels prepared "
        "by memlm_keras.data.prepare_novels.",
        kinds=_LANGUAGE_MODELS,
    ),
    Option(
        "answers",
        str,
        "With --questions: their answers.",
        kinds=_LANGUAGE_MODELS,
    ),
    Option(
        "beams",
        int,
        "Of autoencoders: write by beam search of so many beams as well.",
        at_least=2,
        kinds=_AUTOENCODERS,
    ),
)

# What is drawn of a trained model.
PICTURES = (
    Option(
        "passage",
        int,
        "Tokens of the test text in the attention picture; by default 24.",
        at_least=2,
    ),
    Option(
        "sentence",
        str,
        "The sentence to draw, its words as the corpus has them, with spaces "
        "between them; by default the longest of the test text with at most "
        "20 words, all of them known.",
    ),
    Option(
        "analyses",
        str,
        "Analyses of Tran et al. (2016), with commas between: columns (where "
        "the model attends after sampled words, Figure 4), predictions (a "
        "sentence with the most probable next words, Figure 5), pairs (words "
        "joined by distant attention, Table 3), dependencies (attention by "
        "dependency in parsed sentences, Figure 6).",
    ),
    Option(
        "columns",
        int,
        "With columns: words to sample of the test text; by default 100.",
        at_least=1,
    ),
    Option(
        "conllu",
        str,
        "With dependencies: file of parsed sentences, in CoNLL-U; by default "
        "the test text, where --dataset is a treebank.",
    ),
    Option(
        "premise",
        str,
        "Of classifiers: the premise to draw, with spaces between words; by "
        "default that of the first test pair.",
    ),
    Option("hypothesis", str, "With --premise: the hypothesis."),
    Option(
        "written",
        str,
        "Of associative memories: compare with what a step adds to the memory, "
        "or with all that it then remembers.",
        choices=("written", "state"),
    ),
)

"""All options of experiments, said once for Python and for commands.

`OVERRIDES` make an experiment what it is, `RUNNING` says how long it is
trained, `MEASURES` and `PICTURES` what is made of the trained model. What is
not given is the preset's.
"""

import functools

from memlm_keras.experiments.options import AUTOENCODER
from memlm_keras.experiments.options import CLASSIFIER
from memlm_keras.experiments.options import KNESER_NEY
from memlm_keras.experiments.options import LANGUAGE_MODEL
from memlm_keras.experiments.options import NEURAL
from memlm_keras.experiments.options import Option

_of_texts = functools.partial(
    Option, kinds=(LANGUAGE_MODEL, AUTOENCODER, KNESER_NEY)
)
_neural = functools.partial(Option, kinds=NEURAL)
_of_language = functools.partial(Option, kinds=(LANGUAGE_MODEL,))
_of_pairs = functools.partial(Option, kinds=(CLASSIFIER,))

# What the text is, and how it is read.
READING = (
    Option(
        "data_dir",
        str,
        "Folder of the files of a public corpus; downloaded if not given.",
    ),
    _of_texts(
        "document_start",
        str,
        "With files of your own: regular expression that matches the lines "
        "that begin a document.",
    ),
    _of_texts(
        "tokenize",
        str,
        "With files of your own: how to part words; by default at white space.",
        choices=("unicode_script", "characters"),
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
        "Words seen fewer times in training are unknown. By default those seen "
        "once, unless the text has unknown words to learn from anyway.",
        at_least=1,
    ),
    _of_texts(
        "training_lines",
        int,
        "Train on so many first lines of the training text; words that they "
        "do not hold are unknown.",
        at_least=1,
    ),
    _of_language(
        "cbt_train_on",
        str,
        "With --dataset=cbt: the books, or the questions of one word type.",
        choices=("books", "NE", "CN", "V", "P"),
    ),
    _of_pairs("lowercase", bool, "Lower-case all tokens."),
    _of_language(
        "documents",
        bool,
        "Begin each document afresh, or read them as one continuous text.",
    ),
)

# How large the model is, and how it begins.
SIZES = (
    _neural(
        "scale",
        float,
        "Factor on the paper's sizes, which keeps their proportions.",
        at_least=1e-6,
    ),
    _neural("units", int, "Units of the recurrent layers.", at_least=1),
    _neural("embedding_dim", int, "Size of the embeddings.", at_least=1),
    _of_language("window", int, "Window of the memory.", at_least=1),
    _neural(
        "initial_range",
        float,
        "Weights are drawn from U(-r, r) with this r. With --scale=s, the "
        "paper's divided by sqrt(s) begins as the paper's sizes do.",
        at_least=0,
    ),
    _of_language(
        "match_parameters",
        bool,
        "Choose the hidden size that gives the parameters of the paper's LSTM "
        "row at this scale and vocabulary, as the sizes of Daniluk et al. do "
        "at 77,003 words; but for rows that are larger there too.",
    ),
    _of_language(
        "memory",
        str,
        "A memory above the recurrent layers of a preset without one, the "
        "last of which then has three times the units.",
        choices=("key_value_predict",),
    ),
    _neural(
        "key",
        str,
        "Keys of an associative memory: no longer than one, or of length one.",
        choices=("bound", "unit"),
    ),
)

# How it is trained.
TRAINING = (
    _neural(
        "dropout",
        float,
        "Dropout rate of embeddings, layers and outputs, those of them that "
        "the preset drops; not of recurrent connections.",
        at_least=0,
        at_most=1,
    ),
    _neural("batch_size", int, "Rows of a batch.", at_least=1),
    Option(
        "segment_length",
        int,
        "Steps of back-propagation, or, where the preset reads sentences, the "
        "length that they are cut at in training; by autoencoders, always.",
        at_least=1,
        kinds=(LANGUAGE_MODEL, AUTOENCODER),
    ),
    _of_language(
        "length_multiple",
        int,
        "Where the preset reads sentences: they are padded, without effect, "
        "to a multiple of this length, so that few shapes are compiled; by "
        "default 8.",
        at_least=1,
    ),
    _neural("learning_rate", float, "Initial learning rate.", at_least=0),
    _neural(
        "distribution",
        str,
        "Train on several devices, each with some rows of every batch; of JAX "
        "and TensorFlow.",
        choices=("data_parallel",),
    ),
    _of_language(
        "halve_after", int, "Epochs at the initial learning rate.", at_least=0
    ),
    _of_language(
        "rate",
        float,
        "gamma_0, how much is noised or smoothed.",
        at_least=0,
        at_most=1,
    ),
    _of_language(
        "l2",
        float,
        "Weight of the divergence of what is smoothed, and of the squares of "
        "all other matrices, of the presets of kong2019.",
        at_least=0,
    ),
    _of_language(
        "output_bias",
        bool,
        "An output bias, of the presets of kong2019.",
    ),
    _of_language(
        "other_words",
        str,
        "Of Kneser-Ney smoothing: which output vectors the words that are not "
        "the target have while training; a sample takes an --output_bias.",
        choices=("sample", "mean", "mode"),
    ),
    _of_pairs(
        "vectors",
        str,
        "File of word vectors, such as glove.840B.300d.txt or its .zip. They "
        "are kept as they are for one pass over the pairs, and then trained.",
    ),
    _of_pairs(
        "embedding_range",
        float,
        "Embeddings begin as U(-r, r), by default with the size of GloVe's, "
        "r = 0.5; Keras' own start is 0.05.",
        at_least=0,
    ),
    _of_pairs(
        "halve",
        bool,
        "Halve the learning rate when accuracy falls over a pass, as the "
        "presets do.",
    ),
)

# What makes an experiment what it is, besides preset, dataset and seed.
OVERRIDES = {o.name: o for o in (*READING, *SIZES, *TRAINING)}

VERBOSE = Option(
    "verbose",
    int,
    "0 silent, 1 progress bar, 2 lines; by default 1.",
    choices=(0, 1, 2),
)
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
        "devices",
        int,
        "With --distribution: how many; by default all. A run may go on with "
        "another number.",
        at_least=1,
        kinds=NEURAL,
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
    VERBOSE,
)

# What is measured of a trained model besides.
MEASURES = (
    _of_language(
        "cache_size",
        int,
        "Outputs in a neural cache (Grave et al., 2017) on top of the trained "
        "model; its theta and weight are chosen on the validation text.",
        at_least=1,
    ),
    _of_language(
        "dynamic",
        bool,
        "Dynamic evaluation (Krause et al., 2018): weights that follow the "
        "text; rate and decay are chosen on the validation text. Costs one "
        "pass over the training text, nine over up to 6,000 segments of 5 "
        "tokens of the validation text, and one over validation and test. "
        "With --cache_size all of it twice, also of the model with its cache.",
    ),
    _of_language(
        "monte_carlo",
        int,
        "Samples of a Monte Carlo average (Gal and Ghahramani, 2016) of the "
        "test text, of a model trained with dropout.",
        at_least=1,
    ),
    _of_language(
        "samples",
        int,
        "Of smoothed models: evaluate the validation text by the mode and by "
        "the mean of so many samples as well.",
        at_least=1,
    ),
    _of_language(
        "questions",
        str,
        "Questions of the Sentence Completion Challenge, a file such as "
        "Holmes.machine_format.questions.txt, for a model of novels prepared "
        "by memlm_keras.data.prepare_novels.",
    ),
    _of_language("answers", str, "With --questions: their answers."),
    Option(
        "beams",
        int,
        "Of autoencoders: write by beam search of so many beams as well.",
        at_least=2,
        kinds=(AUTOENCODER,),
    ),
)

SENTENCE = Option(
    "sentence",
    str,
    "The sentence to draw; by default the longest of the test text with at "
    "most 20 words, all of them known.",
)
PASSAGE = Option(
    "passage",
    int,
    "Tokens of the test text in the attention picture; by default 24.",
    at_least=2,
)
# What is drawn of a trained model, beside a sentence.
DRAWING = (
    PASSAGE,
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
        "Of classifiers: the premise to draw; by default that of the first "
        "test pair.",
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
PICTURES = (SENTENCE, *DRAWING)

# What `memlm surprisal` finds, and how it reads.
SURPRISAL = (
    Option("unit", str, "By default bits.", choices=("bits", "nats")),
    Option(
        "reset",
        bool,
        "Read each sentence from the initial state; by default "
        "it is carried through the file.",
    ),
    Option(
        "rate",
        float,
        "Learn from the text while reading it, by dynamic "
        "evaluation with this rate of SGD.",
    ),
    Option(
        "segment_length",
        int,
        "With --rate: words to learn from at once; by default 5, "
        "and with --reset a sentence.",
    ),
    Option("out", str, "File to write; by default the screen."),
)

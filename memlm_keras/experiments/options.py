"""Options of `Experiment`, run folders, grids and the flags of `memlm`. This
module does not import Keras."""

import contextlib
import dataclasses
import difflib
import functools
import math
import os
import sys

CLASSIFIER = "EntailmentClassifier"
AUTOENCODER = "SequenceAutoencoder"
LANGUAGE_MODEL = "LanguageModel"
KNESER_NEY = "KneserNey"
# Kinds of models, and their names in error messages.
KINDS = {
    LANGUAGE_MODEL: "language models",
    CLASSIFIER: "classifiers",
    AUTOENCODER: "autoencoders",
    KNESER_NEY: "n-gram models, which count and have no weights",
}


class UsageError(ValueError):
    """Raised for a wrong name, flag or path, before any work is done."""


class MissingTextError(UsageError):
    """Raised if there is no text at a path."""


class NoUseError(UsageError):
    """Raised if a preset does not use an option that other presets use."""

    def __init__(self, option, message):
        super().__init__(message)
        self.option = option


# Errors that a wrong path raises.
OF_PATHS = (
    FileExistsError,
    FileNotFoundError,
    IsADirectoryError,
    NotADirectoryError,
)


def text_of(error):
    """Returns the message of an error, without the error number."""
    if not isinstance(error, OSError) or not error.strerror:
        return str(error)
    return ": ".join(map(str, filter(None, (error.strerror, error.filename))))


def print_error(program, error):
    line = " ".join(text_of(error).split()) or type(error).__name__
    # Errors that quote the output of another process are long.
    if len(line) > 800:
        line = f"{line[:400]} ... {line[-400:]} (--traceback shows all)"
    print(f"{program}: {line}", file=sys.stderr)


@contextlib.contextmanager
def wrong_use():
    """Context that turns errors about arguments and paths into `UsageError`."""
    try:
        yield
    except UsageError:
        raise
    except (ValueError, *OF_PATHS) as error:
        raise UsageError(text_of(error)) from error


def nearest(name, names):
    """Returns `" Did you mean NAME?"`, or `""` if no name is similar."""
    matches = difflib.get_close_matches(str(name), map(str, names), 1, 0.5)
    return f" Did you mean {matches[0]}?" if matches else ""


def split_paths(text):
    """Splits a string into paths at commas, unless it is an existing path."""
    return [text] if os.path.exists(text) else text.split(",")


@dataclasses.dataclass(frozen=True)
class Option:
    """An option of experiments or of a command."""

    name: str
    type: type  # `list` for a repeatable flag.
    help: str
    default: object = None
    choices: tuple | None = None
    at_least: float | None = None
    at_most: float | None = None
    above: float | None = None
    below: float | None = None
    kinds: tuple = tuple(KINDS)  # Kinds of models that use the option.
    # Text in the names of run folders; by default the option's name and value.
    label: str | None = None
    writes: str | None = None  # Suffix of a file to write.

    def read(self, value):
        """Converts a value or string; raises `UsageError` if it is invalid."""
        converted = self._convert(value)
        if (
            converted is None
            or (self.choices is not None and converted not in self.choices)
            or (self.at_least is not None and converted < self.at_least)
            or (self.at_most is not None and converted > self.at_most)
            or (self.above is not None and converted <= self.above)
            or (self.below is not None and converted >= self.below)
        ):
            hint = nearest(value, self.choices) if self.choices else ""
            raise UsageError(
                f"{self.name} must be {self.expected}. Received: {value!r}"
                f"{hint and '.'}{hint}"
            )
        return converted

    def _convert(self, value):
        """Returns the value converted to `type`, or `None` if it cannot be."""
        if self.type is bool and isinstance(value, str):
            return {"true": True, "false": False}.get(value.lower())
        if isinstance(value, bool) and self.type in (int, float):
            return None
        if self.type is int and isinstance(value, float) and value % 1:
            return None
        try:
            converted = self.type(value)
        except (TypeError, ValueError, OverflowError):
            return None
        # Infinity and NaN are not valid sizes, rates or times.
        is_number = self.type is not float or math.isfinite(converted)
        return converted if is_number else None

    @property
    def expected(self):
        if self.choices is not None:
            return f"one of {', '.join(map(str, self.choices))}"
        names = {int: "an integer", float: "a number", bool: "true or false"}
        text = names.get(self.type, "a text")
        for words, limit in (
            (" of at least", self.at_least),
            (" above", self.above),
            (", at most", self.at_most),
            (", below", self.below),
        ):
            if limit is not None:
                # Prints large integers without an exponent.
                text += f"{words} {limit:{'g' if limit % 1 else '.0f'}}"
        return text


def read_options(options, values, kind=None):
    """Converts a dict from option names to values. Raises `UsageError` for an
    unknown name, an invalid value, or an option that `kind` does not use."""
    known = {option.name: option for option in options}
    for name in values:
        if name not in known:
            raise UsageError(
                f"There is no setting {name!r}.{nearest(name, known)}"
            )
    # The order of the values is fixed, as folder names depend on it.
    given = {}
    for name, option in known.items():
        value = values.get(name)
        if value is None:
            continue
        if kind is not None and kind not in option.kinds:
            raise NoUseError(
                name,
                f"{name} does not apply to {KINDS[kind]}. Received: "
                f"{name}={value}",
            )
        given[name] = option.read(value)
    return given


def as_flag(name, value):
    """Returns the flag that sets an option to a value."""
    if isinstance(value, bool):
        return f"--{name}" if value else f"--no{name}"
    return f"--{name}={value}"


_neural = functools.partial(
    Option, kinds=(LANGUAGE_MODEL, CLASSIFIER, AUTOENCODER)
)
_of_texts = functools.partial(
    Option, kinds=(LANGUAGE_MODEL, AUTOENCODER, KNESER_NEY)
)
_of_language = functools.partial(Option, kinds=(LANGUAGE_MODEL,))
_of_pairs = functools.partial(Option, kinds=(CLASSIFIER,))
_of_autoencoders = functools.partial(Option, kinds=(AUTOENCODER,))

to_write = functools.partial(Option, type=str, writes="")

# Names of corpora for models of texts and of sentence pairs.
TEXTS = ("embedded", "ptb", "wikitext-2", "cbt")
PAIRS = ("embedded", "snli", "sick")

DATASET = Option(
    "dataset",
    str,
    f"Corpus: {', '.join(TEXTS)} (for sentence pairs: {', '.join(PAIRS)}, or a "
    ".tsv, .csv or .jsonl file with premise, hypothesis and label); "
    "a .txt file with one sentence per line, which is split into three "
    "parts; three files separated by commas; a folder with train, valid and "
    "test (.txt files, or folders of documents); a folder with a treebank in "
    "CoNLL-U (NAME-ud-train.conllu and so on); or documents to divide among "
    "the three parts: a folder of .txt files, or a file with --document_start.",
)

# Options for reading the text.
READING = (
    Option(
        "data_dir",
        str,
        "Folder with the files of a public corpus; downloaded by default.",
        label="",
    ),
    _of_texts(
        "document_start",
        str,
        "For your own files: regular expression that matches the first line of "
        "each document.",
        label="",
    ),
    Option(
        "tokenize",
        str,
        "For your own files: how to split text into words; by default at white "
        "space, and for sentence pairs also at punctuation.",
        choices=("unicode_script", "characters"),
        label="",
    ),
    Option(
        "vocabulary_size",
        int,
        "Size of the vocabulary: special tokens and most frequent words; by "
        "default 77,003 for documents to divide into parts, otherwise all.",
        at_least=2,
    ),
    Option(
        "minimum_count",
        int,
        "Words with fewer occurrences in the training text are unknown; by "
        "default 2, or 1 for sentence pairs and texts that contain <unk>.",
        at_least=1,
    ),
    _of_texts(
        "training_lines",
        int,
        "Train on this many lines from the beginning of the training text; "
        "words of the other lines are unknown.",
        at_least=1,
    ),
    _of_language(
        "cbt_train_on",
        str,
        "For --dataset=cbt: train on the books, or on the questions of a type.",
        choices=("books", "NE", "CN", "V", "P"),
    ),
    _of_pairs(
        "lowercase",
        bool,
        "Convert all tokens to lower case.",
        label="lowercase",
    ),
    _of_language(
        "documents",
        bool,
        "Start each document from the initial state; with --nodocuments, read "
        "all documents as one continuous text.",
    ),
)

# Sizes and initial weights of the model.
SIZES = (
    _neural(
        "scale",
        float,
        "Factor for all sizes of the paper's model; by default 1.",
        at_least=1e-6,
    ),
    _neural("units", int, "Units of the recurrent layers.", at_least=1),
    _neural("embedding_dim", int, "Size of the embeddings.", at_least=1),
    _of_language("window", int, "Window of the memory.", at_least=1),
    _neural(
        "initial_range",
        float,
        "Draw initial weights from U(-r, r) with this r. With --scale=s, the "
        "paper's r divided by sqrt(s) keeps outputs as large as the paper's.",
        at_least=0,
    ),
    _of_language(
        "match_parameters",
        bool,
        "Choose the hidden size so that the model has as many parameters as "
        "the paper's LSTM at this scale and vocabulary, as Daniluk et al. do. "
        "Models that are larger in the paper stay larger.",
        label="matched",
    ),
    _of_language(
        "memory",
        str,
        "Memory to add above the recurrent layers of a preset without one; the "
        "last recurrent layer then has three times as many units.",
        choices=("key_value_predict",),
    ),
    _neural(
        "key",
        str,
        "Length of associative memories' keys: at most one, or exactly one.",
        choices=("bound", "unit"),
    ),
)

TRAINING = (
    _neural(
        "dropout",
        float,
        "Dropout rate, wherever the preset has dropout, except on recurrent "
        "connections.",
        at_least=0,
        below=1,
    ),
    _neural("batch_size", int, "Rows of a batch.", at_least=1),
    Option(
        "segment_length",
        int,
        "Time steps of back-propagation. For presets that read sentences, and "
        "for autoencoders: longer sentences are cut at this length.",
        at_least=1,
        kinds=(LANGUAGE_MODEL, AUTOENCODER),
    ),
    _of_language(
        "length_multiple",
        int,
        "For presets that read sentences: pad lengths to a multiple of this "
        "number, so that few shapes are compiled; by default 8.",
        at_least=1,
    ),
    _neural("learning_rate", float, "Initial learning rate.", at_least=0),
    _neural(
        "distribution",
        str,
        "Train on several devices, each with some rows of every batch (JAX and "
        "TensorFlow).",
        choices=("data_parallel",),
        label="data_parallel",
    ),
    _of_language(
        "num_sampled",
        int,
        "For presets of memlm: number of words that the softmax compares with "
        "a target in training, half of them the most frequent and half drawn "
        "at random; 0 for all words.",
        at_least=0,
    ),
    _of_language(
        "halve_after", int, "Epochs at the initial learning rate.", at_least=0
    ),
    _of_language(
        "linear_decay",
        int,
        "Epochs over which the learning rate falls linearly to zero, instead "
        "of another schedule.",
        at_least=1,
    ),
    _of_language(
        "rate",
        float,
        "Rate gamma_0 of noise or smoothing; by default the preset's.",
        at_least=0,
        at_most=1,
    ),
    _of_language(
        "l2",
        float,
        "For presets of kong2019: weight of the divergence of smoothed "
        "matrices and of the squares of all other matrices.",
        at_least=0,
    ),
    _of_language(
        "output_bias",
        bool,
        "For presets of kong2019: whether the output layer has a bias.",
    ),
    _of_language(
        "other_words",
        str,
        "For Kneser-Ney smoothing: output vectors, in training, of all words "
        "except the target; `sample` needs --output_bias.",
        choices=("mode", "sample", "mean"),
    ),
    _of_pairs(
        "vectors",
        str,
        "File of word vectors, such as glove.840B.300d.txt or its .zip; frozen "
        "in the first pass over the pairs, and then trained.",
        label="",
    ),
    _of_pairs(
        "embedding_range",
        float,
        "Draw initial embeddings from U(-r, r) with this r; by default 0.5, "
        "the size of GloVe's vectors.",
        at_least=0,
    ),
    Option(
        "halve",
        bool,
        "Halve the learning rate after an epoch without a gain on the "
        "validation text, instead of another schedule. Default for presets of "
        "memlm and of sentence pairs.",
        kinds=(LANGUAGE_MODEL, CLASSIFIER),
    ),
    _of_language(
        "optimizer",
        str,
        "Train with Adam instead of the preset's optimizer; its default "
        "learning rate is 0.003.",
        choices=("adam",),
    ),
)

# Settings with defaults in the preset: all but preset, dataset and seed.
OVERRIDES = {o.name: o for o in (*READING, *SIZES, *TRAINING)}

VERBOSE = Option(
    "verbose",
    int,
    "Progress: 0 for none, and only results are printed; 1 for a bar, the "
    "default in a terminal; 2 for a line per epoch, the default in a file.",
    choices=(0, 1, 2),
)
# Options that do not identify a run.
RUNNING = (
    Option("epochs", int, "Maximum number of epochs.", at_least=1),
    Option(
        "patience",
        int,
        "Epochs without a better validation perplexity or accuracy before "
        "training stops.",
        at_least=0,
    ),
    _neural(
        "devices",
        int,
        "For --distribution: number of devices; by default all. A run can "
        "continue with another number.",
        at_least=1,
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
        "Log for TensorBoard too; needs `pip install tensorflow tensorboard`.",
    ),
)

# Options that request measurements of `measurements.MEASUREMENTS`.
MEASURING = (
    _of_language(
        "test_last", bool, "Also measure the weights of the last epoch."
    ),
    _of_language(
        "compare",
        bool,
        "Compare with n-gram models, which take seconds: Kneser-Ney, order 5, "
        "without and with a cache. Default of `memlm train` on your own text.",
    ),
    _of_language(
        "cache_size",
        int,
        "Add a neural cache (Grave et al., 2017) of this many outputs to the "
        "trained model; theta and weight are chosen on the validation text.",
        at_least=1,
    ),
    _of_language(
        "dynamic",
        bool,
        "Dynamic evaluation (Krause et al., 2018), which trains on the text "
        "while reading it; rate and decay are chosen on the validation text. "
        "Takes one pass over the training text, nine over up to 6,000 segments "
        "of 5 tokens of the validation text, and one over validation and test; "
        "with --cache_size, all of them again for the model with its cache.",
    ),
    _of_language(
        "monte_carlo",
        int,
        "Samples of a Monte Carlo average (Gal and Ghahramani, 2016) over the "
        "test text, for a model trained with dropout.",
        at_least=1,
    ),
    _of_language(
        "samples",
        int,
        "For smoothed and noised models: also evaluate the validation text by "
        "the mode, and by the mean of this many samples.",
        at_least=1,
    ),
    _of_language(
        "questions",
        str,
        "Questions of the Sentence Completion Challenge, a file such as "
        "Holmes.machine_format.questions.txt, for a model of novels prepared "
        "with memlm_keras.data.prepare_novels.",
    ),
    _of_language("answers", str, "For --questions: file of the answers."),
    _of_autoencoders(
        "beams",
        int,
        "For autoencoders: also decode by beam search with this many beams.",
        at_least=2,
    ),
)

# Options for perplexity by the distance to a word's last occurrence.
BY = (
    Option(
        "by",
        str,
        "Perplexity by the distance to each word's last occurrence in its "
        "document, with a column for each run. With --cache_size, also for "
        "each model with a cache.",
        choices=("recency",),
        kinds=(LANGUAGE_MODEL, KNESER_NEY),
    ),
    Option(
        "split",
        str,
        "For --by: text to measure; by default test.",
        choices=("validation", "test"),
    ),
    to_write("out", help="For --by: JSON file to write as well."),
    to_write("plot", help="For --by: picture to write.", writes=".png"),
)

# === Options of several commands ===

RUN_DIR = Option("run_dir", str, "Folder that contains the run folders.")
OVERWRITE = Option(
    "overwrite", bool, "Rename the folder of an older run, and start again."
)
seed = functools.partial(Option, "seed", int, at_least=0, at_most=2**32 - 1)
RATE = Option(
    "rate",
    float,
    "Dynamic evaluation: train on the text while reading it, by SGD with this "
    "rate.",
    at_least=0,
)
CACHE = Option(
    "cache",
    bool,
    "Add the neural cache that was chosen for RUN, by `memlm train` on your "
    "own text, or by `memlm evaluate RUN --cache_size=500`.",
)

SENTENCE = Option(
    "sentence",
    str,
    "Sentence to draw; by default the longest of the test text with at most 20 "
    "words and no unknown word.",
)
PASSAGE = Option(
    "passage",
    int,
    "Tokens of the test text in the attention picture; by default 24.",
    at_least=2,
)
# Options for pictures of a trained model, except `SENTENCE`.
DRAWING = (
    PASSAGE,
    Option(
        "analyses",
        str,
        "Analyses of Tran et al. (2016), separated by commas: columns "
        "(attention after sampled words, Figure 4), predictions (a sentence "
        "with the most probable next words, Figure 5), pairs (words joined by "
        "distant attention, Table 3), dependencies (attention by dependency in "
        "parsed sentences, Figure 6).",
    ),
    Option(
        "columns",
        int,
        "For --analyses=columns: number of words to sample from the test "
        "text; by default 100.",
        at_least=1,
    ),
    Option(
        "conllu",
        str,
        "For --analyses=dependencies: file of parsed sentences in CoNLL-U; by "
        "default the test text, if --dataset is a treebank.",
    ),
    Option(
        "premise",
        str,
        "For classifiers: premise to draw; by default that of the first test "
        "pair.",
    ),
    Option("hypothesis", str, "For --premise: its hypothesis."),
    Option(
        "written",
        str,
        "For associative memories: compare what is read with what each step "
        "writes to the memory, or with the memory's state after the step.",
        choices=("written", "state"),
    ),
)
PICTURES = (SENTENCE, *DRAWING)

# === Groups of `--help` ===

OUTPUT, OF_PAPERS = "Output and process", "For some of the papers' models"
# Options that only a few presets use.
_OF_PAPERS = frozenset(
    "analyses answers beams cbt_train_on columns conllu embedding_range "
    "hypothesis initial_range key l2 length_multiple match_parameters memory "
    "other_words output_bias premise questions rate samples vectors window "
    "written".split()
)
# Options whose `--help` adds that their default is the preset's value.
OF_PRESET = frozenset(
    "batch_size dropout embedding_dim epochs halve_after key l2 learning_rate "
    "num_sampled output_bias patience segment_length units window".split()
)
_GROUPS = {
    "Text": (DATASET, *READING),
    "Sizes": SIZES,
    "Training": (*TRAINING, *RUNNING),
    "Measurements": (*MEASURING, *BY),
    "Pictures": PICTURES,
}


def group_of(option):
    """Returns the title of an option's group in `--help`."""
    titles = (title for title, group in _GROUPS.items() if option in group)
    title = next(titles, OUTPUT)
    if title != OUTPUT and option.name in _OF_PAPERS:
        return OF_PAPERS
    return title

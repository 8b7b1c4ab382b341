"""What the recipes share: flags, run folders, training to the best epoch."""

import os
import pathlib
import re

from absl import app
from absl import flags

FLAGS = flags.FLAGS

BACKENDS = ("tensorflow", "jax", "torch")

_CORPORA = ("embedded", "ptb", "wikitext-2")
_SPLITS = (("train",), ("valid", "validation", "dev"), ("test",))
_READING = ("document_start", "tokenize")
_TREEBANK = ("train", "dev", "test")
_TREEBANK_FILE = re.compile(rf"(?:(.+)-ud-)?({'|'.join(_TREEBANK)})\b.*")


def define_flags(run_dir):
    """Defines the flags that all recipes have."""
    flags.DEFINE_enum(
        "backend",
        None,
        BACKENDS,
        "Keras backend; by default the one that Keras is configured for.",
    )
    flags.DEFINE_string(
        "dataset",
        "embedded",
        "Corpus: embedded, ptb, wikitext-2 or cbt (of sentence pairs: "
        "embedded, snli or sick, and no other); a folder that holds train, "
        "valid and test (.txt files, one sentence a line, or folders of "
        "documents); a folder that holds a treebank in CoNLL-U, as "
        "NAME-ud-train.conllu, NAME-ud-dev.conllu and NAME-ud-test.conllu, or "
        "train.conllu, dev.conllu and test.conllu (a part in several files, "
        "such as NAME-ud-train-a.conllu, is read in the order of their names); "
        "or documents to be dealt to train, valid and test, as a folder of one "
        ".txt file each or as one file with --document_start.",
    )
    flags.DEFINE_string(
        "data_dir", None, "Folder of the corpus files; downloaded if not given."
    )
    flags.DEFINE_string(
        "document_start",
        None,
        "With files of your own: regular expression that matches the lines "
        "that begin a document.",
    )
    flags.DEFINE_enum(
        "tokenize",
        None,
        ["unicode_script"],
        "With files of your own: how to part words; by default at white space.",
    )
    flags.DEFINE_integer(
        "vocabulary_size",
        None,
        "Number of most frequent words to keep, special tokens counted; by "
        "default 77,003 where documents are dealt, and else all.",
        lower_bound=2,
    )
    flags.DEFINE_integer(
        "minimum_count",
        None,
        "With cbt and files of your own that are split already: words seen "
        "fewer times in training are unknown; by default 2 for cbt, so that "
        "there are unknown words to learn from, and else 1.",
        lower_bound=1,
    )
    flags.DEFINE_enum(
        "cbt_train_on",
        "books",
        ["books", "NE", "CN", "V", "P"],
        "With --dataset=cbt: the books, or the questions of one word type.",
    )
    flags.DEFINE_integer("epochs", 30, "Most epochs to train.", lower_bound=1)
    flags.DEFINE_integer(
        "patience",
        2,
        "Epochs without a better validation perplexity, or accuracy.",
    )
    flags.DEFINE_integer("seed", 0, "Seed of weights, dropout and shuffling.")
    flags.DEFINE_string("run_dir", run_dir, "Folder that run folders go in.")
    flags.DEFINE_bool("resume", False, "Go on with the run in its folder.")
    flags.DEFINE_integer(
        "checkpoint_frequency", 500, "Batches between checkpoints."
    )
    flags.DEFINE_bool(
        "tensorboard",
        False,
        "Log for TensorBoard too; needs `pip install tensorboard`.",
    )
    flags.DEFINE_integer(
        "passage", 24, "Tokens of the test text in the attention picture."
    )
    flags.DEFINE_integer("verbose", 1, "0 silent, 1 progress bar, 2 lines.")


def choose_backend(backend=None):
    """Sets the Keras backend; to be called before Keras is imported."""
    if backend is not None:
        os.environ["KERAS_BACKEND"] = backend
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")


def load_corpus(sentences=False):
    """Loads the corpus that the flags ask for.

    Args:
        sentences: whether lines that hold several sentences are split at them,
            as those of WikiText-2 do.

    Raises:
        app.UsageError: if flags contradict each other.
        FileNotFoundError: if a file is not there.
    """
    from memlm_keras import data

    reading = reading_settings()
    building = {}
    if FLAGS.vocabulary_size is not None:
        building["vocabulary_size"] = FLAGS.vocabulary_size
    path = pathlib.Path(FLAGS.dataset)
    own, treebank = _is_own(path), find_treebank()
    if reading and (treebank or not own):
        raise app.UsageError(
            f"--{' and --'.join(reading)} cannot be given for "
            f"--dataset={FLAGS.dataset}, which is always read in the same way."
        )
    if FLAGS.dataset == "cbt":
        return data.load_cbt(
            FLAGS.cbt_train_on,
            FLAGS.data_dir,
            minimum_count=given("minimum_count", 2),
            **building,
        )
    splits = treebank or (_find_splits(path) if own else None)
    if FLAGS.minimum_count is not None and splits is None:
        raise app.UsageError(
            "--minimum_count needs --dataset=cbt or a folder that holds train, "
            f"valid and test. Received: --dataset={FLAGS.dataset}"
        )
    if not own:
        if path.parent != pathlib.Path("."):
            raise app.UsageError(
                f"There is no file or folder --dataset={FLAGS.dataset}."
            )
        if sentences and FLAGS.dataset == "wikitext-2":
            building["sentences"] = True
        return data.load(FLAGS.dataset, data_dir=FLAGS.data_dir, **building)
    if splits is None:
        return data.load_documents(path, **reading, **building)
    load = data.load_conllu if treebank else data.load_text
    return load(
        *splits, minimum_count=given("minimum_count", 1), **reading, **building
    )


def find_treebank():
    """Files of the treebank that `--dataset` is a folder of.

    Returns:
        Lists of the paths of training, validation and test; `None` where
        `--dataset` is anything else.

    Raises:
        app.UsageError: if one of the three is missing, or there are several
            treebanks.
    """
    path = pathlib.Path(FLAGS.dataset)
    files = sorted(path.glob("*.conllu")) if _is_own(path) else []
    # Beside a text, its parses may stand.
    if not files or _find_splits(path) is not None:
        return None
    matches = [(_TREEBANK_FILE.fullmatch(file.stem), file) for file in files]
    names = {match[1] for match, _ in matches if match}
    found = [
        [file for match, file in matches if match and match[2] == split]
        for split in _TREEBANK
    ]
    if len(names) > 1 or not all(found):
        raise app.UsageError(
            f"--dataset={path} must hold one treebank, as files "
            "NAME-ud-train.conllu, NAME-ud-dev.conllu and NAME-ud-test.conllu, "
            "or the same without NAME-ud-. Received: "
            f"{', '.join(file.name for file in files)}"
        )
    return found


def reading_settings():
    """Dict of the flags that say how files of one's own are read."""
    values = {flag: FLAGS[flag].value for flag in _READING}
    return {flag: value for flag, value in values.items() if value is not None}


def given(flag, default):
    """Value of a flag, or the default of a preset where it was not given."""
    return default if FLAGS[flag].value is None else FLAGS[flag].value


def size_parts():
    """Parts of a run folder's name that say how large models are."""
    parts = []
    if FLAGS.vocabulary_size is not None:
        parts.append(f"vocabulary{FLAGS.vocabulary_size}")
    if FLAGS.scale != 1:
        parts.append(f"scale{FLAGS.scale:g}")
    return parts


def dataset_name():
    """Name of the corpus that the flags ask for, as run folders have it."""
    if FLAGS.dataset == "cbt" and FLAGS.cbt_train_on != "books":
        return f"cbt-{FLAGS.cbt_train_on}"
    return pathlib.Path(FLAGS.dataset).name


def _is_own(path):
    return FLAGS.dataset not in (*_CORPORA, "cbt") and path.exists()


def _find_splits(path):
    """Paths of the three splits in a folder, or `None` if it has none."""
    found = [
        [
            path / f"{name}{ending}"
            for name in names
            for ending in ("", ".txt")
            if (path / f"{name}{ending}").exists()
        ]
        for names in _SPLITS
    ]
    if not any(found):
        return None
    for names, paths in zip(_SPLITS, found):
        if not paths:
            raise FileNotFoundError(
                f"--dataset={path} must hold {names[0]}.txt, or a folder "
                f"{names[0]} of documents, as it holds other splits."
            )
    return [paths[0] for paths in found]

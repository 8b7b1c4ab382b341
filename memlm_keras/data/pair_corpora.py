"""Reads sentence pairs from the user's files, from SNLI (Bowman et al., 2015)
and from SICK (Marelli et al., 2014), in all their published formats."""

import collections
import itertools
import pathlib
import re

import numpy as np

from memlm_keras.data import tables
from memlm_keras.data.corpora import public_files
from memlm_keras.data.corpus import SPLITS
from memlm_keras.data.corpus import name_of
from memlm_keras.data.corpus import split_for
from memlm_keras.data.corpus import tokenizer_for
from memlm_keras.data.pairs import LABELS
from memlm_keras.data.pairs import SentencePair
from memlm_keras.data.pairs import encode_pairs
from memlm_keras.data.text_store import read_lines

NAMES = ("embedded", "snli", "sick")
SUFFIXES = (".tsv", ".csv", ".jsonl", ".txt")
_SNLI = ("snli_1.0_train", "snli_1.0_dev", "snli_1.0_test")
_SICK = ("SICK_train.txt", "SICK_trial.txt", "SICK_test_annotated.txt")
_SICK_LATER = ("TRAIN", "TRIAL", "TEST")
# Columns of your files, and other names that public corpora give them.
COLUMNS = {
    "premise": (
        *("sentence1", "sentence_A", "text1", "text_A", "s1", "question1"),
        "#1 String",
    ),
    "hypothesis": (
        *("sentence2", "sentence_B", "text2", "text_B", "s2", "question2"),
        "#2 String",
    ),
    "label": (
        *("gold_label", "entailment_judgment", "entailment_label", "class"),
        *("judgment", "relation", "category", "is_duplicate", "quality"),
    ),
}
_PARTS = (("train", "training"), ("valid", "validation", "dev"), ("test",))
# If a file has a key as a label, the key's value marks pairs without a label.
_NO_LABEL = {"entailment": "-", "0": "-1"}


def load_pairs(
    name,
    data_dir=None,
    cache_dir=None,
    vocabulary=None,
    vocabulary_size=None,
    minimum_count=1,
    lowercase=False,
    tokenize=None,
    labels=None,
):
    """Loads a corpus of sentence pairs, by name or from your own files.

    * `"embedded"`: generated pairs, 20,000 for training; see
      `memlm_keras.data.embedded_pairs`.
    * `"snli"`: 549,367, 9,842 and 9,824 pairs with a gold label, from
      `snli_1.0_train.jsonl` and so on, or from the `.txt` files. Tokens are
      the leaves of the parses in the corpus.
    * `"sick"`: 4,500, 500 and 4,927 pairs, split at white space, from
      `SICK_train.txt`, `SICK_trial.txt` and `SICK_test_annotated.txt`, or from
      `SICK.txt` in the later release. SICK is not downloaded.
    * The path of a `.tsv`, `.csv`, `.jsonl` or `.txt` file (read as `.tsv`)
      with the columns premise, hypothesis and label, or the column names of
      SNLI, SICK or GLUE. A table with three columns needs no header. For each
      label, a tenth of the pairs is drawn for validation and a tenth for test.
    * Three files: a list of paths, or a folder with one file for `train`, one
      for `valid` or `dev`, and one for `test`.

    Args:
        name: Name from the list above, a path, or three paths.
        data_dir: Folder with the files of SNLI or SICK; `None` downloads SNLI.
        cache_dir: See `memlm_keras.data.load`.
        vocabulary, vocabulary_size, minimum_count: See `encode_pairs`.
        tokenize: `split` of `Tokenizer`, for your own files only; `None` splits
            off punctuation if it is attached to words.
        labels: Sequence of labels, such as those of a trained model; `None`
            uses the labels of the training pairs, in alphabetical order. The
            named corpora have the labels entailment, neutral and contradiction.

    Returns:
        `PairCorpus`; its `description` says how a single file was split.

    Raises:
        ValueError: `name` or a label is unknown, a file is damaged, or a
            sentence is empty. Error messages name the line.
        FileNotFoundError: A file does not exist, or `"sick"` has no `data_dir`.
        OSError: The download failed.

    Example:

    >>> corpus = memlm_keras.data.load_pairs("embedded")
    >>> len(corpus.train), corpus.labels
    (20000, ('entailment', 'neutral', 'contradiction'))
    """
    if tokenize is not None and name in NAMES:
        raise ValueError(
            "`tokenize` applies only to your own files. Received: "
            f"tokenize={tokenize!r} and name={name!r}"
        )
    description = ""
    if name == "embedded":
        from memlm_keras.data import embedded_pairs

        splits = {
            split: embedded_pairs.generate_pairs(size, [0, index])
            for index, (split, size) in enumerate(embedded_pairs.SIZES.items())
        }
    elif name == "snli":
        splits = _snli(data_dir, cache_dir)
    elif name == "sick":
        splits = _sick(data_dir)
    else:
        paths = pair_files(name)
        parts, description = _own_rows(paths, labels)
        labels = labels or sorted({row["label"] for _, row in parts[0]})
        if tokenize is None and vocabulary is None:
            texts = [row["premise"] for _, row in parts[0]]
            tokenize = split_for(" ".join(texts).split())
        tokenizer = tokenizer_for(
            vocabulary, lowercase=lowercase, split=tokenize
        )
        splits = {
            split: [
                _pair(
                    where,
                    tokenizer.tokenize(row["premise"]),
                    tokenizer.tokenize(row["hypothesis"]),
                    row["label"],
                    labels,
                )
                for where, row in part
            ]
            for split, part in zip(SPLITS, parts)
        }
        name = name_of(paths[0])
    return encode_pairs(
        name,
        splits,
        tuple(labels or LABELS),
        vocabulary,
        vocabulary_size,
        minimum_count,
        lowercase,
        tokenize,
        description,
    )


# === The user's files ===


def pair_files(name):
    """Converts `name`, as in `load_pairs`, to a list of one or three paths."""
    several = isinstance(name, (list, tuple))
    paths = [*map(pathlib.Path, name if several else [name])]
    if not several and paths[0].is_dir():
        files = [
            file
            for file in sorted(paths[0].iterdir())
            if file.suffix.lower() in SUFFIXES
        ]
        parts = [
            [f for f in files if re.split("[^a-z]", f.stem.lower())[-1] in part]
            for part in _PARTS
        ]
        if not all(len(part) == 1 for part in parts):
            raise ValueError(
                f"The folder {name} must have one file of pairs for training, "
                "one for validation and one for test, such as train.tsv, "
                "dev.tsv and test.tsv. Received: "
                f"{', '.join(f.name for f in files)}"
            )
        paths = [part[0] for part in parts]
    if len(paths) not in (1, 3):
        raise ValueError(
            "Pairs come from one file, or from three: for training, "
            f"validation and test. Received: {len(paths)}"
        )
    for path in paths:
        if path.suffix.lower() not in SUFFIXES:
            raise ValueError(
                f"`name` must be one of {NAMES}, or a file of pairs "
                f"({', '.join(SUFFIXES)}). Received: {str(path)!r}"
            )
        if not path.is_file():
            raise FileNotFoundError(f"There is no file {path}.")
    return paths


def read_pairs(path, optional=()):
    """Reads a table of pairs; `optional` columns may be missing or empty.

    Returns:
        List of `(file and line, cells)` for each row; `cells` is a dict.

    Raises:
        ValueError: The file is not a table of pairs, or has an empty cell.
    """
    path = pathlib.Path(path)
    lines, rows = tables.decode(path.read_bytes(), path).split("\n"), []
    with tables.naming(path):
        for line, row in tables.read_rows(lines, path, COLUMNS, optional):
            for name in filter(row.__contains__, COLUMNS):
                value = row[name]
                if name == "label" and isinstance(value, (int, float)):
                    value = row[name] = str(value)
                if name in optional and value in (None, ""):
                    row[name] = ""
                elif not isinstance(value, str) or not value.strip():
                    raise ValueError(
                        f"line {line}: the {name} must be a non-empty string. "
                        f"Received: {value!r}"
                    )
            if "label" in row:
                row["label"] = row["label"].strip()
            rows.append((f"{path}: line {line}", row))
    return rows


def _own_rows(paths, labels):
    """Returns a list of rows for each split, and a message for the user."""
    parts, left_out, given = [], 0, {*(labels or ())}
    for path in paths:
        rows = read_pairs(path)
        known = {row["label"] for _, row in rows} | given
        absent = {_NO_LABEL[n] for n in known & {*_NO_LABEL}} - given
        parts.append([row for row in rows if row[1]["label"] not in absent])
        left_out += len(rows) - len(parts[-1])
    counts = collections.Counter(row["label"] for _, row in parts[0])
    if labels is None and not 1 < len(counts) <= sum(counts.values()) / 2:
        raise ValueError(
            f"{paths[0]} must have at least two labels, each with several "
            f"pairs. Received: {', '.join([*counts][:5])} ({len(counts)} "
            f"labels of {sum(counts.values()):,} pairs)"
        )
    description = "Pairs: "
    if len(parts) == 1:
        parts = _drawn_splits(parts[0])
        description = f"Pairs of {paths[0].name}, drawn at random by label: "
    train, validation, test = map(len, parts)
    named = ", ".join(f"{name} {n:,}" for name, n in sorted(counts.items()))
    description += (
        f"{train:,} for training, {validation:,} for validation and {test:,} "
        f"for test. Labels: {named}."
    )
    if left_out:
        description += f" {left_out:,} pairs without a gold label are left out."
    return parts, description


def _drawn_splits(rows):
    """Draws splits; validation and test each get a tenth of each label."""

    def label_of(place):
        return rows[place][1]["label"]

    drawn = np.random.default_rng(0).permutation(len(rows))
    parts, count = [[], [], []], 0
    groups = itertools.groupby(sorted(drawn.tolist(), key=label_of), label_of)
    for _, (first, *others) in groups:
        # Every label must occur in training.
        parts[0].append(first)
        for place in others:
            part = count % 10 + 1
            parts[part if part < 3 else 0].append(place)
            count += 1
    return [[rows[place] for place in sorted(part)] for part in parts]


def _pair(where, premise, hypothesis, label, labels=LABELS):
    """Returns a `SentencePair`; error messages begin with `where`."""
    with tables.naming(where):
        if label not in labels:
            raise ValueError(
                f"the label must be one of {', '.join(labels)}. Received: "
                f"{label!r}"
            )
        return SentencePair(tuple(premise), tuple(hypothesis), label)


# === Public corpora ===


def read_snli(path):
    """Reads an SNLI file; yields one pair at a time.

    Skips pairs without a gold label (`-`), on which annotators disagreed.

    Args:
        path: Path of a UTF-8 file, `.jsonl` or tab-separated with a header.

    Yields:
        `SentencePair`.

    Raises:
        FileNotFoundError: The file does not exist.
        ValueError: The file is not UTF-8 or has no pair, a label is missing or
            unknown, or a sentence is empty. Error messages name the line.

    Example:

    >>> pair = next(read_snli("snli_1.0_dev.jsonl"))
    """
    columns = "gold_label", "sentence1_binary_parse", "sentence2_binary_parse"
    for where, label, *parses in _records(path, columns):
        if label != "-":
            sentences = (
                (token for token in parse.split() if token not in "()")
                for parse in parses
            )
            yield _pair(where, *sentences, label)


def read_sick(path, part=None):
    """Reads a SICK file; yields one pair at a time.

    Args:
        path: Path of the tab-separated UTF-8 file.
        part: `None` for all pairs; `"TRAIN"`, `"TRIAL"` or `"TEST"` for the
            pairs of that part of `SICK.txt`, the file of SICK's later release.

    Yields:
        `SentencePair` with its label in lower case.

    Raises:
        FileNotFoundError, ValueError: See `read_snli`.

    Example:

    >>> pair = next(read_sick("SICK_trial.txt"))
    """
    label = "entailment_judgment" if part is None else "entailment_label"
    columns = [label, "sentence_A", "sentence_B"]
    columns.append(label if part is None else "SemEval_set")
    for where, label, *sentences, own_part in _records(path, columns):
        if part in (None, own_part):
            premise, hypothesis = map(str.split, sentences)
            yield _pair(where, premise, hypothesis, label.lower())


def _snli(data_dir, cache_dir):
    for ending in (".jsonl", ".txt"):
        files = [f"{name}{ending}" for name in _SNLI]
        try:
            paths = public_files("snli", files, data_dir, cache_dir)
            return dict(zip(SPLITS, map(read_snli, paths)))
        except FileNotFoundError as error:
            missing = error
    raise missing


def _sick(data_dir):
    folder = pathlib.Path("." if data_dir is None else data_dir)
    paths = [folder / file for file in _SICK]
    later = folder / "SICK.txt"
    if data_dir is not None and later.is_file():
        return {
            split: read_sick(later, part)
            for split, part in zip(SPLITS, _SICK_LATER)
        }
    if data_dir is None or not all(path.is_file() for path in paths):
        raise FileNotFoundError(
            "SICK is read from `data_dir`, a folder with "
            f"{', '.join(_SICK)}, or SICK.txt. Received: data_dir={data_dir}"
        )
    return dict(zip(SPLITS, map(read_sick, paths)))


def _records(path, columns):
    """Yields `(file and line, *cells)` per row, one cell for each column."""
    fields, where = dict.fromkeys(columns, ()), None
    with tables.naming(path):
        rows = tables.read_rows(read_lines(path), path, fields, whole=False)
        for line, row in rows:
            where = f"{path}: line {line}"
            values = [row.get(column) for column in columns]
            if None in values:
                raise ValueError(
                    f"line {line}: there is no {columns[values.index(None)]!r}"
                )
            yield where, *values
        if where is None:
            raise ValueError("the file has no pairs")

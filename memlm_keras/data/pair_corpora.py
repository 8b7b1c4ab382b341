"""Corpora of sentence pairs by name, and readers of SNLI (Bowman et al., 2015)
and SICK (Marelli et al., 2014) in all formats of their releases."""

import json
import pathlib

from memlm_keras.data.corpora import public_files
from memlm_keras.data.corpus import SPLITS
from memlm_keras.data.pairs import LABELS
from memlm_keras.data.pairs import SentencePair
from memlm_keras.data.pairs import encode_pairs
from memlm_keras.data.text_store import read_lines

NAMES = ("embedded", "snli", "sick")
_SNLI = ("snli_1.0_train", "snli_1.0_dev", "snli_1.0_test")
_SICK = ("SICK_train.txt", "SICK_trial.txt", "SICK_test_annotated.txt")
_SICK_LATER = ("TRAIN", "TRIAL", "TEST")


def load_pairs(
    name,
    data_dir=None,
    cache_dir=None,
    vocabulary=None,
    vocabulary_size=None,
    minimum_count=1,
    lowercase=False,
):
    """Loads a corpus of sentence pairs.

    * `"embedded"`: pairs that are generated, 20,000 to train on; see
      `memlm_keras.data.embedded_pairs`.
    * `"snli"`: 549,367, 9,842 and 9,824 pairs with a gold label, of
      `snli_1.0_train.jsonl` and so on, or of the same as `.txt`. Tokens are the
      leaves of the parses that the corpus comes with.
    * `"sick"`: 4,500, 500 and 4,927 pairs, split at white space, of
      `SICK_train.txt`, `SICK_trial.txt` and `SICK_test_annotated.txt`, or of
      `SICK.txt` of the later release. It is not downloaded.

    Args:
        data_dir: Folder of the files; `None` downloads those of SNLI.
        cache_dir: As for `memlm_keras.data.load`.
        vocabulary, vocabulary_size, minimum_count: As for `encode_pairs`.

    Returns:
        `PairCorpus` with the labels entailment, neutral and contradiction.

    Raises:
        ValueError: There is no such corpus, or a file is damaged.
        FileNotFoundError: A file is not in `data_dir`, or `"sick"` has no
            `data_dir`.
        OSError: The download failed.

    Example:

    >>> corpus = memlm_keras.data.load_pairs("embedded")
    >>> len(corpus.train), corpus.labels
    (20000, ('entailment', 'neutral', 'contradiction'))
    """
    if name == "embedded":
        # Few programs need its grammar.
        from memlm_keras.data import embedded_pairs

        splits = {
            split: embedded_pairs.generate_pairs(size, [0, index])
            for index, (split, size) in enumerate(embedded_pairs.SIZES.items())
        }
    elif name == "snli":
        splits = dict(zip(SPLITS, map(read_snli, _snli(data_dir, cache_dir))))
    elif name == "sick":
        splits = _sick(data_dir)
    else:
        raise ValueError(f"`name` must be one of {NAMES}. Received: {name!r}")
    return encode_pairs(
        name,
        splits,
        LABELS,
        vocabulary,
        vocabulary_size,
        minimum_count,
        lowercase,
    )


def read_snli(path):
    """Reads a file of SNLI one pair after the other.

    Pairs whose annotators did not agree, with the gold label `-`, are left
    out.

    Args:
        path: Path of a file `.jsonl`, or of one with tabs between the columns
            that its first line names; UTF-8.

    Yields:
        `SentencePair`.

    Raises:
        FileNotFoundError: There is no such file.
        ValueError: The file is not UTF-8 or has no pair, or a line lacks
            `gold_label` or the parse of a sentence.

    Example:

    >>> pair = next(read_snli("snli_1.0_dev.jsonl"))
    """
    columns = "gold_label", "sentence1_binary_parse", "sentence2_binary_parse"
    for label, *parses in _records(path, columns):
        if label != "-":
            sentences = (
                tuple(token for token in parse.split() if token not in "()")
                for parse in parses
            )
            yield SentencePair(*sentences, label)


def read_sick(path, part=None):
    """Reads a file of SICK one pair after the other.

    Args:
        path: Path of the file, with tabs between the columns that its first
            line names; UTF-8.
        part: `None`, or `"TRAIN"`, `"TRIAL"` or `"TEST"`: only pairs of that
            part, as the later release marks them.

    Yields:
        `SentencePair`, labels in lower case.

    Raises:
        FileNotFoundError: There is no such file.
        ValueError: The file is not UTF-8 or has no pair, or a line lacks a
            column.

    Example:

    >>> pair = next(read_sick("SICK_trial.txt"))
    """
    label = "entailment_judgment" if part is None else "entailment_label"
    columns = [label, "sentence_A", "sentence_B"]
    columns += [] if part is None else ["SemEval_set"]
    for label, premise, hypothesis, *parts in _records(path, columns):
        if part is None or parts == [part]:
            yield SentencePair(
                tuple(premise.split()), tuple(hypothesis.split()), label.lower()
            )


def _snli(data_dir, cache_dir):
    for ending in (".jsonl", ".txt"):
        files = [f"{name}{ending}" for name in _SNLI]
        try:
            return public_files("snli", files, data_dir, cache_dir)
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
            "SICK is read from `data_dir`, a folder that holds "
            f"{', '.join(_SICK)}, or SICK.txt. Received: data_dir={data_dir}"
        )
    return dict(zip(SPLITS, map(read_sick, paths)))


def _records(path, columns):
    """Yields the named columns of each record of a `.jsonl` file or a table."""
    lines = enumerate(read_lines(path), 1)
    is_json, empty = pathlib.Path(path).suffix == ".jsonl", True
    header = [] if is_json else next(lines, (1, ""))[1].split("\t")
    for number, line in lines:
        if not line.strip():
            continue
        try:
            # Quotation marks belong to the sentences: a table is no CSV.
            record = (
                json.loads(line)
                if is_json
                else dict(zip(header, line.split("\t")))
            )
        except json.JSONDecodeError as error:
            raise ValueError(f"{path}, line {number}: {error}") from error
        empty = False
        for column in columns:
            if record.get(column) is None:
                raise ValueError(
                    f"{path}, line {number}: there is no {column!r}. Expected "
                    f"the columns {', '.join(columns)}."
                )
        yield [record[column] for column in columns]
    if empty:
        raise ValueError(f"The file {path} has no pairs.")

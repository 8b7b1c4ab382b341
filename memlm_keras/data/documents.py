"""Corpora of any text: of three files, of one, or of documents to be dealt."""

import numpy as np

from memlm_keras.data.corpus import SPLITS
from memlm_keras.data.corpus import asked_tokenizer
from memlm_keras.data.corpus import cache_folder
from memlm_keras.data.corpus import encode_sources
from memlm_keras.data.corpus import name_of
from memlm_keras.data.text import TextPart
from memlm_keras.data.text import TextSource
from memlm_keras.data.token_store import stored_document_lengths

# Of a single file, the parts after the first.
_SHARE = 0.05


def load_text(
    train,
    validation=None,
    test=None,
    *,
    vocabulary=None,
    vocabulary_size=None,
    minimum_count=None,
    tokenize=None,
    lowercase=False,
    numbers=None,
    document_start=None,
    cache_dir=None,
):
    """Loads a corpus from any text files, or from a single one.

    Every line that is not blank becomes its tokens and an end of sentence.

    A text given alone is parted in the order it stands in: the first 90% of
    its lines (or documents, where it has them) are for training, the next 5%
    for validation and the last 5% for test. `corpus.description` says which.

    Args:
        train, validation, test: Path of a UTF-8 text file each, or of a
            folder in which every `.txt` file is one document. `train` alone is
            parted.
        vocabulary: `Vocabulary` to encode with, which says how text becomes
            tokens; `None` builds one of the training text, as the next five
            arguments say.
        vocabulary_size, minimum_count: As `size` and `minimum_count` of
            `Vocabulary.build`: by default words seen once are unknown, so that
            a model can learn what unknown words are like, unless the text has
            unknown words anyway.
        tokenize, lowercase, numbers: As `split` (by default
            `"white_space"`), `lowercase` and `numbers` of `Tokenizer`.
        document_start: `None`, or a regular expression that matches, from
            their first character on, the lines that begin a document. What
            stands before the first of them belongs to the first document.
        cache_dir: As for `load`.

    Returns:
        `Corpus`.

    Raises:
        FileNotFoundError: A file or folder is not there.
        ValueError: A file is not UTF-8 or empty, no line begins a document,
            only two texts are given, a single one has fewer than three lines
            or documents, or `vocabulary` is given together with arguments to
            build one.
        OSError: The cache cannot be written.

    Warns:
        UserWarning: Validation or test have unknown words, training has none.

    Example:

    >>> corpus = load_text(
    ...     "train.txt", "valid.txt", "test.txt", vocabulary_size=10_000
    ... )
    >>> corpus = load_text("notes.txt", lowercase=True)
    """
    if (validation is None) != (test is None):
        raise ValueError(
            "Give `train`, `validation` and `test`, or `train` alone, which "
            f"is then parted. Received: validation={validation!r} and "
            f"test={test!r}"
        )
    given = (train,) if test is None else (train, validation, test)
    sources = [
        TextSource(path, document_start=document_start) for path in given
    ]
    name, description = name_of(sources[0].path), ""
    if test is None:
        sources, description = _parts(sources[0])
    return encode_sources(
        name,
        dict(zip(SPLITS, sources)),
        cache_dir,
        vocabulary,
        vocabulary_size,
        minimum_count,
        description,
        split=tokenize,
        lowercase=lowercase,
        numbers=numbers,
    )


def load_documents(
    path,
    *,
    document_start=None,
    validation=0.048,
    test=0.048,
    seed=0,
    vocabulary=None,
    vocabulary_size=77_003,
    minimum_count=None,
    tokenize=None,
    lowercase=False,
    numbers="N",
    cache_dir=None,
):
    """Loads a corpus of documents as Daniluk et al. (2017) prepare Wikipedia.

    Whole documents are dealt to the three splits: in an order drawn from
    `seed`, they go to validation until it holds at least its share of all
    tokens, ends of sentences counted, then likewise to test, and the rest to
    training. Within a split they stand in the order of the text.

    Numbers become one word, the most frequent words of the training documents
    are the vocabulary, and other words are unknown. The paper has about 22.5,
    1.2 and 1.2 million words; its parameter counts fit 77,003 words, the
    special tokens counted. It names no tokenizer and no seed: these are ours.

    Args:
        path: Path of a folder in which every `.txt` file is one document (in
            the order of their names), or of one file of many documents. UTF-8.
        document_start: For a file, regular expression that matches, from their
            first character on, the lines that begin a document. What stands
            before the first of them belongs to the first document.
        validation, test: Share of the tokens, between 0 and 1, of each.
        seed: Integer from which the order of dealing follows.
        vocabulary: `Vocabulary` to encode with, which says how text becomes
            tokens; `None` builds one, as the next five arguments say.
        vocabulary_size: Largest number of entries, the two special tokens
            counted; `None` keeps all words.
        minimum_count, tokenize, lowercase, numbers: As for `load_text`, but
            that numbers become one word unless `numbers=None`.
        cache_dir: As for `memlm_keras.data.load`.

    Returns:
        `Corpus` with documents, its tokens memory-mapped.

    Raises:
        FileNotFoundError: There is no such file, or no `.txt` file in the
            folder.
        ValueError: A share is not between 0 and 1, nothing would be left to
            train on, a split gets no document, a file is not UTF-8, nothing
            says where the documents of a file begin, or `vocabulary` reads
            text otherwise than `tokenize` or `lowercase`.
        OSError: The cache cannot be written.

    Example:

    >>> corpus = load_documents("wikipedia.txt", document_start="= [^=]")
    >>> batches = corpus.batches("train", 64, 20, documents=True, shuffle=True)
    """
    shares = {"validation": validation, "test": test}
    _check_shares(shares)
    source = TextSource(path, document_start=document_start)
    if not source.has_documents:
        raise ValueError(
            "`document_start` must say which lines of a file begin documents. "
            f"Received: document_start=None with the file {source.path}. Give "
            "a regular expression, or a folder of one .txt file per document."
        )
    name = source.path.stem
    if vocabulary is not None:
        vocabulary_size, numbers = None, None
    rules = {"split": tokenize, "lowercase": lowercase, "numbers": numbers}
    tokenizer = asked_tokenizer(vocabulary, **rules)
    lengths = stored_document_lengths(
        source, tokenizer, cache_folder(cache_dir), name
    )
    dealt = deal_documents(lengths, shares, seed)
    return encode_sources(
        name,
        {
            split: TextPart(source, documents)
            for split, documents in dealt.items()
        },
        cache_dir,
        vocabulary,
        vocabulary_size,
        minimum_count,
        **rules,
    )


def deal_documents(lengths, shares, seed):
    """Parts documents as `load_documents` describes.

    Args:
        lengths: 1-D integer array, tokens of each document.
        shares: Dict of the share of all tokens of `"validation"` and `"test"`.
        seed: Integer.

    Returns:
        Dict from `"train"`, `"validation"` and `"test"` to the sorted indices
        of their documents.

    Raises:
        ValueError: A split gets no document.
    """
    order = np.random.default_rng(seed).permutation(len(lengths))
    dealt = {"train": order}
    for split, share in shares.items():
        held = np.cumsum(lengths[dealt["train"]])
        count = 1 + np.searchsorted(held, share * np.sum(lengths))
        dealt[split] = np.sort(dealt["train"][:count])
        dealt["train"] = dealt["train"][count:]
    dealt["train"] = np.sort(dealt["train"])
    for split, documents in dealt.items():
        if not len(documents):
            raise ValueError(
                f"The {split} split gets no document: there are too few, or "
                f"some are too long. Received: {len(lengths)} documents, "
                f"seed={seed} and the shares {shares}. Give more documents, or "
                "other shares."
            )
    return dealt


def _parts(source):
    """Parts one text into three sources, and says how."""
    unit = "documents" if source.has_documents else "lines"
    count = sum(
        bool(begins) or unit == "lines" for _, begins in source.sentences()
    )
    if count < 3:
        raise ValueError(
            f"{source.path} must have at least three {unit} to be parted into "
            f"training, validation and test. Received: {count}. Give three "
            "files, or more text."
        )
    size = max(1, round(_SHARE * count))
    edges = [0, count - 2 * size, count - size, count]
    parts = [
        TextPart(source, np.arange(start, stop))
        for start, stop in zip(edges, edges[1:])
    ]
    shares = (
        f"{start + 1:,} to {stop:,} are {split}"
        for split, start, stop in zip(SPLITS, edges, edges[1:])
    )
    return parts, f"Of the {unit} of {source.path.name}, {', '.join(shares)}."


def _check_shares(shares):
    for name, share in shares.items():
        if not 0 < share < 1:
            raise ValueError(
                f"`{name}` must be a share of the tokens between 0 and 1. "
                f"Received: {name}={share}"
            )
    if sum(shares.values()) >= 1:
        raise ValueError(
            "`validation` and `test` must leave something to train on. "
            f"Received: {shares}, of which the sum is not below 1"
        )

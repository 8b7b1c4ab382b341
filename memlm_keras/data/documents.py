"""Corpora of any text: of three files, or of documents to be dealt."""

import hashlib

import numpy as np

from memlm_keras.data.corpus import SPLITS
from memlm_keras.data.corpus import cache_folder
from memlm_keras.data.corpus import encode_sources
from memlm_keras.data.corpus import name_of
from memlm_keras.data.text import TextSource
from memlm_keras.data.token_store import stored_document_lengths


def load_text(
    train,
    validation,
    test,
    *,
    vocabulary=None,
    vocabulary_size=None,
    minimum_count=1,
    numbers=None,
    tokenize=None,
    document_start=None,
    cache_dir=None,
):
    """Loads a corpus from any text files.

    Every line that is not blank becomes its tokens and an end of sentence.

    Args:
        train, validation, test: Path of a UTF-8 text file each, or of a
            folder in which every `.txt` file is one document.
        vocabulary: `Vocabulary` to encode with; `None` builds one of the
            training text, as the next three arguments say.
        vocabulary_size, minimum_count, numbers: As `size`,
            `minimum_count` and `numbers` of `Vocabulary.build`.
        tokenize: `None` to split at white space, or `"unicode_script"` for
            `tensorflow_text.UnicodeScriptTokenizer`.
        document_start: `None`, or a regular expression that matches, from
            their first character on, the lines that begin a document. What
            stands before the first of them belongs to the first document.
        cache_dir: As for `load`.

    Returns:
        `Corpus`.

    Raises:
        FileNotFoundError: A file or folder is not there.
        ValueError: A file is not UTF-8 or empty, no line begins a document,
            or `vocabulary` is given together with arguments to build one.
        OSError: The cache cannot be written.

    Example:

    >>> corpus = load_text(
    ...     "train.txt", "valid.txt", "test.txt", vocabulary_size=10_000
    ... )
    """
    sources = {
        split: TextSource(
            path, document_start=document_start, tokenize=tokenize
        )
        for split, path in zip(SPLITS, (train, validation, test))
    }
    return encode_sources(
        name_of(sources["train"].path),
        sources,
        cache_dir,
        vocabulary,
        size=vocabulary_size,
        minimum_count=minimum_count,
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
    numbers="N",
    tokenize=None,
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
        vocabulary: `Vocabulary` to encode with; `None` builds one, as the next
            two arguments say.
        vocabulary_size: Largest number of entries, the two special tokens
            counted; `None` keeps all words.
        numbers: Word that replaces every number, or `None`.
        tokenize: `None` to split at white space, or `"unicode_script"` for
            `tensorflow_text.UnicodeScriptTokenizer`.
        cache_dir: As for `memlm_keras.data.load`.

    Returns:
        `Corpus` with documents, its tokens memory-mapped.

    Raises:
        FileNotFoundError: There is no such file, or no `.txt` file in the
            folder.
        ValueError: A share is not between 0 and 1, nothing would be left to
            train on, a split gets no document, a file is not UTF-8, or nothing
            says where the documents of a file begin.
        OSError: The cache cannot be written.

    Example:

    >>> corpus = load_documents("wikipedia.txt", document_start="= [^=]")
    >>> batches = corpus.batches("train", 64, 20, documents=True, shuffle=True)
    """
    shares = {"validation": validation, "test": test}
    _check_shares(shares)
    source = TextSource(path, document_start=document_start, tokenize=tokenize)
    if not source.has_documents:
        raise ValueError(
            "`document_start` must say which lines of a file begin documents. "
            f"Received: document_start=None with the file {source.path}. Give "
            "a regular expression, or a folder of one .txt file per document."
        )
    name = source.path.stem
    lengths = stored_document_lengths(source, cache_folder(cache_dir), name)
    building = {"size": vocabulary_size, "numbers": numbers}
    return encode_sources(
        name,
        {
            split: DocumentSelection(source, documents)
            for split, documents in deal_documents(
                lengths, shares, seed
            ).items()
        },
        cache_dir,
        vocabulary,
        **(building if vocabulary is None else {}),
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


class DocumentSelection:
    """Some documents of a text, as `TextSource` gives a whole text.

    Args:
        source: `TextSource` with documents.
        documents: 1-D integer array, indices of the documents to keep.

    Example:

    >>> source = TextSource("documents.txt", document_start="= ")
    >>> next(DocumentSelection(source, [3]).sentences())
    (['=', 'York', '='], True)
    """

    has_documents = True

    def __init__(self, source, documents):
        self.source = source
        self.documents = np.asarray(documents, np.int64)

    @property
    def path(self):
        return self.source.path

    @property
    def document_start(self):
        return self.source.document_start

    def identity(self):
        """Describes text and selection: equal as long as both are."""
        digest = hashlib.sha256(self.documents.astype("<i8").tobytes())
        return {**self.source.identity(), "documents": digest.hexdigest()}

    def sentences(self):
        """Reads the text once, as `TextSource.sentences`."""
        kept = set(self.documents.tolist())
        document = -1
        for tokens, begins in self.source.sentences():
            document += begins
            # Lines before the first title belong to the first document.
            if max(document, 0) in kept:
                yield tokens, begins


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

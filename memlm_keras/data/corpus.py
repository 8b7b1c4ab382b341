"""A vocabulary and the texts encoded with it."""

import dataclasses
import functools
import hashlib
import os
import pathlib
import warnings

import numpy as np

from memlm_keras.data.batches import Batches
from memlm_keras.data.sentences import SentenceBatches
from memlm_keras.data.sentences import sentence_starts
from memlm_keras.data.token_store import Split
from memlm_keras.data.token_store import stored_split
from memlm_keras.data.token_store import stored_vocabulary
from memlm_keras.data.tokenizer import Tokenizer
from memlm_keras.data.vocabulary import Vocabulary

SPLITS = ("train", "validation", "test")


@dataclasses.dataclass(frozen=True, eq=False)
class Corpus:
    """A vocabulary and three texts encoded with it.

    Args:
        name: Name to report results under.
        vocabulary: `Vocabulary`.
        train, validation, test: `Split`s.
        description: How the texts were parted, where not by their files.

    Example:

    >>> corpus = memlm_keras.data.load("embedded")
    >>> batches = corpus.batches("train", batch_size=20, segment_length=35)
    """

    name: str
    vocabulary: Vocabulary
    train: Split
    validation: Split
    test: Split
    description: str = ""

    @property
    def has_documents(self):
        """Whether it is known where the documents of the text begin."""
        return self.train.document_starts is not None

    @functools.cached_property
    def fingerprint(self):
        """Short hash of the vocabulary and of all texts, 16 characters.

        Equal for equal corpora, whatever files they were read from.
        """
        digest = hashlib.sha256("\0".join(self.vocabulary.tokens).encode())
        for split in (self.train, self.validation, self.test):
            for array in (split.tokens, split.document_starts):
                # The dtype tells tokens, document starts and their lack apart.
                digest.update(repr(getattr(array, "dtype", None)).encode())
                if array is not None:
                    digest.update(np.ascontiguousarray(array))
        return digest.hexdigest()[:16]

    def with_first_lines(self, lines):
        """The same corpus with less of the training text.

        Args:
            lines: integer, how many of its first lines are left.

        Returns:
            `Corpus` of the words of these lines; others are unknown.

        Raises:
            ValueError: There are not so many lines.
        """
        tokens, documents = self.train.tokens, self.train.document_starts
        end_of_sentence_id = self.vocabulary.end_of_sentence_id
        starts = sentence_starts(tokens, end_of_sentence_id)
        if not 1 <= lines <= len(starts):
            raise ValueError(
                f"`lines` must be 1 .. {len(starts)}, as the training text has "
                f"so many. Received: lines={lines}"
            )
        tokens = tokens[: [*starts, len(tokens)][lines]]
        if documents is not None:
            documents = documents[documents < len(tokens)]
        old = self.vocabulary
        kept = np.unique(tokens)
        kept = kept[kept > max(old.end_of_sentence_id, old.unknown_id)]
        words = {**old.get_config(), "tokens": [old.tokens[i] for i in kept]}
        vocabulary = type(old).from_config(words)
        new = np.full(len(old), vocabulary.unknown_id, "int32")
        new[old.end_of_sentence_id] = vocabulary.end_of_sentence_id
        new[kept] = vocabulary.encode([old.tokens[i] for i in kept])
        splits = [
            Split(new[split.tokens], split.document_starts)
            for split in (Split(tokens, documents), self.validation, self.test)
        ]
        return dataclasses.replace(
            self, vocabulary=vocabulary, **dict(zip(SPLITS, splits))
        )

    def batches(
        self,
        split,
        batch_size,
        segment_length,
        documents=False,
        shuffle=False,
        seed=0,
        sentences=False,
    ):
        """Makes the `Batches` of one split.

        Args:
            split: `"train"`, `"validation"` or `"test"`, or a `Split`.
            batch_size, segment_length, shuffle, seed: As for `Batches`.
            documents: Whether to begin each document afresh; otherwise the
                text is one stream.
            sentences: Whether to begin each sentence afresh.

        Returns:
            `Batches`.

        Raises:
            ValueError: There is no such split, `documents` is true and the
                split has none, or `sentences` is true as well.
        """
        split = split_of(self, split)
        if documents and sentences:
            raise ValueError(
                "`documents` and `sentences` exclude each other: a context "
                "ends with the one or the other. Received: both true"
            )
        if documents and split.document_starts is None:
            raise ValueError(
                f"`documents=True` needs a text with documents; the corpus "
                f"{self.name!r} does not say where its documents begin. Use "
                "`documents=False`, or `load_text` with `document_start` or "
                "with folders of documents."
            )
        end_of_sentence_id = self.vocabulary.end_of_sentence_id
        starts = split.document_starts if documents else None
        if sentences:
            starts = sentence_starts(split.tokens, end_of_sentence_id)
        batches = Batches(
            split.tokens,
            batch_size=batch_size,
            segment_length=segment_length,
            document_starts=starts,
            shuffle=shuffle,
            seed=seed,
            end_of_sentence_id=end_of_sentence_id,
            context_of="sentence" if sentences else "document",
        )
        batches.vocabulary = self.vocabulary
        return batches

    def sentence_batches(self, split, batch_size=20, **kwargs):
        """Makes the `SentenceBatches` of one split, to train on.

        Args:
            split: As for `batches`.
            batch_size: Number of sentences in a batch.
            **kwargs: `length_multiple`, `shuffle`, `seed`, `longest` and
                `equal_lengths` of `SentenceBatches`.

        Returns:
            `SentenceBatches`.

        Raises:
            ValueError: There is no such split.
        """
        batches = SentenceBatches(
            split_of(self, split).tokens,
            batch_size=batch_size,
            end_of_sentence_id=self.vocabulary.end_of_sentence_id,
            **kwargs,
        )
        batches.vocabulary = self.vocabulary
        return batches


def encode_sources(
    name,
    sources,
    cache_dir,
    vocabulary=None,
    size=None,
    minimum_count=1,
    description="",
    **rules,
):
    """Makes a corpus of three texts, encoding them if need be.

    Args:
        name: Name of the corpus.
        sources: Dict from `"train"`, `"validation"` and `"test"` to
            `TextSource`, or what has its `path`, `has_documents`, `identity`
            and `sentences`.
        cache_dir: As for `load`.
        vocabulary: `Vocabulary`, or `None` to build one of the training text.
        size, minimum_count: Arguments of `Vocabulary.build`.
        description: As of `Corpus`.
        **rules: Arguments of `Tokenizer` that are asked for.

    Returns:
        `Corpus`.

    Raises:
        ValueError: A text is not UTF-8 or empty, or `vocabulary` is given
            together with arguments to build another.
        OSError: The cache cannot be written.

    Warns:
        UserWarning: Validation or test have unknown tokens, and training,
            which would have to teach what they are like, has none.
    """
    cache_dir = cache_folder(cache_dir)
    tokenizer = asked_tokenizer(vocabulary, **rules)
    if vocabulary is None:
        vocabulary = stored_vocabulary(
            sources["train"],
            cache_dir,
            name,
            tokenizer=tokenizer,
            size=size,
            minimum_count=minimum_count,
        )
    else:
        require_no_building(vocabulary, size, minimum_count, tokenizer)
    splits = {
        split: stored_split(source, vocabulary, cache_dir, f"{name}-{split}")
        for split, source in sources.items()
    }
    _warn_of_unknown(name, splits, vocabulary.unknown_id)
    return Corpus(name, vocabulary, **splits, description=description)


def asked_tokenizer(vocabulary, **rules):
    """Returns the tokenizer that is asked for.

    Args:
        vocabulary: `Vocabulary`, which has what is not asked for, or `None`.
        **rules: Arguments of `Tokenizer`; none is asked for by a false value.
    """
    asked = {name: rule for name, rule in rules.items() if rule}
    known = Tokenizer() if vocabulary is None else vocabulary.tokenizer
    if not asked:
        return known
    config = known.get_config() if isinstance(known, Tokenizer) else {}
    return Tokenizer(**{**config, **asked})


def require_no_building(vocabulary, size, minimum_count, tokenizer):
    """Raises `ValueError` unless a vocabulary is all that is asked for."""
    if size is not None or minimum_count not in (None, 1):
        raise ValueError(
            "`vocabulary` cannot be combined with `vocabulary_size` or "
            "`minimum_count`, which say how to build one. Received: "
            f"vocabulary={vocabulary!r}, vocabulary_size={size} and "
            f"minimum_count={minimum_count}"
        )
    if tokenizer != vocabulary.tokenizer:
        raise ValueError(
            "`vocabulary` says itself how text becomes tokens: `tokenize`, "
            "`lowercase` and `numbers` cannot say otherwise. Received: "
            f"vocabulary={vocabulary!r} and {tokenizer!r}"
        )


def split_of(corpus, split):
    """Returns a split of a corpus by its name; a split stays what it is."""
    if not isinstance(split, str):
        return split
    if split not in SPLITS:
        raise ValueError(
            f"`split` must be one of {SPLITS}, or a split itself. Received: "
            f"split={split!r}"
        )
    return getattr(corpus, split)


def _warn_of_unknown(name, splits, unknown_id):
    unknown = {
        split: int(np.count_nonzero(splits[split].tokens == unknown_id))
        for split in SPLITS
    }
    if unknown["train"] or not any(unknown.values()):
        return
    shares = " and ".join(
        f"{unknown[split] / len(splits[split]):.1%} of {split}"
        for split in SPLITS[1:]
    )
    warnings.warn(
        f"{shares} of {name!r} are tokens that the vocabulary does not have, "
        "and training has none of them, so that no model can learn what they "
        "are like. Build it with `minimum_count=2` or a `vocabulary_size`.",
        stacklevel=4,
    )


def cache_folder(cache_dir=None):
    """Returns the folder of the cache, for `cache_dir` as of `load`."""
    if cache_dir is None:
        cache_dir = os.environ.get("MEMLM_KERAS_HOME")
    if cache_dir is None:
        cache_dir = pathlib.Path("~", ".keras", "memlm_keras")
    return pathlib.Path(cache_dir).expanduser()


def name_of(path):
    """Name of the corpus that a file is the training text of."""
    # Every corpus has a `train.txt`; its folder says more.
    return path.parent.resolve().name if path.stem == "train" else path.stem

"""A vocabulary and the texts encoded with it."""

import dataclasses
import functools
import hashlib

import numpy as np

from memlm_keras.data.batches import Batches
from memlm_keras.data.sentences import SentenceBatches
from memlm_keras.data.sentences import sentence_starts
from memlm_keras.data.token_store import Split
from memlm_keras.data.vocabulary import Vocabulary

SPLITS = ("train", "validation", "test")


@dataclasses.dataclass(frozen=True, eq=False)
class Corpus:
    """A vocabulary and three texts encoded with it.

    Args:
        name: Name to report results under.
        vocabulary: `Vocabulary`.
        train, validation, test: `Split`s.

    Example:

    >>> corpus = load("ptb", data_dir="data")
    >>> batches = corpus.batches("train", batch_size=20, segment_length=35)
    """

    name: str
    vocabulary: Vocabulary
    train: Split
    validation: Split
    test: Split

    @functools.cached_property
    def fingerprint(self):
        """Short hash of the vocabulary and of all texts, 16 characters.

        Equal for equal corpora, whatever files they were read from.
        """
        digest = hashlib.sha256("\0".join(self.vocabulary.tokens).encode())
        for split in (self.train, self.validation, self.test):
            for array in (split.tokens, split.article_starts):
                # The dtype tells tokens, article starts and their lack apart.
                digest.update(repr(getattr(array, "dtype", None)).encode())
                if array is not None:
                    digest.update(np.ascontiguousarray(array))
        return digest.hexdigest()[:16]

    def batches(
        self,
        split,
        batch_size,
        segment_length,
        articles=False,
        shuffle=False,
        seed=0,
        sentences=False,
    ):
        """Makes the `Batches` of one split.

        Args:
            split: `"train"`, `"validation"` or `"test"`, or a `Split`.
            batch_size, segment_length, shuffle, seed: As for `Batches`.
            articles: Whether to begin each article afresh; otherwise the
                text is one stream.
            sentences: Whether to begin each sentence afresh.

        Returns:
            `Batches`.

        Raises:
            ValueError: There is no such split, `articles` is true and the
                split has none, or `sentences` is true as well.
        """
        split = self._split(split)
        if articles and sentences:
            raise ValueError(
                "`articles` and `sentences` exclude each other: a history ends "
                "with the one or the other. Received: both true"
            )
        if articles and split.article_starts is None:
            raise ValueError(
                f"`articles=True` needs a text with articles; the corpus "
                f"{self.name!r} does not say where its articles begin. Use "
                "`articles=False`, or `load_text` with `article_start` or "
                "with folders of articles."
            )
        end_of_sentence_id = self.vocabulary.end_of_sentence_id
        starts = split.article_starts if articles else None
        if sentences:
            starts = sentence_starts(split.tokens, end_of_sentence_id)
        return Batches(
            split.tokens,
            batch_size=batch_size,
            segment_length=segment_length,
            article_starts=starts,
            shuffle=shuffle,
            seed=seed,
            end_of_sentence_id=end_of_sentence_id,
            history_of="sentence" if sentences else "article",
        )

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
        return SentenceBatches(
            self._split(split).tokens,
            batch_size=batch_size,
            end_of_sentence_id=self.vocabulary.end_of_sentence_id,
            **kwargs,
        )

    def _split(self, split):
        if not isinstance(split, str):
            return split
        if split not in SPLITS:
            raise ValueError(
                f"`split` must be one of {SPLITS}, or a `Split`. Received: "
                f"split={split!r}"
            )
        return getattr(self, split)

"""Corpora of labelled sentence pairs."""

import dataclasses
import functools
import hashlib

import numpy as np

from memlm_keras.data.corpus import SPLITS
from memlm_keras.data.corpus import split_of
from memlm_keras.data.corpus import tokenizer_for
from memlm_keras.data.vocabulary import Vocabulary

LABELS = ("entailment", "neutral", "contradiction")


@dataclasses.dataclass(frozen=True, slots=True)
class SentencePair:
    """A pair of sentences, premise and hypothesis, and its label.

    Args:
        premise, hypothesis: Non-empty tuples of strings, the tokens.

    Raises:
        ValueError: A sentence has no tokens, or is a string.

    Example:

    >>> pair = SentencePair(("a", "man", "sits"), ("he", "sits"), "entailment")
    """

    premise: tuple
    hypothesis: tuple
    label: str

    def __post_init__(self):
        for name in ("premise", "hypothesis"):
            value = getattr(self, name)
            if isinstance(value, str) or not value:
                raise ValueError(
                    f"`{name}` must be a tuple of at least one token. "
                    f"Received: {value!r}"
                )


@dataclasses.dataclass(frozen=True, eq=False)
class PairSplit:
    """Encoded sentence pairs.

    Args:
        premises, hypotheses: Tuples of 1-D int32 arrays of token ids.
        labels: int32 array of indices into `PairCorpus.labels`.
    """

    premises: tuple
    hypotheses: tuple
    labels: np.ndarray

    def __len__(self):
        return len(self.labels)


@dataclasses.dataclass(frozen=True, eq=False)
class PairCorpus:
    """Encoded pairs of sentences for training, validation and test.

    Args:
        name: Name for reports.
        description: Message that says how your files were read.

    Example:

    >>> corpus = memlm_keras.data.load_pairs("sick", data_dir="SICK")
    >>> batches = corpus.batches("train", batch_size=50, shuffle=True)
    """

    name: str
    vocabulary: Vocabulary
    labels: tuple
    train: PairSplit
    validation: PairSplit
    test: PairSplit
    description: str = ""

    @functools.cached_property
    def fingerprint(self):
        """String of 16 characters, a hash of vocabulary, labels and pairs."""
        texts = (*self.vocabulary.tokens, "", *self.labels)
        digest = hashlib.sha256("\0".join(texts).encode())
        for name in SPLITS:
            split = getattr(self, name)
            for sentences in (split.premises, split.hypotheses):
                for sentence in sentences:
                    digest.update(len(sentence).to_bytes(4, "little"))
                    digest.update(sentence.tobytes())
            digest.update(split.labels.tobytes())
        return digest.hexdigest()[:16]

    def batches(self, split, batch_size=50, shuffle=False, seed=0, **kwargs):
        """Makes `PairBatches` from a split: `"train"`, `"validation"`,
        `"test"` or a `PairSplit`. For other arguments, see `PairBatches`."""
        # Only batches need Keras, whose import takes seconds.
        from memlm_keras.data.pair_batches import PairBatches

        split = split_of(self, split)
        batches = PairBatches(
            split.premises,
            split.hypotheses,
            split.labels,
            batch_size=batch_size,
            shuffle=shuffle,
            seed=seed,
            **kwargs,
        )
        batches.vocabulary = self.vocabulary
        return batches


def encode_pairs(
    name,
    splits,
    labels=LABELS,
    vocabulary=None,
    vocabulary_size=None,
    minimum_count=1,
    lowercase=False,
    tokenize=None,
    description="",
):
    """Encodes sentence pairs.

    Args:
        name, description: See `PairCorpus`.
        splits: Dict from `"train"`, `"validation"` and `"test"` to iterables of
            `SentencePair`s.
        labels: Tuple of the allowed labels, strings.
        vocabulary: `Vocabulary`; `None` builds one from the training pairs
            with the next four arguments.
        vocabulary_size, minimum_count: `size` and `minimum_count` of
            `Vocabulary.build`.
        lowercase, tokenize: `lowercase` and `split` of the `Tokenizer` that
            splits strings into words.

    Returns:
        `PairCorpus`.

    Raises:
        ValueError: A split has no pairs, a label is not in `labels`, or
            `vocabulary` is given together with arguments to build one.
    """
    tokenizer = tokenizer_for(
        vocabulary,
        vocabulary_size,
        minimum_count,
        lowercase=lowercase,
        split=tokenize,
    )
    splits = {split: list(splits[split]) for split in SPLITS}
    if vocabulary is None:
        vocabulary = Vocabulary.build(
            (
                sentence
                for pair in splits["train"]
                for sentence in (pair.premise, pair.hypothesis)
            ),
            size=vocabulary_size,
            minimum_count=minimum_count,
            tokenizer=tokenizer,
        )
    encoded = {}
    for split, pairs in splits.items():
        if not pairs:
            raise ValueError(f"The split {split!r} of {name!r} has no pairs.")
        unknown = sorted({pair.label for pair in pairs} - set(labels))
        if unknown:
            raise ValueError(
                "`labels` must hold the label of each pair. Received: "
                f"labels={tuple(labels)} and a pair with {unknown[0]!r}"
            )
        encoded[split] = PairSplit(
            tuple(vocabulary.encode(pair.premise) for pair in pairs),
            tuple(vocabulary.encode(pair.hypothesis) for pair in pairs),
            np.array([labels.index(pair.label) for pair in pairs], "int32"),
        )
    return PairCorpus(
        name, vocabulary, tuple(labels), **encoded, description=description
    )

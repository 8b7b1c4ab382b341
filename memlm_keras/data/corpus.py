"""Corpora from text files: a vocabulary and three encoded texts."""

import dataclasses
import functools
import hashlib
import itertools
import os
import pathlib
import re
import warnings

import numpy as np

from memlm_keras.data.text_store import EnteredText
from memlm_keras.data.text_store import Split
from memlm_keras.data.text_store import TextPart
from memlm_keras.data.text_store import TextSource
from memlm_keras.data.text_store import fingerprint
from memlm_keras.data.text_store import stored
from memlm_keras.data.text_store import stored_document_lengths
from memlm_keras.data.text_store import stored_split
from memlm_keras.data.text_store import unmarked
from memlm_keras.data.vocabulary import Tokenizer
from memlm_keras.data.vocabulary import Vocabulary

SPLITS = ("train", "validation", "test")
# If one file is split, validation and test each get this share of it.
_SHARE = 0.05
# Scripts without spaces between words: Thai, Lao, Tibetan, Burmese, Khmer,
# Japanese, Chinese. If a text without spaces between words is split at white
# space, its tokens have more than `_LONG_WORDS` characters on average.
_UNSPACED = re.compile(
    "[\u0e00-\u0fff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff"
    "\U00020000-\U0003ffff]"
)
_LONG_WORDS = 6
# Punctuation is split off if more than this share of words ends with it.
_PUNCTUATION, _ATTACHED = re.compile(r"\w[.,;:!?]$"), 0.02
_LINES_LOOKED_AT = 1000


@dataclasses.dataclass(frozen=True, eq=False)
class Corpus:
    """A vocabulary and three texts encoded with it.

    Args:
        name: Name for reports.
        description: Message that says how a text was split in three; or empty.

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
        """Whether the corpus knows where its documents begin."""
        return self.train.document_starts is not None

    @functools.cached_property
    def fingerprint(self):
        """String of 16 characters, a hash of the vocabulary and all texts."""
        digest = hashlib.sha256("\0".join(self.vocabulary.tokens).encode())
        for split in (self.train, self.validation, self.test):
            for array in (split.tokens, split.document_starts):
                # Arrays of different dtypes may have equal bytes.
                digest.update(repr(getattr(array, "dtype", None)).encode())
                if array is not None:
                    digest.update(np.ascontiguousarray(array))
        return digest.hexdigest()[:16]

    def with_first_lines(self, lines):
        """Returns a `Corpus` with only the first lines of the training text.

        Words not in the first `lines` lines become unknown in all texts. Raises
        `ValueError` if the training text has fewer than `lines` lines, or the
        vocabulary is a `SubwordVocabulary`.
        """
        from memlm_keras.data.batches import sentence_starts
        from memlm_keras.data.subwords import SubwordVocabulary

        old = self.vocabulary
        if isinstance(old, SubwordVocabulary):
            raise ValueError(
                "The corpus must have a `Vocabulary` of words. Received: a "
                "`SubwordVocabulary`, whose ids another program has chosen"
            )
        tokens, documents = self.train.tokens, self.train.document_starts
        starts = sentence_starts(tokens, old.end_of_sentence_id)
        if not 1 <= lines <= len(starts):
            raise ValueError(
                f"`lines` must be from 1 to {len(starts)}, the number of lines "
                f"in the training text. Received: lines={lines}"
            )
        tokens = tokens[: [*starts, len(tokens)][lines]]
        if documents is not None:
            documents = documents[documents < len(tokens)]
        kept = np.unique(tokens)
        kept = kept[kept > max(old.end_of_sentence_id, old.unknown_id)]
        words = [old.tokens[id] for id in kept]
        vocabulary = type(old).from_config(
            {**old.get_config(), "tokens": words}
        )
        new = np.full(len(old), vocabulary.unknown_id, "int32")
        new[old.end_of_sentence_id] = vocabulary.end_of_sentence_id
        new[kept] = vocabulary.encode(words)
        lost = set(np.flatnonzero(new == vocabulary.unknown_id))
        lost -= {old.unknown_id}
        splits = [Split(new[tokens], documents)]
        for split in (self.validation, self.test):
            if (counts := split.counts) is not None:
                ids, times = np.unique(split.tokens, return_counts=True)
                unknown = {
                    old.tokens[id]: int(count)
                    for id, count in zip(ids, times)
                    if id in lost
                }
                counts = counts._replace(unknown=counts.unknown | unknown)
            splits.append(
                Split(new[split.tokens], split.document_starts, counts)
            )
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
        """Makes `Batches` from one split.

        Args:
            split: `"train"`, `"validation"` or `"test"`, or a `Split`.
            batch_size, segment_length, shuffle, seed: See `Batches`.
            documents, sentences: Whether each document, or each sentence, is
                read from an empty context; if neither, the text is one stream.

        Raises:
            ValueError: The split is unknown or has no documents, or both
                `documents` and `sentences` are true.
        """
        split = split_of(self, split)
        if documents and sentences:
            raise ValueError(
                "`documents` and `sentences` cannot both be true. Received: "
                "both true"
            )
        if documents and split.document_starts is None:
            raise ValueError(
                f"`documents=True` needs a text with documents; the corpus "
                f"{self.name!r} does not say where its documents begin. Use "
                "`load_text` with `document_start` or folders of documents."
            )
        # Only batches need Keras, whose import takes seconds.
        from memlm_keras.data.batches import Batches
        from memlm_keras.data.batches import sentence_starts

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
        batches.document_starts = split.document_starts
        return batches

    def sentence_batches(self, split, batch_size=20, **kwargs):
        """Makes `SentenceBatches` for training from one split; `kwargs` are
        passed to `SentenceBatches`."""
        from memlm_keras.data.batches import SentenceBatches

        split = split_of(self, split)
        batches = SentenceBatches(
            split.tokens,
            batch_size=batch_size,
            end_of_sentence_id=self.vocabulary.end_of_sentence_id,
            **kwargs,
        )
        batches.vocabulary = self.vocabulary
        batches.document_starts = split.document_starts
        return batches


def split_of(corpus, split):
    """Returns the `Split` named `split`; a `Split` is returned unchanged."""
    if not isinstance(split, str):
        return split
    if split not in SPLITS:
        raise ValueError(
            f"`split` must be one of {SPLITS}, or a `Split`. Received: "
            f"split={split!r}"
        )
    return getattr(corpus, split)


# === Encoding ===


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
    """Makes a `Corpus`; `sources` maps names of splits to sources. Texts in
    the cache are not encoded again. `rules` are arguments of `Tokenizer`."""
    cache_dir = cache_folder(cache_dir)
    tokenizer = tokenizer_for(vocabulary, size, minimum_count, **rules)
    if built := vocabulary is None:
        vocabulary = stored_vocabulary(
            sources["train"],
            cache_dir,
            name,
            tokenizer=tokenizer,
            size=size,
            minimum_count=minimum_count,
        )
    splits = {
        split: stored_split(source, vocabulary, cache_dir, f"{name}-{split}")
        for split, source in sources.items()
    }
    unknown = {
        split: np.count_nonzero(texts.tokens == vocabulary.unknown_id)
        for split, texts in splits.items()
    }
    if any(unknown.values()) and not unknown["train"]:
        shares = " and ".join(
            f"{unknown[split] / len(splits[split]):.1%} of {split}"
            for split in SPLITS[1:]
        )
        warnings.warn(
            f"{shares} of {name!r} are tokens that the vocabulary does not "
            "have. The training text has no unknown token, so no model can "
            "learn about them. Build the vocabulary with a larger "
            "`minimum_count` or a smaller `vocabulary_size`.",
            stacklevel=3,
        )
    entered = EnteredText(vocabulary)
    # Do not report characters that occur in rare words of the training text.
    rare = set().union(*splits["train"].counts.unknown) if built else ()
    for texts in splits.values():
        entered.marked += texts.counts.marked
        entered.characters += texts.counts.characters
        for word, count in texts.counts.unknown.items():
            unseen = vocabulary.unseen_characters([word])
            unseen = {c: n for c, n in unseen.items() if c not in rare}
            entered.unseen.update({c: n * count for c, n in unseen.items()})
    for note in entered.notes():
        print(f"{name}: {note}")
    return Corpus(name, vocabulary, **splits, description=description)


def stored_vocabulary(source, cache_dir, name, **options):
    """Returns the vocabulary of a text, from the cache if it is there."""
    key = fingerprint(source.identity(), options)

    def make(folder):
        lines = (
            unmarked(line) if isinstance(line, str) else line
            for line, _ in source.sentences()
        )
        Vocabulary.build(lines, **options).save(folder / "vocabulary.json")

    def read(folder):
        return Vocabulary.from_file(folder / "vocabulary.json")

    return stored(cache_dir, "vocabularies", f"{name}-{key}", make, read)


def tokenizer_for(vocabulary, size=None, minimum_count=None, **rules):
    """Returns the vocabulary's tokenizer. Without a vocabulary, makes a
    `Tokenizer` with the `rules` that are not `None` or `False`."""
    rules = {name: rule for name, rule in rules.items() if rule}
    if vocabulary is None:
        return Tokenizer(**rules)
    if size is not None or minimum_count not in (None, 1):
        raise ValueError(
            "`vocabulary` cannot be combined with `vocabulary_size` or "
            "`minimum_count`, which build a vocabulary. Received: "
            f"vocabulary={vocabulary!r}, vocabulary_size={size} and "
            f"minimum_count={minimum_count}"
        )
    own = vocabulary.tokenizer
    config = own.get_config() if isinstance(own, Tokenizer) else {}
    if rules and Tokenizer(**{**config, **rules}) != own:
        raise ValueError(
            "`vocabulary` has a tokenizer of its own, which `tokenize`, "
            "`lowercase` and `numbers` cannot change. Received: "
            f"vocabulary={vocabulary!r} and {rules}"
        )
    return own


def cache_folder(cache_dir=None):
    """Returns the cache folder, by default the one that `load` uses."""
    if cache_dir is None:
        cache_dir = os.environ.get("MEMLM_KERAS_HOME")
    if cache_dir is None:
        cache_dir = pathlib.Path("~", ".keras", "memlm_keras")
    return pathlib.Path(cache_dir).expanduser()


def name_of(path):
    """Returns a file's stem; for `train.*`, the name of its folder."""
    return path.parent.resolve().name if path.stem == "train" else path.stem


# === Any text ===


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
    """Loads a corpus from your own text: three files, or a single one.

    Each line is split into tokens, and an end-of-sentence token is added. Blank
    lines are skipped.

    Args:
        train, validation, test: Paths of UTF-8 text files, or of folders in
            which every `.txt` file is one document. If only `train` is given,
            the first 90% of its lines or documents are for training, the next
            5% for validation, the last 5% for test; see `corpus.description`.
        vocabulary: `Vocabulary` that splits and encodes the texts; `None`
            builds one from the training text with the next five arguments.
        vocabulary_size, minimum_count: `size` and `minimum_count` of
            `Vocabulary.build`. By default, words that occur once become the
            unknown token, unless the training text already has that token.
        tokenize, lowercase, numbers: `split`, `lowercase` and `numbers` of
            `Tokenizer`; `tokenize=None` is `"white_space"`.
        document_start: `None`, or a regular expression that matches at the
            beginning of the first line of each document. Lines before the first
            matching line belong to the first document.
        cache_dir: See `load`.

    Returns:
        `Corpus`.

    Raises:
        FileNotFoundError: A file or folder does not exist.
        ValueError: A file is not UTF-8 or is empty, or no line begins a
            document. Exactly two texts are given, or a single text has fewer
            than three lines or documents. `vocabulary` is combined with
            arguments that build a vocabulary. The text has no spaces between
            words, and `tokenize` is `None`.
        OSError: The cache cannot be written.

    Warns:
        UserWarning: Only the validation or test text has unknown words.

    Example:

    >>> corpus = load_text(
    ...     "train.txt", "valid.txt", "test.txt", vocabulary_size=10_000
    ... )
    >>> corpus = load_text("notes.txt", lowercase=True)
    """
    if (validation is None) != (test is None):
        raise ValueError(
            "Give `train`, `validation` and `test`, or `train` alone. "
            f"Received: validation={validation!r} and test={test!r}"
        )
    paths = (train,) if test is None else (train, validation, test)
    sources = [
        TextSource(path, document_start=document_start) for path in paths
    ]
    if vocabulary is None and tokenize is None:
        _require_spaces(sources[0])
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


def _parts(source):
    """Returns the `TextPart` of each split, and a description of the splits."""
    unit = "documents" if source.has_documents else "lines"
    count = sum(begins or unit == "lines" for _, begins in source.sentences())
    if count < 3:
        raise ValueError(
            f"{source.path} must have at least three {unit} to be split into "
            f"training, validation and test. Received: {count}. Give a longer "
            "text, or three files, with a sentence or a paragraph per line."
        )
    size = max(1, round(_SHARE * count))
    edges = [0, count - 2 * size, count - size, count]
    spans = list(zip(edges, edges[1:]))
    shares = ", ".join(
        f"{start + 1:,} to {stop:,} are {split}"
        for split, (start, stop) in zip(SPLITS, spans)
    )
    return (
        [TextPart(source, np.arange(*span)) for span in spans],
        f"Of the {unit} of {source.path.name}, {shares}.",
    )


class UnspacedTextError(ValueError):
    """Raised if white space cannot split a text into words."""


def _require_spaces(source):
    """Raises `UnspacedTextError` for text in a script without spaces."""
    lines = itertools.islice(source.sentences(), _LINES_LOOKED_AT)
    words = [word for line, _ in lines for word in line.split()]
    if are_unspaced(words):
        raise UnspacedTextError(
            f"{source.path} has few spaces between its words: split at white "
            "space, its tokens have "
            f"{sum(map(len, words)) / len(words):.0f} characters on average. "
            f"Received: tokenize=None, and text such as {words[0][:20]!r}. "
            'Give `tokenize="characters"` (`--tokenize=characters` of '
            '`memlm`), or `tokenize="white_space"` to read it as it is.'
        )


def are_unspaced(words):
    """Returns whether words seem to be text without spaces, such as Chinese."""
    characters = sum(map(len, words))
    unspaced = sum(len(_UNSPACED.findall(word)) for word in words)
    return 2 * unspaced > characters > _LONG_WORDS * len(words)


def split_for(words):
    """Chooses the argument `split` of `Tokenizer` for a text; `words` is the
    text split at white space. `None` means to split only at white space."""
    if are_unspaced(words):
        return "characters"
    attached = sum(map(bool, map(_PUNCTUATION.search, words)))
    return "unicode_script" if attached > _ATTACHED * len(words) else None


# === Documents ===


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
    """Splits and encodes documents as Daniluk et al. (2017) do with Wikipedia.

    Documents are drawn in a random order, which depends on `seed`. The first,
    with the share `validation` of all tokens, are for validation, the next for
    test, and the others for training. Splits keep the order of the text.

    All numbers become one word. The vocabulary has the most frequent words of
    the training documents; other words are unknown. The paper's splits have
    about 22.5, 1.2 and 1.2 million words. The paper's parameter counts fit a
    vocabulary of 77,003 entries, including special tokens. The paper states no
    tokenizer or seed.

    Args:
        path: Path of a folder in which every `.txt` file is one document, or of
            one file with many documents. Files are UTF-8.
        document_start: See `load_text`; required if `path` is a file.
        validation, test: Shares of all tokens, floats between 0 and 1.
        vocabulary_size: Largest number of entries, including the two special
            tokens; `None` keeps all words.
        numbers: Word that replaces numbers; `None` keeps them.
        vocabulary, minimum_count, tokenize, lowercase, cache_dir: See
            `load_text`.

    Returns:
        `Corpus` with documents and memory-mapped tokens.

    Raises:
        ValueError: A share is not between 0 and 1, a split gets no document, or
            `path` is a file and `document_start` is missing.
        Exception: See `load_text`.

    Example:

    >>> corpus = load_documents("wikipedia.txt", document_start="= [^=]")
    >>> batches = corpus.batches("train", 64, 20, documents=True, shuffle=True)
    """
    shares = {"validation": validation, "test": test}
    if not (min(shares.values()) > 0 and sum(shares.values()) < 1):
        raise ValueError(
            "`validation` and `test` must be shares above 0 with a sum below "
            f"1. Received: {shares}"
        )
    source = TextSource(path, document_start=document_start)
    if not source.has_documents:
        raise ValueError(
            "`document_start` must say which lines of a file begin documents. "
            f"Received: document_start=None with the file {source.path}. Give "
            "a regular expression, or a folder with one .txt file per document."
        )
    if vocabulary is not None:
        vocabulary_size, numbers = None, None
    elif tokenize is None:
        _require_spaces(source)
    rules = {"split": tokenize, "lowercase": lowercase, "numbers": numbers}
    lengths = stored_document_lengths(
        source,
        tokenizer_for(vocabulary, vocabulary_size, minimum_count, **rules),
        cache_folder(cache_dir),
        source.path.stem,
    )
    return encode_sources(
        source.path.stem,
        {
            split: TextPart(source, documents)
            for split, documents in assign(lengths, shares, seed).items()
        },
        cache_dir,
        vocabulary,
        vocabulary_size,
        minimum_count,
        **rules,
    )


def assign(lengths, shares, seed):
    """Draws the documents of each split. `lengths` has the number of tokens of
    each document. Returns a dict from names of splits to sorted indices."""
    order = np.random.default_rng(seed).permutation(len(lengths))
    splits = {"train": order}
    for split, share in shares.items():
        tokens = np.cumsum(lengths[splits["train"]])
        count = 1 + np.searchsorted(tokens, share * np.sum(lengths))
        splits[split] = np.sort(splits["train"][:count])
        splits["train"] = splits["train"][count:]
    splits["train"] = np.sort(splits["train"])
    for split, documents in splits.items():
        if not len(documents):
            raise ValueError(
                f"The {split} split gets no document. Received: {len(lengths)} "
                f"documents, seed={seed} and the shares {shares}. Give more "
                "documents, shorter ones, or other shares."
            )
    return splits

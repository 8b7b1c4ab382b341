"""Vocabularies, which map tokens to ids, and tokenizers, which split texts.
`words_in_graph.py` has TensorFlow versions of vocabularies and tokenizers."""

import collections
import dataclasses
import functools
import hashlib
import json
import pathlib
import re

import numpy as np

from memlm_keras import files
from memlm_keras.arguments import require_instance
from memlm_keras.arguments import require_one_of
from memlm_keras.arguments import require_positive_integer
from memlm_keras.data.text_store import read_text

SPLITS = ("white_space", "unicode_script", "characters")

# Characters at which Python's `str.split` splits.
WHITE_SPACE = (
    "\t\n\v\f\r\x1c\x1d\x1e\x1f \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004"
    "\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000"
)
# A pattern of numbers that both Python's `re` and TensorFlow's RE2 accept.
NUMBER_PATTERN = r"[+\-]?[0-9]+([.,:/\-][0-9]+)*"

_NUMBER = re.compile(NUMBER_PATTERN)
_CODE_POINTS = 0x110000
# The class of white space in `script_classes`; no script has this number.
SPACE_CLASS = 255

# === Tokenizers ===


@dataclasses.dataclass(unsafe_hash=True)
class Tokenizer:
    """Splits texts into tokens and normalizes case and numbers.

    Args:
        split: Where to split:

            * `"white_space"`: at white space, as Python's `str.split` does.
            * `"unicode_script"`: at white space and between different Unicode
              scripts, so that words are separated from punctuation and digits:
              `"can't stop."` becomes `can ' t stop .`, and `"<unk>"` three
              tokens. Punctuation and digits share a script, so `1800),` stays
              one token. (Unlike this option, `UnicodeScriptTokenizer` of
              tensorflow_text joins characters of one script across a space.)
            * `"characters"`: between all characters, for text without spaces
              between words, such as Chinese.
        lowercase: Whether to change letters to lower case. Unlike `str.lower`,
            this gives a Greek sigma the same form at any place in a word.
        numbers: Token that replaces all numbers, such as `"N"`; or `None`.

    Raises:
        ValueError: An argument is invalid.

    Example:

    >>> tokenizer = Tokenizer("unicode_script", lowercase=True, numbers="N")
    >>> tokenizer.tokenize("She paid 12.50 francs, once.")
    ['she', 'paid', 'N', 'francs', ',', 'once', '.']
    """

    split: str = "white_space"
    lowercase: bool = False
    numbers: str | None = None

    def __post_init__(self):
        require_one_of("split", self.split, SPLITS)
        self.lowercase = bool(self.lowercase)
        if self.numbers is not None and (
            not isinstance(self.numbers, str) or not self.numbers
        ):
            raise ValueError(
                "`numbers` must be None or a token, a non-empty string. "
                f"Received: numbers={self.numbers!r}"
            )

    def tokenize(self, text):
        """Splits a text into tokens."""
        if self.split == "unicode_script":
            return self.normalize(_split_at_scripts(text))
        words = text.split()
        return self.normalize(
            words if self.split == "white_space" else "".join(words)
        )

    def normalize(self, tokens):
        """Normalizes case and numbers; returns a list of tokens."""
        if self.lowercase:
            table = lower_case()
            tokens = [token.translate(table) for token in tokens]
        if self.numbers is not None:
            tokens = [
                self.numbers if _NUMBER.fullmatch(token) else token
                for token in tokens
            ]
        return list(tokens)

    def get_config(self):
        return dataclasses.asdict(self)

    @classmethod
    def from_config(cls, config):
        return cls(**config)


@functools.cache
def lower_case():
    """Returns a dict from code points of letters to those of their lower case.
    `İ` becomes a plain `i`, as in Unicode's simple mapping."""
    lowered = ((code, chr(code).lower()) for code in range(_CODE_POINTS))
    return {
        code: ord(lower[0]) for code, lower in lowered if lower != chr(code)
    }


@functools.cache
def script_classes():
    """Returns the number of each code point's script, or `SPACE_CLASS`."""
    tf = files.import_package("tensorflow", "Splitting at Unicode scripts")
    with files.silent_stderr(), tf.device("CPU"):
        scripts = tf.strings.unicode_script(tf.range(_CODE_POINTS)).numpy()
    scripts[[ord(character) for character in WHITE_SPACE]] = SPACE_CLASS
    return scripts.astype("uint8")


def _split_at_scripts(text):
    codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), "<u4")
    classes = script_classes()[codes]
    edges = np.flatnonzero(np.diff(classes)) + 1
    edges = [0, *edges.tolist(), len(text)]
    return [
        text[begin:end]
        for begin, end in zip(edges, edges[1:])
        if begin < end and classes[begin] != SPACE_CLASS
    ]


# === Vocabularies ===


class Vocabulary:
    """List of tokens, whose positions are ids, and a tokenizer for text.

    The end-of-sentence token has id 0 and the unknown token id 1; the other
    tokens follow in the order of `tokens`. Corpora, models and exported graphs
    split text with the vocabulary's tokenizer.

    Args:
        tokens: Iterable of distinct, non-empty strings.
        unknown: Token that replaces all tokens not in the vocabulary.
        end_of_sentence: Token that ends each line of a corpus.
        tokenizer: `Tokenizer`; `None` splits at white space.

    Raises:
        ValueError: A token is empty, not a string, or repeated, the special
            tokens are equal, or the tokenizer changes a special token.

    Example:

    >>> vocabulary = Vocabulary(["the", "cat"])
    >>> vocabulary.encode("the black cat")
    array([2, 1, 3], dtype=int32)
    >>> vocabulary.decode([2, 3, 0])
    ['the', 'cat', '<eos>']
    """

    def __init__(
        self, tokens, unknown="<unk>", end_of_sentence="<eos>", tokenizer=None
    ):
        specials = (end_of_sentence, unknown)
        tokens = [
            token for token in checked_tokens(tokens) if token not in specials
        ]
        self._set((*specials, *tokens), unknown, end_of_sentence)
        self.tokenizer = _checked_tokenizer(tokenizer, specials)

    def _set(self, tokens, unknown, end_of_sentence):
        if unknown == end_of_sentence:
            raise ValueError(
                "`unknown` and `end_of_sentence` must differ. Received "
                f"{unknown!r} for both."
            )
        checked_tokens([end_of_sentence, unknown])
        self.tokens = tokens
        self.unknown = unknown
        self.end_of_sentence = end_of_sentence
        self._ids = {token: id for id, token in enumerate(tokens)}

    @classmethod
    def build(
        cls,
        lines,
        size=None,
        minimum_count=1,
        unknown="<unk>",
        end_of_sentence="<eos>",
        tokenizer=None,
    ):
        """Makes a vocabulary of the most frequent tokens of a text.

        Args:
            lines: Iterable of lines, which the tokenizer splits, or of lists
                of tokens.
            size: Largest number of entries, including the two special tokens;
                `None` keeps all.
            minimum_count: Integer, how often a token must occur in the text.
                `None` means 1 if the text has the unknown token or `size`
                leaves tokens out. Otherwise, `None` means 2, so that a model
                learns the unknown token from the tokens that occur once.

        Returns:
            `Vocabulary` with the most frequent tokens first. Equally frequent
            ones are in alphabetical order.

        Raises:
            ValueError: `size` is below 2 or `minimum_count` below 1.
        """
        if size is not None:
            # The unknown and the end-of-sentence token count.
            require_positive_integer("size", size, 2)
        if minimum_count is not None:
            require_positive_integer("minimum_count", minimum_count)
        specials = (end_of_sentence, unknown)
        tokenizer = _checked_tokenizer(tokenizer, specials)
        counts = collections.Counter()
        for line in lines:
            counts.update(tokens_of(line, tokenizer))
        learns_unknown = counts[unknown] > 0
        for special in specials:
            counts.pop(special, None)
        ranked = sorted(counts, key=lambda token: (-counts[token], token))
        if size is not None and len(ranked) > size - 2:
            ranked = ranked[: size - 2]
            learns_unknown = True
        if minimum_count is None:
            minimum_count = 1 if learns_unknown else 2
        kept = [token for token in ranked if counts[token] >= minimum_count]
        return cls(kept, unknown, end_of_sentence, tokenizer)

    @classmethod
    def from_file(cls, path):
        """Reads a file written by `save`, or a list with one token per line.

        Raises:
            FileNotFoundError: The file does not exist.
            ValueError: The file is empty, not UTF-8, damaged, or lists a token
                twice.
        """
        path = pathlib.Path(path)
        text = read_text(path)
        if not text.strip():
            raise ValueError(
                f"The vocabulary file {path} is empty. Expected the JSON that "
                "`Vocabulary.save` writes, or one token per line."
            )
        try:
            config = json.loads(text)
        except json.JSONDecodeError:
            config = None
        if config is None and text.startswith("{\n"):
            raise ValueError(
                f"The vocabulary file {path} is damaged: it begins like the "
                "JSON that `Vocabulary.save` writes, and is cut off."
            )
        # A list of tokens may also be valid JSON, such as the single line `7`.
        if not isinstance(config, dict):
            lines = text.removesuffix("\n").split("\n")
            config = {"tokens": [line.removesuffix("\r") for line in lines]}
        name = config.pop("class_name", cls.__name__)
        kinds = {kind.__name__: kind for kind in (cls, *cls.__subclasses__())}
        try:
            if name not in kinds:
                raise ValueError(f"the file has a {name}, not a {cls.__name__}")
            return kinds[name].from_config(config)
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"The vocabulary file {path} cannot be used: {error}"
            ) from error

    def save(self, path):
        """Writes the vocabulary as JSON, completely or not at all. Raises
        `OSError` if the folder cannot be written."""
        config = {"class_name": type(self).__name__, **self.get_config()}
        files.write_text(path, json.dumps(config, ensure_ascii=False, indent=0))

    def encode(self, text_or_tokens):
        """Returns the ids of a text, without an end-of-sentence token.

        Args:
            text_or_tokens: A string, which the tokenizer splits, or an iterable
                of tokens, whose case and numbers it normalizes.

        Returns:
            1-D int32 array, one id per token.
        """
        get, unknown_id = self._ids.get, self.unknown_id
        tokens = tokens_of(text_or_tokens, self.tokenizer)
        return np.array([get(token, unknown_id) for token in tokens], np.int32)

    def encode_sentence(self, text_or_tokens):
        """Returns the ids of a sentence, with the end-of-sentence token."""
        ids = self.encode(text_or_tokens)
        return np.append(ids, np.int32(self.end_of_sentence_id))

    def decode(self, ids):
        """Returns the list of the tokens with these ids.

        Args:
            ids: 1-D array, tensor or list of integers.

        Raises:
            ValueError: An id is not in the vocabulary.
        """
        if not isinstance(ids, (list, tuple, np.ndarray)):
            from keras import ops

            ids = ops.convert_to_numpy(ids)
        ids = list(map(int, ids))
        for id in ids:
            if not 0 <= id < len(self):
                raise ValueError(
                    f"`ids` must be from 0 to {len(self) - 1}, as this "
                    f"vocabulary has {len(self)} entries. Received the id {id}."
                )
        return [self.tokens[id] for id in ids]

    def detokenize(self, ids_or_tokens):
        """Joins tokens with spaces into one string.

        Args:
            ids_or_tokens: 1-D integers, or an iterable of tokens.

        Raises:
            ValueError: An id is not in the vocabulary.

        Example:

        >>> vocabulary = Vocabulary(["the", "cat"])
        >>> vocabulary.detokenize([2, 3, 0])
        'the cat <eos>'
        """
        return " ".join(self._tokens(ids_or_tokens))

    def count_words(self, ids):
        """Counts the words in an array of ids, for perplexity per word. In this
        class, every token is a word, including the end-of-sentence token."""
        return int(np.size(ids))

    def count_characters(self, ids):
        """Counts the characters that ids stand for, for bits per character.

        Each token is followed by a space or line end, which counts as one
        character. If tokens are characters, no spaces are counted. An unknown
        word counts as the characters of the unknown token, such as `<unk>`.

        Example:

        >>> vocabulary = Vocabulary(["the", "cat"])
        >>> vocabulary.count_characters(vocabulary.encode_sentence("the cat"))
        8
        """
        lengths = np.array([*map(self._characters, self.tokens)])
        lengths[self.end_of_sentence_id] = not self._has_spaces
        return int(lengths[np.asarray(ids)].sum())

    @property
    def _has_spaces(self):
        """Whether the text has spaces between tokens."""
        return self.tokenizer.split != "characters"

    def _characters(self, token):
        return len(token) + self._has_spaces

    def begins_word(self, token):
        """Returns whether a token begins a word. A subword token begins a word
        if its first character is U+2581 or it is the end-of-sentence token. All
        tokens of other vocabularies begin words.

        Example:

        >>> Vocabulary(["the", "cat"]).begins_word("cat")
        True
        """
        return True

    @functools.cached_property
    def _known_characters(self):
        return frozenset().union(*self.tokens)

    def unseen_characters(self, text):
        """Counts a text's characters that no token of the vocabulary has.

        Args:
            text: String, which the tokenizer splits, or an iterable of tokens.

        Returns:
            `collections.Counter` of characters, including characters that
            subword pieces encode as bytes.

        Example:

        >>> Vocabulary(["the", "cat"]).unseen_characters("a red cat")
        Counter({'r': 1, 'd': 1})
        """
        return collections.Counter(
            character
            for token in tokens_of(text, self.tokenizer)
            if token not in self
            for character in token
            if character not in self._known_characters
        )

    @functools.cached_property
    def fingerprint(self):
        """String of 16 characters, a hash of the tokens and the tokenizer."""
        text = json.dumps(self.get_config(), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    @property
    def end_of_sentence_id(self):
        """Id of the end-of-sentence token."""
        return self._ids[self.end_of_sentence]

    @property
    def unknown_id(self):
        """Id of all words that are not in the vocabulary."""
        return self._ids[self.unknown]

    def get_config(self):
        return {
            "tokens": list(self.tokens),
            "unknown": self.unknown,
            "end_of_sentence": self.end_of_sentence,
            "tokenizer": self.tokenizer.get_config(),
        }

    @classmethod
    def from_config(cls, config):
        config = dict(config)
        if config.get("tokenizer") is not None:
            config["tokenizer"] = Tokenizer.from_config(config["tokenizer"])
        return cls(**config)

    def _tokens(self, ids_or_tokens):
        items = list(ids_or_tokens)
        if all(isinstance(item, str) for item in items):
            return items
        return self.decode(ids_or_tokens)

    def __len__(self):
        return len(self.tokens)

    def __contains__(self, token):
        return token in self._ids

    def __getitem__(self, token):
        return self._ids.get(token, self.unknown_id)

    def __eq__(self, other):
        if not isinstance(other, Vocabulary):
            return NotImplemented
        return self.fingerprint == other.fingerprint

    def __hash__(self):
        return hash(self.fingerprint)

    def __repr__(self):
        return (
            f"Vocabulary({len(self)} tokens, unknown={self.unknown!r}, "
            f"end_of_sentence={self.end_of_sentence!r}, "
            f"tokenizer={self.tokenizer!r})"
        )


def tokens_of(text_or_tokens, tokenizer):
    """Returns tokens: splits a string, or normalizes an iterable of tokens."""
    if isinstance(text_or_tokens, str):
        return tokenizer.tokenize(text_or_tokens)
    return tokenizer.normalize(text_or_tokens)


def _checked_tokenizer(tokenizer, specials):
    if tokenizer is None:
        return Tokenizer()
    what = "a `memlm_keras.data.Tokenizer`"
    require_instance("tokenizer", tokenizer, Tokenizer, what)
    if tokenizer.normalize(specials) != list(specials):
        raise ValueError(
            "`tokenizer` must not change the special tokens. Received: "
            f"{specials} and tokenizer={tokenizer!r}"
        )
    return tokenizer


def checked_tokens(tokens):
    """Returns a tuple of distinct non-empty strings, or raises `ValueError`."""
    if isinstance(tokens, str):
        raise ValueError(
            "`tokens` must be a list of tokens. Received one string: "
            f"{tokens[:40]!r}. Give `[token, ...]`, or use `Vocabulary.build` "
            "for text."
        )
    tokens = tuple(tokens)
    seen = set()
    for position, token in enumerate(tokens):
        if not isinstance(token, str) or not token:
            raise ValueError(
                "Every entry of `tokens` must be a non-empty string. "
                f"Received {token!r} at position {position}."
            )
        if token in seen:
            raise ValueError(
                f"`tokens` must be distinct. Received {token!r} again at "
                f"position {position}."
            )
        seen.add(token)
    return tokens

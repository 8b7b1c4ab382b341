"""Splits text into tokens and tokens into sentences; `words_in_graph.py` has
the same tokenizers in a TensorFlow graph."""

import dataclasses
import functools
import importlib.metadata
import re

import numpy as np

from memlm_keras import files
from memlm_keras.arguments import require_one_of

SPLITS = ("white_space", "unicode_script", "characters")

# Characters at which Python's `str.split` splits.
WHITE_SPACE = (
    "\t\n\v\f\r\x1c\x1d\x1e\x1f \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004"
    "\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000"
)
# This pattern is valid for both Python's `re` and TensorFlow's RE2.
NUMBER_PATTERN = r"[+\-]?[0-9]+([.,:/\-][0-9]+)*"

_NUMBER = re.compile(NUMBER_PATTERN)
_CODE_POINTS = 0x110000
# Class of white space; no Unicode script has this number.
SPACE_CLASS = 255


@dataclasses.dataclass(unsafe_hash=True)
class Tokenizer:
    """Splits texts into tokens and normalizes case and numbers.

    Args:
        split: Where to split:

            * `"white_space"`: at white space, like Python's `str.split`.
            * `"unicode_script"`: also where `tf.strings.unicode_script`
              changes, which separates words from punctuation and digits:
              `"can't stop."` becomes `can ' t stop .`, and `"<unk>"` three
              tokens. Punctuation and digits share a script, so `1800),` stays
              one token. (`tensorflow_text.UnicodeScriptTokenizer` joins
              characters of one script across a space.)
            * `"characters"`: between all characters, for text without spaces
              between words, such as Chinese.
        lowercase: Whether to lower-case each character by itself; unlike in
            `str.lower`, a Greek sigma does not depend on its place in a word.
        numbers: `None`, or a token, such as `"N"`, that replaces numbers.

    Raises:
        ValueError: An argument is not as described above.

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
    """Returns a dict from each code point to its lower case, also one code
    point; `İ` becomes a plain `i`, as in Unicode's simple mapping."""
    lowered = ((code, chr(code).lower()) for code in range(_CODE_POINTS))
    return {
        code: ord(lower[0]) for code, lower in lowered if lower != chr(code)
    }


@functools.cache
def script_classes():
    """Returns the script of each code point, `SPACE_CLASS` for white space."""
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


# === Sentences by syntok ===


def load_syntok(module):
    """Imports a module of syntok; the error says how to install it."""
    return files.import_package(
        f"syntok.{module}",
        "Splitting into sentences, or questions without `tokenize=None`,",
        "syntok",
    )


def split_sentences(tokens):
    """Yields the sentences in a list of tokens; full stops must be separate
    tokens, except in abbreviations."""
    segment = load_syntok("segmenter").segment
    token_of = load_syntok("tokenizer").Token
    seen, offset, quoting = [], 0, False
    for token in tokens:
        quotes = token == '"'
        # For syntok, a quotation mark after a space opens a quotation.
        space = "" if quotes and quoting else " "
        quoting ^= quotes
        value = "," if token == ";" else token
        seen.append(token_of(space, value, offset))
        offset += len(token) + 1
    begin = 0
    for sentence in segment(iter(seen)):
        yield tokens[begin : begin + len(sentence)]
        begin += len(sentence)


def splitter_version():
    """Returns the name and version of the package that splits sentences."""
    load_syntok("segmenter")
    return f"syntok {importlib.metadata.version('syntok')}"

"""Subword vocabularies that keep the token ids of another program."""

import base64
import functools
import pathlib
import re

import numpy as np

from memlm_keras import files
from memlm_keras.arguments import require_one_of
from memlm_keras.data.tables import naming
from memlm_keras.data.text_store import read_lines
from memlm_keras.data.vocabulary import WHITE_SPACE
from memlm_keras.data.vocabulary import Vocabulary
from memlm_keras.data.vocabulary import checked_tokens
from memlm_keras.data.vocabulary import tokens_of

# U+2581 stands for the white space before a word.
WORD_START = "\u2581"
# Typographic characters, and the plainer characters that replace them.
_TYPOGRAPHIC = {
    "\u2018\u2019\u201a\u201b\u2032\u02bc\u00b4": "'",
    "\u201c\u201d\u201e\u201f\u2033\u00ab\u00bb": '"',
    "\u2010\u2011\u2012\u2212": "-",
    "\u2013\u2015": "\u2014",
    # Soft hyphen, and characters without a width.
    "\u00ad\u200b\u200c\u200d\u2060\ufeff": "",
}

_BYTE = re.compile("<0x[0-9a-fA-F]{2}>")


class SentencePieceTokenizer:
    """Splits texts into pieces with a SentencePiece model, given as bytes,
    after replacing the characters that are keys of `replacements`."""

    def __init__(self, model, replacements=None):
        self.model = model
        # All white space becomes spaces: some models drop or encode tabs.
        spaces = dict.fromkeys(WHITE_SPACE, " ")
        self.replacements = spaces | (replacements or {})
        self._table = str.maketrans(self.replacements)

    def tokenize(self, text):
        text = text.translate(self._table)
        # Lone surrogates, which UTF-8 cannot encode, become question marks.
        text = text.encode("utf-8", "replace").decode()
        return _processor(self.model).encode(text, out_type=str)

    def normalize(self, tokens):
        return self.tokenize(" ".join(tokens))

    def in_graph(self):
        """Returns a tensorflow_text tokenizer, which ignores `replacements`."""
        tensorflow_text = files.import_package(
            "tensorflow_text",
            "A SentencePiece model in a graph",
            "tensorflow-text",
        )
        return tensorflow_text.SentencepieceTokenizer(
            model=self.model, out_type="string"
        )

    def get_config(self):
        return {
            "sentencepiece": base64.b64encode(self.model).decode(),
            "replacements": self.replacements,
        }

    def read_model(self):
        """Returns the protobuf message of the SentencePiece model."""
        from sentencepiece import sentencepiece_model_pb2

        return sentencepiece_model_pb2.ModelProto.FromString(self.model)


@functools.lru_cache(maxsize=8)
def _processor(model):
    """Returns the `SentencePieceProcessor` of a model, given as bytes."""
    package = files.import_package("sentencepiece", "A SentencePiece model")
    processor = package.SentencePieceProcessor()
    try:
        processor.LoadFromSerializedProto(model)
    except RuntimeError as error:
        raise ValueError(
            "The bytes must be a complete SentencePiece model. Received: "
            f"{len(model)} bytes"
        ) from error
    return processor


class LongestMatchTokenizer:
    """Splits words: cuts off the longest token with which a word begins, and
    repeats. If no token matches, cuts off one character: U+2581 is dropped, and
    any other character becomes a token outside the vocabulary."""

    def __init__(self, tokens, unit):
        self.tokens = tokens
        self.unit = unit
        # Control symbols, such as `<so>`, are not matched in text.
        self.matched = frozenset(
            token
            for token in tokens
            if unit == "words"
            or not (token.startswith("<") and token.endswith(">"))
        )
        self.mark = WORD_START if unit == "pieces" else ""
        self.longest = max(map(len, self.matched), default=1)

    def tokenize(self, text):
        return self.normalize(text.split())

    def normalize(self, tokens):
        if self.unit == "words":
            return list(tokens)
        pieces = []
        for word in (word for token in tokens for word in token.split()):
            rest = self.mark + word
            while rest:
                sizes = range(min(self.longest, len(rest)), 0, -1)
                size = next((n for n in sizes if rest[:n] in self.matched), 0)
                if size or rest[0] != WORD_START:
                    pieces.append(rest[: size or 1])
                rest = rest[size or 1 :]
        return pieces

    def get_config(self):
        return {"tokens": list(self.tokens), "unit": self.unit}


_ENDS = ("</s>", "<eos>", "<sos/eos>", "[SEP]")
_UNKNOWN = ("<unk>", "<UNK>", "[UNK]")
_UNITS = ("pieces", "characters", "words")


class SubwordVocabulary(Vocabulary):
    """Vocabulary of subword pieces that keeps the ids of another program.

    A language model that rescores the output of a speech recognizer or a
    translator must use the pieces and ids of that program. Two methods read
    pieces and ids: `from_sentencepiece` from a SentencePiece model, and
    `from_tokens_file` from a `tokens.txt` of sherpa or icefall. The
    end-of-sentence and unknown tokens also keep their ids.

    If a SentencePiece model is given, it splits the text. Without a model,
    words are split from the left into the longest pieces, which may differ from
    those of a SentencePiece model.

    Args:
        tokens: Iterable of distinct, non-empty strings, in the order of ids.
        unknown: Token for text that no piece matches; `None` finds `<unk>`,
            `<UNK>` or `[UNK]` in `tokens`.
        end_of_sentence: Token that ends each sentence; `None` finds `</s>`,
            `<eos>`, `<sos/eos>` or `[SEP]`.
        sentencepiece: `None`, or the bytes of a SentencePiece model.
        unit: Kind of tokens: `"pieces"` (the first of a word begins with
            U+2581), `"characters"` or `"words"`; `None` infers the kind.
        replacements: Only for a SentencePiece model: `None`, a dict from
            characters to replacement texts, or `"typographic"`, which replaces
            typographic quotes, apostrophes and dashes with plainer characters,
            drops soft hyphens, and keeps characters that occur in `tokens`.

    Raises:
        ValueError: A token is empty or repeated, a special token is missing,
            the SentencePiece model is damaged, or `replacements` is invalid.
        ImportError: `sentencepiece` is not installed.

    Example:

    >>> vocabulary = SubwordVocabulary(
    ...     ["<blk>", "<sos/eos>", "<unk>", "\u2581the", "\u2581cat", "s"]
    ... )
    >>> vocabulary.encode("the cats")
    array([3, 4, 5], dtype=int32)
    >>> vocabulary.detokenize([3, 4, 5])
    'the cats'
    """

    def __init__(
        self,
        tokens,
        unknown=None,
        end_of_sentence=None,
        sentencepiece=None,
        unit=None,
        replacements=None,
    ):
        tokens = checked_tokens(tokens)
        if isinstance(sentencepiece, str):
            try:
                sentencepiece = base64.b64decode(sentencepiece, validate=True)
            except ValueError as error:
                raise ValueError(
                    "`sentencepiece` must be the bytes of a SentencePiece "
                    "model, or their base64 encoding. Received: "
                    f"{sentencepiece[:40]!r}"
                ) from error
        self._set(
            tokens,
            _special("unknown", unknown, _UNKNOWN, tokens),
            _special("end_of_sentence", end_of_sentence, _ENDS, tokens),
        )
        self.sentencepiece = sentencepiece
        self.unit = self._inferred_unit() if unit is None else unit
        require_one_of("unit", self.unit, _UNITS)
        self.replacements = _checked_replacements(replacements, tokens)
        if sentencepiece is not None:
            self.tokenizer = SentencePieceTokenizer(
                sentencepiece, self.replacements
            )
        elif replacements is not None:
            raise ValueError(
                "`replacements` needs a SentencePiece model. Received: "
                "sentencepiece=None"
            )
        else:
            self.tokenizer = LongestMatchTokenizer(tokens, self.unit)

    def _inferred_unit(self):
        specials = (self.unknown, self.end_of_sentence)
        tokens = [token for token in self.tokens if token not in specials]
        if any(token.startswith(WORD_START) for token in tokens):
            return "pieces"
        plain = [token for token in tokens if not token.startswith("<")]
        single = plain and all(len(token) == 1 for token in plain)
        return "characters" if single else "words"

    @classmethod
    def build(cls, *arguments, **keywords):
        """Raises `ValueError`: this package does not train subword models."""
        raise ValueError(
            "A `SubwordVocabulary` is not built from a text: train a "
            "SentencePiece model, and use `from_sentencepiece`."
        )

    @classmethod
    def from_sentencepiece(
        cls, path, unknown=None, end_of_sentence=None, replacements=None
    ):
        """Reads the file of a SentencePiece model, whose ids are kept. The
        class describes the arguments and errors."""
        model = pathlib.Path(path).read_bytes()
        with naming(path):
            processor = _processor(model)
        tokens = map(processor.id_to_piece, range(len(processor)))
        return cls(
            tokens, unknown, end_of_sentence, model, replacements=replacements
        )

    @classmethod
    def from_tokens_file(
        cls,
        path,
        sentencepiece=None,
        unknown=None,
        end_of_sentence=None,
        unit=None,
    ):
        """Reads a file `tokens.txt`; each line is a token and its id.

        Args:
            sentencepiece: `None`, or path of the SentencePiece model that
                splits text into these tokens. The model's own ids are ignored.
            unknown, end_of_sentence, unit: See the class.

        Raises:
            FileNotFoundError: The file does not exist.
            ValueError: The file is not UTF-8, a line is not a token and an id,
                or the sorted ids are not 0, 1, 2 and so on.
        """
        tokens = {}
        for number, line in enumerate(read_lines(path), 1):
            if not line.strip():
                continue
            token, _, id = line.strip().rpartition(" ")
            if not id.isdecimal() or not token.strip() or int(id) in tokens:
                raise ValueError(
                    f"{path}, line {number}: expected a token, a space and an "
                    f"id that no earlier line has. Received: {line[:60]!r}"
                )
            tokens[int(id)] = token.strip()
        missing = [id for id in range(len(tokens)) if id not in tokens]
        if missing or not tokens:
            raise ValueError(
                f"The ids of {path} must be 0 to {len(tokens) - 1}, one for "
                f"each of its {len(tokens)} tokens. Missing: {missing[:1]}"
            )
        return cls(
            [tokens[id] for id in range(len(tokens))],
            unknown,
            end_of_sentence,
            sentencepiece and pathlib.Path(sentencepiece).read_bytes(),
            unit,
        )

    def detokenize(self, ids_or_tokens):
        """Joins pieces into text; see `Vocabulary.detokenize`."""
        tokens = self._tokens(ids_or_tokens)
        if self.unit == "words":
            return " ".join(tokens)
        text = b"".join(map(self.bytes_of, tokens)).decode("utf-8", "replace")
        return " ".join(text.split())

    def bytes_of(self, token):
        """Returns the UTF-8 bytes of a piece's text, including its spaces.

        Example:

        >>> SubwordVocabulary(["<unk>", "</s>", "cat"]).bytes_of("cat")
        b'cat'
        """
        if token in (self.unknown, self.end_of_sentence):
            return f" {token} ".encode()
        # A token such as `<0xE4>` is a byte of a character that has no piece.
        if _BYTE.fullmatch(token):
            return bytes.fromhex(token[3:5])
        return token.replace(WORD_START, " ").encode()

    def unseen_characters(self, text):
        tokens = tokens_of(text, self.tokenizer)
        unseen = super().unseen_characters(text)
        if self.sentencepiece is not None:
            read = [
                self.bytes_of(token) if _BYTE.fullmatch(token) else b" "
                for token in tokens
            ]
            read = b"".join(read).decode("utf-8", "replace")
            unseen.update(read.replace(" ", ""))
        return unseen

    def count_words(self, ids):
        begins_word = np.array([*map(self.begins_word, self.tokens)])
        return int(np.count_nonzero(begins_word[np.asarray(ids)]))

    @property
    def _has_spaces(self):
        return self.unit != "characters"

    def _characters(self, token):
        if self.unit != "pieces":
            return super()._characters(token)
        # Bytes that continue a UTF-8 character are not counted.
        return sum(byte & 0xC0 != 0x80 for byte in self.bytes_of(token))

    def begins_word(self, token):
        if self.unit != "pieces":
            return True
        return token.startswith(WORD_START) or token == self.end_of_sentence

    def get_config(self):
        model = self.sentencepiece
        return {
            "tokens": list(self.tokens),
            "unknown": self.unknown,
            "end_of_sentence": self.end_of_sentence,
            "sentencepiece": model and base64.b64encode(model).decode(),
            "unit": self.unit,
            # Empty `replacements` must not change a vocabulary's fingerprint.
            **({"replacements": r} if (r := self.replacements) else {}),
        }

    def __repr__(self):
        by = "SentencePiece" if self.sentencepiece else "longest match"
        return (
            f"SubwordVocabulary({len(self)} {self.unit} by {by}, "
            f"unknown={self.unknown!r}, "
            f"end_of_sentence={self.end_of_sentence!r})"
        )


def _checked_replacements(replacements, tokens):
    if replacements == "typographic":
        known = set().union(*tokens)
        return {
            character: plain
            for characters, plain in _TYPOGRAPHIC.items()
            for character in characters
            if character not in known and known.issuperset(plain)
        }
    replacements = dict(replacements or {})
    for character, text in replacements.items():
        if len(character) != 1 or not replacements.keys().isdisjoint(text):
            raise ValueError(
                "`replacements` must map single characters to texts that "
                "contain none of the replaced characters. Received: "
                f"{character!r} is replaced by {text!r}"
            )
    return replacements


def _special(name, token, candidates, tokens):
    if token is None:
        token = next((item for item in candidates if item in tokens), None)
    if token is None or token not in tokens:
        raise ValueError(
            f"`{name}` must be one of the tokens, {', '.join(tokens[:8])} and "
            f"so on. Received: {name}={token!r}; by default it is one of "
            f"{', '.join(candidates)}."
        )
    return token

"""The words a model knows, and their ids."""

import collections
import json
import pathlib
import re

import keras
import numpy as np

from memlm_keras.data.text import read_text
from memlm_keras.files import atomic_path

# Read alike by Python's `re` and by RE2, since a served model applies it
# inside its graph with `tf.strings.regex_full_match`.
NUMBER_PATTERN = r"[+\-]?[0-9]+([.,:/\-][0-9]+)*"
_NUMBER = re.compile(NUMBER_PATTERN)


@keras.saving.register_keras_serializable(package="memlm_keras")
class Vocabulary:
    """A fixed list of tokens, each with its id.

    The end of a sentence always has id 0 and the unknown token id 1, wherever
    they stand in `tokens` and even if they do not; the other tokens follow in
    the order given.

    Args:
        tokens: Iterable of distinct, non-empty strings.
        unknown: Token that stands for all tokens not in the vocabulary.
        end_of_sentence: Token that ends each line of a corpus.
        numbers: `None`, or the token (such as `"N"`) which replaces every
            token that is a number before it is looked up.

    Raises:
        ValueError: A token is empty, not a string, or given twice, or the
            special tokens are not two distinct tokens.

    Example:

    >>> vocabulary = Vocabulary(["the", "cat"])
    >>> vocabulary.encode("the black cat")
    array([2, 1, 3], dtype=int32)
    >>> vocabulary.decode([2, 3, 0])
    ['the', 'cat', '<eos>']
    """

    def __init__(
        self,
        tokens,
        unknown="<unk>",
        end_of_sentence="<eos>",
        numbers=None,
    ):
        if isinstance(tokens, str):
            raise ValueError(
                "`tokens` must be a list of tokens. Received one string: "
                f"{tokens[:40]!r}. Give `[token, ...]`, or use "
                "`Vocabulary.build` for text."
            )
        if unknown == end_of_sentence:
            raise ValueError(
                "`unknown` and `end_of_sentence` must differ. Received "
                f"{unknown!r} for both."
            )
        tokens = list(tokens)
        _check_tokens([end_of_sentence, unknown])
        _check_tokens(tokens)
        specials = (end_of_sentence, unknown)
        self.tokens = specials + tuple(
            token for token in tokens if token not in specials
        )
        self.unknown = unknown
        self.end_of_sentence = end_of_sentence
        self.numbers = numbers
        self._ids = {token: id for id, token in enumerate(self.tokens)}

    @classmethod
    def build(
        cls,
        lines,
        size=None,
        minimum_count=1,
        unknown="<unk>",
        end_of_sentence="<eos>",
        numbers=None,
    ):
        """Makes a vocabulary of the most frequent tokens of a text.

        Args:
            lines: Iterable of lines (split at white space) or of lists of
                tokens.
            size: Largest number of entries, the two special tokens counted;
                `None` keeps all.
            minimum_count: Tokens seen fewer times are left out.
            unknown, end_of_sentence, numbers: As for the class.

        Returns:
            `Vocabulary`, most frequent tokens first, equally frequent ones
            in alphabetical order.

        Raises:
            ValueError: `size` is below 2 or `minimum_count` below 1.
        """
        if size is not None and size < 2:
            raise ValueError(
                "`size` must be at least 2, as it counts the unknown and the "
                f"end-of-sentence token. Received: size={size}"
            )
        if minimum_count < 1:
            raise ValueError(
                "`minimum_count` must be at least 1. Received: "
                f"minimum_count={minimum_count}"
            )
        counts = collections.Counter()
        for line in lines:
            counts.update(_replace_numbers(_split(line), numbers))
        for special in (unknown, end_of_sentence):
            counts.pop(special, None)
        ranked = sorted(
            (token for token in counts if counts[token] >= minimum_count),
            key=lambda token: (-counts[token], token),
        )
        if size is not None:
            ranked = ranked[: size - 2]
        return cls(ranked, unknown, end_of_sentence, numbers)

    @classmethod
    def from_file(cls, path):
        """Reads what `save` wrote, or a plain list of one token per line.

        Args:
            path: Path of the file, in UTF-8.

        Raises:
            FileNotFoundError: There is no such file.
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
        config = _parse_config(text)
        if config is None and text.startswith("{\n"):
            raise ValueError(
                f"The vocabulary file {path} is damaged: it begins like the "
                "JSON that `Vocabulary.save` writes, and ends too soon."
            )
        if config is None:
            lines = text.removesuffix("\n").split("\n")
            config = {"tokens": [line.removesuffix("\r") for line in lines]}
        try:
            return cls.from_config(config)
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"The vocabulary file {path} cannot be used: {error}"
            ) from error

    def save(self, path):
        """Writes the vocabulary as JSON, whole or not at all.

        Args:
            path: Path of the file to write.

        Raises:
            OSError: The folder cannot be written.
        """
        with atomic_path(path) as temporary:
            temporary.write_text(
                json.dumps(self.get_config(), ensure_ascii=False, indent=0),
                encoding="utf-8",
            )

    def encode(self, text_or_tokens):
        """Looks up ids; no end of sentence is added.

        Args:
            text_or_tokens: A string, split at white space, or an iterable of
                tokens.

        Returns:
            1-D int32 array, one id per token.
        """
        get, unknown_id = self._ids.get, self.unknown_id
        tokens = _replace_numbers(_split(text_or_tokens), self.numbers)
        return np.array([get(token, unknown_id) for token in tokens], np.int32)

    def decode(self, ids):
        """Gives the tokens of some ids.

        Args:
            ids: 1-D integers, as an array, tensor or list.

        Returns:
            List of strings.

        Raises:
            ValueError: An id is not in the vocabulary.
        """
        ids = [int(id) for id in keras.ops.convert_to_numpy(ids)]
        for id in ids:
            if not 0 <= id < len(self):
                raise ValueError(
                    f"`ids` must lie in 0 .. {len(self) - 1}, as this "
                    f"vocabulary has {len(self)} entries. Received the id {id}."
                )
        return [self.tokens[id] for id in ids]

    @property
    def end_of_sentence_id(self):
        """Id of the end of a sentence."""
        return 0

    @property
    def unknown_id(self):
        """Id of all words that are not in the vocabulary."""
        return 1

    def get_config(self):
        return {
            "tokens": list(self.tokens),
            "unknown": self.unknown,
            "end_of_sentence": self.end_of_sentence,
            "numbers": self.numbers,
        }

    @classmethod
    def from_config(cls, config):
        return cls(**config)

    def __len__(self):
        return len(self.tokens)

    def __contains__(self, token):
        return token in self._ids

    def __getitem__(self, token):
        return self._ids.get(token, self.unknown_id)

    def __eq__(self, other):
        if not isinstance(other, Vocabulary):
            return NotImplemented
        return self.get_config() == other.get_config()

    def __repr__(self):
        return (
            f"Vocabulary({len(self)} tokens, unknown={self.unknown!r}, "
            f"end_of_sentence={self.end_of_sentence!r}, "
            f"numbers={self.numbers!r})"
        )


def _split(text_or_tokens):
    if isinstance(text_or_tokens, str):
        return text_or_tokens.split()
    return text_or_tokens


def _replace_numbers(tokens, numbers):
    if numbers is None:
        return tokens
    return [numbers if _NUMBER.fullmatch(token) else token for token in tokens]


def _check_tokens(tokens):
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


def _parse_config(text):
    try:
        config = json.loads(text)
    except json.JSONDecodeError:
        return None
    # A plain list of tokens may be valid JSON too, such as the one line `7`.
    return config if isinstance(config, dict) else None

"""Vocabularies and tokenizers as TensorFlow operations, for graphs."""

import collections

import tensorflow as tf

from memlm_keras.data.subwords import WORD_START
from memlm_keras.data.subwords import LongestMatchTokenizer
from memlm_keras.data.subwords import SentencePieceTokenizer
from memlm_keras.data.vocabulary import NUMBER_PATTERN
from memlm_keras.data.vocabulary import WHITE_SPACE
from memlm_keras.data.vocabulary import lower_case


class Words:
    """Vocabulary as TensorFlow operations; modules must track `resources`."""

    def __init__(self, vocabulary):
        self.tokens = tf.constant(vocabulary.tokens)
        self.table = tf.lookup.StaticHashTable(
            tf.lookup.KeyValueTensorInitializer(
                self.tokens, tf.range(len(vocabulary), dtype=tf.int64)
            ),
            default_value=vocabulary.unknown_id,
        )
        tokenizer = vocabulary.tokenizer
        # SentencePiece models use operators from tensorflow_text, which
        # TensorFlow Serving includes.
        if isinstance(tokenizer, SentencePieceTokenizer):
            self._tokenizer = SentencePieceInGraph(tokenizer)
        elif isinstance(tokenizer, LongestMatchTokenizer):
            self._tokenizer = LongestMatchInGraph(tokenizer)
        else:
            self._tokenizer = TokenizerInGraph(tokenizer)
        self.resources = [self.table, self._tokenizer]
        joined = getattr(vocabulary, "unit", "words") != "words"
        self._separator = "" if joined else " "
        self._parts = (
            tf.constant(list(map(vocabulary.bytes_of, vocabulary.tokens)))
            if joined
            else self.tokens
        )

    def encode(self, text):
        """Encodes texts `(B,)`, as ragged int32; see `Vocabulary.encode`."""
        return self.look_up(self.tokenize(text))

    def look_up(self, tokens):
        """Returns the ids of tokens; both are ragged tensors."""
        ids = self.table.lookup(tokens.flat_values)
        return tokens.with_flat_values(tf.cast(ids, tf.int32))

    def tokenize(self, text):
        """Splits texts `(B,)` into tokens, a ragged string tensor."""
        return self._tokenizer.tokenize(text)

    def detokenize(self, ids):
        """Joins ragged ids into texts `(B,)`; see `Vocabulary.detokenize`."""
        written = tf.strings.reduce_join(
            tf.gather(self._parts, ids), axis=1, separator=self._separator
        )
        if self._separator:
            return written
        # Replace incomplete characters, with which a text may begin or end.
        text = tf.strings.unicode_transcode(written, "UTF-8", "UTF-8")
        return tf.strings.reduce_join(
            split_at_white_space(text), axis=1, separator=" "
        )


class TokenizerInGraph(tf.Module):
    """Computes `Tokenizer.tokenize` for texts `(B,)`."""

    def __init__(self, tokenizer):
        super().__init__()
        self._rules = tokenizer

    def tokenize(self, text):
        if self._rules.split == "white_space":
            tokens = split_at_white_space(text)
        elif self._rules.split == "characters":
            text = tf.strings.regex_replace(text, f"[{WHITE_SPACE}]", "")
            tokens = tf.strings.unicode_split(text, "UTF-8")
        else:
            tokens = split_at_scripts(text)
        return tokens.with_flat_values(self._normalized(tokens.flat_values))

    def _normalized(self, tokens):
        """Computes `Tokenizer.normalize` for tokens `(N,)`."""
        if self._rules.lowercase:
            codes = tf.strings.unicode_decode(tokens, "UTF-8")
            codes = codes.with_flat_values(lowered_codes(codes.flat_values))
            tokens = tf.strings.unicode_encode(codes, "UTF-8")
        if self._rules.numbers is not None:
            is_number = tf.strings.regex_full_match(tokens, NUMBER_PATTERN)
            tokens = tf.where(is_number, self._rules.numbers, tokens)
        return tokens


class SentencePieceInGraph(tf.Module):
    """Computes `SentencePieceTokenizer.tokenize` for texts `(B,)`."""

    def __init__(self, tokenizer):
        super().__init__()
        self._pieces = tokenizer.in_graph()
        self._replaced = collections.defaultdict(str)
        for character, text in tokenizer.replacements.items():
            self._replaced[text.replace("\\", r"\\")] += (
                f"\\x{{{ord(character):x}}}"
            )

    def tokenize(self, text):
        for replacement, characters in self._replaced.items():
            text = tf.strings.regex_replace(
                text, f"[{characters}]", replacement
            )
        return self._pieces.tokenize(text)


class LongestMatchInGraph(tf.Module):
    """Computes `LongestMatchTokenizer.tokenize` for texts `(B,)`."""

    def __init__(self, tokenizer):
        super().__init__()
        self._rules = tokenizer
        matched = tf.constant(sorted(tokenizer.matched))
        self.matched = tf.lookup.StaticHashTable(
            tf.lookup.KeyValueTensorInitializer(
                matched, tf.ones_like(matched, tf.int32)
            ),
            default_value=0,
        )

    def tokenize(self, text):
        words = split_at_white_space(text)
        if self._rules.unit == "words":
            return words
        pieces = self._pieces(
            tf.strings.join([self._rules.mark, words.flat_values])
        )
        counts = words.with_flat_values(pieces.row_lengths())
        return tf.RaggedTensor.from_row_lengths(
            pieces.flat_values, tf.reduce_sum(counts, axis=1)
        )

    def _pieces(self, words):
        """Splits words `(N,)`; each loop step cuts one piece off each word."""
        lengths = tf.range(self._rules.longest, 0, -1)

        def cut(rest, pieces):
            shape = (tf.size(rest), self._rules.longest)
            starts = tf.strings.substr(
                tf.broadcast_to(rest[:, None], shape),
                tf.zeros(shape, tf.int32),
                tf.broadcast_to(lengths, shape),
                unit="UTF8_CHAR",
            )
            matches = self.matched.lookup(starts)
            longest = tf.argmax(matches, axis=1)
            piece = tf.where(
                tf.reduce_any(matches > 0, axis=1),
                tf.gather(starts, longest, batch_dims=1),
                starts[:, -1],
            )
            size = tf.strings.length(piece)
            left = tf.strings.substr(rest, size, tf.strings.length(rest) - size)
            lone = (piece == WORD_START) & (self.matched.lookup(piece) == 0)
            piece = tf.where(lone, "", piece)
            return left, tf.concat([pieces, piece[:, None]], axis=1)

        nothing = tf.fill((tf.size(words), 0), "")
        _, pieces = tf.while_loop(
            lambda rest, _: tf.reduce_any(rest != ""),
            cut,
            (words, nothing),
            shape_invariants=(words.shape, tf.TensorShape((None, None))),
        )
        return tf.ragged.boolean_mask(pieces, pieces != "")


def split_at_white_space(text):
    """Splits texts `(B,)` like `str.split`, into a ragged tensor of tokens."""
    # `tf.strings.split` splits at fewer characters than Python.
    return tf.strings.split(
        tf.strings.regex_replace(text, f"[{WHITE_SPACE}]", " ")
    )


def split_at_scripts(text):
    """Splits texts at white space and script changes, into ragged tokens."""
    decoded = tf.strings.unicode_decode(text, "UTF-8")
    codes, edges = decoded.flat_values, decoded.row_splits
    # `value_rowids` gives the same `rows`, but uses more memory.
    places = tf.range(tf.size(codes, tf.int64))
    rows = tf.searchsorted(edges[1:], places, side="right")
    spaces = tf.constant([ord(character) for character in WHITE_SPACE])
    is_space = tf.reduce_any(codes[:, None] == spaces, axis=1)
    scripts = tf.where(is_space, -2, tf.strings.unicode_script(codes))
    # A character begins a token if it is not white space, and the previous
    # character belongs to another text or another script.
    changes = tf.concat(
        [
            tf.ones_like(codes[:1], tf.bool),
            (rows[1:] != rows[:-1]) | (scripts[1:] != scripts[:-1]),
        ],
        axis=0,
    )
    begins = tf.cast(changes & ~is_space, tf.int64)
    count = tf.reduce_sum(begins)
    tokens = tf.RaggedTensor.from_value_rowids(
        tf.boolean_mask(codes, ~is_space),
        tf.boolean_mask(tf.cumsum(begins) - 1, ~is_space),
        nrows=count,
    )
    return tf.RaggedTensor.from_row_lengths(
        tf.strings.unicode_encode(tokens, "UTF-8"),
        tf.math.unsorted_segment_sum(begins, rows, tf.size(text)),
    )


def lowered_codes(codes):
    """Lower-cases code points `(N,)` with the table of `Tokenizer`."""
    table = sorted(lower_case().items())
    upper, lower = (tf.constant(column) for column in zip(*table))
    places = tf.minimum(tf.searchsorted(upper, codes), len(table) - 1)
    return tf.where(
        tf.gather(upper, places) == codes, tf.gather(lower, places), codes
    )

"""Texts to ids in a TensorFlow graph, and tracing, for all signatures."""

import tensorflow as tf

from memlm_keras.data.subwords import WORD_START
from memlm_keras.data.subwords import LongestMatchTokenizer
from memlm_keras.data.subwords import SentencePieceTokenizer
from memlm_keras.data.tokenizer import NUMBER_PATTERN
from memlm_keras.data.tokenizer import WHITE_SPACE
from memlm_keras.data.tokenizer import lower_case


class Words:
    """A vocabulary in a graph.

    Its operators are TensorFlow's own, but that a SentencePiece model needs
    those of tensorflow_text, which TensorFlow Serving has.

    Args:
        vocabulary: `memlm_keras.data.Vocabulary`.

    Attributes:
        tokens: string tensor `(V,)`.
        resources: list, which whatever is saved must refer to.
    """

    def __init__(self, vocabulary):
        self.tokens = tf.constant(vocabulary.tokens)
        self.table = tf.lookup.StaticHashTable(
            tf.lookup.KeyValueTensorInitializer(
                self.tokens, tf.range(len(vocabulary), dtype=tf.int64)
            ),
            default_value=vocabulary.unknown_id,
        )
        tokenizer = vocabulary.tokenizer
        if isinstance(tokenizer, SentencePieceTokenizer):
            self._tokenizer = tokenizer.in_graph()
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
        """Looks up ids of texts `(B,)`, as `Vocabulary.encode` does.

        Returns:
            Ragged int32 tensor `(B, None)`.
        """
        return self.look_up(self.tokenize(text))

    def look_up(self, tokens):
        """Looks up ids of a ragged string tensor of tokens."""
        ids = self.table.lookup(tokens.flat_values)
        return tokens.with_flat_values(tf.cast(ids, tf.int32))

    def tokenize(self, text):
        """Parts texts `(B,)` into tokens, as the vocabulary's tokenizer does.

        Returns:
            Ragged string tensor `(B, None)`.
        """
        return self._tokenizer.tokenize(text)

    def detokenize(self, ids):
        """Writes ragged ids as texts `(B,)`, as `Vocabulary.detokenize`."""
        written = tf.strings.reduce_join(
            tf.gather(self._parts, ids), axis=1, separator=self._separator
        )
        if self._separator:
            return written
        # What bytes are cut off from no character can be made of.
        text = tf.strings.unicode_transcode(written, "UTF-8", "UTF-8")
        return tf.strings.reduce_join(
            split_at_white_space(text), axis=1, separator=" "
        )


class TokenizerInGraph(tf.Module):
    """`Tokenizer.tokenize` of many texts."""

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
        """`Tokenizer.normalize` of tokens `(N,)`."""
        if self._rules.lowercase:
            codes = tf.strings.unicode_decode(tokens, "UTF-8")
            lowered = lowered_codes(codes.flat_values)
            tokens = tf.strings.unicode_encode(
                codes.with_flat_values(lowered), "UTF-8"
            )
        if self._rules.numbers is not None:
            is_number = tf.strings.regex_full_match(tokens, NUMBER_PATTERN)
            tokens = tf.where(is_number, self._rules.numbers, tokens)
        return tokens


class LongestMatchInGraph(tf.Module):
    """`LongestMatchTokenizer.tokenize` of many texts."""

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
        """Ragged pieces of words `(N,)`, all words one piece further a turn."""
        lengths = tf.range(self._rules.longest, 0, -1)

        def cut(rest, pieces):
            shape = (tf.size(rest), self._rules.longest)
            starts = tf.strings.substr(
                tf.broadcast_to(rest[:, None], shape),
                tf.zeros(shape, tf.int32),
                tf.broadcast_to(lengths, shape),
                unit="UTF8_CHAR",
            )
            found = self.matched.lookup(starts)
            longest = tf.argmax(found, axis=1)
            piece = tf.where(
                tf.reduce_any(found > 0, axis=1),
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
    """Parts texts `(B,)` as Python's `str.split` does, into a ragged tensor."""
    # By itself, TensorFlow splits at less.
    return tf.strings.split(
        tf.strings.regex_replace(text, f"[{WHITE_SPACE}]", " ")
    )


def split_at_scripts(text):
    """Parts texts at white space and where the Unicode script changes.

    Args:
        text: string tensor `(B,)`.

    Returns:
        Ragged string tensor `(B, None)`.
    """
    decoded = tf.strings.unicode_decode(text, "UTF-8")
    codes, edges = decoded.flat_values, decoded.row_splits
    # As `value_rowids` would give, which takes memory for whole rows.
    places = tf.range(tf.size(codes, tf.int64))
    rows = tf.searchsorted(edges[1:], places, side="right")
    spaces = tf.constant([ord(character) for character in WHITE_SPACE])
    is_space = tf.reduce_any(codes[:, None] == spaces, axis=1)
    scripts = tf.where(is_space, -2, tf.strings.unicode_script(codes))
    # A token begins where its row, or its script, is not that of what stands
    # before it; white space begins none.
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
    """Makes code points `(N,)` lower case, by the table of `Tokenizer`."""
    table = sorted(lower_case().items())
    upper, lower = (tf.constant(column) for column in zip(*table))
    places = tf.minimum(tf.searchsorted(upper, codes), len(table) - 1)
    return tf.where(
        tf.gather(upper, places) == codes, tf.gather(lower, places), codes
    )


def trace(signatures, inputs):
    """Traces methods into graphs.

    Args:
        signatures: object with a method for each name.
        inputs: dict by name of dicts of `tf.TensorSpec`s.

    Returns:
        Dict of concrete functions by name.
    """
    return {
        name: tf.function(
            getattr(signatures, name), autograph=False
        ).get_concrete_function(**specification)
        for name, specification in inputs.items()
    }

"""What all signatures have in common: texts to ids, and tracing."""

import tensorflow as tf

from memlm_keras.data.tokenizer import NUMBER_PATTERN
from memlm_keras.data.tokenizer import WHITE_SPACE
from memlm_keras.data.tokenizer import lower_case


class Words:
    """A vocabulary in a graph, of TensorFlow's core operators.

    Args:
        vocabulary: `memlm_keras.data.Vocabulary`.

    Attributes:
        tokens: string tensor `(V,)`.
        table: the lookup table, which whatever is saved must refer to.
    """

    def __init__(self, vocabulary):
        self.tokens = tf.constant(vocabulary.tokens)
        self.table = tf.lookup.StaticHashTable(
            tf.lookup.KeyValueTensorInitializer(
                self.tokens, tf.range(len(vocabulary), dtype=tf.int64)
            ),
            default_value=vocabulary.unknown_id,
        )
        self._tokenizer = vocabulary.tokenizer

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
        """Parts texts `(B,)` into tokens, as `Tokenizer.tokenize` does.

        Returns:
            Ragged string tensor `(B, None)`.
        """
        if self._tokenizer.split == "white_space":
            # By itself, TensorFlow splits at less than Python.
            text = tf.strings.regex_replace(text, f"[{WHITE_SPACE}]", " ")
            tokens = tf.strings.split(text)
        else:
            tokens = split_at_scripts(text)
        return tokens.with_flat_values(self._normalized(tokens.flat_values))

    def _normalized(self, tokens):
        """`Tokenizer.normalize` of tokens `(N,)`."""
        if self._tokenizer.lowercase:
            codes = tf.strings.unicode_decode(tokens, "UTF-8")
            lowered = lowered_codes(codes.flat_values)
            tokens = tf.strings.unicode_encode(
                codes.with_flat_values(lowered), "UTF-8"
            )
        if self._tokenizer.numbers is not None:
            is_number = tf.strings.regex_full_match(tokens, NUMBER_PATTERN)
            tokens = tf.where(is_number, self._tokenizer.numbers, tokens)
        return tokens


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

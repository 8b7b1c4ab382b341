"""What all signatures have in common: texts to ids, and tracing."""

import tensorflow as tf

from memlm_keras.data.vocabulary import NUMBER_PATTERN

# What Python's `str.split` splits at, and `tf.strings.split` does not.
_FURTHER_SPACE = r"[\p{Z}\x{85}\x{1c}-\x{1f}]"


class Words:
    """A vocabulary in a graph.

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
        self._numbers = vocabulary.numbers

    def encode(self, text):
        """Splits texts `(B,)` into ids, as `Vocabulary.encode` does.

        Returns:
            Ragged int32 tensor `(B, None)`.
        """
        text = tf.strings.regex_replace(text, _FURTHER_SPACE, " ")
        words = tf.strings.split(text)
        flat = words.flat_values
        if self._numbers is not None:
            is_number = tf.strings.regex_full_match(flat, NUMBER_PATTERN)
            flat = tf.where(is_number, self._numbers, flat)
        return words.with_flat_values(
            tf.cast(self.table.lookup(flat), tf.int32)
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

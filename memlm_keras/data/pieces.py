"""Tokenizers that part words into pieces."""

import base64
import functools

# Stands, in a piece, for the white space before a word.
WORD_START = "\u2581"


class SentencePieceTokenizer:
    """Parts texts into the pieces of a SentencePiece model.

    Args:
        model: bytes, what the file of the model holds.
    """

    def __init__(self, model):
        self.model = model

    def tokenize(self, text):
        """Parts a text into pieces, a list of strings."""
        try:
            text = text.encode()
        except UnicodeEncodeError:
            text = text.encode("utf-8", "replace")
        return _at_work(self.model).tokenize(text)

    def normalize(self, tokens):
        """Parts a text of given words into pieces."""
        return self.tokenize(" ".join(tokens))

    def pieces(self):
        """Returns all pieces, a list of strings in the order of their ids."""
        return list(_at_work(self.model).all)

    def in_graph(self):
        """Returns the same as a tokenizer of tensorflow_text, for graphs."""
        return _tensorflow_text().SentencepieceTokenizer(
            model=self.model, out_type="string"
        )

    def get_config(self):
        return {"sentencepiece": base64.b64encode(self.model).decode()}


class LongestMatchTokenizer:
    """Parts words into the longest tokens that there are, from the left.

    A character that no token begins with is a token that is unknown; the mark
    before a word, where it is none, is left out.

    Args:
        tokens: tuple of strings.
        unit: as of `SubwordVocabulary`.
    """

    def __init__(self, tokens, unit):
        self.tokens = tokens
        self.unit = unit
        # What is written `<so>` means something to the engine, not as text.
        self.matched = frozenset(
            token
            for token in tokens
            if unit == "words"
            or not (token.startswith("<") and token.endswith(">"))
        )
        self.mark = WORD_START if unit == "pieces" else ""
        self.longest = max(map(len, self.matched), default=1)

    def tokenize(self, text):
        """Parts a text into tokens, a list of strings."""
        return self.normalize(text.split())

    def normalize(self, tokens):
        """Parts given words into tokens, a list of strings."""
        if self.unit == "words":
            return list(tokens)
        words = (word for token in tokens for word in token.split())
        return [piece for word in words for piece in self._pieces(word)]

    def _pieces(self, word):
        rest, pieces = self.mark + word, []
        while rest:
            lengths = range(min(self.longest, len(rest)), 0, -1)
            found = next((n for n in lengths if rest[:n] in self.matched), None)
            if found or rest[0] != WORD_START:
                pieces.append(rest[: found or 1])
            rest = rest[found or 1 :]
        return pieces

    def get_config(self):
        return {"tokens": list(self.tokens), "unit": self.unit}


class _Pieces:
    """A SentencePiece model at work, in a TensorFlow session of its own.

    Called as other operators are, the one that holds the model may lose it to
    the next function that TensorFlow gives up.
    """

    def __init__(self, model):
        tokenizer_of = _tensorflow_text().SentencepieceTokenizer
        import tensorflow as tf

        with tf.Graph().as_default(), tf.device("CPU"):
            self._tokenizer = tokenizer_of(model=model, out_type=tf.string)
            self._text = tf.compat.v1.placeholder(tf.string, (1,))
            self._tokens = self._tokenizer.tokenize(self._text).flat_values
            ids = tf.range(self._tokenizer.vocab_size())
            pieces = self._tokenizer.id_to_string(ids)
            self._session = tf.compat.v1.Session(
                config=tf.compat.v1.ConfigProto(device_count={"GPU": 0})
            )
        try:
            self.all = [piece.decode() for piece in self._session.run(pieces)]
        except tf.errors.OpError as error:
            raise ValueError(
                "The SentencePiece model is damaged, or none. Received: "
                f"{len(model)} bytes"
            ) from error

    def tokenize(self, text):
        pieces = self._session.run(self._tokens, {self._text: [text]})
        return [piece.decode() for piece in pieces]


@functools.lru_cache(maxsize=8)
def _at_work(model):
    return _Pieces(model)


def _tensorflow_text():
    try:
        import tensorflow_text
    except ImportError as error:
        raise ImportError(
            "A SentencePiece model needs tensorflow_text. Install it with "
            "`pip install tensorflow-text`."
        ) from error
    return tensorflow_text

"""The signatures of a served language model.

Runs on the TensorFlow backend of Keras only; `memlm_keras.serving.export`
gets here from every backend.

Shapes below: B batch, T time, V vocabulary, k most probable tokens.
"""

import tensorflow as tf

from memlm_keras.serving.checks import require
from memlm_keras.serving.checks import require_range
from memlm_keras.serving.checks import require_shape
from memlm_keras.serving.checks import require_words
from memlm_keras.serving.generation import generate
from memlm_keras.serving.reading import RowReader
from memlm_keras.serving.served_state import ServedState
from memlm_keras.serving.words import Words
from memlm_keras.serving.words import trace

_TOKEN_IDS = tf.TensorSpec((None, None), tf.int32)
_TEXT = tf.TensorSpec((None,), tf.string)
_INTEGERS = tf.TensorSpec((None,), tf.int32)
_FLOATS = tf.TensorSpec((None,), tf.float32)


class LanguageModelSignatures:
    """Signatures of a served language model, a method for each.

    All inputs and outputs are dicts of tensors with the batch first. State
    comes in and goes out as `ServedState` says.

    Args:
        model: `memlm_keras.LanguageModel` or `memlm_keras.Ensemble`.
        vocabulary: `memlm_keras.data.Vocabulary` of the model's size.
        top_k: integer, k.
        max_length: integer, most tokens of a row that a request brings, or
            `generate` writes.
    """

    def __init__(self, model, vocabulary, top_k, max_length):
        self.vocabulary = vocabulary
        self.top_k = top_k
        self.max_length = max_length
        self.words = Words(vocabulary)
        self.state = ServedState(model, vocabulary)
        self.reader = RowReader(model, self.state.own)
        # Traced once, for all signatures.
        self._encoded = tf.function(self._encode, (_TEXT,), autograph=False)
        self._begun = tf.function(self._begin, (_TEXT,), autograph=False)

    def concrete_functions(self):
        """Returns the traced signatures by name."""
        state = self.state.specification
        ids = {"token_ids": _TOKEN_IDS, "length": _INTEGERS}
        return trace(
            self,
            {
                "serving_default": {"token_ids": _TOKEN_IDS},
                "score": {"text": _TEXT},
                "score_ids": ids,
                "begin": {"text": _TEXT},
                "step": {**ids, **state},
                "step_words": {"text": _TEXT, **state},
                "next": {"text": _TEXT},
                "generate": {
                    "text": _TEXT,
                    "length": _INTEGERS,
                    "top_k": _INTEGERS,
                    "temperature": _FLOATS,
                    "seed": _INTEGERS,
                },
                "initial_state": {"rows": _INTEGERS},
            },
        )

    # === Scores ===

    def serving_default(self, token_ids):
        """Next-token distributions after each position of `(B, T)` ids.

        Returns:
            `log_probabilities` float32 `(B, T, V)`.
        """
        token_ids = require_shape("token_ids", token_ids, (None, None))
        token_ids = self._in_vocabulary(token_ids)
        state = self.state.initial(tf.shape(token_ids)[0])
        log_probabilities, _ = self.reader.step(token_ids, state)
        return {"log_probabilities": log_probabilities}

    def score(self, text):
        """Log-probabilities of the words of texts `(B,)` and of their ends.

        Returns:
            `tokens` string, as the text was read, and its end; their
            `log_probabilities` float32; and `unknown` bool, whether a token is
            read as unknown; all `(B, longest)`, and empty, 0 and false past
            the end. `log_probability` float32 `(B,)`, their sums; and `length`
            int32 `(B,)`, the numbers of predicted tokens.
        """
        tokens, ids = self._encoded(text)
        end = tf.fill((ids.nrows(out_type=tf.int32), 1), self._end)
        targets = tf.concat([ids, end], axis=1).to_tensor()
        # Both are padded at the end, where no earlier step sees it.
        found = self._scored(
            tf.concat([end, ids], axis=1).to_tensor(),
            targets,
            self._lengths(ids) + 1,
        )
        end_token = tf.gather(self.words.tokens, end)
        unknown = targets == self.vocabulary.unknown_id
        return {
            "tokens": tf.concat([tokens, end_token], axis=1).to_tensor(),
            "unknown": unknown & tf.sequence_mask(found["length"]),
            **found,
        }

    def score_ids(self, token_ids, length):
        """Log-probabilities of ids `(B, T)`, each given those before it.

        Args:
            length: int32 tensor `(B,)`, how many of a row's ids are its own.

        Returns:
            `log_probabilities` float32 `(B, T - 1)`, of all but the first, 0
            past the end; `log_probability` float32 `(B,)`, their sums; and
            `length` int32 `(B,)`, how many they are.
        """
        token_ids, length = self._own_ids(token_ids, length)
        return self._scored(token_ids[:, :-1], token_ids[:, 1:], length - 1)

    def _scored(self, token_ids, targets, length):
        state = self.state.initial(tf.shape(token_ids)[0])
        scores = self.reader.score(token_ids, targets, length, state)
        return {
            "log_probabilities": scores,
            "log_probability": tf.reduce_sum(scores, axis=1),
            "length": length,
        }

    # === What comes next ===

    def initial_state(self, rows):
        """State before the first token, as many rows as `rows` `(B,)` has."""
        rows = require_shape("rows", rows, (None,))
        state = self.state.initial(tf.shape(rows)[0])
        return self.state.to_request(state)

    def begin(self, text):
        """The state after texts `(B,)`, and what comes next.

        Returns:
            As of `step`.
        """
        log_probabilities, state = self._begun(text)
        return {
            **self._most_probable(log_probabilities),
            **self.state.to_request(state),
        }

    def next(self, text):
        """Predicts the token after texts `(B,)`.

        Returns:
            As of `step`, without the state.
        """
        return self._most_probable(self._begun(text)[0])

    def step(self, token_ids, length, **state):
        """Predicts the token after `(B, T)` ids that are read from a state.

        Args:
            length: int32 tensor `(B,)`, how many of a row's ids are its own.

        Returns:
            `top_k_ids` int32, `top_k_words` string and
            `top_k_log_probabilities` float32, all `(B, k)`, the most probable
            first; and the new state.
        """
        token_ids, length = self._own_ids(token_ids, length)
        return self._stepped("token_ids", token_ids, length, state)

    def step_words(self, text, **state):
        """Predicts the token after texts `(B,)` that are read from a state.

        Returns:
            As of `step`.
        """
        _, ids = self._encoded(text)
        ids = require_words("text", ids)
        return self._stepped("text", ids.to_tensor(), self._lengths(ids), state)

    def generate(self, text, length, top_k, temperature, seed):
        """Writes texts `(B,)` on.

        Args:
            length: int32 tensor `(B,)`, most tokens to write.
            top_k: int32 tensor `(B,)`, how many of the most probable tokens
                are drawn from; 1 is greedy.
            temperature: float32 tensor `(B,)`.
            seed: int32 tensor `(B,)`.

        Returns:
            `text` string `(B,)`, what was written, without the end;
            `token_ids` int32, `tokens` string and `log_probabilities` float32
            by the model's own distribution, all `(B, longest)`, with ends,
            empty and 0 past a row's own; `length` int32 `(B,)`, tokens that a
            row has written, its end among them.
        """
        options = {
            "length": length,
            "top_k": top_k,
            "temperature": temperature,
            "seed": seed,
        }
        text = require_shape("text", text, (None,))
        rows = "text", tf.shape(text)[0]
        most = {"length": self.max_length, "top_k": self.top_k}
        for name, value in options.items():
            value = require_shape(name, value, (rows,))
            if name in most:
                value = require_range(name, value, 1, most[name])
            options[name] = value
        warm = options["temperature"]
        options["temperature"] = require(
            tf.reduce_all((warm > 0) & tf.math.is_finite(warm)),
            "`temperature` must be finite and more than 0",
            warm,
        )
        begun = self._begun(text)
        ids, scores, length = generate(
            self.reader, *begun, options, self._end, most
        )
        written = tf.RaggedTensor.from_tensor(ids, length)
        texts = self.words.detokenize(
            tf.ragged.boolean_mask(written, written != self._end)
        )
        tokens = tf.gather(self.words.tokens, written).to_tensor()
        return {
            "text": texts,
            "token_ids": ids,
            "tokens": tokens,
            "log_probabilities": scores,
            "length": length,
        }

    def _begin(self, text):
        """`(log_probabilities, state)` after an end and texts."""
        _, ids = self._encoded(text)
        end = tf.fill((ids.nrows(out_type=tf.int32), 1), self._end)
        return self.reader.read(
            tf.concat([end, ids], axis=1).to_tensor(),
            self._lengths(ids) + 1,
            self.state.initial(tf.shape(end)[0]),
        )

    def _stepped(self, name, token_ids, length, state):
        rows = tf.shape(token_ids)[0]
        state = self.state.from_request(state, (name, rows))
        log_probabilities, state = self.reader.read(token_ids, length, state)
        return {
            **self._most_probable(log_probabilities),
            **self.state.to_request(state),
        }

    def _most_probable(self, log_probabilities):
        values, ids = tf.math.top_k(log_probabilities, self.top_k)
        return {
            "top_k_ids": ids,
            "top_k_words": tf.gather(self.words.tokens, ids),
            "top_k_log_probabilities": values,
        }

    # === Inputs ===

    @property
    def _end(self):
        return self.vocabulary.end_of_sentence_id

    def _encode(self, text):
        """Ragged tokens and ids of texts, none of them too long."""
        text = require_shape("text", text, (None,))
        tokens = self.words.tokenize(text)
        counts = tokens.row_lengths()
        tokens = require(
            tf.reduce_all(counts <= self.max_length),
            f"`text` must hold at most {self.max_length} tokens in each row",
            tokens,
            tf.cast(tf.reduce_max(counts), tf.int32),
        )
        return tokens, self.words.look_up(tokens)

    def _lengths(self, ids):
        return tf.cast(ids.row_lengths(), tf.int32)

    def _own_ids(self, token_ids, length):
        """Ids and lengths of a request, with zeros behind a row's length."""
        token_ids = require_shape("token_ids", token_ids, (None, None))
        rows, time = tf.unstack(tf.shape(token_ids))
        length = require_shape("length", length, (("token_ids", rows),))
        most = tf.minimum(time, self.max_length)
        length = require_range(
            "length",
            length,
            1,
            most,
            f"the time of `token_ids`, and {self.max_length}",
        )
        own = tf.sequence_mask(length, time)
        return self._in_vocabulary(tf.where(own, token_ids, 0)), length

    def _in_vocabulary(self, token_ids):
        # Keras would count a negative id from the end of the vocabulary.
        most = len(self.vocabulary) - 1
        return require_range("token_ids", token_ids, 0, most)

"""The signatures of a served language model.

Runs on the TensorFlow backend of Keras only; `memlm_keras.serving.export`
gets here from every backend.

Shapes below: B batch, T time, V vocabulary, k most probable tokens.
"""

import tensorflow as tf

from memlm_keras.serving.words import Words
from memlm_keras.serving.words import trace

_TOKEN_IDS = tf.TensorSpec((None, None), tf.int32)

# Steps whose distributions over the vocabulary are held at once by `score`.
_SEGMENT = 128


class LanguageModelSignatures:
    """Signatures of a served language model, a method for each.

    All inputs and outputs are dicts of tensors with the batch first. State
    comes in and goes out by the names of `LanguageModel.initial_state`.

    Args:
        model: `memlm_keras.LanguageModel`.
        vocabulary: `memlm_keras.data.Vocabulary` of the model's size.
        top_k: integer, k.
    """

    def __init__(self, model, vocabulary, top_k):
        self.model = model
        self.vocabulary = vocabulary
        self.top_k = top_k
        self.words = Words(vocabulary)
        self.state = {
            name: tf.TensorSpec((None, *value.shape[1:]), value.dtype)
            for name, value in model.initial_state(1).items()
        }

    def concrete_functions(self):
        """Returns the traced signatures by name."""
        inputs = {
            "serving_default": {"token_ids": _TOKEN_IDS},
            "score": {"text": tf.TensorSpec((None,), tf.string)},
            "step": {"token_ids": _TOKEN_IDS, **self.state},
            "initial_state": {"rows": tf.TensorSpec((None,), tf.int32)},
        }
        return trace(self, inputs)

    def serving_default(self, token_ids):
        """Next-token distributions after each position of `(B, T)` ids.

        Returns:
            `log_probabilities` float32 `(B, T, V)`.
        """
        log_probabilities, _ = self._read(token_ids)
        return {"log_probabilities": log_probabilities}

    def score(self, text):
        """Log-probabilities of the words of texts `(B,)` and of their ends.

        Returns:
            `log_probabilities` float32 `(B, longest)`, 0 past the end;
            `log_probability` float32 `(B,)`, their sums; `length` int32
            `(B,)`, the numbers of predicted tokens; and `tokens` string
            `(B, longest)`, the text as it was read, and its end.
        """
        tokens = self.words.tokenize(text)
        ids = self.words.look_up(tokens)
        ends = tf.fill(
            (tf.shape(text)[0], 1), self.vocabulary.end_of_sentence_id
        )
        # Both are padded at the end, where no earlier step sees it.
        token_ids = tf.concat([ends, ids], axis=1).to_tensor()
        targets = tf.concat([ids, ends], axis=1)
        length = tf.cast(targets.row_lengths(), tf.int32)
        log_probabilities = tf.where(
            tf.sequence_mask(length),
            self._score_targets(token_ids, targets.to_tensor()),
            0.0,
        )
        return {
            "log_probabilities": log_probabilities,
            "log_probability": tf.reduce_sum(log_probabilities, axis=1),
            "length": length,
            "tokens": tf.concat(
                [tokens, tf.gather(self.words.tokens, ends)], axis=1
            ).to_tensor(),
        }

    def step(self, token_ids, **state):
        """Predicts the word after `(B, T)` ids that are read from a state.

        Returns:
            `top_k_ids` int32, `top_k_words` string and
            `top_k_log_probabilities` float32, all `(B, k)`, the most probable
            first; and the new state.
        """
        log_probabilities, state = self._read(token_ids, state)
        values, ids = tf.math.top_k(log_probabilities[:, -1], self.top_k)
        return {
            "top_k_ids": ids,
            "top_k_words": tf.gather(self.words.tokens, ids),
            "top_k_log_probabilities": values,
            **state,
        }

    def initial_state(self, rows):
        """State before the first token, as many rows as `rows` `(B,)` has."""
        return self.model.initial_state(tf.shape(rows)[0])

    def _read(self, token_ids, state=None):
        """Returns `(log_probabilities, state)` after each token."""
        token_ids = self._checked(token_ids)
        if state is None:
            state = self.model.initial_state(tf.shape(token_ids)[0])
        logits, state = self.model.step(token_ids, state)
        # What comes out must be able to go in again.
        state = {
            name: tf.ensure_shape(
                tf.cast(value, self.state[name].dtype), self.state[name].shape
            )
            for name, value in state.items()
        }
        return tf.nn.log_softmax(tf.cast(logits, tf.float32)), state

    def _checked(self, token_ids):
        """Returns ids that stop the graph if outside the vocabulary."""
        # Keras would count a negative id from the end of the vocabulary.
        size = self.model.vocabulary_size
        message = f"`token_ids` must be at least 0 and below {size}"
        checks = [
            tf.debugging.assert_non_negative(token_ids, message),
            tf.debugging.assert_less(token_ids, size, message),
        ]
        with tf.control_dependencies(checks):
            return tf.identity(token_ids)

    def _score_targets(self, token_ids, targets):
        """Returns log-probabilities `(B, T)` of targets, by segments."""

        def read(start, state, scores):
            segment = slice(start, start + _SEGMENT)
            log_probabilities, state = self._read(token_ids[:, segment], state)
            new_scores = tf.gather(
                log_probabilities, targets[:, segment], batch_dims=2
            )
            scores = tf.concat([scores, new_scores], axis=1)
            return start + _SEGMENT, state, scores

        rows, time = tf.unstack(tf.shape(token_ids))
        start = (0, self.model.initial_state(rows), tf.zeros((rows, 0)))
        _, _, scores = tf.while_loop(
            lambda start, *_: start < time,
            read,
            start,
            shape_invariants=(
                tf.TensorSpec((), tf.int32),
                self.state,
                tf.TensorSpec((None, None), tf.float32),
            ),
        )
        return scores

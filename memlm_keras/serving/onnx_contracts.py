"""Inputs and outputs of ONNX files, by what is to run them.

Runs on the TensorFlow backend of Keras only.

Shapes below: B batch, T time, V vocabulary, N rows as sherpa-onnx calls them.
"""

import contextlib
import math

import tensorflow as tf

from memlm_keras.serving.streamed_step import StreamedStep
from memlm_keras.serving.streamed_step import without_loops


class NamedState:
    """Ids and each state by its name in; log-probabilities and new state out.

    Args:
        model: a `memlm_keras.LanguageModel` or `Ensemble` in float32.
        vocabulary: `memlm_keras.data.Vocabulary` of the model's size, or
            `None`.

    Attributes:
        specification: list of named `tf.TensorSpec`s, the inputs.
        rows: dict from names of inputs and outputs to the axis of their rows,
            where it is not the first.
    """

    ids = "token_ids"
    rows = {}

    def __init__(self, model, vocabulary):
        self.model = model
        self.vocabulary = vocabulary
        self.streamed = StreamedStep(model)
        self.specification = [
            tf.TensorSpec((None, 1), tf.int64, self.ids),
            *self.state_specification(),
        ]

    def state_specification(self):
        """The inputs that are states, a list of named `tf.TensorSpec`s."""
        return list(self.streamed.specification.values())

    def traced(self):
        """Context in which the model is to be traced."""
        return without_loops(self.model)

    def facts(self):
        """Metadata of the file, a dict of plain values."""
        facts = {
            "vocabulary_size": self.model.vocabulary_size,
            "initial_state": {
                name: value.tolist()
                for name, value in self.streamed.initial.items()
                if value.any()
            },
        }
        if self.vocabulary is not None:
            facts |= {
                "tokens": list(self.vocabulary.tokens),
                "end_of_sentence_id": self.vocabulary.end_of_sentence_id,
                "unknown_id": self.vocabulary.unknown_id,
            }
        return facts

    def __call__(self, token_ids, *state):
        """Reads one token a row.

        Args:
            token_ids: int64 tensor `(B, 1)`.
            *state: tensors, as `specification` has them.

        Returns:
            Dict of tensors: `log_probabilities` float32 `(B, V)` and the new
            state, `next_` before each name.
        """
        log_probabilities, new = self.streamed(
            token_ids, dict(zip(self.streamed.specification, state))
        )
        new = {f"next_{name}": value for name, value in new.items()}
        return {"log_probabilities": log_probabilities, **new}


class ColumnState(NamedState):
    """The same, where no state has fewer than two axes, as Triton wants it."""

    def state_specification(self):
        return [
            tf.TensorSpec(
                one.shape.as_list() + [1] * _lacks(one), one.dtype, name
            )
            for name, one in self.streamed.specification.items()
        ]

    def __call__(self, token_ids, *state):
        plain = [
            value[:, 0] if _lacks(one) else value
            for value, one in zip(state, self.streamed.specification.values())
        ]
        answer = super().__call__(token_ids, *plain)
        return {
            name: value[:, None] if value.shape.rank == 1 else value
            for name, value in answer.items()
        }


def _lacks(specification):
    return specification.shape.rank == 1


class SherpaOnline(NamedState):
    """The contract of sherpa-onnx's online language models, one step.

    All states of the model, flattened and one behind the other, fill `h`
    float32 `(1, N, hidden)` and then `c`, of the same shape, padded with a
    zero where their number is odd.
    """

    ids = "x"
    rows = {name: 1 for name in ("h", "c", "next_h", "next_c")}

    def state_specification(self):
        self.sizes = {
            name: math.prod(one.shape[1:])
            for name, one in self.streamed.specification.items()
        }
        self.hidden = max(1, math.ceil(sum(self.sizes.values()) / 2))
        return [
            tf.TensorSpec((1, None, self.hidden), tf.float32, name)
            for name in ("h", "c")
        ]

    def facts(self):
        return {
            "model_type": "rnnlm",
            "num_layers": 1,
            "hidden_size": self.hidden,
            **_ids_of(self),
        }

    def __call__(self, x, h, c):
        """Reads one token a row.

        Args:
            x: int64 tensor `(N, 1)`.
            h, c: float32 tensors `(1, N, hidden)`.

        Returns:
            Dict of `scores` float32 `(N, 1, V)`, log-probabilities of what
            follows, and `next_h` and `next_c`.
        """
        packed = tf.concat([h[0], c[0]], axis=1)[:, : sum(self.sizes.values())]
        parts = tf.split(packed, list(self.sizes.values()), axis=1)
        state = {}
        for (name, one), part in zip(
            self.streamed.specification.items(), parts
        ):
            if not one.dtype.is_floating:
                part = tf.cast(tf.round(part), one.dtype)
            state[name] = tf.reshape(part, (-1, *one.shape[1:]))
        scores, new = self.streamed(x, state)
        flat = [
            tf.cast(tf.reshape(new[name], (-1, size)), tf.float32)
            for name, size in self.sizes.items()
        ]
        padding = 2 * self.hidden - sum(self.sizes.values())
        flat.append(tf.zeros((tf.shape(x)[0], padding)))
        h, c = tf.split(tf.concat(flat, axis=1), 2, axis=1)
        return {"scores": scores[:, None], "next_h": h[None], "next_c": c[None]}


class SherpaOffline(NamedState):
    """The contract of sherpa-onnx's rescoring: whole texts, no state."""

    def __init__(self, model, vocabulary):
        self.model = model
        self.vocabulary = vocabulary
        self.specification = [
            tf.TensorSpec((None, None), tf.int64, "x"),
            tf.TensorSpec((None,), tf.int64, "x_lens"),
        ]

    def traced(self):
        return contextlib.nullcontext()

    def facts(self):
        return {"model_type": "rnnlm", **_ids_of(self)}

    def __call__(self, x, x_lens):
        """Scores texts, each from an empty context.

        Args:
            x: int64 tensor `(N, T)` of ids, anything behind the end of a text.
            x_lens: int64 tensor `(N,)`, how many there are of each.

        Returns:
            Dict of `nll` float32 `(N,)`, the negative log-likelihood of each
            text with its end.
        """
        end = self.vocabulary.end_of_sentence_id
        lengths = tf.cast(x_lens, tf.int32)[:, None]
        places = tf.range(tf.shape(x)[1] + 1)[None]
        # What stands behind an end may be no id at all.
        words = tf.where(places[:, :-1] < lengths, tf.cast(x, tf.int32), end)
        ends = tf.fill((tf.shape(x)[0], 1), end)
        scores, _ = self.model.backbone.score(
            tf.concat([ends, words], axis=1), tf.concat([words, ends], axis=1)
        )
        scores = tf.where(places <= lengths, scores, 0.0)
        return {"nll": -tf.reduce_sum(scores, axis=1)}


def _ids_of(contract):
    end = contract.vocabulary.end_of_sentence_id
    return {
        "vocab_size": contract.model.vocabulary_size,
        "sos_id": end,
        "eos_id": end,
    }


CONTRACTS = {
    None: NamedState,
    "sherpa": SherpaOnline,
    "sherpa_offline": SherpaOffline,
    "triton": ColumnState,
}

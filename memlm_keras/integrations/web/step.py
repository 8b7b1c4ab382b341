"""Defines the graph that a web page runs for each token, on TensorFlow only."""

import tensorflow as tf

from memlm_keras.serving.onnx import NamedState


class WebStep(NamedState):
    """Reads one token, batch size 1; also returns attention `(1, memory)`."""

    def __init__(self, model, vocabulary):
        super().__init__(model, vocabulary)
        # JavaScript's numbers cannot represent all 64-bit integers.
        self.specification = [
            tf.TensorSpec((1, *one.shape[1:]), one.dtype, one.name)
            for one in (
                tf.TensorSpec((1, 1), tf.int32, self.ids),
                *self.state_specification(),
            )
        ]

    def __call__(self, token_ids, *state):
        answer = super().__call__(token_ids, *state)
        weights = self.streamed.attend(
            token_ids, dict(zip(self.streamed.specification, state))
        )
        return answer if weights is None else {**answer, "attention": weights}

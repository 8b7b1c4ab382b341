"""Reading rows of different lengths in a TensorFlow graph, without padding.

Runs on the TensorFlow backend of Keras only.

Shapes below: B batch, T time, V vocabulary.
"""

import tensorflow as tf

# Numbers of the distributions over the vocabulary of a segment: 128 MiB in
# float32, of which there are two at once.
LOGITS = 2**25
# Most steps of a segment.
STEPS = 128
# Rows are scored to the next multiple of so many steps: few segments are worth
# a few steps behind a row's end, which nothing before sees.
_SCORED_STEPS = 8


class RowReader:
    """A model that reads rows of different lengths from a state.

    Rows are sorted by length and read in segments, the next one as long as the
    row that ends first. So a row that has ended takes no more time, nothing is
    read behind its end, and rows of one length are read in one go.

    Args:
        model: a `memlm_keras.LanguageModel` or `Ensemble`.
        state: dict of `tf.TensorSpec`s of the model's state.
    """

    def __init__(self, model, state):
        self.backbone = model.backbone
        self.vocabulary_size = model.vocabulary_size
        self.state = state
        ids = tf.TensorSpec((None, None), tf.int32)
        length = tf.TensorSpec((None,), tf.int32)
        # Traced once, for all signatures.
        self.step = tf.function(self._step, (ids, state), autograph=False)
        self.read = tf.function(
            self._read, (ids, length, state), autograph=False
        )
        self.score = tf.function(
            self._score, (ids, ids, length, state), autograph=False
        )

    def _step(self, token_ids, state, positions=None):
        """Reads all of `(B, T)` ids.

        Args:
            token_ids: int32 tensor `(B, T)`.
            state: dict of tensors.
            positions: int32 tensor `(B, queries)`, the steps that predict;
                `None` for all.

        Returns:
            `(log_probabilities, state)`, the former float32 `(B, T, V)`, or
            `(B, queries, V)`.
        """
        logits, state = self.backbone.step(
            token_ids, state, positions=positions
        )
        return (
            tf.nn.log_softmax(tf.cast(logits, tf.float32)),
            self._as_before(state),
        )

    def _read(self, token_ids, length, state):
        """Reads the first `length` ids of each row.

        Args:
            token_ids: int32 tensor `(B, T)`; what stands behind is not read.
            length: int32 tensor `(B,)`, from 1 to T.
            state: dict of tensors.

        Returns:
            `(log_probabilities, state)` after the last of them, the former
            float32 `(B, V)`.
        """

        def read(rows, steps, carried):
            found, state = carried
            piece = token_ids[:rows, steps]
            last = tf.fill((rows, 1), tf.shape(piece)[1] - 1)
            before = tf.nest.map_structure(lambda value: value[:rows], state)
            log_probabilities, after = self._step(piece, before, last)
            new = log_probabilities[:, 0], after
            # Rows that had ended keep what they have.
            return tf.nest.map_structure(
                lambda new, old: tf.concat([new, old[rows:]], axis=0),
                new,
                (found, state),
            )

        order = _longest_first(length)
        token_ids, length, state = _taken((token_ids, length, state), order)
        found = tf.zeros((tf.shape(length)[0], self.vocabulary_size))
        specification = tf.TensorSpec((None, self.vocabulary_size)), self.state
        carried = self._in_segments(
            read, length, (found, state), specification, lambda rows: STEPS
        )
        return _taken(carried, tf.math.invert_permutation(order))

    def _score(self, token_ids, targets, length, state):
        """Scores the first `length` targets of each row.

        Args:
            token_ids, targets: int32 tensors `(B, T)`.
            length: int32 tensor `(B,)`, from 0 to T.
            state: dict of tensors.

        Returns:
            float32 tensor `(B, T)` of natural-log probabilities, zero behind
            the length.
        """
        rows, time = tf.unstack(tf.shape(token_ids))

        def read(rows, steps, carried):
            scores, state = carried
            before = tf.nest.map_structure(lambda value: value[:rows], state)
            # `Backbone.score` takes 1.3 times as long: TensorFlow's loss finds
            # its gradient at once.
            found, after = self.step(token_ids[:rows, steps], before)
            found = tf.gather(found, targets[:rows, steps], batch_dims=2)
            ended = tf.shape(scores)[0] - rows
            found = tf.pad(found, [[0, ended], [0, 0]])
            return tf.concat([scores, found], axis=1), after

        order = _longest_first(length)
        token_ids, targets, state = _taken((token_ids, targets, state), order)
        counted = tf.gather(length, order)
        rounded = -(-counted // _SCORED_STEPS) * _SCORED_STEPS
        scores, _ = self._in_segments(
            read,
            tf.minimum(rounded, time),
            (tf.zeros((rows, 0)), state),
            (tf.TensorSpec((None, None)), self.state),
            lambda rows: tf.clip_by_value(
                LOGITS // self.vocabulary_size // rows, 1, STEPS
            ),
        )
        scores = tf.pad(scores, [[0, 0], [0, time - tf.shape(scores)[1]]])
        scores = tf.gather(scores, tf.math.invert_permutation(order))
        return tf.where(tf.sequence_mask(length, time), scores, 0.0)

    def _in_segments(self, read, length, carried, specification, most_steps):
        """Calls `read` for one segment after the other.

        Args:
            read: function of the number of rows that go on, a slice of steps
                and what is carried, to what is carried on.
            length: int32 tensor `(B,)`, the longest first.
            carried: nested tensors.
            specification: their `tf.TensorSpec`s.
            most_steps: function from the number of rows to most steps.

        Returns:
            What is carried in the end.
        """

        def segment(start, carried):
            left = length - start
            rows = tf.math.count_nonzero(left > 0, dtype=tf.int32)
            stop = start + tf.minimum(left[rows - 1], most_steps(rows))
            return stop, read(rows, slice(start, stop), carried)

        _, carried = tf.while_loop(
            lambda start, _: start < tf.reduce_max(length),
            segment,
            (0, carried),
            shape_invariants=(tf.TensorSpec((), tf.int32), specification),
            parallel_iterations=1,
        )
        return carried

    def _as_before(self, state):
        """A state that can go in again: of the dtypes and shapes it had."""
        return {
            name: tf.ensure_shape(tf.cast(value, one.dtype), one.shape)
            for (name, value), one in (
                (item, self.state[item[0]]) for item in state.items()
            )
        }


def _longest_first(length):
    return tf.argsort(length, direction="DESCENDING")


def _taken(tensors, order):
    return tf.nest.map_structure(lambda value: tf.gather(value, order), tensors)

"""Writing on from a state in a TensorFlow graph, one token at a time.

Runs on the TensorFlow backend of Keras only.

Shapes below: B batch, V vocabulary, k most probable tokens.
"""

import tensorflow as tf


def generate(reader, log_probabilities, state, options, end, most):
    """Writes tokens until each row has written its end, or as many as it may.

    What a row writes depends on its own options, not on the rows beside it.

    Args:
        reader: `RowReader`.
        log_probabilities: float32 tensor `(B, V)`, of the first token.
        state: dict of tensors, of the model.
        options: dict of tensors `(B,)`: `length` int32, most tokens; `top_k`
            int32, how many of the most probable tokens are drawn from;
            `temperature` float32; and `seed` int32.
        end: integer, id of the end of a sentence.
        most: dict of integers, the largest `length` and `top_k` there may be.

    Returns:
        `(token_ids, log_probabilities, length)`: int32 and float32 tensors `(B,
        longest)`, the end and 0 behind a row's own; and int32 `(B,)`, how many
        tokens it has written, its end among them.
    """
    chances = tf.map_fn(
        lambda seed: tf.random.stateless_uniform((most["length"],), [seed, 0]),
        options["seed"],
        fn_output_signature=tf.TensorSpec((most["length"],), tf.float32),
    )

    def write(time, written, scores, ended, log_probabilities, state):
        values, ids = tf.math.top_k(log_probabilities, most["top_k"])
        place = _drawn(values, options, chances[:, time])[:, None]
        token = tf.gather(ids, place, batch_dims=1)
        score = tf.gather(values, place, batch_dims=1)
        token = tf.where(ended, end, token)
        score = tf.where(ended, 0.0, score)
        ended |= (token == end) | (options["length"][:, None] <= time + 1)
        found, state = reader.step(token, state)
        written = tf.concat([written, token], axis=1)
        scores = tf.concat([scores, score], axis=1)
        return time + 1, written, scores, ended, found[:, 0], state

    rows = tf.shape(log_probabilities)[0]
    start = {
        "time": 0,
        "written": tf.zeros((rows, 0), tf.int32),
        "scores": tf.zeros((rows, 0)),
        "ended": tf.zeros((rows, 1), tf.bool),
        "log_probabilities": log_probabilities,
        "state": state,
    }
    _, written, scores, *_ = tf.while_loop(
        lambda time, written, scores, ended, *_: ~tf.reduce_all(ended),
        write,
        tuple(start.values()),
        shape_invariants=(
            tf.TensorSpec((), tf.int32),
            tf.TensorSpec((None, None), tf.int32),
            tf.TensorSpec((None, None), tf.float32),
            tf.TensorSpec((None, 1), tf.bool),
            tf.TensorSpec((None, reader.vocabulary_size), tf.float32),
            reader.state,
        ),
        parallel_iterations=1,
    )
    before_end = tf.cast(written != end, tf.int32)
    complete = tf.reduce_sum(tf.math.cumprod(before_end, axis=1), axis=1)
    return written, scores, tf.minimum(complete + 1, options["length"])


def _drawn(values, options, chance):
    """Places `(B,)` among the most probable tokens, drawn by `chance`.

    Args:
        values: float32 tensor `(B, k)` of log-probabilities, the largest first.
        options: as of `generate`.
        chance: float32 tensor `(B,)`, in [0, 1).
    """
    places = tf.range(tf.shape(values)[1])
    allowed = places < options["top_k"][:, None]
    scaled = (values - values[:, :1]) / options["temperature"][:, None]
    below = tf.cumsum(
        tf.nn.softmax(tf.where(allowed, scaled, -float("inf"))), axis=1
    )
    passed = below <= chance[:, None] * below[:, -1:]
    place = tf.math.count_nonzero(passed, axis=1, dtype=tf.int32)
    return tf.minimum(place, options["top_k"] - 1)

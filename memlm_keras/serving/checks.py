"""Checks of requests in a TensorFlow graph, each with an error of its own.

A server looks at the types of a request alone. So shapes are looked at here,
by operators that TensorFlow cannot leave out because a signature promises them.
"""

import tensorflow as tf


def require(condition, message, tensor, received=None):
    """A tensor that stops the graph unless a condition holds.

    Args:
        condition: boolean scalar.
        message: string, which names the input and says what would do.
        tensor: tensor to hand on, ragged or not.
        received: tensor to show behind the message; `None` for none.

    Returns:
        `tensor`, to be read in place of it.
    """
    shown = [] if received is None else [received]
    check = tf.debugging.Assert(
        condition, [f"{message}. Received:" if shown else message, *shown]
    )
    with tf.control_dependencies([check]):
        return tf.nest.map_structure(
            tf.identity, tensor, expand_composites=True
        )


def require_words(name, ids):
    """Ragged ids `(B, None)` that stop the graph where a row has none."""
    return require(
        tf.reduce_all(ids.row_lengths() > 0),
        f"`{name}` must hold at least one word in each row",
        ids,
    )


def require_shape(name, tensor, sizes):
    """A tensor that stops the graph unless it has a shape.

    Args:
        name: string, name of the input.
        tensor: tensor of a request.
        sizes: tuple, first the number of rows, `None` or a scalar with what
            they are to agree with, as a pair `(name, rows)`; then for each
            other axis an integer, or `None` for any size of at least 1.

    Returns:
        The tensor, of a static shape with these sizes.
    """
    of_rows, *others = sizes
    form = "rows" + "".join(
        f", {'time' if size is None else size}" for size in others
    )
    unlike = f"`{name}` must be of shape ({form}{'' if others else ','})"
    # Whatever a signature says of shapes, this hides.
    hidden = tf.raw_ops.PlaceholderWithDefault(
        input=tensor, shape=tf.TensorShape(None)
    )
    shape = tf.shape(hidden)
    shape = require(tf.size(shape) == len(sizes), unlike, shape, shape)
    static = tf.TensorShape((None, *others))
    if others:
        least = [1 if size is None else size for size in others]
        most = [tf.int32.max if size is None else size for size in others]
        fits = tf.reduce_all((shape[1:] >= least) & (shape[1:] <= most))
        if None in others:
            unlike += " with time of at least 1"
        shape = require(fits, unlike, shape, shape)
    if of_rows is not None:
        other, rows = of_rows
        shape = require(
            shape[0] == rows,
            f"`{name}` must have one row for each row of `{other}`",
            shape,
            shape[0],
        )
    with tf.control_dependencies([shape]):
        return tf.ensure_shape(tf.identity(hidden), static)


def require_range(name, tensor, least, most, unit=""):
    """A tensor that stops the graph unless its numbers are in a range.

    Args:
        name: string, name of the input.
        tensor: integer tensor.
        least: integer.
        most: integer or scalar tensor; `None` for no limit.
        unit: string, what `most` is, where it is a tensor.

    Returns:
        The tensor.
    """
    message = f"`{name}` must be at least {least}"
    inside = tensor >= least
    if most is not None:
        message += f" and at most {unit or most}"
        inside &= tensor <= most
    wrong = tf.boolean_mask(tensor, ~inside)[:1]
    return require(tf.reduce_all(inside), message, tensor, wrong)

"""Running a model without training it."""

import contextlib
import functools

import keras
import numpy as np
from keras import ops

from memlm_keras.arguments import require_token_ids


def no_gradient():
    """Context in which the torch backend records nothing for backward.

    The other backends record gradients only where asked to.
    """
    if keras.backend.backend() == "torch":
        import torch

        return torch.no_grad()
    return contextlib.nullcontext()


def compile_inference(model, function):
    """Compiles a function that reads the variables of `model`.

    Called plainly, a recurrent layer is traced and compiled by JAX at every
    call, and run operation by operation by TensorFlow.

    Args:
        model: a built Keras model.
        function: callable from nested tensors to nested tensors; it reads
            variables of `model` and assigns none.

    Returns:
        A callable of the same arguments. On torch it is `function` itself,
        without recorded gradients.
    """
    backend = keras.backend.backend()
    if backend == "jax":
        import jax

        @jax.jit
        def stateless(values, *arguments):
            mapping = list(zip(model.variables, values))
            with keras.StatelessScope(state_mapping=mapping):
                return function(*arguments)

        return lambda *arguments: stateless(
            [variable.value for variable in model.variables], *arguments
        )
    if backend == "tensorflow":
        import tensorflow as tf

        return tf.function(function, autograph=False, reduce_retracing=True)
    return no_gradient()(function)


def forget_compiled(model):
    """Discards compiled functions that captured replaced weights."""
    for kind in type(model).__mro__:
        for name, value in vars(kind).items():
            if isinstance(value, functools.cached_property):
                vars(model).pop(name, None)


def computes_in(model, dtype):
    """Whether any layer of `model` computes in `dtype`."""
    return any(layer.compute_dtype == dtype for layer in model.layers)


def segments(length, longest=128):
    """Yields `(start, stop)` of pieces whose lengths are powers of two.

    Each length is compiled once, so any text costs at most eight compilations.

    Example:

    >>> list(segments(11))
    [(0, 8), (8, 10), (10, 11)]
    """
    for starts, size, _ in aligned_segments([length], longest):
        yield int(starts[0]), int(starts[0]) + size


def affordable_steps(rows, vocabulary_size):
    """Steps whose logits take 256 MiB at most: a power of two, up to 128."""
    steps = 128
    while steps > 1 and rows * steps * vocabulary_size > 2**26:
        steps //= 2
    return steps


def aligned_segments(lengths, longest=128):
    """Cuts rows of different lengths as `segments`, to be read side by side.

    Each row is cut by itself, so none needs padding; all rows that have a
    piece of one size read it together.

    Yields:
        Triples `(starts, size, reads)`: int64 array `(rows,)` of the position
        of each row, integer, and bool array `(rows,)`, whether a row has a
        piece of that size there.

    Example:

    >>> for starts, size, reads in aligned_segments([5, 3]):
    ...     print(starts, size, reads)
    [0 0] 4 [ True False]
    [4 0] 2 [False  True]
    [4 2] 1 [ True  True]
    """
    lengths = np.asarray(lengths, "int64")
    starts = np.zeros_like(lengths)
    size = longest
    while size:
        reads = lengths - starts >= size
        if reads.any():
            yield starts, size, reads
            starts = starts + size * reads
        else:
            size //= 2


def side_by_side(rows, vocabulary_size):
    """Pads rows of token ids of any lengths to int32 `(rows, longest)`.

    Returns:
        `(tokens, lengths)`, the latter a list.
    """
    rows = [ops.convert_to_numpy(row) for row in rows]
    if any(row.ndim != 1 for row in rows):
        raise ValueError(
            "`rows` must hold arrays of token ids of shape (time,). Received: "
            f"shapes {[row.shape for row in rows]}"
        )
    lengths = [len(row) for row in rows]
    # An empty list has no integer type of its own.
    types = [row.dtype for row in rows if len(row)]
    shape = (len(rows), max(lengths, default=0) or 1)
    tokens = np.zeros(shape, np.result_type("int32", *types))
    for row, ids in enumerate(rows):
        tokens[row, : len(ids)] = ids
    return require_token_ids("rows", tokens, vocabulary_size), lengths

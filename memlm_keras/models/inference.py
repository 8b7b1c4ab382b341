"""Running a model without training it."""

import contextlib
import functools
import warnings

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

    Called plainly, a recurrent layer is traced and compiled anew by JAX at
    every call, and run operation by operation by TensorFlow.

    Args:
        model: a built Keras model.
        function: callable from nested tensors to nested tensors; it reads
            variables of `model` and assigns none.

    Returns:
        A callable of the same arguments. On torch it is `function` itself,
        run without recording gradients.
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

    def without_gradient(*arguments):
        with no_gradient():
            return function(*arguments)

    return without_gradient


def forget_compiled(model):
    """Drops what was compiled, where it computes with weights that are gone.

    Args:
        model: model whose compiled functions are cached properties.
    """
    for kind in type(model).__mro__:
        for name, value in vars(kind).items():
            if isinstance(value, functools.cached_property):
                vars(model).pop(name, None)


def xla_pays(units, in_bfloat16=False):
    """Whether XLA is to compile training where Keras would not have it.

    True on TensorFlow without a GPU for small layers, unless operations are to
    be deterministic, which TensorFlow does not offer under XLA. It takes away
    what starting each operation costs, and its matrix products are slower: 0.7
    to 0.9 of the time at 100 units, 1.5 at 600, and in bfloat16 1.2 at 100.

    Args:
        units: integer, of the largest recurrent layer.
        in_bfloat16: bool, whether any layer computes in it.
    """
    if keras.backend.backend() != "tensorflow":
        return False
    if units > 200 or in_bfloat16:
        return False
    import tensorflow as tf

    # Keras asks in the same place: there is no public way to ask.
    from tensorflow.python.framework.config import is_op_determinism_enabled

    return not (
        tf.config.list_physical_devices("GPU") or is_op_determinism_enabled()
    )


def computes_in(model, dtype):
    """Whether any layer of `model` computes in `dtype`."""
    return any(layer.compute_dtype == dtype for layer in model.layers)


def warn_of_slow_precision(model):
    """Warns of a model whose precision costs time and saves none."""
    if keras.backend.backend() != "jax" or not computes_in(model, "bfloat16"):
        return
    import jax

    if jax.default_backend() == "cpu":
        warnings.warn(
            "bfloat16 is slower than float32 on a CPU with JAX. Use float32, "
            'that is no `dtype="mixed_bfloat16"`, a GPU, or KERAS_BACKEND='
            "torch, where bfloat16 pays on a CPU that has it",
            stacklevel=3,
        )


def require_exportable(format):
    """Raises `ValueError` where Keras' own `export` would write what is wrong.

    Its ONNX files of PyTorch's recurrent layers answer rightly at the one time
    that they are traced with; on JAX it takes another package.
    """
    backend = keras.backend.backend()
    if format == "onnx" and backend != "tensorflow":
        raise ValueError(
            '`format="onnx"` of Keras\' own `export` is for the TensorFlow '
            f"backend. Received: a model on {backend}. "
            '`memlm_keras.serving.export(model, "model.onnx", format="onnx")` '
            "writes one streamed step, with its state, from every backend"
        )


def segments(length, longest=128):
    """Cuts `length` steps into pieces whose lengths are powers of two.

    Each length is compiled once, so any text costs at most eight compilations.

    Args:
        length: integer, number of steps.
        longest: integer, a power of two.

    Yields:
        Pairs `(start, stop)`.

    Example:

    >>> list(segments(11))
    [(0, 8), (8, 10), (10, 11)]
    """
    for starts, size, _ in aligned_segments([length], longest):
        yield int(starts[0]), int(starts[0]) + size


def affordable_steps(rows, vocabulary_size):
    """Steps whose logits take no more than a quarter of a gibibyte.

    Args:
        rows: integer, rows read side by side.
        vocabulary_size: integer.

    Returns:
        Integer, a power of two of at most 128.
    """
    steps = 128
    while steps > 1 and rows * steps * vocabulary_size > 2**26:
        steps //= 2
    return steps


def aligned_segments(lengths, longest=128):
    """Cuts rows of different lengths as `segments`, to be read side by side.

    Each row is cut by itself, so none needs padding; pieces of one size are
    read together by all rows that have one.

    Args:
        lengths: list of integers, number of steps of each row.
        longest: integer, a power of two.

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
    """Puts rows of token ids of any lengths side by side.

    Args:
        rows: list of int arrays `(time,)`, some of which may be empty.
        vocabulary_size: integer.

    Returns:
        `(tokens, lengths)`: int32 array `(rows, longest)`, zero behind a row's
        end, and the list of their lengths.

    Raises:
        ValueError: for no rows, rows of another rank, and wrong ids.
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

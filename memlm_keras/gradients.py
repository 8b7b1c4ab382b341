"""Gradients, custom backward passes, and Python functions that become one
operation when PyTorch traces a training step."""

import functools

import keras
from keras import ops
from keras import tree

# Lower bounds of the two divisors in `divide_by_length`: a zero vector has no
# direction, and the gradient of a short vector grows without bound.
UNIT = 2.0**-50, 2.0**-10


def with_gradient(forward, backward, plain=None):
    """Returns a function with a custom backward pass.

    `forward(*arguments)` returns a pair: the function's results, and tensors to
    keep for the backward pass. `backward(tensors, *upstream)` returns the
    gradients of the arguments. `plain(*arguments)` returns only the results,
    for calls without gradients.
    """
    # On PyTorch, `keras.ops.custom_gradient` supports only one result, and its
    # backward pass gets only the arguments.
    if plain is None:

        def plain(*arguments):
            return forward(*arguments)[0]

    wrap = {"jax": _by_jax, "tensorflow": _by_tensorflow, "torch": _by_torch}
    return wrap[keras.backend.backend()](forward, backward, plain)


def _by_jax(forward, backward, plain):
    import jax

    function = jax.custom_vjp(plain)

    def gradients(kept, upstream):
        upstream = upstream if isinstance(upstream, tuple) else (upstream,)
        return backward(kept, *upstream)

    function.defvjp(forward, gradients)
    return function


def _by_tensorflow(forward, backward, plain):
    import tensorflow as tf

    @tf.custom_gradient
    def function(*arguments):
        results, kept = forward(*arguments)
        return results, lambda *upstream: backward(kept, *upstream)

    # A `tf.custom_gradient` function does not accept variables as arguments.
    return lambda *arguments: function(*map(tf.convert_to_tensor, arguments))


def _by_torch(forward, backward, plain):
    import torch

    def function(*arguments):
        if torch.is_grad_enabled() and any(
            argument.requires_grad for argument in arguments
        ):
            return _torch_function().apply(forward, backward, *arguments)
        return plain(*arguments)

    return function


@functools.cache
def _torch_function():
    import torch

    class Function(torch.autograd.Function):
        @staticmethod
        def forward(ctx, forward, backward, *arguments):
            results, kept = forward(*arguments)
            ctx.run_backward = backward
            ctx.structure = tree.map_structure(lambda tensor: None, kept)
            ctx.save_for_backward(*tree.flatten(kept))
            return results

        @staticmethod
        @torch.autograd.function.once_differentiable
        def backward(ctx, *upstream):
            kept = tree.pack_sequence_as(ctx.structure, ctx.saved_tensors)
            return None, None, *ctx.run_backward(kept, *upstream)

    return Function


def divide_by_length(parts, least=UNIT, axis=None):
    """Divides vectors by their Euclidean length.

    Tensor i of the tuple `parts` contains element i of every vector. If `axis`
    is given, `parts` has one tensor, and each vector lies along this axis. The
    divisor is at least `least[0]`. The gradient of a vector is also divided by
    the vector's length; this divisor is at least `least[1]`."""

    def forward(*parts):
        length = length_of(parts, axis)
        divisor = ops.maximum(length, least[0])
        divided = tuple(
            ops.cast(ops.divide(x, divisor), x.dtype) for x in parts
        )
        return divided, (length, *divided)

    def backward(kept, *upstream):
        length, *divided = kept
        return divide_by_length_gradient(divided, length, upstream, least, axis)

    return with_gradient(forward, backward)(*parts)


def divide_by_length_gradient(divided, length, upstream, least, axis=None):
    """Returns the gradients of `divide_by_length` with respect to `parts`.
    `divided` are its results, and `length` the lengths of the vectors."""
    # Lengthening a vector changes no result: remove the component along it.
    along = _sum_of_products(divided, upstream, axis)
    along = ops.where(length > least[0], along, ops.zeros_like(along))
    divisor = ops.maximum(length, least[1])
    return tuple(
        ops.cast(ops.subtract(up, ops.multiply(y, along)) / divisor, y.dtype)
        for y, up in zip(divided, upstream)
    )


def length_of(parts, axis=None):
    """Returns the Euclidean length of vectors; see `divide_by_length`."""
    return ops.sqrt(_sum_of_products(parts, parts, axis))


def _sum_of_products(left, right, axis):
    dtype = keras.backend.result_type(left[0].dtype, "float32")
    total = sum(
        ops.cast(x, dtype) * ops.cast(y, dtype) for x, y in zip(left, right)
    )
    return total if axis is None else ops.sum(total, axis, keepdims=True)


def value_and_gradients(function):
    """Returns a function that computes `(value, more), gradients`.
    `function(tensors, *others)` returns the pair `(value, more)`. `gradients`
    are the gradients of the scalar `value` with respect to `tensors`."""
    # `function` must not assign variables, since JAX compiles it.
    backend = keras.backend.backend()
    if backend == "jax":
        import jax

        return jax.jit(jax.value_and_grad(function, has_aux=True))
    if backend == "tensorflow":
        import tensorflow as tf

        @functools.partial(tf.function, autograph=False, reduce_retracing=True)
        def with_gradients(tensors, *others):
            with tf.GradientTape() as tape:
                tape.watch(tensors)
                result = function(tensors, *others)
            return result, tape.gradient(
                result[0], tensors, unconnected_gradients="zero"
            )

        return with_gradients
    import torch

    def with_gradients(tensors, *others):
        tensors = [tensor.detach().requires_grad_() for tensor in tensors]
        with torch.enable_grad():
            value, more = function(tensors, *others)
            gradients = torch.autograd.grad(
                value, tensors, allow_unused=True, materialize_grads=True
            )
        value, more = tree.map_structure(lambda x: x.detach(), (value, more))
        return (value, more), list(gradients)

    return with_gradients


# === Operations of traced steps on PyTorch ===

# Pairs `(function, like)`. A PyTorch operation cannot take a Python function as
# an argument, so `memlm_keras::run` takes the index of a pair in this list.
_functions = []


def opaque(function, like):
    """Returns `function` as one operation that PyTorch does not trace into, so
    that Python code in `function` may depend on the values of tensors.

    Args:
        function: maps tensors to a tuple of new tensors, without gradients.
        like: function with the arguments of `function`. Returns empty tensors
            of the shapes and dtypes of `function`'s results; reads no values.
    """
    from torch._subclasses import FakeTensor

    def run(*tensors):
        if not any(isinstance(tensor, FakeTensor) for tensor in tensors):
            return function(*tensors)
        _functions.append((function, like))
        return tuple(_operation()([*tensors], len(_functions) - 1))

    return run


@functools.cache
def _operation():
    import torch

    library = torch.library.Library("memlm_keras", "DEF")
    library.define("run(Tensor[] inputs, int function) -> Tensor[]")

    def run(inputs, number):
        return [*_functions[number][0](*inputs)]

    def run_fake(inputs, number):
        return [*_functions[number][1](*inputs)]

    library.impl("run", run, "CompositeExplicitAutograd")
    torch.library.register_fake("memlm_keras::run", run_fake, lib=library)
    # PyTorch removes the operation when its library is deleted.
    _operation.library = library
    return torch.ops.memlm_keras.run

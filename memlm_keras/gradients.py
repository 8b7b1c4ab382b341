"""Gradients of functions, and functions with a backward pass of their own."""

import functools

import keras
from keras import tree


def with_gradient(forward, backward, plain=None):
    """Returns a function that computes `(results, kept)` by `forward`, and its
    gradients by `backward(kept, *upstream)`."""
    # `keras.ops.custom_gradient` supports one result on PyTorch, and keeps only
    # the arguments.
    if plain is None:
        # The results where no gradient is needed; TensorFlow runs `forward`.

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

    # Tensors, since TensorFlow keeps variables out of such functions.
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


def value_and_gradients(function):
    """Returns a function of a list of tensors, and more, that returns the
    result `(scalar, others)` and the gradients of the tensors, detached."""
    # `function` assigns nothing, so that it can be compiled.
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

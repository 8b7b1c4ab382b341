"""The operations that a backend runs."""

import keras
import numpy as np


def operations(call, outputs):
    """Names of the operations of `call(outputs)`, in order.

    Args:
        call: function of one tensor.
        outputs: float32 array to call it with.
    """
    if keras.backend.backend() == "jax":
        import jax

        def primitives(jaxpr):
            for equation in jaxpr.eqns:
                yield equation.primitive.name
                for value in equation.params.values():
                    if hasattr(value, "jaxpr"):
                        yield from primitives(value.jaxpr)

        return list(primitives(jax.make_jaxpr(call)(outputs).jaxpr))
    if keras.backend.backend() == "tensorflow":
        import tensorflow as tf

        traced = tf.function(call).get_concrete_function(tf.constant(outputs))
        return [operation.type for operation in traced.graph.get_operations()]

    from torch.utils._python_dispatch import TorchDispatchMode

    class Recorder(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            names.append(str(function))
            return function(*args, **(kwargs or {}))

    names = []
    outputs = keras.ops.convert_to_tensor(outputs)
    with Recorder():
        call(outputs)
    return names


def assert_no_loop_over_time(layer, units, times=(5, 50), over_slots=()):
    """Asserts that a memory runs the same operations for any time.

    Args:
        layer: built memory.
        units: integer, units of the outputs that it reads.
        times: two numbers of steps that are as many blocks, if it has blocks.
        over_slots: names of its loops over slots.
    """
    state = layer.initial_state(2)
    short, long = (
        operations(
            lambda outputs: layer.read(outputs, state),
            np.ones((2, time, units), "float32"),
        )
        for time in times
    )
    assert short == long
    loops = {"scan", "while", "While", "StatelessWhile"} - set(over_slots)
    assert not loops & set(short)

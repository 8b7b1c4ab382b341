"""Lists the operations that a backend runs."""

import keras
import numpy as np


def operations(call, *arrays):
    """Returns the names and sizes of the operations of `call(*arrays)`, in
    order.

    An operation's size is the number of elements of its largest result, if
    known.
    """
    backend = keras.backend.backend()
    if backend == "jax":
        return _jax_operations(call, arrays)
    if backend == "tensorflow":
        return _tensorflow_operations(call, arrays)
    return _torch_operations(call, arrays)


def _size(shapes):
    return max((int(np.prod(shape)) for shape in shapes), default=0)


def _jax_operations(call, arrays):
    import jax

    def primitives(jaxpr):
        for equation in jaxpr.eqns:
            shapes = (variable.aval.shape for variable in equation.outvars)
            yield equation.primitive.name, _size(shapes)
            values = jax.tree.leaves(
                list(equation.params.values()),
                is_leaf=lambda value: hasattr(value, "eqns"),
            )
            for value in values:
                inner = getattr(value, "jaxpr", value)
                if hasattr(inner, "eqns"):
                    yield from primitives(inner)

    return list(primitives(jax.make_jaxpr(call)(*arrays).jaxpr))


def _tensorflow_operations(call, arrays):
    import tensorflow as tf

    traced = tf.function(call).get_concrete_function(*map(tf.constant, arrays))
    graph = traced.graph.as_graph_def(add_shapes=True)
    nodes = [*graph.node]
    for function in graph.library.function:
        nodes += function.node_def

    def shapes(node):
        for shape in node.attr["_output_shapes"].list.shape:
            yield [max(dimension.size, 1) for dimension in shape.dim]

    return [(node.op, _size(shapes(node))) for node in nodes]


def _torch_operations(call, arrays):
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode

    class Recorder(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            found = function(*args, **(kwargs or {}))
            shapes = (
                value.shape
                for value in keras.tree.flatten(found)
                if getattr(value, "dtype", None) == torch.float32
            )
            called.append((str(function), _size(shapes)))
            return found

    called = []
    tensors = [keras.ops.convert_to_tensor(array) for array in arrays]
    with Recorder():
        call(*tensors)
    return called


def assert_no_loop_over_time(layer, units, times=(5, 50), over_slots=()):
    """Asserts that a memory runs the same operations for any number of steps.

    `times` contains two numbers of steps, with equal numbers of blocks if the
    memory has blocks; `over_slots` contains the names of its loops over slots.
    """
    state = layer.initial_state(2)
    short, long = (
        [
            name
            for name, _ in operations(
                lambda outputs: layer.read(outputs, state),
                np.ones((2, time, units), "float32"),
            )
        ]
        for time in times
    )
    assert short == long
    loops = {"scan", "while", "While", "StatelessWhile"} - set(over_slots)
    assert not loops & set(short)

"""PyTorch functions that a recorded step runs as one operation."""

import functools

# The functions of operations, by their numbers.
_functions = []


def opaque(function, like):
    """Returns `function` of tensors to a tuple of tensors, as one operation in
    a recorded step, where it may look at values.

    Args:
        function: function of tensors, without gradient, that returns new ones.
        like: function of the same tensors that returns empty ones of the same
            shapes and dtypes. It sees no values.
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
    # The operation is gone with its library.
    _operation.library = library
    return torch.ops.memlm_keras.run

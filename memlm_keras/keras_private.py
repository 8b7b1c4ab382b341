"""Imports the private functions of Keras that this package uses.

The tests use Keras 3.15; later versions may lack some private functions.
"""

# Other files import Keras' private names from here.
# ruff: noqa: F401

import keras
from keras import ops

# The mask functions read and set a tensor's mask. `in_symbolic_scope` returns
# whether Keras infers shapes, `in_stateless_scope` whether a
# `keras.StatelessScope` is open. `AutocastScope` sets the dtype that variables
# are cast to. `should_quantize_layer` applies a filter of `quantize`,
# `weight_memory_size` counts bytes, and `module_utils` imports TensorFlow.
try:
    from keras.src.backend import get_keras_mask
    from keras.src.backend import rnn as _rnn
    from keras.src.backend import set_keras_mask
    from keras.src.backend.common.stateless_scope import in_stateless_scope
    from keras.src.backend.common.symbolic_scope import in_symbolic_scope
    from keras.src.backend.common.variables import AutocastScope
    from keras.src.quantizers.utils import should_quantize_layer
    from keras.src.utils import module_utils
    from keras.src.utils.summary_utils import weight_memory_size
except ImportError as error:
    what = str(error).partition(" (")[0]
    raise ImportError(
        "memlm_keras was tested with Keras 3.15, but Keras "
        f"{keras.__version__} lacks a private name: {what}. Install the "
        "version that has it: pip install 'keras==3.15.*'"
    ) from error

if keras.backend.backend() == "torch":
    # Keras' module of random functions on PyTorch.
    from keras.src.backend.torch import random as torch_random


def rnn(step, inputs, states, **kwargs):
    """Runs the loop over time of Keras' recurrent layers."""
    axis = 0 if kwargs.get("time_major") else 1
    first = keras.tree.flatten(inputs)[0]
    # A tuple of inputs needs `input_length` on TensorFlow. Keras would use a
    # tensor that is not in a list as the lengths of the rows.
    length = first.shape[axis] or [ops.shape(first)[axis]]
    return _rnn(step, inputs, states, input_length=length, **kwargs)


# Module of the function that `clone_model` passes to `_run_through_graph`.
CLONING = "keras.src.models.cloning"


def leave_out_tensorflow():
    """Stops Keras on other backends from importing TensorFlow, which takes
    seconds, only to set its seed and to check objects that are saved."""
    module_utils.tensorflow._available = False

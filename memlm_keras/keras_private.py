"""Functions of Keras that have no public name, all of them in this file.

Tested with Keras 3.15. Any later version may rename or remove them.
"""

# Other files import these names from here.
# ruff: noqa: F401

import keras

# Tensors carry the mask of a layer's output to the layer after it, `rnn` is the
# loop over time of every recurrent layer, the scopes say whether Keras only
# infers shapes or calls a layer without its state, `AutocastScope` is the dtype
# that variables are cast to in a call, `quantize` and `summary` use the two
# functions of layers and weights, and `module_utils` imports modules late.
try:
    from keras.src.backend import get_keras_mask
    from keras.src.backend import rnn
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
        "memlm_keras was tested with Keras 3.15, and Keras "
        f"{keras.__version__} lacks a private name: {what}. Install the "
        "version that has it: pip install 'keras==3.15.*'"
    ) from error

if keras.backend.backend() == "torch":
    # Its functions `uniform`, `dropout` and so on.
    from keras.src.backend.torch import random as torch_random

# The module of the functions that `keras.models.clone_model` calls.
CLONING = "keras.src.models.cloning"


def leave_out_tensorflow():
    """Keeps Keras from importing TensorFlow on another backend, which takes
    seconds: to set its seed too, and to ask whether what is saved is of it."""
    module_utils.tensorflow._available = False

"""Writing a language model as an ONNX file.

Runs on the TensorFlow backend of Keras only; `memlm_keras.serving.export`
gets here from every backend.
"""

import json
import logging

import tensorflow as tf

from memlm_keras.serving.onnx_contracts import CONTRACTS
from memlm_keras.serving.onnx_recurrent import handlers
from memlm_keras.serving.onnx_recurrent import native_recurrence

# The newest that tf2onnx knows well, of 2022: what engines read today.
_OPSET = 17


def write(model, vocabulary, options, path):
    """Writes a language model as an ONNX file.

    Args:
        model: a `memlm_keras.LanguageModel` or `Ensemble` in float32.
        vocabulary: `memlm_keras.data.Vocabulary` of the model's size, or
            `None`.
        options: dict that may have a `contract`, one of `CONTRACTS`.
        path: file to write.

    Returns:
        The contract, as the file has it.
    """
    contract = CONTRACTS[options.get("contract")](model, vocabulary)
    with contract.traced():
        written = convert(model, contract, contract.specification)
    for value in (*written.graph.input, *written.graph.output):
        axis = contract.rows.get(value.name, 0)
        value.type.tensor_type.shape.dim[axis].dim_param = "rows"
    for name, value in contract.facts().items():
        text = value if isinstance(value, str) else json.dumps(value)
        written.metadata_props.add(key=name, value=text)
    with open(path, "wb") as file:
        file.write(written.SerializeToString())
    return contract


def convert(model, function, specification):
    """Converts a function of tensors that calls a model.

    Args:
        model: a `memlm_keras.LanguageModel` or `Ensemble` in float32.
        function: callable of tensors, to a dict of tensors.
        specification: list of named `tf.TensorSpec`s, its arguments.

    Returns:
        `onnx.ModelProto`, which is checked.

    Raises:
        ValueError: if ONNX has no such operators.
    """
    import onnx
    import tf2onnx

    names = []

    def traced(*inputs):
        outputs = function(*inputs)
        names[:] = outputs
        return outputs

    logging.getLogger("tf2onnx").setLevel(logging.CRITICAL)
    with native_recurrence(model):
        found, _ = tf2onnx.convert.from_function(
            tf.function(traced, autograph=False),
            specification,
            opset=_OPSET,
            custom_op_handlers=handlers(),
        )
    # TensorFlow sorts them by name, and engines know them by position.
    found.graph.output.sort(key=lambda output: names.index(output.name))
    try:
        onnx.checker.check_model(found, full_check=True)
    except (
        onnx.checker.ValidationError,
        onnx.shape_inference.InferenceError,
    ) as error:
        raise ValueError(
            "The model cannot be written in ONNX, which lacks an operator "
            f"that it needs: {str(error).splitlines()[0]}"
        ) from error
    return found

"""Writing one streamed step of a language model as an ONNX file.

Runs on the TensorFlow backend of Keras only; `memlm_keras.serving.export`
gets here from every backend.
"""

import json
import logging

import tensorflow as tf

from memlm_keras.serving.onnx_recurrent import handlers
from memlm_keras.serving.onnx_recurrent import native_recurrence
from memlm_keras.serving.streamed_step import StreamedStep
from memlm_keras.serving.streamed_step import without_loops

# The newest that tf2onnx knows well, of 2022: what engines read today.
_OPSET = 17


def write(model, vocabulary, options, path):
    """Writes a language model as an ONNX file.

    Args:
        model: a `memlm_keras.LanguageModel` or `Ensemble` in float32.
        vocabulary: `memlm_keras.data.Vocabulary` of the model's size, or
            `None`.
        options: dict, nothing of which matters here.
        path: file to write.
    """
    step = StreamedStep(model)

    def read(token_ids, *state):
        log_probabilities, state = step(
            token_ids, dict(zip(step.specification, state))
        )
        new = {f"next_{name}": value for name, value in state.items()}
        return {"log_probabilities": log_probabilities, **new}

    token_ids = tf.TensorSpec((None, 1), tf.int64, "token_ids")
    with without_loops(model):
        written = convert(
            model, read, [token_ids, *step.specification.values()]
        )
    describe(written, facts(step, vocabulary))
    with open(path, "wb") as file:
        file.write(written.SerializeToString())


def convert(model, function, specification):
    """Converts a function of tensors that calls a model.

    Args:
        model: a `memlm_keras.LanguageModel` or `Ensemble` in float32.
        function: callable of tensors, to a dict of tensors, the rows first.
        specification: list of named `tf.TensorSpec`s, its arguments.

    Returns:
        `onnx.ModelProto`, which is checked.

    Raises:
        ValueError: if ONNX has no such operators.
    """
    import onnx
    import tf2onnx

    logging.getLogger("tf2onnx").setLevel(logging.CRITICAL)
    with native_recurrence(model):
        found, _ = tf2onnx.convert.from_function(
            tf.function(function, autograph=False),
            specification,
            opset=_OPSET,
            custom_op_handlers=handlers(),
        )
    for value in (*found.graph.input, *found.graph.output):
        value.type.tensor_type.shape.dim[0].dim_param = "rows"
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


def facts(step, vocabulary):
    """Facts of a model that its file holds besides.

    Args:
        step: `StreamedStep`.
        vocabulary: `memlm_keras.data.Vocabulary`, or `None`.

    Returns:
        Dict of plain values.
    """
    said = {
        "vocabulary_size": step.model.vocabulary_size,
        "initial_state": {
            name: value.tolist()
            for name, value in step.initial.items()
            if value.any()
        },
    }
    if vocabulary is not None:
        said |= {
            "tokens": list(vocabulary.tokens),
            "end_of_sentence_id": vocabulary.end_of_sentence_id,
            "unknown_id": vocabulary.unknown_id,
        }
    return said


def describe(written, said):
    """Puts facts into the metadata of a file, as JSON."""
    for name, value in said.items():
        written.metadata_props.add(key=name, value=json.dumps(value))

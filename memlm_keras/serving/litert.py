"""Exports one streamed step to LiteRT, on the TensorFlow backend only."""

import pathlib
import tempfile
import zipfile

import tensorflow as tf

# TensorFlow has no public name for the converter's error.
from tensorflow.lite.python.convert_phase import ConverterError
from tensorflow.lite.tools import flatbuffer_utils

from memlm_keras.serving.graph import StreamedStep
from memlm_keras.serving.graph import without_loops

SIGNATURE = "step"  # Name of the file's only signature.


def write(model, vocabulary, options, path):
    """Writes one streamed step of a float32 language model as a LiteRT file.
    Appends the vocabulary, if any, to the file."""
    path = pathlib.Path(path)
    path.write_bytes(convert(trace(model, options), options.get("quantize")))
    if vocabulary is not None:
        with tempfile.TemporaryDirectory() as folder:
            saved = pathlib.Path(folder, "vocabulary.json")
            vocabulary.save(saved)
            # LiteRT's tools read metadata from a zip archive at the end.
            with zipfile.ZipFile(path, "a") as archive:
                archive.write(saved, saved.name)


def trace(model, options):
    """Traces one step of a model, without a loop, as a concrete function."""
    read = StreamedStep(model)
    rows = options.get("rows", 1)

    def step(token_ids, **state):
        log_probabilities, state = read(token_ids, state)
        seen = set()
        for name, value in state.items():
            # Each tensor has only one name. A state that is also an input or
            # another state is copied by `maximum`, which the converter keeps.
            source = value.op.inputs[0]
            if source.op.type == "Placeholder" or source.ref() in seen:
                state[name] = tf.maximum(value, value)
            seen.add(source.ref())
        values, ids = tf.math.top_k(log_probabilities, options["top_k"])
        return {
            "log_probabilities": log_probabilities,
            "top_k_ids": ids,
            "top_k_log_probabilities": values,
            **state,
        }

    with without_loops(model):
        return tf.function(step, autograph=False).get_concrete_function(
            token_ids=tf.TensorSpec((rows, 1), tf.int32),
            **{
                name: tf.TensorSpec((rows, *one.shape[1:]), one.dtype)
                for name, one in read.specification.items()
            },
        )


def convert(function, quantize=None):
    """Converts a concrete function to a LiteRT file, as bytes. Raises
    `ValueError` if LiteRT lacks a built-in operator."""
    module = tf.Module()
    module.weights = function.variables
    with tempfile.TemporaryDirectory() as folder:
        tf.saved_model.save(module, folder, signatures={SIGNATURE: function})
        converter = tf.lite.TFLiteConverter.from_saved_model(
            folder, signature_keys=[SIGNATURE]
        )
        converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS]
        if quantize == "int8":
            converter.optimizations = [tf.lite.Optimize.DEFAULT]
        try:
            return _with_names(converter.convert())
        except ConverterError as error:
            names = sorted({one.operator.name for one in error.errors})
            if not any(names):
                raise
            raise ValueError(
                "LiteRT has no built-in operator for "
                f"{', '.join(names)}. Received: a `model` that needs it"
            ) from error


def _with_names(content):
    """Gives the tensors in a file the names in its signature, because some
    engines ignore the signature. New states get the prefix `next_`."""
    file = flatbuffer_utils.convert_bytearray_to_object(content)
    (signature,), tensors = file.signatureDefs, file.subgraphs[0].tensors
    for one in signature.inputs:
        tensors[one.tensorIndex].name = one.name
    given = {one.name for one in signature.inputs}
    for one in signature.outputs:
        prefix = b"next_" if one.name in given else b""
        tensors[one.tensorIndex].name = prefix + one.name
    return bytes(flatbuffer_utils.convert_object_to_bytearray(file))

"""Writing one streamed step of a language model for LiteRT.

Runs on the TensorFlow backend of Keras only; `memlm_keras.serving.export`
gets here from every backend.
"""

import contextlib
import pathlib
import tempfile
import zipfile

import tensorflow as tf

# What `convert` raises; it has no public name.
from tensorflow.lite.python.convert_phase import ConverterError

# The name of the one signature of a file.
SIGNATURE = "step"


def write(model, vocabulary, options, path):
    """Writes one streamed step of a language model as a LiteRT file.

    Args:
        model: `memlm_keras.LanguageModel` or `memlm_keras.Ensemble`.
        vocabulary: `memlm_keras.data.Vocabulary` of the model's size, which
            the file then ends with, or `None`.
        options: dict of `top_k`, an integer, and optionally of `rows`, an
            integer, and `quantize`, `"int8"`.
        path: file to write.

    Raises:
        ValueError: for a model that needs an operator which LiteRT does not
            have itself, and one whose state does not begin with zeros.
    """
    path = pathlib.Path(path)
    path.write_bytes(convert(trace(model, options), options.get("quantize")))
    if vocabulary is not None:
        with tempfile.TemporaryDirectory() as folder:
            saved = pathlib.Path(folder, "vocabulary.json")
            vocabulary.save(saved)
            # A zip archive at the end is where LiteRT's readers look for it.
            with zipfile.ZipFile(path, "a") as archive:
                archive.write(saved, saved.name)


def trace(model, options):
    """Traces one step into a graph without a loop.

    Args:
        model, options: as for `write`.

    Returns:
        A concrete function from `token_ids` int32 `(rows, 1)` and the state to
        `log_probabilities` float32 `(rows, V)`, `top_k_ids` int32 and
        `top_k_log_probabilities` float32, both `(rows, k)`, and the new state.
        What floats of the state is float32 at this border.
    """
    rows = options.get("rows", 1)
    state = model.initial_state(rows)
    for name, value in state.items():
        if tf.reduce_any(value != 0):
            raise ValueError(
                "A state must begin with zeros, which is what a device begins "
                f"with. Received: a model whose {name!r} begins otherwise"
            )
    border = {
        name: tf.TensorSpec(
            value.shape,
            tf.float32 if value.dtype.is_floating else value.dtype,
        )
        for name, value in state.items()
    }

    def step(token_ids, **given):
        logits, new = model.backbone.step(
            token_ids,
            {name: tf.cast(given[name], state[name].dtype) for name in state},
        )
        log_probabilities = tf.nn.log_softmax(tf.cast(logits[:, 0], tf.float32))
        values, ids = tf.math.top_k(log_probabilities, options["top_k"])
        return {
            "log_probabilities": log_probabilities,
            "top_k_ids": ids,
            "top_k_log_probabilities": values,
            **{name: tf.cast(new[name], border[name].dtype) for name in border},
        }

    with _without_loops(model):
        return tf.function(step, autograph=False).get_concrete_function(
            token_ids=tf.TensorSpec((rows, 1), tf.int32), **border
        )


def convert(function, quantize=None):
    """Converts a concrete function to the bytes of a LiteRT file.

    Args:
        function: concrete function, as of `trace`.
        quantize: `"int8"` or `None`.

    Raises:
        ValueError: if it needs an operator which LiteRT does not have itself.
    """
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
            return converter.convert()
        except ConverterError as error:
            names = sorted({found.operator.name for found in error.errors})
            if not any(names):
                raise
            raise ValueError(
                "LiteRT has no operator of its own, or none in this precision, "
                f"for what `model` computes by {', '.join(names)}. Received: a "
                "model with such operators; layers in float32 that do without "
                "them would do"
            ) from error


@contextlib.contextmanager
def _without_loops(model):
    """Recurrent layers whose one step is traced as such, not as a loop."""
    layers = [
        layer
        for member in getattr(model, "models", [model])
        for layer in (*member.recurrent, *member.recurrent_above)
    ]
    before = [layer.unroll for layer in layers]
    for layer in layers:
        layer.unroll = True
    try:
        yield
    finally:
        for layer, unroll in zip(layers, before):
            layer.unroll = unroll

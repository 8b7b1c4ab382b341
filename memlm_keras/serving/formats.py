"""The formats that models are exported in, and what writes each."""

import importlib
import importlib.util
from typing import NamedTuple

from memlm_keras.arguments import require_positive_integer


class Format(NamedTuple):
    """A format that models are exported in.

    Attributes:
        module: string, the module of this folder that writes it, by a function
            `write(model, vocabulary, options, path)`. It is imported on the
            TensorFlow backend of Keras only.
        suffix: string, how the name of its one file ends, or `None` where it
            is a folder, whose name is a version. A file is one streamed step
            of a language model; so is a folder of any name, where it is `""`.
        packages: tuple of strings, what it takes besides TensorFlow.
        options: tuple of strings, the arguments of `export` that only this
            format has.
    """

    module: str
    suffix: str | None = None
    packages: tuple[str, ...] = ()
    options: tuple[str, ...] = ()


FORMATS = {
    "tf_saved_model": Format("saved_model", options=("card",)),
    "onnx": Format(
        "onnx_model", ".onnx", ("onnx", "tf2onnx"), ("contract", "tokens")
    ),
    "triton": Format("triton", "", ("onnx", "tf2onnx")),
    "litert": Format("litert", ".tflite", options=("rows", "quantize")),
}


def get(format):
    """Returns a format by its name.

    Args:
        format: string.

    Raises:
        ValueError: if there is none of that name.
        ImportError: if a package that it takes is not installed.
    """
    if format not in FORMATS:
        raise ValueError(
            f"`format` must be one of {', '.join(map(repr, FORMATS))}. "
            f"Received: format={format!r}"
        )
    for package in FORMATS[format].packages:
        if importlib.util.find_spec(package) is None:
            raise ImportError(
                f'format="{format}" needs the package {package}, which is not '
                f"installed. Install it: pip install "
                f"{' '.join(FORMATS[format].packages)}"
            )
    return FORMATS[format]


def own_options(format, **options):
    """Returns options of one format, without those that are `None`.

    Args:
        format: string.
        **options: arguments of `export`.

    Raises:
        ValueError: for one that is given and that the format does not have,
            and for values that it does not take.
    """
    given = {key: value for key, value in options.items() if value is not None}
    for name, value in given.items():
        if name not in FORMATS[format].options:
            formats = [
                f'"{key}"' for key in FORMATS if name in FORMATS[key].options
            ]
            raise ValueError(
                f"`{name}` is an option of format={' and '.join(formats)}. "
                f"Received: {name}={value!r} for format={format!r}"
            )
    if "rows" in given:
        require_positive_integer("rows", given["rows"])
        given["rows"] = int(given["rows"])
    if given.get("quantize", "int8") != "int8":
        raise ValueError(
            '`quantize` must be "int8", or None for float32. Received: '
            f"quantize={given['quantize']!r}"
        )
    if given.get("contract", "sherpa") not in ("sherpa", "sherpa_offline"):
        raise ValueError(
            '`contract` must be "sherpa" or "sherpa_offline", or None for '
            f"named state. Received: contract={given['contract']!r}"
        )
    return given


def write(model, vocabulary, options, path, format):
    """Writes a model, on the TensorFlow backend of Keras.

    Args:
        model: model of this package.
        vocabulary: `memlm_keras.data.Vocabulary` of the model's size, or
            `None`.
        options: dict, what the format is told besides.
        path: file or folder to write.
        format: string.
    """
    module = f"memlm_keras.serving.{get(format).module}"
    importlib.import_module(module).write(model, vocabulary, options, path)

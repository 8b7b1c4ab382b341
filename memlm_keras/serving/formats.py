"""The formats that models are exported in, and what writes each."""

import importlib
import importlib.util
from typing import NamedTuple


class Format(NamedTuple):
    """A format that models are exported in.

    Attributes:
        module: string, the module of this folder that writes it, by a function
            `write(model, vocabulary, options, path)`. It is imported on the
            TensorFlow backend of Keras only.
        suffix: string, how the name of its one file ends, or `None` where it
            is a folder, whose name is a version. A file is one streamed step
            of a language model.
        packages: tuple of strings, what it takes besides TensorFlow, as the
            extra of its name installs it.
    """

    module: str
    suffix: str | None = None
    packages: tuple[str, ...] = ()


FORMATS = {
    "tf_saved_model": Format("saved_model"),
    "onnx": Format("onnx_model", ".onnx", ("onnx", "tf2onnx")),
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
                f"installed. Install it: pip install memlm_keras[{format}]"
            )
    return FORMATS[format]


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

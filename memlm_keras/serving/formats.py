"""The formats that models are exported in, and what writes each."""

import importlib
from typing import NamedTuple


class Format(NamedTuple):
    """A format that models are exported in.

    Attributes:
        module: string, the module of this folder that writes it, by a function
            `write(model, vocabulary, options, path)`. It is imported on the
            TensorFlow backend of Keras only.
        suffix: string, how the name of its one file ends, or `None` where it
            is a folder, whose name is a version.
    """

    module: str
    suffix: str | None = None


FORMATS = {"tf_saved_model": Format("saved_model")}


def get(format):
    """Returns a format by its name.

    Args:
        format: string.

    Raises:
        ValueError: if there is none of that name.
    """
    if format not in FORMATS:
        raise ValueError(
            f"`format` must be one of {', '.join(map(repr, FORMATS))}. "
            f"Received: format={format!r}"
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

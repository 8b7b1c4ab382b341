"""Registry of export formats, which imports no layers and models.

Each folder of `memlm_keras/integrations` has formats of its own, and nothing
else depends on it.
"""

import functools
import importlib
import importlib.metadata
import pathlib
from typing import NamedTuple

from memlm_keras.registry import load_entry_point

ENTRY_POINTS = "memlm_keras.formats"


class Format(NamedTuple):
    """An export format."""

    # A function of `(model, vocabulary, options, path)`, imported only on its
    # backend.
    writer: str
    server: str  # that reads it
    place: str  # where `memlm export` writes it; of `{name}`
    # How to start the server: of `{path}` and its parent `{folder}`, which are
    # quoted, and of `{name}`, the parent's.
    start: str = ""
    # Of one file, or "" for a folder, with one streamed step of a model;
    # `None` for a folder of versions.
    suffix: str | None = None
    packages: tuple[str, ...] = ()  # besides that of the backend
    options: tuple[str, ...] = ()  # of `export`, for some formats alone
    mark: str | None = None  # a file in each folder of this format
    backend: str = "tensorflow"
    needs_vocabulary: bool = True
    # A function that returns more options, called before the backend starts.
    prepare: str | None = None


ONNX = ("onnx", "tf2onnx")
_FORMATS = {
    "tf_saved_model": Format(
        "memlm_keras.serving.saved_model.write",
        server="TensorFlow Serving",
        place="saved_models/{name}",
        start="tensorflow_model_server --rest_api_port=8501 "
        "--model_name={name} --model_base_path={folder}",
        options=("card",),
    ),
    "onnx": Format(
        "memlm_keras.serving.onnx.write",
        server="onnxruntime",
        place="{name}.onnx",
        suffix=".onnx",
        packages=ONNX,
        options=("contract", "tokens"),
        needs_vocabulary=False,
    ),
    "triton": Format(
        "memlm_keras.serving.onnx.write_triton",
        server="Triton",
        place="model_repository/{name}",
        start="tritonserver --model-repository={folder}",
        suffix="",
        packages=ONNX,
        mark="config.pbtxt",
        needs_vocabulary=False,
    ),
    "litert": Format(
        "memlm_keras.serving.litert.write",
        server="LiteRT",
        place="{name}.tflite",
        suffix=".tflite",
        options=("rows", "quantize"),
        needs_vocabulary=False,
    ),
}


@functools.cache
def formats():
    """Returns all formats, a dict of `Format`s by name.

    Besides those of this package, they are the values of entry points of the
    group `memlm_keras.formats`, dicts of `Format`s.
    """
    found = dict(_FORMATS)
    folder = pathlib.Path(__file__).with_name("integrations")
    for path in sorted(folder.glob("*/__init__.py")):
        name = f"memlm_keras.integrations.{path.parent.name}"
        found |= importlib.import_module(name).FORMATS
    for entry_point in importlib.metadata.entry_points(group=ENTRY_POINTS):
        found |= load_entry_point(entry_point) or {}
    return found


def function_of(name):
    """Imports a function by its dotted name."""
    module, _, function = name.rpartition(".")
    return getattr(importlib.import_module(module), function)

"""Registry of export formats; this module imports no layers and no models.

Each folder of `memlm_keras/integrations` adds formats and can be deleted.
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

    # Dotted name of the function that writes the format. The function takes
    # `(model, vocabulary, options, path)`, and needs Keras' backend `backend`.
    writer: str
    server: str  # The server that loads the format.
    place: str  # The default path in `memlm export`.
    # Command that starts the server; `{path}` is the exported file or folder,
    # `{folder}` its parent and `{name}` the parent's name.
    start: str = ""
    # Suffix of the exported file; "" for a folder, and `None` for a folder with
    # one subfolder for each version.
    suffix: str | None = None
    packages: tuple[str, ...] = ()  # Required packages.
    options: tuple[str, ...] = ()  # Further arguments of `export`.
    mark: str | None = None  # A file that only folders of this format have.
    backend: str = "tensorflow"
    needs_vocabulary: bool = True
    # Dotted name of a function that returns a dict of further `options` for
    # `writer`; it runs in the process that calls `export`.
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
        # By default, Triton listens on all addresses and asks for no password.
        start="tritonserver --model-repository={folder} "
        "--http-address=127.0.0.1 --grpc-address=127.0.0.1 "
        "--metrics-address=127.0.0.1",
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
    """Returns a dict of all `Format`s by name.

    Other packages add formats by entry points of the group
    `memlm_keras.formats`, each of which names a dict of `Format`s.
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

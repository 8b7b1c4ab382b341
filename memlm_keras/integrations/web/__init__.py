"""A page that runs a language model in a browser."""

from memlm_keras.formats import ONNX
from memlm_keras.formats import Format

# `PACKED` is a script with the contents of the other files, because a page
# opened from disk cannot load files.
PACKED = "packed_files.js"
FORMATS = {
    "web": Format(
        "memlm_keras.integrations.web.writer.write",
        server="browsers",
        place="pages/{name}",
        start="python -m http.server --bind=127.0.0.1 --directory={path}",
        suffix="",
        packages=ONNX,
        options=("quantize",),
        mark=PACKED,
        prepare="memlm_keras.integrations.web.writer.prepare",
    ),
}

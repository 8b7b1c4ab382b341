"""Exports a page that runs a language model in a browser.

The folder contains the page, a step of the model as ONNX, a JSON file about the
model, and onnxruntime-web. TensorFlow is imported only to trace the step."""

import base64
import gzip
import importlib.resources
import itertools
import json
import os
import pathlib
import tarfile

import keras
import numpy as np

from memlm_keras import trained
from memlm_keras.data import vocabulary as tables
from memlm_keras.data.subwords import LongestMatchTokenizer
from memlm_keras.data.subwords import SentencePieceTokenizer
from memlm_keras.integrations.web import PACKED
from memlm_keras.serving.exported import FACTS

# Files of the page, and those of onnxruntime-web, the engine that runs ONNX.
PAGE = ("index.html", "page.css", "page.js", "tokenizer.js")
ENGINE = (
    "ort.wasm.min.js",
    "ort-wasm-simd-threaded.mjs",
    "ort-wasm-simd-threaded.wasm",
)
MODEL = "model.onnx"

_VERSION = "1.30.0"
_NAME = f"onnxruntime-web-{_VERSION}.tgz"
_URL = f"https://registry.npmjs.org/onnxruntime-web/-/{_NAME}"
_SHA256 = "d2228df7e4616bc3348bf504ee888f3bec43789a273f0a63f3e68d203ce3bf71"
# Smaller matrices are stored as float32; larger ones with fewer bits.
_LEAST = 256
# Maps numbers in SentencePiece's files to the algorithms for which they stand.
_KINDS = {1: "unigram", 2: "bpe", 3: "word", 4: "char"}


def prepare():
    """Returns a dict of options for `write`."""
    return {"engine": str(fetch_engine())}


def fetch_engine():
    """Returns the path of onnxruntime-web's archive. Downloads a missing
    archive, or raises `ConnectionError`."""
    # Keras' folder for downloads.
    folder = pathlib.Path(os.environ.get("KERAS_HOME", "~/.keras")).expanduser()
    place = folder / "memlm_keras" / _NAME
    try:
        return keras.utils.get_file(
            fname=_NAME,
            origin=_URL,
            file_hash=_SHA256,
            cache_dir=folder,
            cache_subdir=place.parent.name,
        )
    # `get_file` raises a plain `Exception` if the download fails, and a
    # `ValueError` for a wrong checksum.
    except Exception as error:
        raise ConnectionError(
            f"The page needs the engine onnxruntime-web {_VERSION}, which "
            f"could not be fetched ({' '.join(str(error).split())}). Download "
            f"{_URL} (its SHA-256 is {_SHA256}) to {place}"
        ) from error


def write(model, vocabulary, options, path):
    """Writes the folder to `path`; `options["engine"]` is the path of the
    archive of onnxruntime-web. The model must be a float32 language model."""
    from memlm_keras.integrations.web.step import WebStep
    from memlm_keras.serving.graph import without_loops
    from memlm_keras.serving.onnx import convert

    contract = WebStep(model, vocabulary)
    with without_loops(model):
        step = convert(model, contract, contract.specification)
    for output in step.graph.output:
        output.type.tensor_type.shape.dim[0].dim_value = 1
    store(step.graph, options.get("quantize", "float16"))
    path = pathlib.Path(path)
    path.mkdir()
    path.joinpath(MODEL).write_bytes(step.SerializeToString())
    facts = {"name": path.name, **facts_of(contract, step.graph)}
    text = json.dumps(facts, ensure_ascii=False)
    path.joinpath(FACTS).write_text(text, encoding="utf-8")
    folder = importlib.resources.files("memlm_keras.integrations.web") / "page"
    for name in PAGE:
        path.joinpath(name).write_bytes((folder / name).read_bytes())
    with tarfile.open(options["engine"]) as archive:
        for name in ENGINE:
            file = archive.extractfile(f"package/dist/{name}")
            path.joinpath(name).write_bytes(file.read())
    packed = {}
    for name in (MODEL, FACTS, *ENGINE[1:]):
        compressed = gzip.compress(path.joinpath(name).read_bytes(), mtime=0)
        packed[name] = base64.b64encode(compressed).decode()
    text = f"const PACKED_FILES = {json.dumps(packed, indent=0)};\n"
    path.joinpath(PACKED).write_text(text, encoding="utf-8")


def facts_of(contract, graph):
    """Returns a dict of JSON values that the web page reads with the model."""
    model = contract.model
    outputs = {
        output.name: output.type.tensor_type.shape.dim
        for output in graph.output
    }
    distances = None
    if "attention" in outputs:
        memory = outputs["attention"][1].dim_value
        # Distance in words from each memory slot to the predicted word.
        steps_back = model.attending.steps_back
        distances = (np.arange(memory, 0, -1) + steps_back).tolist()
    return {
        "parameters": model.count_params(),
        "distances": distances,
        "states": {
            name: {
                "type": value.dtype.name,
                "shape": [1, *value.shape],
                # `None` stands for zeros.
                "initial": value.ravel().tolist() if value.any() else None,
            }
            for name, value in contract.streamed.initial.items()
        },
        "vocabulary": vocabulary_facts(contract.vocabulary),
    }


def vocabulary_facts(vocabulary):
    """Returns a dict for JSON with which `tokenizer.js` encodes text in the
    same way as the vocabulary."""
    tokenizer = vocabulary.tokenizer
    facts = {
        "tokens": list(vocabulary.tokens),
        "unknown": vocabulary.unknown,
        "end_of_sentence": vocabulary.end_of_sentence,
        "unit": getattr(vocabulary, "unit", "words"),
        "white_space": tables.WHITE_SPACE,
    }
    if isinstance(tokenizer, SentencePieceTokenizer):
        model = tokenizer.read_model()
        rules, normalizer = model.trainer_spec, model.normalizer_spec
        charsmap = base64.b64encode(normalizer.precompiled_charsmap).decode()
        return facts | {
            "kind": _KINDS[rules.model_type],
            "pieces": [piece.piece for piece in model.pieces],
            "scores": [piece.score for piece in model.pieces],
            "types": [piece.type for piece in model.pieces],
            "suffix": rules.treat_whitespace_as_suffix,
            "byte_fallback": rules.byte_fallback,
            "charsmap": charsmap,
            "read_as": tokenizer.replacements,
            "add_dummy_prefix": normalizer.add_dummy_prefix,
            "remove_extra_whitespaces": normalizer.remove_extra_whitespaces,
            "escape_whitespaces": normalizer.escape_whitespaces,
        }
    if isinstance(tokenizer, LongestMatchTokenizer):
        return facts | {"kind": "longest_match", "mark": tokenizer.mark}
    facts |= {"kind": "words", **tokenizer.get_config()}
    if tokenizer.numbers is not None:
        facts["number_pattern"] = tables.NUMBER_PATTERN
    if tokenizer.lowercase:
        # A string of pairs: an uppercase letter, then its lowercase letter.
        facts["lower_case"] = "".join(
            map(chr, itertools.chain(*tables.lower_case().items()))
        )
    if tokenizer.split == "unicode_script":
        classes = tables.script_classes()
        # Consecutive code points of one script are stored as a range: the first
        # code point and the script.
        starts = np.flatnonzero(np.diff(classes, prepend=classes[0] + 1))
        facts["scripts"] = [starts.tolist(), classes[starts].tolist()]
    return facts


# === Matrices with fewer bits ===


def store(graph, dtype):
    """Casts large matrices of a graph to `"float16"` or `"int8"`; the engine
    casts them to float32. Equal and transposed matrices are stored once."""
    from onnx import TensorProto
    from onnx import helper
    from onnx import numpy_helper

    kept, nodes, seen = [], [], {}
    for tensor in graph.initializer:
        values = numpy_helper.to_array(tensor)
        name = tensor.name
        # Vectors and matrices of one row or column stay float32.
        if values.dtype != "float32" or values.size < max(
            _LEAST, 2 * max(values.shape, default=0)
        ):
            kept.append(tensor)
            continue
        same = seen.get((values.shape, values.tobytes()))
        if same is not None:
            nodes.append(helper.make_node("Identity", [same], [name]))
            continue
        transposed = values.T
        same = seen.get((transposed.shape, transposed.tobytes()))
        if same is not None and values.ndim == 2:
            nodes.append(helper.make_node("Transpose", [same], [name]))
            continue
        seen[values.shape, values.tobytes()] = name
        stored, scale = trained.narrow(values, dtype)
        kept.append(numpy_helper.from_array(stored, f"{name}_stored"))
        wide = name if scale is None else f"{name}_wide"
        nodes.append(
            helper.make_node(
                "Cast", [f"{name}_stored"], [wide], to=TensorProto.FLOAT
            )
        )
        if scale is not None:
            kept.append(numpy_helper.from_array(scale, f"{name}_scale"))
            nodes.append(
                helper.make_node("Mul", [wide, f"{name}_scale"], [name])
            )
    nodes += graph.node
    del graph.node[:], graph.initializer[:]
    graph.node.extend(nodes)
    graph.initializer.extend(kept)

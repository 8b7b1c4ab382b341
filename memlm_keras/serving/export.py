"""Exports models in all formats, such as SavedModel and ONNX."""

import importlib.util
import json
import pathlib
import subprocess
import sys
import tempfile
from collections.abc import Iterable

import keras
from keras import ops

from memlm_keras import children
from memlm_keras import registry
from memlm_keras.arguments import require_one_of
from memlm_keras.arguments import require_positive_integer
from memlm_keras.arguments import require_streaming
from memlm_keras.arguments import require_vocabulary
from memlm_keras.data.subwords import SubwordVocabulary
from memlm_keras.data.vocabulary import Vocabulary
from memlm_keras.files import atomic_path
from memlm_keras.formats import formats
from memlm_keras.formats import function_of
from memlm_keras.models import Ensemble
from memlm_keras.models import EntailmentClassifier
from memlm_keras.models import LanguageModel
from memlm_keras.models.ensemble import models_of
from memlm_keras.models.variants import in_float32
from memlm_keras.version import __version__

_LARGEST_VERSION = 2**63 - 1  # Servers read versions as int64.
_CHOICES = {
    "quantize": ["int8", None],
    "contract": ["sherpa", "sherpa_offline", None],
}


def export(
    model,
    path,
    vocabulary=None,
    top_k=10,
    overwrite=False,
    labels=None,
    format="tf_saved_model",
    rows=None,
    quantize=None,
    max_length=1024,
    contract=None,
    tokens=None,
    card=None,
):
    """Exports a model as a SavedModel for TensorFlow Serving, or as a file.

    The exported model runs without Keras and this package, except for `"hf"`.
    A step takes a state and returns the new one; only Triton keeps the state.
    `docs/how_to/formats.md` describes the inputs and outputs in each format.

    Args:
        model: `memlm_keras.LanguageModel` or `Ensemble`; or, as a SavedModel
            only, `EntailmentClassifier`.
        path: Folder `saved_models/<name>`, in which the next version is
            written, or `saved_models/<name>/<version>`; or, in other formats,
            a file or folder, such as `model.onnx`.
        vocabulary: `memlm_keras.data.Vocabulary`; `None` uses the model's own.
            `"onnx"`, `"triton"` and `"litert"` need no vocabulary.
        top_k: Integer, number of most probable tokens to return.
        overwrite: Bool, whether to replace an earlier export in this format.
        labels: Strings, a classifier's class names; `None` uses its own names.
        format: `"tf_saved_model"`, `"onnx"`, `"triton"`, `"litert"`, `"web"` or
            `"hf"`.
        rows: Integer, batch size, only for `"litert"`; `None` means 1.
        quantize: `"int8"` for int8 weights; only for `"litert"` and `"web"`.
        max_length: Integer, maximum number of tokens in a row of a request.
        contract: `"sherpa"` or `"sherpa_offline"` for the inputs and outputs
            that the speech recognizer sherpa-onnx needs; only for `"onnx"`.
        tokens: Path of the recognizer's `tokens.txt`; only with `contract`.
        card: Dict of strings and numbers for the model card in a SavedModel.

    Returns:
        `pathlib.Path` of the file or folder that was written.

    Raises:
        ValueError: An argument is invalid, an option belongs to another format,
            or the format does not support the model.
        FileExistsError: `path` exists and may not be replaced.
        ImportError: A package that the format needs is not installed.
        ConnectionError: onnxruntime-web, which runs the model in a `"web"`
            page, cannot be downloaded.
        RuntimeError: The export process on another backend fails.

    Example:

    >>> memlm_keras.serving.export(lm, "saved_models/key_value_predict")
    PosixPath('saved_models/key_value_predict/1')
    """
    path = check_path(path, overwrite, format)
    about = formats()[format]
    is_file = about.suffix is not None
    options = _format_options(
        format,
        rows=rows,
        quantize=quantize,
        contract=contract,
        tokens=tokens,
        card=card,
    )
    if isinstance(model, EntailmentClassifier) and not is_file:
        options["labels"] = _class_labels(model, labels)
    else:
        options |= _language_model_options(model, top_k, labels, max_length)
    vocabulary = _vocabulary_of(model, vocabulary, about.needs_vocabulary)
    if "tokens" in options or "contract" in options:
        _require_recogniser(vocabulary, contract, options.pop("tokens", None))
    if not is_file:
        options["card"] = _card(model, path, options, vocabulary)
    if isinstance(model, LanguageModel | Ensemble):
        model = model.with_fixed_matrices()
    if is_file:
        model = _as_float32(model)
    if contract == "sherpa" or format == "litert":
        require_zero_state(model, contract or format)
    if about.prepare is not None:
        options |= function_of(about.prepare)()
    with atomic_path(path) as temporary:
        write = _write if _writes_here(format) else _write_in_other_process
        write(model, vocabulary, options, temporary, format)
    return path


# === Paths and options ===


def check_path(path, overwrite=False, format="tf_saved_model"):
    """Returns the path to which `export` would write; needs no model.

    Args:
        path, overwrite, format: See `export`.

    Returns:
        `pathlib.Path`; a SavedModel gets the next version if `path` has none.

    Raises:
        ValueError: The format is unknown, or `path` lacks its suffix or has an
            invalid version (2^63 or above, or with a leading 0).
        FileExistsError: `path` exists, unless it is an export in this format
            and `overwrite` is true.
        ImportError: A package that the format needs is not installed.

    Example:

    >>> memlm_keras.serving.check_path("saved_models/key_value_predict")
    PosixPath('saved_models/key_value_predict/1')
    """
    path = pathlib.Path(path)
    require_one_of("format", format, formats())
    about = formats()[format]
    packages = about.packages
    for package in (*packages, about.backend):
        if importlib.util.find_spec(package) is None:
            install = packages if package in packages else [package]
            raise ImportError(
                f'format="{format}" needs the package {package}, which is not '
                f"installed. Install it: pip install {' '.join(install)}"
            )
    suffix, mark = about.suffix, about.mark
    if suffix is None:
        return _check_version(path, overwrite, format)
    if suffix and path.suffix != suffix:
        raise ValueError(
            f'`path` must end with {suffix} if format="{format}". '
            f"Received: path={path}. Try: {path.with_suffix(suffix)}"
        )
    is_ours = path.is_file() if suffix else (path / mark).exists()
    if path.exists() and not (overwrite and is_ours):
        what, instead = " and is not an export in this format", ""
        if is_ours:
            what = ""
            instead = (
                ", or pass `overwrite=True` to replace this earlier export "
                "(--overwrite of `memlm export`)"
            )
        raise FileExistsError(
            f"`path` already exists{what}. Received: path={path}. "
            f"Choose another path{instead}."
        )
    return path


def _check_version(path, overwrite, format):
    """Returns the path of the version to write; raises like `check_path`."""
    for other, about in formats().items():
        if about.suffix and path.suffix == about.suffix:
            raise ValueError(
                '`path` must be a folder of versions if format="'
                f'{format}". Received: path={path}. Did you mean '
                f'format="{other}"?'
            )
    is_model = (path / "saved_model.pb").exists()
    if not _is_number(path.name):
        if is_model:
            raise FileExistsError(
                "`path` must be a folder of versions, not a SavedModel "
                f"itself. Received: path={path}. Choose another path."
            )
        return path / str(_next_version(path))
    if path.name != str(int(path.name)) or int(path.name) > _LARGEST_VERSION:
        raise ValueError(
            "The version at the end of `path` must be below 2^63, without a "
            "leading 0, for TensorFlow Serving. Received: "
            f"path={path}. Try: {path.parent}, for its next version"
        )
    if path.exists() and not overwrite:
        raise FileExistsError(
            f"`path` already exists. Received: path={path}. "
            "Export the next version, "
            f"{path.with_name(str(_next_version(path.parent)))}, or pass "
            "`overwrite=True` (--overwrite of `memlm export`)."
        )
    if path.exists() and not is_model:
        raise FileExistsError(
            "`overwrite=True` replaces a SavedModel, and there is none at "
            f"`path`. Received: path={path}. Move the folder away, or choose "
            "another path."
        )
    return path


def _next_version(folder):
    """Returns the version after the highest valid version in a folder."""
    names = [entry.name for entry in folder.glob("*") if entry.is_dir()]
    versions = [int(name) for name in names if _is_number(name)]
    return max((v for v in versions if v < _LARGEST_VERSION), default=0) + 1


def _is_number(name):
    return name.isascii() and name.isdecimal()


def _format_options(format, **options):
    """Checks a format's options; returns a dict of those not `None`."""
    options = {k: value for k, value in options.items() if value is not None}
    for name, value in options.items():
        takes = [f'"{k}"' for k, v in formats().items() if name in v.options]
        if f'"{format}"' not in takes:
            raise ValueError(
                f"`{name}` is an option of format={' and '.join(takes)}. "
                f"Received: {name}={value!r} for format={format!r}"
            )
        if name in _CHOICES:
            require_one_of(name, value, _CHOICES[name])
    if "rows" in options:
        require_positive_integer("rows", options["rows"])
        options["rows"] = int(options["rows"])
    return options


def _class_labels(model, labels):
    """Checks a classifier's labels; returns a list of strings."""
    if labels is None:
        labels = model.labels
    elif model.labels is not None and tuple(labels) != model.labels:
        raise ValueError(
            "`labels` must be the model's own, or be left out. Received: "
            f"labels={labels!r} for a model with {model.labels}"
        )
    several = isinstance(labels, Iterable) and not isinstance(labels, str)
    strings = list(map(str, labels)) if several else []
    if not len(set(strings)) == len(strings) == model.num_classes:
        raise ValueError(
            f"`labels` must be {model.num_classes} different strings, one for "
            "each class of the model, such as `corpus.labels`. Received: "
            f"labels={labels!r}"
        )
    return strings


def _language_model_options(model, top_k, labels, max_length):
    """Checks the options for a language model's signatures; returns a dict."""
    if not isinstance(model, (LanguageModel, Ensemble)):
        raise ValueError(
            "`model` must be a `memlm_keras.LanguageModel`, an `Ensemble` or, "
            "for a SavedModel, an `EntailmentClassifier`. Received: "
            f"{type(model).__name__}"
        )
    if labels is not None:
        raise ValueError(
            "`labels` are only for an `EntailmentClassifier`. Received: "
            f"labels={labels!r} for the class {type(model).__name__}"
        )
    require_streaming("`export`", model)
    require_positive_integer("top_k", top_k)
    if top_k > model.vocabulary_size:
        raise ValueError(
            "`top_k` must be no more than the vocabulary size, "
            f"{model.vocabulary_size}. Received: top_k={top_k}"
        )
    require_positive_integer("max_length", max_length)
    return {"top_k": int(top_k), "max_length": int(max_length)}


def _vocabulary_of(model, vocabulary, needed):
    """Returns `vocabulary`, by default the model's own, after checking it."""
    if vocabulary is None:
        vocabulary = getattr(model, "vocabulary", None)
    if vocabulary is None and not needed:
        return None
    if not isinstance(vocabulary, Vocabulary):
        raise ValueError(
            "`vocabulary` must be a `memlm_keras.data.Vocabulary`, unless "
            "the model has one itself. Received: "
            f"{type(vocabulary).__name__}"
        )
    require_vocabulary(model, vocabulary)
    return vocabulary


def _card(model, path, options, vocabulary):
    """Returns the facts for the model card, a dict of JSON values."""
    facts = dict(options.get("card", {}))
    if "labels" in options:
        facts["labels"] = ", ".join(options["labels"])
    # `json` cannot write NumPy's numbers.
    facts = {
        str(key): value.item() if hasattr(value, "item") else value
        for key, value in facts.items()
    }
    return {
        "name": f"{path.resolve().parent.name}, version {path.name}",
        "model": type(model).__name__,
        "parameters": model.count_params(),
        "vocabulary": f"{len(vocabulary):,} tokens; others are read as "
        f"{vocabulary.unknown}",
        **facts,
        "memlm_keras": __version__,
        "keras": keras.__version__,
    }


# === Requirements of formats ===


def _as_float32(model):
    """Converts a language model to float32; refuses a quantized model."""
    models = models_of(model)
    for layer in (layer for one in models for layer in one.layers):
        if layer.quantization_mode is not None:
            raise ValueError(
                "`model` must not be quantized: the file is in float32. "
                f"Received: a model whose layer {layer.name} is in "
                f"{layer.quantization_mode}. Export it before `quantize`; "
                'format="litert" has its own option `quantize="int8"`'
            )
    copies = [in_float32(one) for one in models]
    if copies == models:
        return model
    return Ensemble(copies) if isinstance(model, Ensemble) else copies[0]


def _require_recogniser(vocabulary, contract, tokens):
    """Raises `ValueError` unless the vocabulary has sherpa-onnx's token ids."""
    if contract is None:
        raise ValueError(
            '`tokens` needs a `contract` with a recognizer: "sherpa" or '
            f'"sherpa_offline". Received: tokens={tokens!r} and contract=None'
        )
    if not isinstance(vocabulary, SubwordVocabulary):
        raise ValueError(
            f'contract="{contract}" is for a speech recognizer, whose token '
            "ids the model must use. Train the model with the vocabulary "
            "SubwordVocabulary.from_tokens_file('tokens.txt'). Received: "
            f"{type(vocabulary).__name__}"
        )
    if tokens is None:
        return
    expected = SubwordVocabulary.from_tokens_file(
        tokens,
        unknown=vocabulary.unknown,
        end_of_sentence=vocabulary.end_of_sentence,
    )
    if expected.tokens != vocabulary.tokens:
        raise ValueError(
            "`tokens` must list the model's vocabulary with the same token "
            f"ids. Received: {tokens} with {len(expected)} tokens, for a model "
            f"with {len(vocabulary)}. Train the model with the "
            "vocabulary of `SubwordVocabulary.from_tokens_file`"
        )


def require_zero_state(model, name):
    """Raises `ValueError` unless the initial state is zero."""
    nonzero = [
        name
        for name, value in model.initial_state(1).items()
        if ops.convert_to_numpy(value).any()
    ]
    if nonzero:
        raise ValueError(
            f'"{name}" needs a model whose initial state is zero, because '
            "the engine starts from zeros. Received: a model with another "
            f"initial state in {', '.join(nonzero)}"
        )


# === Writing, on the backend of the format ===


def _writes_here(format):
    """Returns whether this process can write the format: Keras runs on the
    backend for this format and, if that is TensorFlow, no GPU is visible."""
    backend = keras.backend.backend()
    if backend != formats()[format].backend or backend == "torch":
        return backend == formats()[format].backend
    import tensorflow as tf

    # With a GPU, TensorFlow traces LSTM and GRU into cuDNN operations, which
    # servers without a GPU cannot run.
    return not tf.config.get_visible_devices("GPU")


def _write(model, vocabulary, options, path, format):
    """Calls a format's writer."""
    write = function_of(formats()[format].writer)
    write(model, vocabulary, options, path)


def _write_in_other_process(model, vocabulary, options, path, format):
    """Calls `_write` in a process with the format's backend and no GPU."""
    backend = formats()[format].backend
    with tempfile.TemporaryDirectory() as folder:
        model_path = pathlib.Path(folder, "model.keras")
        vocabulary_path = pathlib.Path(folder, "vocabulary.json")
        model.save(model_path)
        if vocabulary is not None:
            vocabulary.save(vocabulary_path)
        process = subprocess.run(
            [
                sys.executable,
                "-c",
                "import sys; from memlm_keras import children; "
                "children.end_with_parent(); "
                "from memlm_keras.serving.export import _write_saved; "
                "_write_saved(*sys.argv[1:])",
                str(model_path),
                str(vocabulary_path),
                json.dumps(options),
                str(path.absolute()),
                format,
            ],
            env=children.environment(
                KERAS_BACKEND=backend,
                CUDA_VISIBLE_DEVICES="-1",
                TF_CPP_MIN_LOG_LEVEL="2",
            ),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        )
    if process.returncode:
        raise RuntimeError(
            f"The process that exports the model on {backend} failed. "
            "It must be able to import the modules that register your own "
            f"layers. Its output:\n{process.stdout[-4000:]}"
        )


def _write_saved(model_path, vocabulary_path, options, path, format):
    """Loads a model, and its vocabulary if there is one; calls `_write`."""
    # Imports papers from other packages, which register layers with Keras.
    registry.papers()
    known = pathlib.Path(vocabulary_path).exists()
    _write(
        keras.saving.load_model(model_path, compile=False),
        Vocabulary.from_file(vocabulary_path) if known else None,
        json.loads(options),
        pathlib.Path(path),
        format,
    )

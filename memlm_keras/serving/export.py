"""Writing a model as a SavedModel, from every backend."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
from collections.abc import Iterable

import keras

from memlm_keras import __version__
from memlm_keras.arguments import require_positive_integer
from memlm_keras.arguments import require_streaming
from memlm_keras.arguments import require_vocabulary
from memlm_keras.data.vocabulary import Vocabulary
from memlm_keras.files import atomic_path
from memlm_keras.models import Ensemble
from memlm_keras.models import EntailmentClassifier
from memlm_keras.models import LanguageModel
from memlm_keras.serving import formats
from memlm_keras.serving.file_requirements import as_float32
from memlm_keras.serving.file_requirements import require_recogniser
from memlm_keras.serving.file_requirements import require_zero_state
from memlm_keras.serving.paths import check_path


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
    """Writes a model as a SavedModel for TensorFlow Serving, or a file.

    The SavedModel is a plain TensorFlow graph, made on the CPU whatever
    backend runs. It needs neither Keras nor this package, and holds no state:
    what a model remembers goes in and out with each request. The vocabulary is
    in its graph and, for clients, in `assets.extra/vocabulary.json`.

    Smoothed matrices are written as what the model predicts by, once and for
    all: `LanguageModel.with_fixed_matrices`.

    Signatures of language models, with B batch, T time, V vocabulary, k
    `top_k`; all log-probabilities are natural:

    | signature | inputs | outputs |
    |---|---|---|
    | `serving_default` | `token_ids` int32 `(B, T)` | `log_probabilities` float32 `(B, T, V)`: next token after each position, from an empty history |
    | `score` | `text` string `(B,)` | `tokens` string `(B, longest)`, how the text was read, with its end; their `log_probabilities` float32 and `unknown` bool, as large, 0 past the end; `log_probability` float32 `(B,)`, the sums; `length` int32 `(B,)`, predicted tokens |
    | `score_ids` | `token_ids` int32 `(B, T)`; `length` int32 `(B,)` | `log_probabilities` float32 `(B, T - 1)` of all ids but the first; `log_probability`, `length` as of `score` |
    | `next` | `text` string `(B,)` | `top_k_ids` int32, `top_k_words` string, `top_k_log_probabilities` float32, all `(B, k)`: what follows the text |
    | `begin` | `text` string `(B,)` | as of `next`; the state after the text |
    | `step` | `token_ids` int32 `(B, T)`; `length` int32 `(B,)`; the state | as of `next`; the new state |
    | `step_words` | `text` string `(B,)`; the state | as of `next`; the new state |
    | `generate` | `text` string `(B,)`; `length` int32 `(B,)`, most tokens to write; `top_k` int32 `(B,)`, 1 is greedy; `temperature` float32 `(B,)`; `seed` int32 `(B,)` | `text` string `(B,)`, what follows the text; `token_ids` int32, `tokens` string and `log_probabilities` float32, all `(B, longest)`; `length` int32 `(B,)`, the end counted |
    | `initial_state` | `rows` int32 `(B,)`, of any values | the state of B rows |

    Texts are split as `vocabulary.encode` does. They begin after an
    end-of-sentence token, but those of `step_words` go on from the state;
    `score` ends them with one, which is predicted. `length` says how many ids of a
    row are its own: what stands behind is not read, so that a server may pad.
    No row may have more than `max_length` tokens.

    The state is the tensors of `model.initial_state`, under the same name
    going in and coming out, in float32 and int32, without those that are
    empty; and the `fingerprint` of the weights, int32 `(B,)`. The state of
    another model, or of another version of it, is refused.

    Signature of a classifier of sentence pairs, with C labels:

    | signature | inputs | outputs |
    |---|---|---|
    | `serving_default` | `premise`, `hypothesis` string `(B,)` | `label` string `(B,)`; `probabilities` float32 `(B, C)`, in the order of `labels` |

    Texts are split as `vocabulary.encode` does. The labels are in
    `assets.extra/labels.json` besides.

    With `format="onnx"` the file at `path` is one streamed step of a language
    model, in float32, for onnxruntime and what is built on it: `token_ids`
    int64 `(B, 1)` and the state go in, `log_probabilities` float32 `(B, V)` of
    what follows and the new state, each under its name with `next_` before it,
    come out. The state begins with zeros; what of it does not is in the
    metadata, `initial_state`, beside the `vocabulary_size` and, where there is
    a vocabulary, its `tokens`, `end_of_sentence_id` and `unknown_id`, all as
    JSON. By `contract` the same is for an engine that knows no names:

    | contract | inputs, by position | outputs | metadata |
    |---|---|---|---|
    | `"sherpa"` | `x` int64 `(N, 1)`; `h`, `c` float32 `(1, N, hidden)`, zeros at first | `scores` float32 `(N, 1, V)`, `next_h`, `next_c` | `num_layers`, `hidden_size`, `sos_id` |
    | `"sherpa_offline"` | `x` int64 `(N, L)`; `x_lens` int64 `(N,)` | `nll` float32 `(N,)`, of each text and its end | `sos_id`, `eos_id`, `vocab_size` |

    With `format="triton"` the folder at `path` is one of a Triton model
    repository: the ONNX file, and a `config.pbtxt` by which the server keeps
    the state of each sequence, and begins it.

    With `format="litert"` it is such a step for phones, of LiteRT's built-in
    operators only: its signature `step` takes `token_ids` int32 `(rows, 1)` and
    the state, all zeros at first, and gives `log_probabilities` float32 `(rows,
    V)`, `top_k_ids` int32 and `top_k_log_probabilities` float32, both `(rows,
    k)`, and the new state under the names of the old one. The file ends with
    a zip archive that holds `vocabulary.json`, where there is a vocabulary.

    Args:
        model: `memlm_keras.LanguageModel`, `memlm_keras.Ensemble` or
            `memlm_keras.EntailmentClassifier`.
        path: folder to write, `saved_models/<name>`, in which the next version
            is made, or `saved_models/<name>/<version>`; or file or folder of
            another format, such as `model.onnx`.
        vocabulary: `memlm_keras.data.Vocabulary` of the model's size; `None`
            is the model's own. A file can do without.
        top_k: integer, k, how many of the most probable tokens are returned,
            and the largest `top_k` of `generate`; of language models.
        overwrite: bool, whether to replace what this format has written at
            `path` before.
        labels: sequence of strings, such as `PairCorpus.labels`, what the
            classes of a classifier are called; only of classifiers. `None` is
            the model's own, if it has them.
        format: string, `"tf_saved_model"`, `"onnx"`, `"triton"` or
            `"litert"`.
        rows: integer, rows of a step, of `"litert"` only; `None` is 1.
        quantize: `"int8"`, weights of eight bits, of `"litert"` only; `None`
            is float32.
        max_length: integer, most tokens of a row that a request brings, or
            has written; of language models.
        contract: string, of `"onnx"` only: `"sherpa"`, for the shallow fusion
            of sherpa-onnx, or `"sherpa_offline"`, for its rescoring. Both
            need the vocabulary of the recogniser.
        tokens: path of the recogniser's `tokens.txt`, which the vocabulary must
            agree with; of a contract only.
        card: dict of strings and numbers that the model card of a SavedModel
            tells, such as `{"data": "Penn Treebank", "perplexity": 82.5}`.

    Returns:
        `pathlib.Path`, what was written.

    Raises:
        ValueError: for another format, a path that does not end as that format
            wants it, an object of another class, a model that is not causal, a
            vocabulary that is missing or contradicts the model's, a `top_k`
            not between 1 and its size, a `max_length` that is no positive
            integer, `labels` that are not one for each class, or an option of
            another format; and, of a file, for a model that is quantized or
            needs operators that the format does not have.
        FileExistsError: if something is at `path` and `overwrite` is not set,
            or what is there is no SavedModel.
        OSError: if the folder cannot be written.
        ImportError: if a package that the format takes is not installed.
        RuntimeError: if the TensorFlow process that exports the model of
            another backend fails.

    Example:

    >>> memlm_keras.serving.export(lm, "saved_models/key_value_predict")
    PosixPath('saved_models/key_value_predict/1')
    """  # noqa: E501
    path = check_path(path, overwrite, format)
    options = formats.own_options(
        format,
        rows=rows,
        quantize=quantize,
        contract=contract,
        tokens=tokens,
        card=card,
    )
    is_file = formats.get(format).suffix is not None
    if isinstance(model, EntailmentClassifier) and not is_file:
        options |= _classifier_options(model, labels)
    else:
        options |= _language_model_options(model, top_k, labels, max_length)
    vocabulary = _vocabulary_of(model, vocabulary, optional=is_file)
    if tokens is not None or contract is not None:
        require_recogniser(vocabulary, contract, options.pop("tokens", None))
    if not is_file:
        card = options.get("card", {})
        if "labels" in options:
            card = {**card, "labels": ", ".join(options["labels"])}
        options["card"] = _card(model, path, card, vocabulary)
    if isinstance(model, LanguageModel | Ensemble):
        model = model.with_fixed_matrices()
    if is_file:
        model = as_float32(model)
    if contract == "sherpa" or format == "litert":
        require_zero_state(model, contract or format)
    with atomic_path(path) as temporary:
        write = formats.write if _traces_for_cpu() else _write_in_other_process
        write(model, vocabulary, options, temporary, format)
        if format == "tf_saved_model":
            _write_extra(temporary / "assets.extra", vocabulary, options)
    return path


def _write_extra(folder, vocabulary, options):
    """Writes what clients of a SavedModel need besides."""
    vocabulary.save(folder / "vocabulary.json")
    if "labels" in options:
        text = json.dumps(options["labels"]) + "\n"
        (folder / "labels.json").write_text(text)


def _card(model, path, card, vocabulary):
    """Facts of the model card, as values of JSON."""
    values = {
        # JSON has no numbers of NumPy.
        str(key): value.item() if hasattr(value, "item") else value
        for key, value in card.items()
    }
    return {
        "name": f"{path.resolve().parent.name}, version {path.name}",
        "model": type(model).__name__,
        "parameters": model.count_params(),
        "vocabulary": f"{len(vocabulary):,} tokens; others are read as "
        f"{vocabulary.unknown}",
        **values,
        "memlm_keras": __version__,
        "keras": keras.__version__,
    }


def _classifier_options(model, labels):
    """Options of the signatures of a classifier, checked."""
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
    return {"labels": strings}


def _language_model_options(model, top_k, labels, max_length):
    """Options of the signatures of a language model, checked."""
    if not isinstance(model, (LanguageModel, Ensemble)):
        raise ValueError(
            "`model` must be a `memlm_keras.LanguageModel`, an `Ensemble` of "
            "them or, of a SavedModel, an `EntailmentClassifier`. Received: "
            f"{type(model).__name__}"
        )
    if labels is not None:
        raise ValueError(
            "`labels` are those of an `EntailmentClassifier`. Received: "
            f"labels={labels!r} for a {type(model).__name__}"
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


def _vocabulary_of(model, vocabulary, optional=False):
    """The vocabulary that is given, or else the model's own, checked."""
    if vocabulary is None:
        vocabulary = getattr(model, "vocabulary", None)
    if vocabulary is None and optional:
        return None
    if not isinstance(vocabulary, Vocabulary):
        raise ValueError(
            "`vocabulary` must be a `memlm_keras.data.Vocabulary`, unless "
            "the model has one itself. Received: "
            f"{type(vocabulary).__name__}"
        )
    require_vocabulary(model, vocabulary)
    return vocabulary


def _traces_for_cpu():
    """Whether what Keras traces in this process runs on any server.

    Where a GPU is visible, TensorFlow's LSTM and GRU are traced into cuDNN
    operations, which a server without a GPU cannot run.
    """
    if keras.backend.backend() != "tensorflow":
        return False
    import tensorflow as tf

    return not tf.config.get_visible_devices("GPU")


def _write_in_other_process(model, vocabulary, options, path, format):
    """`formats.write` in a process that has TensorFlow, and no GPU."""
    with tempfile.TemporaryDirectory() as folder:
        model_path = pathlib.Path(folder, "model.keras")
        vocabulary_path = pathlib.Path(folder, "vocabulary.json")
        model.save(model_path)
        if vocabulary is not None:
            vocabulary.save(vocabulary_path)
        process = subprocess.run(
            [
                sys.executable,
                "-m",
                "memlm_keras.serving.export_process",
                str(model_path),
                str(vocabulary_path),
                json.dumps(options),
                str(path.absolute()),
                format,
            ],
            env={
                **os.environ,
                "KERAS_BACKEND": "tensorflow",
                "CUDA_VISIBLE_DEVICES": "-1",
                "TF_CPP_MIN_LOG_LEVEL": "2",
                # What could be imported here can be imported there.
                "PYTHONPATH": os.pathsep.join(
                    os.path.abspath(entry) for entry in sys.path
                ),
            },
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        )
    if process.returncode:
        raise RuntimeError(
            "The TensorFlow process that exports the model failed. Layers of "
            "your own must be registered in a module that it can import. It "
            f"said:\n{process.stdout[-4000:]}"
        )

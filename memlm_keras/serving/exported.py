"""Loads exported language models in their own engines.

Shapes below have B rows, T tokens and V words in the vocabulary."""

import json
import pathlib
import tempfile
import zipfile

import numpy as np

from memlm_keras.arguments import require_token_ids
from memlm_keras.data.vocabulary import Vocabulary
from memlm_keras.files import import_package
from memlm_keras.files import reading

FACTS = "model.json"  # File next to the ONNX file in the format `"web"`.
_REMEDY = "Export the model again."
_DTYPES = {
    "tensor(float)": "float32",
    "tensor(int32)": "int32",
    "tensor(int64)": "int64",
}


def find_exported(path):
    """Returns the path of an exported model: an `.onnx` or `.tflite` file, or a
    SavedModel (the newest version in a folder); `None` without such a model."""
    path = pathlib.Path(path)
    if path.is_file() and path.suffix in (".onnx", ".tflite"):
        return path
    if (path / "saved_model.pb").is_file():
        return path
    versions = [
        folder.parent
        for folder in path.glob("*/saved_model.pb")
        if folder.parent.name.isdecimal()
    ]
    return max(versions, key=lambda each: int(each.name), default=None)


def load(path):
    """Loads an exported language model, which reads token ids.

    The model runs in its own engine: onnxruntime, LiteRT or TensorFlow.

    Args:
        path: Path that `export` returned: an `.onnx` or `.tflite` file with
            one streamed step, or the folder of a SavedModel, `<name>` or
            `<name>/<version>`.

    Returns:
        An object with `vocabulary_size`, `end_of_sentence_id`, and

        * `initial_state(rows)`, which returns a dict of tensors;
        * `step(token_ids, state)`, which reads integers `(B, T)` and returns
          natural-log probabilities `(B, T, V)` of the next tokens, and the new
          state. A SavedModel gives only the most probable words after the last
          token; other entries are masked (`numpy.ma`). B and T are at least 1;
        * with a SavedModel, `distributions(token_ids)`, which returns
          log-probabilities `(B, T, V)` from an empty context, and
          `score(token_ids)`, which returns only those of the ids, `(B, T - 1)`.

    Raises:
        FileNotFoundError: There is no exported model at `path`.
        ValueError: The file is damaged, or its model returns no new state.
        ImportError: The engine is not installed.

    Example:

    >>> path = memlm_keras.serving.export(lm, "saved_models/lm")
    >>> exported = memlm_keras.serving.load(path)
    >>> exported.score(np.array([[0, 5, 7]])).shape
    (1, 2)
    >>> state = exported.initial_state(rows=1)
    >>> log_probabilities, state = exported.step(np.array([[0, 5]]), state)
    """
    found = find_exported(path)
    if found is None:
        raise FileNotFoundError(
            f"There is no exported model at {path}: no .onnx or .tflite file, "
            "and no folder of a SavedModel."
        )
    kinds = {".onnx": OnnxStep, ".tflite": LiteRTStep}
    return kinds.get(found.suffix, ServedModel)(found)


class OneStep:
    """Base class for models that read one token for each call of `run`."""

    steps = 1
    rows = None  # Number of rows, if fixed.
    end_of_sentence_id = 0

    def step(self, token_ids, state):
        """Reads token ids `(B, T)` one step at a time."""
        size, found = self.vocabulary_size, []
        token_ids = require_token_ids("token_ids", token_ids, size)
        for column in np.split(token_ids, token_ids.shape[1], axis=1):
            part, state = self._rows(column, state)
            found.append(part)
        return np.stack(found, axis=1), state

    def _rows(self, column, state):
        if self.rows is None:
            return self.run(column, state)
        found = []
        for begin in range(0, len(column), self.rows):
            # Fill missing rows with copies of the last one.
            places = np.arange(begin, begin + self.rows)
            places = np.minimum(places, len(column) - 1)
            own = {name: value[places] for name, value in state.items()}
            found.append(self.run(column[places], own))
        parts, states = zip(*found)
        joined = {
            name: np.concatenate([each[name] for each in states])[: len(column)]
            for name in state
        }
        return np.concatenate(parts)[: len(column)], joined


class OnnxStep(OneStep):
    """ONNX file with named states, or with sherpa-onnx's inputs."""

    description = "ONNX file in onnxruntime"

    def __init__(self, path):
        onnxruntime = import_package("onnxruntime", f"The ONNX file {path}")
        with reading(path, "exported model", _REMEDY):
            self._session = onnxruntime.InferenceSession(
                str(path), providers=["CPUExecutionProvider"]
            )
        self._ids, *self._states = self._session.get_inputs()
        outputs = self._session.get_outputs()
        self._outputs = [each.name for each in outputs]
        names = {f"next_{each.name}" for each in self._states}
        if not names or not names < set(self._outputs):
            raise ValueError(
                "`path` must be a file with one streamed step of a language "
                f"model. Received: {path}, with the outputs {self._outputs}"
            )
        self.vocabulary_size = outputs[0].shape[-1]
        if isinstance(self._ids.shape[0], int):
            self.rows = self._ids.shape[0]
        facts = self._session.get_modelmeta().custom_metadata_map
        self._initial = json.loads(facts.get("initial_state", "{}"))
        end = facts.get("end_of_sentence_id", facts.get("sos_id", "0"))
        self.end_of_sentence_id = int(end)
        page = path.with_name(FACTS)
        if not facts and page.is_file():
            # A file of the format `"web"` has its metadata in `model.json`.
            facts = json.loads(page.read_text(encoding="utf-8"))
            words = facts["vocabulary"]
            end = words["tokens"].index(words["end_of_sentence"])
            self.end_of_sentence_id = end
            self._initial = {
                name: one["initial"] or 0
                for name, one in facts["states"].items()
            }

    def initial_state(self, rows):
        state = {}
        for one in self._states:
            # The first axis has the name "rows" instead of a size.
            sizes = [rows if isinstance(n, str) else n for n in one.shape]
            if self.rows is not None:
                sizes[0] = rows
            begin = np.asarray(self._initial.get(one.name, 0))
            if begin.ndim:
                begin = begin.reshape(sizes[1:])
            state[one.name] = np.zeros(sizes, _DTYPES[one.type])
            state[one.name] += begin.astype(_DTYPES[one.type])
        return state

    def run(self, token_ids, state):
        inputs = {self._ids.name: token_ids.astype(_DTYPES[self._ids.type])}
        answer = self._session.run(None, {**inputs, **state})
        found = dict(zip(self._outputs, answer, strict=True))
        state = {name: found[f"next_{name}"] for name in state}
        return answer[0].reshape(len(token_ids), -1), state


class LiteRTStep(OneStep):
    """LiteRT file with a fixed number of rows."""

    description = "LiteRT file in its interpreter"

    def __init__(self, path):
        litert = import_package(
            "ai_edge_litert.interpreter",
            f"The LiteRT file {path}",
            "ai-edge-litert",
        )
        with reading(path, "exported model", _REMEDY):
            # The interpreter must outlive its runner.
            self._interpreter = litert.Interpreter(str(path), num_threads=1)
        if "step" not in self._interpreter.get_signature_list():
            raise ValueError(
                "`path` must be a file with a language model's signature "
                f"`step`. Received: {path}"
            )
        self._run = self._interpreter.get_signature_runner("step")
        self._inputs = self._run.get_input_details()
        self.rows = int(self._inputs["token_ids"]["shape"][0])
        outputs = self._run.get_output_details()
        self.vocabulary_size = int(outputs["log_probabilities"]["shape"][-1])
        if zipfile.is_zipfile(path):
            with (
                zipfile.ZipFile(path) as archive,
                tempfile.TemporaryDirectory() as folder,
            ):
                saved = archive.extract("vocabulary.json", folder)
                vocabulary = Vocabulary.from_file(saved)
            self.end_of_sentence_id = vocabulary.end_of_sentence_id

    def initial_state(self, rows):
        return {
            name: np.zeros((rows, *one["shape"][1:]), one["dtype"])
            for name, one in self._inputs.items()
            if name != "token_ids"
        }

    def run(self, token_ids, state):
        answer = self._run(token_ids=token_ids.astype("int32"), **state)
        return answer["log_probabilities"], {k: answer[k] for k in state}


class ServedModel:
    """SavedModel with a language model's signatures."""

    description = "SavedModel in TensorFlow"

    def __init__(self, path):
        user = f"The SavedModel {path}"
        tf = import_package("tensorflow", user)
        with reading(path, "exported model", _REMEDY):
            if b"SentencepieceOp" in (path / "saved_model.pb").read_bytes():
                # Registers SentencePiece's operators with TensorFlow.
                import_package("tensorflow_text", user, "tensorflow-text")
            # Keeps the variables alive, which the signatures do not.
            self._loaded = tf.saved_model.load(str(path))
        self._signatures = self._loaded.signatures
        if "score_ids" not in self._signatures:
            raise ValueError(
                "`path` must be a language model's SavedModel. Received: "
                f"{path}, with the signatures {sorted(self._signatures)}"
            )
        vocabulary = Vocabulary.from_file(
            path / "assets.extra" / "vocabulary.json"
        )
        self.vocabulary_size = len(vocabulary)
        self.end_of_sentence_id = vocabulary.end_of_sentence_id

    def _call(self, signature, **inputs):
        import tensorflow as tf

        inputs = {k: tf.convert_to_tensor(v) for k, v in inputs.items()}
        answer = self._signatures[signature](**inputs)
        return {name: value.numpy() for name, value in answer.items()}

    def distributions(self, token_ids):
        token_ids = np.asarray(token_ids, "int32")
        answer = self._call("serving_default", token_ids=token_ids)
        return answer["log_probabilities"]

    def score(self, token_ids):
        answer = self._call("score_ids", **_with_lengths(token_ids))
        return answer["log_probabilities"]

    def initial_state(self, rows):
        return self._call("initial_state", rows=np.zeros(rows, "int32"))

    def step(self, token_ids, state):
        state = self._call("step", **_with_lengths(token_ids), **state)
        ids = state.pop("top_k_ids")
        state.pop("top_k_words")
        found = np.ma.masked_all((*np.shape(token_ids), self.vocabulary_size))
        found[np.arange(len(ids))[:, None], -1, ids] = state.pop(
            "top_k_log_probabilities"
        )
        return found, state


def _with_lengths(token_ids):
    token_ids = np.asarray(token_ids, "int32")
    length = np.full(len(token_ids), token_ids.shape[1], "int32")
    return {"token_ids": token_ids, "length": length}

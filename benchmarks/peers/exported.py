"""Runs exported models in the engines that serve these models.

This process loads only the engine's library; another process writes the model.
"""

import importlib
import importlib.util
import json
import multiprocessing
import os
import pathlib
import tempfile
import time

import numpy as np

_C_CLIENT = pathlib.Path(__file__).parents[2] / "tests/serving/c_client.py"


class Exported:
    """Base class of exported models; each run starts from the initial state."""

    def __init__(self, case, path, threads):
        self.case = case
        self.load(path, threads)

    def losses(self, steps):
        """Returns the mean loss of all tokens that `steps` steps read."""
        outputs = []
        for probabilities, targets in self.read(steps):
            at = np.take_along_axis(probabilities, targets[:, None], axis=1)
            outputs.append(-at.mean())
        return float(np.mean(outputs))

    def steps(self, number):
        for _ in self.read(number):
            pass

    def read(self, number):
        """Yields log-probabilities `(B, V)` and targets `(B,)` of each step."""
        state = self.initial_state()
        for inputs, targets in zip(*self.case.batches(number)):
            for ids, expected in zip(inputs.T, targets.T):
                probabilities, state = self.step(ids[:, None], state)
                yield probabilities, expected

    def product(self, rows, inner, columns, dtype):
        left, right = np.ones((rows, inner)), np.ones((inner, columns))
        left, right = left.astype(dtype), right.astype(dtype)
        return lambda: left @ right


class OnnxRuntime(Exported):
    """Runs an ONNX file with onnxruntime."""

    format, file = "onnx", "model.onnx"

    def load(self, path, threads):
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        self.session = onnxruntime.InferenceSession(str(path), options)
        self.inputs = self.session.get_inputs()

    def initial_state(self):
        dtypes = {"tensor(float)": "float32", "tensor(int32)": "int32"}
        return [
            np.zeros((self.case.batch, *one.shape[1:]), dtypes[one.type])
            for one in self.inputs[1:]
        ]

    def step(self, ids, state):
        values = [ids.astype("int64"), *state]
        outputs, *state = self.session.run(
            None, {one.name: value for one, value in zip(self.inputs, values)}
        )
        return outputs, state


class LiteRT(Exported):
    """Runs a LiteRT file with LiteRT's interpreter."""

    format, file = "litert", "model.tflite"

    def load(self, path, threads):
        from ai_edge_litert.interpreter import Interpreter

        self.interpreter = Interpreter(str(path), num_threads=threads)
        self.runner = self.interpreter.get_signature_runner("step")

    def initial_state(self):
        return {
            name: np.zeros(one["shape"], one["dtype"])
            for name, one in self.runner.get_input_details().items()
            if name != "token_ids"
        }

    def step(self, ids, state):
        outputs = self.runner(token_ids=ids, **state)
        return outputs["log_probabilities"], {
            name: outputs[name] for name in state
        }


class SavedModel(Exported):
    """Runs a SavedModel with TensorFlow's C library, as TF Serving does."""

    format, file = "tf_saved_model", "1"

    def load(self, path, threads):
        del threads  # The library uses all threads of the process.
        # `numpy.random` crashes if it is loaded after TensorFlow's library.
        importlib.import_module("numpy.random")
        spec = importlib.util.spec_from_file_location("c_client", _C_CLIENT)
        client = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(client)
        self.session = client.Session(str(path))
        self.tensors = json.loads((path.parent / "tensors.json").read_text())
        # Run the warm-up requests, as TF Serving does.
        requests = {}
        with np.load(path.parent / "warm_up.npz") as arrays:
            for name, array in arrays.items():
                number, signature, key = name.split("/")
                requests.setdefault((number, signature), {})[key] = array
        for (_, signature), inputs in requests.items():
            self.call(signature, **inputs)

    def call(self, signature, **inputs):
        tensors = self.tensors[signature]
        fed = {tensors["inputs"][key]: value for key, value in inputs.items()}
        outputs = self.session.run(fed, list(tensors["outputs"].values()))
        return dict(zip(tensors["outputs"], outputs))

    def score(self, inputs, targets):
        rows, length = targets.shape
        ids = np.concatenate([inputs, targets[:, -1:]], axis=1)
        return self.call(
            "score_ids",
            token_ids=ids,
            length=np.full(rows, length + 1, "int32"),
        )["log_probabilities"]

    def losses(self, steps):
        rows = (
            part.transpose(1, 0, 2).reshape(self.case.batch, -1)
            for part in self.case.batches(steps)
        )
        return float(-self.score(*rows).mean())

    def steps(self, number):
        inputs, targets = self.case.batches(number)
        if self.case.time > 1:
            for segment in zip(inputs, targets):
                self.score(*segment)
            return
        one = np.ones(self.case.batch, "int32")
        state = self.call("initial_state", rows=one)
        for ids in inputs:
            outputs = self.call("step", token_ids=ids, length=one, **state)
            state = {name: outputs[name] for name in state}


ENGINES = {
    "tensorflow": SavedModel,
    "onnxruntime": OnnxRuntime,
    "litert": LiteRT,
}


def _export(case, variant, precision, format, path):
    """Exports the model of a case, in a process with TensorFlow."""
    from tensorflow.core.protobuf import saved_model_pb2

    import memlm_keras as memlm
    from benchmarks.peers import package

    words = [f"word_{index}" for index in range(case.vocabulary - 2)]
    options = {"rows": case.batch} if format == "litert" else {}
    if precision == "int8":
        options["quantize"] = precision
    memlm.serving.export(
        package.language_model(case, variant),
        path,
        memlm.data.Vocabulary(words),
        format=format,
        **options,
    )
    if format != "tf_saved_model":
        return
    saved = saved_model_pb2.SavedModel()
    saved.ParseFromString((path / "saved_model.pb").read_bytes())
    tensors = {
        name: {
            side: {key: value.name for key, value in getattr(one, side).items()}
            for side in ("inputs", "outputs")
        }
        for name, one in saved.meta_graphs[0].signature_def.items()
    }
    (path.parent / "tensors.json").write_text(json.dumps(tensors))
    _copy_warm_up(path)


def _copy_warm_up(path):
    """Writes the warm-up requests of a SavedModel as arrays. A name of an array
    consists of the request's number, its signature and the input's name."""
    import tensorflow as tf
    from tensorflow_serving.apis import prediction_log_pb2

    records = tf.data.TFRecordDataset(
        str(path / "assets.extra" / "tf_serving_warmup_requests")
    )
    arrays = {}
    for number, record in enumerate(records.as_numpy_iterator()):
        log = prediction_log_pb2.PredictionLog.FromString(record)
        request = log.predict_log.request
        for key, value in request.inputs.items():
            array = tf.make_ndarray(value)
            if array.dtype == object:
                array = array.astype("S")
            name = request.model_spec.signature_name
            arrays[f"{number}/{name}/{key}"] = array
    np.savez(path.parent / "warm_up.npz", **arrays)


def make(case, variant, precision, engine=None):
    """Exports the model of a case, in float32 or int8, and loads it."""
    # `benchmarks.worker` passes the engine as the backend.
    engine = engine or ENGINES[os.environ["KERAS_BACKEND"]]
    os.environ["KERAS_BACKEND"] = "tensorflow"
    folder = tempfile.TemporaryDirectory()
    path = pathlib.Path(folder.name, "model", engine.file)
    path.parent.mkdir()
    process = multiprocessing.get_context("spawn").Process(
        target=_export, args=(case, variant, precision, engine.format, path)
    )
    process.start()
    process.join()
    if process.exitcode:
        raise RuntimeError(f"the export to {engine.format} failed")
    files = [path] if path.is_file() else path.rglob("*")
    begin = time.perf_counter()
    made = engine(case, path, int(os.environ["OMP_NUM_THREADS"]))
    made.loading = time.perf_counter() - begin
    made.bytes = sum(file.stat().st_size for file in files if file.is_file())
    made.folder = folder
    return made

"""Reads ids one by one with an exported model in a Python engine.

    python -I engine_client.py ENGINE MODEL ids.npy scores.f32

ENGINE is the name of a class in this file. The program writes the
log-probabilities after each id as float32, and prints the milliseconds per word
to standard error. The program does not import this package, and uses only
TensorFlow's C library.
"""

import json
import pathlib
import sys
import time

import numpy as np


class OnnxRuntime:
    """Runs an ONNX file with named states in onnxruntime."""

    def __init__(self, path, rows=1):
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        self.session = onnxruntime.InferenceSession(
            path, options, providers=["CPUExecutionProvider"]
        )
        self.names = [one.name for one in self.session.get_outputs()]
        types = {"tensor(float)": "float32", "tensor(int32)": "int32"}
        facts = self.session.get_modelmeta().custom_metadata_map
        initial = json.loads(facts["initial_state"])
        self.state = {
            one.name: np.full(
                (rows, *one.shape[1:]),
                initial.get(one.name, 0),
                types[one.type],
            )
            for one in self.session.get_inputs()
            if one.name != "token_ids"
        }

    def step(self, token_ids):
        inputs = {"token_ids": np.reshape(token_ids, (-1, 1)), **self.state}
        found = dict(zip(self.names, self.session.run(None, inputs)))
        self.state = {name: found[f"next_{name}"] for name in self.state}
        return found["log_probabilities"]


class OpenVino:
    """Runs an ONNX or LiteRT file in OpenVINO, by the names of tensors."""

    def __init__(self, path):
        self.model = _compiled(path)
        self.state = {
            one.any_name: np.zeros(
                (1, *(size.get_length() for size in one.partial_shape[1:])),
                one.element_type.to_dtype(),
            )
            for one in self.model.inputs
        }
        self.dtype = self.state.pop("token_ids").dtype

    def step(self, token_id):
        token_ids = np.array([[token_id]], self.dtype)
        found = self.model({"token_ids": token_ids, **self.state})
        self.state = {name: found[f"next_{name}"] for name in self.state}
        return found["log_probabilities"]


class OpenVinoDefault:
    """Runs the signature `serving_default` of a SavedModel in OpenVINO, which
    has no other signature, on all ids at once."""

    def __init__(self, path):
        self.model = _compiled(path)

    def read(self, ids):
        token_ids = ids[None].astype("int32")
        return self.model({"token_ids": token_ids})["log_probabilities"]


def _compiled(path):
    import openvino

    # By default, OpenVINO computes in bfloat16 on processors that support it.
    options = {"INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": 1}
    return openvino.Core().compile_model(path, "CPU", options)


class LiteRt:
    """Runs a LiteRT file in LiteRT, by its signature."""

    def __init__(self, path):
        from ai_edge_litert.interpreter import Interpreter

        self.interpreter = Interpreter(str(path), num_threads=1)
        self.run = self.interpreter.get_signature_runner("step")
        self.state = {
            name: np.zeros(details["shape"], details["dtype"])
            for name, details in self.run.get_input_details().items()
            if name != "token_ids"
        }

    def step(self, token_id):
        found = self.run(
            token_ids=np.array([[token_id]], "int32"), **self.state
        )
        self.state = {name: found[name] for name in self.state}
        return found["log_probabilities"]


class TensorFlow:
    """Runs signatures of a SavedModel in TensorFlow's C library; a .json file
    contains the names of the tensors."""

    def __init__(self, path):
        sys.path.insert(0, str(pathlib.Path(__file__).parent))
        from c_client import Session

        self.session = Session(path)
        self.names = json.loads(pathlib.Path(f"{path}.json").read_text())
        self.state = self.call("initial_state", rows=np.zeros(1, "int32"))

    def call(self, signature, **inputs):
        names = self.names[signature]
        found = self.session.run(
            {names["inputs"][name]: value for name, value in inputs.items()},
            list(names["outputs"].values()),
        )
        return dict(zip(names["outputs"], found))

    def step(self, token_id):
        found = self.call(
            "step",
            token_ids=np.array([[token_id]], "int32"),
            length=np.ones(1, "int32"),
            **self.state,
        )
        self.state = {name: found[name] for name in self.state}
        # `top_k` is the size of the vocabulary, so the result has all words.
        scores = np.empty_like(found["top_k_log_probabilities"])
        ids = found["top_k_ids"]
        np.put_along_axis(scores, ids, found["top_k_log_probabilities"], 1)
        return scores


def main(engine, path, ids_path, scores_path):
    ids = np.load(ids_path)
    engine = globals()[engine](path)
    if hasattr(engine, "read"):
        engine.read(ids)
        start, words = time.perf_counter(), len(ids)
        scores = engine.read(ids)
    else:
        # Do not measure the first step, which takes longer.
        scores = [engine.step(ids[0])]
        start, words = time.perf_counter(), len(ids) - 1
        scores += [engine.step(token_id) for token_id in ids[1:]]
    taken = 1000 * (time.perf_counter() - start) / words
    pathlib.Path(scores_path).write_bytes(np.float32(scores).tobytes())
    print(f"{taken} ms a word", file=sys.stderr)
    assert not {"tensorflow", "keras", "memlm_keras"} & sys.modules.keys()


if __name__ == "__main__":
    main(*sys.argv[1:])

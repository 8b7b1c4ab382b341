"""A model for Triton's Python backend, which runs one step of the `model.onnx`
in its folder and keeps each sequence's state, as Triton's ONNX backend does."""

import pathlib

import numpy as np
import onnxruntime
import triton_python_backend_utils as utils

TYPES = {"tensor(float)": "float32", "tensor(int32)": "int32"}


class TritonPythonModel:
    """The server loads the model by this class name."""

    def initialize(self, arguments):
        folder = pathlib.Path(arguments["model_repository"])
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        self.session = onnxruntime.InferenceSession(
            folder / arguments["model_version"] / "model.onnx", options
        )
        self.initial = {
            one.name: np.zeros((1, *one.shape[1:]), TYPES[one.type])
            for one in self.session.get_inputs()
            if one.name != "token_ids"
        }
        self.outputs = [one.name for one in self.session.get_outputs()]
        self.states = {}

    def execute(self, requests):
        """Answers requests of several sequences in one run."""
        sequences = [request.correlation_id() for request in requests]
        for request, sequence in zip(requests, sequences):
            if request.flags() & utils.TRITONSERVER_REQUEST_FLAG_SEQUENCE_START:
                self.states[sequence] = self.initial
        token_ids = [
            utils.get_input_tensor_by_name(request, "token_ids").as_numpy()
            for request in requests
        ]
        states = [self.states[sequence] for sequence in sequences]
        found = self.session.run(
            self.outputs,
            {
                "token_ids": np.concatenate(token_ids),
                **{
                    name: np.concatenate([state[name] for state in states])
                    for name in self.initial
                },
            },
        )
        found = dict(zip(self.outputs, found))
        for row, (request, sequence) in enumerate(zip(requests, sequences)):
            self.states[sequence] = {
                name: found[f"next_{name}"][row : row + 1]
                for name in self.initial
            }
            if request.flags() & utils.TRITONSERVER_REQUEST_FLAG_SEQUENCE_END:
                del self.states[sequence]
        return [
            utils.InferenceResponse(
                [utils.Tensor("log_probabilities", scores[None].copy())]
            )
            for scores in found["log_probabilities"]
        ]

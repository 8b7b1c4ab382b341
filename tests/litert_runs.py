"""Runs LiteRT files as a phone does."""

import numpy as np
from serving.engine_client import LiteRt


class Session(LiteRt):
    """A LiteRT file, and the state that each step reads and returns."""

    def step(self, token_ids):
        found = self.run(token_ids=token_ids, **self.state)
        self.state = {name: found.pop(name) for name in self.state}
        return found

    def names(self):
        """Returns the tensor names of the inputs and of the outputs."""
        inputs = self.interpreter.get_input_details()
        outputs = self.interpreter.get_output_details()
        return [sorted(one["name"] for one in o) for o in (inputs, outputs)]

    def operators(self):
        details = self.interpreter._get_ops_details()
        return {operator["op_name"] for operator in details}

    def constants(self, dtype):
        """Returns the number of elements of all weights with a dtype."""
        return sum(
            np.prod(one["shape"])
            for one in self.interpreter.get_tensor_details()
            if one["dtype"] == dtype
        )


def require_names(session):
    """Asserts that tensors have the signature's names, different for inputs and
    outputs."""
    answers = ["log_probabilities", "top_k_ids", "top_k_log_probabilities"]
    answers += [f"next_{name}" for name in session.state]
    inputs = sorted(["token_ids", *session.state])
    assert session.names() == [inputs, sorted(answers)]

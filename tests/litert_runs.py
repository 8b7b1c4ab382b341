"""LiteRT files as a phone runs them."""

import numpy as np
from serving.engine_client import LiteRt


class Session(LiteRt):
    """A file, and the state that goes in and out of it."""

    def step(self, token_ids):
        found = self.run(token_ids=token_ids, **self.state)
        self.state = {name: found.pop(name) for name in self.state}
        return found

    def names(self):
        """Names of its inputs and of its outputs, as of tensors."""
        inputs = self.interpreter.get_input_details()
        outputs = self.interpreter.get_output_details()
        return [sorted(one["name"] for one in o) for o in (inputs, outputs)]

    def operators(self):
        details = self.interpreter._get_ops_details()
        return {operator["op_name"] for operator in details}

    def constants(self, dtype):
        """How many numbers of a type its weights have."""
        return sum(
            np.prod(one["shape"])
            for one in self.interpreter.get_tensor_details()
            if one["dtype"] == dtype
        )


def require_names(session):
    """Tensors have the names of the signature, and none is in and out."""
    answers = ["log_probabilities", "top_k_ids", "top_k_log_probabilities"]
    answers += [f"next_{name}" for name in session.state]
    inputs = sorted(["token_ids", *session.state])
    assert session.names() == [inputs, sorted(answers)]

"""Answers requests with a SavedModel where only TensorFlow is at hand.

    python -I tensorflow_client.py saved_model requests.npz responses.npz

`-I` keeps this checkout off the import path; Keras and the package are blocked
besides, wherever they are installed.
"""

import json
import sys

sys.modules["keras"] = None
sys.modules["memlm_keras"] = None
sys.modules["tensorflow_text"] = None

import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402
from tensorflow.core.protobuf import saved_model_pb2  # noqa: E402


def main(saved_model, requests_path, responses_path):
    requests = np.load(requests_path)
    token_ids = requests["token_ids"]
    signatures = tf.saved_model.load(saved_model).signatures
    responses = {}

    def call(signature, label, **inputs):
        inputs = {
            name: tf.constant(np.asarray(value))
            for name, value in inputs.items()
        }
        outputs = signatures[signature](**inputs)
        for name, value in inputs.items():
            responses[f"inputs/{label}/{name}"] = plain(value)
        for name, value in outputs.items():
            responses[f"{label}/{name}"] = plain(value)
        return outputs

    def state_of(outputs):
        return {name: outputs[name] for name in initial}

    rows = np.arange(len(token_ids), dtype="int32")
    lengths = np.array(requests["lengths"], "int32")
    call("serving_default", "serving_default", token_ids=token_ids)
    call("score", "score", text=requests["texts"])
    call("score_ids", "score_ids", token_ids=token_ids, length=lengths)
    call("next", "next", text=requests["texts"])
    call(
        "generate",
        "generate",
        text=requests["texts"][:3],
        length=np.array([6, 9, 3], "int32"),
        top_k=np.array([1, 1, 1], "int32"),
        temperature=np.ones(3, "float32"),
        seed=rows,
    )
    initial = state = call("initial_state", "initial_state", rows=rows)
    start = 0
    for stop in requests["stops"]:
        outputs = call(
            "step",
            f"step_{stop}",
            token_ids=token_ids[:, start:stop],
            length=np.full(len(rows), stop - start, "int32"),
            **state,
        )
        state = state_of(outputs)
        start = stop
    call("step", "step", token_ids=token_ids, length=lengths, **initial)
    outputs = call("begin", "begin", text=requests["texts"])
    words = np.array([b"word_4 word_2", b"word_3"] * 3)
    call("step_words", "step_words", text=words, **state_of(outputs))

    meta_graph = read_meta_graph(saved_model)
    tensors = {
        signature: {
            "inputs": names(definition.inputs),
            "outputs": names(definition.outputs),
        }
        for signature, definition in meta_graph.signature_def.items()
        if signature in signatures
    }
    np.savez(
        responses_path,
        operations=sorted(operations(meta_graph.graph_def)),
        tensors=json.dumps(tensors),
        variables=[
            "x".join(map(str, shape))
            for _, shape in tf.train.list_variables(
                f"{saved_model}/variables/variables"
            )
        ],
        **responses,
    )


def plain(value):
    """An array that a file holds without pickling."""
    value = np.asarray(value)
    return value.astype("S") if value.dtype == object else value


def names(tensors):
    return {name: tensor.name for name, tensor in tensors.items()}


def read_meta_graph(saved_model):
    message = saved_model_pb2.SavedModel()
    with open(f"{saved_model}/saved_model.pb", "rb") as file:
        message.ParseFromString(file.read())
    return message.meta_graphs[0]


def operations(graph):
    functions = graph.library.function
    nodes = [node for function in functions for node in function.node_def]
    return {node.op for node in [*graph.node, *nodes]}


if __name__ == "__main__":
    main(*sys.argv[1:])

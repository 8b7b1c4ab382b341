"""Small transducers that sherpa-onnx decodes with this package's models.

A token's score is the sum of two table entries, for its frame and for the
previous token. The audio has no effect, so tests can find the best path.
"""

import itertools
import json
import pathlib
import sys

import keras
import numpy as np
import onnx_runs
from preset_families import V
from preset_families import small

import memlm_keras as memlm
from memlm_keras.serving import export

CLIENT = pathlib.Path(__file__).parent / "serving" / "sherpa_client.py"
PIECES = ["<blk>", "<sos/eos>", "<unk>", *(f"piece_{i}" for i in range(V - 3))]
END = 1
# Id of the first piece that a transducer may emit.
FIRST = 3


def model(name, folder):
    """Makes a small model of a preset for the transducers' tokens in
    `tokens.txt`, and exports it in both formats of sherpa-onnx."""
    lines = (f"{piece} {id}\n" for id, piece in enumerate(PIECES))
    (folder / "tokens.txt").write_text("".join(lines))
    words = memlm.data.SubwordVocabulary.from_tokens_file(
        folder / "tokens.txt", unit="words"
    )
    lm = small(name, words=words)
    for contract in ("sherpa", "sherpa_offline"):
        path = folder / f"{contract}.onnx"
        export(lm, path, format="onnx", contract=contract)
    return lm


def scores(lm, paths):
    """Returns the log-probabilities of tokens, `(paths, T)`, and ends,
    `(paths,)`."""
    ids = np.pad(paths, ((0, 0), (1, 0)), constant_values=END)
    logits, _ = lm.step(ids.astype("int32"), lm.initial_state(len(ids)))
    logs = onnx_runs.array(keras.ops.log_softmax(logits))
    found = np.take_along_axis(logs[:, :-1], paths[..., None], axis=2)
    return found[..., 0], logs[:, -1, END]


def decode(folder, requests, run):
    """Decodes `requests` by the client, which `run` starts as a command;
    returns the results and what `run` returned."""
    (folder / "requests.json").write_text(json.dumps(requests))
    done = run(
        [
            *(sys.executable, "-I", CLIENT),
            *(folder / "requests.json", folder / "results.json"),
        ]
    )
    return json.loads((folder / "results.json").read_text()), done


def request(folder, kind, streaming, scale, paths):
    """Returns a request for the transducer `kind` in a folder."""
    contract = "sherpa" if streaming else "sherpa_offline"
    return {
        "streaming": streaming,
        "folder": str(folder / kind),
        "lm": str(folder / f"{contract}.onnx"),
        "scale": scale,
        "paths": paths,
    }


class Transducer:
    """A transducer that emits one of `candidates`, `(T, n)`, in each frame."""

    def __init__(self, candidates, random):
        frames = np.full((len(candidates), V), -100.0)
        heard = random.normal(0, 0.5, candidates.shape)
        np.put_along_axis(frames, candidates, heard, axis=1)
        self.frames = frames.astype("float32")
        self.context = random.normal(0, 0.5, (V, V)).astype("float32")
        self.paths = np.array(list(itertools.product(*candidates)))

    def scores(self):
        """Returns the log-probabilities of all paths without a language
        model."""
        before = np.pad(self.paths, ((0, 0), (1, 0)))[:, :-1]
        logits = self.frames + self.context[before]
        logs = logits - np.logaddexp.reduce(logits, axis=2, keepdims=True)
        found = np.take_along_axis(logs, self.paths[..., None], axis=2)
        return found.sum(axis=(1, 2))

    def write(self, folder, streaming):
        """Writes `encoder.onnx`, `decoder.onnx` and `joiner.onnx`."""
        from onnx import TensorProto
        from onnx.helper import make_node

        folder.mkdir()
        tokens = (folder.parent / "tokens.txt").read_text()
        (folder / "tokens.txt").write_text(tokens)
        real, integer = TensorProto.FLOAT, TensorProto.INT64
        count = len(self.frames)
        inputs = {"x": (real, ["N", "T", 80])}
        outputs = {"encoder_out": (real, ["N", count, V])}
        nodes = [
            make_node("Shape", ["x"], ["rows"], start=0, end=1),
            make_node("Concat", ["rows", "size"], ["shape"], axis=0),
            make_node("Expand", ["frames", "shape"], ["encoder_out"]),
        ]
        constants = {"frames": self.frames, "size": np.array([count, V])}
        metadata = {}
        if streaming:
            # The encoder reads one chunk of 80 frames; its two states have size
            # 1.
            metadata = {"model_type": "lstm", "num_encoder_layers": 1, "T": 80}
            metadata |= {"decode_chunk_len": 80}
            metadata |= {"rnn_hidden_size": 1, "d_model": 1}
            for name in ("h", "c"):
                inputs[name] = outputs[f"next_{name}"] = (real, [1, "N", 1])
                nodes.append(make_node("Identity", [name], [f"next_{name}"]))
        else:
            inputs["x_lens"] = outputs["encoder_out_lens"] = (integer, ["N"])
            constants["count"] = np.array([count])
            nodes += [
                make_node("Expand", ["count", "rows"], ["encoder_out_lens"])
            ]
        _write(folder / "encoder", nodes, inputs, outputs, constants, metadata)
        _write(
            folder / "decoder",
            [
                make_node("Gather", ["context", "y"], ["scores"], axis=0),
                make_node("Squeeze", ["scores", "axis"], ["decoder_out"]),
            ],
            {"y": (integer, ["N", 1])},
            {"decoder_out": (real, ["N", V])},
            {"context": self.context, "axis": np.array([1])},
            {"vocab_size": V, "context_size": 1},
        )
        _write(
            folder / "joiner",
            [make_node("Add", ["encoder_out", "decoder_out"], ["logit"])],
            {name: (real, ["N", V]) for name in ("encoder_out", "decoder_out")},
            {"logit": (real, ["N", V])},
        )


def _write(path, nodes, inputs, outputs, constants=None, metadata=None):
    import onnx
    from onnx import helper

    graph = helper.make_graph(
        nodes,
        path.name,
        [helper.make_tensor_value_info(k, *v) for k, v in inputs.items()],
        [helper.make_tensor_value_info(k, *v) for k, v in outputs.items()],
        [
            onnx.numpy_helper.from_array(value, name)
            for name, value in (constants or {}).items()
        ],
    )
    made = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8
    )
    helper.set_model_props(
        made, {key: str(value) for key, value in (metadata or {}).items()}
    )
    onnx.checker.check_model(made)
    onnx.save(made, path.with_suffix(".onnx"))

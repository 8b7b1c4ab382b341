"""Writing a model of a Triton repository, whose state the server keeps.

Runs on the TensorFlow backend of Keras only; `memlm_keras.serving.export`
gets here from every backend.
"""

import pathlib

from memlm_keras.serving import onnx_model

_TYPES = {"float32": "TYPE_FP32", "int32": "TYPE_INT32", "int64": "TYPE_INT64"}
_ROWS = 64
_LABELS = "tokens.txt"
# Ten minutes: by its own default, Triton forgets a sequence after one second.
_IDLE_MICROSECONDS = 600_000_000

_CONFIG = """\
# One streamed step of a language model. Triton keeps the state of each sequence
# between its requests: clients send one token id at a time.
platform: "onnxruntime_onnx"
max_batch_size: {rows}
input {{ name: "token_ids" data_type: TYPE_INT64 dims: [ 1 ] }}
output {{
  name: "log_probabilities"
  data_type: TYPE_FP32
  dims: [ {vocabulary_size} ]{labels}
}}
sequence_batching {{
  max_sequence_idle_microseconds: {idle}
  oldest {{ max_candidate_sequences: {rows} }}
{states}
}}
"""
_STATE = """\
  state {{
    input_name: "{name}"
    output_name: "next_{name}"
    data_type: {type}
    dims: {dims}
    initial_state {{
      name: "{name}"
      data_type: {type}
      dims: {dims}
      {data}
    }}
  }}"""


def write(model, vocabulary, options, path):
    """Writes the folder of one model in a Triton model repository.

    Args:
        model: a `memlm_keras.LanguageModel` or `Ensemble` in float32.
        vocabulary: `memlm_keras.data.Vocabulary` of the model's size, whose
            tokens become the labels of the output, or `None`.
        options: dict, nothing of which matters here.
        path: folder to write.
    """
    path = pathlib.Path(path)
    path.joinpath("1").mkdir(parents=True)
    contract = onnx_model.write(
        model, vocabulary, {"contract": "triton"}, path / "1" / "model.onnx"
    )
    labels = ""
    if vocabulary is not None:
        text = "".join(f"{token}\n" for token in vocabulary.tokens)
        path.joinpath(_LABELS).write_text(text, encoding="utf-8", newline="\n")
        labels = f'\n  label_filename: "{_LABELS}"'
    states = [
        _state(one, contract.streamed.initial[one.name], path / "initial_state")
        for one in contract.state_specification()
    ]
    path.joinpath("config.pbtxt").write_text(
        _CONFIG.format(
            rows=_ROWS,
            vocabulary_size=model.vocabulary_size,
            labels=labels,
            idle=_IDLE_MICROSECONDS,
            states="\n".join(states),
        )
    )


def _state(specification, initial, folder):
    """One state of the configuration, and its file if it begins with one."""
    data = "zero_data: true"
    if initial.any():
        folder.mkdir(exist_ok=True)
        folder.joinpath(specification.name).write_bytes(initial.tobytes())
        data = f'data_file: "{specification.name}"'
    return _STATE.format(
        name=specification.name,
        type=_TYPES[specification.dtype.name],
        dims=specification.shape[1:].as_list(),
        data=data,
    )

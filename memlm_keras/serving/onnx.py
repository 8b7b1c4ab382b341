"""Exports to ONNX and Triton, on the TensorFlow backend only.

In shapes, B is batch, T time, V vocabulary. N is sherpa-onnx's name for B."""

import contextlib
import json
import logging
import math
import pathlib

import keras
import numpy as np
import tensorflow as tf

from memlm_keras.serving.graph import StreamedStep
from memlm_keras.serving.graph import recurrent_layers
from memlm_keras.serving.graph import set_on_layers
from memlm_keras.serving.graph import without_loops

# The newest version that tf2onnx fully supports.
_OPSET = 17


def write(model, vocabulary, options, path):
    """Writes a float32 language model as an ONNX file. Returns the contract, an
    object that defines the file's inputs and outputs."""
    contract = CONTRACTS[options.get("contract")](model, vocabulary)
    with contextlib.nullcontext() if contract.loops else without_loops(model):
        written = convert(model, contract, contract.specification)
    for value in (*written.graph.input, *written.graph.output):
        axis = contract.rows.get(value.name, 0)
        value.type.tensor_type.shape.dim[axis].dim_param = "rows"
    for name, value in contract.facts().items():
        if not isinstance(value, str):
            # C++ programs may search this JSON without decoding escapes.
            value = json.dumps(value, ensure_ascii=False)
        written.metadata_props.add(key=name, value=value)
    with open(path, "wb") as file:
        file.write(written.SerializeToString())
    return contract


def convert(model, function, specification):
    """Converts a function that returns a dict of tensors to an
    `onnx.ModelProto`. Raises `ValueError` if ONNX lacks an operator."""
    import onnx
    import tf2onnx

    names = []

    def traced(*inputs):
        outputs = function(*inputs)
        names[:] = outputs
        return outputs

    logging.getLogger("tf2onnx").setLevel(logging.CRITICAL)
    with native_recurrence(model):
        converted, _ = tf2onnx.convert.from_function(
            tf.function(traced, autograph=False),
            specification,
            opset=_OPSET,
            custom_op_handlers={
                _PLACEHOLDER: (_replace, []),
                "Log1p": (_log1p, []),
            },
        )
    # TensorFlow sorts outputs by name, but engines read them by position.
    converted.graph.output.sort(key=lambda output: names.index(output.name))
    try:
        onnx.checker.check_model(converted, full_check=True)
    except (
        onnx.checker.ValidationError,
        onnx.shape_inference.InferenceError,
    ) as error:
        raise ValueError(
            "The model cannot be written in ONNX, which lacks an operator "
            'that the model needs. Use format="tf_saved_model". The missing '
            f"operator: {str(error).splitlines()[0]}"
        ) from error
    return converted


# === Inputs and outputs of each engine ===


class NamedState:
    """Step with an input `<name>` and output `next_<name>` for each state."""

    ids = "token_ids"
    # Maps tensors to the axis of their rows, if it is not the first.
    rows = {}
    # Whether the graph reads more than one step.
    loops = False

    def __init__(self, model, vocabulary):
        self.model = model
        self.vocabulary = vocabulary
        self.streamed = StreamedStep(model)
        self.specification = [
            tf.TensorSpec((None, 1), tf.int64, self.ids),
            *self.state_specification(),
        ]

    def state_specification(self):
        """Returns a list of named `tf.TensorSpec`s for the states."""
        return list(self.streamed.specification.values())

    def facts(self):
        """Returns the file's metadata, a dict of JSON values."""
        facts = {
            "vocabulary_size": self.model.vocabulary_size,
            "initial_state": {
                name: value.tolist()
                for name, value in self.streamed.initial.items()
                if value.any()
            },
        }
        if self.vocabulary is not None:
            facts |= {
                "tokens": list(self.vocabulary.tokens),
                "end_of_sentence_id": self.vocabulary.end_of_sentence_id,
                "unknown_id": self.vocabulary.unknown_id,
            }
        return facts

    def __call__(self, token_ids, *state):
        log_probabilities, new = self.streamed(
            _some_rows(token_ids), dict(zip(self.streamed.specification, state))
        )
        new = {f"next_{name}": value for name, value in new.items()}
        return {"log_probabilities": log_probabilities, **new}


class ColumnState(NamedState):
    """`NamedState` whose states have at least two axes, for Triton."""

    def state_specification(self):
        return [
            tf.TensorSpec(
                one.shape if one.shape.rank > 1 else (None, 1), one.dtype, name
            )
            for name, one in self.streamed.specification.items()
        ]

    def __call__(self, token_ids, *state):
        plain = [
            value if one.shape.rank > 1 else value[:, 0]
            for value, one in zip(state, self.streamed.specification.values())
        ]
        answer = super().__call__(token_ids, *plain)
        return {
            name: value[:, None] if value.shape.rank == 1 else value
            for name, value in answer.items()
        }


class SherpaOnline(NamedState):
    """Step with the inputs of sherpa-onnx's online language models."""

    ids = "x"
    rows = {name: 1 for name in ("h", "c", "next_h", "next_c")}

    def state_specification(self):
        self.sizes = {
            name: math.prod(one.shape[1:])
            for name, one in self.streamed.specification.items()
        }
        # The elements of all states, and a zero if their number is odd, are
        # divided into two halves, sherpa-onnx's tensors `h` and `c`.
        self.hidden = max(1, math.ceil(sum(self.sizes.values()) / 2))
        return [
            tf.TensorSpec((1, None, self.hidden), tf.float32, name)
            for name in ("h", "c")
        ]

    def facts(self):
        return {
            "model_type": "rnnlm",
            "num_layers": 1,
            "hidden_size": self.hidden,
            **_ids_of(self),
        }

    def __call__(self, x, h, c):
        packed = tf.concat([h[0], c[0]], axis=1)[:, : sum(self.sizes.values())]
        parts = tf.split(packed, list(self.sizes.values()), axis=1)
        state = {}
        for (name, one), part in zip(
            self.streamed.specification.items(), parts
        ):
            if not one.dtype.is_floating:
                part = tf.cast(tf.round(part), one.dtype)
            state[name] = tf.reshape(part, (-1, *one.shape[1:]))
        scores, new = self.streamed(_some_rows(x), state)
        flat = [
            tf.cast(tf.reshape(new[name], (-1, size)), tf.float32)
            for name, size in self.sizes.items()
        ]
        padding = 2 * self.hidden - sum(self.sizes.values())
        flat.append(tf.zeros((tf.shape(x)[0], padding)))
        h, c = tf.split(tf.concat(flat, axis=1), 2, axis=1)
        return {"scores": scores[:, None], "next_h": h[None], "next_c": c[None]}


class SherpaOffline(NamedState):
    """Scores whole texts, without state, for sherpa-onnx's rescoring."""

    loops = True

    def __init__(self, model, vocabulary):
        self.model = model
        self.vocabulary = vocabulary
        self.specification = [
            tf.TensorSpec((None, None), tf.int64, "x"),
            tf.TensorSpec((None,), tf.int64, "x_lens"),
        ]

    def facts(self):
        return {"model_type": "rnnlm", **_ids_of(self)}

    def __call__(self, x, x_lens):
        """Scores int64 ids `(N, T)` and the end of each row, from an empty
        context. `x_lens` `(N,)` has the lengths."""
        end = self.vocabulary.end_of_sentence_id
        x = _some_rows(x)
        lengths = tf.cast(x_lens, tf.int32)[:, None]
        places = tf.range(tf.shape(x)[1] + 1)[None]
        # Padding may have an invalid id: replace it with the end id.
        words = tf.where(places[:, :-1] < lengths, tf.cast(x, tf.int32), end)
        ends = tf.fill((tf.shape(x)[0], 1), end)
        scores, _ = self.model.backbone.score(
            tf.concat([ends, words], axis=1), tf.concat([words, ends], axis=1)
        )
        scores = tf.where(places <= lengths, scores, 0.0)
        return {"nll": -tf.reduce_sum(scores, axis=1)}


def _some_rows(token_ids):
    """Returns the ids; raises an error if there are no rows, because then
    onnxruntime's LSTM would crash."""
    first = tf.gather(token_ids, 0)
    # `gather` fails without rows. So that the converter keeps `gather`,
    # `maximum` uses its result; `maximum` changes no valid id.
    return tf.maximum(token_ids, tf.minimum(first, 0))


def _ids_of(contract):
    end = contract.vocabulary.end_of_sentence_id
    return {
        "vocab_size": contract.model.vocabulary_size,
        "sos_id": end,
        "eos_id": end,
    }


CONTRACTS = {
    None: NamedState,
    "sherpa": SherpaOnline,
    "sherpa_offline": SherpaOffline,
    "triton": ColumnState,
}


# === Keras' LSTM and GRU as ONNX's operators ===
#
# While a model is traced, an LSTM or GRU with Keras' default activations is a
# placeholder operator in the TensorFlow graph, which the converter replaces.
# Other layers are traced as usual.

# ONNX's operator for each cell, and Keras' gate indices in ONNX's order.
_OPERATORS = {
    keras.layers.LSTMCell: ("LSTM", (0, 3, 1, 2)),
    keras.layers.GRUCell: ("GRU", (0, 1, 2)),
}
# The operator in the TensorFlow graph that stands for a layer.
_PLACEHOLDER = "PyFunc"


def native_recurrence(model):
    """Returns a context in which an LSTM or GRU is traced as one operator."""

    def attributes(layer):
        cell = layer.cell
        if (
            type(cell) in _OPERATORS
            and cell.activation is keras.activations.tanh
            and cell.recurrent_activation is keras.activations.sigmoid
        ):
            # With `unroll`, Keras does not trace the layer in a loop.
            return {"call": _call(layer), "unroll": True}
        return {}

    return set_on_layers(recurrent_layers(model), attributes)


def _call(layer):
    """Returns a `call` method that traces a layer as one placeholder."""
    operator, _ = _OPERATORS[type(layer.cell)]
    units = layer.cell.units
    weights = onnx_weights(layer.cell)

    def call(sequences, initial_state=None, mask=None, training=False):
        if initial_state is None:
            initial_state = layer.get_initial_state(tf.shape(sequences)[0])
        # In ONNX, time is the first axis, and directions have an extra axis.
        outputs, *states = tf.raw_ops.PyFunc(
            input=[
                tf.transpose(sequences, (1, 0, 2)),
                *map(tf.constant, weights),
                *(state[None] for state in initial_state),
            ],
            token=f"{operator} {int(getattr(layer.cell, 'reset_after', 0))}",
            Tout=[tf.float32] * (1 + len(initial_state)),
        )
        time = sequences.shape[1]
        outputs = tf.ensure_shape(outputs, (time, 1, None, units))[:, 0]
        states = [
            tf.ensure_shape(state, (1, None, units))[0] for state in states
        ]
        return tf.transpose(outputs, (1, 0, 2)), *states

    return call


def onnx_weights(cell):
    """Converts a built LSTM or GRU cell's weights to ONNX: kernel `(1, gates *
    units, features)`, recurrent kernel, biases `(1, 2 * gates * units)`."""
    _, order = _OPERATORS[type(cell)]

    def ordered(weight):
        gates = np.split(keras.ops.convert_to_numpy(weight), len(order), -1)
        return np.concatenate([gates[place] for place in order], -1)

    biases = np.zeros((2, len(order) * cell.units), "float32")
    if cell.use_bias:
        bias = ordered(cell.bias)
        biases[: len(np.atleast_2d(bias))] = bias
    return (
        np.ascontiguousarray(ordered(cell.kernel).T[None]),
        np.ascontiguousarray(ordered(cell.recurrent_kernel).T[None]),
        biases.reshape(1, -1),
    )


def _replace(context, node, name, arguments):
    """Replaces the `PyFunc` that stands for a layer with ONNX's LSTM or GRU."""
    operator, after = node.get_attr_str("token").split()
    attributes = {"hidden_size": context.get_shape(node.input[2])[2]}
    if operator == "GRU":
        attributes["linear_before_reset"] = int(after)
    features, kernel, recurrent_kernel, biases, *states = node.input
    # The empty name leaves out the lengths of rows: all rows are equally long.
    inputs = [features, kernel, recurrent_kernel, biases, "", *states]
    _put(context, node, operator, inputs, attributes)


def _log1p(context, node, name, arguments):
    one = context.make_const(f"{name}_one", np.ones((), "float32"))
    total = context.make_node("Add", [node.input[0], one.output[0]])
    _put(context, node, "Log", total.output)


def _put(context, node, operator, inputs, attributes=None):
    """Replaces a node with an ONNX operator."""
    place = {
        "outputs": list(node.output),
        "shapes": node.output_shapes,
        "dtypes": node.output_dtypes,
    }
    context.remove_node(node.name)
    context.make_node(operator, inputs, attr=attributes, **place)


# === Triton, which keeps the state of models ===

_TYPES = {"float32": "TYPE_FP32", "int32": "TYPE_INT32", "int64": "TYPE_INT64"}
_ROWS = 64
_LABELS = "tokens.txt"
# Triton ends a sequence after ten idle minutes; the default is one second.
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


def write_triton(model, vocabulary, options, path):
    """Writes the folder of a model for a Triton model repository. The tokens of
    the vocabulary, if any, are the labels of the output."""
    path = pathlib.Path(path)
    path.joinpath("1").mkdir(parents=True)
    contract = write(
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
    """Returns a state's configuration; writes its initial value if not zero."""
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

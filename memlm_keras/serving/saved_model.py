"""Exports SavedModels with signatures, on the TensorFlow backend only.

In shapes, B is batch, T time, V vocabulary, k most probable tokens, C labels.
"""

import hashlib
import itertools
import json

import tensorflow as tf
from keras import ops

from memlm_keras.data.words_in_graph import Words
from memlm_keras.models import EntailmentClassifier
from memlm_keras.models.ensemble import models_of
from memlm_keras.serving.graph import Condition
from memlm_keras.serving.graph import Input
from memlm_keras.serving.graph import RowReader
from memlm_keras.serving.graph import all_hold
from memlm_keras.serving.graph import generate
from memlm_keras.serving.graph import in_range
from memlm_keras.serving.graph import require
from memlm_keras.serving.graph import require_inputs
from memlm_keras.serving.graph import require_words
from memlm_keras.serving.graph import trace

FINGERPRINT = "fingerprint"
WARM_UP = "tf_serving_warmup_requests"
_WORDS = 3  # Number of words in an example request.
_TURNS = 3  # Number of times that a server runs each request to warm up.
_LARGEST_EXAMPLE = 2**20  # Largest size of an example request in bytes.
_PAGE = """\
# {title}

{facts}

## Use, and its limits

The model is meant for text like its training text: on other text its numbers
mean little. Its output is not checked, and may repeat the training text, with
its errors and biases. {licence}

## Signatures

The first size is the number of rows, and `?` is any size. In memlm_keras,
`docs/how_to/formats.md` describes the inputs and outputs.

| signature | inputs | outputs |
|---|---|---|
{signatures}

{state}## Requests

Example requests for the signatures{but}. To send one to a server by REST:

    curl -d @requests/{first}.json http://localhost:8501/v1/models/NAME:predict

{requests}

A server runs such requests to warm up before it answers others.
"""
_TOKEN_IDS = tf.TensorSpec((None, None), tf.int32)
_TEXT = tf.TensorSpec((None,), tf.string)
_INTEGERS = tf.TensorSpec((None,), tf.int32)
_FLOATS = tf.TensorSpec((None,), tf.float32)


def write(model, vocabulary, options, path):
    """Writes a SavedModel. `options` contains the arguments of the signatures'
    class, and `card`, a dict of facts for the model card."""
    options = dict(options)
    card = options.pop("card")
    kind = LanguageModelSignatures
    if isinstance(model, EntailmentClassifier):
        kind = EntailmentSignatures
    signatures = kind(model, vocabulary, **options)
    functions = signatures.concrete_functions()
    # The model is not an attribute of the module, or else its state variables
    # would be saved, and all requests would share one state.
    module = tf.Module()
    module.words = signatures.words.resources
    module.weights = functions["serving_default"].variables
    tf.saved_model.save(module, str(path), signatures=functions)
    extra = path / "assets.extra"
    extra.mkdir()
    vocabulary.save(extra / "vocabulary.json")
    if "labels" in options:
        text = json.dumps(options["labels"]) + "\n"
        (extra / "labels.json").write_text(text)
    most = options.get("max_length", _WORDS)
    requests = example_requests(functions, vocabulary, most)
    _write_warm_up(requests, extra / WARM_UP)
    _write_card(functions, requests, card, extra)


# === Signatures ===


class LanguageModelSignatures:
    """Signatures of a served language model, one method each."""

    def __init__(self, model, vocabulary, top_k, max_length):
        self.model = model
        self.vocabulary = vocabulary
        self.end = vocabulary.end_of_sentence_id
        self.top_k = top_k
        self.max_length = max_length
        self.words = Words(vocabulary)
        self.state = ServedState(model, vocabulary)
        self.reader = RowReader(model, self.state.own)
        # Each function is traced once for all signatures.
        self._encoded = tf.function(self._encode, (_TEXT,), autograph=False)
        self._begun = tf.function(self._begin, (_TEXT,), autograph=False)

    def concrete_functions(self):
        """Returns the traced signatures by name."""
        state = self.state.specification
        ids = {"token_ids": _TOKEN_IDS, "length": _INTEGERS}
        return trace(
            self,
            {
                "serving_default": {"token_ids": _TOKEN_IDS},
                "score": {"text": _TEXT},
                "score_ids": ids,
                "begin": {"text": _TEXT},
                "step": {**ids, **state},
                "step_words": {"text": _TEXT, **state},
                "next": {"text": _TEXT},
                "generate": {
                    "text": _TEXT,
                    "length": _INTEGERS,
                    "top_k": _INTEGERS,
                    "temperature": _FLOATS,
                    "seed": _INTEGERS,
                },
                "initial_state": {"rows": _INTEGERS},
            },
        )

    def serving_default(self, token_ids):
        """Returns next-token distributions after each of the ids `(B, T)`."""
        token_ids = require_inputs(
            Input("token_ids", token_ids, (None,), (self._in_vocabulary,))
        )["token_ids"]
        state = self.model.initial_state(tf.shape(token_ids)[0])
        log_probabilities, _ = self.reader.step(token_ids, state)
        return {"log_probabilities": log_probabilities}

    def score(self, text):
        """Scores the words of texts `(B,)`, and the end of each text."""
        tokens, ids = self._encoded(text)
        end = tf.fill((ids.nrows(out_type=tf.int32), 1), self.end)
        targets = tf.concat([ids, end], axis=1).to_tensor()
        # Padding at the end does not affect earlier steps.
        length = _lengths(ids) + 1
        end_token = tf.gather(self.words.tokens, end)
        unknown = targets == self.vocabulary.unknown_id
        return {
            "tokens": tf.concat([tokens, end_token], axis=1).to_tensor(),
            "unknown": unknown & tf.sequence_mask(length),
            **self._scores(
                tf.concat([end, ids], axis=1).to_tensor(), targets, length
            ),
        }

    def score_ids(self, token_ids, length):
        """Scores ids `(B, T)`, each given the ids before it."""
        token_ids, length, _ = self._valid_ids(token_ids, length)
        return self._scores(token_ids[:, :-1], token_ids[:, 1:], length - 1)

    def _scores(self, token_ids, targets, length):
        state = self.model.initial_state(tf.shape(token_ids)[0])
        scores = self.reader.score(token_ids, targets, length, state)
        return {
            "log_probabilities": scores,
            "log_probability": tf.reduce_sum(scores, axis=1),
            "length": length,
        }

    def initial_state(self, rows):
        """Returns the state before the first token; `rows` is `(B,)`."""
        rows = require_inputs(Input("rows", rows))["rows"]
        state = self.model.initial_state(tf.shape(rows)[0])
        return self.state.to_request(state, tf.shape(rows))

    def begin(self, text):
        """Returns the most probable tokens and the state after texts `(B,)`."""
        return self._answer(*self._begun(text))

    def next(self, text):
        """Returns the most probable tokens after texts `(B,)`."""
        return self._most_probable(self._begun(text)[0])

    def step(self, token_ids, length, **state):
        """Continues a state with ids `(B, T)`; returns the most probable next
        tokens and the new state."""
        token_ids, length, state = self._valid_ids(token_ids, length, state)
        return self._continue(token_ids, length, state)

    def step_words(self, text, **state):
        """Continues a state with texts `(B,)`; returns the most probable next
        tokens and the new state."""
        checked = require_inputs(Input("text", text), *self.state.inputs(state))
        _, ids = self._encoded(checked.pop("text"))
        ids = require_words("text", ids)
        return self._continue(ids.to_tensor(), _lengths(ids), checked)

    def generate(self, text, length, top_k, temperature, seed):
        """Continues texts `(B,)`, with separate options for each text."""
        most = {"length": self.max_length, "top_k": self.top_k}

        def is_positive(one, temperature, _):
            return Condition(
                all_hold((temperature > 0) & tf.math.is_finite(temperature)),
                "`temperature` must be finite and more than 0",
                lambda: temperature,
            )

        options = require_inputs(
            Input("text", text),
            Input("length", length, (), (in_range(1, most["length"]),)),
            Input("top_k", top_k, (), (in_range(1, most["top_k"]),)),
            Input("temperature", temperature, (), (is_positive,)),
            Input("seed", seed),
        )
        text = options.pop("text")
        ids, scores, length = generate(
            self.reader, *self._begun(text), options, self.end, most
        )
        written = tf.RaggedTensor.from_tensor(ids, length)
        texts = self.words.detokenize(
            tf.ragged.boolean_mask(written, written != self.end)
        )
        tokens = tf.gather(self.words.tokens, written).to_tensor()
        return {
            "text": texts,
            "token_ids": ids,
            "tokens": tokens,
            "log_probabilities": scores,
            "length": length,
        }

    def _begin(self, text):
        """Reads texts after an end-of-sentence token; returns log-probabilities
        `(B, V)` and the state."""
        _, ids = self._encoded(text)
        end = tf.fill((ids.nrows(out_type=tf.int32), 1), self.end)
        return self.reader.read(
            tf.concat([end, ids], axis=1).to_tensor(),
            _lengths(ids) + 1,
            self.model.initial_state(tf.shape(end)[0]),
        )

    def _continue(self, token_ids, length, checked):
        state = self.state.from_request(checked, tf.shape(token_ids)[0])
        return self._answer(*self.reader.read(token_ids, length, state))

    def _answer(self, log_probabilities, state):
        return {
            **self._most_probable(log_probabilities),
            **self.state.to_request(state, tf.shape(log_probabilities)[:1]),
        }

    def _most_probable(self, log_probabilities):
        values, ids = tf.math.top_k(log_probabilities, self.top_k)
        return {
            "top_k_ids": ids,
            "top_k_words": tf.gather(self.words.tokens, ids),
            "top_k_log_probabilities": values,
        }

    def _encode(self, text):
        """Encodes texts up to `max_length`; returns ragged tokens and ids."""
        text = require_inputs(Input("text", text))["text"]
        tokens = self.words.tokenize(text)
        counts = tokens.row_lengths()
        few = Condition(
            tf.reduce_all(counts <= self.max_length),
            f"`text` must hold at most {self.max_length} tokens in each row",
            lambda: tf.reduce_max(counts),
        )
        tokens = require(few, tokens)
        return tokens, self.words.look_up(tokens)

    def _valid_ids(self, token_ids, length, state=None):
        """Checks a request. Returns ids with zeros after the end of each row,
        the lengths of rows, and the tensors of the state."""
        checked = require_inputs(
            Input("token_ids", token_ids, (None,)),
            Input(
                "length",
                length,
                (),
                (
                    in_range(
                        1,
                        lambda time: tf.minimum(time, self.max_length),
                        f"the time of `token_ids`, and {self.max_length}",
                    ),
                ),
            ),
            *(self.state.inputs(state) if state else ()),
        )
        token_ids, length = checked.pop("token_ids"), checked.pop("length")
        valid = tf.sequence_mask(length, tf.shape(token_ids)[1])
        ids = tf.where(valid, token_ids, 0)
        known = self._in_vocabulary(Input("token_ids", ids), ids, None)
        return require(known, ids), length, checked

    def _in_vocabulary(self, one, token_ids, time):
        # Keras would use a negative id as an index from the end.
        most = len(self.vocabulary) - 1
        return in_range(0, most)(one, token_ids, time)


class EntailmentSignatures:
    """Signature of a served `memlm_keras.EntailmentClassifier`."""

    def __init__(self, model, vocabulary, labels):
        self.model = model
        self.words = Words(vocabulary)
        self.labels = tf.constant(labels)

    def concrete_functions(self):
        """Returns the traced signatures by name."""
        return trace(
            self, {"serving_default": {"premise": _TEXT, "hypothesis": _TEXT}}
        )

    def serving_default(self, premise, hypothesis):
        """Classifies pairs of texts; returns labels and probabilities."""
        checked = require_inputs(
            Input("premise", premise), Input("hypothesis", hypothesis)
        )
        some = Condition(
            tf.size(premise) > 0,
            "`premise` must hold at least one row",
            lambda: premise,
        )
        premise, hypothesis = require(some, list(checked.values()))
        inputs = {
            **self._sentences("premise", premise),
            **self._sentences("hypothesis", hypothesis),
        }
        logits = tf.cast(self.model(inputs, training=False), tf.float32)
        return {
            "label": tf.gather(self.labels, tf.argmax(logits, axis=-1)),
            "probabilities": tf.nn.softmax(logits),
        }

    def _sentences(self, name, text):
        ids = require_words(name, self.words.encode(text))
        return {name: ids.to_tensor(), f"{name}_length": _lengths(ids)}


def _lengths(ids):
    return tf.cast(ids.row_lengths(), tf.int32)


# === The state in requests ===


class ServedState:
    """Converts a language model's state to and from requests."""

    def __init__(self, model, vocabulary):
        self.model = model
        self.own = {
            name: tf.TensorSpec((None, *value.shape[1:]), value.dtype)
            for name, value in model.initial_state(1).items()
        }
        # JSON loses dtypes, and the shapes of empty tensors.
        self.specification = {
            name: tf.TensorSpec(
                one.shape, tf.float32 if one.dtype.is_floating else tf.int32
            )
            for name, one in self.own.items()
            if 0 not in one.shape[1:].as_list()
        }
        self.specification[FINGERPRINT] = tf.TensorSpec((None,), tf.int32)
        self.fingerprint = fingerprint(model, vocabulary, self.own)

    def inputs(self, received):
        """Yields an `Input` for a model's `fingerprint`, and one per state."""
        known = received[FINGERPRINT]
        yield Input(FINGERPRINT, known, (), (self._is_own,))
        for name, one in self.own.items():
            if name in self.specification:
                # An integer state holds token ids, or one count per row.
                is_ids = len(one.shape) > 1
                most = self.model.vocabulary_size - 1 if is_ids else None
                right = in_range(0, most)
                if one.dtype.is_floating:
                    right = self._is_finite
                sizes = tuple(one.shape[1:])
                yield Input(name, received[name], sizes, (right,))

    def _is_own(self, one, marks, time):
        return Condition(
            all_hold(marks == self.fingerprint),
            f"`{FINGERPRINT}` is not that of this model: the state comes from "
            "another model or version. Start again with `begin` or "
            "`initial_state`",
            lambda: marks,
        )

    def _is_finite(self, one, value, time):
        dtype = self.own[one.name].dtype
        return Condition(
            all_hold(tf.math.is_finite(tf.cast(value, dtype))),
            f"`{one.name}` must be finite numbers, within {dtype.name}",
            lambda: value,
        )

    def from_request(self, checked, rows):
        """Converts checked tensors in a request to the model's state."""
        return {
            name: tf.cast(checked[name], one.dtype)
            if name in checked
            else tf.zeros((rows, *one.shape[1:]), one.dtype)
            for name, one in self.own.items()
        }

    def to_request(self, state, shape):
        """Converts the model's state to tensors for an answer. `shape` is
        `(B,)`, which the state of a model without a memory does not show."""
        carried = {
            name: tf.cast(state[name], one.dtype)
            for name, one in self.specification.items()
            if name != FINGERPRINT
        }
        return {**carried, FINGERPRINT: tf.fill(shape, self.fingerprint)}


def fingerprint(model, vocabulary, state):
    """Computes an integer in [1, 2^31 - 1] that identifies weights, vocabulary
    and state shapes. The state in a request contains this number; a model
    rejects the state of another model."""
    digest = hashlib.sha256(vocabulary.fingerprint.encode())
    digest.update(repr(sorted(state.items())).encode())
    for part in models_of(model):
        for layer in part.backbone.layers().values():
            for weight in layer.weights:
                value = ops.convert_to_numpy(weight)
                digest.update(f"{value.shape} {value.dtype} ".encode())
                digest.update(value.tobytes())
    return int.from_bytes(digest.digest()[:8], "big") % (2**31 - 1) + 1


# === Example requests, warm-up and model card ===


def example_requests(functions, vocabulary, max_length):
    """Returns a dict from signatures' names to example requests. A request is a
    dict of tensors with one row."""
    words = list(itertools.islice(_plain_words(vocabulary), _WORDS)) or [
        vocabulary.tokens[vocabulary.unknown_id]
    ]
    while len(words) > 1 and len(vocabulary.encode(" ".join(words))) > (
        max_length - 1
    ):
        words.pop()
    ids = list(vocabulary.encode(" ".join(words)))[:max_length]
    text = tf.constant([" ".join(words)])
    values = {
        "text": text,
        "premise": text,
        "hypothesis": text,
        "token_ids": tf.constant([ids], tf.int32),
        "rows": tf.constant([0]),
        "length": tf.constant([len(ids)]),
        "top_k": tf.constant([1]),
        "temperature": tf.constant([1.0]),
        "seed": tf.constant([0]),
    }
    if "initial_state" in functions:
        values |= functions["initial_state"](rows=values["rows"])
    return {
        name: {key: values[key] for key in _inputs(function)}
        for name, function in functions.items()
    }


def _inputs(function):
    """Returns a dict from a signature's inputs to their `tf.TensorSpec`s."""
    specs = tf.nest.flatten(function.structured_input_signature)
    return {spec.name: spec for spec in specs}


def _plain_words(vocabulary):
    """Yields words that are encoded as one token, alphabetic ones first."""
    special = (vocabulary.unknown_id, vocabulary.end_of_sentence_id)
    tokens = list(enumerate(vocabulary.tokens))
    for index, token in sorted(tokens, key=lambda item: not item[1].isalpha()):
        if index not in special and list(vocabulary.encode(token)) == [index]:
            yield token


def _write_warm_up(requests, path):
    """Writes requests with which a server warms up, as records of
    `tensorflow_serving.apis.prediction_log_pb2.PredictionLog`."""
    with tf.io.TFRecordWriter(str(path)) as file:
        for name, request in [*requests.items(), *_smaller(requests)]:
            inputs = b""
            for key, value in request.items():
                tensor = tf.make_tensor_proto(value).SerializeToString()
                entry = _field(1, key.encode()) + _field(2, tensor)
                inputs += _field(2, entry)
            signature = _field(1, _field(3, name.encode()))
            # A server is slow until a request has run several times.
            for _ in range(_TURNS):
                file.write(_field(6, _field(1, signature + inputs)))


def _smaller(requests):
    """Yields requests with one token, which run another branch of the graph."""
    for name, request in requests.items():
        if "token_ids" in request and "length" in request:
            ids, length = request["token_ids"][:, :1], request["length"][:1]
            yield (
                name,
                {**request, "token_ids": ids, "length": length // length},
            )


def _field(number, content):
    """Encodes a protocol buffer's field whose content is bytes."""
    size, length = len(content), b""
    while size > 127:
        length += bytes([128 | size % 128])
        size //= 128
    return bytes([8 * number + 2]) + length + bytes([size]) + content


def _write_card(functions, requests, facts, folder):
    """Writes the model card and its example requests for REST."""
    (folder / "requests").mkdir()
    written = []
    for name, request in requests.items():
        columns = {k: v.numpy().tolist() for k, v in request.items()}
        body = {"signature_name": name, "inputs": columns}
        # `json` cannot write the bytes of texts.
        body = json.dumps(body, default=bytes.decode)
        if len(body) <= _LARGEST_EXAMPLE:
            (folder / "requests" / f"{name}.json").write_text(body + "\n")
            written.append(name)
    facts = dict(facts)
    page = _PAGE.format(
        licence="The licence is above."
        if "licence" in facts
        else "The licence of the training text is not recorded: ask\n"
        "those who trained the model.",
        title=facts.pop("name"),
        facts="\n".join(
            f"* {key}: {value:,}"
            if isinstance(value, int)
            else f"* {key}: {value}"
            for key, value in facts.items()
        ),
        signatures="\n".join(
            f"| `{name}` | {_tensors(_inputs(function))} "
            f"| {_tensors(function.structured_outputs)} |"
            for name, function in functions.items()
        ),
        state=_state_section(functions),
        but="" if len(written) == len(requests) else ", except the largest",
        first="score" if "score" in written else written[0],
        requests="\n".join(f"* `requests/{name}.json`" for name in written),
    )
    (folder / "model_card.md").write_text(page, encoding="utf-8")


def _state_section(functions):
    if "initial_state" not in functions:
        return ""
    specs = functions["initial_state"].structured_outputs.values()
    size = sum(
        spec.dtype.size * spec.shape[1:].num_elements() for spec in specs
    )
    return (
        "## State\n\n"
        f"Each `step` receives and returns {size:,} bytes of state per row. "
        "Another model or version rejects this state.\n\n"
    )


def _tensors(specs):
    texts = []
    for key, spec in specs.items():
        sizes = ["?" if size is None else str(size) for size in spec.shape]
        shape = ", ".join(sizes) + "," * (len(sizes) == 1)
        texts.append(f"`{key}` {spec.dtype.name} ({shape})")
    return ", ".join(texts)

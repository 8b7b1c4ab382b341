"""Builds TensorFlow graphs from models, on the TensorFlow backend only.

In shapes, B is batch, T time, V vocabulary, k most probable tokens."""

import contextlib
from collections.abc import Callable
from typing import NamedTuple

import keras
import tensorflow as tf

from memlm_keras.models.ensemble import models_of

# Largest number of logits in a segment; two float32 copies take 256 MiB.
LOGITS = 2**25
STEPS = 128  # Largest number of steps in a segment.
# Scoring rounds lengths up to a multiple of this number, so that rows end
# together: fewer segments save more time than the additional steps cost.
_SCORED_STEPS = 8


def trace(signatures, inputs):
    """Traces methods of an object; returns a dict of concrete functions.
    `inputs` maps each method's name to a dict of `tf.TensorSpec`s."""
    return {
        name: tf.function(
            getattr(signatures, name), autograph=False
        ).get_concrete_function(**specification)
        for name, specification in inputs.items()
    }


# === Checks of requests ===
#
# A server checks only the dtypes in a request, so the graph checks the shapes.
# `PlaceholderWithDefault` hides the signature's shapes, because otherwise
# TensorFlow would remove the checks. For a valid request, one condition is
# computed; for an invalid one, a function that is not inlined finds the error.


class Input(NamedTuple):
    """Input of a signature, with its required shape, and checks of its values.

    `sizes` are the sizes of the axes after the first; `None` stands for the
    number of time steps. Each function in `conditions` takes the `Input`, a
    tensor of any shape and the number of steps, and returns a `Condition`."""

    name: str
    tensor: tf.Tensor
    sizes: tuple = ()
    conditions: tuple = ()

    @property
    def form(self):
        sizes = ["time" if size is None else str(size) for size in self.sizes]
        return ", ".join(["rows", *sizes]) if sizes else "rows,"


class Condition(NamedTuple):
    """Condition on a tensor: a boolean scalar, and the message of its error.
    `received` is `None`, or a function that returns a tensor to print."""

    holds: tf.Tensor
    message: str
    received: Callable | None = None


def require(condition, tensors):
    """Returns a copy of each tensor, ragged or not, for use in the graph. A
    graph that uses a copy raises an error if the `Condition` does not hold."""
    return _guarded(condition.holds, lambda: _assert(condition), tensors)


def _guarded(holds, refuse, tensors):
    """Returns a copy of each tensor, for use in the graph. If `holds` is false,
    the graph calls `refuse`, which raises an error, and computes no copy."""

    def stop():
        refuse()
        return tf.constant(False)

    stop = tf.function(
        stop, autograph=False, experimental_attributes={"_noinline": True}
    )
    guard = tf.cond(holds, lambda: tf.constant(True), stop)
    flat = tf.nest.flatten(tensors, expand_composites=True)
    with tf.control_dependencies([guard]):
        copies = tf.identity_n(flat)
    return tf.nest.pack_sequence_as(tensors, copies, expand_composites=True)


def _assert(condition):
    holds, message, received = condition
    if received is None:
        return tf.debugging.Assert(holds, [message])
    return tf.debugging.Assert(holds, [f"{message}. Received:", received()])


def require_inputs(*inputs):
    """Returns a dict with a copy of the tensor of each `Input`, with a static
    shape. A graph that uses a copy raises an error unless all inputs are valid
    and have the same number of rows."""
    hidden = [
        tf.raw_ops.PlaceholderWithDefault(
            input=one.tensor, shape=tf.TensorShape(None)
        )
        for one in inputs
    ]
    ends = [-1]
    shapes = [part for one in hidden for part in (tf.shape(one), ends)]
    found = tf.concat(shapes, axis=0)
    # A scalar's shape is empty: with another -1, `found[1]` always exists.
    found = tf.concat([found, ends], axis=0)
    rows, time = found[0], found[1]
    names = [
        name
        for one in inputs
        for name in ("rows", *(size or "time" for size in one.sizes), -1)
    ] + ends
    expected = tf.constant([0 if isinstance(n, str) else n for n in names])
    for name, size in (("rows", rows), ("time", time)):
        if name in names:
            places = tf.constant([int(n == name) for n in names])
            expected += places * size
    holds = [
        all_hold(
            tf.raw_ops.Equal(
                x=found, y=expected, incompatible_shape_error=False
            )
        )
    ]
    if "time" in names:
        holds.append(time > 0)
    for one, tensor in zip(inputs, hidden):
        holds += [make(one, tensor, time).holds for make in one.conditions]

    def right_rows(one, tensor, time):
        found = tf.shape(tensor)[0]
        return Condition(
            found == rows,
            f"`{one.name}` must have one row for each row of "
            f"`{inputs[0].name}`",
            lambda: found,
        )

    def refuse():
        before = []
        for one, tensor in zip(inputs, hidden):
            makers = [_right_rank, _right_sizes, right_rows, *one.conditions]
            for make in makers:
                with tf.control_dependencies(before):
                    before = [_assert(make(one, tensor, time))]

    copies = _guarded(tf.reduce_all(tf.stack(holds)), refuse, hidden)
    for one, copy in zip(inputs, copies):
        copy.set_shape((None, *one.sizes))
    return {one.name: copy for one, copy in zip(inputs, copies)}


def _right_rank(one, tensor, time):
    shape = tf.shape(tensor)
    return Condition(
        tf.size(shape) == 1 + len(one.sizes),
        f"`{one.name}` must be of shape ({one.form})",
        lambda: shape,
    )


def _right_sizes(one, tensor, time):
    shape = tf.shape(tensor)
    wanted = [time if size is None else size for size in one.sizes]
    fits = tf.reduce_all(shape[1:] == wanted)
    message = f"`{one.name}` must be of shape ({one.form})"
    if None in one.sizes:
        fits &= time > 0
        message += " with time of at least 1"
    return Condition(fits, message, lambda: shape)


def all_hold(holds):
    # With a known rank, the graph need not compute the axes to reduce.
    return tf.reduce_all(tf.reshape(holds, [-1]))


def in_range(least, most=None, unit=""):
    """Returns a function for `Input.conditions` that checks the range of
    integers. The maximum `most` is an integer or, with a text `unit` for the
    message, a function of the number of time steps."""

    def make(one, tensor, time):
        message = f"`{one.name}` must be at least {least}"
        inside = tensor >= least
        if most is not None:
            message += f" and at most {unit or most}"
            inside &= tensor <= (most(time) if unit else most)
        return Condition(
            all_hold(inside),
            message,
            lambda: tf.boolean_mask(
                tf.reshape(tensor, [-1]), ~tf.reshape(inside, [-1])
            )[:1],
        )

    return make


def require_words(name, ids):
    """Returns a copy of ragged ids; computing it fails if a row is empty."""
    message = f"`{name}` must hold at least one word in each row"
    return require(
        Condition(tf.reduce_all(ids.row_lengths() > 0), message), ids
    )


# === Reading rows of different lengths, without padding ===


class RowReader:
    """Reads rows, sorted by length, in segments. No segment continues after the
    end of its shortest row, so little padding is computed."""

    def __init__(self, model, state):
        self.model = model
        self.vocabulary_size = model.vocabulary_size
        self.state = state
        ids = tf.TensorSpec((None, None), tf.int32)
        length = tf.TensorSpec((None,), tf.int32)
        # Each function is traced once for all signatures.
        self.step = tf.function(self._step, (ids, state), autograph=False)
        one_id = tf.TensorSpec((None, 1), tf.int32)
        self.step_once = tf.function(
            self._step_once, (one_id, state), autograph=False
        )
        self.read = tf.function(
            self._read, (ids, length, state), autograph=False
        )
        self.score = tf.function(
            self._score, (ids, ids, length, state), autograph=False
        )

    def _step(self, token_ids, state):
        """Reads ids `(B, T)`. Returns log-probabilities float32 `(B, T, V)` of
        the next tokens, and the new state."""
        logits, state = self.model.backbone.step(token_ids, state)
        return tf.nn.log_softmax(tf.cast(logits, tf.float32)), self._kept(state)

    def _step_once(self, token_ids, state):
        """Reads ids `(B, 1)`; returns log-probabilities float32 `(B, V)` and
        the new state."""
        return self._if_one_row(
            token_ids, state, lambda: self._once(None, token_ids, state)
        )

    def _if_one_row(self, token_ids, state, otherwise):
        # Most requests have one row with one token. With the static shape (1,
        # 1), the graph needs no operators that compute sizes.
        return tf.cond(
            tf.size(token_ids) == 1,
            lambda: self._once(1, token_ids, state),
            otherwise,
        )

    def _once(self, rows, token_ids, state):
        """Computes `_step_once` without a loop; `rows` is `None` if unknown."""
        token_ids = with_shape(token_ids, (rows, 1))
        state = {
            name: with_shape(value, (rows, *value.shape[1:]))
            for name, value in state.items()
        }
        with without_loops(self.model):
            log_probabilities, state = self._step(token_ids, state)
        return log_probabilities[:, 0], state

    def _kept(self, state):
        """Gives a new state the dtypes and shapes of the old one."""
        return {
            name: with_shape(
                tf.cast(value, self.state[name].dtype), self.state[name].shape
            )
            for name, value in state.items()
        }

    def _read(self, token_ids, length, state):
        """Reads `length` `(B,)` ids, at least one, from each row of `(B, T)`.
        Returns log-probabilities float32 `(B, V)` and the new state."""

        def read(token_ids, rows, steps, state):
            before = tf.nest.map_structure(lambda value: value[:rows], state)
            # TensorFlow removes unused logits from the graph.
            _, after = self.model.backbone.step(token_ids[:rows, steps], before)
            # Rows that have ended keep their state.
            return tf.nest.map_structure(
                lambda new, old: tf.concat([new, old[rows:]], axis=0),
                self._kept(after),
                state,
            )

        def read_all():
            # Read the last tokens of all rows together: projecting one row to
            # the vocabulary takes as much time as projecting several.
            before = self._in_segments(
                read, length - 1, token_ids, state, self.state, lambda _: STEPS
            )
            last = tf.gather(token_ids, length[:, None] - 1, batch_dims=1)
            return self._once(None, last, before)

        return self._if_one_row(token_ids, state, read_all)

    def _score(self, token_ids, targets, length, state):
        """Scores targets `(B, T)` in the first `length` `(B,)` steps. Returns
        log-probabilities float32 `(B, T)`, with zeros after step `length`."""
        rows, time = tf.unstack(tf.shape(token_ids))

        def read(inputs, rows, steps, carried):
            token_ids, targets = inputs
            scores, state = carried
            before = tf.nest.map_structure(lambda value: value[:rows], state)
            # `Backbone.score` would take 1.3 times as long as this `gather`,
            # because TensorFlow's loss always computes its gradient.
            new, after = self.step(token_ids[:rows, steps], before)
            new = tf.gather(new, targets[:rows, steps], batch_dims=2)
            ended = tf.shape(scores)[0] - rows
            new = tf.pad(new, [[0, ended], [0, 0]])
            return tf.concat([scores, new], axis=1), after

        rounded = -(-length // _SCORED_STEPS) * _SCORED_STEPS
        scores, _ = self._in_segments(
            read,
            tf.minimum(rounded, time),
            (token_ids, targets),
            (tf.zeros((rows, 0)), state),
            (tf.TensorSpec((None, None)), self.state),
            lambda rows: tf.clip_by_value(
                LOGITS // self.vocabulary_size // rows, 1, STEPS
            ),
        )
        scores = tf.pad(scores, [[0, 0], [0, time - tf.shape(scores)[1]]])
        return tf.where(tf.sequence_mask(length, time), scores, 0.0)

    def _in_segments(
        self, read, length, inputs, carried, specification, most_steps
    ):
        """Calls `read(inputs, rows, steps, carried)` for each segment of the
        `rows` that have not ended, longest first. Returns `carried`."""
        order = tf.argsort(length, direction="DESCENDING")
        inputs, length, carried = _gather((inputs, length, carried), order)

        def segment(start, carried):
            left = length - start
            rows = tf.math.count_nonzero(left > 0, dtype=tf.int32)
            stop = start + tf.minimum(left[rows - 1], most_steps(rows))
            return stop, read(inputs, rows, slice(start, stop), carried)

        _, carried = tf.while_loop(
            lambda start, _: start < tf.reduce_max(length),
            segment,
            (0, carried),
            shape_invariants=(tf.TensorSpec((), tf.int32), specification),
            parallel_iterations=1,
        )
        return _gather(carried, tf.math.invert_permutation(order))


def with_shape(tensor, shape):
    """Returns a copy of a tensor with a static shape."""
    tensor = tf.identity(tensor)
    tensor.set_shape(shape)
    return tensor


def _gather(tensors, order):
    return tf.nest.map_structure(lambda value: tf.gather(value, order), tensors)


# === Generation, one token at a time ===


def generate(reader, log_probabilities, state, options, end, most):
    """Generates tokens. Returns ids and log-probabilities `(B, longest)`,
    padded with the end id and 0, and lengths `(B,)`, which count the end."""
    row = tf.TensorSpec((most["length"],), tf.float32)
    # A refused text would cancel a loop that runs already, with another error.
    with tf.control_dependencies([log_probabilities]):
        chances = tf.map_fn(
            lambda seed: tf.random.stateless_uniform(row.shape, [seed, 0]),
            options["seed"],
            fn_output_signature=row,
        )

    def write(time, written, scores, ended, log_probabilities, state):
        values, ids = tf.math.top_k(log_probabilities, most["top_k"])
        place = _draw(values, options, chances[:, time])[:, None]
        token = tf.gather(ids, place, batch_dims=1)
        score = tf.gather(values, place, batch_dims=1)
        token = tf.where(ended, end, token)
        score = tf.where(ended, 0.0, score)
        ended |= (token == end) | (options["length"][:, None] <= time + 1)
        following, state = reader.step_once(token, state)
        written = tf.concat([written, token], axis=1)
        scores = tf.concat([scores, score], axis=1)
        return time + 1, written, scores, ended, following, state

    # Like `LanguageModel.generate`, never generate the end as the first token.
    is_end = tf.range(reader.vocabulary_size) == end
    log_probabilities = tf.where(is_end, -float("inf"), log_probabilities)
    rows = tf.shape(log_probabilities)[0]
    _, written, scores, *_ = tf.while_loop(
        lambda time, written, scores, ended, *_: ~tf.reduce_all(ended),
        write,
        (
            0,
            tf.zeros((rows, 0), tf.int32),
            tf.zeros((rows, 0)),
            tf.zeros((rows, 1), tf.bool),
            log_probabilities,
            state,
        ),
        shape_invariants=(
            tf.TensorSpec((), tf.int32),
            tf.TensorSpec((None, None), tf.int32),
            tf.TensorSpec((None, None), tf.float32),
            tf.TensorSpec((None, 1), tf.bool),
            tf.TensorSpec((None, reader.vocabulary_size), tf.float32),
            reader.state,
        ),
        parallel_iterations=1,
    )
    before_end = tf.cast(written != end, tf.int32)
    complete = tf.reduce_sum(tf.math.cumprod(before_end, axis=1), axis=1)
    return written, scores, tf.minimum(complete + 1, options["length"])


def _draw(values, options, chance):
    """Draws one of k tokens for each row of sorted log-probabilities `(B, k)`.
    `chance` `(B,)` has random numbers in [0, 1). Returns the indices `(B,)`."""
    places = tf.range(tf.shape(values)[1])
    allowed = places < options["top_k"][:, None]
    scaled = (values - values[:, :1]) / options["temperature"][:, None]
    below = tf.cumsum(
        tf.nn.softmax(tf.where(allowed, scaled, -float("inf"))), axis=1
    )
    passed = below <= chance[:, None] * below[:, -1:]
    place = tf.math.count_nonzero(passed, axis=1, dtype=tf.int32)
    return tf.minimum(place, options["top_k"] - 1)


# === Single-step function for ONNX and LiteRT ===


class StreamedStep:
    """Single-step function of a float32 language model, with named states."""

    def __init__(self, model):
        self.model = model
        state = {
            name: keras.ops.convert_to_numpy(value)[0]
            for name, value in model.initial_state(1).items()
        }
        # A state without elements is not an input of the step. For example, a
        # pointer with a window of one word has such a state.
        self.initial = {
            name: value for name, value in state.items() if value.size
        }
        self.specification = {
            name: tf.TensorSpec((None, *value.shape), value.dtype, name)
            for name, value in self.initial.items()
        }

    def __call__(self, token_ids, state):
        """Reads ids `(B, 1)`; returns log-probabilities float32 `(B, V)` and
        the new state."""
        token_ids = tf.cast(token_ids, tf.int32)
        empty = self.model.initial_state(tf.shape(token_ids)[0])
        logits, new = self.model.backbone.step(token_ids, {**empty, **state})
        return tf.nn.log_softmax(logits[:, -1]), {
            name: tf.ensure_shape(new[name], one.shape)
            for name, one in self.specification.items()
        }

    def attend(self, token_ids, state):
        """Returns attention weights float32 `(B, memory)` after ids `(B, 1)`,
        oldest slot first; `None` if the model has no attention."""
        if self.model.attending is None:
            return None
        token_ids = tf.cast(token_ids, tf.int32)
        empty = self.model.initial_state(tf.shape(token_ids)[0])
        weights, _ = self.model.backbone.attend(token_ids, {**empty, **state})
        return tf.cast(weights[:, -1], tf.float32)


def without_loops(model):
    """Returns a context in which recurrent layers run a step without a loop."""
    return set_on_layers(recurrent_layers(model), lambda _: {"unroll": True})


def recurrent_layers(model):
    """Returns the recurrent layers of a model, or of an ensemble's models."""
    return [
        layer
        for one in models_of(model)
        for layer in (*one.recurrent, *one.recurrent_above)
    ]


@contextlib.contextmanager
def set_on_layers(layers, attributes):
    """Context in which each layer has the attributes in `attributes(layer)`."""
    with contextlib.ExitStack() as stack:
        for layer in layers:
            for name, value in attributes(layer).items():
                if name in vars(layer):
                    stack.callback(setattr, layer, name, vars(layer)[name])
                else:
                    stack.callback(delattr, layer, name)
                setattr(layer, name, value)
        yield

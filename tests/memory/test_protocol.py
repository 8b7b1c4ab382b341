"""Tests every memory as a Keras layer."""

import functools

import keras
import numpy as np
import pytest
from layers import arrays
from layers import assert_arguments_survive
from layers import assert_close
from layers import assert_weights_differ
from layers import dtype_of
from layers import everything
from layers import uniform

from memlm_keras import masking
from memlm_keras import memory as memories
from memlm_keras.keras_private import get_keras_mask
from references.tracing import assert_no_loop_over_time

pytestmark = pytest.mark.backend("torch")

V, UNITS, TIME = 11, 12, 7
RANGE = uniform()
# Embedding of the words.
TABLE = np.random.default_rng(9).normal(size=(V, UNITS)).astype("float32")


def made(kind, *sizes, **options):
    """`made(kind)(**arguments)`: makes a memory with large weights."""
    return functools.partial(kind, *sizes, kernel_initializer=RANGE, **options)


MEMORIES = {
    "attention": made(memories.Attention, 3),
    "key_value": made(memories.KeyValue, 3),
    "key_value_predict": made(memories.KeyValuePredict, 3),
    "ngram": made(memories.NGram, 3),
    "projection": made(memories.Projection),
    "induction": made(memories.InductionAttention, 3),
    "delta_rule": made(
        memories.DeltaRule, 2, 3, kernel_size=2, previous_keys=True, decay=True
    ),
    "holographic": made(
        memories.DeltaRule, 3, 2, kernel_size=2, decay=True, holographic=True
    ),
    "single": made(memories.Attentive, "single", 4),
    "combined": made(memories.Attentive, "combined", 4),
    "memory_block": made(memories.MemoryBlock, 3, vocabulary_size=V),
    "bidirectional": made(
        memories.BidirectionalMemoryBlock, 2, vocabulary_size=V
    ),
    "memory_network": made(memories.MemoryNetwork, 3, V),
}
OF_WORDS = {"memory_block", "bidirectional", "memory_network"}
OUTPUT_UNITS = {"key_value": 6, "key_value_predict": 4, "ngram": 4}
ATTENDED = {"single": 4, "combined": 4, "ngram": 0, "projection": 0}
ATTENDED |= {"bidirectional": 4, "delta_rule": 0, "holographic": 0}

every_memory = pytest.mark.parametrize("name", MEMORIES)
every_causal = pytest.mark.parametrize(
    "name", [name for name in MEMORIES if name != "bidirectional"]
)
every_one_of_outputs = pytest.mark.parametrize(
    "name", [name for name in MEMORIES if name not in OF_WORDS]
)


def inputs_of(seed, batch_size=2, time=TIME):
    random = np.random.default_rng(seed)
    outputs = random.normal(size=(batch_size, time, UNITS)).astype("float32")
    token_ids = random.integers(1, V, size=(batch_size, time)).astype("int32")
    return outputs, token_ids


def embedded(layer, state):
    """Returns a state with the vectors of its words, if `layer` needs them."""
    return layer.embed_state(state, lambda ids: keras.ops.take(TABLE, ids, 0))


@pytest.fixture(scope="module")
def reader(compiled):
    """`reader(name)`: returns a memory and its compiled `read`."""

    @functools.cache
    def make(name):
        layer = MEMORIES[name]()
        layer.build((None, None, UNITS))

        def read(outputs, token_ids, state, mask=None, positions=None):
            return everything(layer)(
                outputs,
                token_ids,
                state=embedded(layer, state),
                mask=mask,
                positions=positions,
            )

        return layer, compiled(read)

    return make


def state_of(layer, read):
    """Returns the state after one step, or an empty state if there is none."""
    state = layer.initial_state(len(MASKS))
    if layer.causal:
        _, state, _ = read(*inputs_of(3, len(MASKS), 1), state)
    return state


# === What a call returns ===


@every_memory
def test_outputs_alone_unless_more_is_asked_for(name):
    layer = MEMORIES[name]()
    outputs, token_ids = inputs_of(1)
    layer.build((2, TIME, UNITS))
    state = embedded(layer, layer.initial_state(2))
    read, state, weights = arrays(
        layer.read(keras.ops.convert_to_tensor(outputs), state, token_ids)
    )
    plain = arrays(layer(outputs, token_ids))
    assert plain.shape == (2, TIME, OUTPUT_UNITS.get(name, UNITS))
    np.testing.assert_allclose(plain, read, rtol=1e-5, atol=1e-6)
    with_state = layer(outputs, token_ids, return_state=True)
    assert_close(with_state[1], state)
    _, found = layer(outputs, token_ids, return_attention_scores=True)
    assert found.shape == (2, TIME, ATTENDED.get(name, 3))
    np.testing.assert_allclose(arrays(found), weights, rtol=1e-5, atol=1e-6)
    # A call's argument overrides the layer's setting.
    layer.return_state = True
    assert len(layer(outputs, token_ids)) == 2
    plain = layer(outputs, token_ids, return_state=False)
    assert plain.shape[1:] == (TIME, OUTPUT_UNITS.get(name, UNITS))


@pytest.mark.parametrize("initializer_seed", [None, 7])
@every_memory
def test_weights_of_one_initializer_differ(name, initializer_seed):
    kind = type(MEMORIES[name]())
    initializer = keras.initializers.RandomUniform(seed=initializer_seed)
    own = {"vocabulary_size": V} if name in OF_WORDS else {}
    layer = kind(kernel_initializer=initializer, **own)
    layer.build((None, None, 60))
    assert_weights_differ(w for w in layer.weights if w.name != "bias")


OF_BLOCKS = {
    "window": 3,
    "temporal": False,
    "composition": "gated",
    "temporal_context": True,
    "gate_bias": True,
    "linear_kernel": False,
    "vocabulary_size": 7,
}
LINEAR = {"composition": "linear", "gate_bias": False, "linear_kernel": True}


@pytest.mark.parametrize(
    "kind, arguments",
    [
        (memories.Attention, {"window": 7}),
        (memories.KeyValuePredict, {"window": 7}),
        (memories.InductionAttention, {"window": 7}),
        (
            memories.DeltaRule,
            {
                "num_heads": 3,
                "key_dim": 5,
                "value_dim": 7,
                "negative_eigenvalues": True,
                "decay": True,
                "kernel_size": 2,
                "previous_keys": True,
                "holographic": True,
                "residual": True,
            },
        ),
        (memories.NGram, {"order": 7}),
        (
            memories.Projection,
            {
                "units": 3,
                "activation": "relu",
                "use_bias": True,
                "bias_initializer": uniform(2),
                "kernel_regularizer": keras.regularizers.L2(0.25),
            },
        ),
        (
            memories.Attentive,
            {"score": "combined", "window": 3, "bias_initializer": uniform(2)},
        ),
        (memories.MemoryBlock, OF_BLOCKS),
        (memories.MemoryBlock, {**OF_BLOCKS, **LINEAR}),
        (memories.MemoryNetwork, {"window": 3, "vocabulary_size": 7}),
    ],
)
def test_every_argument_survives_its_configuration(kind, arguments):
    flags = {"return_state": True, "return_attention_scores": kind.attends}
    layer, revived = assert_arguments_survive(
        kind,
        {**arguments, "kernel_initializer": uniform(11, 0.3)},
        **flags,
        name="memory",
        dtype="mixed_float16",
        trainable=False,
    )
    config = revived.get_config()
    assert flags.items() <= config.items()
    plain = {k: v for k, v in arguments.items() if isinstance(v, (int, str))}
    assert plain.items() <= config.items()
    assert revived.kernel_initializer.get_config()["seed"] == 11
    assert (revived.name, revived.trainable) == ("memory", False)
    assert revived.dtype_policy.name == "mixed_float16"


@pytest.mark.parametrize(
    "kind, sizes",
    [
        (memories.Attention, {"window": 1}),
        (memories.InductionAttention, {"window": 1}),
        (memories.Attentive, {"window": 1}),
        (memories.DeltaRule, {"num_heads": 1, "key_dim": 1}),
        (memories.DeltaRule, {"value_dim": 1, "kernel_size": 1}),
        (memories.MemoryBlock, {"window": 1, "vocabulary_size": 1}),
        (memories.BidirectionalMemoryBlock, {"end_of_sentence_id": 0}),
        (memories.NGram, {"order": 2}),
        (memories.Projection, {"units": 1}),
    ],
)
def test_sizes_are_integers(kind, sizes):
    for argument, least in sizes.items():
        for wrong in (least - 1, 2.5, "5", True):
            with pytest.raises(
                ValueError, match=f"`{argument}`.*at least {least}.*Received: "
            ):
                kind(**{argument: wrong})


# === Time ===


@pytest.mark.backend(one_in=2)
@every_causal
def test_any_cut_of_the_time_axis_gives_the_same(name, reader):
    layer, read = reader(name)
    outputs, token_ids = inputs_of(4, len(MASKS))
    if name == "memory_network":
        outputs = TABLE[token_ids]
    whole, whole_state, whole_weights = arrays(
        read(outputs, token_ids, layer.initial_state(len(MASKS)))
    )
    state, pieces = layer.initial_state(len(MASKS)), []
    # Pieces have lengths that other tests compile, and the length zero.
    for start, stop in ((0, 1), (1, 1), (1, 5), (5, 6), (6, 7)):
        piece = slice(start, stop)
        read_piece, state, weights = read(
            outputs[:, piece], token_ids[:, piece], state
        )
        pieces.append(arrays((read_piece, weights)))
    joined = [np.concatenate(parts, axis=1) for parts in zip(*pieces)]
    assert_close(joined, (whole, whole_weights), rtol=1e-5, atol=1e-6)
    assert sorted(state) == sorted(whole_state)
    assert_close(state, whole_state, rtol=1e-5, atol=1e-6)


@pytest.mark.backend
@every_one_of_outputs
def test_no_loop_over_time(name):
    layer = MEMORIES[name]()
    layer.build((None, None, UNITS))
    # JAX loops over slots; other backends may cut a long sequence into blocks.
    additive = {"attention", "key_value", "key_value_predict", "combined"}
    over_slots = {"while"} if name in additive else ()
    # Both numbers of steps give chunks that are halved equally often. A step
    # with complex numbers counts as two steps of a chunk.
    times = (14, 16) if name == "holographic" else (24, 28)
    assert_no_loop_over_time(layer, UNITS, times, over_slots)


# === Masks ===

# Each row has four valid steps: at the front, at the end, or with gaps.
MASKS = np.array(
    [
        [1, 1, 1, 1, 0, 0, 0],
        [0, 0, 0, 1, 1, 1, 1],
        [1, 0, 1, 1, 0, 0, 1],
        [0, 1, 1, 0, 1, 1, 0],
    ],
    "bool",
)


def without_masked_steps(values):
    """Selects the valid steps of each row; each row has four valid steps."""
    return values[MASKS].reshape(len(MASKS), 4, *values.shape[2:])


@pytest.mark.backend(one_in=3)
@every_memory
def test_masked_steps_are_never_remembered(name, reader):
    layer, read = reader(name)
    outputs, token_ids = inputs_of(4, len(MASKS))
    state = state_of(layer, read)
    # The values at masked steps must not change results.
    found, new_state, weights = arrays(
        read(
            np.where(MASKS[..., None], outputs, np.nan).astype("float32"),
            np.where(MASKS, token_ids, -7).astype("int32"),
            state,
            MASKS,
        )
    )
    expected, expected_state, expected_weights = arrays(
        read(
            without_masked_steps(outputs),
            without_masked_steps(token_ids),
            state,
        )
    )
    np.testing.assert_array_equal(found[~MASKS], 0.0)
    np.testing.assert_array_equal(weights[~MASKS], 0.0)
    assert_close(
        (without_masked_steps(found), without_masked_steps(weights), new_state),
        (expected, expected_weights, expected_state),
    )
    # If all steps are masked, the state does not change.
    nothing = np.zeros_like(MASKS)
    found, new_state, _ = read(outputs, token_ids, state, nothing)
    np.testing.assert_array_equal(arrays(found), 0.0)
    assert_close(new_state, state)


@pytest.mark.backend
@pytest.mark.parametrize(
    "name", ["key_value_predict", "single", "induction", "holographic"]
)
def test_gradients_pass_masks_by(name, gradients):
    layer = MEMORIES[name]()
    layer.build((None, None, UNITS))
    outputs, _ = inputs_of(5, len(MASKS))
    # A zero vector has no direction, but its gradient must be finite.
    outputs[0, 0] = 0.0
    fixed = layer.non_trainable_weights

    def loss(tensors):
        outputs, *kernels = tensors
        found, _ = layer.stateless_call(kernels, fixed, outputs, mask=MASKS)
        return keras.ops.sum(found**2)

    found = gradients(loss, [outputs, *arrays(layer.trainable_weights)])
    assert all(np.all(np.isfinite(gradient)) for gradient in found)
    np.testing.assert_array_equal(found[0][~MASKS], 0.0)
    assert np.all(np.any(found[0][MASKS] != 0, axis=-1))


@every_memory
def test_shapes_that_do_not_fit(name):
    layer = MEMORIES[name]()
    outputs, token_ids = inputs_of(8)
    with pytest.raises(ValueError, match="`return_sequences=True`. Received"):
        layer(outputs[:, 0], token_ids=token_ids)
    for shape in ((2, TIME - 1), (2,)):
        with pytest.raises(ValueError, match="`mask` must be of shape"):
            layer(outputs, token_ids=token_ids, mask=np.ones(shape, "bool"))
    mask = np.ones(token_ids.shape, "bool").tolist()
    layer(outputs, token_ids=token_ids, mask=mask)


@every_memory
def test_without_a_mask_nothing_is_moved(name, monkeypatch):
    def refused(mask):
        raise AssertionError("steps were moved")

    monkeypatch.setattr(masking, "ValidSteps", refused)
    outputs, token_ids = inputs_of(7)
    layer = MEMORIES[name]()
    layer(outputs, token_ids)
    with pytest.raises(AssertionError, match="steps were moved"):
        layer(outputs, token_ids, mask=np.ones((2, TIME), "bool"))


@pytest.mark.parametrize(
    "name, options, message",
    [
        ("memory_block", {}, "`token_ids` must be given"),
        ("memory_network", {}, "`token_ids` must be given"),
        ("ngram", {"return_attention_scores": True}, "_scores=True`"),
    ],
)
def test_wrong_calls(name, options, message):
    with pytest.raises(ValueError, match=message):
        MEMORIES[name](**options)(np.ones((1, 2, UNITS)))


# === Reading at some of the steps ===

POSITIONS = np.array([[6, 0, 3], [2, 2, 5], [0, 6, 1], [4, 3, 2]], "int32")


@pytest.mark.backend(one_in=5)
@every_memory
@pytest.mark.parametrize("with_mask", [False, True])
def test_positions_are_rows_of_the_full_read(name, with_mask, reader):
    layer, read = reader(name)
    state = state_of(layer, read)
    arguments = *inputs_of(4, len(MASKS)), state, MASKS if with_mask else None
    whole, whole_state, whole_weights = arrays(read(*arguments))
    found, new_state, weights = arrays(read(*arguments, POSITIONS))
    rows = np.arange(len(MASKS))[:, None]
    assert_close(
        (found, weights, new_state),
        (whole[rows, POSITIONS], whole_weights[rows, POSITIONS], whole_state),
    )


@pytest.mark.parametrize(
    "name", ["attention", "combined", "induction", "memory_block"]
)
def test_other_steps_are_not_read_at(name, monkeypatch):
    layer = MEMORIES[name]()
    outputs, token_ids = inputs_of(13, len(POSITIONS))
    layer(outputs, token_ids)
    shapes = []
    read = layer.read

    def spy(outputs, *arguments):
        shapes.append(tuple(outputs.shape))
        return read(outputs, *arguments)

    monkeypatch.setattr(layer, "read", spy)
    layer(outputs, token_ids, positions=POSITIONS)
    assert shapes == [(POSITIONS.size, 1, UNITS)]


@pytest.mark.backend(one_in=5)
@every_memory
@pytest.mark.parametrize("positions", [None, POSITIONS], ids=["all", "some"])
def test_masks_that_keras_attached_are_passed_on(name, positions):
    """Keras passes attached masks only to layers with one input tensor."""
    outputs, token_ids = inputs_of(6, len(MASKS))
    outputs = np.where(MASKS[..., None], outputs, 0.0).astype("float32")
    attached = keras.layers.Masking()(outputs)
    layer = MEMORIES[name]()
    found = layer(attached, token_ids, positions=positions)
    expected = layer(outputs, token_ids, mask=MASKS, positions=positions)
    assert_close(found, expected, atol=1e-6)
    rows = np.arange(len(MASKS))[:, None]
    mask = MASKS if positions is None else MASKS[rows, positions]
    np.testing.assert_array_equal(arrays(get_keras_mask(found)), mask)


@pytest.mark.backend
@pytest.mark.parametrize("shape", [(2, 4), (None, None)])
def test_symbolic_positions(shape):
    layer = MEMORIES["key_value_predict"](return_attention_scores=True)
    found, state, weights = layer(
        keras.KerasTensor((shape[0], None, UNITS)),
        positions=keras.KerasTensor(shape, "int32"),
        return_state=True,
    )
    assert found.shape == (*shape, 4) and weights.shape == (*shape, 3)
    assert state["window"].shape == (shape[0], 3, 8)
    memory, inputs = memories.Attention(window=3), keras.Input((7, 4), 2)
    assert memory(inputs, positions=[[5], [2]]).shape == (2, 1, 4)


# === Memories in a user's own models ===


@every_memory
@pytest.mark.parametrize("shape", [(2, TIME, UNITS), (None, None, UNITS)])
def test_compute_output_shape(name, shape):
    attends = ATTENDED.get(name, 3) > 0
    expected = (*shape[:2], OUTPUT_UNITS.get(name, UNITS))
    assert MEMORIES[name]().compute_output_shape(shape) == expected
    layer = MEMORIES[name](return_state=True, return_attention_scores=attends)
    found = layer.compute_output_shape(shape)
    assert found[0] == expected
    state = layer.initial_state(3)
    assert {key: each[1:] for key, each in found[1].items()} == {
        key: tuple(each.shape)[1:] for key, each in state.items()
    }
    assert [*found[2:]] == [(*shape[:2], ATTENDED.get(name, 3))] * attends


@every_one_of_outputs
def test_in_a_sequential_model_with_padding(name, reloaded):
    model = keras.Sequential(
        [
            keras.layers.Embedding(V, 5, mask_zero=True),
            keras.layers.LSTM(UNITS, return_sequences=True),
            MEMORIES[name](),
            keras.layers.Dense(V),
        ]
    )
    rows = np.array([[3, 5, 0, 7], [4, 4, 1, 0]], "int32")
    found = arrays(model(rows))
    assert model.output_shape == (2, 4, V)
    alone = arrays(model(rows[rows > 0].reshape(2, 3)))
    np.testing.assert_allclose(
        found[rows > 0], alone.reshape(6, V), rtol=1e-4, atol=1e-5
    )
    np.testing.assert_allclose(arrays(reloaded(model)(rows)), found, atol=1e-6)


@pytest.mark.backend(one_in=5)
@every_memory
@pytest.mark.parametrize("policy", ["float16", "mixed_bfloat16"])
def test_lower_precision_with_a_mask(name, policy):
    outputs, token_ids = inputs_of(11, len(MASKS))
    layer = MEMORIES[name](dtype=policy)
    read, state, weights = everything(layer)(outputs, token_ids, mask=MASKS)
    assert dtype_of(read) == dtype_of(weights) == layer.compute_dtype
    for key, value in layer.initial_state(len(MASKS)).items():
        assert dtype_of(state[key]) == dtype_of(value)
    for key in state.keys() & {"associations", "context", "log_normalizer"}:
        assert dtype_of(state[key]) == "float32"
    if "filled" in state:
        kept = {"single": "float32"}.get(name, layer.compute_dtype)
        kept = "int32" if name in OF_WORDS else kept
        assert dtype_of(state["filled"]) == "int32"
        assert dtype_of(state["window"]) == kept
    expected = MEMORIES[name]()
    expected.build(outputs.shape)
    expected.set_weights(layer.get_weights())
    np.testing.assert_allclose(
        arrays(keras.ops.cast(read, "float32")),
        arrays(expected(outputs, token_ids, mask=MASKS)),
        atol=0.25,
    )
    state = embedded(layer, state)
    again = layer(outputs, token_ids, state=state, mask=MASKS)
    assert np.all(np.isfinite(arrays(keras.ops.cast(again, "float32"))))

import functools
import inspect
import json

import keras
import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings
from hypothesis import strategies as st

import memlm_keras
from memlm_keras import LanguageModel
from memlm_keras import cells
from memlm_keras import heads
from memlm_keras import memory as memories
from memlm_keras.data import Batches
from memlm_keras.data import Vocabulary
from memlm_keras.embeddings import Embedding
from memlm_keras.mixtures import NeuralCache
from memlm_keras.models.inference import compile_inference
from memlm_keras.models.inference import segments
from memlm_keras.smoothing import SmoothedEmbedding
from memlm_keras.smoothing import SmoothedProjection
from memlm_keras.smoothing import VariationalSmoothing
from references import daniluk2017 as reference

V = 23
UNITS = 12
RECURRENT = {
    "lstm": lambda: [keras.layers.LSTM(UNITS)],
    "gru_rnn": lambda: [
        keras.layers.GRU(7),
        keras.layers.SimpleRNN(UNITS),
    ],
    "cell": lambda: [keras.layers.LSTMCell(UNITS)],
    "fofe_hornn": lambda: [cells.FOFEHORNNCell(UNITS)],
    "gated_hornn": lambda: [cells.GatedHORNNCell(UNITS, order=2)],
    "none": lambda: [],
}
MEMORY = {
    "none": lambda: None,
    "attention": lambda: memories.Attention(window=3),
    "key_value": lambda: memories.KeyValue(window=4),
    "key_value_predict": lambda: memories.KeyValuePredict(window=3),
    "ngram": lambda: memories.NGram(order=3),
    "projection": lambda: memories.Projection(),
    "attentive_single": lambda: memories.Attentive(window=3),
    "attentive_combined": lambda: memories.Attentive("combined", window=3),
    "memory_block": lambda: memories.MemoryBlock(
        window=3, kernel_initializer=keras.initializers.RandomUniform(-1, 1)
    ),
    "memory_network": lambda: memories.MemoryNetwork(
        window=3, kernel_initializer=keras.initializers.RandomUniform(-1, 1)
    ),
}
# Every memory, every kind of recurrent layer, and no more than that.
COMBINATIONS = [
    ("lstm", "none"),
    ("lstm", "attention"),
    ("gru_rnn", "key_value"),
    ("lstm", "key_value_predict"),
    ("cell", "key_value_predict"),
    ("gru_rnn", "ngram"),
    ("fofe_hornn", "projection"),
    ("gated_hornn", "attention"),
    ("lstm", "attentive_single"),
    ("gru_rnn", "attentive_combined"),
    ("lstm", "memory_block"),
    ("none", "memory_network"),
]
every_model = pytest.mark.parametrize("recurrent, memory", COMBINATIONS)


def make(recurrent="lstm", memory="key_value_predict", **arguments):
    """A model whose weights are large enough to tell models apart."""
    keras.utils.set_random_seed(7)
    arguments = {
        "initializer": keras.initializers.RandomUniform(-0.7, 0.7),
        **arguments,
    }
    return LanguageModel(
        arguments.pop("vocabulary_size", V),
        arguments.pop("embedding_dim", 5),
        RECURRENT[recurrent](),
        memory=MEMORY[memory](),
        **arguments,
    )


# What a test does not change may be shared, and stays compiled.
shared = functools.cache(make)


def tokens_of(batch, time, seed=0):
    random = np.random.default_rng(seed)
    return random.integers(V, size=(batch, time)).astype("int32")


def array(tensor):
    return keras.ops.convert_to_numpy(tensor)


def close(found, expected, tolerance=1e-5):
    np.testing.assert_allclose(
        array(found), array(expected), rtol=tolerance, atol=tolerance
    )


def stepped(model, tokens, state=None):
    """Logits of one-token steps, and the state after them."""
    state = model.initial_state(len(tokens)) if state is None else state
    logits = []
    for column in np.split(tokens, tokens.shape[1], axis=1):
        column_logits, state = model.step(column, state)
        logits.append(array(column_logits))
    return np.concatenate(logits, axis=1), state


# === One implementation, read in any pieces ===


@every_model
def test_the_whole_equals_its_steps(recurrent, memory):
    model = shared(recurrent, memory)
    tokens = tokens_of(2, 5)
    logits = model(tokens)
    assert tuple(logits.shape) == (2, 5, V)
    found, _ = stepped(model, tokens)
    close(found, logits)


@every_model
@settings(max_examples=8)
@given(cuts=st.sets(st.integers(1, 4)))
def test_the_whole_equals_any_pieces(recurrent, memory, cuts):
    model = shared(recurrent, memory)
    tokens = tokens_of(2, 5)
    expected, expected_state = whole_of(recurrent, memory)
    state, pieces = model.initial_state(2), []
    for piece in np.split(tokens, sorted(cuts), axis=1):
        logits, state = model.step(piece, state)
        pieces.append(array(logits))
    close(np.concatenate(pieces, axis=1), expected)
    assert set(state) == set(expected_state)
    for name, value in state.items():
        close(value, expected_state[name])


def test_recurrent_layers_above_the_memory():
    """They read what it hands on, and have a state of their own."""
    model = make(
        "lstm",
        "key_value_predict",
        recurrent_above=[keras.layers.GRU(3), keras.layers.LSTMCell(4)],
        dropout=0.5,
    )
    tokens = tokens_of(2, 5)
    logits = model(tokens)
    assert logits.shape == (2, 5, V)
    found, state = stepped(model, tokens)
    close(found, logits)
    hidden = model.embedding(tokens)
    hidden, *lower = model.recurrent[0](hidden)
    hidden, attention = model.memory(hidden, return_attention_scores=True)
    upper = []
    for layer in model.recurrent_above:
        hidden, *layer_state = layer(hidden)
        upper += layer_state
    close(model.head(hidden), logits)
    names = [name for name in state if name.startswith("recurrent_")]
    for name, value in zip(names, [*lower, *upper], strict=True):
        close(state[name], value)
    close(model.attention(tokens), attention)


def test_an_output_projection_without_bias():
    for head, tie_embeddings in (
        (heads.OutputProjection(use_bias=False), False),
        (heads.TiedProjection(use_bias=False), True),
    ):
        model = make(embedding_dim=4, head=head)
        assert model.tie_embeddings == tie_embeddings
        plain = make(embedding_dim=4, tie_embeddings=tie_embeddings)
        assert plain.count_params() - model.count_params() == V
        tokens = tokens_of(2, 3)
        plain.set_weights([*model.get_weights(), np.zeros(V, "float32")])
        close(model(tokens), plain(tokens))


@functools.cache
def whole_of(recurrent, memory):
    model = shared(recurrent, memory)
    return model.step(tokens_of(2, 5), model.initial_state(2))


@pytest.mark.parametrize(
    "recurrent, memory",
    [
        ("lstm", "none"),
        ("lstm", "attention"),
        ("gru_rnn", "key_value"),
        ("lstm", "key_value_predict"),
        ("gru_rnn", "ngram"),
    ],
)
def test_logits_equal_the_reference(recurrent, memory):
    model = shared(recurrent, memory)
    tokens = tokens_of(2, 6)
    outputs = model.embedding.get_weights()[0].astype("float64")[tokens]
    for layer in model.recurrent:
        name = {"LSTM": "lstm", "GRU": "gru", "SimpleRNN": "simple_rnn"}
        read = getattr(reference, name[type(layer).__name__])
        outputs = read(
            outputs,
            *(weight.astype("float64") for weight in layer.get_weights()),
        )
    if memory != "none":
        names = ["W^Y", "W^h", "w", "W^r", "W^x"]
        kernels = model.memory.get_weights()
        weights = dict(zip(names, (kernel.T for kernel in kernels)))
        if memory == "ngram":
            weights = {"W^N": kernels[0].T}
        else:
            weights["w"] = weights["w"][0]
        window = {
            "slots": array(model.memory.initial_state(2)["window"]),
            "filled": np.zeros(2, "int"),
        }
        outputs, _, _ = getattr(reference, memory)(outputs, weights, window)
    kernel, bias = model.head.get_weights()
    expected = outputs @ kernel + bias
    close(stepped(model, tokens)[0], expected)
    close(
        model.score(tokens),
        np.take_along_axis(
            reference.log_softmax(expected)[:, :-1], tokens[:, 1:, None], -1
        )[..., 0],
    )


@pytest.mark.parametrize("length", [1, 2, 3, 127, 128, 129, 300])
def test_segments_cover_a_text(length):
    pieces = list(segments(length))
    assert pieces[0][0] == 0
    assert pieces[-1][1] == length
    assert all(a[1] == b[0] for a, b in zip(pieces, pieces[1:]))
    for start, stop in pieces:
        assert bin(stop - start).count("1") == 1
        assert stop - start <= 128


def test_compiled_inference_equals_the_plain_forward():
    model = make()
    tokens = keras.ops.convert_to_tensor(tokens_of(2, 4))

    def forward(tokens, state):
        return model.backbone.step(tokens, state)

    compiled = compile_inference(model, forward)
    state = model.initial_state(2)
    plain_logits, plain_state = forward(tokens, state)
    logits, new_state = compiled(tokens, state)
    close(logits, plain_logits)
    for name, value in plain_state.items():
        close(new_state[name], value)
    # Weights are read anew at each call, not kept from the first.
    kernel, bias = model.head.get_weights()
    model.head.set_weights([kernel, bias + 1.0])
    close(compiled(tokens, state)[0], array(plain_logits) + 1.0)
    assert not getattr(logits, "requires_grad", False)


def test_score_and_attention():
    model = shared("lstm", "key_value_predict")
    tokens = tokens_of(3, 6)
    logits = stepped(model, tokens)[0].astype("float64")
    expected = np.take_along_axis(
        reference.log_softmax(logits)[:, :-1], tokens[:, 1:, None], -1
    )[..., 0]
    scores = model.score(tokens)
    assert isinstance(scores, np.ndarray)
    assert scores.shape == (3, 5)
    close(scores, expected)

    weights = model.attention(tokens)
    hidden = model.embedding(tokens)
    for layer in model.recurrent:
        hidden, *_ = layer(hidden)
    assert weights.shape == (3, 6, model.memory.window)
    _, expected = model.memory(hidden, return_attention_scores=True)
    close(weights, expected)


def test_batches_are_scored_with_the_state_carried():
    model = make()
    tokens = tokens_of(1, 29)[0]
    batches = Batches(tokens, 3, 4, document_starts=[0, 5, 17, 18])
    scores, weights = model.score_batches(batches)
    attention = list(model.attention_batches(batches))
    expected = expected_of_batches(model, batches)
    assert weights.sum() == len(tokens)
    close(scores * weights, expected["scores"] * weights)
    for (found, _), wanted in zip(attention, expected["attention"]):
        close(found, wanted)


def expected_of_batches(model, batches):
    """What steps give over batches, each row begun anew where it says so."""
    start = state = model.initial_state(batches.batch_size)
    scores, attention, weights = [], [], []
    for inputs, targets, sample_weight in batches:
        state = {
            name: np.where(
                inputs["reset"].reshape((-1,) + (1,) * (value.ndim - 1)),
                array(start[name]),
                value,
            )
            for name, value in ((n, array(v)) for n, v in state.items())
        }
        if model.memory is not None and model.memory.attends:
            seen, _ = model.backbone.attend(
                keras.ops.convert_to_tensor(inputs["token_ids"]), state
            )
            attention.append(array(seen))
        logits, state = stepped(model, inputs["token_ids"], state)
        logs = reference.log_softmax(logits.astype("float64"))
        scores.append(np.take_along_axis(logs, targets[..., None], -1)[..., 0])
        weights.append(sample_weight)
    return {
        "scores": np.concatenate(scores),
        "weights": np.concatenate(weights),
        "attention": attention,
        "state": state,
    }


# === Carried state ===


def documents(batch_size=3, seed=5):
    tokens = tokens_of(1, 37, seed)[0]
    return Batches(tokens, batch_size, 4, document_starts=[0, 5, 17, 18, 30])


def carried_on(model, state, training):
    """Asserts that the model carries `state`: it goes on as `step` does."""
    rows = len(next(iter(state.values())))
    probe = tokens_of(rows, 2, seed=9)
    logits = model(
        {"token_ids": probe, "reset": np.zeros(rows, "bool")},
        training=training,
    )
    close(logits, model.step(probe, state)[0])


@pytest.mark.parametrize(
    "recurrent, memory",
    [
        ("lstm", "key_value_predict"),
        ("gru_rnn", "ngram"),
        ("lstm", "attentive_single"),
        ("lstm", "attentive_combined"),
    ],
)
def test_fit_and_validation_carry_states_of_their_own(recurrent, memory):
    model = make(recurrent, memory)
    model.compile(keras.optimizers.SGD(0.0))
    training, validation = documents(), documents(seed=6)
    history = model.fit(
        training, validation_data=validation, epochs=2, verbose=0
    )
    expected = expected_of_batches(model, training)
    expected_validation = expected_of_batches(model, validation)
    carried_on(model, expected["state"], training=True)
    carried_on(model, expected_validation["state"], training=False)
    for key, found in (("", expected), ("val_", expected_validation)):
        total = np.sum(found["scores"] * found["weights"])
        nats = -total / found["weights"].sum()
        for epoch in range(2):
            close(history.history[f"{key}nats"][epoch], nats)
            close(
                history.history[f"{key}perplexity"][epoch], np.exp(nats), 1e-4
            )


def test_streams_carry_over_all_batches():
    model = make("lstm", "attention")
    model.compile("sgd")
    tokens = tokens_of(1, 20)[0]
    batches = Batches(tokens, batch_size=1, segment_length=4)
    model.evaluate(batches, verbose=0)
    # One row of one stream: all its tokens after the end-of-sentence.
    read = np.concatenate([[0], tokens[:-1]])[None].astype("int32")
    _, state = model.step(read, model.initial_state(1))
    carried_on(model, state, training=False)


def test_perplexity_counts_tokens_and_not_batches():
    model = make()
    model.compile("sgd")
    # 13 tokens: the last batch is nearly empty, and so weighs little.
    batches = Batches(tokens_of(1, 13)[0], batch_size=2, segment_length=6)
    first = model.evaluate(batches, verbose=0, return_dict=True)
    second = model.evaluate(batches, verbose=0, return_dict=True)
    assert first == second
    expected = expected_of_batches(model, batches)
    weights = expected["weights"]
    assert weights[:2].sum() == 12
    assert weights[2:].sum() == 1
    nats = -np.sum(expected["scores"] * weights) / 13
    close(first["nats"], nats)
    close(first["perplexity"], np.exp(nats), 1e-4)


def test_a_uniform_model_has_the_perplexity_of_its_vocabulary():
    model = make(initializer=keras.initializers.Zeros())
    model.compile("sgd")
    batches = Batches(tokens_of(1, 31)[0], batch_size=2, segment_length=4)
    result = model.evaluate(batches, verbose=0, return_dict=True)
    close(result["perplexity"], V, 1e-4)


def test_rows_are_reset_on_their_own():
    model = make()
    model.carry_state(evaluation_batch_size=3)
    tokens, more = tokens_of(3, 5), tokens_of(3, 2, seed=1)
    model({"token_ids": tokens, "reset": np.ones(3, "bool")})
    found = array(
        model({"token_ids": more, "reset": np.array([False, True, False])})
    )
    begun, _ = model.step(more, model.initial_state(3))
    _, state = model.step(tokens, model.initial_state(3))
    gone_on, _ = model.step(more, state)
    close(found[1], begun[1])
    close(found[[0, 2]], array(gone_on)[[0, 2]])
    assert np.abs(array(begun) - array(gone_on)).max() > 1e-3


def test_plain_inputs_begin_anew_and_leave_the_carried_state():
    model = make()
    model.carry_state(evaluation_batch_size=2)
    tokens = tokens_of(2, 4)
    model({"token_ids": tokens, "reset": np.ones(2, "bool")})
    begun, state = model.step(tokens, model.initial_state(2))
    close(model(tokens), begun)
    carried_on(model, state, training=False)


def test_a_fresh_model_carries_what_it_is_called_with():
    """Without a word about how many rows there will be."""
    model, tokens = make(), tokens_of(2, 4)
    for training in (False, True):
        found = model(
            {"token_ids": tokens, "reset": np.ones(2, "bool")},
            training=training,
        )
        begun, state = model.step(tokens, model.initial_state(2))
        close(found, begun)
        carried_on(model, state, training)
    close(model({"token_ids": tokens}), begun)
    # Another number of rows has a state of its own.
    carried_on(model, model.initial_state(3), training=False)
    with pytest.raises(ValueError, match="Received a dict with keys: .*'ids'"):
        model({"ids": tokens})


def test_on_batch_methods_carry_a_state():
    model = make()
    model.compile("sgd", run_eagerly=False)
    tokens = tokens_of(2, 4)
    inputs = {"token_ids": tokens, "reset": np.ones(2, "bool")}
    _, state = model.step(tokens, model.initial_state(2))
    model.test_on_batch(inputs, tokens)
    carried_on(model, state, training=False)
    model.train_on_batch(inputs, tokens)
    carried_on(model, state, training=True)


def test_datasets_of_tensorflow_carry_a_state():
    """Also those that do not say how many rows a batch has."""
    tf = pytest.importorskip("tensorflow")
    batches, model = documents(), make()
    model.compile(keras.optimizers.SGD(0.0))
    items = [batches[index] for index in range(len(batches))]
    expected = model.evaluate(batches, verbose=0, return_dict=True)
    for rows in (3, None):
        specification = keras.tree.map_structure(
            lambda array, rows=rows: tf.TensorSpec(
                (rows, *array.shape[1:]), array.dtype
            ),
            items[0],
        )
        dataset = tf.data.Dataset.from_generator(
            lambda: iter(items), output_signature=specification
        ).apply(tf.data.experimental.assert_cardinality(len(items)))
        fresh = make()
        fresh.compile(keras.optimizers.SGD(0.0))
        history = fresh.fit(dataset, verbose=0, validation_data=dataset).history
        for name, value in expected.items():
            close(history[name][0], value, 1e-4)
            close(history[f"val_{name}"][0], value, 1e-4)


def test_training_learns():
    model = make("lstm", "key_value_predict")
    model.compile(keras.optimizers.Adam(0.02))
    tokens = np.tile(np.arange(1, 6, dtype="int32"), 12)
    batches = Batches(tokens, batch_size=3, segment_length=5)
    history = model.fit(batches, epochs=8, verbose=0).history
    assert history["perplexity"][-1] < 0.5 * history["perplexity"][0]


def test_mixed_precision_trains_to_finite_weights():
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy("mixed_bfloat16")
    try:
        model = make()
    finally:
        keras.config.set_dtype_policy(before)
    model.compile("sgd")
    history = model.fit(documents(), verbose=0).history
    assert np.isfinite(history["loss"][0])
    for weight in model.trainable_variables:
        assert keras.backend.standardize_dtype(weight.dtype) == "float32"
        assert np.all(np.isfinite(array(weight)))
    logits, _ = model.step(tokens_of(2, 3), model.initial_state(2))
    assert keras.backend.standardize_dtype(logits.dtype) == "bfloat16"
    scores = model.score(tokens_of(2, 3))
    assert scores.dtype == np.float32
    assert np.all(np.isfinite(scores))


# === Arguments ===


def test_dropout_is_active_in_training_only():
    model, plain = make(dropout=0.5), make()
    for weight, value in zip(
        plain.trainable_variables, model.trainable_variables
    ):
        weight.assign(value)
    tokens = tokens_of(2, 4)
    state = model.initial_state(2)
    kept, _ = plain.step(tokens, state)
    close(model(tokens), kept)
    close(model.step(tokens, state)[0], kept)
    first = array(model(tokens, training=True))
    second = array(model.step(tokens, state, training=True)[0])
    for dropped in (first, second):
        assert np.abs(dropped - array(kept)).max() > 1e-3
    assert np.abs(first - second).max() > 1e-3


@pytest.mark.parametrize(
    "dropout, drops", [(0.5, True), ({"outputs": 0.5}, False)]
)
def test_dropout_of_the_embeddings_alone(dropout, drops):
    """The state of the first layer, whose outputs are dropped, tells."""
    model = make(dropout=dropout)
    tokens, state = tokens_of(2, 4), model.initial_state(2)
    logits, kept = model.step(tokens, state)
    dropped_logits, dropped = model.step(tokens, state, training=True)
    name = "recurrent_0_state_0"
    difference = np.abs(array(dropped[name]) - array(kept[name])).max()
    assert (difference > 1e-3) == drops
    assert np.abs(array(dropped_logits) - array(logits)).max() > 1e-3


def test_tied_embeddings_share_their_matrix():
    tied = make(memory="none", embedding_dim=UNITS, tie_embeddings=True)
    untied = make(memory="none", embedding_dim=UNITS)
    assert untied.count_params() - tied.count_params() == V * UNITS
    matrix = tied.embedding.get_weights()[0]
    (hidden, _), _ = tied.backbone.outputs(
        keras.ops.convert_to_tensor(tokens_of(2, 3)), tokens_of(2, 3)
    )
    (bias,) = (w for w in tied.head.weights if w.name == "bias")
    close(tied(tokens_of(2, 3)), array(hidden) @ matrix.T + array(bias))


def test_every_argument_survives_its_configuration():
    arguments = {
        "vocabulary_size": V,
        "embedding_dim": 4,
        "recurrent": [keras.layers.GRU(3), keras.layers.LSTM(4)],
        "memory": memories.Attention(window=2),
        "dropout": {
            "embeddings": 0.125,
            "between": 0.25,
            "outputs": 0.375,
            "variational": True,
        },
        "tie_embeddings": True,
        "initializer": keras.initializers.RandomUniform(-0.3, 0.2, 11),
        "recurrent_above": [keras.layers.SimpleRNN(4)],
        "mixture": NeuralCache(3),
        "embedding": SmoothedEmbedding(
            smoothing=VariationalSmoothing("kneser_ney", 0.3),
            word_dropout=0.0625,
        ),
        "head": SmoothedProjection(use_bias=False, dtype="mixed_bfloat16"),
        "vocabulary": Vocabulary([chr(97 + index) for index in range(V - 2)]),
        "name": "tiny",
        "dtype": "mixed_bfloat16",
    }
    signature = inspect.signature(LanguageModel.__init__).parameters
    own = set(signature) - {"self"}
    assert own == set(arguments), "give new arguments a value here"
    for name in own:
        assert arguments[name] != signature[name].default
    model = LanguageModel(**arguments)

    config = json.loads(json.dumps(keras.saving.serialize_keras_object(model)))
    revived = keras.saving.deserialize_keras_object(config, safe_mode=True)

    assert own == set(config["config"])
    assert type(revived) is LanguageModel
    # Compared as JSON, which knows no tuples.
    assert json.dumps(revived.get_config()) == json.dumps(model.get_config())
    assert revived.name == "tiny"
    assert revived.head.compute_dtype == "bfloat16"
    assert [layer.units for layer in revived.recurrent] == [3, 4]
    assert [layer.units for layer in revived.recurrent_above] == [4]
    assert not hasattr(revived.head, "bias")
    assert revived.memory.window == 2
    assert revived.vocabulary == model.vocabulary
    assert revived.vocabulary is not model.vocabulary
    rates = [layer.rate for layer in revived.backbone.dropouts]
    assert rates == [0.125, 0.25, 0.25, 0.375]
    for layer in revived.backbone.dropouts:
        assert isinstance(layer, keras.layers.SpatialDropout1D)
    assert revived.embedding.word_dropout == 0.0625
    assert revived.smoothing.rate == 0.3
    assert revived.tie_embeddings is True
    assert revived.initializer.maxval == 0.2
    assert [w.path for w in revived.weights] == [w.path for w in model.weights]


@pytest.mark.parametrize(
    "recurrent, memory, tie_embeddings",
    [
        ("lstm", "attention", True),
        ("cell", "none", False),
        ("lstm", "attentive_single", True),
        ("lstm", "attentive_combined", True),
    ],
)
def test_saved_models_load(tmp_path, recurrent, memory, tie_embeddings):
    model = make(
        recurrent,
        memory,
        embedding_dim=UNITS,
        dropout=0.1,
        tie_embeddings=tie_embeddings,
    )
    path = tmp_path / "model.keras"
    model.save(path)
    loaded = keras.saving.load_model(path, safe_mode=True)
    assert type(loaded) is LanguageModel
    tokens = tokens_of(2, 4)
    expected, state = model.step(tokens, model.initial_state(2))
    found, found_state = loaded.step(tokens, loaded.initial_state(2))
    close(found, expected, 1e-6)
    assert set(found_state) == set(state)
    for name, value in state.items():
        close(found_state[name], value, 1e-6)


def test_a_compiled_model_goes_on_after_loading(tmp_path):
    model = make()
    model.compile(keras.optimizers.Adam(0.01, global_clipnorm=5.0))
    model.fit(documents(), verbose=0)
    path = tmp_path / "model.keras"
    model.save(path)
    loaded = keras.saving.load_model(path)
    assert loaded.optimizer.global_clipnorm == 5.0
    assert int(loaded.optimizer.iterations) == int(model.optimizer.iterations)
    expected = model.evaluate(documents(), verbose=0, return_dict=True)
    found = loaded.evaluate(documents(), verbose=0, return_dict=True)
    assert set(found) == {"loss", "nats", "perplexity"}
    for name, value in expected.items():
        close(found[name], value)
    # One more epoch takes the same steps, so the moments came along.
    model.fit(documents(), verbose=0)
    loaded.fit(documents(), verbose=0)
    for weight, wanted in zip(
        loaded.trainable_variables, model.trainable_variables
    ):
        close(weight, wanted)


# === Generation ===


def greedy_of(model, row, length):
    """Continues one row by the most probable token, step by step."""
    row = list(row)
    logits, state = stepped(model, np.array([row], "int32"))
    while len(row) < length:
        row.append(int(np.argmax(logits[0, -1])))
        logits, state = stepped(model, np.array([row[-1:]], "int32"), state)
    return row


def test_greedy_takes_the_most_probable_token():
    model = shared()
    prompts = [[3, 4, 5], [6]]
    found = model.generate(prompts, max_length=7, sampler="greedy")
    for row, prompt in zip(found, prompts):
        assert row.tolist() == greedy_of(model, prompt, 7)
    single = model.generate(np.array([3, 4, 5]), 7, sampler="greedy")
    assert single.shape == (7,)
    assert single.tolist() == found[0].tolist()


@pytest.mark.parametrize("first", [True, False])
def test_stop_tokens_end_a_row(first):
    """Also the end of a sentence, which is the id of what is not written."""
    model = shared()
    prompts = [[3, 4, 5], [6]]
    rows = [greedy_of(model, prompt, 9) for prompt in prompts]
    stops = [rows[0][5]] if first else [rows[0][5], rows[1][3]]
    found = model.generate(
        prompts, max_length=9, sampler="greedy", stop_token_ids=[0, *stops]
    )
    vocabulary = Vocabulary([chr(97 + index) for index in range(V - 2)])
    texts = model.generate(
        [" ".join(vocabulary.decode(prompt)) for prompt in prompts],
        *(9, "greedy", vocabulary, [0, *stops]),
    )
    for row, prompt, expected, text in zip(found, prompts, rows, texts):
        new = expected[len(prompt) :]
        ends = [i for i, token in enumerate(new) if token in (0, *stops)]
        length = len(prompt) + ends[0] if ends else 9
        assert row[:length].tolist() == expected[:length]
        assert set(row[length:].tolist()) <= {expected[min(length, 8)]}
        assert text == " ".join(vocabulary.decode(row[:length]))


def test_beams():
    import keras_nlp

    model = shared()
    prompt = np.array([[3, 4, 5]], "int32")
    greedy = model.generate(prompt, 8, sampler="greedy")
    one = model.generate(prompt, 8, keras_nlp.samplers.BeamSampler(1))
    np.testing.assert_array_equal(one, greedy)
    three = model.generate(prompt, 8, keras_nlp.samplers.BeamSampler(3))
    assert three.shape == (1, 8)
    np.testing.assert_array_equal(three[:, :3], prompt)
    continuation = slice(2, None)
    assert (
        model.score(three)[:, continuation].sum()
        >= model.score(greedy)[:, continuation].sum() - 1e-5
    )


def test_random_samplers_keep_the_prompt():
    model = shared()
    found = model.generate([[3, 4], [5, 6, 7]], 6, sampler="top_k")
    assert found.shape == (2, 6)
    assert found[0, :2].tolist() == [3, 4]
    assert found[1, :3].tolist() == [5, 6, 7]
    assert found.min() >= 0
    assert found.max() < V


def test_strings_in_and_out():
    model = shared()
    vocabulary = Vocabulary([chr(97 + index) for index in range(V - 2)])
    text = model.generate("a b", 5, "greedy", vocabulary=vocabulary)
    ids = model.generate(vocabulary.encode("a b"), 5, "greedy")
    assert isinstance(text, str)
    assert text == " ".join(vocabulary.decode(ids))
    assert text.startswith("a b ")
    texts = model.generate(["a b", "c"], 5, "greedy", vocabulary=vocabulary)
    assert [type(text) for text in texts] == [str, str]
    assert texts[0] == text
    with pytest.raises(ValueError, match="`vocabulary`"):
        model.generate("a b", 5, "greedy")


def test_a_model_that_knows_its_vocabulary(tmp_path):
    vocabulary = Vocabulary([chr(97 + index) for index in range(V - 2)])
    model = make(vocabulary_size=None, vocabulary=vocabulary)
    assert model.vocabulary_size == V
    model.save(tmp_path / "model.keras")
    model = keras.saving.load_model(tmp_path / "model.keras")
    assert model.vocabulary.tokens == vocabulary.tokens
    # It ends by itself at the end of a sentence, and goes on if it is to.
    model.head.bias.assign(50.0 * (np.arange(V) == 0))
    assert model.generate("a b", 6, "greedy") == "a b"
    on = model.generate("a b", 6, "greedy", stop_token_ids=())
    assert on == "a b" + 4 * " <eos>"
    ids = vocabulary.encode("a b").tolist()
    score = model.score("a b")
    close(score, model.score([[0, *ids, 0]])[0])
    assert score.shape == (3,)
    several = model.score(["a b", "c"])
    assert [len(one) for one in several] == [3, 2]
    with pytest.raises(ValueError, match="of 23 tokens|vocabulary_size=24"):
        make(vocabulary_size=V + 1, vocabulary=vocabulary)


@pytest.mark.parametrize(
    "sampler, hint", [("topk", "Did you mean 'top_k'"), ("xyz", "'xyz'$")]
)
def test_unknown_samplers(sampler, hint):
    with pytest.raises(ValueError, match=f"`sampler`.*{hint}"):
        shared().generate([[1, 2]], 5, sampler)


@pytest.mark.parametrize(
    "prompt, max_length, message",
    [
        ([[]], 5, "`prompt`.*at least one token"),
        ([], 5, "`prompt`.*at least one token"),
        ([[1, 2, 3]], 3, "`max_length`.*3 tokens.*max_length=3"),
        ([[1, V]], 5, f"`prompt`.*below the vocabulary size {V}.*{V}"),
    ],
)
def test_wrong_prompts(prompt, max_length, message):
    with pytest.raises(ValueError, match=message):
        shared().generate(prompt, max_length, "greedy")


# === Errors ===


@pytest.mark.parametrize("wrong", [V, -1, 10**6])
def test_ids_outside_the_vocabulary(wrong):
    model = shared()
    tokens = tokens_of(2, 3)
    tokens[1, 2] = wrong
    message = f"below the vocabulary size {V}. Received: {wrong}"
    calls = [
        lambda: model(tokens),
        lambda: model.step(tokens, model.initial_state(2)),
        lambda: model.score(tokens),
        lambda: model.attention(tokens),
    ]
    for call in calls:
        with pytest.raises(ValueError, match=message):
            call()


def test_batches_outside_the_vocabulary():
    model = make()
    model.compile("sgd")
    good = documents()
    bad = Batches(np.array([1, 2, V, 3]), batch_size=2, segment_length=2)
    message = f"vocabulary_size={V}.*token id {V}"
    with pytest.raises(ValueError, match=message):
        model.fit(bad)
    with pytest.raises(ValueError, match=message):
        model.fit(good, validation_data=bad)
    with pytest.raises(ValueError, match=message):
        model.evaluate(bad)
    with pytest.raises(ValueError, match=message):
        model.predict(bad)
    with pytest.raises(ValueError, match=message):
        model.score_batches(bad)


def bidirectional():
    return keras.layers.Bidirectional(
        keras.layers.LSTM(UNITS, return_sequences=True)
    )


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"recurrent": []}, r"`recurrent`.*at least one.*recurrent=\[\]"),
        ({"recurrent": None}, "`recurrent`.*Received: recurrent=None"),
        ({"recurrent": keras.layers.LSTM(4)}, "`recurrent` must be a list"),
        ({"recurrent": [keras.layers.Dense(4)]}, "`recurrent`.*Dense"),
        ({"recurrent": [bidirectional()]}, "`recurrent`.*Bidirectional"),
        (
            {"recurrent": [keras.layers.LSTM(4, stateful=True)]},
            "`recurrent`.*stateful=True",
        ),
        (
            {"recurrent": [keras.layers.GRU(4, go_backwards=True)]},
            "`recurrent`.*go_backwards=True",
        ),
        (
            {
                "recurrent": [keras.layers.LSTM(10)],
                "memory": memories.KeyValuePredict(),
            },
            "divisible by 3.*units=10.*9 and 12",
        ),
        (
            {"tie_embeddings": True, "embedding_dim": 5},
            "`tie_embeddings=True`.*size 12.*embedding_dim=5",
        ),
        ({"vocabulary_size": 0}, "`vocabulary_size`.*at least 1.*=0"),
        ({"embedding_dim": 2.0}, "`embedding_dim`.*at least 1.*=2.0"),
        ({"dropout": 1.0}, "`dropout`.*less than 1.*dropout=1.0"),
        ({"dropout": -0.1}, "`dropout`.*at least 0.*dropout=-0.1"),
        ({"dropout": {"outputs": 1.0}}, "outputs.*less than 1.*1.0"),
        ({"dropout": {"output": 0.5}}, r"dropout with the keys \['output'\]"),
        (
            {"embedding": keras.layers.Embedding(V, 5)},
            "`embedding` must be.*ReversibleEmbedding",
        ),
        ({"embedding": Embedding(V + 1)}, "vocabulary_size=23.*input_dim=24"),
        ({"embedding": Embedding(V, 6)}, "embedding_dim=5.*output_dim=6"),
        ({"head": "dense"}, "`head` must be a layer.*head='dense'"),
        ({"head": keras.layers.Dense(7)}, "vocabulary_size=23.*units=7"),
        (
            {"head": keras.layers.Dense(V), "tie_embeddings": True},
            "`tie_embeddings=True` needs a head.*TiedProjection",
        ),
        ({"head": SmoothedProjection()}, "SmoothedProjection.*kneser_ney"),
    ],
)
def test_wrong_arguments(arguments, message):
    arguments = {
        "vocabulary_size": V,
        "embedding_dim": 5,
        "recurrent": [keras.layers.LSTM(UNITS)],
        **arguments,
    }
    with pytest.raises(ValueError, match=message):
        LanguageModel(**arguments)


def test_wrong_calls():
    model = shared()
    state = model.initial_state(2)
    with pytest.raises(ValueError, match=r"`tokens`.*\(batch, 1\).*\(2,\)"):
        model.step(np.array([1, 2]), state)
    with pytest.raises(ValueError, match="each of the 3 rows.*with 2 rows"):
        model.step(tokens_of(3, 1), state)
    with pytest.raises(ValueError, match="`state`.*Received: None"):
        model.step(tokens_of(2, 1), None)
    with pytest.raises(ValueError, match="`state`.*memory_window.*Received: "):
        model.step(tokens_of(2, 1), {"memory_window": state["memory_window"]})
    with pytest.raises(ValueError, match=r"at least 2. Received: shape \(2, 1"):
        model.score(tokens_of(2, 1))
    with pytest.raises(ValueError, match="integers. Received: dtype float"):
        model.score(np.ones((2, 3)))
    for memory in ("none", "ngram"):
        silent = shared("gru_rnn" if memory == "ngram" else "lstm", memory)
        with pytest.raises(ValueError, match="a memory that attends.*memory="):
            silent.attention(tokens_of(2, 3))


def test_tokens_held_by_the_backend_are_read():
    model = shared()
    tokens = tokens_of(2, 3)
    found, _ = model.step(
        keras.ops.convert_to_tensor(tokens), model.initial_state(2)
    )
    close(model(keras.ops.convert_to_tensor(tokens)), found)
    close(model.score(keras.ops.convert_to_tensor(tokens)), model.score(tokens))


# === What is given wrongly ===


def test_unknown_arguments_are_refused():
    with pytest.raises(TypeError, match="droput"):
        memlm_keras.LanguageModel(9, 4, [keras.layers.GRU(3)], droput=0.5)
    with pytest.raises(TypeError, match="windw"):
        memlm_keras.LanguageModel.from_preset("daniluk2017/lstm", 9, windw=3)


def test_a_memory_that_is_none_is_refused():
    with pytest.raises(ValueError, match="`memory` must be a layer of"):
        memlm_keras.LanguageModel(
            9, 4, [keras.layers.GRU(3)], memory=keras.layers.Dense(3)
        )


def test_arrays_with_wrong_ids_are_refused_by_fit():
    model = memlm_keras.LanguageModel(9, 4, [keras.layers.GRU(3)])
    model.compile("sgd")
    good, bad = np.zeros((2, 5), "int32"), np.full((2, 5), 9, "int32")
    for x, y in ((bad, good), (good, bad), (-bad, good)):
        with pytest.raises(ValueError, match="below the vocabulary size 9"):
            model.fit(x, y, verbose=0)
    with pytest.raises(ValueError, match=r"at least 1. Received.*\(2, 0\)"):
        model(np.zeros((2, 0), "int32"))
    with pytest.raises(ValueError, match="integers. Received: dtype float32"):
        model(np.zeros((2, 3), "float32"))
    with pytest.raises(ValueError, match="rows of one length"):
        model([[1, 2], [3]])
    close(model([[1, 2, 3]]), model(np.array([[1, 2, 3]])))
    with pytest.raises(ValueError, match="`y` must hold the next token"):
        model.fit(good, verbose=0)
    with pytest.raises(ValueError, match="`y` must hold the next token"):
        model.train_on_batch(good)


def test_negative_ids_in_batches_are_refused():
    model = memlm_keras.LanguageModel(9, 4, [keras.layers.GRU(3)])
    model.compile("sgd")
    with pytest.raises(ValueError, match="must not be negative.*-3"):
        model.fit(memlm_keras.data.Batches(np.array([1, -3, 2]), 1, 2))


def test_a_state_of_another_window_is_refused():
    model = memlm_keras.LanguageModel(
        9, 4, [keras.layers.GRU(6)], memlm_keras.memory.KeyValue(2)
    )
    state = model.initial_state(1)
    state["memory_window"] = np.zeros((1, 5, 6), "float32")
    with pytest.raises(ValueError, match="'memory_window' the shape"):
        model.step(np.zeros((1, 1), "int32"), state)


# === What callbacks and other sizes may do in between ===


def test_evaluation_of_another_batch_size_within_fit():
    tokens = np.arange(60) % 9
    model = memlm_keras.LanguageModel(9, 4, [keras.layers.GRU(3)])
    model.compile("sgd")
    batches = memlm_keras.data.Batches(tokens, 4, 5)
    validation = memlm_keras.data.Batches(tokens, 3, 5)
    other = memlm_keras.data.Batches(tokens, 2, 5)
    seen = []
    watch = keras.callbacks.LambdaCallback(
        on_epoch_end=lambda epoch, logs: seen.append(
            memlm_keras.evaluation.perplexity(model, other, verbose=0)
        )
    )
    history = model.fit(
        batches,
        epochs=3,
        validation_data=validation,
        callbacks=[watch],
        verbose=0,
    )
    assert len(seen) == len(history.history["val_loss"]) == 3
    compiled = model.train_function
    model.fit(batches, validation_data=validation, verbose=0)
    assert model.train_function is compiled


@pytest.mark.skipif(
    keras.backend.backend() != "jax", reason="only JAX compiles by variables"
)
def test_an_evaluation_within_fit_compiles_no_training_anew():
    model = make()
    model.compile("sgd")
    other = Batches(tokens_of(1, 20)[0], 2, 5)
    watch = keras.callbacks.LambdaCallback(
        on_train_batch_end=lambda batch, logs: (
            batch == 1 and model.evaluate(other, verbose=0)
        )
    )
    model.fit(documents(), epochs=2, callbacks=[watch], verbose=0)
    # The function that a batch is trained by, beneath Keras' own.
    assert model.train_function._cache_size() == 1


def test_mixed_precision_survives_saving(tmp_path):
    model = memlm_keras.LanguageModel(
        9, 4, [keras.layers.GRU(3)], dtype="mixed_bfloat16"
    )
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    tokens = np.zeros((1, 2), "int32")
    for one in (model, loaded):
        dtype = keras.backend.standardize_dtype(one(tokens).dtype)
        assert dtype == "bfloat16"


def test_one_seeded_initializer_gives_different_weights():
    model = memlm_keras.LanguageModel(
        5,
        5,
        [keras.layers.GRU(5)],
        initializer=keras.initializers.RandomUniform(seed=3),
    )
    embedding = keras.ops.convert_to_numpy(model.embedding.embeddings)
    head = keras.ops.convert_to_numpy(model.head.kernel)
    assert np.abs(embedding - head).max() > 1e-3

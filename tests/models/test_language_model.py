"""Tests arguments, saving and errors of language models."""

import itertools
import warnings

import keras
import numpy as np
import pytest
from keras.layers import GRU
from keras.layers import LSTM
from keras.layers import Dense
from keras.layers import GRUCell
from keras.layers import SimpleRNN
from language_models import UNITS
from language_models import V
from language_models import array
from language_models import close
from language_models import documents
from language_models import make
from language_models import shared
from language_models import tokens_of
from layers import assert_arguments_survive
from scipy.special import log_softmax

import memlm_keras
from memlm_keras import LanguageModel
from memlm_keras import memory as memories
from memlm_keras.data import Batches
from memlm_keras.data import Vocabulary
from memlm_keras.embeddings import Embedding
from memlm_keras.mixtures import NeuralCache
from memlm_keras.smoothing import SmoothedEmbedding
from memlm_keras.smoothing import SmoothedProjection
from memlm_keras.smoothing import VariationalSmoothing

pytestmark = pytest.mark.backend

# === Arguments ===


@pytest.mark.parametrize(
    "dropout, drops", [(0.5, True), ({"outputs": 0.5}, False)]
)
def test_dropout_is_active_in_training_only(dropout, drops):
    """Dropped embeddings change the state of the first layer."""
    model = make(dropout=dropout)
    tokens, state = tokens_of(2, 4), model.initial_state(2)
    logits, kept = model.step(tokens, state)
    close(model(tokens), logits)
    kinds = {type(layer) for layer in model.backbone.dropouts}
    assert kinds == {keras.layers.Dropout}
    dropped_logits, dropped = model.step(tokens, state, training=True)
    name = "recurrent_0_state_0"
    difference = np.abs(array(dropped[name]) - array(kept[name])).max()
    assert (difference > 1e-3) == drops
    others = [logits, dropped_logits, model(tokens, training=True)]
    for one, other in itertools.combinations(map(array, others), 2):
        assert np.abs(one - other).max() > 1e-3
    memory = memories.MemoryNetwork(3)
    dropout = {"embeddings": 0.5, "outputs": 0.25}
    alone = LanguageModel(V, 4, [], memory, dropout=dropout).backbone
    assert [layer.rate for layer in alone.dropouts] == [0.5]


@pytest.mark.backend("torch")
def test_every_argument_survives_its_configuration():
    arguments = {
        "vocabulary_size": V,
        "embedding_dim": 4,
        "recurrent": [GRU(3), LSTM(4)],
        "memory": memories.Attention(window=2),
        "dropout": {
            "embeddings": 0.125,
            "between": 0.25,
            "outputs": 0.375,
            "variational": True,
        },
        "tie_embeddings": True,
        "initializer": keras.initializers.RandomUniform(-0.3, 0.2, 11),
        "recurrent_above": [SimpleRNN(4)],
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
    model, revived = assert_arguments_survive(LanguageModel, arguments)
    assert revived.head.compute_dtype == "bfloat16"
    assert not hasattr(revived.head, "bias")
    assert revived.vocabulary is not model.vocabulary
    rates = [layer.rate for layer in revived.backbone.dropouts]
    assert rates == [0.125, 0.25, 0.25, 0.375]
    for layer in revived.backbone.dropouts:
        assert isinstance(layer, keras.layers.SpatialDropout1D)
    assert [w.path for w in revived.weights] == [w.path for w in model.weights]


def test_a_compiled_model_goes_on_after_loading(reloaded):
    model = make()
    model.compile(keras.optimizers.Adam(0.01, global_clipnorm=5.0))
    model.fit(documents(), verbose=0)
    loaded = reloaded(model)
    assert loaded.optimizer.global_clipnorm == 5.0
    assert int(loaded.optimizer.iterations) == int(model.optimizer.iterations)
    expected = model.evaluate(documents(), verbose=0, return_dict=True)
    found = loaded.evaluate(documents(), verbose=0, return_dict=True)
    assert set(found) == {"loss", "nats", "perplexity"}
    close(found, expected)
    # Another epoch gives equal weights, so the optimizer's state was loaded.
    model.fit(documents(), verbose=0)
    loaded.fit(documents(), verbose=0)
    close(loaded.trainable_variables, model.trainable_variables)


def test_one_seeded_initializer_gives_different_weights():
    model = memlm_keras.LanguageModel(
        5, 5, [GRU(5)], initializer=keras.initializers.RandomUniform(seed=3)
    )
    embedding, head = model.embedding.embeddings, model.head.kernel
    assert np.abs(array(embedding) - array(head)).max() > 1e-3


# === Errors ===


@pytest.mark.backend(one_in=2)
@pytest.mark.parametrize(
    "loss",
    [
        "auto",
        "sparse_categorical_crossentropy",
        "SparseCategoricalCrossentropy",
        ["crossentropy"],
        keras.losses.sparse_categorical_crossentropy,
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    ],
)
def test_names_of_losses_and_metrics_mean_those_of_logits(loss):
    model = make()
    tokens = tokens_of(3, 7)
    x, y = tokens[:, :-1], tokens[:, 1:]
    names = ["accuracy", "sparse_categorical_crossentropy"]
    model.compile("sgd", loss)
    alone, *_ = model.evaluate(x, y, verbose=0)
    model.compile("sgd", loss, metrics=names)
    found = model.evaluate(x, y, verbose=0, return_dict=True)
    logits = array(model(x)).astype("float64")
    logs = log_softmax(logits, axis=-1)
    loss = -np.take_along_axis(logs, y[..., None], axis=-1).mean()
    accuracy = (logits.argmax(axis=-1) == y).mean()
    close(
        [alone, found["loss"], found["accuracy"], found[names[1]]],
        [loss, loss, accuracy, loss],
    )


@pytest.mark.backend("torch")
def test_options_of_keras_that_mean_nothing_here():
    model = make()
    tokens = tokens_of(3, 7)
    x, y = tokens[:, :-1], tokens[:, 1:]
    entropy = keras.losses.SparseCategoricalCrossentropy()
    metric = keras.metrics.SparseCategoricalCrossentropy()
    model.compile("sgd")
    weights = {"class_weight": {0: 0.0}}
    corpus = memlm_keras.data.load("embedded")
    for call, message in (
        (lambda: model.fit(corpus), r"corpus\.batches\(.*a Corpus"),
        (lambda: model.fit(x, y, validation_data=corpus.test), "a Split"),
        (lambda: model.fit(x, y, **weights), "`class_weight`.*of 1 classes"),
        (lambda: model.train_on_batch(x, y, **weights), "`class_weight`"),
        (lambda: keras.models.clone_model(model), "LanguageModel.from_config"),
        (lambda: model.compile("sgd", entropy), "`loss`.*from_logits=True"),
        (lambda: model.compile("sgd", metrics=[metric]), "`metrics`.*from_l"),
        (
            lambda: model.fit(x, y, sample_weight=np.ones((3, 5))),
            r"shape \(batch,\).*\(3, 6\).*\(3, 5\)",
        ),
    ):
        with pytest.raises(ValueError, match=message):
            call()
    model.fit(x, y, sample_weight=np.ones(3), validation_split=0.4, verbose=0)
    pairs = memlm_keras.EntailmentClassifier.from_preset(
        "weissenborn2016/dual_am_gru_shared", vocabulary_size=9, scale=0.05
    )
    pairs.compile("sgd")
    inputs = {
        name: np.full((2, 3)[: len(tensor.shape)], 2)
        for name, tensor in pairs.input.items()
    }
    first = pairs.train_on_batch(
        inputs, np.array([0, 1]), class_weight={0: 0.0, 1: 2.0, 2: 1.0}
    )
    assert np.isfinite(first).all()


CELL = GRUCell(4)


@pytest.mark.backend("torch")
@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"recurrent": []}, r"`recurrent`.*at least one.*recurrent=\[\]"),
        ({"recurrent": None}, "`recurrent`.*Received: recurrent=None"),
        ({"recurrent": LSTM(4)}, "`recurrent` must be a list"),
        ({"recurrent": [Dense(4)]}, "`recurrent`.*Dense"),
        (
            {"recurrent": [CELL], "recurrent_above": [CELL]},
            "different layers.*Received twice",
        ),
        ({"recurrent": [LSTM(4, stateful=True)]}, "`recurrent`.*stateful=True"),
        (
            {"recurrent": [GRU(4, go_backwards=True)]},
            "`recurrent`.*go_backwards=True",
        ),
        (
            {"tie_embeddings": True, "embedding_dim": 5},
            "`tie_embeddings=True`.*embedding_dim=5.*size 12",
        ),
        ({"embedding_dim": 2.0}, "`embedding_dim`.*at least 1.*=2.0"),
        ({"dropout": 1.0}, "`dropout`.*less than 1.*dropout=1.0"),
        ({"dropout": {"outputs": None}}, "outputs.*must be at least 0.*None"),
        ({"dropout": {"output": 0.5}}, r"dropout with the keys \['output'\]"),
        (
            {"embedding": keras.layers.Embedding(V, 5)},
            "`embedding` must be.*ReversibleEmbedding",
        ),
        ({"embedding": Embedding(V, mask_zero=True)}, "mask the id 0"),
        ({"embedding": Embedding(V + 1)}, "vocabulary_size=23.*input_dim=24"),
        ({"embedding": Embedding(V, 6)}, "embedding_dim=5.*output_dim=6"),
        ({"head": "dense"}, "`head` must be a layer.*head='dense'"),
        ({"head": Dense(7)}, "vocabulary_size=23.*units=7"),
        (
            {"head": Dense(V), "tie_embeddings": True},
            "`tie_embeddings=True` needs a head.*TiedProjection",
        ),
        ({"head": SmoothedProjection()}, "SmoothedProjection.*kneser_ney"),
        ({"memory": Dense(3)}, "`memory` must be a layer of"),
    ],
)
def test_wrong_arguments(arguments, message):
    arguments = {
        "vocabulary_size": V,
        "embedding_dim": 5,
        "recurrent": [LSTM(UNITS)],
        **arguments,
    }
    with pytest.raises(ValueError, match=message):
        LanguageModel(**arguments)


def test_wrong_calls():
    model = shared()
    state = model.initial_state(2)
    part = {"memory_window": state["memory_window"]}
    other = {**state, "memory_window": np.zeros((2, 9, UNITS), "float32")}
    one = tokens_of(2, 1)
    calls = [
        model,
        lambda tokens: model.step(tokens, state),
        model.score,
        model.attention,
    ]
    outside = [
        (call, (np.array([[1, 2], [0, id]]),), f"size {V}. Received: {id}")
        for call in calls
        for id in (V, -1, 10**6)
    ]
    for call, arguments, message in (
        (model, (["a", "string"],), "`inputs` must be .*Received: "),
        (model, (None,), "`inputs` must be .*Received: inputs=None"),
        (model, ({"token_ids": 3},), "`token_ids` must be .*Received: "),
        (model, ({"token_ids": one, "targets": one - V},), "`targets`.*below"),
        (
            model,
            ({"token_ids": one, "positions": one},),
            "`positions` .* below the number of steps 1. Received: ",
        ),
        (model.step, ("a string", state), "`tokens` must be .*Received: "),
        (model.step, (np.array([1, 2]), state), r"\(batch, 1\).*\(2,\)"),
        (model.step, (tokens_of(3, 1), state), r"row.*\(3, 12\).*with 2 r"),
        (model.step, (one, None), "`state`.*Received: None"),
        (model.step, (one, part), "`state`.*memory_window.*Received: "),
        (model.step, (one, other), "'memory_window' must have the shape"),
        (model.score, (one,), r"at least 2. Received: shape \(2, 1"),
        (model.score, (np.ones((2, 3)),), "integers. Received: dtype float"),
        (shared("lstm", "none").attention, (one,), "a memory that attends"),
        (shared("gru_rnn", "ngram").attention, (one,), "a memory that attends"),
        *outside,
    ):
        with pytest.raises(ValueError, match=message):
            call(*arguments)


def test_tokens_held_by_the_backend_are_read():
    model = shared()
    tokens = tokens_of(2, 3)
    found, _ = model.step(
        keras.ops.convert_to_tensor(tokens), model.initial_state(2)
    )
    assert not getattr(found, "requires_grad", False)
    close(model(keras.ops.convert_to_tensor(tokens)), found)
    close(model.score(keras.ops.convert_to_tensor(tokens)), model.score(tokens))


def test_what_calls_and_fit_refuse():
    model = memlm_keras.LanguageModel(9, 4, [GRU(3)])
    model.compile("sgd")
    good, bad = np.zeros((2, 5), "int32"), np.full((2, 5), 9, "int32")
    for call, arguments, message in (
        (model.fit, (bad, good), "below the vocabulary size 9"),
        (model.fit, (good, bad), "below the vocabulary size 9"),
        (model, (good[:, :0],), r"at least 1. Received.*\(2, 0\)"),
        (model, ([[1, 2], [3]],), "rows of equal length"),
        (model.fit, (good,), "`y` must hold the next token"),
        (model.train_on_batch, (good,), "`y` must hold the next token"),
        (model.evaluate, (good,), "`y` must hold the next token"),
        (model.generate, ([0.5], 4), "integers. Received: dtype float"),
        (model.fit, (Batches(np.array([1, -3, 2]), 1, 2),), "negative.*-3"),
        (model.fit, (Batches(np.array([1, 9, 2]), 1, 2),), "=9.*token id 9"),
    ):
        with pytest.raises(ValueError, match=message):
            call(*arguments)
    close(model([[1, 2, 3]]), model(np.array([[1, 2, 3]])))
    with pytest.raises(TypeError, match="droput"):
        LanguageModel(9, 4, [GRU(3)], droput=0.5)
    with pytest.raises(TypeError, match="windw"):
        LanguageModel.from_preset("daniluk2017/lstm", 9, windw=3)


@pytest.mark.parametrize("units, pays", [(8, True), (200, True), (201, False)])
def test_small_models_are_compiled_by_xla_on_tensorflow(units, pays, xla):
    lm = memlm_keras.LanguageModel(
        vocabulary_size=9, embedding_dim=4, recurrent=[GRU(4), LSTM(units)]
    )
    lm.compile("sgd")
    if keras.backend.backend() == "tensorflow":
        assert lm.jit_compile == pays
    lm.compile("sgd", jit_compile=False)
    assert not lm.jit_compile


def test_bfloat16_is_warned_of_where_it_costs_time(xla):
    lm = memlm_keras.LanguageModel(9, 4, [LSTM(5)], dtype="mixed_bfloat16")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        lm.compile("sgd")
    slow = [w for w in caught if "bfloat16 is slower" in str(w.message)]
    assert bool(slow) == (keras.backend.backend() == "jax")
    assert not lm.jit_compile or keras.backend.backend() != "tensorflow"

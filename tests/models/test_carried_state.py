"""Tests the state carried between batches in training and evaluation."""

import warnings

import keras
import numpy as np
import pytest
from language_models import V
from language_models import carried_on
from language_models import close
from language_models import documents
from language_models import expected_of_batches
from language_models import make
from language_models import tokens_of

import memlm_keras
from memlm_keras.data import Batches

pytestmark = pytest.mark.backend


@pytest.mark.backend(one_in=4)
@pytest.mark.parametrize(
    "recurrent, memory",
    [
        ("lstm", "key_value_predict"),
        ("gru_rnn", "ngram"),
        ("lstm", "attentive_single"),
        ("lstm", "attentive_combined"),
    ],
)
def test_fit_and_validation_carry_states_of_their_own(recurrent, memory, xla):
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


@pytest.mark.parametrize(
    "layers, warns",
    [
        ({"memory": memlm_keras.memory.KeyValuePredict(window=7)}, True),
        ({"memory": memlm_keras.memory.Attentive("combined", window=7)}, True),
        ({"mixture": memlm_keras.mixtures.PointerSentinel(window=7)}, True),
        # No warning: the window equals the segment, is not the whole state,
        # holds words, or has no weights.
        ({"memory": memlm_keras.memory.KeyValuePredict(window=6)}, False),
        ({"memory": memlm_keras.memory.Attentive("single", window=7)}, False),
        ({"memory": memlm_keras.memory.MemoryBlock(window=7)}, False),
        ({"mixture": memlm_keras.mixtures.NeuralCache(7)}, False),
        ({}, False),
    ],
)
@pytest.mark.backend("torch")
def test_fit_warns_of_a_window_longer_than_the_segments(layers, warns):
    model = memlm_keras.LanguageModel(V, 6, [keras.layers.LSTM(6)], **layers)
    model.compile("sgd")
    batches = Batches(tokens_of(1, 20)[0], batch_size=2, segment_length=6)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(batches, verbose=0)
    caught = [w for w in caught if "looks back 7 steps" in str(w.message)]
    assert len(caught) == warns
    for warning in caught:
        assert "`segment_length=7`" in str(warning.message)
        assert warning.filename == __file__


def test_a_call_without_carry_state_makes_the_state():
    model, tokens, other = make(), tokens_of(2, 4), tokens_of(2, 4, seed=1)
    anew, _ = model.step(other, model.initial_state(2))
    for training in (False, True):
        found = model(
            {"token_ids": tokens, "reset": np.ones(2, "bool")},
            training=training,
        )
        begun, state = model.step(tokens, model.initial_state(2))
        close(found, begun)
        # Inputs without "reset" start from an empty context, and do not change
        # the carried state.
        for plain in (other, {"token_ids": other}):
            close(model(plain), anew)
        carried_on(model, state, training)
    # Batches with another number of rows have their own state.
    carried_on(model, model.initial_state(3), training=False)
    with pytest.raises(ValueError, match="Received a dict with keys: .*'ids'"):
        model({"ids": tokens})


def test_single_batches_carry_a_state():
    """Single batches may have fewer rows than the batches in `fit`."""
    model, tokens = make(), tokens_of(2, 4)
    model.compile(keras.optimizers.SGD(0.0), run_eagerly=False)
    inputs = {"token_ids": tokens, "reset": np.ones(2, "bool")}
    _, state = model.step(tokens, model.initial_state(2))
    model.test_on_batch(inputs, tokens)
    carried_on(model, state, training=False)
    model.train_on_batch(inputs, tokens)
    carried_on(model, state, training=True)
    model.fit(inputs, tokens, batch_size=3, verbose=0)
    carried_on(model, state, training=True)
    # The rows of a batch continue those of the batch before.
    parts = [tokens_of(2, 4, seed) for seed in range(6)]
    inputs = {
        "token_ids": np.concatenate(parts),
        "reset": np.arange(12) < 2,
    }
    model.fit(inputs, inputs["token_ids"], batch_size=2, verbose=0)
    whole = np.concatenate(parts, axis=1)
    _, state = model.step(whole, model.initial_state(2))
    carried_on(model, state, training=True)
    assert not hasattr(model, "carried_training_state_3")


def test_batches_within_an_epoch_that_is_not_trained():
    model, batches = make(), documents()
    model.compile(keras.optimizers.SGD(0.0))
    batches.start_at(1, 1)
    history = model.fit(batches, epochs=1, verbose=0)
    assert history.epoch == [0]


def test_datasets_of_tensorflow_carry_a_state(xla):
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


# === Evaluation and other batch sizes within training ===


def test_an_evaluation_within_fit_compiles_no_training_anew(xla, monkeypatch):
    model = make()
    model.compile("sgd")
    other = Batches(tokens_of(1, 20)[0], 2, 5)
    forward, traced, counts = model.backbone.forward, [], []

    def spy(*args, training=False, **kwargs):
        traced.append(training)
        return forward(*args, training=training, **kwargs)

    def watch(epoch, logs):
        counts.append(sum(traced))
        model.evaluate(other, verbose=0)

    monkeypatch.setattr(model.backbone, "forward", spy)
    watching = keras.callbacks.LambdaCallback(on_epoch_end=watch)
    arguments = {"validation_data": documents(4), "verbose": 0}
    model.fit(documents(), epochs=3, callbacks=[watching], **arguments)
    # PyTorch compiles nothing.
    if keras.backend.backend() != "torch":
        assert counts[0] > 0
        assert counts == 3 * counts[:1]
    compiled = model.train_function
    model.fit(documents(), **arguments)
    assert model.train_function is compiled

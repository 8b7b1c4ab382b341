"""Tests training on several devices, in a process with four devices.

`test_distribution.py` runs these tests in a new process, because JAX and
TensorFlow can divide a CPU into devices only before any computation.
"""

import contextlib
import functools
import shutil

import keras
import numpy as np
import pytest

from memlm_keras import EntailmentClassifier
from memlm_keras import LanguageModel
from memlm_keras.cells import AssociativeGRUCell
from memlm_keras.data import Batches
from memlm_keras.data import PairBatches
from memlm_keras.data import SentenceBatches
from memlm_keras.data import Vocabulary
from memlm_keras.experiments import command_line
from memlm_keras.heads import projection
from memlm_keras.memory import KeyValuePredict
from memlm_keras.mixtures import PointerSentinel
from memlm_keras.serving import export
from memlm_keras.smoothing import SmoothedEmbedding
from memlm_keras.smoothing import StreamStatistics
from memlm_keras.smoothing import VariationalSmoothing
from memlm_keras.training import Checkpoint
from memlm_keras.training import SentenceCrossEntropy
from memlm_keras.training import data_parallel
from memlm_keras.training import distribution

V = 13
BACKEND = keras.backend.backend()
CLOSE = {"rtol": 1e-4, "atol": 1e-5}
# Compile by XLA only on JAX: on TensorFlow, the tests would not be faster.
JIT = BACKEND == "jax"

if BACKEND == "tensorflow":
    import tensorflow as tf

    tf.config.set_logical_device_configuration(
        tf.config.list_physical_devices("CPU")[0],
        [tf.config.LogicalDeviceConfiguration()] * 4,
    )


def text(length=150):
    tokens = np.random.default_rng(5).integers(1, V, size=length)
    tokens[7::9] = 0
    tokens[-1] = 0
    return tokens.astype("int32")


def on(devices):
    """Returns a context for `devices` devices; `None` means one device."""
    return data_parallel(devices) if devices else contextlib.nullcontext()


def arrays(variables):
    return [keras.ops.convert_to_numpy(v).copy() for v in variables]


def language_model(loss="auto", clip="global_clipnorm", **arguments):
    keras.utils.set_random_seed(3)
    model = LanguageModel(
        V,
        6,
        [keras.layers.LSTM(9)],
        KeyValuePredict(3),
        **{
            "initializer": keras.initializers.RandomUniform(-0.7, 0.7, seed=1),
            **arguments,
        },
    )
    # The norm is small, so that every step clips and a wrong norm shows.
    optimizer = keras.optimizers.SGD(0.4, momentum=0.9, **{clip: 0.3})
    model.compile(optimizer, loss, jit_compile=JIT)
    return model


def documents():
    """Returns batches in which padding gives each device another number of
    tokens."""
    starts = np.array([0, 9, 70, 90, 135])
    return Batches(text(), 4, 6, document_starts=starts)


def plain():
    return language_model(), documents(), Batches(text(60), 8, 5)


def sentences():
    batches = SentenceBatches(text(), 4, seed=2, shuffle=True)
    model = language_model(SentenceCrossEntropy(), clip="clipnorm")
    return model, batches, None


def pointing():
    """Returns a case whose loss has a pointer's term and a KL divergence, and
    whose model draws no random numbers."""
    smoothing = VariationalSmoothing("linear_interpolation", 0.0, l2=0.1)
    initializer = keras.initializers.RandomUniform(-0.7, 0.7, seed=2)
    model = language_model(
        keras.losses.SparseCategoricalCrossentropy(
            from_logits=True, reduction="mean_with_sample_weight"
        ),
        clip="clipvalue",
        mixture=PointerSentinel(4),
        embedding=SmoothedEmbedding(
            smoothing=smoothing, embeddings_initializer=initializer
        ),
    )
    model.smoothing.adapt(StreamStatistics.count(text(), V))
    return model, documents(), None


def classifier():
    """Returns a case with rows of weight 0 at the end of the last batch."""
    keras.utils.set_random_seed(4)
    model = EntailmentClassifier(
        V, 5, AssociativeGRUCell(6), top=keras.layers.GRU(6, reset_after=False)
    )
    model.compile(
        keras.optimizers.SGD(0.4, global_clipnorm=0.3), jit_compile=JIT
    )
    generator = np.random.default_rng(1)
    premises, hypotheses = (
        [generator.integers(1, V, 3 + row % 4) for row in range(13)]
        for _ in range(2)
    )
    labels = generator.integers(0, 3, 13)
    batches = PairBatches(premises, hypotheses, labels, 8)
    return model, batches, None


CASES = {
    function.__name__: function
    for function in (plain, sentences, pointing, classifier)
}


@functools.cache
def trained(case, devices):
    """Trains a case; returns the model, its weights with carried states, and
    the history."""
    with on(devices):
        model, batches, validation = CASES[case]()
        history = model.fit(
            batches, epochs=2, validation_data=validation, verbose=0
        ).history
        distribution.gather_rows(model, carried(model))
    return model, arrays(model.weights), history


def carried(model):
    return [v for v in model.weights if "carried_training" in v.path]


def require_equal_training(case, devices):
    _, expected, expected_history = trained(case, None)
    _, found, history = trained(case, devices)
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, **CLOSE)
    assert history.keys() == expected_history.keys()
    for name, values in expected_history.items():
        np.testing.assert_allclose(history[name], values, **CLOSE)


@pytest.mark.parametrize("case", ["plain", "pointing", "classifier"])
def test_it_is_the_training_of_one_device(case):
    require_equal_training(case, 2)


def test_sentences_in_blocks(monkeypatch):
    trained("sentences", None)
    original, called = projection.block_losses, []

    def recorded(*arguments, **keywords):
        called.append(keras.ops.shape(arguments[0]))
        return original(*arguments, **keywords)

    monkeypatch.setattr(projection, "BLOCK", 3 * V)
    monkeypatch.setattr(projection, "block_losses", recorded)
    require_equal_training("sentences", 4)
    assert bool(called) == (BACKEND == "tensorflow")


def test_devices_have_other_numbers_of_tokens():
    weights = [batch[2] for batch in map(documents().__getitem__, range(3))]
    assert any(w[:2].sum() != w[2:].sum() for w in weights)


def test_each_device_carries_the_state_of_its_rows():
    model, _, _ = trained("plain", 2)
    state = carried(model)
    assert state and all(variable.shape[0] == 4 for variable in state)
    for variable in state:
        if BACKEND == "jax":
            parts = [s.data.shape[0] for s in variable.value.addressable_shards]
            assert parts == [2] * 2
        else:
            parts = model.distribute_strategy.experimental_local_results(
                variable.value
            )
            assert len(parts) == 2
            np.testing.assert_array_equal(*parts)


def test_dropout_masks():
    layer = keras.layers.Dropout(0.5, seed=6)
    ones = np.ones((4, 30), "float32")
    expected = keras.ops.convert_to_numpy(layer(ones, training=True))
    with on(2):
        layer = keras.layers.Dropout(0.5, seed=6)
        layer.build(ones.shape)
        if BACKEND == "jax":
            dealt = distribution.shard_rows(keras.ops.convert_to_tensor(ones))
            found = layer(dealt, training=True)
            np.testing.assert_array_equal(found, expected)
            return
        strategy = tf.distribute.get_strategy()
        found = strategy.run(lambda: layer(tf.ones((2, 30)), training=True))
        parts = strategy.experimental_local_results(found)
    np.testing.assert_array_equal(*parts)


# === Interrupted runs that continue ===


class Interrupted(BaseException):
    """Interrupts training like `KeyboardInterrupt`."""


def run(path, devices, stop_at=None):
    """Trains until two epochs are complete, from a checkpoint if there is one;
    returns weights and history."""
    with on(devices):
        model, batches, validation = plain()
        done = []

        def count(batch, logs):
            done.append(batch)
            if len(done) == stop_at:
                raise Interrupted

        model.fit(
            batches,
            epochs=2,
            validation_data=validation,
            verbose=0,
            callbacks=[
                Checkpoint(path, batches, frequency=4),
                keras.callbacks.LambdaCallback(on_train_batch_end=count),
            ],
        )
        distribution.gather_rows(model, carried(model))
    return arrays(model.weights), model.history.history


@pytest.fixture(scope="module")
def interrupted(tmp_path_factory):
    path = tmp_path_factory.mktemp("runs") / "checkpoint.npz"
    with pytest.raises(Interrupted):
        run(path, 2, len(documents()) - 1)
    return path


@pytest.mark.parametrize("devices", [2, None])
def test_an_interrupted_run_goes_on(interrupted, devices, tmp_path):
    _, weights, history = trained("plain", 2)
    path = shutil.copy(interrupted, tmp_path / "checkpoint.npz")
    found, resumed = run(path, devices)
    same = devices == 2 and BACKEND == "jax"
    tolerance = {"rtol": 0, "atol": 0} if same else CLOSE
    for a, b in zip(found, weights, strict=True):
        np.testing.assert_allclose(a, b, **tolerance)
    for name, values in history.items():
        # The interrupted epoch adds its sums in another order.
        np.testing.assert_allclose(resumed[name], values, **CLOSE)


def test_the_command(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("MEMLM_KERAS_HOME", str(tmp_path))
    monkeypatch.setenv("KERAS_BACKEND", BACKEND)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "text.txt").write_text("the old man saw a sea\n" * 200)

    def memlm(*flags):
        arguments = ["train", "key_value_predict", "--dataset=text.txt"]
        arguments += ["--scale=0.02", "--batch_size=4", "--verbose=0"]
        arguments += ["--distribution=data_parallel", *flags]
        return command_line.main(arguments), capsys.readouterr()

    status, told = memlm("--devices=2", "--epochs=1")
    assert status == 0, told.err
    (folder,) = (tmp_path / "runs").iterdir()
    assert "data_parallel" in folder.name
    config = (folder / "config.json").read_text()
    assert '"distribution": "data_parallel"' in config
    status, told = memlm("--devices=5", "--epochs=2")
    assert status == 2
    assert "`devices` must be 1 to 4" in told.err


# === Scores and copies of a trained model ===


def test_scores_and_copies(tmp_path):
    tokens = np.random.default_rng(0).integers(V, size=(3, 7))
    model, _, history = trained("plain", 2)
    _, _, batches = plain()
    # A TensorFlow model knows its devices; JAX needs the context again.
    with on(2 if BACKEND == "jax" else None):
        scores, weights = model.score_batches(batches)
        predicted = model.predict(batches, verbose=0)
        sampled = model.generate([1, 2], 5, "greedy")
        model.save(tmp_path / "model.keras")
        vocabulary = Vocabulary([f"word{number}" for number in range(V - 2)])
        assert len(vocabulary) == V
        export(model, tmp_path / "exported" / "1", vocabulary=vocabulary)
        expected = keras.ops.log_softmax(model(tokens))
        expected = keras.ops.convert_to_numpy(expected)
    nats = -np.sum(scores * weights) / np.sum(weights)
    np.testing.assert_allclose(history["val_nats"][-1], nats, rtol=1e-4)
    assert predicted.shape == (len(batches) * 8, 5, V)
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(loaded.generate([1, 2], 5, "greedy"), sampled)
    np.testing.assert_allclose(
        loaded.predict(batches, verbose=0), predicted, **CLOSE
    )
    import tensorflow

    served = tensorflow.saved_model.load(tmp_path / "exported" / "1")
    found = served.signatures["serving_default"](
        token_ids=tensorflow.constant(tokens, "int32")
    )
    np.testing.assert_allclose(found["log_probabilities"], expected, **CLOSE)


def test_rows_that_cannot_be_dealt_are_refused():
    model, _, _ = trained("plain", 2)
    odd = Batches(text(), 3, 6)
    with on(2 if BACKEND == "jax" else None):
        for call in (
            lambda: model.fit(odd, verbose=0),
            lambda: model.fit(documents(), validation_data=odd, verbose=0),
            lambda: model.evaluate(odd, verbose=0),
        ):
            with pytest.raises(ValueError, match="3 rows for 2 devices"):
                call()

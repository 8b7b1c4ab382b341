"""Tests frozen embeddings and the halved learning rate."""

import keras
import numpy as np
import pytest

from memlm_keras import EntailmentClassifier
from memlm_keras import LanguageModel
from memlm_keras.data import Batches
from memlm_keras.data import PairBatches
from memlm_keras.training import FreezeEmbeddings
from memlm_keras.training import HalveOnDrop

pytestmark = pytest.mark.backend


@pytest.fixture
def model():
    model = EntailmentClassifier(9, 4, keras.layers.GRU(4))
    model.compile(keras.optimizers.Adam(0.01, beta_1=0.9))
    return model


@pytest.fixture
def batches(random):
    sentences = [random.integers(1, 9, 3) for _ in range(24)]
    labels = random.integers(0, 3, 24)
    return PairBatches(sentences, sentences[::-1], labels, 4, shuffle=True)


def fit(model, batches, *callbacks, epochs=1):
    model.fit(batches, epochs=epochs, verbose=0, callbacks=callbacks)


def embeddings_of(model):
    return np.array(model.get_weights()[0])


class Watch(keras.callbacks.Callback):
    """Collects the embeddings after each epoch."""

    def __init__(self):
        super().__init__()
        self.embeddings = []

    def on_epoch_end(self, epoch, logs=None):
        self.embeddings.append(embeddings_of(self.model))


def test_the_optimizer_remembers_nothing_of_what_was_frozen(model, batches):
    fit(model, batches, FreezeEmbeddings(1))
    moments = [
        np.array(keras.ops.convert_to_numpy(variable))
        for variable in model.optimizer.variables
        if tuple(variable.shape) == (9, 4)
    ]
    assert len(moments) == 2
    assert not any(moment.any() for moment in moments)


def test_only_some_words(model, batches):
    before = embeddings_of(model)
    words = np.arange(9) < 5
    watch = Watch()
    fit(model, batches, FreezeEmbeddings(1, words), watch, epochs=2)
    first, second = watch.embeddings
    np.testing.assert_array_equal(first[words], before[words])
    # Word 0 occurs in no sentence, so its vector is not trained.
    assert (first[5:] != before[5:]).any(axis=1).all()
    assert (second[1:5] != before[1:5]).any(axis=1).all()
    with pytest.raises(ValueError, match=r"shape \(9,\).*shape \(4,\)"):
        fit(model, batches, FreezeEmbeddings(1, words[:4]))


@pytest.mark.backend(one_in=2)
@pytest.mark.parametrize("restored", [False, True])
def test_a_later_training_is_not_frozen(model, batches, restored):
    best_first = keras.callbacks.EarlyStopping(
        "loss", mode="max", patience=9, restore_best_weights=restored
    )
    before = embeddings_of(model)
    fit(model, batches, FreezeEmbeddings(5), best_first, epochs=2)
    np.testing.assert_array_equal(embeddings_of(model), before)
    fit(model, batches)
    assert (embeddings_of(model) != before).any()


@pytest.mark.backend(one_in=3)
@pytest.mark.parametrize(
    "optimizer, some",
    [
        (keras.optimizers.Adam(0.01), False),
        (keras.optimizers.SGD(0.1, momentum=0.9, weight_decay=0.1), True),
        (keras.optimizers.Ftrl(0.1), True),
    ],
)
def test_momentum_of_an_earlier_training_moves_nothing(
    model, batches, optimizer, some
):
    words = np.arange(9) < 5 if some else None
    frozen = slice(5) if some else slice(None)
    model.compile(type(optimizer).from_config(optimizer.get_config()))
    fit(model, batches)
    before = embeddings_of(model)
    watch = Watch()
    fit(model, batches, FreezeEmbeddings(1, words), watch, epochs=2)
    first, second = watch.embeddings
    np.testing.assert_array_equal(first[frozen], before[frozen])
    assert not some or (first[5:] != before[5:]).any()
    assert (second[frozen] != before[frozen]).any()


def test_steps_in_one_execution_are_refused(model, batches):
    model.steps_per_execution = 2
    with pytest.raises(ValueError, match="`steps_per_execution.*: .*2"):
        fit(model, batches, FreezeEmbeddings())


def test_a_saved_model_is_not_frozen(model, batches, tmp_path):
    path = tmp_path / "model.keras"
    save = keras.callbacks.ModelCheckpoint(path)
    fit(model, batches, FreezeEmbeddings(1), save)
    loaded = keras.saving.load_model(path, compile=False)
    loaded.compile("adam")
    before = embeddings_of(loaded)
    loaded.train_on_batch(*batches[0])
    assert (embeddings_of(loaded) != before).any()
    loaded.gradient_mask.freeze()
    loaded.load_weights(path)
    assert (np.array(loaded.gradient_mask.shares) == 1).all()


def test_a_model_without_a_mask():
    model = LanguageModel(9, 4, [keras.layers.GRU(4)])
    model.compile()
    with pytest.raises(ValueError, match="needs a model with a `gradient_m"):
        fit(model, Batches(np.arange(40) % 9, 2, 5), FreezeEmbeddings())
    with pytest.raises(ValueError, match="`epochs` must be .*at least 0"):
        FreezeEmbeddings(-1)


@pytest.mark.parametrize(
    "epochs, values, halvings",
    [
        (1, [0.5, 0.6, 0.4, 0.55, 0.55, 0.5], [2, 5]),
        # With two epochs, 0.4 is compared with 0.5, and 0.5 with 0.55.
        (2, [0.5, 0.6, 0.4, 0.55, 0.55, 0.5], [2, 5]),
        # With three epochs, the second 0.55 is compared with 0.6.
        (3, [0.5, 0.6, 0.4, 0.55, 0.55, 0.5], [4]),
        # The rate is halved at most every two epochs, even if the metric keeps
        # falling.
        (2, [0.9, 0.8, 0.7, 0.6, 0.5, 0.4], [2, 4]),
        (1, [0.5], []),
    ],
)
def test_halved_when_worse_than_so_many_epochs_ago(
    model, epochs, values, halvings
):
    halve = HalveOnDrop("val_accuracy", epochs, factor=0.25)
    halve.set_model(model)
    rates = [0.01]
    for epoch, value in enumerate(values):
        # Continue with a new callback, which gets the saved state.
        other = HalveOnDrop("val_accuracy", epochs, factor=0.25)
        other.set_model(model)
        other.set_state(halve.get_state())
        other.on_epoch_end(epoch, {"val_accuracy": value})
        halve = other
        rates.append(float(model.optimizer.learning_rate))
    found = [e for e in range(len(values)) if rates[e + 1] < 0.9 * rates[e]]
    assert found == halvings
    assert rates[-1] == pytest.approx(0.01 * 0.25 ** len(halvings))


@pytest.mark.backend("torch")
def test_nothing_to_halve_by(model, batches):
    with pytest.raises(ValueError, match="'val_accuracy' must be in.*loss"):
        fit(model, batches, HalveOnDrop())
    with pytest.raises(ValueError, match="`epochs` must be .*at least 1"):
        HalveOnDrop(epochs=0)
    with pytest.raises(ValueError, match="`factor` must be above 0"):
        HalveOnDrop(factor=1.0)

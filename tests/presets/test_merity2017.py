import keras
import numpy as np
import pytest

from memlm_keras import LanguageModel
from memlm_keras import presets
from memlm_keras.cells import ZoneoutLSTMCell
from memlm_keras.data import Batches
from memlm_keras.training import SentenceCrossEntropy


def parameters(vocabulary_size, h, pointer):
    """Embeddings, two layers of four gates, softmax; W (h, h), b and s."""
    medium = 2 * vocabulary_size * h + vocabulary_size + 8 * (2 * h * h + h)
    return medium + pointer * (h * h + 2 * h)


# By hand, and as a number.
COUNTS = {
    "ptb_zoneout_variational": (10_000, 19_775_200),
    "ptb_pointer_sentinel": (10_000, 20_199_000),
    "wikitext2_variational_lstm": (33_278, 50_059_878),
    "wikitext2_zoneout_variational": (33_278, 50_059_878),
    "wikitext2_pointer_sentinel": (33_278, 50_483_678),
}
every_row = pytest.mark.parametrize("row", COUNTS)
ZONEOUT = [row for row in COUNTS if row != "wikitext2_variational_lstm"]
every_row_with_zoneout = pytest.mark.parametrize("row", ZONEOUT)


@every_row
def test_parameters(row, not_drawn):
    vocabulary_size, expected = COUNTS[row]
    model = LanguageModel.from_preset(f"merity2017/{row}", vocabulary_size)
    by_hand = parameters(vocabulary_size, 650, "pointer" in row)
    assert model.count_params() == by_hand == expected


@every_row_with_zoneout
def test_the_model_of_the_paper(row):
    model = LanguageModel.from_preset(f"merity2017/{row}", 31, scale=0.1)
    for layer in model.recurrent:
        assert layer.cell.units == 65
        assert isinstance(layer.cell, ZoneoutLSTMCell)
        assert layer.cell.cell_zoneout == 0.5
        assert layer.cell.hidden_zoneout == 0.05
    assert not model.tie_embeddings
    rates = [layer.rate for layer in model.backbone.dropouts]
    assert rates == [0.5] * 3
    assert model.dropout["variational"]
    assert (model.mixture is not None) is ("pointer" in row)
    for weight in model.trainable_variables:
        values = keras.ops.convert_to_numpy(weight)
        assert 0.025 < np.abs(values).max() <= 0.05, weight.path


def test_the_variational_model_is_that_of_gal():
    found = presets.get("merity2017/wikitext2_variational_lstm")
    expected = presets.get("gal2016/medium")
    for key in ("model", "data", "optimizer", "schedule"):
        assert found[key] == expected[key]


def test_sizes():
    model = LanguageModel.from_preset(
        "merity2017/ptb_pointer_sentinel",
        31,
        units=6,
        embedding_dim=4,
        window=7,
    )
    assert (model.mixture.window, model.embedding_dim) == (7, 4)
    assert [layer.cell.units for layer in model.recurrent] == [6, 6]
    model = LanguageModel.from_preset(
        "merity2017/wikitext2_pointer_sentinel", 31, units=6
    )
    assert model.mixture.window == 100
    with pytest.raises(ValueError, match="`window` contradicts.*window=3"):
        presets.get("merity2017/ptb_zoneout_variational", window=3)


def test_a_pointer_is_trained_with_zoneout():
    preset = presets.get("merity2017/ptb_pointer_sentinel", units=6)
    model = LanguageModel.from_preset(preset["name"], 13, units=6, window=4)
    model.compile(
        keras.optimizers.deserialize(preset["optimizer"]),
        keras.losses.deserialize(preset["loss"]),
    )
    tokens = np.random.default_rng(0).integers(13, size=61).astype("int32")
    before = [weight.copy() for weight in model.get_weights()]
    model.fit(Batches(tokens, 2, 10), epochs=2, verbose=0)
    for old, new in zip(before, model.get_weights()):
        assert np.isfinite(new).all()
        assert (old != new).any()


@every_row_with_zoneout
def test_training_of_the_paper(row):
    preset = presets.get(f"merity2017/{row}")
    assert preset["data"] == {"batch_size": 32, "segment_length": 100}
    optimizer = keras.optimizers.deserialize(preset["optimizer"])
    assert isinstance(optimizer, keras.optimizers.SGD)
    assert float(optimizer.learning_rate) == 1.0
    assert optimizer.global_clipnorm == 1.0
    loss = keras.losses.deserialize(preset["loss"])
    assert isinstance(loss, SentenceCrossEntropy)
    halving = keras.callbacks.ReduceLROnPlateau(
        **preset["schedule"]["reduce_on_plateau"]
    )
    assert (halving.factor, halving.patience) == (0.5, 0)


def test_published_perplexities():
    published = {
        row: tuple(presets.get(f"merity2017/{row}")["published"].values())
        for row in COUNTS
    }
    assert published == {
        "ptb_zoneout_variational": ("Penn Treebank", 84.4, 80.6),
        "ptb_pointer_sentinel": ("Penn Treebank", 72.4, 70.9),
        "wikitext2_variational_lstm": ("WikiText-2", 101.7, 96.3),
        "wikitext2_zoneout_variational": ("WikiText-2", 108.7, 100.9),
        "wikitext2_pointer_sentinel": ("WikiText-2", 84.8, 80.8),
    }

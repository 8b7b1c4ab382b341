import keras
import pytest

from memlm_keras import LanguageModel
from memlm_keras import presets
from memlm_keras.training import SentenceCrossEntropy

V = 10_000
# Embeddings, two layers of four gates, softmax, as of Zaremba et al. (2014).
COUNTS = {
    name: 2 * V * h + V + 2 * 4 * (2 * h * h + h)
    for name, h in (("medium", 650), ("large", 1500))
}
every_row = pytest.mark.parametrize("row", COUNTS)


@every_row
def test_parameters(row, not_drawn):
    model = LanguageModel.from_preset(f"gal2016/{row}", V)
    assert model.count_params() == COUNTS[row]
    printed = {"medium": 20, "large": 66}
    assert round(COUNTS[row] / 1e6) == printed[row]


@every_row
def test_dropout_of_the_paper(row):
    model = LanguageModel.from_preset(f"gal2016/{row}", 31, scale=0.02)
    assert model.embedding.word_dropout == 0.3
    assert model.dropout["variational"]
    rates = [layer.rate for layer in model.backbone.dropouts]
    assert rates == [0.0, 0.0, 0.5]
    for layer in model.recurrent:
        assert (layer.dropout, layer.recurrent_dropout) == (0.5, 0.3)
        # One mask for each gate.
        assert layer.cell.dropout_mask_count == 4
    assert not model.tie_embeddings
    assert model.with_fixed_dropout(0).count_params() == model.count_params()


@every_row
def test_training_of_the_paper(row):
    preset = presets.get(f"gal2016/{row}")
    found = preset["schedule"]
    schedule = found["epochs"], found["halve_after"], found["factor"]
    assert schedule == ((39, 6, 0.8) if row == "medium" else (55, 10, 1 / 1.15))
    optimizer = keras.optimizers.deserialize(preset["optimizer"])
    assert isinstance(optimizer, keras.optimizers.SGD)
    assert float(optimizer.learning_rate) == 1.0
    assert optimizer.weight_decay == 1e-7
    assert optimizer.global_clipnorm == (5.0 if row == "medium" else 10.0)
    loss = keras.losses.deserialize(preset["loss"])
    assert isinstance(loss, SentenceCrossEntropy)
    assert preset["data"] == {"batch_size": 20, "segment_length": 35}


def test_published_perplexities():
    published = {
        row: list(presets.get(f"gal2016/{row}")["published"].values())
        for row in COUNTS
    }
    assert published == {
        "medium": ["Penn Treebank", 81.9, 79.7, 78.6],
        "large": ["Penn Treebank", 77.9, 75.2, 73.4],
    }


def test_a_window_contradicts():
    with pytest.raises(ValueError, match="`window` contradicts.*window=3"):
        presets.get("gal2016/large", window=3)

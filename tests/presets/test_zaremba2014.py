import keras
import pytest

from memlm_keras import LanguageModel
from memlm_keras import presets
from memlm_keras.training import SentenceCrossEntropy

V = 10_000
# Embeddings, two layers of four gates with two matrices and a bias, softmax.
COUNTS = {
    name: V * h + 2 * 4 * (2 * h * h + h) + V * h + V
    for name, h in (("small", 200), ("medium", 650), ("large", 1500))
}


@pytest.mark.parametrize("row", COUNTS)
def test_parameters(row, not_drawn):
    model = LanguageModel.from_preset(f"zaremba2014/{row}", V)
    assert model.count_params() == COUNTS[row]


def test_parameters_as_printed():
    """20M and 66M."""
    assert round(COUNTS["medium"] / 1e6) == 20
    assert round(COUNTS["large"] / 1e6) == 66


@pytest.mark.parametrize(
    "row, dropout, norm, limit, schedule",
    [
        ("small", 0.0, 5.0, 0.1, (13, 4, 0.5)),
        ("medium", 0.5, 5.0, 0.05, (39, 6, 0.8)),
        ("large", 0.65, 10.0, 0.04, (55, 14, 1 / 1.15)),
    ],
)
def test_training_of_the_paper(row, dropout, norm, limit, schedule):
    preset = presets.get(f"zaremba2014/{row}")
    found = preset["schedule"]
    assert schedule == (found["epochs"], found["halve_after"], found["factor"])
    optimizer = keras.optimizers.deserialize(preset["optimizer"])
    assert isinstance(optimizer, keras.optimizers.SGD)
    assert float(optimizer.learning_rate) == 1.0
    assert optimizer.global_clipnorm == norm
    loss = keras.losses.deserialize(preset["loss"])
    assert isinstance(loss, SentenceCrossEntropy)
    assert preset["data"]["batch_size"] == 20
    assert preset["data"]["segment_length"] == (20 if row == "small" else 35)
    model = LanguageModel.from_preset(f"zaremba2014/{row}", 31, scale=0.1)
    assert model.dropout == dropout
    for weight in model.trainable_variables:
        values = keras.ops.convert_to_numpy(weight)
        assert 0.5 * limit < abs(values).max() <= limit, weight.path


def test_a_window_contradicts():
    with pytest.raises(ValueError, match="`window` contradicts.*window=3"):
        presets.get("zaremba2014/small", window=3)

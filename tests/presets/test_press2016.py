import keras
import numpy as np
import pytest

from memlm_keras import LanguageModel
from memlm_keras import presets
from memlm_keras.data import Batches
from memlm_keras.evaluation import perplexity

V = 10_000


def parameters(h, tied, projected):
    """Embeddings, two layers of four gates, softmax; P (h, h) and b_P."""
    matrices = (1 if tied else 2) * V * h
    return matrices + V + 8 * (2 * h * h + h) + projected * (h * h + h)


# By hand, and as a number. The paper prints 4.6M, 2.6M and 51M.
COUNTS = {
    "small_wt": (parameters(200, True, False), 2_651_600),
    "small_pr": (parameters(200, False, True), 4_691_800),
    "small_wt_pr": (parameters(200, True, True), 2_691_800),
    "large_wt": (parameters(1500, True, False), 51_022_000),
    "large_wt_bd": (parameters(1500, True, False), 51_022_000),
}
every_row = pytest.mark.parametrize("row", COUNTS)


@every_row
def test_parameters(row, not_drawn):
    model = LanguageModel.from_preset(f"press2016/{row}", V)
    by_hand, expected = COUNTS[row]
    assert model.count_params() == by_hand == expected


@every_row
def test_the_model_of_the_paper(row):
    model = LanguageModel.from_preset(f"press2016/{row}", 31, scale=0.1)
    assert model.tie_embeddings is ("wt" in row)
    rates = [layer.rate for layer in model.backbone.dropouts]
    assert rates == {
        "large_wt": [0.65] * 3,
        "large_wt_bd": [0.0, 0.0, 0.5],
    }.get(row, [0.0] * 3)
    word_dropout = model.embedding.word_dropout
    assert word_dropout == (0.3 if "bd" in row else 0.0)
    assert (model.memory is not None) is ("pr" in row)
    limit = 0.1 if "small" in row else 0.04
    for weight in model.trainable_variables:
        values = keras.ops.convert_to_numpy(weight)
        assert 0.5 * limit < np.abs(values).max() <= limit, weight.path


@every_row
def test_training_of_the_paper(row):
    preset = presets.get(f"press2016/{row}")
    small = "small" in row
    assert preset["data"]["batch_size"] == 20
    assert preset["data"]["segment_length"] == (20 if small else 35)
    optimizer = keras.optimizers.deserialize(preset["optimizer"])
    assert float(optimizer.learning_rate) == 1.0
    assert optimizer.weight_decay is None
    assert optimizer.global_clipnorm == (5.0 if small else 10.0)
    assert preset["schedule"]["epochs"] == (13 if small else 55)
    assert preset["published"]["test_perplexity"] == (
        73.2 if row == "large_wt_bd" else None
    )
    assert preset["published"]["validation_perplexity"] == (
        75.8 if row == "large_wt_bd" else None
    )


def test_the_penalty_is_of_the_loss_and_not_of_the_perplexity():
    """||P||^2 / 2 over 6.5 times the batch size, beside the sum over time."""
    preset = presets.get("press2016/small_wt_pr", units=6)
    model = LanguageModel.from_preset(preset["name"], 13, units=6)
    tokens = np.random.default_rng(0).integers(13, size=41).astype("int32")
    batches = Batches(tokens, batch_size=1, segment_length=41)
    loss = keras.losses.deserialize(preset["loss"])
    model.compile(keras.optimizers.SGD(0.0), loss)
    history = model.fit(batches, verbose=0).history
    kernel = keras.ops.convert_to_numpy(model.memory.output_kernel)
    penalty = np.sum(kernel.astype("float64") ** 2) / 2 / (6.5 * 20)
    result = perplexity(model, batches, verbose=0)
    np.testing.assert_allclose(
        history["loss"][0], result.loss + penalty, rtol=1e-5
    )
    assert history["nats"][0] == pytest.approx(result.nats, rel=1e-5)


def test_sizes():
    for sizes in ({"units": 6}, {"embedding_dim": 6}):
        model = LanguageModel.from_preset("press2016/large_wt_bd", 11, **sizes)
        assert model.embedding_dim == model.recurrent[1].units == 6
    with pytest.raises(ValueError, match="tied embeddings.*units=3, emb.*=4"):
        presets.get("press2016/small_wt", units=3, embedding_dim=4)
    with pytest.raises(ValueError, match="`window` contradicts.*window=3"):
        presets.get("press2016/small_pr", window=3)

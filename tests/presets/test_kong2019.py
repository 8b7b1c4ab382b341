import json

import keras
import numpy as np
import pytest

from memlm_keras import LanguageModel
from memlm_keras import presets
from memlm_keras.cells import RecurrentDropoutLSTMCell
from memlm_keras.data import Batches
from memlm_keras.smoothing import NoisedBatches
from memlm_keras.smoothing import StreamStatistics

METHODS = [
    "vanilla_untied",
    "vanilla_tied",
    "dn_linear",
    "dn_kneser_ney",
    "vs_linear",
    "vs_kneser_ney",
    "vs_elementwise",
]
PTB, WIKITEXT2 = 10_000, 33_278


def parameters(v, h, tied):
    """Embeddings, two layers of four gates, and no bias of the projection."""
    return (1 if tied else 2) * v * h + 8 * (2 * h * h + h)


# In millions: to two digits by the sizes in the paper, and as it prints them.
COUNTS = {
    (512, True): (9.32, 21.24),
    (512, False): (14.44, 38.28),
    (1024, True): (27.03, 50.86),
    (1024, False): (37.27, 84.94),
}
PRINTED = {
    (512, True): (9, 21),
    (512, False): (14, 38),
    (1024, True): (27, 50),
    (1024, False): (37, 85),
}


def test_names():
    rows = [name for name in presets.names() if name.startswith("kong2019/")]
    assert rows == [
        f"kong2019/{method}_{h}" for method in METHODS for h in (512, 1024)
    ]


@pytest.mark.parametrize("vocabulary_size", [PTB, WIKITEXT2])
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("units", [512, 1024])
def test_parameters(method, units, vocabulary_size, not_drawn):
    model = LanguageModel.from_preset(
        f"kong2019/{method}_{units}", vocabulary_size
    )
    tied = method != "vanilla_untied"
    found = model.count_params()
    assert found == parameters(vocabulary_size, units, tied)
    printed = COUNTS[units, tied][vocabulary_size == WIKITEXT2]
    assert round(found / 1e6, 2) == pytest.approx(printed)
    in_paper = PRINTED[units, tied][vocabulary_size == WIKITEXT2]
    # 50.86 is printed as 50.
    assert in_paper in (round(found / 1e6), int(found / 1e6))


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("units, rate", [(512, 0.5), (1024, 0.7)])
def test_the_model_of_the_paper(method, units, rate):
    name = f"kong2019/{method}_{units}"
    model = LanguageModel.from_preset(name, 31, units=6)
    rates = [layer.rate for layer in model.backbone.dropouts]
    assert rates == [rate, 0.0, rate]
    for layer in model.recurrent:
        assert isinstance(layer.cell, RecurrentDropoutLSTMCell)
        assert layer.cell.rate == 0.2
    assert model.tie_embeddings is (method != "vanilla_untied")
    assert not model.head.use_bias
    for weight in (
        *model.embedding.trainable_variables,
        *model.head.trainable_variables,
    ):
        values = np.abs(keras.ops.convert_to_numpy(weight))
        assert 0.025 < values.max() <= 0.05, weight.path
    scheme = {
        "vs_linear": ("linear_interpolation", False),
        "vs_kneser_ney": ("kneser_ney", False),
        "vs_elementwise": ("kneser_ney", True),
    }.get(method)
    smoothing = model.smoothing
    found = smoothing and (smoothing.scheme, smoothing.element_wise)
    assert found == scheme
    assert smoothing is None or (smoothing.rate, smoothing.l2) == (0.2, 1e-4)
    preset = presets.get(name)
    assert preset["noise"] == {
        "dn_linear": {"scheme": "linear_interpolation", "rate": 0.2},
        "dn_kneser_ney": {"scheme": "kneser_ney", "rate": 0.2},
    }.get(method)


@pytest.mark.parametrize("method", METHODS)
def test_one_l2_of_all_matrices(method):
    """Standard for what is not smoothed; it is added once for each batch."""
    name = f"kong2019/{method}_512"
    model = LanguageModel.from_preset(name, 31, units=6, l2=0.01)
    tokens = np.random.default_rng(0).integers(31, size=400)
    expected = 0.0
    if model.smoothing is not None:
        model.smoothing.adapt(StreamStatistics.count(tokens, 31))
        times = 2 if model.smoothing.smooths_output else 1
        weights = keras.ops.convert_to_numpy(model.smoothing.coefficients())
        matrix = keras.ops.convert_to_numpy(model.embedding.embeddings)
        expected += times * np.sum(weights[:, None] * matrix**2)
    for weight in model.trainable_variables:
        smoothed = model.smoothing is not None and "embedding" in weight.path
        if len(weight.shape) == 2 and not smoothed:
            expected += np.sum(keras.ops.convert_to_numpy(weight) ** 2)
    model(tokens[:20].reshape(2, 10), training=True)
    found = float(keras.ops.convert_to_numpy(sum(model.losses)))
    assert found == pytest.approx(0.01 * expected, rel=1e-5)


def test_an_output_bias():
    """Without which other words are not sampled."""
    for method in METHODS:
        name = f"kong2019/{method}_512"
        model = LanguageModel.from_preset(name, 31, units=6, output_bias=True)
        assert model.head.use_bias
        if model.smoothing is not None:
            assert model.smoothing.other_words == "mean"


def test_training_of_the_paper():
    preset = presets.get("kong2019/vs_linear_512")
    assert json.loads(json.dumps(preset)) == preset
    optimizer = keras.optimizers.deserialize(preset["optimizer"])
    assert isinstance(optimizer, keras.optimizers.RMSprop)
    assert float(optimizer.learning_rate) == pytest.approx(0.003)
    assert optimizer.global_clipnorm == 5.0
    assert preset["data"] == {"batch_size": 64, "segment_length": 35}
    assert preset["published"]["corpus"] == "Penn Treebank"
    assert preset["published"]["test_perplexity"] == 71.2
    assert preset["also_published"] == {
        "corpus": "WikiText-2",
        "validation_perplexity": 84.0,
        "test_perplexity": 79.6,
    }
    assert preset["tuned"]["rate"] == [0.1, 0.2, 0.3, 0.4]


@pytest.mark.parametrize("method", ["dn_kneser_ney", "vs_elementwise"])
def test_trains(method):
    preset = presets.get(f"kong2019/{method}_512")
    tokens = np.random.default_rng(0).integers(31, size=400)
    statistics = StreamStatistics.count(tokens, 31)
    batches = Batches(tokens, 8, 10)
    if preset["noise"]:
        batches = NoisedBatches(
            batches, statistics=statistics, **preset["noise"]
        )
    model = LanguageModel.from_preset(preset["name"], 31, units=6)
    if model.smoothing is not None:
        model.smoothing.adapt(statistics)
    model.compile(
        keras.optimizers.deserialize(preset["optimizer"]),
        loss=keras.losses.deserialize(preset["loss"]),
    )
    history = model.fit(batches, verbose=0).history
    assert np.isfinite(history["loss"]).all()


def test_wrong_sizes():
    with pytest.raises(ValueError, match="units=3, embedding_dim=4"):
        presets.get("kong2019/vs_linear_512", units=3, embedding_dim=4)
    with pytest.raises(ValueError, match="`window` contradicts.*window=3"):
        presets.get("kong2019/vs_linear_512", window=3)
    with pytest.raises(ValueError, match="fixes embedding"):
        LanguageModel.from_preset("kong2019/vs_linear_512", 31, embedding=None)

import keras
import numpy as np
import pytest

from memlm_keras import LanguageModel
from memlm_keras import presets
from memlm_keras.smoothing import StreamStatistics
from memlm_keras.smoothing import VariationalSmoothing
from paper_claims import SETTINGS

METHODS = [
    "vanilla_untied",
    "vanilla_tied",
    "dn_linear",
    "dn_kneser_ney",
    "vs_linear",
    "vs_kneser_ney",
    "vs_elementwise",
]


@pytest.mark.parametrize("method", METHODS)
def test_the_model_of_the_paper(method):
    name = f"kong2019/{method}_512"
    model = LanguageModel.from_preset(name, 31, units=6)
    rates = [layer.rate for layer in model.backbone.dropouts]
    assert rates == [0.5, 0.0, 0.5]
    assert model.head.use_bias
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


@pytest.mark.parametrize("method", METHODS)
def test_one_reading_of_the_paper_everywhere(method):
    name = f"kong2019/{method}_512"
    model = LanguageModel.from_preset(name, 31, units=6)
    default = VariationalSmoothing("kneser_ney", 0.1).other_words
    assert default == "mode" and model.head.use_bias
    if model.smoothing is not None:
        assert model.smoothing.other_words == default
    for setting in ("kong2019", "kong2019_little_text"):
        # What a setting leaves out is the preset's.
        claimed = {"output_bias": True, "other_words": default}
        assert (
            claimed.items() <= {**claimed, **SETTINGS[setting].options}.items()
        )
    other = LanguageModel.from_preset(name, 31, units=6, output_bias=False)
    assert not other.head.use_bias

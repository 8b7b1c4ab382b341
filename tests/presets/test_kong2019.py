import keras
import numpy as np
import pytest

from memlm_keras import LanguageModel
from memlm_keras.smoothing import StreamStatistics
from paper_claims import SETTINGS

METHODS = """
    vanilla_untied vanilla_tied dn_linear dn_kneser_ney vs_linear vs_kneser_ney
    vs_elementwise
""".split()


def test_claims_read_the_paper_as_presets_do():
    for setting in ("kong2019", "kong2019_little_text"):
        options = SETTINGS[setting].options
        assert options.get("output_bias", True)
        assert options.get("other_words", "mode") == "mode"


@pytest.mark.parametrize("method", METHODS)
def test_one_l2_of_all_matrices(method):
    name = f"kong2019/{method}_512"
    sizes = {"units": 6, "l2": 0.01, "output_bias": False}
    model = LanguageModel.from_preset(name, 31, **sizes)
    assert not model.head.use_bias
    tokens = np.random.default_rng(0).integers(31, size=400)
    expected = 0.0
    if model.smoothing is not None:
        assert model.smoothing.other_words == "mode"
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

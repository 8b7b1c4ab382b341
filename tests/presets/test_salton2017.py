import keras
import numpy as np
import pytest

from memlm_keras import LanguageModel
from memlm_keras import presets


@pytest.mark.parametrize("corpus", ["ptb", "wikitext2"])
@pytest.mark.parametrize("row", ["lstm", "projected"])
def test_the_rows_without_a_memory(corpus, row):
    other = presets.get(f"salton2017/{corpus}_{row}")
    single = presets.get(f"salton2017/{corpus}_single")
    for preset in (other, single):
        for key in ("name", "published"):
            del preset[key]
        del preset["model"]["memory"]
    assert other == single


def test_the_control_is_the_attentive_model_without_its_context():
    """At a first step there is nothing to attend to."""
    attentive, control = [
        LanguageModel.from_preset(f"salton2017/ptb_{row}", 31, units=6)
        for row in ("single", "projected")
    ]
    tokens = np.array([[3], [5]], "int32")
    for model in (attentive, control):
        model(tokens)
    both = [
        w
        for w in attentive.weights
        if w.name not in ("memory_kernel", "score_kernel")
    ]
    for weight, kept in zip(control.weights, both, strict=True):
        weight.assign(kept[: weight.shape[0]])
    np.testing.assert_allclose(
        *(keras.ops.convert_to_numpy(m(tokens)) for m in (attentive, control)),
        rtol=1e-5,
    )


def test_biases_begin_as_zeros():
    model = LanguageModel.from_preset("salton2017/ptb_combined", 31, units=6)
    biases = [w for w in model.trainable_variables if w.name == "bias"]
    assert len(biases) == 4
    for bias in biases:
        assert not keras.ops.any(bias), bias.path

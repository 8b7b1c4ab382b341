import keras
import numpy as np

from memlm_keras import LanguageModel


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

import random

import keras
import numpy as np
import pytest

from memlm_keras import EntailmentClassifier
from memlm_keras import LanguageModel
from memlm_keras import presets

V = 40


@pytest.mark.parametrize(
    "name, include_embeddings",
    [
        ("daniluk2017/ngram_3", True),
        ("daniluk2017/ngram_3", False),
        ("salton2017/ptb_combined", False),
        ("kong2019/vs_linear_512", True),
        ("merity2017/ptb_pointer_sentinel", True),
    ],
)
def test_as_many_as_the_model_has(name, include_embeddings):
    found = presets.count_params(name, V, include_embeddings, scale=0.02)
    model = LanguageModel.from_preset(name, V, scale=0.02)
    expected = model.count_params()
    if not include_embeddings and not model.tie_embeddings:
        expected -= V * model.embedding_dim
    assert found == expected


def test_classifiers_are_counted():
    name = "weissenborn2016/dual_am_gru_shared"
    model = EntailmentClassifier.from_preset(name, V, units=6)
    assert presets.count_params(name, V, units=6) == model.count_params()


def test_nothing_is_made():
    """Neither weights, now or when Keras next makes those it remembers."""
    state = random.getstate()
    # A table of a terabyte.
    assert presets.count_params("kong2019/vanilla_tied_1024", 2**28) > 2**38
    assert random.getstate() == state
    with keras.StatelessScope():
        pass
    layer = keras.layers.LSTM(2)
    layer(np.ones((1, 3, 4), "float32"))


def test_unknown_presets():
    with pytest.raises(ValueError, match="nearest is 'daniluk2017/lstm'"):
        presets.count_params("daniluk2017/lstn", V)

import random

import keras
import numpy as np
import pytest

from memlm_keras import presets

V = 40
LSTM_OF_DANILUK = 47_000_003


def test_nothing_is_made():
    state = random.getstate()
    # This embedding would take a terabyte.
    assert presets.count_params("kong2019/vanilla_tied_1024", 2**28) > 2**38
    sizes = {"units": 2**14, "embedding_dim": 2**14}
    assert presets.count_params("daniluk2017/lstm", V, **sizes) > 2**31
    assert random.getstate() == state
    with keras.StatelessScope():
        pass
    layer = keras.layers.LSTM(2)
    layer(np.ones((1, 3, 4), "float32"))


def test_sizes_match_the_parameters_of_the_lstm():
    """In Daniluk et al., all models have as many parameters as the LSTM."""
    units = {
        row: presets.match_parameters(
            LSTM_OF_DANILUK, f"daniluk2017/{row}", 77_003
        )
        for row in presets.papers()["daniluk2017"].rows
        if row not in ("lstm", "key_value_predict", "rm_tm_gated")
    }
    # The presets have the sizes that `match_parameters` finds.
    for row, found in units.items():
        assert found == presets.get(f"daniluk2017/{row}")["units"]
    assert len(units) == 11


@pytest.mark.parametrize(
    "name, include_embeddings, sizes",
    [
        ("daniluk2017/key_value_predict", True, {"embedding_dim": 8}),
        ("daniluk2017/ngram_3", False, {"embedding_dim": 8}),
        ("salton2017/ptb_combined", True, {}),
    ],
)
def test_no_neighbour_is_closer(name, include_embeddings, sizes):
    budget = 6_000
    units = presets.match_parameters(
        budget, name, V, include_embeddings=include_embeddings, **sizes
    )
    step = presets.get(name)["units_divisor"]
    assert units % step == 0

    def distance(units):
        count = presets.count_params(name, V, units=units, **sizes)
        if not include_embeddings:
            count -= V * sizes["embedding_dim"]
        return abs(count - budget)

    assert distance(units) <= distance(units + step)
    assert distance(units) <= distance(units - step)


def test_a_budget_that_is_too_small():
    with pytest.raises(ValueError, match="`budget` is too small.*budget=1000"):
        presets.match_parameters(1000, "daniluk2017/lstm", 500)

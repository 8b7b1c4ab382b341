import json

import numpy as np
import pytest

from memlm_keras import LanguageModel
from memlm_keras import presets

V = 77_003


@pytest.mark.parametrize(
    "row", ["rnn", "gated_hornn", "rm_tm_gated", "key_value_predict", "ngram_4"]
)
def test_initial_weights_of_the_paper(row):
    """All U(-0.1, 0.1) but a forget-gate bias of 1 (Section 4)."""
    model = LanguageModel.from_preset(
        f"daniluk2017/{row}", vocabulary_size=41, scale=0.1
    )
    weights = {weight.path: weight.numpy() for weight in model.weights}
    if "LSTM" in json.dumps(presets.get(f"daniluk2017/{row}")):
        (path,) = (path for path in weights if path.endswith("lstm_cell/bias"))
        i, f, candidate, o = np.split(weights[path], 4)
        np.testing.assert_array_equal(f, 1.0)
        weights[path] = np.concatenate([i, candidate, o])
    for path, values in weights.items():
        assert np.abs(values).max() <= 0.1, path
        if values.size > 20:
            assert 0.05 < np.abs(values).max(), path
            assert values.min() < 0 < values.max(), path
        if values.size > 500:
            assert 0.095 < np.abs(values).max(), path
            np.testing.assert_allclose(
                values.std(), 0.2 / np.sqrt(12), rtol=0.15, err_msg=path
            )

"""Runs the training loops of `docs/custom_training.md` unchanged."""

import re

import keras
import numpy as np
import pytest
from told import ROOT

pytestmark = [pytest.mark.backend, pytest.mark.usefixtures("xla")]

PAGE = (ROOT / "docs" / "custom_training.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```python ?(\w*)\n(.*?)^```$", PAGE, re.M | re.S)
LOOPS = [code for name, code in BLOCKS if name == keras.backend.backend()]
(SETTING,) = [code for name, code in BLOCKS if not name]


def weights(model):
    return [keras.ops.convert_to_numpy(w) for w in model.trainable_variables]


def test_every_backend_has_a_loop():
    named = {name for name, _ in BLOCKS if name}
    assert named == {"tensorflow", "jax", "torch"}


@pytest.mark.parametrize("loop", LOOPS, ids=range(len(LOOPS)))
def test_it_ends_where_fit_does(loop):
    scope = {}
    exec(SETTING, scope)
    model = scope["lm"]
    twin = model.with_mixture(None)
    before = weights(model)
    exec(loop, scope)
    moved = weights(model)
    assert max(np.abs(a - b).max() for a, b in zip(moved, before)) > 1e-2
    twin.compile(keras.optimizers.Adam(0.01))
    batches = scope.get("stream", scope["batches"])
    history = twin.fit(batches, epochs=2, verbose=0).history
    for found, expected in zip(moved, weights(twin), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
    last = float(keras.ops.convert_to_numpy(scope["loss"]))
    assert abs(last - history["loss"][-1]) < 1.0

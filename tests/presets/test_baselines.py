import keras
import numpy as np
import pytest

from memlm_keras import LanguageModel
from memlm_keras import presets
from memlm_keras.data import Batches
from memlm_keras.evaluation import perplexity


def test_the_penalty_is_of_the_loss_and_not_of_the_perplexity():
    """The loss adds ||P||^2 / 2 / (6.5 batch size) to the sum over time."""
    preset = presets.get("press2016/small_wt_pr", units=6)
    model = LanguageModel.from_preset(preset["name"], 13, units=6)
    # Make the penalty large enough to change the loss visibly.
    model.memory.output_kernel.assign(np.full((6, 6), 9.0))
    tokens = np.random.default_rng(0).integers(13, size=41).astype("int32")
    batches = Batches(tokens, batch_size=1, segment_length=41)
    loss = keras.losses.deserialize(preset["loss"])
    model.compile(keras.optimizers.SGD(0.0), loss)
    history = model.fit(batches, verbose=0).history
    kernel = keras.ops.convert_to_numpy(model.memory.output_kernel)
    penalty = np.sum(kernel.astype("float64") ** 2) / 2 / (6.5 * 20)
    result = perplexity(model, batches, verbose=0)
    assert history["loss"][0] == pytest.approx(result.loss + penalty, rel=1e-5)
    assert history["nats"][0] == pytest.approx(result.nats, rel=1e-5)

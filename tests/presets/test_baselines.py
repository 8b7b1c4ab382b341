import keras
import numpy as np
import pytest

from memlm_keras import LanguageModel
from memlm_keras import presets
from memlm_keras.data import Batches
from memlm_keras.evaluation import perplexity

# === Gal and Ghahramani (2016), Press and Wolf (2016) ===


def test_variational_dropout():
    for name, decay in (
        ("gal2016/large", 1e-7),
        ("press2016/large_wt_bd", None),
    ):
        model = LanguageModel.from_preset(name, 31, scale=0.02)
        assert model.embedding.word_dropout == 0.3
        rates = [layer.rate for layer in model.backbone.dropouts]
        assert rates == [0.0, 0.0, 0.5]
        assert [x.cell.dropout_mask_count for x in model.recurrent] == [4, 4]
        optimizer = presets.get(name)["optimizer"]
        assert keras.optimizers.deserialize(optimizer).weight_decay == decay


def test_the_penalty_is_of_the_loss_and_not_of_the_perplexity():
    """||P||^2 / 2 over 6.5 times the batch size, next to the sum over time."""
    preset = presets.get("press2016/small_wt_pr", units=6)
    model = LanguageModel.from_preset(preset["name"], 13, units=6)
    tokens = np.random.default_rng(0).integers(13, size=41).astype("int32")
    batches = Batches(tokens, batch_size=1, segment_length=41)
    loss = keras.losses.deserialize(preset["loss"])
    model.compile(keras.optimizers.SGD(0.0), loss)
    history = model.fit(batches, verbose=0).history
    kernel = keras.ops.convert_to_numpy(model.memory.output_kernel)
    penalty = np.sum(kernel.astype("float64") ** 2) / 2 / (6.5 * 20)
    result = perplexity(model, batches, verbose=0)
    np.testing.assert_allclose(
        history["loss"][0], result.loss + penalty, rtol=1e-5
    )
    assert history["nats"][0] == pytest.approx(result.nats, rel=1e-5)


# === Grave et al. (2017) ===


def test_cache_settings():
    assert presets.get("grave2017/ptb_lstm")["cache"] is None
    cache = presets.get("grave2017/wikitext2_cache_2000")["cache"]
    assert cache["size"] == 2000
    assert (cache["thetas"][0], cache["thetas"][-1]) == (0.0, 1.0)
    assert (cache["weights"][0], cache["weights"][-1]) == (0.05, 0.5)
    optimizer = presets.get("grave2017/ptb_lstm")["optimizer"]
    optimizer = keras.optimizers.deserialize(optimizer)
    assert optimizer.initial_accumulator_value == 0.0


# === Merity et al. (2017) ===


def test_the_rate_is_halved():
    schedule = presets.get("merity2017/ptb_pointer_sentinel")["schedule"]
    halving = keras.callbacks.ReduceLROnPlateau(**schedule["reduce_on_plateau"])
    assert (halving.factor, halving.patience) == (0.5, 0)
    assert (halving.monitor, halving.mode) == ("val_nats", "min")

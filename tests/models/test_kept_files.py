"""Tests that files of earlier versions load and give the same logits.

    PYTHONPATH=.:tests python tests/models/test_kept_files.py

saves the models of `KINDS` that have no file yet, on PyTorch, in the folder of
the version that runs. A version's files are never written again.
"""

import pathlib
from functools import partial

import keras
import language_models
import numpy as np
import preset_families
import pytest

import memlm_keras
from memlm_keras.training import FusedAdam

pytestmark = pytest.mark.backend

KEPT = pathlib.Path(__file__).parent / "kept"
PRESETS = """
    daniluk2017/gated_hornn daniluk2017/key_value_predict daniluk2017/ngram_4
    kong2019/vs_elementwise_512 kong2019/vs_kneser_ney_512
    merity2017/ptb_pointer_sentinel salton2017/ptb_combined
    tran2016/rm_tm_gated weissenborn2016/dual_am_gru_autoencoder
    weissenborn2016/dual_am_gru_shared
""".split()
SCALE = 0.02


def int8():
    kinds = keras.layers.LSTM, keras.layers.GRU, keras.layers.SimpleRNN
    keras.utils.set_random_seed(7)
    model = memlm_keras.LanguageModel(23, 5, [kind(6) for kind in kinds])
    model.quantize("int8")
    return model


def compiled():
    model = language_models.make("lstm", "induction")
    model.compile(optimizer=FusedAdam(0.01))
    model.optimizer.build(model.trainable_variables)
    return model


KINDS = {
    name.replace("/", "-"): partial(preset_families.small, name, SCALE)
    for name in PRESETS
} | {
    "delta_rule": partial(language_models.make, "lstm", "delta_rule"),
    "holographic": partial(language_models.make, "cell", "holographic"),
    "induction-fused_adam": compiled,
    "int8": int8,
}


def logits_of(model):
    return keras.ops.convert_to_numpy(model(preset_families.inputs_of(model)))


def kept():
    # JAX and TensorFlow read a part of the files of 1.0, and all later files.
    marks = {"1.0.0": pytest.mark.backend(one_in=5)}
    return [
        pytest.param(path, id=path.stem, marks=marks.get(path.parent.name, ()))
        for path in sorted(KEPT.glob("*/*.keras"))
    ]


@pytest.mark.parametrize("path", kept())
def test_logits_do_not_change(path):
    model = keras.saving.load_model(path, safe_mode=True)
    expected = np.load(path.with_suffix(".npy"))
    np.testing.assert_allclose(logits_of(model), expected, rtol=1e-4, atol=1e-5)


def test_each_kind_is_kept():
    assert {each.id for each in kept()} == set(KINDS)


def main():
    folder = KEPT / memlm_keras.__version__
    folder.mkdir(parents=True, exist_ok=True)
    for name, make in KINDS.items():
        if not [*KEPT.glob(f"*/{name}.keras")]:
            path, model = folder / name, make()
            np.save(f"{path}.npy", logits_of(model))
            model.save(f"{path}.keras")


if __name__ == "__main__":
    main()

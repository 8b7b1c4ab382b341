"""Tests that files of earlier versions load and give the same logits.

    PYTHONPATH=.:tests python tests/models/test_kept_files.py

saves models of all `KINDS` without a file in this version's format. A version's
files are never written again.
"""

import pathlib

import keras
import numpy as np
import preset_families
import pytest

import memlm_keras

pytestmark = pytest.mark.backend

KEPT = pathlib.Path(__file__).parent / "kept"
KINDS = (
    "daniluk2017/gated_hornn",
    "daniluk2017/key_value_predict",
    "daniluk2017/ngram_4",
    "kong2019/vs_elementwise_512",
    "kong2019/vs_kneser_ney_512",
    "merity2017/ptb_pointer_sentinel",
    "salton2017/ptb_combined",
    "tran2016/rm_tm_gated",
    "weissenborn2016/dual_am_gru_autoencoder",
    "weissenborn2016/dual_am_gru_shared",
)
SCALE = 0.02


def logits_of(model):
    return keras.ops.convert_to_numpy(model(preset_families.inputs_of(model)))


@pytest.mark.backend(one_in=5)
@pytest.mark.parametrize(
    "path", sorted(KEPT.glob("*/*.keras")), ids=lambda path: path.stem
)
def test_logits_do_not_change(path):
    model = keras.saving.load_model(path, safe_mode=True)
    expected = np.load(path.with_suffix(".npy"))
    np.testing.assert_allclose(logits_of(model), expected, rtol=1e-4, atol=1e-5)


def test_each_kind_is_kept():
    kept = {path.stem for path in KEPT.glob("*/*.keras")}
    assert kept == {name.replace("/", "-") for name in KINDS}


def main():
    folder = KEPT / memlm_keras.__version__
    folder.mkdir(parents=True, exist_ok=True)
    for name in KINDS:
        path = folder / f"{name.replace('/', '-')}.keras"
        if not path.exists():
            model = preset_families.small(name, SCALE)
            np.save(path.with_suffix(".npy"), logits_of(model))
            model.save(path)


if __name__ == "__main__":
    main()

import os

import keras
import numpy as np
import preset_families
import pytest
from language_models import COMBINATIONS
from language_models import array
from language_models import make
from told import ROOT
from told import python

from memlm_keras import registry

pytestmark = [pytest.mark.backend, pytest.mark.slow]

BACKENDS = ("jax", "tensorflow", "torch")

SCRIPT = """
import sys

try:
    import keras
except ImportError as error:
    print(error)
    sys.exit(77)

import numpy as np
import preset_families

import memlm_keras

assert keras.backend.backend() == sys.argv[1]
results = {}
for path in sys.argv[3:]:
    model = keras.saving.load_model(path, safe_mode=True)
    logits = model(preset_families.inputs_of(model))
    results[path] = keras.ops.convert_to_numpy(logits)
np.savez(sys.argv[2], **results)
"""


def models():
    """Returns models with every memory, recurrent layer and model of pairs,
    and models that are tied and smoothed."""
    pairs = registry.names("EntailmentClassifier")
    copies = registry.names("SequenceAutoencoder")
    tied = ("salton2017/ptb_single", "kong2019/vs_kneser_ney_512")
    return {f"{a}_{b}": make(a, b) for a, b in COMBINATIONS} | {
        name: preset_families.small(name, 0.05)
        for name in (*pairs, *copies, *tied)
    }


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """Saves models; returns their logits on this backend by the paths of
    files."""
    folder, expected = tmp_path_factory.mktemp("saved"), {}
    for name, model in models().items():
        path = folder / f"{name.replace('/', '-')}.keras"
        model.save(path)
        expected[str(path)] = array(model(preset_families.inputs_of(model)))
    return expected


@pytest.mark.parametrize(
    "backend", [name for name in BACKENDS if name != keras.backend.backend()]
)
def test_saved_models_give_the_same_on_another_backend(
    saved, backend, tmp_path
):
    path = tmp_path / "found.npz"
    told = python(
        *("-c", SCRIPT, backend, path, *saved),
        status=None,
        KERAS_BACKEND=backend,
        PYTHONPATH=f"{ROOT}{os.pathsep}{ROOT / 'tests'}",
    )
    if told.status == 77:
        pytest.skip(f"{backend} cannot be imported: {told.out.strip()}")
    assert told.status == 0, told.err[-3000:]
    found = np.load(path)
    assert set(found) == set(saved)
    for name, value in saved.items():
        np.testing.assert_allclose(
            found[name], value, rtol=1e-4, atol=1e-5, err_msg=name
        )

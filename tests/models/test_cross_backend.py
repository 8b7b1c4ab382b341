import keras
import numpy as np
import preset_families
import pytest
from language_models import COMBINATIONS
from language_models import UNITS
from language_models import V
from language_models import make
from told import python

from memlm_keras import registry
from memlm_keras.smoothing import SmoothedEmbedding
from memlm_keras.smoothing import StreamStatistics
from memlm_keras.smoothing import VariationalSmoothing

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

import memlm_keras

assert keras.backend.backend() == sys.argv[1]
folder = sys.argv[2]
tokens = np.load(f"{folder}/tokens.npy")
results = {}
for name in sys.argv[3:]:
    model = keras.saving.load_model(f"{folder}/{name}.keras", safe_mode=True)
    if name.startswith("dual_"):
        inputs = dict(np.load(f"{folder}/{name}.inputs.npz"))
        results[f"{name}_logits"] = keras.ops.convert_to_numpy(model(inputs))
        continue
    state = model.initial_state(len(tokens))
    logits, state = model.step(tokens, state)
    results[f"{name}_logits"] = keras.ops.convert_to_numpy(logits)
    for key, value in state.items():
        results[f"{name}_{key}"] = keras.ops.convert_to_numpy(value)
np.savez(f"{folder}/{sys.argv[1]}.npz", **results)
"""


def models():
    """Returns models with every memory, recurrent layer and model of pairs."""
    tied = {"embedding_dim": UNITS, "tie_embeddings": True}
    smoothing = VariationalSmoothing("kneser_ney", rate=0.5)
    smoothing.adapt(StreamStatistics.count(np.arange(12), V))
    embedding = SmoothedEmbedding(smoothing=smoothing)
    pairs = registry.names("EntailmentClassifier")
    copies = registry.names("SequenceAutoencoder")
    return {
        **{f"{a}_{b}": make(a, b) for a, b in COMBINATIONS},
        "tied": make(memory="none", **tied),
        "smoothed": make(memory="none", embedding=embedding, **tied),
        **{
            f"dual_{name.partition('/')[2]}": preset_families.small(name, 0.05)
            for name in (*pairs, *copies)
        },
    }


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """Saves models; returns the folder, and the models' results on this
    backend."""
    folder = tmp_path_factory.mktemp("saved")
    tokens = np.random.default_rng(3).integers(17, size=(2, 5))
    np.save(folder / "tokens.npy", tokens)
    expected = {}
    for name, model in models().items():
        model.save(folder / f"{name}.keras")
        if name.startswith("dual_"):
            inputs = preset_families.inputs_of(model)
            np.savez(folder / f"{name}.inputs.npz", **inputs)
            logits, state = model(inputs), {}
        else:
            logits, state = model.step(tokens, model.initial_state(2))
        for key, value in {"logits": logits, **state}.items():
            expected[f"{name}_{key}"] = keras.ops.convert_to_numpy(value)
    return folder, expected


@pytest.mark.parametrize(
    "backend", [name for name in BACKENDS if name != keras.backend.backend()]
)
def test_saved_models_give_the_same_on_another_backend(saved, backend):
    folder, expected = saved
    names = sorted(path.stem for path in folder.glob("*.keras"))
    arguments = ("-c", SCRIPT, backend, folder, *names)
    told = python(*arguments, status=None, KERAS_BACKEND=backend)
    if told.status == 77:
        pytest.skip(f"{backend} cannot be imported: {told.out.strip()}")
    assert told.status == 0, told.err[-3000:]
    found = np.load(folder / f"{backend}.npz")
    assert set(found) == set(expected)
    for name, value in expected.items():
        np.testing.assert_allclose(
            found[name], value, rtol=1e-4, atol=1e-5, err_msg=name
        )

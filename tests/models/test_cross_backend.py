import os
import pathlib
import subprocess
import sys

import keras
import numpy as np
import pytest

import memlm_keras
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
    memory = memlm_keras.memory
    lstm, gru = keras.layers.LSTM, keras.layers.GRU
    return {
        "plain": ([lstm(4)], None),
        "attention": ([gru(6)], memory.Attention(window=3)),
        "key_value": ([keras.layers.SimpleRNN(6)], memory.KeyValue(window=2)),
        "key_value_predict": (
            [lstm(5), lstm(6)],
            memory.KeyValuePredict(window=4),
        ),
        "attentive_single": ([lstm(6)], memory.Attentive(window=3)),
        "attentive_combined": (
            [lstm(6)],
            memory.Attentive("combined", window=3),
        ),
        "memory_block": ([lstm(6)], memory.MemoryBlock(window=3)),
        "fofe_hornn": (
            [memlm_keras.cells.FOFEHORNNCell(6)],
            memory.Projection(),
        ),
        "gated_hornn": ([memlm_keras.cells.GatedHORNNCell(6)], None),
        "smoothed": ([lstm(4)], None),
        "ngram": ([keras.layers.LSTMCell(6)], memory.NGram(order=3)),
    }


def dual_sequence_models():
    """Models of two sequences, and what they read."""
    cells = memlm_keras.cells
    lengths = np.array([5, 3], "int32")
    tokens = np.random.default_rng(4).integers(
        17, size=(3, 2, 5), dtype="int32"
    )
    pairs = {
        "premise": tokens[0],
        "premise_length": lengths,
        "hypothesis": tokens[1],
        "hypothesis_length": lengths[::-1].copy(),
    }
    sequences = {
        "source": tokens[0],
        "source_length": lengths,
        "target": tokens[2],
    }
    classifier = memlm_keras.EntailmentClassifier
    return {
        "dual_am_gru": (
            classifier(
                *(17, 4, cells.DualAssociativeGRUCell(6, num_copies=3, seed=5)),
                conditioning="source",
                top=keras.layers.GRU(4),
                classifier_units=(4,),
            ),
            pairs,
        ),
        "dual_am_lstm": (
            classifier(
                *(17, 4), cells.AssociativeMemoryCell(keras.layers.LSTMCell(6))
            ),
            pairs,
        ),
        "dual_lstm_network": (
            classifier(
                *(17, 4, cells.LSTMNetworkCell(6, window=4, fusion=True)),
                conditioning="source",
                pooling="mean",
            ),
            pairs,
        ),
        "dual_attention": (
            classifier(
                *(17, 4, keras.layers.LSTM(6)),
                memory=memlm_keras.memory.WordByWordAttention(),
            ),
            pairs,
        ),
        "dual_autoencoder": (
            memlm_keras.SequenceAutoencoder(
                *(17, 4, cells.AssociativeGRUCell(6)),
                cells.DualAssociativeGRUCell(6, source_key="separate"),
            ),
            sequences,
        ),
    }


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """Folder of saved models, and what they give on this backend."""
    folder = tmp_path_factory.mktemp("saved")
    tokens = np.random.default_rng(3).integers(17, size=(2, 5))
    np.save(folder / "tokens.npy", tokens)
    expected = {}
    for name, (recurrent, memory) in models().items():
        embedding = None
        if name == "smoothed":
            smoothing = VariationalSmoothing("kneser_ney", rate=0.5)
            smoothing.adapt(StreamStatistics.count(np.arange(12), 17))
            embedding = SmoothedEmbedding(smoothing=smoothing)
        model = memlm_keras.LanguageModel(
            17,
            4,
            recurrent,
            memory=memory,
            tie_embeddings=name in ("plain", "smoothed"),
            initializer=keras.initializers.RandomUniform(-0.7, 0.7),
            embedding=embedding,
        )
        model.save(folder / f"{name}.keras")
        logits, state = model.step(tokens, model.initial_state(2))
        expected[f"{name}_logits"] = keras.ops.convert_to_numpy(logits)
        for key, value in state.items():
            expected[f"{name}_{key}"] = keras.ops.convert_to_numpy(value)
    for name, (model, inputs) in dual_sequence_models().items():
        for weight in model.trainable_variables:
            weight.assign(weight * 3.0)
        model.save(folder / f"{name}.keras")
        np.savez(folder / f"{name}.inputs.npz", **inputs)
        expected[f"{name}_logits"] = keras.ops.convert_to_numpy(model(inputs))
    return folder, expected


@pytest.mark.parametrize(
    "backend", [name for name in BACKENDS if name != keras.backend.backend()]
)
def test_saved_models_give_the_same_on_another_backend(saved, backend):
    folder, expected = saved
    root = pathlib.Path(memlm_keras.__file__).parents[1]
    run = subprocess.run(
        [
            *(sys.executable, "-c", SCRIPT, backend, str(folder)),
            *sorted(path.stem for path in folder.glob("*.keras")),
        ],
        env={**os.environ, "KERAS_BACKEND": backend, "PYTHONPATH": str(root)},
        capture_output=True,
        text=True,
    )
    if run.returncode == 77:
        pytest.skip(f"{backend} cannot be imported: {run.stdout.strip()}")
    assert run.returncode == 0, run.stderr[-3000:]
    found = np.load(folder / f"{backend}.npz")
    assert set(found) == set(expected)
    for name, value in expected.items():
        np.testing.assert_allclose(
            found[name], value, rtol=1e-5, atol=1e-5, err_msg=name
        )

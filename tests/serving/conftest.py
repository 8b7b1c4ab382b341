"""One small model, exported once and asked once for all that tests compare."""

import pathlib
import subprocess
import sys
import types

import keras
import numpy as np
import pytest

import memlm_keras as memlm
from memlm_keras.serving import export

FOLDER = pathlib.Path(__file__).parent


@pytest.fixture(scope="session")
def texts():
    return [
        "word_0 word_7 1,234.5 word_3",
        "",
        "word_5 nobody",
        "  word_1\tword_2\u00a0word_9\u2003\x1cword_4 \n",
        "caf\u00e9 +7 -3/4 7a 1..2 word_1word_2 <unk> <eos> N",
        "word_3 word_8 word_8 " * 50,
    ]


@pytest.fixture(scope="session")
def stops():
    """Where the requests to `step` cut the token ids."""
    return [1, 5, 7]


@pytest.fixture(scope="session")
def lengths():
    """How many of the token ids of a row are its own, where rows differ."""
    return [2, 7, 5]


@pytest.fixture(scope="session")
def vocabulary():
    words = [f"word_{index}" for index in range(26)]
    return memlm.data.Vocabulary(
        [*words, "N", "caf\u00e9"], tokenizer=memlm.data.Tokenizer(numbers="N")
    )


@pytest.fixture(scope="session")
def model(vocabulary):
    keras.utils.set_random_seed(5)
    model = memlm.LanguageModel(
        vocabulary=vocabulary,
        embedding_dim=7,
        recurrent=[keras.layers.LSTM(10), keras.layers.LSTM(12)],
        memory=memlm.memory.KeyValuePredict(window=3),
        dropout=0.5,
        initializer=keras.initializers.RandomUniform(-0.8, 0.8),
    )
    # What training leaves behind, and an artifact must not hold.
    model.carry_state(batch_size=4, evaluation_batch_size=2)
    model.compile("adam")
    return model


@pytest.fixture(scope="session")
def saved_model(model, vocabulary, tmp_path_factory):
    path = tmp_path_factory.mktemp("saved_models") / "small" / "1"
    export(model, path, top_k=4)
    return path


@pytest.fixture(scope="session")
def token_ids(vocabulary):
    random = np.random.default_rng(3)
    return random.integers(len(vocabulary), size=(3, 7)).astype("int32")


@pytest.fixture(scope="session")
def run_isolated():
    """Runs a script of this folder away from this checkout."""

    def run(script, *arguments):
        process = subprocess.run(
            [sys.executable, "-I", str(FOLDER / script), *map(str, arguments)],
            cwd=FOLDER.root,
            capture_output=True,
            text=True,
        )
        assert process.returncode == 0, process.stderr

    return run


@pytest.fixture(scope="session")
def responses(
    saved_model,
    token_ids,
    lengths,
    texts,
    stops,
    run_isolated,
    tmp_path_factory,
):
    """Answers of the artifact where only TensorFlow is at hand."""
    folder = tmp_path_factory.mktemp("client")
    np.savez(
        folder / "requests.npz",
        token_ids=token_ids,
        lengths=lengths,
        texts=np.array([text.encode() for text in texts]),
        stops=stops,
    )
    run_isolated(
        "tensorflow_client.py",
        saved_model,
        folder / "requests.npz",
        folder / "responses.npz",
    )
    return types.MappingProxyType(dict(np.load(folder / "responses.npz")))


@pytest.fixture(scope="session")
def signatures(saved_model):
    tf = pytest.importorskip("tensorflow")
    return tf.saved_model.load(str(saved_model)).signatures

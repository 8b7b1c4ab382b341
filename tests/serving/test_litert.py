"""Tests a LiteRT file of one step, run by only LiteRT's interpreter."""

import zipfile

import keras
import numpy as np
import pytest
from exported_models import MODELS
from exported_models import language_model
from language_models import array
from litert_runs import Session
from litert_runs import require_names

import memlm_keras as memlm
from memlm_keras.models.variants import in_float32
from memlm_keras.serving import export

pytestmark = pytest.mark.backend("tensorflow")

pytest.importorskip(
    "ai_edge_litert.interpreter", reason="needs the extra `litert`"
)


def difference(session, model, steps=100):
    """Returns the largest difference from `model.step`, in log-probabilities
    and state."""
    rows = session.run.get_input_details()["token_ids"]["shape"][0]
    random = np.random.default_rng(4)
    tokens = random.integers(
        model.vocabulary_size, size=(rows, steps), dtype="int32"
    )
    expected, state = model.step(tokens, model.initial_state(rows))
    expected = keras.ops.log_softmax(keras.ops.cast(expected, "float32"))
    found = [
        session.step(column)["log_probabilities"]
        for column in np.split(tokens, steps, axis=1)
    ]
    assert session.state.keys() == state.keys()
    pairs = [(np.stack(found, axis=1), expected)]
    pairs += [(session.state[name], state[name]) for name in state]
    return max(np.abs(left - array(right)).max() for left, right in pairs)


@pytest.fixture(scope="module")
def path(model, tmp_path_factory):
    path = tmp_path_factory.mktemp("litert") / "small.tflite"
    export(model, path, top_k=4, format="litert")
    return path


def test_file_streams_as_the_model_does(path, model):
    assert difference(Session(path), model) < 1e-5
    # The export does not change the model.
    assert [layer.unroll for layer in model.recurrent] == [False, False]


def test_step_gives_the_most_probable_words(path, model):
    found = Session(path).step(np.array([[7]], "int32"))
    logs = found["log_probabilities"]
    assert logs.shape == (1, model.vocabulary_size)
    assert found["top_k_ids"].dtype == np.int32
    np.testing.assert_array_equal(
        found["top_k_ids"], np.argsort(-logs, axis=1)[:, :4]
    )
    np.testing.assert_array_equal(
        found["top_k_log_probabilities"], -np.sort(-logs, axis=1)[:, :4]
    )


def test_all_operators_are_built_in_and_none_is_a_loop(path):
    operators = Session(path).operators()
    assert "FULLY_CONNECTED" in operators
    assert not [
        name
        for name in operators
        if name.startswith("Flex") or name in ("CUSTOM", "WHILE", "VAR_HANDLE")
    ]


def test_vocabulary_is_at_the_end_of_the_file(path, vocabulary, tmp_path):
    with zipfile.ZipFile(path) as archive:
        archive.extract("vocabulary.json", tmp_path)
    found = memlm.data.Vocabulary.from_file(tmp_path / "vocabulary.json")
    assert found == vocabulary


OTHERS = {
    **MODELS,
    "states_that_move_on": lambda: language_model(
        keras.layers.RNN(memlm.cells.GatedHORNNCell(5, order=3))
    ),
}


@pytest.mark.parametrize("name", OTHERS)
def test_other_models(name, tmp_path):
    lm = OTHERS[name]()
    export(lm, tmp_path / "x.tflite", format="litert")
    expected = in_float32(lm) if name == "in_bfloat16" else lm
    session = Session(tmp_path / "x.tflite")
    assert difference(session, expected) < 1e-5
    require_names(session)


@pytest.mark.parametrize(
    "memory",
    [memlm.memory.KeyValuePredict(window=3), memlm.memory.DeltaRule(4, 48)],
    ids=["key_value_predict", "delta_rule"],
)
def test_int8_takes_a_quarter_and_is_close(memory, tmp_path):
    lm = memlm.LanguageModel(30, 96, [keras.layers.LSTM(192)], memory)
    words = memlm.data.Vocabulary([f"word_{i}" for i in range(28)])
    sizes = []
    for mode in (None, "int8"):
        path = tmp_path / f"{mode}.tflite"
        export(lm, path, words, format="litert", quantize=mode)
        sizes.append(path.stat().st_size)
    assert sizes[1] < 0.32 * sizes[0]
    assert 0 < difference(Session(path), lm) < 0.02


class NoBuiltIn(memlm.memory.Projection):
    """A memory with an operator that LiteRT lacks."""

    def read(self, outputs, state, token_ids=None, mask=None):
        import tensorflow as tf

        outputs, *others = super().read(outputs, state, token_ids, mask)
        return tf.math.special.dawsn(outputs), *others


def test_operators_that_are_missing_are_named(vocabulary, tmp_path):
    model = memlm.LanguageModel(
        vocabulary=vocabulary,
        embedding_dim=4,
        recurrent=[keras.layers.GRU(5)],
        memory=NoBuiltIn(),
    )
    with pytest.raises(ValueError, match="operator for tf.Dawsn. Received"):
        export(model, tmp_path / "x.tflite", format="litert")
    assert list(tmp_path.iterdir()) == []

"""The exported artifact against its source model, where only TensorFlow is."""

import json
import re

import keras
import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import log_softmax

FORBIDDEN = re.compile("cudnn|pyfunc|xla", re.I)


def test_serving_default_equals_the_model(model, responses, token_ids):
    expected = log_softmax(
        keras.ops.convert_to_numpy(model(token_ids)), axis=-1
    )
    actual = responses["serving_default/log_probabilities"]
    assert actual.dtype == "float32"
    assert_allclose(actual, expected, rtol=1e-5, atol=1e-5)
    assert_allclose(np.exp(actual).sum(-1), 1.0, rtol=1e-5)


def test_score_equals_the_model(model, vocabulary, responses, texts):
    for text, tokens, length, actual, total in zip(
        texts,
        responses["score/tokens"],
        responses["score/length"],
        responses["score/log_probabilities"],
        responses["score/log_probability"],
        strict=True,
    ):
        ids = np.array([0, *vocabulary.encode(text), 0])
        expected = model.score(ids[None])[0]
        assert length == len(ids) - 1
        assert_allclose(actual[:length], expected, rtol=1e-5, atol=1e-5)
        assert not actual[length:].any()
        assert_allclose(total, expected.sum(), rtol=1e-5)
        read = vocabulary.tokenizer.tokenize(text)
        assert [t.decode() for t in tokens[:length]] == [*read, "<eos>"]


def test_steps_equal_the_model(model, vocabulary, responses, token_ids, stops):
    state = model.initial_state(len(token_ids))
    start = 0
    for stop in stops:
        logits, state = model.step(token_ids[:, start:stop], state)
        start = stop
        expected = log_softmax(
            keras.ops.convert_to_numpy(logits)[:, -1], axis=-1
        )
        ids, words, values = (
            responses[f"step_{stop}/top_k_{name}"]
            for name in ("ids", "words", "log_probabilities")
        )
        assert ids.dtype == "int32"
        assert_allclose(values, -np.sort(-expected)[:, :4], rtol=1e-5)
        assert_allclose(values, np.take_along_axis(expected, ids, -1), 1e-5)
        for row_ids, row_words in zip(ids, words, strict=True):
            decoded = [word.decode() for word in row_words]
            assert decoded == vocabulary.decode(row_ids)
        for name, value in state.items():
            value = keras.ops.convert_to_numpy(value)
            served = responses[f"step_{stop}/{name}"]
            assert served.dtype == value.dtype
            assert_allclose(served, value, rtol=1e-5, atol=1e-6)


def test_initial_state_has_the_names_and_shapes_of_the_model(model, responses):
    expected = model.initial_state(3)
    served = {
        name.removeprefix("initial_state/"): value
        for name, value in responses.items()
        if name.startswith("initial_state/")
    }
    assert set(served) == set(expected)
    for name, value in expected.items():
        assert_allclose(served[name], keras.ops.convert_to_numpy(value))


@pytest.mark.parametrize("name", ["negative", "too_large"])
def test_ids_outside_the_vocabulary_are_refused(name, responses):
    message = str(responses[f"errors/{name}"])
    assert "`token_ids` must be at least 0 and below 30" in message


def test_graph_has_core_cpu_operations_only(responses):
    operations = list(responses["operations"])
    assert {"MatMul", "While", "LookupTableFindV2"} <= set(operations)
    assert not [name for name in operations if FORBIDDEN.search(name)]


def test_artifact_holds_the_trainable_weights_and_nothing_else(
    model, responses
):
    expected = ["x".join(map(str, w.shape)) for w in model.trainable_weights]
    # The list of what is tracked counts as one, without a shape.
    actual = [shape for shape in responses["variables"] if shape]
    assert sorted(actual) == sorted(expected)


def test_vocabulary_travels_for_clients(saved_model, vocabulary):
    file = saved_model / "assets.extra" / "vocabulary.json"
    config = json.loads(file.read_text("utf-8"))
    assert config == {"class_name": "Vocabulary", **vocabulary.get_config()}


def test_c_library_equals_the_model(
    saved_model, responses, token_ids, run_isolated, tmp_path
):
    np.save(tmp_path / "token_ids.npy", token_ids)
    run_isolated(
        "c_client.py",
        saved_model,
        tmp_path / "token_ids.npy",
        responses["input_name"],
        responses["output_name"],
        tmp_path / "result.npy",
    )
    assert_allclose(
        np.load(tmp_path / "result.npy"),
        responses["serving_default/log_probabilities"],
        rtol=1e-6,
    )

"""Tests padded, mixed and wrong requests to a served model."""

import re

import numpy as np
import pytest
from numpy.testing import assert_allclose

pytestmark = pytest.mark.backend("tensorflow")

tf = pytest.importorskip("tensorflow")

from memlm_keras.serving.graph import generate  # noqa: E402


@pytest.fixture(scope="module")
def ask(signatures):
    """Returns a function that calls a signature and returns arrays."""

    def ask(signature, **inputs):
        found = signatures[signature](
            **{name: tf.constant(value) for name, value in inputs.items()}
        )
        return {name: value.numpy() for name, value in found.items()}

    return ask


@pytest.fixture(scope="module")
def begun(ask):
    """Returns a state with two rows."""
    found = ask("begin", text=["word_1 word_7", "word_3"])
    return {name: v for name, v in found.items() if "top_k" not in name}


IDS = np.array([[3, 4], [5, 6]], "int32")
LENGTH = np.array([2, 1], "int32")
RIGHT = {
    "serving_default": {"token_ids": IDS},
    "score_ids": {"token_ids": IDS, "length": LENGTH},
    "step": {"token_ids": IDS, "length": LENGTH},
    "step_words": {"text": np.array(["word_1 b", "b"])},
    "generate": {
        "text": np.array(["word_1", ""]),
        "length": np.array([2, 3], "int32"),
        "top_k": np.array([2, 3], "int32"),
        "temperature": np.array([1, 2], "float32"),
        "seed": np.array([1, 1], "int32"),
    },
}
# Pattern for the beginning of all errors of requests.
CLEAR = re.compile(r"assertion failed: \[`(\w+)` (must|is not that)")


@pytest.mark.parametrize(
    "name, change, message",
    [
        ("fingerprint", lambda v: v + 1, "is not that of .*: .*Start again"),
        ("fingerprint", lambda v: v + IDS[0] - 3, "is not that of this model"),
        ("recurrent_0_state_0", lambda v: v * np.nan, "must be finite numbers"),
        ("length", lambda v: v + 1, "must be .* at most the time of `token_id"),
        ("token_ids", lambda v: v[:, :0], "must be .* time of at least 1. Rec"),
    ],
)
def test_one_clear_error_for_a_wrong_state(name, change, message, ask, begun):
    inputs = {**RIGHT["step"], **begun}
    inputs[name] = change(inputs[name])
    with pytest.raises(
        tf.errors.InvalidArgumentError, match=f"`{name}` {message}"
    ):
        ask("step", **inputs)


@pytest.mark.parametrize("name", RIGHT)
def test_each_input_is_checked(name, ask, begun):
    inputs = {**RIGHT[name], **(begun if name.startswith("step") else {})}
    ask(name, **inputs)
    for key, value in inputs.items():
        wrong = [value[:1]] if len(inputs) > 1 else []
        if key != "seed" and value.dtype.kind in "if":
            far = np.full_like(
                value, -(10**6) if value.dtype == "int32" else np.nan
            )
            wrong.append(far)
        for each in wrong:
            with pytest.raises(tf.errors.InvalidArgumentError) as found:
                ask(name, **{**inputs, key: each})
            assert CLEAR.search(str(found.value)), key


@pytest.mark.parametrize(
    "inputs, message",
    [
        ({"text": ["word_1 " * 1025] * 2}, "`text` must hold at most 1024 tok"),
        ({"top_k": np.array([1, 5], "int32")}, "`top_k` .* at most 4. Rec"),
        ({"length": np.array([0, 5], "int32")}, "`length` .* at most 1024. "),
        (
            {"temperature": np.array([0, 1], "float32")},
            "`temperature` must be finite and more than 0",
        ),
    ],
)
def test_one_clear_error_for_what_cannot_be_written(inputs, message, ask):
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        ask("generate", **{**RIGHT["generate"], **inputs})


def test_words_to_read_on(ask, begun):
    message = "`text` must hold at least one word in each row"
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        ask("step_words", text=["word_1", " "], **begun)


def test_what_a_row_writes_is_its_own(ask):
    text = ["word_1", "word_2 word_3", "word_1", "word_1"]
    options = {
        "length": np.array([9, 4, 9, 9], "int32"),
        "top_k": np.array([4, 4, 4, 1], "int32"),
        "temperature": np.array([2, 0.5, 2, 2], "float32"),
        "seed": np.array([7, 8, 7, 3], "int32"),
    }
    found = ask("generate", text=text, **options)
    assert found["text"][0] == found["text"][2] != found["text"][3]
    for row, one in enumerate(text):
        alone = ask(
            "generate",
            text=[one],
            **{name: value[[row]] for name, value in options.items()},
        )
        assert alone["text"][0] == found["text"][row]
    seeds = ask(
        "generate",
        text=["word_1"] * 40,
        length=np.full(40, 8, "int32"),
        top_k=np.full(40, 4, "int32"),
        temperature=np.ones(40, "float32"),
        seed=np.arange(40, dtype="int32"),
    )
    assert len(set(seeds["text"].tolist())) > 30


def test_draws_follow_the_distribution(ask):
    count, temperature = 4000, 0.2
    found = ask(
        "generate",
        text=["word_5"] * count,
        length=np.ones(count, "int32"),
        top_k=np.full(count, 3, "int32"),
        temperature=np.full(count, temperature, "float32"),
        seed=np.arange(count, dtype="int32"),
    )
    best = ask("next", text=["word_5"])
    expected = np.exp(best["top_k_log_probabilities"][0, :3] / temperature)
    expected /= expected.sum()
    drawn = (found["token_ids"] == best["top_k_ids"][:, :3]).mean(axis=0)
    assert_allclose(drawn, expected, atol=4 * np.sqrt(0.25 / count))
    assert_allclose(drawn.sum(), 1)


def test_at_least_one_word_follows_a_text():
    log_probabilities = tf.math.log([[0.7, 0.2, 0.1]])

    class Reader:
        vocabulary_size = 3
        state = {"steps": tf.TensorSpec((None,), tf.int32)}

        def step_once(self, token, state):
            return log_probabilities, {"steps": state["steps"] + 1}

    token_ids, scores, length = generate(
        Reader(),
        log_probabilities,
        {"steps": tf.zeros(1, tf.int32)},
        {
            "length": tf.constant([5]),
            "top_k": tf.constant([1]),
            "temperature": tf.constant([1.0]),
            "seed": tf.constant([0]),
        },
        end=0,
        most={"length": 8, "top_k": 3},
    )
    assert token_ids.numpy().tolist() == [[1, 0]]
    assert_allclose(scores, np.log([[0.2, 0.7]]), rtol=1e-6)
    assert length.numpy().tolist() == [2]


def test_no_rows_are_no_error(ask):
    for signature in ("score", "next", "begin"):
        found = ask(signature, text=np.array([], object))
        assert {len(value) for value in found.values()} == {0}

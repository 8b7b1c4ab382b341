"""Tests that the states of all kinds of models can be sent as JSON."""

import functools
import json

import keras
import numpy as np
import pytest
from exported_models import MODELS
from numpy.testing import assert_allclose
from scipy.special import log_softmax

import memlm_keras as memlm

pytestmark = pytest.mark.backend("tensorflow")

tf = pytest.importorskip("tensorflow")


def model_of(vocabulary, layer, **parts):
    return memlm.LanguageModel(
        vocabulary=vocabulary, embedding_dim=6, recurrent=[layer], **parts
    )


KINDS = {
    # This pointer's state has no slots, only the number of filled slots.
    "a pointer to one word, in bfloat16": lambda vocabulary: model_of(
        vocabulary,
        keras.layers.LSTM(6, dtype="mixed_bfloat16"),
        mixture=memlm.mixtures.PointerSentinel(window=1),
    ),
    "words remembered twice": lambda vocabulary: model_of(
        vocabulary,
        memlm.cells.FOFEHORNNCell(6),
        memory=memlm.memory.MemoryBlock(window=3),
        mixture=memlm.mixtures.NeuralCache(size=4, theta=0.5, weight=0.3),
    ),
    "an ensemble": lambda vocabulary: memlm.Ensemble(
        [
            model_of(vocabulary, keras.layers.GRU(6), memory=memory)
            for memory in (memlm.memory.NGram(3), memlm.memory.Attention(2))
        ]
    ),
    **{
        name: lambda vocabulary, make=MODELS[name]: make(len(vocabulary))
        for name in ("induction", "delta_rule", "holographic")
    },
}
# Signatures that these tests call.
SIGNATURES = "serving_default begin step score score_ids initial_state".split()


@pytest.fixture(scope="module", params=KINDS)
def served(request, vocabulary, only_signatures, tmp_path_factory):
    """Makes a model and its served signatures, which read and return JSON."""
    keras.utils.set_random_seed(3)
    model = KINDS[request.param](vocabulary)
    for weight in model.trainable_variables:
        weight.assign(weight * 4.0)
    path = tmp_path_factory.mktemp("states") / "1"
    with only_signatures(*SIGNATURES):
        memlm.serving.export(model, path, vocabulary, 3, max_length=20)
    signatures = tf.saved_model.load(str(path)).signatures

    def ask(signature, **inputs):
        _, specification = signatures[signature].structured_input_signature
        inputs = {
            name: tf.constant(value, specification[name].dtype)
            for name, value in inputs.items()
        }
        found = signatures[signature](**inputs)
        for name, value in found.items():
            assert value.dtype in (tf.float32, tf.int32, tf.string, tf.bool)
            assert 0 not in value.shape, name
        numbers = {
            name: [] if value.dtype == tf.string else value.numpy().tolist()
            for name, value in found.items()
        }
        return json.loads(json.dumps(numbers))

    return model, ask


def state_in(answer):
    return {name: v for name, v in answer.items() if "top_k" not in name}


def test_rows_of_any_length_equal_the_model(served, vocabulary):
    model, ask = served
    dtypes = {layer.compute_dtype for layer in model.layers}
    rounding = 0.03 if "bfloat16" in dtypes else 1e-4
    close = functools.partial(assert_allclose, rtol=rounding, atol=rounding)
    # Use one shape, since the model is compiled for each shape.
    texts = ["word_1 word_7 nobody", "word_7 " * 7, "word_2 word_7 " * 2 + "w"]
    rows = [[4, 5, 6, 7, 8], [9], [4, 4, 4]]
    state = state_in(ask("begin", text=texts))
    padded = [row + [29] * (5 - len(row)) for row in rows]
    answer = ask("step", token_ids=padded, length=[5, 1, 3], **state)
    state = state_in(answer)
    last = ask("step", token_ids=[[3]] * 3, length=[1, 1, 1], **state)
    scores = ask("score", text=texts)
    read = [[0, *vocabulary.encode(text)] for text in texts]
    ids = np.array([[*begin, *row, 3] for begin, row in zip(read, rows)])
    logits, _ = model.step(ids, model.initial_state(3))
    logits = keras.ops.convert_to_numpy(logits).astype("float32")
    for row, logs in enumerate(log_softmax(logits, axis=-1)):
        for found, place in ((answer, -2), (last, -1)):
            found = found["top_k_log_probabilities"][row]
            close(found, -np.sort(-logs[place])[:3])
        targets = [*read[row][1:], 0]
        expected = logs[range(len(targets)), targets]
        found = scores["log_probabilities"][row][: len(targets)]
        close(found, expected)


def test_a_model_without_a_state(vocabulary, only_signatures, tmp_path):
    bigrams = memlm.LanguageModel(
        vocabulary=vocabulary,
        embedding_dim=6,
        recurrent=[],
        memory=memlm.memory.Projection(),
    )
    with only_signatures(*SIGNATURES):
        memlm.serving.export(bigrams, tmp_path / "1", vocabulary, 3)
    signatures = tf.saved_model.load(str(tmp_path / "1")).signatures
    begun = signatures["begin"](text=tf.constant(["word_1", "word_7 word_1"]))
    fingerprint = begun["fingerprint"]
    assert fingerprint.shape == (2,)
    answer = signatures["step"](
        token_ids=tf.constant([[4], [5]]),
        length=tf.constant([1, 1]),
        fingerprint=fingerprint,
    )
    expected = -np.sort(-log_softmax(bigrams(np.array([[4], [5]])), -1))[
        :, 0, :3
    ]
    found = answer["top_k_log_probabilities"]
    assert_allclose(found, expected, rtol=1e-5)


def test_words_of_a_state_are_in_the_vocabulary(served):
    _, ask = served
    inputs = {
        "token_ids": [[1]],
        "length": [1],
        **ask("initial_state", rows=[0]),
    }
    for name, value in inputs.items():
        if np.array(value).ndim > 1 and np.array(value).dtype.kind == "i":
            wrong = {name: np.add(value, 30)}
            with pytest.raises(tf.errors.InvalidArgumentError, match="st 29"):
                ask("step", **{**inputs, **wrong})


def test_length_is_limited_by_the_export(served):
    _, ask = served
    ask("score", text=["word_1 " * 20])
    with pytest.raises(tf.errors.InvalidArgumentError, match="at most 20 tok"):
        ask("score", text=["word_1 " * 21])
    with pytest.raises(tf.errors.InvalidArgumentError, match="and 20. Recei"):
        ask("score_ids", token_ids=[[1] * 30], length=[21])


def test_fingerprints_are_of_weights_and_vocabulary(vocabulary):
    from memlm_keras.serving.saved_model import fingerprint

    def number(seed=1, words=vocabulary, **state):
        keras.utils.set_random_seed(seed)
        model = model_of(vocabulary, keras.layers.GRU(6))
        return fingerprint(model, words, state)

    end, _, *words = vocabulary.tokens
    other = memlm.data.Vocabulary([end, *words[::-1]])
    assert len(other) == len(vocabulary)
    numbers = [number(), number(2), number(words=other), number(memory=3)]
    assert len(set(numbers)) == 4 and number() == numbers[0]
    assert all(0 < each < 2**31 for each in numbers)

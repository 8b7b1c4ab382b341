"""Compares an exported SavedModel with its source model."""

import re

import numpy as np
import pytest
from exported_models import LENGTHS
from exported_models import STOPS
from exported_models import meta_graph
from language_models import array
from numpy.testing import assert_allclose
from scipy.special import log_softmax

# test_onnx.py exports models of other backends in the same way.
pytestmark = pytest.mark.backend("tensorflow")

FORBIDDEN = re.compile("cudnn|pyfunc|xla", re.I)
# Operators that TensorFlow has only for the CPU: for tables and texts, for
# texts of different lengths, and for loading weights.
ON_THE_CPU = set(
    """
    HashTableV2 LookupTableFindV2 LookupTableImportV2 MergeV2Checkpoints
    RaggedGather RaggedTensorToTensor RestoreV2 SaveV2 ShardedFilename
    StaticRegexFullMatch StaticRegexReplace StringJoin StringSplitV2
    UnsortedSegmentJoin
    """.split()
)
NEXT = "top_k_ids top_k_log_probabilities top_k_words"
# Inputs and outputs, apart from the state, that clients may rely on. Add new
# names here; removing a name breaks clients.
SERVED = {
    "begin": ("text", NEXT),
    "generate": (
        "length seed temperature text top_k",
        "length log_probabilities text token_ids tokens",
    ),
    "initial_state": ("rows", ""),
    "next": ("text", NEXT),
    "score": (
        "text",
        "length log_probabilities log_probability tokens unknown",
    ),
    "score_ids": (
        "length token_ids",
        "length log_probabilities log_probability",
    ),
    "serving_default": ("token_ids", "log_probabilities"),
    "step": ("length token_ids", NEXT),
    "step_words": ("text", NEXT),
}
# Signatures with the state among the inputs, and among the outputs.
TAKE_STATE = {"step", "step_words"}
GIVE_STATE = {"begin", "initial_state", "step", "step_words"}


def test_served_names(signatures):
    state = set(signatures["initial_state"].structured_outputs)
    assert set(signatures) == set(SERVED)
    for name, (inputs, outputs) in SERVED.items():
        found = signatures[name]
        taken = state if name in TAKE_STATE else set()
        given = state if name in GIVE_STATE else set()
        names = set(found.structured_input_signature[1])
        assert names == set(inputs.split()) | taken, name
        assert set(found.structured_outputs) == set(outputs.split()) | given


def test_the_model_card(saved_model):
    card = (saved_model / "assets.extra" / "model_card.md").read_text()
    assert "# small, version 1" in card and "* perplexity: 3.25" in card
    assert "30 tokens; others are read as <unk>" in card
    assert "## Use, and its limits" in card
    assert "* licence: MIT" in card and "does not know" not in card


def test_serving_default_equals_the_model(model, responses, token_ids):
    expected = log_softmax(array(model(token_ids)), axis=-1)
    actual = responses["serving_default/log_probabilities"]
    assert actual.dtype == "float32"
    assert_allclose(actual, expected, rtol=1e-5, atol=1e-5)
    assert_allclose(np.exp(actual).sum(-1), 1.0, rtol=1e-5)


def test_score_equals_the_model(model, vocabulary, responses, texts):
    for text, tokens, flags, length, actual, total in zip(
        texts,
        responses["score/tokens"],
        responses["score/unknown"],
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
        unknown = ids[1:] == vocabulary.unknown_id
        assert unknown.tolist() == flags[:length].tolist()
        assert not flags[length:].any()


def test_score_ids_equals_the_model(model, responses, token_ids):
    for row, length in enumerate(LENGTHS):
        expected = model.score(token_ids[row : row + 1, :length])[0]
        actual = responses["score_ids/log_probabilities"][row]
        assert_allclose(actual[: length - 1], expected, rtol=1e-5, atol=1e-5)
        assert not actual[length - 1 :].any()
        total = responses["score_ids/log_probability"][row]
        assert_allclose(total, expected.sum(), rtol=1e-5)
    assert responses["score_ids/length"].tolist() == [n - 1 for n in LENGTHS]


def require_step(responses, label, model, ids, state, row):
    """Asserts that the call `label` has a row's most probable words and its
    state after some ids; returns the state."""
    logits, state = model.step(np.atleast_2d(ids), state)
    expected = log_softmax(array(logits)[0, -1])
    found, words, values = (
        responses[f"{label}/top_k_{name}"][row]
        for name in ("ids", "words", "log_probabilities")
    )
    assert found.dtype == "int32"
    assert_allclose(values, -np.sort(-expected)[:4], rtol=1e-5)
    assert_allclose(values, expected[found], rtol=1e-5)
    decoded = [word.decode() for word in words]
    assert decoded == model.vocabulary.decode(found)
    if label == "next":
        assert not [name for name in responses if f"{label}/memory" in name]
        return state
    names = {
        n.partition("/")[2] for n in responses if n.startswith(f"{label}/")
    }
    assert names - {*NEXT.split()} == {*state, "fingerprint"}
    for name, value in state.items():
        value = array(value)
        served = responses[f"{label}/{name}"]
        assert served.dtype == value.dtype
        assert_allclose(served[row], value[0], rtol=1e-5, atol=1e-6)
    return state


def test_steps_equal_the_model(model, responses, token_ids):
    for row, ids in enumerate(token_ids):
        state, start = model.initial_state(1), 0
        for stop in STOPS:
            label = f"step_{stop}"
            state = require_step(
                responses, label, model, ids[start:stop], state, row
            )
            start = stop
        # Rows of different lengths.
        ids = ids[: LENGTHS[row]]
        require_step(responses, "step", model, ids, model.initial_state(1), row)


def test_a_text_begins_after_an_end(model, vocabulary, responses, texts):
    for row, text in enumerate(texts):
        ids = [0, *vocabulary.encode(text)]
        for label in ("next", "begin"):
            state = require_step(
                responses, label, model, ids, model.initial_state(1), row
            )
        ids = vocabulary.encode(["word_4 word_2", "word_3"][row % 2])
        require_step(responses, "step_words", model, ids, state, row)


def test_greedy_writing_equals_the_model(model, vocabulary, responses, texts):
    for row, most in enumerate((6, 9, 3)):
        prompt = np.array([0, *vocabulary.encode(texts[row])])
        expected = model.generate(
            prompt, len(prompt) + most, "greedy", vocabulary=vocabulary
        )[len(prompt) :]
        length = int(responses["generate/length"][row])
        ids = responses["generate/token_ids"][row]
        assert ids[:length].tolist() == expected[:length].tolist()
        assert length == most or ids[length - 1] == 0
        assert not ids[length:].any()
        tokens = responses["generate/tokens"][row, :length].tolist()
        assert [t.decode() for t in tokens] == vocabulary.decode(ids[:length])
        written = ids[:length][ids[:length] != 0]
        text = responses["generate/text"][row].decode()
        assert text == vocabulary.detokenize(written)
        scores = model.score(np.concatenate([prompt, ids[:length]])[None])[0]
        assert_allclose(
            responses["generate/log_probabilities"][row, :length],
            scores[len(prompt) - 1 :],
            rtol=1e-4,
            atol=1e-5,
        )


@pytest.fixture(scope="module")
def operations(saved_model):
    graph = meta_graph(saved_model).graph_def
    functions = graph.library.function
    nodes = [node for function in functions for node in function.node_def]
    return {node.op for node in [*graph.node, *nodes]}


def test_graph_has_core_cpu_operations_only(operations):
    assert {"MatMul", "While", "LookupTableFindV2"} <= operations
    assert not [name for name in operations if FORBIDDEN.search(name)]


def test_every_operator_has_a_kernel_of_gpus_or_is_of_text(operations):
    """Searches TensorFlow's registry of kernels, in which `DEFAULT` means every
    device."""
    tf = pytest.importorskip("tensorflow")
    kernels = pytest.importorskip("tensorflow.python.framework.kernels")
    if not tf.sysconfig.get_build_info()["is_cuda_build"]:
        pytest.skip("this TensorFlow is built without kernels of GPUs")
    for operation in operations:
        found = kernels.get_registered_kernels_for_op(operation).kernel
        devices = {kernel.device_type for kernel in found}
        assert devices, operation
        on_the_cpu = not devices & {"GPU", "DEFAULT"}
        assert on_the_cpu == (operation in ON_THE_CPU), operation


def test_artifact_holds_the_trainable_weights_and_nothing_else(
    model, saved_model
):
    tf = pytest.importorskip("tensorflow")
    path = str(saved_model / "variables" / "variables")
    found = [tuple(shape) for _, shape in tf.train.list_variables(path)]
    # The list of tracked objects counts as one variable with an empty shape.
    expected = [(), *(tuple(w.shape) for w in model.trainable_weights)]
    assert sorted(found) == sorted(expected)

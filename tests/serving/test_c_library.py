"""Runs every signature in TensorFlow's C library, as a server does."""

import json

import numpy as np
import pytest
from exported_models import tensor_names
from numpy.testing import assert_allclose
from told import ROOT
from told import python

pytestmark = [pytest.mark.backend("tensorflow"), pytest.mark.slow]

CLIENT = ROOT / "tests" / "serving" / "c_client.py"
IDS, STATE = np.zeros((1, 1, 3), "int32"), np.zeros((3, 1, 11), "float32")
# Calls that the graph must refuse, since a server checks no shapes: the
# signature, an input, a wrong array for this input, the right shape of the
# array, and the shape in the error.
WRONG = [
    ("step", "token_ids", IDS[0, 0], "(rows, time)", "[3]"),
    ("serving_default", "token_ids", IDS, "(rows, time)", "[1 1 3]"),
    ("step", "recurrent_0_state_0", STATE[..., :10], "(rows, 10)", "[3 1"),
    ("step", "recurrent_0_state_0", STATE[:, 0], "(rows, 10)", "[3 11]"),
    ("score", "text", np.array(b"word_1"), "(rows,)", "[]"),
    ("generate", "text", np.array([[b"word_1"]]), "(rows,)", "[1 1]"),
]
WRONG = {f"{row[0]} {row[1]} {row[4]}": row for row in WRONG}


@pytest.fixture(scope="module")
def results(saved_model, signatures, responses, tmp_path_factory):
    folder = tmp_path_factory.mktemp("c_library")
    tensors, arrays = tensor_names(saved_model), dict(responses)
    calls = [call_of(tensors, signature) for signature in sorted(signatures)]
    for label, (signature, name, arrays[label], *_) in WRONG.items():
        call = call_of(tensors, signature) | {"error": label}
        call["inputs"][tensors[signature]["inputs"][name]] = label
        calls.append(call)
    (folder / "calls.json").write_text(json.dumps(calls))
    np.savez(folder / "arrays.npz", **arrays)
    names = ("calls.json", "arrays.npz", "results.npz")
    files = [folder / name for name in names]
    # Without this checkout.
    python("-I", CLIENT, saved_model, *files, folder=folder)
    return dict(np.load(folder / "results.npz"))


def call_of(tensors, signature):
    """Returns the call that TensorFlow's Python library ran, by tensor
    names."""
    return {
        side: {
            tensor: f"{prefix}{signature}/{name}"
            for name, tensor in tensors[signature][side].items()
        }
        for side, prefix in (("inputs", "inputs/"), ("outputs", ""))
    }


def test_every_signature_answers_as_by_python(responses, results):
    answers = set(results) - set(WRONG)
    assert len({name.partition("/")[0] for name in answers}) == 9
    for name in answers:
        expected = responses[name]
        assert results[name].dtype.kind == expected.dtype.kind
        if expected.dtype.kind == "f":
            assert_allclose(results[name], expected, rtol=1e-5, atol=1e-6)
        else:
            np.testing.assert_array_equal(results[name], expected)


@pytest.mark.parametrize("label", WRONG)
def test_one_clear_error_for_a_wrong_shape(label, results):
    _, name, _, shape, received = WRONG[label]
    error = f"`{name}` must be of shape {shape}. Received:] {received}"
    assert error in str(results[label])

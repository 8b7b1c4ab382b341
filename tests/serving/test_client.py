"""Tests the client with local servers that behave as TensorFlow Serving's
documentation says."""

import json
import urllib.request

import local_servers
import numpy as np
import pytest

from memlm_keras.serving import Client

pytestmark = pytest.mark.backend("tensorflow")

WAYS = ("rest", "grpc")


@pytest.fixture(scope="module")
def models(saved_model):
    return local_servers.Models("small", {1: saved_model, 7: saved_model})


@pytest.fixture(scope="module", params=WAYS)
def address(request, models):
    if request.param == "grpc":
        pytest.importorskip(
            "tensorflow_serving", reason="tensorflow-serving-api is missing"
        )
    with getattr(local_servers, request.param)(models) as address:
        yield address


@pytest.fixture
def client(address):
    return Client(address, "small")


def test_the_newest_version_is_asked_and_stays(client, models):
    assert client.version == 7
    models.versions[8] = models.versions[7]
    try:
        client.next("word_1")
        assert client.version == 7
    finally:
        del models.versions[8]


def test_scores_are_those_of_the_model(client, model, texts):
    found = client.score(texts)
    for row, text in enumerate(texts):
        expected = np.asarray(model.score(text))
        length = found["length"][row]
        assert length == len(expected)
        np.testing.assert_allclose(
            found["log_probabilities"][row, :length], expected, atol=1e-4
        )
        assert found["tokens"][row, length - 1] == "<eos>"
    assert found["log_probability"].dtype == np.float32
    assert found["unknown"].dtype == bool


def test_a_session_reads_on_as_if_all_were_read_at_once(client):
    alone = client.session("word_0")
    assert alone.next == client.next("word_0")[0]
    alone.step("word_7 word_3")
    session = client.session(["word_0", "word_1 word_2"])
    session.step(["word_7", "word_3"])
    found = session.step(["word_3 word_4", "word_5"])
    expected = client.next(
        ["word_0 word_7 word_3 word_4", "word_1 word_2 word_3 word_5"]
    )
    rows = zip([*found, alone.step("word_4")], [*expected, expected[0]])
    for row, other in rows:
        (words, scores), (others, whole) = zip(*row), zip(*other)
        assert words == others
        np.testing.assert_allclose(scores, whole, atol=1e-5)
    with pytest.raises(ValueError, match="`texts` must be a list of strings"):
        session.step("word_3")


def test_generation(client):
    begun = ["word_0", "word_1"]
    found = client.generate(begun, length=5)
    # Greedy generation ignores the seed: each word is the most probable one.
    assert found == client.generate(begun, length=5, seed=9)
    for text, added in zip(begun, found):
        for word in added.split():
            assert word == client.next(text)[0][0][0]
            text = f"{text} {word}"
    drawn = [client.generate(begun, 5, top_k=4, seed=s) for s in (3, 3, 4)]
    assert drawn[0] == drawn[1] != drawn[2]


def test_requests_that_are_refused(client):
    message = "`texts` must be a string or a nonempty list"
    with pytest.raises(ValueError, match=message):
        client.score([])
    message = "`token_ids` must be at least 0 and at most 29"
    with pytest.raises(ValueError, match=message):
        client.call("serving_default", token_ids=[[30]])
    with pytest.raises((LookupError, ValueError), match="scores"):
        client.call("scores", text=["word_0"])


def test_plain_numbers_are_sent_as_signatures_take_them(client):
    begun = client.call("begin", text=["word_0"])
    state = {k: v for k, v in begun.items() if not k.startswith("top_k_")}
    found = client.call("step", token_ids=[[5, 7]], length=[2], **state)
    assert found["top_k_ids"].dtype == np.int32
    with pytest.raises(ValueError, match="`seed` must be integers from"):
        client.generate("word_0", length=1, seed=2**31)


def test_what_is_not_served(address):
    with pytest.raises(LookupError, match="large"):
        Client(address, "large")
    with pytest.raises(LookupError, match=r"version=3\. Ready: \[1, 7\]"):
        Client(address, "small", version=3)


def test_a_state_larger_than_grpc_takes_by_itself(models, monkeypatch):
    pytest.importorskip("tensorflow_serving", reason="not installed")
    run, sizes = models.run, []
    many = 400_000

    def large(*arguments):
        *where, inputs = arguments
        inputs = dict(inputs)
        sizes.append(len(inputs.pop("ballast", ())))
        ballast = np.zeros(many, "float64")
        return {**run(*where, inputs), "ballast": ballast}

    monkeypatch.setattr(models, "run", large)
    with local_servers.grpc(models) as address:
        client = Client(address, "small")
        session = client.session("word_0")
        session.step("word_1")
        before = len(sizes)
        session._state["ballast"] = np.zeros(2 * many, "float64")
        session.step("word_2")
    assert before == 2 and sizes == [0, many, 2 * many]


# === Further files in an export ===


def test_requests_of_the_model_card_run(saved_model, models):
    extra = saved_model / "assets.extra"
    card = (extra / "model_card.md").read_text()
    names = set(models.versions[1])
    with local_servers.rest(models) as address:
        for file in (extra / "requests").iterdir():
            assert f"requests/{file.name}" in card
            names.remove(file.stem)
            request = urllib.request.Request(
                f"{address}/v1/models/small:predict", file.read_bytes()
            )
            with urllib.request.urlopen(request) as answer:
                assert json.load(answer)["outputs"]
    assert not names
    for name in models.versions[1]:
        assert f"| `{name}` |" in card


def test_the_server_warms_up_with_every_signature(saved_model, models):
    logs = pytest.importorskip(
        "tensorflow_serving.apis.prediction_log_pb2", reason="not installed"
    )
    import tensorflow as tf

    path = saved_model / "assets.extra" / "tf_serving_warmup_requests"
    found, times = [], set()
    for record in tf.data.TFRecordDataset(str(path)):
        log = logs.PredictionLog.FromString(record.numpy())
        request = log.predict_log.request
        inputs = {k: tf.make_ndarray(v) for k, v in request.inputs.items()}
        name = request.model_spec.signature_name
        assert models.run("small", None, name, inputs)
        found.append(name)
        if name == "step":
            times.add(inputs["token_ids"].shape)
    assert set(found) == set(models.versions[1])
    # Requests are repeated, since the second answer takes less time; one token
    # uses other operators than several.
    assert min(map(found.count, found)) > 1
    assert (1, 1) in times and len(times) == 2

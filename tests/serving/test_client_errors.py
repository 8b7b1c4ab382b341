"""Tests the client with answers that are incomplete or not from a server."""

import contextlib
import json
import socketserver
import threading
import time

import numpy as np
import pytest

from memlm_keras.serving import Client
from memlm_keras.serving import client as module


def metadata(**dtypes):
    outputs = {name: {"dtype": dtype} for name, dtype in dtypes.items()}
    signatures = {"signature_def": {"next": {"outputs": outputs}}}
    return {"metadata": {"signature_def": signatures}}


def versions(version, state="AVAILABLE"):
    return {"model_version_status": [{"version": version, "state": state}]}


def words(words, log_probabilities):
    return {"top_k_words": words, "top_k_log_probabilities": log_probabilities}


READY = versions("1")
WORDS = metadata(**words("DT_STRING", "DT_FLOAT"))


def http(body, status="200 OK", **headers):
    body = body if isinstance(body, bytes) else json.dumps(body).encode()
    headers = {"Content-Length": len(body)} | headers
    lines = [f"HTTP/1.1 {status}", *(f"{k}: {v}" for k, v in headers.items())]
    return "\r\n".join([*lines, "", ""]).encode() + body


@contextlib.contextmanager
def server(*answers, pause=0):
    """Answers each request with the next of `answers`, or with the last one;
    with `pause`, sends parts with that many seconds between them."""
    answers = list(answers)

    class Handler(socketserver.BaseRequestHandler):
        def handle(self):
            self.request.recv(65536)
            answer = answers.pop(0) if len(answers) > 1 else answers[0]
            size = 1 if pause else max(1, len(answer))
            with contextlib.suppress(OSError):
                for begin in range(0, len(answer), size):
                    self.request.sendall(answer[begin : begin + size])
                    time.sleep(pause)

    with socketserver.ThreadingTCPServer(("localhost", 0), Handler) as made:
        made.daemon_threads, made.block_on_close = True, False
        serve = threading.Thread(target=made.serve_forever, args=[0.01])
        serve.start()
        yield f"http://localhost:{made.server_address[1]}"
        made.shutdown()


PAGE = b"<html>Please sign in</html>"


@pytest.mark.parametrize(
    "answer, message",
    [
        (b"", "No server answers.*closed"),
        (b"SSH-2.0-OpenSSH_9\r\n", "BadStatusLine"),
        (http(b""), "status 200 and the text ''"),
        (http(PAGE), "not TensorFlow Serving.*sign in"),
        (http(PAGE, "404 Not Found"), "status 404.*sign in"),
        (http(READY, "302 Found", Location="http://localhost:1/"), "tus 302"),
        (http(b'{"a": 1'), "status 200 and"),
        (http(b"\xff\xfe{"), "status 200 and"),
        (http(b"[" * 9_000), "status 200 and"),
        (http(READY)[:-9], "IncompleteRead"),
        (http(b"ff\r\n{", **{"Transfer-Encoding": "chunked"}), "IncompleteR"),
        (http([]), "status 200"),
        (http({}), "KeyError: 'model_version_status'"),
        (http(versions([1])), "TypeError"),
        (http({"error": [1]}, "400 Bad"), "status 400"),
        (http(versions("x", "")), (LookupError, "for version=None")),
        (http({"error": "no"}, "404 Not Found"), (LookupError, "^no$")),
        (http({"error": "no"}, "400 Bad"), (ValueError, "^no$")),
    ],
)
def test_what_is_no_answer(answer, message):
    error = ConnectionError
    if isinstance(message, tuple):
        error, message = message
    with server(answer) as address, pytest.raises(error, match=message):
        Client(address, "small", timeout=20)


@pytest.mark.parametrize(
    "description, outputs",
    [
        ({}, None),
        ({"metadata": {"signature_def": {"signature_def": []}}}, None),
        (metadata(top_k_words="DT_STRANGE"), None),
        (metadata(top_k_words="DT_STRING"), [["a"]]),
        (WORDS, None),
        (WORDS, [1, 2]),
        (WORDS, {"top_k_words": [["a"]]}),
        (WORDS, words([["a"]], [["a"]])),
        (WORDS, words([["a"]], [[None]])),
        (WORDS, words([["a"]], [[True]])),
        (WORDS, words([[1]], [[-1.5]])),
        (WORDS, words([["a", "b"]], [[-1.5]])),
        (WORDS, words([["a"], ["b"]], [[-1.5]])),
        (WORDS, words([["a"]], [[-1.5], [-1.0, -2.0]])),
        (WORDS, words("a", -1.5)),
    ],
)
def test_values_of_other_types(description, outputs):
    answers = http(READY), http(description), http({"outputs": outputs})
    with server(*answers) as address:
        client = Client(address, "small", timeout=20)
        with pytest.raises(ConnectionError, match="not TensorFlow Serving"):
            client.next("a")


def test_an_answer_of_the_right_types():
    outputs = {"outputs": words([["a"]], [[-1]])}
    answers = http(READY), http(WORDS), http(outputs)
    with server(*answers) as address:
        assert Client(address, "small").next("a") == [[("a", -1.0)]]
    empty = module._as_output([[]], np.dtype("int32"))
    assert empty.shape == (1, 0) and empty.dtype == np.int32


@pytest.mark.parametrize(
    "answer",
    [http(READY), http(b"9" * 1000), b"H" * 60_000],
    ids=["header", "body", "line"],
)
def test_the_timeout_is_of_the_whole_answer(answer):
    begin = time.monotonic()
    with server(answer, pause=0.1) as address:
        with pytest.raises(TimeoutError, match="within 0.5 seconds"):
            Client(address, "small", timeout=0.5)
    # The limit allows for a busy machine; waiting for all bytes would take ten
    # seconds or more.
    assert time.monotonic() - begin < 5


@pytest.mark.parametrize(
    "address",
    ["http://", "http://a:b", "what://a", "http://localhost:1", "localhost:1"],
)
def test_addresses_without_a_server(address):
    if "://" not in address:
        pytest.importorskip("tensorflow_serving", reason="not installed")
    with pytest.raises(ConnectionError, match="No server answers"):
        Client(address, "small", timeout=20)

"""Client for language models on TensorFlow Serving, by REST or gRPC."""

import concurrent.futures
import contextlib
import http.client
import json
import threading
import time
import urllib.error
import urllib.request

import numpy as np

# TensorFlow Serving's name and number for the state of a ready version.
_READY, _READY_NUMBER = "AVAILABLE", 30
_DTYPES = {
    "DT_BOOL": "bool",
    "DT_FLOAT": "float32",
    "DT_INT32": "int32",
    "DT_INT64": "int64",
    "DT_STRING": "object",
}
# Kinds of JSON values that convert to each kind of NumPy dtype.
_KINDS = {"b": "b", "f": "fiu", "i": "iu"}
# Bytes of an answer to read at once, and characters to show in errors.
_PART_BYTES, _SHOWN = 2**20, 100


class Client:
    """Client for an exported language model on TensorFlow Serving.

    A client sends all requests to one version of the model, because other
    versions reject its state. `texts` below is a string or a list of B strings.

    Args:
        address: String, `"host:8500"` for gRPC, which needs the package
            `tensorflow-serving-api`, or `"http://host:8501"` for REST. gRPC
            sends large states several times as fast.
        model: String, name of the model on the server.
        version: Integer, or `None` for the newest version that is ready.
        timeout: Float, seconds within which an answer must be complete.

    Attributes:
        version: Integer, the version that gets the requests.

    Raises:
        ValueError: The model rejects a request; the message gives the reason.
        LookupError: The server lacks the model, version or signature.
        ConnectionError: The server cannot be reached, is not ready, or is not
            TensorFlow Serving.
        TimeoutError: An answer is not complete within `timeout`.
        ImportError: gRPC is used without `tensorflow-serving-api`.

    Example:

    >>> client = memlm_keras.serving.Client("http://localhost:8501", "kvp")
    >>> client.score(["ruth ellis was born in york"])["log_probability"]
    >>> client.next("ruth ellis was born")[0]
    >>> session = client.session("ruth ellis")
    >>> session.step("was born in")
    """

    def __init__(self, address, model, version=None, timeout=60.0):
        connection = RestConnection if "://" in address else GrpcConnection
        self._connection = connection(address, model, timeout)
        available = self._connection.versions()
        if version is None:
            version = max(available, default=None)
        if version not in available:
            raise LookupError(
                f"The server at {address} has no ready version of {model!r} "
                f"for version={version}. Ready: {sorted(available) or 'none'}."
            )
        self.version = version

    def call(self, signature, **inputs):
        """Calls a signature.

        Args:
            signature: String, name of the signature.
            **inputs: NumPy arrays, or values that convert to arrays, by name of
                the input; numbers are sent as int32 or float32.

        Returns:
            Dict of NumPy arrays by output name; strings have dtype object.
        """
        return self._connection.predict(
            self.version,
            signature,
            {name: _as_input(name, value) for name, value in inputs.items()},
        )

    def score(self, texts):
        """Calls the signature `score`; returns its outputs, such as the
        log-probabilities of texts and their words, with B rows each."""
        return self.call("score", text=_as_texts(texts))

    def next(self, texts):
        """Returns the most probable words after texts: B lists of pairs
        `(word, log-probability)`, the most probable first."""
        return self._words(self.call("next", text=_as_texts(texts)))

    def generate(self, texts, length=50, top_k=1, temperature=1.0, seed=0):
        """Generates continuations of texts.

        Args:
            texts: String, or list of B strings.
            length: Integer, maximum number of words to generate for each text.
            top_k: Integer, number of most probable words from which the next is
                drawn; 1 is greedy.
            temperature: Float by which log-probabilities are divided.
            seed: Integer; text i uses `seed + i`.

        Returns:
            List of B strings, the continuations.
        """
        texts = _as_texts(texts)
        rows = len(texts)
        answer = self.call(
            "generate",
            text=texts,
            length=np.full(rows, length, "int32"),
            top_k=np.full(rows, top_k, "int32"),
            temperature=np.full(rows, temperature, "float32"),
            seed=np.arange(rows) + seed,
        )
        with self._connection.reading():
            return list(answer["text"])

    def session(self, texts=""):
        """Starts a `Session` that reads texts incrementally."""
        return Session(self, texts)

    def _words(self, answer):
        """Returns lists of `(word, log-probability)`, one for each text."""
        with self._connection.reading():
            columns = answer["top_k_words"], answer["top_k_log_probabilities"]
            return [
                list(zip(map(str, words), map(float, scores), strict=True))
                for words, scores in zip(*columns, strict=True)
            ]


class Session:
    """Texts that are read incrementally; made by `Client.session`.

    The session sends the model's state with each request. Servers keep no
    state, so any server with this model can answer.

    Attributes:
        next: Most probable words after the texts, as from `Client.next`; a
            single list if the session was started with a string.
    """

    def __init__(self, client, texts):
        self._client = client
        self._one = isinstance(texts, str)
        self._update(client.call("begin", text=_as_texts(texts)))

    def step(self, texts):
        """Reads more words, a string or a list of strings; returns `next`."""
        if isinstance(texts, str) != self._one:
            raise ValueError(
                "`texts` must be "
                f"{'a string' if self._one else 'a list of strings'}, like the "
                f"texts that started the session. Received: texts={texts!r}"
            )
        self._update(
            self._client.call(
                "step_words", text=_as_texts(texts), **self._state
            )
        )
        return self.next

    def _update(self, answer):
        words = self._client._words(answer)
        self.next = words[0] if self._one else words
        self._state = {
            name: value
            for name, value in answer.items()
            if not name.startswith("top_k_")
        }


def _as_input(name, value):
    """Converts an input to an array with a dtype that signatures accept."""
    value = np.asarray(value)
    if value.dtype.kind == "f":
        return value.astype("float32")
    if value.dtype.kind not in "iu":
        return value
    least, most = np.iinfo("int32").min, np.iinfo("int32").max
    if value.size and not least <= value.min() <= value.max() <= most:
        raise ValueError(
            f"`{name}` must be integers from {least} to {most}. Received: "
            f"{name}={value.tolist()!r}"
        )
    return value.astype("int32")


def _as_texts(texts):
    texts = [texts] if isinstance(texts, str) else list(texts)
    if not texts or not all(isinstance(text, str) for text in texts):
        raise ValueError(
            "`texts` must be a string or a nonempty list of strings. "
            f"Received: texts={texts!r}"
        )
    return np.array(texts, object)


class _Connection:
    """Base class for REST and gRPC connections, with their common errors."""

    @contextlib.contextmanager
    def reading(self):
        """Context that turns any error into a `ConnectionError`."""
        try:
            yield
        # Answers of other servers can lack names, or have values of any type.
        except Exception as error:
            raise self._other_server(_named(error)) from error

    def _other_server(self, reason):
        return ConnectionError(
            f"What answers at {self._address} is not TensorFlow Serving, or "
            f"its answer is incomplete: {reason}. Is this the address of a "
            "server, or of a proxy in front of it?"
        )

    def _timeout_error(self):
        return TimeoutError(
            f"No complete answer from {self._address} within {self._timeout:g} "
            "seconds. Give the client a longer `timeout`, or ask for less."
        )

    def _no_server(self, reason):
        return ConnectionError(
            f"No server answers at {self._address}: {reason}. Is one running, "
            "and is this its port: 8501 for REST, 8500 for gRPC?"
        )


class RestConnection(_Connection):
    """Connects by REST, such as to `"http://localhost:8501"`."""

    def __init__(self, address, model, timeout):
        self._address = f"{address.rstrip('/')}/v1/models/{model}"
        self._timeout = timeout
        self._outputs = {}
        self._open = urllib.request.build_opener(_NoRedirection).open

    def versions(self):
        """Returns the set of versions that are ready."""
        answer = self._ask("")
        with self.reading():
            status = answer["model_version_status"]
            return {int(v["version"]) for v in status if v["state"] == _READY}

    def predict(self, version, signature, inputs):
        """Calls a signature; returns its outputs, NumPy arrays by name."""
        outputs = self._signature(version, signature)
        answer = self._ask(
            f"/versions/{version}:predict",
            {
                "signature_name": signature,
                "inputs": {k: v.tolist() for k, v in inputs.items()},
            },
        )
        with self.reading():
            answer = answer["outputs"]
            if len(outputs) == 1:
                # The server omits the name if there is only one output.
                answer = dict.fromkeys(outputs, answer)
            return {
                name: _as_output(answer[name], np.dtype(dtype))
                for name, dtype in outputs.items()
            }

    def _signature(self, version, signature):
        """Returns a dict from a signature's outputs to their dtypes."""
        if version not in self._outputs:
            answer = self._ask(f"/versions/{version}/metadata")
            with self.reading():
                definitions = answer["metadata"]["signature_def"]
                definitions = definitions["signature_def"]
                self._outputs[version] = {
                    name: {
                        output: _DTYPES[description["dtype"]]
                        for output, description in definition["outputs"].items()
                    }
                    for name, definition in definitions.items()
                    if not name.startswith("__")
                }
        signatures = self._outputs[version]
        if signature not in signatures:
            raise LookupError(
                f"The model has no signature {signature!r}. It has: "
                f"{', '.join(sorted(signatures))}."
            )
        return signatures[signature]

    def _ask(self, path, body=None):
        """Sends a request; returns the JSON answer."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self._address + path, data)
        answer = concurrent.futures.Future()

        def ask():
            try:
                answer.set_result(self._read(request))
            except BaseException as error:
                answer.set_exception(error)

        # A socket's timeout limits each read, not the whole answer.
        threading.Thread(target=ask, daemon=True).start()
        try:
            code, text = answer.result(self._timeout)
        except TimeoutError:
            raise self._timeout_error() from None
        except (OSError, ValueError, http.client.HTTPException) as error:
            reason = getattr(error, "reason", error)
            if isinstance(reason, TimeoutError):
                raise self._timeout_error() from None
            if isinstance(error, http.client.InvalidURL | OSError):
                raise self._no_server(reason) from None
            raise self._other_server(_named(error)) from None
        try:
            found = json.loads(text)
            if code == 200 and isinstance(found, dict):
                return found
            reason = found["error"] + ""
        except (ValueError, TypeError, LookupError, RecursionError):
            start = text[:_SHOWN].decode(errors="replace")
            raise self._other_server(
                f"status {code} and the text {start!r}"
            ) from None
        kind = {404: LookupError, 503: ConnectionError, 504: TimeoutError}
        raise kind.get(code, ValueError)(reason)

    def _read(self, request):
        """Returns the HTTP status and the body of an answer."""
        end = time.monotonic() + self._timeout
        try:
            answer = self._open(request, timeout=self._timeout)
        except urllib.error.HTTPError as error:
            answer = error
        body = bytearray()
        with answer:
            while part := answer.read1(_PART_BYTES):
                body += part
                if time.monotonic() > end:
                    raise TimeoutError
            if answer.length:
                raise http.client.IncompleteRead(body, answer.length)
        return answer.status, body


def _named(error):
    return f"{type(error).__name__}: {error}"


class _NoRedirection(urllib.request.HTTPRedirectHandler):
    """Does not follow redirects."""

    def redirect_request(self, *arguments):
        return None


def _as_output(value, dtype):
    """Converts a JSON value to an array; raises `TypeError` for other types."""
    array = np.array(value, "O" if dtype.kind == "O" else None)
    if dtype.kind == "O":
        right = all(isinstance(each, str) for each in array.flat)
    else:
        right = array.dtype.kind in _KINDS[dtype.kind]
    if array.size and not right:
        raise TypeError(f"expected {dtype}, received {value!r:.{_SHOWN}}")
    return array.astype(dtype)


class GrpcConnection(_Connection):
    """Connects by gRPC, such as to `"localhost:8500"`."""

    def __init__(self, address, model, timeout):
        try:
            import grpc
            from tensorflow_serving.apis import model_service_pb2_grpc
            from tensorflow_serving.apis import prediction_service_pb2_grpc
        except ImportError as error:
            raise ImportError(
                "gRPC needs `pip install tensorflow-serving-api`. Without it, "
                'give the address of the REST port: "http://host:8501". '
                f"Received: address={address!r}"
            ) from error
        self._address = address
        self._model = model
        self._timeout = timeout
        # A state may be larger than gRPC's default limit of 4 MiB.
        limits = ("max_send_message_length", "max_receive_message_length")
        channel = grpc.insecure_channel(
            address, options=[(f"grpc.{limit}", -1) for limit in limits]
        )
        self._models = model_service_pb2_grpc.ModelServiceStub(channel)
        self._predictions = prediction_service_pb2_grpc.PredictionServiceStub(
            channel
        )

    def versions(self):
        """Returns the set of versions that are ready."""
        from tensorflow_serving.apis import get_model_status_pb2

        request = get_model_status_pb2.GetModelStatusRequest()
        request.model_spec.name = self._model
        status = self._ask(self._models.GetModelStatus, request)
        return {
            v.version
            for v in status.model_version_status
            if v.state == _READY_NUMBER
        }

    def predict(self, version, signature, inputs):
        """Calls a signature; returns its outputs, NumPy arrays by name."""
        import tensorflow as tf
        from tensorflow_serving.apis import predict_pb2

        request = predict_pb2.PredictRequest()
        request.model_spec.name = self._model
        request.model_spec.version.value = version
        request.model_spec.signature_name = signature
        for name, value in inputs.items():
            request.inputs[name].CopyFrom(tf.make_tensor_proto(value))
        answer = self._ask(self._predictions.Predict, request)
        with self.reading():
            return {
                name: _as_text(tf.make_ndarray(value))
                for name, value in answer.outputs.items()
            }

    def _ask(self, method, request):
        import grpc

        try:
            return method(request, timeout=self._timeout)
        except grpc.RpcError as error:
            code, details = error.code(), error.details()
        if code == grpc.StatusCode.DEADLINE_EXCEEDED:
            raise self._timeout_error()
        if code == grpc.StatusCode.UNAVAILABLE:
            if "queue" in details:
                raise ConnectionError(details)
            raise self._no_server(details)
        if code in (grpc.StatusCode.UNIMPLEMENTED, grpc.StatusCode.UNKNOWN):
            raise self._other_server(details)
        if code == grpc.StatusCode.NOT_FOUND or "ignature key" in details:
            raise LookupError(details)
        raise ValueError(details)


def _as_text(array):
    if array.dtype != object:
        return array
    flat = [item.decode(errors="replace") for item in array.ravel()]
    return np.array(flat, object).reshape(array.shape)

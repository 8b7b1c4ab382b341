"""A client of a language model on TensorFlow Serving, by REST or gRPC."""

import json
import urllib.error
import urllib.request

import numpy as np

# Of `ModelVersionStatus.State`, by name and by number.
_READY, _READY_NUMBER = "AVAILABLE", 30
_DTYPES = {
    "DT_BOOL": "bool",
    "DT_FLOAT": "float32",
    "DT_INT32": "int32",
    "DT_INT64": "int64",
    "DT_STRING": "object",
}


class Client:
    """A client of an exported language model on TensorFlow Serving.

    A client always asks the version that it found when it was made, since a
    version refuses the state of another: clients that are made later use newer
    versions. Below, `texts` are a string, or a list of B strings.

    Args:
        address: string, `"host:8500"` for gRPC, which needs the package
            `tensorflow-serving-api`, or `"http://host:8501"` for REST, which
            needs nothing. gRPC sends large states several times as fast.
        model: string, name of the model on the server.
        version: integer, or `None` for the newest that the server has.
        timeout: float, seconds that an answer may take.

    Attributes:
        version: integer, the version of the requests.

    Raises:
        ValueError: for a request that the model refuses, with its reason.
        LookupError: if the server has no such model, version or signature.
        ConnectionError: if the server cannot be reached, or is not ready.
        TimeoutError: if an answer takes longer than `timeout`.
        ImportError: for gRPC, without `tensorflow-serving-api`.

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
                f"The server at {address} has no version {version} of {model!r}"
                f" ready. It has: {sorted(available) or 'none'}."
            )
        self.version = version

    def call(self, signature, **inputs):
        """Calls a signature.

        Args:
            signature: string, its name.
            **inputs: its inputs, as NumPy arrays or values that convert to
                one; numbers are sent as int32 and float32.

        Returns:
            Dict of NumPy arrays, its outputs; strings are of dtype object.
        """
        return self._connection.predict(
            self.version,
            signature,
            {name: _as_input(name, value) for name, value in inputs.items()},
        )

    def score(self, texts):
        """Log-probabilities of texts, and of their words: the outputs of the
        signature `score`, B rows each."""
        return self.call("score", text=_as_texts(texts))

    def next(self, texts):
        """The most probable words after texts: B lists of pairs `(word,
        log-probability)`, the most probable first."""
        return _words(self.call("next", text=_as_texts(texts)))

    def generate(self, texts, length=50, top_k=1, temperature=1.0, seed=0):
        """Continues texts.

        Args:
            texts: string, or list of B strings.
            length: integer, the most words to add to each.
            top_k: integer, the number of most probable words to draw the next
                from; 1 is greedy.
            temperature: float, divisor of the log-probabilities.
            seed: integer; text i is drawn with `seed + i`.

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
        return list(answer["text"])

    def session(self, texts=""):
        """Starts to read texts word by word; returns a `Session`, of a single
        row if `texts` is a string."""
        return Session(self, texts)


class Session:
    """Texts that are read incrementally, with the state of the model.

    Made by `Client.session`. The state is kept here and sent with each request:
    servers keep none, so any of several can answer.

    Attributes:
        next: the most probable words after the texts, as `Client.next` returns
            them; of one row if the session was started with a string.
    """

    def __init__(self, client, texts):
        self._client = client
        self._one = isinstance(texts, str)
        self._update(client.call("begin", text=_as_texts(texts)))

    def step(self, texts):
        """Reads the words that follow, a string or a list of strings; returns
        `next`, the most probable words after them."""
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
        words = _words(answer)
        self.next = words[0] if self._one else words
        self._state = {
            name: value
            for name, value in answer.items()
            if not name.startswith("top_k_")
        }


def _as_input(name, value):
    """An input as an array of a dtype that signatures take."""
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
            "`texts` must be a string or a list of strings, one at least. "
            f"Received: texts={texts!r}"
        )
    return np.array(texts, object)


def _words(answer):
    """Lists of words and log-probabilities of an answer."""
    columns = (answer["top_k_words"], answer["top_k_log_probabilities"])
    return [
        list(zip(map(str, words), map(float, scores)))
        for words, scores in zip(*columns)
    ]


class RestConnection:
    """Requests by REST, in columns, to such as `"http://localhost:8501"`."""

    def __init__(self, address, model, timeout):
        self._address = f"{address.rstrip('/')}/v1/models/{model}"
        self._timeout = timeout
        self._outputs = {}

    def versions(self):
        """Set of the versions that are ready."""
        status = self._ask("")["model_version_status"]
        return {int(v["version"]) for v in status if v["state"] == _READY}

    def predict(self, version, signature, inputs):
        """Outputs of a signature, as NumPy arrays by name."""
        outputs = self._signature(version, signature)
        answer = self._ask(
            f"/versions/{version}:predict",
            {
                "signature_name": signature,
                "inputs": {k: v.tolist() for k, v in inputs.items()},
            },
        )["outputs"]
        if len(outputs) == 1:
            # The server leaves out the name of a single output.
            answer = dict.fromkeys(outputs, answer)
        return {
            name: np.array(answer[name], dtype)
            for name, dtype in outputs.items()
        }

    def _signature(self, version, signature):
        """Dtypes of the outputs of a signature, by their names."""
        if version not in self._outputs:
            metadata = self._ask(f"/versions/{version}/metadata")["metadata"]
            definitions = metadata["signature_def"]["signature_def"]
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
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self._address + path, data)
        try:
            with urllib.request.urlopen(request, timeout=self._timeout) as file:
                return json.load(file)
        except urllib.error.HTTPError as error:
            with error:
                text = error.read().decode(errors="replace")
            try:
                text = json.loads(text)["error"]
            except (ValueError, KeyError, TypeError):
                text = text or error.reason
            kind = {404: LookupError, 503: ConnectionError, 504: TimeoutError}
            raise kind.get(error.code, ValueError)(text) from None
        except TimeoutError:
            raise _timeout_error(self._address, self._timeout) from None
        except urllib.error.URLError as error:
            if isinstance(error.reason, TimeoutError):
                raise _timeout_error(self._address, self._timeout) from None
            raise _connection_error(self._address, error.reason) from None


class GrpcConnection:
    """Requests by gRPC, of any size, to such as `"localhost:8500"`."""

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
        # A state may be larger than the 4 MiB that clients take by default.
        limits = ("max_send_message_length", "max_receive_message_length")
        channel = grpc.insecure_channel(
            address, options=[(f"grpc.{limit}", -1) for limit in limits]
        )
        self._models = model_service_pb2_grpc.ModelServiceStub(channel)
        self._predictions = prediction_service_pb2_grpc.PredictionServiceStub(
            channel
        )

    def versions(self):
        """Set of the versions that are ready."""
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
        """Outputs of a signature, as NumPy arrays by name."""
        import tensorflow as tf
        from tensorflow_serving.apis import predict_pb2

        request = predict_pb2.PredictRequest()
        request.model_spec.name = self._model
        request.model_spec.version.value = version
        request.model_spec.signature_name = signature
        for name, value in inputs.items():
            request.inputs[name].CopyFrom(tf.make_tensor_proto(value))
        answer = self._ask(self._predictions.Predict, request)
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
            raise _timeout_error(self._address, self._timeout)
        if code == grpc.StatusCode.UNAVAILABLE:
            raise _connection_error(self._address, details)
        if code == grpc.StatusCode.NOT_FOUND:
            raise LookupError(details)
        raise ValueError(details)


def _as_text(array):
    if array.dtype != object:
        return array
    flat = [item.decode(errors="replace") for item in array.ravel()]
    text = np.empty(array.shape, object)
    text.ravel()[:] = flat
    return text


def _timeout_error(address, timeout):
    return TimeoutError(
        f"No answer from {address} within {timeout:g} seconds. Give the client "
        "a longer `timeout`, or ask for less."
    )


def _connection_error(address, reason):
    return ConnectionError(
        f"No server answers at {address}: {reason}. Is one started, and is "
        "this its port: 8501 of REST, 8500 of gRPC?"
    )

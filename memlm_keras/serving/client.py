"""A client of a language model that TensorFlow Serving serves."""

import numpy as np

from memlm_keras.serving.connections import GrpcConnection
from memlm_keras.serving.connections import RestConnection


class Client:
    """A client of an exported language model on TensorFlow Serving.

    Whatever version a server had when the client was made is asked from then
    on, as a state means nothing to another model: a newer version is served to
    clients that are made later.

    Args:
        address: string, `"host:8500"` for gRPC, which needs the package
            `tensorflow-serving-api`, or `"http://host:8501"` for REST, which
            needs nothing. gRPC sends large states several times as fast.
        model: string, the name under which the server has the model.
        version: integer, or `None` for the newest that the server has.
        timeout: float, seconds that an answer may take.

    Attributes:
        version: integer, the version that is asked.

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
            **inputs: its inputs, as NumPy arrays or what becomes one; numbers
                are sent as int32 and float32.

        Returns:
            Dict of NumPy arrays, its outputs; strings are of dtype object.
        """
        return self._connection.predict(
            self.version,
            signature,
            {name: _as_input(name, value) for name, value in inputs.items()},
        )

    def score(self, texts):
        """Log-probabilities of texts, and of their words.

        Args:
            texts: string, or list of B strings.

        Returns:
            The outputs of the signature `score`, B rows each.
        """
        return self.call("score", text=_several(texts))

    def next(self, texts):
        """The most probable words after texts.

        Args:
            texts: string, or list of B strings.

        Returns:
            List of B lists of pairs `(word, log-probability)`, the most
            probable first.
        """
        return _words(self.call("next", text=_several(texts)))

    def generate(self, texts, length=50, top_k=1, temperature=1.0, seed=0):
        """Goes on with texts.

        Args:
            texts: string, or list of B strings.
            length: integer, most words to add to each.
            top_k: integer, of how many of the most probable words the next is
                drawn; 1 is greedy.
            temperature: float, by which log-probabilities are divided.
            seed: integer; text i is drawn with `seed + i`.

        Returns:
            List of B strings, what is added.
        """
        texts = _several(texts)
        rows = len(texts)
        found = self.call(
            "generate",
            text=texts,
            length=np.full(rows, length, "int32"),
            top_k=np.full(rows, top_k, "int32"),
            temperature=np.full(rows, temperature, "float32"),
            seed=np.arange(rows) + seed,
        )
        return list(found["text"])

    def session(self, texts=""):
        """Begins to read texts word by word.

        Args:
            texts: string, or list of B strings, with which to begin.

        Returns:
            `Session`, of a single row if `texts` is a string.
        """
        return Session(self, texts)


class Session:
    """Texts that are read on, with the state that the model has of them.

    Made by `Client.session`. The state is here, and travels with each request:
    servers keep none, so any of several can answer.

    Attributes:
        next: what comes next, as of `Client.next`; of one row if the session
            was begun with a string.
    """

    def __init__(self, client, texts):
        self._client = client
        self._one = isinstance(texts, str)
        self._take(client.call("begin", text=_several(texts)))

    def step(self, texts):
        """Reads on.

        Args:
            texts: string, or list of B strings: words that follow.

        Returns:
            `next`, the most probable words after them.
        """
        if isinstance(texts, str) != self._one:
            raise ValueError(
                "`texts` must be "
                f"{'a string' if self._one else 'a list of strings'}, as what "
                f"the session was begun with. Received: texts={texts!r}"
            )
        self._take(
            self._client.call("step_words", text=_several(texts), **self._state)
        )
        return self.next

    def _take(self, answer):
        found = _words(answer)
        self.next = found[0] if self._one else found
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


def _several(texts):
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

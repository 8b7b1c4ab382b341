"""Requests at random, right and wrong, and what a served model makes of them.

Each is answered rightly or refused with an error that names an input.
"""

import re

import numpy as np
import tensorflow as tf

# How an error of a request may begin.
CLEAR = re.compile(r"assertion failed: \[`(\w+)` (must|is not that)")
CHARACTERS = [
    *"ab,.'\"<>\\/ \t\n\u00a0\u2003\u00e9\u4e2d\u2581\U0001f600\ufffd\0",
    *("word_1 word_2 nobody <unk> <eos> N 1,234.5 -3/4".split()),
]


class Requests:
    """Requests at random to the signatures of a language model."""

    def __init__(self, signatures, vocabulary_size, seed=0):
        self.signatures = signatures
        self.size = vocabulary_size
        self.random = np.random.default_rng(seed)

    def state_of(self, rows):
        initial = self.signatures["initial_state"]
        found = initial(rows=tf.zeros(rows, tf.int32))
        return {name: value.numpy() for name, value in found.items()}

    def text(self):
        words = self.random.choice(
            CHARACTERS, self.random.integers(0, 30)
        ).tolist()
        return self.random.choice(["", " "]).join(words).encode()

    def texts(self, rows):
        return np.array([self.text() for _ in range(rows)] or [], object)

    def one(self):
        """`(signature, inputs)` of a request that is right."""
        random = self.random
        rows = int(random.integers(1, 5))
        time = int(random.integers(1, 12))
        name = str(random.choice(sorted(self.signatures)))
        ids = random.integers(self.size, size=(rows, time)).astype("int32")
        length = random.integers(1, time + 1, rows).astype("int32")
        inputs = {
            "serving_default": {"token_ids": ids},
            "score_ids": {"token_ids": ids, "length": length},
            "step": {"token_ids": ids, "length": length},
            "step_words": {"text": np.array([b"word_1 b"] * rows, object)},
            "initial_state": {"rows": length},
            "generate": {
                "text": self.texts(rows),
                "length": length,
                "top_k": random.integers(1, 5, rows).astype("int32"),
                "temperature": random.uniform(0.1, 3, rows).astype("float32"),
                "seed": random.integers(-9, 9, rows).astype("int32"),
            },
        }.get(name, {"text": self.texts(rows)})
        if name in ("step", "step_words"):
            inputs = {**inputs, **self.state_of(rows)}
        return name, inputs

    def spoilt(self, inputs):
        """Inputs with one of them wrong, and the name of that."""
        random = self.random
        name = str(random.choice(sorted(inputs)))
        value = inputs[name]
        ways = ["more rows", "fewer rows"] if len(inputs) > 1 else []
        if name == "token_ids":
            ways += ["no time"]
        if value.dtype.kind == "i" and name not in ("rows", "seed"):
            ways += ["huge", "negative"]
        if value.dtype.kind == "f":
            ways += ["nan", "infinite"]
        if not ways:
            return inputs, None
        way = str(random.choice(ways))
        place = tuple(random.integers(n) for n in value.shape)
        value = value.copy()
        if way == "more rows":
            value = np.concatenate([value, value[:1]])
        elif way == "fewer rows":
            value = value[:-1]
        elif way == "no time":
            value = value[:, :0]
        else:
            value[place] = {
                "huge": 2**31 - 1,
                "negative": -5,
                "nan": np.nan,
                "infinite": -np.inf,
            }[way]
        if name == "memory_filled" and way == "huge":
            return inputs, None
        if name == "token_ids" and way in ("huge", "negative"):
            # Behind its length, a row may hold anything.
            length = inputs.get("length")
            if length is not None and place[1] >= length[place[0]]:
                name = None
        return {**inputs, name or "token_ids": value}, name

    def ask(self, signature, inputs):
        """The answer as arrays, or the message of an error."""
        try:
            found = self.signatures[signature](
                **{name: tf.constant(value) for name, value in inputs.items()}
            )
        except (tf.errors.OpError, TypeError, ValueError) as error:
            return str(error)
        return {name: value.numpy() for name, value in found.items()}


def check_answer(signature, inputs, answer):
    """Asserts what holds of every right answer."""
    assert isinstance(answer, dict), (signature, inputs, answer)
    rows = len(next(iter(inputs.values())))
    for name, value in answer.items():
        assert len(value) == rows, (signature, name)
        if value.dtype.kind == "f":
            assert np.isfinite(value).all(), (signature, name)
        if "log_prob" in name:
            assert (value <= 1e-5).all(), (signature, name)
    if signature in ("score", "score_ids", "generate"):
        scores, length = answer["log_probabilities"], answer["length"]
        behind = np.arange(scores.shape[1]) >= length[:, None]
        assert not scores[behind].any()


def run(requests, count):
    """Sends so many requests, every other one wrong, and counts refusals."""
    refused = 0
    for number in range(count):
        signature, inputs = requests.one()
        wrong = None
        if number % 2:
            inputs, wrong = requests.spoilt(inputs)
        answer = requests.ask(signature, inputs)
        if wrong is None:
            check_answer(signature, inputs, answer)
        else:
            refused += 1
            assert isinstance(answer, str), (signature, wrong, inputs)
            assert CLEAR.search(answer), (signature, wrong, inputs, answer)
    return refused

"""Exports one small model, and calls its signatures once for all tests."""

import contextlib
import types

import keras
import numpy as np
import pytest
from exported_models import LENGTHS
from exported_models import STOPS

import memlm_keras as memlm
from memlm_keras.serving import export


@pytest.fixture(scope="session")
def texts():
    return [
        "word_0 word_7 1,234.5 word_3",
        "",
        "word_5 nobody",
        "  word_1\tword_2\u00a0word_9\u2003\x1cword_4 \n",
        "caf\u00e9 +7 -3/4 7a 1..2 word_1word_2 <unk> <eos> N",
        "word_3 word_8 word_8 " * 50,
    ]


@pytest.fixture(scope="session")
def vocabulary():
    words = [f"word_{index}" for index in range(26)]
    return memlm.data.Vocabulary(
        [*words, "N", "caf\u00e9"], tokenizer=memlm.data.Tokenizer(numbers="N")
    )


@pytest.fixture(scope="session")
def model(vocabulary):
    keras.utils.set_random_seed(5)
    model = memlm.LanguageModel(
        vocabulary=vocabulary,
        embedding_dim=7,
        recurrent=[keras.layers.LSTM(10), keras.layers.LSTM(12)],
        memory=memlm.memory.KeyValuePredict(window=3),
        dropout=0.5,
        initializer=keras.initializers.RandomUniform(-0.8, 0.8),
    )
    # An export must not contain training's state or optimizer.
    model.carry_state(batch_size=4, evaluation_batch_size=2)
    model.compile("adam")
    return model


@pytest.fixture(scope="session")
def saved_model(model, vocabulary, tmp_path_factory):
    path = tmp_path_factory.mktemp("saved_models") / "small" / "1"
    # Use NumPy numbers, which must reach the writing process, too.
    export(
        model,
        path,
        top_k=np.int64(4),
        card={"perplexity": np.float32(3.25), "licence": "MIT"},
    )
    return path


@pytest.fixture(scope="session")
def only_signatures():
    """Returns a context in which exports trace only the named signatures, to
    save time."""

    @contextlib.contextmanager
    def context(*names):
        from memlm_keras.serving import saved_model

        trace = saved_model.trace

        def some(owner, inputs):
            return trace(owner, {n: inputs[n] for n in names if n in inputs})

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(saved_model, "trace", some)
            yield

    return context


@pytest.fixture(scope="session")
def token_ids(vocabulary):
    random = np.random.default_rng(3)
    return random.integers(len(vocabulary), size=(3, 7)).astype("int32")


@pytest.fixture(scope="session")
def signatures(saved_model):
    tf = pytest.importorskip("tensorflow")
    return tf.saved_model.load(str(saved_model)).signatures


@pytest.fixture(scope="session")
def responses(signatures, token_ids, texts):
    """Calls every signature at least once; returns all inputs and outputs."""
    responses = {}

    def call(label, signature=None, **inputs):
        found = signatures[signature or label](
            **{name: tf.constant(value) for name, value in inputs.items()}
        )
        for prefix, values in (("inputs/", inputs), ("", found)):
            for name, value in values.items():
                value = np.asarray(value)
                # Convert objects to bytes, since a file of arrays cannot
                # contain objects.
                value = value.astype("S") if value.dtype == object else value
                responses[f"{prefix}{label}/{name}"] = value
        return found

    def state_of(outputs):
        return {name: outputs[name] for name in initial}

    tf = pytest.importorskip("tensorflow")
    texts = np.array([text.encode() for text in texts])
    rows = np.arange(len(token_ids), dtype="int32")
    lengths = np.array(LENGTHS, "int32")
    call("serving_default", token_ids=token_ids)
    call("score", text=texts)
    call("score_ids", token_ids=token_ids, length=lengths)
    call("next", text=texts)
    call(
        "generate",
        text=texts[:3],
        length=np.array([6, 9, 3], "int32"),
        top_k=np.ones(3, "int32"),
        temperature=np.ones(3, "float32"),
        seed=rows,
    )
    initial = state = call("initial_state", rows=rows)
    for start, stop in zip([0, *STOPS], STOPS):
        outputs = call(
            f"step_{stop}",
            "step",
            token_ids=token_ids[:, start:stop],
            length=np.full(len(rows), stop - start, "int32"),
            **state,
        )
        state = state_of(outputs)
    call("step", token_ids=token_ids, length=lengths, **initial)
    state = state_of(call("begin", text=texts))
    words = np.array([b"word_4 word_2", b"word_3"] * 3)
    call("step_words", text=words, **state)
    return types.MappingProxyType(responses)

import keras
import numpy as np
import pytest
from keras.layers import GRU
from keras.layers import LSTM
from keras.layers import Dense
from layers import arrays
from layers import assert_close

from memlm_keras import EntailmentClassifier
from memlm_keras.cells import AssociativeGRUCell
from memlm_keras.cells import DualAssociativeGRUCell
from memlm_keras.cells import FOFEHORNNCell
from memlm_keras.cells import LSTMNetworkCell
from memlm_keras.data import PairBatches
from memlm_keras.memory import WordByWordAttention
from references.rocktaschel2016 import WEIGHTS as WORD_BY_WORD
from references.rocktaschel2016 import word_by_word

pytestmark = pytest.mark.backend

V, D, H = 17, 5, 4


def gru(units):
    return GRU(units, reset_after=False)


MODELS = {
    "gru_shared": {"recurrent": gru, "top": gru},
    "am_gru_shared": {"recurrent": AssociativeGRUCell, "top": gru},
    "dual_am_gru_shared": {
        "recurrent": DualAssociativeGRUCell,
        "top": gru,
        "conditioning": "source",
    },
    "dual_am_gru": {
        "recurrent": AssociativeGRUCell,
        "recurrent_hypothesis": lambda units: DualAssociativeGRUCell(
            units, source_key="separate"
        ),
        "top": gru,
        "conditioning": "source",
    },
    "lstm": {"recurrent": LSTM, "recurrent_hypothesis": LSTM, "projection": H},
    "lstm_attention": {
        "recurrent": LSTM,
        "recurrent_hypothesis": LSTM,
        "memory": lambda units: WordByWordAttention(),
        "projection": H,
    },
    "lstm_network": {
        "recurrent": lambda units: LSTMNetworkCell(units, 10, fusion=True),
        "conditioning": "source",
        "pooling": "mean",
    },
    "alone": {"recurrent": gru, "top": gru, "conditioning": None},
}
every_model = pytest.mark.parametrize("name", MODELS)


def layers_of(name, units):
    return {
        key: value(units) if callable(value) else value
        for key, value in MODELS[name].items()
    }


def make(name, **arguments):
    if {"top", "pooling"} & set(MODELS[name]):
        arguments.setdefault("classifier_units", (H, H))
    keras.utils.set_random_seed(0)
    model = EntailmentClassifier(V, D, **layers_of(name, H), **arguments)
    for weight in model.trainable_variables:
        weight.assign(weight * 3.0)
    return model


def pairs(random, count=5):
    return (
        [random.integers(2, V, random.integers(1, 8)) for _ in range(count)],
        [random.integers(2, V, random.integers(1, 8)) for _ in range(count)],
        random.integers(0, 3, count),
    )


def inputs_of(premise, hypothesis):
    """Returns the inputs for one pair without padding."""
    inputs = {
        "premise": premise[None],
        "premise_length": [len(premise)],
        "hypothesis": hypothesis[None],
        "hypothesis_length": [len(hypothesis)],
    }
    return {key: np.array(value, "int32") for key, value in inputs.items()}


@every_model
@pytest.mark.backend("torch")
def test_padding_changes_nothing(name, random):
    model = make(name)
    data = pairs(random)
    batches = PairBatches(*data, 5, length_multiple=16)
    inputs, _, _ = batches[0]
    for key in ("premise", "hypothesis"):
        behind = (
            np.arange(inputs[key].shape[1]) >= inputs[f"{key}_length"][:, None]
        )
        # Tokens after the length may be arbitrary.
        inputs[key][behind] = 3
    logits = arrays(model(inputs))
    for row, pair in enumerate(batches.order):
        expected = model(inputs_of(data[0][pair], data[1][pair]))
        assert_close(logits[row], expected[0])


@pytest.mark.backend(one_in=2)
@every_model
def test_the_model_is_its_layers_by_hand(name, random):
    """Computes one pair layer by layer (Sections 4 and 5.1)."""
    model = make(name)
    premise, hypothesis = random.integers(2, V, 6), random.integers(2, V, 4)

    def vectors(tokens):
        found = model.embedding(tokens[None])
        if model.projection is not None:
            found = model.get_layer("projection")(found)
        return found

    first = model.recurrent
    second = model.recurrent_hypothesis or first
    p, *states = first(vectors(premise))
    start = second.get_initial_state(1)
    if name == "gru_shared":
        start = [states[0]]
    elif name in ("am_gru_shared", "lstm", "lstm_attention"):
        start = [start[0], states[1]]
    elif name.startswith("dual"):
        start = [start[0], start[1], states[1]]
    elif name == "lstm_network":
        start = [*start[:5], states[2], states[3]]
    h, *_ = second(vectors(hypothesis), initial_state=start)
    if model.memory is not None:
        weights = [
            arrays(getattr(model.memory, weight)).astype("float64")
            for weight in WORD_BY_WORD
        ]
        features, attention = word_by_word(arrays(h)[0], arrays(p)[0], *weights)
        found = model.attention(inputs_of(premise, hypothesis))
        assert_close(found[0], attention, rtol=1e-3)
    elif model.pooling is not None:
        features = np.concatenate([arrays(x)[0].mean(axis=0) for x in (p, h)])
    elif model.top is None:
        features = arrays(h)[0, -1]
    else:
        p, h = (arrays(model.top(x)[0])[0, -1] for x in (p, h))
        features = np.concatenate([p, h, np.abs(p - h)])
    for index, units in enumerate(model.classifier_units):
        layer = model.get_layer(f"classifier_units_{index}")
        kernel, bias = map(arrays, layer.weights)
        features = np.maximum(features @ kernel + bias, 0)
        assert len(features) == units
    kernel, bias = map(arrays, model.head.weights)
    logits = model(inputs_of(premise, hypothesis))
    assert_close(logits[0], features @ kernel + bias)


def test_attention_of_padded_pairs(random):
    model, data = make("lstm_attention"), pairs(random)
    batches = PairBatches(*data, 5, length_multiple=5)
    inputs, _, _ = batches[0]
    found = model.attention(inputs)
    for weights, pair in zip(found, batches.order):
        (own,) = model.attention(inputs_of(data[0][pair], data[1][pair]))
        words, length = own.shape
        assert_close(weights[:words, :length], own, rtol=1e-3)
        assert not weights[:, length:].any()
        assert not weights[words:].any()
    with pytest.raises(ValueError, match="needs a memory that attends"):
        make("lstm").attention(inputs)
    # On TensorFlow, `fit` reads batches whose time is unknown.
    model.compile(keras.optimizers.SGD(0.0))
    (accuracy,) = model.fit(batches, verbose=0).history["accuracy"]
    best = model.predict(batches, verbose=0).argmax(axis=-1)
    expected = (best == data[2][batches.order]).mean()
    assert accuracy == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize(
    "sentence, label, message",
    [
        ([V], 0, "token ids below vocabulary_size=17.*token id 17"),
        ([1], 3, "labels below num_classes=3.*label 3"),
    ],
)
def test_pairs_that_do_not_fit(sentence, label, message):
    model = make("gru_shared")
    model.compile()
    with pytest.raises(ValueError, match=message):
        model.fit(PairBatches([sentence], [[1]], [label], 1))


@pytest.mark.backend("torch")
def test_a_copy_has_the_same_layers_and_first_weights():
    cell = AssociativeGRUCell(H)
    start = keras.initializers.RandomUniform(seed=3)
    model = EntailmentClassifier(
        *(V, D, cell, cell),
        classifier_units=(6,),
        num_classes=3,
        initializer=start,
    )
    copy = EntailmentClassifier.from_config(model.get_config())
    assert len(copy.weights) == len(model.weights)
    for name in ("embedding", "classifier_units_0", "head"):
        first, second = (m.get_layer(name).weights[0] for m in (model, copy))
        assert_close(first, second)
    inputs = {
        name: np.full((2, 3), V if name == "premise" else 0, "int32")
        for name in ("premise", "hypothesis")
    }
    lengths = {f"{name}_length": np.full(2, 3, "int32") for name in inputs}
    with pytest.raises(ValueError, match="`premise`.*17"):
        model.predict({**inputs, **lengths})


def stacked():
    cells = [keras.layers.GRUCell(H), keras.layers.GRUCell(H)]
    return keras.layers.RNN(cells)


@pytest.mark.backend("torch")
@pytest.mark.parametrize(
    "arguments, message",
    [
        (
            {
                "recurrent": AssociativeGRUCell(H),
                "recurrent_hypothesis": AssociativeGRUCell(H, num_copies=3),
            },
            "'num_copies': 8.*'num_copies': 3",
        ),
        ({"vocabulary_size": 0}, "`vocabulary_size` must be an integer"),
        ({"num_classes": 0}, "`num_classes` must be an integer"),
        ({"projection": -1}, "`projection` must be an integer"),
        ({"classifier_units": (0,)}, "`classifier_units_0` must be an int"),
        ({"classifier_units": 6}, "`classifier_units` must be a 1-D"),
        ({"memory": Dense(3)}, "`memory` must be a `memlm_keras.memory.Word"),
        ({"dropout": 1.0}, "`dropout` must"),
        (
            {"pooling": "mean", "top": gru(H)},
            "Only one of `memory`, `top` and `pooling`",
        ),
        ({"pooling": "max"}, "`pooling` must be one of None, 'mean'"),
        ({"conditioning": "both"}, "one of.*conditioning='both'"),
        ({"conditioning": "source"}, "needs a layer that reads a source"),
        (
            {"recurrent": FOFEHORNNCell(H), "conditioning": "memory"},
            "does not work with FOFEHORNNCell",
        ),
        ({"recurrent": Dense(3)}, "`recurrent` must hold Keras"),
        ({"top": Dense(3)}, "`top` must hold Keras recurrent"),
        ({"recurrent": GRU(3, go_backwards=True)}, "go_backwards=True"),
        ({"recurrent": stacked()}, "one cell. Received: .*stacked cells"),
        ({"top": stacked()}, "one cell. Received: .*stacked cells"),
    ],
)
def test_wrong_arguments(arguments, message):
    arguments = {
        "vocabulary_size": V,
        "embedding_dim": D,
        "recurrent": gru(H),
        **arguments,
    }
    with pytest.raises(ValueError, match=message):
        EntailmentClassifier(**arguments)

"""Tests autoencoders against loops over tokens."""

import keras
import keras_nlp
import numpy as np
import pytest
from layers import arrays
from scipy.special import log_softmax

from memlm_keras import SequenceAutoencoder
from memlm_keras.cells import AssociativeGRUCell
from memlm_keras.cells import DualAssociativeGRUCell
from memlm_keras.data import AutoencodingBatches
from memlm_keras.evaluation import reconstruction

pytestmark = pytest.mark.backend

V, D, H = 9, 5, 6
MODELS = {
    "dual_am_gru": (AssociativeGRUCell, DualAssociativeGRUCell, "source"),
    "am_gru": (AssociativeGRUCell, AssociativeGRUCell, "memory"),
    "gru": (keras.layers.GRU, keras.layers.GRU, "memory"),
    "lstm": (keras.layers.LSTM, keras.layers.LSTMCell, "memory"),
}
CELL = keras.layers.GRUCell(H)
every_model = pytest.mark.parametrize("name", MODELS)


def make(name, scale=3.0):
    encoder, decoder, conditioning = MODELS[name]
    keras.utils.set_random_seed(0)
    model = SequenceAutoencoder(V, D, encoder(H), decoder(H), conditioning)
    for weight in model.trainable_variables:
        weight.assign(weight * scale)
    return model


def forced(model, source, target):
    """Computes logits of one sequence; the decoder reads `target`."""
    inputs = {
        "source": np.array([source], "int32"),
        "source_length": np.array([len(source)], "int32"),
        "target": np.array([target], "int32"),
    }
    return arrays(model(inputs))[0]


def test_batches():
    tokens = np.array([5, 7, 8, 0, 6, 0, 4, 5, 0])
    inputs, targets, weight = AutoencodingBatches(
        tokens, 2, length_multiple=4, equal_lengths=False
    )[0]
    assert inputs["source"].tolist() == [[5, 7, 8, 0], [6, 0, 0, 0]]
    assert inputs["source_length"].tolist() == [4, 2]
    assert inputs["target"].tolist() == [[0, 5, 7, 8], [0, 6, 0, 0]]
    assert targets.tolist() == inputs["source"].tolist()
    assert weight.tolist() == [[1, 1, 1, 1], [1, 1, 0, 0]]


@pytest.mark.backend(one_in=3)
@every_model
def test_greedy_writing_is_the_most_probable_token_each_time(
    name, random, compiled
):
    model = make(name)
    sources = [[*random.integers(1, V, n), 0] for n in (2, 5, 3)]
    batches = AutoencodingBatches(
        np.concatenate(sources), 3, 8, equal_lengths=False
    )
    inputs, _, _ = batches[0]
    inputs["target"][:] = 0
    read = compiled(lambda inputs: model(inputs))
    for step in range(7):
        logits = arrays(read(inputs))
        inputs["target"][:, step + 1] = np.argmax(logits[:, step], axis=-1)
    written = model.generate(sources, max_length=7)
    for row, found in zip(inputs["target"], written):
        expected = [*row[1:], 0]
        assert found.tolist() == expected[: expected.index(0)]


@pytest.mark.parametrize("name", ["dual_am_gru", "lstm"])
@pytest.mark.backend("torch", "tensorflow")
def test_beams_find_the_most_probable_sequence(name, random):
    """With one beam per word, the search over two tokens is exhaustive."""
    model = make(name, scale=2.0)
    sources = [[*random.integers(1, V, n), 0] for n in (4, 1, 6, 2)]
    expected = []
    for source in sources:
        scores = {}
        first = log_softmax(forced(model, source, [0])[-1])
        scores[()] = first[0]
        for token in range(1, V):
            second = log_softmax(forced(model, source, [0, token])[-1])
            scores[token,] = first[token] + second[0]
            for other in range(1, V):
                scores[token, other] = first[token] + second[other]
        expected.append(list(max(scores, key=scores.get)))
    sampler = keras_nlp.samplers.BeamSampler(num_beams=V)
    found = model.generate(sources, sampler, max_length=2)
    assert [row.tolist() for row in found] == expected


def test_reconstruction_counts_tokens_and_sequences():
    """The model generates the same sequence for every source."""
    sentences = [[5, 7, 0], [5, 7, 8, 0], [6, 0]]
    batches = AutoencodingBatches(
        np.concatenate(sentences), 2, 2, equal_lengths=False
    )

    class Parrot:
        end_of_sentence_id = 0

        def generate(self, source, sampler, max_length):
            assert sampler == "greedy"
            return [np.array([5, 7])[:max_length] for _ in source]

    found = reconstruction(Parrot(), batches, verbose=0)
    assert (found.tokens, found.sequences) == (9, 3)
    assert found.sequence_accuracy == pytest.approx(1 / 3)
    # Correct are `5 7 <eos>`, then `5 7` of four tokens, then no token.
    assert found.token_accuracy == pytest.approx((3 + 2 + 0) / 9)
    assert "greedy" in found.protocol


@pytest.mark.backend("torch")
@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"embedding_dim": 0}, "`embedding_dim` must be an integer"),
        ({"dropout": 1.0}, "`dropout` must be"),
        ({"conditioning": None}, "must be one of 'memory', 'source'"),
        ({"conditioning": "source"}, "needs a layer that reads a source"),
        ({"encoder": keras.layers.Dense(3)}, "`encoder` must hold Keras"),
        ({"encoder": keras.layers.GRU(5)}, "must have equal memory settings"),
        ({"encoder": keras.layers.LSTM(6)}, "must have equal memory settings"),
        (
            {
                "encoder": AssociativeGRUCell(H, seed=1),
                "decoder": DualAssociativeGRUCell(H),
                "conditioning": "source",
            },
            "'seed': 1.*'seed': 0",
        ),
        ({"end_of_sentence_id": V}, "must be below vocabulary_size=9"),
        ({"end_of_sentence_id": 1.5}, "`end_of_sentence_id` must be an int"),
        ({"decoder": keras.layers.Dense(3)}, "`decoder` must hold Keras"),
        (dict.fromkeys(("encoder", "decoder"), CELL), "must be two layers"),
    ],
)
def test_wrong_arguments(arguments, message):
    arguments = {
        "vocabulary_size": V,
        "embedding_dim": D,
        "encoder": keras.layers.GRU(H),
        "decoder": keras.layers.GRU(H),
        "conditioning": "memory",
        **arguments,
    }
    with pytest.raises(ValueError, match=message):
        SequenceAutoencoder(**arguments)


@pytest.mark.parametrize("source", [[], [[]], [[[1, 2]]], [[1.5, 2.0]]])
def test_wrong_sources(source):
    with pytest.raises(ValueError, match="`source` must hold sentences"):
        make("gru").generate(source)

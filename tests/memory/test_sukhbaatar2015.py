import keras
import numpy as np
import pytest
from hypothesis import strategies as st
from layers import arrays
from layers import assert_close
from layers import everything
from layers import given_sizes
from layers import uniform

import memlm_keras
from memlm_keras.embeddings import look_up
from memlm_keras.memory import MemoryNetwork
from references.daniluk2017 import softmax
from references.finite_differences import assert_derivatives

pytestmark = pytest.mark.backend

V = 11


def make(d, window):
    layer = MemoryNetwork(
        window, vocabulary_size=V, kernel_initializer=uniform()
    )
    layer.build((None, None, d))
    return layer


def reference(embedded, token_ids, weights, window, before=0):
    """Returns outputs and attention of the equations in float64, without the
    first `before` steps."""
    table, t_a, t_c, query_kernel = weights
    batch_size, time, d = embedded.shape
    hidden = np.zeros((batch_size, time, d))
    attention = np.zeros((batch_size, time, window))
    u = np.full(d, 0.1)
    for row in range(batch_size):
        for step in range(time):
            first = max(0, step + 1 - window)
            count = step + 1 - first
            a = embedded[row, first : step + 1] + t_a[window - count :]
            c = table[token_ids[row, first : step + 1]] + t_c[window - count :]
            p = softmax(a @ u)
            h = query_kernel.T @ u + c.T @ p
            h[d // 2 :] = np.maximum(h[d // 2 :], 0)
            hidden[row, step] = h
            attention[row, step, window - count :] = p
    return hidden[:, before:], attention[:, before:]


def inputs_of(seed, batch_size, time, d):
    """Returns a random table A, random words, and the words' rows of A."""
    random = np.random.default_rng(seed)
    table = random.normal(size=(V, d)).astype("float32")
    token_ids = random.integers(V, size=(batch_size, time)).astype("int32")
    return table, token_ids, table[token_ids]


def read_in_pieces(layer, table, token_ids, cut, call=None):
    """Reads words in two pieces; returns a list of results, and the state."""
    call, state = everything(call or layer), layer.initial_state(len(token_ids))
    found = []
    for piece in (token_ids[:, :cut], token_ids[:, cut:]):
        state = layer.embed_state(state, lambda ids: look_up(table, ids))
        hidden, state, attention = call(
            look_up(table, piece), piece, state=state
        )
        found.append((hidden, attention))
    return found, state


@given_sizes(
    d=st.integers(1, 5), window=st.integers(1, 4), before=st.integers(1, 5)
)
def test_outputs_equal_the_reference(batch_size, time, d, window, before, seed):
    layer = make(d, window)
    table, token_ids, embedded = inputs_of(seed, batch_size, before + time, d)
    found, state = read_in_pieces(layer, table, token_ids, before)
    weights = [value.astype("float64") for value in layer.get_weights()]
    expected = reference(
        embedded.astype("float64"), token_ids, weights, window, before
    )
    assert_close(found[1], expected)
    assert sorted(state) == ["filled", "window"]
    np.testing.assert_array_equal(
        arrays(state["window"])[:, max(0, window - 1 - before - time) :],
        token_ids[:, max(0, before + time - window + 1) :],
    )


def test_words_before_the_segment_get_gradients(gradients):
    layer = make(4, 5)
    table, token_ids, _ = inputs_of(5, 2, 7, 4)
    direction = np.random.default_rng(6).normal(size=(2, 4, 4))

    def in_pieces(tensors):
        table, *weights = tensors

        def call(*arguments, **keywords):
            return layer.stateless_call(weights, [], *arguments, **keywords)[0]

        found, _ = read_in_pieces(layer, table, token_ids, 3, call)
        return keras.ops.sum(
            keras.ops.multiply(found[1][0], direction.astype("float32"))
        )

    def reference_loss(values):
        table, *weights = values
        hidden, _ = reference(table[token_ids], token_ids, weights, 5, 3)
        return np.sum(hidden * direction)

    values = [table, *layer.get_weights()]
    found = gradients(in_pieces, values)
    # The second piece sees words 0 to 2 of the first, so they have gradients.
    assert np.all(np.any(found[0][token_ids[:, 2]] != 0, axis=-1))
    assert_derivatives(gradients, in_pieces, reference_loss, values)


def test_a_state_whose_words_are_not_embedded():
    layer = make(3, 4)
    state = layer.initial_state(1)
    with pytest.raises(ValueError, match="`state`.*embed_state.*Received"):
        layer(np.ones((1, 1, 3)), np.ones((1, 1), "int32"), state=state)


def test_a_model_without_recurrent_layers():
    model = memlm_keras.LanguageModel(V, 4, [], MemoryNetwork(window=2))
    assert model.memory.vocabulary_size == V
    with pytest.raises(ValueError, match="`recurrent` must be a list of at"):
        memlm_keras.LanguageModel(V, 4, [], None)
    layers = [keras.layers.GRU(4)]
    with pytest.raises(ValueError, match="`recurrent` must be empty, because"):
        memlm_keras.LanguageModel(V, 4, layers, MemoryNetwork(window=2))


@pytest.mark.backend("torch")
def test_a_model_reads_on_with_the_embedding_of_today():
    model = memlm_keras.LanguageModel(V, 4, [], MemoryNetwork(window=4))
    tokens = np.array([[1, 5, 3, 2, 7]], "int32")
    state = model.read(tokens[:, :3])
    assert state["memory_window"].shape == (1, 3)
    model.embedding.embeddings.assign(
        3 * np.random.default_rng(8).normal(size=(V, 4))
    )
    found, _ = model.step(tokens[:, 3:], state)
    assert_close(found, arrays(model(tokens))[:, 3:])

"""Tests variational smoothing: tables, draws, means, divergence, gradients."""

import keras
import numpy as np
import pytest
from hypothesis import strategies as st
from language_models import array
from layers import assert_arguments_survive
from layers import assert_shares
from layers import given_sizes

from memlm_keras.smoothing import SmoothedProjection
from memlm_keras.smoothing import StreamStatistics
from memlm_keras.smoothing import VariationalSmoothing
from memlm_keras.smoothing.kong2019 import OTHER_WORDS
from memlm_keras.smoothing.kong2019 import VARIATIONAL_SCHEMES
from memlm_keras.smoothing.kong2019 import Drawn
from references import smoothing as reference
from references.finite_differences import assert_derivatives

pytestmark = pytest.mark.backend

V = 7

every_scheme = pytest.mark.parametrize("scheme", VARIATIONAL_SCHEMES)
by_word_and_by_element = pytest.mark.parametrize("element_wise", [False, True])


def text(seed=0, length=40):
    shares = np.array([5, 20, 10, 4, 2, 1, 1])
    generator = np.random.default_rng(seed)
    return generator.choice(V, size=length, p=shares / shares.sum())


def make(scheme, rate=0.4, tokens=None, **arguments):
    smoothing = VariationalSmoothing(scheme, rate, seed=3, **arguments)
    tokens = text() if tokens is None else tokens
    smoothing.adapt(StreamStatistics.count(tokens, V))
    return smoothing


def tables(smoothing, tokens=None):
    """Returns the reference's probabilities of replacement and of
    replacements."""
    tokens = text() if tokens is None else tokens
    rates, proposal = reference.replacement(
        smoothing.scheme, smoothing.rate, tokens, V
    )
    return rates, proposal[:V]


def matrix_of(seed, units=4):
    generator = np.random.default_rng(seed)
    return generator.normal(size=(V, units)).astype("float32")


def assert_drawn(rows, expected):
    """Asserts that drawn rows have the expected probabilities, `(V,)`."""
    shares = np.bincount(rows.ravel(), minlength=V) / rows.size
    assert_shares(shares, expected, rows.size)


# === Statistics ===


@every_scheme
def test_tables(scheme):
    smoothing = make(scheme)
    rates, proposal = tables(smoothing)
    np.testing.assert_allclose(array(smoothing.rates), rates, rtol=1e-6)
    np.testing.assert_allclose(array(smoothing.proposal), proposal, rtol=1e-6)
    np.testing.assert_allclose(
        array(smoothing.coefficients()),
        reference.coefficients(rates, proposal),
        rtol=1e-5,
    )
    assert not smoothing.trainable_variables


# === Draws ===


@pytest.mark.backend("torch")
@every_scheme
@by_word_and_by_element
def test_draws_have_the_stated_shares(scheme, element_wise):
    smoothing = make(scheme, element_wise=element_wise)
    rates, proposal = tables(smoothing)
    words = np.tile(np.arange(V, dtype="int32"), (20_000, 1))
    drawn = smoothing.draw(words, 3)
    for word in range(V):
        mixture = rates[word] * proposal + (1 - rates[word]) * np.eye(V)[word]
        assert_drawn(array(drawn.input_rows)[:, word], mixture)


@by_word_and_by_element
def test_targets_are_drawn_by_the_same_decision(element_wise):
    smoothing = make("kneser_ney", 0.9, element_wise=element_wise)
    rates, proposal = tables(smoothing)
    words = np.tile(np.arange(V, dtype="int32"), (20_000, 1))
    drawn = smoothing.draw(words, 2)
    replaced = array(drawn.replaced)
    assert replaced.shape == (20_000, V) + (2,) * element_wise
    for word in range(V):
        own = replaced[:, word]
        assert_shares(own.mean(), rates[word], own.size)
    # The target's row does not depend on whether and how the input was
    # replaced.
    rows = array(drawn.output_rows)
    assert_drawn(rows, proposal)
    assert_drawn(rows[replaced], proposal)
    of_inputs = array(drawn.input_rows)
    for row in range(V):
        assert_drawn(rows[replaced & (of_inputs == row)], proposal)


@pytest.mark.backend("torch")
@by_word_and_by_element
def test_other_words_are_drawn_once_a_batch(element_wise):
    smoothing = make(
        "kneser_ney", 0.9, element_wise=element_wise, other_words="sample"
    )
    rates, proposal = tables(smoothing)
    words = np.zeros((1, 1), "int32")
    # An element-wise draw for 4,000 units has as many draws as many batches.
    batches, units = (1, 4000) if element_wise else (800, 1)
    drawn = [smoothing.draw(words, units).other_rows for _ in range(batches)]
    rows = np.stack([array(part) for part in drawn])
    assert rows.shape == (batches, V, units)[: 3 if element_wise else 2]
    for word in range(V):
        mixture = rates[word] * proposal + (1 - rates[word]) * np.eye(V)[word]
        assert_drawn(rows[:, word], mixture)
    kept = (rows == np.arange(V).reshape(1, V, *[1] * (rows.ndim - 2))).mean()
    assert 0.1 < kept < 0.9
    for other_words in ("mean", "mode"):
        quiet = make("kneser_ney", 0.9, other_words=other_words)
        assert quiet.draw(words, units).other_rows is None


@by_word_and_by_element
@pytest.mark.parametrize(
    "scheme", ["linear_interpolation", "absolute_discounting"]
)
def test_a_sequence_has_one_matrix(scheme, element_wise):
    smoothing = make(scheme, 0.9, text(length=12), element_wise=element_wise)
    words = np.array([[1, 2, 1, 3, 2, 1, 4, 3]] * 300, "int32")
    drawn = smoothing.draw(words, 5)
    assert drawn.output_rows is None
    rows = array(drawn.input_rows)
    for word in (1, 2, 3):
        (steps,) = np.nonzero(words[0] == word)
        for step in steps[1:]:
            np.testing.assert_array_equal(rows[:, step], rows[:, steps[0]])
        assert len(np.unique(rows[:, steps[0]], axis=0)) > 1
    again = array(smoothing.draw(words, 5).input_rows)
    assert np.any(again != rows)


@every_scheme
def test_words_are_replaced_independently(scheme):
    smoothing = make(scheme, 0.8)
    rates, _ = tables(smoothing)
    words = np.tile(np.array([1, 2, 1], "int32"), (40_000, 1))
    drawn = smoothing.draw(words, 2)
    replaced = array(drawn.replaced)

    def assert_independent(first, second, chances):
        together = np.mean(first & second)
        assert_shares(together, np.prod(chances), len(first))

    assert_independent(replaced[:, 0], replaced[:, 1], rates[[1, 2]])
    assert_independent(replaced[1:, 0], replaced[:-1, 0], rates[[1, 1]])
    if scheme == "kneser_ney":
        assert_independent(replaced[:, 0], replaced[:, 2], rates[[1, 1]])


def test_each_step_has_a_draw_of_its_own():
    smoothing = make("kneser_ney", 1.0, np.arange(V))
    rows = array(smoothing.draw(np.ones((50, 40), "int32"), 5).input_rows)
    assert rows.shape == (50, 40)
    assert all(len(np.unique(row)) > 1 for row in rows)


def test_each_element_has_a_draw_of_its_own():
    smoothing = make("kneser_ney", 0.5, np.arange(V), element_wise=True)
    rows = array(smoothing.draw(np.zeros((5000, 1), "int32"), 2).input_rows)
    same = np.mean(rows[..., 0] == rows[..., 1])
    rates, proposal = tables(smoothing, np.arange(V))
    mixture = rates[0] * proposal + (1 - rates[0]) * np.eye(V)[0]
    assert_shares(same, np.sum(mixture**2), 5000)


# === Against the reference ===


@given_sizes(
    units=st.integers(1, 4),
    element_wise=st.booleans(),
    other_words=st.sampled_from(OTHER_WORDS),
)
def test_logits_equal_the_reference(
    batch_size, time, units, element_wise, other_words, seed
):
    smoothing = make(
        *("kneser_ney", 0.8, text(seed)),
        element_wise=element_wise,
        other_words=other_words,
    )
    head = SmoothedProjection(smoothing, bias_initializer="normal")
    random = np.random.default_rng(seed)
    outputs = random.normal(size=(batch_size, time, units)).astype("float32")
    words, targets = random.integers(
        V, size=(2, batch_size, time), dtype="int32"
    )
    outputs = keras.ops.convert_to_tensor(outputs)
    drawn = smoothing.draw(words, units)
    found = head(outputs, targets=targets, drawn=drawn)
    matrix, bias = head.get_weights()[:2]
    rates, proposal = tables(smoothing, text(seed))
    expected = reference.kneser_ney_logits(
        *(matrix, bias, array(outputs), targets),
        [part if part is None else array(part) for part in drawn[1:]],
        *(rates, proposal, other_words),
    )
    np.testing.assert_allclose(array(found), expected, rtol=1e-4, atol=1e-4)
    vectors = smoothing.drawn_rows(matrix, drawn.input_rows)
    np.testing.assert_allclose(
        array(vectors),
        reference.read_rows(matrix, array(drawn.input_rows)),
        rtol=1e-6,
    )


# === Gradients ===


@every_scheme
def test_gradient_of_the_divergence(scheme, gradients):
    smoothing = make(scheme, l2=0.3)
    rates, proposal = tables(smoothing)
    assert_derivatives(
        gradients,
        lambda tensors: smoothing.divergence(tensors[0]),
        lambda arrays: 0.3 * reference.divergence(arrays[0], rates, proposal),
        [matrix_of(2)],
    )


@by_word_and_by_element
def test_gradients_of_a_sample(element_wise, gradients):
    smoothing = make(
        "kneser_ney", 0.8, element_wise=element_wise, other_words="sample"
    )
    head = SmoothedProjection(smoothing)
    random = np.random.default_rng(4)
    words, targets = random.integers(V, size=(2, 2, 5), dtype="int32")
    drawn = Drawn(*map(array, smoothing.draw(words, 4)))
    assert 0 < drawn.replaced.mean() < 1
    head.build((None, None, 4))

    def loss(tensors):
        matrix, bias = tensors

        def forward(inputs):
            vectors = smoothing.drawn_rows(matrix, inputs)
            return head(vectors, targets=targets, drawn=drawn)

        mapping = [(head.kernel, matrix), (head.bias, bias)]
        with keras.StatelessScope(state_mapping=mapping):
            logits = forward(keras.ops.convert_to_tensor(drawn.input_rows))
        losses = keras.ops.sparse_categorical_crossentropy(
            targets, logits, from_logits=True
        )
        return keras.ops.mean(losses)

    def reference_loss(arrays):
        matrix, bias = arrays
        vectors = reference.read_rows(matrix, drawn.input_rows)
        logits = reference.kneser_ney_logits(
            *(matrix, bias, vectors, targets), drawn[1:], *tables(smoothing)
        )
        return reference.cross_entropy(logits, targets)

    bias = random.normal(size=V).astype("float32")
    assert_derivatives(gradients, loss, reference_loss, [matrix_of(5), bias])


# === Configuration ===


def test_every_argument_survives_its_configuration():
    arguments = {
        "scheme": "kneser_ney",
        "rate": 0.3,
        "element_wise": True,
        "l2": 1e-3,
        "prediction": "mode",
        "other_words": "sample",
        "vocabulary_size": V,
        "seed": 5,
    }
    _, revived = assert_arguments_survive(
        VariationalSmoothing, arguments, name="smooth"
    )
    for name, value in arguments.items():
        assert getattr(revived, name) == value


@pytest.mark.backend("torch")
@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"scheme": "blank"}, "`scheme` must be one of 'linear.*'blank'"),
        ({"rate": -0.1}, "`rate` must be at least 0.*rate=-0.1"),
        ({"l2": -1.0}, "`l2` must be at least 0.*l2=-1.0"),
        ({"prediction": "median"}, "one of 'mean', 'mode'.*prediction='med"),
        (
            {"other_words": "own"},
            "one of 'mode', 'sample', 'mean'.*other_words='own'",
        ),
        ({"vocabulary_size": 0}, "`vocabulary_size`.*at least 1"),
    ],
)
def test_wrong_arguments(arguments, message):
    with pytest.raises(ValueError, match=message):
        VariationalSmoothing(
            **{"scheme": "kneser_ney", "rate": 0.1, **arguments}
        )


def test_statistics_of_another_vocabulary():
    smoothing = VariationalSmoothing("kneser_ney", 0.1, vocabulary_size=9)
    with pytest.raises(ValueError, match="of 9 words.*of 7 words"):
        smoothing.adapt(StreamStatistics.count(text(), V))

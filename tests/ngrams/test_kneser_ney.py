"""Tests Kneser-Ney smoothing against its equations."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memlm_keras.ngrams import KneserNey
from references.kneser_ney import Reference

pytestmark = pytest.mark.filterwarnings("ignore:Counts of counts")

SIZE = 7

# Texts have few different ids, so n-grams recur; id 6 rarely occurs.
texts = st.lists(st.integers(0, 5), min_size=1, max_size=60)


def explicit(order):
    """Returns discounts that differ for each order and count."""
    return [(0.3 + i / 20, 0.6 + i / 10, 0.9 + 0.15 * i) for i in range(order)]


@st.composite
def settings(draw):
    order = draw(st.integers(1, 5))
    cut_offs = draw(st.lists(st.integers(1, 3), min_size=order, max_size=order))
    return {
        "order": order,
        "discounts": draw(
            st.sampled_from(["modified", "original", explicit(order)])
        ),
        "minimum_counts": sorted(cut_offs),
        "sentence_boundaries": draw(st.booleans()),
    }


def trained(text, vocabulary_size=SIZE, **arguments):
    return KneserNey(vocabulary_size, **arguments).fit(text, verbose=0)


def trained_twice(text, arguments):
    """Trains the model and the reference, whose arguments have the same
    order."""
    order, *others = arguments.values()
    return trained(text, **arguments), Reference(text, order, SIZE, *others)


@pytest.fixture
def text(random):
    """Draws a text with Zipf's distribution of words."""
    return random.zipf(1.3, 4000) % 40


@given(texts, texts, settings())
def test_scores_are_those_of_the_equations(text, other, arguments):
    model, reference = trained_twice(text, arguments)
    np.testing.assert_allclose(model.found_discounts, reference.discounts)
    for scored in (text, other):
        np.testing.assert_allclose(
            np.exp(model.score(scored)), reference.score(scored), rtol=1e-10
        )


@given(texts, settings(), st.lists(st.integers(0, 6), max_size=6))
def test_distributions_are_those_of_the_equations(text, arguments, context):
    model, reference = trained_twice(text, arguments)
    found = np.exp(model.log_probabilities([context]))[0]
    words = list(range(SIZE))
    if arguments["sentence_boundaries"]:
        words[0] = "</s>"
        if 0 in context:
            begin = len(context) - context[::-1].index(0)
            context = ["<s>", *context[begin:]]
    expected = [reference.probability(word, context) for word in words]
    np.testing.assert_allclose(found, expected, rtol=1e-10)
    assert found.sum() == pytest.approx(1, rel=1e-12)


def test_the_estimated_discounts_of_a_natural_text(text):
    for kind in ("modified", "original"):
        model = trained(text, 40, order=3, discounts=kind)
        reference = Reference(text.tolist(), 3, 40, kind, [1, 1, 1], True)
        np.testing.assert_allclose(model.found_discounts, reference.discounts)
        defaults = (0.5, 1.0, 1.5), (0.5, 0.5, 0.5)
        assert tuple(model.found_discounts[2]) not in defaults


@pytest.mark.filterwarnings("default:Counts of counts")
def test_it_warns_where_discounts_cannot_be_estimated():
    with pytest.warns(UserWarning, match="order 1: n_1 .. n_4 = .*0.5, 1.0"):
        model = trained([1, 2, 3, 1, 2, 0], order=2)
    assert model.found_discounts == [(0.5, 1.0, 1.5)] * 2


def test_one_cut_off_is_that_of_all_orders(text):
    one, three = (
        trained(text[:200], 40, order=3, minimum_counts=count)
        for count in (2, [1, 2, 2])
    )
    np.testing.assert_array_equal(one.score(text), three.score(text))


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"vocabulary_size": 1}, "vocabulary_size.*at least 2.*=1"),
        ({"order": 0}, "order.*at least 1.*=0"),
        ({"discounts": "absolute"}, '"modified", "original".*absolute'),
        ({"discounts": [0.5] * 4}, "list of 5 entries"),
        ({"discounts": [(0.5, 1)] * 5}, "three numbers"),
        ({"discounts": None}, "Received: discounts=None"),
        ({"discounts": 1.5}, "at most the count.*1.5"),
        ({"discounts": -0.1}, "at least 0"),
        ({"discounts": float("nan")}, "at least 0"),
        ({"minimum_counts": 0}, "minimum_counts=0"),
        ({"minimum_counts": [1, 1]}, "list of 5 such"),
        ({"minimum_counts": [1, 2, 1, 1, 1]}, "ascending order"),
        ({"minimum_counts": 1.5}, "minimum_counts=1.5"),
    ],
)
def test_arguments_that_it_refuses(arguments, message):
    with pytest.raises(ValueError, match=message):
        KneserNey(**{"vocabulary_size": 10, **arguments})

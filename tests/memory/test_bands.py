"""Sums and products over what the steps of a sliding window see."""

import keras
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from keras import ops
from layers import tensor

from memlm_keras import masking

pytestmark = pytest.mark.backend


def numbers(batch, time, slots, units):
    random = np.random.default_rng(time)

    def draw(*shape):
        return random.normal(size=shape).astype("float32")

    return (
        draw(batch, time, units),
        draw(batch, time, slots),
        draw(batch, time + slots, units),
    )


def plain_products(queries, values):
    slots = values.shape[1] - queries.shape[1]
    return ops.stack(
        [
            ops.sum(queries * values[:, i : i + queries.shape[1]], axis=-1)
            for i in range(slots)
        ],
        axis=-1,
    )


def plain_sum(weights, values):
    return sum(
        weights[..., i : i + 1] * values[:, i : i + weights.shape[1]]
        for i in range(weights.shape[-1])
    )


def banded_products(queries, values):
    slots = values.shape[1] - queries.shape[1]
    return masking.banded_products(queries, values, slots)


@given(
    batch=st.integers(1, 3),
    time=st.integers(1, 40),
    slots=st.integers(1, 9),
    least=st.sampled_from([1, 4, 32]),
)
def test_both_equal_the_loop_over_slots(gradients, batch, time, slots, least):
    queries, weights, values = numbers(batch, time, slots, 3)
    for banded, plain, by_step, toward in (
        (banded_products, plain_products, queries, weights),
        (masking.banded_sum, plain_sum, weights, queries),
    ):
        expected = results(plain, by_step, values, toward, gradients)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(masking, "_LEAST_BLOCK", least)
            found = results(banded, by_step, values, toward, gradients)
        for ours, theirs in zip(found, expected):
            np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)


def results(function, by_step, values, toward, gradients):
    """Values and gradients of a function."""

    def loss(tensors):
        return ops.sum(function(*tensors) * tensor(toward))

    found = function(tensor(by_step), tensor(values))
    return ops.convert_to_numpy(found), *gradients(loss, [by_step, values])


@pytest.mark.parametrize("slots", [5, 50])
def test_memory_grows_with_time_and_no_faster(slots, monkeypatch):
    largest = []
    matmul = ops.matmul

    def spy(left, right):
        found = matmul(left, right)
        sizes = (np.prod(tuple(each.shape)) for each in (left, right, found))
        largest.append(max(map(int, sizes)))
        return found

    monkeypatch.setattr(ops, "matmul", spy)
    for time in (400, 800):
        queries, weights, values = map(tensor, numbers(1, time, slots, 3))
        masking.banded_sum(weights, values)
        masking.banded_products(queries, values, slots)
    short, long = max(largest[:2]), max(largest[2:])
    assert long <= 2.2 * short
    assert long <= 800 * 4 * max(slots, 32)


def test_shapes_of_an_open_time_are_inferred():
    def read(steps):
        seen = ops.pad(steps, [[0, 0], [3, 0], [0, 0]])
        return masking.banded_sum(masking.banded_products(steps, seen, 4), seen)

    found = keras.layers.Lambda(read)(keras.Input((None, 5)))
    assert found.shape == (None, None, 5)

"""Sums and products over what the steps of a sliding window see."""

import keras
import numpy as np
import pytest
from keras import ops

from memlm_keras import masking

pytestmark = pytest.mark.backend


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
        values = ops.ones((1, time + slots, 3))
        masking.banded_sum(ops.ones((1, time, slots)), values)
        masking.banded_products(ops.ones((1, time, 3)), values, slots)
    short, long = max(largest[:2]), max(largest[2:])
    assert long <= 2.2 * short
    assert long <= 800 * 4 * max(slots, 32)


def test_shapes_of_an_open_time_are_inferred():
    def read(steps):
        seen = ops.pad(steps, [[0, 0], [3, 0], [0, 0]])
        return masking.banded_sum(masking.banded_products(steps, seen, 4), seen)

    found = keras.layers.Lambda(read)(keras.Input((None, 5)))
    assert found.shape == (None, None, 5)

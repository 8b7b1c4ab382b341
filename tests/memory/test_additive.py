"""Tests all implementations of additive scores, and the memory that sums over
windows use."""

import keras
import numpy as np
import pytest
from keras import ops
from layers import assert_close
from layers import dtype_of
from layers import tensor

from memlm_keras import masking

pytestmark = pytest.mark.backend

LOOPS = {"torch", "jax"}
every_way = pytest.mark.parametrize("way", ["chosen", "blocks"])


def numbers(seed, batch, time, slots, units):
    """Draws keys, queries, a kernel, a mask of seen slots, and factors of the
    scores in a sum."""
    random = np.random.default_rng(seed)

    def draw(*shape):
        return random.normal(size=shape).astype("float32")

    filled = random.integers(0, slots + 1, size=batch)
    places = np.arange(time)[:, None] + np.arange(slots)[None]
    seen = places[None] >= slots - filled[:, None, None]
    return (
        draw(batch, slots + time, units) / 2,
        draw(batch, time, units) / 2,
        draw(units, 1),
        seen,
        draw(batch, time, slots) * seen,
    )


def choose(way, monkeypatch):
    if way == "blocks":
        monkeypatch.setattr(masking, "scores_in_loop", lambda queries: None)


def test_parts_of_the_batch_change_nothing(monkeypatch, gradients):
    """On PyTorch, scores are computed for one part of the batch after another,
    and each part fits in the cache."""
    *tensors, seen, toward = numbers(2, 5, 4, 3, 6)

    def loss(tensors):
        scores = masking.additive_scores(*tensors, tensor(seen))
        return ops.sum(scores * tensor(toward))

    whole = gradients(loss, tensors)
    monkeypatch.setattr(masking, "_CACHED", 2 * 4 * 6)
    assert_close(gradients(loss, tensors), whole, rtol=1e-5)


@every_way
def test_slots_that_no_step_sees(way, monkeypatch, gradients):
    choose(way, monkeypatch)
    keys, queries, kernel, *_ = numbers(3, 2, 3, 9, 4)
    seen = np.arange(3)[:, None] + np.arange(9)[None] >= 7
    seen = np.broadcast_to(seen, (2, 3, 9))
    skipped = way == "chosen" and keras.backend.backend() in LOOPS
    # No step sees slots 0 to 4, so the loop must not read positions 0 to 4.
    keys[:, :5] = np.nan if skipped else 100.0

    def loss(tensors):
        scores = masking.additive_scores(*tensors, tensor(seen))
        return ops.sum(scores * tensor(seen.astype("float32")))

    found = gradients(loss, [keys, queries, kernel])
    np.testing.assert_array_equal(found[0][:, :7], 0.0)
    assert np.all(found[0][:, 7:10] != 0.0)
    assert all(np.all(np.isfinite(gradient)) for gradient in found)


@every_way
def test_half_precision_sums_as_float32_does(way, monkeypatch, gradients):
    choose(way, monkeypatch)
    *tensors, seen, toward = numbers(4, 2, 20, 30, 8)

    def loss(dtype):
        def of(tensors):
            scores = masking.additive_scores(
                *(ops.cast(each, dtype) for each in tensors), tensor(seen)
            )
            assert dtype_of(scores) == dtype
            return ops.sum(ops.cast(scores, "float32") * tensor(toward))

        return of

    for half, full in zip(
        gradients(loss("bfloat16"), tensors),
        gradients(loss("float32"), tensors),
    ):
        np.testing.assert_allclose(
            half, full, atol=0.03 * np.abs(full).max() + 0.05
        )


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

"""Tests recall tasks against their definitions, row by row."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memlm_keras.data import recall
from memlm_keras.data.recall import MQAR
from memlm_keras.data.recall import Binding
from memlm_keras.data.recall import Copy
from memlm_keras.data.recall import MQARMix
from memlm_keras.data.recall import RecallBatches


def generator(seed=0):
    return np.random.default_rng(seed)


@st.composite
def mqars(draw):
    pairs = draw(st.integers(1, 6))
    forgetting = draw(st.integers(0, pairs))
    written = pairs + forgetting
    return MQAR(
        draw(st.integers(2 * written + 2, 4 * written + 9)),
        2 * written + 2 * pairs + 2 * draw(st.integers(0, 9)),
        pairs,
        draw(st.sampled_from(recall.FILLERS)),
        forgetting,
    )


@st.composite
def copies(draw):
    distance, queries = draw(st.integers(1, 9)), draw(st.integers(1, 5))
    length = distance + queries + draw(st.integers(0, 9))
    return Copy(distance, draw(st.integers(2, 9)), length, queries)


@st.composite
def bindings(draw):
    n = draw(st.integers(1, 6))
    return Binding(n, n + draw(st.integers(0, 5)))


# === Definitions ===


@given(mqars(), st.integers(0, 99))
def test_mqar_is_as_defined(task, seed):
    half = task.vocabulary_size // 2
    written = task.pairs + task.forgetting
    for row, positions, targets in zip(*task.draw(5, generator(seed))):
        assert len(row) == task.length
        pairs = [(row[2 * i], row[2 * i + 1]) for i in range(written)]
        keys = [key for key, _ in pairs]
        values = [value for _, value in pairs]
        # Each key is written once; then some keys are written once more.
        assert len(set(keys[: task.pairs])) == task.pairs
        assert len(set(keys[task.pairs :])) == task.forgetting
        assert set(keys[task.pairs :]) <= set(keys[: task.pairs])
        assert len(set(values)) == written
        assert all(1 <= key < half for key in keys)
        assert all(half <= value < task.vocabulary_size for value in values)
        # Each key is queried once, as the first token of a slot.
        assert sorted(row[positions]) == sorted(keys[: task.pairs])
        assert all(2 * written <= p < task.length for p in positions)
        assert not any(positions % 2)
        # The answer is the last value of a key, as in a dict.
        last = dict(pairs)
        assert [last[key] for key in row[positions]] == list(targets)
        rest = np.delete(row, [*range(2 * written), *positions])
        if task.filler == "zeros":
            assert not rest.any()
        assert all(0 <= token < task.vocabulary_size for token in rest)


def test_uniform_fillers_are_any_id():
    task = MQAR(16, 64, 2, filler="uniform")
    token_ids, positions, _ = task.draw(4000, generator())
    token_ids = token_ids[:, 4:]
    asked = np.zeros(token_ids.shape, bool)
    np.put_along_axis(asked, positions - 4, True, axis=1)
    counts = np.bincount(token_ids[~asked], minlength=16)
    assert abs(counts / counts.sum() - 1 / 16).max() < 0.002


def test_slots_are_drawn_by_their_probabilities():
    task = MQAR(64, 16, 2, power=0.5)
    _, positions, _ = task.draw(200_000, generator())
    slots = (positions - 4) // 2
    weights = np.arange(1, 7) ** -0.5
    weights /= weights.sum()
    found = np.zeros((6, 6))
    np.add.at(found, tuple(slots.T), 1 / len(slots))
    expected = np.zeros((6, 6))
    for i, j in itertools.permutations(range(6), 2):
        expected[i, j] = weights[i] * weights[j] / (1 - weights[i])
    assert abs(found - expected).max() < 0.003


@given(st.integers(1, 4), st.integers(0, 3), st.integers(0, 99))
def test_distinct_integers_are_uniform(count, more, seed):
    size = count + more
    found = recall._distinct(generator(seed), 4000, count, size)
    assert all(len(set(row)) == count for row in found[:50].tolist())
    for column in found.T:
        shares = np.bincount(column, minlength=size) / len(column)
        assert len(shares) == size and abs(shares - 1 / size).max() < 0.06


@given(copies(), st.integers(0, 99))
def test_copy_is_as_defined(task, seed):
    for row, positions, targets in zip(*task.draw(5, generator(seed))):
        assert len(row) == task.length
        assert len(set(positions)) == task.queries
        assert [row[p - task.distance] for p in positions] == list(targets)
        assert all(task.distance <= p < task.length for p in positions)
        assert all(0 <= token < task.vocabulary_size for token in row)


@given(bindings(), st.integers(0, 99))
def test_binding_is_as_defined(task, seed):
    people = range(3, 3 + task.names)
    objects = range(3 + task.names, task.vocabulary_size)
    for row, positions, targets in zip(*task.draw(5, generator(seed))):
        *sentences, asked = np.split(row, range(4, 4 * task.n + 1, 4))
        owners, has, things, end = np.transpose(sentences)
        assert set(has) == {1} and set(end) == {0} and asked[0] == 2
        assert len(set(owners) & set(people)) == task.n
        assert len(set(things) & set(objects)) == task.n
        assert list(positions) == [len(row) - 1] == [task.length - 1]
        assert targets[0] == dict(zip(owners, things))[asked[1]]


# === Scores ===

TASKS = {
    "mqar": MQAR(64, 32, 4),
    "uniform": MQAR(512, 32, 4, filler="uniform"),
    "forgetting": MQAR(64, 48, 4, forgetting=2),
    "copy": Copy(5, vocabulary_size=8, length=20),
    "binding": Binding(4, names=10),
}


def test_chance_is_that_of_a_guess():
    """A guess chooses among the values in a row, or among all tokens."""
    found = [task.chance for task in TASKS.values()]
    assert found == [1 / 4, 1 / 4, 1 / 4, 1 / 8, 1 / 4]


@pytest.mark.parametrize(
    ("task", "arguments", "message"),
    [
        (MQAR, {"pairs": 0}, "`pairs` must be an integer of at least 1"),
        (MQAR, {"filler": "ones"}, "`filler` must be one of"),
        (MQAR, {"forgetting": 5}, "`forgetting` must be at most `pairs`"),
        (MQAR, {"forgetting": -1}, "`forgetting` must be an integer of"),
        (MQAR, {"pairs": 17}, "even and at least 68, .* length=64"),
        (MQAR, {"length": 63}, "`length` must be even .* length=63"),
        (MQAR, {"vocabulary_size": 9}, "10, half .* vocabulary_size=9"),
        (MQARMix, {"training": (), "test": ((5, 16, 5),)}, "even and at least"),
        (Copy, {"distance": 0}, "`distance` must be an integer of at least 1"),
        (Copy, {"distance": 60}, "at least .* 68. Received: length=64"),
        (Binding, {"n": 33}, "`names` must be an integer of at least 33"),
    ],
)
def test_sizes_must_fit(task, arguments, message):
    with pytest.raises(ValueError, match=message):
        task(**arguments)


# === Batches ===


def rows_of(batches):
    """Returns each row of an epoch as a tuple, without rows of weight zero."""
    found = []
    for index in range(len(batches)):
        inputs, targets, sample_weight = batches[index]
        arrays = inputs["token_ids"], inputs["positions"], targets
        for row in range(batches.batch_size):
            if sample_weight[row].all():
                found.append(tuple(int(n) for a in arrays for n in a[row]))
            else:
                assert not sample_weight[row].any()
                assert not any(array[row].any() for array in arrays)
    return found


@given(mqars(), st.integers(1, 30), st.integers(1, 9), st.integers(0, 99))
def test_an_epoch_holds_each_row_once(task, rows, batch_size, seed):
    batches = RecallBatches(task, rows, batch_size, seed=seed)
    inputs, targets, sample_weight = batches[0]
    queries = batch_size, task.queries
    assert inputs["token_ids"].shape == (batch_size, task.length)
    assert inputs["positions"].shape == targets.shape == queries
    assert sample_weight.shape == queries
    assert sample_weight.dtype == "float32"
    assert {a.dtype for a in (*inputs.values(), targets)} == {np.dtype("int32")}
    assert batches.largest_id == task.vocabulary_size - 1
    found = rows_of(batches)
    assert len(found) == rows and batches.predicted_tokens == rows * queries[1]
    assert rows_of(RecallBatches(task, rows, batch_size, seed=seed)) == found
    drawn = task.draw(rows, generator([seed, 0]))
    assert found == [tuple(np.concatenate(row)) for row in zip(*drawn)]
    shuffled = RecallBatches(task, rows, batch_size, shuffle=True, seed=seed)
    for epoch in range(2):
        shuffled.start_at(epoch)
        assert sorted(rows_of(shuffled)) == sorted(found)


def test_identities_of_other_batches_differ():
    def identity(task=TASKS["mqar"], rows=9, **arguments):
        return str(RecallBatches(task, rows, **arguments).identity())

    changes = [{"task": TASKS["uniform"]}, {"task": Copy(3)}, {"rows": 8}]
    changes += [{"fresh": True}, {"shuffle": True}, {"seed": 1}]
    changes += [{"batch_size": 8}, {}]
    assert len({identity(**change) for change in changes}) == 8
    assert identity() == identity()


# === Mixes ===

MIX = MQARMix(((2, 16, 10), (4, 32, 7)), ((2, 16, 3), (8, 64, 6)), 64, "zeros")


def test_a_mix_has_the_rows_of_its_tasks():
    parts = [MQAR(64, 16, 2, "zeros"), MQAR(64, 32, 4, "zeros")]
    assert MIX.tasks("training") == parts
    assert MIX.length == 64 and MIX.chance == (3 / 2 + 6 / 8) / 9
    batches = MIX.batches("training", 4, seed=3)
    assert len(batches) == 3 + 2 and batches.largest_id == 63
    assert batches.predicted_tokens == 2 * 10 + 4 * 7
    lengths = [batches[i][0]["token_ids"].shape[1] for i in range(5)]
    assert lengths == [16, 16, 16, 32, 32]
    mixed = MIX.batches("training", 4, shuffle=True)
    found = [mixed[i][0]["token_ids"].shape[1] for i in range(5)]
    assert found != lengths and sorted(found) == lengths
    weights = [batches[i][2].sum() for i in range(5)]
    assert weights == [8, 8, 4, 16, 12]
    first = rows_of(RecallBatches(MIX.tasks("training")[0], 10, 4, seed=3))
    assert rows_of(batches)[:10] == first
    other = MIX.batches("training", 4, seed=4)
    assert str(batches.identity()) != str(other.identity())

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings
from hypothesis import strategies as st

from memlm_keras.data import Batches

EOS = 0


@st.composite
def document_starts(draw, num_tokens):
    starts = draw(st.sets(st.integers(0, num_tokens - 1), max_size=12))
    return np.array(sorted(starts | {0}))


@st.composite
def settings_of_batches(draw, documents):
    num_tokens = draw(st.integers(1, 90))
    starts = document_starts(num_tokens) if documents else st.none()
    return {
        "tokens": np.arange(1, num_tokens + 1, dtype="int32"),
        "batch_size": draw(st.integers(1, 7)),
        "segment_length": draw(st.integers(1, 9)),
        "document_starts": draw(starts),
    }


def rows_of(batches):
    """Yields (input, target, whether the token is the first of its batch,
    reset) for each token, row by row."""
    items = list(batches)
    for row in range(batches.batch_size):
        for inputs, targets, weight in items:
            for time in np.flatnonzero(weight[row]):
                read = inputs["token_ids"][row, time]
                yield read, targets[row, time], time == 0, inputs["reset"][row]


def assert_well_formed(batches):
    shape = (batches.batch_size, batches.segment_length)
    for inputs, targets, weight in batches:
        assert inputs["token_ids"].shape == targets.shape == shape
        assert weight.shape == shape
        assert inputs["reset"].shape == shape[:1]
        assert inputs["token_ids"].dtype == targets.dtype == np.int32
        assert weight.dtype == np.float32 and inputs["reset"].dtype == bool
        assert set(np.unique(weight)) <= {0.0, 1.0}
        assert not targets[weight == 0].any()
        assert not inputs["token_ids"][weight == 0].any()


@given(settings_of_batches(documents=False))
@settings(deadline=None, max_examples=60)
def test_streams_predict_every_token_once(arguments):
    batches = Batches(**arguments)
    assert_well_formed(batches)
    seen = list(rows_of(batches))
    # Tokens are 1, 2, 3 and so on, so each input is the target minus one; the
    # first input, 0, is the end of a sentence.
    assert [target for _, target, _, _ in seen] == list(arguments["tokens"])
    assert all(input == target - 1 for input, target, _, _ in seen)
    resets = [inputs["reset"] for inputs, _, _ in batches]
    assert resets[0].all() and not np.any(resets[1:])
    lengths = sum(weight.sum(axis=1) for _, _, weight in batches)
    assert lengths.max() - lengths.min() <= 1
    assert len(batches) == -(-lengths.max() // batches.segment_length)


@given(settings_of_batches(documents=True), st.booleans(), st.integers(0, 3))
@settings(deadline=None, max_examples=80)
def test_documents_predict_every_token_once(arguments, shuffle, epoch):
    batches = Batches(**arguments, shuffle=shuffle)
    length = len(batches)
    batches.start_at(epoch, 0)
    assert len(batches) == length
    assert_well_formed(batches)
    starts = set(arguments["document_starts"] + 1)
    seen = list(rows_of(batches))
    assert sorted(t for _, t, _, _ in seen) == list(arguments["tokens"])
    for input, target, is_first, reset in seen:
        begins = target in starts
        assert input == (EOS if begins else target - 1)
        assert (is_first and reset) == begins
    resets = sum(inputs["reset"].sum() for inputs, _, _ in batches)
    assert resets == len(starts)
    assert batches[length - 1][2].any()


def test_documents_go_to_the_row_that_is_free_first():
    # With segments of two steps, the documents take 3, 1, 1, 1 and 2 segments.
    starts = [0, 6, 8, 9, 11]
    batches = Batches(np.arange(10, 24), 2, 2, document_starts=starts)
    targets = np.stack([targets for _, targets, _ in batches], axis=1)
    np.testing.assert_array_equal(
        targets,
        [
            [[10, 11], [12, 13], [14, 15], [21, 22], [23, 0]],
            [[16, 17], [18, 0], [19, 20], [0, 0], [0, 0]],
        ],
    )
    resets = np.stack([inputs["reset"] for inputs, _, _ in batches], axis=1)
    np.testing.assert_array_equal(resets, [[1, 0, 0, 1, 0], [1, 1, 1, 0, 0]])


def test_memory_map_is_indexed_in_place(tmp_path, monkeypatch):
    # The search for the largest id reads every chunk.
    monkeypatch.setattr("memlm_keras.data.batches._CHUNK", 40)
    np.save(tmp_path / "tokens.npy", np.arange(100, dtype="int32"))
    tokens = np.load(tmp_path / "tokens.npy", mmap_mode="r")
    batches = Batches(tokens, batch_size=3, segment_length=4)
    assert isinstance(batches.tokens, np.memmap)
    assert batches.largest_id == 99
    assert batches.num_tokens == 100
    assert Batches(tokens[::-1]).largest_id == 99


def test_end_of_sentence_id_begins_and_pads():
    batches = Batches(np.arange(3), 2, 4, end_of_sentence_id=8)
    inputs, targets, _ = batches[0]
    assert inputs["token_ids"].tolist() == [[8, 8, 8, 8], [0, 1, 8, 8]]
    assert targets.tolist() == [[0, 8, 8, 8], [1, 2, 8, 8]]


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"batch_size": 0}, "`batch_size` must be .*at least 1.*=0"),
        ({"segment_length": -1}, "`segment_length` must be .*at least 1"),
        ({"tokens": np.ones((2, 3), int)}, r"`tokens` must be .*\(2, 3\)"),
        ({"tokens": np.ones(3)}, "`tokens` must be .* integers.*float64"),
        ({"tokens": np.array([], int)}, "`tokens` must be .*not empty"),
        ({"shuffle": True}, "`shuffle=True` needs `document_starts`"),
        ({"document_starts": [1, 3]}, "`document_starts` must begin with 0"),
        ({"document_starts": np.array([], int)}, "must be .*not empty"),
        ({"document_starts": [0, 3, 3]}, "must be sorted.*3 after 3"),
        ({"document_starts": [0, 9]}, r"must be from 0 to 8.*Received: 9"),
        ({"document_starts": [0.0, 2.5]}, "`document_starts` must be a 1-D"),
        ({"seed": -1}, "`seed` must be an integer of at least 0.*seed=-1"),
        ({"end_of_sentence_id": 0.9}, "`end_of_sentence_id` must be an.*=0.9"),
        ({"context_of": "x"}, "`context_of` must be one of 'document'"),
    ],
)
def test_wrong_arguments_are_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        Batches(**{"tokens": np.arange(9), **arguments})


def test_wrong_places_are_named():
    batches = Batches(np.arange(9), batch_size=1, segment_length=3)
    with pytest.raises(ValueError, match="`epoch` must be .*at least 0"):
        batches.start_at(-1, 0)
    with pytest.raises(ValueError, match=r"`batch` must be from 0 to 2"):
        batches.start_at(0, 3)
    with pytest.raises(IndexError, match=r"`index` must be from 0 to 2"):
        batches[3]

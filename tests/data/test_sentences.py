import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memlm_keras.data import SentenceBatches
from memlm_keras.data import sentence_starts


def text(lengths):
    """Makes sentences of distinct words with an end of a sentence each."""
    tokens, word = [], 1
    for length in lengths:
        tokens += [*range(word, word + length), 0]
        word += length
    return np.array(tokens, "int32")


def sentences_of(batches):
    """Returns the sentences of an epoch as tuples of targets."""
    found = []
    for index in range(len(batches)):
        inputs, targets, weight = batches[index]
        assert targets.shape == inputs["token_ids"].shape == weight.shape
        assert targets.shape[0] == batches.batch_size
        time = targets.shape[1]
        assert time % batches.length_multiple == 0 or time == batches.longest
        assert inputs["reset"].all()
        counts = weight.sum(axis=1).astype(int)
        for row, count in enumerate(counts):
            assert np.all(weight[row] == (np.arange(weight.shape[1]) < count))
            sentence = targets[row, :count]
            if count:
                read = inputs["token_ids"][row, :count]
                assert read.tolist() == [0, *sentence[:-1]]
                found.append(tuple(sentence))
        if batches.equal_lengths:
            assert len(set(counts[counts > 0])) == 1
    return found


@given(
    lengths=st.lists(st.integers(0, 9), min_size=1, max_size=30),
    batch_size=st.integers(1, 5),
    length_multiple=st.integers(1, 8),
    shuffle=st.booleans(),
    longest=st.none() | st.integers(1, 12),
    equal_lengths=st.booleans(),
)
def test_every_sentence_is_in_one_batch(lengths, **options):
    tokens = text(lengths)
    batches = SentenceBatches(tokens, **options)
    longest, batch_size = options["longest"], options["batch_size"]
    sentences = np.split(tokens, sentence_starts(tokens)[1:])
    expected = [tuple(sentence[:longest]) for sentence in sentences]
    assert sorted(sentences_of(batches)) == sorted(expected)
    assert batches.predicted_tokens == sum(map(len, expected))
    if longest is not None:
        assert all(targets.shape[1] <= longest for _, targets, _ in batches)
    groups = [len(s) if options["equal_lengths"] else 0 for s in expected]
    counts = np.unique(groups, return_counts=True)[1]
    assert len(batches) == sum(-(-count // batch_size) for count in counts)


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"tokens": np.array([1, 2])}, "`tokens` must end with the end-of-"),
        ({"tokens": np.array([1, 0, 2])}, "`tokens` must end with the end"),
        ({"length_multiple": 0}, "`length_multiple` must be .*at least 1"),
        ({"batch_size": 0}, "`batch_size` must be .*at least 1"),
        ({"longest": 0}, "`longest` must be .*at least 1"),
        ({"longest": 3.5}, "`longest` must be an integer"),
    ],
)
def test_wrong_arguments(arguments, message):
    with pytest.raises(ValueError, match=message):
        SentenceBatches(**{"tokens": np.array([1, 0]), **arguments})

import keras
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memlm_keras import LanguageModel
from memlm_keras.data import Batches
from memlm_keras.data import SentenceBatches
from memlm_keras.data import sentence_starts
from memlm_keras.training import SentenceCrossEntropy


def text(lengths):
    """Sentences of distinct words, each with its end."""
    tokens, word = [], 1
    for length in lengths:
        tokens += [*range(word, word + length), 0]
        word += length
    return np.array(tokens, "int32")


def text_of_six_words(lengths):
    """The same with words from 1 to 6."""
    tokens = text(lengths)
    return np.where(tokens, (tokens - 1) % 6 + 1, 0).astype("int32")


def sentences_of(batches):
    """The sentences of an epoch, as tuples of targets."""
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
def test_every_sentence_is_in_one_batch(
    lengths, batch_size, length_multiple, shuffle, longest, equal_lengths
):
    tokens = text(lengths)
    batches = SentenceBatches(
        tokens,
        batch_size,
        length_multiple,
        shuffle,
        longest=longest,
        equal_lengths=equal_lengths,
    )
    sentences = np.split(tokens, sentence_starts(tokens)[1:])
    expected = [tuple(sentence[:longest]) for sentence in sentences]
    assert sorted(sentences_of(batches)) == sorted(expected)
    assert batches.predicted_tokens == sum(map(len, expected))
    if longest is not None:
        assert all(targets.shape[1] <= longest for _, targets, _ in batches)
    groups = [len(s) if equal_lengths else 0 for s in expected]
    counts = np.unique(groups, return_counts=True)[1]
    assert len(batches) == sum(-(-count // batch_size) for count in counts)


def test_sentences_of_all_lengths_as_salton_trains():
    """Cut and padded by hand, in the order of the text."""
    tokens = np.array([5, 7, 8, 0, 6, 0, 8, 9, 0], "int32")
    batches = SentenceBatches(tokens, 2, 8, longest=3, equal_lengths=False)
    inputs, targets, weight = batches[0]
    assert inputs["token_ids"].tolist() == [[0, 5, 7], [0, 6, 0]]
    # The first loses its end.
    assert targets.tolist() == [[5, 7, 8], [6, 0, 0]]
    assert weight.tolist() == [[1, 1, 1], [1, 1, 0]]
    inputs, targets, weight = batches[1]
    assert targets.tolist() == [[8, 9, 0], [0, 0, 0]]
    assert weight.tolist() == [[1, 1, 1], [0, 0, 0]]
    assert inputs["reset"].all()
    assert batches.predicted_tokens == 8


@pytest.mark.parametrize("equal_lengths", [True, False])
def test_orders_follow_from_seed_and_epoch(equal_lengths):
    tokens = text([3] * 20 + [5] * 20)

    def order(seed, epoch):
        batches = SentenceBatches(
            tokens, 4, shuffle=True, seed=seed, equal_lengths=equal_lengths
        )
        batches.start_at(epoch)
        return sentences_of(batches)

    assert order(0, 1) == order(0, 1)
    assert order(0, 1) != order(0, 2)
    assert order(0, 1) != order(1, 1)
    # Not the batches alone, but what is in them.
    batches = SentenceBatches(
        tokens, 4, shuffle=True, equal_lengths=equal_lengths
    )
    together = []
    for epoch in (0, 1):
        batches.start_at(epoch)
        together.append({frozenset(batches[i][1][:, 0]) for i in range(10)})
    assert together[0] != together[1]


def test_few_shapes_whatever_the_lengths(monkeypatch):
    """Compiled once for each multiple, and not again in later epochs."""
    generator = np.random.default_rng(0)
    tokens = text_of_six_words(generator.integers(1, 24, 60))
    batches = SentenceBatches(tokens, 3, length_multiple=8, shuffle=True)
    model = LanguageModel(7, 3, [keras.layers.LSTM(4)])
    model.compile(
        keras.optimizers.SGD(0.1), SentenceCrossEntropy(), weighted_metrics=[]
    )
    traced = []
    forward = model.backbone.forward

    def spy(token_ids, *args, **kwargs):
        traced.append(tuple(token_ids.shape))
        return forward(token_ids, *args, **kwargs)

    monkeypatch.setattr(model.backbone, "forward", spy)
    model.fit(batches, epochs=1, verbose=0)
    first = len(traced)
    model.fit(batches, epochs=3, verbose=0)
    shapes = {shape for shape in traced if None not in shape}
    assert {shape[1] for shape in shapes} <= {8, 16, 24}
    if keras.backend.backend() != "torch":
        # What runs unseen is what is compiled: no more traces than shapes,
        # each at most twice, by Keras' own symbolic build and for the step.
        assert first <= 2 * 3 + 2
        assert len(traced) - first <= 2 * 3 + 2


def test_batches_that_begin_alike_and_go_on_otherwise():
    """In training and evaluation, and from the midst of an epoch."""
    tokens = text_of_six_words([2] * 9 + [12] * 3 + [20] * 2)
    batches = SentenceBatches(tokens, 3, length_multiple=4)
    times = [batches[index][1].shape[1] for index in range(len(batches))]
    assert times == [4, 4, 4, 16, 24]
    model = LanguageModel(7, 3, [keras.layers.LSTM(4)])
    model.compile(keras.optimizers.SGD(0.1), SentenceCrossEntropy())
    batches.start_at(0, 1)
    history = model.fit(
        batches, validation_data=batches, epochs=2, verbose=0
    ).history
    assert len(history["nats"]) == len(history["val_nats"]) == 2
    starts = sentence_starts(tokens)
    streams = Batches(tokens, 2, 4, document_starts=starts)
    batches.start_at(0)
    _, *found = model.evaluate(batches, verbose=0)
    _, *expected = model.evaluate(streams, verbose=0)
    np.testing.assert_allclose(found, expected, rtol=1e-4)


def test_the_loss_is_summed_over_time_and_averaged_over_sentences():
    tokens = text_of_six_words([2, 2, 5])
    model = LanguageModel(
        7,
        3,
        [keras.layers.LSTM(4)],
        initializer=keras.initializers.RandomUniform(-1, 1),
    )
    loss = SentenceCrossEntropy()
    for index in range(2):
        batches = SentenceBatches(tokens, 2, length_multiple=4)
        inputs, targets, weight = batches[index]
        logits = model(inputs["token_ids"])
        found = keras.ops.convert_to_numpy(loss(targets, logits, weight))
        total = 0.0
        for row in range(2):
            count = int(weight[row].sum())
            if count:
                sentence = np.array([[0, *targets[row, :count]]])
                total -= model.score(sentence).sum()
        np.testing.assert_allclose(found, total / 2, rtol=1e-5)


def test_padding_changes_no_gradient():
    """One step of training from batches padded more and less."""
    tokens = np.array([3, 2, 0, 4, 0, 6, 1, 5, 0], "int32")
    weights = []
    for length_multiple in (4, 8):
        keras.utils.set_random_seed(3)
        model = LanguageModel(7, 3, [keras.layers.LSTM(4)])
        model.compile(
            keras.optimizers.SGD(0.5, global_clipnorm=5.0),
            SentenceCrossEntropy(),
        )
        batches = SentenceBatches(
            tokens, 4, length_multiple, equal_lengths=False
        )
        model.fit(batches, verbose=0)
        weights.append([w.numpy() for w in model.trainable_variables])
    for less, more in zip(*weights):
        np.testing.assert_allclose(less, more, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"tokens": np.array([1, 2])}, "`tokens` must end with the end of a"),
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

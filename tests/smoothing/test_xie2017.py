import keras
import numpy as np
import pytest
from layers import assert_shares

from memlm_keras import LanguageModel
from memlm_keras.data import Batches
from memlm_keras.data import SentenceBatches
from memlm_keras.evaluation import sampled_perplexity
from memlm_keras.smoothing import NoisedBatches
from memlm_keras.smoothing import StreamStatistics
from references import smoothing as reference

pytestmark = pytest.mark.backend

V = 7


def text(seed=0, length=20_000):
    """Draws a text in which some words are frequent, with ends of lines."""
    generator = np.random.default_rng(seed)
    shares = np.array([5, 20, 10, 4, 2, 1, 0.02])
    tokens = generator.choice(V, size=length, p=shares / shares.sum())
    tokens[-1] = 0
    return tokens.astype("int32")


def noised(scheme, rate=0.4, batches=None, seed=0, **arguments):
    if batches is None:
        batches = Batches(text(), batch_size=100, segment_length=10)
    statistics = StreamStatistics.count(batches.tokens, V)
    return NoisedBatches(batches, scheme, rate, statistics, seed, **arguments)


@pytest.mark.parametrize(
    "scheme",
    ["blank", "linear_interpolation", "absolute_discounting", "kneser_ney"],
)
def test_replaced_as_often_and_by_what_the_table_says(scheme):
    blank = {"blank_id": V} if scheme == "blank" else {}
    # In a text with few different words, discounted schemes replace rarely.
    rate = 0.9 if scheme in ("absolute_discounting", "kneser_ney") else 0.3
    batches = noised(scheme, rate, **blank)
    rates, proposal = reference.replacement(scheme, rate, text(), V, **blank)
    inputs_seen = np.zeros((V, V + 1))
    targets_seen = np.zeros((V, V, V + 1))
    for epoch in range(8):
        batches.start_at(epoch)
        for index in range(len(batches)):
            inputs, targets, _ = batches.batches[index]
            found, found_targets, _ = batches[index]
            words = inputs["token_ids"], found["token_ids"]
            np.add.at(inputs_seen, words, 1)
            np.add.at(targets_seen, (words[0], targets, found_targets), 1)
    for word in range(V):
        expected = rates[word] * proposal
        expected[word] += 1 - rates[word]
        draws = inputs_seen[word].sum()
        assert_shares(inputs_seen[word] / draws, expected, draws)
        for target in range(V):
            expected = np.zeros(V + 1)
            if scheme == "kneser_ney":
                expected = rates[word] * proposal
            expected[target] += 1 - expected.sum()
            draws = targets_seen[word, target].sum()
            found = targets_seen[word, target] / max(draws, 1)
            assert_shares(found, expected if draws else found, draws)


def test_targets_are_replaced_with_their_inputs_and_independently():
    tokens = np.arange(5000)
    statistics = StreamStatistics.count(tokens, 5000)
    plain = Batches(tokens, batch_size=50, segment_length=100)
    inputs, targets, _ = NoisedBatches(plain, "kneser_ney", 1, statistics)[0]
    assert np.mean(inputs["token_ids"] == plain[0][0]["token_ids"]) < 0.01
    assert np.mean(targets == plain[0][1]) < 0.01
    assert np.mean(targets == inputs["token_ids"]) < 0.01
    half = NoisedBatches(plain, "kneser_ney", 0.5, statistics)
    inputs, targets, _ = half[0]
    changed = inputs["token_ids"] != plain[0][0]["token_ids"]
    assert 0.4 < changed.mean() < 0.6
    assert np.mean(changed == (targets != plain[0][1])) > 0.99


def items(batches):
    return [batches[index] for index in range(len(batches))]


def assert_equal_items(found, expected):
    for one, other in zip(found, expected, strict=True):
        keras.tree.map_structure(np.testing.assert_array_equal, one, other)


def test_an_epoch_begun_anywhere():
    def make(seed=1):
        starts = np.arange(0, 900, 60)
        batches = Batches(text(length=900), 4, 7, starts, shuffle=True)
        return noised("kneser_ney", 1.0, batches, seed)

    whole, later, resumed = make(), make(), make()
    first = items(whole)
    assert_equal_items(items(whole), first)
    assert first[0][0]["token_ids"].dtype == first[0][1].dtype == np.int32
    later.start_at(1)
    for other in (items(make(2)), items(later)):
        assert any(np.any(a[1] != b[1]) for a, b in zip(other, first))
    resumed.start_at(0, 3)
    assert_equal_items(items(resumed), first[3:])
    # Noise changes neither resets nor sample weights.
    for noisy, plain in zip(first, items(whole.batches)):
        np.testing.assert_array_equal(noisy[0]["reset"], plain[0]["reset"])
        np.testing.assert_array_equal(noisy[2], plain[2])


def test_identities_of_other_noise_differ():
    batches = Batches(text(length=100), 4, 7)
    statistics = StreamStatistics.count(text(), V)
    found = [
        noised("kneser_ney", 0.5, batches),
        noised("kneser_ney", 0.4, batches),
        noised("linear_interpolation", 0.5, batches),
        noised("kneser_ney", 0.5, batches, seed=1),
        noised("kneser_ney", 0.5, Batches(text(length=100), 4, 8)),
        NoisedBatches(batches, "kneser_ney", 0.5, statistics),
    ]
    assert len({str(one.identity()) for one in found}) == 6
    assert noised("kneser_ney", 0.5, batches).identity() == found[0].identity()


def test_answers_of_the_batches():
    batches = noised("kneser_ney", 0.5, SentenceBatches(text(), 4))
    assert batches.batch_size == 4 and batches.varies_in_time
    assert batches.predicted_tokens == batches.num_tokens == 20_000
    assert batches.largest_id == V - 1 and not batches.whole_sentences
    blank = noised("blank", 0.5, Batches(text(), 4, 7), blank_id=V)
    assert blank.largest_id == V and blank.segment_length == 7
    with pytest.raises(AttributeError, match="nothing"):
        _ = batches.nothing
    with pytest.raises(IndexError):
        blank[len(blank)]


@pytest.mark.backend("torch")
@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"scheme": "good_turing"}, "`scheme` must be one of 'blank'.*good_t"),
        ({"rate": 1.5}, "`rate` must be at least 0 and at most 1.*rate=1.5"),
        ({"scheme": "blank"}, "`blank_id` must be.*blank_id=None"),
        ({"blank_id": 3}, "`blank_id` must be.*blank_id=3"),
        ({"scheme": "blank", "blank_id": -1}, "`blank_id` must.*blank_id=-1"),
        ({"scheme": "blank", "blank_id": 1.5}, "`blank_id` must.*blank_id=1.5"),
        ({"scheme": "blank", "blank_id": True}, "`blank_id` must.*id=True"),
        ({"batches": [1]}, "`batches` must be.*Batches.*Received: batches=.1."),
        ({"seed": -1}, "`seed` must be an integer of at least 0.*seed=-1"),
        ({"statistics": 3}, "`statistics` must be.*Received: statistics=3"),
        (
            {"statistics": StreamStatistics.count(np.array([1]), 3)},
            "`statistics` must have the vocabulary.*3 words.*token id 6",
        ),
    ],
)
def test_wrong_arguments(arguments, message):
    arguments = {
        "batches": Batches(text(), 4, 7),
        "scheme": "kneser_ney",
        "rate": 0.2,
        "statistics": StreamStatistics.count(text(), V),
        **arguments,
    }
    with pytest.raises(ValueError, match=message):
        NoisedBatches(**arguments)


def test_samples_of_noise_are_averaged():
    model = LanguageModel(V, 4, [keras.layers.LSTM(5)])
    plain = Batches(text(length=60), batch_size=2, segment_length=7)
    batches = noised("kneser_ney", 0.9, plain)
    found = sampled_perplexity(model, batches, samples=3, seed=5, verbose=0)
    samples = [
        model.score_batches(noised("kneser_ney", 0.9, plain, seed))
        for seed in (5, 6, 7)
    ]
    scores = np.array([scores for scores, _ in samples], "float64")
    expected = -np.sum(np.log(np.exp(scores).mean(axis=0)) * samples[0][1])
    assert found.loss == pytest.approx(expected, rel=1e-5)

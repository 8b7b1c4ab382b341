import keras
import numpy as np
import pytest

from memlm_keras import LanguageModel
from memlm_keras.data import Batches
from memlm_keras.data import SentenceBatches
from memlm_keras.evaluation import perplexity
from memlm_keras.evaluation import sampled_perplexity
from memlm_keras.smoothing import NoisedBatches
from memlm_keras.smoothing import StreamStatistics
from memlm_keras.training import Checkpoint
from references import smoothing as reference

pytestmark = pytest.mark.backend

V = 7


def text(seed=0, length=20_000):
    """A stream in which some words are frequent, each line with its end."""
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


def assert_shares(found, expected, draws):
    deviation = np.sqrt(expected * (1 - expected) / np.maximum(draws, 1))
    assert np.all(np.abs(found - expected) <= 4.5 * deviation + 1e-9)


@pytest.mark.parametrize(
    "scheme",
    ["blank", "linear_interpolation", "absolute_discounting", "kneser_ney"],
)
def test_replaced_as_often_and_by_what_the_table_says(scheme):
    blank = {"blank_id": V} if scheme == "blank" else {}
    # Rates of discounted schemes are small in a text of few words.
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


def test_the_same_noise_on_every_backend():
    inputs, targets, _ = noised(
        "kneser_ney", 1.0, Batches(text(length=60), 2, 12), seed=3
    )[1]
    np.testing.assert_array_equal(inputs["token_ids"], GOLDEN[0])
    np.testing.assert_array_equal(targets, GOLDEN[1])
    assert inputs["token_ids"].dtype == targets.dtype == np.int32


GOLDEN = (
    [
        [5, 3, 1, 2, 1, 1, 1, 1, 2, 0, 1, 2],
        [1, 1, 1, 1, 3, 1, 2, 3, 2, 2, 1, 4],
    ],
    [
        [0, 0, 0, 1, 3, 0, 1, 1, 1, 1, 2, 2],
        [1, 1, 1, 3, 1, 2, 0, 1, 2, 1, 3, 1],
    ],
)


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
    later.start_at(1)
    for other in (items(make(2)), items(later)):
        assert any(np.any(a[1] != b[1]) for a, b in zip(other, first))
    resumed.start_at(0, 3)
    assert_equal_items(items(resumed), first[3:])
    # What is not noise is left as it was.
    for noisy, plain in zip(first, items(whole.batches)):
        np.testing.assert_array_equal(noisy[0]["reset"], plain[0]["reset"])
        np.testing.assert_array_equal(noisy[2], plain[2])


def test_a_checkpoint_of_other_noise(tmp_path):
    model = LanguageModel(V, 4, [keras.layers.LSTM(5)])
    model.compile("sgd")
    batches = Batches(text(length=100), 4, 7)
    path = tmp_path / "checkpoint.npz"
    model.fit(
        noised("kneser_ney", 0.5, batches),
        callbacks=[Checkpoint(path, noised("kneser_ney", 0.5, batches))],
        verbose=0,
    )
    Checkpoint(path, noised("kneser_ney", 0.5, batches))
    for other in (
        noised("kneser_ney", 0.4, batches),
        noised("linear_interpolation", 0.5, batches),
        noised("kneser_ney", 0.5, batches, seed=1),
        NoisedBatches(
            batches, "kneser_ney", 0.5, StreamStatistics.count(text(), V)
        ),
    ):
        with pytest.raises(ValueError, match="belongs to other batches"):
            Checkpoint(path, other)


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


@pytest.mark.parametrize("scheme", ["linear_interpolation", "kneser_ney"])
def test_samples_of_noise_are_averaged(scheme):
    model = LanguageModel(V, 4, [keras.layers.LSTM(5)])
    tokens = text(length=60)
    plain = Batches(tokens, batch_size=2, segment_length=7)
    statistics = StreamStatistics.count(text(seed=1, length=25), V)
    batches = NoisedBatches(plain, scheme, 0.9, statistics)
    found = sampled_perplexity(model, batches, samples=3, seed=5, verbose=0)
    samples = [
        model.score_batches(NoisedBatches(plain, scheme, 0.9, statistics, seed))
        for seed in (5, 6, 7)
    ]
    scores = np.array([scores for scores, _ in samples], "float64")
    weights = samples[0][1]
    expected = -np.sum(np.log(np.exp(scores).mean(axis=0)) * weights)
    assert found.loss == pytest.approx(expected, rel=1e-5)
    beside = found.others["mean_log_probability"]
    expected = -np.sum(scores.mean(axis=0) * weights)
    assert beside.loss == pytest.approx(expected, rel=1e-5)
    # The text itself is the mode, as without noise.
    quiet = NoisedBatches(plain, scheme, 0.0, statistics)
    quiet = sampled_perplexity(model, quiet, samples=2, verbose=0)
    mode = perplexity(model, plain, verbose=0)
    assert quiet.loss == pytest.approx(mode.loss, rel=1e-5)
    assert found.loss != mode.loss

"""Tests the analyses of Tran et al. (2016) against computations step by
step."""

from functools import partial

import keras
import numpy as np
import pytest
from language_models import sharpened
from written_files import is_png
from written_files import read_csv

from memlm_keras import LanguageModel
from memlm_keras import analysis
from memlm_keras.analysis import pictures
from memlm_keras.analysis.tran2016 import cooccurrence_counts
from memlm_keras.data import Split
from memlm_keras.data import Vocabulary
from memlm_keras.memory import Attention
from memlm_keras.memory import MemoryBlock

WORDS = ["$", "b$c", "d", "e", "f", "g", "h", "i", "j", "k", "l"]
VOCABULARY = Vocabulary(WORDS)


@pytest.fixture(params=["current word", "steps before"])
def model(request):
    memory = MemoryBlock(4) if request.param == "current word" else Attention(3)
    return sharpened(memory, len(VOCABULARY))


@pytest.fixture
def text(random):
    return text_of(random, [5, 1, 0, 12, 7, 7, 40, 3])


def text_of(random, lengths):
    parts = [[*random.integers(1, 13, length), 0] for length in lengths]
    return np.concatenate(parts).astype("int32")


def steps(model, tokens):
    """Yields (place, attended place or `None`, slot, weight, weights) for each
    slot of each step."""
    start = 0
    for sentence in np.split(tokens, np.flatnonzero(tokens == 0) + 1)[:-1]:
        read = np.concatenate([[0], sentence[:-1]])[None]
        for step, weights in enumerate(model.attention(read)[0]):
            for slot, weight in enumerate(weights):
                held = step - model.memory.steps_back
                held -= len(weights) - 1 - slot
                # Step 0 reads the end of a sentence, and step 1 the first word.
                place = start + held - 1 if held >= 1 else None
                yield start + step, place, slot, weight, weights
        start += len(sentence)


def test_attention_columns(model, text, tmp_path):
    words = np.flatnonzero(text)
    columns, other, whole = (
        analysis.attention_columns(
            model, Split(text), VOCABULARY, count, seed, batch_size=3, verbose=0
        )
        for count, seed in ((30, 3), (30, 4), (len(words), 0))
    )
    assert columns.positions.tolist() != other.positions.tolist()
    assert whole.positions.tolist() == words.tolist()
    weights = {place - 1: found for place, _, _, _, found in steps(model, text)}
    assert len(set(columns.positions)) == 30
    assert (text[columns.positions] > 0).all()
    expected = np.stack([weights[at] for at in columns.positions])
    np.testing.assert_allclose(columns.weights, expected, rtol=1e-5, atol=1e-6)
    assert list(columns.words) == VOCABULARY.decode(text[columns.positions])
    predicted = VOCABULARY.decode(text[columns.positions + 1])
    assert list(columns.predicted) == predicted
    back = model.memory.steps_back
    assert columns.distances[-1] == 1 + back
    path = tmp_path / "columns.png"
    analysis.plot_attention_columns(columns, path, title="columns")
    assert is_png(path)
    analysis.write_attention_columns(columns, tmp_path / "columns.csv")
    rows = read_csv(tmp_path / "columns.csv")
    assert [row["word"] for row in rows] == list(columns.words)
    assert float(rows[7][f"attention_{1 + back}"]) == columns.weights[7, -1]


def test_sentence_predictions(model, tmp_path, monkeypatch):
    words = "d e f zebra g g h".split()
    found = analysis.sentence_predictions(model, " ".join(words), VOCABULARY)
    tokens = np.array([0, *VOCABULARY.encode(words), 0])
    logits = keras.ops.convert_to_numpy(model(tokens[None, :-1]))[0]
    scores = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    for step, row in enumerate(scores):
        ranked = sorted(range(len(row)), key=lambda id: -row[id])[:5]
        assert list(found.top[step]) == VOCABULARY.decode(ranked)
        np.testing.assert_allclose(
            found.top_log_probabilities[step], row[ranked], atol=1e-5
        )
    np.testing.assert_allclose(
        found.next_log_probabilities, model.score(tokens[None])[0], atol=1e-5
    )
    assert found.read == ("<eos>", *words[:3], "<unk>", *words[4:])
    assert found.next == (*found.read[1:], "<eos>")
    np.testing.assert_allclose(
        found.weights, model.attention(tokens[None, :-1])[0], atol=1e-6
    )
    best = analysis.sentence_predictions(model, words, VOCABULARY, top=1)
    assert best.top == tuple(top[:1] for top in found.top)
    path, made, save = tmp_path / "sentence.png", [], pictures.save
    monkeypatch.setattr(
        pictures, "save", lambda *a: made.append(a[0]) or save(*a)
    )
    analysis.plot_sentence_predictions(found, path, title="a sentence")
    assert is_png(path)
    last, place = found.weights.shape[-1] - 1, 6 - model.memory.steps_back
    drawn = {t.get_position(): t.get_text() for t in made[0].axes[0].texts}
    assert drawn[last, 6] == found.read[place]
    assert drawn[last - 1, 6] == found.read[place - 1]
    analysis.write_sentence_predictions(found, tmp_path / "sentence.csv")
    rows = read_csv(tmp_path / "sentence.csv")
    assert [row["word_2"] for row in rows] == [top[1] for top in found.top]
    scores = [float(row["log_probability_5"]) for row in rows]
    assert scores == found.top_log_probabilities[:, 4].tolist()
    assert None not in rows[0]


def brute_force_pairs(model, tokens, minimum_distance):
    """Returns a dict from (distance, attended, predicted) to the number of
    occurrences."""
    most = {}
    for place, attended, slot, weight, _ in steps(model, tokens):
        # The oldest slot comes first, so in a tie, the most recent slot wins.
        if place not in most or weight >= most[place][0]:
            most[place] = weight, attended, slot
    found = {}
    for place, (_, attended, _) in most.items():
        if attended is None or not tokens[place]:
            continue
        if place - attended >= minimum_distance:
            key = place - attended, int(tokens[attended]), int(tokens[place])
            found[key] = found.get(key, 0) + 1
    return found


def brute_force_count(tokens, first, second, distance):
    count = 0
    for place in range(distance, len(tokens)):
        between = tokens[place - distance : place + 1]
        ends = between[0] == first and between[-1] == second
        count += bool(ends and between.all())
    return count


def test_distant_pairs(model, text, random, tmp_path):
    training = text_of(random, random.integers(0, 9, 300))
    texts = Split(text), Split(training)
    options = {"minimum_distance": 2, "batch_size": 3, "verbose": 0}
    pairs = analysis.distant_pairs(model, *texts, VOCABULARY, **options)
    expected = brute_force_pairs(model, text, 2)
    assert len(expected) > 9
    entries = zip(
        pairs.distances.tolist(),
        VOCABULARY.encode(pairs.attended).tolist(),
        VOCABULARY.encode(pairs.predicted).tolist(),
    )
    assert list(entries) == sorted(expected)
    occurrences = [expected[key] for key in sorted(expected)]
    assert pairs.occurrences.tolist() == occurrences
    assert pairs.counted_distances.tolist() == [2, 3, 4]
    counts = np.array(
        [
            [
                brute_force_count(training, first, second, distance)
                for distance in (2, 3, 4)
            ]
            for _, first, second in sorted(expected)
        ]
    )
    np.testing.assert_array_equal(pairs.counts, counts)
    assert counts.sum()
    for column, distance in enumerate((2, 3, 4)):
        own = counts[pairs.distances == distance]
        same = own[:, column].mean() if len(own) else np.nan
        anywhere = own.sum(axis=-1).mean() if len(own) else np.nan
        np.testing.assert_allclose(pairs.mean_counts[column], same)
        means = pairs.mean_counts_at_any_distance
        np.testing.assert_allclose(means[column], anywhere)

    path = tmp_path / "pairs.png"
    analysis.plot_distant_pairs(pairs, path, title="pairs")
    assert is_png(path)
    analysis.write_distant_pairs(pairs, tmp_path / "pairs.csv")
    rows = read_csv(tmp_path / "pairs.csv")
    assert [row["predicted"] for row in rows] == list(pairs.predicted)
    written = [int(row["training_count_3"]) for row in rows]
    assert written == counts[:, 1].tolist()
    analysis.write_counts_by_distance(pairs, tmp_path / "means.csv")
    rows = read_csv(tmp_path / "means.csv")
    assert [row["distance"] for row in rows] == ["2", "3", "4"]
    assert sum(int(row["pairs"]) for row in rows) == len(expected)
    for column, means in (
        ("count", pairs.mean_counts),
        ("count_at_any_distance", pairs.mean_counts_at_any_distance),
    ):
        written = [float(row[column] or "nan") for row in rows]
        np.testing.assert_array_equal(written, means)


def test_the_most_recent_of_equal_weights_is_the_most_attended(text, tmp_path):
    model = LanguageModel(13, 8, [keras.layers.LSTM(8)], MemoryBlock(9))
    for weight in model.memory.weights:
        weight.assign(weight * 0.0)
    pairs = analysis.distant_pairs(model, text, text, VOCABULARY, verbose=0)
    assert pairs.attended == () and pairs.counts.shape == (0, 3)
    assert np.isnan(pairs.mean_counts).all()
    analysis.write_counts_by_distance(pairs, tmp_path / "means.csv")
    rows = [list(row.values()) for row in read_csv(tmp_path / "means.csv")]
    assert rows == [[far, "0", "", ""] for far in ("7", "8", "9")]


def test_cooccurrences_across_pieces_of_the_text(random, monkeypatch):
    tokens = text_of(random, [30, 2, 50, 0, 20])
    pairs = [[5, 6], [5, 5], [9, 2], [5, 6]]
    monkeypatch.setattr("memlm_keras.analysis.tran2016._CHUNK", 7)
    counts = cooccurrence_counts(pairs, tokens, [1, 3, 15], 13, verbose=0)
    expected = [
        [brute_force_count(tokens, *pair, far) for far in (1, 3, 15)]
        for pair in pairs
    ]
    assert counts.tolist() == expected and counts.sum()


def test_wrong_arguments(model, text):
    small = Vocabulary(["a"])
    for function in (
        lambda: analysis.attention_columns(model, text, small),
        lambda: analysis.sentence_predictions(model, "a", small),
        lambda: analysis.distant_pairs(model, text, text, small),
        lambda: analysis.dependency_attention(model, [], small),
    ):
        with pytest.raises(ValueError, match="trained with.*of 3 tokens"):
            function()
    wrong = np.array([40, 0])
    words = {"vocabulary": VOCABULARY}
    columns = partial(analysis.attention_columns, model, **words)
    predictions = partial(analysis.sentence_predictions, model, **words)
    pairs = partial(analysis.distant_pairs, model, text, **words)
    for call, argument, options, message in (
        (pairs, text, {"minimum_distance": 5}, "at most 4.*=5"),
        (pairs, wrong, {"minimum_distance": 2}, "`training_text`.*13.*40"),
        (columns, text[:-1], {}, "must end with the end"),
        (columns, text[None], {}, "`text` must be"),
        (columns, text, {"samples": 0}, "`samples` must be"),
        (columns, text, {"samples": 76}, "at most 75, the number of words"),
        (columns, text, {"samples": 2, "batch_size": 0}, "`batch_size` must"),
        (predictions, " ", {}, "at least one word"),
        (predictions, "d", {"top": 14}, "`top` must be at most 13"),
    ):
        with pytest.raises(ValueError, match=message):
            call(argument, **options)

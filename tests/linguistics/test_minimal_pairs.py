"""Tests minimal pairs against float64 sums over single tokens."""

import json
import types
import zipfile

import numpy as np
import pytest
from corpus_files import shared_data
from language_models import KINDS
from language_models import VOCABULARY
from language_models import Preferring
from language_models import V
from language_models import counted
from language_models import make
from language_models import shared
from language_models import summed
from scipy import stats
from written_files import read_csv

from memlm_keras.data import SubwordVocabulary
from memlm_keras.data import Vocabulary
from memlm_keras.evaluation import DynamicEvaluator
from memlm_keras.linguistics import minimal_pairs
from memlm_keras.linguistics import read_minimal_pairs
from memlm_keras.linguistics.minimal_pairs import PUBLISHED
from memlm_keras.linguistics.minimal_pairs import published_mean
from memlm_keras.linguistics.minimal_pairs import read_published
from memlm_keras.ngrams import KneserNey

SENTENCES = [
    ("w1 w2 w3", "w1 w3 w2"),
    ("w4 w4 w4 w9 w9 w9 w9 w1 w2", "w4"),
    ("w1 zebra", "w1 yak"),
    ("w5 w6 zebra w7", "w5 w6 w8"),
    ("w1 w2 w3", "w1 w2 w3"),
]


MODELS = {
    **KINDS,
    "distributions": lambda: types.SimpleNamespace(
        vocabulary_size=V,
        log_probabilities_at=counted().log_probabilities_at,
    ),
}


@pytest.mark.backend
@pytest.mark.parametrize("name", MODELS)
def test_scores_are_sums_from_the_first_word_on(name):
    model = MODELS[name]()
    for eos, mean in ((False, False), (True, True)):
        options = {"eos": eos, "mean": mean, "verbose": 0}
        result = minimal_pairs(model, SENTENCES, VOCABULARY, **options)
        for place, (good, bad) in enumerate(SENTENCES):
            for found, text in ((result.good, good), (result.bad, bad)):
                assert found[place] == pytest.approx(
                    summed(model, text, eos, mean=mean), rel=1e-5
                )
        # Scores of equal sentences are equal in all digits.
        assert result.same.tolist() == [False, False, True, False, True]
        assert np.array_equal(result.good == result.bad, result.same)
    few = minimal_pairs(
        model, SENTENCES[:3], VOCABULARY, batch_size=1, verbose=0
    )
    marked = [("<s> w1 w2 w3 </s>", "w1 w3 w2 <eos>"), *SENTENCES[1:]]
    whole = minimal_pairs(model, marked, VOCABULARY, verbose=0)
    np.testing.assert_allclose(few.good, whole.good[:3], rtol=1e-5)


def test_a_dynamic_evaluator_forgets_before_each_sentence():
    evaluator = DynamicEvaluator(make("lstm", "none"), rate=0.5)
    found = minimal_pairs(evaluator, SENTENCES, VOCABULARY, verbose=0)
    again = minimal_pairs(evaluator, SENTENCES[::-1], VOCABULARY, verbose=0)
    np.testing.assert_array_equal(found.good, again.good[::-1])
    plain = minimal_pairs(evaluator.lm, SENTENCES, VOCABULARY, verbose=0)
    # The evaluator first updates its weights after five words.
    longer = np.array([len(good.split()) > 5 for good, _ in SENTENCES])
    close = np.isclose(found.good, plain.good, rtol=1e-5)
    assert np.array_equal(close, ~longer)


PREFIXES = [
    {
        "sentence_good": "w1 w2 w3 w4",
        "sentence_bad": "w1 w2 w5 w4",
        "one_prefix_prefix": "w1 w2",
        "one_prefix_word_good": "w3",
        "one_prefix_word_bad": "w5 w6",
        "two_prefix_prefix_good": "w1 w3",
        "two_prefix_prefix_bad": "w9",
        "two_prefix_word": "w4 w2",
    },
    {"sentence_good": "w1", "sentence_bad": "w2"},
]


@pytest.mark.backend
def test_methods_with_prefixes():
    model = shared("lstm", "none")
    one, two = (
        minimal_pairs(model, PREFIXES, VOCABULARY, method, verbose=0)
        for method in ("one_prefix", "two_prefix")
    )
    assert len(one) == len(two) == 1
    for found, text, begin in (
        (one.good, "w1 w2 w3", 2),
        (one.bad, "w1 w2 w5 w6", 2),
        (two.good, "w1 w3 w4 w2", 2),
        (two.bad, "w9 w4 w2", 1),
    ):
        expected = summed(model, text, begin=begin)
        assert found[0] == pytest.approx(expected, rel=1e-5)
    with pytest.raises(ValueError, match="`eos` needs method="):
        minimal_pairs(model, PREFIXES, VOCABULARY, "one_prefix", eos=True)
    with pytest.raises(ValueError, match="at least one pair with the fields"):
        minimal_pairs(model, PREFIXES[1:], VOCABULARY, "one_prefix")
    with pytest.raises(ValueError, match="`method` must be one of 'simple'"):
        minimal_pairs(model, PREFIXES, VOCABULARY, "none")


def test_pieces_of_words_belong_to_their_word():
    pieces = ["<eos>", "<unk>", "\u2581", *"abcd", "\u2581ab"]
    vocabulary = SubwordVocabulary(pieces)
    model = make("lstm", "none", vocabulary_size=len(pieces))
    pair = {
        "sentence_good": "ab cd.",
        "sentence_bad": "ab dc.",
        "one_prefix_prefix": "ab",
        "one_prefix_word_good": "cd",
        "one_prefix_word_bad": "d",
    }
    # A file may give a list as the name of a group.
    pair["UID"] = ["x", "y"]
    found = minimal_pairs(model, [pair], vocabulary, "one_prefix", verbose=0)
    assert "['x', 'y']" in found.by("UID")
    ids = [0, *(pieces.index(piece) for piece in ("\u2581ab", "\u2581", *"cd"))]
    scores = model.score(np.array([ids]))[0]
    assert found.good[0] == pytest.approx(scores[1:].sum(), rel=1e-5)
    # The vocabulary of pieces has no full stop.
    found = minimal_pairs(model, [pair], vocabulary, verbose=0)
    assert found.unknown_good == (".",)


def test_ties_are_honest():
    texts = ("w1/w2/a", "w1/w2/a", "w2/w1/a", "zebra/yak/a", "w1 w4/w2 w3/b")
    names = ("sentence_good", "sentence_bad", "UID", "f")
    rows = [(*text.split("/"), "x") for text in (*texts, "zebra/yak/b")]
    pairs = [dict(zip(names, row)) for row in rows]
    result = minimal_pairs(Preferring(), pairs, verbose=0)
    a, b = result.by("paradigm").values()
    assert (a.pairs, a.ties, a.same) == (4, 1, 1)
    assert (a.accuracy, a.half_credit) == (2 / 4, 2.5 / 4)
    assert a.accuracy_of_rest == pytest.approx(2 / 3)
    # Different sentences may have the same score.
    assert (b.pairs, b.ties, b.same) == (2, 2, 1)
    assert (b.accuracy, b.half_credit, b.accuracy_of_rest) == (0, 0.5, 0)
    overall = result.accuracy
    assert overall.accuracy == (2 / 4 + 0) / 2
    assert overall.half_credit == (2.5 / 4 + 0.5) / 2
    assert overall.accuracy_of_rest == pytest.approx((2 / 3 + 0) / 2)
    assert (overall.pairs, overall.paradigms, overall.ties) == (6, 2, 3)
    assert list(result.by("f")) == ["x"] and not result.by("phenomenon")
    with pytest.raises(ValueError, match="only unknown words, such as 'zebra'"):
        minimal_pairs(Preferring(), [("zebra", "yak")], eos=True, verbose=0)


def test_intervals():
    names = ("sentence_good", "sentence_bad", "UID")
    pairs = [
        dict(zip(names, ("w1", "w2" if number % 3 else "w0", str(number % 2))))
        for number in range(60)
    ]
    result = minimal_pairs(Preferring(), pairs, verbose=0)
    for accuracy in result.by("paradigm").values():
        trials = stats.binomtest(round(accuracy.accuracy * 30), 30)
        assert accuracy.interval == pytest.approx(
            tuple(trials.proportion_ci(method="wilson"))
        )
    # Mean of two paradigms of 30 pairs, each correct with probability 2/3.
    error = np.sqrt(2 * (2 / 9) / 30) / 2
    assert result.accuracy.interval == pytest.approx(
        stats.norm.interval(0.95, 2 / 3, error)
    )


def test_the_table(tmp_path):
    pairs = [
        {"sentence_good": "w1 yak", "sentence_bad": "w2", "mine": "x"},
        {"sentence_good": "w1", "sentence_bad": "w2 w3", "yours": 3},
    ]
    result = minimal_pairs(Preferring(), pairs, verbose=0)
    result.write(tmp_path / "pairs.tsv")
    first, second = read_csv(tmp_path / "pairs.tsv", "\t")
    assert " ".join(first) == (
        "sentence_good sentence_bad mine yours score_good score_bad "
        "score_difference unknown_good unknown_bad same"
    )
    rest = ",".join([*first.values()][2:])
    assert rest == "x,,-4.000000,-4.000000,0.000000,yak,,0"
    assert (second["mine"], second["yours"]) == ("", "3")


# === Files ===


def write_folder(folder):
    folder.mkdir()
    lines = [
        {"sentence_good": "w1", "sentence_bad": "w2", "UID": "blimp", "n": 1},
        {"sentence_good": "w3", "sentence_bad": "w4", "phenomenon": "p"},
    ]
    (folder / "a.jsonl").write_text("\n".join(map(json.dumps, lines)) + "\n\n")
    (folder / "b.csv").write_text(
        "\ufeffitem,sentence_good,sentence_bad,paradigm\n"
        '1,"w1, w2",w3,mine\n2,w1,w2,\n'
    )
    (folder / "c.tsv").write_text("w5\tw6\n\nw7\tw8\n")
    (folder / "d.tsv").write_text("sentence_bad\tx\tsentence_good\nw5\t1\tw6\n")
    (folder / "README.txt").write_text("no pairs")
    (folder / ".hidden.csv").write_text("no pairs")


@pytest.mark.parametrize("kind", ["folder", "zip"])
def test_files_of_a_folder(kind, tmp_path):
    path = tmp_path / "pairs"
    write_folder(path)
    if kind == "zip":
        with zipfile.ZipFile(tmp_path / "pairs.zip", "w") as archive:
            for each in path.iterdir():
                archive.write(each, f"data/{each.name}")
            archive.writestr("__MACOSX/data/._a.jsonl", b"\xb0")
        path = tmp_path / "pairs.zip"
    pairs = read_minimal_pairs(path)
    assert " ".join(pair["UID"] for pair in pairs) == "blimp a mine b c c d"
    good = [pair["sentence_good"] for pair in pairs]
    assert good == ["w1", "w3", "w1, w2", "w1", "w5", "w7", "w6"]
    assert pairs[0]["n"] == 1 and pairs[2]["item"] == "1"
    assert pairs[-1]["x"] == "1"


def test_files_of_one_name_are_two_paradigms(tmp_path):
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "pairs.tsv").write_text('"w1\tw2\nw3"\tw4\n')
    pairs = read_minimal_pairs(tmp_path)
    paradigms = [pair["UID"] for pair in pairs]
    assert paradigms == ["a/pairs", "a/pairs", "b/pairs", "b/pairs"]
    assert pairs[0]["sentence_good"] == '"w1'


@pytest.mark.parametrize(
    "name, text, message",
    [
        ("a.csv", "sentence_good,x\nw1,w2\n", "no column sentence_bad. Rec"),
        ("a.csv", "sentence_good,sentence_bad\nw1,\n", "line 2 must have"),
        ("a.jsonl", '{"good": "w1", "bad": null}', "sentence_bad=None"),
        ("a.jsonl", "\n", "a.jsonl has no pair"),
        ("a.doc", "w1", r"Expected .jsonl, .csv, .tsv, .* Received: .*a\.doc"),
        ("a.zip", "w1", "damaged and cannot be read"),
    ],
)
def test_files_that_are_wrong(name, text, message, tmp_path):
    (tmp_path / name).write_text(text)
    with pytest.raises(ValueError, match=message) as error:
        read_minimal_pairs(tmp_path / name)
    assert name in str(error.value)


def test_pairs_that_are_wrong():
    for pairs in (["w1 w2"], [("w1",)], [("w1", "w2", "w3")], [("w1", " ")]):
        with pytest.raises(ValueError, match="Pair 1 must have sentence_good"):
            minimal_pairs(Preferring(), pairs)
    with pytest.raises(ValueError, match="at least one pair"):
        minimal_pairs(Preferring(), [])
    with pytest.raises(ValueError, match="`minimal_pairs` needs a causal"):
        model = types.SimpleNamespace(causal=False, memory=None)
        minimal_pairs(model, [("w1", "w2")], VOCABULARY)
    pieces = SubwordVocabulary(["<unk>", "</s>", "▁a", "▁b"])
    model = KneserNey(4, order=2, discounts=0.5).fit([2, 3, 1, 3, 2, 1])
    with pytest.raises(ValueError, match="of the model's KneserNey, 0.*id=1"):
        minimal_pairs(model, [("a b", "b a")], pieces)


def test_tokens_that_cross_spaces():
    vocabulary = Vocabulary(VOCABULARY.tokens)
    vocabulary.tokenizer = types.SimpleNamespace(
        tokenize=lambda text: [text[:4], text[4:]]
    )
    model = Preferring()
    model.vocabulary = vocabulary
    with pytest.raises(ValueError, match="split at the space after 'w1 w2'"):
        minimal_pairs(model, PREFIXES, method="one_prefix")


# === BLiMP ===


def test_means_of_published_accuracies():
    """Separate rows of the file contain the authors' means over paradigms."""
    path = shared_data("blimp", "models_summary.jsonl")
    published = read_published(path)
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    means = [row for row in rows if row["UID"] == "overall"]
    assert len(means) == 12 + 1
    for mean in means:
        phenomenon = mean["linguistics_term"]
        paradigms = {
            row["UID"]
            for row in rows
            if row not in means
            and phenomenon in ("overall", row["linguistics_term"])
        }
        for name, model in PUBLISHED.items():
            found = published_mean(published[model], paradigms)
            assert found == pytest.approx(mean[name])
    assert len(paradigms) == 67
    assert published_mean(published["LSTM"], {"new"}) is None


def test_blimp_is_read_whole():
    pairs = read_minimal_pairs(shared_data("blimp", "BLiMP.zip"))
    assert len(pairs) == 67_000
    assert len({pair["UID"] for pair in pairs}) == 67
    same = [p for p in pairs if p["sentence_good"] == p["sentence_bad"]]
    assert len(same) == 7
    for method in ("one_prefix_method", "two_prefix_method"):
        assert sum(pair[method] for pair in pairs) == 20_000

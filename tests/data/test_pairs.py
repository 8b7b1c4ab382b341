"""Tests sentence pairs: readers, batches and generated pairs."""

import collections
import json

import numpy as np
import pytest
from corpus_files import write_lines
from corpus_files import write_snli
from hypothesis import given
from hypothesis import strategies as st

from memlm_keras import data
from memlm_keras.data import PairBatches
from memlm_keras.data import SentencePair
from memlm_keras.data import embedded_pairs

PAIRS = [
    SentencePair(("A", "man", "sits", "."), ("He", "rests", "."), "neutral"),
    SentencePair(("It", '"', "is", '"'), ("Él", "is", "."), "entailment"),
    SentencePair(("A", "b", "."), ("Alone",), "contradiction"),
]


@pytest.mark.parametrize("ending", [".jsonl", ".txt"])
def test_snli(tmp_path, ending):
    folder = tmp_path / "snli_1.0"
    write_snli(folder, ending)
    found = list(data.read_snli(folder / f"snli_1.0_dev{ending}"))
    assert found == PAIRS
    corpus = data.load_pairs("snli", data_dir=tmp_path)
    assert len(corpus.train) == len(corpus.test) == 3
    np.testing.assert_array_equal(corpus.train.labels, [1, 0, 2])
    premise = corpus.vocabulary.decode(corpus.train.premises[1])
    assert premise == ["It", '"', "is", '"']
    lower = data.load_pairs("snli", data_dir=folder, lowercase=True)
    assert "alone" in lower.vocabulary and "Alone" not in lower.vocabulary


_SNLI_HEADER = "gold_label\tsentence1_binary_parse\tsentence2_binary_parse"


@pytest.mark.parametrize(
    "name, text, message",
    [
        ("a.jsonl", "", "has no pairs"),
        ("a.jsonl", '{"gold_label": "neutral"}\n', "line 1.*sentence1_binary"),
        ("a.jsonl", "{}\n{\n", "line 1.*no column gold_label"),
        ("a.txt", "gold_label\tx\nneutral\ty\n", "line 1.*sentence1_binary"),
        ("a.txt", _SNLI_HEADER + "\nneutral\tA\n", "line 2.*sentence2_binary"),
        ("a.txt", _SNLI_HEADER + "\n-\t\t\nYes\tA\tB\n", "line 3: .*'Yes'"),
        ("a.txt", _SNLI_HEADER + "\nneutral\tA\t( )\n", "line 2: `hypothesis`"),
    ],
)
def test_damaged_snli(write, name, text, message):
    with pytest.raises(ValueError, match=message):
        list(data.read_snli(write(text, name)))


def test_both_releases_of_sick(tmp_path):
    rows = [
        ("1", 'A "dog', "No dog", "3.3", "CONTRADICTION"),
        ("2", "A cat", "A cat is", "4", "ENTAILMENT"),
        ("3", "A cat", "A man", "1", "NEUTRAL"),
    ]
    header = "pair_ID sentence_A sentence_B relatedness_score "
    first = (header + "entailment_judgment").split()
    later = "pair_ID sentence_A sentence_B entailment_label SemEval_set".split()
    names = ("SICK_train.txt", "SICK_trial.txt", "SICK_test_annotated.txt")
    (tmp_path / "old").mkdir()
    (tmp_path / "new").mkdir()
    lines = ["\t".join(later)]
    for row, name, part in zip(rows, names, ("TRAIN", "TRIAL", "TEST")):
        text = "\r\n".join(["\t".join(first), "\t".join(row), ""])
        (tmp_path / "old" / name).write_text(text, newline="")
        lines.append("\t".join([*row[:3], row[4], part]))
    (tmp_path / "new" / "SICK.txt").write_text("\n".join(lines) + "\n")

    old = data.load_pairs("sick", data_dir=tmp_path / "old")
    new = data.load_pairs("sick", data_dir=tmp_path / "new")
    assert old.fingerprint == new.fingerprint
    splits = (old.train, old.validation, old.test)
    assert [len(split) for split in splits] == [1, 1, 1]
    assert old.labels[old.train.labels[0]] == "contradiction"
    assert old.vocabulary.decode(old.train.premises[0]) == ["A", '"dog']
    with pytest.raises(FileNotFoundError, match="`data_dir`.*SICK_train.txt"):
        data.load_pairs("sick", data_dir=tmp_path)
    with pytest.raises(FileNotFoundError, match="data_dir=None"):
        data.load_pairs("sick")


# === A user's own files ===

# Ten pairs for each label, of which validation and test get one each.
OWN = [
    (f"He sees {n}, {label}.", f"She {label}", label)
    for n in range(10)
    for label in ("no", "yes")
]
NAMES = ("premise", "hypothesis", "label")


def write_table(path, names=None, rows=OWN):
    rows = [names, *rows] if names else rows
    if path.suffix == ".jsonl":
        lines = [json.dumps(dict(zip(rows[0], row))) for row in rows[1:]]
    elif path.suffix == ".csv":
        lines = [";".join(f'"{cell}"' for cell in row) for row in rows]
    else:
        lines = ["\t".join(row) for row in rows]
    write_lines(path, lines)
    return path


@pytest.mark.parametrize(
    "name, names",
    [
        ("pairs.tsv", NAMES),
        ("pairs.tsv", ("Sentence1", "sentence2", "gold_label")),
        ("pairs.csv", ("sentence_A", "sentence_B", "entailment_judgment")),
        ("pairs.jsonl", ("text1", "text2", "class")),
        ("pairs.txt", None),
        ("pairs.csv", None),
    ],
)
def test_a_file_of_ones_own(name, names, tmp_path):
    corpus = data.load_pairs(write_table(tmp_path / name, names))
    assert corpus.name == "pairs" and corpus.labels == ("no", "yes")
    splits = [corpus.train, corpus.validation, corpus.test]
    counts = [np.bincount(split.labels).tolist() for split in splits]
    assert counts == [[8, 8], [1, 1], [1, 1]]
    assert "16 for training, 2 for validation and 2" in corpus.description
    assert "Labels: no 10, yes 10." in corpus.description
    assert {"sees", "no", "."} <= {*corpus.vocabulary.tokens}
    by_space = data.load_pairs(tmp_path / name, tokenize="white_space")
    assert "no." in by_space.vocabulary.tokens
    found = {
        " ".join(corpus.vocabulary.decode(premise)): corpus.labels[label]
        for split in splits
        for premise, label in zip(split.premises, split.labels)
    }
    # Pairs keep their labels, and the vocabulary has only words from training.
    assert all(label in premise for premise, label in found.items())
    assert corpus.fingerprint == data.load_pairs(tmp_path / name).fingerprint


def test_three_files_of_ones_own(tmp_path):
    names = ("my_train.tsv", "my-dev.jsonl", "test.CSV")
    paths = [write_table(tmp_path / name, NAMES) for name in names]
    folder = data.load_pairs(tmp_path)
    assert folder.fingerprint == data.load_pairs(paths).fingerprint
    assert len(folder.train) == len(folder.test) == 20
    given = data.load_pairs(
        paths[0], vocabulary=folder.vocabulary, labels=("yes", "x", "no")
    )
    assert given.labels == ("yes", "x", "no")
    assert np.bincount(given.train.labels).tolist() == [8, 0, 8]


@pytest.mark.parametrize("names", [("entailment", "-"), ("0", "-1")])
def test_pairs_without_a_gold_label_are_left_out(names, tmp_path):
    kept, absent = names
    rows = [(p, h, kept if k == "no" else absent) for p, h, k in OWN]
    rows += [("a", "b", "other")] * 2
    corpus = data.load_pairs(write_table(tmp_path / "a.tsv", NAMES, rows))
    assert set(corpus.labels) == {kept, "other"}
    assert "10 pairs without a gold label are left" in corpus.description


@pytest.mark.parametrize(
    "files, message",
    [
        ({"a.tsv": OWN[::2]}, "a.tsv must have at least two labels"),
        ({"a.tsv": [(a, b, a) for a, b, _ in OWN]}, r"\(20 labels of 20 pa"),
        ({"a.tsv": OWN[:3]}, r"\(2 labels of 3 pairs\)"),
        ({"a.tsv": [*OWN, ("a", " ", "no")]}, "line 22: the hypothesis must"),
        ({"a.tsv": [*OWN, ("a", "b", "")]}, "line 22: the label must be a"),
        (
            {"train.tsv": OWN, "dev.tsv": OWN, "test.tsv": [("a", "b", "x")]},
            "test.tsv: line 2: the label must be one of no, yes.*'x'",
        ),
        ({"train.tsv": OWN, "b.tsv": OWN}, "one file of pairs for training"),
        ({"a.doc": OWN}, "`name` must be one of.*file of pairs .*a.doc"),
    ],
)
def test_wrong_files_of_ones_own(files, message, tmp_path):
    for name, rows in files.items():
        write_table(tmp_path / name, NAMES, rows)
    single = len(files) == 1
    with pytest.raises(ValueError, match=message):
        data.load_pairs(tmp_path / next(iter(files)) if single else tmp_path)


def test_wrong_corpora(tmp_path):
    for name, options, message in (
        (tmp_path / "none.tsv", {}, "no file .*none.tsv"),
        (["a.tsv", "b.tsv"], {}, "from one file, or from three"),
        ("embedded", {"tokenize": "white_space"}, "`tokenize` applies only to"),
        ("embedded", {"labels": ("no", "yes")}, "must hold.*'no', 'yes'"),
        ("ptb", {}, "`name` must be one of.*'ptb'"),
        ("snli", {"data_dir": tmp_path}, "snli_1.0_train.txt"),
    ):
        with pytest.raises((ValueError, FileNotFoundError), match=message):
            data.load_pairs(name, **options)
    with pytest.raises(ValueError, match="`name` must be one of.*'snli'"):
        data.load("snli")
    splits = {"train": PAIRS, "validation": PAIRS, "test": PAIRS}
    with pytest.raises(ValueError, match="combined with `vocabulary_size`"):
        words = data.Vocabulary(["a"])
        data.encode_pairs("x", splits, vocabulary=words, vocabulary_size=9)
    with pytest.raises(ValueError, match="'test' of 'x' has no pairs"):
        data.encode_pairs("x", {**splits, "test": []})
    with pytest.raises(ValueError, match="`labels` must.*'contradiction'"):
        data.encode_pairs("x", splits, labels=("yes", "neutral", "entailment"))
    with pytest.raises(ValueError, match="`premise` must be a tuple.*'a b'"):
        SentencePair("a b", ("c",), "neutral")
    with pytest.raises(ValueError, match="`hypothesis` must be a tuple"):
        SentencePair(("c",), (), "neutral")
    corpus = data.encode_pairs("x", splits)
    with pytest.raises(ValueError, match="`split` must be one of"):
        corpus.batches("dev")


# === Generated pairs ===


def facts_of(tokens):
    facts, fact = [], []
    for token in tokens:
        if token == ".":
            facts.append((fact[0], " ".join(fact[1:-1]), fact[-1]))
            fact = []
        else:
            fact.append(token)
    assert not fact
    return facts


def test_generated_labels_are_what_the_facts_say():
    pairs = embedded_pairs.generate_pairs(600, seed=3)
    assert pairs[:5] == embedded_pairs.generate_pairs(5, seed=3)
    assert pairs != embedded_pairs.generate_pairs(600, seed=4)
    labels = collections.Counter(pair.label for pair in pairs)
    assert labels == dict.fromkeys(data.load_pairs("embedded").labels, 200)
    for pair in pairs:
        facts = facts_of(pair.premise)
        ((name, kind, value),) = facts_of(pair.hypothesis)
        assert set(pair.hypothesis) <= set(pair.premise)
        said = {v for n, k, v in facts if (n, k) == (name, kind)}
        # No person has two facts of one kind.
        assert len({(n, k) for n, k, _ in facts}) == len(facts)
        expected = {
            "entailment": said == {value},
            "contradiction": len(said) == 1 and value not in said,
            "neutral": not said,
        }
        assert expected[pair.label], pair


def test_counts_of_words_do_not_predict_the_label():
    pairs = embedded_pairs.generate_pairs(6000, seed=0)
    found = {label: [] for label in ("entailment", "neutral", "contradiction")}
    for pair in pairs:
        facts = facts_of(pair.premise)
        ((name, kind, value),) = facts_of(pair.hypothesis)
        found[pair.label].append(
            [
                sum(n == name for n, _, _ in facts),
                sum(k == kind for _, k, _ in facts),
                sum(v == value for _, _, v in facts),
                len(facts),
                next(i for i, f in enumerate(facts) if f[0] == name),
            ]
        )
    means = np.array([np.mean(rows, axis=0) for rows in found.values()])
    errors = np.array([np.std(rows, axis=0) for rows in found.values()])
    errors = errors.max(axis=0) / np.sqrt(2000)
    assert (np.ptp(means, axis=0) < 5 * errors + 1e-9).all(), means


def test_wrong_generated_pairs():
    with pytest.raises(ValueError, match="`num_pairs`"):
        embedded_pairs.generate_pairs(-1, seed=0)
    for people in ((2, 3), (5, 4), (3, 17)):
        with pytest.raises(ValueError, match="`people` must be"):
            embedded_pairs.generate_pairs(1, seed=0, people=people)


# === Batches ===


@given(
    lengths=st.lists(
        st.tuples(st.integers(1, 9), st.integers(1, 9)), min_size=1, max_size=30
    ),
    batch_size=st.integers(1, 7),
    shuffle=st.booleans(),
    bucket_batches=st.integers(1, 3),
    length_multiple=st.integers(1, 4),
)
def test_every_pair_is_in_one_batch_of_an_epoch(lengths, **options):
    random = np.random.default_rng(0)
    premises = [random.integers(2, 99, a) for a, _ in lengths]
    hypotheses = [random.integers(2, 99, b) for _, b in lengths]
    labels = np.arange(len(lengths))
    batches = PairBatches(premises, hypotheses, labels, **options)
    multiple = options["length_multiple"]
    assert batches.largest_id == max(map(max, premises + hypotheses))
    named = {"premise": premises, "hypothesis": hypotheses}
    for _ in range(2):
        seen = []
        for inputs, found, weight in batches:
            for name, sentences in named.items():
                tokens, sizes = inputs[name], inputs[f"{name}_length"]
                assert tokens.shape[1] % multiple == 0
                assert tokens.shape[1] - sizes.max() < multiple
                assert len(tokens) == options["batch_size"]
                for row in np.flatnonzero(weight):
                    sentence = tokens[row, : sizes[row]]
                    assert (sentence == sentences[found[row]]).all()
                    assert not tokens[row, sizes[row] :].any()
            seen += found[weight > 0].tolist()
        assert sorted(seen) == labels.tolist()
        batches.start_at(batches.epoch + 1)


def test_pairs_of_about_equal_lengths_go_together():
    pairs = data.load_pairs("embedded").validation
    batches = PairBatches(
        *(pairs.premises, pairs.hypotheses, pairs.labels, 10), shuffle=True
    )
    lengths = np.array([len(premise) for premise in pairs.premises])
    spread = np.ptp(lengths[batches.order].reshape(-1, 10), axis=1).mean()
    assert spread < 0.5 * np.ptp(lengths.reshape(-1, 10), axis=1).mean()


@pytest.mark.parametrize("per_epoch", [1, 3, 7, 20])
def test_epochs_of_other_lengths_than_passes(per_epoch):
    sentences = [[number] for number in range(1, 26)]
    arguments = (sentences, sentences, np.zeros(25, int), 4)
    passes = PairBatches(*arguments, shuffle=True)
    rows = []
    for number in range(6):
        passes.start_at(number)
        rows.append(passes.order)
    rows = np.concatenate(rows).reshape(-1, 4)
    parts = PairBatches(*arguments, shuffle=True, batches_per_epoch=per_epoch)
    assert len(parts) == per_epoch
    assert parts.pairs_per_epoch == pytest.approx(25 * per_epoch / 7)
    for epoch in range(42 // per_epoch):
        for index in range(per_epoch):
            inputs, _, weight = parts[index]
            expected = rows[epoch * per_epoch + index]
            assert weight.sum() == (expected >= 0).sum()
            kept = expected[expected >= 0]
            found = inputs["premise"][weight > 0, 0]
            np.testing.assert_array_equal(found, kept + 1)
        parts.start_at(epoch + 1)
    parts.start_at(1, per_epoch - 1)
    assert len(parts) == 1
    np.testing.assert_array_equal(parts.order, rows[2 * per_epoch - 1])
    with pytest.raises(ValueError, match="`batch` must be from 0 "):
        parts.start_at(0, per_epoch)


@pytest.mark.parametrize(
    "change, message",
    [
        ({"batches_per_epoch": 0}, "`batches_per_epoch` must be .*at least 1"),
        ({"premises": [[1], []]}, r"`premises\[1\]` must be a 1-D array"),
        ({"hypotheses": [[1], [0.5]]}, r"`hypotheses\[1\]` must be"),
        ({"premises": [[1], [-1]]}, "not be negative.*position 1"),
        ({"labels": [0]}, "have equal lengths.*2, 2 and 1"),
        ({"labels": [0, -1]}, "`labels` must not be negative"),
        ({"labels": [0.9, 1]}, "`labels` must be a 1-D.*dtype float64"),
        ({"labels": [[0, 1], [1, 0]]}, r"`labels` must be a 1-D.*\(2, 2\)"),
        ({"batch_size": 0}, "`batch_size` must be .*at least 1"),
        ({"bucket_batches": 0}, "`bucket_batches` must be .*at least 1"),
        ({"length_multiple": 0}, "`length_multiple` must be .*at least 1"),
    ],
)
def test_wrong_batches(change, message):
    pairs = [[1], [2]]
    arguments = {"premises": pairs, "hypotheses": pairs, "labels": [0, 1]}
    with pytest.raises(ValueError, match=message):
        PairBatches(**arguments | change)

"""Tests attention by dependency, and the reader of parses."""

import numpy as np
import pytest
from language_models import sharpened
from written_files import is_png
from written_files import read_csv

from memlm_keras import analysis
from memlm_keras.analysis import pictures
from memlm_keras.data import SubwordVocabulary
from memlm_keras.data import Vocabulary
from memlm_keras.memory import Attention
from memlm_keras.memory import MemoryBlock


def line(number, form, head, relation):
    columns = [number, form, "_", "_", "_", "_", head, relation, "_", "_"]
    return "\t".join(str(column) for column in columns)


PARSED = "\n".join(
    [
        "# text = dal 5 000 mare",
        "1-2\tdal" + "\t_" * 8,
        line(1, "da", 4, "case"),
        line(2, "il", 4, "det:poss"),
        "2.1\tempty" + "\t_" * 8,
        line(3, "5 000", 4, "nummod"),
        line(4, "mare", 0, "root"),
        "",
        "",
        "# a comment without a sentence",
        "",
        line(1, "#", 2, "punct") + "\r",
        line(2, "x\u2028y", 0, "root") + "\r",
    ]
)


def test_reader(tmp_path):
    path = tmp_path / "some.conllu"
    for text in (PARSED, PARSED + "\n", "\ufeff" + PARSED + "\n\n"):
        path.write_text(text, encoding="utf-8")
        first, second = analysis.read_conllu(path)
        assert first.words == ("da", "il", "5 000", "mare")
        assert first.heads.tolist() == [3, 3, 3, -1]
        assert first.relations == ("case", "det:poss", "nummod", "root")
        assert second.words == ("#", "x\u2028y")
        assert second.heads.tolist() == [1, -1]
        assert second.relations == ("punct", "root")


@pytest.mark.parametrize(
    "number, wrong, message",
    [
        (3, "1 da 4 case", "10 columns.*Received: 1 in"),
        (3, line(2, "da", 4, "case"), "numbered from 1. Expected 1"),
        (4, line("x", "il", 4, "det"), "Expected 2. Received: 'x'"),
        (4, line(3, "il", 4, "det"), "Expected 2. Received: '3'"),
        (3, line(1, "", 4, "case"), "column 2 must hold the word.*''"),
        (3, line(1, "da", 4, "_"), "column 8 must name a dep.*'_'"),
        (3, line(1, "da", "_", "case"), "the head must be.*'_'"),
        (3, line(1, "da", -1, "case"), "the head must be.*'-1'"),
        (3, line(1, "da", 5, "case"), "must be from 0 to 4.*5"),
        (3, line(1, "da", 1, "case"), "form a tree.*at the word 1"),
    ],
)
def test_reader_names_file_and_line(number, wrong, message, tmp_path):
    path = tmp_path / "wrong.conllu"
    lines = PARSED.split("\n")
    lines[number - 1] = wrong
    path.write_text("\n".join(lines), encoding="utf-8")
    where = rf"wrong.conllu, line {number}: .*"
    with pytest.raises(ValueError, match=where + message):
        analysis.read_conllu(path)


def test_reader_of_what_is_no_parse(tmp_path):
    path = tmp_path / "none.conllu"
    path.write_text("# nothing\n\n")
    with pytest.raises(ValueError, match="none.conllu holds no sentence"):
        analysis.read_conllu(path)
    path.write_bytes(b"# one\n# \xff\n")
    with pytest.raises(ValueError, match="not UTF-8.*0xff"):
        analysis.read_conllu(path)
    with pytest.raises(FileNotFoundError):
        analysis.read_conllu(tmp_path / "absent.conllu")


WORDS = ["<eos>", "b", "c", "d", "e", "f"]
VOCABULARY = Vocabulary(WORDS)


@pytest.fixture(params=["current word", "steps before"])
def model(request):
    memory = MemoryBlock(6) if request.param == "current word" else Attention(5)
    return sharpened(memory, len(VOCABULARY))


@pytest.fixture
def sentences(random):
    return [
        parsed_sentence(random, length)
        for length in [9, 3, 1, 14, 9, 2, 40, 6, 6, 6, 6, 11]
    ]


def parsed_sentence(random, length):
    # Each word's head is a word drawn before, so the sentence is a tree.
    heads = np.full(length, -1)
    order = random.permutation(length)
    for place in range(1, length):
        heads[order[place]] = order[random.integers(place)]
    return analysis.ParsedSentence(
        tuple(random.choice(WORDS, length).tolist()),
        heads,
        tuple(random.choice(["obj", "obj:x", "aux"], length).tolist()),
    )


def path_between(sentence, attended, predicted):
    """Finds the path of dependencies between two words by a search in the
    tree."""
    paths, to_visit = {attended: []}, [attended]
    for word in to_visit:
        for other in range(len(sentence.words)):
            step = None
            if sentence.heads[word] == other:
                step = sentence.relations[word] + "←"
            elif sentence.heads[other] == word:
                step = "→" + sentence.relations[other]
            if step is not None and other not in paths:
                paths[other] = [*paths[word], step]
                to_visit.append(other)
    return paths[predicted]


def brute_force(model, sentences, bins, subtypes, longest):
    """Returns a dict from (path, bin) to the attention weights of its pairs."""
    found = {}
    for sentence in sentences:
        tokens = [0, *VOCABULARY.encode(sentence.words)]
        attention = model.attention(np.array(tokens)[None])[0]
        for predicted in range(len(sentence.words)):
            for slot, weight in enumerate(attention[predicted]):
                step = predicted - model.memory.steps_back
                attended = step - (attention.shape[-1] - 1 - slot) - 1
                far = predicted - attended
                fits = [low <= far <= high for low, high in bins]
                if attended < 0 or not any(fits):
                    continue
                names = ["ALL"]
                path = path_between(sentence, attended, predicted)
                if len(path) <= longest:
                    names.append(" ".join(path))
                for name in names:
                    if not subtypes:
                        name = name.replace(":x", "")
                    key = name, bins[fits.index(True)]
                    found.setdefault(key, []).append(float(weight))
    return found


@pytest.mark.parametrize(
    "subtypes, longest", [(True, 1), (False, 1), (True, 3)]
)
def test_dependency_attention(model, sentences, subtypes, longest, tmp_path):
    bins = ((2, 2), (3, 4), (6, 9))
    asked = VOCABULARY, bins, subtypes
    options = {"batch_size": 4, "verbose": 0, "longest_path": longest}
    found = analysis.dependency_attention(model, sentences, *asked, **options)
    expected = brute_force(model, sentences, bins, subtypes, longest)
    names = {name for name, _ in expected}
    assert {len(name.split()) for name in names} == set(range(1, longest + 1))
    if longest == 1:
        assert len(names) == (7 if subtypes else 5)
    assert found.dependencies == ("ALL", *sorted(names - {"ALL"}))
    for row, column in np.ndindex(found.counts.shape):
        weights = expected.get((found.dependencies[row], bins[column]), [])
        assert found.counts[row, column] == len(weights)
        assert found.mass[row, column] == pytest.approx(sum(weights), abs=1e-4)
        mean = np.mean(weights) if weights else np.nan
        np.testing.assert_allclose(found.means[row, column], mean, atol=1e-5)

    sizes = dict(zip(found.dependencies, found.counts.sum(axis=-1)))
    frequent = found.most_frequent(3)
    assert frequent[0] == "ALL" and len(frequent) == 3
    least = min(sizes[name] for name in frequent)
    assert least >= max(sizes[name] for name in sizes.keys() - set(frequent))

    path = tmp_path / "dependencies.png"
    analysis.plot_dependency_attention(found, path, title="dependencies")
    assert is_png(path)
    analysis.plot_dependency_attention(found, path, ["obj←", "ALL"])
    analysis.write_dependency_attention(found, tmp_path / "dependencies.csv")
    rows = read_csv(tmp_path / "dependencies.csv")
    assert len(rows) == found.counts.size
    measures = {"pairs": found.counts, "mass": found.mass, "mean": found.means}
    for column, expected in measures.items():
        written = [float(row[column] or "nan") for row in rows]
        np.testing.assert_allclose(written, expected.ravel(), rtol=1e-12)


def test_bins_of_few_pairs_are_white(model, sentences, tmp_path, monkeypatch):
    found = analysis.dependency_attention(
        model, sentences, VOCABULARY, verbose=0
    )
    fewest = int(np.median(found.counts[found.counts > 0])) + 1
    drawn = []
    monkeypatch.setattr(
        pictures, "save", lambda figure, *_: drawn.append(figure)
    )
    for minimum in (1, fewest):
        analysis.plot_dependency_attention(
            found, tmp_path / "few.png", minimum_pairs=minimum
        )
        cells = drawn.pop().axes[0].texts
        assert len(cells) == np.sum(found.counts >= minimum)
    with pytest.raises(ValueError, match="`minimum_pairs` must be"):
        analysis.plot_dependency_attention(found, "few.png", minimum_pairs=0)
    with pytest.raises(ValueError, match="among those in .*'→no'"):
        analysis.plot_dependency_attention(found, "few.png", ["→no"])
    one = analysis.ParsedSentence(("b",), np.array([-1]), ("root",))
    found = analysis.dependency_attention(model, [one], VOCABULARY, verbose=0)
    assert found.dependencies == ("ALL",) and np.isnan(found.means).all()
    analysis.plot_dependency_attention(found, "few.png")
    assert not drawn.pop().axes[0].texts


@pytest.mark.parametrize(
    "bins", [[], [(0, 1)], [(2, 1)], [(1, 3), (3, 4)], [(4, 5), (1, 2)]]
)
def test_wrong_bins(bins, model, sentences):
    with pytest.raises(ValueError, match="`bins` must be pairs"):
        analysis.dependency_attention(model, sentences, VOCABULARY, bins)
    with pytest.raises(ValueError, match="`sentences` must hold at least one"):
        analysis.dependency_attention(model, [], VOCABULARY)
    pieces = SubwordVocabulary(("</s>", "<unk>", "▁", *"abcd"))
    with pytest.raises(ValueError, match="`vocabulary` must have words, not"):
        analysis.dependency_attention(model, sentences, pieces)

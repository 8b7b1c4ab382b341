"""Tests corpora from tiny and from real CoNLL-U files."""

import pytest

from memlm_keras import data

pytestmark = pytest.mark.usefixtures("cache")


@pytest.fixture
def write(tmp_path):
    def write(name, *sentences):
        """Writes sentences as lists of (number, form), without a dependency
        tree."""
        path = tmp_path / name
        path.write_text(
            "\n".join(
                "# text = ...\n"
                + "".join(f"{id}\t{form}" + "\t_" * 8 + "\n" for id, form in s)
                for s in sentences
            ),
            encoding="utf-8",
        )
        return path

    return write


def words(*forms):
    return list(enumerate(forms, start=1))


def decode(corpus, split):
    return corpus.vocabulary.decode(getattr(corpus, split).tokens)


def test_sentences_are_fed_as_word_forms(write):
    train = write(
        "it_x-ud-train.conllu",
        [("1-2", "del"), (1, "di"), (2, "il"), ("2.1", "_"), (3, "5 000")],
        words("größer", "di"),
    )
    corpus = data.load_conllu(
        train,
        write("dev.conllu", words("il", "del", "#")),
        str(write("test.conllu", words("5 000", "größer"), words("_"))),
        minimum_count=1,
    )
    assert corpus.name == "it_x"
    assert corpus.train.document_starts is None
    first = ["di", "il", "5 000", "<eos>"]
    assert decode(corpus, "train") == first + ["größer", "di", "<eos>"]
    assert decode(corpus, "validation") == ["il", "<unk>", "<unk>", "<eos>"]
    second = ["5 000", "größer", "<eos>", "<unk>", "<eos>"]
    assert decode(corpus, "test") == second


def test_vocabulary_by_count_and_several_files(write):
    first = write("b.conllu", words("a", "b", "7"))
    parts = [first, write("a.conllu", words("b", "8"))]
    options = {"minimum_count": 2, "numbers": "N"}
    corpus = data.load_conllu(parts, first, parts[1:], **options)
    assert corpus.vocabulary.tokens == ("<eos>", "<unk>", "N", "b")
    assert decode(corpus, "train") == "<unk> b N <eos> b N <eos>".split()
    assert decode(corpus, "test") == ["b", "N", "<eos>"]
    words_given = data.Vocabulary(["a"])
    corpus = data.load_conllu(parts, *parts, vocabulary=words_given)
    assert decode(corpus, "test") == ["<unk>", "<unk>", "<eos>"]


def test_files_that_cannot_be_used(write, tmp_path):
    good = write("good.conllu", words("a"))
    with pytest.raises(FileNotFoundError, match="no CoNLL-U file .*none"):
        data.load_conllu(good, good, tmp_path / "none.conllu")
    with pytest.raises(ValueError, match="at least one CoNLL-U file"):
        data.load_conllu([], good, good)
    (tmp_path / "text.conllu").write_text("plain text\n")
    with pytest.raises(ValueError, match="line 1: .*10 columns.*'plain text'"):
        data.load_conllu(tmp_path / "text.conllu", good, good)
    (tmp_path / "empty.conllu").write_text("# nothing\n")
    with pytest.raises(ValueError, match="empty.conllu is empty"):
        data.load_conllu(good, good, tmp_path / "empty.conllu")

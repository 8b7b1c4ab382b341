import numpy as np
import pytest

from memlm_keras import data
from memlm_keras.data.corpus import assign

pytestmark = pytest.mark.usefixtures("cache")

SPLITS = ("train", "validation", "test")
NUM_ARTICLES = 100


def document(index):
    """Returns a document: a title, and lines with a number and a word of its
    own."""
    lines = [f"= title{index} ="]
    lines += [f"in {1900 + index} the word{index} ."] * (2 + index % 5)
    return lines


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / "wikipedia"
    folder.mkdir()
    for index in range(NUM_ARTICLES):
        text = "\n".join(document(index)) + "\n"
        (folder / f"{index:03}.txt").write_text(text)
    return folder


@pytest.fixture
def file(write):
    lines = [line for index in range(NUM_ARTICLES) for line in document(index)]
    return write("\n".join(lines) + "\n", "wikipedia.txt")


def texts(corpus, split):
    """Returns the documents of a split as lists of words."""
    split = getattr(corpus, split)
    parts = np.split(split.tokens, split.document_starts[1:])
    return [corpus.vocabulary.decode(part) for part in parts]


def titles(corpus, split):
    return [text[1] for text in texts(corpus, split)]


def test_every_document_is_whole_in_one_split(folder):
    expected = [
        [word for line in document(i) for word in [*line.split(), "<eos>"]]
        for i in range(NUM_ARTICLES)
    ]
    # The vocabulary has every word, so that all documents differ.
    vocabulary = data.Vocabulary(set(sum(expected, [])))
    corpus = data.load_documents(folder, vocabulary=vocabulary)
    found = [text for split in SPLITS for text in texts(corpus, split)]
    assert sorted(found) == sorted(expected)
    for split in SPLITS:
        # Documents keep the order of the text.
        numbers = [int(t.removeprefix("title")) for t in titles(corpus, split)]
        assert numbers == sorted(numbers)


def test_splits_follow_from_the_seed():
    lengths = np.array([4, 6, 5, 5, 10, 10])
    shares = {"validation": 0.2, "test": 0.3}
    assigned = assign(lengths, shares, seed=3)
    order = np.random.default_rng(3).permutation(6)
    assert order.tolist() == [2, 5, 4, 1, 3, 0]
    # Of 40 tokens, validation needs 8 and gets 5 + 10; test needs 12 and gets
    # 10 + 6.
    assert assigned["validation"].tolist() == [2, 5]
    assert assigned["test"].tolist() == [1, 4]
    assert assigned["train"].tolist() == [0, 3]


def test_vocabulary_is_of_training_documents_alone(folder):
    corpus = data.load_documents(
        folder, validation=0.2, test=0.2, minimum_count=1
    )
    known = set(corpus.vocabulary.tokens)
    assert not known & {str(1900 + i) for i in range(NUM_ARTICLES)}
    for split, expected in (("train", True), ("test", False)):
        for text in texts(corpus, split):
            assert (text[1] != "<unk>") is expected
            # The line `in 1950 the word50 .` follows the title.
            assert text[4:7] == ["in", "N", "the"]
            assert (text[7] != "<unk>") is expected
    assert corpus.vocabulary.tokenizer.numbers == "N"


def test_a_folder_and_a_file_give_the_same_corpus(folder, file):
    of_folder = data.load_documents(folder)
    of_file = data.load_documents(file, document_start="= ")
    assert of_folder.name == of_file.name == "wikipedia"
    assert of_folder.fingerprint == of_file.fingerprint
    other = data.load_documents(folder, seed=2)
    assert other.fingerprint != of_folder.fingerprint


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"validation": 0}, "must be shares above 0.*'validation': 0"),
        ({"test": 1.5}, "a sum below 1.*'test': 1.5"),
        ({"validation": 0.6, "test": 0.5}, "a sum below 1. Received"),
        ({"validation": 0.5, "test": 0.49}, "The train split gets.*: 3 docum"),
    ],
)
def test_unusable_shares_are_reported(tmp_path, arguments, message):
    for index in range(3):
        (tmp_path / f"{index}.txt").write_text("a b c\n" * (index + 1))
    with pytest.raises(ValueError, match=message):
        data.load_documents(tmp_path, **arguments)


def test_a_file_must_say_where_documents_begin(file):
    with pytest.raises(ValueError, match="`document_start` must say"):
        data.load_documents(file)


def test_a_single_text_is_split_in_its_order(write):
    path = write("".join(f"word {i}\n\n" for i in range(40)), "notes.txt")
    vocabulary = data.Vocabulary(["word", *map(str, range(40))])
    corpus = data.load_text(path, vocabulary=vocabulary)
    assert corpus.name == "notes" and not corpus.has_documents
    numbers = [
        vocabulary.decode(getattr(corpus, split).tokens)[1::3]
        for split in SPLITS
    ]
    assert [*map(len, numbers)] == [36, 2, 2]
    assert sum(numbers, []) == [str(i) for i in range(40)]
    assert corpus.description == (
        "Of the lines of notes.txt, 1 to 36 are train, 37 to 38 are "
        "validation, 39 to 40 are test."
    )


def test_a_single_text_of_documents_is_split_between_them(folder, tmp_path):
    corpus = data.load_text(folder, numbers="N")
    assert corpus.has_documents and corpus.vocabulary.tokenizer.numbers == "N"
    counts = [len(getattr(corpus, s).document_starts) for s in SPLITS]
    size = max(1, round(NUM_ARTICLES / 20))
    assert counts == [NUM_ARTICLES - 2 * size, size, size]
    assert corpus.description.startswith("Of the documents of")
    path = tmp_path / "two.txt"
    path.write_text("a\nb\n")
    with pytest.raises(ValueError, match="at least three lines.*Received: 2"):
        data.load_text(path)
    with pytest.raises(ValueError, match="`train` alone.*test=None"):
        data.load_text(path, path)


def test_what_unknown_words_are_like_is_learnt(write):
    path = write("a b a rare\n" + "a b\n" * 9 + "a new\na other\n")
    corpus = data.load_text(path)
    assert corpus.vocabulary.tokens == ("<eos>", "<unk>", "a", "b")
    assert 1 in corpus.train.tokens and 1 in corpus.validation.tokens
    # By default, rare words are kept if the text has `<unk>` or the size is
    # limited.
    assert "rare" in data.Vocabulary.build(["<unk> rare a"], minimum_count=None)
    tokens = data.Vocabulary.build(["a b c"], 4, minimum_count=None).tokens
    assert tokens == ("<eos>", "<unk>", "a", "b")
    with pytest.warns(UserWarning, match="33.3% of validation and.*training"):
        data.load_text(path, vocabulary=data.Vocabulary(["a", "b", "rare"]))


def test_a_vocabulary_says_how_text_is_read(write):
    path = write("Don't STOP.\n" * 4, "text.txt")
    vocabulary = data.Vocabulary(
        ["don", "'", "t", "stop", "."],
        tokenizer=data.Tokenizer("unicode_script", lowercase=True),
    )
    rules = {"tokenize": "unicode_script", "lowercase": True}
    for arguments in ({}, rules, {"lowercase": True}):
        corpus = data.load_text(path, vocabulary=vocabulary, **arguments)
        assert corpus.test.tokens.tolist() == [2, 3, 4, 5, 6, 0]
    built = data.load_text(path, **rules).vocabulary
    assert built.tokenizer == vocabulary.tokenizer
    assert built.decode(built.encode("DON'T")) == ["don", "'", "t"]
    for arguments in ({"tokenize": "white_space"}, {"numbers": "N"}):
        with pytest.raises(ValueError, match="has a tokenizer of its own"):
            data.load_text(path, vocabulary=vocabulary, **arguments)


UNSPACED = "今天天气很好，我们去公园散步。\n他说明天会下雨。\n" * 20
SPACED = "今天 天气 很 好 ， 我们 去 公园 散步 。\n他 说 明天 会 下雨 。\n" * 20


def test_text_without_spaces_needs_a_tokenization(write):
    path = write(UNSPACED, "notes.txt")
    with pytest.raises(ValueError, match="few spaces.*12 char.*=characters"):
        data.load_text(path)
    with pytest.raises(ValueError, match="notes.txt has few spaces"):
        data.load_documents(path, document_start="他")
    corpus = data.load_text(path, tokenize="characters")
    words = {*UNSPACED, "<unk>", "<eos>"} - {"\n"}
    assert {*corpus.vocabulary.tokens} == words
    assert corpus.vocabulary.decode(corpus.train.tokens[:3]) == [*"今天天"]
    # A tokenization or vocabulary given by the user is not changed.
    assert len(data.load_text(path, tokenize="white_space").vocabulary) == 4
    data.load_text(path, vocabulary=corpus.vocabulary)
    path = write(SPACED, "notes.txt")
    assert "公园" in data.load_text(path).vocabulary
    path.write_text("ACGTACGTACGT\nGGGTTTAAACCC\n" * 4)
    assert "ACGTACGTACGT" in data.load_text(path).vocabulary

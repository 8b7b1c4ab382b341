"""Tests the Children's Book Test with files in the published format."""

import dataclasses

import numpy as np
import pytest
from corpus_files import CBT_CANDIDATES
from corpus_files import CBT_QUERY
from corpus_files import CBT_SENTENCES
from corpus_files import cbt_question
from corpus_files import write_cbt

from memlm_keras import data
from memlm_keras.data import read_cloze_questions

pytestmark = pytest.mark.usefixtures("cache")

CONTEXT = tuple(tuple(sentence.split()) for sentence in CBT_SENTENCES)


@pytest.fixture
def read(write):
    name = "cbtest_NE_train.txt"
    return lambda text: list(read_cloze_questions(write(text, name)))


@pytest.fixture
def folder(tmp_path):
    """Writes all files for these tests in the folders of the published
    archive."""
    folder = tmp_path / "CBTest" / "data"
    write_cbt(folder, word_types=("NE", "V"))
    return folder


def test_questions_are_read(read):
    first, second = read(cbt_question() + cbt_question())
    assert first == second
    assert first.context == CONTEXT
    assert first.query == tuple("`` Who is it ? '' said XXXXX .".split())
    assert first.answer == "Dan"
    assert first.candidates == tuple(CBT_CANDIDATES.split("|"))
    assert first.filled("Eve") == tuple("`` Who is it ? '' said Eve .".split())
    with pytest.raises(dataclasses.FrozenInstanceError):
        first.answer = "Eve"


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(cbt_question().replace("\n", "\r\n"), id="crlf"),
        pytest.param(cbt_question().rstrip("\n"), id="no blank line at last"),
        pytest.param(cbt_question().replace("\t\t", "\t"), id="no empty field"),
        pytest.param(cbt_question().replace("\t\t", "\t \t"), id="space"),
        pytest.param(cbt_question().replace("|Dan", "||Dan|"), id="empty"),
        pytest.param(cbt_question().replace(" .", "  ."), id="two spaces"),
        pytest.param("\n" + cbt_question() + "\n\n", id="more blank lines"),
    ],
)
def test_irregular_files_say_the_same(read, text):
    (question,) = read(text)
    assert (question,) == tuple(read(cbt_question()))


def test_unusual_questions(read):
    (question,) = read(cbt_question("XXXXX !\tb\t\tc|b|a|b|c"))
    assert question.candidates == ("c", "b", "a", "b", "c")
    (question,) = read(cbt_question("It was XXXXX's hat\tTom\t\tTom|Ann"))
    assert question.word("Ann") == "Ann's"
    assert question.filled("Tom") == ("It", "was", "Tom's", "hat")
    context = [*CBT_SENTENCES[:7], "", *CBT_SENTENCES[8:]]
    assert read(cbt_question(context=context))[0].context[7] == ()
    question = data.ClozeQuestion((), ("in", "XXXXX"), "a b", ("a b", "c"))
    assert question.filled("a b") == ("in", "a", "b")
    with pytest.raises(ValueError, match="`candidates` must not be empty"):
        data.ClozeQuestion((), ("XXXXX",), "a", ("a", ""))


ONE = cbt_question()


@pytest.mark.parametrize(
    "text, message",
    [
        (ONE.replace("\n5 ", "\n6 "), "line 5: .*Expected number 5.*'6 This"),
        (ONE.replace("\n5 ", "\n"), "line 5: .*Expected number 5.*'This"),
        (ONE + "2 x\n", "line 23: .*Expected number 1. Received: '2 x'"),
        (ONE[: ONE.index("21 ")] + "\n" + ONE, "line 22: .*21. Received: '1"),
        (ONE[: ONE.index("21 ")], "line 20: the file ends after 20 sentences"),
        (ONE[: ONE.index("7 ")], "line 6: the file ends after 6 sentences"),
        (ONE.replace("XXXXX", "Dan"), "line 21: .*one blank XXXXX.*: 0 in .``"),
        (ONE.replace("it", "XXXXX"), "line 21: .*exactly one blank.*: 2 in"),
        (ONE.replace("Dan\t", "Zoe\t"), "line 21: `answer` .*='Zoe', cand"),
        (ONE.replace("\t", " "), r"line 21: .*two tabs.*the fields \[\]"),
        (ONE.replace("\t\t", "\tx\t"), r"line 21: .*\['Dan', 'x', 'Ann"),
        (ONE.replace(CBT_CANDIDATES, "|"), r"line 21: `answer`.*'Dan', .*\(\)"),
        ("", "is empty: expected at least one question"),
        ("\n\n", "is empty: expected at least one question"),
    ],
)
def test_damage_is_reported_with_file_and_line(read, text, message):
    with pytest.raises(ValueError, match=f"cbtest_NE_train.txt.*{message}"):
        read(text)


def test_files_are_found_by_type_and_split(folder, tmp_path):
    for split, count in [("train", 1), ("validation", 2), ("test", 3)]:
        for data_dir in (folder, str(tmp_path)):
            questions = data.cbt_questions("NE", split, data_dir)
            assert len(questions) == count


def test_wrong_names_are_reported(folder):
    with pytest.raises(ValueError, match="`word_type` .*'NE'.*'noun'"):
        data.cbt_questions("noun", "test", folder)
    with pytest.raises(ValueError, match="`split` .*'validation'.*'valid'"):
        data.cbt_questions("NE", "valid", folder)
    with pytest.raises(ValueError, match="`train_on` .*'books', 'NE'.*'all'"):
        data.load_cbt("all", folder)
    with pytest.raises(FileNotFoundError, match="cbtest_P_test_2500ex.txt in"):
        data.cbt_questions("P", "test", folder)
    with pytest.raises(FileNotFoundError, match="data_dir=.*nowhere"):
        data.load_cbt(data_dir=folder / "nowhere")


def test_books_are_documents_without_their_titles(folder):
    corpus = data.load_cbt(data_dir=folder, minimum_count=1)
    assert corpus.name == "cbt"
    words = corpus.vocabulary.decode(corpus.train.tokens)
    assert " ".join(words) == (
        "A king lived . <eos> It was in train . <eos> A dragon . <eos>"
    )
    assert corpus.train.document_starts.tolist() == [0, 11]
    assert isinstance(corpus.train.tokens, np.memmap)
    assert corpus.test.tokens[8] == corpus.vocabulary.unknown_id
    assert data.load("cbt", folder).vocabulary == corpus.vocabulary


def test_contexts_are_documents_with_the_answer_in_place(folder):
    corpus = data.load_cbt("NE", folder, minimum_count=1)
    assert corpus.name == "cbt-NE"
    query = CBT_QUERY.partition("\t")[0].replace("XXXXX", "Dan")
    sentences = [*CBT_SENTENCES, query]
    expected = " ".join(f"{sentence} <eos>" for sentence in sentences).split()
    assert corpus.vocabulary.decode(corpus.train.tokens) == expected
    starts = np.arange(3) * len(expected)
    np.testing.assert_array_equal(corpus.test.document_starts, starts)
    batches = corpus.batches("test", 2, 7, documents=True)
    assert sum(inputs["reset"].sum() for inputs, _, _ in batches) == 3


def test_changed_questions_are_encoded_anew(folder):
    before = len(data.load_cbt("V", folder).train)
    (folder / "cbtest_V_train.txt").write_text(cbt_question() * 2)
    assert len(data.load_cbt("V", folder).train) == 2 * before


@pytest.mark.parametrize("train_on", ["books", "V"])
def test_vocabularies_are_built_or_given(folder, train_on):
    corpus = data.load_cbt(
        train_on, folder, vocabulary_size=5, minimum_count=2, numbers="N"
    )
    assert len(corpus.vocabulary) <= 5
    assert corpus.vocabulary.tokenizer.numbers == "N"
    given = data.Vocabulary(["king"])
    assert data.load_cbt(train_on, folder, vocabulary=given).vocabulary is given

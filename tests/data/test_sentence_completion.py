"""Tests the Sentence Completion Challenge with files in the published
format."""

import sys

import pytest
from corpus_files import machine_form

from memlm_keras.data import ClozeQuestion
from memlm_keras.data import completion_questions
from memlm_keras.data import prepare_novels

# Sentence without its full stop, candidates, index of the answer.
QUESTIONS = [
    ("Mr. Hill , he {} it", ("ate", "sold", "hid", "knew", "read"), 2),
    ("{} can't last", ("Rain", "Fire", "Joy", "Peace", "War"), 0),
    ("A half-open {}", ("door", "box", "song", "sky", "fish"), 4),
]


def machine(texts=QUESTIONS, **kwargs):
    return machine_form(texts, **kwargs)


def enclosed(texts=QUESTIONS):
    """Returns both files in the format for language models, as strings."""
    questions, answers = [], []
    for text, candidates, right in texts:
        lines = [f"<s> {text.format(word)} </s>\n" for word in candidates]
        questions += lines
        answers.append(lines[right])
    return "".join(questions), "".join(answers)


@pytest.fixture
def read(write):
    def read(texts, **kwargs):
        names = ("questions.txt", "answers.txt")
        return completion_questions(*map(write, texts, names), **kwargs)

    return read


def expected(stop, queries):
    return [
        ClozeQuestion(
            (),
            tuple(query.split()) + stop,
            candidates[right].lower(),
            tuple(word.lower() for word in candidates),
        )
        for query, (_, candidates, right) in zip(queries, QUESTIONS)
    ]


SYNTOK = ["mr . hill , he XXXXX it", "XXXXX ca n't last", "a half - open XXXXX"]
SPACES = ["mr. hill , he XXXXX it", "XXXXX can't last", "a half-open XXXXX"]


def test_both_forms_are_read(read):
    pytest.importorskip("syntok")
    assert read(machine()) == expected((".",), SYNTOK)
    assert read(enclosed()) == expected((), SYNTOK)


def test_words_are_split_and_lowered_as_asked(read):
    assert read(enclosed(), tokenize=None) == expected((), SPACES)
    first, _, last = read(machine(), tokenize=None)
    assert first.query[-2:] == ("XXXXX", "it.")
    assert last.filled("fish")[-1] == "fish."
    first, second, _ = read(enclosed(), tokenize=None, lowercase=False)
    assert first.query == ("Mr.", "Hill", ",", "he", "XXXXX", "it")
    assert (second.answer, second.filled("Joy")[0]) == ("Rain", "Joy")
    (question,) = read(machine(QUESTIONS[:1]), tokenize=lambda text: [text])
    assert question.query == ("mr. hill , he XXXXX it.",)


@pytest.mark.parametrize("form", [machine, enclosed])
def test_candidates_may_repeat_and_be_several_words(read, form):
    names = ("new york", "rome", "rome", "new rome", "oslo town")
    (question,) = read(form([("To {} they went", names, 3)]), tokenize=None)
    assert question.candidates == names
    assert question.answer == "new rome"
    assert question.filled("new rome")[:4] == ("to", "new", "rome", "they")
    # No candidate is read as empty, even if some begin and end equally.
    for text, names in [
        ("so {} a", ("a", "a a", "b a", "b", "b b")),
        ("a {}", ("a", "a a", "a a a", "a a a a", "b a")),
    ]:
        (question,) = read(form([(text, names, 1)]), tokenize=None)
        assert question.candidates == names


def test_questions_may_begin_with_any_number(read):
    second_half = read(machine(first=521), tokenize=None)
    assert second_half == read(machine(), tokenize=None)


@pytest.mark.parametrize("form", [machine, enclosed])
@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda t: "\n" + t.replace("\n", "\n \n"), id="blank"),
        pytest.param(lambda text: text.replace("\n", " \t\n"), id="spaces"),
    ],
)
def test_irregular_files_say_the_same(read, form, change):
    changed = tuple(map(change, form()))
    assert read(changed, tokenize=None) == read(form(), tokenize=None)


@pytest.mark.parametrize(
    "old, new, message",
    [
        ("2b)", "2c)", r"line 7: .*Expected 2b\).*Received: .2c\)"),
        ("2b)", "b)", r"line 7: expected a number, a letter .*b\) \[Fire\]"),
        ("[Joy]", "Joy", "line 8: .*one word in brackets.*2c. Joy can't"),
        ("[Joy]", "[Joy] [Joy]", "line 8: .*one word in brackets"),
        ("[Joy] can't", "[Joy] can", r"line 8: .*must differ only.* line 6"),
        ("Hill", "XXXXX", "line 1: .*exactly one blank.*: 2 in 'Mr. XXXXX"),
        ("1a)", "<s>", "line 1: expected a sentence '<s> ... </s>'"),
    ],
)
def test_damaged_questions_are_reported(read, old, new, message):
    questions, answers = machine()
    changed = (questions.replace(old, new), answers)
    with pytest.raises(ValueError, match=f"questions.txt, {message}"):
        read(changed, lowercase=False, tokenize=None)


@pytest.mark.parametrize(
    "old, new, message",
    [
        ("2a)", "3a)", "line 2: expected the answer of question 2. .*3a"),
        ("2a)", "2b)", r"line 2: .*candidates \['Rain', .*line 6 of .*2b\)"),
        ("2a)", "2f)", r"line 2: .*one of the candidates .*2f\)"),
        ("[Rain]", "[Hail]", r"line 2: .*one of the candidates .*Hail"),
        ("[Rain]", "Rain", "line 2: expected a number, .* in brackets"),
    ],
)
def test_damaged_answers_are_reported(read, old, new, message):
    questions, answers = machine()
    with pytest.raises(ValueError, match=f"answers.txt, {message}"):
        read((questions, answers.replace(old, new)), tokenize=None)


@pytest.mark.parametrize("form", [machine, enclosed])
def test_counts_that_differ_are_reported(read, form):
    questions, answers = form()
    for texts, message in [
        ((questions, answers[: answers.index("\n") + 1]), "15 lines.* 1 answ"),
        ((questions[: questions.rindex("\n", 0, -1) + 1], answers), "14 lines"),
    ]:
        with pytest.raises(ValueError, match=f"five lines for each.*{message}"):
            read(texts, tokenize=None)


def test_damage_of_the_form_for_language_models_is_reported(read):
    questions, answers = enclosed()
    for old, new, message in [
        ("<s> Fire", "Fire", "questions.txt, line 7: expected a sentence '<s>"),
        ("<s> Joy can't last </s>", "<s> </s>", "questions.txt, line 8: expec"),
        ("<s> Joy can't last", "<s> Joy", "questions.txt, line 6: .* common"),
    ]:
        with pytest.raises(ValueError, match=message):
            read((questions.replace(old, new), answers), tokenize=None)
    with pytest.raises(ValueError, match="answers.txt, line 2: .*<s> Hail"):
        read((questions, answers.replace("Rain", "Hail")), tokenize=None)
    with pytest.raises(ValueError, match="answers.txt, line 1: expected a sen"):
        read((questions, machine()[1]), tokenize=None)


def test_files_without_questions_are_reported(read, tmp_path):
    with pytest.raises(ValueError, match="questions.txt is empty"):
        read(("\ufeff\n\n", machine()[1]))
    with pytest.raises(ValueError, match="answers.txt is empty"):
        read((machine()[0], ""))
    with pytest.raises(FileNotFoundError):
        completion_questions(tmp_path / "none.txt", tmp_path / "none.txt")
    (tmp_path / "latin.txt").write_bytes(b"1a) caf\xe9 [x]")
    with pytest.raises(ValueError, match="latin.txt is not UTF-8"):
        completion_questions(*[tmp_path / "latin.txt"] * 2)
    with pytest.raises(ValueError, match="`tokenize` must .*tokenize='spacy'"):
        read(machine(), tokenize="spacy")


def test_a_missing_syntok_is_reported(read, tmp_path, monkeypatch):
    for name in ("syntok", "syntok.segmenter", "syntok.tokenizer"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ImportError, match="`pip install syntok`"):
        read(machine())
    (tmp_path / "novel.txt").write_text("It was so.\n")
    with pytest.raises(ImportError, match="`pip install syntok`"):
        prepare_novels(tmp_path, tmp_path / "new", tokenize=None)
    assert not (tmp_path / "new").exists()


BOOK = """

CHAPTER I

"Well," said Mr. Hill--"you don't
say?"  He _never_ sat.

   * * *

It was so.
"""
BOOK_LINES = [
    "chapter i",
    '" well , " said mr . hill -- " you do n\'t say ? "',
    "he never sat .",
    "it was so .",
]
NEW = "*** START OF TH{} PROJECT GUTENBERG EBOOK A TALE ***"
SMALL = "*END*THE SMALL PRINT! FOR PUBLIC DOMAIN ETEXTS*Ver.04.29.93*END*"
MARKERS = [
    (NEW.format("IS"), NEW.format("IS").replace("START", "END")),
    (NEW.format("E"), NEW.format("E").replace("START", "END")),
    (
        "***START OF THE PROJECT GUTENBERG EBOOK A TALE***",
        "***END OF THE PROJECT GUTENBERG EBOOK A TALE***",
    ),
    (
        "*** START OF THE PROJECT GUTENBERG EBOOK A VERY LONG\nTALE OF IT ***",
        "End of the Project Gutenberg EBook of A Tale, by A. Hill",
    ),
    (
        f"***START**THE SMALL PRINT!**FOR PUBLIC DOMAIN**START***\nx\n{SMALL}",
        "End of Project Gutenberg's A Tale, by A. Hill",
    ),
    (
        SMALL.replace("*END*THE", "*END THE"),
        "The End of The Project Gutenberg Etext of A Tale\n\n" + SMALL,
    ),
    (
        f"{SMALL}\nProduced by many.\n{NEW.format('IS')}",
        "End of this Project Gutenberg Etext\n" + NEW.format("IS"),
    ),
    (
        NEW.format("E COPYRIGHTED"),
        NEW.format("E COPYRIGHTED").replace("START", "END"),
    ),
]


@pytest.fixture
def folder(tmp_path):
    pytest.importorskip("syntok")
    folder = tmp_path / "originals"
    folder.mkdir()
    return folder


def prepared(folder, **kwargs):
    output = folder.parent / "output"
    counts = prepare_novels(folder, output, verbose=0, **kwargs)
    texts = {path.name: path.read_text() for path in output.iterdir()}
    lines = "".join(texts.values()).splitlines()
    assert counts == (len(lines), sum(len(line.split()) for line in lines))
    return {name: text.splitlines() for name, text in texts.items()}


def test_markers_cut_header_and_footer_off(folder):
    names = [f"TALE{index}.TXT" for index in range(len(MARKERS))]
    for name, (begin, end) in zip(names, MARKERS):
        text = f"By the Gutenberg.\n{begin}\n{BOOK}\n{end}\nLicence.\n"
        (folder / name).write_text(text)
    assert prepared(folder) == {
        name.replace("TXT", "txt"): BOOK_LINES for name in names
    }


def test_novels_without_markers_are_reported_and_whole(folder):
    (folder / "a.txt").write_text(BOOK)
    (folder / "b.txt").write_text("\n".join([MARKERS[0][0], BOOK]))
    (folder / "c.txt").write_text("\n".join([*MARKERS[0]]).replace("\n", BOOK))
    with pytest.warns(UserWarning, match="2 of 3 novels .*: a.txt, b.txt$"):
        found = prepared(folder)
    assert found["a.txt"] == found["b.txt"] == BOOK_LINES


@pytest.mark.filterwarnings("ignore:1 of 1 novels")
def test_options(folder):
    (folder / "a.txt").write_text(BOOK)
    (lines,) = prepared(folder, lowercase=False, tokenize=None).values()
    assert lines == [
        "CHAPTER I",
        '"Well," said Mr. Hill--"you don\'t say?"',
        "He _never_ sat.",
        "It was so.",
    ]


@pytest.mark.filterwarnings("ignore:. of . novels")
@pytest.mark.parametrize(
    "data_bytes",
    [
        "“It’s a café,” he said.\r\n".encode(),
        b"\xef\xbb\xbf" + "“It’s a café,” he said.".encode(),
        "“It’s a café,” he said.\r".encode("cp1252"),
        '"It\'s a café," he said.'.encode("latin-1"),
    ],
)
def test_any_encoding_and_quotes(folder, data_bytes):
    (folder / "a.txt").write_bytes(data_bytes)
    assert prepared(folder)["a.txt"] == ['" it \'s a café , " he said .']


@pytest.mark.filterwarnings("ignore:. of . novels")
def test_novels_that_cannot_be_prepared(folder, tmp_path):
    output = tmp_path / "output"
    with pytest.raises(FileNotFoundError, match="`folder` .*originals"):
        prepare_novels(folder, output)
    (folder / "a.txt").write_text(BOOK)
    with pytest.raises(FileExistsError, match="`output` .*originals"):
        prepare_novels(folder, folder)
    with pytest.raises(ValueError, match="`encoding` .*encoding='klingon'"):
        prepare_novels(folder, output, encoding="klingon")
    (folder / "b.txt").write_text("* * *\n")
    with pytest.raises(ValueError, match="b.txt holds no sentence"):
        prepare_novels(folder, output)
    (folder / "b.txt").write_bytes(b"So \x81.")
    with pytest.raises(ValueError, match="b.txt is neither UTF-8 nor cp125.*3"):
        prepare_novels(folder, output)
    (folder / "b.txt").rename(folder / "a.TXT")
    if len(list(folder.iterdir())) == 2:
        with pytest.raises(ValueError, match="two files .*`.TXT`"):
            prepare_novels(folder, output)
    assert list(tmp_path.iterdir()) == [folder]

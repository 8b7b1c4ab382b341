import pytest

from memlm_keras.data.text_store import TextSource
from memlm_keras.data.text_store import read_lines


@pytest.fixture
def write(tmp_path):
    def write(content, name="text.txt"):
        path = tmp_path / name
        path.write_bytes(
            content if isinstance(content, bytes) else content.encode()
        )
        return path

    return write


def test_only_line_feeds_end_lines(write):
    path = write("a\u2028b\x0bc\r\nd\u0085e\nf")
    assert list(read_lines(path)) == ["a\u2028b\x0bc", "d\u0085e", "f"]


@pytest.mark.parametrize("text", ["a b\rc\r", "a b\rc", "\ufeffa b\rc\r"])
def test_carriage_returns_end_lines_of_old_macs(write, text):
    assert list(read_lines(write(text))) == ["a b", "c"]


def test_a_carriage_return_beside_line_feeds_ends_no_line(write):
    assert list(read_lines(write("a\rb\nc\rd"))) == ["a\rb", "c\rd"]


def test_a_byte_order_mark_is_no_text(write):
    path = write("\ufeffà \ufeffb\n\ufeffc\n")
    assert list(read_lines(path)) == ["à \ufeffb", "\ufeffc"]


def test_blank_lines(write):
    path = write(" \na b\n\nc\n")
    sentences = list(TextSource(path).sentences())
    assert sentences == [("a b", False), ("c", False)]
    kept = TextSource(path, keep_blank_lines=True).sentences()
    assert [line for line, _ in kept] == [" ", "a b", "", "c"]


def test_document_start_matches_from_the_first_character(write):
    path = write("= A =\nx = B =\n= C =\ny\n")
    source = TextSource(path, document_start="= .* =$")
    begins = [begins for _, begins in source.sentences()]
    assert begins == [True, False, True, False]
    assert source.has_documents


def test_lone_titles_stand_between_blank_lines(write):
    path = write("= A =\n\nx\n= B =\n\n\n= C =\ny\n\n= D =\n")
    source = TextSource(path, document_start="= .* =$", lone_titles=True)
    titles = [line for line, begins in source.sentences() if begins]
    assert titles == ["= A =", "= D ="]


def test_each_file_of_a_folder_is_a_document(write, tmp_path):
    write("\nc d\ne\n", "2.txt")
    write("a\nb\n", "1.txt")
    write("", "3.txt")
    write("not text", "notes.md")
    source = TextSource(tmp_path)
    assert source.has_documents
    assert list(source.sentences()) == [
        ("a", True),
        ("b", False),
        ("c d", True),
        ("e", False),
    ]


def test_lines_by_sentence(write):
    pytest.importorskip("syntok")
    path = write("= A =\n \nThe cat sat . It ran .\n= B . It = \n")
    source = TextSource(path, document_start="= .* =", by_sentence=True)
    assert list(source.sentences()) == [
        (["=", "A", "="], True),
        (["The", "cat", "sat", "."], False),
        (["It", "ran", "."], False),
        (["=", "B", "."], True),
        (["It", "="], False),
    ]
    plain = TextSource(path, document_start="= .* =")
    assert source.identity() != plain.identity()
    assert "syntok 1" in source.identity()["splitter"]
    with pytest.raises(ValueError, match="keep_blank_lines=True"):
        TextSource(path, keep_blank_lines=True, by_sentence=True)


def test_identity_follows_file_and_options(write):
    path = write("a\n")
    before = TextSource(path).identity()
    assert TextSource(path).identity() == before
    assert TextSource(path, keep_blank_lines=True).identity() != before
    write("a b\n")
    assert TextSource(path).identity() != before


def test_text_that_is_not_utf8_is_placed(write):
    path = write(b"good\ncaf\xe9\n")
    with pytest.raises(
        ValueError, match="text.txt is not UTF-8.*0xe9 at byte offset 8"
    ):
        list(TextSource(path).sentences())


def test_missing_files_are_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="no file or folder .*nowhere"):
        TextSource(tmp_path / "nowhere")
    with pytest.raises(FileNotFoundError, match="holds no .txt file"):
        TextSource(tmp_path)


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"document_start": "("}, r"`document_start` must be a regular.*'\('"),
        ({"document_start": 3}, "`document_start` must be .* as a string.*3"),
    ],
)
def test_wrong_arguments_are_named(write, arguments, message):
    with pytest.raises(ValueError, match=message):
        TextSource(write("a\n"), **arguments)

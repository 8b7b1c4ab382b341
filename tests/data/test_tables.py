"""Tests tables in the formats of Excel, R, pandas and users."""

import csv
import pathlib

import pytest

from memlm_keras.data import tables

FIELDS = {"good": ("right",), "bad": ("wrong",), "label": ("gold",)}
ROWS = [{"item": "1", "text": "a, b"}, {"item": "2", "text": 'é "c" NA'}]
PLAIN = 'item,text\n1,"a, b"\n2,"é ""c"" NA"\n'
TABS = 'item\ttext\n1\ta, b\n2\té "c" NA\n'


def read(path, data, fields=None, optional=()):
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    ((file, text),) = tables.read_texts(path, (".csv", ".tsv", ".jsonl"))
    with tables.naming(file.name):
        rows = tables.read_rows(text.split("\n"), file, fields, optional)
        return [row for _, row in rows]


@pytest.mark.parametrize(
    "name, data",
    [
        ("a.csv", PLAIN),
        ("a.csv", PLAIN.replace("\n", "\r\n")),
        ("a.csv", PLAIN.replace("\n", "\r")),
        ("a.csv", "\ufeff" + PLAIN),
        ("a.csv", PLAIN.encode("utf-16")),
        ("a.csv", "\ufeff".encode("utf-16-be") + PLAIN.encode("utf-16-be")),
        ("a.csv", 'item;text\n1;a, b\n2;"é ""c"" NA"\n'),
        ("a.csv", 'sep=;\nitem;text\n1;a, b\n2;é "c" NA\n'),
        ("a.csv", '"sep=\t"\r\nitem\ttext\r\n1\ta, b\r\n2\té "c" NA'),
        ("a.csv", 'item, text\n1, "a, b"\n\n,\n2, "é ""c"" NA"\n'),
        ("a.csv", TABS),
        ("a.tsv", TABS),
        ("a.tsv", TABS.replace("\n", "\r")),
        ("a.TSV", "\n" + TABS.replace("\n", "\r\n") + "\t\n  \n"),
    ],
)
def test_one_table_in_many_ways(name, data, tmp_path):
    assert read(tmp_path / name, data) == ROWS


def test_guesses_are_reported(tmp_path):
    with pytest.warns(UserWarning, match=r"a.csv .*line 3 has the byte 0xe9"):
        assert read(tmp_path / "a.csv", PLAIN.encode("cp1252")) == ROWS
    message = r"a.tsv has no header .* bad, label: its first line, 'a' and 'b',"
    with pytest.warns(UserWarning, match=message):
        read(tmp_path / "a.tsv", "a\tb\n1\t2\n", FIELDS, ["label"])


def test_cells_are_read_as_they_are(tmp_path):
    words = "text\tn\n" + '"a\tNA\nb"\tnull\n'
    first, second = read(tmp_path / "a.tsv", words)
    assert first == {"text": '"a', "n": "NA"}
    assert second == {"text": 'b"', "n": "null"}
    limit, long = csv.field_size_limit(), "a " * 70_000
    for name in ("a.csv", "a.tsv"):
        assert read(tmp_path / name, f"text\n{long}\n") == [{"text": long}]
    assert csv.field_size_limit() == limit
    found = read(tmp_path / "a.csv", 'a,b\r\n"1\r\n2",\x0b\u2028\r\n')
    assert found == [{"a": "1\n2", "b": "\x0b\u2028"}]


@pytest.mark.parametrize(
    "text",
    ["w1 w2\tw3 w4", "good\tbad\nw1 w2\tw3 w4", "Wrong \t#RIGHT\nw3 w4\tw1 w2"],
)
def test_headers_are_known_by_their_names(text, tmp_path):
    found = read(tmp_path / "a.tsv", text, FIELDS, ["label"])
    assert found == [{"good": "w1 w2", "bad": "w3 w4"}]


@pytest.mark.parametrize(
    "name, data, message",
    [
        ("a.csv", "", "a.csv: the table has no row"),
        ("a.csv", "a,b\n", "a.csv: the table has a header but no rows"),
        ("a.csv", "a,b\n1\n", "line 2 has 1 columns, and line 1 has 2"),
        ("a.csv", "sep=,\n\na,b\n1,2\n1,2,3\n", "line 5 has 3 columns"),
        ("a.tsv", "a\tb\n1\t2\n1\t2\t3\n", "line 3 has 3 columns"),
        ("a.csv", 'a\n"1\n2"\n"b" c\n', "line 4: ',' expected after"),
        ("a.csv", 'a\n1\n"b\nc\nd\n', "line 3: unexpected end"),
        ("a.csv", b"a,b\n1,\x81\n", "line 2 has the byte 0x81"),
        ("a.csv", "a\né\n".encode() + b"\xe9\n", "line 3 has the byte 0xe9"),
        ("a.csv", b"\xef\xbb\xbfa\n\xe9\n", "line 2 has the byte 0xe9"),
        ("a.csv", "a\n1\n".encode("utf-16-le"), "line 1 has a zero byte"),
        ("a.csv", b"\xff\xfea\0\n", "a.csv: line 1 has .*not utf-16"),
        ("a.tsv", '"a"\t"b"\n"1"\t"2"\n', "line 1: .*rename the file to .csv"),
        ("a.tsv", 'a\tb\n1\t"x ""y"""\n', "line 2: .*rename the file to .csv"),
        ("a.csv", "\ufeffa,b\n1,2\n\ufeffA,b\n", "line 3 repeats the header"),
        ("a.csv", b"PK\3\4\0\0\x8d", "line 1 has the byte 0x8d"),
        ("a.jsonl", '{"a": 1}\n[1]\n', "line 2 must be an object"),
        ("a.jsonl", "\n{", "line 2 is not JSON"),
    ],
)
def test_damaged_tables_name_their_line(name, data, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        read(tmp_path / name, data)


@pytest.mark.parametrize(
    "name, data, message",
    [
        ("a.tsv", "first\tsecond\nw1 w2\tw3 w4\n", "line 1 looks like a head"),
        ("a.tsv", "good\tother\nw1\tw2\n", "line 1: .*no column bad. Receiv"),
        ("a.csv", "right,Good_,bad,good\n,,,1\n", "several columns could be g"),
        ("a.csv", "w1,w2,w3,w4\nw1,w2,w3,w4\n", "column good and no col"),
        ("a.jsonl", '{"right": "w1"}', "line 1: there is no column bad"),
    ],
)
def test_columns_that_are_missing(name, data, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        read(tmp_path / name, data, FIELDS, ["label"])


def test_names_of_files():
    path = pathlib.PurePath
    assert tables.names_of([path("x/a.csv"), path("b.csv")]) == ["a", "b"]
    same = [path("/z/x/a.csv"), path("/z/y/a.csv")]
    assert tables.names_of(same) == ["x/a", "y/a"]
    same = [path("a.csv"), path("a.tsv")]
    assert tables.names_of(same) == ["a.csv", "a.tsv"]

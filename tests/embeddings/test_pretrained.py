"""Tests vectors read from files in GloVe's format."""

import gzip
import zipfile

import keras
import numpy as np
import pytest

from memlm_keras.embeddings import Embedding
from memlm_keras.embeddings import WordVectors
from memlm_keras.embeddings import read_vectors

LINES = [
    "the 0.25 -1 3e-1",
    ". . . 1 2 3",
    "élan 4 5 6",
    "the 7 7 7",
    "unseen x y z",
    "cat 0.5 0.5 0.5",
]
WORDS = ["<eos>", "cat", "the", ". . .", "dog", "élan"]
EXPECTED = [
    [0, 0, 0],
    [0.5, 0.5, 0.5],
    [0.25, -1, 0.3],
    [1, 2, 3],
    [0, 0, 0],
    [4, 5, 6],
]


def write(path, lines=LINES):
    path.write_bytes("\n".join([*lines, ""]).encode())
    return path


def test_only_a_first_line_is_a_header(tmp_path):
    path = write(tmp_path / "v.txt", ["the 1", "5 3"])
    assert read_vectors(path, ["5"], verbose=0).values.tolist() == [[3.0]]


SMALL = "the 0.1 0.2 0.3 0.4\ncat 0.5 0.6 0.7 0.8\n"


@pytest.mark.parametrize(
    "content",
    [
        SMALL,
        "2 4\n" + SMALL,
        "\ufeff2 4\n" + SMALL,
        "\ufeff" + SMALL + "\n",
        "\n2 4\n\n" + SMALL + " \n\n",
        SMALL.replace("e ", "e\t").replace("t ", "t\t"),
        "2\t4\n" + SMALL.replace(" ", "\t").replace("\n", "\t\r\n"),
        SMALL.replace(" ", "  "),
        "at a@b.c 1 2 3 4\n" + SMALL,
        "\v 1 2 3 4\n 1 2 3 4\n\xa0 1 2 3 4\n" + SMALL,
    ],
)
@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_files_as_other_programs_write_them(tmp_path, content, pack):
    path = tmp_path / "v.vec"
    path.write_bytes(pack(content.encode()))
    vectors = read_vectors(path, ["cat", "dog", "the"], verbose=0)
    assert vectors.found.tolist() == [True, False, True]
    np.testing.assert_allclose(
        vectors.values,
        [[0.5, 0.6, 0.7, 0.8], [0, 0, 0, 0], [0.1, 0.2, 0.3, 0.4]],
        rtol=1e-6,
    )


def test_an_archive_and_its_progress(tmp_path, capsys):
    text = write(tmp_path / "v.txt")
    with zipfile.ZipFile(tmp_path / "v.zip", "w") as archive:
        archive.write(text, "v.txt")
    vectors = read_vectors(tmp_path / "v.zip", WORDS)
    assert vectors.values.dtype == "float32"
    np.testing.assert_allclose(vectors.values, EXPECTED, rtol=1e-6)
    assert vectors.found.tolist() == [False, True, True, True, False, True]
    assert "100/100" in capsys.readouterr().out
    whole = (tmp_path / "v.zip").read_bytes()
    (tmp_path / "damaged.zip").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ValueError, match="damaged.zip is damaged"):
        read_vectors(tmp_path / "damaged.zip", WORDS)
    with zipfile.ZipFile(tmp_path / "v.zip", "a") as archive:
        archive.write(text, "w.txt")
    with pytest.raises(ValueError, match=r"must hold one file.*w\.txt"):
        read_vectors(tmp_path / "v.zip", WORDS)


@pytest.mark.parametrize(
    "lines, message",
    [
        ([], "has no vectors"),
        (["", "the 0,1 0,2"], "line 2: a word and numbers.*b'0,1'"),
        (["the;1;2"], "line 1: a word and numbers are expected, with spaces"),
        (["the 1 2 3", "cat 1 2"], "line 2: a word and 3.*Received 3 fields"),
        (["the 1 2 3", "cat 1 two 3"], "line 2: .*two"),
        (["the 1 2 3", "cat 1 nan 3"], "line 2: numbers must be finite"),
        (["the 1 2 3", "a 1 2 3", "cat 1 2 3 4"], "line 3: .*Received 5 fi"),
        (["", "the 1 2 3", "a b", "cat 1 2 3"], "line 3: .*Received 2 fields"),
        (["3 3", "the 1 2 3", "cat 1 2 3"], "says 3 vectors, but 2 follow"),
        (["2 4", "the 1 2 3"], "line 2: a word and 4.*Received 4 fields"),
        (["the\0 1 2 3"], "must be UTF-8 text, but has zero bytes"),
        (
            ["The 1 2 3", "CAT 4 5 6"],
            r"None of the 6 .* such as \['cat', 'the', '\. \. \.'\], and 2 "
            r"vectors.*\['The', 'CAT'\]",
        ),
    ],
)
def test_damaged_files(tmp_path, lines, message):
    path = write(tmp_path / "v.txt", lines)
    with pytest.raises(ValueError, match=message):
        read_vectors(path, WORDS, verbose=0)
    with pytest.raises(ValueError, match="`words` must not repeat.*2 words"):
        read_vectors(path, ["the", "the"], verbose=0)
    with pytest.raises(FileNotFoundError):
        read_vectors(tmp_path / "none.txt", WORDS)


def test_other_words_keep_their_own():
    found = np.array([True, False, True])
    vectors = WordVectors(np.full((3, 2), 9.0, "float32"), found)
    embedding = Embedding(3, 2)
    embedding.build()
    before = keras.ops.convert_to_numpy(embedding.embeddings).copy()
    vectors.assign_to(embedding)
    after = keras.ops.convert_to_numpy(embedding.embeddings)
    np.testing.assert_array_equal(after[1], before[1])
    assert (after[found] == 9).all()
    other = Embedding(3, 4)
    other.build()
    with pytest.raises(ValueError, match=r"shape \(3, 2\).*\(3, 4\)"):
        vectors.assign_to(other)

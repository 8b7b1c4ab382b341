"""Tests words and regions in tables of sentences against `surprisal`."""

import csv
import io
import math

import numpy as np
import pytest
from corpus_files import shared_data
from language_models import VOCABULARY
from language_models import make
from language_models import shared

from memlm_keras.data import Split
from memlm_keras.data import SubwordVocabulary
from memlm_keras.data import Tokenizer
from memlm_keras.data import Vocabulary
from memlm_keras.evaluation import surprisal
from memlm_keras.linguistics import count_words
from memlm_keras.linguistics import read_stimuli
from memlm_keras.linguistics import stimulus_surprisal

ROWS = [
    {
        "item": "1",
        "sentence": "<s> w1 w2 w3 w4 </s>",
        "at": "2-3",
        "position": "x",
    },
    {"item": "2", "sentence": "w1  zebra w4", "at": "3", "position": "y"},
    {"item": "3", "sentence": "w5", "at": "", "position": "z"},
    {"item": "4", "sentence": "w1 w2 w3 w4", "at": "1, 3-4", "position": ""},
]


def read(text):
    """Returns the notes and the rows of a written table."""
    *notes, table = text.split("\n", 3)
    return notes, list(csv.DictReader(io.StringIO(table), delimiter="\t"))


@pytest.mark.backend
@pytest.mark.parametrize("reset", [True, False])
def test_words_are_those_of_surprisal(reset):
    model = shared("lstm", "none")
    found = stimulus_surprisal(
        model, ROWS, VOCABULARY, regions="at", reset=reset
    )
    text = "\n".join(row["sentence"] for row in ROWS)
    expected = surprisal(model, text, VOCABULARY, reset=reset)
    assert found.words.words == expected.words
    for name in ("surprisal", "entropy", "entropy_reduction", "rank"):
        np.testing.assert_allclose(
            getattr(found.words, name), getattr(expected, name), atol=1e-5
        )
    assert "".join(map(str, found.region)) == "0110000100010220"
    columns = found.columns()
    # The table's own column `sentence` keeps its name; the new one is renamed.
    names = "item sentence at position memlm_sentence"
    assert " ".join(list(columns)[:5]) == names
    assert columns["item"] == [*"11111", *"2222", *"33", *"44444"]
    assert columns["memlm_position"].tolist()[:6] == [1, 2, 3, 4, 5, 1]


def test_regions(tmp_path):
    model = shared("lstm", "none")
    counts = {"w2": 3, "w3": 5, "w4": 1}
    found = stimulus_surprisal(
        model, ROWS, VOCABULARY, regions="at", counts=counts, spillover=2
    )
    found.write(tmp_path / "regions.tsv", by="region")
    notes, rows = read((tmp_path / "regions.tsv").read_text())
    assert "each sentence is read from the initial state" in notes[0]
    assert all(note.startswith("# ") for note in notes)
    names = ("item", "region", "words")
    found_rows = [" ".join(row[name] for name in names) for row in rows]
    assert found_rows == ["1 1 w2 w3", "2 1 w4", "4 1 w1", "4 2 w3 w4"]
    bits = found.words.surprisal
    for row, places in zip(rows, ([1, 2], [7], [11], [13, 14])):
        values = [bits[place] for place in places]
        sums = float(row["surprisal_bits"]), float(row["mean_surprisal_bits"])
        assert sums == pytest.approx((sum(values), np.mean(values)), abs=1e-5)
    frequencies = [row["log_frequency"] for row in rows]
    assert float(frequencies[0]) == pytest.approx(math.log(15) / 2, abs=1e-5)
    # The word of the second row occurs once, and that of the third row never.
    assert frequencies[1:3] == ["0.000000", ""]
    assert [float(row["length"]) for row in rows] == [4, 2, 2, 4]
    # Columns `previous` are for the word before, and empty for a first word.
    for row, name, place in ((rows[3], 1, 12), (rows[1], 2, 5)):
        before = float(row[f"surprisal_bits_previous_{name}"])
        assert before == pytest.approx(bits[place], abs=1e-5)
    assert float(rows[1]["length_previous_1"]) == len("zebra")
    assert rows[2]["surprisal_bits_previous_1"] == ""
    assert rows[0]["log_frequency_previous_2"] == ""


def test_a_table_without_regions():
    model = shared("lstm", "none")
    found = stimulus_surprisal(
        model, ROWS, VOCABULARY, counts={"w1": 2}, unit="nats"
    )
    _, rows = read(found.to_tsv())
    assert "surprisal_nats" in rows[0]
    ends = [row for row in rows if row["word"] == "<eos>"]
    assert len(ends) == 4
    assert {row["length"] + row["log_frequency"] for row in ends} == {""}
    assert "region" in rows[0] and {row["region"] for row in rows} == {""}
    short = stimulus_surprisal(model, ROWS[:1], VOCABULARY, spillover=9)
    assert np.isnan(short.columns()["length_previous_9"]).all()
    with pytest.raises(ValueError, match="`regions` must be given"):
        found.regions()
    with pytest.raises(ValueError, match="`rows` must hold a sentence"):
        stimulus_surprisal(model, [], VOCABULARY)
    with pytest.raises(ValueError, match="`spillover` must be an integer"):
        stimulus_surprisal(model, ROWS, VOCABULARY, spillover=-1)


def test_marked_words():
    model = shared("lstm", "none")
    texts = ("w1 *w2* w3", "*w1 w2* *w3*.", "w1 w2", "w1 * w2 * w3")
    rows = [{"sentence": text} for text in texts]
    found = stimulus_surprisal(model, rows, VOCABULARY, regions="marked")
    assert "".join(map(str, found.region)) == "010011200000100"
    assert found.words.words[6] == "w3."
    plain = stimulus_surprisal(model, [{"sentence": "w1 w2 w3"}], VOCABULARY)
    expected = plain.words.surprisal
    assert found.words.surprisal[:4] == pytest.approx(expected, abs=1e-5)


def test_a_word_of_several_tokens():
    vocabulary = Vocabulary(
        ["don", "'", "t", "run"], tokenizer=Tokenizer(split="unicode_script")
    )
    model = make("lstm", "none", vocabulary_size=6)
    rows = [{"sentence": "don't run", "at": 2}]
    found = stimulus_surprisal(model, rows, vocabulary, regions="at")
    tokens = surprisal(model, "don't run", vocabulary)
    assert tokens.words == ("don", "'", "t", "run", "<eos>")
    assert found.words.words == ("don't", "run", "<eos>")
    bits = tokens.surprisal
    sums = [bits[:3].sum(), bits[3], bits[4]]
    assert found.words.surprisal == pytest.approx(sums)
    assert found.words.entropy == pytest.approx(tokens.entropy[[0, 3, 4]])


def test_counts():
    lines = ["w1 w2 w1", "w1 zebra"]
    assert count_words(lines, VOCABULARY) == {"w1": 3, "w2": 1, "zebra": 1}
    ids = np.concatenate([VOCABULARY.encode_sentence(line) for line in lines])
    assert +count_words(Split(ids), VOCABULARY) == {"w1": 3, "w2": 1}
    pieces = SubwordVocabulary(
        ["<eos>", "<unk>", "\u2581", *"abc.", "\u2581ab"]
    )
    expected = {"ab": 2, "cab": 1, "b.a": 1}
    text = ["ab cab.", "ab b.a."]
    assert count_words(text, pieces) == expected
    ids = np.concatenate([pieces.encode_sentence(line) for line in text])
    assert count_words(ids, pieces) == expected
    model = make("lstm", "none", vocabulary_size=len(pieces))
    rows = [{"sentence": "ab. cc"}]
    found = stimulus_surprisal(model, rows, pieces, counts=expected)
    assert found.log_frequency[0] == math.log(2)
    assert np.isnan(found.log_frequency[1:]).all()


@pytest.mark.parametrize(
    "row, regions, message",
    [
        ({"at": "5"}, "at", "Row 1: the region 5 is not within the 4 words"),
        ({"at": "0"}, "at", "the region 0 is not within"),
        ({"at": "3-2"}, "at", "the region 3-2 is not within"),
        ({"at": "2-4, 3"}, "at", "at=2-4, 3 has overlapping regions"),
        ({"at": "third"}, "at", "at must have positions of words, such as 7"),
        ({"at": ""}, "at", "No word is in a region. Received: regions='at'"),
        ({}, "marked", "No word is in a region"),
        ({"sentence": "w1 *w2"}, "marked", "of 'w1 .w2' must be paired"),
        ({"sentence": "* *"}, "marked", "sentence has no word"),
        ({"sentence": " "}, None, "Row 1: sentence has no word"),
        ({}, "where", "There is no column 'where'. Received: item, sentence"),
    ],
)
def test_rows_that_are_wrong(row, regions, message):
    rows = [{**ROWS[0], **row}]
    with pytest.raises(ValueError, match=message):
        model = shared("lstm", "none")
        stimulus_surprisal(model, rows, VOCABULARY, regions=regions)


def test_files(tmp_path):
    path = tmp_path / "items.csv"
    path.write_text('Sentence,,a,a,\n"w1, w2",1,2,3,4\n\nw3,,,,\n')
    rows = read_stimuli(path)
    assert rows == [
        {"Sentence": "w1, w2", "column_2": "1", "a": "2", "a_4": "3"}
        | {"column_5": "4"},
        dict.fromkeys(["Sentence", "column_2", "a", "a_4", "column_5"], "")
        | {"Sentence": "w3"},
    ]
    with pytest.raises(ValueError, match="Expected .csv, .tsv"):
        (tmp_path / "items.txt").write_text("w1")
        read_stimuli(tmp_path / "items.txt")


def test_the_garden_paths_of_sap():
    """The file gives the position of the disambiguating word, which both
    versions contain."""
    rows = read_stimuli(shared_data("sap", "items_ClassicGP.csv"))
    assert len(rows) == 72
    model = shared("lstm", "none")
    words = [
        stimulus_surprisal(
            model, rows, VOCABULARY, sentence=sentence, regions=position
        ).regions()["words"]
        for sentence, position in (
            ("ambiguous", "disambPositionAmb"),
            ("unambiguous", "disambPositionUnamb"),
        )
    ]
    assert words[0][0] == "deserved"
    assert words[0] == words[1]

"""Tests formulas on examples, and regions against sums over tokens."""

import copy
import csv
import json
import math
import re

import numpy as np
import pytest
from corpus_files import shared_data
from corpus_files import suite
from hypothesis import given
from hypothesis import strategies as st
from language_models import VOCABULARY
from language_models import Preferring
from language_models import counted
from language_models import shared
from language_models import summed

from memlm_keras.linguistics import Formula
from memlm_keras.linguistics import read_suites
from memlm_keras.linguistics import suite_results
from memlm_keras.linguistics.minimal_pairs import read_published

# === Formulas ===

SUMS = {("a", 1): 1.0, ("a", 2): 2.0, ("b_x-y", 1): 4.0, ("b_x-y", 12): 8.0}


@pytest.mark.parametrize(
    "text, expected",
    [
        ("(1;%a%)>(2;%a%)", False),
        ("(*;%a%) = 3.0009", True),
        ("(*;%a%) = 3.0011", False),
        ("1000000 = 1000009", True),
        ("(1;%a%) - (2;%a%) < -0.5", True),
        ("(1;%a%) < 2 & (2;%a%) < 3 & (1;%b_x-y%) < 4", False),
        ("((1;%a%) > 2) | ((2;%a%) < 3 & (1;%a%) < 3)", True),
        ("( 1 ; %a% ) < ( 2;%a%)", True),
    ],
)
def test_formulas(text, expected):
    assert Formula(text)(SUMS) is expected


@pytest.mark.parametrize(
    "text, message",
    [
        ("", "character 1: its end is wrong: invalid syntax"),
        ("[(1;%a%) < 3", "error at character 1: .*was never closed"),
        ("(1;%a%) < 3]", "character 12: ']' is wrong: unmatched ']'"),
        ("(1;%a%) < 3 < 4", "character 1: .* is not expected"),
        ("+3 < 4", r"character 1: '\+3' is not expected"),
        ("() < 4", r"character 1: '\(\)' is not expected"),
        ("(1;%a%) * 3 < 4", r"character 9: '\*' does not belong"),
        ("__import__('os')", "character 1: .* does not belong"),
        ("[1 < 2] < 3", "character 2: '1' must be a number"),
        ("1 < 2 & 3", "character 9: '3' must compare numbers"),
        ("1 < 2 & 2 < 3 | 3 < 4", "character 1: '1' needs brackets"),
        ("(1;%a%) + 3", "must compare numbers with <, > or ="),
    ],
)
def test_formulas_with_errors(text, message):
    with pytest.raises(ValueError, match=message) as error:
        Formula(text)
    assert "\n" not in str(error.value)


numbers = st.sampled_from(
    ["(1;%a%)", "(2;%a%)", "(*;%a%)", "(1;%b_x-y%)", "(12;%b_x-y%)", "2", "0.5"]
)
sums = st.recursive(
    numbers,
    lambda inner: st.builds(
        lambda *parts: f"[{' '.join(parts)}]",
        inner,
        st.sampled_from("+-"),
        inner,
    ),
    max_leaves=4,
) | st.builds(
    lambda parts, signs: "".join(map("".join, zip(["", *signs], parts))),
    st.lists(numbers, min_size=4, max_size=4),
    st.lists(st.sampled_from("+-"), min_size=3, max_size=3),
)
comparisons = st.builds(
    lambda *parts: " ".join(parts), sums, st.sampled_from("<>="), sums
)
formulas = st.recursive(
    comparisons,
    lambda inner: st.builds(
        lambda left, symbol, right: f"[{left}] {symbol}[{right}]",
        inner,
        st.sampled_from("&|"),
        inner,
    ),
    max_leaves=5,
)


@given(formulas)
def test_any_formula_is_what_python_computes(text):
    def value(match):
        region, condition = match.groups()
        return str(
            sum(
                each
                for (name, number), each in SUMS.items()
                if name == condition and region in ("*", str(number))
            )
        )

    python = re.sub(r"\((\d+|\*);%([^%]*)%\)", value, text)
    python = python.replace("[", "(").replace("]", ")").replace("=", "==")
    python = python.replace("&", " and ").replace("|", " or ")
    # All numbers are multiples of 1/2, so `=` is exact.
    assert Formula(text)(SUMS) == eval(python)


def test_ties_of_formulas():
    tie = Formula("(1;%a%) + (2;%a%) < 3 | (1;%a%) < 3")
    assert tie(SUMS) and tie.has_tie(SUMS)
    assert not Formula("(*;%a%) = 3 & (1;%a%) < 3").has_tie(SUMS)


# === Suites ===


def write(folder, content, name="mine.json"):
    path = folder / name
    path.write_text(json.dumps(content))
    return path


@pytest.mark.backend
@pytest.mark.parametrize("make", [shared, counted])
def test_regions_are_sums_over_their_tokens(make, tmp_path):
    model = make()
    suites = read_suites(write(tmp_path, suite()))
    results = suite_results(model, suites, VOCABULARY, verbose=0)
    found = iter(results.regions)
    for item in suite()["items"]:
        sums = {}
        for condition in item["conditions"]:
            text, name = "", condition["condition_name"]
            for region in condition["regions"]:
                begin = len(text.split())
                text += f" {region['content']}"
                bits = -summed(model, text, begin=begin) / np.log(2)
                one = next(found)
                assert one["content"] == region["content"]
                assert one["surprisal_bits"] == pytest.approx(bits, abs=1e-4)
                sums[name, region["region_number"]] = bits
        number = item["item_number"]
        (result,) = [one for one in results.items if one["item"] == number]
        whole = sum(v for (name, _), v in sums.items() if name == "same")
        verb = sums["same", 2] < sums["other", 2]
        assert result["predictions"] == (verb, whole > sums["other", 4])
        assert result["unknown"] == (number == 2)
    assert next(found, None) is None


def test_accuracies_and_the_table(tmp_path):
    first = suite()
    # The unknown word makes a tie in the second item, which counts as wrong.
    other = suite("mine", circuit="My circuit")
    other["predictions"] = other["predictions"][1:]
    folder = tmp_path / "suites"
    folder.mkdir()
    write(folder, first, "a.json")
    write(folder, other, "b.json")
    (folder / "results.csv").write_text("not read")
    results = suite_results(Preferring(), read_suites(folder), verbose=0)
    a, b = results.by("suite").values()
    assert (a.items, a.accuracy, a.ties, a.unknown) == (2, 0.5, 1, 1)
    assert (b.items, b.accuracy, b.ties, b.unknown) == (2, 1.0, 0, 1)
    assert list(results.by("circuit")) == ["Agreement", "My circuit"]
    paradigms = {"Agreement": {"number_mine"}, "My circuit": {"mine"}}
    assert results.paradigms("circuit") == paradigms
    assert results.accuracy.accuracy == 0.75
    assert results.accuracy.suites == 2
    results.write(tmp_path / "regions.tsv")
    with open(tmp_path / "regions.tsv", newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t"))
    assert len(rows) == 2 * 2 * 2 * 4
    names = "suite circuit item condition region region_name content "
    names += "surprisal_bits unknown correct"
    bits = f"{5 / math.log(2):.6f}"
    values = f"number_mine,Agreement,1,same,2,verb,w3,{bits},,1"
    assert rows[1] == dict(zip(names.split(), values.split(","), strict=True))


def test_suites_of_one_name_are_apart(tmp_path):
    for name in ("a.json", "b.json"):
        write(tmp_path, suite(), name)
    suites = read_suites(tmp_path)
    names = [each.name for each in suites]
    assert names == ["number_mine (a)", "number_mine (b)"]
    with pytest.raises(ValueError, match="must have different names"):
        suite_results(Preferring(), [suites[0], suites[0]], verbose=0)


@pytest.mark.parametrize(
    "change, message",
    [
        (("predictions", 0, "formula", "(5;%same%) < 3"), "names no region"),
        (("predictions", 0, "formula", "(1;%none%) < 3"), "no condition of it"),
        (("predictions", 0, "formula", "(1;%same%) <"), "at character 13"),
        (("predictions", []), "must have items and predictions"),
        (("meta", "metric", "mean"), "metric='mean'"),
        (("meta", {}), "not a SyntaxGym suite, with meta"),
        (("items", 0, "conditions", 0, {}), "not a SyntaxGym suite"),
        (("items", 1, "item_number", 1), "mine.json: item 1 occurs twice"),
        (
            ("items", 0, "conditions", 1, "condition_name", "same"),
            "item 1: condition same occurs twice",
        ),
        (
            ("items", 0, "conditions", 0, "regions", 1, "content", None),
            "mine.json: item 1: the content of region 2 of same",
        ),
    ],
)
def test_suites_that_are_wrong(change, message, tmp_path):
    content = copy.deepcopy(suite())
    *path, last, value = change
    part = content
    for name in path:
        part = part[name]
    part[last] = value
    with pytest.raises(ValueError, match=message) as error:
        read_suites(write(tmp_path, content))
    assert "mine.json" in str(error.value)
    assert "\n" not in str(error.value)


def test_files_that_are_wrong(tmp_path):
    for content in ("", [1]):
        with pytest.raises(ValueError, match="mine.json"):
            read_suites(write(tmp_path, content))
    with pytest.raises(ValueError, match="`suites` must hold a suite"):
        suite_results(Preferring(), [])


# === The suites of Hu et al. (2020) ===


def test_the_suites_of_hu_et_al():
    suites = read_suites(shared_data("syntaxgym", "suites.zip"))
    assert len(suites) == 34
    circuits = [each.circuit for each in suites]
    assert {name: circuits.count(name) for name in sorted(set(circuits))} == {
        "Agreement": 3,
        "Center Embedding": 2,
        "Garden-Path Effects": 6,
        "Gross Syntactic State": 4,
        "Licensing": 10,
        "Long-Distance Dependencies": 8,
        "other": 1,
    }
    published = read_published(shared_data("syntaxgym", "results_gpt2.csv"))
    (accuracies,) = published.values()
    assert set(accuracies) >= {s.name for s in suites if s.circuit != "other"}
    results = suite_results(Preferring(), suites, VOCABULARY, verbose=0)
    assert len(results) == sum(len(each.items) for each in suites)

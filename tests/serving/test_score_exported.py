import math
import re

import pytest
from told import ROOT
from told import python

pytestmark = [pytest.mark.backend("tensorflow"), pytest.mark.slow]

RECIPE = ROOT / "recipes" / "score_exported.py"


def test_sentences_from_standard_input(saved_model, responses, texts):
    lines = f"{texts[0]}\n{texts[2]}\n"
    told = python("-I", RECIPE, saved_model, typed=lines)
    first, second, overall = told.out.strip().split("\n\n")
    *words, summary = first.splitlines()
    read = ["word_0", "word_7", "N", "word_3", "(end"]
    assert [word.split()[0] for word in words] == read
    assert [float(word.split()[-1]) for word in words] == pytest.approx(
        responses["score/log_probabilities"][0, :5].tolist(), abs=1e-4
    )
    totals = responses["score/log_probability"][[0, 2]].tolist()
    wholes = ((totals[0], 5, summary), (sum(totals), 8, overall))
    for total, length, text in wholes:
        numbers = [*map(float, re.findall(r"-?\d+\.?\d*", text)[-3:])]
        expected = [total, length, math.exp(-total / length)]
        assert numbers == pytest.approx(expected, rel=1e-3)


def test_pieces_of_words_need_tensorflow_text(tmp_path):
    """Without tensorflow_text, the program prints one line with the package to
    install."""
    (tmp_path / "saved_model.pb").write_bytes(b"... SentencepieceOp ...")
    program = (
        "import runpy, sys; sys.modules['tensorflow_text'] = None; "
        f"sys.argv = ['x', {str(tmp_path)!r}, 'a']; "
        f"runpy.run_path({str(RECIPE)!r}, run_name='__main__')"
    )
    told = python("-I", "-c", program, status=1)
    assert "pip install tensorflow-text" in told.out + told.err
    assert "Traceback" not in told.err


@pytest.mark.parametrize(
    "arguments, message",
    [
        ([], "Give the folder of an exported model"),
        (["{folder}/0", "a"], "holds no saved_model.pb."),
        (["{folder}", "a"], "Try: {folder}/1"),
    ],
)
def test_bad_arguments(arguments, message, saved_model):
    folder = saved_model.parent
    typed = (text.format(folder=folder) for text in arguments)
    told = python("-I", RECIPE, *typed, typed="", status=1)
    text = re.sub(r"\s+", "", told.out + told.err)
    assert re.sub(r"\s+", "", message.format(folder=folder)) in text

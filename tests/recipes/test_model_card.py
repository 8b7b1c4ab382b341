"""Tests trained models made from run folders, and a clone's models of
papers."""

import re

import pytest
from corpus_files import shared_data
from corpus_files import write_sick
from corpus_files import write_splits
from told import ROOT

import memlm_keras as memlm
import model_card
from memlm_keras import trained

ON_SICK = ["--dataset=sick", "--data_dir=sick"]
KVP = "daniluk2017/key_value_predict_786_ptb"
PTB, SICK = "tran2016/rm_tm_gated_ptb", "weissenborn2016/am_gru_shared_sick"


@pytest.fixture
def call(memlm_command):
    """`call(*arguments)`: runs a command, which succeeds; returns its
    output."""

    def call(*arguments):
        told = memlm_command(*arguments)
        assert told.status == 0, told.err
        return told.out

    return call


def number(printed):
    """Returns the measurement of the test text from a command's output."""
    return re.search(r"test: \w+ ([0-9.]+)", printed)[1]


@pytest.mark.parametrize(
    "row, text",
    [
        ("tran2016/rm_tm_gated", ["--dataset=text"]),
        ("weissenborn2016/am_gru_shared", ON_SICK),
    ],
)
def test_a_run_and_its_trained_model_have_one_number(
    row, text, call, tmp_path, monkeypatch
):
    write_splits(tmp_path / "text")
    write_sick(tmp_path / "sick")
    monkeypatch.setitem(model_card.TEXTS, "text", ("a text", "free"))
    call("train", row, *text, "--scale=0.1", "--epochs=1", "--verbose=0")
    (run,) = (tmp_path / "runs").iterdir()
    name = f"{row}_small"
    model_card.main([str(run), str(tmp_path / "presets" / name), "float32"])
    monkeypatch.setenv("MEMLM_PRESETS", "presets")
    expected = number(call("evaluate", run))
    assert number(call("evaluate", name, *text)) == expected
    # Without an argument, the command uses the text named in the metadata.
    assert number(call("evaluate", name, *text[1:])) == expected
    metadata = trained.read_metadata(trained.find(name))
    recipe = {"dataset": text[0].partition("=")[2], "seed": 0, "scale": 0.1}
    assert metadata["experiment"] == {"preset": row, **recipe}
    assert str(tmp_path) not in str(metadata)
    assert metadata["card"]["command"].startswith(f"memlm train {row}")
    if "tran" in row:
        call("evaluate", name, "--cache_size=3", "--verbose=0")
        call("evaluate", name, run, "--by=recency", "--verbose=0")
    else:
        accuracy = metadata["card"]["accuracy"]
        assert f"MB, accuracy {accuracy:.2f}, SICK" in call("presets", name)


@pytest.mark.slow
@pytest.mark.parametrize("name", [KVP, PTB, SICK])
def test_trained_rows_have_the_number_of_their_page(name, call):
    dataset = name.rpartition("_")[2]
    text = f"--dataset={dataset}", f"--data_dir={shared_data(dataset)}"
    found = float(number(call("evaluate", name, *text, "--verbose=0")))
    card = trained.read_metadata(trained.find(name))["card"]
    measure = "accuracy" if dataset == "sick" else "perplexity"
    assert found == pytest.approx(card[measure], rel=2e-4)
    # Storing matrices as int8 changes the measurement by less than 0.1%.
    assert found == pytest.approx(card[f"{measure} before storing"], rel=1e-3)
    text = (ROOT / f"docs/results/{name.split('/')[0]}.md").read_text("utf-8")
    printed = re.search(rf"`{name}`\s+has\s+the\s+{measure}\s+(\d+\.\d+)", text)
    assert found == pytest.approx(float(printed[1]), rel=2e-4)


@pytest.mark.parametrize("name", [KVP, PTB, SICK])
def test_a_row_of_a_paper_with_its_weights(name):
    metadata = trained.read_metadata(trained.find(name))
    row = metadata["experiment"]["preset"]
    assert name.startswith(f"{row}_") and row in memlm.presets.names()
    assert name in memlm.presets.trained_names()
    cls = getattr(memlm, metadata["kind"])
    model = cls.from_preset(name)
    assert model.count_params() == metadata["parameters"]
    fresh = cls.from_config({**model.get_config(), "name": "fresh"})
    assert fresh.count_params() == model.count_params()
    if name != SICK:
        texts = ["the company said it expects a net loss for the year"]
        assert model.score(texts)[0].sum() > fresh.score(texts)[0].sum() + 30
    else:
        odds = model.classify("a man is eating", "a man is not eating")
        assert max(odds, key=odds.get) == "contradiction"

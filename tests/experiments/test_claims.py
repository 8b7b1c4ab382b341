"""Claims: what is compared, how it is decided, and the document."""

import dataclasses
import re
import shutil

import numpy as np
import pytest

from memlm_keras import __version__
from memlm_keras import presets
from memlm_keras.experiments import claim_logs
from memlm_keras.experiments import claim_report
from memlm_keras.experiments import claim_runs
from memlm_keras.experiments import claims
from memlm_keras.experiments.claim_settings import SETTINGS
from memlm_keras.experiments.claims import Claim
from memlm_keras.experiments.claims import Difference
from memlm_keras.experiments.claims import Losses
from memlm_keras.experiments.claims import Setting
from memlm_keras.experiments.claims_of_papers import CLAIMS
from memlm_keras.experiments.run_folder import RunFolder

BETTER = Claim("better", "daniluk2017", "here", "It is.", "1 against 2")
EQUAL = dataclasses.replace(BETTER, margin=0.02)


@pytest.mark.parametrize(
    "claim, low, high, seeds, expected",
    [
        (BETTER, 0.01, 0.05, 3, claims.HOLDS),
        (BETTER, -0.01, 0.05, 3, claims.NOT_DECIDED),
        (BETTER, -0.05, -0.01, 3, claims.DOES_NOT_HOLD),
        (BETTER, -0.05, 0.001, 3, claims.DOES_NOT_HOLD),
        (BETTER, 0.01, 0.05, 2, claims.NOT_DECIDED),
        (EQUAL, -0.01, 0.015, 3, claims.HOLDS),
        (EQUAL, -0.01, 0.03, 3, claims.NOT_DECIDED),
        (EQUAL, 0.03, 0.05, 3, claims.DOES_NOT_HOLD),
        (EQUAL, -0.05, -0.03, 3, claims.DOES_NOT_HOLD),
    ],
)
def test_verdicts(claim, low, high, seeds, expected):
    found = Difference((low + high) / 2, low, high, seeds)
    assert claims.verdict(claim, found, 3) == expected


def test_nothing_decides_nothing():
    assert claims.verdict(BETTER, None, 1) == claims.NOT_DECIDED


def losses_of(random, mean, seeds, spread=0.0, sentences=400):
    counts = np.random.default_rng(9).integers(3, 30, sentences)
    hardness = np.random.default_rng(8).normal(0, 1, sentences)
    by_seed = random.normal(mean, spread, (seeds, 1))
    noise = random.normal(0, 0.02, (seeds, sentences))
    return Losses((by_seed + hardness + noise) * counts, counts)


def test_hard_sentences_are_hard_for_both(random):
    """Their spread, of one nat, does not widen a paired interval."""
    found = claims.difference(
        losses_of(random, 4.0, 3), losses_of(random, 4.1, 3)
    )
    assert found.mean == pytest.approx(0.1, abs=0.01)
    assert found.low < found.mean < found.high
    assert found.high - found.low < 0.02
    assert found.seeds == 3


def test_seeds_widen_the_interval(random):
    alike = claims.difference(
        losses_of(random, 4.0, 4), losses_of(random, 4.1, 3)
    )
    apart = claims.difference(
        losses_of(random, 4.0, 4, 0.2), losses_of(random, 4.1, 3, 0.2)
    )
    assert apart.high - apart.low > 5 * (alike.high - alike.low)
    assert alike.seeds == 3


def test_95_of_100_intervals_hold_what_is_so(random):
    """Of sentences; seeds as few as ours make intervals too narrow."""
    inside = 0
    for _ in range(60):
        counts = np.ones(80, "int64")
        good = Losses(random.normal(1.0, 0.5, (1, 80)), counts)
        poor = Losses(random.normal(1.3, 0.5, (1, 80)), counts)
        found = claims.difference(good, poor)
        inside += found.low < 0.3 < found.high
    assert 51 <= inside <= 60


def test_texts_must_be_the_same(random):
    with pytest.raises(ValueError, match="must be of the same sentences"):
        claims.difference(
            losses_of(random, 4.0, 2), losses_of(random, 4.0, 2, sentences=9)
        )


# === The papers' ===


def test_claims_name_models_and_settings_that_there_are():
    names = [(claim.paper, claim.name) for claim in CLAIMS]
    assert len(names) == len(set(names))
    assert {paper for paper, _ in names} == {
        "daniluk2017",
        "tran2016",
        "salton2017",
        "weissenborn2016",
        "kong2019",
    }
    for claim in CLAIMS:
        told = [bool(x) for x in (claim.settings, claim.missing, claim.seen)]
        assert sum(told) == 1
    assert {name for c in CLAIMS for name in c.settings} == set(SETTINGS)


@pytest.mark.parametrize("size", ["small", "paper"])
def test_each_model_can_be_trained_by_what_is_printed(size):
    folders = {}
    for key, model in claim_runs.models_of(CLAIMS, size).items():
        assert model.paper in presets.papers()
        for seed in range(2):
            run = model.run(seed)
            assert run.command.startswith(f"memlm train {model.paper}/")
            assert f"--seed={seed}" in run.command
            folders.setdefault(run.folder, set()).add((model.text, key[0]))
    # Settings may share a run, and models may not.
    for which in folders.values():
        assert len({text for text, _ in which}) == 1


def test_the_document_has_each_claim_and_its_verdict(tmp_path, random):
    models = claim_runs.models_of(CLAIMS)
    losses = dict.fromkeys(models)
    key = "kong2019_little_text"
    losses[key, "dn_kneser_ney_512"] = losses_of(random, 4.0, 3, 0.001)
    losses[key, "vanilla_tied_512"] = losses_of(random, 4.2, 3, 0.001)
    path = tmp_path / "claims.md"
    claim_report.write(path, models, losses, "small", "memlm claims")
    text = path.read_text()
    for claim in CLAIMS:
        assert claim.statement in text and claim.published in text
        assert claim.missing in text and claim.seen in text
    (line,) = [row for row in text.splitlines() if "| *holds* |" in row]
    assert re.search(r"dn_kneser_ney_512 \d+\.\d ± \d\.\d, vanilla", line)
    percent = float(re.search(r"\| (\d+\.\d) \(", line)[1])
    assert percent == pytest.approx(100 * (1 - np.exp(-0.2)), abs=1.0)
    for model in models.values():
        assert model.run(0).command in text


# === The command ===


@pytest.fixture
def small(monkeypatch):
    """Two claims, of models that a few seconds train."""
    texts = Setting(
        "texts",
        "A small text",
        "--dataset=text --scale=0.02 --batch_size=4 --epochs=1 --rate=0.1",
        "--dataset=text",
        seeds=1,
    )
    pairs = Setting(
        "pairs", "Pairs", "--dataset=embedded --units=4 --epochs=1", "", 1
    )
    two = (
        Claim(
            "noise",
            "kong2019",
            "Table",
            "Noise helps",
            "1 against 2",
            ("texts",),
            "dn_linear_512",
            "vanilla_tied_512",
        ),
        Claim(
            "gru",
            "weissenborn2016",
            "Table",
            "A GRU reads",
            "1 against 2",
            ("pairs",),
            "gru_shared",
            "lstm_shared",
        ),
    )
    settings = {"texts": texts, "pairs": pairs}
    for module in (claim_runs, claim_report):
        monkeypatch.setattr(module, "CLAIMS", two)
        monkeypatch.setattr(module, "SETTINGS", settings)


def test_runs_are_trained_kept_and_not_trained_again(memlm, folder, small):
    told = memlm("claims", "kong2019", "--queue")
    assert told.status == 0, told.err
    assert "2 of 2 runs are to come" in told.out
    # The rate is of no use to a model without noise.
    vanilla = next(x for x in told.out.splitlines() if "vanilla" in x)
    assert "--rate" not in vanilla and "--scale=0.02" in vanilla
    told = memlm("claims", "kong2019", "--jobs=2")
    assert told.status == 0, told.err
    assert "1/2 memlm train" in told.out and "2/2 memlm train" in told.out
    logs = list((folder / "claims" / "logs" / "small").iterdir())
    assert len(logs) == 2
    for log in logs:
        found = np.loadtxt(log / "test_losses.csv", delimiter=",")
        results = (log / "results.json").read_text()
        assert found[:, 1].sum() > 0 and '"perplexity"' in results
        assert f'"memlm_keras": "{__version__}' in results
        assert (log / "log.csv").read_text().startswith("epoch,")
    document = (folder / "claims" / "claims.md").read_text()
    assert "| 1 |" in document and "A GRU reads" in document
    assert "| 0 of 1 |" in document and "2 of 2 runs are fin" in document
    assert (
        "0 of 2 runs are to come" in memlm("claims", "kong2019", "--queue").out
    )
    # Seeds that are kept beyond those asked for count.
    for log in logs:
        more = log.with_name(log.name.replace("seed0", "seed2"))
        shutil.copytree(log, more)
    assert memlm("claims", "--finished_only").status == 0
    document = (folder / "claims" / "claims.md").read_text()
    assert "| 2 |" in document and "2 of 2 runs are fin" in document


def test_pairs_are_counted_as_they_are_told(memlm, folder, small):
    told = memlm("train", "gru_shared", "--dataset=embedded", "--units=4",
                 "--epochs=1", "--verbose=0")  # fmt: skip
    assert told.status == 0, told.err
    (run,) = (folder / "runs").iterdir()
    claim_logs.keep(run, folder / "kept")
    found = np.loadtxt(folder / "kept" / "test_losses.csv", delimiter=",")
    accuracy = RunFolder(run).results()["test"]["accuracy"]
    assert 100 * (1 - found[:, 0].mean()) == pytest.approx(accuracy, abs=1e-3)


def test_time_that_is_over_interrupts(memlm, small):
    told = memlm("claims", "--minutes=0")
    assert told.status == 0, told.err
    assert "The time is over" in told.out
    assert "See claims/claims.md" in told.out


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["kong"], "There is no claim kong."),
        (["kong2018"], "There is no claim kong2018. Did you mean kong2019?"),
        (["kong2019/nois"], "Did you mean kong2019/noise? Claims are all of"),
        (["kong2019", "nothing"], "or one: kong2019/noise, weissenborn2016/g"),
        (["--setting=text"], "no setting text. Did you mean texts?"),
        (["kong2019", "--setting=pairs"], "Settings that do: texts."),
        (["--finished_only"], "Give one of them."),
    ],
)
def test_what_cannot_be_asked_is_told(memlm, small, arguments, message):
    told = memlm("claims", *arguments, "--queue")
    assert told.status == 2 and message in told.err


@pytest.mark.parametrize("name", ["kong2019", "kong2019/noise"])
def test_claims_are_asked_for_by_paper_or_by_name(memlm, small, name):
    told = memlm("claims", name, "--queue")
    assert told.status == 0 and "2 of 2 runs are to come" in told.out


def test_a_corpus_that_cannot_be_read_ends_it(memlm, folder, small):
    (folder / "text").rename(folder / "elsewhere")
    told = memlm("claims", "kong2019", "--jobs=2")
    assert told.status == 2 and "folder or corpus text" in told.err
    assert not (folder / "claims").exists()


def test_no_finished_run_is_told(memlm, folder, small):
    told = memlm("claims", "--finished_only")
    assert told.status == 0, told.err
    assert "None of 4 runs is finished in claims/logs/small" in told.out
    assert "--out=docs/results" in told.out
    document = (folder / "claims" / "claims.md").read_text()
    assert document.count("*not run*") == 2

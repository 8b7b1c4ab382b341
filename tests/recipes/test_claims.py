"""Tests the claims: comparisons, decisions and the page."""

import dataclasses
import re
import shlex

import numpy as np
import pytest
from absl import flags
from absl.testing import flagsaver
from corpus_files import write_sick
from scipy import stats
from told import ROOT

import claim_runs
import logs
import paper_claims
import programs
import verdicts
from memlm_keras import __version__
from memlm_keras import presets
from memlm_keras.experiments import command_line
from memlm_keras.experiments.run_folder import RunFolder
from paper_claims import CLAIMS
from paper_claims import SETTINGS
from paper_claims import Claim
from paper_claims import Setting
from verdicts import Difference
from verdicts import Losses

BETTER = Claim("better")
EQUAL = dataclasses.replace(BETTER, margin=0.02)


@pytest.mark.parametrize(
    "claim, low, high, expected",
    [
        (BETTER, 0.01, 0.05, verdicts.HOLDS),
        (BETTER, -0.01, 0.05, verdicts.NOT_DECIDED),
        (BETTER, -0.05, -0.01, verdicts.DOES_NOT_HOLD),
        (BETTER, -0.05, 0.001, verdicts.DOES_NOT_HOLD),
        (EQUAL, -0.01, 0.015, verdicts.HOLDS),
        (EQUAL, -0.01, 0.03, verdicts.NOT_DECIDED),
        (EQUAL, 0.03, 0.05, verdicts.DOES_NOT_HOLD),
        (EQUAL, -0.05, -0.03, verdicts.DOES_NOT_HOLD),
    ],
)
def test_verdicts(claim, low, high, expected):
    assert verdicts.verdict(claim, low, high) == expected


def test_several_claims_need_wider_intervals():
    """By Holm's correction, t must be 2.0 for one claim, and 2.4 for three."""
    seen = Difference(0.22, 9, seed_error=0.1, freedom=1000.0)
    sure = dataclasses.replace(seen, mean=0.35)
    far = dataclasses.replace(seen, mean=9.0)
    few = dataclasses.replace(far, seeds=2)

    def decided(*found):
        return verdicts.verdicts([(BETTER, each, 3) for each in found])

    assert decided(seen) == [verdicts.HOLDS]
    # Claims with too few seeds or no runs are not decided, and do not change
    # the correction.
    nothing = [verdicts.NOT_DECIDED] * 2
    assert decided(few, None, seen) == [*nothing, verdicts.HOLDS]
    assert decided(seen, seen, seen) == [verdicts.NOT_DECIDED] * 3
    # Each decided claim makes the intervals of undecided claims narrower.
    assert decided(far, seen, far) == [verdicts.HOLDS] * 3
    assert decided(*[sure] * 200) == [verdicts.NOT_DECIDED] * 200


def losses_of(random, mean, seeds, spread=0.0, sentences=400):
    counts = np.random.default_rng(9).integers(3, 30, sentences)
    hardness = np.random.default_rng(8).normal(0, 1, sentences)
    by_seed = random.normal(mean, spread, (seeds, 1))
    noise = random.normal(0, 0.02, (seeds, sentences))
    return Losses((by_seed + hardness + noise) * counts, counts)


def test_hard_sentences_are_hard_for_both(random):
    better, than = losses_of(random, 4.0, 3), losses_of(random, 4.1, 3)
    found = verdicts.difference(better, than)
    low, high = found.interval()
    assert found.mean == pytest.approx(0.1, abs=0.01)
    assert low < found.mean < high
    assert high - low < 0.02
    assert found.seeds == 3


def test_an_interval_of_seeds_is_welchs(random):
    better = losses_of(random, 4.0, 4, 0.2)
    than = losses_of(random, 4.1, 3, 0.05)
    found = verdicts.difference(better, than)
    assert found.seeds == 3
    found = dataclasses.replace(found, sentence_error=0.0)
    expected = stats.ttest_ind(than.by_seed, better.by_seed, equal_var=False)
    np.testing.assert_allclose(
        found.interval(), expected.confidence_interval(0.95), rtol=1e-3
    )


@pytest.mark.parametrize("spread", [0.0, 0.05, 0.5])
@pytest.mark.parametrize("seeds", [2, 3, 5])
def test_95_of_100_intervals_hold_the_true_difference(seeds, spread, random):
    inside = 0
    for _ in range(300):
        counts = np.ones(60, "int64")
        sides = []
        for mean in (1.0, 1.3):
            by_seed = random.normal(mean, spread, (seeds, 1))
            noise = random.normal(0, 0.5, (seeds, 60))
            sides.append(Losses(by_seed + noise, counts))
        low, high = verdicts.difference(*sides).interval()
        inside += low < 0.3 < high
    # The limit is 95% of the repetitions minus two standard deviations.
    assert inside >= 277


def test_one_seed_has_no_interval(random):
    one = losses_of(random, 4.0, 1)
    found = verdicts.difference(one, losses_of(random, 9.0, 3))
    assert found.interval() == (-np.inf, np.inf)
    assert verdicts.verdicts([(BETTER, found, 1)]) == [verdicts.NOT_DECIDED]


def test_texts_must_be_the_same(random):
    few = losses_of(random, 4.0, 2, sentences=9)
    with pytest.raises(ValueError, match="losses of the same sentences"):
        verdicts.difference(losses_of(random, 4.0, 2), few)


# === Claims about the papers ===


def test_claims_name_models_and_settings_that_there_are():
    names = [(claim.paper, claim.name) for claim in CLAIMS]
    assert len(names) == len(set(names))
    papers = "daniluk2017 kong2019 salton2017 tran2016 weissenborn2016"
    assert sorted({paper for paper, _ in names}) == papers.split()
    for claim in CLAIMS:
        outcomes = (claim.models, claim.missing, claim.seen)
        assert sum(map(bool, outcomes)) == 1
        assert len(claim.models) in (0, 2)
        assert bool(claim.statement) != bool(claim.models)
    assert {name for c in CLAIMS for name in c.settings} == set(SETTINGS)


@pytest.mark.parametrize("size, count", [("small", 33), ("paper", 42)])
def test_each_claim_has_models_of_both_sizes(size, count):
    models = claim_runs.models_of(CLAIMS, size)
    assert len(models) == count
    for claim in filter(lambda claim: claim.models, CLAIMS):
        for label in claim_runs.labels(claim):
            assert any((name, label) in models for name in claim.settings)


def test_each_model_can_be_trained_by_what_is_printed():
    folders = {}
    for (_, label), model in claim_runs.models_of(CLAIMS).items():
        paper = model.preset.partition("/")[0]
        assert paper in presets.papers()
        for seed in range(2):
            run = model.run(seed, "kept")
            assert run.title.startswith(f"memlm train {paper}/")
            assert f"--seed={seed}" in run.title
            folders.setdefault(run.folder, set()).add(label)
    # Settings may share a run, but models may not.
    assert all(len(which) == 1 for which in folders.values())


def test_the_document_has_each_claim_and_its_verdict(tmp_path, random):
    losses = dict.fromkeys(claim_runs.models_of(CLAIMS))
    key = "kong2019_little_text"
    losses[key, "dn_kneser_ney_512"] = losses_of(random, 4.0, 3, 0.001)
    losses[key, "vanilla_tied_512"] = losses_of(random, 4.2, 3, 0.001)
    losses["tran2016", "rm_tm_gated"] = losses_of(random, 4.0, 3)
    path = tmp_path / "claims.md"
    verdicts.write(path, losses, "python recipes/claims.py")
    text = path.read_text()
    for claim in CLAIMS:
        assert f"`{claim.name}`: {claim.statement}" in text
        for preset, number in claim.models:
            assert preset in text and number in text
        assert claim.missing in text and claim.seen in text
    (line,) = [row for row in text.splitlines() if "|*holds*|" in row]
    assert re.search(r"\|70.7, 74.0\|\d+\.\d±\d\.\d, \d+\.\d±\d\.\d\|", line)
    percent = float(re.search(r"\|(\d+\.\d) \(", line)[1])
    assert percent == pytest.approx(100 * (1 - np.exp(-0.2)), abs=1.0)
    # With runs of only one of two models, a claim counts as not run.
    (line,) = [row for row in text.splitlines() if "`gates`" in row]
    assert "better than rm_tm_linear|" in line and line.endswith("|*not run*|")
    # A claim without runs is reported as not run.
    for claim in filter(lambda claim: claim.missing, CLAIMS):
        (line,) = [row for row in text.splitlines() if claim.missing in row]
        assert "*not run*" in line


# === The command ===


@pytest.fixture
def claims(program, folder, told):
    """`claims(*arguments)`: runs the program in this process; returns its
    status and output."""
    main = program("claims").main

    @flagsaver.flagsaver
    def call(*arguments):
        return programs.call(main, ["claims.py", *arguments])

    return lambda *arguments: told(call, *arguments)


@pytest.fixture
def small(monkeypatch):
    """Defines two claims about models that train in a few seconds."""
    sizes = {"scale": 0.02, "batch_size": 4, "epochs": 1, "rate": 0.1}
    of_pairs = {"units": 4, "epochs": 1}
    settings = {
        "texts": Setting("A small text", "text", sizes, "small", seeds=1),
        "pairs": Setting("Pairs", "embedded", of_pairs, "small", seeds=1),
    }
    noise = (("dn_linear_512", "1"), ("vanilla_tied_512", "2"))
    gru = (("gru_shared", "1"), ("lstm_shared", "2"))
    two = (
        Claim("noise", noise, paper="kong2019", settings=("texts",)),
        Claim("gru", gru, paper="weissenborn2016", settings=("pairs",)),
    )
    monkeypatch.setattr(paper_claims, "CLAIMS", two)
    monkeypatch.setattr(paper_claims, "SETTINGS", settings)


@pytest.mark.slow
def test_runs_are_trained_kept_and_not_trained_again(claims, folder, small):
    told = claims("kong2019", "--queue")
    assert told.status == 0, told.err
    assert "2 of 2 runs are missing" in told.err
    # A model without noise gets no flag `--rate`.
    vanilla = next(x for x in told.out.splitlines() if "vanilla" in x)
    assert "--rate" not in vanilla and "--scale=0.02" in vanilla
    told = claims("kong2019", "--jobs=2")
    assert told.status == 0, told.err
    assert told.out.count("1/2 memlm train") == 2
    assert "2/2 memlm train" in told.out and " in all\n" in told.out
    study = folder / "claims" / "logs" / "small.jsonl"
    kept = logs.read(study)
    assert len(kept) == 2
    for run in kept.values():
        assert run["test_losses"][:, 1].sum() > 0
        assert run["results"]["test"]["perplexity"] > 1
        assert run["results"]["memlm_keras"].startswith(__version__)
        assert run["log"]["epoch"] == [0]
    document = (folder / "claims" / "claims.md").read_text()
    assert "`noise`: dn_linear_512 better" in document and "1 seeds" in document
    assert document.count("(no interval)") == 1
    assert "`gru`: gru_shared better" in document and "|*not run*|" in document
    told = claims("kong2019", "--queue")
    assert "0 of 2 runs are missing" in told.err and not told.out
    # Seeds in the logs count even if the program did not request them.
    for name, run in kept.items():
        logs.add(study, name.replace("seed0", "seed2"), run)
    assert claims("--finished_only").status == 0
    document = (folder / "claims" / "claims.md").read_text()
    assert "(no interval)" not in document


@pytest.mark.slow
def test_pairs_are_counted_as_they_are_predicted(folder):
    write_sick(folder / "sick")
    command = ["train", "gru_shared", "--dataset=sick", "--data_dir=sick"]
    command += ["--units=4", "--epochs=1", "--verbose=0"]
    assert command_line.main(command) == 0
    (run,) = (folder / "runs").iterdir()
    logs.keep(run, "study.jsonl")
    found = logs.read("study.jsonl")[run.name]["test_losses"]
    accuracy = RunFolder(run).results()["test"]["accuracy"]
    assert 100 * (1 - found[:, 0].mean()) == pytest.approx(accuracy, abs=1e-3)


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["kong"], "There is no claim kong."),
        (["kong2018"], "There is no claim kong2018. Did you mean kong2019?"),
        (["kong2019/nois"], "Did you mean kong2019/noise? Name a paper, "),
        (["kong2019", "nothing"], "or a claim: kong2019/noise, weissenborn"),
        (["--setting=text"], "no setting text. Did you mean texts?"),
        (["kong2019", "--setting=pairs"], "Settings with runs: texts."),
        (["--finished_only"], "Give only one of"),
    ],
)
def test_what_cannot_be_asked_is_told(claims, small, arguments, message):
    told = claims(*arguments, "--queue")
    assert told.status == 2 and message in told.err


@pytest.mark.parametrize("name", ["kong2019", "kong2019/noise"])
def test_claims_are_asked_for_by_paper_or_by_name(claims, small, name):
    told = claims(name, "--queue")
    assert told.status == 0 and "2 of 2 runs are missing" in told.err
    # Each printed line is a command.
    for line in told.out.splitlines():
        program, command, *arguments = shlex.split(line)
        assert (program, command) == ("memlm", "train")
        positional, values = command_line.COMMANDS["train"].parse(arguments)
        assert positional.preset.startswith("kong2019/")
        assert values["run_dir"] == "runs" and values["epochs"] == 1


def test_a_corpus_that_cannot_be_read_ends_it(claims, folder, small):
    (folder / "text").rename(folder / "elsewhere")
    told = claims("kong2019", "--jobs=2")
    assert told.status == 2 and "folder or corpus text" in told.err
    assert not (folder / "claims").exists()


def test_no_finished_run_is_told(claims, folder, small):
    told = claims("--finished_only")
    assert told.status == 0, told.err
    assert "None of 4 runs in claims/logs is finished." in told.out
    assert "--out=docs/results" in told.out
    document = (folder / "claims" / "claims.md").read_text()
    assert document.count("*not run*") == 2


def test_commands_of_pages_can_be_typed(program):
    main, found = program("claims"), 0
    for page in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]:
        text = page.read_text(encoding="utf-8").replace("\\\n", " ")
        for line in re.findall(r"^ *python recipes/claims.py(.*)", text, re.M):
            with flagsaver.flagsaver():
                names = flags.FLAGS(["claims.py", *shlex.split(line)])[1:]
                assert main.choose(names, main.FLAGS.setting, main.FLAGS.size)
            found += 1
    assert found > 3

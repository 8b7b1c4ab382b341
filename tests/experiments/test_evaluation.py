"""Tests `memlm evaluate`, and its errors for runs without a model."""

import json
import math
import re
import shutil
import signal

import keras
import numpy as np
import pytest
from corpus_files import write_splits
from written_files import read_csv

import memlm_keras
from memlm_keras.experiments import Experiment
from memlm_keras.experiments import measurements
from memlm_keras.experiments import process
from memlm_keras.experiments.datasets import evaluation_batches
from memlm_keras.experiments.run_folder import RunFolder

from .conftest import NAME
from .conftest import results_of


def perplexity_of(told, split="test"):
    return float(re.search(rf"^{split}: perplexity (\S+)", told.out, re.M)[1])


def test_a_run_is_evaluated_on_another_text(memlm, refused, run, folder):
    before = results_of(run)
    (folder / "other.txt").write_text("sea sea saw\n" * 40)
    told = memlm("evaluate", run, "--dataset=other.txt", "--verbose=0")
    perplexity = before["test"]["perplexity"]
    assert perplexity_of(told) != pytest.approx(perplexity, rel=1e-3)
    assert results_of(run) == before
    memlm("evaluate", run / "model.keras", "--verbose=0")
    (run / "model.keras").rename(folder / "alone.keras")
    refused("Give --dataset, or name the run folder", "evaluate", "alone.keras")


def test_verbose_0_prints_results_alone(memlm, folder, few_segments):
    (folder / "mine.txt").write_text("the sea, the man.\n" * 60)
    flags = ("--dataset=mine.txt", "--verbose=0")
    for preset in ([], ["daniluk2017/lstm"]):
        told = memlm("train", *preset, *flags, "--epochs=1", "--nocompare")
        assert not told.err
        first, *results, last = told.out.splitlines()
        assert first.startswith("validation ")
        assert last.startswith("All results")
        kinds = ("test", "cache", "dynamic")
        assert all(line.startswith(kinds) for line in results)
        run = last.split()[-1]
        shutil.copy(f"{run}/model.keras", "alone.keras")
        for asked in ([run], [run, *flags], ["alone.keras", *flags]):
            told = memlm("evaluate", *asked, "--verbose=0")
            assert not told.err
            for line in told.out.splitlines():
                assert line.startswith(("validation", *kinds))


def test_a_model_without_its_run_folder(memlm, refused, run, folder):
    shutil.copy(run / "model.keras", folder / "alone.keras")
    told = memlm("evaluate", "alone.keras", "--dataset=text")
    # The output is not a terminal, so there is no progress bar.
    assert "/step" in told.out and "\r" not in told.out
    assert "it reads the text as a single stream" in told.out
    for split in ("validation", "test"):
        assert perplexity_of(told, split) == pytest.approx(
            results_of(run)[split]["perplexity"], abs=1e-3
        )
    evaluate = ("evaluate", "alone.keras", "--dataset=text")
    refused("dynamic needs a run folder", *evaluate, "--dynamic")
    refused("documents needs a corpus", *evaluate, "--documents")
    refused("no file, folder or", *evaluate[:2], "--dataset=nowhere")

    (folder / "long.txt").write_text("# 1\nthe sea\nthe man\n" * 90)
    documents = ("--dataset=long.txt", "--document_start=#", "--verbose=2")
    told = memlm(*evaluate[:2], *documents)
    assert "single stream (--documents: each document by itself)" in told.out
    one = perplexity_of(told)
    told = memlm(*evaluate[:2], *documents, "--documents")
    assert "Here it reads each document by itself" in told.out
    assert perplexity_of(told) != one


@pytest.mark.parametrize("when", ["at_once", "afterwards", "interrupted"])
@pytest.mark.backend
def test_the_last_epoch_is_measured_too(when, memlm, folder, monkeypatch):
    sizes = {"scale": 0.02, "batch_size": 4, "learning_rate": 0.3}
    flags = [f"--{name}={value}" for name, value in sizes.items()]
    flags += ["--dataset=text", "--epochs=4", "--patience=4", "--verbose=0"]
    command = ("train", "daniluk2017/lstm", *flags)
    if when == "interrupted":

        def interrupt(experiment):
            raise process.Interrupted(signal.SIGTERM)

        with monkeypatch.context() as context:
            context.setattr(Experiment, "last_model", interrupt)
            memlm(*command, "--epochs=2", "--test_last", status=143)
    told = memlm(*command, *["--test_last"] * (when != "afterwards"))
    (run,) = (folder / "runs").iterdir()
    if when == "afterwards":
        assert "last_epoch" not in results_of(run)
        told = memlm("evaluate", run, "--test_last", "--verbose=0")
    assert "last_epoch, test: perplexity" in told.out
    results = results_of(run)
    found = results["last_epoch"]
    assert results["best_epoch"] < results["epochs"] == found["epoch"] == 4

    experiment = Experiment("daniluk2017/lstm", "text", **sizes)
    keras.utils.set_random_seed(0)
    model, callbacks = experiment.make()
    batches, _ = experiment.training_batches(model)
    model.fit(batches, epochs=4, callbacks=callbacks, verbose=0)
    for split in ("validation", "test"):
        expected = memlm_keras.evaluation.perplexity(
            model, evaluation_batches(experiment, model, split), verbose=0
        )
        found = results["last_epoch"][split]["perplexity"]
        assert found == pytest.approx(expected.perplexity, rel=1e-4)
        assert found != pytest.approx(results[split]["perplexity"], rel=1e-3)
    batches = evaluation_batches(experiment, model, "test")
    measure = memlm_keras.evaluation.perplexity
    kept = measure(RunFolder(run).model(), batches, verbose=0)
    best = results["test"]["perplexity"]
    assert kept.perplexity == pytest.approx(best, rel=1e-4)


def test_the_last_epoch_needs_its_checkpoint(memlm, refused, run, folder):
    evaluate = ("evaluate", run, "--test_last", "--verbose=0")
    refused("--test_last needs a run folder", *evaluate, "--dataset=text")
    (run / "checkpoint.npz").unlink()
    refused("checkpoint.npz, which does not exist", *evaluate)


def test_files_of_other_models(memlm, refused, train, folder, classifier):
    train("tran2016/completion_birm_256")
    (run,) = (folder / "runs").iterdir()
    shutil.copy(run / "model.keras", folder / "both.keras")
    told = memlm("evaluate", "both.keras", "--dataset=text", "--verbose=2")
    assert "Here it reads each sentence by itself" in told.out
    assert perplexity_of(told) == pytest.approx(
        results_of(run)["test"]["perplexity"], abs=1e-3
    )
    message = "of class EntailmentClassifier ... name the run folder"
    refused(message, "evaluate", classifier, "--dataset=text")


def test_the_average_of_two_runs(memlm, refused, train, folder):
    for seed in (0, 1):
        train("zaremba2014/small", f"--seed={seed}")
    runs = sorted((folder / "runs").iterdir())
    told = memlm("evaluate", *runs, "--verbose=0")
    assert "Average of 2 models" in told.out
    found = perplexity_of(told)
    alone = [results_of(run)["test"]["perplexity"] for run in runs]
    ensemble = memlm_keras.Ensemble(
        [keras.saving.load_model(run / "model.keras") for run in runs]
    )
    experiment = Experiment(**RunFolder(runs[0]).recipe())
    batches = evaluation_batches(experiment, ensemble, "test")
    expected = memlm_keras.evaluation.perplexity(ensemble, batches, verbose=0)
    assert found == pytest.approx(expected.perplexity, rel=1e-4)
    assert found < max(alone)
    message = "needs a single RUN ... dynamic=True and 2 runs"
    refused(message, "evaluate", *runs, "--dynamic")
    refused("--dataset needs a single RUN", "evaluate", *runs, "--dataset=text")
    refused("not be given twice", "evaluate", runs[0], runs[0] / "model.keras")
    refused("no flag --training_lines", "evaluate", "r", "--training_lines=9")


def test_the_closing_lines(memlm, train, folder, few_segments, monkeypatch):
    choices, choose = [], measurements._choose_cache

    def counted(*arguments):
        choices.append(arguments)
        return choose(*arguments)

    monkeypatch.setattr(measurements, "_choose_cache", counted)
    flags = ("--dynamic", "--cache_size=9", "--tensorboard", "--test_last")
    told = train("daniluk2017/lstm", *flags)
    assert [*(folder / "runs" / NAME / "tensorboard").rglob("events*")]
    # The cache is chosen once, and also serves dynamic evaluation.
    assert len(choices) == 1
    closing = told.out.partition("; best of 1 epochs")[2]
    for key in ("cache", "dynamic", "dynamic_with_cache"):
        for split in ("validation", "test"):
            assert f"\n{key}, {split}: perplexity " in closing
    # The results of an earlier command are kept, but not printed.
    told = memlm("evaluate", folder / "runs" / NAME, "--dynamic", "--verbose=0")
    assert "dynamic, test: perplexity" in told.out
    assert "cache" not in told.out
    assert "cache" in results_of(folder / "runs" / NAME)


def test_the_cache_of_a_run_is_used(memlm, refused, run, folder, monkeypatch):
    for model, message in (
        (run, f"for {run}. Choose one: memlm evaluate {run} --cache"),
        ("memlm/embedded_lstm", "--cache needs a run folder"),
    ):
        refused(message, "score", model, "the man", "--cache")
    memlm("evaluate", run, "--cache_size=9", "--verbose=0")
    expected = results_of(run)["cache"]["test"]["perplexity"]
    flags = ("--cache", "--unit=nats", "--out=words.tsv")
    memlm("surprisal", run, "text/test.txt", *flags)
    nats = [float(r["surprisal_nats"]) for r in read_csv("words.tsv", "\t")]
    assert math.exp(np.mean(nats)) == pytest.approx(expected, rel=1e-4)
    score = ("score", run, "the man the man")
    alone, cached = memlm(*score).out, memlm(*score, "--cache").out
    assert alone != cached and "perplexity" in cached
    memlm("generate", run, "the man", "--cache")

    exported = []

    def export(model, path, card, **_):
        exported.append((type(model.mixture).__name__, path, card))
        return folder / path

    monkeypatch.setattr(memlm_keras.serving, "export", export)
    memlm("export", run, "--cache")
    ((mixture, path, card),) = exported
    assert mixture == "NeuralCache" and path == f"saved_models/{NAME}-cache"
    assert card["test perplexity"] == f"{expected:.2f}"
    assert card["paper"].startswith("Daniluk et al. (2017), ")
    assert "every token with <eos> predicted once" in card["perplexity"]


def test_a_chosen_cache_is_kept(memlm, train, folder, few_segments):
    train("memlm/small", "--nocompare")
    (run,) = (folder / "runs").iterdir()
    assert results_of(run)["cache"]["size"] == 500
    told = memlm("evaluate", run, "--cache_size=9", "--verbose=0")
    assert "dynamic_with_cache" not in told.out
    told = memlm("evaluate", run, "--dynamic", "--verbose=0")
    assert "\ndynamic_with_cache, test" in told.out
    both = results_of(run)["dynamic_with_cache"]
    assert both["size"] == results_of(run)["cache"]["size"] == 9
    # `--compare` prints the same comparison as `memlm train`.
    told = memlm("evaluate", run, "--compare", "--dynamic", "--verbose=0")
    assert "Kneser-Ney with a cache" in told.out, told.err
    assert "this model, both" in told.out
    memlm("evaluate", run, "--cache_size=8", "--verbose=0")
    assert "dynamic_with_cache" not in results_of(run)


@pytest.mark.filterwarnings("ignore:Counts of counts")
def test_counts(memlm, refused, folder):
    with pytest.warns(UserWarning, match="Counts of counts"):
        memlm("train", "kneser_ney_3_cache", "--dataset=text")
    (run,) = (folder / "runs").iterdir()
    results = results_of(run)
    assert results["order"] == 3 and results["parameters"] > 0
    lines = (folder / "text" / "test.txt").read_text().splitlines()
    count = sum(len(line.split()) + 1 for line in lines)
    assert results["test"]["total_tokens"] == count
    expected = results["test"]["perplexity"]
    assert 2 < expected < 12
    told = memlm("evaluate", run)
    assert perplexity_of(told) == pytest.approx(expected, abs=1e-3)
    message = "dynamic does not apply to n-gram models ... no weights"
    refused(message, "evaluate", run, "--dynamic")
    message = "does not apply to n-gram models"
    refused(message, *"train kneser_ney_5 --dataset=text --scale=0.5".split())
    (folder / "other.txt").write_text("sea sea saw\n" * 40)
    told = memlm("evaluate", run, "--dataset=other.txt")
    assert perplexity_of(told) != pytest.approx(expected, abs=1e-3)
    refused("n-grams are counted at each use", "generate", run, "the man")
    told = memlm("score", run, "the man")
    assert "3 predicted tokens" in told.out
    message = "is an n-gram model; a neural cache ... 5_cache"
    refused(message, "surprisal", run, "text/test.txt", "--cache")


def test_a_run_that_is_not_finished(memlm, folder):
    experiment = Experiment("daniluk2017/lstm", "text", scale=0.02)
    run = RunFolder(folder / "runs" / experiment.name)
    typed = "memlm train daniluk2017/lstm --dataset=text --epochs=7"
    config = experiment.settings, experiment.recipe, experiment.kind
    for command, told_of in (
        (f"{typed} --overwrite", f"To continue: {typed}\n"),
        (None, "To continue: python "),
    ):
        run.write_config(*config, command)
        for verb in ("generate", "evaluate"):
            told = memlm(verb, "runs", status=1)
            assert "is not finished" in told.err
            assert told_of in told.err
    assert run.settings() == experiment.settings


def test_a_run_of_a_preset_that_a_script_registered(memlm, refused, run):
    config = json.loads((run / "config.json").read_text())
    config["experiment"]["preset"] = "mine/row"
    (run / "config.json").write_text(json.dumps(config))
    told = memlm("generate", run, "the", "--max_length=3")
    refused("without a run folder ... Give --dataset", "evaluate", run)
    told = memlm("evaluate", run, "--dataset=text", "--verbose=0")
    assert perplexity_of(told) == pytest.approx(
        results_of(run)["test"]["perplexity"], abs=1e-3
    )


def test_a_text_that_has_moved(memlm, refused, run, folder):
    expected = results_of(run)["test"]["perplexity"]
    (folder / "text").rename(folder / "moved")
    message = "was at text, as its config.json ... NEWPATH"
    told = refused(message, "evaluate", run)
    again = re.search(r"memlm (evaluate \S+ --dataset=)", told.err)[1]
    told = memlm(*f"{again}moved --verbose=2".split())
    assert perplexity_of(told) == pytest.approx(expected, abs=1e-3)
    refused("no file, folder or corpus nowhere", *f"{again}nowhere".split())


# === By recency ===


@pytest.mark.filterwarnings("ignore:Counts of counts")
def test_perplexity_by_recency(memlm, train, run, folder):
    train("merity2017/ptb_pointer_sentinel")
    memlm("train", "kneser_ney_2", "--dataset=text")
    runs = sorted((folder / "runs").iterdir())
    assert len(runs) == 3
    asked = ("--by=recency", "--cache_size=9", "--verbose=2")
    written = ("--out=found.json", "--plot=found.png")
    told = memlm("evaluate", *runs, *asked, *written)
    found = json.loads((folder / "found.json").read_text())
    names = {run.name for run in runs} | {f"{NAME} with a cache"}
    assert set(found["runs"]) == names
    for run in runs:
        values, total = found["runs"][run.name], results_of(run)["test"]
        assert values["perplexity"] == pytest.approx(total["perplexity"])
        assert sum(values["losses"]) == pytest.approx(total["loss"])
        assert sum(found["tokens"]) == total["total_tokens"]
    assert "| never before |" in told.out and "| all |" in told.out
    assert (folder / "found.png").read_bytes().startswith(b"\x89PNG")
    shutil.copy(runs[0] / "model.keras", "alone.keras")
    other = ("alone.keras", "--dataset=text", "--split=validation")
    told = memlm("evaluate", *other, "--by=recency", "--verbose=2")
    expected = results_of(runs[0])["validation"]["perplexity"]
    assert f"perplexity {expected:.2f}" in told.out


def test_wrong_requests_by_recency(refused, train, run, folder, classifier):
    shutil.copy(run / "model.keras", "alone.keras")
    by = "--by=recency"
    for message, *arguments in (
        ("split needs --by=recency", run, "--split=test"),
        ("by must be one of recency", run, "--by=length"),
        ("dynamic cannot be used with --by", run, by, "--dynamic"),
        ("of class EntailmentClassifier", classifier, by, "--dataset=text"),
        ("cache_size needs a run f", "alone.keras", by, "--cache_size=9"),
    ):
        refused(message, "evaluate", *arguments)
    write_splits(folder / "other", unknown=False)
    train("daniluk2017/lstm", dataset="other")
    runs = (folder / "runs").iterdir()
    refused("were trained on different texts", "evaluate", *runs, by)

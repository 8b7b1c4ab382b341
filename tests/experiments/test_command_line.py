import csv
import inspect
import json
import os
import pathlib
import platform
import re
import resource
import shutil
import signal
import subprocess
import sys
import types
import warnings

import keras
import numpy as np
import pytest
from corpus_files import suite
from corpus_files import write_file
from corpus_files import write_sick
from told import ROOT
from told import python
from written_files import read_csv

import memlm_keras
from memlm_keras import formats
from memlm_keras.experiments import command_line
from memlm_keras.experiments import process as process_module
from memlm_keras.experiments.commands.presets import describe
from memlm_keras.experiments.options import UsageError
from memlm_keras.experiments.process import _keep_memory

from .conftest import NAME
from .conftest import SMALL
from .conftest import results_of

COMMAND = ("-m", "memlm_keras")


def test_a_warning_is_one_line(monkeypatch):
    usual, found = warnings.formatwarning, []

    def run(arguments):
        found.append(warnings.formatwarning("Look.", UserWarning, "a.py", 3))

    monkeypatch.setattr(command_line, "_run", run)
    command_line.main([])
    assert found == ["Warning: Look.\n"]
    assert warnings.formatwarning is usual


def test_from_text_to_a_model_that_serves(memlm, refused, folder):
    write_file(folder / "mine.txt")
    flags = ("--dataset=mine.txt", "--epochs=1", *SMALL)
    told = memlm("train", "key_value_predict", *flags)
    assert "Of the lines of mine.txt, 1 to 72 are train" in told.out
    assert "is <unk>, either written in the text or in" in told.out
    (run,) = (folder / "runs").iterdir()
    assert results_of(run)["preset"] == "daniluk2017/key_value_predict"
    assert results_of(run)["command"].startswith("memlm train key_value_pred")
    names = "attention.png checkpoint.npz config.json log.csv results.json "
    names += "mean_attention.png model.keras"
    assert {path.name for path in run.iterdir()} >= {*names.split()}
    # The commands that the program suggests are valid.
    typed = re.findall(r"^  memlm (\w+) (\S+)", told.out, re.M)
    assert [verb for verb, _ in typed] == ["generate", "attention", "export"]
    for verb, path in typed[:2]:
        told = memlm(verb, path)
    told = memlm("attention", run, "the cat", "--out=map.html")
    page = (folder / "map.html").read_text(encoding="utf-8")
    assert f"Attention of {run.name}" in page
    refused("give TEXT and --out", "attention", run, "--out=map.html")
    trained = ("attention", "memlm/embedded_attention", "ruth ellis")
    refused("without a run folder can only be shown", *trained)
    told = memlm("generate", run, "the old", "--max_length=9", "--seed=1")
    assert len(told.out.splitlines()) == 3
    assert all(line.startswith("the old") for line in told.out.splitlines())
    memlm("generate", "runs", "the old", "--seed=1")
    flags = ["--sampler=random", "--sentences=20", "--seed=1"]
    assert "<unk>" not in memlm("generate", run, *flags).out
    assert "<unk>" in memlm("generate", run, *flags, "--unknown").out
    told = memlm("generate", run, "the zyxt", "--max_length=9", "--seed=1")
    assert "1 of the prompt's 2 tokens are read as <unk>" in told.err

    told = memlm("score", run, "the man", "zebra")
    lines = told.out.split()
    assert told.status == 0 and "2 sentences:" in told.out
    assert lines[0] == "the" and float(lines[1]) < 0
    # `memlm score` also reads a model file that is in no run folder.
    shutil.copy(run / "model.keras", folder / "alone.keras")
    told = memlm("score", "alone.keras", "the man")
    assert told.out.split()[:2] == lines[:2]


@pytest.mark.filterwarnings("ignore:Counts of counts")
def test_surprisals_of_a_file(memlm, refused, run, folder):
    (folder / "stimuli.txt").write_text("the man\n\nzebra saw the man\n")

    def table(*arguments):
        told = memlm("surprisal", *arguments)
        assert "1 of 8 tokens" in told.err
        header, *lines = [line.split("\t") for line in told.out.splitlines()]
        assert len(lines) == 8
        return header, lines

    header, lines = table(run, "stimuli.txt")
    assert header[2:4] == ["word", "surprisal_bits"]
    assert lines[3][:3] == ["2", "1", "zebra"] and lines[3][-1] == "1"
    score = memlm("score", run, "the man").out.split()
    nats = float(lines[0][3]) * np.log(2)
    assert nats == pytest.approx(-float(score[1]), abs=1e-3)

    flags = ("--unit=nats", "--reset", "--out=words.tsv")
    assert memlm("surprisal", run, "stimuli.txt", *flags).out == ""
    header, first, *rest = (folder / "words.tsv").read_text().splitlines()
    assert "entropy_reduction_nats" in header
    # After a reset, the first words of both lines have the same entropy.
    assert first.split("\t")[4] == rest[2].split("\t")[4]

    _, learned = table(run, "stimuli.txt", "--rate=0.5")
    assert learned[0] == lines[0] and learned[-1] != lines[-1]
    _, mean = table(run, run / "model.keras", "stimuli.txt")
    assert [line[:3] for line in mean] == [line[:3] for line in lines]
    assert float(mean[0][3]) == pytest.approx(float(lines[0][3]), abs=1e-4)

    memlm("train", "kneser_ney_2", "--dataset=text")
    (counts,) = (folder / "runs").glob("*kneser*")
    _, counted = table(counts, "stimuli.txt")
    # With an n-gram model, `--reset` changes nothing.
    assert counted == table(counts, "stimuli.txt", "--reset")[1]

    (folder / "empty.txt").write_text("\n")
    for message, *arguments in (
        ("segment_length needs --rate", "stimuli.txt", "--segment_length=3"),
        ("memlm: No such file or directory: none.txt\n", "none.txt"),
        ("no word in empty.txt", "empty.txt"),
    ):
        refused(message, "surprisal", run, *arguments)


DOCUMENTS = (
    "the man saw the sea\nthe man\n|\n|a zebra saw the man\n|"
    "the sea\n\nthe man saw\n|the man\nthe man saw\n"
).split("|")


def test_surprisals_of_documents_are_divided(memlm, run, folder):
    (folder / "texts").mkdir()
    paths = [f"texts/{number}.txt" for number in range(len(DOCUMENTS))]
    for path, text in zip(paths, DOCUMENTS):
        (folder / path).write_text(text)
    told = memlm("surprisal", run, "texts")
    assert "1 of 29 tokens are read as <unk>" in told.err
    header, *rows = told.out.splitlines()
    assert header.startswith("document\tsentence\tposition\tword\t")
    alone = []
    for path in paths:
        if path != paths[1]:
            _, *found = memlm("surprisal", run, path).out.splitlines()
            alone += [f"{path}\t{row}" for row in found]
    assert rows == alone
    assert memlm("surprisal", run, *paths).out == told.out

    # Part numbers in file names have as many digits as the last number.
    joined = []
    for part in range(1, 4):
        flags = ("--out=out/words.tsv", f"--shard={part}/3")
        assert not memlm("surprisal", run, *paths, *flags).out
        table = (folder / f"out/words-{part}-of-3.tsv").read_text()
        first, *found = table.splitlines()
        assert first == header
        joined += found
    assert joined == rows
    assert len(list((folder / "out").iterdir())) == 3
    (folder / "out/words-3-of-3.tsv").write_text("kept")
    again = memlm("surprisal", run, "texts", *flags)
    assert "words-3-of-3.tsv is finished. Delete it" in again.out
    assert (folder / "out/words-3-of-3.tsv").read_text() == "kept"
    flags = ("--out=words.tsv", "--shard=05/10")
    told = memlm("surprisal", run, *paths, *paths, *flags)
    assert (folder / "words-05-of-10.tsv").read_text().count("texts/4.txt") == 7

    # The evaluator resets its weights before each document.
    flags = ("--rate=0.5", "--reset")
    _, *learned = memlm("surprisal", run, *paths, *flags).out.splitlines()
    _, *last = memlm("surprisal", run, paths[-1], *flags).out.splitlines()
    assert learned[-7:] == [f"{paths[-1]}\t{row}" for row in last]


def test_documents_of_one_file(memlm, run, folder):
    (folder / "novel.txt").write_text(
        "the sea\n= one\nthe man\n= two\nthe man saw\n= three\nthe sea\n"
    )
    start = "--document_start== "
    told = memlm("surprisal", run, "novel.txt", start)
    _, *rows = told.out.splitlines()
    names = [row.partition("\t")[0] for row in rows]
    # Lines before the first title belong to the first document.
    counts = [names.count(f"novel.txt:{number}") for number in (1, 2, 3)]
    assert counts == [9, 7, 6] and sum(counts) == len(names)
    memlm("surprisal", run, "novel.txt", start, "--shard=2/2", "--out=w.tsv")
    _, *last = (folder / "w-2-of-2.tsv").read_text().splitlines()
    assert last and rows[-len(last) :] == last


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["a.txt", "--shard=1/2", "--out=o"], "a.txt, a single document"),
        (["a.txt", "b.txt", "--shard=1/2"], "--shard needs --out"),
        (["a.txt", "b.txt", "--shard=3/2", "--out=o"], "Received: '3/2'"),
        (["a.txt", "b.txt", "--shard=half", "--out=o"], "such as 3/16"),
        (["a.txt", "b.txt", "--shard=1/3", "--out=o"], "2 documents cannot be"),
        (["a.txt", "none"], "There is no file or folder none"),
        (["a.txt", "items.csv"], "items.csv, a table"),
        (["items.csv", "--shard=1/2", "--out=o"], "items.csv, a table"),
        (["a.txt", "--document_start=("], "must be a regular expression"),
        (["a.txt", "--document_start=="], "No line of a.txt begins a document"),
    ],
)
def test_documents_that_cannot_be_read(refused, folder, arguments, message):
    for name in ("a.txt", "b.txt", "items.csv"):
        (folder / name).write_text("the man\n")
    told = refused(message, "surprisal", "memlm/embedded_lstm", *arguments)
    assert not told.out
    assert not list(folder.glob("o*"))


@pytest.mark.filterwarnings("ignore:Counts of counts")
def test_certificates(memlm, refused, run, folder, classifier):
    alone = run / "model.keras"
    told = memlm("certify", run, f"--same_as={alone}", "--out=found.json")
    assert "7 passed, 0 failed, 0 not applicable" in told.out
    found = json.loads((folder / "found.json").read_text())
    assert found["passed"] and found["model"].startswith(str(run))
    told = memlm("certify", run, "--rate=0.5")
    assert "an update follows each segment" in told.out
    memlm("evaluate", run, "--cache_size=9", "--verbose=0")
    told = memlm("certify", run, f"--same_as={run}", "--cache")
    assert "NeuralCache" in told.out
    told = memlm("certify", run, alone, "--seed=2")
    assert "Ensemble" in told.out
    assert "seed 2" in told.out

    told = memlm("train", "kneser_ney_2", "--dataset=text")
    (counts,) = (folder / "runs").glob("*kneser*")
    told = memlm("certify", counts, f"--same_as={run}", status=1)
    assert "6 passed, 1 failed, 0 not applicable" in told.out
    assert "says the same" in told.out and "of a distribution" in told.out

    for message, *arguments in (
        ("cannot score", classifier),
        ("no trained model of this name", "none.onnx"),
        ("tolerance must be a number above 0", run, "--tolerance=0"),
        ("cannot score", run, f"--same_as={classifier}"),
    ):
        refused(message, "certify", *arguments)


@pytest.mark.slow
@pytest.mark.backend("tensorflow")
def test_certificates_of_files(memlm, run, folder):
    memlm("export", run, "model.onnx", "--format=onnx")
    told = memlm("certify", "model.onnx", f"--same_as={run}")
    assert "4 passed, 0 failed, 3 not applicable" in told.out
    for name in ("broken.onnx", "broken.tflite", "broken/saved_model.pb"):
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("no file")
        told = memlm("certify", name.partition("/")[0], status=2)
        assert "broken" in told.err


def test_surprisals_of_a_table(memlm, refused, run, folder):
    (folder / "items.csv").write_text(
        "item,Sentence,at,sentence_2\n"
        "1,the man saw,2-3,the *man* saw\n"
        '2,"the zebra, saw",1,the *zebra saw*\n'
    )
    flags = ("--regions=at", "--spillover=1", "--frequency=train")
    told = memlm("surprisal", run, "items.csv", *flags)
    assert "1 of 8 words have unknown tokens" in told.err
    *notes, header = told.out.splitlines()[:4]
    assert "each sentence is read from the initial state" in notes[0]
    assert header.startswith("item\tSentence\tat\tsentence_2\tsentence\t")
    rows = [*csv.DictReader(told.out.splitlines()[3:], delimiter="\t")]
    assert ",".join(row["region"] for row in rows) == ",1,1,,1,,,"
    (folder / "plain.txt").write_text("the man saw\nthe zebra, saw\n")
    text = (folder / "text" / "train.txt").read_text().split()
    frequency = float(rows[0]["log_frequency"])
    assert frequency == pytest.approx(np.log(text.count("the")), abs=1e-5)

    flags = ("--sentence=sentence_2", "--regions=marked", "--by=region")
    told = memlm("surprisal", run, "items.csv", *flags, "--out=regions.tsv")
    assert not told.out
    *_, one, two = (folder / "regions.tsv").read_text().splitlines()
    assert "man\t" in one and "zebra saw\t" in two
    flags = ("--frequency=plain.txt", "--noreset")
    told = memlm("surprisal", run, "items.csv", *flags)
    assert "the state is carried from sentence to sentence" in told.out

    (folder / "none.tsv").write_text("item\n1\n")
    (folder / "gap.csv").write_text("item,sentence\n\n1,the man\n2,\n")
    for arguments, error in (
        (["none.tsv"], "has no column called sentence"),
        (["gap.csv"], "gap.csv: line 4: sentence has no word"),
        (["items.csv", "--by=region"], "--by needs --regions"),
        (["items.csv", "--tokens"], "--tokens needs a text file"),
        (["items.csv", "--frequency=none.txt"], "No such file"),
        (["plain.txt", "--spillover=2"], "--spillover needs a .csv"),
    ):
        refused(error, "surprisal", run, *arguments)
    surprisal = ("surprisal", "memlm/embedded_lstm", "items.csv")
    refused("Give --frequency=FILE", *surprisal, "--frequency=train")


def test_minimal_pairs(memlm, refused, run, folder):
    (folder / "pairs.csv").write_text(
        "sentence_good,sentence_bad,UID,phenomenon,field,item\n"
        "the man saw,man the saw,order,word order,syntax,0\n"
        "the man,man the,order,word order,syntax,1\n"
        "the ellis,the yak,lexicon,words,lexicon,2\n"
    )
    summary = [
        {"UID": "order", "lstm": 0.7, "mine": 0.25},
        {"UID": "lexicon", "lstm": 0.9, "mine": 0.5},
    ]
    (folder / "published.jsonl").write_text("\n".join(map(json.dumps, summary)))
    flags = ("--published=published.jsonl", "--plot=pairs.png")
    told = memlm("pairs", run, "pairs.csv", "--out=pairs.tsv", *flags)
    assert "without <eos>, state reset before each sentence; 3 in" in told.out
    assert told.err.splitlines()[-2:] == ["Wrote pairs.tsv", "Wrote pairs.png"]
    rows = {
        name: [cell.strip() for cell in cells.split("|")]
        for name, cells in re.findall(r"^\| ([\w ]+) \|(.*)\|$", told.out, re.M)
    }
    assert ", ".join(rows) == (
        "overall, field syntax, field lexicon, phenomenon word order, "
        "phenomenon words, paradigm order, paradigm lexicon"
    )
    assert rows["overall"][-2:] == ["0.800", "0.375"]
    assert rows["phenomenon words"] == [
        *("1", "0.000", "0.000 to 0.793", "0.500", "1", "1", "nan"),
        *("0.900", "0.500"),
    ]
    assert (folder / "pairs.png").stat().st_size > 1000
    assert len(read_csv(folder / "pairs.tsv", "\t")) == 3
    (folder / "others.csv").write_text("the man,man the\n")
    told = memlm("pairs", run, "others.csv", flags[0])
    assert "--published has no accuracy of these paradigms." in told.out
    assert "| lstm |" not in told.out

    # Compare runs of two seeds with a trained model that has no run folder.
    other = run.with_name(run.name.replace("seed0", "seed1"))
    shutil.copytree(run, other)
    config = json.loads((other / "config.json").read_text())
    config["experiment"]["seed"] = 1
    (other / "config.json").write_text(json.dumps(config))
    runs = (run, other, "memlm/embedded_lstm")
    told = memlm("pairs", *runs, "pairs.csv", "--mean", "--eos", "--out=a.tsv")
    mean = rows["overall"][1]
    assert f"seeds 0, 1: accuracy {mean}0, 95% interval over" in told.out
    header, *lines = (folder / "a.tsv").read_text().splitlines()
    assert header.startswith("run\tsentence_good") and len(lines) == 9

    for arguments, error in (
        ([run, "none.csv"], "No such file or directory: none.csv"),
        ([run, "pairs.csv", "--method=one_prefix"], "with the fields one_pre"),
        ([run, "pairs.csv", "--published=pairs.csv"], "cannot be read"),
        ([run, run, "pairs.csv"], "given twice"),
    ):
        refused(error, "pairs", *arguments)


def test_suites(memlm, refused, run, folder):
    (folder / "mine.json").write_text(json.dumps(suite()))
    (folder / "others.csv").write_text(
        "model,suite,item,correct\ngpt2,number_mine,1,True\n"
    )
    flags = ("--published=others.csv", "--plot=a.png", "--out=a.tsv")
    told = memlm("pairs", run, "mine.json", *flags)
    # Both items of the suite have unknown words.
    line = r"\| circuit Agreement \| 2 \| .* \| 0 \| 2 \| 1.000 \|"
    assert re.search(line, told.out), told.out
    assert (folder / "a.png").stat().st_size > 1000
    assert len(read_csv(folder / "a.tsv", "\t")) == 2 * 2 * 4
    shutil.copytree(run, folder / "copy")
    memlm("pairs", run, "copy", "mine.json", "--out=two.tsv")
    rows = read_csv(folder / "two.tsv", "\t")
    assert [row["run"] for row in rows] == [str(run)] * 16 + ["copy"] * 16
    refused("do not apply to suites", "pairs", run, "mine.json", "--mean")
    shutil.copy(folder / "mine.json", folder / "text" / "mine.json")
    (folder / "text" / "pairs.tsv").write_text("the man\tman the\n")
    refused("has both test suites (.json) and", "pairs", run, "text")


@pytest.mark.slow
def test_an_export_to_onnx_and_triton(memlm, refused, run, folder):
    pytest.importorskip("tf2onnx")
    told = memlm("export", run, "--format=onnx")
    assert (folder / f"{NAME}.onnx").stat().st_size > 1000
    told = memlm("export", run, "--for=triton")
    assert "--model-repository=" in told.out
    assert (folder / "model_repository" / NAME / "config.pbtxt").exists()
    flags = ("--format=onnx", "--contract=sherpa")
    refused("SubwordVocabulary", "export", run, "x.onnx", *flags)
    refused("Leave out --format", "export", run, "--for=triton", flags[0])


def test_no_model_is_read_for_a_path_that_is_taken(refused, run, folder):
    (folder / "taken.onnx").touch()
    (run / "model.keras").rename(folder / "elsewhere.keras")
    flags = ("taken.onnx", "--format=onnx")
    refused("taken.onnx ... --overwrite", "export", run, *flags)
    (folder / "elsewhere.keras").rename(run / "model.keras")


def test_triton_is_started_for_this_machine_alone():
    start = formats.formats()["triton"].start
    for port in ("http", "grpc", "metrics"):
        assert f"--{port}-address=127.0.0.1" in start


def test_a_command_given_twice_destroys_nothing(train, run, folder):
    before = {path: path.stat().st_mtime_ns for path in run.iterdir()}
    told = train("daniluk2017/lstm")
    assert "is finished, and is not trained again" in told.out
    assert before == {path: path.stat().st_mtime_ns for path in run.iterdir()}
    (run / "model.keras").rename(folder / "elsewhere.keras")
    assert "missing. Put it back, or" in train("daniluk2017/lstm").out
    # With more epochs, the run continues.
    told = train("daniluk2017/lstm", epochs=2)
    assert "Continuing the run" in told.out and results_of(run)["epochs"] == 2
    told = train("daniluk2017/lstm", "--overwrite")
    assert results_of(run)["epochs"] == 1
    assert results_of(run.with_name(f"{NAME}-old1"))["epochs"] == 2
    # A run with other settings has its own folder.
    train("daniluk2017/lstm", "--learning_rate=0.5")
    assert len(list((folder / "runs").iterdir())) == 3


def test_a_run_of_another_text_in_the_same_folder(refused, run, folder):
    with open(folder / "text" / "train.txt", "a") as file:
        file.write("the end\n")
    train = ("train", "daniluk2017/lstm", "--dataset=text", "--epochs=1")
    refused("other settings: corpus ... --overwrite", *train, *SMALL)
    assert (run / "model.keras").exists()
    refused("has changed since ... or start a new run", "attention", run)
    refused(f"Runs here: runs/{NAME}. `memlm", "score", "nosuch", "the")


@pytest.mark.parametrize(
    "arguments, message",
    [
        ("trian lstm", "Did you mean train?"),
        ("train tran2016/rm_tm_gatd", "Did you mean tran2016/rm_tm_gated?"),
        ("train lstm_attention --dataset=snil", "Did you mean snli?"),
        ("train daniluk2017/lstm --epochs=0", "an integer of at least 1"),
        ("train daniluk2017/lstm --backend=jacks", "backend must be one of t"),
        ("train lstm_1 --dataset=txt", "no file, folder or corpus txt"),
        ("train daniluk2017/lstm --dataset=ptbb", "Did you mean ptb?"),
        ("train daniluk2017/lstm --documents --dataset=text", "needs a corp"),
        ("train gru_shared --dataset=ptb", "corpora are embedded, snli"),
        ("train key_value_predict --units=7 --dataset=text", "units"),
        ("train --as_published", "needs the name of a paper"),
        ("train text", "memlm train --dataset=text"),
        ("score memlm/english text/test.txt", "but text/test.txt is a file"),
        ("score memlm/embeded_lstm the", "Did you mean memlm/embedded_lstm?"),
        ("generate nowhere", "no run folder and no .keras file nowhere"),
        ("attention memlm/embedded_lstm a", "as memlm/embedded_attention"),
        ("predict memlm/embedded_lstm a b", "weissenborn2016/gru_shared --d"),
        ("generate memlm/small the", "train memlm/small --dataset=FILE"),
        ("generate text", "is not a run folder"),
        ("table daniluk2017/model", "Did you mean daniluk2017/models?"),
        ("table daniluk2017/models --grid x", "as in learning_rate=0.1,1"),
        ("table kong2019/grid --grid dropuot=0", "Did you mean dropout?"),
        ("table daniluk2017/models --seeds=0,0", "different integers"),
        ("table daniluk2017/models --rows=lstmm", "Did you mean lstm?"),
        ("table daniluk2017/cbt --dataset=ptb", "needs --dataset=cbt"),
        ("table tran2016/completion", "needs --questions and --answers"),
        ("table tran2016 --dataset=ptb", "tran2016/perplexity"),
        ("pairs RUN text --out=new --plot=./new", "--out=new is already re"),
        ("pairs RUN text --plot=new.svg", "must end in .png"),
        ("presets nothing_like_it", "No preset matches"),
        ("claims --finished_only", "is now `python recipes/claims.py`"),
    ],
)
def test_wrong_use_is_one_line(arguments, message, refused, folder):
    told = refused(message, *arguments.split())
    assert told.err.startswith("memlm: ")
    assert not any((folder / "runs").glob("*"))


def test_a_closed_standard_input(refused, monkeypatch):
    monkeypatch.setattr(sys, "stdin", None)
    refused("standard input is closed", "score", "memlm/embedded_attention")


@pytest.mark.parametrize("name", command_line.COMMANDS)
def test_functions_take_their_options(name):
    command = command_line.COMMANDS[name]
    parameters = inspect.signature(command.function).parameters
    places = [place.rpartition("/")[2].lower() for place in command.places]
    own = [command_line._parameter(option.name) for option in command.own]
    every = {*places, *own, *command.groups}
    assert {*parameters} - {"typed"} == every
    assert len(every) == len(places) + len(own) + len(command.groups)
    for option, parameter in zip(command.own, own):
        annotation = parameters[parameter].annotation
        assert annotation in (option.type, option.type | None)


@pytest.mark.parametrize("name", command_line.COMMANDS)
def test_numbers_that_mean_nothing_are_refused(name):
    wrong = {float: ["nan", "inf", "-1e-9", "1e999"], int: ["-1", "1e999"]}
    for option in command_line.COMMANDS[name].options:
        for value in wrong.get(option.type, ()):
            message = rf"{option.name} must be .*{value}"
            with pytest.raises(UsageError, match=message):
                option.read(value)


@pytest.mark.parametrize(
    "error, status",
    [
        (FileNotFoundError(2, "No such file or directory", "none.txt"), 2),
        (FileNotFoundError(2, "No such file or directory", "run/model"), 1),
        (FileNotFoundError("Training in run is not finished"), 1),
        (ValueError("here.txt, line 3: no number"), 1),
        (IsADirectoryError(21, "Is a directory", "run"), 2),
        (PermissionError(13, "Permission denied", "here.txt"), 1),
        (UsageError("wrong"), 2),
        (BlockingIOError("run is in use"), 1),
        (RuntimeError("here.txt"), 1),
    ],
)
def test_exit_statuses(error, status, folder, monkeypatch, capsys):
    def fail():
        raise error

    (folder / "here.txt").write_text("x")
    (folder / "run").mkdir()
    command = command_line.command("Fails.", {})(fail)
    monkeypatch.setattr(command_line, "COMMANDS", {"fail": command})
    parsed = (types.SimpleNamespace(), {})
    monkeypatch.setattr(command_line.Command, "parse", lambda *_: parsed)
    arguments = ["run", "here.txt", "none.txt", "the", "--max_length=3"]
    assert command_line.main(["fail", *arguments]) == status
    assert capsys.readouterr().err.count("\n") == 1
    with pytest.raises(type(error)):
        command_line.main(["fail", *arguments, "--traceback"])


OUTPUTS = [
    (name, option.name)
    for name, command in command_line.COMMANDS.items()
    for option in command.options
    if option.writes is not None
]


@pytest.mark.parametrize("path", ["thesis", "here.txt", "./here.txt"])
@pytest.mark.parametrize("name, option", OUTPUTS)
def test_outputs_replace_no_folder_and_nothing_that_is_read(
    name, option, path, memlm, refused, folder
):
    (folder / "thesis").mkdir()
    (folder / "here.txt").write_text("x")
    arguments = ["here.txt"] * len(command_line.COMMANDS[name].places)
    refused(f"--{option}={path} is", name, *arguments, f"--{option}={path}")
    assert (folder / "here.txt").read_text() == "x"
    assert not any((folder / "thesis").iterdir())


def test_flags_without_a_value():
    parse = command_line.COMMANDS["train"].parse
    values = {"--documents": True, "--nodocuments": False}
    for flag, value in {**values, "--documents=false": False}.items():
        assert parse(["lstm_1", flag])[1]["documents"] is value
    assert "documents" not in parse(["lstm_1"])[1]


@pytest.fixture
def without_keras(folder):
    """Runs `memlm` in a process that ends if it imports Keras."""

    def call(*arguments):
        for name in ("keras", "tensorflow"):
            (folder / f"{name}.py").write_text("raise SystemExit('imported')")
        path = os.pathsep.join([str(ROOT), str(folder)])
        command = (*COMMAND, *arguments)
        return python(*command, folder=folder, status=None, PYTHONPATH=path)

    return call


def test_commands_that_need_no_keras(without_keras, train):
    train("daniluk2017/lstm")
    told = without_keras("train", "daniluk2017/lstm", "--epoch=3")
    assert told.status == 2
    message = "memlm train has no flag --epoch. Did you mean --epochs?"
    assert told.err == f"memlm: {message}\n"
    told = without_keras("train", "daniluk2017/lstm", "--dataset=text", *SMALL)
    assert told.status == 0, told.err
    assert "is finished, and is not trained again" in told.out
    told = without_keras("presets", "tran2016/rm*")
    assert told.status == 0, told.err
    assert "tran2016/rm_tm_gated" in told.out
    assert "kong2019/grid" in without_keras("table", "kong2019").out
    assert without_keras("train", "--help").status == 0


@pytest.mark.parametrize("command", [COMMAND, (ROOT / "recipes" / "logs.py",)])
def test_whoever_reads_may_stop_reading(command):
    process = subprocess.Popen(
        [sys.executable, *command, "--help"],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    process.stdout.close()
    process.stdout = None
    _, err = process.communicate()
    assert process.returncode == 128 + signal.SIGPIPE and not err


def test_a_backend_that_keras_lacks_or_that_is_not_installed(monkeypatch):
    told = python(*COMMAND, "presets", status=2, KERAS_BACKEND="pytorch")
    assert told.err.count("\n") == 1
    assert "one of tensorflow, jax, torch" in told.err
    assert "Did you mean torch?" in told.err and "pip" not in told.err
    monkeypatch.setattr(process_module.importlib.util, "find_spec", {}.get)
    with pytest.raises(ImportError, match="is not installed: pip install"):
        process_module.choose_backend()


_PRECISION = """
import sys
import numpy as np
from memlm_keras.experiments import process
process.import_keras(precision="tensorfloat32")
import keras
matrix = np.ones((2, 2), "float32")
assert np.all(keras.ops.convert_to_numpy(matrix @ matrix) == 2)
print(process.provenance()["backend"].split()[0])
"""
# Expressions for the precision of matrix products, by backend.
_SAID = {
    "jax": "sys.modules['jax'].config.jax_default_matmul_precision",
    "tensorflow": "sys.modules['tensorflow'].config.experimental"
    ".tensor_float_32_execution_enabled()",
    "torch": "sys.modules['torch'].get_float32_matmul_precision()",
}


@pytest.mark.backend
def test_the_precision_of_matrix_products():
    backend = keras.backend.backend()
    said = {"jax": "tensorfloat32", "tensorflow": "True", "torch": "high"}
    told = python("-c", f"{_PRECISION}\nprint({_SAID[backend]})")
    assert told.out.split() == [backend, said[backend]]


def test_a_run_names_its_precision(train, refused, folder, monkeypatch):
    # After the test, monkeypatch restores the variable that training sets.
    monkeypatch.setenv("MEMLM_MATMUL_PRECISION", "tensorfloat32")
    train("daniluk2017/lstm", "--matmul_precision=float32")
    run = folder / "runs" / NAME
    assert results_of(run)["matmul_precision"] == "float32"
    refused(
        "with other settings ... matmul_precision",
        *("train", "daniluk2017/lstm", "--dataset=text", "--epochs=1", *SMALL),
        "--matmul_precision=tensorfloat32",
    )
    refused("one of float32, tens", "train", "--matmul_precision=float16")
    monkeypatch.setenv("KERAS_BACKEND", "tensorflow")
    monkeypatch.delitem(sys.modules, "keras")
    with pytest.raises(UsageError, match="--backend=torch"):
        process_module.choose_backend(precision="bfloat16")
    monkeypatch.setenv("MEMLM_MATMUL_PRECISION", "half")
    with pytest.raises(UsageError, match="MEMLM_MATMUL_PRECISION must be one"):
        process_module.choose_backend()


def test_presets_are_listed_with_their_parameters(memlm):
    told = memlm("presets", "tran2016/rm*", "--vocabulary_size=500")
    paper, *lines = told.out.splitlines()[2:]
    assert paper.startswith("Tran et al. (2016), Recurrent Memory Networks")
    # Trained models are listed after an empty line.
    lines = lines[: lines.index("")] if "" in lines else lines
    lines = dict(line.split(maxsplit=1) for line in lines)
    assert "tran2016/rmr_tm_linear" in lines and len(lines) == 8
    model = memlm_keras.LanguageModel.from_preset(
        "tran2016/rm_tm_gated", vocabulary_size=500
    )
    units, count, words = lines["tran2016/rm_tm_gated"].split(maxsplit=2)
    assert (units, count) == ("128", f"{model.count_params():,}")
    assert "orders are 1 to 9, here 5" in memlm("presets", "kneser*").out
    assert words == "LSTM 128, gated memory block of window 15"


@pytest.mark.parametrize(
    "name, words",
    [
        ("daniluk2017/ngram_4", "LSTM 968, N gram of order 4"),
        ("tran2016/lstm_2", "2 x LSTM 128"),
        ("salton2017/ptb_single", "single attentive of window 100, tied emb"),
        ("merity2017/ptb_pointer_sentinel", "2 x zoneout LSTM 650, pointer "),
        ("kong2019/vs_elementwise_512", "element-wise kneser ney smoothing, "),
        ("weissenborn2016/dual_am_gru_shared", "dual associative GRU 100, GRU"),
    ],
)
def test_presets_are_said_in_words(name, words):
    assert words in describe(memlm_keras.presets.get(name))


def test_help_tells_of_all_flags(capfd, monkeypatch):
    monkeypatch.delenv("TF_CPP_MIN_LOG_LEVEL", raising=False)
    assert command_line.main(["--help"]) == 0
    out = capfd.readouterr().out
    assert all(f"memlm {name}" in out for name in command_line.COMMANDS)
    assert command_line.main(["train", "lstm", "--help"]) == 0
    out = capfd.readouterr().out
    assert "Rows of a batch; by default the preset's." in out
    assert os.environ["TF_CPP_MIN_LOG_LEVEL"] == "3"
    for flag in ("dataset", "scale", "analyses", "cache_size", "backend"):
        assert f"--{flag} " in out


def test_own_pairs(memlm, folder):
    rows = [
        f"{a} {b}, {word}.\tthe {word}\t{label}\n"
        for a in ("a", "one", "any")
        for b in ("man", "dog", "cat", "sea", "boat")
        for word, label in (("sun", "oui"), ("rain", "non"))
    ]
    name = "my,own.tsv"
    (folder / name).write_text("s1\ts2\tclass\n" + "".join(rows))
    flags = "--scale=0.06 --embedding_dim=4 --epochs=2 --verbose=2 --nohalve"
    told = memlm("train", "gru_shared", f"--dataset={name}", *flags.split())
    assert "24 for training, 3 for validation and 3 for test" in told.out
    assert "The most frequent label, " in told.out
    (run,) = (folder / "runs").iterdir()
    assert run.name.startswith("my,own-weissenborn2016-gru_shared")
    told = memlm("evaluate", run)
    assert "test: accuracy" in told.out
    again = memlm("evaluate", run, f"--dataset=./{name}")
    assert again.out.splitlines()[-2:] == told.out.splitlines()[-2:]
    (folder / "other.tsv").write_text("s1\ts2\tclass\n" + "".join(rows[:9]))
    told = memlm("evaluate", run, "--dataset=other.tsv")
    assert "validation" not in told.out
    assert "other.tsv: all 9 pairs are test pairs." in told.out
    # Columns and keys of these files differ from those of the corpus.
    (folder / "new.csv").write_text('sentence1;sentence2\na dog;the "sun\n')
    (folder / "new.jsonl").write_text(
        '{"id": 7, "premise": "a", "hypothesis": "b", "label": null}\n'
        '{"id": 8, "premise": "a man", "hypothesis": "b", "label": "oui"}\n'
    )
    told = memlm("predict", run / "model.keras", "new.jsonl", "--out=o.tsv")
    assert "on the 1 of 2 pairs" in told.err
    header, first, second = (folder / "o.tsv").read_text().splitlines()
    names = "id premise hypothesis label predicted probability_non probability_"
    assert header.split("\t") == f"{names}oui".split()
    assert first.startswith("7\ta\tb\t\t")
    *_, predicted, no, yes = second.split("\t")
    assert float(no) + float(yes) == pytest.approx(1, abs=1e-5)
    assert predicted == ("oui" if yes > no else "non")
    told = memlm("predict", run, "new.csv")
    assert "label" not in told.err
    row = told.out.splitlines()[1].split("\t")
    assert row[0] == "a dog" and len(row) == 5
    for labels, said in (
        ("xyz", "3 of 3 labels are unknown; the model's: non, oui\n"),
        (("x", "oui", "x"), "2 of 3 labels are unknown; the model's: non, oui"),
    ):
        lines = "".join(f"a\tb\t{label}\n" for label in labels)
        (folder / "l.tsv").write_text(f"s1\ts2\tlabel\n{lines}")
        told = memlm("predict", run, "l.tsv")
        assert said in told.err
        assert ("accuracy" in told.err) == ("oui" in labels)
    alone = memlm("predict", run, "a dog", 'the "sun').out.splitlines()[0]
    assert alone.split()[1] == row[2]


OF_PAIRS = "train weissenborn2016/gru_shared --dataset=bad.tsv"


@pytest.mark.parametrize(
    "arguments, message",
    [
        (("score", "RUN", "a"), "cannot score. Name a language model, such"),
        (("predict", "RUN", "none.tsv"), "needs a file of pairs, or a PREM"),
        (("predict", "RUN", "a", "b", "--out=x"), "--out needs a file of p"),
        (("predict", "RUN", "a", ""), "Each `hypothesis` must have a word."),
        (("attention", "RUN", "a", "--out=map.html"), "has no attention that"),
        (("export", "RUN", "a", "--format=litert"), "must end with .tflite"),
        (("train", "--dataset=fifo"), "fifo is a pipe or a device, but a te"),
        (("train", "--dataset=empty"), "folder empty holds no .txt file"),
        (("train", "gru_shared", "--dataset=empty"), "The folder empty must h"),
        (("train", "gru_shared", "--dataset=sick"), "SICK is read from `data"),
        (("predict", "RUN", "bad.tsv"), "bad.tsv: line 2 has 1 columns"),
        (("train", "--dataset=bad.tsv"), OF_PAIRS),
        (("evaluate", "memlm/embedded_lstm", "--dataset=bad.tsv"), OF_PAIRS),
        (
            ("train", "lstm_shared", "--dataset=bad.tsv", "--data_dir=."),
            "data_dir cannot be given for dataset=bad.tsv",
        ),
        (
            ("train", "daniluk2017/lstm", "--dataset=text", "--data_dir=."),
            "data_dir cannot be given for dataset=text",
        ),
    ],
)
def test_wrong_own_pairs(arguments, message, refused, folder, classifier):
    (folder / "bad.tsv").write_text("premise\thypothesis\tlabel\na b\n")
    (folder / "empty").mkdir()
    os.mkfifo(folder / "fifo")
    arguments = [classifier if a == "RUN" else a for a in arguments]
    refused(message, *arguments)


def test_a_classifier(memlm, folder, without_keras):
    write_sick(folder / "sick")
    vectors = folder / "vectors.txt"
    vectors.write_text("a 0 1 0\ndog 1 1 -1\nx 2 1 -2\n")
    flags = (
        "--dataset=sick --data_dir=sick --scale=0.06 --batch_size=8 "
        "--verbose=2 --embedding_dim=3 --embedding_range=0.5 --epochs=2"
    ).split()
    flags.append(f"--vectors={vectors}")
    told = memlm("train", "dual_am_gru_shared", *flags)
    assert "2 of 7 words have vectors." in told.out
    (run,) = (folder / "runs").iterdir()
    results = results_of(run)
    assert results["embedding_range"] == 0.5
    assert [results[s]["pairs"] for s in ("validation", "test")] == [10, 12]
    with warnings.catch_warnings(action="error", category=UserWarning):
        told = memlm("predict", run / "model.keras", "a man is not", "a dog")
    found = dict(line.split()[::-1] for line in told.out.splitlines())
    assert set(found) == {"entailment", "neutral", "contradiction"}
    assert sum(map(float, found.values())) == pytest.approx(1, abs=0.01)
    pair = ("--premise=a man is", "--hypothesis=a dog")
    memlm("attention", run, *pair)
    rows = (run / "associations.csv").read_text().splitlines()
    assert rows[0].split(",")[1:] == ["a", "man", "is"] and len(rows) == 3
    memlm("attention", run, *pair, "--written=state")
    assert (run / "associations.csv").read_text().splitlines() != rows
    memlm("generate", run, "a", status=2)
    model = keras.saving.load_model(run / "model.keras", compile=False)
    assert np.abs(model.embedding.embeddings).max() > 0.3
    (folder / "own.tsv").write_text(
        "premise\thypothesis\tlabel\na man\tdogs.\tneutral\n"
    )
    told = memlm("evaluate", run, "--dataset=own.tsv")
    assert "own.tsv: all 1 pairs are test pairs." in told.out
    told = without_keras("train", "dual_am_gru_shared", *flags)
    assert told.status == 0, told.err
    assert "is finished, and is not trained again" in told.out


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="needs glibc")
def test_freed_memory_is_used_again():
    def faults(rounds):
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        for _ in range(rounds):
            _ = [np.ones(2**22, "float32") for _ in range(4)]
        return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

    _keep_memory()
    faults(1)
    # Without reuse of memory, each round would fault 4 * 4096 pages.
    assert faults(5) < 4096


def test_large_arrays_of_pytorch_have_large_pages():
    pytest.importorskip("torch")
    pages = pathlib.Path("/sys/kernel/mm/transparent_hugepage/enabled")
    if not pages.exists() or "[never]" in pages.read_text():
        pytest.skip("needs transparent huge pages")
    script = """
import resource
import sys
sys.argv = ["memlm"]  # which imports PyTorch after the setting
from memlm_keras.experiments import process
process.import_keras("torch")
import torch
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(5):
    torch.ones(2**24)
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""
    # With small pages, the five arrays would fault 5 * 16384 pages.
    assert int(python("-c", script).out) < 16384

import csv
import json
import re
import subprocess
import sys

import pytest
import running_recipes
from running_recipes import on_one_backend

RECIPE = running_recipes.RECIPES / "tran2016.py"


def write_text(folder):
    words = ["the", "old", "man", "saw", "a", "sea"]
    running_recipes.write_text(folder, words)


def run(folder, *arguments):
    common = ("--scale=0.05", "--batch_size=4")
    return running_recipes.run(folder, "tran2016.py", *common, *arguments)


def read_csv(path):
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


@on_one_backend
def test_a_table_of_neural_and_ngram_models(tmp_path):
    write_text(tmp_path / "text")

    arguments = (
        *("--table=perplexity", "--language=german", "--epochs=3"),
        "--halve_after=1",
        "--rows=rm_tm_gated,kneser_ney_5_cache,memn",
    )
    first = run(tmp_path, *arguments)
    assert first.returncode == 0, first.stdout + first.stderr
    folder = tmp_path / "runs" / "text-perplexity-scale0.05"
    rows = {row["preset"]: row for row in read_csv(folder / "table.csv")}
    assert list(rows) == ["kneser_ney_5_cache", "memn", "rm_tm_gated"]
    assert float(rows["rm_tm_gated"]["paper_test"]) == 118.6
    assert rows["rm_tm_gated"]["units"] == "6"
    for row in rows.values():
        assert 2 < float(row["test"]) < 12
    results = json.loads(
        (tmp_path / "runs" / "text-rm_tm_gated-scale0.05-seed0")
        .joinpath("results.json")
        .read_text()
    )
    assert "history emptied at each sentence" in results["test"]["protocol"]
    assert results["epochs"] == 3
    log = read_csv(
        tmp_path / "runs" / "text-rm_tm_gated-scale0.05-seed0" / "log.csv"
    )
    assert [float(row["learning_rate"]) for row in log] == [1.0, 0.5, 0.25]
    again = run(tmp_path, *arguments)
    assert again.returncode == 0, again.stdout + again.stderr
    assert again.stdout.count("finished before") == 3


PARSED = """\
1\tthe\t_\t_\t_\t_\t3\tdet\t_\t_
2\tgrey\t_\t_\t_\t_\t3\tamod\t_\t_
3\tsea\t_\t_\t_\t_\t0\troot\t_\t_
"""


def drawn(run_dir):
    found = [path for path in run_dir.iterdir() if path.suffix == ".png"]
    assert all(
        path.with_suffix(".csv").exists()
        for path in found
        if path.stem != "attention"
    )
    return {path.stem for path in found} - {"attention", "mean_attention"}


def write_treebank(folder):
    folder.mkdir(exist_ok=True)
    for split in ("train", "dev", "test"):
        (folder / f"xx_y-ud-{split}.conllu").write_text(f"{PARSED}\n" * 20)


@on_one_backend
def test_a_treebank_is_text_and_parses(tmp_path):
    write_treebank(tmp_path / "text")
    result = run(
        tmp_path,
        *("--epochs=1", "--minimum_count=6", "--analyses=dependencies"),
    )
    assert result.returncode == 0, result.stderr
    assert "20 sentences, 60 words, of which the vocabulary lacks 0.0%" in (
        result.stdout
    )
    run_dir = tmp_path / "runs" / "text-rm_tm_gated-scale0.05-seed0"
    assert drawn(run_dir) == {"dependency_attention"}
    results = json.loads((run_dir / "results.json").read_text())
    assert results["vocabulary_size"] == 5
    assert results["test"]["predicted_tokens"] == 80


@on_one_backend
@pytest.mark.parametrize("name", ["notes.conllu", "zz-ud-dev.conllu"])
def test_a_folder_that_holds_no_whole_treebank(name, tmp_path):
    write_treebank(tmp_path / "text")
    dev = tmp_path / "text" / "xx_y-ud-dev.conllu"
    dev.rename(dev.with_name(name))
    result = run(tmp_path)
    assert result.returncode
    message = f"must hold one treebank.*NAME-ud-dev.conllu.*{name}"
    assert re.search(message, result.stdout + result.stderr)


@on_one_backend
def test_analyses_when_trained_and_of_a_finished_run(tmp_path):
    write_text(tmp_path / "text")
    run_dir = tmp_path / "runs" / "text-rm_tm_gated-scale0.05-seed0"

    first = run(
        tmp_path, "--epochs=1", "--analyses=columns,predictions", "--samples=9"
    )
    assert first.returncode == 0, first.stderr
    assert drawn(run_dir) == {"attention_columns", "sentence_predictions"}
    assert len(read_csv(run_dir / "attention_columns.csv")) == 9
    lines = (tmp_path / "text" / "test.txt").read_text().splitlines()
    read = [
        row["read"] for row in read_csv(run_dir / "sentence_predictions.csv")
    ]
    assert read == ["<eos>", *max(map(str.split, lines), key=len)]

    trained = (run_dir / "model.keras").read_bytes()
    (tmp_path / "parsed.conllu").write_text(PARSED)
    again = run(
        tmp_path,
        *("--analyses=predictions,dependencies", "--sentence=the grey sea"),
        f"--conllu={tmp_path / 'parsed.conllu'}",
    )
    assert again.returncode == 0, again.stderr
    assert "is not trained again" in again.stdout
    assert "lacks, of --sentence: grey\n" in again.stdout
    assert "1 sentences, 3 words, of which the vocabulary lacks 33.3%" in (
        again.stdout
    )
    assert (run_dir / "model.keras").read_bytes() == trained
    read = [
        row["read"] for row in read_csv(run_dir / "sentence_predictions.csv")
    ]
    assert read == ["<eos>", "the", "<unk>", "sea"]
    pairs = {
        (row["dependency"], row["nearest"]): int(row["pairs"])
        for row in read_csv(run_dir / "dependency_attention.csv")
    }
    assert pairs["det←", "2"] == pairs["amod←", "1"] == 1
    assert pairs["ALL", "1"] == 2 and pairs["det←", "1"] == 0

    more = run(tmp_path, "--epochs=2", "--analyses=pairs")
    assert more.returncode == 0, more.stderr
    assert (run_dir / "model.keras").read_bytes() != trained
    # What showed the model before is gone with it.
    assert drawn(run_dir) == {"distant_pairs"}
    means = read_csv(run_dir / "distant_pairs_by_distance.csv")
    assert [row["distance"] for row in means] == [str(d) for d in range(7, 16)]


def write_questions(folder):
    """Three questions; no candidate of the last is a word of the text."""
    candidates = {
        "the [{}] sea": ("old", "man", "saw", "a", "the"),
        "a man [{}] the sea": ("saw", "old", "sea", "a", "the"),
        "the [{}] man": ("tall", "wide", "thin", "kind", "mute"),
    }
    questions, answers = [], []
    for number, (sentence, words) in enumerate(candidates.items(), 1):
        lines = [
            f"{number}{letter}) {sentence.format(word)}"
            for letter, word in zip("abcde", words)
        ]
        questions += lines
        answers.append(lines[0])
    paths = [folder / "questions.txt", folder / "answers.txt"]
    for path, lines in zip(paths, (questions, answers)):
        path.write_text("\n".join(lines) + "\n")
    return f"--questions={paths[0]}", f"--answers={paths[1]}"


def test_sentence_completion(tmp_path):
    write_text(tmp_path / "text")
    challenge = write_questions(tmp_path)
    runs = tmp_path / "runs"
    folders = {
        name: runs / f"text-{name}-scale0.05-seed0"
        for name in ("completion_lstm_256", "completion_birm_256")
    }
    trained = run(tmp_path, "--model=completion_lstm_256", "--epochs=1")
    assert trained.returncode == 0, trained.stderr
    weights = (folders["completion_lstm_256"] / "model.keras").read_bytes()

    arguments = (
        *("--table=completion", "--epochs=1", *challenge),
        f"--rows={','.join(folders)}",
    )
    first = run(tmp_path, *arguments)
    assert first.returncode == 0, first.stdout + first.stderr
    # What was trained before is only asked.
    found = (folders["completion_lstm_256"] / "model.keras").read_bytes()
    assert found == weights
    table = read_csv(runs / "text-completion-scale0.05" / "table.csv")
    assert [float(row["paper_accuracy"]) for row in table] == [0.56, 0.596]
    for row, (name, folder) in zip(table, folders.items(), strict=True):
        results = json.loads((folder / "results.json").read_text())
        assert results["preset"] == f"tran2016/{name}"
        assert results["dropout"] == 0.3
        answered = results["completion"]
        assert float(row["accuracy"]) == answered["accuracy"]
        assert answered["accuracy"] == answered["correct"] / 3
        assert answered["questions"] == 3
        assert answered["unknown_answers"] == 1
        # The first of equals is right.
        low, high = answered["interval"]
        assert 0 < low < answered["accuracy"] <= high <= 1
    # The last is of the model that reads ahead.
    assert "the words before and behind it" in answered["protocol"]
    assert "NO PERPLEXITY" in results["validation"]["protocol"]
    assert not (folder / "mean_attention.png").exists()

    again = run(tmp_path, *arguments)
    assert again.returncode == 0, again.stdout + again.stderr
    assert again.stdout.count("finished before") == 2


@on_one_backend
@pytest.mark.parametrize(
    "arguments, message",
    [
        ("--questions=x", "need each other.*Received: questions"),
        ("--table=completion", "needs both. Received: none"),
        ("--questions=x --answers=y", "no file --questions=x"),
        (
            f"--questions={RECIPE} --answers={RECIPE} --table=perplexity",
            "contradicts --table=perplexity",
        ),
        (
            f"--questions={RECIPE} --answers={RECIPE} --model=kneser_ney_5",
            "neural model.*=kneser_ney_5",
        ),
        (
            f"--questions={RECIPE} --answers={RECIPE}",
            "line 1: expected a number, a letter",
        ),
        (
            "--analyses=columns --model=completion_birm_256",
            "what was read before.*=completion_birm_256",
        ),
    ],
)
def test_wrong_flags_of_sentence_completion(arguments, message, tmp_path):
    result = run(tmp_path, *arguments.split())
    assert result.returncode
    assert re.search(message, result.stdout + result.stderr, re.S)
    assert not (tmp_path / "runs").exists()


@on_one_backend
def test_help_tells_of_the_flags_of_all_files(tmp_path):
    found = run(tmp_path, "--help").stdout
    for flag in ("model", "dataset", "table", "analyses", "questions"):
        assert f"--{flag}:" in found


@on_one_backend
@pytest.mark.parametrize(
    "arguments, message",
    [
        ("--analyses=rows", "some of columns, predictions, .*'rows'"),
        ("--analyses=pairs --table=perplexity", "contradicts --table"),
        ("--analyses=pairs --model=lstm_1", "that attends.*=lstm_1"),
        ("--analyses=pairs --window=6", "at least 7.*=6"),
        ("--sentence=x", "--sentence needs --analyses=predictions"),
        ("--analyses=predictions --sentence=", "at least one word.*''"),
        ("--analyses=dependencies", "needs --conllu"),
        ("--analyses=dependencies --conllu=none", "no file --conllu=none"),
    ],
)
def test_wrong_flags_of_analyses(arguments, message, tmp_path):
    result = run(tmp_path, *arguments.split())
    assert result.returncode
    assert re.search(message, result.stdout + result.stderr)
    assert not (tmp_path / "runs").exists()


@on_one_backend
@pytest.mark.parametrize("limit, told", [(3 * 20 * 4 * 3, False), (100, True)])
def test_long_sentences_are_told_of(limit, told):
    program = f"""
import sys, types
sys.path.insert(0, {str(running_recipes.RECIPES)!r})
import tran2016
from memlm_keras.data import Vocabulary
tran2016.LARGE_LOGITS = {limit}
corpus = types.SimpleNamespace(
    train=types.SimpleNamespace(tokens=[2, 2, 0, 2, 0]),
    vocabulary=Vocabulary(["<eos>", "<unk>", "a"]),
)
tran2016.tell_of_long_sentences(corpus, 20)
"""
    result = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True
    )
    assert result.returncode == 0, result.stderr
    assert ("3 tokens: the logits of 20 such rows" in result.stdout) == told

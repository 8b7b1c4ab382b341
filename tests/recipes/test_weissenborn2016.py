import csv

import keras
import numpy as np
import pytest
import running_recipes
from running_recipes import done
from running_recipes import on_one_backend
from running_recipes import results_of
from running_recipes import write_text

from memlm_keras import EntailmentClassifier


def write_sick(folder):
    """The files of the task, with a few pairs in each."""
    random = np.random.default_rng(0)
    labels = ["ENTAILMENT", "NEUTRAL", "CONTRADICTION"]
    header = ["pair_ID", "sentence_A", "sentence_B", "entailment_judgment"]
    folder.mkdir()
    for name, count in (
        *(("SICK_train.txt", 40), ("SICK_trial.txt", 12)),
        ("SICK_test_annotated.txt", 12),
    ):
        rows = [header]
        for number in range(count):
            words = random.choice(["a", "man", "dog", "is", "not"], (2, 5))
            label = labels[number % 3]
            rows.append([str(number), *map(" ".join, words), label])
        text = "\n".join("\t".join(row) for row in rows)
        (folder / name).write_text(text + "\n")


@pytest.fixture
def folder(tmp_path):
    write_text(tmp_path / "text", ["the", "old", "man", "saw", "a", "sea"])
    write_sick(tmp_path / "sick")
    return tmp_path


def run(folder, *arguments):
    """Later flags win, `--dataset` too."""
    common = ("--scale=0.06", "--batch_size=8", f"--run_dir={folder / 'runs'}")
    return running_recipes.run(
        folder, "weissenborn2016.py", *common, *arguments
    )


def of_pairs(folder, *arguments):
    sick = ("--dataset=sick", f"--data_dir={folder / 'sick'}")
    return run(folder, *sick, *arguments)


def test_a_classifier_with_vectors_a_picture_and_an_export(folder):
    vectors = folder / "vectors.txt"
    vectors.write_text(
        "".join(f"{w} {i} 1 {-i}\n" for i, w in enumerate(["a", "dog", "x"]))
    )
    saved_model = folder / "saved_models" / "pairs" / "1"
    arguments = (
        *("--epochs=3", "--embedding_dim=3", f"--vectors={vectors}"),
        f"--export={saved_model}",
    )
    told = done(of_pairs(folder, *arguments))
    assert "Vectors of 2 of 7 words." in told
    run_dir = (
        folder / "runs" / "sick-weissenborn2016-dual_am_gru_shared-"
        "scale0.06-seed0"
    )
    results = results_of(run_dir)
    assert results["epochs"] == 3
    assert results["pairs_per_second"] > 0
    assert results["test"]["pairs"] == 12
    assert 0 <= results["test"]["accuracy"] <= 100
    assert (saved_model / "saved_model.pb").exists()
    pair = ("--premise=a man is not", "--hypothesis=a dog")
    told = done(of_pairs(folder, *arguments[:-1], *pair))
    assert "is finished" in told and "a man is not / a dog" in told
    for label in ("entailment", "neutral", "contradiction"):
        assert label in told
    with open(run_dir / "associations.csv", newline="") as file:
        rows = list(csv.reader(file))
    assert rows[0] == ["read at", "a", "man", "is", "not"]
    assert [row[0] for row in rows[1:]] == ["a", "dog"]
    assert (run_dir / "associations.png").exists()


@on_one_backend
def test_a_table_of_classifiers(folder):
    arguments = (
        *("--table=entailment", "--epochs=1", "--embedding_dim=4"),
        "--rows=weissenborn2016/gru_shared,weissenborn2016/lstm_attention",
    )
    done(of_pairs(folder, *arguments))
    table = folder / "runs" / "sick-entailment-scale0.06" / "table.csv"
    with open(table, newline="") as file:
        rows = {row["preset"]: row for row in csv.DictReader(file)}
    assert len(rows) == 2
    row = rows["weissenborn2016/gru_shared"]
    # The paper's accuracies are of other pairs.
    assert not row.get("paper_test")
    assert float(row["pairs_per_second"]) > 0
    assert 0 <= float(row["test"]) <= 100
    assert done(of_pairs(folder, *arguments)).count("finished before") == 2


@on_one_backend
def test_embeddings_of_another_range_and_a_constant_rate(folder):
    arguments = (
        *("--table=entailment", "--epochs=2", "--embedding_dim=4"),
        *("--rows=weissenborn2016/gru_shared", "--nohalve"),
        *("--embedding_range=0.5", "--learning_rate=0"),
    )
    done(of_pairs(folder, *arguments))
    run_dir = (
        folder / "runs" / "sick-weissenborn2016-gru_shared-scale0.06-"
        "nohalve-embeddings0.5-seed0"
    )
    results = results_of(run_dir)
    assert (results["halve"], results["embedding_range"]) == (False, 0.5)
    model = keras.saving.load_model(run_dir / "model.keras", compile=False)
    assert isinstance(model, EntailmentClassifier)
    table = keras.ops.convert_to_numpy(model.embedding.embeddings)
    assert 0.3 < np.abs(table).max() <= 0.5


@on_one_backend
def test_an_autoencoder(folder):
    model = "--model=weissenborn2016/dual_am_gru_autoencoder"
    done(run(folder, model, "--epochs=1", "--beams=2", "--sentence=the sea"))
    (run_dir,) = (folder / "runs").iterdir()
    results = results_of(run_dir)
    assert results["longest"] == 30
    assert results["test"]["sequences"] == 20
    assert "BeamSampler" in results["test_by_beams"]["protocol"]
    assert results["test_by_beams"]["beams"] == 2
    arguments = ("--epochs=1", "--beams=3", "--sentence=the sea")
    told = done(run(folder, model, *arguments))
    assert "is finished" in told
    assert results_of(run_dir)["test_by_beams"]["beams"] == 3
    with open(run_dir / "associations.csv", newline="") as file:
        rows = list(csv.reader(file))
    assert rows[0] == ["read at", "the", "sea", "<eos>"]
    assert [row[0] for row in rows[1:]] == ["<eos>", "the", "sea"]


@on_one_backend
@pytest.mark.parametrize(
    "arguments, message",
    [
        (["--premise=a man"], "--premise and --hypothesis go together"),
        (["--model=daniluk2017/lstm"], "must be a classifier"),
        (["--dataset=ptb"], "Classifiers are trained on --dataset=embedded"),
        (["--table=entailment", "--model=x"], "--model contradicts --table"),
        (["--table=entailment", "--export=m/1"], "--export contradicts --tab"),
        (["--tokenize=unicode_script"], "--tokenize has no meaning for a Ent"),
        (["--beams=3"], "--beams has no meaning for a EntailmentClassifier"),
        (["--export=models/new"], "`path` must end with an integer version"),
    ],
)
def test_wrong_flags(folder, arguments, message):
    result = run(folder, *arguments)
    assert result.returncode != 0
    assert message in " ".join((result.stdout + result.stderr).split())
    assert not (folder / "runs").exists()

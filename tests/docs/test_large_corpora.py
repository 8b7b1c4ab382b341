"""Runs the scripts of `docs/how_to/large_corpora.md` in local mode, and its
`awk` command."""

import re
import shutil
import subprocess
import sys

import numpy as np
import pytest
from told import ROOT
from told import python

import memlm_keras as memlm
from memlm_keras.experiments import command_line

pytestmark = [pytest.mark.backend("torch"), pytest.mark.slow]

PAGE = (ROOT / "docs/how_to/large_corpora.md").read_text(encoding="utf-8")
SCRIPTS = dict(re.findall(r"^```python (\w+)\n(.*?)^```$", PAGE, re.M | re.S))
COUNT = 7


@pytest.fixture
def documents(tmp_path):
    """Writes files to `my_folder`; returns a dict from names to lines."""
    corpus = memlm.data.load("embedded")
    words = corpus.vocabulary.decode(corpus.test.tokens[:400])
    sentences = " ".join(words).replace("<eos>", "\n").split("\n")
    folder = tmp_path / "my_folder"
    folder.mkdir()
    lines = {}
    for number in range(COUNT):
        lines[f"{number}.txt"] = sentences[4 * number : 4 * number + 4]
        text = "\n".join(lines[f"{number}.txt"])
        (folder / f"{number}.txt").write_text(text)
    return lines


def bash(command, folder):
    """Returns the standard output of a command."""
    command = ["bash", "-c", command]
    return subprocess.check_output(command, cwd=folder, text=True)


@pytest.mark.parametrize("name", ["ray", "spark"])
def test_scripts_give_our_table(name, documents, tmp_path):
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    pytest.importorskip({"ray": "ray.data", "spark": "pyspark"}[name])
    if name == "spark" and shutil.which("java") is None:
        pytest.skip("Spark needs Java.")
    (tmp_path / "script.py").write_text(SCRIPTS[name])
    # The workers of Ray and Spark use this Python.
    variables = {"PYSPARK_PYTHON": sys.executable}
    variables |= {"OMP_NUM_THREADS": "1", "RAY_USAGE_STATS_ENABLED": "0"}
    python("script.py", folder=tmp_path, **variables)
    table = pandas.read_parquet(tmp_path / f"words_{name}")
    groups = table.groupby("document")
    found = {path.rpartition("/")[2]: rows for path, rows in groups}
    assert sorted(found) == sorted(documents)
    lm = memlm.LanguageModel.from_preset("memlm/embedded_lstm")
    for document, lines in documents.items():
        rows = found[document].sort_values(["sentence", "position"])
        for column, expected in lm.surprisal(lines).columns().items():
            if column == "word":
                assert tuple(rows[column]) == expected
            else:
                np.testing.assert_allclose(rows[column], expected, atol=1e-5)


def test_parts_are_joined_as_the_page_says(documents, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    command = ["surprisal", "memlm/embedded_lstm", "my_folder"]
    command.append("--out=words.tsv")
    assert command_line.main(command) == 0
    for part in (3, 1, 2):
        assert command_line.main([*command, f"--shard={part}/3"]) == 0
    (awk,) = re.findall(r"^awk .*", PAGE, re.M)
    joined = bash(awk, tmp_path)
    assert joined == (tmp_path / "words.tsv").read_text()


def test_missing_runs_are_trained_as_the_page_says(tmp_path):
    (line,) = re.findall(r"^memlm table .*\| (xargs .*)", PAGE, re.M)
    commands = "echo 'the man' > one\necho 'the sea' > two\n"
    (tmp_path / "commands").write_text(commands)
    bash(f"{line} < commands", tmp_path)
    assert (tmp_path / "one").read_text() == "the man\n"
    assert (tmp_path / "two").read_text() == "the sea\n"

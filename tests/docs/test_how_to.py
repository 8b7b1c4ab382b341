"""How-to pages run unchanged, on tiny files of the right formats.

Commands, also those of docs/results, run up to training.
"""

import importlib.util
import re
import shlex
import string

import corpus_files
import keras
import pytest
from absl import flags
from told import ROOT

from memlm_keras.data import embedded
from memlm_keras.data import embedded_pairs
from memlm_keras.experiments import command_line
from memlm_keras.experiments import experiment
from memlm_keras.experiments.tables import table

from ..recipes.conftest import loaded

pytestmark = pytest.mark.usefixtures("papers_kept")
TUTORIAL = ROOT / "docs" / "tutorial.md"
PAGES = sorted((ROOT / "docs" / "how_to").glob("*.md"))
RESULTS = sorted((ROOT / "docs" / "results").glob("*.md"))
ALL_PAGES = [
    pytest.param(page, id=str(page.relative_to(ROOT)))
    for page in (
        *sorted(ROOT.glob("*.md")),
        *sorted((ROOT / "docs").rglob("*.md")),
        ROOT / "saved_models" / "README.md",
    )
]
# By default, pages run on PyTorch, which does not compile; exports run on
# TensorFlow in the same process.
BACKENDS = dict.fromkeys(
    ("on_device.md", "onnx.md", "serving.md", "tutorial.md"), "tensorflow"
)
BACKEND = "torch"

# The only command that trains; others are stopped before training.
TRAINED = (
    "memlm train key_value_predict --dataset=my_text.txt --scale=0.3 --epochs=5"
)
# Commands that run if their run folder exists.
OF_RUNS = ("attention", "evaluate", "generate", "score", "surprisal")
SHORT = {"train": ("--epochs=1", "--verbose=0")}
OTHER_PROGRAMS = (
    "./onnx_client apt-get c++ cat cd cp curl docker export lm_eval mkdir node "
    "pip python python3 torchrun tritonserver".split()
)


def blocks(page):
    """Returns a page's Python blocks as pairs: the number of lines before, and
    the text."""
    text = page.read_text(encoding="utf-8")
    return [
        (text[: match.start(1)].count("\n"), match[1])
        for match in re.finditer(r"^```python\n(.*?)^```$", text, re.M | re.S)
    ]


def test_words_are_no_missing_values():
    """By default, pandas reads the words null, None and NA as missing
    values."""
    text = "".join(page.read_text(encoding="utf-8") for page in PAGES)
    calls = re.findall(r"\bread_csv\([^`]*`", text)
    assert calls
    assert all("keep_default_na=False" in call for call in calls)


def command_lines(page):
    """Returns the commands of a page, each as one line."""
    text = page.read_text(encoding="utf-8").replace("\\\n", " ")
    blocks = re.findall(r"^```bash\n(.*?)^```$", text, re.M | re.S)
    lines = "".join(blocks).splitlines()
    if page not in PAGES:
        # Other indented blocks show output.
        lines += re.findall(r"^ {4}(?:memlm|python|cp|mkdir) .*", text, re.M)
    return [" ".join(line.split()) for line in lines]


def pages_with(extract, pages=PAGES):
    return [
        pytest.param(page, id=page.stem, marks=on_one_backend(page))
        for page in pages
        if extract(page)
    ]


def on_one_backend(page):
    return pytest.mark.backend(BACKENDS.get(page.name, BACKEND))


def write_files(folder):
    """Writes all files that the pages name, except downloaded corpora."""
    corpus_files.write_examples(folder)
    corpus_files.write_splits(folder)
    corpus_files.write_splits(folder / "my_folder")
    corpus_files.write_splits(folder / "path" / "to" / "italian")
    corpus_files.write_file(folder / "my_text.txt")
    pieces = ["<blk>", "<sos/eos>", "<unk>", "\u2581", *string.ascii_lowercase]
    corpus_files.write_lines(
        folder / "tokens.txt", [f"{p} {id}" for id, p in enumerate(pieces)]
    )
    for name in ("train", "valid", "test"):
        path = folder / f"{name}.txt"
        path.write_text(f"= {name} =\n{path.read_text()}")

    corpus_files.write_documents(folder / "wikipedia", count=40)
    lines = []
    for number in range(40):
        lines += [f"= title{number} =", *corpus_files.sentences(6, seed=number)]
    corpus_files.write_lines(folder / "wikipedia.txt", lines)

    corpus_files.write_treebank(folder / "UD_German-GSD", "de_gsd")
    corpus_files.write_treebank(folder / "path" / "to" / "de_gsd", "de_gsd")
    (folder / "parses.conllu").write_text(f"{corpus_files.PARSED}\n" * 3)

    corpus_files.write_snli(folder / "snli_1.0")
    rows = [f"A man sings {n}.\tHe sings.\t{n % 2}" for n in range(20)]
    corpus_files.write_lines(folder / "pairs.tsv", rows)
    corpus_files.write_vectors(
        folder / "glove.840B.300d.txt", ("a", "man", "dog"), dimension=300
    )


def write_checkpoint(folder):
    """Writes a model as other programs do, and its word list."""
    import torch

    corpus_files.write_lines(folder / "vocab.txt", ["<unk>", "she", "<eos>"])
    layers = {
        "encoder": torch.nn.Embedding(3, 4),
        "rnn": torch.nn.LSTM(4, 5, 2),
        "decoder": torch.nn.Linear(5, 3),
    }
    torch.save(torch.nn.ModuleDict(layers).state_dict(), folder / "model.pt")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Returns a working folder with the pages' files; generated corpora are
    tiny."""
    monkeypatch.setenv("MEMLM_KERAS_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(embedded.load, "__defaults__", (20, 4, 4, 0))
    for split, size in {"train": 50, "validation": 10, "test": 10}.items():
        monkeypatch.setitem(embedded_pairs.SIZES, split, size)
    folder = tmp_path / "work"
    folder.mkdir()
    write_files(folder)
    if keras.backend.backend() == BACKEND:
        write_checkpoint(folder)
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def servers(folder, local_clients):
    """Makes clients use local servers of the models that a page exports."""
    addresses = local_clients(folder)
    yield
    assert set(addresses) <= {"http://localhost:8501", "localhost:8500"}


@pytest.mark.parametrize("page", pages_with(blocks))
@pytest.mark.slow
def test_blocks_run(page, folder, servers, run_as_module, capsys):
    shown = []
    for lines_before, block in blocks(page):
        # With a prefix, the module of onnx.md does not replace the package
        # `onnx`.
        run_as_module(f"page_{page.stem}", block, page, lines_before)
        shown += re.findall(r"# (\([\d, ]+\)|\{.*\})", block)
    out = re.sub(r"torch.Size\(\[(.*)\]\)", r"(\1)", capsys.readouterr().out)
    assert [each for each in shown if each not in out] == []


@pytest.mark.parametrize("page", pages_with(command_lines, [*PAGES, *RESULTS]))
def test_commands_can_be_typed(page, folder, monkeypatch, capsys):
    # Files that other lines of the pages create.
    corpus_files.write_documents(folder / "novels", count=40)
    for name in ("fifth", "tenth", "FOLDER_OF_BOOKS"):
        corpus_files.write_splits(folder / name)
    for name in ("eliot", "kidnapped", "novel"):
        corpus_files.write_file(folder / f"{name}.txt")
    for command in command_lines(page):
        program, *arguments = shlex.split(command)
        if program == "memlm":
            check_command(command, arguments, folder, monkeypatch)
        else:
            assert program in OTHER_PROGRAMS, command
        if program == "python" and arguments[0] == "-m":
            assert importlib.util.find_spec(arguments[1]), command
        elif program == "python":
            assert (ROOT / arguments[0]).is_file(), command
    capsys.readouterr()


def test_programs_have_the_flags_of_commands():
    pages = [page.values[0] for page in ALL_PAGES]
    text = "".join(page.read_text(encoding="utf-8") for page in pages)
    line = r"^ *python recipes/(\w+)\.py\b(.*)"
    commands = re.findall(line, text.replace("\\\n", " "), re.M)
    assert commands
    for name, arguments in commands:
        with loaded(name):
            flags.FLAGS([name, *shlex.split(arguments, comments=True)])


def check_command(command, arguments, folder, monkeypatch):
    """Runs a command up to training."""
    name = arguments[0]
    command_line.COMMANDS[name].parse(arguments[1:])
    # Remove `--backend`, since Keras already has a backend in this process.
    arguments = [a for a in arguments if not a.startswith("--backend=")]
    runs = [word for word in arguments[1:] if word.startswith("runs/")]
    if (
        name in OF_RUNS
        and runs
        and all((folder / run).is_dir() for run in runs)
    ):
        assert command_line.main(arguments) == 0, command
    elif name not in ("train", "table", "presets"):
        return
    elif (
        command == TRAINED
        or name == "presets"
        or (name == "table" and "/" not in arguments[1])
    ):
        assert command_line.main(arguments) == 0, command
    else:
        with monkeypatch.context() as patch, pytest.raises(WouldTrain):
            patch.setattr(experiment.Experiment, "run", would_train)
            patch.setattr(table.TableRuns, "fill", would_train)
            patch.setattr(table.TableRuns, "list_missing", would_train)
            status = command_line.main(arguments)
            pytest.fail(f"{command}: exit status {status}")


class WouldTrain(BaseException):
    """A command reached training."""


def would_train(*arguments, **named):
    raise WouldTrain


@pytest.mark.filterwarnings("ignore:Counts of counts")
@pytest.mark.usefixtures("servers")
@pytest.mark.slow
@on_one_backend(TUTORIAL)
def test_the_tutorial_runs(folder, capsys):
    text = TUTORIAL.read_text(encoding="utf-8").replace("\\\n", " ")
    names = {}
    for kind, block in re.findall(r"^```(\w+)\n(.*?)^```$", text, re.M | re.S):
        if kind == "python":
            exec(compile(block, str(TUTORIAL), "exec"), names)
            continue
        for command in block.splitlines():
            program, *arguments = shlex.split(command)
            if program == "memlm":
                arguments += SHORT.get(arguments[0], ())
                status = command_line.main(arguments)
                assert status == 0, (command, capsys.readouterr().err)
            else:
                assert program in OTHER_PROGRAMS, command
    assert (folder / "map.html").exists()


def test_the_trained_command_is_on_a_page():
    assert TRAINED in command_lines(ROOT / "docs" / "how_to" / "own_text.md")


@pytest.mark.parametrize("page", ALL_PAGES)
def test_links_exist(page):
    text = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.M | re.S)
    # Code such as `signatures["step"](token_ids=...)` is not a link.
    text = re.sub(r"`[^`\n]+`", "code", text)
    for target in re.findall(r"\]\(([^)]+)\)", text):
        path, _, _ = target.partition("#")
        if path and "://" not in path:
            assert (page.parent / path).exists(), target


def test_the_index_names_every_page():
    index = (ROOT / "docs" / "how_to" / "README.md").read_text()
    linked = set(re.findall(r"\]\((\w+\.md)\)", index))
    assert linked == {page.name for page in PAGES} - {"README.md"}

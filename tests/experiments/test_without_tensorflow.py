"""Tests that `memlm` runs without TensorFlow, and imports no large package that
a command does not need."""

import os
import pathlib
import sys

import pytest
from language_models import shared
from told import ROOT
from told import python

from memlm_keras import serving
from memlm_keras.data import vocabulary
from memlm_keras.serving.exported import ServedModel

# Python runs this module at its start. The module hides packages, and prints
# at exit which large packages Python has imported.
SITE = """
import atexit, os, sys
from importlib.machinery import PathFinder

hidden, find = os.environ["HIDDEN"].split(), PathFinder.find_spec

def find_spec(name, *others):
    return None if name.partition(".")[0] in hidden else find(name, *others)

def tell():
    late = {"tensorflow", "tensorflow_text", "keras_hub"}
    late = (late | {*os.environ["LATE"].split()}) & {*sys.modules}
    print("imported:", *sorted(late), file=sys.stderr)

PathFinder.find_spec = find_spec
atexit.register(tell)
"""
ABSENT = "tensorflow tensorflow_text keras_hub keras_nlp matplotlib"
BACKENDS = pytest.mark.parametrize("backend", ["jax", "torch"])


@pytest.fixture
def alone(folder):
    """`alone(backend, *arguments)`: runs `memlm` in a new process."""
    (folder / "sitecustomize.py").write_text(SITE)

    def call(backend, *arguments, hidden=ABSENT, late="", status=0):
        path = os.pathsep.join([str(folder), str(ROOT)])
        variables = {"KERAS_BACKEND": backend, "HIDDEN": hidden, "LATE": late}
        command = ("-m", "memlm_keras", *arguments)
        variables |= {"PYTHONPATH": path}
        _, out, err = python(*command, status=status, **variables)
        *told, imported = err.splitlines()
        assert imported == "imported:"
        return out + "\n".join(told)

    return call


def tiny(preset):
    flags = "--dataset=text --units=8 --batch_size=4 --epochs=1 --verbose=0"
    return f"train {preset} {flags} --run_dir=runs".split()


def test_without_a_choice_the_installed_backend_runs(alone, folder):
    hidden = f"{ABSENT} jax scipy"
    arguments = *tiny("daniluk2017/lstm"), "--verbose=2"
    told = alone(None, *arguments, hidden=hidden)
    assert "There are no pictures. A picture needs matplotlib" in told
    config = next(folder.glob("runs/*/results.json")).read_text()
    assert '"backend": "torch' in config


@pytest.mark.slow
@BACKENDS
@pytest.mark.parametrize(
    "preset", ["kong2019/vs_kneser_ney_512", "salton2017/ptb_combined"]
)
def test_all_of_a_row_where_it_is_absent(alone, folder, backend, preset):
    alone(backend, *tiny(preset))
    (run,) = (folder / "runs").iterdir()
    assert "perplexity" in alone(backend, "evaluate", run)
    for sampler in ("greedy", "top_p"):
        assert alone(backend, "generate", run, "a", f"--sampler={sampler}")
    assert "surprisal" in alone(backend, "surprisal", run, "text/test.txt")
    told = alone(backend, "export", run, "exported/1", status=1)
    assert told.count("\n") == 0 and "pip install tensorflow" in told
    told = alone(backend, "generate", run, "a", "--sampler=beam", status=1)
    assert told.count("\n") == 0 and "pip install keras-nlp" in told


@BACKENDS
def test_what_takes_seconds_to_import_is_not_imported(alone, folder, backend):
    late = "matplotlib requests sympy torch._dynamo jax torch".split()
    late.remove(backend)
    reads = ("surprisal", "memlm/embedded_attention", "text/test.txt")
    assert alone(backend, *reads, hidden="", late=" ".join(late))
    further = tiny("memlm/embedded_lstm")
    further.remove("--units=8")
    alone(backend, *further, hidden="")
    (run,) = (folder / "runs").iterdir()
    alone(backend, "evaluate", run, hidden="")
    alone(backend, "generate", run, "a", hidden="")


def test_tensorflow_finds_what_it_imports_and_does_not_log(folder):
    def memlm(*arguments, status=0):
        arguments = ("-m", "memlm_keras", *arguments)
        return python(*arguments, status=status, KERAS_BACKEND="tensorflow").err

    assert not memlm("score", "memlm/embedded_attention", "ruth ellis was born")
    (folder / "text" / "1").mkdir()
    told = memlm("export", "memlm/embedded_lstm", "text/1", status=2)
    assert told.count("\n") == 1 and "text/1" in told


def test_compiled_functions_of_keras_draw_as_they_do(folder):
    """`import_keras` hides PyTorch's compiler, which must not change draws."""
    program = """
import sys
sys.argv = ["memlm"]
from memlm_keras.experiments import process
process.import_keras("torch")
import keras, torch

def draw():
    keras.utils.set_random_seed(0)
    return keras.random.normal((3,), seed=keras.random.SeedGenerator(1)) * 2

expected = draw()
assert "torch._dynamo" not in sys.modules
found = torch.compile(draw, backend="eager")()
assert (expected == found).all(), (expected, found)
import torch._dynamo, matplotlib
assert matplotlib.__version__ and torch._dynamo.optimize
"""
    python("-c", program)


@pytest.mark.slow
def test_a_folder_of_transformers_needs_no_tensorflow(alone, folder):
    pytest.importorskip("transformers")
    alone("torch", *tiny("daniluk2017/key_value"))
    (run,) = (folder / "runs").iterdir()
    alone("torch", "export", run, "hf", "--format=hf")
    assert (folder / "hf" / "model.safetensors").exists()


LITERT, BY_BEAMS = "ai_edge_litert.interpreter", ([[1]], 4, "beam")


@pytest.mark.parametrize(
    "absent, package, use",
    [
        ("tensorflow", "tensorflow", vocabulary.script_classes.__wrapped__),
        ("tensorflow", "tensorflow", lambda: ServedModel(pathlib.Path("1"))),
        ("tensorflow", "tensorflow", lambda: serving.check_path("new/1")),
        ("keras_nlp", "keras-nlp", lambda: shared().generate(*BY_BEAMS)),
        ("onnxruntime", "onnxruntime", lambda: serving.load("model.onnx")),
        (LITERT, "ai-edge-litert", lambda: serving.load("model.tflite")),
    ],
    ids=["scripts", "SavedModel", "export", "beam", "ONNX", "LiteRT"],
)
def test_a_missing_package_is_named(folder, monkeypatch, absent, package, use):
    for name in ("model.onnx", "model.tflite"):
        (folder / name).touch()
    monkeypatch.setitem(sys.modules, absent, None)
    with pytest.raises(ImportError, match=f"pip install {package}"):
        use()

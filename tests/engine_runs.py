"""Runs exported small models in real engines, and makes a table of the
results."""

import dataclasses
import datetime
import functools
import importlib.util
import json
import os
import pathlib
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
from importlib import metadata

import keras
import numpy as np
import onnx_runs
import sherpa_runs
from exported_models import tensor_names
from preset_families import V
from preset_families import small
from told import ROOT

from memlm_keras.serving import export

CLIENTS = ROOT / "tests" / "serving"
STEPS = 100
FAMILIES = tuple(
    """
    daniluk2017/rnn daniluk2017/lstm daniluk2017/gated_hornn
    daniluk2017/rm_tm_gated daniluk2017/attention daniluk2017/key_value_predict
    daniluk2017/ngram_2 grave2017/ptb_cache_500 merity2017/ptb_pointer_sentinel
    kong2019/vs_kneser_ney_512 weissenborn2016/gru_language_model
    weissenborn2016/am_gru_language_model
""".split()
)
# Signatures of SavedModels, of which each engine runs all.
SIGNATURES = ("serving_default", "score", "step", "initial_state")
# Program that runs another program and prints its peak memory.
_MEASURED = """
import resource, subprocess, sys
code = subprocess.run(sys.argv[1:]).returncode
kib = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
print(kib, "KiB", file=sys.stderr)
sys.exit(code)
"""


@dataclasses.dataclass
class Run:
    """Largest difference of log-probabilities between engine and model, the
    time of a word, and the memory of the process."""

    difference: float
    milliseconds: float
    mebibytes: float


class Exported:
    """A small model of a preset, its exported files, each written at first use,
    and its log-probabilities `(STEPS, V)` for some ids."""

    def __init__(self, name, folder):
        self.name = name
        self.folder = folder
        self.model = small(name)
        self.ids = np.random.default_rng(3).integers(V, size=STEPS)
        self.ids[0] = self.model.vocabulary.end_of_sentence_id
        np.save(folder / "ids.npy", self.ids)
        self.expected = self.by_model(self.ids)

    def by_model(self, ids):
        """Computes log-probabilities `(STEPS, V)` after each id."""
        logits, _ = self.model.step(
            ids[None].astype("int32"), self.model.initial_state(1)
        )
        return onnx_runs.array(keras.ops.log_softmax(logits[0]))

    @functools.cached_property
    def onnx(self):
        path = self.folder / "model.onnx"
        export(self.model, path, format="onnx")
        return path

    @functools.cached_property
    def litert(self):
        path = self.folder / "model.tflite"
        export(self.model, path, format="litert")
        return path

    @functools.cached_property
    def saved_model(self):
        """Exports a SavedModel that returns all words as the most probable
        ones; a file beside it contains the names of its tensors."""
        path = self.folder / "1"
        export(self.model, path, top_k=V)
        names = tensor_names(path)
        path.with_suffix(".json").write_text(json.dumps(names))
        return path

    @functools.cached_property
    def triton(self):
        """Exports a Triton model repository with the model `lm`."""
        path = self.folder / "repository"
        export(self.model, path / "lm", format="triton")
        return path


class Refused(Exception):
    """Raised if the engine cannot run the file."""


def run(exported, command, **options):
    """Runs a program with the path of a scores file as an additional last
    argument; the program writes the file and prints the time of a word."""
    with tempfile.TemporaryDirectory() as folder:
        scores = pathlib.Path(folder, "scores.f32")
        errors = measured([*command, scores], **options).stderr
        found = np.fromfile(scores, "float32").reshape(STEPS, V)
    return of_errors(found - exported.expected, errors)


def of_errors(differences, errors):
    """Returns a `Run` with the time and memory printed to standard error."""
    return Run(
        float(np.abs(differences).max()),
        float(re.search(r"^(\S+) ms a word$", errors, re.M)[1]),
        float(re.search(r"^(\d+) KiB$", errors, re.M)[1]) / 1024,
    )


def measured(command, **options):
    """Runs a program; its memory use is printed to the returned standard
    error."""
    done = subprocess.run(
        [sys.executable, "-IS", "-c", _MEASURED, *map(str, command)],
        capture_output=True,
        text=True,
        **options,
    )
    if done.returncode:
        raise Refused(done.stderr)
    return done


# === The engines ===


class InPython:
    """A Python engine, whose client is a class of `engine_client.py`."""

    def __init__(self, package, client, format):
        self.package = package
        self.client = client
        self.format = format

    def missing(self):
        """Returns why the engine cannot run here, or `None`."""
        if importlib.util.find_spec(self.package) is None:
            return f"{self.package} is not installed"
        return None

    def run(self, exported):
        return run(
            exported,
            [
                *(sys.executable, "-I", CLIENTS / "engine_client.py"),
                self.client,
                getattr(exported, self.format),
                exported.folder / "ids.npy",
            ],
        )


class OfWords:
    """A client from `deploy/`, which reads words and runs an ONNX file."""

    def run(self, exported):
        tokens = exported.model.vocabulary.tokens
        return run(
            exported,
            [*self.command(), exported.onnx],
            # The client itself adds the end of a sentence that begins the ids.
            input="\n".join(tokens[id] for id in exported.ids[1:]),
        )


class InCpp(OfWords):
    """onnxruntime's C++ library from $ONNXRUNTIME_HOME or /usr."""

    def missing(self):
        if shutil.which("c++") is None:
            return "there is no C++ compiler"
        if not HEADERS:
            return "ONNXRUNTIME_HOME has no include/onnxruntime_cxx_api.h"
        return None

    def command(self):
        return [compiled_client()]


_HOME = pathlib.Path(os.environ.get("ONNXRUNTIME_HOME", "/usr"))
# Some systems have the headers in a subfolder.
HEADERS = sorted(_HOME.glob("include/**/onnxruntime_cxx_api.h"))


@functools.cache
def compiled_client():
    """`deploy/onnx_client.cc`, compiled."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="onnx_client"))
    done = subprocess.run(
        [
            *("c++", "-std=c++17", "-O2", "-Wall", "-Wextra", "-Werror"),
            *("-isystem", HEADERS[0].parent),
            ROOT / "deploy" / "onnx_client.cc",
            *(f"-L{_HOME}/lib", f"-Wl,-rpath,{_HOME}/lib", "-lonnxruntime"),
            *("-o", folder / "onnx_client"),
        ],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return folder / "onnx_client"


class InNode(OfWords):
    """onnxruntime-node from a folder in $NODE_PATH."""

    def missing(self):
        if shutil.which("node") is None:
            return "there is no Node"
        folders = os.environ.get("NODE_PATH", "").split(os.pathsep)
        if not any(
            pathlib.Path(folder, "onnxruntime-node").is_dir()
            for folder in folders
        ):
            return "NODE_PATH has no onnxruntime-node"
        return None

    def command(self):
        return ["node", ROOT / "deploy" / "onnx_client.js"]


class InTriton:
    """Triton from the Python $TRITON_PYTHON, with `nvidia-pytriton` and
    onnxruntime. This server has no ONNX backend, so a Python model runs the
    ONNX file."""

    def missing(self):
        if not os.environ.get("TRITON_PYTHON"):
            return "TRITON_PYTHON names no Python"
        return None

    def run(self, exported):
        scores, _, errors = self.serve(
            exported, self.with_python_model(exported)
        )
        expected = exported.expected
        backwards = exported.by_model(exported.ids[::-1])
        found = of_errors(scores - [expected, backwards, expected], errors)
        server = re.search(r"(\d+) KiB of the server", errors)
        return dataclasses.replace(found, mebibytes=float(server[1]) / 1024)

    def with_python_model(self, exported):
        """Copies the repository, with a Python model that runs the ONNX
        file."""
        repository = exported.folder / "python"
        shutil.copytree(exported.triton, repository)
        path = repository / "lm" / "config.pbtxt"
        config = path.read_text().replace(
            'platform: "onnxruntime_onnx"', 'backend: "python"'
        )
        # Remove all blocks `state` from the configuration.
        config = re.sub(r"(?ms)^  state \{$.*(?=^\}$)", "", config)
        path.write_text(config)
        model = repository / "lm" / "1" / "model.py"
        shutil.copy(CLIENTS / "triton_model.py", model)
        return repository

    def serve(self, exported, repository):
        """Serves a repository; returns log-probabilities `(3, STEPS, V)` from
        the client, and the client's standard output and standard error."""
        path = exported.folder / "triton.f32"
        client = os.environ["TRITON_PYTHON"], "-I", CLIENTS / "triton_client.py"
        arguments = repository, exported.folder / "ids.npy", path
        done = measured([*client, *arguments])
        scores = np.fromfile(path, "float32").reshape(3, STEPS, V)
        return scores, done.stdout, done.stderr


class InSherpa:
    """sherpa-onnx's streaming recognizer, with one path and a score per
    token."""

    def missing(self):
        if importlib.util.find_spec("sherpa_onnx") is None:
            return "sherpa_onnx is not installed"
        return None

    def run(self, exported):
        folder = exported.folder / "sherpa"
        folder.mkdir()
        lm = sherpa_runs.model(exported.name, folder)
        random = np.random.default_rng(3)
        heard = random.integers(sherpa_runs.FIRST, V, size=(STEPS, 1))
        made = sherpa_runs.Transducer(heard, random)
        made.write(folder / "online", streaming=True)
        expected, _ = sherpa_runs.scores(lm, heard.T)
        request = sherpa_runs.request(folder, "online", True, 1.0, 1)
        (result,), done = sherpa_runs.decode(folder, [request], measured)
        return of_errors(result["scores"] - expected[0], done.stderr)


ENGINES = {
    "TensorFlow, C library": InPython(
        "tensorflow", "TensorFlow", "saved_model"
    ),
    "onnxruntime, Python": InPython("onnxruntime", "OnnxRuntime", "onnx"),
    "onnxruntime, C++": InCpp(),
    "onnxruntime, Node": InNode(),
    "OpenVINO, ONNX": InPython("openvino", "OpenVino", "onnx"),
    "OpenVINO, LiteRT": InPython("openvino", "OpenVino", "litert"),
    "OpenVINO, SavedModel": InPython(
        "openvino", "OpenVinoDefault", "saved_model"
    ),
    "LiteRT": InPython("ai_edge_litert", "LiteRt", "litert"),
    "sherpa-onnx": InSherpa(),
    "Triton": InTriton(),
}


# === The table ===


def write_log(path, families):
    """Writes the results of all families and engines as JSON."""
    packages = ("tensorflow", "onnxruntime", "openvino", "ai-edge-litert")
    log = {
        "date": datetime.date.today().isoformat(),
        "steps": STEPS,
        "versions": {
            name: metadata.version(name) for name in (*packages, "sherpa-onnx")
        },
        "families": families,
    }
    text = json.dumps(log, indent=1) + "\n"
    pathlib.Path(path).write_text(text)


def table(log):
    """Returns the documentation's table in Markdown, one row per engine."""
    lines = [
        "| engine | kinds that run | largest difference | ms a word | MiB |",
        "|---|---|---|---|---|",
    ]
    kinds = log["families"].values()
    for engine in ENGINES:
        right = [found[engine] for found in kinds if is_right(found[engine])]
        difference = max(run["difference"] for run in right)
        cells = [
            engine,
            f"{len(right)} of {len(kinds)}",
            f"{difference:.0e}".replace("e-0", "e-"),
            f"{statistics.median(run['milliseconds'] for run in right):.2f}",
            f"{statistics.median(run['mebibytes'] for run in right):.0f}",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def is_right(found):
    """Returns whether an engine computed the model's probabilities."""
    return "refused" not in found and found["difference"] <= 0.1

"""A memory and a preset of an invented paper, in somebody else's package."""

import os
import pathlib
import subprocess
import sys

import memlm_keras

from .conftest import results_of

PAPER = '''
"""Mine (2027): each output is added to a running mean of those before."""

import dataclasses

import keras
from keras import ops

import memlm_keras


@keras.saving.register_keras_serializable("mine2027")
class RunningMean(memlm_keras.memory.Memory):
    attends = False

    def __init__(self, decay=0.5, **kwargs):
        super().__init__(**kwargs)
        self.decay = decay

    def build(self, input_shape):
        self.units = input_shape[-1]
        super().build(input_shape)

    def initial_state(self, batch_size):
        zeros = ops.zeros((batch_size, self.units), self.compute_dtype)
        return {"mean": zeros}

    def read(self, outputs, state, token_ids=None, mask=None):
        mean, found = state["mean"], []
        for step in range(outputs.shape[1]):
            found.append(outputs[:, step] + mean)
            mean = self.decay * mean + (1 - self.decay) * outputs[:, step]
        return ops.stack(found, 1), {"mean": mean}, ops.zeros(
            (*ops.shape(outputs)[:2], 0), self.compute_dtype
        )

    def get_config(self):
        return {**super().get_config(), "decay": self.decay}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Row(memlm_keras.presets.Row):
    decay: float = 0.5

    def model(self):
        return {
            "embedding_dim": self.embedding_size,
            "recurrent": [keras.layers.GRU(self.units)],
            "memory": RunningMean(self.decay),
        }


memlm_keras.presets.register(
    "mine2027",
    {"fast": Row(units=6, decay=0.1), "slow": Row(units=6, decay=0.9)},
    title="Running Means",
    authors=("Mine",),
    year=2027,
)
'''


def install(folder):
    """Puts the package where Python looks, as an installer does."""
    folder.mkdir()
    (folder / "mine2027.py").write_text(PAPER)
    about = folder / "mine2027-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Name: mine2027\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(
        "[memlm_keras.presets]\nmine2027 = mine2027\n"
    )


def test_a_paper_of_another_package(folder):
    install(folder / "packages")
    root = pathlib.Path(memlm_keras.__file__).parents[1]
    paths = [root, folder / "packages", os.environ.get("PYTHONPATH", "")]
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(map(str, paths)),
    }

    def memlm(*arguments):
        found = subprocess.run(
            [sys.executable, "-m", "memlm_keras", *map(str, arguments)],
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
        )
        assert found.returncode == 0, found.stdout + found.stderr
        return found.stdout

    assert "Mine (2027), Running Means" in memlm("presets", "mine2027")
    memlm(
        "train",
        "slow",
        "--dataset=text",
        "--epochs=1",
        "--batch_size=4",
        "--segment_length=5",
        "--verbose=0",
    )
    (run,) = (folder / "runs").iterdir()
    assert results_of(run)["preset"] == "mine2027/slow"
    # It was saved, and streams.
    assert memlm("generate", run, "the old", "--seed=1").startswith("the old")
    memlm("export", run, "saved_models/mine")
    assert (folder / "saved_models" / "mine" / "1" / "saved_model.pb").exists()

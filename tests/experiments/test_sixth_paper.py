"""A memory and a preset of an invented paper, in somebody else's package."""

import os
import pathlib

import pytest

import memlm_keras
from memlm_keras import registry

from .conftest import results_of

pytestmark = pytest.mark.slow

PAPER = '''
"""Mine (2027): a share of the output before is added to each."""

import dataclasses

import keras
from keras import ops

import memlm_keras


@keras.saving.register_keras_serializable("mine2027")
class Echo(memlm_keras.memory.Memory):
    attends = False

    def __init__(self, share=0.5, **kwargs):
        super().__init__(**kwargs)
        self.share = share

    def build(self, input_shape):
        self.units = input_shape[-1]
        super().build(input_shape)

    def initial_state(self, batch_size):
        zeros = ops.zeros((batch_size, 1, self.units), self.compute_dtype)
        return {"last": zeros}

    def read(self, outputs, state, token_ids=None, mask=None):
        read = ops.concatenate([state["last"], outputs], axis=1)
        found = outputs + self.share * read[:, :-1]
        return found, {"last": read[:, -1:]}, outputs[..., :0]

    def get_config(self):
        return {**super().get_config(), "share": self.share}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Row(memlm_keras.presets.Row):
    share: float = 0.5

    def model(self):
        return {
            "embedding_dim": self.embedding_size,
            "recurrent": [keras.layers.GRU(self.units)],
            "memory": Echo(self.share),
        }


memlm_keras.presets.register(
    "mine2027",
    {"faint": Row(units=6, share=0.1), "loud": Row(units=6, share=0.9)},
    title="Echoes",
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


def test_a_paper_of_another_package(memlm, train, folder, monkeypatch):
    install(folder / "packages")
    monkeypatch.syspath_prepend(folder / "packages")
    # Of the process that exports, where that is another one.
    root = pathlib.Path(memlm_keras.__file__).parents[1]
    paths = map(str, (root, folder / "packages"))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(paths))
    # As in a process that begins.
    monkeypatch.setattr(registry, "_PAPERS", dict(registry._PAPERS))
    monkeypatch.setattr(registry, "_TO_LOAD", None)

    assert "Mine (2027), Echoes" in memlm("presets", "mine2027").out
    train("loud", "--segment_length=5")
    (run,) = (folder / "runs").iterdir()
    assert results_of(run)["preset"] == "mine2027/loud"
    # It was saved, and streams.
    told = memlm("generate", run, "the old", "--seed=1")
    assert told.out.startswith("the old"), told.err
    told = memlm("export", run, "saved_models/mine")
    assert (folder / "saved_models" / "mine" / "1" / "saved_model.pb").exists()

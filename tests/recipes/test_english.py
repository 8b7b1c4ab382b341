"""Runs the recipe of the English model on small books."""

import numpy as np
import pytest
from corpus_files import write_documents
from told import ROOT
from told import python

import memlm_keras as memlm
from memlm_keras import trained

RECIPE = ROOT / "recipes" / "english.py"
FLAGS = (
    "--data_dir=books --run_dir=run --out=trained --pieces=275 "
    "--embedding_dim=4 --units=6 --batch_size=2"
).split()
DELTA = ["--memory=delta_rule"]
LARGE = ["--layers=2", "--dropout=0.1", "--nodocuments", "--name=large"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "flags, name, layers",
    [([], "english", 1), (DELTA, "english", 1), (LARGE, "large", 2)],
)
def test_books_become_a_trained_model(flags, name, layers, tmp_path):
    pytest.importorskip("sentencepiece")
    for split, count in (("train", 6), ("valid", 1), ("test", 2)):
        write_documents(tmp_path / "books" / split, count=count)
    folder = tmp_path / "trained" / "memlm" / name
    for _ in range(2):
        # In the second run, training has already ended.
        home = {"MEMLM_KERAS_HOME": str(tmp_path / "cache")}
        command = (RECIPE, *FLAGS, *flags, "--epochs=3")
        ran = python(*command, folder=tmp_path, **home)
    card = trained.read_metadata(folder)["card"]
    assert card["perplexity"] < card["perplexity per word"]
    assert "--pieces=275" in card["command"]
    assert "val_perplexity" not in ran.out
    model = memlm.LanguageModel.from_preset(folder)
    assert len(model.recurrent) == layers
    assert len(model.vocabulary) == 275
    assert np.isfinite(model.score("the old man")).all()

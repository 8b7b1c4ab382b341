"""Tests that the papers' recipes train the same weights as `memlm train`."""

import keras
import numpy as np
import pytest
from absl import flags

from memlm_keras.data import embedded
from memlm_keras.data import embedded_pairs
from memlm_keras.experiments import Experiment
from memlm_keras.experiments.run_folder import RunFolder

from .conftest import RECIPES

# For each recipe, its preset, and epochs enough to halve the learning rate.
ROWS = {
    "daniluk2017": ("key_value_predict", 4),
    "tran2016": ("rm_tm_gated", 6),
    "salton2017": ("ptb_single", 14),
    "weissenborn2016": ("dual_am_gru_shared", 4),
    "kong2019": ("vs_kneser_ney_512", 4),
}


@pytest.fixture
def recipe(program, monkeypatch):
    """`recipe(name, *flags)`: runs a recipe with flags on a small text."""
    monkeypatch.setattr(embedded.load, "__defaults__", (13, 2, 2, 0))
    for split, size in {"train": 120, "validation": 30, "test": 30}.items():
        monkeypatch.setitem(embedded_pairs.SIZES, split, size)

    def loaded(name, *arguments):
        module = program(name)
        flags.FLAGS([name, *arguments])
        return module

    return loaded


@pytest.mark.backend(one_in=2)
@pytest.mark.parametrize("name", ROWS)
def test_recipes_give_the_weights_of_train(name, recipe, tmp_path, capsys):
    row, epochs = ROWS[name]
    small = ("--dataset=embedded", "--scale=0.06", "--seed=3", "--out=")
    module = recipe(name, *small, f"--epochs={epochs}")
    trained, train = [], module.train
    module.train = lambda corpus: trained.append(train(corpus)) or trained[0]
    module.main([])
    told = capsys.readouterr().out
    assert "validation" in told and "test" in told
    experiment = Experiment(f"{name}/{row}", "embedded", seed=3, scale=0.06)
    results = experiment.run(tmp_path / "run", epochs=epochs, verbose=0)
    expected = RunFolder(tmp_path / "run").model()
    for found, weight in zip(
        trained[0].trainable_weights, expected.trainable_weights, strict=True
    ):
        difference = keras.ops.convert_to_numpy(found - weight)
        assert np.abs(difference).max() <= 1e-6, weight.path
    # The same measurement, too.
    test = results["test"]
    value = test.get("perplexity", test.get("accuracy"))
    assert f"{value:.2f}" in told.partition("test")[2]


@pytest.mark.backend("tensorflow")
@pytest.mark.slow
@pytest.mark.parametrize("name", ROWS)
def test_a_recipe_exports_its_model(name, recipe, tmp_path, capsys):
    import tensorflow as tf

    out = tmp_path / name / "1"
    recipe(
        name, "--dataset=embedded", "--scale=0.06", "--epochs=1", f"--out={out}"
    ).main([])
    assert str(out) in capsys.readouterr().out
    signatures = tf.saved_model.load(str(out)).signatures
    assert "serving_default" in signatures


@pytest.mark.parametrize("name", ROWS)
def test_a_recipe_is_short(name):
    lines = (RECIPES / f"{name}.py").read_text(encoding="utf-8").splitlines()
    assert len(lines) <= 120
    assert not [line for line in lines if "from_preset" in line]

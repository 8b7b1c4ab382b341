"""Code examples run from top to bottom, with small constants."""

import pathlib
import re

import numpy as np
import pytest

from memlm_keras.data import embedded

pytestmark = pytest.mark.slow

FOLDER = pathlib.Path(__file__).parents[2] / "docs" / "examples"
SMALL = {
    "key_value_predict_language_model": {"WINDOW": 8, "UNITS": 6, "EPOCHS": 3},
    "sentence_pairs_with_dual_memory": {"NUM_PAIRS": 96, "EPOCHS": 1},
    "serve_and_call": {"EPOCHS": 1, "ADDRESS": "http://localhost:8501"},
}


@pytest.fixture
def run(run_as_module, tmp_path, monkeypatch, capsys):
    """Returns a function that runs an example and returns its module and
    output."""
    monkeypatch.setenv("MEMLM_KERAS_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(embedded.load, "__defaults__", (20, 4, 4, 0))
    monkeypatch.chdir(tmp_path)

    def run(name):
        source = (FOLDER / f"{name}.py").read_text(encoding="utf-8")
        for constant, value in SMALL[name].items():
            line = re.compile(rf"^{constant} = .*$", re.M)
            source, count = line.subn(f"{constant} = {value!r}", source)
            assert count == 1, constant
        module = run_as_module(f"example_{name}", source, f"{name}.py")
        return module, capsys.readouterr().out

    return run


def test_every_example_is_tested():
    assert {path.stem for path in FOLDER.glob("*.py")} == set(SMALL)


def test_key_value_predict(run):
    module, printed = run("key_value_predict_language_model")
    best = module.perplexities["best possible"]
    assert 1 < best < module.perplexities["key-value-predict"]
    assert module.attention.shape[1] == module.WINDOW
    assert sum(module.count.values()) > 0
    streamed = np.stack(module.streamed, axis=1)
    np.testing.assert_allclose(streamed, module.at_once, rtol=1e-4, atol=1e-5)
    assert module.difference < 1e-5
    assert "best possible" in printed


def test_sentence_pairs(run):
    module, printed = run("sentence_pairs_with_dual_memory")
    sizes = [model.count_params() for model in module.models.values()]
    assert max(sizes) / min(sizes) < 1.01
    assert np.isfinite(module.cosines).all()
    # For both labels, a premise contains all words of its hypothesis.
    for pair in module.make_pairs(20, seed=0):
        assert set(pair.hypothesis) <= set(pair.premise)
        facts = " ".join(pair.premise)
        assert (" ".join(pair.hypothesis) in facts) == (pair.label == "true")
    assert printed.count("dual AM-GRU") == 2


# On TensorFlow, the export runs in this process.
@pytest.mark.backend("tensorflow")
def test_serve_and_call(run, local_clients, tmp_path):
    addresses = local_clients(tmp_path)
    module, printed = run("serve_and_call")
    assert addresses == [module.ADDRESS]
    assert module.difference < 1e-5
    assert "ruth ellis was born in york" in printed
    # This process and the server each print the line once.
    assert printed.count("was      -> ") == 2

"""Tests the export of a page that runs a language model in a browser."""

import json

import keras
import numpy as np
import pytest
from language_models import COMBINATIONS
from language_models import VOCABULARY
from language_models import make

import memlm_keras as memlm
from memlm_keras.integrations.web import writer as web
from memlm_keras.serving import export

onnx = pytest.importorskip("onnx")
pytest.importorskip("tf2onnx")
onnxruntime = pytest.importorskip("onnxruntime")

# On other backends, a TensorFlow process writes the page.
pytestmark = pytest.mark.backend("tensorflow")

FILES = {*web.PAGE, *web.ENGINE, web.MODEL, web.FACTS, web.PACKED}
ENGLISH = "memlm/english"


@pytest.fixture(scope="module")
def engine():
    """Returns the engine's archive; skips the test without a connection."""
    try:
        return web.fetch_engine()
    except ConnectionError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="module")
def model():
    return make(vocabulary=VOCABULARY)


@pytest.fixture(scope="module")
def page(model, engine, tmp_path_factory):
    return export(model, tmp_path_factory.mktemp("web") / "small", format="web")


@pytest.fixture(scope="module")
def english(engine, tmp_path_factory):
    """Exports the page of the English model with int8 weights."""
    lm = memlm.LanguageModel.from_preset(ENGLISH)
    path = tmp_path_factory.mktemp("web") / "english"
    return export(lm, path, format="web", quantize="int8")


def worst_difference(lm, page, steps):
    """Returns the page's largest difference from `lm`, in log-probabilities and
    attention."""
    engine = onnxruntime.InferenceSession(str(page / web.MODEL))
    facts = json.loads((page / web.FACTS).read_text("utf-8"))
    names = [output.name for output in engine.get_outputs()]
    carried = {
        name: np.reshape(
            state["initial"] or np.zeros(state["shape"]), state["shape"]
        ).astype(state["type"])
        for name, state in facts["states"].items()
    }
    ids = np.random.default_rng(3).integers(lm.vocabulary_size, size=steps)
    expected = lm.score(np.append(0, ids)[None])[0]
    attention = [None] * steps
    if facts["distances"]:
        attention = lm.attention(np.append(0, ids)[None])[0]
        assert len(facts["distances"]) == attention.shape[-1]
    differences = []
    steps = zip([0, *ids], ids, expected, attention)
    for read, target, score, weights in steps:
        feed = {"token_ids": np.array([[read]], "int32"), **carried}
        answer = dict(zip(names, engine.run(None, feed), strict=True))
        differences.append(answer["log_probabilities"][0, target] - score)
        if weights is not None:
            differences.extend(answer["attention"][0] - weights)
        carried = {name: answer[f"next_{name}"] for name in carried}
    return np.abs(differences).max()


def test_the_folder_has_all_that_the_page_asks_for(page, model):
    assert {path.name for path in page.iterdir()} == FILES
    facts = json.loads((page / web.FACTS).read_text("utf-8"))
    assert facts["name"] == "small"
    assert facts["parameters"] == model.count_params()
    assert facts["distances"] == [4, 3, 2]
    expected = {"type": "float32", "shape": [1, 12], "initial": None}
    assert facts["states"]["recurrent_0_state_0"] == expected
    stored = [
        tensor.data_type
        for tensor in onnx.load(page / web.MODEL).graph.initializer
        if "_stored" in tensor.name
    ]
    assert stored and set(stored) == {onnx.TensorProto.FLOAT16}


def test_numbers_are_those_of_the_model(page, model):
    assert worst_difference(model, page, 50) < 1e-3


def test_int8_keeps_a_model_that_is_stored_so(english):
    lm = memlm.LanguageModel.from_preset(ENGLISH)
    assert worst_difference(lm, english, 50) < 1e-4
    # The file contains the tied matrix only once.
    assert (english / web.MODEL).stat().st_size < 3.4e6


def test_an_ensemble_does_not_look_back(model, engine, tmp_path):
    lm = memlm.Ensemble([model])
    page = export(lm, tmp_path / "page", format="web")
    facts = json.loads((page / web.FACTS).read_text("utf-8"))
    assert facts["distances"] is None
    assert worst_difference(lm, page, 5) < 1e-3


@pytest.mark.slow
@pytest.mark.parametrize(
    "recurrent, memory, mixture",
    [
        *(each + (None,) for each in COMBINATIONS),
        ("lstm", "none", lambda: memlm.mixtures.PointerSentinel(window=4)),
        ("lstm", "key_value", lambda: memlm.mixtures.NeuralCache(size=4)),
    ],
)
def test_every_memory(recurrent, memory, mixture, engine, tmp_path):
    mixture = mixture and mixture()
    lm = make(recurrent, memory, vocabulary=VOCABULARY, mixture=mixture)
    page = export(lm, tmp_path / "page", format="web")
    facts = json.loads((page / web.FACTS).read_text("utf-8"))
    assert bool(facts["distances"]) == (lm.attending is not None)
    assert worst_difference(lm, page, 20) < 1e-3


def test_what_is_refused(page, model, tmp_path, monkeypatch):
    before = (page / web.FACTS).read_bytes()
    with pytest.raises(FileExistsError, match="`overwrite=True` to replace"):
        export(model, page, format="web")
    assert (page / web.FACTS).read_bytes() == before
    with pytest.raises(ValueError, match="one of 'int8', None"):
        export(model, tmp_path / "page", format="web", quantize="int4")
    lm = memlm.LanguageModel(19, 4, [keras.layers.GRU(5)])
    with pytest.raises(ValueError, match="`vocabulary` must be"):
        export(lm, tmp_path / "page", format="web")

    def refused(**arguments):
        raise Exception("URL fetch failure: no network")

    monkeypatch.setattr(keras.utils, "get_file", refused)
    with pytest.raises(ConnectionError, match="Download https://.* to /"):
        export(model, tmp_path / "page", format="web")
    assert not list(tmp_path.iterdir())

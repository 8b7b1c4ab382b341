"""Loads exported files, and certifies them against their model."""

import keras
import numpy as np
import pytest
from onnx_runs import CellThatBegins

import memlm_keras as memlm
from memlm_keras.linguistics import certify
from memlm_keras.serving import export
from memlm_keras.serving import load
from memlm_keras.serving.exported import find_exported

pytestmark = [pytest.mark.backend("tensorflow"), pytest.mark.slow]

pytest.importorskip("tf2onnx")
pytest.importorskip("onnxruntime")
pytest.importorskip("ai_edge_litert")

ONE_STEP = {"causal", "scores before it learns", "step = segment = whole"}


@pytest.fixture(scope="module")
def pieces(tmp_path_factory):
    """Makes a model of a speech recognizer's pieces; returns it and the file of
    pieces."""
    path = tmp_path_factory.mktemp("pieces") / "tokens.txt"
    tokens = ["<blk>", "<sos/eos>", "<unk>", "\u2581", *"abcdefgh"]
    path.write_text("".join(f"{t} {i}\n" for i, t in enumerate(tokens)))
    vocabulary = memlm.data.SubwordVocabulary.from_tokens_file(path)
    lm = memlm.LanguageModel(
        vocabulary=vocabulary,
        embedding_dim=5,
        recurrent=[keras.layers.GRU(6)],
        initializer=keras.initializers.RandomUniform(-0.8, 0.8),
    )
    return lm, {"format": "onnx", "tokens": path, "top_k": 4}


# For each format: options of the export, and checks that it cannot run.
KINDS = {
    "saved_model": ({}, set()),
    "model.onnx": ({"format": "onnx"}, ONE_STEP),
    "begins.onnx": ({"format": "onnx"}, ONE_STEP),
    "sherpa.onnx": ({"contract": "sherpa"}, ONE_STEP),
    "web": ({"format": "web"}, {*ONE_STEP, "batch rows apart"}),
    "model.tflite": ({"format": "litert"}, {*ONE_STEP, "batch rows apart"}),
    "rows.tflite": ({"format": "litert", "rows": 2}, ONE_STEP),
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_file_says_the_same(kind, model, saved_model, pieces, tmp_path):
    path, (options, left_out) = tmp_path / kind, KINDS[kind]
    if kind == "sherpa.onnx":
        model, others = pieces
        options = {**options, **others}
    elif kind == "begins.onnx":
        model = memlm.LanguageModel(
            vocabulary=model.vocabulary,
            embedding_dim=3,
            recurrent=[CellThatBegins(4)],
        )
    if kind == "saved_model":
        path = saved_model.parent
    else:
        try:
            export(model, path, **options)
        except ConnectionError as error:
            pytest.skip(str(error))
    path = path / "model.onnx" if kind == "web" else path
    exported = load(path)
    end = model.vocabulary.end_of_sentence_id
    assert exported.end_of_sentence_id == end
    certificate = certify(exported, same_as=model)
    assert certificate.passed, certificate
    results = {check.name: check.result for check in certificate.checks}
    skipped = {n for n in results if results[n] == "not applicable"}
    assert left_out == skipped, certificate
    # An exported file with other weights fails the certificate.
    lm = memlm.LanguageModel(
        vocabulary=model.vocabulary,
        embedding_dim=3,
        recurrent=[keras.layers.LSTM(4)],
    )
    *others, same = certify(exported, same_as=lm).checks
    assert same.result == "failed" and same.worst > 0.01
    assert not [check for check in others if check.result == "failed"]


def test_of_versions_the_newest(tmp_path):
    for version in ("1", "10", "9", "old"):
        (tmp_path / "name" / version).mkdir(parents=True)
        (tmp_path / "name" / version / "saved_model.pb").touch()
    assert find_exported(tmp_path / "name") == tmp_path / "name" / "10"
    assert find_exported(tmp_path / "name" / "9").name == "9"
    assert find_exported(tmp_path) is None
    assert find_exported("memlm/english") is None
    with pytest.raises(FileNotFoundError, match="no exported model at"):
        load(tmp_path)


def test_files_without_a_step(pieces, tmp_path):
    lm, options = pieces
    path = tmp_path / "offline.onnx"
    export(lm, path, contract="sherpa_offline", **options)
    with pytest.raises(ValueError, match="with one streamed step"):
        load(path)


def test_state_of_a_file(model, saved_model):
    exported = load(saved_model)
    ids = np.array([[0, 5, 7]])
    found, state = exported.step(ids, exported.initial_state(1))
    assert found.shape == (1, 3, model.vocabulary_size)
    assert found.count() == 4 and found[0, -1].count() == 4
    assert len(state) == len(model.initial_state(1)) + 1

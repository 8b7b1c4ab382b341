import importlib
import json

import keras
import numpy as np
import pytest

import memlm_keras as memlm
from memlm_keras.serving import check_path
from memlm_keras.serving import export


def names(folder):
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize("name", ["007", "00", str(2**63)])
def test_versions_are_those_of_a_server(name, model, vocabulary, tmp_path):
    with pytest.raises(ValueError, match=f"must be below .* Try: {tmp_path}"):
        export(model, tmp_path / name, vocabulary)
    assert names(tmp_path) == []


@pytest.mark.parametrize("name", ["kvp", "v1", "-1", "1.0"])
def test_without_a_version_it_is_the_next(name, tmp_path):
    folder = tmp_path / name
    assert check_path(folder) == folder / "1"
    # A server reads the version 0099 as 99.
    for version in ("1", "11", "0099", "v200"):
        (folder / version).mkdir(parents=True)
    assert check_path(folder) == folder / "100"
    (folder / "saved_model.pb").write_text("")
    with pytest.raises(FileExistsError, match="not a SavedModel itself"):
        check_path(folder)


def test_files_have_their_suffix_and_are_kept(tmp_path):
    file, other = tmp_path / "kvp.onnx", tmp_path / "kvp"
    file.touch()
    for path, format, error, message in (
        (file, "tf_saved_model", ValueError, 'Did you mean format="onnx"'),
        (file, "onnx", FileExistsError, "`overwrite=True` to replace"),
        (other, "onnx", ValueError, "end with .onnx .* Try: .*kvp.onnx"),
        (other, "litert", ValueError, "end with .tflite .* Try: .*kvp.tflite"),
    ):
        with pytest.raises(error, match=message):
            check_path(path, format=format)
    assert check_path(file, overwrite=True, format="onnx") == file


@pytest.mark.backend("tensorflow")
def test_the_request_of_the_card_is_no_longer_than_allowed(
    model, only_signatures, tmp_path
):
    with only_signatures("serving_default", "score"):
        path = export(model, tmp_path / "kvp", max_length=np.int32(2))
    request = (path / "assets.extra" / "requests" / "score.json").read_text()
    assert len(json.loads(request)["inputs"]["text"][0].split()) == 1


def test_earlier_exports_are_kept(model, vocabulary, tmp_path):
    for version in ("1", "11"):
        (tmp_path / version).mkdir()
    with pytest.raises(FileExistsError, match="next version, .*/12, or"):
        export(model, tmp_path / "1", vocabulary)
    with pytest.raises(FileExistsError, match="replaces a SavedModel"):
        export(model, tmp_path / "1", vocabulary, overwrite=True)
    assert names(tmp_path) == ["1", "11"]


LITERT = {"path": "x.tflite", "format": "litert"}


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"model": "kvp"}, "`model` must be .*LanguageModel.* Received: str"),
        ({"vocabulary": ["the"]}, "`vocabulary` must be .* Received: list"),
        (
            {"vocabulary": memlm.data.Vocabulary(["the"])},
            "`vocabulary` must be the model's own.*3 tokens.*30 tokens",
        ),
        ({"format": "onyx"}, "`format` must be .* Received: format='onyx'"),
        ({"top_k": 0}, "`top_k` must be an integer of at least 1"),
        ({"top_k": 31}, "`top_k` must be no more .* 30. Received: top_k=31"),
        ({"max_length": 0}, "`max_length` must be an integer of at least 1"),
        ({"rows": 2}, '`rows` is an option of format="litert".* rows=2'),
        (LITERT | {"rows": 0}, "`rows` must be an integer of at least 1"),
        (LITERT | {"quantize": "int4"}, "must be one of 'int8'.*'int4'"),
    ],
)
def test_bad_arguments(arguments, message, model, vocabulary, tmp_path):
    arguments = {"model": model, "vocabulary": vocabulary, **arguments}
    path = tmp_path / arguments.pop("path", "1")
    with pytest.raises(ValueError, match=message):
        export(path=path, **arguments)
    assert names(tmp_path) == []


@keras.saving.register_keras_serializable(package="tests.serving")
class LocalCell(keras.layers.SimpleRNNCell):
    """A cell that another process cannot import."""


@pytest.mark.slow
def test_failure_of_the_other_process(vocabulary, tmp_path, monkeypatch):
    export_module = importlib.import_module("memlm_keras.serving.export")
    monkeypatch.setattr(export_module, "_writes_here", lambda format: False)
    model = memlm.LanguageModel(len(vocabulary), 4, [LocalCell(5)])
    with pytest.raises(RuntimeError, match="LocalCell"):
        export(model, tmp_path / "1", vocabulary)
    assert names(tmp_path) == []


@pytest.mark.backend("tensorflow")
def test_smoothing_costs_nothing_when_served(
    only_signatures, vocabulary, tmp_path
):
    import tensorflow as tf

    sizes = len(vocabulary), 6, [keras.layers.LSTM(6)]
    token_ids = tf.constant([[3, 8, 0, 29], [1, 1, 5, 7]])
    smoothing = memlm.smoothing.VariationalSmoothing("kneser_ney", 0.4)
    embedding = memlm.smoothing.SmoothedEmbedding(smoothing=smoothing)
    model = memlm.LanguageModel(
        *sizes, tie_embeddings=True, embedding=embedding
    )
    tokens = np.random.default_rng(1).integers(sizes[0], size=200)
    smoothing.adapt(memlm.smoothing.StreamStatistics.count(tokens, sizes[0]))
    with only_signatures("serving_default"):
        export(model, tmp_path / "1", vocabulary)
    loaded = tf.saved_model.load(tmp_path / "1")
    served = loaded.signatures["serving_default"]
    expected = tf.nn.log_softmax(model(token_ids))
    found = served(token_ids=token_ids)["log_probabilities"]
    assert float(tf.reduce_max(tf.abs(found - expected))) < 1e-5
    plain = memlm.LanguageModel(*sizes, tie_embeddings=True)
    shapes = (
        sorted(tuple(weight.shape) for weight in weights)
        for weights in (served.variables, plain.weights)
    )
    assert next(shapes) == next(shapes)

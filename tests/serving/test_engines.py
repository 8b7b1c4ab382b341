"""Runs exported models of each kind in common engines."""

import dataclasses
import os
import subprocess

import engine_runs
import numpy as np
import onnx_runs
import pytest
from engine_runs import ENGINES
from engine_runs import FAMILIES

import memlm_keras as memlm
from memlm_keras.serving import export

pytestmark = [pytest.mark.backend("tensorflow"), pytest.mark.slow]

for package in ("onnx", "tf2onnx", "onnxruntime", "ai_edge_litert"):
    pytest.importorskip(package)

# Models that OpenVINO cannot run, with a part of its error, or with `None` if
# OpenVINO computes wrong numbers.
REFUSED = {
    "OpenVINO, LiteRT": {
        "grave2017/ptb_cache_500": "UNSORTED_SEGMENT_SUM",
        "merity2017/ptb_pointer_sentinel": "UNSORTED_SEGMENT_SUM",
    },
    "OpenVINO, SavedModel": {
        "daniluk2017/gated_hornn": None,
        "grave2017/ptb_cache_500": None,
        "merity2017/ptb_pointer_sentinel": None,
        "weissenborn2016/am_gru_language_model": "Gather",
    },
}


@pytest.fixture(scope="module", params=FAMILIES)
def exported(request, only_signatures, tmp_path_factory):
    folder = tmp_path_factory.mktemp("exported")
    with only_signatures(*engine_runs.SIGNATURES):
        yield engine_runs.Exported(request.param, folder)


@pytest.fixture(scope="module")
def log():
    """Collects each engine's results by kind of model."""
    return {}


@pytest.mark.parametrize("name", ENGINES)
def test_a_hundred_steps(name, exported, log):
    engine = ENGINES[name]
    if engine.missing():
        pytest.skip(engine.missing())
    refused = REFUSED.get(name, {})
    if error := refused.get(exported.name):
        with pytest.raises(engine_runs.Refused, match=error):
            engine.run(exported)
        found = {"refused": error}
    else:
        found = dataclasses.asdict(engine.run(exported))
        if exported.name in refused:
            assert found["difference"] > 0.1
        else:
            assert found["difference"] < 1e-4
    log.setdefault(exported.name, {})[name] = found


def test_the_log_is_written(log):
    """Writes the log if $ENGINES_LOG names a file; needs all engines."""
    path = os.environ.get("ENGINES_LOG")
    if not path:
        pytest.skip("ENGINES_LOG names no file")
    assert all(log[name].keys() == ENGINES.keys() for name in FAMILIES)
    engine_runs.write_log(path, log)


# === Triton without its ONNX backend ===


@pytest.fixture
def triton(only_signatures, tmp_path):
    engine = ENGINES["Triton"]
    if engine.missing():
        pytest.skip(engine.missing())
    return engine, engine_runs.Exported(FAMILIES[0], tmp_path)


def test_triton_reads_the_configuration(triton):
    """Triton reads the whole configuration, and then lacks only its ONNX
    backend."""
    engine, exported = triton
    message = "unable to find .* for backend 'onnxruntime'"
    with pytest.raises(engine_runs.Refused, match=message):
        engine.serve(exported, exported.triton)


def test_triton_names_the_words(triton):
    engine, exported = triton
    _, named, _ = engine.serve(exported, engine.with_python_model(exported))
    scores = exported.expected[0]
    tokens = exported.model.vocabulary.tokens
    best = scores.argsort()[::-1][:3]
    for line, id in zip(named.splitlines(), best, strict=True):
        score, place, word = line.split(":")
        assert (int(place), word) == (id, tokens[id])
        assert float(score) == pytest.approx(scores[id], abs=1e-4)


# === The clients of deploy/ ===


@pytest.fixture(params=["onnxruntime, C++", "onnxruntime, Node"])
def client(request):
    """Returns a function that runs a client on words, and returns its output or
    error."""
    engine = ENGINES[request.param]
    if engine.missing():
        pytest.skip(engine.missing())

    def run(path, words):
        done = subprocess.run(
            [*engine.command(), path],
            input=words,
            capture_output=True,
            text=True,
        )
        return done.stderr if done.returncode else done.stdout

    run.language = request.param.rpartition(" ")[2]
    return run


def test_clients_print_each_word(client, model, vocabulary, tmp_path):
    path = tmp_path / "model.onnx"
    export(model, path, format="onnx")
    words = ["word_3", "caf\u00e9", "nobody", "word_7"]
    lines = client(path, " ".join(words)).splitlines()
    ids = vocabulary.encode(" ".join(words))
    logits, _ = model.step([[0, *ids[:-1]]], model.initial_state(1))
    expected = onnx_runs.array(logits)[0]
    for line, word, id, logits in zip(lines, words, ids, expected, strict=True):
        found, score, best = line.split("\t")
        assert (found, best) == (word, vocabulary.tokens[logits.argmax()])
        logits = logits - np.logaddexp.reduce(logits)
        assert float(score) == pytest.approx(logits[id], abs=1e-4)


def test_clients_refuse_what_they_do_not_read(client, vocabulary, tmp_path):
    path = tmp_path / "model.onnx"
    lm = memlm.LanguageModel(len(vocabulary), 4, [onnx_runs.CellThatBegins(6)])
    export(lm, path, vocabulary, format="onnx")
    found = client(path, "word_1")
    if client.language == "C++":
        assert "onnx_client: its state does not begin with zeros" in found
    else:
        logits, _ = lm.step([[0]], lm.initial_state(1))
        logits = onnx_runs.array(logits)[0, 0]
        score = logits[vocabulary["word_1"]] - np.logaddexp.reduce(logits)
        assert float(found.split("\t")[1]) == pytest.approx(score, abs=1e-4)
    path.write_bytes(b"no model")
    assert "onnx_client: " in client(path, "word_1")

"""Tests that TensorFlow Serving and its tools can read the files of deploy/."""

import re

import pytest
from google.protobuf import text_format
from text_protos import parse
from told import ROOT
from told import python

DEPLOY = ROOT / "deploy"

# Fields of session_bundle_config.proto and monitoring_config.proto, which
# TensorFlow Serving's Python package lacks.
BATCHING = {
    "Batching": "max_batch_size Int64, batch_timeout_micros Int64, "
    "max_enqueued_batches Int64, num_batch_threads Int64, "
    "thread_pool_name String, allowed_batch_sizes int64*, "
    "pad_variable_length_inputs bool",
    "Int64": "value int64",
    "String": "value string",
}
MONITORING = {
    "Monitoring": "prometheus_config Prometheus",
    "Prometheus": "enable bool, path string",
}


def test_models():
    configs = pytest.importorskip(
        "tensorflow_serving.config.model_server_config_pb2",
        reason="tensorflow-serving-api is not installed",
    )
    text = (DEPLOY / "models.config").read_text()
    found = text_format.Parse(text, configs.ModelServerConfig())
    (model,) = found.model_config_list.config
    # The configuration names a model in the folder that `compose.yml` mounts.
    assert model.base_path == f"/saved_models/{model.name}"
    folder = DEPLOY.parent / "saved_models" / model.name
    assert [path.name for path in folder.iterdir()] == ["1"]
    assert model.model_version_policy.latest.num_versions == 2


PROGRAM = """
import sys
import tensorflow as tf

signatures = tf.saved_model.load(sys.argv[1]).signatures
scores = signatures["score"](text=tf.constant(["ruth ellis was born in york"]))
assert scores["length"].numpy().tolist() == [7]
assert -30 < scores["log_probability"].numpy()[0] < 0
words = signatures["next"](text=tf.constant(["ruth ellis was born"]))
assert words["top_k_words"].numpy()[0][0] == b"in"
assert not {"memlm_keras", "tensorflow_text"} & {*sys.modules}
"""


@pytest.mark.slow
def test_the_model_of_a_clone_answers_without_the_package():
    folder = DEPLOY.parent / "saved_models" / "embedded_lstm" / "1"
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in files) < 2_000_000
    # The files contain no paths of the machine that wrote them.
    for path in files:
        assert not re.search(rb"/(root|home|tmp|work)/", path.read_bytes())
    python("-I", "-c", PROGRAM, folder)


def test_batching():
    found = parse(DEPLOY / "batching.config", "Batching", BATCHING)
    assert found.pad_variable_length_inputs
    assert found.max_batch_size.value >= 1
    assert found.num_batch_threads.value >= 1


def test_monitoring():
    found = parse(DEPLOY / "monitoring.config", "Monitoring", MONITORING)
    assert found.prometheus_config.enable
    path = found.prometheus_config.path
    assert f"metrics_path: {path}" in (DEPLOY / "prometheus.yml").read_text()


def test_compose():
    yaml = pytest.importorskip("yaml", reason="PyYAML is not installed")
    services = yaml.safe_load((DEPLOY / "compose.yml").read_text())["services"]
    # Fixed versions serve the same files later, on this machine only.
    assert {name: one["image"] for name, one in services.items()} == {
        "cpu": "tensorflow/serving:2.21.0",
        "gpu": "tensorflow/serving:2.21.0-gpu",
        "prometheus": "prom/prometheus:v3.5.0",
    }
    for service in services.values():
        assert all(p.startswith("127.0.0.1:") for p in service["ports"])
    for name in ("cpu", "gpu"):
        service = services[name]
        folders = dict(v.split(":")[1::-1] for v in service["volumes"])
        assert (DEPLOY / folders["/saved_models"]).is_dir()
        for flag in service["command"]:
            value = flag.partition("=")[2]
            if value.startswith("/deploy/"):
                assert (DEPLOY / value.removeprefix("/deploy/")).is_file()
    targets = yaml.safe_load((DEPLOY / "prometheus.yml").read_text())
    (job,) = targets["scrape_configs"]
    # Both services have the network name from which metrics are requested.
    (target,) = job["static_configs"][0]["targets"]
    for name in ("cpu", "gpu"):
        aliases = services[name]["networks"]["default"]["aliases"]
        assert target.partition(":")[0] in aliases

"""Runs the scripts of `docs/how_to/several_devices.md` on two devices."""

import os
import re
import socket
import subprocess
import sys

import keras
import numpy as np
import pytest
from told import ROOT

import memlm_keras
from memlm_keras.data import embedded

pytestmark = [pytest.mark.backend, pytest.mark.slow]

PAGE = (ROOT / "docs/how_to/several_devices.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```python ?(\w*)\n(.*?)^```$", PAGE, re.M | re.S)
BACKEND = keras.backend.backend()
(SCRIPT,) = [block for name, block in BLOCKS if name == BACKEND]

# A tiny corpus, and two devices on one CPU.
SIZES = (20, 4, 4, 0)
BEFORE = {
    "jax": "",
    "torch": "",
    "tensorflow": """
import tensorflow as tf

tf.config.set_logical_device_configuration(
    tf.config.list_physical_devices("CPU")[0],
    [tf.config.LogicalDeviceConfiguration()] * 2,
)
# Exchanges between devices block threads of this pool.
tf.config.threading.set_inter_op_parallelism_threads(8)
""",
}
TINY = f"""
from memlm_keras.data import embedded

embedded.load.__defaults__ = {SIZES}
"""
HOSTS = """
import sys

import jax

jax.config.update("jax_cpu_collectives_implementation", "gloo")

import keras

import memlm_keras as memlm

{blocks}

port, process_id = map(int, sys.argv[1:])
address = f"127.0.0.1:{{port}}"
keras.distribution.initialize(address, num_processes=2, process_id=process_id)
keras.distribution.set_distribution(
    keras.distribution.DataParallel(auto_shard_dataset=False)
)
keras.utils.set_random_seed(0)
corpus = memlm.data.load("embedded")
lm = memlm.LanguageModel(
    vocabulary=corpus.vocabulary,
    embedding_dim=16,
    recurrent=[keras.layers.LSTM(30)],
    memory=memlm.memory.KeyValuePredict(window=5),
)
lm.compile(keras.optimizers.SGD(1.0, global_clipnorm=5.0))
batches = corpus.batches("train", batch_size=8, segment_length=20)
lm.fit(RowsOfProcess(batches, process_id, 2), epochs=1, verbose=0)
lm.save(f"model{{process_id}}.keras")
"""


@pytest.fixture
def expected(monkeypatch):
    """Trains on one device; returns the expected weights."""
    monkeypatch.setattr(embedded.load, "__defaults__", SIZES)
    keras.utils.set_random_seed(0)
    corpus = memlm_keras.data.load("embedded")
    batches = corpus.batches("train", batch_size=8, segment_length=20)
    model = memlm_keras.LanguageModel(
        vocabulary=corpus.vocabulary,
        embedding_dim=16,
        recurrent=[keras.layers.LSTM(30)],
        memory=memlm_keras.memory.KeyValuePredict(window=5),
    )
    model.compile(keras.optimizers.SGD(1.0, global_clipnorm=5.0))
    before = [weight.numpy() for weight in model.trainable_weights]
    model.fit(batches, verbose=0)
    after = [weight.numpy() for weight in model.trainable_weights]
    assert max(np.abs(a - b).max() for a, b in zip(after, before)) > 0.01
    return after


def end(process):
    out, _ = process.communicate()
    assert process.returncode == 0, out


def require_equal(path, expected):
    model = keras.saving.load_model(path)
    for actual, weight in zip(model.trainable_weights, expected, strict=True):
        np.testing.assert_allclose(
            keras.ops.convert_to_numpy(actual), weight, rtol=1e-4, atol=1e-5
        )


def start(command, folder, devices):
    flags = "--xla_backend_optimization_level=0 "
    flags += f"--xla_force_host_platform_device_count={devices}"
    command = [sys.executable, *command]
    env = {**os.environ, "XLA_FLAGS": flags}
    out = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    return subprocess.Popen(command, cwd=folder, env=env, **out)


def test_weights_equal_those_of_one_device(tmp_path, expected):
    path = tmp_path / "train.py"
    path.write_text(BEFORE[BACKEND] + TINY + SCRIPT)
    command = [str(path)]
    if BACKEND == "torch":
        launcher = ["--standalone", "--nproc-per-node=2"]
        command = ["-m", "torch.distributed.run", *launcher, *command]
    end(start(command, tmp_path, devices=2))
    require_equal(tmp_path / "model.keras", expected)


@pytest.mark.skipif(BACKEND != "jax", reason="this part of the page is for JAX")
def test_two_processes(tmp_path, expected):
    blocks = "\n".join(block for name, block in BLOCKS if not name)
    path = tmp_path / "host.py"
    path.write_text(TINY + HOSTS.format(blocks=blocks))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    processes = [
        start([str(path), port, str(number)], tmp_path, devices=1)
        for number in range(2)
    ]
    for process in processes:
        end(process)
    for number in range(2):
        require_equal(tmp_path / f"model{number}.keras", expected)

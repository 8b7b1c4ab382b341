"""Tests the layout of several devices, and errors for wrong arguments."""

import pathlib

import keras
import pytest
from told import python

from memlm_keras.experiments import Experiment
from memlm_keras.experiments.options import UsageError
from memlm_keras.training import data_parallel

pytestmark = pytest.mark.backend

TESTS = pathlib.Path(__file__).with_name("several_devices.py")
BACKEND = keras.backend.backend()
PYTEST = ("-m", "pytest", "-q", "-p", "no:cacheprovider")
# Tests for a second process: all tests that do not share one trained model.
OTHERS = "sentences or pointing or classifier or dropout or command"


@pytest.mark.skipif(
    BACKEND == "torch", reason="`fit` of PyTorch trains on one device"
)
@pytest.mark.parametrize(
    "part", [OTHERS, f"not ({OTHERS})"], ids=["others", "one_model"]
)
@pytest.mark.slow
def test_on_four_devices(part):
    flags = [
        "--xla_force_host_platform_device_count=4",
        "--xla_backend_optimization_level=0",
    ]
    python(*PYTEST, TESTS, "-k", part, XLA_FLAGS=" ".join(flags))


@pytest.mark.skipif(
    BACKEND != "torch", reason="other backends train on several devices"
)
def test_pytorch_is_refused_with_what_would_do(tmp_path):
    with pytest.raises(ValueError, match="DistributedDataParallel"):
        data_parallel()
    experiment = Experiment("daniluk2017/lstm", distribution="data_parallel")
    with pytest.raises(UsageError, match="KERAS_BACKEND=jax"):
        experiment.run(tmp_path / "run")
    assert not list(tmp_path.iterdir())


def test_devices_need_a_distribution(tmp_path):
    with pytest.raises(UsageError, match="--distribution=data_parallel"):
        Experiment("daniluk2017/lstm").run(tmp_path / "run", devices=2)
    assert not list(tmp_path.iterdir())

"""Shared by all tests: seeds, hypothesis profiles and gradients."""

import collections
import gc
import importlib.metadata
import itertools
import os
import pathlib
import time

BEGAN = time.monotonic()

# Variables that choose among a backend's kernels, as they were given.
ASKED = [
    f"{name}={os.environ[name]}"
    for name in (
        "ATEN_CPU_CAPABILITY",
        "MKL_ENABLE_INSTRUCTIONS",
        "OMP_NUM_THREADS",
        "ONEDNN_MAX_CPU_ISA",
        "OPENBLAS_CORETYPE",
        "TF_ENABLE_ONEDNN_OPTS",
        "XLA_FLAGS",
    )
    if name in os.environ
]

# What tests compile runs a few times on a few numbers: a quick compiler pays.
QUICK = "--xla_backend_optimization_level=0"
if os.environ.get("KERAS_BACKEND") == "jax" and (
    # A flag that another version does not know would end the process.
    importlib.metadata.version("jaxlib").startswith("0.10.")
):
    QUICK += (
        " --xla_cpu_use_fusion_emitters=false"
        " --xla_cpu_parallel_codegen_split_count=1"
    )
if QUICK not in os.environ.get("XLA_FLAGS", ""):
    os.environ["XLA_FLAGS"] = f"{QUICK} {os.environ.get('XLA_FLAGS', '')}"
# Several processes test at once: threads of each would wait for the others.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# What JAX has compiled is kept for other modules and later runs.
os.environ.setdefault(
    "JAX_COMPILATION_CACHE_DIR",
    str(pathlib.Path(__file__).parents[1] / ".pytest_cache" / "jax"),
)
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES", "-1")

import keras
import numpy as np
import pytest
from corpus_files import write_splits
from hypothesis import settings
from told import Told

# Each example is of other shapes, which JAX and TensorFlow compile anew.
EXAMPLES = 12 if keras.backend.backend() == "torch" else 3
settings.register_profile("local", deadline=None, max_examples=EXAMPLES)
settings.register_profile(
    "ci", settings.get_profile("local"), derandomize=True, print_blob=True
)
settings.load_profile("ci" if "CI" in os.environ else "local")


# Counts modules that are through.
MODULES = itertools.count(1)
# Their tests start programs and write models: several processes begin with
# these files, and end with files of tests that take no time.
LONGEST = ("serving", "integrations", "experiments", "recipes", "docs")


def pytest_configure(config):
    """`--dist loadfile` deals files in the order in which they stand."""
    if hasattr(config.option, "loadscopereorder"):
        config.option.loadscopereorder = False


def pytest_addoption(parser):
    parser.addoption(
        "--every-kind",
        action="store_true",
        help="try every kind of model in test_support.py, on any backend",
    )


def pytest_ignore_collect(collection_path, config):
    """`-m "not slow and backend"` imports no file without such a test."""
    asks = config.option.markexpr in ("not slow and backend", "backend")
    if asks and collection_path.match("test_*.py"):
        return "mark.backend" not in collection_path.read_text("utf-8") or None


def pytest_collection_modifyitems(config, items):
    """Deselects tests that their mark `backend` keeps for other backends."""
    # A test that is named with its parameters runs with them.
    named = any("[" in argument for argument in config.args)
    seen = None if named else collections.Counter()
    chosen = [_runs_here(item, seen) for item in items]
    elsewhere = [item for item, here in zip(items, chosen) if not here]
    config.hook.pytest_deselected(items=elsewhere)
    items[:] = itertools.compress(items, chosen)
    if hasattr(config, "workerinput"):
        tests = collections.Counter(item.path for item in items)
        items.sort(
            key=lambda item: (
                item.path.parent.name not in LONGEST,
                -tests[item.path],
                item.path,
            )
        )


def pytest_terminal_summary(terminalreporter, config):
    """Says what passed, on which backend and kernels, in how many minutes."""
    counts = [
        f"{len(terminalreporter.getreports(outcome))} {outcome}"
        for outcome in ("passed", "failed", "error", "skipped")
        if terminalreporter.getreports(outcome)
    ]
    terminalreporter.write_sep(
        "=",
        f"{', '.join(counts)} on {' '.join([keras.backend.backend(), *ASKED])} "
        f"in {(time.monotonic() - BEGAN) / 60:.1f} minutes",
    )


def _runs_here(item, seen):
    """Whether the backend is one of `backend("name", ...)`. Of the parameters
    of a test with `backend(one_in=n)`, PyTorch has all, and others 1/n."""
    mark, backend = item.get_closest_marker("backend"), keras.backend.backend()
    if not mark or backend == "torch" and not mark.args:
        return True
    if "one_in" in mark.kwargs and seen is not None:
        seen[item.function] += 1
        # JAX takes others than TensorFlow.
        place = seen[item.function] - (1 if backend == "tensorflow" else 2)
        return place % mark.kwargs["one_in"] == 0
    return not mark.args or backend in mark.args


def pytest_sessionstart(session):
    """Leaves TensorFlow's graphs as they are: they run a few times each.

    Its own seed is not set: Keras does not draw by it, and setting it makes
    each graph be prepared anew.
    """
    if keras.backend.backend() == "tensorflow":
        import tensorflow as tf

        tf.config.optimizer.set_experimental_options(
            {"disable_meta_optimizer": True}
        )
        tf.random.set_seed = lambda seed: None


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    """Skips tests that XLA cannot compile for the processor."""
    try:
        return (yield)
    except Exception as error:
        # XLA has no function of its own that converts float16 to float32.
        unknown = "Failed to materialize symbols"
        if unknown not in str(error) or _converts_float16(unknown):
            raise
        pytest.skip("XLA computes in float16 only with F16C instructions")


def _converts_float16(unknown):
    """Whether the backend has what it needs to convert float16."""
    try:
        keras.ops.cast(keras.ops.ones(1, "float16"), "float32")
    except Exception as error:
        return unknown not in str(error)
    return True


@pytest.fixture
def told(capfd):
    """`told(main, *arguments)`: `Told` of a call that returns a status."""

    def call(main, *arguments):
        capfd.readouterr()
        return Told(main(*arguments), *capfd.readouterr())

    return call


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Where a user works: a text, and a cache and runs of one's own."""
    write_splits(tmp_path / "text", unknown=True)
    monkeypatch.setenv("MEMLM_KERAS_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("KERAS_BACKEND", keras.backend.backend())
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def memlm_command(tmp_path, monkeypatch, told):
    """`memlm_command(*arguments)`: `Told` of `memlm`, run in a new folder."""
    from memlm_keras.experiments import command_line

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KERAS_BACKEND", keras.backend.backend())
    return lambda *arguments: told(command_line.main, list(map(str, arguments)))


@pytest.fixture
def papers_kept(monkeypatch):
    """Forgets after a test which papers it registered."""
    from memlm_keras import registry

    registry.names()
    monkeypatch.setattr(registry, "_PAPERS", dict(registry._PAPERS))


@pytest.fixture(scope="session", autouse=True)
def freeze_what_stays():
    """Keeps modules out of garbage collections, which `quantize` asks for."""
    # Imports TensorFlow, whatever the backend.
    keras.utils.set_random_seed(0)
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def seed():
    keras.utils.set_random_seed(20170215)


@pytest.fixture
def xla():
    """A test trains as users do on TensorFlow: small models by XLA."""


@pytest.fixture(autouse=True)
def train_without_xla(request, monkeypatch):
    """XLA compiles for seconds what runs for less: on TensorFlow, tests train
    without it if they do not ask for `xla`."""
    if keras.backend.backend() == "tensorflow" and (
        "xla" not in request.fixturenames
    ):
        import memlm_keras

        monkeypatch.setattr(
            memlm_keras.LanguageModel, "compiles_best", lambda self: False
        )


@pytest.fixture
def random():
    """NumPy generator of a test's own."""
    return np.random.default_rng(20170215)


@pytest.fixture
def reloaded(tmp_path):
    """`reloaded(model)`: what the file of a model holds."""

    def through_a_file(model):
        model.save(tmp_path / "model.keras")
        return keras.saving.load_model(tmp_path / "model.keras", safe_mode=True)

    return through_a_file


@pytest.fixture(scope="module", autouse=True)
def forget_what_was_compiled():
    """Frees what a module has compiled, once it is through.

    Each function that JAX compiles is mapped into memory by itself. A process
    may have so many mappings and no more (65,530 on Linux), and crashes beyond.
    """
    yield
    if keras.backend.backend() == "tensorflow":
        _forget_graphs()
    if next(MODULES) % 8 == 0:
        # Looking at all objects takes half a second.
        gc.unfreeze()
    gc.collect()
    if keras.backend.backend() == "jax":
        import jax

        jax.clear_caches()
        gc.collect()
    # What has been imported meanwhile stays, and `quantize` collects garbage
    # once for each layer.
    gc.freeze()


def _forget_graphs():
    """Frees graphs that are ready to run, and those with own gradients.

    TensorFlow registers such a gradient for good, and it holds the graph.
    """
    from tensorflow.python.eager import context
    from tensorflow.python.framework import ops

    context.context().clear_kernel_cache()
    registry = ops.gradient_registry._registry
    for name in list(registry):
        if name.startswith("CustomGradient-"):
            del registry[name]


@pytest.fixture(scope="session")
def compiled():
    """Compiles a function of explicit tensors, where that saves time."""
    if keras.backend.backend() == "jax":
        import jax

        return jax.jit
    if keras.backend.backend() == "tensorflow":
        return _a_graph_if_called_often
    return lambda function: function


def _a_graph_if_called_often(function):
    """Making a graph takes as long as some calls without."""
    import tensorflow as tf

    graph, calls = tf.function(function), itertools.count()

    def call(*arguments):
        return (graph if next(calls) >= 9 else function)(*arguments)

    return call


@pytest.fixture(scope="session")
def gradients():
    """`gradients(function, tensors)`: derivatives of a scalar function.

    `function` takes one flat list of tensors and returns a scalar; the result
    is the list of its derivatives with regard to each, as NumPy arrays.
    """
    return {
        "jax": _jax_gradients,
        "tensorflow": _tensorflow_gradients,
        "torch": _torch_gradients,
    }[keras.backend.backend()]


def _jax_gradients(function, tensors):
    import jax

    tensors = [keras.ops.convert_to_tensor(tensor) for tensor in tensors]
    found = jax.jit(jax.grad(function))(tensors)
    return [np.asarray(gradient) for gradient in found]


def _tensorflow_gradients(function, tensors):
    import tensorflow as tf

    def differentiate(tensors):
        with tf.GradientTape() as tape:
            tape.watch(tensors)
            value = function(tensors)
        return tape.gradient(value, tensors, unconnected_gradients="zero")

    tensors = [tf.convert_to_tensor(tensor) for tensor in tensors]
    if any(size >= 100 for tensor in tensors for size in tensor.shape):
        # A loop of so many steps is quicker in a graph.
        differentiate = tf.function(differentiate)
    found = differentiate(tensors)
    # The gradient of a table that is looked up in is sparse.
    return [tf.convert_to_tensor(gradient).numpy() for gradient in found]


def _torch_gradients(function, tensors):
    import torch

    tensors = [
        keras.ops.convert_to_tensor(tensor).detach().requires_grad_()
        for tensor in tensors
    ]
    found = torch.autograd.grad(
        function(tensors), tensors, allow_unused=True, materialize_grads=True
    )
    return [*map(keras.ops.convert_to_numpy, found)]

"""Fixtures and settings of all tests: seeds, hypothesis profiles, gradients."""

import collections
import gc
import importlib.metadata
import itertools
import os
import pathlib
import time

BEGAN = time.monotonic()

# Environment variables that select a backend's kernels, with their values.
ASKED = [
    f"{name}={os.environ[name]}"
    for name in """
    ATEN_CPU_CAPABILITY MKL_ENABLE_INSTRUCTIONS OMP_NUM_THREADS XLA_FLAGS
    ONEDNN_MAX_CPU_ISA OPENBLAS_CORETYPE TF_ENABLE_ONEDNN_OPTS
    """.split()
    if name in os.environ
]

# Compiled functions run only a few times, so turn off slow optimizations.
QUICK = "--xla_backend_optimization_level=0"
if os.environ.get("KERAS_BACKEND") == "jax" and (
    # An unknown flag would end the process in another version of XLA.
    importlib.metadata.version("jaxlib").startswith("0.10.")
):
    QUICK += (
        " --xla_cpu_use_fusion_emitters=false"
        " --xla_cpu_parallel_codegen_split_count=1"
    )
if QUICK not in os.environ.get("XLA_FLAGS", ""):
    os.environ["XLA_FLAGS"] = f"{QUICK} {os.environ.get('XLA_FLAGS', '')}"
# Several test processes may run at once, so each uses one thread.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# Keep compiled functions of JAX for other modules and later runs.
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

# JAX and TensorFlow compile again for the new shapes of each example.
EXAMPLES = 12 if keras.backend.backend() == "torch" else 3
# The same examples in each run; `--hypothesis-profile=others` draws others.
settings.register_profile(
    "others", deadline=None, max_examples=EXAMPLES, print_blob=True
)
settings.register_profile(
    "same", settings.get_profile("others"), derandomize=True
)
settings.load_profile("same")


# Counts test modules that have ended.
MODULES = itertools.count(1)
# Folders with slow tests, which start programs and write models: parallel
# processes run these tests first, and fast tests last.
LONGEST = ("serving", "integrations", "experiments", "recipes", "docs")


def pytest_configure(config):
    """Makes `--dist loadfile` distribute files in the order of collection."""
    if hasattr(config.option, "loadscopereorder"):
        config.option.loadscopereorder = False


def pytest_addoption(parser):
    parser.addoption(
        "--every-kind",
        action="store_true",
        help="try every kind of model in test_support.py, on any backend",
    )


def pytest_ignore_collect(collection_path, config):
    """With `-m backend`, skips importing files without a test for backends."""
    asks = config.option.markexpr in ("not slow and backend", "backend")
    if asks and collection_path.match("test_*.py"):
        return "mark.backend" not in collection_path.read_text("utf-8") or None


def pytest_collection_modifyitems(config, items):
    """Deselects tests whose mark `backend` names only other backends."""
    # A test that the command line names with parameters always runs.
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
    """Prints the numbers of outcomes, the backend, its kernels, and the
    minutes."""
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
    """Returns whether a test runs on this backend: `backend("name", ...)` names
    its backends; with `backend(one_in=n)`, PyTorch runs a test with all
    parameters, and other backends with every n-th."""
    mark, backend = item.get_closest_marker("backend"), keras.backend.backend()
    if not mark or backend == "torch" and not mark.args:
        return True
    if "one_in" in mark.kwargs and seen is not None:
        seen[item.function] += 1
        # JAX and TensorFlow run different parameters.
        place = seen[item.function] - (1 if backend == "tensorflow" else 2)
        return place % mark.kwargs["one_in"] == 0
    return not mark.args or backend in mark.args


def pytest_sessionstart(session):
    """Turns off optimization of TensorFlow's graphs, which run only a few
    times.

    TensorFlow's global seed is not set, because Keras does not use it, and
    setting it would discard prepared graphs.
    """
    if keras.backend.backend() == "tensorflow":
        import tensorflow as tf

        tf.config.optimizer.set_experimental_options(
            {"disable_meta_optimizer": True}
        )
        tf.random.set_seed = lambda seed: None


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    """Skips tests that XLA cannot compile for this processor."""
    try:
        return (yield)
    except Exception as error:
        # XLA itself cannot convert float16 to float32 on some processors.
        unknown = "Failed to materialize symbols"
        if unknown not in str(error) or _converts_float16(unknown):
            raise
        pytest.skip("XLA computes in float16 only with F16C instructions")


def _converts_float16(unknown):
    """Returns whether the backend can convert float16 to float32."""
    try:
        keras.ops.cast(keras.ops.ones(1, "float16"), "float32")
    except Exception as error:
        return unknown not in str(error)
    return True


@pytest.fixture
def told(capfd):
    """`told(main, *arguments)`: calls `main`; returns its exit status and its
    printed output."""

    def call(main, *arguments):
        capfd.readouterr()
        return Told(main(*arguments), *capfd.readouterr())

    return call


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Working folder of a user, with a text, a cache and run folders."""
    write_splits(tmp_path / "text", unknown=True)
    monkeypatch.setenv("MEMLM_KERAS_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("KERAS_BACKEND", keras.backend.backend())
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def memlm_command(tmp_path, monkeypatch, told):
    """`memlm_command(*arguments)`: runs `memlm` in a new folder; returns its
    status and output."""
    from memlm_keras.experiments import command_line

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KERAS_BACKEND", keras.backend.backend())
    return lambda *arguments: told(command_line.main, list(map(str, arguments)))


@pytest.fixture
def papers_kept(monkeypatch):
    """Removes the papers that a test registered."""
    from memlm_keras import registry

    registry.names()
    monkeypatch.setattr(registry, "_PAPERS", dict(registry._PAPERS))


@pytest.fixture(scope="session", autouse=True)
def freeze_what_stays():
    """Excludes modules from garbage collection, which `quantize` calls
    often."""
    # This call imports TensorFlow on every backend.
    keras.utils.set_random_seed(0)
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def seed():
    keras.utils.set_random_seed(20170215)


@pytest.fixture
def xla():
    """Lets a test train small models with XLA on TensorFlow, as users do."""


@pytest.fixture(autouse=True)
def train_without_xla(request, monkeypatch):
    """Turns off XLA in training on TensorFlow, where compiling would take
    longer than the steps; tests that request `xla` keep XLA."""
    if keras.backend.backend() == "tensorflow" and (
        "xla" not in request.fixturenames
    ):
        import memlm_keras

        monkeypatch.setattr(
            memlm_keras.LanguageModel, "compiles_best", lambda self: False
        )


@pytest.fixture
def random():
    """Returns a NumPy generator with a fixed seed."""
    return np.random.default_rng(20170215)


@pytest.fixture
def reloaded(tmp_path):
    """`reloaded(model)`: saves a model and returns the loaded copy."""

    def through_a_file(model):
        model.save(tmp_path / "model.keras")
        return keras.saving.load_model(tmp_path / "model.keras", safe_mode=True)

    return through_a_file


@pytest.fixture(scope="module", autouse=True)
def forget_what_was_compiled():
    """Frees the functions that a test module has compiled, after its last test.

    JAX maps each compiled function into memory separately, and a process with
    too many mappings (65,530 on Linux) crashes.
    """
    yield
    if keras.backend.backend() == "tensorflow":
        _forget_graphs()
    if next(MODULES) % 8 == 0:
        # A collection of all objects takes half a second, so collect rarely.
        gc.unfreeze()
    gc.collect()
    if keras.backend.backend() == "jax":
        import jax

        jax.clear_caches()
        gc.collect()
    # Newly imported modules stay: exclude them from the collections that
    # `quantize` starts for each layer.
    gc.freeze()


def _forget_graphs():
    """Frees TensorFlow's prepared graphs, and graphs with custom gradients.

    TensorFlow never removes a registered gradient, which refers to its graph.
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
    """Returns a decorator that compiles a function if that saves time."""
    if keras.backend.backend() == "jax":
        import jax

        return jax.jit
    if keras.backend.backend() == "tensorflow":
        return _a_graph_if_called_often
    return lambda function: function


def _a_graph_if_called_often(function):
    """Makes a graph after a few calls, since making a graph takes as long as
    several calls."""
    import tensorflow as tf

    graph, calls = tf.function(function), itertools.count()

    def call(*arguments):
        return (graph if next(calls) >= 9 else function)(*arguments)

    return call


@pytest.fixture(scope="session")
def gradients():
    """`gradients(function, tensors)`: computes gradients of a scalar function.

    `function` takes one flat list of tensors and returns a scalar; the result
    is a list of its gradients for all tensors, as NumPy arrays.
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
        # A loop of 100 or more steps is faster in a graph.
        differentiate = tf.function(differentiate)
    found = differentiate(tensors)
    # The gradient of a look-up table is sparse: convert it.
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

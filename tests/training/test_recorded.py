"""Tests that recorded steps give the same results as steps that Python runs."""

import contextlib

import keras
import numpy as np
import pytest
from keras import ops
from preset_families import V
from preset_families import families
from preset_families import small

import memlm_keras as memlm
from memlm_keras import registry

pytestmark = pytest.mark.backend("torch")

ROWS, TIME, BATCHES = 4, 3, 4


def batches_for(name):
    random = np.random.default_rng(3)
    kind = registry.get(name)["kind"]
    if kind == "EntailmentClassifier":
        sentences = random.integers(3, V, size=(2, ROWS * BATCHES, TIME))
        labels = random.integers(3, size=ROWS * BATCHES)
        return memlm.data.PairBatches(*sentences, labels, ROWS)
    tokens = random.integers(3, V, size=ROWS * TIME * BATCHES + 1)
    tokens = tokens.astype("int32")
    if kind == "SequenceAutoencoder":
        tokens[::-TIME] = 0
        return memlm.data.AutoencodingBatches(tokens, ROWS, TIME)
    if "birm" in name:
        tokens[::-TIME] = 0
        return memlm.data.SentenceBatches(tokens, ROWS, TIME)
    return memlm.data.Batches(tokens, ROWS, TIME)


@pytest.fixture(autouse=True)
def recorded(monkeypatch):
    from memlm_keras.models import sequence_model
    from memlm_keras.training import recorded

    monkeypatch.setattr(sequence_model, "_UNRECORDED_STEPS", 1)
    monkeypatch.setattr(recorded, "AFTER", 1)
    # Also record models whose cells have loops, with many operations.
    monkeypatch.setattr(recorded, "MOST_OPERATIONS", 10_000)
    return recorded


def compiled(name="daniluk2017/key_value", eagerly=False, **arguments):
    model = small(name)
    arguments = {
        "optimizer": keras.optimizers.Adam(0.01, global_clipnorm=1.0),
        **arguments,
    }
    model.compile(run_eagerly=eagerly, **arguments)
    return model


def trained(model, name="daniluk2017/key_value", **arguments):
    """Trains a model; returns the history and the weights."""
    history = model.fit(batches_for(name), verbose=0, **arguments).history
    return history, [ops.convert_to_numpy(w) for w in model.trainable_weights]


def require_equal(found, expected):
    assert found[0] == expected[0]
    for weight, other in zip(found[1], expected[1], strict=True):
        np.testing.assert_array_equal(weight, other)


def is_recorded(model):
    return bool(getattr(model.train_function, "recordings", {}))


@pytest.mark.parametrize("name", families())
def test_every_kind_of_model(name):
    model = compiled(name)
    found = trained(model, name, epochs=2)
    assert is_recorded(model)
    require_equal(found, trained(compiled(name, True), name, epochs=2))


@pytest.mark.parametrize(
    "optimizer",
    [
        lambda: keras.optimizers.SGD(1.0, clipnorm=0.5, momentum=0.9),
        lambda: memlm.training.FusedAdam(0.01, global_clipnorm=1.0),
        lambda: keras.optimizers.Adam(
            keras.optimizers.schedules.ExponentialDecay(0.1, 3, 0.5)
        ),
    ],
)
def test_optimizers(optimizer):
    model = compiled(optimizer=optimizer())
    found = trained(model, epochs=2)
    assert is_recorded(model)
    require_equal(
        found, trained(compiled(eagerly=True, optimizer=optimizer()), epochs=2)
    )


def halve_rate(model):
    model.optimizer.learning_rate = 0.001


def freeze_embedding(model):
    model.embedding.trainable = False


def assign_weights(model):
    model.set_weights([weight * 0.5 for weight in model.get_weights()])


def replace_weight(model):
    weight = model.trainable_weights[0]
    weight.value.data = weight.value.data * 0.5


@pytest.mark.parametrize(
    "change", [halve_rate, freeze_embedding, assign_weights, replace_weight]
)
def test_changes_take_effect(change):
    results = []
    for eagerly in (False, True):
        model = compiled(eagerly=eagerly)
        trained(model)
        change(model)
        results.append(trained(model))
    require_equal(*results)


class Counted(keras.metrics.Mean):
    """A metric that counts its calls in Python, which a recording could not
    do."""

    def update_state(self, y_true, y_pred, sample_weight=None):
        self.calls = getattr(self, "calls", 0) + 1
        return super().update_state(y_true, sample_weight)


def test_own_code_runs_in_each_step():
    counts = []
    for eagerly in (False, True):
        metric = Counted()
        calls = []

        def length(y_true, y_pred, calls=calls):
            calls.append(y_true)
            return ops.sum(ops.ones_like(y_true))

        for metrics in [metric], [length]:
            model = compiled(eagerly=eagerly, metrics=metrics)
            trained(model)
            assert not is_recorded(model)
        counts.append((metric.calls, len(calls)))
    assert counts[0] == counts[1]


def test_a_step_that_depends_on_values_runs_as_it_is():
    def optimizer():
        return keras.optimizers.Adam(0.01, gradient_accumulation_steps=2)

    model = compiled(optimizer=optimizer())
    found = trained(model)
    assert not model.train_function.possible
    require_equal(found, trained(compiled(eagerly=True, optimizer=optimizer())))


def test_a_recording_replays_as_a_cuda_graph(recorded, monkeypatch):
    """A fake of `torch.cuda` runs the recorded operations on a CPU."""
    import torch

    monkeypatch.setenv(recorded.VARIABLE, "1")
    tokens = np.random.default_rng(1).integers(3, V, size=(48, 6))
    sizes, replays, pools = (4, 8, 4, 8), [], []

    def fitted(model):
        return [
            model.fit(
                tokens[:, :-1], tokens[:, 1:], size, shuffle=False, verbose=0
            ).history
            for size in sizes
        ]

    on_cpu, eager, model = compiled(), compiled(eagerly=True), compiled()

    class Graph:
        def replay(self):
            calls = [r.call for r in model.train_function.recordings.values()]
            (call,) = (call for call in calls if call.graph is self)
            replays.append(tuple(call.inputs[0].shape))
            for place, found in zip(call.outputs, call.run(*call.inputs)):
                place.copy_(found)

    @contextlib.contextmanager
    def capture(graph, pool):
        """Undoes the captured step, as a capture computes nothing."""
        pools.append(pool)
        variables = [*model.variables, *model.optimizer.variables]
        variables += [v for m in model.metrics for v in m.variables]
        before = [variable.value.detach().clone() for variable in variables]
        yield
        with torch.no_grad():
            for variable, value in zip(variables, before):
                variable.value.copy_(value)

    monkeypatch.setattr(torch.cuda, "CUDAGraph", Graph)
    monkeypatch.setattr(torch.cuda, "graph", capture)
    monkeypatch.setattr(torch.cuda, "graph_pool_handle", object)
    expected = fitted(eager)
    assert fitted(on_cpu) == expected and not replays
    # Each batch shape has its own recording.
    assert len(on_cpu.train_function.recordings) == 2
    monkeypatch.setattr(recorded, "on_gpu", lambda tensors: True)
    assert fitted(model) == expected
    assert len(set(replays)) == 2 and len(replays) > 20
    # Both CUDA graphs share one memory pool.
    assert len(pools) == 2 and pools[0] is pools[1]
    for weights in zip(model.get_weights(), eager.get_weights()):
        np.testing.assert_array_equal(*weights)


@pytest.mark.parametrize(
    "full, at_the_end, told",
    [
        (False, [], "cannot be captured .*not permitted"),
        (True, [], "too little memory.* .*60 GiB"),
        (True, ["invalidated"], "too little memory.* .*invalidated"),
    ],
)
def test_without_a_cuda_graph_steps_run_as_they_are(
    recorded, monkeypatch, full, at_the_end, told
):
    import torch

    @contextlib.contextmanager
    def capture(graph, pool):
        try:
            yield
        finally:
            for message in at_the_end:
                raise RuntimeError(message)

    def double(x):
        calls.append(x)
        if len(calls) == 2 and full:
            raise torch.OutOfMemoryError("Tried to allocate 60 GiB")
        if len(calls) == 2:
            raise RuntimeError("operation not permitted")
        return [2 * x]

    calls = []
    monkeypatch.setattr(torch.cuda, "CUDAGraph", object)
    monkeypatch.setattr(torch.cuda, "graph", capture)
    graph = recorded.CudaGraph(double, pool=object)
    one = torch.ones(2)
    assert graph(one)[0].tolist() == [2, 2]
    with pytest.warns(UserWarning, match=told) as warned:
        assert [graph(one)[0].tolist() for _ in range(3)] == 3 * [[2, 2]]
    assert len(warned) == 1


def test_a_cuda_graph_keeps_its_results(recorded, monkeypatch):
    import torch

    class Graph:
        def replay(self):
            again.outputs[0].copy_(2 * again.inputs[0])

    monkeypatch.setattr(torch.cuda, "CUDAGraph", Graph)
    monkeypatch.setattr(
        torch.cuda, "graph", lambda graph, pool: contextlib.nullcontext()
    )
    one, again = torch.ones(2), recorded.CudaGraph(lambda x: [2 * x], object)
    first, second, third = (again(one * i)[0] for i in (1, 2, 3))
    assert [x.tolist() for x in (first, second, third)] == [
        [2, 2],
        [4, 4],
        [6, 6],
    ]

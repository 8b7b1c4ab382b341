"""Tests that several steps per call give the results of one step per call."""

import keras
import numpy as np
import pytest
from layers import assert_close

from memlm_keras import LanguageModel
from memlm_keras.data import Batches
from memlm_keras.data import SentenceBatches
from memlm_keras.memory import KeyValue
from memlm_keras.training import Checkpoint
from memlm_keras.training import StopOnNaN
from memlm_keras.training import Throughput

TOKENS = np.random.default_rng(7).integers(0, 11, size=230)
several = pytest.mark.backend("jax", "tensorflow")
pytestmark = pytest.mark.backend


class Count(keras.callbacks.Callback):
    """Counts the calls of `on_train_batch_end`."""

    calls = 0

    def on_train_batch_end(self, batch, logs=None):
        self.calls += 1


class Tuples(LanguageModel):
    """A model whose `train_step` returns tuples instead of lists on JAX."""

    def train_step(self, *arguments):
        logs, state = super().train_step(*arguments)
        return logs, tuple(map(tuple, state))


def compiled(steps, kind=LanguageModel, **arguments):
    keras.utils.set_random_seed(5)
    model = kind(11, 4, [keras.layers.LSTM(6)], KeyValue(3), dropout=0.3)
    optimizer = keras.optimizers.Adam(0.01, global_clipnorm=1.0)
    model.compile(optimizer, steps_per_execution=steps, **arguments)
    return model


def fit(model, batches, *callbacks, epochs=2):
    return model.fit(
        batches, epochs=epochs, callbacks=callbacks, verbose=0
    ).history


@several
@pytest.mark.parametrize("kind", ["segments", "sentences"])
def test_several_steps_equal_single_steps(kind):
    results, counts = [], []
    for steps in (1, 4):
        # Twenty-three batches of segments; four do not divide their number.
        batches = Batches(TOKENS, batch_size=2, segment_length=5)
        if kind == "sentences":
            tokens = np.append(TOKENS, 0)
            batches = SentenceBatches(tokens, 4, shuffle=True)
        model = compiled(steps)
        count = Count()
        history = fit(model, batches, count)
        assert int(model.optimizer.iterations) == 2 * len(batches)
        results.append([*model.get_weights(), *history.values()])
        counts.append(count.calls)
        updates = len(batches)
    assert_close(*results, rtol=1e-4, atol=1e-5)
    assert counts == [2 * updates, 2 * -(-updates // 4)]


@pytest.mark.backend("jax")
def test_jax_runs_several_steps_as_one_compiled_loop(monkeypatch):
    from memlm_keras.training import looped

    def only_loops(model, one_by_one):
        return made(model, lambda *_: pytest.fail("ran steps one by one"))

    made = looped.train_function
    monkeypatch.setattr(looped, "train_function", only_loops)
    batches = Batches(TOKENS[:200], batch_size=2, segment_length=5)
    assert len(batches) == 20
    fit(compiled(4), batches)
    # A user who turns off compilation gets Keras' function.
    for uncompiled in ({"run_eagerly": True}, {"jit_compile": False}):
        assert made(compiled(4, **uncompiled), pytest.fail) is pytest.fail


@pytest.mark.backend("jax")
def test_steps_and_batches_of_users():
    segments = Batches(TOKENS, batch_size=2, segment_length=5)

    def batches():
        for index, (inputs, targets, weights) in enumerate(segments):
            weights = [weights] if index > 5 else []
            yield inputs["token_ids"], targets, *weights

    results = []
    for steps in (1, 4):
        model = compiled(steps, Tuples)
        history = fit(model, batches(), Throughput(segments), epochs=1)
        results.append([model.get_weights(), history["loss"]])
    assert_close(*results)


@several
def test_callbacks_count_every_step():
    batches = Batches(TOKENS, batch_size=2, segment_length=5)
    model, throughput = compiled(4), Throughput(batches)
    logs = fit(model, batches, throughput)
    for seconds, rate in zip(logs["seconds"], logs["tokens_per_second"]):
        assert seconds * rate == pytest.approx(batches.predicted_tokens)
    stop, kept = StopOnNaN(frequency=6), []
    stop._keep_weights = lambda: kept.append(model.optimizer.iterations) or True
    fit(model, batches, stop, epochs=1)
    # Before and after training, and after calls that end with steps 8, 12, 20
    # and 24.
    assert len(kept) == 6


@several
def test_a_run_resumes_between_calls(tmp_path):
    class Interrupt(Count):
        def on_train_batch_end(self, batch, logs=None):
            super().on_train_batch_end(batch, logs)
            if self.calls == interrupt_at:
                raise KeyboardInterrupt

    def train(path):
        batches = Batches(TOKENS, batch_size=2, segment_length=5)
        model = compiled(4)
        checkpoint = Checkpoint(tmp_path / path, batches, frequency=6)
        try:
            fit(model, batches, checkpoint, Interrupt())
        except KeyboardInterrupt:
            return None, None
        return checkpoint.resumed_from, model.get_weights()

    interrupt_at = None
    resumed_from, whole = train("whole.npz")
    assert resumed_from is None
    # Six calls read an epoch of 23 batches; calls 8 and 9 pass 6 and 12.
    interrupt_at = 10
    assert train("resumed.npz")[1] is None
    interrupt_at = None
    resumed_from, resumed = train("resumed.npz")
    assert resumed_from == (1, 12)
    assert_close(resumed, whole, rtol=1e-4, atol=1e-5)


def test_other_backends_load_a_model_with_several_steps():
    model = compiled(1)
    config = {**model.get_compile_config(), "steps_per_execution": 4}
    model.compile_from_config(config)
    on_torch = keras.backend.backend() == "torch"
    assert model.steps_per_execution == (1 if on_torch else 4)
    fit(model, Batches(TOKENS, 2, 5), epochs=1)

"""Layers in plain JAX and TensorFlow, with unrolled loops over the steps."""

import functools
import os

import numpy as np

if os.environ["KERAS_BACKEND"] == "jax":
    import jax
    import jax.numpy as jnp

    tanh, sigmoid, softmax = jnp.tanh, jax.nn.sigmoid, jax.nn.softmax
    concat, stack, where = jnp.concatenate, jnp.stack, jnp.where
    array, mean, zeros = jnp.asarray, jnp.mean, jnp.zeros

    def split(x, *sizes):
        return jnp.split(x, np.cumsum(sizes)[:-1], axis=-1)

    def gradients(loss):
        return jax.jit(jax.value_and_grad(loss))
else:
    import tensorflow as tf

    tanh, sigmoid, softmax = tf.tanh, tf.sigmoid, tf.nn.softmax
    concat, stack, where = tf.concat, tf.stack, tf.where
    array, mean, zeros = tf.constant, tf.reduce_mean, tf.zeros

    def split(x, *sizes):
        return tf.split(x, sizes, axis=-1)

    def gradients(loss):
        @tf.function
        def run(weights):
            with tf.GradientTape() as tape:
                tape.watch(weights)
                value = loss(weights)
            return value, tape.gradient(value, weights)

        return run


def steps_of(x):
    return [x[:, step] for step in range(x.shape[1])]


def lstm_network(case, weights, inputs):
    """An LSTM that attends to its earlier states, as in Cheng et al."""
    kernel, recurrent, bias, of_key, of_read, score = weights
    h, window = case.units, case.window
    keys, states = [], []
    read = cell = zeros((case.batch, h))
    for step in steps_of(inputs @ kernel):
        gates, query = split(step, 4 * h, h)
        if states:
            query = query + read @ of_read
            seen = stack(keys[-window:], axis=1)
            scores = (tanh(seen + query[:, None]) @ score)[..., 0]
            attention = softmax(scores)[:, None]
            mixed = attention @ stack(states[-window:], axis=1)
            read, cell = split(mixed[:, 0], h, h)
        i, f, g, o = split(gates + bias + read @ recurrent, h, h, h, h)
        cell = sigmoid(f) * cell + sigmoid(i) * tanh(g)
        output = sigmoid(o) * tanh(cell)
        keys.append(output @ of_key)
        states.append(concat([output, cell], axis=-1))
    return stack(states, axis=1)[..., :h]


def word_by_word(case, weights, inputs):
    """Attention over another sequence, as in Rocktaeschel et al."""
    kernel, of_premise, of_output, of_read, transition, *others = weights
    final_read, final_output, score = others
    premise, outputs = split(inputs @ kernel, case.units, case.units)
    keys, queries = premise @ of_premise, outputs @ of_output
    places, lengths = np.arange(case.time), case.lengths()[:, None]
    unseen = np.where(places < lengths, 0, -1e9).astype("float32")
    read = zeros((case.batch, case.units))
    for place, query in enumerate(steps_of(queries)):
        query = query + read @ of_read
        scores = (tanh(keys + query[:, None]) @ score)[..., 0]
        attention = softmax(scores + unseen)[:, None]
        found = (attention @ premise)[:, 0] + tanh(read @ transition)
        read = where(place < lengths, found, read)
    is_last = (places == lengths - 1).astype("float32")[:, None]
    last = (is_last @ outputs)[:, 0]
    return tanh(read @ final_read + last @ final_output)


def _shapes(case, variant):
    k, size = case.units, case.embedding
    if variant == "lstm_network":
        return [(size, 5 * k), (k, 4 * k), (4 * k,), (k, k), (k, k), (k, 1)]
    return [(size, 2 * k), *[(k, k)] * 6, (k, 1)]


class Contender:
    """Runs a layer forward and backward; the loss is the mean square output."""

    def __init__(self, case, variant):
        shapes = _shapes(case, variant)
        self.weights = [array(value) for value in case.draw(shapes)]
        inputs = array(case.inputs())
        layer = functools.partial(globals()[variant], case)
        self.run = gradients(lambda w: mean(layer(w, inputs) ** 2))

    def losses(self, steps):
        for _ in range(steps):
            value, found = self.run(self.weights)
        np.asarray(found[0])
        return float(value)

    def steps(self, number):
        self.losses(number)

    def product(self, rows, inner, columns, dtype):
        left = zeros((rows, inner), dtype)
        right = zeros((inner, columns), dtype)
        return lambda: np.asarray((left @ right)[0, 0])


def make(case, variant, precision):
    return Contender(case, variant)

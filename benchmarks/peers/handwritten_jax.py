"""Plain JAX: a compiled step, which projects inputs before the LSTM's loop."""

import functools

import jax
import jax.numpy as jnp
import numpy as np


def layer(weights, index, inputs, state):
    projected = inputs @ weights[f"kernel_{index}"] + weights[f"bias_{index}"]

    def step(state, projected):
        hidden, cell = state
        gates = projected + hidden @ weights[f"recurrent_kernel_{index}"]
        i, f, g, o = jnp.split(gates, 4, axis=-1)
        cell = jax.nn.sigmoid(f) * cell + jax.nn.sigmoid(i) * jnp.tanh(g)
        hidden = jax.nn.sigmoid(o) * jnp.tanh(cell)
        return (hidden, cell), hidden

    state, outputs = jax.lax.scan(step, state, projected.swapaxes(0, 1))
    return outputs.swapaxes(0, 1), state


def loss(weights, states, inputs, targets):
    outputs = weights["embedding"][inputs]
    new_states = []
    for index, state in enumerate(states):
        outputs, state = layer(weights, index, outputs, state)
        new_states.append(state)
    kernel = weights.get("output_kernel", weights["embedding"].T)
    logits = outputs.reshape(-1, outputs.shape[-1]) @ kernel
    logits = logits + weights["output_bias"]
    chosen = jnp.take_along_axis(logits, targets.reshape(-1, 1), axis=1)[:, 0]
    losses = jax.nn.logsumexp(logits, axis=-1) - chosen
    return losses.mean(), new_states


@functools.partial(jax.jit, donate_argnums=(0, 1))
def update(weights, states, inputs, targets):
    (value, states), gradients = jax.value_and_grad(loss, has_aux=True)(
        weights, states, inputs, targets
    )
    squares = sum(jnp.sum(g**2) for g in gradients.values())
    factor = jnp.minimum(1.0, 5.0 / jnp.sqrt(squares))
    weights = {k: w - factor * gradients[k] for k, w in weights.items()}
    return weights, states, value


class Contender:
    def __init__(self, case):
        self.case = case
        self.weights = {k: jnp.asarray(v) for k, v in case.weights().items()}
        shape = (case.batch, case.units)
        self.states = [
            (jnp.zeros(shape), jnp.zeros(shape)) for _ in range(case.layers)
        ]

    def losses(self, number):
        found = []
        for inputs, targets in zip(*self.case.batches(number)):
            self.weights, self.states, value = update(
                self.weights, self.states, inputs, targets
            )
            found.append(value)
        return float(np.mean(jax.device_get(found)))

    def steps(self, number):
        self.losses(number)

    def product(self, rows, inner, columns, dtype):
        left = jnp.ones((rows, inner), dtype)
        right = jnp.ones((inner, columns), dtype)
        multiply = jax.jit(jnp.matmul)
        return lambda: multiply(left, right).block_until_ready()


def make(case, variant, precision):
    return Contender(case)

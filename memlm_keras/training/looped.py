"""Runs several training steps in one compiled loop on JAX."""

import itertools

import keras


def train_function(model, one_by_one):
    """Returns a function that runs `model.steps_per_execution` steps as one
    compiled loop. Keras' function `one_by_one` runs steps that are not
    compiled, on several devices, at an epoch's end, or of several shapes."""
    import jax
    from jax import numpy as jnp

    eager = model.run_eagerly or not model.jit_compile
    if eager or keras.distribution.distribution() is not None:
        return one_by_one

    def step(state, batch):
        logs, new_state = model.train_step(state, batch)
        # A user's `train_step` may return tuples instead of lists.
        values = jax.tree.leaves(new_state)
        return jax.tree.unflatten(jax.tree.structure(state), values), logs

    def loop(state, batches):
        stacked = jax.tree.map(lambda *arrays: jnp.stack(arrays), *batches)
        state, logs = jax.lax.scan(step, state, stacked)
        return jax.tree.map(lambda values: values[-1], logs), state

    loop = jax.jit(loop, donate_argnums=0)

    def run(state, iterator):
        steps = model.steps_per_execution
        batches = list(itertools.islice(iterator, steps))
        kinds = {str(jax.tree.map(jnp.shape, batch)) for batch in batches}
        if len(batches) < steps or len(kinds) > 1:
            return one_by_one(state, iter(batches))
        return loop(state, batches)

    return run

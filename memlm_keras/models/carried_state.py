"""State that `fit` and `evaluate` carry from one batch to the next."""

import keras
from keras import ops

from memlm_keras.models.backbone import reset_rows


class CarriedState(keras.layers.Layer):
    """Non-trainable weights that hold a model's state between batches.

    Keras' own `stateful=True` carries nothing on JAX, so the state is held in
    ordinary weights, read and assigned in the forward pass; that works in
    every backend's training loop. The weights belong to a run and not to the
    model: they are left out of saved files, and checkpoints for exact resume
    save them as variables.

    Args:
        initial_state: dict of tensors, batch first; says what is carried.
        **kwargs: arguments of `keras.layers.Layer`.
    """

    def __init__(self, initial_state, **kwargs):
        super().__init__(autocast=False, **kwargs)
        self._state = {
            name: self.add_weight(
                name=name,
                shape=value.shape,
                dtype=keras.backend.standardize_dtype(value.dtype),
                initializer="zeros",
                trainable=False,
            )
            for name, value in initial_state.items()
        }
        # Never called as a layer, so nothing else would mark it as built.
        self.built = True

    def read(self, initial_state, reset):
        """Returns the state with the rows marked by `reset` begun anew."""
        # `where` copies, so assigning later cannot touch what backward needs.
        state = {
            name: ops.convert_to_tensor(variable)
            for name, variable in self._state.items()
        }
        return reset_rows(state, initial_state, reset)

    def write(self, state):
        """Keeps `state`, cut from the gradient."""
        for name, variable in self._state.items():
            variable.assign(
                ops.cast(ops.stop_gradient(state[name]), variable.dtype)
            )

    def save_own_variables(self, store):
        """Saves nothing: a saved model begins with no history."""

    def load_own_variables(self, store):
        """Loads nothing, as nothing is saved."""

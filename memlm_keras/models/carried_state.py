"""State that `fit` and `evaluate` carry from one batch to the next."""

import warnings

import keras
from keras import ops

# Whether shapes are only being found out; it has no public name.
from keras.src.backend.common.stateless_scope import in_stateless_scope
from keras.src.backend.common.symbolic_scope import in_symbolic_scope

from memlm_keras.training import distribution


class CarriedState(keras.layers.Layer):
    """Non-trainable weights that hold a model's state between batches.

    Keras' own `stateful=True` carries nothing on JAX, so the state is held in
    ordinary weights, read and assigned in the forward pass; that works in
    every backend's training loop. The weights belong to a run and not to the
    model: they are left out of saved files, and checkpoints for exact resume
    save them as variables.

    On several devices each has the state of its own rows. JAX lays it out as
    it does batches. Replicas of TensorFlow have room for all of it and write
    their own rows; a `Checkpoint` puts these together.

    Args:
        initial_state: dict of tensors, batch first; says what is carried.
        **kwargs: arguments of `keras.layers.Layer`.
    """

    def __init__(self, initial_state, **kwargs):
        super().__init__(autocast=False, **kwargs)
        with keras.name_scope(self.name):
            self._state = {
                name: keras.Variable(
                    "zeros",
                    shape=value.shape,
                    dtype=keras.backend.standardize_dtype(value.dtype),
                    trainable=False,
                    autocast=False,
                    layout=distribution.row_layout(value.shape),
                    name=name,
                )
                for name, value in initial_state.items()
            }
        # Never called as a layer, so nothing else would mark it as built.
        self.built = True

    def read(self):
        """Returns the state, a dict of tensors."""
        return {
            name: distribution.rows_of_replica(ops.convert_to_tensor(variable))
            for name, variable in self._state.items()
        }

    def write(self, state):
        """Keeps `state`, cut from the gradient."""
        for name, variable in self._state.items():
            value = ops.cast(ops.stop_gradient(state[name]), variable.dtype)
            distribution.assign_rows(variable, value)

    def save_own_variables(self, store):
        """Saves nothing: a saved model begins with an empty context."""

    def load_own_variables(self, store):
        """Loads nothing, as nothing is saved."""


class CarriedStates:
    """The `CarriedState`s of a model, by mode and number of rows.

    Keras tracks no plain object, which keeps what evaluation carries out of
    the variables that training is compiled for: an evaluation with another
    number of rows leaves a running `fit` as it is.

    Args:
        model: `memlm_keras.LanguageModel`.

    Attributes:
        rows: dict by mode, `"training"` and `"evaluation"`, of the number of
            rows that are carried, `None` for none yet.
        evaluating: bool, whether an evaluation is running.
    """

    def __init__(self, model):
        self.model = model
        self.rows = {"training": None, "evaluation": None}
        self.evaluating = False
        self._states = {}

    def make(self, mode, rows):
        """Makes room for a state of so many rows; returns a `CarriedState`."""
        name = f"carried_{mode}_state_{rows}"
        if name not in self._states:
            with distribution.variable_scope(self.model):
                state = CarriedState(self.model.initial_state(rows), name=name)
            self._states[name] = state
            if mode == "training":
                setattr(self.model, name, state)
        self.rows[mode] = rows
        return self._states[name]

    def get(self, mode, rows):
        """Returns the `CarriedState` of so many rows; `None` if none is made.

        A call that is not compiled makes its own.
        """
        state = self._states.get(f"carried_{mode}_state_{rows}")
        if state is None and may_make_variables():
            return self.make(mode, rows)
        return state

    @property
    def evaluation_variables(self):
        """Variables of the running evaluation, of none otherwise."""
        if not self.evaluating or self.rows["evaluation"] is None:
            return []
        return self.make("evaluation", self.rows["evaluation"]).variables


def may_make_variables():
    """Whether a call runs eagerly, so that it may make variables."""
    if in_stateless_scope() or in_symbolic_scope():
        return False
    if keras.backend.backend() != "tensorflow":
        return True
    import tensorflow as tf

    return tf.executing_eagerly()


def carried_rows(batches, batch_size=None):
    """Number of rows of batches whose state is carried; `None` for others.

    Args:
        batches: data as `fit` takes it: a `keras.utils.PyDataset` or torch
            `DataLoader` with a `batch_size`, a `tf.data.Dataset` or a dict of
            arrays with `"reset"`, or a tuple that begins with one of them.
        batch_size: integer, rows that `fit` makes batches of.
    """
    if isinstance(batches, (tuple, list)) and len(batches):
        return carried_rows(batches[0], batch_size)
    if isinstance(batches, dict):
        if "reset" not in batches:
            return None
        rows = batches["reset"].shape[0]
        return rows if batch_size is None else min(batch_size, rows)
    specification = getattr(batches, "element_spec", None)
    if specification is None:
        return getattr(batches, "batch_size", None)
    rows = carried_rows(specification)
    if rows is None and "reset" in _inputs(specification):
        rows = carried_rows(next(iter(batches)))
    return rows


def warn_of_short_segments(backbone, batches):
    """Warns of a window that reaches back behind what gets a gradient.

    Args:
        backbone: `Backbone` whose memory or mixture is to be trained.
        batches: data as `fit` takes it; only `Batches` tell their segments.
    """
    segment = getattr(batches, "segment_length", None)
    for layer in (backbone.memory, backbone.mixture):
        window = getattr(layer, "window", None)
        if None in (segment, window) or window <= segment:
            continue
        # Words are looked up anew in each segment, and so get their gradient.
        holds_outputs = len(layer.initial_state(1)["window"].shape) > 2
        if holds_outputs:
            warnings.warn(
                f"{type(layer).__name__} looks back {window} steps, and "
                f"segments have {segment}: what it holds of the segments "
                "before gets no gradient, so it learns little of how to use "
                f"it. Use `segment_length={window}` or a shorter window",
                stacklevel=4,
            )


def _inputs(item):
    inputs = item[0] if isinstance(item, (tuple, list)) else item
    return inputs if isinstance(inputs, dict) else {}


def reset_rows(state, initial, reset):
    """Puts the rows marked by `reset` back to their initial state.

    Args:
        state: dict of tensors, batch first.
        initial: dict of the same shapes.
        reset: boolean tensor `(batch,)`.
    """

    # `where` copies, so assigning to a variable of the state later cannot
    # touch what backward needs.
    def choose(value, start):
        rows = ops.reshape(reset, (-1,) + (1,) * (len(value.shape) - 1))
        return ops.where(rows, ops.cast(start, value.dtype), value)

    return {name: choose(value, initial[name]) for name, value in state.items()}

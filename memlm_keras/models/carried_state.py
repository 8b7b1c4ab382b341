"""State carried from batch to batch: in `fit`, `evaluate` and reading."""

import itertools
import warnings

import keras
import numpy as np
from keras import ops
from keras import tree

# Whether Keras only infers shapes; these have no public names.
from keras.src.backend.common.stateless_scope import in_stateless_scope
from keras.src.backend.common.symbolic_scope import in_symbolic_scope

from memlm_keras.models.sequence_model import require_readable
from memlm_keras.training import distribution

# === In training and evaluation ===


class CarriedState(keras.layers.Layer):
    """Non-trainable weights that hold a model's state between batches.

    Keras' own `stateful=True` carries nothing on JAX, so the state is held in
    ordinary weights, read and assigned in the forward pass; that works in
    every backend's training loop. The weights belong to a run and not to the
    model: they are left out of saved files, and checkpoints for exact resume
    save them as variables.

    On several devices each has the state of its own rows. JAX lays it out as
    it does batches. Replicas of TensorFlow have variables for all rows and
    write their own; a `Checkpoint` puts these together.

    Args:
        initial_state: dict of tensors, batch first, of the shapes to carry.
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
        """Assigns `state`, without its gradient."""
        for name, variable in self._state.items():
            value = ops.cast(ops.stop_gradient(state[name]), variable.dtype)
            distribution.assign_rows(variable, value)

    def save_own_variables(self, store):
        """Saves nothing: a saved model begins with an empty context."""

    def load_own_variables(self, store):
        """Loads nothing, as nothing is saved."""


class CarriedStates:
    """The `CarriedState`s of a model, by mode and number of rows.

    Keras does not track plain objects, so the variables of evaluation are not
    among those that training is compiled for: an evaluation with another
    number of rows does not change a running `fit`.

    Args:
        model: `memlm_keras.LanguageModel`.

    Attributes:
        rows: dict by mode, `"training"` and `"evaluation"`, of the number of
            rows that are carried, or `None`.
        evaluating: bool, whether an evaluation is running.
    """

    def __init__(self, model):
        self.model = model
        self.rows = {"training": None, "evaluation": None}
        self.evaluating = False
        self._states = {}

    def make(self, mode, rows):
        """Returns the `CarriedState` of `rows` rows, made if there is none."""
        name = f"carried_{mode}_state_{rows}"
        if name not in self._states:
            with distribution.variable_scope(self.model):
                start = self.model.backbone.initial_state(rows)
                state = CarriedState(start, name=name)
            self._states[name] = state
            if mode == "training":
                setattr(self.model, name, state)
        self.rows[mode] = rows
        return self._states[name]

    def run(self, inputs, reset, training):
        """Predicts from the carried state, and carries the new one.

        Args:
            inputs: dict of tensors, arguments of `Backbone.forward`.
            reset: bool tensor `(batch,)`, rows that begin a new context.
            training: bool.

        Returns:
            `Prediction`.
        """
        backbone = self.model.backbone
        mode = "training" if training else "evaluation"
        replicas = distribution.num_replicas()
        rows = self.rows[mode]
        if reset.shape[0] is not None:
            rows = reset.shape[0] * replicas
        carried = self._states.get(f"carried_{mode}_state_{rows}")
        if carried is None and in_symbolic_scope():
            # Shapes do not depend on the carried state.
            return backbone.forward(**inputs, training=training)[0]
        if carried is None:
            if not _may_make_variables():
                raise ValueError(
                    f"The model carries no state of {rows} rows in {mode}, and "
                    "a compiled function cannot make one. Call "
                    "`carry_state(batch_size, evaluation_batch_size)` first; "
                    "`fit` and `evaluate` do so for batches of one size"
                )
            carried = self.make(mode, rows)
        start = backbone.initial_state(rows // replicas)
        state = reset_rows(carried.read(), start, reset)
        prediction, state = backbone.forward(
            state=state, training=training, **inputs
        )
        carried.write(state)
        return prediction

    @property
    def evaluation_variables(self):
        """Variables of the running evaluation, none otherwise."""
        if not self.evaluating or self.rows["evaluation"] is None:
            return []
        return self.make("evaluation", self.rows["evaluation"]).variables


def _may_make_variables():
    """Whether a call runs eagerly, so that it may make variables."""
    if in_stateless_scope() or in_symbolic_scope():
        return False
    if keras.backend.backend() != "tensorflow":
        return True
    import tensorflow as tf

    return tf.executing_eagerly()


def carried_rows(batches, batch_size=None):
    """Returns the rows of batches whose state is carried; `None` for others.

    Args:
        batches: data as `fit` takes it: a `keras.utils.PyDataset` or torch
            `DataLoader` with a `batch_size`, a `tf.data.Dataset` or a dict of
            arrays with `"reset"`, or a tuple that begins with one of them.
        batch_size: integer, the rows of each batch that `fit` makes.
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
    if isinstance(specification, (tuple, list)):
        specification = specification[0]
    if rows is None and isinstance(specification, dict):
        if "reset" in specification:
            rows = carried_rows(next(iter(batches)))
    return rows


def warn_of_short_segments(backbone, batches):
    """Warns of a window that is longer than the segments of `Batches`."""
    segment = getattr(batches, "segment_length", None)
    for layer in (backbone.memory, backbone.mixture):
        window = getattr(layer, "window", None)
        if None in (segment, window) or window <= segment:
            continue
        # Words are looked up in each segment, and so get their gradient.
        holds_outputs = len(layer.initial_state(1)["window"].shape) > 2
        if holds_outputs:
            warnings.warn(
                f"{type(layer).__name__} looks back {window} steps, and "
                f"segments have {segment}: outputs of earlier segments get no "
                "gradient, so the model hardly learns to use them. Use "
                f"`segment_length={window}` or a shorter window",
                stacklevel=4,
            )


# === In reading ===


def read_batches(
    model, function, batches, start=None, segments=None, verbose=0
):
    """Calls a function with each batch, and carries the state between them.

    Args:
        model: a `StreamingModel`.
        function: callable of token ids, targets, sample weight and state that
            returns a result and the new state.
        batches: `memlm_keras.data.Batches`, or a dataset of their form.
        start: dict of tensors, the state of a new context; `None` for
            `model.initial_state`.
        segments: integer, the number of batches to read; `None` for all.
        verbose: as in `keras.Model.predict`.

    Yields:
        Pairs of a result and the sample weight of its batch.
    """
    require_readable(model, batches)
    if start is None:
        start = model.initial_state(batches.batch_size)
    start = state = tree.map_structure(distribution.deal, start)
    progress = keras.utils.Progbar(
        len(batches) if segments is None else min(segments, len(batches)),
        verbose=verbose,
    )
    for inputs, targets, sample_weight in itertools.islice(batches, segments):
        if "positions" in inputs:
            raise ValueError(
                "The batches must have a target at each step here. Received: "
                'batches with "positions", which `evaluate` and `predict` read'
            )
        tokens, *others = (
            distribution.deal(ops.convert_to_tensor(array))
            for array in (inputs["token_ids"], targets, sample_weight)
        )
        reset = ops.convert_to_tensor(inputs["reset"])
        state = reset_rows(state, start, reset)
        result, state = function(tokens, *others, state)
        progress.add(1)
        yield result, sample_weight


def concatenate_batches(results):
    """Joins the pairs of `read_batches`, arrays of different times.

    Args:
        results: iterable of pairs of arrays or tensors `(batch, time)`.

    Returns:
        Two arrays `(number of batches * batch, time of the longest)`, zero
        after the shorter ones.
    """
    pairs = [map(ops.convert_to_numpy, pair) for pair in results]
    joined = []
    for arrays in zip(*pairs):
        longest = max(array.shape[1] for array in arrays)
        joined.append(
            np.concatenate(
                [
                    np.pad(array, [(0, 0), (0, longest - array.shape[1])])
                    for array in arrays
                ]
            )
        )
    return tuple(joined)


def reset_rows(state, initial, reset):
    """Replaces the rows marked by `reset`, bool `(batch,)`, by `initial`."""

    # `where` copies, so assigning to a variable of the state later cannot
    # touch what backward needs.
    def choose(value, start):
        rows = ops.reshape(reset, (-1,) + (1,) * (len(value.shape) - 1))
        return ops.where(rows, ops.cast(start, value.dtype), value)

    return {name: choose(value, initial[name]) for name, value in state.items()}

"""Training with Keras' loops, and the state carried between batches."""

import contextlib
import functools
import itertools
import math
import warnings

import keras
import numpy as np
from keras import ops
from keras import tree

from memlm_keras import registry
from memlm_keras import trained
from memlm_keras.arguments import deserialize
from memlm_keras.arguments import require_token_ids
from memlm_keras.data.batches import EpochBatches
from memlm_keras.keras_private import CLONING
from memlm_keras.keras_private import in_stateless_scope
from memlm_keras.keras_private import in_symbolic_scope
from memlm_keras.models.backbone import reset_rows
from memlm_keras.models.layers import computes_in
from memlm_keras.training import distribution
from memlm_keras.training.compiling import Nats

# Number of training steps on PyTorch before a step is traced.
_UNRECORDED_STEPS = 50
# Number of batches that TensorFlow reads at once if their shapes are equal:
# reading them one by one takes half as long as training a small model on them.
_READ_AT_ONCE = 16


class SequenceModel(keras.Model):
    """A `keras.Model` that reads token ids and can be made from presets.

    `fit` accepts batches that depend on the epoch, start in the middle of it,
    or differ in length. A subclass sets `preset_kind`, its presets' `"kind"`.
    """

    preset_kind = None
    vocabulary = None
    # Whether targets are classes, which `class_weight` needs.
    predicts_classes = False

    @classmethod
    def from_preset(
        cls, preset, /, vocabulary_size=None, vocabulary=None, **overrides
    ):
        """Makes an untrained model from a preset, or loads a trained model.

        **The name of a preset gives random weights**, even `"memlm/small"`: a
        preset is a configuration, and `fit` trains the model. A trained model,
        such as `"memlm/english"`, has its own weights, vocabulary and sizes.

        Args:
            preset: string. A name in `memlm_keras.presets.names()` gives random
                weights; a name in `memlm_keras.presets.trained_names()`, or the
                path of a folder that `save_to_preset` wrote, gives a trained
                model. For a trained model, `dropout` is the only further
                argument; the returned model is not compiled.
            vocabulary_size: integer; `None` for the size of `vocabulary`.
            vocabulary: `memlm_keras.data.Vocabulary` to save with the model, or
                `None`.
            **overrides: sizes of the preset, as in `memlm_keras.presets.get`,
                or arguments of this class that the preset does not set.

        Raises:
            ValueError: for an unknown preset, a preset for another class, an
                argument that cannot be changed, a missing vocabulary size, or a
                file with the wrong SHA-256.
            FileNotFoundError: if a file of a trained model is missing.

        Example:

        >>> lm = memlm_keras.LanguageModel.from_preset(
        ...     "daniluk2017/key_value_predict", vocabulary_size=10_000
        ... )
        >>> trained = memlm_keras.LanguageModel.from_preset(
        ...     "memlm/embedded_lstm"
        ... )
        """
        if "weights" in overrides:
            raise ValueError(
                "There is no argument `weights`: a trained model has its own "
                "weights, and other presets have random weights. Received: "
                f"weights={overrides['weights']}"
            )
        if (folder := trained.find(preset)) is not None:
            sizes = {
                "vocabulary_size": vocabulary_size,
                "vocabulary": vocabulary,
                **overrides,
            }
            given = {k: v for k, v in sizes.items() if v is not None}
            if not given.keys() <= {"dropout"}:
                raise ValueError(
                    f"{preset} is a trained model, which accepts only the "
                    "argument `dropout`. Leave out other arguments, or use a "
                    f"preset with random weights. Received: {given}"
                )
            return trained.load(folder, cls, **given)
        config = registry.model_config(preset, cls.preset_kind, **overrides)
        config["vocabulary_size"] = vocabulary_size
        if vocabulary is not None:
            config["vocabulary"] = vocabulary
        return cls.from_config(config)

    def save_to_preset(self, folder, dtype="float32", card=None):
        """Writes the model as a folder that `from_preset` loads.

        The folder contains `config.json` with the vocabulary,
        `model.weights.h5`, `metadata.json` with the SHA-256 of both, and
        `README.md`, a model card, but no optimizer. The layout is that of
        KerasHub's presets.

        Args:
            folder: path of a new or empty folder, or a trained model to
                replace.
            dtype: how matrices are stored: `"float32"`, `"float16"`, or
                `"int8"` with one scale per row, or per column if columns
                outnumber rows. Biases and other vectors stay float32. The
                loaded model always has float32 weights, and can be trained.
            card: dict of strings and numbers for the model card, or `None`. The
                model card begins with the text of `"description"`. The command
                `memlm presets` prints the value of `"perplexity"`. The value of
                `"command"` is the shell command that rebuilds the model; errors
                about a damaged file print this command.

        Raises:
            ValueError: for an unknown `dtype`, or a folder with unrelated
                files.
            OSError: if the folder cannot be written.

        Example:

        >>> lm.save_to_preset("presets/mine/small", dtype="float16")
        >>> lm = memlm_keras.LanguageModel.from_preset("presets/mine/small")
        """
        trained.save(self, folder, dtype, card)

    def count_params(self):
        """Returns the number of trainable parameters, and of weights that
        `quantize` has made int8."""
        fixed = self.non_trainable_variables
        int8 = [v for v in fixed if v.dtype == "int8"]
        counted = [*self.trainable_variables, *int8]
        return sum(math.prod(v.shape) for v in counted)

    # === Training ===

    def compile(
        self,
        optimizer="adam",
        loss="auto",
        *,
        metrics=None,
        weighted_metrics="auto",
        **kwargs,
    ):
        """Configures training; takes the arguments of `keras.Model.compile`.

        Args:
            optimizer: Keras optimizer; its `global_clipnorm` clips gradients by
                their global norm.
            loss: Keras loss. `"auto"` is the cross-entropy in nats, averaged
                over the predictions in a batch. Models return logits, so a
                cross-entropy given by name is computed from logits.
            metrics: as in `keras.Model.compile`; a cross-entropy takes logits.
            weighted_metrics: `"auto"` is the accuracy for a classifier; for a
                language model, it is `"nats"`, the mean cross-entropy of all
                tokens in nats, and `"perplexity"`, its exponential.
            **kwargs: other arguments of `keras.Model.compile`.
                `jit_compile="auto"` is true for a language model with at most
                200 units in float32 on TensorFlow without a GPU, where XLA
                saves time; otherwise it is Keras' default.
                `steps_per_execution=10` makes small models faster on JAX and
                TensorFlow, which then run 10 steps at once.

        On JAX, warns about bfloat16 on a CPU, where float32 is faster.

        Raises:
            ValueError: for a cross-entropy with `from_logits=False`.
        """
        loss, metrics, weighted_metrics = (
            tree.map_structure(functools.partial(_of_logits, name), given)
            for name, given in (
                ("loss", loss),
                ("metrics", metrics),
                ("metrics", weighted_metrics),
            )
        )
        if keras.backend.backend() == "jax" and computes_in(self, "bfloat16"):
            import jax

            if jax.default_backend() == "cpu":
                warnings.warn(
                    "bfloat16 is slower than float32 on a CPU with JAX. Use "
                    "float32, a GPU, or KERAS_BACKEND=torch",
                    stacklevel=2,
                )
        jit_compile = kwargs.get("jit_compile", "auto")
        self._jit_compile_argument = jit_compile
        # XLA cannot compile the communication between replicas.
        alone = distribution.num_devices(self) == 1
        if jit_compile == "auto" and alone and self.compiles_best():
            kwargs["jit_compile"] = not kwargs.get("run_eagerly", False)
        if weighted_metrics == "auto":
            weighted_metrics = self.default_metrics()
        # Keras checks the dtype policy of the model, but not of its layers.
        if kwargs.get("auto_scale_loss", True) and any(
            layer.dtype_policy.name == "mixed_float16" for layer in self.layers
        ):
            optimizer = keras.optimizers.get(optimizer)
            scaled = isinstance(optimizer, keras.optimizers.LossScaleOptimizer)
            if optimizer is not None and not scaled:
                optimizer = keras.optimizers.LossScaleOptimizer(optimizer)
        super().compile(
            optimizer=optimizer,
            loss=self.default_loss() if loss == "auto" else loss,
            metrics=metrics,
            weighted_metrics=weighted_metrics,
            **kwargs,
        )
        # Whether all metrics accept token losses instead of logits.
        self._measures_losses = all(
            metric is None or isinstance(metric, Nats)
            for metric in tree.flatten([metrics, weighted_metrics])
        )
        distribution.set_clipping(self)

    def compute_loss(
        self, x=None, y=None, y_pred=None, sample_weight=None, training=True
    ):
        """Computes Keras' loss, or one device's part of the loss."""
        loss = super().compute_loss(x, y, y_pred, sample_weight, training)
        if getattr(self.loss, "reduction", None) == "mean_with_sample_weight":
            # Scale layer losses, which are equal on every replica, so that the
            # sum over replicas counts each layer loss once.
            loss = loss * distribution.share_of_weight(sample_weight, y)
        return loss

    def train_on_batch(
        self,
        x,
        y=None,
        sample_weight=None,
        class_weight=None,
        return_dict=False,
    ):
        self._require_classes(class_weight)
        return super().train_on_batch(
            x, y, sample_weight, class_weight, return_dict
        )

    def _require_classes(self, class_weight):
        if class_weight is not None and not self.predicts_classes:
            raise ValueError(
                "`class_weight` must be None, since the targets of a "
                f"{type(self).__name__} are tokens, not classes. Received: "
                f"weights of {len(class_weight)} classes. Give `sample_weight` "
                "`(batch, time)`, such as `weights_of_tokens[y]`"
            )

    def _run_through_graph(self, *arguments, **keywords):
        maker = getattr(keywords.get("operation_fn"), "__module__", None)
        if maker == CLONING:
            name = type(self).__name__
            raise ValueError(
                "`keras.models.clone_model` makes a plain functional model. "
                f"Received: a {name}. Use `{name}.from_config("
                "model.get_config())`"
            )
        return super()._run_through_graph(*arguments, **keywords)

    def default_loss(self):
        """Returns the loss for `loss="auto"`."""
        return keras.losses.SparseCategoricalCrossentropy(
            from_logits=True, reduction="mean_with_sample_weight"
        )

    def default_metrics(self):
        """Returns the metrics for `weighted_metrics="auto"`."""
        return ["accuracy"]

    def compiles_best(self):
        """Returns whether XLA should compile training by default."""
        return False

    def get_compile_config(self):
        """Returns arguments of `compile` that are valid on every backend."""
        config = super().get_compile_config()
        if self.compiled:
            config["jit_compile"] = self._jit_compile_argument
        return config

    def compile_from_config(self, config):
        """Compiles the model as the saved model was compiled."""
        if keras.backend.backend() == "torch":
            # Keras refuses other values on PyTorch.
            config = {**config, "steps_per_execution": 1}
        self.compile(**keras.saving.deserialize_keras_object(config))
        if self.built:
            self.optimizer.build(self.trainable_variables)

    def fit(
        self,
        x=None,
        y=None,
        batch_size=None,
        epochs=1,
        verbose="auto",
        callbacks=None,
        *,
        validation_data=None,
        initial_epoch=0,
        **kwargs,
    ):
        """Trains the model; takes the arguments of `keras.Model.fit`.

        The epoch determines the order of batches of `memlm_keras.data`; Keras
        does not shuffle them. Training starts at the current position of the
        batches in the epoch. If batches contain `"reset"`, a language model
        carries its state from each batch to the next.

        Raises:
            ValueError: if the model is quantized, or if batches contain ids
                outside the vocabulary or labels outside the classes. A language
                model also rejects missing targets, `class_weight`, a smoothing
                without statistics and, if the model is not causal, batches
                other than `SentenceBatches`.
        """
        self._require_classes(kwargs.get("class_weight"))
        self.prepare_fit(x, y, validation_data, batch_size or 32)
        carries = isinstance(x, dict) and "reset" in x
        if carries or isinstance(x, keras.utils.PyDataset):
            # The next rows of a batch continue its state.
            kwargs["shuffle"] = False

        def train(**arguments):
            return super(SequenceModel, self).fit(
                as_dataset(self, x, kwargs.get("steps_per_epoch")),
                y=y,
                batch_size=batch_size,
                verbose=verbose,
                validation_data=as_dataset(self, validation_data),
                **kwargs,
                **arguments,
            )

        moves = hasattr(x, "start_at")
        if moves:
            callbacks = [FollowEpoch(x), *tree.flatten(callbacks or [])]
        if not moves or not x.start_batch or x.epoch >= epochs:
            return train(
                epochs=epochs, initial_epoch=initial_epoch, callbacks=callbacks
            )
        # Keras reads the number of batches only once per `fit`, so a separate
        # call of `fit` trains the rest of a started epoch.
        run = OneRun(
            callbacks,
            add_history=True,
            add_progbar=verbose != 0,
            model=self,
            verbose=verbose,
            epochs=epochs,
            steps=len(x),
        )
        epoch = x.epoch
        # Prevents Keras from assigning averaged weights (`use_ema`) too early.
        finalize = self.optimizer.finalize_variable_values
        self.optimizer.finalize_variable_values = lambda variables: None
        try:
            train(epochs=epoch + 1, initial_epoch=epoch, callbacks=run)
        finally:
            del self.optimizer.finalize_variable_values
        if epoch + 1 >= epochs or self.stop_training:
            finalize(self.trainable_weights)
        else:
            x.start_at(epoch + 1)
            run.set_params({**run.params, "steps": len(x)})
            self._initial_epoch = None
            train(epochs=epochs, initial_epoch=epoch + 1, callbacks=run)
        run.end()
        return self.history

    def evaluate(self, x=None, y=None, batch_size=None, *args, **kwargs):
        """Evaluates the model; takes the arguments of `keras.Model.evaluate`.

        Raises:
            ValueError: if the batches contain token ids outside the vocabulary,
                or are not `SentenceBatches` although the model is not causal.
        """
        self.check_data(x)
        self.check_targets(x, y)
        with self.carrying(x, batch_size or 32):
            return super().evaluate(
                as_dataset(self, x), y, batch_size, *args, **kwargs
            )

    def predict(self, x, batch_size=None, *args, **kwargs):
        """Predicts logits; takes the arguments of `keras.Model.predict`, and
        raises `ValueError` like `evaluate`."""
        self.check_data(x)
        with self.carrying(x, batch_size or 32):
            return super().predict(
                as_dataset(self, x), batch_size, *args, **kwargs
            )

    def carrying(self, batches, batch_size=None):
        """Returns a context manager in which `evaluate` may carry a state."""
        return contextlib.nullcontext()

    def prepare_fit(self, x, y, validation_data, batch_size):
        """Checks the model and the arguments of `fit`."""
        self.require_not_quantized("be trained")
        self.check_data(x, validation_data)
        self.check_targets(x, y)

    def require_not_quantized(self, what):
        """Raises `ValueError`, which says `what` the model cannot do, if a
        layer is quantized."""
        for layer in self._flatten_layers():
            if layer.quantization_mode is not None:
                raise ValueError(
                    f"A quantized model cannot {what}. Received: a model whose "
                    f"layer {layer.name!r} has {layer.quantization_mode} "
                    "weights. Do this before `quantize`"
                )

    def check_targets(self, x, y):
        """Raises `ValueError` if targets are missing or cannot be read."""

    def check_data(self, *data):
        """Raises `ValueError` for batches that the model cannot read."""
        require_readable(self, *data)
        for part in data:
            rows = getattr(part, "batch_size", None)
            distribution.require_divisible(rows, self)

    def make_train_function(self, force=False):
        made = self.train_function is None or force
        super().make_train_function(force)
        if made and self._may_record():
            self.train_function = self._record_after(_UNRECORDED_STEPS)
        several = self.steps_per_execution > 1
        if made and several and keras.backend.backend() == "jax":
            from memlm_keras.training.looped import train_function

            self.train_function = train_function(self, self.train_function)

    def _record_after(self, steps):
        """Returns a train function for PyTorch. The function runs `steps` steps
        before it traces one: in short runs, tracing takes more time than it
        saves."""
        counter = itertools.count(1)

        def run(data):
            if next(counter) == steps:
                from memlm_keras.training.recorded import Steps

                self.train_function = Steps(self.train_step, self)
            return self.train_step(data[0])

        return run

    def _may_record(self):
        """Returns whether a training step may be traced on PyTorch. The step
        must run only code from Keras and this package."""
        if keras.backend.backend() != "torch" or self.run_eagerly:
            return False
        parts = [self.optimizer, *self.metrics, *tree.flatten(self.loss)]
        for part in self.metrics:
            parts += getattr(part, "metrics", [])
        for name in ("fn", "_fn", "_learning_rate"):
            parts += [getattr(part, name, None) for part in parts]
        parts += [self, *self._flatten_layers()]
        known = all(
            isinstance(part, (str, type(None)))
            or part.__module__.split(".")[0] in ("keras", "memlm_keras")
            for part in parts
        )
        return known and not self.jit_compile

    def _maybe_symbolic_build(self, iterator=None, data_batch=None):
        # With several replicas, Keras would average their batches to build the
        # model, but the bool "reset" cannot be averaged.
        if iterator is not None and distribution.num_devices(self) > 1:
            _, _, batches = next(iter(iterator))
            data_batch = distribution.of_first_replica(self, next(batches))
            iterator = None
        super()._maybe_symbolic_build(iterator, data_batch)

    # === Serialization ===

    @classmethod
    def from_config(cls, config, custom_objects=None):
        return cls(**deserialize(config, custom_objects))


# === The state carried between batches ===


class CarriedState(keras.layers.Layer):
    """Stores the state that a model carries between batches. Checkpoints
    contain carried states, but saved models do not."""

    # Keras' `stateful=True` carries no state on JAX. On TensorFlow, a replica
    # writes only the states of its own rows; a `Checkpoint` joins all rows.

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
        # Keras marks a layer as built when it is called; this layer never is.
        self.built = True

    def read(self):
        """Returns the state as a dict of tensors."""
        return {
            name: distribution.rows_of_replica(ops.convert_to_tensor(variable))
            for name, variable in self._state.items()
        }

    def write(self, state):
        """Assigns `state` without gradients."""
        for name, variable in self._state.items():
            value = ops.cast(ops.stop_gradient(state[name]), variable.dtype)
            distribution.assign_rows(variable, value)

    def save_own_variables(self, store):
        """Saves nothing: a saved model starts from an empty context."""

    def load_own_variables(self, store):
        """Loads nothing."""


class CarriedStates:
    """The two `CarriedState`s of a model, for training and evaluation."""

    # Keras does not track an object of this class, so an `evaluate` within
    # `fit` adds no variables to the compiled training step.

    def __init__(self, model):
        self.model = model
        self.rows = {"training": None, "evaluation": None}
        self.evaluating = False
        self._states = {}

    def make(self, mode, rows):
        """Returns the `CarriedState` with `rows` rows; makes a missing one."""
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
        """Returns a `Prediction` and updates the carried state; `reset`, bool
        `(batch,)`, is true for rows that start a new context."""
        backbone = self.model.backbone
        mode = "training" if training else "evaluation"
        replicas = distribution.num_replicas()
        rows = self.rows[mode]
        if reset.shape[0] is not None:
            rows = reset.shape[0] * replicas
        carried = self._states.get(f"carried_{mode}_state_{rows}")
        if carried is None and in_symbolic_scope():
            # Keras only infers shapes here; shapes do not depend on the state.
            return backbone.forward(**inputs, training=training)[0]
        if carried is None:
            compiled = in_stateless_scope()
            if keras.backend.backend() == "tensorflow":
                import tensorflow as tf

                compiled = compiled or not tf.executing_eagerly()
            if compiled:
                raise ValueError(
                    f"The model carries no state with {rows} rows in {mode}, "
                    "and a compiled function cannot create one. Call "
                    "`carry_state(batch_size, evaluation_batch_size)` first"
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
        """List of the state's variables; empty unless `evaluate` runs."""
        if not self.evaluating or self.rows["evaluation"] is None:
            return []
        return self.make("evaluation", self.rows["evaluation"]).variables


def carried_rows(batches, batch_size=None):
    """Returns the number of rows in a batch, for any batches that `fit`
    accepts; `None` for batches without a carried state."""
    if isinstance(batches, (tuple, list)) and len(batches):
        return carried_rows(batches[0], batch_size)
    if isinstance(batches, dict):
        if "reset" not in batches:
            return None
        rows = batches["reset"].shape[0]
        return rows if batch_size is None else min(batch_size, rows)
    if (specification := getattr(batches, "element_spec", None)) is None:
        return getattr(batches, "batch_size", None)
    rows = carried_rows(specification)
    if isinstance(specification, (tuple, list)):
        specification = specification[0]
    if rows is None and isinstance(specification, dict):
        if "reset" in specification:
            rows = carried_rows(next(iter(batches)))
    return rows


def _of_logits(name, given):
    """Replaces the name of a cross-entropy by the cross-entropy of logits.
    Raises `ValueError` for a cross-entropy of probabilities."""
    known = str(getattr(given, "__name__", given)).replace("_", "").lower()
    if isinstance(given, str) and known in ("crossentropy", "ce"):
        known = "sparsecategoricalcrossentropy"
    module = getattr(keras, "losses" if name == "loss" else "metrics")
    for kind in ("SparseCategoricalCrossentropy", "CategoricalCrossentropy"):
        cls = getattr(module, kind)
        if known == kind.lower():
            return cls(from_logits=True)
        if isinstance(given, cls) and not given.get_config()["from_logits"]:
            raise ValueError(
                f"`{name}` must have `from_logits=True`, since the model "
                f"returns logits. Received: a {kind} of probabilities"
            )
    return given


def warn_of_short_segments(backbone, batches):
    """Warns if a layer's window is longer than the segments in batches."""
    segment = getattr(batches, "segment_length", None)
    for layer in (backbone.memory, backbone.mixture):
        window = getattr(layer, "window", None)
        if None in (segment, window) or window <= segment:
            continue
        # Windows of token ids need no warning: each segment embeds ids again.
        holds_outputs = len(layer.initial_state(1)["window"].shape) > 2
        if holds_outputs:
            warnings.warn(
                f"{type(layer).__name__} looks back {window} steps, and "
                f"segments have {segment} steps: no gradients reach earlier "
                "segments, so the model hardly learns to use their outputs. "
                f"Use `segment_length={window}` or a shorter window",
                stacklevel=4,
            )


# === Checks of data ===


def require_readable(model, *data):
    """Raises `ValueError` for batches or arrays that a model cannot read."""
    for part in data:
        _require_ids(part, model.vocabulary_size)
        vocabulary = getattr(part, "vocabulary", None)
        if None not in (vocabulary, model.vocabulary):
            if vocabulary != model.vocabulary:
                raise ValueError(
                    "The batches must have the model's vocabulary. Received: "
                    f"batches with {describe(vocabulary)} for a model with "
                    f"{describe(model.vocabulary)}. Load the corpus with "
                    "`vocabulary=model.vocabulary`."
                )
        if not getattr(model, "causal", True):
            _require_whole_sentences(part, model.memory)


def describe(vocabulary):
    """Describes a vocabulary for an error message."""
    return f"{vocabulary!r} with fingerprint {vocabulary.fingerprint}"


def _require_ids(data, vocabulary_size, name="token_ids"):
    """Raises `ValueError` if data contains ids outside the vocabulary."""
    if isinstance(data, dict):
        for name in ("token_ids", "premise", "hypothesis", "source", "target"):
            _require_ids(data.get(name), vocabulary_size, name)
        return
    if hasattr(data, "__dataclass_fields__"):
        raise ValueError(
            'A model reads batches, such as `corpus.batches("train", ...)`, or '
            f"arrays. Received: a {type(data).__name__}"
        )
    if isinstance(data, (np.ndarray, list)):
        require_token_ids(name, data, vocabulary_size, ndim=None)
    elif isinstance(data, tuple):
        for part in data[:2]:
            _require_ids(part, vocabulary_size)
    largest_id = getattr(data, "largest_id", None)
    if largest_id is not None and largest_id >= vocabulary_size:
        raise ValueError(
            "The batches must have token ids below vocabulary_size="
            f"{vocabulary_size}. Received: the token id {largest_id}. Encode "
            "the text with the model's vocabulary."
        )


def _require_whole_sentences(batches, memory):
    """Raises `ValueError` if batches cut sentences, since `memory` needs whole
    sentences."""
    if not isinstance(batches, keras.utils.PyDataset):
        return
    name = type(memory).__name__
    if not getattr(batches, "whole_sentences", False):
        raise ValueError(
            f"A {name} is not causal, so the batches must hold whole "
            "sentences, like `corpus.batches(split, sentences=True)`. "
            f"Received: {type(batches).__name__}, which may cut sentences"
        )
    end = getattr(memory, "end_of_sentence_id", batches.end_of_sentence_id)
    if end != batches.end_of_sentence_id:
        raise ValueError(
            f"The batches must end sentences with the end_of_sentence_id={end} "
            f"of the {name}. Received: batches with "
            f"end_of_sentence_id={batches.end_of_sentence_id}"
        )


# === Additions to Keras' loop ===


class FollowEpoch(keras.callbacks.Callback):
    """Moves batches to the epoch of `fit`, which determines their order. On
    PyTorch, also restores the random state that validation or a `Checkpoint`
    changed."""

    def __init__(self, batches):
        super().__init__()
        self.batches = batches
        self._states = None
        if keras.backend.backend() == "torch":
            # On JAX, `on_train_batch_end` would make Keras wait for each batch.
            self.on_train_batch_end = self._keep_states

    def on_train_batch_begin(self, batch, logs=None):
        if batch == 0 and self._states is not None:
            distribution.set_generator_states(self._states)

    def _keep_states(self, batch, logs=None):
        if batch + 1 == len(self.batches):
            self._states = distribution.generator_states()

    def on_epoch_begin(self, epoch, logs=None):
        if epoch != self.batches.epoch:
            self.batches.start_at(epoch)


class OneRun(keras.callbacks.CallbackList):
    """A list of callbacks that see two calls of `fit` as one training run."""

    _begun = False

    def on_train_begin(self, logs=None):
        if not self._begun:
            super().on_train_begin(logs)
        self._begun = True

    def on_train_end(self, logs=None):
        self._last_logs = logs

    def end(self):
        super().on_train_end(self._last_logs)


def as_dataset(model, batches, steps_per_epoch=None):
    """Makes the backend's own reader of batches if it is faster than Keras'
    reader; otherwise returns `batches`. On TensorFlow, returns a
    `tf.data.Dataset` for batches of varying length and, with one device, for
    batches of this package. On PyTorch with a CPU, returns a `DataLoader` for
    batches of this package."""
    backend = keras.backend.backend()
    varies = getattr(batches, "varies_in_time", False)
    # `tf.data` and `DataLoader` call no `on_epoch_begin` or `on_epoch_end`, and
    # read batches in advance. With `steps_per_epoch`, an epoch would begin with
    # batches that were read for the previous epoch.
    simple = (
        isinstance(batches, EpochBatches)
        and all(
            getattr(type(batches), hook) is getattr(keras.utils.PyDataset, hook)
            for hook in ("on_epoch_begin", "on_epoch_end")
        )
        and distribution.num_devices(model) == 1
        and not steps_per_epoch
    )
    if backend == "torch" and simple and ops.zeros(1).device.type == "cpu":
        from torch.utils.data import DataLoader

        return DataLoader(batches, batch_size=None)
    if backend != "tensorflow" or not (varies or simple):
        return batches
    import tensorflow as tf

    def specification(array):
        shape = (None, *array.shape)
        if varies:
            # Keras infers shapes from two batches, whose lengths may be equal.
            shape = (array.shape[0], *[None] * (array.ndim - 1))
        return tf.TensorSpec(shape, array.dtype)

    def stacks():
        for begin in range(0, len(batches), _READ_AT_ONCE):
            end = min(begin + _READ_AT_ONCE, len(batches))
            some = [batches[index] for index in range(begin, end)]
            yield tree.map_structure(lambda *arrays: np.stack(arrays), *some)

    def items():
        return map(batches.__getitem__, range(len(batches)))

    dataset = tf.data.Dataset.from_generator(
        items if varies else stacks,
        output_signature=tree.map_structure(specification, batches[0]),
    )
    if not varies:
        dataset = dataset.unbatch()
    known_length = tf.data.experimental.assert_cardinality(len(batches))
    # Otherwise, `fit` would end only when a tuner wakes, up to a minute later.
    options = tf.data.Options()
    options.autotune.enabled = False
    return dataset.apply(known_length).prefetch(2).with_options(options)

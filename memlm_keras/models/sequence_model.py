"""Training by Keras' loops, as every model of this package has it."""

import math

import keras
from keras import tree

from memlm_keras import registry
from memlm_keras.models import batch_reading
from memlm_keras.models import inference
from memlm_keras.models.quantization import require_trainable
from memlm_keras.serialization import deserialize
from memlm_keras.training import distribution


class SequenceModel(keras.Model):
    """A `keras.Model` of token ids that presets describe.

    It trains with `fit` on batches that know their epoch, may begin within
    one, and may be of different lengths of time. A subclass names itself in
    `preset_kind`, as presets do in `"kind"`.
    """

    preset_kind = None
    vocabulary = None

    @classmethod
    def from_preset(
        cls, preset, /, vocabulary_size=None, vocabulary=None, **overrides
    ):
        """Makes the model of one row of a paper's table.

        Args:
            preset: string, one of `memlm_keras.presets.names()`.
            vocabulary_size: integer; `None` is that of `vocabulary`.
            vocabulary: `memlm_keras.data.Vocabulary`, to be kept in the model,
                or `None`.
            **overrides: sizes of the preset (`scale`, `units`,
                `embedding_dim`, `window`, `initial_range`, as
                `memlm_keras.presets.get` takes them), or
                arguments of this class that do not contradict the preset.

        Raises:
            ValueError: for an unknown preset, one of another kind of model, an
                argument that the preset fixes, or no size of a vocabulary.

        Example:

        >>> lm = memlm_keras.LanguageModel.from_preset(
        ...     "daniluk2017/key_value_predict", vocabulary_size=10_000
        ... )
        >>> classifier = memlm_keras.EntailmentClassifier.from_preset(
        ...     "weissenborn2016/dual_am_gru_shared", vocabulary_size=10_000
        ... )
        """
        config = registry.model_config(preset, cls.preset_kind, **overrides)
        config["vocabulary_size"] = vocabulary_size
        if vocabulary is not None:
            config["vocabulary"] = vocabulary
        return cls.from_config(config)

    def count_params(self):
        """Number of parameters that are trained.

        What is fixed, as permutations of keys or statistics of a text are, and
        what `fit` carries from batch to batch, is none.
        """
        return sum(math.prod(v.shape) for v in self.trainable_variables)

    # === Training ===

    def compile(
        self,
        optimizer="adam",
        loss="auto",
        *,
        weighted_metrics="auto",
        **kwargs,
    ):
        """Configures training; takes the arguments of `keras.Model.compile`.

        Args:
            optimizer: Keras optimizer; clip by global norm with its
                `global_clipnorm`.
            loss: `"auto"` is the cross-entropy in nats averaged over what is
                predicted in a batch.
            weighted_metrics: `"auto"` is what tells most of such a model: the
                accuracy of a classifier, and of a language model the perplexity
                (`"perplexity"`) and the cross-entropy in nats (`"nats"`), both
                summed over tokens before they are divided.
            **kwargs: other arguments of `keras.Model.compile`. A `jit_compile`
                of `"auto"` is true for a language model of at most 200 units
                in float32 on TensorFlow without a GPU, where XLA saves time;
                Keras' own choice is false, as a GPU's fused LSTM cannot be
                compiled.

        On a CPU, JAX computes bfloat16 slower than float32, and is warned of.
        """
        inference.warn_of_slow_precision(self)
        self._jit_compile_argument = kwargs.get("jit_compile", "auto")
        # Replicas exchange what XLA cannot compile.
        alone = distribution.num_devices(self) == 1
        if (
            self._jit_compile_argument == "auto"
            and alone
            and self.compiles_best()
        ):
            kwargs["jit_compile"] = not kwargs.get("run_eagerly", False)
        if weighted_metrics == "auto":
            weighted_metrics = self.default_metrics()
        super().compile(
            optimizer=optimizer,
            loss=self.default_loss() if loss == "auto" else loss,
            weighted_metrics=weighted_metrics,
            **kwargs,
        )
        distribution.clip_sum_of_gradients(self)

    def compute_loss(
        self, x=None, y=None, y_pred=None, sample_weight=None, training=True
    ):
        """Keras' own; on several devices, the share of this one's rows."""
        loss = super().compute_loss(x, y, y_pred, sample_weight, training)
        if getattr(self.loss, "reduction", None) == "mean_with_sample_weight":
            # What a layer adds is the same on all: shares of it make it whole.
            loss = loss * distribution.share_of_weight(sample_weight, y)
        return loss

    def default_loss(self):
        """The loss that `"auto"` stands for."""
        return keras.losses.SparseCategoricalCrossentropy(
            from_logits=True, reduction="mean_with_sample_weight"
        )

    def default_metrics(self):
        """The list of metrics that `"auto"` stands for."""
        return ["accuracy"]

    def compiles_best(self):
        """Whether training is compiled by XLA where Keras would not do so."""
        return False

    def get_compile_config(self):
        """Returns the arguments of `compile`, as every backend takes them."""
        config = super().get_compile_config()
        if self.compiled:
            config["jit_compile"] = self._jit_compile_argument
        return config

    def compile_from_config(self, config):
        """Compiles the model as a saved one was compiled."""
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

        Batches of `memlm_keras.data` are told of each epoch, as their order
        follows it, Keras is kept from shuffling them, and those that begin
        within an epoch are trained on from there. Where batches have a
        `"reset"`, a language model carries its state from one to the next.

        Raises:
            ValueError: if the batches hold what the model has no room for, as
                token ids outside the vocabulary; and, by a language model, for
                arrays without targets, for batches other than
                `SentenceBatches` if it is not causal, and for a smoothing
                without statistics; and for a model that is quantized.
        """
        self.prepare_fit(x, y, validation_data, batch_size or 32)
        if isinstance(x, keras.utils.PyDataset):
            kwargs["shuffle"] = False

        def train(**arguments):
            return super(SequenceModel, self).fit(
                with_dynamic_time(x),
                y=y,
                batch_size=batch_size,
                verbose=verbose,
                validation_data=with_dynamic_time(validation_data),
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
        # Keras asks for the number of batches once and keeps it for all epochs,
        # so the rest of an epoch is a `fit` of its own.
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
        train(epochs=epoch + 1, initial_epoch=epoch, callbacks=run)
        if epoch + 1 < epochs and not self.stop_training:
            x.start_at(epoch + 1)
            run.set_params({**run.params, "steps": len(x)})
            self._initial_epoch = None
            train(epochs=epochs, initial_epoch=epoch + 1, callbacks=run)
        run.end()
        return self.history

    def evaluate(self, x=None, *args, **kwargs):
        """Evaluates the model; takes the arguments of `keras.Model.evaluate`.

        Raises:
            ValueError: if the batches hold what the model has no room for.
        """
        self.check_data(x)
        return super().evaluate(with_dynamic_time(x), *args, **kwargs)

    def predict(self, x, *args, **kwargs):
        """Predicts logits; takes the arguments of `keras.Model.predict`.

        Raises:
            ValueError: if the batches hold what the model has no room for.
        """
        self.check_data(x)
        return super().predict(with_dynamic_time(x), *args, **kwargs)

    def prepare_fit(self, x, y, validation_data, batch_size):
        """Checks the model, and the data that `fit` is called with."""
        require_trainable(self)
        self.check_data(x, validation_data)

    def check_data(self, *data):
        """Raises `ValueError` for batches that the model cannot read."""
        batch_reading.require_readable(self, *data)
        for part in data:
            distribution.require_divisible(
                getattr(part, "batch_size", None),
                distribution.num_devices(self),
            )

    def _maybe_symbolic_build(self, iterator=None, data_batch=None):
        # What Keras calls on TensorFlow. It would build by the mean of the
        # batches of all replicas, and a "reset" has none.
        if iterator is not None and distribution.num_devices(self) > 1:
            _, _, batches = next(iter(iterator))
            data_batch = distribution.of_first_replica(self, next(batches))
            iterator = None
        super()._maybe_symbolic_build(iterator, data_batch)

    # === Serialization ===

    @classmethod
    def from_config(cls, config, custom_objects=None):
        return cls(**deserialize(config, custom_objects))


class FollowEpoch(keras.callbacks.Callback):
    """Moves batches to the epoch of `fit`, as their order follows it."""

    def __init__(self, batches):
        super().__init__()
        self.batches = batches

    def on_epoch_begin(self, epoch, logs=None):
        if epoch != self.batches.epoch:
            self.batches.start_at(epoch)


class OneRun(keras.callbacks.CallbackList):
    """Callbacks that see two calls of `fit` as one training run."""

    _begun = False

    def on_train_begin(self, logs=None):
        if not self._begun:
            super().on_train_begin(logs)
        self._begun = True

    def on_train_end(self, logs=None):
        self._last_logs = logs

    def end(self):
        super().on_train_end(self._last_logs)


def with_dynamic_time(batches):
    """Returns batches as Keras can read them, whatever their shapes.

    On TensorFlow, Keras takes the shapes of the first two batches for those of
    all; here the time is declared as open.

    Args:
        batches: any dataset; those with a true `varies_in_time` are meant.

    Returns:
        `batches`, or a `tf.data.Dataset` of what they hold now.
    """
    varies = getattr(batches, "varies_in_time", False)
    if not varies or keras.backend.backend() != "tensorflow":
        return batches
    import tensorflow as tf

    def open_time(array):
        shape = (array.shape[0], *[None] * (array.ndim - 1))
        return tf.TensorSpec(shape, array.dtype)

    def items():
        for index in range(len(batches)):
            yield batches[index]

    dataset = tf.data.Dataset.from_generator(
        items, output_signature=tree.map_structure(open_time, batches[0])
    )
    known_length = tf.data.experimental.assert_cardinality(len(batches))
    return dataset.apply(known_length).prefetch(tf.data.AUTOTUNE)

"""Training and evaluation with the state carried from batch to batch."""

import types

import keras
from keras import ops

from memlm_keras.models import checks
from memlm_keras.models.batch_reading_model import BatchReadingModel
from memlm_keras.models.carried_state import CarriedState
from memlm_keras.models.fitting import fit_batches
from memlm_keras.models.inference import compile_inference
from memlm_keras.models.inference import xla_pays
from memlm_keras.models.metrics import Nats
from memlm_keras.models.metrics import mean_cross_entropy
from memlm_keras.models.metrics import mean_over_tokens
from memlm_keras.models.varying_time import known_to_vary
from memlm_keras.smoothing import VariationalSmoothing


class TrainedModel(BatchReadingModel):
    """What a language model does with Keras' training loops."""

    def make_ready(self, backbone):
        """Sets what the methods of every language model run on.

        Args:
            backbone: the `Backbone` of this model.
        """
        # The carried form of the inputs is a dict, which the specification
        # that Keras derives from the graph would refuse.
        self.input_spec = None
        # A namespace hides what refers back to the model from Keras' tracking.
        self._untracked = types.SimpleNamespace(
            backbone=backbone,
            infer=compile_inference(self, backbone.forward),
            attend=compile_inference(self, backbone.attend),
            one_row=backbone.initial_state(1),
            recalled=None,
            scorer=None,
            carried_rows={"training": None, "evaluation": None},
        )

    def __call__(self, inputs, *args, **kwargs):
        checks.concrete_token_ids(inputs, self.vocabulary_size)
        return super().__call__(inputs, *args, **kwargs)

    def call(self, inputs, training=None, mask=None):
        if not isinstance(inputs, dict):
            if not (training and self._learns_of_targets):
                # What an earlier call left is no part of this one's loss.
                self._untracked.recalled = None
                return super().call(inputs, training=training, mask=mask)
            logits, _, self._untracked.recalled = self.backbone.predict(
                ops.convert_to_tensor(inputs, dtype="int32"), training=True
            )
            return logits
        checks.carried_inputs(inputs)
        token_ids = ops.convert_to_tensor(inputs["token_ids"], dtype="int32")
        reset = ops.convert_to_tensor(inputs["reset"], dtype="bool")
        mode = "training" if training else "evaluation"
        rows = token_ids.shape[0] or self._untracked.carried_rows[mode]
        carried = self._carried_state(mode, rows)
        state = carried.read(self.initial_state(rows), reset)
        logits, state, recalled = self.backbone.predict(
            token_ids, state, training
        )
        # The loss asks for it, later in the same trace.
        self._untracked.recalled = recalled if training else None
        carried.write(state)
        return logits

    def carry_state(self, batch_size=None, evaluation_batch_size=None):
        """Makes room to carry the state of so many rows between batches.

        `fit` and `evaluate` do this by themselves for batches that have a
        `batch_size`, as `memlm_keras.data.Batches` have.

        Args:
            batch_size: integer or `None`, rows in training.
            evaluation_batch_size: integer or `None`, rows in evaluation.
        """
        carried_rows = self._untracked.carried_rows
        if batch_size not in (None, carried_rows["training"]):
            self._make_carried_state("training", batch_size)
            carried_rows["training"] = batch_size
            self.train_function = None
        if evaluation_batch_size not in (None, carried_rows["evaluation"]):
            self._make_carried_state("evaluation", evaluation_batch_size)
            carried_rows["evaluation"] = evaluation_batch_size
            # Traced anew, since what Keras compiled holds the old variables.
            for model in (self, self._untracked.scorer):
                if model is not None:
                    model.test_function = None
                    model.predict_function = None

    def _make_carried_state(self, mode, rows):
        name = f"carried_{mode}_state_{rows}"
        if not hasattr(self, name):
            state = CarriedState(self.initial_state(rows), name=name)
            setattr(self, name, state)

    def count_params(self):
        """Number of parameters.

        Neither what `fit` carries nor the statistics of a smoothing are.
        """
        others = sum(
            layer.count_params()
            for layer in self._flatten_layers()
            if isinstance(layer, (CarriedState, VariationalSmoothing))
        )
        return super().count_params() - others

    def _carried_state(self, mode, rows):
        carried = getattr(self, f"carried_{mode}_state_{rows}", None)
        if carried is None:
            raise ValueError(
                f"A state of {self._untracked.carried_rows[mode]} rows is "
                f"carried in {mode}. Received: inputs with a batch size of "
                f"{rows}. Use batches of one size, or call "
                "`carry_state(batch_size, evaluation_batch_size)` first; `fit` "
                "and `evaluate` do so for `memlm_keras.data.Batches`."
            )
        return carried

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
            loss: `"auto"` is the cross-entropy in nats averaged over the
                predicted tokens of a batch.
            weighted_metrics: `"auto"` is keras_nlp's `Perplexity`
                (`"perplexity"`) and the cross-entropy in nats (`"nats"`), both
                summed over tokens before they are divided.
            **kwargs: other arguments of `keras.Model.compile`. A `jit_compile`
                of `"auto"` is true on TensorFlow without a GPU, where XLA
                takes half the time; Keras' own choice is false, as a GPU's
                fused LSTM cannot be compiled.
        """
        arguments = {
            "optimizer": keras.optimizers.get(optimizer),
            "loss": loss,
            "weighted_metrics": weighted_metrics,
            **kwargs,
        }
        if loss == "auto":
            loss = mean_cross_entropy()
        if weighted_metrics == "auto":
            import keras_nlp

            weighted_metrics = [
                keras_nlp.metrics.Perplexity(from_logits=True),
                Nats(),
            ]
        resolved = {
            **arguments,
            "loss": loss,
            "weighted_metrics": weighted_metrics,
        }
        if kwargs.get("jit_compile", "auto") == "auto" and xla_pays():
            resolved["jit_compile"] = not kwargs.get("run_eagerly", False)
        super().compile(**resolved)
        self._untracked.compile_arguments = arguments

    def compute_loss(
        self,
        x=None,
        y=None,
        y_pred=None,
        sample_weight=None,
        training=True,
    ):
        """Keras' own, of redrawn targets, and what else is to be learned.

        That is the term of a mixture that learns what to copy, and the
        divergence of a smoothing.
        """
        recalled, self._untracked.recalled = self._untracked.recalled, None
        if recalled is None:
            return super().compute_loss(x, y, y_pred, sample_weight, training)
        targets = ops.cast(y, "int32")
        if recalled.redraw is not None:
            y_pred = recalled.redraw(targets)
        loss = super().compute_loss(x, y, y_pred, sample_weight, training)
        if self.mixture is not None and self.mixture.supervised:
            reduce = getattr(self.loss, "reduced", mean_over_tokens)
            pointed = self.mixture.pointer_log_probability(
                recalled.by_mixture, targets
            )
            loss = loss + reduce(-pointed, sample_weight)
        if self.smoothing is not None and self.smoothing.l2:
            for matrix in self.smoothed_matrices:
                loss = loss + self.smoothing.divergence(matrix)
        return loss

    @property
    def _learns_of_targets(self):
        """Whether the loss asks for more than the logits."""
        points = self.mixture is not None and self.mixture.supervised
        return points or self.smoothing is not None

    @property
    def smoothed_matrices(self):
        """The matrices that the smoothing is of; a tied one is there twice."""
        if self.smoothing is None:
            return []
        output = [self.head.matrix] if self.smoothing.smooths_output else []
        return [self.embedding.embeddings, *output]

    def get_compile_config(self):
        """Returns the arguments of `compile`, `"auto"` left as it is."""
        arguments = getattr(self._untracked, "compile_arguments", None)
        if arguments is None:
            return None
        return keras.saving.serialize_keras_object(arguments)

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

        For `memlm_keras.data.Batches` the state is carried from batch to
        batch, Keras is kept from shuffling them, and batches that begin within
        an epoch are trained on from there.

        Raises:
            ValueError: if the batches hold token ids outside the vocabulary,
                or the memory reads ahead and they are not `SentenceBatches`;
                and for a smoothing without statistics.
        """
        self._check_data(x, y, validation_data)
        checks.adapted(self.smoothing)
        rows = checks.carried_batch_size(x)
        if rows is not None:
            # Keras traces evaluation on a training batch to build the metrics.
            self._make_carried_state("evaluation", rows)
        self.carry_state(rows, checks.carried_batch_size(validation_data))
        return fit_batches(
            self,
            super().fit,
            x,
            y=y,
            batch_size=batch_size,
            epochs=epochs,
            verbose=verbose,
            callbacks=callbacks,
            validation_data=validation_data,
            initial_epoch=initial_epoch,
            **kwargs,
        )

    def evaluate(self, x=None, *args, **kwargs):
        """Evaluates the model; takes the arguments of `keras.Model.evaluate`.

        Raises:
            ValueError: if the batches hold token ids outside the vocabulary,
                or the memory reads ahead and they are not `SentenceBatches`.
        """
        self._check_data(x)
        self.carry_state(None, checks.carried_batch_size(x))
        return super().evaluate(known_to_vary(x), *args, **kwargs)

    def predict(self, x, *args, **kwargs):
        """Predicts logits; takes the arguments of `keras.Model.predict`.

        Raises:
            ValueError: if the batches hold token ids outside the vocabulary,
                or the memory reads ahead and they are not `SentenceBatches`.
        """
        self._check_data(x)
        self.carry_state(None, checks.carried_batch_size(x))
        return super().predict(x, *args, **kwargs)

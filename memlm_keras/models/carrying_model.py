"""Language models that train with their state carried between batches."""

import contextlib

import keras
import numpy as np
from keras import ops
from keras import tree

from memlm_keras.arguments import require_token_ids
from memlm_keras.models import batch_reading
from memlm_keras.models.carried_state import CarriedStates
from memlm_keras.models.carried_state import carried_rows
from memlm_keras.models.carried_state import in_symbolic_scope
from memlm_keras.models.carried_state import reset_rows
from memlm_keras.models.carried_state import warn_of_short_segments
from memlm_keras.models.inference import compile_inference
from memlm_keras.models.inference import computes_in
from memlm_keras.models.inference import xla_pays
from memlm_keras.models.quantization import require_trainable
from memlm_keras.models.sequence_model import SequenceModel
from memlm_keras.models.streaming import StreamingModel
from memlm_keras.training import distribution
from memlm_keras.training.losses import Nats
from memlm_keras.training.losses import Perplexity
from memlm_keras.training.losses import TokenCrossEntropy
from memlm_keras.training.losses import TokenLoss

# Of inputs other than token ids.
_DTYPES = {"reset": "bool", "sample_weight": "float32"}


class CarryingModel(StreamingModel, SequenceModel):
    """A `StreamingModel` whose training goes on where the last batch ended.

    Inputs with a `"reset"` are read from the state of the batch before, and
    inputs with `"targets"` make the model give the loss of each token; `fit`
    and its like put the targets there.

    Args:
        **kwargs: arguments of `StreamingModel`.
    """

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        # A dict of inputs is more than the graph's specification knows.
        self.input_spec = None
        self._carried = CarriedStates(self)

    @property
    def smoothing(self):
        """The `VariationalSmoothing` of the embedding, or `None`."""
        return getattr(self.backbone.embedding, "smoothing", None)

    # === Calls ===

    def __call__(self, inputs, *args, **kwargs):
        if isinstance(inputs, dict):
            _require_names(inputs)
            token_ids = inputs["token_ids"]
            if isinstance(token_ids, (np.ndarray, list)):
                require_token_ids("token_ids", token_ids, self.vocabulary_size)
        elif isinstance(inputs, (np.ndarray, list, tuple)):
            inputs = require_token_ids("inputs", inputs, self.vocabulary_size)
        return super().__call__(inputs, *args, **kwargs)

    def call(self, inputs, training=None):
        if not isinstance(inputs, dict):
            inputs = {"token_ids": inputs}
        inputs = {
            name: ops.convert_to_tensor(value, dtype=_DTYPES.get(name, "int32"))
            for name, value in inputs.items()
        }
        _require_shapes(inputs)
        reset = inputs.pop("reset", None)
        if reset is None:
            prediction, _ = self.backbone.forward(**inputs, training=training)
        else:
            prediction = self._carry(reset, inputs, training)
        if "targets" not in inputs:
            return prediction.logits
        return {
            name: value
            for name, value in prediction._asdict().items()
            if name != "logits" or "sample_weight" not in inputs
        }

    def _carry(self, reset, inputs, training):
        """Predicts from the carried state, and carries the new one on."""
        mode = "training" if training else "evaluation"
        replicas = distribution.num_replicas()
        rows = self._carried.rows[mode]
        if reset.shape[0] is not None:
            rows = reset.shape[0] * replicas
        carried = self._carried.get(mode, rows)
        if carried is None and in_symbolic_scope():
            # Shapes do not depend on what is carried.
            return self.backbone.forward(**inputs, training=training)[0]
        if carried is None:
            raise ValueError(
                f"No state of {rows} rows is carried in {mode}, and none can "
                "be made within a compiled function. Call "
                "`carry_state(batch_size, evaluation_batch_size)` first; `fit` "
                "and `evaluate` do so for batches of one size"
            )
        state = carried.read()
        start = self.backbone.initial_state(rows // replicas)
        state = reset_rows(state, start, reset)
        prediction, state = self.backbone.forward(
            state=state, training=training, **inputs
        )
        carried.write(state)
        return prediction

    def carry_state(self, batch_size=None, evaluation_batch_size=None):
        """Makes room to carry the state of so many rows between batches.

        `fit`, `evaluate` and their like do this by themselves for batches that
        tell how many rows they have, and so does a call that is not compiled.

        Args:
            batch_size: integer or `None`, rows in training.
            evaluation_batch_size: integer or `None`, rows in evaluation.
        """
        devices = distribution.num_devices(self)
        distribution.require_divisible(batch_size, devices)
        distribution.require_divisible(evaluation_batch_size, devices)
        rows = self._carried.rows
        if batch_size not in (None, rows["training"]):
            self._carried.make("training", batch_size)
            self.train_function = None
        if evaluation_batch_size not in (None, rows["evaluation"]):
            self._carried.make("evaluation", evaluation_batch_size)
            if keras.backend.backend() == "tensorflow":
                # Traced anew, as a trace for any number of rows holds the old.
                self.test_function = None
                self.predict_function = None

    @property
    def non_trainable_variables(self):
        """Those of Keras, and what a running evaluation carries."""
        variables = super().non_trainable_variables
        carried = self.__dict__.get("_carried")
        if carried is None:
            return variables
        return [*variables, *carried.evaluation_variables]

    @contextlib.contextmanager
    def _carrying(self, batches, batch_size=None):
        """Context in which evaluation carries the state of batches."""
        before = self._carried.evaluating
        self.carry_state(None, carried_rows(batches, batch_size))
        self._carried.evaluating = True
        try:
            yield
        finally:
            self._carried.evaluating = before

    # === Training ===

    def default_loss(self):
        """The loss that `"auto"` stands for."""
        return TokenCrossEntropy()

    def default_metrics(self):
        """The list of metrics that `"auto"` stands for."""
        return [Perplexity(), Nats()]

    def compiles_best(self):
        """Whether training is compiled by XLA where Keras would not do so."""
        sizes = [
            shape[-1]
            for name, shape in self._state_shapes.items()
            if name.startswith("recurrent_")
        ]
        return xla_pays(max(sizes, default=0), computes_in(self, "bfloat16"))

    def compile(
        self,
        optimizer="adam",
        loss="auto",
        *,
        metrics=None,
        weighted_metrics="auto",
        **kwargs,
    ):
        super().compile(
            optimizer=optimizer,
            loss=loss,
            metrics=metrics,
            weighted_metrics=weighted_metrics,
            **kwargs,
        )
        asked = tree.flatten([metrics, weighted_metrics])
        self._measures_losses = all(
            metric in (None, "auto") or isinstance(metric, Nats)
            for metric in asked
        )

    compile.__doc__ = SequenceModel.compile.__doc__

    def train_step(self, *arguments):
        """Keras' own, with the targets among the inputs."""
        *state, data = arguments
        return super().train_step(*state, self._with_targets(data))

    def test_step(self, *arguments):
        """Keras' own, with the targets among the inputs."""
        *state, data = arguments
        return super().test_step(*state, self._with_targets(data))

    def _with_targets(self, data):
        """Returns data of a step, with its targets among the inputs.

        So are the weights, unless a loss or a metric is to see logits.
        """
        x, y, sample_weight = keras.utils.unpack_x_y_sample_weight(data)
        inputs = {**x} if isinstance(x, dict) else {"token_ids": x}
        inputs["targets"] = y
        if isinstance(self.loss, TokenLoss) and self._measures_losses:
            weights = ops.ones_like(y, dtype="float32")
            if sample_weight is not None:
                given = ops.cast(sample_weight, "float32")
                weights *= given[:, None] if len(given.shape) == 1 else given
            inputs["sample_weight"] = weights
        inputs = tree.map_structure(ops.convert_to_tensor, inputs)
        return inputs, y, sample_weight

    def compute_loss(
        self, x=None, y=None, y_pred=None, sample_weight=None, training=True
    ):
        """Keras' own, of the losses of tokens if the loss takes them."""
        if not isinstance(y_pred, dict):
            return super().compute_loss(x, y, y_pred, sample_weight, training)
        if isinstance(self.loss, TokenLoss):
            losses = y_pred["loss"]
            return super().compute_loss(x, y, losses, sample_weight, training)
        loss = super().compute_loss(
            x, y, y_pred["logits"], sample_weight, training
        )
        if training and self.mixture is not None and self.mixture.supervised:
            besides = y_pred["loss"] + y_pred["log_probability"]
            share = distribution.share_of_weight(sample_weight, y)
            loss = loss + share * TokenCrossEntropy()(y, besides, sample_weight)
        return loss

    def compute_metrics(self, x, y, y_pred, sample_weight=None):
        """Keras' own, of the losses of tokens if all metrics take them."""
        if isinstance(y_pred, dict) and self._measures_losses:
            y_pred = -y_pred["log_probability"]
        elif isinstance(y_pred, dict):
            y_pred = y_pred["logits"]
        return super().compute_metrics(x, y, y_pred, sample_weight)

    def prepare_fit(self, x, y, validation_data, batch_size):
        """Checks the data of `fit`, and makes room to carry their states."""
        require_trainable(self)
        _require_targets(x, y)
        self.check_data(x, y, validation_data)
        _require_statistics(self.smoothing)
        warn_of_short_segments(self.backbone, x)
        self.carry_state(
            carried_rows(x, batch_size),
            carried_rows(validation_data, batch_size),
        )

    def evaluate(self, x=None, y=None, batch_size=None, *args, **kwargs):
        """Evaluates the model; takes the arguments of `keras.Model.evaluate`.

        Raises:
            ValueError: if the batches hold token ids outside the vocabulary,
                or the model is not causal and they are not `SentenceBatches`.
        """
        with self._carrying(x, batch_size or 32):
            return super().evaluate(x, y, batch_size, *args, **kwargs)

    def predict(self, x, batch_size=None, *args, **kwargs):
        """Predicts logits; takes the arguments of `keras.Model.predict`.

        Raises:
            ValueError: if the batches hold token ids outside the vocabulary,
                or the model is not causal and they are not `SentenceBatches`.
        """
        with self._carrying(x, batch_size or 32):
            return super().predict(x, batch_size, *args, **kwargs)

    def train_on_batch(self, x, y=None, *args, **kwargs):
        """Trains on one batch, as `keras.Model.train_on_batch` does."""
        _require_targets(x, y)
        self.carry_state(carried_rows(x))
        return super().train_on_batch(x, y, *args, **kwargs)

    def test_on_batch(self, x, y=None, *args, **kwargs):
        """Evaluates one batch, as `keras.Model.test_on_batch` does."""
        _require_targets(x, y)
        with self._carrying(x):
            return super().test_on_batch(x, y, *args, **kwargs)

    def predict_on_batch(self, x):
        """Predicts one batch, as `keras.Model.predict_on_batch` does."""
        with self._carrying(x):
            return super().predict_on_batch(x)

    # === Batches ===

    def sampled_score_batches(self, batches, samples, seed=0):
        """Scores batches by samples of the smoothed matrices.

        While a text is read, they are drawn as in training, and nothing is
        dropped out.

        Args:
            batches: `memlm_keras.data.Batches`, or a dataset of their form.
            samples: integer, how often the whole text is read.
            seed: integer from which the draws follow.

        Yields:
            For each sample a pair `(scores, sample_weight)` as of
            `score_batches`.

        Raises:
            ValueError: for a model that is not smoothed, and for what
                `score_batches` refuses.
        """
        return batch_reading.sampled_scores(self, batches, samples, seed)

    def outputs_batches(self, batches):
        """Outputs before the head, and the head's scores, in batches.

        Args:
            batches: `memlm_keras.data.Batches`, or a dataset of their form.

        Yields:
            Pairs `(outputs, scores)`, one a batch: a tensor `(batch, time,
            units)`, and float32 natural-log probabilities of the targets
            `(batch, time)`, of the head alone if the model has a mixture.

        Raises:
            ValueError: if the batches hold ids outside the vocabulary,
                or the model is not causal and they are not `SentenceBatches`.
        """
        function = compile_inference(self, self.backbone.outputs)
        for found, _ in batch_reading.read(self, function, batches):
            yield found


def _require_names(inputs):
    """Raises `ValueError` unless a dict has token ids, and what may be."""
    optional = {"positions", "reset", "targets", "sample_weight"}
    unknown = set(inputs) - optional - {"token_ids"}
    weighted = "sample_weight" in inputs and "targets" not in inputs
    if "token_ids" not in inputs or unknown or weighted:
        raise ValueError(
            "`inputs` must be token ids `(batch, time)`, or a dict with "
            '"token_ids" `(batch, time)` and, if wanted, "reset" `(batch,)`, '
            '"positions" `(batch, queries)`, "targets" of the shape of the '
            "positions or else of the token ids and, with these, "
            '"sample_weight" of this shape. Received a dict with keys: '
            f"{sorted(inputs)}"
        )


def _require_shapes(inputs):
    """Raises `ValueError` for targets or weights of other steps."""
    of = "positions" if "positions" in inputs else "token_ids"
    for name in ("targets", "sample_weight"):
        if name not in inputs:
            continue
        shape, wanted = tuple(inputs[name].shape), tuple(inputs[of].shape)
        same = len(shape) == len(wanted) and all(
            None in sizes or sizes[0] == sizes[1]
            for sizes in zip(shape, wanted)
        )
        if not same:
            raise ValueError(
                f'`inputs["{name}"]` must be of the shape of "{of}", {wanted}. '
                f"Received: shape {shape}"
            )


def _require_targets(x, y):
    """Raises `ValueError` for arrays without targets."""
    if y is None and isinstance(x, (np.ndarray, list, dict)):
        raise ValueError(
            "`y` must hold the next token of each token in `x`, such as "
            "`fit(tokens[:, :-1], tokens[:, 1:])`. Received: y=None"
        )


def _require_statistics(smoothing):
    """Raises `ValueError` for a smoothing without statistics."""
    if smoothing is not None and not smoothing.adapted:
        raise ValueError(
            "A smoothed model needs the statistics of its training text: call "
            "`model.smoothing.adapt(statistics)` before `fit`, with "
            "`memlm_keras.smoothing.StreamStatistics.count(tokens, "
            "vocabulary_size)`. Received: a model without"
        )

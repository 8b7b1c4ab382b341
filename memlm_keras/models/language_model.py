"""The language model: its layers, calls, and training with a carried state."""

import contextlib
import inspect

import keras
import numpy as np
from keras import ops
from keras import tree

from memlm_keras.arguments import config_of
from memlm_keras.arguments import require_positive_integer
from memlm_keras.arguments import require_token_ids
from memlm_keras.arguments import require_vocabulary
from memlm_keras.arguments import serialize
from memlm_keras.data.batches import concatenate_batches
from memlm_keras.heads import TiedProjection
from memlm_keras.models import layers
from memlm_keras.models import torch_checkpoint
from memlm_keras.models import variants
from memlm_keras.models.backbone import Backbone
from memlm_keras.models.backbone import compile_inference
from memlm_keras.models.layers import computes_in
from memlm_keras.models.sequence_model import CarriedStates
from memlm_keras.models.sequence_model import SequenceModel
from memlm_keras.models.sequence_model import carried_rows
from memlm_keras.models.sequence_model import warn_of_short_segments
from memlm_keras.models.streaming import StreamingModel
from memlm_keras.models.streaming import read_batches
from memlm_keras.training import distribution
from memlm_keras.training.compiling import Nats
from memlm_keras.training.compiling import Perplexity
from memlm_keras.training.compiling import TokenCrossEntropy
from memlm_keras.training.compiling import TokenLoss
from memlm_keras.training.compiling import weights_of_tokens

# Names and dtypes of the inputs whose dtype is not int32.
_DTYPES = {"reset": "bool", "sample_weight": "float32"}


@keras.saving.register_keras_serializable(package="memlm_keras")
class LanguageModel(StreamingModel, SequenceModel):
    """A recurrent language model with a memory, as a functional Keras model.

    Token ids are embedded and read by recurrent layers; a memory reads earlier
    outputs or words, and the head computes logits over the vocabulary.
    `lm(tokens)` starts from an empty context; `step` continues from an explicit
    state; `fit` and `evaluate` carry the state from batch to batch if the
    batches mark where a context begins, as `memlm_keras.data.Batches` do.

    Args:
        vocabulary_size: integer, number of tokens; `None` for the size of
            `vocabulary` or of `embedding`.
        embedding_dim: integer, size of the embedding vectors; `None` for the
            size of `embedding`.
        recurrent: list of Keras recurrent layers (`keras.layers.LSTM`, `GRU`,
            `SimpleRNN`, `RNN`) or cells, bottom first, all different, or empty
            with a memory. The model sets `return_sequences` and `return_state`.
        memory: a layer of `memlm_keras.memory`, or `None`.
        dropout: float in [0, 1), rate for the non-recurrent connections: the
            embeddings and the outputs of each recurrent layer (Zaremba et
            al., 2014). Or a dict of rates, zero by default: `"embeddings"`,
            `"between"` the recurrent layers, and `"outputs"` of the last
            recurrent layer. With `"variational": True`, masks are the same at
            all steps of a sequence (Gal and Ghahramani, 2016).
        tie_embeddings: bool, whether the projection uses the embedding matrix.
        initializer: Keras initializer of the embedding, the projection and its
            bias, unless these layers are given. `None` means U(-0.05, 0.05) for
            the embedding, or U(-0.5, 0.5) if a cell with an associative memory
            reads it; Glorot uniform for the projection; and a bias of zero.
        recurrent_above: list of recurrent layers or cells that read the
            outputs of the memory, bottom first.
        mixture: a `memlm_keras.mixtures.Mixture` that mixes earlier words into
            the prediction, such as `PointerSentinel`, or `None`. With a
            mixture, the logits are log-probabilities. A mixture without
            weights, such as `NeuralCache`, is not used in training.
        embedding: a `memlm_keras.embeddings.Embedding` or
            `memlm_keras.smoothing.SmoothedEmbedding`, with its own word
            dropout, smoothing and initializers; the model sets missing sizes.
            `None` for a plain embedding. A smoothed embedding needs
            `model.smoothing.adapt(statistics)` before training.
        head: a layer from outputs to logits, such as
            `memlm_keras.heads.OutputProjection(use_bias=False)` or
            `TiedProjection(use_bias=False)`; the model sets its size and the
            embedding that it shares. `None` for the head that fits `embedding`
            and `tie_embeddings`.
        vocabulary: `memlm_keras.data.Vocabulary` that is saved with the model,
            which then reads and writes strings; or `None`.
        name: string or `None`.
        dtype: dtype policy of dropout, and of the embedding and the projection
            unless these are given, such as `"mixed_bfloat16"`; by default the
            global policy. Recurrent layers and memory have their own policies.

    Call arguments:
        inputs: int32 tensor `(batch, time)` of token ids, read from an empty
            context. Or a dict with `"token_ids"` and any of these:

            * `"reset"`, `(batch,)` bool: the context is carried from the
              previous call, except in rows where `"reset"` is true. Training
              and inference carry separate contexts.
            * `"positions"`, `(batch, queries)` int32, the steps at which the
              model predicts. The shapes of logits, targets, losses and weights
              start with `(batch, queries)`. The model still reads all steps.
            * `"targets"`, `(batch, time)` int32, the next tokens: the result is
              a dict with the `"loss"` and the natural `"log_probability"` of
              each token, float32 `(batch, time)`, and the `"logits"`. In
              training, the loss includes the pointer loss of a
              `PointerSentinel`. The divergence of a `SmoothedEmbedding` is in
              `model.losses`.
            * `"sample_weight"`, `(batch, time)` float, the factors by which you
              multiply the losses. To save memory, the result has no `"logits"`.
              Losses whose weight is zero are undefined.
        training: optional bool.

    Returns:
        Logits `(batch, time, vocabulary_size)`; with targets, a dict.

    Raises:
        ValueError: if an argument or an input is not as described. Recurrent
            layers must read forward and be neither `stateful` nor below a
            `MemoryNetwork`. No layer or mixture may follow a memory that is not
            causal. The memory's number of parts must divide the units of the
            last recurrent layer. Tied embeddings must have the size of the
            head's inputs.

    Example:

    >>> lm = memlm_keras.LanguageModel(
    ...     vocabulary_size=100,
    ...     embedding_dim=16,
    ...     recurrent=[keras.layers.LSTM(30)],
    ...     memory=memlm_keras.memory.KeyValuePredict(window=5),
    ... )
    >>> tokens = np.random.randint(100, size=(2, 7))
    >>> keras.ops.shape(lm(tokens))
    (2, 7, 100)
    >>> state = lm.initial_state(batch_size=2)
    >>> for column in np.split(tokens, 7, axis=1):
    ...     logits, state = lm.step(column, state)
    >>> result = lm({"token_ids": tokens[:, :-1], "targets": tokens[:, 1:]})
    >>> keras.ops.shape(result["loss"])
    (2, 6)
    """

    preset_kind = "LanguageModel"

    def __init__(
        self,
        vocabulary_size=None,
        embedding_dim=None,
        recurrent=None,
        memory=None,
        dropout=0.0,
        tie_embeddings=False,
        initializer=None,
        recurrent_above=(),
        mixture=None,
        embedding=None,
        head=None,
        vocabulary=None,
        name=None,
        dtype=None,
    ):
        sizes = {
            "vocabulary_size": layers.size_of(vocabulary_size, vocabulary),
            "embedding_dim": embedding_dim,
        }
        for argument, attribute in zip(sizes, ("input_dim", "output_dim")):
            if sizes[argument] is None:
                sizes[argument] = getattr(embedding, attribute, None)
            require_positive_integer(argument, sizes[argument])
        vocabulary_size, embedding_dim = sizes.values()
        recurrent = layers.as_recurrent_layers(
            "recurrent", recurrent, at_least=1 if memory is None else 0
        )
        layers.require_memory(memory, vocabulary_size, recurrent)
        layers.require_mixture(mixture)
        recurrent_above = layers.as_recurrent_layers(
            "recurrent_above", recurrent_above, at_least=0
        )
        layers.require_different([*recurrent, *recurrent_above])
        layers.require_causal_end(
            memory, recurrent_above=recurrent_above, mixture=mixture
        )
        initializer = keras.initializers.get(initializer)
        policy = keras.dtype_policies.get(dtype or keras.config.dtype_policy())

        # === Layers ===
        shared = getattr(head, "embedding", None) is not None
        tie_embeddings = (
            tie_embeddings or shared or isinstance(head, TiedProjection)
        )
        embedding = layers.make_embedding(
            embedding,
            sizes,
            initializer,
            layers.embeddings_start(recurrent[:1]),
            policy,
        )
        head = layers.make_head(
            head, embedding, tie_embeddings, initializer, policy
        )
        count = len(recurrent) + len(recurrent_above)
        backbone = Backbone(
            embedding=embedding,
            recurrent=recurrent,
            memory=memory,
            recurrent_above=recurrent_above,
            head=head,
            dropouts=layers.make_dropouts(dropout, count, policy),
            mixture=mixture,
        )

        # === Functional model ===
        token_ids = keras.Input((None,), dtype="int32", name="token_ids")
        logits, _ = backbone.step(token_ids, training=None)
        super().__init__(
            backbone=backbone,
            token_ids=token_ids,
            logits=logits,
            vocabulary_size=vocabulary_size,
            vocabulary=vocabulary,
            name=name,
        )
        # Keras' `input_spec` of the functional model would reject a dict.
        self.input_spec = None
        self._carried = CarriedStates(self)

        # === Config ===
        self.embedding_dim = embedding_dim
        self.dropout = dropout
        self.tie_embeddings = tie_embeddings
        self.initializer = initializer
        self._policy = policy
        if vocabulary is not None:
            require_vocabulary(self, vocabulary)

    @property
    def embedding(self):
        """Layer from token ids to vectors."""
        return self.backbone.embedding

    @property
    def recurrent(self):
        """List of the recurrent layers below the memory."""
        return self.backbone.recurrent

    @property
    def recurrent_above(self):
        """List of the recurrent layers above the memory."""
        return self.backbone.recurrent_above

    @property
    def head(self):
        """Layer from the last outputs to logits."""
        return self.backbone.head

    @property
    def smoothing(self):
        """`VariationalSmoothing` of the embedding, or `None`."""
        return getattr(self.backbone.embedding, "smoothing", None)

    # === Calls ===

    def __call__(self, inputs, *args, **kwargs):
        size = self.vocabulary_size
        if isinstance(inputs, dict):
            _require_inputs(inputs)
            for name in ("token_ids", "targets", "positions"):
                if name in inputs and not is_tensor(inputs[name]):
                    if name == "positions":
                        size = ops.shape(inputs["token_ids"])[1]
                    require_token_ids(name, inputs[name], size)
        elif not is_tensor(inputs):
            inputs = require_token_ids("inputs", inputs, size)
        return super().__call__(inputs, *args, **kwargs)

    def call(self, inputs, training=None):
        if not isinstance(inputs, dict):
            inputs = {"token_ids": inputs}
        inputs = {
            name: ops.convert_to_tensor(value, dtype=_DTYPES.get(name, "int32"))
            for name, value in inputs.items()
        }
        if (reset := inputs.pop("reset", None)) is None:
            prediction, _ = self.backbone.forward(**inputs, training=training)
        else:
            prediction = self._carried.run(inputs, reset, training)
        if "targets" not in inputs:
            return prediction.logits
        result = prediction._asdict()
        if "sample_weight" in inputs:
            del result["logits"]
        return result

    # === Carried state ===

    def carry_state(self, batch_size=None, evaluation_batch_size=None):
        """Creates variables for the state that is carried between batches.

        `fit`, `evaluate` and similar methods, and calls that are not compiled,
        call this method for batches with a known number of rows.

        Args:
            batch_size: integer or `None`, rows in training.
            evaluation_batch_size: integer or `None`, rows in evaluation.
        """
        distribution.require_divisible(batch_size, self)
        distribution.require_divisible(evaluation_batch_size, self)
        rows = self._carried.rows
        if batch_size not in (None, rows["training"]):
            self._carried.make("training", batch_size)
            self.train_function = None
        if evaluation_batch_size not in (None, rows["evaluation"]):
            self._carried.make("evaluation", evaluation_batch_size)
            if keras.backend.backend() == "tensorflow":
                # Traced functions would keep using the old state's variables.
                self.test_function = None
                self.predict_function = None

    @property
    def non_trainable_variables(self):
        """Keras' variables and, in `evaluate`, those of the carried state."""
        variables = super().non_trainable_variables
        if (carried := self.__dict__.get("_carried")) is None:
            return variables
        return [*variables, *carried.evaluation_variables]

    @contextlib.contextmanager
    def carrying(self, batches, batch_size=None):
        before = self._carried.evaluating
        self.carry_state(None, carried_rows(batches, batch_size))
        self._carried.evaluating = True
        try:
            yield
        finally:
            self._carried.evaluating = before

    # === Training ===

    def default_loss(self):
        return TokenCrossEntropy()

    def default_metrics(self):
        return [Perplexity(), Nats()]

    def compiles_best(self):
        """Returns whether XLA should compile training by default. On TensorFlow
        without a GPU, a training step with XLA takes 0.7 to 0.9 times as long
        with 100 units, 1.5 with 600, and 1.2 with 100 in bfloat16. XLA cannot
        guarantee deterministic operations."""
        units = [
            shape[-1]
            for name, shape in self._state_shapes.items()
            if name.startswith("recurrent_")
        ]
        if (
            keras.backend.backend() != "tensorflow"
            or max(units, default=0) > 200
            or computes_in(self, "bfloat16")
        ):
            return False
        import tensorflow as tf

        # TensorFlow's public API sets op determinism, but cannot return it.
        from tensorflow.python.framework.config import is_op_determinism_enabled

        return not (
            tf.config.list_physical_devices("GPU")
            or is_op_determinism_enabled()
        )

    def train_step(self, *arguments):
        """Runs Keras' step with targets added to the inputs."""
        *state, data = arguments
        return super().train_step(*state, self._with_targets(data))

    def test_step(self, *arguments):
        """Runs Keras' step with targets added to the inputs."""
        *state, data = arguments
        return super().test_step(*state, self._with_targets(data))

    def _with_targets(self, data):
        """Adds targets to a batch's inputs. If loss and metrics need no logits,
        adds sample weights, too: the model then returns only token losses."""
        x, y, sample_weight = keras.utils.unpack_x_y_sample_weight(data)
        inputs = {**x} if isinstance(x, dict) else {"token_ids": x}
        inputs["targets"] = y = ops.convert_to_tensor(y)
        sample_weight = weights_of_tokens(sample_weight, y)
        if isinstance(self.loss, TokenLoss) and self._measures_losses:
            inputs["sample_weight"] = sample_weight
            if sample_weight is None:
                inputs["sample_weight"] = ops.ones_like(y, dtype="float32")
        inputs = tree.map_structure(ops.convert_to_tensor, inputs)
        return inputs, y, sample_weight

    def compute_loss(
        self, x=None, y=None, y_pred=None, sample_weight=None, training=True
    ):
        """Computes the loss from logits, or a `TokenLoss` from token losses."""
        sample_weight = weights_of_tokens(sample_weight, y)
        result = y_pred
        takes_losses = isinstance(self.loss, TokenLoss)
        if isinstance(result, dict):
            y_pred = result["loss" if takes_losses else "logits"]
        loss = super().compute_loss(x, y, y_pred, sample_weight, training)
        if takes_losses or not training or not isinstance(result, dict):
            return loss
        if self.mixture is not None and self.mixture.supervised:
            added = result["loss"] + result["log_probability"]
            share = distribution.share_of_weight(sample_weight, y)
            loss = loss + share * TokenCrossEntropy()(y, added, sample_weight)
        return loss

    def compute_metrics(self, x, y, y_pred, sample_weight=None):
        """Computes metrics from logits, or from token losses if possible."""
        sample_weight = weights_of_tokens(sample_weight, y)
        if isinstance(y_pred, dict) and self._measures_losses:
            y_pred = -y_pred["log_probability"]
        elif isinstance(y_pred, dict):
            y_pred = y_pred["logits"]
        return super().compute_metrics(x, y, y_pred, sample_weight)

    def prepare_fit(self, x, y, validation_data, batch_size):
        super().prepare_fit(x, y, validation_data, batch_size)
        if self.smoothing is not None and not self.smoothing.adapted:
            raise ValueError(
                "A smoothed model needs the statistics of its training text: "
                "call `model.smoothing.adapt(StreamStatistics.count(tokens, "
                "vocabulary_size))` before `fit`. Received: a model without "
                "statistics"
            )
        warn_of_short_segments(self.backbone, x)
        self.carry_state(
            carried_rows(x, batch_size),
            carried_rows(validation_data, batch_size),
        )

    def train_on_batch(self, x, y=None, *args, **kwargs):
        self.check_targets(x, y)
        self.carry_state(carried_rows(x))
        return super().train_on_batch(x, y, *args, **kwargs)

    def test_on_batch(self, x, y=None, *args, **kwargs):
        self.check_targets(x, y)
        with self.carrying(x):
            return super().test_on_batch(x, y, *args, **kwargs)

    def predict_on_batch(self, x):
        with self.carrying(x):
            return super().predict_on_batch(x)

    def check_targets(self, x, y):
        if y is None and isinstance(x, (np.ndarray, list, dict)):
            raise ValueError(
                "`y` must hold the next token of each token in `x`, such as "
                "`fit(tokens[:, :-1], tokens[:, 1:])`. Received: y=None"
            )
        self.check_data(y)

    # === Reading batches ===

    def sampled_score_batches(self, batches, samples, seed=0):
        """Scores batches with random samples of a smoothed model's matrices.

        The smoothing draws random embeddings for each batch as in training, but
        no units are dropped.

        Args:
            batches: as for `score_batches`.
            samples: integer, number of times that the whole text is read.
            seed: integer, seed of the samples.

        Yields:
            For each sample, `(scores, sample_weight)` as from `score_batches`.

        Raises:
            ValueError: like `score_batches`, and for a model without smoothing.
        """
        if self.smoothing is None:
            raise ValueError(
                "`sampled_score_batches` needs a smoothed model, `embedding="
                "memlm_keras.smoothing.SmoothedEmbedding(smoothing=...)`. "
                f"Received: a {type(self).__name__} without smoothing"
            )
        seed_state = self.smoothing.seed_generator.state
        kept = ops.convert_to_numpy(seed_state).copy()

        def score(token_ids, targets, state):
            return self.backbone.score(token_ids, targets, state, sampled=True)

        compiled = compile_inference(self, score)
        for sample in range(samples):
            seeds = (
                np.random.SeedSequence((seed, sample, place))
                for place in range(len(batches))
            )

            def seeded(token_ids, targets, state, seeds=seeds):
                # Compiled inference on JAX does not advance the seed.
                number = next(seeds).generate_state(2) >> 1
                seed_state.assign(number.astype(kept.dtype))
                return compiled(token_ids, targets, state)

            try:
                scores = concatenate_batches(
                    read_batches(self, seeded, batches)
                )
            finally:
                seed_state.assign(kept)
            yield scores

    def outputs_batches(self, batches):
        """Computes the hidden states that the head reads, and its scores.

        Args and Raises: see `score_batches`.

        Yields:
            A pair `(outputs, scores)` per batch: a tensor `(batch, time,
            units)`, and the head's natural-log probabilities of the targets,
            float32 `(batch, time)`, without a mixture.
        """
        compiled = compile_inference(self, self.backbone.outputs)
        for outputs_and_scores, _ in read_batches(self, compiled, batches):
            yield outputs_and_scores

    # === Copies ===

    def with_mixture(self, mixture):
        """Returns a copy of this model with its weights and another mixture.

        Args:
            mixture: a `memlm_keras.mixtures.Mixture`, such as `NeuralCache`,
                or `None`.

        Raises:
            ValueError: if `mixture` is neither a `Mixture` nor `None`.

        Example:

        >>> cache = memlm_keras.mixtures.NeuralCache(500, theta=0.3, weight=0.1)
        >>> cached = lm.with_mixture(cache)
        >>> cached.mixture.size
        500
        """
        return variants.with_mixture(self, mixture)

    def with_prediction(self, prediction):
        """Returns a copy whose smoothing predicts with its mean or its mode.

        Args:
            prediction: `"mean"` or `"mode"`, as in `VariationalSmoothing`.

        Raises:
            ValueError: if there is no smoothing or `prediction` is unknown.

        Example:

        >>> smoothed = memlm_keras.LanguageModel(
        ...     vocabulary_size=50,
        ...     embedding_dim=8,
        ...     recurrent=[keras.layers.LSTM(8)],
        ...     embedding=memlm_keras.smoothing.SmoothedEmbedding(
        ...         smoothing=memlm_keras.smoothing.VariationalSmoothing(
        ...             "linear_interpolation", rate=0.2
        ...         )
        ...     ),
        ... )
        >>> smoothed.with_prediction("mode").smoothing.prediction
        'mode'
        """
        return variants.with_prediction(self, prediction)

    def with_fixed_dropout(self, seed, into=None):
        """Returns a copy of this model with fixed dropout masks.

        Dropping the same units at every step has the effect of zero rows in the
        embedding, the recurrent layers' kernels and the output projection. The
        copy has zero rows instead of dropout, and no tied embeddings. Kept
        units are scaled by `1 / (1 - rate)`. Other noise in cells is replaced
        by its expectation, and a smoothing's random matrix by its mean or its
        mode. The mean of many copies is the Monte Carlo average of
        Gal and Ghahramani (2016); see
        `memlm_keras.evaluation.monte_carlo_perplexity`.

        Args:
            seed: integer; masks are the same on all backends.
            into: an earlier copy from this method, which gets the new weights;
                `None` for a new copy.

        Raises:
            ValueError: if dropout applies to stacked cells, or to inputs that
                no kernel multiplies, such as those of a memory or a mixture.

        Example:

        >>> copies = [lm.with_fixed_dropout(seed) for seed in range(3)]
        >>> average = memlm_keras.Ensemble(copies)
        """
        return variants.with_fixed_dropout(self, seed, into)

    def with_fixed_matrices(self):
        """Returns a copy without smoothing and with the same predictions, or
        this model if there is no smoothing.

        In each call, a smoothing computes the mean or the mode of its random
        matrices, which takes as long as the projection of one step. The copy of
        the model stores the mean or the mode of each matrix as a weight. If
        embedding and head share a matrix, but only the embedding is smoothed,
        the two have separate matrices in the copy.

        Example:

        >>> lm.with_fixed_matrices() is lm
        True
        """
        return variants.with_fixed_matrices(self)

    # === Serialization ===

    @classmethod
    def from_torch(cls, path, vocabulary, tokenizer=None):
        """Loads an LSTM language model that was saved by PyTorch.

        Loads whole models and state dicts, such as those of neural-complexity
        and colorlessgreenRNNs, on any backend. Code in the file is not run.

        Args:
            path: path of the checkpoint; PyTorch must be installed.
            vocabulary: path of the list of the model's words, one per line.
            tokenizer: `memlm_keras.data.Tokenizer`; `None` to split at white
                space.

        Raises:
            FileNotFoundError: if a file does not exist.
            ImportError: if PyTorch is not installed.
            ValueError: if a file is damaged, or contains another type of model.
        """
        return torch_checkpoint.load(cls, path, vocabulary, tokenizer)

    def get_config(self):
        names = [*inspect.signature(LanguageModel.__init__).parameters][1:]
        config = config_of(self, *names)
        # Only the embedding's config contains the parts that are shared with
        # the head, so the head cannot be built from its own config.
        head = config["head"]
        head.pop("build_config", None)
        for shared in ("embedding", "smoothing"):
            if shared in head["config"]:
                head["config"][shared] = None
        return {**config, "dtype": serialize(self._policy)}


def is_tensor(value):
    """Returns whether a value is a tensor, also a symbolic one."""
    return ops.is_tensor(value) or isinstance(value, keras.KerasTensor)


def _require_inputs(inputs):
    """Raises `ValueError` for inputs with unknown names or wrong shapes."""
    optional = {"positions", "reset", "targets", "sample_weight"}
    unknown = set(inputs) - optional - {"token_ids"}
    weighted = "sample_weight" in inputs and "targets" not in inputs
    if "token_ids" not in inputs or unknown or weighted:
        raise ValueError(
            "`inputs` must be token ids `(batch, time)`, or a dict with "
            '"token_ids" and optionally "reset", "positions", "targets" and, '
            'with "targets", "sample_weight". Received a dict with keys: '
            f"{sorted(inputs)}"
        )
    of = "positions" if "positions" in inputs else "token_ids"
    expected = tuple(np.shape(inputs[of]))
    for name in ("targets", "sample_weight"):
        shape = tuple(np.shape(inputs.get(name, inputs[of])))
        if len(shape) != len(expected) or any(
            None not in sizes and sizes[0] != sizes[1]
            for sizes in zip(shape, expected)
        ):
            raise ValueError(
                f'`inputs["{name}"]` must have the shape of "{of}", '
                f"{expected}. Received: shape {shape}"
            )

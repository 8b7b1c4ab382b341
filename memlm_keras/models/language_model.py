"""The language model: embed, recur, remember, predict."""

import keras

from memlm_keras.arguments import require_positive_integer
from memlm_keras.arguments import require_rate
from memlm_keras.models import checks
from memlm_keras.models import copies
from memlm_keras.models import layers
from memlm_keras.models.backbone import Backbone
from memlm_keras.models.from_preset import FromPreset
from memlm_keras.models.sequence_model import TrainedModel


@keras.saving.register_keras_serializable(package="memlm_keras")
class LanguageModel(FromPreset, TrainedModel):
    """A recurrent language model with a memory, as a functional Keras model.

    Token ids are embedded, run through a stack of recurrent layers, read back
    from a memory, and projected to logits over the vocabulary. `lm(tokens)`
    starts from an empty history; `step` continues from an explicit state; and
    `fit` and `evaluate` carry the state from batch to batch when the batches
    say where a history begins, as `memlm_keras.data.Batches` do.

    Args:
        vocabulary_size: integer, number of tokens, V.
        embedding_dim: integer, size of the embedding vectors.
        recurrent: list of Keras recurrent layers (`keras.layers.LSTM`, `GRU`,
            `SimpleRNN`, `RNN`) or cells, bottom first; it may be empty where
            there is a memory. The layers become the
            model's own: `return_sequences` and `return_state` are set on them.
        memory: a layer of `memlm_keras.memory`, or `None`.
        dropout: float in [0, 1), rate on the non-recurrent connections: the
            embeddings and the outputs of each recurrent layer (Zaremba et
            al., 2014).
        embedding_dropout: float in [0, 1), rate on the embeddings; `None` is
            that of `dropout`.
        output_dropout: float in [0, 1), rate on the outputs of the last
            recurrent layer; `None` is that of `dropout`.
        variational_dropout: whether the masks of these are the same at all
            steps of a sequence (Gal and Ghahramani, 2016). Those of recurrent
            connections are arguments of Keras' layers, `recurrent_dropout`.
        word_dropout: float in [0, 1), probability that a word is dropped, all
            its occurrences in a row alike (Gal and Ghahramani, 2016).
        tie_embeddings: whether the output projection shares its matrix with
            the embedding.
        initializer: Keras initializer of embedding, projection and its bias.
            `None`: uniform in +-0.05, Glorot uniform and zero.
        output_bias_initializer: Keras initializer of the projection's bias, if
            it is another.
        recurrent_above: list of recurrent layers or cells that read what the
            memory hands on, bottom first.
        output_bias: whether the output projection has a bias.
        mixture: a `memlm_keras.mixtures.Mixture` that mixes what was read
            into the prediction, such as `PointerSentinel`, or `None`. Then the
            logits are log-probabilities.
        smoothing: a `memlm_keras.smoothing.VariationalSmoothing` of the
            embedding, and of the output projection if it says so, or `None`.
            It wants `model.smoothing.adapt(statistics)` before training.
        name: string or `None`.
        dtype: dtype policy of embedding, dropout and projection, such as
            `"mixed_bfloat16"`; by default the global policy. Recurrent layers
            and memory have policies of their own.

    Call arguments:
        inputs: int32 tensor `(batch, time)` of token ids, read from an empty
            history. Or a dict `{"token_ids": (batch, time) int32, "reset":
            (batch,) bool}`: then the history is the one carried from the call
            before, except in the rows marked in `reset`. Training and
            inference carry histories of their own.
        training: optional bool.

    Returns:
        Logits `(batch, time, vocabulary_size)`.

    Raises:
        ValueError: for sizes that are not positive integers, a dropout outside
            [0, 1), a `memory` or `smoothing` that is none or of another
            vocabulary, no recurrent layer, a layer that is not recurrent, is
            bidirectional, runs backwards or is `stateful`, layers above a
            memory that reads ahead or a mixture behind it, units that the
            memory cannot divide, and tied embeddings of another size than the
            memory's outputs.

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
    """

    preset_kind = "LanguageModel"

    def __init__(
        self,
        vocabulary_size,
        embedding_dim,
        recurrent,
        memory=None,
        dropout=0.0,
        tie_embeddings=False,
        initializer=None,
        recurrent_above=(),
        output_bias=True,
        mixture=None,
        embedding_dropout=None,
        output_dropout=None,
        variational_dropout=False,
        word_dropout=0.0,
        smoothing=None,
        output_bias_initializer=None,
        name=None,
        dtype=None,
    ):
        require_positive_integer("vocabulary_size", vocabulary_size)
        require_positive_integer("embedding_dim", embedding_dim)
        require_rate("dropout", dropout)
        for name_of_rate, rate in (
            ("embedding_dropout", embedding_dropout),
            ("output_dropout", output_dropout),
        ):
            if rate is not None:
                require_rate(name_of_rate, rate)
        recurrent = checks.recurrent_layers(
            "recurrent", recurrent, at_least=1 if memory is None else 0
        )
        checks.memory_of_words(memory, vocabulary_size)
        checks.mixture(mixture)
        checks.smoothing_of_words(smoothing, vocabulary_size)
        recurrent_above = checks.recurrent_layers(
            "recurrent_above", recurrent_above, at_least=0
        )
        checks.nothing_carries_what_was_read_ahead(
            memory, recurrent_above=recurrent_above, mixture=mixture
        )
        initializer = keras.initializers.get(initializer)
        output_bias_initializer = keras.initializers.get(
            output_bias_initializer
        )
        policy = keras.dtype_policies.get(dtype or keras.config.dtype_policy())

        # === Layers ===
        initializers = layers.Initializers(initializer)
        embedding = layers.embedding(
            *(vocabulary_size, embedding_dim, word_dropout),
            *(smoothing, initializers, policy),
        )
        head = layers.output_projection(
            *(embedding, tie_embeddings, output_bias),
            *(output_bias_initializer, smoothing, initializers, policy),
        )
        rates = [dropout] * (len(recurrent) + len(recurrent_above) + 1)
        if embedding_dropout is not None:
            rates[0] = embedding_dropout
        if output_dropout is not None:
            rates[-1] = output_dropout
        dropouts = layers.dropouts(rates, variational_dropout, policy)
        backbone = Backbone(
            *(embedding, recurrent, memory, recurrent_above, head, dropouts),
            *(mixture, smoothing),
        )

        # === Functional model ===
        token_ids = keras.Input((None,), dtype="int32", name="token_ids")
        logits, _ = backbone.forward(token_ids, training=None)
        super().__init__(inputs=token_ids, outputs=logits, name=name)

        # === Config ===
        self.vocabulary_size = vocabulary_size
        self.embedding_dim = embedding_dim
        self.dropout = dropout
        self.embedding_dropout = embedding_dropout
        self.output_dropout = output_dropout
        self.variational_dropout = variational_dropout
        self.word_dropout = word_dropout
        self.tie_embeddings = tie_embeddings
        self.initializer = initializer
        self.output_bias_initializer = output_bias_initializer
        self.output_bias = output_bias
        self.embedding = embedding
        self.recurrent = recurrent
        self.memory = memory
        self.recurrent_above = recurrent_above
        self.head = head
        self.mixture = mixture
        self.smoothing = smoothing
        self.make_ready(backbone)

    def with_mixture(self, mixture):
        """Makes a copy of this model, trained as it is, with a mixture.

        Args:
            mixture: a `memlm_keras.mixtures.Mixture`, such as `NeuralCache`;
                or `None`, for a copy without.

        Returns:
            `LanguageModel`.

        Raises:
            ValueError: if it is none.

        Example:

        >>> cache = memlm_keras.mixtures.NeuralCache(500, theta=0.3, weight=0.1)
        >>> cached = lm.with_mixture(cache)
        >>> cached.mixture.size
        500
        """
        checks.mixture(mixture)
        copy = type(self).from_config({**self.get_config(), "mixture": mixture})
        self._hand_weights_to(copy, but=self.mixture)
        return copy

    def with_prediction(self, prediction):
        """Makes a copy of this smoothed model that predicts otherwise.

        Args:
            prediction: `"mean"` or `"mode"`, as of `VariationalSmoothing`.

        Returns:
            `LanguageModel`.

        Raises:
            ValueError: for a model that is not smoothed, and another
                prediction.

        Example:

        >>> smoothed = memlm_keras.LanguageModel(
        ...     vocabulary_size=50,
        ...     embedding_dim=8,
        ...     recurrent=[keras.layers.LSTM(8)],
        ...     smoothing=memlm_keras.smoothing.VariationalSmoothing(
        ...         "linear_interpolation", rate=0.2
        ...     ),
        ... )
        >>> smoothed.with_prediction("mode").smoothing.prediction
        'mode'
        """
        if self.smoothing is None:
            raise ValueError(
                "`with_prediction` needs a model that is smoothed. Received: a "
                f"model with smoothing=None and prediction={prediction!r}"
            )
        config = {**self.smoothing.get_config(), "prediction": prediction}
        smoothing = type(self.smoothing)(**config)
        copy = type(self).from_config(
            {**self.get_config(), "smoothing": smoothing}
        )
        self._hand_weights_to(copy)
        return copy

    def _hand_weights_to(self, copy, but=None):
        layers = {layer.name: layer for layer in copy.layers}
        for layer in self.layers:
            if layer is not but:
                layers[layer.name].set_weights(layer.get_weights())

    def with_fixed_dropout(self, seed, into=None):
        """Makes a copy of this model with dropout masks drawn once for all.

        A network that loses the same units at every step is one whose weights
        have lost the rows of these units: a word's row of the embedding, rows
        of the kernels of recurrent layers for their inputs and for their
        recurrent connections, and of that of the output projection. So the
        copy is an ordinary model without dropout, untied if this one is tied.
        The mean of many is the Monte Carlo average of Gal and Ghahramani
        (2016), as `memlm_keras.evaluation.monte_carlo_perplexity` takes it.
        Of smoothed matrices, it is those that the model predicts by.

        All rates that this model is trained with are drawn at, kept units
        scaled by `1 / (1 - rate)`; other noise of cells keeps its expectation.

        Args:
            seed: integer. Masks of one seed are the same on all backends.
            into: a copy that this method made before, to be given new weights
                in place of a new copy; or `None`.

        Returns:
            `LanguageModel`.

        Raises:
            ValueError: if a rate on what a memory or a mixture reads is not
                zero, since they have no rows for it to lose.

        Example:

        >>> copies = [lm.with_fixed_dropout(seed) for seed in range(3)]
        >>> average = memlm_keras.Ensemble(copies)
        """
        return copies.with_fixed_dropout(self, seed, into)

    def with_fixed_matrices(self):
        """Makes a copy of this model that predicts alike, without smoothing.

        What a smoothed model predicts by, the mean or the mode of its
        matrices, is computed in each call: that takes as long as the
        projection of one step. Here it is computed once and for all, and
        serving costs what it costs without smoothing; `serving.export` does so
        by itself. An embedding that was tied is no longer, if it was smoothed
        as an input only: then its mean is another matrix.

        Returns:
            `LanguageModel`; this model, if it is not smoothed.

        Example:

        >>> lm.with_fixed_matrices() is lm
        True
        """
        return copies.with_fixed_matrices(self)

    # === Serialization ===

    def get_config(self):
        policy = self.embedding.dtype_policy
        return {
            "name": self.name,
            "vocabulary_size": self.vocabulary_size,
            "embedding_dim": self.embedding_dim,
            "recurrent": [
                keras.saving.serialize_keras_object(layer)
                for layer in self.recurrent
            ],
            "memory": keras.saving.serialize_keras_object(self.memory),
            "dropout": self.dropout,
            "embedding_dropout": self.embedding_dropout,
            "output_dropout": self.output_dropout,
            "variational_dropout": self.variational_dropout,
            "word_dropout": self.word_dropout,
            "tie_embeddings": self.tie_embeddings,
            "initializer": keras.initializers.serialize(self.initializer),
            "output_bias_initializer": keras.initializers.serialize(
                self.output_bias_initializer
            ),
            "recurrent_above": [
                keras.saving.serialize_keras_object(layer)
                for layer in self.recurrent_above
            ],
            "output_bias": self.output_bias,
            "mixture": keras.saving.serialize_keras_object(self.mixture),
            "smoothing": keras.saving.serialize_keras_object(self.smoothing),
            "dtype": keras.dtype_policies.serialize(policy),
        }

    @classmethod
    def from_config(cls, config, custom_objects=None):
        config = dict(config)

        def revived(value):
            if not isinstance(value, dict):
                return value
            return keras.saving.deserialize_keras_object(
                value, custom_objects=custom_objects
            )

        for key in ("recurrent", "recurrent_above"):
            config[key] = [revived(layer) for layer in config.get(key, ())]
        for key in (
            *("memory", "initializer", "output_bias_initializer", "mixture"),
            *("smoothing", "dtype"),
        ):
            config[key] = revived(config.get(key))
        return cls(**config)

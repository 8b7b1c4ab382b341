"""The language model: embed, recur, remember, predict."""

import keras

from memlm_keras.arguments import require_positive_integer
from memlm_keras.arguments import require_vocabulary
from memlm_keras.heads import TiedProjection
from memlm_keras.models import copies
from memlm_keras.models import layers
from memlm_keras.models import torch_checkpoint
from memlm_keras.models.backbone import Backbone
from memlm_keras.models.carrying_model import CarryingModel
from memlm_keras.serialization import serialize


@keras.saving.register_keras_serializable(package="memlm_keras")
class LanguageModel(CarryingModel):
    """A recurrent language model with a memory, as a functional Keras model.

    Token ids are embedded, run through a stack of recurrent layers, read back
    from a memory, and projected to logits over the vocabulary. `lm(tokens)`
    starts from an empty context; `step` continues from an explicit state; and
    `fit` and `evaluate` carry the state from batch to batch when the batches
    say where a context begins, as `memlm_keras.data.Batches` do.

    Args:
        vocabulary_size: integer, number of tokens, V; `None` is that of
            `vocabulary`, or of `embedding`.
        embedding_dim: integer, size of the embedding vectors; `None` is that
            of `embedding`.
        recurrent: list of Keras recurrent layers (`keras.layers.LSTM`, `GRU`,
            `SimpleRNN`, `RNN`) or cells, bottom first; it may be empty where
            there is a memory. The layers become the
            model's own: `return_sequences` and `return_state` are set on them.
        memory: a layer of `memlm_keras.memory`, or `None`.
        dropout: float in [0, 1), rate on the non-recurrent connections: the
            embeddings and the outputs of each recurrent layer (Zaremba et
            al., 2014). Or a dict of rates, zero where there is none:
            `"embeddings"`, `"outputs"` of the last recurrent layer, and
            `"between"` the recurrent layers; with `"variational": True`, masks
            are the same at all steps of a sequence (Gal and Ghahramani, 2016).
            Rates of words are the embedding's, and of recurrent connections
            those of Keras' layers, `recurrent_dropout`.
        tie_embeddings: whether the output projection shares its matrix with
            the embedding.
        initializer: Keras initializer of embedding, projection and its bias,
            where these are not given. `None`: uniform in +-0.05, or in +-0.5
            where a cell with an associative memory reads, Glorot uniform and
            zero.
        recurrent_above: list of recurrent layers or cells that read what the
            memory hands on, bottom first.
        mixture: a `memlm_keras.mixtures.Mixture` that mixes what was read into
            the prediction, such as `PointerSentinel`, or `None`. Then the
            logits are log-probabilities. One without weights, as `NeuralCache`,
            takes no part in training.
        embedding: a `memlm_keras.embeddings.Embedding`, or a
            `memlm_keras.smoothing.SmoothedEmbedding`, with dropout of words,
            smoothing and initializers of its own; it may leave its sizes to the
            model. `None` for a plain one. A smoothing wants
            `model.smoothing.adapt(statistics)` before training.
        head: a layer from outputs to logits, such as
            `memlm_keras.heads.OutputProjection(use_bias=False)` or
            `TiedProjection(use_bias=False)`, which may leave its size and the
            embedding that it shares to the model. `None` for the one that goes
            with embedding and `tie_embeddings`.
        vocabulary: `memlm_keras.data.Vocabulary` that is saved with the model,
            which then reads and writes strings; or `None`.
        name: string or `None`.
        dtype: dtype policy of dropout, and of embedding and projection where
            these are not given, such as `"mixed_bfloat16"`; by default the
            global policy. Recurrent layers and memory have policies of their
            own.

    Call arguments:
        inputs: int32 tensor `(batch, time)` of token ids, read from an empty
            context. Or a dict with `"token_ids"`, and

            * `"reset"`, `(batch,)` bool: then the context is the one carried
              from the call before, except in the rows marked here. Training
              and inference carry contexts of their own.
            * `"positions"`, `(batch, queries)` int32, the only steps that
              predict: then logits, targets, losses and weights are of these,
              `queries` in place of `time`. All steps are read.
            * `"targets"`, `(batch, time)` int32, the next tokens: then the
              result is a dict of the `"loss"` of each token and its natural
              `"log_probability"`, float32 `(batch, time)`, and the `"logits"`.
              While training, the loss is of all that is learned of a target,
              and what a smoothing adds is in `model.losses`.
            * `"sample_weight"`, `(batch, time)` float, what the losses will be
              multiplied by: then there are no `"logits"` in the result, and
              those of a large vocabulary are never held at once. Where it is
              zero, the loss may be any number.
        training: optional bool.

    Returns:
        Logits `(batch, time, vocabulary_size)`; with targets, a dict.

    Raises:
        ValueError: for sizes that are not positive integers, a dropout outside
            [0, 1), a `memory`, `embedding`, `head` or `vocabulary` that is none
            or of another size, no recurrent layer, a layer that is not
            recurrent, is bidirectional, runs backwards or is `stateful`, layers
            or a mixture behind a memory that is not causal, units that the
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
    >>> found = lm({"token_ids": tokens[:, :-1], "targets": tokens[:, 1:]})
    >>> keras.ops.shape(found["loss"])
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
        layers.require_memory(memory, vocabulary_size)
        layers.require_mixture(mixture)
        recurrent_above = layers.as_recurrent_layers(
            "recurrent_above", recurrent_above, at_least=0
        )
        layers.require_causal_end(
            memory, recurrent_above=recurrent_above, mixture=mixture
        )
        initializer = keras.initializers.get(initializer)
        policy = keras.dtype_policies.get(dtype or keras.config.dtype_policy())

        # === Layers ===
        initializers = layers.Initializers(initializer)
        tie_embeddings = tie_embeddings or isinstance(head, TiedProjection)
        embedding = layers.make_embedding(
            embedding,
            sizes,
            initializers,
            layers.embeddings_start(recurrent[:1]),
            policy,
        )
        head = layers.make_head(
            head, embedding, tie_embeddings, initializers, policy
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
        """The layer from token ids to vectors."""
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
        """The layer from the last outputs to logits."""
        return self.backbone.head

    # === Copies ===

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
        return copies.with_mixture(self, mixture)

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
        ...     embedding=memlm_keras.smoothing.SmoothedEmbedding(
        ...         smoothing=memlm_keras.smoothing.VariationalSmoothing(
        ...             "linear_interpolation", rate=0.2
        ...         )
        ...     ),
        ... )
        >>> smoothed.with_prediction("mode").smoothing.prediction
        'mode'
        """
        return copies.with_prediction(self, prediction)

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

    @classmethod
    def from_torch(cls, path, vocabulary, tokenizer=None):
        """Reads an LSTM language model that PyTorch saved.

        Such as those of neural-complexity and colorlessgreenRNNs: whole models
        or state dicts. No code of the file's is run.

        Args:
            path: path of the checkpoint, which takes PyTorch to read.
            vocabulary: path of the list of its words, one a line.
            tokenizer: `memlm_keras.data.Tokenizer`; `None` splits at white
                space.

        Returns:
            `LanguageModel` with a vocabulary, on any backend.

        Raises:
            FileNotFoundError: there is no such file.
            ImportError: PyTorch is not installed.
            ValueError: a file is damaged, or of another model.
        """
        return torch_checkpoint.load(cls, path, vocabulary, tokenizer)

    def get_config(self):
        head = serialize(self.head)
        # What the head shares with the embedding is the embedding's to say, so
        # that it cannot be built by itself.
        head.pop("build_config", None)
        for shared in ("embedding", "smoothing"):
            if shared in head["config"]:
                head["config"][shared] = None
        return {
            "name": self.name,
            "vocabulary_size": self.vocabulary_size,
            "embedding_dim": self.embedding_dim,
            "recurrent": serialize(self.recurrent),
            "memory": serialize(self.memory),
            "dropout": self.dropout,
            "tie_embeddings": self.tie_embeddings,
            "initializer": keras.initializers.serialize(self.initializer),
            "recurrent_above": serialize(self.recurrent_above),
            "mixture": serialize(self.mixture),
            "embedding": serialize(self.embedding),
            "head": head,
            "vocabulary": serialize(self.vocabulary),
            "dtype": keras.dtype_policies.serialize(self._policy),
        }

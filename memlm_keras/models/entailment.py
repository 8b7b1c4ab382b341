"""Does a hypothesis follow from a premise? Two sentences joined by a memory."""

import types

import keras
from keras import ops
from keras import tree

from memlm_keras.arguments import distinct
from memlm_keras.arguments import require_positive_integer
from memlm_keras.arguments import require_rate
from memlm_keras.embeddings import Embedding
from memlm_keras.models import checks
from memlm_keras.models.from_preset import FromPreset
from memlm_keras.models.trained_model import FollowEpoch
from memlm_keras.models.varying_time import known_to_vary

CONDITIONINGS = ("memory", "source")


@keras.saving.register_keras_serializable(package="memlm_keras")
class EntailmentClassifier(FromPreset, keras.Model):
    """Classifies pairs of sentences (Weissenborn, 2016, Section 5.1).

    Both sentences are embedded and read by a recurrent layer, the hypothesis
    with what the premise left behind. A second layer, `top`, summarizes what
    the first one said of each, `p` and `h`, and `[p; h; |p - h|]` goes through
    layers of rectifiers to the classes. Without `top`, the last output of the
    hypothesis goes to the classes, or what a `memory` makes of it and of the
    premise's outputs, as in Rocktaeschel et al. (2016).

    Args:
        vocabulary_size: integer, number of tokens.
        embedding_dim: integer, size of the embedding vectors.
        recurrent: Keras recurrent layer, or cell, that reads the premise.
        recurrent_hypothesis: layer or cell that reads the hypothesis; `None`
            for the same one, which so shares its weights.
        conditioning: `"memory"`, the hypothesis is read from the premise's
            final memory on (conditional encoding): the cell state of an LSTM,
            the associative memory, or all there is of a GRU, and no last
            output besides; `"source"`, the final memory of the premise is the
            source memory of a `memlm_keras.cells.DualAssociativeGRUCell` or
            `DualAssociativeMemoryCell`; or `None`, each is read by itself.
        memory: a `memlm_keras.memory.WordByWordAttention`, or `None`.
        top: recurrent layer or cell, or `None`; not with a `memory`.
        classifier_units: sequence of integers, sizes of the rectifier layers.
        projection: integer, units that embeddings are projected to, with a
            bias; or `None` for no projection.
        num_classes: integer.
        dropout: float in [0, 1), rate on embeddings and outputs of layers.
        initializer: Keras initializer of all matrices but those of recurrent
            layers. `None`: uniform in +-0.05 for the embedding, else Glorot
            uniform.
        name: string or `None`.
        dtype: dtype policy of all but recurrent layers; by default the global
            policy.

    Call arguments:
        inputs: dict of int32 tensors, as `memlm_keras.data.PairBatches` have:
            `"premise"` and `"hypothesis"` `(batch, time)`, `"premise_length"`
            and `"hypothesis_length"` `(batch,)`, at least 1. What lies behind
            a length changes nothing.
        training: optional bool.

    Returns:
        Logits `(batch, num_classes)`.

    Raises:
        ValueError: for sizes that are not positive integers, a dropout outside
            [0, 1), layers that are not recurrent, run backwards or are
            `stateful`, another `conditioning`, `"source"` for a layer that
            reads no source, or both `memory` and `top`.

    Example:

    >>> model = memlm_keras.EntailmentClassifier(
    ...     vocabulary_size=100,
    ...     embedding_dim=8,
    ...     recurrent=memlm_keras.cells.DualAssociativeGRUCell(6),
    ...     conditioning="source",
    ...     top=keras.layers.GRU(6),
    ...     classifier_units=(6, 6),
    ... )
    >>> batches = memlm_keras.data.PairBatches([[5, 7]], [[7, 2, 9]], [0], 1)
    >>> keras.ops.shape(model(batches[0][0]))
    (1, 3)
    """

    preset_kind = "EntailmentClassifier"

    def __init__(
        self,
        vocabulary_size,
        embedding_dim,
        recurrent,
        recurrent_hypothesis=None,
        conditioning="memory",
        memory=None,
        top=None,
        classifier_units=(),
        projection=None,
        num_classes=3,
        dropout=0.0,
        initializer=None,
        name=None,
        dtype=None,
    ):
        require_positive_integer("vocabulary_size", vocabulary_size)
        require_positive_integer("embedding_dim", embedding_dim)
        require_positive_integer("num_classes", num_classes)
        require_rate("dropout", dropout)
        if conditioning not in (None, *CONDITIONINGS):
            raise ValueError(
                f"`conditioning` must be one of {CONDITIONINGS} or None. "
                f"Received: conditioning={conditioning!r}"
            )
        recurrent = _recurrent("recurrent", recurrent)
        reader = _recurrent("recurrent_hypothesis", recurrent_hypothesis)
        top = _recurrent("top", top)
        second = reader or recurrent
        if conditioning == "source":
            _require_source(second)
        if None not in (memory, top):
            raise ValueError(
                "`memory` contradicts `top`: the last word is one's or the "
                f"other's. Received: memory={memory!r} and top={top!r}"
            )
        initializer = keras.initializers.get(initializer)
        policy = keras.dtype_policies.get(dtype or keras.config.dtype_policy())

        # === Layers ===
        def initialized(default, index):
            if initializer is None:
                return default
            return distinct(initializer, index)

        embedding = Embedding(
            vocabulary_size,
            embedding_dim,
            embeddings_initializer=initialized("uniform", 0),
            dtype=policy,
            name="embedding",
        )

        def dense(units, index, name, activation=None):
            require_positive_integer(name, units)
            return keras.layers.Dense(
                units,
                activation,
                kernel_initializer=initialized("glorot_uniform", index),
                dtype=policy,
                name=name,
            )

        classifier_units = tuple(classifier_units)
        project = None
        if projection is not None:
            project = dense(projection, 1, "projection")
        hidden = [
            dense(units, 2 + index, f"classifier_units_{index}", "relu")
            for index, units in enumerate(classifier_units)
        ]
        head = dense(num_classes, 2 + len(hidden), "head")
        mask = LengthMask(name="length_mask")

        def dropped(tensor, name):
            layer = keras.layers.Dropout(dropout, dtype=policy, name=name)
            return layer(tensor)

        # === Functional model ===
        inputs = {
            name: keras.Input(shape, dtype="int32", name=name)
            for name, shape in (
                ("premise", (None,)),
                ("premise_length", ()),
                ("hypothesis", (None,)),
                ("hypothesis_length", ()),
            )
        }

        def read(name, layer, initial_state=None):
            vectors = embedding(inputs[name])
            if project is not None:
                vectors = project(vectors)
            mask_of = mask(inputs[name], inputs[f"{name}_length"])
            outputs, *states = layer(
                dropped(vectors, f"dropout_{name}"),
                mask=mask_of,
                initial_state=initial_state,
            )
            return outputs, states, mask_of

        outputs, states, premise_mask = read("premise", recurrent)
        start = _start(conditioning, states, _count_states(second))
        follow, follow_states, hypothesis_mask = read(
            "hypothesis", second, start
        )
        weights = None
        if memory is not None:
            features, weights = memory(
                *(follow, follow_states[0], outputs),
                *(hypothesis_mask, premise_mask),
            )
        elif top is None:
            features = follow_states[0]
        else:
            _, p, *_ = top(dropped(outputs, "dropout_p"), mask=premise_mask)
            _, h, *_ = top(dropped(follow, "dropout_h"), mask=hypothesis_mask)
            features = ops.concatenate([p, h, ops.absolute(p - h)], axis=-1)
        for index, layer in enumerate(hidden):
            features = dropped(layer(features), f"dropout_{index}")
        super().__init__(inputs=inputs, outputs=head(features), name=name)

        # === Config ===
        self.vocabulary_size = vocabulary_size
        self.embedding_dim = embedding_dim
        self.recurrent = recurrent
        self.recurrent_hypothesis = reader
        self.conditioning = conditioning
        self.memory = memory
        self.top = top
        self.classifier_units = classifier_units
        self.projection = projection
        self.num_classes = num_classes
        self.dropout = dropout
        self.initializer = initializer
        self.embedding = embedding
        self.head = head
        if weights is not None:
            # A namespace hides a model of the same layers from Keras' tracking.
            self._untracked = types.SimpleNamespace(
                attend=keras.Model(inputs, weights)
            )

    def attention(self, inputs):
        """Where the model attends in the premise, at each word.

        Args:
            inputs: as for a call.

        Returns:
            float32 array `(batch, time of hypothesis, time of premise)`.

        Raises:
            ValueError: if the model has no memory that attends.
        """
        if self.memory is None:
            raise ValueError(
                "Attention needs a memory that attends, such as "
                "`memlm_keras.memory.WordByWordAttention`. Received: a model "
                "with memory=None"
            )
        weights = self._untracked.attend(inputs)
        return ops.convert_to_numpy(ops.cast(weights, "float32"))

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
            optimizer: Keras optimizer.
            loss: `"auto"` is the cross-entropy in nats, averaged over pairs.
            weighted_metrics: `"auto"` is the accuracy, over all pairs.
            **kwargs: other arguments of `keras.Model.compile`.
        """
        if loss == "auto":
            loss = keras.losses.SparseCategoricalCrossentropy(
                from_logits=True, reduction="mean_with_sample_weight"
            )
        if weighted_metrics == "auto":
            weighted_metrics = ["accuracy"]
        super().compile(
            optimizer=optimizer,
            loss=loss,
            weighted_metrics=weighted_metrics,
            **kwargs,
        )

    def fit(self, x=None, *args, validation_data=None, callbacks=(), **kwargs):
        """Trains the model; takes the arguments of `keras.Model.fit`."""
        callbacks = tree.flatten(callbacks or [])
        if hasattr(x, "start_at"):
            callbacks = [FollowEpoch(x), *callbacks]
            kwargs["shuffle"] = False
        return super().fit(
            known_to_vary(x),
            *args,
            validation_data=known_to_vary(validation_data),
            callbacks=callbacks,
            **kwargs,
        )

    def evaluate(self, x=None, *args, **kwargs):
        """Evaluates; takes the arguments of `keras.Model.evaluate`."""
        return super().evaluate(known_to_vary(x), *args, **kwargs)

    def predict(self, x, *args, **kwargs):
        """Predicts logits; takes the arguments of `keras.Model.predict`."""
        return super().predict(known_to_vary(x), *args, **kwargs)

    # === Serialization ===

    def get_config(self):
        def serialized(layer):
            return keras.saving.serialize_keras_object(layer)

        return {
            "name": self.name,
            "vocabulary_size": self.vocabulary_size,
            "embedding_dim": self.embedding_dim,
            "recurrent": serialized(self.recurrent),
            "recurrent_hypothesis": serialized(self.recurrent_hypothesis),
            "conditioning": self.conditioning,
            "memory": serialized(self.memory),
            "top": serialized(self.top),
            "classifier_units": list(self.classifier_units),
            "projection": self.projection,
            "num_classes": self.num_classes,
            "dropout": self.dropout,
            "initializer": keras.initializers.serialize(self.initializer),
            "dtype": keras.dtype_policies.serialize(
                self.embedding.dtype_policy
            ),
        }

    @classmethod
    def from_config(cls, config, custom_objects=None):
        config = dict(config)
        for key in (
            *("recurrent", "recurrent_hypothesis", "memory", "top"),
            *("initializer", "dtype"),
        ):
            if isinstance(config.get(key), dict):
                config[key] = keras.saving.deserialize_keras_object(
                    config[key], custom_objects=custom_objects
                )
        return cls(**config)


@keras.saving.register_keras_serializable(package="memlm_keras")
class LengthMask(keras.layers.Layer):
    """Which steps of padded rows count: the first `lengths` of each.

    Call arguments:
        tokens: tensor `(batch, time)`.
        lengths: int32 tensor `(batch,)`.

    Returns:
        Boolean tensor `(batch, time)`.
    """

    def call(self, tokens, lengths):
        steps = ops.arange(ops.shape(tokens)[1], dtype="int32")
        return steps[None] < ops.cast(lengths, "int32")[:, None]

    def compute_output_spec(self, tokens, lengths):
        return keras.KerasTensor(tokens.shape, dtype="bool")


def _recurrent(name, layer):
    if layer is None and name != "recurrent":
        return None
    (layer,) = checks.recurrent_layers(name, [layer], at_least=1)
    return layer


def _require_source(layer):
    if getattr(getattr(layer, "cell", None), "source_key", None) is None:
        raise ValueError(
            'conditioning="source" needs a layer that reads a source memory, '
            "such as `memlm_keras.cells.DualAssociativeGRUCell`. Received: "
            f"{layer!r}"
        )


def _count_states(layer):
    return len(tree.flatten(layer.get_initial_state(1)))


def _start(conditioning, states, count):
    """The states that the hypothesis is read from, or `None` for none.

    The first state is an output and the second what is remembered, where they
    are two: so do LSTMs and cells with an associative memory have it.
    """
    if conditioning is None:
        return None
    if len(states) == 1:
        return states
    empty = [ops.zeros_like(state) for state in states]
    if conditioning == "memory":
        return [empty[0], states[1], *empty[2:count]]
    return [*empty[: count - 1], states[1]]

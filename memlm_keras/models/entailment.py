"""A classifier of sentence pairs, such as a premise and a hypothesis."""

import keras
import numpy as np
from keras import ops

from memlm_keras.arguments import require_instance
from memlm_keras.arguments import require_integers
from memlm_keras.arguments import require_one_of
from memlm_keras.arguments import require_positive_integer
from memlm_keras.arguments import require_vocabulary
from memlm_keras.embeddings import GradientMask
from memlm_keras.memory.rocktaschel2016 import WordByWordAttention
from memlm_keras.models import layers
from memlm_keras.models.generation import is_text
from memlm_keras.models.generation import require_strings
from memlm_keras.models.pairs import DualSequenceModel
from memlm_keras.models.pairs import LayerMaker
from memlm_keras.models.pairs import LengthMask
from memlm_keras.models.pairs import padded
from memlm_keras.models.pairs import require_conditioning
from memlm_keras.models.pairs import require_single_cells
from memlm_keras.models.pairs import starting_states

# `classify` reads 64 pairs at once, and pads their lengths to multiples of 8.
_ROWS, _MULTIPLE = 64, 8


@keras.saving.register_keras_serializable(package="memlm_keras")
class EntailmentClassifier(DualSequenceModel):
    """Classifies pairs of sentences (Weissenborn, 2016, Section 5.1).

    Both sentences are embedded and read by a recurrent layer, which uses the
    premise's final memory when it reads the hypothesis. A second layer, `top`,
    reads the outputs for each sentence, and returns `p` for the premise and `h`
    for the hypothesis. From `[p; h; |p - h|]`, layers with ReLU predict the
    class. Without `top`, the class is predicted from the last output for the
    hypothesis. With a `memory`, the class is predicted from the memory's
    result, as in Rocktaeschel et al. (2016); with `pooling`, from the means of
    both sentences' outputs, as in Cheng et al. (2016).

    Args:
        vocabulary_size: integer; `None` for the size of `vocabulary`.
        embedding_dim: integer, size of the embedding vectors.
        recurrent: Keras recurrent layer, or cell, that reads the premise.
        recurrent_hypothesis: layer or cell that reads the hypothesis; `None`
            for the layer of the premise, with shared weights.
        conditioning: with `"memory"`, the hypothesis starts from the premise's
            final memory (conditional encoding), which is an LSTM's cell state,
            a GRU's state, or an associative memory. Other states start from
            zeros. With `"source"`, the premise's final memory is the source
            memory of a `memlm_keras.cells.DualAssociativeGRUCell` or
            `DualAssociativeMemoryCell`, or the source states of an
            `LSTMNetworkCell`. With `None`, each sentence is read separately.
        memory: a `memlm_keras.memory.WordByWordAttention`, or `None`.
        top: recurrent layer or cell, or `None`; not with a `memory`.
        pooling: `"mean"` to predict from the mean outputs `[p; h]` of both
            sentences, without a `memory` and without `top`; or `None`.
        classifier_units: sequence of integers, sizes of the layers with ReLU.
        projection: integer, units of a dense layer on embeddings; or `None`.
        num_classes: integer; `None` for the number of `labels`, or 3.
        dropout: float in [0, 1), rate for embeddings and outputs of layers.
        initializer: Keras initializer of the matrices of dense layers; `None`
            for Glorot uniform.
        embeddings_initializer: Keras initializer of the embedding; `None` for
            `initializer`. If both are `None`, embeddings are drawn from
            U(-0.5, 0.5) if a cell with an associative memory reads the
            embeddings, and otherwise from U(-0.05, 0.05).
        vocabulary: `memlm_keras.data.Vocabulary` that is saved with the model,
            so that the model classifies strings; or `None`.
        labels: sequence of strings, the names of the classes, such as
            `corpus.labels`; or `None`.
        name: string or `None`.
        dtype: dtype policy of the embedding, dropout and dense layers; by
            default the global one. Recurrent layers and memory have their own.

    Call arguments:
        inputs: dict of int32 tensors, as in `memlm_keras.data.PairBatches`:
            `"premise"` and `"hypothesis"` `(batch, time)`, `"premise_length"`
            and `"hypothesis_length"` `(batch,)`, at least 1. Tokens after a
            sentence's length are ignored.
        training: optional bool.

    Returns:
        Logits `(batch, num_classes)`.

    Raises:
        ValueError: if an argument is not as described, a layer runs backwards
            or is `stateful`, or the layer of the hypothesis does not support
            the `conditioning`.

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

    predicts_classes = True
    preset_kind = "EntailmentClassifier"

    def __init__(
        self,
        vocabulary_size=None,
        embedding_dim=None,
        recurrent=None,
        recurrent_hypothesis=None,
        conditioning="memory",
        memory=None,
        top=None,
        pooling=None,
        classifier_units=(),
        projection=None,
        num_classes=None,
        dropout=0.0,
        initializer=None,
        embeddings_initializer=None,
        vocabulary=None,
        labels=None,
        name=None,
        dtype=None,
    ):
        vocabulary_size = layers.size_of(vocabulary_size, vocabulary)
        num_classes, labels = _classes(num_classes, labels)
        make = LayerMaker(dropout, initializer, dtype)
        recurrent = layers.as_recurrent_layer("recurrent", recurrent)
        reader = recurrent_hypothesis
        if reader is not None:
            reader = layers.as_recurrent_layer("recurrent_hypothesis", reader)
            if getattr(reader, "cell", reader) is recurrent.cell:
                reader = None
        if top is not None:
            top = layers.as_recurrent_layer("top", top)
            require_single_cells(top)
        second = reader or recurrent
        require_conditioning(conditioning, recurrent, second)
        require_one_of("pooling", pooling, (None, "mean"))
        if memory is not None:
            what = "a `memlm_keras.memory.WordByWordAttention`"
            require_instance("memory", memory, WordByWordAttention, what)
        if sum(given is not None for given in (memory, top, pooling)) > 1:
            raise ValueError(
                "Only one of `memory`, `top` and `pooling` can be given. "
                f"Received: memory={memory!r}, top={top!r} and "
                f"pooling={pooling!r}"
            )

        # === Layers ===
        embedding = make.embedding(
            vocabulary_size,
            embedding_dim,
            embeddings_initializer,
            readers=(recurrent, second),
        )
        gradient_mask = GradientMask(
            vocabulary_size, dtype=make.policy, name="gradient_mask"
        )
        mask = LengthMask(name="length_mask")
        project = None
        if projection is not None:
            project = make.dense(projection, "projection")
        units = require_integers(
            "classifier_units", classifier_units, minimum_size=0
        )
        classifier_units = tuple(units.tolist())
        hidden = [
            make.dense(units, f"classifier_units_{index}", "relu")
            for index, units in enumerate(classifier_units)
        ]
        head = make.dense(num_classes, "head")

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
            vectors = gradient_mask(embedding(inputs[name]), inputs[name])
            if project is not None:
                vectors = project(vectors)
            mask_of = mask(inputs[name], inputs[f"{name}_length"])
            outputs, *states = layer(
                make.dropout_layer(f"dropout_{name}")(vectors),
                mask=mask_of,
                initial_state=initial_state,
            )
            return outputs, states, mask_of

        outputs, states, premise_mask = read("premise", recurrent)
        start = starting_states(conditioning, states, second)
        follow, follow_states, hypothesis_mask = read(
            "hypothesis", second, start
        )
        weights = None
        if memory is not None:
            features, weights = memory(
                follow,
                last=follow_states[0],
                premise=outputs,
                outputs_mask=hypothesis_mask,
                premise_mask=premise_mask,
            )
        elif pooling is not None:
            p = make.dropout_layer("dropout_p")(outputs)
            h = make.dropout_layer("dropout_h")(follow)
            features = ops.concatenate(
                [_mean(p, premise_mask), _mean(h, hypothesis_mask)], axis=-1
            )
        elif top is None:
            features = follow_states[0]
        else:
            outputs = make.dropout_layer("dropout_p")(outputs)
            follow = make.dropout_layer("dropout_h")(follow)
            _, p, *_ = top(outputs, mask=premise_mask)
            _, h, *_ = top(follow, mask=hypothesis_mask)
            features = ops.concatenate([p, h, ops.absolute(p - h)], axis=-1)
        for index, layer in enumerate(hidden):
            features = layer(features)
            features = make.dropout_layer(f"dropout_{index}")(features)
        super().__init__(inputs=inputs, outputs=head(features), name=name)

        # === Config ===
        self.vocabulary_size = vocabulary_size
        self.vocabulary = vocabulary
        if vocabulary is not None:
            require_vocabulary(self, vocabulary)
        self.labels = labels
        self.embedding_dim = embedding_dim
        self.recurrent = recurrent
        self.recurrent_hypothesis = reader
        self.conditioning = conditioning
        self.memory = memory
        self.top = top
        self.pooling = pooling
        self.classifier_units = classifier_units
        self.projection = projection
        self.projection_layer = project
        self.num_classes = num_classes
        self.dropout = dropout
        self.initializer = make.initializer
        self.embedding = embedding
        self.gradient_mask = gradient_mask
        self.head = head
        self._attention_weights = weights

    @property
    def readers(self):
        """Tuple of the layers that read the premise and the hypothesis."""
        return self.recurrent, self.recurrent_hypothesis or self.recurrent

    def check_data(self, *data):
        super().check_data(*data)
        for part in data:
            labels = getattr(part, "labels", None)
            if labels is not None and labels.max() >= self.num_classes:
                raise ValueError(
                    "The batches must have labels below num_classes="
                    f"{self.num_classes}. Received: label {labels.max()}"
                )

    def classify(self, premise, hypothesis):
        """Classifies sentences given as strings.

        Args:
            premise, hypothesis: two strings, or two lists of equal length.

        Returns:
            Dict from each label to its probability, or a list of such dicts.
            The labels of a model without `labels` are 0, 1, 2 and so on.

        Raises:
            ValueError: if the model has no vocabulary, a string contains no
                word, or the lists have different lengths.

        Example:

        >>> vocabulary = memlm_keras.data.Vocabulary(["a", "man", "sits"])
        >>> model = memlm_keras.EntailmentClassifier(
        ...     vocabulary=vocabulary,
        ...     embedding_dim=8,
        ...     recurrent=keras.layers.LSTM(6),
        ...     labels=("entailment", "neutral", "contradiction"),
        ... )
        >>> sorted(model.classify("a man sits", "a man"))
        ['contradiction', 'entailment', 'neutral']
        """
        single = isinstance(premise, str) and isinstance(hypothesis, str)
        texts = {"premise": premise, "hypothesis": hypothesis}
        if single:
            texts = {name: [text] for name, text in texts.items()}
        if len({len(strings) for strings in texts.values()}) != 1 or not all(
            map(is_text, texts.values())
        ):
            raise ValueError(
                "`premise` and `hypothesis` must be two strings, or two lists "
                f"of strings of equal length. Received: premise={premise!r}, "
                f"hypothesis={hypothesis!r}"
            )
        sentences = {
            name: [*map(require_strings(name, t, self.vocabulary).encode, t)]
            for name, t in texts.items()
        }
        for name, rows in sentences.items():
            for text, row in zip(texts[name], rows):
                if not len(row):
                    raise ValueError(
                        f"Each `{name}` must have a word. Received: {text!r}"
                    )
        pairs = [*zip(*sentences.values())]
        # Pairs of similar lengths share a batch.
        order = sorted(range(len(pairs)), key=lambda n: [*map(len, pairs[n])])
        labels, found = self.labels or range(self.num_classes), {}
        for begin in range(0, len(order), _ROWS):
            places, inputs = order[begin : begin + _ROWS], {}
            for name, rows in sentences.items():
                ids, lengths = padded(name, [rows[n] for n in places])
                # Pad lengths, so that fewer shapes are compiled.
                ids = np.pad(ids, ((0, 0), (0, -ids.shape[1] % _MULTIPLE)))
                inputs[name] = ids.astype("int32")
                inputs[f"{name}_length"] = lengths
            logits = ops.cast(self.predict_on_batch(inputs), "float32")
            probabilities = ops.convert_to_numpy(ops.softmax(logits)).tolist()
            for place, row in zip(places, probabilities):
                found[place] = dict(zip(labels, row))
        return found[0] if single else [found[n] for n in range(len(pairs))]

    def attention(self, inputs):
        """Returns attention weights on the premise for each hypothesis word.

        Args:
            inputs: dict, as in a call.

        Returns:
            float32 array `(batch, time of hypothesis, time of premise)`.

        Raises:
            ValueError: if the model has no memory that attends.
        """
        if self.memory is None:
            raise ValueError(
                "Attention needs a memory that attends, such as a "
                "`WordByWordAttention`. Received: memory=None"
            )
        # If an attribute stored this `keras.Model`, Keras would save it, too.
        weights = keras.Model(self.input, self._attention_weights)(inputs)
        return ops.convert_to_numpy(ops.cast(weights, "float32"))


def _classes(num_classes, labels):
    """Returns the number of classes, and a tuple of labels if there are any."""
    if labels is None:
        num_classes = 3 if num_classes is None else num_classes
        require_positive_integer("num_classes", num_classes)
        return num_classes, None
    several = isinstance(labels, (list, tuple))
    strings = tuple(map(str, labels)) if several else ()
    count = len(strings) if num_classes is None else num_classes
    if not strings or not len(set(strings)) == len(strings) == count:
        raise ValueError(
            "`labels` must be different strings, one for each class, such as "
            f"`corpus.labels`. Received: labels={labels!r} and "
            f"num_classes={num_classes}"
        )
    return count, strings


def _mean(outputs, mask):
    """Averages over the steps where the mask is true: `(batch, units)`."""
    weights = ops.cast(mask, outputs.dtype)[..., None]
    return ops.sum(outputs * weights, axis=1) / ops.sum(weights, axis=1)

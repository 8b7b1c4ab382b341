"""Variational smoothing of Kong, Melis, Ling, Yu and Yogatama (2019).

"Variational Smoothing in Recurrent Neural Network Language Models", Section 4.
The displayed formulas are illegible in the available copy of the paper; the
formulas below are reconstructed from its text.

Shapes use B (batch), T (time), V (vocabulary) and k (units).
"""

from typing import Any
from typing import NamedTuple

import keras
from keras import ops

from memlm_keras.arguments import Configured
from memlm_keras.arguments import deserialize
from memlm_keras.arguments import require_instance
from memlm_keras.arguments import require_number
from memlm_keras.arguments import require_one_of
from memlm_keras.arguments import require_positive_integer
from memlm_keras.embeddings import Embedding
from memlm_keras.embeddings import look_up
from memlm_keras.heads.projection import build_tied
from memlm_keras.keras_private import AutocastScope
from memlm_keras.masking import first_occurrences
from memlm_keras.masking import take_steps
from memlm_keras.smoothing.statistics import SCHEMES
from memlm_keras.smoothing.statistics import AliasTable
from memlm_keras.smoothing.statistics import replacement

VARIATIONAL_SCHEMES = SCHEMES[1:]
PREDICTIONS = ("mean", "mode")
OTHER_WORDS = ("mode", "sample", "mean")


class Drawn(NamedTuple):
    """Indices of matrix rows that replace the rows of words, `(B, T)`; with
    `element_wise`, one index for each vector element, `(B, T, k)`."""

    input_rows: Any
    replaced: Any
    output_rows: Any = None  # Rows for the targets of replaced input words.
    other_rows: Any = None  # Rows for non-target words, `(V,)` or `(V, k)`.


@keras.saving.register_keras_serializable(package="memlm_keras")
class VariationalSmoothing(Configured, keras.layers.Layer):
    """A distribution over embedding matrices with learned means.

    The matrix row E_v of each word v is a mixture of Gaussians of vanishing
    variance (Kong et al., 2019, Sections 4.1 and 4.2). With probability
    gamma_v, E_v is the vector of another word:

        E_v = e_v              with probability 1 - gamma_v
        E_v = e_k, k drawn from q,          otherwise

    | scheme | gamma_v | q | matrices | drawn |
    |---|---|---|---|---|
    | `linear_interpolation` | gamma_0 | u | input | for each sequence |
    | `absolute_discounting` | gamma_0 N1+(v .) / c(v) | u | input | for each sequence |
    | `kneser_ney` | gamma_0 N1+(v .) / c(v) | r | input, output | at each step |

    `StreamStatistics` defines u, r, c and N1+. If a scheme draws for each
    sequence, a word has the same replacement in a whole row of a batch. With
    `kneser_ney`, the input vector of a replaced word and the output vector of
    its target are two draws from the Kneser-Ney distribution r. The formula for
    output vectors of other words is illegible; the paper names samples as an
    alternative (Section 4.2). The argument `other_words` selects them:

    * `"mode"`: each word's own vector, e_v;
    * `"sample"`: one draw of the vector E_v for all steps of a batch;
    * `"mean"`: the mean of each word's distribution, mean_v below.

    With `"mean"`, other words' vectors have smaller norms than the target's
    sampled vector, so targets are easy to predict, and the model learns less.
    `"sample"` needs a bias in the projection: two words for which the same
    vector is drawn would otherwise have equal logits. Input and output vectors
    are drawn separately, even from a shared matrix. With `element_wise`, each
    dimension of a vector is replaced separately.

    Prediction uses the mean of the distribution of each smoothed matrix:

        mean_v = (1 - gamma_v) e_v + gamma_v sum_k q_k e_k

    With `prediction="mode"`, prediction uses each word's own vector e_v.
    `memlm_keras.evaluation.sampled_perplexity` averages over samples. The
    training loss includes the divergence from the prior:

        l2 sum_k c_k |e_k|^2,  c_k = (1 - gamma_k) + q_k sum_v gamma_v

    With `kneser_ney`, the loss has this term for the input and for the output
    matrix, so twice for a tied matrix. The compiled loss includes both once for
    each batch; custom loops find both in `model.losses`. The presets sum the
    cross-entropy over steps. If the loss is a mean over tokens, divide `l2` by
    the number of steps for the same balance.

    There are two differences from the paper. Dropout masks are drawn for each
    step, on input vectors and on outputs before the projection, while the paper
    masks whole matrices `(V, k)` (Section 4.3). If a scheme smooths only the
    input matrix of tied embeddings, the loss lacks the penalty of the output
    matrix, a sum of squares; an `embeddings_regularizer` can add this penalty.

    Give this layer to a `SmoothedEmbedding` and, with `kneser_ney`, also to a
    `SmoothedProjection`; a `memlm_keras.LanguageModel` with a
    `SmoothedEmbedding` creates the projection. Before training, call `adapt` to
    set the statistics of the text, which are saved with the model.

    Args:
        scheme: string, as above.
        rate: float in [0, 1], gamma_0.
        element_wise: bool, whether each dimension is drawn separately.
        l2: float, weight of the divergence from the prior in the loss.
        prediction: `"mean"` or `"mode"`.
        other_words: `"mode"`, `"sample"` or `"mean"`; selects output vectors of
            all words except the target in training with `kneser_ney`.
        vocabulary_size: integer, V; `None` for the language model's.
        seed: integer or `None`, seed of the draws.
        **kwargs: arguments of `keras.layers.Layer`.

    Raises:
        ValueError: if an argument is not as described.

    Example:

    >>> tokens = np.random.randint(50, size=1000)
    >>> model = memlm_keras.LanguageModel(
    ...     vocabulary_size=50,
    ...     embedding_dim=16,
    ...     recurrent=[keras.layers.LSTM(16)],
    ...     tie_embeddings=True,
    ...     embedding=memlm_keras.smoothing.SmoothedEmbedding(
    ...         smoothing=memlm_keras.smoothing.VariationalSmoothing(
    ...             "kneser_ney", rate=0.2
    ...         )
    ...     ),
    ... )
    >>> model.smoothing.adapt(
    ...     memlm_keras.smoothing.StreamStatistics.count(tokens, 50)
    ... )
    """  # noqa: E501

    def __init__(
        self,
        scheme,
        rate,
        element_wise=False,
        l2=0.0,
        prediction="mean",
        other_words="mode",
        vocabulary_size=None,
        seed=None,
        **kwargs,
    ):
        super().__init__(**kwargs)
        require_one_of("scheme", scheme, VARIATIONAL_SCHEMES)
        require_one_of("prediction", prediction, PREDICTIONS)
        require_one_of("other_words", other_words, OTHER_WORDS)
        require_number("rate", rate, at_least=0, at_most=1)
        require_number("l2", l2, at_least=0)
        if vocabulary_size is not None:
            require_positive_integer("vocabulary_size", vocabulary_size)
        self.scheme = scheme
        self.rate = rate
        self.element_wise = element_wise
        self.l2 = l2
        self.prediction = prediction
        self.other_words = other_words
        self.vocabulary_size = vocabulary_size
        self.seed = seed
        self.seed_generator = keras.random.SeedGenerator(seed)

    @property
    def smooths_output(self):
        """Whether the scheme smooths the output matrix too."""
        return self.scheme == "kneser_ney"

    # === Statistics ===

    def build_for(self, vocabulary_size):
        """Creates the variables for the statistics of a vocabulary."""
        if self.vocabulary_size not in (None, vocabulary_size):
            raise ValueError(
                "`smoothing` must have the model's "
                f"vocabulary_size={vocabulary_size}. Received: "
                f"vocabulary_size={self.vocabulary_size}"
            )
        self.vocabulary_size = vocabulary_size
        if not self.built:
            self.build()

    def build(self, input_shape=None):
        def table(name, dtype="float32"):
            return self.add_weight(
                (self.vocabulary_size,),
                "zeros",
                dtype,
                trainable=False,
                autocast=False,
                name=name,
            )

        self.rates = table("rates")
        self.proposal = table("proposal")
        self.thresholds = table("thresholds")
        self.aliases = table("aliases", "int32")
        self.built = True

    def adapt(self, statistics):
        """Sets all rates gamma_v and the distribution q from a text's counts.

        Args:
            statistics: `StreamStatistics` with the model's vocabulary.

        Raises:
            ValueError: if the statistics have another vocabulary size.
        """
        rates, proposal = replacement(self.scheme, self.rate, statistics)
        if self.vocabulary_size not in (None, len(rates)):
            raise ValueError(
                "`statistics` must have the model's vocabulary of "
                f"{self.vocabulary_size} words. Received: statistics of "
                f"{len(rates)} words"
            )
        if not self.built:
            self.vocabulary_size = len(rates)
            self.build()
        table = AliasTable.of(proposal)
        self.rates.assign(rates)
        self.proposal.assign(proposal)
        self.thresholds.assign(table.thresholds)
        self.aliases.assign(table.aliases)

    @property
    def adapted(self):
        """Whether `adapt` has set the statistics."""
        return bool(ops.any(ops.convert_to_tensor(self.proposal) > 0))

    # === Samples ===

    def draw(self, token_ids, units):
        """Draws the index of a matrix row for each input word `(B, T)`; with
        `element_wise`, for each of the `units` elements of its vector."""
        words, replaced, rows = self._replace(token_ids, units)
        if not self.smooths_output:
            first = first_occurrences(token_ids)
            replaced = take_steps(replaced, first)
            rows = take_steps(rows, first)
            return Drawn(ops.where(replaced, rows, words), replaced)
        shape = ops.shape(rows)
        output_rows = self._propose(shape, self._uniform(shape))
        rows = ops.where(replaced, rows, words)
        other_rows = None
        if self.other_words == "sample":
            every_word = ops.arange(self.vocabulary_size, dtype="int32")
            every_word, other, drawn = self._replace(every_word, units)
            other_rows = ops.where(other, drawn, every_word)
        return Drawn(rows, replaced, output_rows, other_rows)

    def _replace(self, words, units):
        """Returns the words, a mask of replaced words, and the replacements."""
        shape = ops.shape(words)
        if self.element_wise:
            shape, words = (*shape, units), words[..., None]
        rates = ops.take(self.rates, words, axis=0)
        chance = self._uniform(shape)
        # For a replaced word, `chance` is uniform in [0, rate), so the quotient
        # `chance / rate` is uniform in [0, 1), and selects the replacement.
        rows = self._propose(shape, chance / ops.maximum(rates, 1e-30))
        return words, chance < rates, rows

    def _uniform(self, shape):
        return keras.random.uniform(
            shape, dtype="float32", seed=self.seed_generator
        )

    def _propose(self, shape, chance):
        """Draws replacement words from q by the method of `AliasTable`."""
        words = keras.random.randint(
            shape, 0, self.vocabulary_size, "int32", self.seed_generator
        )
        kept = chance < ops.take(self.thresholds, words, axis=0)
        return ops.where(kept, words, ops.take(self.aliases, words, axis=0))

    def drawn_rows(self, table, rows):
        """Looks up rows of a matrix `(V, k)` by the drawn indices `rows`."""
        if not self.element_wise:
            return look_up(table, rows)
        units = table.shape[-1]
        elements = rows[..., :units] * units + ops.arange(units, dtype="int32")
        return look_up(ops.reshape(table, (-1,)), elements)

    # === Means ===

    def mean_vector(self, table):
        """Computes `sum_w q_w e_w`, `(k,)`, where e_w are rows of a matrix."""
        # In float16, the probabilities of rare words would be zero.
        exact = ops.matmul(self.proposal[None], ops.cast(table, "float32"))[0]
        return ops.cast(exact, table.dtype)

    def mean_rows(self, table, token_ids):
        """Computes `mean_v`, `(..., k)`, for tokens and a matrix `(V, k)`."""
        rows = look_up(table, token_ids)
        rates = ops.take(self.rates, token_ids, axis=0)[..., None]
        rates = ops.cast(rates, rows.dtype)
        return rows + rates * (self.mean_vector(table) - rows)

    def mean_logits(self, logits, outputs, table):
        """Converts logits with vectors e_v to logits with mean vectors mean_v.
        Each mean_v is the sum of a multiple of e_v and a multiple of
        `mean_vector(table)`, so the means of all words need not be stored."""
        common = ops.matmul(outputs, self.mean_vector(table)[:, None])
        return logits + ops.cast(self.rates, logits.dtype) * (common - logits)

    # === Divergence ===

    def coefficients(self):
        """Returns `(V,)`, each word's factor c_k in the divergence."""
        rates = ops.convert_to_tensor(self.rates)
        return (1.0 - rates) + self.proposal * ops.sum(rates)

    def divergence(self, table):
        """Computes `l2 sum_v c_v |e_v|^2` over the rows e_v of a matrix."""
        squares = ops.sum(ops.square(table), axis=-1)
        return self.l2 * ops.sum(self.coefficients() * squares)

    def get_build_config(self):
        """Returns `None`: in a loaded model, `build_for` builds this layer."""
        return None


@keras.saving.register_keras_serializable(package="memlm_keras")
class SmoothedEmbedding(Embedding):
    """An `Embedding` with variational smoothing (Kong et al., 2019).

    As the `embedding` of a language model, the layer draws rows for each
    training batch. If the smoothing's `l2` is not zero, the layer adds the
    smoothing's divergence from the prior to the loss.

    Args:
        input_dim, output_dim: see `Embedding`.
        smoothing: a `VariationalSmoothing` with the same vocabulary.
        **kwargs: arguments of `Embedding`.

    Call arguments:
        inputs, reverse, training: see `Embedding`; `reverse` is not smoothed.
        drawn: result of `draw` for `inputs`. If `None`, the smoothing's
            `prediction` selects each word's mean vector or own vector.

    Returns:
        Float tensor `(batch, time, output_dim)`.

    Raises:
        ValueError: if `smoothing` is missing or has another vocabulary size.

    Example:

    >>> smoothing = memlm_keras.smoothing.VariationalSmoothing(
    ...     "linear_interpolation", rate=0.2
    ... )
    >>> smoothing.adapt(
    ...     memlm_keras.smoothing.StreamStatistics.count(np.arange(100), 100)
    ... )
    >>> embedding = memlm_keras.smoothing.SmoothedEmbedding(100, 16, smoothing)
    >>> tokens = np.array([[3, 7, 7]], "int32")
    >>> means = embedding(tokens)
    >>> sample = embedding(tokens, drawn=smoothing.draw(tokens, units=16))
    >>> keras.ops.shape(sample)
    (1, 3, 16)
    """

    draws = True

    def __init__(
        self, input_dim=None, output_dim=None, smoothing=None, **kwargs
    ):
        require_smoothing(smoothing)
        super().__init__(input_dim, output_dim, **kwargs)
        self.smoothing = smoothing

    def build(self, input_shape=None):
        super().build(input_shape)
        self.smoothing.build_for(self.input_dim)

    def draw(self, token_ids, units=0):
        """Samples a matrix row for each word. Returns the argument `drawn` of
        this layer and of a `SmoothedProjection` with inputs of size `units`."""
        return self.smoothing.draw(token_ids, max(units, self.output_dim))

    def add_divergence(self):
        """Adds the divergence of the embedding matrix to the layer's losses."""
        _add_divergence(self, "embeddings")

    def call(self, inputs, reverse=False, training=None, drawn=None):
        if reverse:
            return super().call(inputs, reverse=True)
        token_ids, table = ops.cast(inputs, "int32"), self.embeddings
        if drawn is not None:
            vectors = self.smoothing.drawn_rows(table, drawn.input_rows)
        elif self.smoothing.prediction == "mode":
            vectors = look_up(table, token_ids)
        else:
            vectors = self.smoothing.mean_rows(table, token_ids)
        return self._finish(vectors, token_ids, training)

    def compute_output_spec(
        self, inputs, reverse=False, training=None, drawn=None
    ):
        return super().compute_output_spec(inputs, reverse=reverse)

    @classmethod
    def from_config(cls, config):
        return cls(**deserialize(config))


@keras.saving.register_keras_serializable(package="memlm_keras")
class SmoothedProjection(Configured, keras.layers.Layer):
    """Computes logits with variational smoothing (Kong et al., 2019).

    `logits = E h + b`, where `E` is the mean or the mode of the distribution
    over matrices (Section 4.2), according to the smoothing's `prediction`. As
    the `head` of a language model, the layer draws the rows of targets in
    training. If the smoothing's `l2` is not zero, the layer adds the divergence
    of the smoothing from the prior to the loss. The bias is not smoothed.

    Args:
        smoothing: `memlm_keras.smoothing.VariationalSmoothing` with the scheme
            `kneser_ney`; `None` for the language model's.
        embedding: the `memlm_keras.smoothing.SmoothedEmbedding` to share the
            matrix with; `None` for a separate matrix. A model with
            `tie_embeddings` sets this argument.
        use_bias: whether there is a bias, `b`.
        kernel_initializer: initializer of a separate matrix.
        bias_initializer: initializer of `b`.
        **kwargs: arguments of `keras.layers.Layer`.

    Call arguments:
        inputs: float tensor `(batch, time, units)`.
        targets: optional int32 tensor `(batch, time)`, the words whose vectors
            are drawn.
        drawn: a result of `SmoothedEmbedding.draw` for the input words, which
            selects the vectors of `targets`; the smoothing's `other_words`
            selects the vectors of all other words. If `None`, the smoothing's
            `prediction` selects all vectors.

    Returns:
        Float tensor `(batch, time, vocabulary)`.

    Raises:
        ValueError: if the size of the inputs is not the embedding's, or the
            smoothing is missing or smooths only the input matrix.

    Example:

    >>> smoothing = memlm_keras.smoothing.VariationalSmoothing(
    ...     "kneser_ney", rate=0.2, vocabulary_size=100
    ... )
    >>> smoothing.build()
    >>> head = memlm_keras.smoothing.SmoothedProjection(smoothing)
    >>> keras.ops.shape(head(np.ones((2, 7, 16), "float32")))
    (2, 7, 100)
    """

    draws = True

    def __init__(
        self,
        smoothing=None,
        embedding=None,
        use_bias=True,
        kernel_initializer="glorot_uniform",
        bias_initializer="zeros",
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.smoothing = smoothing
        self.embedding = embedding
        self.use_bias = use_bias
        self.kernel_initializer = keras.initializers.get(kernel_initializer)
        self.bias_initializer = keras.initializers.get(bias_initializer)

    def build(self, input_shape):
        require_smoothing(self.smoothing)
        if not self.smoothing.smooths_output:
            raise ValueError(
                "`smoothing` must have the scheme 'kneser_ney', which smooths "
                f"the output matrix. Received: scheme={self.smoothing.scheme!r}"
            )
        units, words = input_shape[-1], self.smoothing.vocabulary_size
        if self.embedding is None:
            # Words are rows of the kernel, since `drawn_rows` looks up rows.
            start = self.kernel_initializer
            self.kernel = self.add_weight((words, units), start, name="kernel")
        else:
            build_tied(self.embedding, units)
        if self.use_bias:
            start = self.bias_initializer
            self.bias = self.add_weight((words,), start, name="bias")

    @property
    def matrix(self):
        """Variable of the matrix, `(vocabulary, units)`."""
        if self.embedding is None:
            return self.kernel
        return self.embedding.embeddings

    def add_divergence(self):
        """Adds the divergence of the output matrix to the layer's losses."""
        _add_divergence(self, "matrix")

    def call(self, inputs, targets=None, drawn=None):
        smoothing = self.smoothing
        matrix = ops.cast(self.matrix, self.compute_dtype)
        if drawn is not None and drawn.other_rows is not None:
            matrix = smoothing.drawn_rows(matrix, drawn.other_rows)
        logits = ops.matmul(inputs, ops.transpose(matrix))
        by = smoothing.prediction if drawn is None else smoothing.other_words
        if by == "mean":
            logits = smoothing.mean_logits(logits, inputs, matrix)
        if self.use_bias:
            logits = logits + self.bias
        if drawn is None or targets is None:
            return logits

        # === Logits of the targets, with drawn rows ===
        rows = targets[..., None] if smoothing.element_wise else targets
        rows = ops.where(drawn.replaced, drawn.output_rows, rows)
        vectors = smoothing.drawn_rows(self.matrix, rows)
        scores = ops.sum(inputs * ops.cast(vectors, inputs.dtype), axis=-1)
        if self.use_bias:
            bias = ops.take(self.bias, targets, axis=0)
            scores = scores + ops.cast(bias, scores.dtype)
        words = ops.arange(smoothing.vocabulary_size, dtype="int32")
        is_target = ops.equal(words, targets[..., None])
        scores = ops.cast(scores, logits.dtype)
        return ops.where(is_target, scores[..., None], logits)

    @classmethod
    def from_config(cls, config):
        return cls(**deserialize(config))


def require_smoothing(smoothing):
    what = "a `memlm_keras.smoothing.VariationalSmoothing`"
    require_instance("smoothing", smoothing, VariationalSmoothing, what)


def _add_divergence(layer, name):
    if layer.smoothing.l2:
        # Sums over a whole matrix need float32, even in mixed precision.
        with AutocastScope(None):
            matrix = getattr(layer, name)
            layer.add_loss(layer.smoothing.divergence(matrix))

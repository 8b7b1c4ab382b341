"""Variational smoothing of Kong, Melis, Ling, Yu and Yogatama (2019).

"Variational Smoothing in Recurrent Neural Network Language Models", Section 4.
Its displayed formulas are not legible in the copy that was used: those below
are rebuilt from its prose.

Shapes below: B batch, T time, V vocabulary, k units.
"""

from typing import Any
from typing import NamedTuple

import keras
from keras import ops

from memlm_keras.arguments import require_positive_integer
from memlm_keras.embeddings import look_up
from memlm_keras.masking import first_occurrences
from memlm_keras.masking import take_steps
from memlm_keras.smoothing.statistics import SCHEMES
from memlm_keras.smoothing.statistics import AliasTable
from memlm_keras.smoothing.statistics import replacement
from memlm_keras.smoothing.statistics import require_gamma
from memlm_keras.smoothing.statistics import require_scheme

VARIATIONAL_SCHEMES = SCHEMES[1:]
PREDICTIONS = ("mean", "mode")
OTHER_WORDS = ("sample", "mean", "mode")


class Drawn(NamedTuple):
    """One sample of the rows that a batch reads.

    Attributes:
        input_rows: int32 tensor, the row that each input word reads, `(B, T)`,
            or `(B, T, k)` where each element is drawn by itself.
        replaced: bool tensor of the same shape, whether it is another's.
        output_rows: int32 tensor of the same shape, the rows that targets of
            replaced words read; `None` where the output is not smoothed.
        other_rows: int32 tensor, the row that each word reads where it is not
            the target, `(V,)` or `(V, k)`; `None` where these are not drawn.
    """

    input_rows: Any
    replaced: Any
    output_rows: Any = None
    other_rows: Any = None


@keras.saving.register_keras_serializable(package="memlm_keras")
class VariationalSmoothing(keras.layers.Layer):
    """A distribution over embedding matrices, learned by its means.

    The row of each word v is a mixture of Gaussians of vanishing variance (Kong
    et al., 2019, Sections 4.1 and 4.2): it is that of v, or with the
    probability gamma_v that of another word,

        E_v = e_v              with probability 1 - gamma_v
        E_v = e_k, k drawn from q,          otherwise

    | scheme | gamma_v | q | matrices | drawn |
    |---|---|---|---|---|
    | `linear_interpolation` | gamma_0 | u | input | for each sequence |
    | `absolute_discounting` | gamma_0 N1+(v .) / c(v) | u | input | for each sequence |
    | `kneser_ney` | gamma_0 N1+(v .) / c(v) | r | input, output | at each step |

    with u, r, c and N1+ of `StreamStatistics`. A sequence is a row of a batch:
    all occurrences of a word in it are replaced alike. With `kneser_ney` the
    input word decides: if it is replaced, its input vector and the output
    vector of its target are two draws from r. Of the output vectors of other
    words the paper says that they are assumed to be something, which is not
    legible, "or alternatively" sampled. Here, with `other_words`, they are

    * `"sample"`: drawn as above, E_v, once for a batch;
    * `"mean"`: their means, as below;
    * `"mode"`: their own, e_v.

    Means are shorter than vectors, so that a target that is drawn stands out
    among them, and the model learns less of it. A sample needs a bias of the
    projection, as the vectors of frequent words are drawn for many others,
    which nothing else tells apart. Input and output are drawn
    apart also where one matrix is both. With `element_wise`, every dimension
    of a vector is drawn by itself, and with `kneser_ney` decided by itself
    (Section 4.3).

    Prediction takes the mean of the distribution, of each matrix that is
    smoothed,

        mean_v = (1 - gamma_v) e_v + gamma_v sum_k q_k e_k

    or its mode, e_v. `memlm_keras.evaluation.sampled_perplexity` averages
    samples. Of the divergence from the prior, the loss has while training

        l2 sum_k c_k |e_k|^2,  c_k = (1 - gamma_k) + q_k sum_v gamma_v

    for each matrix that is smoothed: twice with `kneser_ney` and tied
    embeddings. It is added once for each batch, to whatever the model was
    compiled with, and is in `model.losses` for a loop of one's own. Beside a
    cross-entropy summed over the steps, as of the presets, the same `l2`
    weighs less than beside a mean over tokens, by the number of steps.

    Dropout of embeddings is drawn for each step, on what was drawn here; the
    paper has one mask for a word, which may be meant for all its occurrences.

    The smoothing is that of a `SmoothedEmbedding`, and of a `SmoothedProjection`
    if it smooths the output; a `memlm_keras.LanguageModel` with the first has
    the second by itself. It learns its statistics by `adapt`, before training,
    and they are saved with the model.

    Args:
        scheme: string, as above.
        rate: float in [0, 1], gamma_0.
        element_wise: bool, whether elements are drawn one by one.
        l2: float, weight of the divergence beside the loss of a batch.
        prediction: `"mean"` or `"mode"`.
        other_words: `"sample"`, `"mean"` or `"mode"`, which rows of the output
            matrix the words that are not the target have while training with
            `kneser_ney`.
        vocabulary_size: integer, V; `None` is that of the model.
        seed: integer or `None`, from which the draws follow.
        **kwargs: arguments of `keras.layers.Layer`.

    Raises:
        ValueError: for arguments other than these.

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
        other_words="sample",
        vocabulary_size=None,
        seed=None,
        **kwargs,
    ):
        super().__init__(**kwargs)
        require_scheme(scheme, VARIATIONAL_SCHEMES)
        require_gamma(rate)
        if not l2 >= 0:
            raise ValueError(f"`l2` must be at least 0. Received: l2={l2!r}")
        for name, value, known in (
            ("prediction", prediction, PREDICTIONS),
            ("other_words", other_words, OTHER_WORDS),
        ):
            if value not in known:
                raise ValueError(
                    f"`{name}` must be one of {', '.join(map(repr, known))}. "
                    f"Received: {name}={value!r}"
                )
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
        """Whether the output matrix is smoothed, and draws are by step."""
        return self.scheme == "kneser_ney"

    # === Statistics ===

    def build_for(self, vocabulary_size):
        """Makes room for the statistics of a vocabulary.

        Args:
            vocabulary_size: integer.

        Raises:
            ValueError: if the smoothing is for a vocabulary of another size.
        """
        if self.vocabulary_size not in (None, vocabulary_size):
            raise ValueError(
                "`smoothing` must be for a vocabulary of the model's size "
                f"{vocabulary_size}. Received: one with vocabulary_size="
                f"{self.vocabulary_size}"
            )
        self.vocabulary_size = vocabulary_size
        if not self.built:
            self.build()

    def build(self, input_shape=None):
        def table(name, dtype="float32"):
            return self.add_weight(
                name=name,
                shape=(self.vocabulary_size,),
                initializer="zeros",
                dtype=dtype,
                trainable=False,
                autocast=False,
            )

        self.rates = table("rates")
        self.proposal = table("proposal")
        self.thresholds = table("thresholds")
        self.aliases = table("aliases", "int32")
        self.built = True

    def adapt(self, statistics):
        """Takes rates and proposal from statistics of the training text.

        Args:
            statistics: `StreamStatistics` of the model's vocabulary.

        Raises:
            ValueError: for others.
        """
        rates, proposal = replacement(self.scheme, self.rate, statistics)
        if self.vocabulary_size not in (None, len(rates)):
            raise ValueError(
                "`statistics` must be of the model's vocabulary, of "
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
        """Whether there are statistics to smooth by."""
        return bool(ops.any(ops.convert_to_tensor(self.proposal) > 0))

    # === Samples ===

    def draw(self, token_ids, units):
        """Draws the rows that a batch reads.

        Args:
            token_ids: int32 tensor `(B, T)`, the input words.
            units: integer, k, that of the larger matrix if there are two.

        Returns:
            `Drawn`.
        """
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
        """Decides for each of some words whether it is replaced, and by which.

        Returns:
            The words, of a shape that goes with the others; bool and int32
            tensors `(...)`, or `(..., units)` by element.
        """
        shape = ops.shape(words)
        if self.element_wise:
            shape, words = (*shape, units), words[..., None]
        rates = ops.take(self.rates, words, axis=0)
        chance = self._uniform(shape)
        # Where it is below the rate, the ratio is uniform again.
        rows = self._propose(shape, chance / ops.maximum(rates, 1e-30))
        return words, chance < rates, rows

    def _uniform(self, shape):
        return keras.random.uniform(
            shape, dtype="float32", seed=self.seed_generator
        )

    def _propose(self, shape, chance):
        """Draws words from q by the alias method; see `AliasTable`."""
        words = keras.random.randint(
            shape, 0, self.vocabulary_size, "int32", self.seed_generator
        )
        kept = chance < ops.take(self.thresholds, words, axis=0)
        return ops.where(kept, words, ops.take(self.aliases, words, axis=0))

    def drawn_rows(self, table, rows):
        """Rows of a matrix as they were drawn.

        Args:
            table: variable or tensor `(V, k)`.
            rows: int32 tensor `(...)`, or by element `(..., k)`, of which a
                smaller matrix reads the first.

        Returns:
            Tensor `(..., k)`.
        """
        if not self.element_wise:
            return look_up(table, rows)
        units = table.shape[-1]
        elements = rows[..., :units] * units + ops.arange(units, dtype="int32")
        return look_up(ops.reshape(table, (-1,)), elements)

    # === Means ===

    def mean_vector(self, table):
        """`sum_k q_k e_k` of a matrix `(V, k)`, a tensor `(k,)`."""
        # In float16, the probabilities of rare words would be zero.
        exact = ops.matmul(self.proposal[None], ops.cast(table, "float32"))[0]
        return ops.cast(exact, table.dtype)

    def mean_rows(self, table, token_ids):
        """Rows of the mean of a matrix.

        Args:
            table: variable or tensor `(V, k)`.
            token_ids: int32 tensor of any shape.

        Returns:
            Tensor of that shape with `k` behind.
        """
        rows = look_up(table, token_ids)
        rates = ops.take(self.rates, token_ids, axis=0)[..., None]
        rates = ops.cast(rates, rows.dtype)
        return rows + rates * (self.mean_vector(table) - rows)

    def mean_logits(self, logits, outputs, table):
        """Products with the mean of a matrix, of those with the matrix.

        The mean is the matrix with its rows scaled, and one vector more: that
        is a number for each step, and no second matrix.

        Args:
            logits: tensor `(B, T, V)`, of `outputs` and `table`.
            outputs: tensor `(B, T, k)`.
            table: variable or tensor `(V, k)`.

        Returns:
            Tensor `(B, T, V)`.
        """
        common = ops.matmul(outputs, self.mean_vector(table)[:, None])
        return logits + ops.cast(self.rates, logits.dtype) * (common - logits)

    # === Divergence ===

    def coefficients(self):
        """c_k of all words, a tensor `(V,)`."""
        rates = ops.convert_to_tensor(self.rates)
        return (1.0 - rates) + self.proposal * ops.sum(rates)

    def divergence(self, table):
        """`l2 sum_k c_k |e_k|^2` of a matrix `(V, k)`, a scalar."""
        squares = ops.sum(ops.square(table), axis=-1)
        return self.l2 * ops.sum(self.coefficients() * squares)

    def get_build_config(self):
        """Returns `None`: it is built with the embedding that has it."""
        return None

    def get_config(self):
        return {
            **super().get_config(),
            "scheme": self.scheme,
            "rate": self.rate,
            "element_wise": self.element_wise,
            "l2": self.l2,
            "prediction": self.prediction,
            "other_words": self.other_words,
            "vocabulary_size": self.vocabulary_size,
            "seed": self.seed,
        }

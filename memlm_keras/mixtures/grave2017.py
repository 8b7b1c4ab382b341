"""The neural cache of Grave, Joulin and Usunier (2017).

"Improving Neural Language Models with a Continuous Cache", Section 3.

Shapes below: B batch, T time, N cache size, k units, V vocabulary.
"""

import keras
from keras import ops

from memlm_keras.arguments import require_positive_integer
from memlm_keras.masking import masked_softmax
from memlm_keras.mixtures.base import Mixture
from memlm_keras.mixtures.base import mixed

# Values of theta and weight that are tried on a development text.
THETAS = tuple(round(0.1 * step, 1) for step in range(11))
WEIGHTS = tuple(round(0.05 * step, 2) for step in range(1, 11))


@keras.saving.register_keras_serializable(package="memlm_keras")
class NeuralCache(Mixture):
    """A cache of outputs and the words that followed them, not trained.

    With `h_t` what the output projection reads, and `x_{i+1}` the word that
    followed `h_i`,

        p_cache(w | h_1..t, x_1..t)
            ~ sum_{i=1}^{t-1} 1[w = x_{i+1}] exp(theta h_t . h_i)       (3)
        p(w) = (1 - lambda) p_vocab(w) + lambda p_cache(w)              (4)

    over the last N outputs. With `theta=0` it is a unigram cache. The paper is
    silent about an empty cache: `p_vocab` alone predicts then.

    A row's state takes `4 N (k + 1)` bytes in float32.

    Args:
        size: integer, N.
        theta: float, how much likeness counts.
        weight: float in [0, 1), lambda.
        **kwargs: arguments of `keras.layers.Layer`.

    Call arguments and results as of `Mixture`; attention is `(B, T, N)`.

    Raises:
        ValueError: if `size` is not a positive integer, `theta` is negative or
            `weight` is not in [0, 1).

    Example:

    >>> cache = memlm_keras.mixtures.NeuralCache(100, theta=0.3, weight=0.1)
    >>> log_probabilities, state, attention, _ = cache(
    ...     np.ones((2, 7, 16), "float32"),
    ...     np.ones((2, 7), "int32"),
    ...     logits=np.ones((2, 7, 50), "float32"),
    ... )
    >>> keras.ops.shape(attention)
    (2, 7, 100)
    """

    def __init__(self, size=500, theta=0.3, weight=0.1, **kwargs):
        require_positive_integer("size", size)
        if theta < 0:
            raise ValueError(
                f"`theta` must not be negative. Received: theta={theta}"
            )
        if not 0 <= weight < 1:
            raise ValueError(
                "`weight` must be at least 0 and less than 1. Received: "
                f"weight={weight}"
            )
        super().__init__(size, **kwargs)
        self.size = size
        self.theta = theta
        self.weight = weight

    def build(self, outputs_shape):
        self.build_window(outputs_shape[-1])

    def call(
        self,
        outputs,
        token_ids=None,
        logits=None,
        state=None,
        training=None,
    ):
        products, words, mask, state = self.compare(outputs, token_ids, state)
        attention = masked_softmax(self.theta * products, mask)
        log_probabilities = None
        if logits is not None:
            copied = self.copy_distribution(attention, words, logits.shape[-1])
            filled = ops.any(mask, axis=-1, keepdims=True)
            log_probabilities = mixed(
                1.0 - self.weight * ops.cast(filled, "float32"),
                logits,
                self.weight * copied,
            )
        return log_probabilities, state, attention, (attention, words)

    def compare(self, outputs, token_ids, state=None):
        """Inner products with the cache, on which `theta` has no influence.

        Args:
            outputs, token_ids, state: as for a call.

        Returns:
            A tuple of `h_t . h_i`, `(B, T, N)`; the words that followed, as
            `weight_of` takes them; the mask `(B, T, N)`; and the new state.
        """
        extended, words, mask, state = self.recall(outputs, token_ids, state)
        products = self.products(outputs, extended, self.size)
        return products, words[:, 1:], mask, state

    def pointer_log_probability(self, recalled, targets):
        """The cache's own probability of the words that came, `p_cache`."""
        return self.weight_of(*recalled, targets)

    def get_config(self):
        config = super().get_config()
        del config["kernel_initializer"]  # There is no kernel.
        return {
            **config,
            "size": self.size,
            "theta": self.theta,
            "weight": self.weight,
        }

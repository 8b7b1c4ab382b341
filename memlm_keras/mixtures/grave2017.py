"""The neural cache of Grave, Joulin and Usunier (2017).

"Improving Neural Language Models with a Continuous Cache", Section 3.

Shapes use B (batch), T (time), N (cache size), k (units) and V (vocabulary).
"""

import keras
from keras import ops

from memlm_keras.arguments import require_number
from memlm_keras.arguments import require_positive_integer
from memlm_keras.arguments import require_rate
from memlm_keras.masking import SlidingWindow
from memlm_keras.masking import masked_softmax
from memlm_keras.masking import take_steps
from memlm_keras.mixtures.base import Mixture

# Values of theta and of weight to try on a development text.
THETAS = tuple(round(0.1 * step, 1) for step in range(11))
WEIGHTS = tuple(round(0.05 * step, 2) for step in range(1, 11))


@keras.saving.register_keras_serializable(package="memlm_keras")
class NeuralCache(Mixture):
    """A cache of recent outputs and the words that followed; it has no weights.

    `h_t` is the input of the output projection, and `x_{i+1}` the word that
    followed `h_i`:

        p_cache(w | h_1..t, x_1..t)
            ~ sum_{i=1}^{t-1} 1[w = x_{i+1}] exp(theta h_t . h_i)       (3)
        p(w) = (1 - lambda) p_vocab(w) + lambda p_cache(w)              (4)

    The last N outputs are used. With `theta=0`, the layer is a unigram cache.
    With an empty cache, `p(w)` is `p_vocab(w)`; the paper leaves this open.

    In float32, the state of a row takes `4 N (k + 1)` bytes.

    Args:
        size: integer, N.
        theta: float, factor of the inner products.
        weight: float in [0, 1), lambda.
        **kwargs: arguments of `keras.layers.Layer`.

    See `Mixture` for the call arguments. Attention weights are `(B, T, N)`.

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
        require_number("theta", theta, at_least=0)
        require_rate("weight", weight)
        super().__init__(**kwargs)
        self.size = size
        self.theta = theta
        self.weight = weight

    def build(self, outputs_shape):
        self.recent = SlidingWindow(
            self.size, (outputs_shape[-1],), self.compute_dtype
        )

    def read(self, outputs, state, token_ids, mask=None, positions=None):
        products, words, seen, state = self.compare(
            outputs, state, token_ids, mask
        )
        weights = masked_softmax(self.theta * products, seen)
        of_words = self.weights_of_words(weights, words, positions)
        if positions is not None:
            weights = take_steps(weights, positions)
            seen = take_steps(seen, positions)
        filled = ops.any(seen, axis=-1, keepdims=True)
        gate = 1.0 - self.weight * ops.cast(filled, "float32")
        return (gate, self.weight * of_words, words), state, weights

    def compare(self, outputs, state, token_ids, mask=None):
        """Returns values that do not depend on `theta`: products `h_t . h_i`,
        `(B, T, N)`, the words that followed, a mask of slots, and the state."""
        extended, words, seen, state = self.slide(
            outputs, state, token_ids, mask
        )
        products = self.products(outputs, extended)
        return products, words[:, 1:], seen, state

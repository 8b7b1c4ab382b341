"""The pointer sentinel of Merity, Xiong, Bradbury and Socher (2017).

"Pointer Sentinel Mixture Models", Section 2.

Shapes use B (batch), T (time), L (window), k (units) and V (vocabulary).
"""

import keras
from keras import ops

from memlm_keras.arguments import require_positive_integer
from memlm_keras.kernels import DistinctKernels
from memlm_keras.masking import SlidingWindow
from memlm_keras.masking import ValidSteps
from memlm_keras.masking import as_mask
from memlm_keras.masking import masked_softmax
from memlm_keras.masking import take_steps
from memlm_keras.mixtures.base import Mixture
from memlm_keras.mixtures.base import safe_log


@keras.saving.register_keras_serializable(package="memlm_keras")
class PointerSentinel(DistinctKernels, Mixture):
    """A pointer to recent words; the sentinel selects the head's distribution.

    `h_t` is the input of the output projection and `w_i` the input word of step
    i, which is one of the last L steps including the current one:

        q = tanh(W h_t + b)
        z_i = q . h_i
        a = softmax([z; q . s])
        g = a_{L+1}
        p(w) = g p_vocab(w) + sum_{i: w_i = w} a_i

    In training, the loss has an additional term, where `y` is the target:

        -log(g + sum_{i: w_i = y} a_i)

    Empty slots are masked out.

    | paper | weight | shape |
    |---|---|---|
    | `W` | `query_kernel` | `(k, k)` |
    | `b` | `query_bias` | `(k,)` |
    | `s` | `sentinel` | `(k,)` |

    Args:
        window: integer, L.
        kernel_initializer: initializer of the three weights.
        **kwargs: arguments of `keras.layers.Layer`.

    See `Mixture` for the call arguments. Attention weights are `(B, T, L)` with
    the current word last, and sum to `1 - g`.

    Raises:
        ValueError: if `window` is not a positive integer.

    Example:

    >>> pointer = memlm_keras.mixtures.PointerSentinel(window=100)
    >>> log_probabilities, state, attention, _ = pointer(
    ...     np.ones((2, 7, 16), "float32"),
    ...     np.ones((2, 7), "int32"),
    ...     logits=np.ones((2, 7, 50), "float32"),
    ... )
    >>> keras.ops.shape(attention)
    (2, 7, 100)
    """

    steps_back = 0
    supervised = True

    def __init__(self, window=100, kernel_initializer="uniform", **kwargs):
        require_positive_integer("window", window)
        super().__init__(kernel_initializer, **kwargs)
        self.window = window

    def build(self, outputs_shape):
        k = outputs_shape[-1]
        self.recent = SlidingWindow(
            self.window, (k,), self.compute_dtype, current=True
        )
        self.query_kernel = self.add_kernel("query_kernel", (k, k))
        self.query_bias = self.add_kernel("query_bias", (k,))
        self.sentinel = self.add_kernel("sentinel", (k,))

    def read(self, outputs, state, token_ids, mask=None, positions=None):
        extended, words, seen, state = self.slide(
            outputs, state, token_ids, mask
        )
        query = ops.matmul(outputs, self.query_kernel) + self.query_bias
        query = ops.tanh(query)
        scores = ops.concatenate(
            [
                self.products(query, extended),
                ops.cast(ops.matmul(query, self.sentinel[:, None]), "float32"),
            ],
            axis=-1,
        )
        # The sentinel is never masked.
        always = ops.ones_like(seen[..., :1])
        every = masked_softmax(scores, ops.concatenate([seen, always], -1))
        of_words = self.weights_of_words(every[..., :-1], words, positions)
        if positions is not None:
            every = take_steps(every, positions)
        weights, gate = every[..., :-1], every[..., -1:]
        return (gate, of_words, words), state, weights

    def pointer_log_probability(self, copies, targets, mask=None):
        """Computes `log(g + sum_{i: w_i = y} a_i)` for target words y.

        Args:
            copies: the fourth result of a call of this layer.
            targets: int32 tensor `(B, T)`, one for each step.
            mask: the `mask` of the call that returned `copies`; `None` if this
                call had `positions`.

        Returns:
            float32 tensor `(B, T)`, zero at masked steps.
        """
        gate, of_words, words = copies
        if mask is not None:
            steps = ValidSteps(as_mask(mask, targets))
            targets = steps.to_front(targets)
        copied = self.copy_probability(of_words, words, targets)
        result = safe_log(gate[..., 0] + copied)
        return result if mask is None else steps.put_back(result)

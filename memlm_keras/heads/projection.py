"""Output projections, and the cross-entropy of tokens.

For a large vocabulary, logits are computed for a block of tokens at a time. In
training, a sample of the words may replace the whole vocabulary.
"""

import functools
import math

import keras
from keras import ops

from memlm_keras.arguments import Configured
from memlm_keras.arguments import deserialize
from memlm_keras.arguments import require_positive_integer
from memlm_keras.embeddings.embedding import Embedding
from memlm_keras.embeddings.embedding import look_up
from memlm_keras.gradients import with_gradient
from memlm_keras.keras_private import AutocastScope

# Number of logits that are computed at once, as one block. The computation in
# blocks multiplies the time of a training step by 0.95 for 11.2 million logits
# (PyTorch) and by 0.65 for 5 million logits (JAX).
BLOCK = 3_900_000 if keras.backend.backend() == "jax" else 11_000_000
# Bytes of a GPU's memory for each logit in a block. PyTorch waits for each
# kernel launch, so large blocks are faster. A GPU of 80 GB computes 100 million
# logits at once, for which three float32 arrays take 1.2 GB.
_BYTES = 800
# Losses are computed in blocks if logits fill more than this number of blocks.
# On JAX, a computation with a single block of logits is faster than Keras'
# loss. On TensorFlow, Keras' loss of 99 million logits takes 1.2 times the
# memory of a computation in blocks, but 0.85 of the time.
LEAST_BLOCKS = {"jax": 2 / 3, "tensorflow": 20}.get(keras.backend.backend(), 1)
# Smallest number of positions in a block: small products are slow, and each
# block updates the whole gradient of the kernel.
LEAST_ROWS = 256
# Assumed number of positions if the shape is unknown.
_USUAL_POSITIONS = 1024


def token_losses(logits, targets):
    """Computes the cross-entropy of each target, in nats.

    Args:
        logits: float tensor `(..., vocabulary)`.
        targets: integer tensor `(...)`.

    Returns:
        float32 tensor `(...)`.

    Example:

    >>> keras.ops.shape(
    ...     memlm_keras.heads.token_losses(
    ...         np.zeros((2, 7, 50)), np.ones((2, 7))
    ...     )
    ... )
    (2, 7)
    """
    # On every backend, one axis of tokens is faster than several.
    flat = ops.reshape(ops.cast(logits, "float32"), (-1, logits.shape[-1]))
    losses = ops.sparse_categorical_crossentropy(
        ops.reshape(targets, (-1,)), flat, from_logits=True
    )
    return ops.reshape(losses, ops.shape(targets))


class BlockLosses(Configured):
    """Mix-in for heads that compute losses without keeping all logits."""

    num_sampled = None

    def _sample_words(self, num_sampled):
        """Sets the number of words that a training step samples."""
        if num_sampled is not None:
            require_positive_integer("num_sampled", num_sampled)
            self.seed_generator = keras.random.SeedGenerator()
        self.num_sampled = num_sampled

    def block_kernel(self):
        """Returns the projection matrix, and whether its shape is
        `(vocabulary, units)`. Returns `None` if a call does more than multiply
        by the matrix and add a bias."""

    def token_losses(self, inputs, targets, weights=None, training=False):
        """Computes the cross-entropy of each target, in nats.

        Args:
            inputs: float tensor `(..., units)`.
            targets: int32 tensor `(...)`.
            weights: float tensor `(...)`, sample weights; `None` if unknown.
            training: bool, whether gradients will be computed. In training with
                `num_sampled`, losses are estimates.

        Returns:
            float32 tensor `(...)`; losses with a weight of 0 are undefined.

        Example:

        >>> head = memlm_keras.heads.OutputProjection(100)
        >>> outputs = np.ones((2, 7, 16), "float32")
        >>> targets = np.ones((2, 7), "int32")
        >>> keras.ops.shape(head(outputs))
        (2, 7, 100)
        >>> keras.ops.shape(head.token_losses(outputs, targets))
        (2, 7)
        """
        kernel, words_first = self.block_kernel() or (None, False)
        size = 0 if kernel is None else kernel.shape[0 if words_first else 1]
        samples = bool(training) and 0 < (self.num_sampled or 0) < size
        blocks = uses_blocks(targets.shape, size)
        if (
            kernel is None
            or not (samples or blocks or keras.backend.backend() == "torch")
            or keras.backend.standardize_dtype(kernel.dtype) != "float32"
            or self.activity_regularizer is not None
        ):
            return token_losses(self(inputs), targets)
        with AutocastScope(None):
            # Turn autocast off to sum gradients in the variables' dtype.
            kernel = ops.convert_to_tensor(kernel)
            bias = (
                ops.convert_to_tensor(self.bias)
                if self.use_bias
                else ops.zeros((size,))
            )
        inputs = ops.cast(inputs, self.compute_dtype)
        inputs = ops.reshape(inputs, (-1, inputs.shape[-1]))
        flat = ops.reshape(targets, (-1,))
        if samples:
            matrix = kernel if words_first else ops.transpose(kernel)
            sampling = self.num_sampled, self.seed_generator
            losses = sampled_losses(inputs, matrix, bias, flat, *sampling)
        elif blocks:
            losses = block_losses(
                inputs,
                kernel,
                bias,
                flat,
                None if weights is None else ops.reshape(weights, (-1,)),
                training=training and weights is not None,
                words_first=words_first,
            )
        else:
            # `addmm` of PyTorch is faster than a call, which copies the logits.
            matrix = (kernel.T if words_first else kernel).to(inputs)
            losses = token_losses(bias.to(inputs).addmm(inputs, matrix), flat)
        return ops.reshape(losses, ops.shape(targets))


# === Projections ===

# `call` methods that, with `reverse=True`, only multiply by the matrix.
_USUAL_CALLS = (Embedding.call, keras.layers.ReversibleEmbedding.call)


@keras.saving.register_keras_serializable(package="memlm_keras")
class OutputProjection(BlockLosses, keras.layers.Dense):
    """Computes logits with its own matrix: `logits = W h + b`.

    A `keras.layers.Dense`; a language model sets missing `units`.

    Args:
        units: integer, vocabulary size; `None` for the language model's.
        num_sampled: integer or `None`; see `TiedProjection`.
        **kwargs: other arguments of `keras.layers.Dense`.

    Call arguments:
        inputs: float tensor `(..., features)`.

    Returns:
        Float tensor `(..., units)`.

    Raises:
        ValueError: if the layer is built without `units` or a model.

    Example:

    >>> lm = memlm_keras.LanguageModel(
    ...     vocabulary_size=100,
    ...     embedding_dim=16,
    ...     recurrent=[keras.layers.LSTM(30)],
    ...     head=memlm_keras.heads.OutputProjection(use_bias=False),
    ... )
    >>> lm.head.units
    100
    """

    def __init__(self, units=None, num_sampled=None, **kwargs):
        # The constructor of Keras' layer does not accept `None`.
        super().__init__(1 if units is None else units, **kwargs)
        self.units = units
        self._sample_words(num_sampled)

    def build(self, input_shape):
        if self.units is None:
            raise ValueError(
                "`units` must be the size of the vocabulary, unless the "
                "projection is the `head` of a `memlm_keras.LanguageModel`. "
                "Received: units=None"
            )
        super().build(input_shape)

    def block_kernel(self):
        usual = (
            type(self).call is keras.layers.Dense.call
            and self.activation is keras.activations.linear
            and self.quantization_mode is None
        )
        return (self.kernel, False) if usual else None

    def quantize(self, mode=None, type_check=True, config=None):
        """Quantizes the matrix like `keras.layers.Dense`."""
        return super().quantize(mode, type_check=False, config=config)


@keras.saving.register_keras_serializable(package="memlm_keras")
class TiedProjection(BlockLosses, keras.layers.Layer):
    """Computes logits with the embedding matrix and an optional bias.

    `logits = E h + b`, where `E` is the embedding matrix (Press and Wolf, 2016,
    Section 2). `keras.layers.ReversibleEmbedding` projects without a bias; the
    papers in this package use a bias.

    Args:
        embedding: the `keras.layers.ReversibleEmbedding` to share; `None` for
            the embedding of the language model.
        bias_initializer: initializer of `b`.
        use_bias: whether there is a bias.
        num_sampled: integer, number of sampled words in the softmax of a
            training step; `None` for all words. Half of the sample is the
            first words of the vocabulary, which should be the most frequent
            words. The other half is drawn from the remaining words for each
            batch, and represents all of them (Jean et al., 2015, "On Using Very
            Large Target Vocabulary for Neural Machine Translation", Section 3).
            Evaluation uses all words, as does training with a quantized or
            smoothed embedding or with metrics that need logits, like accuracy.
        **kwargs: arguments of `keras.layers.Layer`.

    Call arguments:
        inputs: float tensor `(..., embedding.output_dim)`.

    Returns:
        Float tensor `(..., embedding.input_dim)`.

    Raises:
        ValueError: if the size of the inputs is not the embedding's, or the
            embedding is missing.

    Example:

    >>> embedding = keras.layers.ReversibleEmbedding(100, 16)
    >>> head = memlm_keras.heads.TiedProjection(embedding)
    >>> keras.ops.shape(head(np.ones((2, 7, 16), "float32")))
    (2, 7, 100)
    """

    def __init__(
        self,
        embedding=None,
        bias_initializer="zeros",
        use_bias=True,
        num_sampled=None,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.embedding = embedding
        self._sample_words(num_sampled)
        self.use_bias = use_bias
        self.bias_initializer = keras.initializers.get(bias_initializer)

    def build(self, input_shape):
        build_tied(self.embedding, input_shape[-1])
        if self.use_bias:
            shape = (self.embedding.input_dim,)
            start = self.bias_initializer
            self.bias = self.add_weight(shape, start, name="bias")

    def call(self, inputs):
        logits = self.embedding(inputs, reverse=True)
        return logits + self.bias if self.use_bias else logits

    def compute_output_spec(self, inputs):
        shape = (*inputs.shape[:-1], self.embedding.input_dim)
        dtype = self.embedding.reverse_dtype or self.compute_dtype
        return keras.KerasTensor(shape, dtype)

    def block_kernel(self):
        embedding = self.embedding
        usual = (
            type(self).call is TiedProjection.call
            and type(embedding).call in _USUAL_CALLS
            and embedding.reverse_dtype in (None, self.compute_dtype)
            and embedding.tie_weights
            and embedding.logit_soft_cap is None
            and embedding.quantization_mode is None
        )
        return (embedding.embeddings, True) if usual else None

    @classmethod
    def from_config(cls, config):
        return cls(**deserialize(config))


def build_tied(embedding, size):
    """Builds the embedding of a tied projection with inputs of size `size`."""
    if embedding is None:
        raise ValueError(
            "`embedding` must be a layer, unless the projection is the `head` "
            "of a `memlm_keras.LanguageModel`. Received: embedding=None"
        )
    if size != embedding.output_dim:
        raise ValueError(
            "`tie_embeddings=True` needs outputs of size embedding_dim="
            f"{embedding.output_dim}. Received: outputs of size {size}. Make "
            "both equal, or use `tie_embeddings=False`"
        )
    if not embedding.built:
        embedding.build()


# === Losses in blocks ===


def head_losses(head, outputs, targets, weights=None, training=False):
    """Computes the cross-entropy of targets for any head."""
    if isinstance(head, BlockLosses):
        return head.token_losses(outputs, targets, weights, training)
    return token_losses(head(outputs), targets)


@functools.cache
def _block_of_card():
    """Returns the number of logits in a block on a GPU, or 0 to use `BLOCK`."""
    if keras.backend.backend() == "jax":
        import jax

        return 0 if jax.default_backend() == "cpu" else 11_000_000
    if keras.backend.backend() == "torch":
        import torch

        if torch.cuda.is_available():
            return torch.cuda.get_device_properties(0).total_memory // _BYTES
    return 0


def _block():
    """Returns the number of logits in a block."""
    return max(BLOCK, _block_of_card())


def uses_blocks(shape, vocabulary_size):
    """Returns whether to compute losses of this `shape` in blocks of logits."""
    if keras.distribution.distribution() is not None:
        # Several devices would not share the blocks: each would compute all.
        return False
    known = all(isinstance(size, int) for size in shape)
    positions = math.prod(shape) if known else _USUAL_POSITIONS
    return positions * vocabulary_size > LEAST_BLOCKS * _block()


def block_losses(
    inputs,
    kernel,
    bias,
    targets,
    weights=None,
    training=False,
    words_first=False,
):
    """Computes losses, float32 `(positions,)`, for a block of the inputs
    `(positions, units)` at a time. The loss is 0 where the weight is 0."""
    # Products are computed in the dtype of the inputs, sums in float32.
    if weights is None:
        weights = ops.ones_like(targets, dtype="float32")
    weights = ops.cast(weights, "float32")

    def run(*arguments, gradients=True):
        return _run(*arguments, gradients, words_first)

    # In training, the forward pass also computes gradients of the logits,
    # `softmax - one_hot` times the weight. With `torch.utils.checkpoint`, the
    # backward pass computed the logits again and took 1.8 times as long.
    def forward(*arguments):
        losses, taken = run(*arguments, gradients=bool(training))
        return losses, (arguments, taken)

    def backward(kept, upstream):
        (*others, weights), taken = kept
        if taken is None:
            gradients = run(*others, upstream)[1]
        else:
            # `taken`, the gradients from the forward pass, assume that the
            # upstream gradients are proportional to `weights`.
            scale, proportional = _ratio(upstream, weights)
            gradients = ops.cond(
                proportional,
                lambda: tuple(
                    gradient * ops.cast(scale, gradient.dtype)
                    for gradient in taken
                ),
                lambda: run(*others, upstream)[1],
            )
        return *gradients, None, None

    def plain(*arguments):
        return run(*arguments, gradients=False)[0]

    function = with_gradient(forward, backward, plain)
    return function(inputs, kernel, bias, targets, weights)


def _run(
    inputs, kernel, bias, targets, weights, gradients=True, words_first=False
):
    """Returns losses and, if `gradients`, a tuple of gradients, else `None`."""
    positions = ops.shape(inputs)[0]
    vocabulary_size = bias.shape[0]
    dtype = inputs.dtype
    kernel = ops.cast(kernel, dtype)

    # === Sort positions without weight to the end, and pad to whole blocks ===
    blocks = -(-positions // max(_block() // vocabulary_size, LEAST_ROWS))
    rows = -(-positions // blocks)
    order = ops.argsort(ops.cast(ops.equal(weights, 0), "int32"))
    places = ops.argsort(order)
    counted = ops.sum(ops.cast(ops.not_equal(weights, 0), "int32"))

    def sort(tensor):
        padding = [[0, blocks * rows - positions], [0, 0]]
        tensor = ops.take(tensor, order, axis=0)
        return ops.pad(tensor, padding[: len(tensor.shape)])

    inputs, targets, weights = map(sort, (inputs, targets, weights))

    def start(tensor, index):
        return (index * rows, *[0] * (len(tensor.shape) - 1))

    def block(tensor, index):
        shape = (rows, *tensor.shape[1:])
        return ops.slice(tensor, start(tensor, index), shape)

    def put(tensor, index, part):
        return ops.slice_update(tensor, start(tensor, index), part)

    def body(index, losses, *sums):
        # In the loop, backends fuse this transposition with the products.
        turned = ops.transpose(kernel)
        by_unit, by_word = (turned, kernel) if words_first else (kernel, turned)
        x, t, w = (block(all_, index) for all_ in (inputs, targets, weights))
        logits = _logits(x, by_unit, bias)
        part, d_logits = _softmax_loss(logits, t, gradients)
        losses = put(losses, index, ops.where(ops.equal(w, 0), 0.0, part))
        if not gradients:
            return losses, *sums
        d_inputs, d_kernel, d_bias = sums
        d_logits *= w[:, None]
        d_bias = d_bias + ops.sum(d_logits, axis=0)
        d_logits = ops.cast(d_logits, dtype)
        left, right = (d_logits, x) if words_first else (x, d_logits)
        d_kernel = _add_product(d_kernel, ops.transpose(left), right)
        d_inputs = put(d_inputs, index, ops.matmul(d_logits, by_word))
        return losses, d_inputs, d_kernel, d_bias

    sums = [ops.zeros_like(weights)]
    if gradients:
        sums += [
            ops.zeros_like(inputs),
            ops.zeros_like(kernel, dtype="float32"),
            ops.zeros_like(bias),
        ]
    losses, *sums = _repeat(body, -(-counted // rows), sums)
    losses = ops.take(losses, places, axis=0)
    if not gradients:
        return losses, None
    d_inputs, *others = sums
    return losses, (ops.take(d_inputs, places, axis=0), *others)


def _logits(inputs, matrix, bias):
    """Computes float32 logits of inputs `(positions, units)`."""
    logits = ops.cast(ops.matmul(inputs, matrix), "float32")
    # In place on PyTorch, like `*=`: allocation costs more than arithmetic.
    logits += bias
    return logits


def _ratio(upstream, weights):
    """Returns the quotient of `upstream` gradients and `weights` at the largest
    weight, and whether this quotient is the same at all positions."""
    largest = ops.argmax(ops.abs(weights))
    scale = ops.take(upstream, largest) / ops.take(weights, largest)
    difference = ops.max(ops.abs(upstream - scale * weights))
    return scale, difference <= 1e-6 * ops.max(ops.abs(upstream))


# === Losses of a sample ===


def sampled_losses(inputs, matrix, bias, targets, number, seed):
    """Estimates the cross-entropy of targets, float32 `(positions,)`, with a
    sample of `number` words. `matrix` is `(vocabulary, units)`."""
    size, first = bias.shape[0], number // 2
    drawn = keras.random.randint((number - first,), first, size, seed=seed)
    words = ops.concatenate([ops.arange(first, dtype="int32"), drawn])
    # A drawn word represents several words, so add the logarithm of their
    # number to its logit.
    share = math.log((size - first) / (number - first))
    corrections = ops.where(words < first, 0.0, share)
    # Look up all rows at once: each lookup's gradient is a whole table.
    ids = ops.concatenate([targets, words])
    rows, biases = look_up(matrix, ids), look_up(bias, ids)
    count = ops.shape(targets)[0]
    of_targets = ops.cast(rows[:count], "float32")
    at_target = ops.sum(ops.cast(inputs, "float32") * of_targets, axis=-1)
    at_target = at_target + biases[:count]
    at_sample = _log_sums(
        inputs,
        ops.cast(rows[count:], inputs.dtype),
        biases[count:] + corrections,
        ops.equal(words, targets[:, None]),
    )
    return ops.softplus(at_sample - at_target)


def _log_sums(inputs, rows, biases, hidden):
    """Computes `logsumexp`, `(positions,)`, of logits that are not `hidden`."""

    def forward(inputs, rows, biases, hidden):
        logits = _logits(inputs, ops.transpose(rows), biases)
        logits = ops.where(hidden, -1e9, logits)
        highest = ops.max(logits, axis=-1)
        logits -= highest[:, None]
        shares = ops.exp(logits)
        sums = ops.sum(shares, axis=-1)
        return highest + ops.log(sums), (inputs, rows, shares, sums)

    def backward(kept, upstream):
        inputs, rows, shares, sums = kept
        shares *= (upstream / sums)[:, None]
        d_biases = ops.sum(shares, axis=0)
        d_logits = ops.cast(shares, inputs.dtype)
        d_rows = ops.matmul(ops.transpose(d_logits), inputs)
        return ops.matmul(d_logits, rows), d_rows, d_biases, None

    return with_gradient(forward, backward)(inputs, rows, biases, hidden)


# === Operations that differ between backends ===


def _softmax_loss(logits, targets, gradient):
    """Returns losses and the gradients of logits; may overwrite `logits`."""
    backend = keras.backend.backend()
    if backend == "tensorflow":
        import tensorflow as tf

        return tf.raw_ops.SparseSoftmaxCrossEntropyWithLogits(
            features=logits, labels=targets
        )
    targets = targets[:, None]
    if backend == "torch":
        logits -= logits.amax(dim=1, keepdim=True)
        at_target = logits.gather(1, targets := targets.long())
        softmax = logits.exp_()
        sums = softmax.sum(dim=1, keepdim=True)
        losses = (sums.log() - at_target)[:, 0]
        if not gradient:
            return losses, None
        minus = sums.new_full(sums.shape, -1.0)
        return losses, softmax.div_(sums).scatter_add_(1, targets, minus)
    total = ops.logsumexp(logits, axis=-1, keepdims=True)
    at_target = ops.take_along_axis(logits, targets, axis=-1)
    losses = (total - at_target)[:, 0]
    if not gradient:
        return losses, None
    words = ops.arange(logits.shape[-1], dtype=targets.dtype)
    one_hot = ops.cast(ops.equal(words, targets), "float32")
    return losses, ops.exp(logits - total) - one_hot


def _add_product(total, left, right):
    if keras.backend.backend() == "torch" and left.dtype == total.dtype:
        return total.addmm_(left, right)
    return total + ops.cast(ops.matmul(left, right), total.dtype)


def _repeat(body, times, values):
    """Repeats `values = body(index, *values)` for each index below `times`."""
    backend = keras.backend.backend()
    if backend == "torch":
        for index in range(int(times)):
            values = body(index, *values)
        return values
    if backend == "jax":
        import jax

        return jax.lax.fori_loop(
            0, times, lambda index, values: body(index, *values), tuple(values)
        )
    import tensorflow as tf

    _, *values = tf.while_loop(
        lambda index, *values: index < times,
        lambda index, *values: (index + 1, *body(index, *values)),
        (0, *values),
        parallel_iterations=1,
    )
    return values

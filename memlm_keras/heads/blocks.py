"""Cross-entropy over a large vocabulary, without holding all of its logits.

The positions of a batch are projected in blocks, and what is kept of a block
are its losses. In training the gradient of a block, `softmax(logits) -
one_hot(target)`, is taken there and then, multiplied by the weights that the
positions are to have in the loss. So nothing is computed twice, as by
`torch.utils.checkpoint`, which took 1.8 times as long. If the loss weighs the
positions otherwise in the end, the blocks are computed once more.
"""

import math

import keras
from keras import ops

# What variables are cast to in a layer's call; it has no public name.
from keras.src.backend.common.variables import AutocastScope

from memlm_keras.gradients import with_gradient
from memlm_keras.heads.losses import token_losses

# Logits of a block, and from how many on there are blocks: at 11.2 million a
# step, whose gradient is then taken in the forward pass, takes 0.95 of the time
# on PyTorch and 0.85 on JAX.
BLOCK = 11_000_000
# TensorFlow's own loss works nearly in place: at 99 million logits it holds
# 1.2 times as much as blocks, and takes 0.85 of their time.
LEAST_BLOCKS = 20 if keras.backend.backend() == "tensorflow" else 1
# Smaller products are slow, and the gradient of the kernel is added up over
# blocks.
LEAST_ROWS = 256
# Where the number of positions is not known in advance, as many as this.
_USUAL_POSITIONS = 1024


class BlockLosses:
    """Mix-in for heads, with the losses of tokens in place of their logits.

    It stands before a Keras layer among the bases of a class.
    """

    def block_kernel(self):
        """The matrix whose product with the inputs is all that a call does.

        Returns:
            `(kernel, words_first)`: a variable, and whether it is
            `(vocabulary, units)` rather than `(units, vocabulary)`. `None`
            where a call does anything else besides adding the bias.
        """
        raise NotImplementedError(
            f"{type(self).__name__} must implement `block_kernel`."
        )

    def token_losses(self, inputs, targets, weights=None, training=False):
        """Cross-entropy of each target, in nats.

        Args:
            inputs: float tensor `(..., units)`.
            targets: int32 tensor `(...)`.
            weights: float tensor `(...)`, what the losses will be multiplied
                by; `None` for ones.
            training: bool, whether gradients are wanted.

        Returns:
            float32 tensor `(...)`; where the weight is 0, any number.

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
        if (
            not uses_blocks(targets.shape, size)
            or keras.backend.standardize_dtype(kernel.dtype) != "float32"
            or self.activity_regularizer is not None
        ):
            return token_losses(self(inputs), targets)
        with AutocastScope(None):
            # Gradients are summed in the dtype of the variables.
            kernel = ops.convert_to_tensor(kernel)
            bias = (
                ops.convert_to_tensor(self.bias)
                if self.use_bias
                else ops.zeros((size,))
            )
        losses = block_losses(
            ops.reshape(
                ops.cast(inputs, self.compute_dtype), (-1, inputs.shape[-1])
            ),
            kernel,
            bias,
            ops.reshape(targets, (-1,)),
            None if weights is None else ops.reshape(weights, (-1,)),
            training=training,
            words_first=words_first,
        )
        return ops.reshape(losses, ops.shape(targets))


def head_losses(head, outputs, targets, weights=None, training=False):
    """Losses of targets by any head, without logits if it can.

    Args:
        head: layer from outputs to logits.
        outputs, targets, weights, training: as of `BlockLosses.token_losses`.

    Returns:
        float32 tensor of the shape of the targets.
    """
    if isinstance(head, BlockLosses):
        return head.token_losses(outputs, targets, weights, training)
    return token_losses(head(outputs), targets)


def uses_blocks(shape, vocabulary_size):
    """Whether losses are computed in blocks.

    Args:
        shape: of the targets; some of it may not be known yet.
        vocabulary_size: integer.
    """
    if keras.distribution.distribution() is not None:
        # A device holds the logits of its own rows, and each block would be
        # computed by all of them.
        return False
    known = all(isinstance(size, int) for size in shape)
    positions = math.prod(shape) if known else _USUAL_POSITIONS
    return positions * vocabulary_size > LEAST_BLOCKS * BLOCK


def block_losses(
    inputs,
    kernel,
    bias,
    targets,
    weights=None,
    training=False,
    words_first=False,
):
    """Cross-entropy of each target, in nats, computed in blocks.

    Products are of the dtype of the inputs, all sums over blocks and over the
    vocabulary of float32. Positions of weight 0 are left out, as far as they
    fill blocks.

    Args:
        inputs: float tensor `(positions, units)`.
        kernel: float32 tensor `(units, vocabulary)`.
        bias: float32 tensor `(vocabulary,)`.
        targets: int32 tensor `(positions,)`.
        weights: float tensor `(positions,)`, what the losses will be
            multiplied by; `None` for ones.
        training: bool, whether gradients are to be taken at once.
        words_first: bool, whether the kernel is `(vocabulary, units)`.

    Returns:
        float32 tensor `(positions,)`, 0 where the weight is 0.
    """
    if weights is None:
        weights = ops.ones_like(targets, dtype="float32")
    weights = ops.cast(weights, "float32")

    def run(*arguments, gradients=True):
        return _run(*arguments, gradients, words_first)

    def forward(*arguments):
        losses, taken = run(*arguments, gradients=bool(training))
        return losses, (arguments, taken)

    def backward(kept, upstream):
        (*others, weights), taken = kept
        if taken is None:
            found = run(*others, upstream)[1]
        else:
            scale, same = _ratio(upstream, weights)
            found = ops.cond(
                same,
                lambda: tuple(_scaled(gradient, scale) for gradient in taken),
                lambda: run(*others, upstream)[1],
            )
        return *found, None, None

    def plain(*arguments):
        return run(*arguments, gradients=False)[0]

    function = with_gradient(forward, backward, plain)
    return function(inputs, kernel, bias, targets, weights)


def _run(
    inputs, kernel, bias, targets, weights, gradients=True, words_first=False
):
    """Computes all blocks.

    Returns:
        `(losses, gradients)`: float32 `(positions,)`, and the gradients of
        inputs, kernel and bias of the weighted sum of the losses, or `None`.
    """
    positions = ops.shape(inputs)[0]
    vocabulary_size = bias.shape[0]
    dtype = inputs.dtype
    kernel = ops.cast(kernel, dtype)

    # === Positions that count before the others, filled up to whole blocks ===
    blocks = -(-positions // max(BLOCK // vocabulary_size, LEAST_ROWS))
    rows = -(-positions // blocks)
    order = ops.argsort(ops.cast(ops.equal(weights, 0), "int32"))
    places = ops.argsort(order)
    counted = ops.sum(ops.cast(ops.not_equal(weights, 0), "int32"))

    def sort(tensor):
        behind = [[0, blocks * rows - positions], [0, 0]]
        tensor = ops.take(tensor, order, axis=0)
        return ops.pad(tensor, behind[: len(tensor.shape)])

    inputs, targets, weights = map(sort, (inputs, targets, weights))

    def start(tensor, index):
        return (index * rows, *[0] * (len(tensor.shape) - 1))

    def block(tensor, index):
        shape = (rows, *tensor.shape[1:])
        return ops.slice(tensor, start(tensor, index), shape)

    def put(tensor, index, part):
        return ops.slice_update(tensor, start(tensor, index), part)

    def body(index, losses, *sums):
        # In the loop, where backends make it a part of the products.
        turned = ops.transpose(kernel)
        by_unit, by_word = (turned, kernel) if words_first else (kernel, turned)
        x, t, w = (block(part, index) for part in (inputs, targets, weights))
        logits = ops.cast(ops.matmul(x, by_unit), "float32") + bias
        found, d_logits = _softmax_loss(logits, t, gradients)
        losses = put(losses, index, ops.where(ops.equal(w, 0), 0.0, found))
        if not gradients:
            return losses, *sums
        d_inputs, d_kernel, d_bias = sums
        d_logits = d_logits * w[:, None]
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


def _ratio(upstream, weights):
    """Factor that makes the one of the other, and whether there is one."""
    largest = ops.argmax(ops.abs(weights))
    scale = ops.take(upstream, largest) / ops.take(weights, largest)
    difference = ops.max(ops.abs(upstream - scale * weights))
    return scale, difference <= 1e-6 * ops.max(ops.abs(upstream))


def _scaled(gradient, scale):
    return gradient * ops.cast(scale, gradient.dtype)


# === What each backend does in its own way ===


def _softmax_loss(logits, targets, gradient):
    """Losses of logits, and their gradients, which take the logits' place."""
    backend = keras.backend.backend()
    if backend == "tensorflow":
        import tensorflow as tf

        return tf.raw_ops.SparseSoftmaxCrossEntropyWithLogits(
            features=logits, labels=targets
        )
    targets = targets[:, None]
    total = ops.logsumexp(logits, axis=-1, keepdims=True)
    at_target = ops.take_along_axis(logits, targets, axis=-1)
    losses = (total - at_target)[:, 0]
    if not gradient:
        return losses, None
    if backend == "torch":
        # In place, as memory that is new takes longer than the arithmetic.
        softmax = logits.sub_(total).exp_()
        ones = softmax.new_ones(targets.shape)
        return losses, softmax.scatter_add_(1, targets.long(), -ones)
    words = ops.arange(logits.shape[-1], dtype=targets.dtype)
    one_hot = ops.cast(ops.equal(words, targets), "float32")
    return losses, ops.exp(logits - total) - one_hot


def _add_product(total, left, right):
    if keras.backend.backend() == "torch" and left.dtype == total.dtype:
        return total.addmm_(left, right)
    return total + ops.cast(ops.matmul(left, right), total.dtype)


def _repeat(body, times, values):
    """Calls `body(index, *values)` so often; one call after the other."""
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

"""Training of an AM-GRU over whole sequences: its backward pass, by hand.

Weissenborn (2016), Equations 8 to 13. The forward pass runs the cell's own
steps. Differentiated automatically, each step keeps the whole memory for the
way back and adds to the gradient of each matrix. Here

* the memory before a step is what it was behind it, less what was written;
* the gradient of a matrix is one product over all steps, behind the loop;
* the permutations of keys are look-ups there and back;
* the loop backward carries what its next step reads, as XLA on a CPU would
  otherwise slice the sequence once for each copy of the memory.

Gradients are those of the steps themselves, to rounding of float32. In
bfloat16 what is written could not be taken back, and steps are differentiated.
On PyTorch, `associative_torch` does the same in place.
"""

import keras
from keras import ops

# The loop over time of every Keras recurrent layer; it has no public name.
from keras.src.backend import rnn

from memlm_keras.cells import complex_vectors
from memlm_keras.cells.complex_vectors import join
from memlm_keras.cells.complex_vectors import split
from memlm_keras.gradients import with_gradient


def look_up(key, positions):
    """The copies of a key: a pair `(H / 2, N_c, B)` of one of `(H / 2, B)`.

    Args:
        key: pair of float tensors.
        positions: int tensor `(H / 2, N_c)`, a permutation in each column.
    """
    return tuple(ops.take(part, positions, axis=0) for part in key)


def inverse_of(positions):
    """Where each number is in all copies, their rows one behind the other."""
    copies = positions.shape[1]
    inverse = ops.cast(ops.argsort(positions, axis=0), "int32")
    return inverse * copies + ops.arange(copies, dtype="int32")


def gradient_of_look_up(upstream, inverse):
    """The gradient of a key, of that of its copies."""

    def summed(part):
        numbers, copies, batch = ops.shape(part)
        rows = ops.reshape(part, (numbers * copies, batch))
        return ops.sum(ops.take(rows, inverse, axis=0), axis=1)

    return tuple(summed(part) for part in upstream)


def turn(memory):
    """Copies of a memory with their axes the other way round."""
    return tuple(ops.transpose(part, (2, 1, 0)) for part in memory)


def run(cell, projected, states, mask=None):
    """Runs a cell over a sequence.

    Args:
        cell: an `AssociativeGRUCell` or a `DualAssociativeGRUCell`.
        projected: float32 tensor `(B, T, projected units)`, as of the cell's
            `project_inputs`.
        states: list of the states before, as of the cell.
        mask: optional bool tensor `(B, T)`, `True` where a step counts.

    Returns:
        The outputs, `(B, T, H)`, those of steps that do not count as of the
        step before, and the list of the states behind.
    """
    h, count = cell.units, len(states)
    positions, weights = cell.shared_by_steps()
    if mask is not None:
        mask = ops.transpose(ops.cast(mask, "bool"))[:, None]

    def forward(projected, *others):
        states, weights = others[:count], others[count:]
        kept, memory = _forward(
            cell, projected, states, positions, weights, mask
        )
        results = ops.transpose(kept[:, :h], (2, 0, 1)), cell.flat(turn(memory))
        return results, (states, weights, kept, memory)

    def backward(kept, d_outputs, d_memory):
        states, weights, kept, memory = kept
        return _backward(
            cell,
            states,
            positions,
            weights,
            mask,
            kept,
            memory,
            d_outputs,
            d_memory,
        )

    outputs, memory = with_gradient(forward, backward)(
        projected, *states, *weights
    )
    return outputs, [outputs[:, -1], memory, *states[2:]]


def _loop(step, inputs, states, go_backwards=False):
    """Outputs of all steps, `(T, ...)` as the loop goes, and states."""
    _, outputs, states = rnn(
        step,
        inputs,
        states,
        go_backwards=go_backwards,
        # Open time is a tensor; a list holds it, as Keras would take a bare one
        # for lengths to mask by.
        input_length=[ops.shape(keras.tree.flatten(inputs)[0])[0]],
        time_major=True,
        # There, each loop would compute its first step twice.
        unroll=keras.backend.backend() == "torch",
    )
    return outputs, states


def _forward(cell, projected, states, positions, weights, mask):
    """Returns what the way back needs, `(T, ..., B)`, and the memory."""
    memory, *source = [turn(memory) for memory in cell.memories(states)]

    def step(inputs, states):
        projected, *mask = inputs
        hidden, *memory = states
        memory, kept = cell.advance(
            projected, hidden, [memory, *source], positions, weights, *mask
        )
        return ops.concatenate(kept, axis=0), [kept[0], *memory]

    inputs = (ops.transpose(projected, (1, 2, 0)),)
    if mask is not None:
        inputs = (*inputs, mask)
    kept, (_, *memory) = _loop(
        step, inputs, [ops.transpose(states[0]), *memory]
    )
    return kept, memory


def _backward(
    cell,
    states,
    positions,
    weights,
    mask,
    kept,
    memory,
    d_outputs,
    d_memory,
):
    """Gradients of the projected inputs, the states and the weights."""
    h, copies, count = cell.units, cell.num_copies, cell.num_keys
    hidden = ops.transpose(states[0])
    source = [turn(memory) for memory in cell.memories(states)[1:]]
    # Gradients go by the matrices the other way round.
    to_hidden, to_value, to_source = [
        ops.transpose(weights[index]) for index in (0, 1, -1)
    ]
    inverse = inverse_of(positions)
    d_memory = turn(cell.copies(d_memory))

    inputs = [kept, ops.transpose(d_outputs, (1, 2, 0))]
    if mask is not None:
        inputs.append(ops.cast(mask, kept.dtype))
    inputs = ops.concatenate(inputs, axis=1)
    sizes = [h, count * h, h, h, h, h, h, *[h] * len(source)]

    def step(following, states):
        at, d_hidden, *pairs = states
        d_memory, memory, d_source = pairs[:2], pairs[2:4], pairs[4:]
        _, projected_keys, update, reset, candidate, written, value, *rest = (
            _parts(at, [*sizes, h], axis=0)
        )
        d_hidden = d_hidden + rest[-1]
        keys = [
            split(key, 0) for key in _parts(projected_keys, [h] * count, axis=0)
        ]
        permuted = [look_up(cell.as_key(key), positions) for key in keys]
        memory = _added(memory, permuted[0], -written)
        d_output = d_hidden
        d_written = copies * join(
            complex_vectors.read(permuted[0], d_memory), 0
        )
        if mask is not None:
            d_output, d_written = d_output * at[-1:], d_written * at[-1:]
        d_written = d_output + d_written
        d_candidate = d_written * update * (1.0 - candidate * candidate)
        d_reset_value = to_value[:, 2 * h :] @ d_candidate
        d_both = join(
            [
                d_written * (candidate - value) * update * (1.0 - update),
                d_reset_value * value * reset * (1.0 - reset),
            ],
            0,
        )
        d_value = d_output - d_written * update + d_reset_value * reset
        d_value = d_value + to_value[:, : 2 * h] @ d_both
        d_value = d_value / copies
        d_gates = join([d_both, d_candidate], 0)
        of_write = _gradient_of_keys(d_memory, written)
        of_read = _gradient_of_keys(memory, d_value)
        d_keys = [[of_write[0] + of_read[0], of_write[1] + of_read[1]]]
        d_memory = _added(d_memory, permuted[0], d_value)
        if source:
            d_read = to_source @ d_gates / copies
            d_key = _gradient_of_keys(source[0], d_read)
            if count == 1:
                (own,) = d_keys
                d_keys = [[own[0] + d_key[0], own[1] + d_key[1]]]
            else:
                d_keys.append(d_key)
            d_source = _added(d_source, permuted[-1], d_read)
        d_projected = []
        for key, d_key in zip(keys, d_keys):
            d_key = gradient_of_look_up(d_key, inverse)
            d_projected += complex_vectors.normalize_gradient(
                key, d_key, cell.key
            )
        d_projected = join([*d_projected, d_gates], 0)
        d_before = to_hidden @ d_projected
        if mask is not None:
            d_before = d_before + d_hidden * (1.0 - at[-1:])
        return d_projected, [following, d_before, *d_memory, *memory, *d_source]

    begin = [inputs[-1], ops.zeros_like(hidden), *d_memory, *memory]
    if source:
        begin += [ops.zeros_like(part) for part in source[0]]
    following = ops.concatenate([inputs[:1], inputs[:-1]])
    d_projected, (_, d_hidden, *pairs) = _loop(
        step, following, begin, go_backwards=True
    )
    d_projected = ops.flip(d_projected, axis=0)

    outputs, _, _, reset, _, _, value, *rest = _parts(kept, sizes, axis=1)
    before = ops.concatenate([hidden[None], outputs[:-1]])
    d_gates = d_projected[:, count * h :]
    d_weights = [
        _product(d_projected, before),
        ops.concatenate(
            [
                _product(d_gates[:, : 2 * h], value),
                _product(d_gates[:, 2 * h :], reset * value),
            ],
            axis=0,
        ),
        ops.sum(d_gates, axis=(0, 2))[:, None],
        *(_product(d_gates, read) for read in rest),
    ]
    d_states = [ops.transpose(d_hidden), cell.flat(turn(pairs[:2]))]
    if source:
        d_states.append(cell.flat(turn(pairs[4:])))
    return (ops.transpose(d_projected, (2, 0, 1)), *d_states, *d_weights)


def _parts(joined, sizes, axis):
    """Cuts an axis into parts of these sizes."""
    parts, start, before = [], 0, (slice(None),) * axis
    for size in sizes:
        parts.append(joined[(*before, slice(start, start + size))])
        start += size
    return parts


def _added(memory, keys, value):
    """Adds a vector `(H, B)` to a memory, or to a gradient of one."""
    return complex_vectors.write(keys, split(value, 0), memory)


def _gradient_of_keys(memory, value):
    """Gradient of keys that wrote a value to a memory of that gradient.

    And, as both are products of the keys, of keys that read a value of that
    gradient from the memory.
    """
    re, im = split(value[:, None], 0)
    return complex_vectors.encode(memory, (re, -im))


def _product(left, right):
    """Sum over time and batch of outer products, as one matrix product."""
    left, right = (
        ops.reshape(ops.transpose(steps, (1, 0, 2)), (steps.shape[1], -1))
        for steps in (left, right)
    )
    return ops.matmul(left, ops.transpose(right))

"""Runs `AssociativeGRUCell` over sequences, with a hand-written backward pass.

Weissenborn (2016), Equations 8 to 13. On JAX and TensorFlow, the forward pass
runs the cell's own steps. Automatic differentiation would store the whole
memory and update the gradient of each matrix at each step. Instead:

* the backward pass recovers the memory before a step by subtracting the change
  that the step wrote;
* the gradient of a matrix is one product over all steps, after the loop;
* keys and their gradients are permuted by look-ups, never by a slow scatter.

Gradients equal those of automatic differentiation, up to rounding. Only float32
is supported, since bfloat16 is too inexact to recover a memory by subtraction.

Shapes use B (batch), T (time), H (units) and N_c (copies of the memory).
"""

import collections
import types

import keras
from keras import ops

from memlm_keras.cells import complex_vectors
from memlm_keras.cells.complex_vectors import join
from memlm_keras.cells.complex_vectors import look_up
from memlm_keras.cells.complex_vectors import reverse_axes
from memlm_keras.cells.complex_vectors import split
from memlm_keras.cells.fused import loop
from memlm_keras.gradients import with_gradient

if keras.backend.backend() == "torch":
    import torch


def run(cell, projected, states, mask=None):
    """Runs an `AssociativeGRUCell` over projected inputs `(B, T, ...)`; returns
    outputs `(B, T, H)` and new states."""
    in_backend = _run_in_place if keras.backend.backend() == "torch" else _run
    outputs, memory = in_backend(cell, projected, states, mask)
    return outputs, [outputs[:, -1], memory, *states[2:]]


# === JAX and TensorFlow ===
# The batch is the last axis of memories and of what is multiplied with them. On
# a CPU, XLA repeats cheap operations, such as slices, for each of the copies of
# a memory. So a product of matrices computes `d_value` in the layout of the
# memory, and each step passes the next step its keys as a state.


def _run(cell, projected, states, mask):
    count, h, rows = len(states), cell.units, (cell.num_keys + 1) * cell.units
    size = (5 + cell.reads_source) * h
    positions, weights = cell.shared_by_steps()
    masks = []
    if mask is not None:
        masks = [ops.transpose(ops.cast(mask, "bool"))[..., None]]

    def forward(projected, *others):
        states, weights = others[:count], others[count:]
        memory, *source = map(reverse_axes, cell.memories(states))

        def step(states, at):
            projected, *mask = at
            hidden, *memory = states
            memories = [memory, *source]
            memory, kept = cell.advance(
                projected, hidden, memories, positions, weights, *mask
            )
            output, keys, both, candidate, written, *values = kept
            return (output, *memory), (
                join([output, both, candidate, *values]),
                ops.transpose(join([keys, written])),
            )

        batch = states[0].shape[0]
        (_, *memory), kept = loop(
            step,
            (states[0], *memory),
            [ops.swapaxes(projected, 0, 1), *masks],
            shapes=((batch, size), (rows, batch)),
        )
        outputs = ops.swapaxes(kept[0][..., :h], 0, 1)
        results = outputs, cell.flat(reverse_axes(memory))
        return results, (states, weights, kept, memory)

    def backward(kept, d_outputs, d_memory):
        return _backward(cell, positions, masks, kept, d_outputs, d_memory)

    return with_gradient(forward, backward)(projected, *states, *weights)


def _backward(cell, positions, masks, kept, d_outputs, d_memory):
    """Returns the gradients of projected inputs, states and weights."""
    h, copies, count = cell.units, cell.num_copies, cell.num_keys
    states, weights, (columns, rows), memory = kept
    source = [reverse_axes(memory) for memory in cell.memories(states)[1:]]
    to_hidden, to_reset_value = (ops.transpose(weights[i]) for i in (0, 2))
    # Row n contains the positions of the n-th complex number in all copies.
    inverse = ops.cast(ops.argsort(positions, axis=0), "int32")
    inverse = inverse * copies + ops.arange(copies, dtype="int32")
    # The product with these columns adds a vector to `d_both @ of_value.T`.
    of_value = weights[1]
    of_value = join([of_value, ops.eye(h, dtype=of_value.dtype)]) / copies
    following = ops.concatenate([rows[:1], rows[:-1]])

    def step(states, at):
        d_hidden, rows, *pairs = states
        columns, following, d_output, *mask = at
        d_memory, memory, d_source = pairs[:2], pairs[2:4], pairs[4:]
        _, update, reset, candidate, value, *_ = _parts(columns, h)
        *keys, written = (
            split(rows[h * i : h * (i + 1)], 0) for i in range(count + 1)
        )
        permuted = [look_up(cell.as_key(key), positions) for key in keys]
        memory = complex_vectors.write(
            permuted[0], [-part for part in written], memory
        )
        d_hidden = d_output = d_hidden + d_output
        d_written = complex_vectors.read(permuted[0], d_memory)
        d_written = copies * ops.transpose(join(d_written, 0))
        for valid in mask:
            d_output = ops.where(valid, d_output, ops.zeros_like(d_output))
            d_written = ops.where(valid, d_written, ops.zeros_like(d_written))
        d_written = d_output + d_written
        d_candidate = d_written * update * (1.0 - candidate * candidate)
        d_reset_value = d_candidate @ to_reset_value
        d_gates = join(
            [
                d_written * (candidate - value) * update * (1.0 - update),
                d_reset_value * value * reset * (1.0 - reset),
                d_candidate,
            ]
        )
        d_value = d_output - d_written * update + d_reset_value * reset
        d_value = join([d_gates[:, : 2 * h], d_value])
        d_value = split(of_value @ ops.transpose(d_value), 0)
        of_write = _keys_gradient(d_memory, written)
        of_read = _keys_gradient(memory, d_value)
        d_keys = [[of_write[0] + of_read[0], of_write[1] + of_read[1]]]
        d_memory = complex_vectors.write(permuted[0], d_value, d_memory)
        if source:
            d_read = split(weights[-1] @ ops.transpose(d_gates) / copies, 0)
            d_key = _keys_gradient(source[0], d_read)
            if count == 1:
                (own,) = d_keys
                d_keys = [[own[0] + d_key[0], own[1] + d_key[1]]]
            else:
                d_keys.append(d_key)
            d_source = complex_vectors.write(permuted[-1], d_read, d_source)
        d_projected = []
        for key, d_key in zip(keys, d_keys):
            d_key = _look_up_gradient(d_key, inverse)
            d_projected += complex_vectors.normalize_gradient(
                key, d_key, cell.key
            )
        d_projected = join([ops.transpose(join(d_projected, 0)), d_gates])
        d_before = d_projected @ to_hidden
        for valid in mask:
            d_before = ops.where(valid, d_before, d_before + d_hidden)
        return (d_before, following, *d_memory, *memory, *d_source), (
            d_projected,
        )

    begin = [
        ops.zeros_like(states[0]),
        rows[-1],
        *reverse_axes(cell.copies(d_memory)),
        *memory,
        *(ops.zeros_like(part) for pair in source for part in pair),
    ]
    (d_hidden, _, *pairs), (d_projected,) = loop(
        step,
        tuple(begin),
        [columns, following, ops.swapaxes(d_outputs, 0, 1), *masks],
        shapes=((states[0].shape[0], to_hidden.shape[0]),),
        reverse=True,
    )

    outputs, _, reset, _, value, *rest = _parts(columns, h)
    before = ops.concatenate([states[0][None], outputs[:-1]])
    d_gates = d_projected[..., count * h :]
    d_weights = [
        _product(before, d_projected),
        _product(value, d_gates[..., : 2 * h]),
        _product(reset * value, d_gates[..., 2 * h :]),
        ops.sum(d_gates, axis=(0, 1))[None],
        *(_product(read, d_gates) for read in rest),
    ]
    d_states = [d_hidden, cell.flat(reverse_axes(pairs[:2]))]
    if source:
        d_states.append(cell.flat(reverse_axes(pairs[4:])))
    return (ops.swapaxes(d_projected, 0, 1), *d_states, *d_weights)


def _parts(joined, size):
    """Splits the last axis into parts of a size."""
    return ops.split(joined, joined.shape[-1] // size, axis=-1)


def _keys_gradient(memory, value):
    """Returns the gradient of keys. For a write, `memory` is the gradient of
    the memory, and `value` is the written value. For a read, `memory` is the
    memory itself, and `value` is the gradient of the value that was read."""
    re, im = (part[:, None] for part in value)
    return complex_vectors.encode(memory, (re, -im))


def _look_up_gradient(upstream, inverse):
    """Returns a key's gradient, the sum of those of its permuted copies."""

    def summed(part):
        numbers, copies, batch = ops.shape(part)
        rows = ops.reshape(part, (numbers * copies, batch))
        return ops.sum(complex_vectors.take(rows, inverse), axis=1)

    return tuple(summed(part) for part in upstream)


def _product(left, right):
    """Sums outer products over time and batch in one matrix product."""
    left, right = (
        ops.reshape(steps, (-1, steps.shape[-1])) for steps in (left, right)
    )
    return ops.matmul(ops.transpose(left), right)


# === PyTorch ===
# Memories, keys, and what is read or written are complex; the rest is real.
# Buffers are allocated once, operations write in place, and all views are made
# before the loop, since making a view takes as long as a small operation.


def _run_in_place(cell, projected, states, mask):
    positions, weights = cell.shared_by_steps()
    recurrent, of_gates, of_candidate, bias, *source = weights
    gates = 2 * cell.units
    loop = _Loop(cell, positions.T, len(projected), mask)
    memories = [torch.stack(pair, dim=-1) for pair in cell.memories(states)]
    outputs, memory = with_gradient(loop.forward, loop.backward)(
        projected.transpose(0, 1),
        states[0],
        bias[0],
        recurrent,
        torch.cat([of_gates, *(kernel[:, :gates] for kernel in source)]),
        torch.cat([*(kernel[:, gates:] for kernel in source), of_candidate]),
        torch.stack(memories),
    )
    return outputs.transpose(0, 1), cell.flat(memory.unbind(dim=-1))


def _halves(vectors, count=None):
    """Views vectors, real `(..., H)` or complex `(..., H / 2)`, as real and
    imaginary halves `(..., 2, H / 2)`. With `count`, first splits each row of
    `(..., B, count H)` into vectors; returns `(..., count, B, 2, H / 2)`."""
    if vectors.is_complex():
        return torch.view_as_real(vectors).transpose(-1, -2)
    if count:
        return vectors.unflatten(-1, (count, 2, -1)).movedim(-3, -4)
    return vectors.unflatten(-1, (2, -1))


# Views of a tensor of projected inputs: all columns, the keys before they are
# normalized, both gates, each of the gates, and the candidate.
_Parts = collections.namedtuple("_Parts", "all raw both update reset candidate")


def _steps(**tensors):
    """Splits tensors by step; returns a namespace of views for each step."""
    return [
        types.SimpleNamespace(**dict(zip(tensors, views)))
        for views in zip(*tensors.values())
    ]


class _Loop:
    """Computes all steps of a cell, forward and backward."""

    def __init__(self, cell, positions, batch, mask):
        self.units, self.num_keys = cell.units, cell.num_keys
        self.least = complex_vectors.KEYS[cell.key]
        self.copies, self.numbers = positions.shape
        first = torch.arange(self.copies, device=positions.device)
        inverse = first[:, None] * self.numbers + positions.argsort(dim=1)
        # Repeat the permutations for each row: `gather` needs indices for each
        # row, but takes less than half the time of `index_select`.
        self.positions, self.inverse = (
            index.flatten().long().expand(self.num_keys * batch, -1)
            for index in (positions, inverse)
        )
        self.mask = None if mask is None else mask.T[..., None].float()

    def _parts(self, columns):
        h = self.units
        raw = _halves(columns[..., : self.num_keys * h], self.num_keys)
        both, candidate = columns[..., -3 * h : -h], columns[..., -h:]
        gates = both, both[..., :h], both[..., h:]
        return _Parts(columns, raw, *gates, candidate)

    def _buffers(self, memories):
        """Allocates buffers for permuted keys, conjugate keys and products."""
        permuted = memories.new_empty(self.num_keys, *memories[0].shape)
        rows = permuted.view(self.positions.shape)
        return permuted, rows, permuted.clone(), memories.clone()

    def forward(self, projected, hidden, bias, recurrent, *others):
        """Returns outputs `(T, B, H)`, the memory `(B, N_c, H / 2, 2)`, and
        the tensors that `backward` needs."""
        of_gates, of_candidate, begun = others
        h, mask = self.units, self.mask
        (time, batch, _), count = projected.shape, len(begun)
        columns = projected.new_empty(projected.shape).copy_(projected)
        columns[..., -3 * h :] += bias
        # The memory of the cell and, if any, that of the source.
        memories = torch.view_as_complex(begun).clone()
        permuted, rows, conjugate, product = self._buffers(memories)
        read = memories.new_empty(count, batch, self.numbers)
        read_halves, memory = _halves(read), memories[0]

        keys = memories.new_empty(time, self.num_keys, batch, self.numbers)
        lengths = columns.new_empty(keys.shape)
        written = memories.new_empty(time, batch, 1, self.numbers)
        outputs = columns.new_empty(time + 1, batch, h)
        outputs[0] = hidden
        # The columns of each step: the values read from all memories, then the
        # product of the reset gate and the first value. As in a GRU, only the
        # candidate depends on this product.
        values = columns.new_empty(time, batch, (count + 1) * h)
        steps = _steps(
            **self._parts(columns)._asdict(),
            length=lengths,
            key=keys.flatten(1, 2),
            key_halves=_halves(keys),
            values=values[..., :-h],
            values_halves=_halves(values[..., :-h], count),
            value=values[..., :h],
            value_halves=_halves(values[..., :h]),
            reset_value=values[..., -h:],
            of_candidate=values[..., h:],
            hidden=outputs,
            output=outputs[1:],
            output_halves=_halves(outputs[1:]),
            written=written,
            written_halves=_halves(written[:, :, 0]),
        )
        for step, at in enumerate(steps):
            at.all.addmm_(at.hidden, recurrent)
            torch.hypot(*at.raw.unbind(dim=-2), out=at.length)
            divisor = at.length.clamp(min=self.least[0]).unsqueeze(-2)
            torch.div(at.raw, divisor, out=at.key_halves)
            torch.gather(at.key, 1, self.positions, out=rows)
            torch.conj_physical(permuted, out=conjugate)
            torch.mul(memories, conjugate, out=product)
            torch.sum(product, dim=2, out=read)
            torch.div(read_halves, self.copies, out=at.values_halves)
            at.both.addmm_(at.values, of_gates).sigmoid_()
            torch.mul(at.reset, at.value, out=at.reset_value)
            at.candidate.addmm_(at.of_candidate, of_candidate).tanh_()
            torch.lerp(at.value, at.candidate, at.update, out=at.output)
            torch.sub(at.output_halves, at.value_halves, out=at.written_halves)
            if mask is not None:
                at.written *= mask[step][..., None]
                at.output.lerp_(at.hidden, 1 - mask[step])
            memory.addcmul_(permuted[0], at.written)
        kept = columns, lengths, keys, values, outputs, written, memories
        results = outputs[1:], torch.view_as_real(memory)
        return results, (kept, (recurrent, of_gates, of_candidate))

    def backward(self, kept, d_outputs, d_memory):
        """Returns the gradients of the arguments of `forward`."""
        columns, lengths, keys, values, outputs, written, memories = kept[0]
        h, mask, count = self.units, self.mask, len(memories)
        to_hidden, to_values, to_candidate = (k.T.contiguous() for k in kept[1])
        _, _, _, update, reset, candidate = self._parts(columns)
        d = self._parts(torch.empty_like(columns))
        # `d` holds local derivatives until the loop applies the chain rule.
        torch.mul(outputs[1:] - values[..., :h], 1 - update, out=d.update)
        torch.mul(values[..., -h:], 1 - reset, out=d.reset)
        torch.mul(update, 1 - candidate**2, out=d.candidate)
        # Keys consist of complex numbers k = z / |z|. If d is the gradient of
        # k, then the gradient of z is
        # (d - k Re(conj(k) d)) / |z| = (d - k^2 conj(d)) / (2 |z|).
        by_key = 1 / lengths.clamp(min=self.least[1])
        shrink = (lengths > self.least[0]) * by_key / 2
        by_conjugate = keys * keys * shrink
        by_key = (by_key - shrink).to(keys.dtype)

        memories = memories.clone()
        d_memories = torch.zeros_like(memories)
        d_memories[0] = torch.view_as_complex(d_memory.contiguous())
        memory, d_memory = memories[0], d_memories[0]
        permuted, rows, conjugate, product = self._buffers(memories)
        first, conjugate, own_product = permuted[0], conjugate[0], product[0]
        d_rows = product[: self.num_keys].view(rows.shape)
        d_key, d_key_conjugate = keys[0].clone(), keys[0].clone()
        d_read = memories.new_empty(count, *written[0].shape)
        d_read_halves = _halves(d_read[:, :, 0])
        d_own, d_own_halves = d_read[0], d_read_halves[0]
        d_hidden, d_written = torch.zeros_like(outputs[:2])
        d_hidden_halves, d_written_halves = map(_halves, (d_hidden, d_written))
        d_key_halves = [_halves(d_key), _halves(d_key_conjugate)]
        d_values = torch.empty_like(values[0])
        d_value, d_reset_value = d_values[:, :h], d_values[:, -h:]
        d_by_gates, d_by_candidate = d_values[:, :-h], d_values[:, h:]
        d_values_halves = _halves(d_by_gates, count)
        steps = _steps(
            key=keys.flatten(1, 2),
            by_key=by_key,
            by_conjugate=by_conjugate,
            update_gate=update,
            reset_gate=reset,
            written=written,
            conjugate=written.conj_physical(),
            d_output=d_outputs,
            **d._asdict(),
        )
        for step, at in reversed([*enumerate(steps)]):
            torch.gather(at.key, 1, self.positions, out=rows)
            # Subtract what this step wrote to get the memory before it.
            memory.addcmul_(first, at.written, value=-1)
            d_hidden += at.d_output
            torch.conj_physical(first, out=conjugate)
            torch.mul(d_memory, conjugate, out=own_product)
            torch.sum(own_product, dim=1, keepdim=True, out=d_own)
            if mask is not None:
                unread = d_hidden * (1 - mask[step])
                d_hidden -= unread
                d_own *= mask[step][..., None]
            torch.add(d_hidden_halves, d_own_halves, out=d_written_halves)
            at.candidate *= d_written
            torch.mm(at.candidate, to_candidate, out=d_by_candidate)
            at.update *= d_written
            at.reset *= d_reset_value
            torch.addcmul(d_hidden, d_reset_value, at.reset_gate, out=d_value)
            d_value.addcmul_(d_written, at.update_gate, value=-1)
            d_by_gates.addmm_(at.both, to_values)
            torch.div(d_values_halves, self.copies, out=d_read_halves)
            torch.mul(memories, d_read.conj(), out=product)
            own_product.addcmul_(d_memory, at.conjugate)
            if count > self.num_keys:
                own_product += product[1]
            d_memories.addcmul_(permuted, d_read)
            torch.gather(d_rows, 1, self.inverse, out=rows)
            torch.sum(permuted, dim=2, out=d_key)
            torch.mul(d_key.conj(), at.by_conjugate, out=d_key_conjugate)
            d_key *= at.by_key
            torch.sub(*d_key_halves, out=at.raw)
            torch.mm(at.all, to_hidden, out=d_hidden)
            if mask is not None:
                d_hidden += unread
        return (
            d.all,
            d_hidden,
            d.all[..., -3 * h :].sum(dim=(0, 1)),
            _sum_of_products(outputs[:-1], d.all),
            _sum_of_products(values[..., :-h], d.both),
            _sum_of_products(values[..., h:], d.candidate),
            torch.view_as_real(d_memories),
        )


def _sum_of_products(left, right):
    """Sums outer products over time and batch in one matrix product."""
    return left.flatten(0, 1).T @ right.flatten(0, 1)

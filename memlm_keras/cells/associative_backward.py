"""Runs an AM-GRU over sequences, with a hand-written backward pass.

Weissenborn (2016), Equations 8 to 13. On JAX and TensorFlow, the forward pass
runs the cell's own steps. Automatic differentiation would store the whole
memory at each step, and update the gradient of each matrix at each step. Here:

* the backward pass recovers the memory before a step by subtracting the change
  that the step wrote;
* the gradient of a matrix is one product over all steps, after the loop;
* keys are permuted by look-ups in both directions;
* the backward loop carries the inputs of its next step, since XLA on a CPU
  would otherwise slice the sequence once for each copy of the memory.

Gradients equal those of automatic differentiation, up to rounding; bfloat16 is
too inexact for the subtraction, so automatic differentiation is used.

Symbols in shapes: B batch, T time, H units, N_c copies of the memory.
"""

import keras
from keras import ops

from memlm_keras.cells import complex_vectors
from memlm_keras.cells.complex_vectors import join
from memlm_keras.cells.complex_vectors import look_up
from memlm_keras.cells.complex_vectors import reverse_axes
from memlm_keras.cells.complex_vectors import split
from memlm_keras.gradients import with_gradient
from memlm_keras.keras_private import rnn

if keras.backend.backend() == "torch":
    import torch


def run(cell, projected, states, mask=None):
    """Runs an `AssociativeGRUCell` over projected inputs `(B, T, ...)`; returns
    outputs `(B, T, H)` and new states."""
    in_backend = _run_in_place if keras.backend.backend() == "torch" else _run
    outputs, memory = in_backend(cell, projected, states, mask)
    return outputs, [outputs[:, -1], memory, *states[2:]]


# === JAX and TensorFlow ===
# The batch is the last axis of all tensors in the loops.


def _run(cell, projected, states, mask):
    count = len(states)
    positions, weights = cell.shared_by_steps()
    if mask is not None:
        mask = ops.transpose(ops.cast(mask, "bool"))[:, None]

    def forward(projected, *others):
        states, weights = others[:count], others[count:]
        memory, *source = map(reverse_axes, cell.memories(states))

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
        kept, (_, *memory) = loop(
            step, inputs, [ops.transpose(states[0]), *memory]
        )
        outputs = ops.transpose(kept[:, : cell.units], (2, 0, 1))
        results = outputs, cell.flat(reverse_axes(memory))
        return results, (states, weights, kept, memory)

    def backward(kept, d_outputs, d_memory):
        return _backward(cell, positions, mask, *kept, d_outputs, d_memory)

    return with_gradient(forward, backward)(projected, *states, *weights)


def loop(step, inputs, states, go_backwards=False):
    """Runs `step` over time; returns outputs `(T, ...)`, in order of
    computation, and the last states."""
    _, outputs, states = rnn(
        step,
        inputs,
        states,
        go_backwards=go_backwards,
        # An unknown number of steps is a tensor, which must be in a list: Keras
        # would take a bare tensor for the lengths of rows.
        input_length=[ops.shape(keras.tree.flatten(inputs)[0])[0]],
        time_major=True,
    )
    return outputs, states


def _backward(
    cell, positions, mask, states, weights, kept, memory, d_outputs, d_memory
):
    """Returns the gradients of projected inputs, states and weights."""
    h, copies, count = cell.units, cell.num_copies, cell.num_keys
    hidden = ops.transpose(states[0])
    source = [reverse_axes(memory) for memory in cell.memories(states)[1:]]
    to_hidden, to_value, to_reset_value, to_source = [
        ops.transpose(weights[index]) for index in (0, 1, 2, -1)
    ]
    # Row n contains the positions of the n-th complex number in all copies.
    inverse = ops.cast(ops.argsort(positions, axis=0), "int32")
    inverse = inverse * copies + ops.arange(copies, dtype="int32")
    d_memory = reverse_axes(cell.copies(d_memory))

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
        memory = _add(memory, permuted[0], -written)
        d_output = d_hidden
        d_written = copies * join(
            complex_vectors.read(permuted[0], d_memory), 0
        )
        if mask is not None:
            d_output, d_written = d_output * at[-1:], d_written * at[-1:]
        d_written = d_output + d_written
        d_candidate = d_written * update * (1.0 - candidate * candidate)
        d_reset_value = to_reset_value @ d_candidate
        d_both = join(
            [
                d_written * (candidate - value) * update * (1.0 - update),
                d_reset_value * value * reset * (1.0 - reset),
            ],
            0,
        )
        d_value = d_output - d_written * update + d_reset_value * reset
        d_value = d_value + to_value @ d_both
        d_value = d_value / copies
        d_gates = join([d_both, d_candidate], 0)
        of_write = _keys_gradient(d_memory, written)
        of_read = _keys_gradient(memory, d_value)
        d_keys = [[of_write[0] + of_read[0], of_write[1] + of_read[1]]]
        d_memory = _add(d_memory, permuted[0], d_value)
        if source:
            d_read = to_source @ d_gates / copies
            d_key = _keys_gradient(source[0], d_read)
            if count == 1:
                (own,) = d_keys
                d_keys = [[own[0] + d_key[0], own[1] + d_key[1]]]
            else:
                d_keys.append(d_key)
            d_source = _add(d_source, permuted[-1], d_read)
        d_projected = []
        for key, d_key in zip(keys, d_keys):
            d_key = _look_up_gradient(d_key, inverse)
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
    d_projected, (_, d_hidden, *pairs) = loop(
        step, following, begin, go_backwards=True
    )
    d_projected = ops.flip(d_projected, axis=0)

    outputs, _, _, reset, _, _, value, *rest = _parts(kept, sizes, axis=1)
    before = ops.concatenate([hidden[None], outputs[:-1]])
    d_gates = d_projected[:, count * h :]
    d_weights = [
        _product(d_projected, before),
        _product(d_gates[:, : 2 * h], value),
        _product(d_gates[:, 2 * h :], reset * value),
        ops.sum(d_gates, axis=(0, 2))[:, None],
        *(_product(d_gates, read) for read in rest),
    ]
    d_states = [ops.transpose(d_hidden), cell.flat(reverse_axes(pairs[:2]))]
    if source:
        d_states.append(cell.flat(reverse_axes(pairs[4:])))
    return (ops.transpose(d_projected, (2, 0, 1)), *d_states, *d_weights)


def _parts(joined, sizes, axis):
    """Splits an axis into parts with the given sizes."""
    parts, start, before = [], 0, (slice(None),) * axis
    for size in sizes:
        parts.append(joined[(*before, slice(start, start + size))])
        start += size
    return parts


def _add(memory, keys, value):
    """Writes a vector `(H, B)` to a memory, or to its gradient."""
    return complex_vectors.write(keys, split(value, 0), memory)


def _keys_gradient(memory, value):
    """Returns the gradient of keys. If the keys wrote `value`, `memory` is the
    gradient of the memory; if they read from `memory`, `value` is the gradient
    of the value read."""
    re, im = split(value[:, None], 0)
    return complex_vectors.encode(memory, (re, -im))


def _look_up_gradient(upstream, inverse):
    """Returns the gradient of a key, given the gradient of its copies."""

    def summed(part):
        numbers, copies, batch = ops.shape(part)
        rows = ops.reshape(part, (numbers * copies, batch))
        return ops.sum(ops.take(rows, inverse, axis=0), axis=1)

    return tuple(summed(part) for part in upstream)


def _product(left, right):
    """Sums outer products over time and batch in one matrix product."""
    left, right = (
        ops.reshape(ops.transpose(steps, (1, 0, 2)), (steps.shape[1], -1))
        for steps in (left, right)
    )
    return ops.matmul(left, ops.transpose(right))


# === PyTorch ===
# Real and imaginary parts are adjacent, so that a real tensor can be viewed as
# a complex one. Buffers are allocated once, and operations write in place.


def _run_in_place(cell, projected, states, mask):
    positions, weights = cell.shared_by_steps()
    *kernels, bias = [
        _interleave(weight.T, cell.units)
        for weight in (*weights[:3], *weights[4:], weights[3])
    ]
    kernels = [_interleave(kernel.T, cell.units).T for kernel in kernels]
    kernels[1:3] = [kernel.contiguous() for kernel in kernels[1:3]]
    loop = _Loop(cell, positions.T, projected, mask)
    outputs, memory = with_gradient(loop.forward, loop.backward)(
        _interleave(projected, cell.units).transpose(0, 1),
        _interleave(states[0], cell.units),
        bias[0],
        *kernels,
        *(torch.stack(memory, dim=-1) for memory in cell.memories(states)),
    )
    outputs = _separate(outputs, cell.units).transpose(0, 1)
    return outputs, cell.flat(memory.unbind(dim=-1))


def _interleave(tensor, units):
    """Moves the imaginary part of each number next to its real part."""
    halves = tensor.unflatten(-1, (-1, 2, units // 2))
    return halves.transpose(-1, -2).flatten(-3)


def _separate(tensor, units):
    """Inverts `_interleave`."""
    numbers = tensor.unflatten(-1, (-1, units // 2, 2))
    return numbers.transpose(-1, -2).flatten(-3)


def _complex(tensor):
    """Views real numbers `(..., 2 n)` as complex numbers `(..., n)`."""
    return torch.view_as_complex(tensor.unflatten(-1, (-1, 2)))


class _Loop:
    """Computes all steps of a cell, forward and backward."""

    def __init__(self, cell, positions, projected, mask):
        self.units, self.num_keys = cell.units, cell.num_keys
        self.least = complex_vectors.KEYS[cell.key]
        self.copies, self.numbers = positions.shape
        first = torch.arange(self.copies, device=positions.device)
        inverse = first[:, None] * self.numbers + positions.argsort(dim=1)
        # Indices of all copies, repeated for each row of the batch, since
        # `gather` takes a fifth of the time of `index_select` here.
        self.positions, self.inverse = (
            rows.flatten().long().repeat(len(projected), 1)
            for rows in (positions, inverse)
        )
        self.mask = None
        if mask is not None:
            self.mask = mask.T[..., None].to(torch.float32)

    def _permuted(self, key, out):
        """Writes the copies `(B, N_c, H / 2)` of a key `(B, H / 2)`."""
        torch.gather(key, 1, self.positions, out=out.flatten(1))
        return out

    def _gradient_of_permuted(self, upstream):
        rows = upstream.flatten(1).gather(1, self.inverse)
        return rows.view_as(upstream).sum(dim=1)

    def _read(self, keys, memory, out, buffer):
        """Computes the sum `(B, H)` of the values that the copies read."""
        torch.mul(memory, keys.conj(), out=buffer)
        torch.sum(buffer, dim=1, out=_complex(out))

    def _parts(self, columns):
        """Splits columns into keys, update and reset gates, and candidates."""
        h = self.units
        gates = [columns[..., columns.shape[-1] - i * h :] for i in (3, 2, 1)]
        keys = _complex(columns[..., : self.num_keys * h])
        keys = keys.unflatten(-1, (self.num_keys, self.numbers))
        return keys.movedim(-2, -3), *(gate[..., :h] for gate in gates)

    def forward(self, projected, hidden, bias, recurrent, *others):
        """Returns outputs `(T, B, H)`, the memory `(B, N_c, H / 2, 2)`, and
        the tensors that `backward` needs."""
        count = len(others) // 2
        kernels, begun = others[: count + 1], others[count + 1 :]
        of_gates, of_candidate, *of_source = kernels
        h, mask = self.units, self.mask
        time, batch, _ = projected.shape
        columns = projected.clone()
        columns[..., -3 * h :] += bias
        memories = [torch.view_as_complex(memory) for memory in begun]
        memory = memories[0] = memories[0].clone()
        permuted, buffer = torch.empty_like(memory), torch.empty_like(memory)

        keys = memory.new_empty(time, self.num_keys, batch, self.numbers)
        outputs = columns.new_empty(time + 1, batch, h)
        outputs[0] = hidden
        written = torch.empty_like(outputs[1:])
        values = columns.new_empty(count, time, batch, h)
        parts = zip(columns, *self._parts(columns))
        for step, (at, raw, update, reset, candidate) in enumerate(parts):
            torch.addmm(at, outputs[step], recurrent, out=at)
            raw = torch.view_as_real(raw)
            torch.div(
                raw,
                _modulus(raw).clamp_(min=self.least[0]),
                out=torch.view_as_real(keys[step]),
            )
            for index in reversed(range(count)):
                if index == count - 1 or self.num_keys == 2:
                    self._permuted(keys[step, -bool(index)], permuted)
                value = values[index, step]
                self._read(permuted, memories[index], value, buffer)
                value /= self.copies
                if index:
                    at[:, -3 * h :].addmm_(value, of_source[0])
            at[:, -3 * h : -h].addmm_(value, of_gates).sigmoid_()
            candidate.addmm_(reset * value, of_candidate).tanh_()
            torch.sub(candidate, value, out=written[step]).mul_(update)
            torch.add(value, written[step], out=outputs[step + 1])
            if mask is not None:
                written[step] *= mask[step]
                outputs[step + 1].lerp_(outputs[step], 1 - mask[step])
            memory.addcmul_(permuted, _complex(written[step])[:, None])
        kept = columns, keys, outputs, written, values, memory
        results = outputs[1:], torch.view_as_real(memory)
        return results, (kept, recurrent, kernels, begun[1:])

    def backward(self, kept, d_outputs, d_memory):
        """Returns the gradients of the arguments of `forward`."""
        kept, recurrent, kernels, source = kept
        columns, all_keys, outputs, written, values, memory = kept
        h, mask = self.units, self.mask
        raw, update, reset, candidate = self._parts(columns)
        value = values[0]
        to_hidden, from_gates, from_candidate, *to_source = [
            kernel.T.contiguous() for kernel in (recurrent, *kernels)
        ]
        # These factors do not depend on later steps.
        by_candidate = update * (1 - candidate**2)
        by_update = (candidate - value) * update * (1 - update)
        by_reset = value * reset * (1 - reset)
        modulus = _modulus(torch.view_as_real(raw))
        # If a key was divided by its modulus, only its phase has a gradient.
        fixed = (modulus > self.least[0]).to(modulus.dtype)
        modulus.clamp_(min=self.least[1])
        parts_of_keys = torch.view_as_real(all_keys)

        memory = memory.clone()
        d_memory = torch.view_as_complex(d_memory.contiguous()).clone()
        d_columns = torch.empty_like(columns)
        d_keys, d_update, d_reset, d_candidate = self._parts(d_columns)
        d_hidden = torch.zeros_like(outputs[0])
        d_written = torch.empty_like(d_hidden)
        permuted, buffer = torch.empty_like(memory), torch.empty_like(memory)
        if source:
            source = torch.view_as_complex(source[0])
            other, d_source = torch.empty_like(source), torch.zeros_like(source)
        for step in reversed(range(len(columns))):
            keys = self._permuted(all_keys[step, 0], permuted)
            write = _complex(written[step])[:, None]
            # Recover the memory before this step.
            memory.addcmul_(keys, write, value=-1)
            d_hidden += d_outputs[step]
            d_output = d_hidden
            self._read(keys, d_memory, d_written, buffer)
            if mask is not None:
                d_output = d_hidden * mask[step]
                d_written *= mask[step]
            d_written += d_output
            torch.mul(d_written, by_candidate[step], out=d_candidate[step])
            d_reset_value = d_candidate[step] @ from_candidate
            torch.mul(d_written, by_update[step], out=d_update[step])
            torch.mul(d_reset_value, by_reset[step], out=d_reset[step])
            both = d_columns[step, :, -3 * h : -h]
            d_value = torch.addmm(d_output, both, from_gates)
            d_value.addcmul_(d_written, update[step], value=-1)
            d_value.addcmul_(d_reset_value, reset[step]).div_(self.copies)
            d_value = _complex(d_value)[:, None]
            torch.mul(d_memory, write.conj(), out=buffer)
            d_all = [buffer.addcmul_(memory, d_value.conj())]
            d_memory.addcmul_(keys, d_value)
            if to_source:
                d_read = d_columns[step, :, -3 * h :] @ to_source[0]
                d_read = _complex(d_read.div_(self.copies))[:, None]
                if self.num_keys == 1:
                    d_all[0].addcmul_(source, d_read.conj())
                else:
                    keys = self._permuted(all_keys[step, 1], other)
                    d_all.append(source * d_read.conj())
                d_source.addcmul_(keys, d_read)
            for index, d_key in enumerate(d_all):
                d_key = torch.view_as_real(self._gradient_of_permuted(d_key))
                key = parts_of_keys[step, index]
                along = (d_key * key).sum(dim=-1, keepdim=True)
                along *= fixed[step, index]
                d_key.addcmul_(key, along, value=-1)
                torch.div(
                    d_key,
                    modulus[step, index],
                    out=torch.view_as_real(d_keys[step, index]),
                )
            if mask is not None:
                unread = d_hidden * (1 - mask[step])
            torch.mm(d_columns[step], to_hidden, out=d_hidden)
            if mask is not None:
                d_hidden += unread

        d_gates = d_columns[..., -3 * h :]
        d_kernels = [
            _sum_of_products(value, d_gates[..., : 2 * h]),
            _sum_of_products(reset * value, d_gates[..., 2 * h :]),
            *(_sum_of_products(read, d_gates) for read in values[1:]),
        ]
        d_memories = [d_memory, d_source] if to_source else [d_memory]
        return (
            d_columns,
            d_hidden,
            d_gates.sum(dim=(0, 1)),
            _sum_of_products(outputs[:-1], d_columns),
            *d_kernels,
            *map(torch.view_as_real, d_memories),
        )


def _modulus(pairs):
    """Computes moduli of pairs, faster than `abs` of complex numbers."""
    return pairs.square().sum(dim=-1, keepdim=True).sqrt_()


def _sum_of_products(left, right):
    """Sums outer products over time and batch in one matrix product."""
    return left.flatten(0, 1).T @ right.flatten(0, 1)

"""Training of an AM-GRU over whole sequences by PyTorch, in place.

The steps are those of `AssociativeGRUCell.advance`, and the way back is that of
`memlm_keras.cells.associative_gradients`. Here the two halves of a complex
number stand next to each other, so that rows of real numbers are rows of
complex ones as they are, and what is done to a whole memory is one operation in
a buffer made once: operations as small as these cost what starting them costs.

Shapes below: B batch, T time, H units, N_c copies.
"""

import torch

from memlm_keras.cells import complex_vectors
from memlm_keras.gradients import with_gradient


def run(cell, projected, states, mask=None):
    """Runs a cell over a sequence; as `associative_gradients.run`."""
    positions, weights = cell.shared_by_steps()
    recurrent, memory_kernel, bias, *source_kernel = [
        _together(weight.T, cell.units) for weight in weights
    ]
    kernels = [
        _together(kernel.T, cell.units).T
        for kernel in (recurrent, memory_kernel, *source_kernel)
    ]
    # The gates read the value, the candidate what the reset gate left of it.
    of_gates, of_candidate = kernels[1].split([2 * cell.units, cell.units], 1)
    kernels[1:2] = of_gates.contiguous(), of_candidate.contiguous()
    loop = _Loop(cell, positions.T, projected, mask)
    outputs, memory = with_gradient(loop.forward, loop.backward)(
        _together(projected, cell.units).transpose(0, 1),
        _together(states[0], cell.units),
        bias[0],
        *kernels,
        *(torch.stack(memory, dim=-1) for memory in cell.memories(states)),
    )
    outputs = _apart(outputs, cell.units).transpose(0, 1)
    memory = cell.flat(memory.unbind(dim=-1))
    return outputs, [outputs[:, -1], memory, *states[2:]]


def _together(tensor, units):
    """Puts the two halves of each number of vectors next to each other."""
    halves = tensor.unflatten(-1, (-1, 2, units // 2))
    return halves.transpose(-1, -2).flatten(-3)


def _apart(tensor, units):
    """The way back of `_together`."""
    numbers = tensor.unflatten(-1, (-1, units // 2, 2))
    return numbers.transpose(-1, -2).flatten(-3)


def _complex(tensor):
    """Real numbers `(..., n)`, two by two, as complex ones, a view."""
    return torch.view_as_complex(tensor.unflatten(-1, (-1, 2)))


class _Loop:
    """All steps there and back, of a cell's sizes and permutations."""

    def __init__(self, cell, positions, projected, mask):
        self.units, self.num_keys = cell.units, cell.num_keys
        self.least = complex_vectors.KEYS[cell.key]
        self.copies, self.numbers = positions.shape
        first = torch.arange(self.copies, device=positions.device)
        inverse = first[:, None] * self.numbers + positions.argsort(dim=1)
        # Of all copies, one behind the other, and the same in each row, as
        # `gather` takes a fifth of the time of `index_select` here.
        self.positions, self.inverse = (
            rows.flatten().long().repeat(len(projected), 1)
            for rows in (positions, inverse)
        )
        self.mask = None
        if mask is not None:
            self.mask = mask.T[..., None].to(torch.float32)

    def _permuted(self, key, out):
        """The copies of a key `(B, H / 2)`, `(B, N_c, H / 2)`."""
        torch.gather(key, 1, self.positions, out=out.flatten(1))
        return out

    def _gradient_of_permuted(self, upstream):
        rows = upstream.flatten(1).gather(1, self.inverse)
        return rows.view_as(upstream).sum(dim=1)

    def _read(self, keys, memory, out, buffer):
        """Sum over the copies of what is read under a key, `(B, H)`."""
        torch.mul(memory, keys.conj(), out=buffer)
        torch.sum(buffer, dim=1, out=_complex(out))

    def _parts(self, columns):
        """Projected keys, update, reset and candidate, of all columns."""
        h = self.units
        gates = [columns[..., columns.shape[-1] - i * h :] for i in (3, 2, 1)]
        keys = _complex(columns[..., : self.num_keys * h])
        keys = keys.unflatten(-1, (self.num_keys, self.numbers))
        return keys.movedim(-2, -3), *(gate[..., :h] for gate in gates)

    def forward(self, projected, hidden, bias, recurrent, *others):
        """Outputs `(T, B, H)` and the memory `(B, N_c, H / 2, 2)`."""
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
                _modulus(raw, self.least),
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
        """Gradients of the arguments of `forward`."""
        kept, recurrent, kernels, source = kept
        columns, all_keys, outputs, written, values, memory = kept
        h, mask = self.units, self.mask
        raw, update, reset, candidate = self._parts(columns)
        value = values[0]
        to_hidden, from_gates, from_candidate, *to_source = [
            kernel.T.contiguous() for kernel in (recurrent, *kernels)
        ]
        # What does not depend on the steps behind.
        by_candidate = update * (1 - candidate**2)
        by_update = (candidate - value) * update * (1 - update)
        by_reset = value * reset * (1 - reset)
        modulus = _modulus(torch.view_as_real(raw), self.least)
        # Where a modulus was divided by, only the phase can change.
        fixed = (modulus > self.least).to(modulus.dtype)
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
            # As it was before this step.
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
            _product(value, d_gates[..., : 2 * h]),
            _product(reset * value, d_gates[..., 2 * h :]),
            *(_product(read, d_gates) for read in values[1:]),
        ]
        d_memories = [d_memory, d_source] if to_source else [d_memory]
        return (
            d_columns,
            d_hidden,
            d_gates.sum(dim=(0, 1)),
            _product(outputs[:-1], d_columns),
            *d_kernels,
            *map(torch.view_as_real, d_memories),
        )


def _modulus(pairs, least):
    """Moduli of complex numbers, and the least where they are less."""
    # Faster than the modulus of complex numbers.
    squares = pairs.square().sum(dim=-1, keepdim=True)
    return squares.clamp_(min=least**2).sqrt_()


def _product(left, right):
    """Sum over time and batch of outer products, as one matrix product."""
    return left.flatten(0, 1).T @ right.flatten(0, 1)

"""LSTM and GRU of whole sequences by PyTorch, on a CPU."""

import torch
from torch.autograd.function import once_differentiable


class LoopedLSTM(torch.autograd.Function):
    """An LSTM of many units: whole-sequence products around a loop.

    PyTorch's own transposes both matrices in every forward and backward pass,
    and adds a product to their gradients at each step. Here the inputs are
    projected before the loop, and one product over all steps behind it makes
    of the gates' gradients what each matrix gets. Buffers are made once, as
    the system hands out new memory page by page.
    """

    @staticmethod
    def forward(ctx, inputs, kernel, recurrent_kernel, bias, hidden, cell):
        batch, time, _ = inputs.shape
        units = hidden.shape[-1]
        inputs = inputs.transpose(0, 1).reshape(time * batch, -1)
        gates = torch.addmm(bias, inputs, kernel).view(time, batch, -1)
        hiddens = inputs.new_empty(time + 1, batch, units)
        cells, squashed = hiddens.clone(), hiddens[1:].clone()
        hiddens[0], cells[0] = hidden, cell
        for step in range(time):
            gate = gates[step]
            torch.addmm(gate, hiddens[step], recurrent_kernel, out=gate)
            i, f, g, o = gate.chunk(4, dim=-1)
            gate[:, : 2 * units].sigmoid_()
            g.tanh_()
            o.sigmoid_()
            torch.mul(f, cells[step], out=cells[step + 1]).addcmul_(i, g)
            torch.tanh(cells[step + 1], out=squashed[step])
            torch.mul(o, squashed[step], out=hiddens[step + 1])
        ctx.save_for_backward(
            inputs, kernel, recurrent_kernel, gates, hiddens, cells, squashed
        )
        return hiddens[1:].transpose(0, 1), hiddens[-1], cells[-1]

    @staticmethod
    @once_differentiable
    def backward(ctx, d_outputs, d_hidden, d_cell):
        (inputs, kernel, recurrent_kernel, gates, hiddens, cells, squashed) = (
            ctx.saved_tensors
        )
        time, batch, columns = gates.shape
        units = columns // 4
        i, f, g, o = gates.chunk(4, dim=-1)
        # By what the gradients of cell and output are multiplied at each step.
        d_gates = torch.empty_like(gates)
        d_i, d_f, d_g, d_o = d_gates.chunk(4, dim=-1)
        torch.mul(g, i * (1 - i), out=d_i)
        torch.mul(cells[:-1], f * (1 - f), out=d_f)
        torch.mul(i, 1 - g**2, out=d_g)
        torch.mul(squashed, o * (1 - o), out=d_o)
        d_squashed = o * (1 - squashed**2)
        d_hidden, d_cell = d_hidden.clone(), d_cell.clone()
        for step in reversed(range(time)):
            d_gate = d_gates[step]
            d_hidden += d_outputs[:, step]
            d_cell.addcmul_(d_hidden, d_squashed[step])
            d_gate[:, : 3 * units].view(batch, 3, units).mul_(d_cell[:, None])
            d_o[step].mul_(d_hidden)
            torch.mm(d_gate, recurrent_kernel.T, out=d_hidden)
            d_cell *= f[step]
        d_gates = d_gates.view(time * batch, columns)
        d_inputs = torch.mm(d_gates, kernel.T).view(time, batch, -1)
        return (
            d_inputs.transpose(0, 1),
            torch.mm(inputs.T, d_gates),
            torch.mm(hiddens[:-1].view(time * batch, units).T, d_gates),
            d_gates.sum(dim=0),
            d_hidden,
            d_cell,
        )


def lstm(inputs, kernel, recurrent_kernel, bias, hidden, cell):
    """Outputs and states of an LSTM; arguments as of Keras' layer."""
    weights = [kernel.T, recurrent_kernel.T, bias, torch.zeros_like(bias)]
    states = [hidden[None], cell[None]]
    outputs, hidden, cell = torch.lstm(
        inputs, states, weights, *_by_position(inputs)
    )
    return outputs, hidden[0], cell[0]


def gru(inputs, kernel, recurrent_kernel, bias, hidden):
    """Outputs and state of a GRU; arguments as of Keras' layer."""

    # Keras has the update gate first, PyTorch the reset gate.
    def in_order(weight):
        update, reset, candidate = torch.chunk(weight, 3, dim=-1)
        return torch.cat([reset, update, candidate], dim=-1)

    weights = [
        in_order(kernel).T,
        in_order(recurrent_kernel).T,
        in_order(bias[0]),
        in_order(bias[1]),
    ]
    outputs, hidden = torch.gru(
        inputs, hidden[None], weights, *_by_position(inputs)
    )
    return outputs, hidden[0]


def _by_position(inputs):
    """Arguments that `torch.lstm` and `torch.gru` take by position only."""
    has_biases, layers, dropout = True, 1, 0.0
    trains, bidirectional, batch_first = inputs.requires_grad, False, True
    return has_biases, layers, dropout, trains, bidirectional, batch_first

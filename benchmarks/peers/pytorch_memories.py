"""Memories in PyTorch, without loops over slots or positions."""

import torch
from torch import nn


class Projection(nn.Module):
    """tanh(W p) of the last of several parts: an LSTM without a memory."""

    def __init__(self, case, parts=1):
        super().__init__()
        self.outputs = case.units // parts
        self.kernel = nn.Parameter(torch.empty(self.outputs, self.outputs))

    def begin(self, rows):
        return ()

    def forward(self, outputs, state):
        return torch.tanh(outputs[..., -self.outputs :] @ self.kernel), state


class Attention(nn.Module):
    """Daniluk et al. (2017): attention over outputs that are split in parts."""

    def __init__(self, case, parts=1):
        super().__init__()
        k = self.outputs = case.units // parts
        self.window, self.parts = case.window, parts
        self.remembered = k * min(parts, 2)
        self.memory = nn.Parameter(torch.empty(k, k))
        self.query = nn.Parameter(torch.empty(k, k))
        self.score = nn.Parameter(torch.empty(k, 1))
        self.context = nn.Parameter(torch.empty(k, k))
        self.output = nn.Parameter(torch.empty(k, k))

    def begin(self, rows):
        device = self.memory.device
        empty = torch.zeros(rows, self.window, self.remembered, device=device)
        return empty, torch.zeros(rows, self.window, device=device)

    def forward(self, outputs, state):
        k, time = self.outputs, outputs.shape[1]
        remembered, filled = state
        remembered = torch.cat(
            [remembered, outputs[..., : self.remembered]], dim=1
        )
        filled = torch.cat([filled, torch.ones_like(outputs[..., 0])], dim=1)
        # No step of this batch reads the last output.
        slots = [part[:, :-1] for part in (remembered, filled)]
        seen = slots[1].unfold(1, self.window, 1)
        keys = (slots[0][..., :k] @ self.memory).unfold(1, self.window, 1)
        values = slots[0][..., -k:].unfold(1, self.window, 1)
        queries = (outputs[..., :k] @ self.query)[..., None]
        hidden = torch.tanh(keys + queries)
        scores = torch.einsum("btkl,k->btl", hidden, self.score[:, 0])
        scores = scores.masked_fill(seen == 0, -1e9)
        weights = torch.softmax(scores, dim=-1) * seen
        context = torch.einsum("btl,btkl->btk", weights, values)
        found = torch.tanh(
            context @ self.context + outputs[..., -k:] @ self.output
        )
        kept = (part[:, time:].detach() for part in (remembered, filled))
        return found, tuple(kept)


class Attentive(nn.Module):
    """Salton et al. (2017), combined: attention over the sentence so far."""

    window = 100

    def __init__(self, case):
        super().__init__()
        k = self.outputs = case.units
        self.memory = nn.Parameter(torch.empty(k, k))
        self.query = nn.Parameter(torch.empty(k, k))
        self.score = nn.Parameter(torch.empty(k, 1))
        self.output = nn.Parameter(torch.empty(2 * k, k))
        self.bias = nn.Parameter(torch.empty(k))

    def begin(self, rows):
        return (torch.zeros(rows, 0, self.outputs, device=self.bias.device),)

    def forward(self, outputs, state):
        (before,) = state
        time, length = outputs.shape[1], before.shape[1]
        remembered = torch.cat([before, outputs], dim=1)
        steps = length + torch.arange(time, device=outputs.device)[:, None]
        places = torch.arange(length + time, device=outputs.device)
        seen = (places < steps) & (places >= steps - self.window)
        keys = (remembered @ self.memory)[:, None]
        queries = (outputs @ self.query)[:, :, None]
        scores = (torch.tanh(keys + queries) @ self.score)[..., 0]
        scores = scores.masked_fill(~seen, -1e9)
        context = (torch.softmax(scores, dim=-1) * seen) @ remembered
        merged = torch.cat([outputs, context], dim=-1)
        found = torch.tanh(merged @ self.output + self.bias)
        return found, (remembered[:, -self.window :].detach(),)


class AssociativeGRU(nn.Module):
    """Weissenborn (2016): a GRU that reads and writes complex memories."""

    def __init__(self, case):
        super().__init__()
        h, size = case.units, case.embedding
        self.copies, self.units = case.copies, h
        self.kernel = nn.Parameter(torch.empty(size, 4 * h))
        self.recurrent = nn.Parameter(torch.empty(h, 4 * h))
        self.memory = nn.Parameter(torch.empty(h, 3 * h))
        self.bias = nn.Parameter(torch.empty(3 * h))

    def permute(self, permutations):
        self.register_buffer("permutations", permutations)

    def forward(self, inputs):
        rows, _, h = *inputs.shape[:2], self.units
        projected = inputs @ self.kernel
        output = inputs.new_zeros(rows, h)
        memory = torch.complex(*inputs.new_zeros(2, rows, self.copies, h // 2))
        outputs = []
        for step in projected.unbind(1):
            step = step + output @ self.recurrent
            key = torch.complex(step[:, : h // 2], step[:, h // 2 : h])
            keys = (key / key.abs().clamp(min=1))[:, self.permutations]
            value = (keys.conj() * memory).mean(dim=1)
            value = torch.cat([value.real, value.imag], dim=-1)
            gates = step[:, h:] + self.bias
            update, reset = torch.sigmoid(
                gates[:, : 2 * h] + value @ self.memory[:, : 2 * h]
            ).chunk(2, dim=-1)
            candidate = torch.tanh(
                gates[:, 2 * h :] + (reset * value) @ self.memory[:, 2 * h :]
            )
            change = update * (candidate - value)
            output = value + change
            change = torch.complex(change[:, : h // 2], change[:, h // 2 :])
            memory = memory + keys * change[:, None]
            outputs.append(output)
        return torch.stack(outputs, dim=1)


MEMORIES = {
    "lstm": Projection,
    "lstm_3_parts": lambda case: Projection(case, 3),
    "attention": Attention,
    "key_value_predict": lambda case: Attention(case, 3),
    "attentive_combined": Attentive,
}

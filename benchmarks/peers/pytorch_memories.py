"""Memories in PyTorch without loops over slots or steps, and other layers."""

import numpy as np
import torch
from torch import nn


class Projection(nn.Module):
    """Projects the last part of an output, in a model without a memory."""

    def __init__(self, case, parts=1):
        super().__init__()
        self.outputs = case.units // parts
        self.kernel = nn.Parameter(torch.empty(self.outputs, self.outputs))

    def begin(self, rows):
        return ()

    def forward(self, outputs, state, tokens):
        return torch.tanh(outputs[..., -self.outputs :] @ self.kernel), state


class Attention(nn.Module):
    """Attention over outputs split into parts, as in Daniluk et al."""

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

    def forward(self, outputs, state, tokens):
        k, time = self.outputs, outputs.shape[1]
        remembered, filled = state
        remembered = torch.cat(
            [remembered, outputs[..., : self.remembered]], dim=1
        )
        filled = torch.cat([filled, torch.ones_like(outputs[..., 0])], dim=1)
        # The output of the last step is read only in the next batch.
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
    """Attention over the sentence with combined scores, as in Salton et al."""

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

    def forward(self, outputs, state, tokens):
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


class MemoryBlock(nn.Module):
    """Attention over the last words with a gate, as in Tran et al."""

    window = 15

    def __init__(self, case):
        super().__init__()
        k = self.outputs = case.units
        self.keys = nn.Parameter(torch.empty(case.vocabulary, k))
        self.values = nn.Parameter(torch.empty(case.vocabulary, k))
        self.temporal = nn.Parameter(torch.empty(self.window, k))
        self.context = nn.Parameter(torch.empty(k, 3 * k))
        self.gates = nn.Parameter(torch.empty(k, 2 * k))
        self.candidate = nn.Parameter(torch.empty(k, k))

    def begin(self, rows):
        device = self.temporal.device
        return (torch.zeros(2, rows, self.window - 1, device=device).long(),)

    def last_words(self, state, tokens):
        """Returns words, a mask that is true for empty slots, and the state."""
        new = torch.stack([tokens, torch.ones_like(tokens)])
        words, seen = both = torch.cat([*state, new], dim=2)
        unseen = seen.unfold(1, self.window, 1) == 0
        return words, unseen, (both[:, :, 1 - self.window :],)

    def forward(self, outputs, state, tokens):
        words, unseen, state = self.last_words(state, tokens)
        keys, values = (
            nn.functional.embedding(words, table).unfold(1, self.window, 1)
            for table in (self.keys, self.values)
        )
        scores = torch.einsum("btk,btkl->btl", outputs, keys)
        scores = scores + outputs @ self.temporal.T
        weights = torch.softmax(scores.masked_fill(unseen, -1e9), dim=-1)
        context = torch.einsum("btl,btkl->btk", weights, values)
        parts = (context @ self.context).chunk(3, dim=-1)
        gates = (outputs @ self.gates).chunk(2, dim=-1)
        update, reset = (torch.sigmoid(p + g) for p, g in zip(parts, gates))
        found = torch.tanh(parts[2] + (reset * outputs) @ self.candidate)
        found = outputs + update * (found - outputs)
        return found, state


class MemoryNetwork(MemoryBlock):
    """One layer of attention with a constant query, as in Sukhbaatar et al."""

    def __init__(self, case):
        nn.Module.__init__(self)
        k = self.outputs = case.units
        self.values = nn.Parameter(torch.empty(case.vocabulary, k))
        self.temporal = nn.Parameter(torch.empty(self.window, k))
        self.output_temporal = nn.Parameter(torch.empty(self.window, k))
        self.query = nn.Parameter(torch.empty(k, k))

    def forward(self, outputs, state, tokens):
        words, unseen, state = self.last_words(state, tokens)
        before = self.embed(words[:, : self.window - 1])
        query = torch.full_like(self.query[0], 0.1)
        # Before temporal terms, a word has the same score in all windows.
        scores = torch.cat([before, outputs], dim=1) @ query
        scores = scores.unfold(1, self.window, 1) + self.temporal @ query
        weights = torch.softmax(scores.masked_fill(unseen, -1e9), dim=-1)
        values = nn.functional.embedding(words, self.values)
        values = values.unfold(1, self.window, 1)
        context = torch.einsum("btl,btkl->btk", weights, values)
        context = context + weights @ self.output_temporal
        linear, other = (context + query @ self.query).chunk(2, dim=-1)
        return torch.cat([linear, torch.relu(other)], dim=-1), state


class LSTMNetwork(nn.Module):
    """An LSTM that attends to its earlier states, as in Cheng et al."""

    def __init__(self, case):
        super().__init__()
        h = case.units
        self.window = case.window
        self.kernel = nn.Parameter(torch.empty(case.embedding, 5 * h))
        self.recurrent = nn.Parameter(torch.empty(h, 4 * h))
        self.bias = nn.Parameter(torch.empty(4 * h))
        self.key = nn.Parameter(torch.empty(h, h))
        self.read = nn.Parameter(torch.empty(h, h))
        self.score = nn.Parameter(torch.empty(h, 1))

    def forward(self, inputs):
        h = len(self.key)
        gates, queries = (inputs @ self.kernel).split([4 * h, h], dim=-1)
        gates = gates + self.bias
        keys, states = [], []
        read = cell = inputs.new_zeros(len(inputs), h)
        for gate, query in zip(gates.unbind(1), queries.unbind(1)):
            if states:
                query = query + read @ self.read
                seen = torch.stack(keys[-self.window :], dim=1)
                scores = torch.tanh(seen + query[:, None]) @ self.score
                weights = torch.softmax(scores, dim=1).transpose(1, 2)
                mixed = weights @ torch.stack(states[-self.window :], dim=1)
                read, cell = mixed[:, 0].chunk(2, dim=-1)
            gate = gate + read @ self.recurrent
            i, f, g, o = gate.chunk(4, dim=-1)
            cell = torch.sigmoid(f) * cell + torch.sigmoid(i) * torch.tanh(g)
            output = torch.sigmoid(o) * torch.tanh(cell)
            keys.append(output @ self.key)
            states.append(torch.cat([output, cell], dim=-1))
        return torch.stack(states, dim=1)[..., :h]


class WordByWord(nn.Module):
    """Attention over another sequence, as in Rocktaeschel et al."""

    def __init__(self, case):
        super().__init__()
        k = case.units
        self.kernel = nn.Parameter(torch.empty(case.embedding, 2 * k))
        square = [torch.empty(k, k) for _ in range(6)]
        self.kernels = nn.ParameterList([*square, torch.empty(k, 1)])
        lengths = torch.from_numpy(case.lengths())
        places = torch.arange(case.time)
        self.register_buffer("words", places < lengths[:, None])
        self.register_buffer("last", places == lengths[:, None] - 1)

    def forward(self, inputs):
        premise, outputs = (inputs @ self.kernel).chunk(2, dim=-1)
        of_premise, of_output, of_read, transition, *others = self.kernels
        final_read, final_output, score = others
        keys, queries = premise @ of_premise, outputs @ of_output
        unseen = ~self.words[..., None]
        read = torch.zeros_like(queries[:, 0])
        for query, is_word in zip(queries.unbind(1), self.words.unbind(1)):
            query = query + read @ of_read
            scores = torch.tanh(keys + query[:, None]) @ score
            scores = scores.masked_fill(unseen, -1e9)
            weights = torch.softmax(scores, dim=1).transpose(1, 2)
            found = (weights @ premise)[:, 0] + torch.tanh(read @ transition)
            read = torch.where(is_word[:, None], found, read)
        return torch.tanh(read @ final_read + outputs[self.last] @ final_output)


class AssociativeGRU(nn.Module):
    """A GRU that reads and writes complex memories (Weissenborn, 2016)."""

    def __init__(self, case):
        super().__init__()
        h, size = case.units, case.embedding
        self.copies, self.units = case.copies, h
        self.kernel = nn.Parameter(torch.empty(size, 4 * h))
        self.recurrent = nn.Parameter(torch.empty(h, 4 * h))
        self.memory = nn.Parameter(torch.empty(h, 3 * h))
        self.bias = nn.Parameter(torch.empty(3 * h))
        # The first copy has no permutation; each other copy has one (seed 0).
        random, first = np.random.default_rng(0), np.arange(h // 2)
        drawn = [random.permutation(h // 2) for _ in range(case.copies - 1)]
        permutations = torch.from_numpy(np.array([first, *drawn]))
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
    "rm_tm_gated": MemoryBlock,
    "memory_network": MemoryNetwork,
}
LAYERS = {
    "associative_gru": AssociativeGRU,
    "lstm_network": LSTMNetwork,
    "word_by_word": WordByWord,
}

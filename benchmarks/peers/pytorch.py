"""A language model as users of PyTorch would write it."""

import contextlib

import torch
from torch import nn

from benchmarks.peers.pytorch_memories import LAYERS
from benchmarks.peers.pytorch_memories import MEMORIES


class Model(nn.Module):
    """Embedding, `nn.LSTM`, an optional memory, and an output layer."""

    def __init__(self, case, memory):
        super().__init__()
        self.embedding = nn.Embedding(case.vocabulary, case.embedding)
        self.lstm = case.layers and nn.LSTM(
            case.embedding, case.units, case.layers, batch_first=True
        )
        self.memory = memory
        if memory is not None:
            # A memory network also embeds the words in its state.
            memory.embed = self.embedding.forward
        size = case.units if memory is None else memory.outputs
        self.output = nn.Linear(size, case.vocabulary)
        if case.tied:
            self.output.weight = self.embedding.weight

    def begin(self, rows):
        return None, self.memory and self.memory.begin(rows)

    def forward(self, tokens, state):
        lstm, memory = state
        outputs = self.embedding(tokens)
        if self.lstm:
            outputs, lstm = self.lstm(outputs, lstm)
            lstm = tuple(part.detach() for part in lstm)
        if self.memory is not None:
            outputs, memory = self.memory(outputs, memory, tokens)
        return self.output(outputs), (lstm, memory)

    @torch.no_grad()
    def load(self, case):
        memory = [] if self.memory is None else list(self.memory.parameters())
        weights = case.weights(
            [tuple(weight.shape) for weight in memory],
            self.output.in_features,
        )
        weights = {k: torch.from_numpy(v) for k, v in weights.items()}
        self.embedding.weight.copy_(weights["embedding"])
        for layer in range(case.layers):
            # The gates have Keras' order. The second bias is redundant and
            # fixed: training it would double the learning rate of the first.
            getattr(self.lstm, f"bias_hh_l{layer}").zero_()
            getattr(self.lstm, f"bias_hh_l{layer}").requires_grad_(False)
            for name, value in (
                ("weight_ih", weights[f"kernel_{layer}"].T),
                ("weight_hh", weights[f"recurrent_kernel_{layer}"].T),
                ("bias_ih", weights[f"bias_{layer}"]),
            ):
                getattr(self.lstm, f"{name}_l{layer}").copy_(value)
        for index, weight in enumerate(memory):
            weight.copy_(weights[f"memory_{index}"])
        if not case.tied:
            self.output.weight.copy_(weights["output_kernel"].T)
        self.output.bias.copy_(weights["output_bias"])


class Contender:
    """Base class of contenders, with the device and matrix products."""

    def __init__(self, case):
        self.case = case
        self.device = "cuda" if torch.cuda.is_available() else "cpu"

    def product(self, rows, inner, columns, dtype):
        dtype = getattr(torch, dtype)
        left = torch.ones(rows, inner, dtype=dtype, device=self.device)
        right = torch.ones(inner, columns, dtype=dtype, device=self.device)

        def run():
            found = left @ right
            return float(found[0, 0])

        return run


class Trained(Contender):
    """A language model in the usual training loop."""

    def __init__(self, case, memory, precision, compiled=False):
        super().__init__(case)
        self.precision = precision
        self.model = Model(case, memory)
        self.model.load(case)
        self.model.to(self.device)
        self.run = self.model
        if compiled:
            # Without a GPU, `eager` only tests that the model can be traced.
            engine = "inductor" if self.device == "cuda" else "eager"
            self.run = torch.compile(self.model, backend=engine)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=1.0)
        self.state = self.model.begin(case.batch)

    def step(self, inputs, targets):
        inputs = torch.from_numpy(inputs).to(self.device).long()
        targets = torch.from_numpy(targets).to(self.device).long()
        cast = contextlib.nullcontext()
        if self.precision == "mixed_bfloat16":
            cast = torch.autocast(self.device, torch.bfloat16)
        with cast:
            logits, self.state = self.run(inputs, self.state)
            loss = nn.functional.cross_entropy(
                logits.view(-1, self.case.vocabulary), targets.view(-1)
            )
        self.optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), 5.0)
        self.optimizer.step()
        return loss.detach()

    def losses(self, steps):
        found = [self.step(*b) for b in zip(*self.case.batches(steps))]
        return float(torch.stack(found).mean())

    def steps(self, number):
        for inputs, targets in zip(*self.case.batches(number)):
            loss = self.step(inputs, targets)
        float(loss)


class Streamed(Contender):
    """A language model that reads the rows of the case, step after step."""

    def __init__(self, case, memory):
        super().__init__(case)
        self.model = Model(case, memory)
        self.model.load(case)
        self.model.to(self.device).eval()

    @torch.no_grad()
    def losses(self, steps):
        inputs, targets = (
            torch.from_numpy(part).to(self.device).long()
            for part in self.case.batches(steps)
        )
        state, found = self.model.begin(self.case.batch), []
        for ids, wanted in zip(inputs, targets):
            logits, state = self.model(ids, state)
            found.append(
                nn.functional.cross_entropy(
                    logits.flatten(0, 1), wanted.ravel()
                )
            )
        return float(torch.stack(found).mean())

    def steps(self, number):
        self.losses(number)


class LayerAlone(Contender):
    """Runs a layer forward and backward; the loss is the mean square output."""

    def __init__(self, case, layer):
        super().__init__(case)
        self.layer = layer
        with torch.no_grad():
            weights = list(layer.parameters())
            values = case.draw([tuple(weight.shape) for weight in weights])
            for weight, value in zip(weights, values):
                weight.copy_(torch.from_numpy(value))
        layer.to(self.device)
        self.inputs = torch.from_numpy(case.inputs()).to(self.device)

    def losses(self, steps):
        for _ in range(steps):
            self.layer.zero_grad()
            outputs = self.layer(self.inputs)
            if isinstance(outputs, tuple):
                outputs = outputs[0]
            loss = outputs.square().mean()
            loss.backward()
        return float(loss.detach())

    def steps(self, number):
        self.losses(number)


def make(case, variant, precision):
    if case.kind == "layer":
        if variant == "gru":
            size = case.embedding
            return LayerAlone(case, nn.GRU(size, case.units, batch_first=True))
        return LayerAlone(case, LAYERS[variant](case))
    plain = variant in ("plain", "compiled")
    memory = None if plain else MEMORIES[variant](case)
    if case.kind == "step":
        return Streamed(case, memory)
    return Trained(case, memory, precision, variant == "compiled")

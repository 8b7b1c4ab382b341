"""PyTorch as its users write a language model."""

import contextlib

import torch
from torch import nn


class Model(nn.Module):
    """Embedding, `nn.LSTM`, and an output layer that may share its matrix."""

    def __init__(self, case):
        super().__init__()
        self.embedding = nn.Embedding(case.vocabulary, case.embedding)
        self.lstm = nn.LSTM(
            case.embedding, case.units, case.layers, batch_first=True
        )
        self.output = nn.Linear(case.units, case.vocabulary)
        if case.tied:
            self.output.weight = self.embedding.weight

    def forward(self, tokens, state):
        outputs, state = self.lstm(self.embedding(tokens), state)
        return self.output(outputs), state


class Contender:
    def __init__(self, case, precision):
        device = "cuda" if torch.cuda.is_available() else "cpu"
        self.device = device
        self.case = case
        self.precision = precision
        self.model = Model(case).to(device)
        self.load(case.weights())
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=1.0)
        self.state = None

    @torch.no_grad()
    def load(self, weights):
        weights = {k: torch.from_numpy(v) for k, v in weights.items()}
        model, lstm = self.model, self.model.lstm
        model.embedding.weight.copy_(weights["embedding"])
        for layer in range(self.case.layers):
            # Gates stand in the order of Keras. The second bias is redundant:
            # trained too, it would double the learning rate of the first.
            getattr(lstm, f"bias_hh_l{layer}").zero_().requires_grad_(False)
            getattr(lstm, f"weight_ih_l{layer}").copy_(
                weights[f"kernel_{layer}"].T
            )
            getattr(lstm, f"weight_hh_l{layer}").copy_(
                weights[f"recurrent_kernel_{layer}"].T
            )
            getattr(lstm, f"bias_ih_l{layer}").copy_(weights[f"bias_{layer}"])
        if not self.case.tied:
            model.output.weight.copy_(weights["output_kernel"].T)
        model.output.bias.copy_(weights["output_bias"])

    def step(self, inputs, targets):
        inputs = torch.from_numpy(inputs).to(self.device).long()
        targets = torch.from_numpy(targets).to(self.device).long()
        cast = contextlib.nullcontext()
        if self.precision == "mixed_bfloat16":
            cast = torch.autocast(self.device, torch.bfloat16)
        with cast:
            logits, state = self.model(inputs, self.state)
            loss = nn.functional.cross_entropy(
                logits.view(-1, self.case.vocabulary), targets.view(-1)
            )
        self.state = tuple(part.detach() for part in state)
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

    def product(self, rows, inner, columns, dtype):
        dtype = getattr(torch, dtype)
        left = torch.ones(rows, inner, dtype=dtype, device=self.device)
        right = torch.ones(inner, columns, dtype=dtype, device=self.device)

        def run():
            found = left @ right
            return float(found[0, 0])

        return run


def make(case, variant, precision):
    return Contender(case, precision)

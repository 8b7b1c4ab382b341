"""Recorded steps of PyTorch: the operations of a step without its Python."""

import contextlib

import torch
from keras.src.backend.torch import random as keras_random
from torch.fx.experimental import proxy_tensor
from torch.utils import _pytree as pytree

from memlm_keras.opaque import opaque

# Recording takes as long as about so many steps of a small model.
AFTER = 50
MOST_SHAPES = 128


class Steps:
    """Runs a step of a Keras trainer, recorded for the shapes that repeat.

    A step of a small model takes longer in Python than in its operations. So
    the operations of a step, with its gradients and updates, are traced once
    for each shape of batches and then run by themselves, as the other backends
    run compiled steps. Results are those of the step itself.

    A step that depends on the values of its tensors in Python cannot be
    traced: it runs as it is.

    Args:
        step: function from a batch to a dict of tensors, a method of `model`.
        model: compiled Keras model. All that a step changes are its variables,
            those of its optimizer and those of its metrics.
    """

    def __init__(self, step, model):
        self.step = step
        self.model = model
        self.seen = {}
        self.recordings = {}
        self.possible = True

    def __call__(self, data):
        batch = data[0]
        leaves, structure = pytree.tree_flatten(batch)
        if not self.possible or not all(map(torch.is_tensor, leaves)):
            return self.step(batch)
        shapes = tuple((leaf.shape, leaf.dtype) for leaf in leaves)
        recording = self.recordings.get(shapes)
        if recording is not None and recording.is_current():
            return recording.run(leaves)
        if len(self.recordings) == MOST_SHAPES:
            return self.step(batch)
        self.seen[shapes] = self.seen.get(shapes, 0) + 1
        if self.seen[shapes] <= AFTER:
            return self.step(batch)
        self.seen[shapes] = 0
        try:
            recording = Recording(self.step, self.model, leaves, structure)
        except Exception:
            # Errors of tracing have many types. If the step itself is wrong,
            # it raises its own error here.
            self.possible = False
            return self.step(batch)
        self.recordings[shapes] = recording
        return recording.run(leaves)


class Recording:
    """The operations of a step on batches of one shape."""

    def __init__(self, step, model, leaves, structure):
        metrics = [v for metric in model.metrics for v in metric.variables]
        variables = [*model.variables, *model.optimizer.variables, *metrics]
        self.tensors = [(v, v.value, v.value.requires_grad) for v in variables]

        def run(*leaves):
            logs = step(pytree.tree_unflatten(leaves, structure))
            values, self.structure = pytree.tree_flatten(logs)
            if not all(map(torch.is_tensor, values)):
                raise TypeError("a result that is no tensor is a constant")
            return values

        # PyTorch keeps the values of single numbers, and changes them.
        numbers = [t for _, t, _ in self.tensors if t.numel() == 1]
        before = [number.detach().clone() for number in numbers]
        try:
            with _recorded_draws():
                # Nothing is computed: tensors have shapes and no values.
                self.graph = proxy_tensor.make_fx(
                    run, tracing_mode="fake", _allow_non_fake_inputs=True
                )(*leaves)
        finally:
            model.zero_grad()
            with torch.no_grad():
                for number, value in zip(numbers, before):
                    number.copy_(value)
        # The gradients are operations, so PyTorch has nothing to note.
        for name, parameter in list(self.graph.named_parameters()):
            delattr(self.graph, name)
            setattr(self.graph, name, parameter.detach())
        for node in self.graph.graph.nodes:
            if node.target is torch.ops.aten.detach.default:
                node.replace_all_uses_with(node.args[0])
        self.graph.graph.eliminate_dead_code()
        self.graph.recompile()

    def is_current(self):
        """Whether the model still has the tensors that were recorded, and
        trains the same ones."""
        return all(
            variable._value is tensor and tensor.requires_grad is trained
            for variable, tensor, trained in self.tensors
        )

    def run(self, leaves):
        return pytree.tree_unflatten(self.graph(*leaves), self.structure)


# === Random numbers ===

# Keras seeds a generator for each draw by a number in Python, which a recording
# would repeat. In a recording, a draw is an operation with the seed as input.

_DRAWN = ("bernoulli", "multinomial", "normal", "rand", "randint")


class _TorchWithSeeds:
    """The module `torch`, whose random functions take a seed as generator."""

    def __getattr__(self, name):
        function = getattr(torch, name)
        return _with_seed(function) if name in _DRAWN else function


def _with_seed(function):
    def draw(*arguments, generator, **keywords):
        number = sum(map(torch.is_tensor, arguments))
        others = arguments[number:]

        def run(seed, *tensors):
            first, second = seed.tolist()
            generator = torch.Generator(seed.device)
            generator.manual_seed((first + second) & 0xFFFFFFFF)
            seeded = {**keywords, "generator": generator}
            return (function(*tensors, *others, **seeded),)

        def like(seed, *tensors):
            return (function(*tensors, *others, **keywords),)

        return opaque(run, like)(generator, *arguments[:number])[0]

    return draw


@contextlib.contextmanager
def _recorded_draws():
    torch_module = keras_random.torch
    seeded = keras_random.torch_seed_generator
    keras_random.torch = _TorchWithSeeds()
    keras_random.torch_seed_generator = keras_random.draw_seed
    try:
        yield
    finally:
        keras_random.torch = torch_module
        keras_random.torch_seed_generator = seeded

"""Records the operations of training steps on PyTorch, and replays them."""

import contextlib
import functools
import os
import warnings

import torch
from keras import ops
from torch.fx.experimental import proxy_tensor
from torch.utils import _pytree as pytree

from memlm_keras.gradients import opaque
from memlm_keras.keras_private import torch_random

# Number of steps with one batch shape before the operations of a step are
# recorded. Recording a step takes about as long as running `AFTER` steps.
AFTER = 50
MOST_SHAPES = 128
# Replaying more operations than this is not faster than running the step.
MOST_OPERATIONS = 3250
# Environment variable: 1 runs recorded steps on a GPU as CUDA graphs.
VARIABLE = "MEMLM_CUDA_GRAPHS"


class Steps:
    """Runs a model's steps, and replays recorded operations if shapes repeat.

    With a small model, a step spends more time in Python than in operations. A
    step's operations, including gradients and updates, are traced once per
    batch shape, and replayed without the step's Python code. Results are equal.

    Steps whose Python code depends on the values of tensors cannot be traced;
    such steps run unchanged. Parameters have no `grad` after a replayed step.

    Args:
        step: Method of `model` that maps a batch to a dict of tensors.
        model: Compiled Keras model. A step may change only the variables of
            the model, its optimizer and its metrics.
    """

    def __init__(self, step, model):
        self.step = step
        self.model = model
        self.seen = {}
        self.recordings = {}
        self.possible = True
        self.cuda_graphs = os.environ.get(VARIABLE) == "1"
        # CUDA graphs share memory, since they never run at the same time.
        self.pool = functools.cache(torch.cuda.graph_pool_handle)

    def __call__(self, data):
        batch = data[0]
        leaves, structure = pytree.tree_flatten(batch)
        if not self.possible or not all(map(torch.is_tensor, leaves)):
            return self.step(batch)
        if self.cuda_graphs:
            leaves = [*map(ops.convert_to_tensor, leaves)]
            batch = pytree.tree_unflatten(leaves, structure)
        shapes = tuple((leaf.shape, leaf.dtype) for leaf in leaves)
        recording = self.recordings.get(shapes)
        if recording is not None and recording.is_of(structure):
            return recording.run(leaves)
        self.seen[shapes] = self.seen.get(shapes, 0) + 1
        if self.seen[shapes] <= AFTER or len(self.recordings) == MOST_SHAPES:
            return self.step(batch)
        self.seen[shapes] = 0
        try:
            of_batch = leaves, structure, self.cuda_graphs and self.pool
            recording = Recording(self.step, self.model, *of_batch)
        except Exception:
            # Tracing raises errors of many types. If the step itself fails, its
            # own error is raised below.
            self.possible = False
            return self.step(batch)
        self.recordings[shapes] = recording
        return recording.run(leaves)


class Recording:
    """The recorded operations of a step for one batch shape. The constructor
    raises an exception if the step depends on the values of tensors."""

    def __init__(self, step, model, leaves, structure, pool):
        self.structure = structure
        changing = [model, model.optimizer, *model.metrics]
        variables = [v for part in changing for v in part.variables]
        self.tensors = [
            (v, v.value, v.value.data_ptr(), v.value.requires_grad)
            for v in variables
        ]
        # Tracing treats scalars, such as the number of steps, as constants
        # unless they are inputs.
        single = [v for v in variables if v.value.numel() == 1]
        counts = [v for v in single if not v.value.requires_grad]
        self.counts = [v.value for v in counts]

        def run(*tensors):
            for variable, value in zip(counts, tensors):
                variable._value = value
            batch = pytree.tree_unflatten(tensors[len(counts) :], structure)
            values, self.logs = pytree.tree_flatten(step(batch))
            if not all(map(torch.is_tensor, values)):
                raise TypeError("a recorded step must return only tensors")
            return values

        before = [v.value.detach().clone() for v in single]
        try:
            with _recorded_draws():
                # Fake tensors have shapes but no values.
                self.graph = proxy_tensor.make_fx(
                    run, tracing_mode="fake", _allow_non_fake_inputs=True
                )(*self.counts, *leaves)
        finally:
            for variable, value in zip(counts, self.counts):
                variable._value = value
            with torch.no_grad():
                for variable, value in zip(single, before):
                    variable.value.copy_(value)
            model.zero_grad()
        # The graph computes the gradients itself, without autograd.
        for name, parameter in list(self.graph.named_parameters()):
            delattr(self.graph, name)
            setattr(self.graph, name, parameter.detach())
        if len(self.graph.graph.nodes) > MOST_OPERATIONS:
            raise ValueError(f"a step has over {MOST_OPERATIONS} operations")
        self.call = functools.partial(self.graph, *self.counts)
        if pool and on_gpu([*leaves, *(t for _, t, *_ in self.tensors)]):
            self.call = CudaGraph(self.call, pool)

    def is_of(self, structure):
        """Returns whether the batches' structure and the tensors of the model's
        variables are the recorded ones."""
        return structure == self.structure and all(
            variable._value is tensor
            and tensor.data_ptr() == place
            and tensor.requires_grad is trained
            for variable, tensor, place, trained in self.tensors
        )

    def run(self, leaves):
        return pytree.tree_unflatten(self.call(*leaves), self.logs)


def on_gpu(tensors):
    """Returns whether all tensors are on a GPU, as CUDA graphs require."""
    return all(tensor.is_cuda for tensor in tensors)


class CudaGraph:
    """Runs a function as one CUDA graph from its second call on. If this is not
    possible, or memory is too small, warns and calls the function."""

    def __init__(self, run, pool):
        self.run, self.pool = run, pool
        self.calls, self.graph = 0, None

    def __call__(self, *tensors):
        self.calls += 1
        # The first call loads libraries, which is not allowed during a capture.
        if self.calls == 2:
            self._capture(tensors)
        if self.graph is None:
            return self.run(*tensors)
        for place, tensor in zip(self.inputs, tensors):
            place.copy_(tensor)
        self.graph.replay()
        # Copy results: the next replay of the CUDA graph overwrites them.
        return [output.clone() for output in self.outputs]

    def _capture(self, tensors):
        graph = torch.cuda.CUDAGraph()
        try:
            self.inputs = [tensor.clone() for tensor in tensors]
            with torch.cuda.graph(graph, pool=self.pool()):
                self.outputs = self.run(*self.inputs)
            self.graph = graph
        except RuntimeError as error:
            why = "a step with dropout, for example, cannot be captured"
            # Ending a failed capture of a CUDA graph may raise a second error.
            for each in (error, error.__context__):
                if isinstance(each, torch.OutOfMemoryError):
                    why = "the GPU has too little memory; a smaller batch helps"
            warnings.warn(f"{VARIABLE}=1 makes no CUDA graph: {why} ({error})")


# === Random numbers ===

# For each random draw, Keras seeds a generator in Python, so a recorded step
# would repeat its numbers. Recorded draws are operations on a seed tensor.

_DRAWN = ("bernoulli", "multinomial", "normal", "rand", "randint")


class _TorchWithSeeds:
    """Replaces `torch`; random functions take a seed tensor as `generator`."""

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
    torch_module = torch_random.torch
    seeded = torch_random.torch_seed_generator
    torch_random.torch = _TorchWithSeeds()
    torch_random.torch_seed_generator = torch_random.draw_seed
    try:
        yield
    finally:
        torch_random.torch = torch_module
        torch_random.torch_seed_generator = seeded

"""Runs contenders of a case in turns, each in its own process."""

import contextlib
import dataclasses
import json
import math
import os
import statistics
import subprocess
import sys

from memlm_keras.experiments import process

# Number of steps whose losses are compared before timing.
CHECKED_STEPS = 3
# Number of steps after which this package has recorded a step on PyTorch.
RECORDED = 110
# On a CPU, the time of a step, in seconds, in which Python has little part.
_LONG_STEP = 0.2
# Smallest number of steps of a turn: `fit` takes time to start.
_LEAST_STEPS = 6


class Worker:
    """Runs a process of `benchmarks.worker`."""

    def __init__(self, case, contender, threads):
        sizes = {
            field.name: getattr(case, field.name)
            for field in dataclasses.fields(case)
            if field.type is int
        }
        self.contender = contender
        self.process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "benchmarks.worker",
                case.name,
                contender.peer,
                contender.backend,
                contender.variant,
                contender.precision,
                str(threads),
                json.dumps(sizes),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            # On a GPU, a process allocates only the memory that it needs.
            env={
                **process.KEEPS_MEMORY,
                **os.environ,
                "PYTHONWARNINGS": "ignore",
                "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
                "TF_FORCE_GPU_ALLOW_GROWTH": "true",
            },
        )

    def send(self, *line):
        """Sends a command."""
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.write(json.dumps(line) + "\n")
            self.process.stdin.flush()

    def ask(self, *line):
        """Sends a command and returns the answer; raises `RuntimeError` if the
        process ends."""
        self.send(*line)
        return self.receive()

    def receive(self):
        """Returns the next answer."""
        answer = self.process.stdout.readline()
        if not answer:
            lines = self.process.stderr.read().strip().splitlines()
            raise RuntimeError(lines[-1] if lines else "the process ended")
        return json.loads(answer)

    def end(self):
        self.process.kill()
        self.process.communicate()


@dataclasses.dataclass
class Result:
    """Losses and times of a contender.

    Attributes:
        contender: name of the contender.
        loss: mean loss of the first steps.
        refused: why the contender was not timed, or `None`.
        seconds: seconds per step, one number per round.
        peak: operations per second of a large matrix product in the process.
        memory: growth of the process's memory, in bytes.
        card: name of the graphics card, or `None`.
        start: for the kind `"step"`, a dict with the seconds of `loading` and
            of the `first` answer, the peak `memory` of the process until then,
            and the `bytes` of the model's file.
    """

    contender: str
    loss: float | None = None
    refused: str | None = None
    seconds: list = dataclasses.field(default_factory=list)
    peak: float | None = None
    memory: int | None = None
    card: str | None = None
    start: dict | None = None


def run(case, contenders, threads=2, rounds=5, turn=2.0, warm=0, log=print):
    """Times contenders in turns of about `turn` seconds, after `warm` steps;
    returns `Result`s. With `warm`, contenders start at the same time."""
    workers, results = [], [Result(c.name) for c in contenders]
    try:
        for contender, result in zip(contenders, results):
            log(f"{case.name}: {contender.name} starts")
            worker = Worker(case, contender, threads)
            workers.append(worker)
            if warm:
                worker.send("losses", CHECKED_STEPS)
                continue
            try:
                if case.kind == "step":
                    result.start = worker.ask("start")
                result.loss = worker.ask("losses", CHECKED_STEPS)
            except RuntimeError as error:
                result.refused = str(error)
        for worker, result in zip(workers, results) if warm else ():
            try:
                result.loss = worker.receive()
            except RuntimeError as error:
                result.refused = str(error)
        judge(contenders, results)
        timed = [
            (worker, result)
            for worker, result in zip(workers, results)
            if result.refused is None
        ]
        steps = {}
        for worker, result in timed:
            worker.ask("steps", 2 + warm)
            steps[result.contender] = number = steps_of_a_turn(worker, turn)
            if not warm and turn / number < _LONG_STEP:
                worker.ask("steps", RECORDED)
        for index in range(rounds):
            log(f"{case.name}: round {index + 1} of {rounds}")
            for worker, result in timed:
                number = steps[result.contender]
                result.seconds.append(worker.ask("steps", number) / number)
        for worker, result in timed:
            result.memory = worker.ask("memory")
            if case.kind != "step":
                result.card = worker.ask("card")
            precision = worker.contender.precision
            dtype = "bfloat16" if precision.endswith("bfloat16") else "float32"
            result.peak = worker.ask("peak", dtype)
    finally:
        for worker in workers:
            worker.end()
    return results


def _two_times(worker, number):
    return [worker.ask("steps", number) for _ in range(2)]


def steps_of_a_turn(worker, turn):
    """Returns the number of steps that last about `turn` seconds."""
    number = 2
    # The first of two measurements may include compilation.
    while (seconds := min(_two_times(worker, number))) < turn / 2:
        number = math.ceil(number * min(turn / seconds, 8))
    return max(_LEAST_STEPS, math.ceil(number * turn / seconds))


def judge(contenders, results):
    """Sets `refused` of each contender whose loss differs from the loss of the
    first contender with the same `computes`."""
    references = {}
    for contender, result in zip(contenders, results):
        if result.refused is not None:
            continue
        if not math.isfinite(result.loss):
            result.refused = f"its loss is {result.loss}"
            continue
        reference = references.setdefault(contender.computes, result)
        apart = abs(result.loss - reference.loss) / abs(reference.loss)
        if apart > contender.tolerance:
            result.refused = (
                f"its loss of {CHECKED_STEPS} steps is {result.loss:.6f}, but "
                f"{reference.contender} has {reference.loss:.6f}"
            )


def ratios(result, base):
    """Returns median, minimum and maximum ratio to `base` over all rounds."""
    values = sorted(a / b for a, b in zip(result.seconds, base.seconds))
    return statistics.median(values), values[0], values[-1]

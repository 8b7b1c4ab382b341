"""`memlm claims`: trains what decides the papers' claims, and tells how."""

import concurrent.futures
import dataclasses
import math
import pathlib
import shlex
import threading
import time

import keras

from memlm_keras.experiments import claim_report
from memlm_keras.experiments import settings
from memlm_keras.experiments.claim_logs import LOSSES
from memlm_keras.experiments.claim_logs import keep
from memlm_keras.experiments.claim_logs import losses_of
from memlm_keras.experiments.claim_settings import SETTINGS
from memlm_keras.experiments.claims_of_papers import CLAIMS
from memlm_keras.experiments.options import UsageError
from memlm_keras.experiments.options import nearest
from memlm_keras.experiments.options import read_options
from memlm_keras.experiments.options import take
from memlm_keras.experiments.subcommands import COMMANDS
from memlm_keras.experiments.subcommands import as_flag
from memlm_keras.experiments.table import experiment_of
from memlm_keras.experiments.table_runs import in_fresh_process
from memlm_keras.experiments.table_runs import train_one


@dataclasses.dataclass(frozen=True)
class Model:
    """A model of a claim in a setting.

    Args:
        paper: string.
        text: string, its preset and own flags.
        setting: `Setting`.
        size: `"small"` or `"paper"`.
    """

    paper: str
    text: str
    setting: object
    size: str

    def run(self, seed, run_dir="runs", data_dir=None):
        """The `ClaimRun` of a seed."""
        preset, *own = self.text.split()
        flags = getattr(self.setting, self.size).split()
        arguments = [f"{self.paper}/{preset}", *own, *flags]
        positional, values = COMMANDS["train"].parse(arguments)
        running = take(settings.RUNNING, values)
        dataset = values.pop("dataset")
        if data_dir is not None:
            values["data_dir"] = data_dir
        values = read_options(settings.OVERRIDES.values(), values)
        own = {flag.partition("=")[0][2:] for flag in own}
        experiment = experiment_of(
            {
                "preset": positional.preset,
                "dataset": dataset,
                "seed": seed,
                "overrides": {k: values[k] for k in values if k not in own},
                "changes": {k: values[k] for k in values if k in own},
            }
        )
        recipe = experiment.recipe
        preset = recipe.pop("preset")
        recipe.pop("data_dir", None)
        flags = [as_flag(k, v) for k, v in {**recipe, **running}.items()]
        folder = pathlib.Path(run_dir, experiment.name)
        return ClaimRun(folder, [preset, *flags], experiment.dataset)


@dataclasses.dataclass(frozen=True)
class ClaimRun:
    """A model trained with one seed.

    Args:
        folder: `pathlib.Path` of its run folder.
        flags: list of strings, arguments of `memlm train`.
        dataset: `Dataset` that it reads.
    """

    folder: pathlib.Path
    flags: list
    dataset: object

    @property
    def command(self):
        """The command that trains it."""
        return shlex.join(["memlm", "train", *self.flags])


def models_of(claims, size="small"):
    """All models of claims, those of a setting together.

    Args:
        claims: iterable of `Claim`s.
        size: `"small"` or `"paper"`.

    Returns:
        Dict of `Model`s by the name of the setting and the text.
    """
    return {
        (name, text): Model(claim.paper, text, setting, size)
        for name, setting in SETTINGS.items()
        for claim in claims
        if name in claim.settings
        for text in (claim.better, claim.than)
    }


def claims(positional, values, command):
    """Trains what is missing, and writes what it decides.

    Returns:
        The exit status: 1 where a run failed.
    """
    if values.get("queue") and values.get("finished_only"):
        raise UsageError(
            "--queue shows what is to be trained, and --finished_only trains "
            "nothing. Give one of them."
        )
    size = values.get("size", "small")
    out = pathlib.Path(values.get("out", "claims"))
    run_dir = pathlib.Path(values.get("run_dir", "runs"))
    data_dir = values.get("data_dir")
    models = _asked(positional.claim, values.get("setting"), size)
    runs = _in_order(models, run_dir, data_dir)
    kept = out / "logs" / size
    queue = [
        run for run in runs if not (kept / run.folder.name / LOSSES).exists()
    ]
    if values.get("queue"):
        print(f"{len(queue)} of {len(runs)} runs are to come:")
        for run in queue:
            print(f"  {run.command}")
        return 0
    failed = 0
    if not values.get("finished_only"):
        failed = _train_all(queue, kept, values)
    elif len(queue) == len(runs):
        print(
            f"None of {len(runs)} runs is finished in {kept}. Those that are "
            "published with the package are in a clone of its repository: "
            "--out=docs/results."
        )
    # Of all claims, so that a document is never of some alone.
    every = models_of(CLAIMS, size)
    losses = {key: losses_of(model, kept) for key, model in every.items()}
    path = out / "claims.md"
    claim_report.write(path, every, losses, size, command)
    print(f"See {path}")
    return 1 if failed else 0


def _asked(names, setting, size):
    """The models that claims of some names need in a setting, or in all."""
    known = {f"{claim.paper}/{claim.name}": claim for claim in CLAIMS}
    chosen = []
    for name in names or [""]:
        those = [
            claim
            for full, claim in known.items()
            if name in ("", claim.paper, full)
        ]
        if not those:
            papers = list(dict.fromkeys(claim.paper for claim in CLAIMS))
            raise UsageError(
                f"There is no claim {name}.{nearest(name, [*papers, *known])} "
                f"Claims are all of a paper, {', '.join(papers)}, or one: "
                f"{', '.join(known)}."
            )
        chosen += those
    if setting is not None and setting not in SETTINGS:
        raise UsageError(
            f"There is no setting {setting}.{nearest(setting, list(SETTINGS))} "
            f"Settings are {', '.join(SETTINGS)}."
        )
    models = models_of(chosen, size)
    found = {k: m for k, m in models.items() if setting in (None, k[0])}
    if not found:
        there = dict.fromkeys(name for name, _ in models)
        raise UsageError(
            f"No run of setting {setting} tests {', '.join(names)}. Settings "
            f"that do: {', '.join(there)}."
            if there
            else f"No runs test {', '.join(names)}: `memlm claims "
            "--finished_only` writes why."
        )
    return found


def _seeds(model):
    return range(model.setting.seeds)


def _in_order(models, run_dir, data_dir):
    """The runs of models, in a setting the first seed of all before others."""
    order = list(SETTINGS)
    pairs = [
        (order.index(name), seed, position, model)
        for position, ((name, _), model) in enumerate(models.items())
        for seed in _seeds(model)
    ]
    return [
        model.run(seed, run_dir, data_dir)
        for _, seed, _, model in sorted(pairs, key=lambda pair: pair[:3])
    ]


# === Training ===


def _train_all(queue, kept, values):
    """Trains runs, as many at once as asked for; returns how many failed."""
    minutes = values.get("minutes", math.inf)
    until = time.monotonic() + 60 * minutes
    # One that cannot be read is told once, before anything is trained.
    for dataset in {run.dataset.name: run.dataset for run in queue}.values():
        dataset.load()
    stop = threading.Event()
    more = {
        "backend": keras.backend.backend(),
        # A progress bar would fill the log with every step.
        "verbose": 2,
        **{k: values[k] for k in ("data_dir", "run_dir") if k in values},
    }
    more = [as_flag(name, value) for name, value in more.items()]

    def train(number, run):
        begin = time.monotonic()
        if begin >= until:
            return False
        head = f"{number}/{len(queue)}"
        print(f"{head} {run.command}", flush=True)
        told = train_one(run, [*run.flags, *more], until - begin, stop)
        interrupted = stop.is_set() or time.monotonic() >= until
        if told is None:
            in_fresh_process(keep, run.folder, kept / run.folder.name)
            told = f"{time.monotonic() - begin:.0f} seconds"
            interrupted = failed = False
        else:
            failed = not interrupted
        print(f"{head} {'interrupted' if interrupted else told}", flush=True)
        return failed

    with concurrent.futures.ThreadPoolExecutor(values.get("jobs", 1)) as pool:
        ended = [
            pool.submit(train, number, run)
            for number, run in enumerate(queue, 1)
        ]
        try:
            failed = sum(run.result() for run in ended)
        except BaseException:
            stop.set()
            pool.shutdown(cancel_futures=True)
            raise
    if time.monotonic() >= until:
        print("The time is over; the same command goes on.")
    return failed

"""`memlm claims`: trains what decides the papers' claims, and tells how.

What a run is known by is kept in a folder of small text files beside the
document, so that verdicts can be drawn anew without the models.
"""

import concurrent.futures
import dataclasses
import glob
import math
import pathlib
import shlex
import shutil
import threading
import time

import keras
import numpy as np

from memlm_keras import files
from memlm_keras.evaluation import sentence_losses
from memlm_keras.experiments import claim_report
from memlm_keras.experiments import settings
from memlm_keras.experiments.claim_settings import SETTINGS
from memlm_keras.experiments.claims import Losses
from memlm_keras.experiments.claims_of_papers import CLAIMS
from memlm_keras.experiments.datasets import evaluation_batches
from memlm_keras.experiments.experiment import again
from memlm_keras.experiments.options import CLASSIFIER
from memlm_keras.experiments.options import UsageError
from memlm_keras.experiments.options import nearest
from memlm_keras.experiments.options import read_options
from memlm_keras.experiments.options import take
from memlm_keras.experiments.run_folder import RunFolder
from memlm_keras.experiments.subcommands import COMMANDS
from memlm_keras.experiments.subcommands import as_flag
from memlm_keras.experiments.table import experiment_of
from memlm_keras.experiments.table_runs import in_fresh_process
from memlm_keras.experiments.table_runs import train_one

_LOSSES = "test_losses.csv"
_COPIED = ("results.json", "log.csv")


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
        return ClaimRun(folder, [preset, *flags])


@dataclasses.dataclass(frozen=True)
class ClaimRun:
    """A model trained with one seed.

    Args:
        folder: `pathlib.Path` of its run folder.
        flags: list of strings, arguments of `memlm train`.
    """

    folder: pathlib.Path
    flags: list

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
    size = values.get("size", "small")
    out = pathlib.Path(values.get("out", "claims"))
    run_dir = pathlib.Path(values.get("run_dir", "runs"))
    data_dir = values.get("data_dir")
    models = _asked(positional.claim, values.get("setting"), size)
    runs = _in_order(models, run_dir, data_dir)
    kept = out / "logs" / size
    queue = [
        run for run in runs if not (kept / run.folder.name / _LOSSES).exists()
    ]
    if values.get("queue"):
        print(f"{len(queue)} of {len(runs)} runs are to come:")
        for run in queue:
            print(f"  {run.command}")
        return 0
    failed = 0
    if not values.get("finished_only"):
        failed = _train_all(queue, kept, values)
    # Of all claims, so that a document is never of some alone.
    every = models_of(CLAIMS, size)
    losses = {key: _losses(model, kept) for key, model in every.items()}
    path = out / "claims.md"
    claim_report.write(path, every, losses, size, command)
    print(f"See {path}")
    return 1 if failed else 0


def _asked(names, setting, size):
    """The models that claims of some names need in a setting, or in all."""
    known = {f"{claim.paper}/{claim.name}": claim for claim in CLAIMS}
    chosen = []
    for name in names or [""]:
        those = [known[full] for full in known if full.startswith(name)]
        if not those:
            raise UsageError(
                f"There is no claim {name}.{nearest(name, list(known))}"
            )
        chosen += those
    models = models_of(chosen, size)
    if setting is None:
        return models
    if setting not in SETTINGS:
        raise UsageError(
            f"There is no setting {setting}.{nearest(setting, list(SETTINGS))} "
            f"Settings are {', '.join(SETTINGS)}."
        )
    return {key: m for key, m in models.items() if key[0] == setting}


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


# === What is kept of a run ===


def keep(folder, kept):
    """Copies what is known of a finished run, with the losses of its test.

    Args:
        folder: path of the run folder.
        kept: path of a folder, which is made whole or not at all.
    """
    run_folder = RunFolder(folder)
    experiment = again(run_folder)
    losses, counts = _test_losses(experiment, run_folder.model())
    with files.atomic_path(pathlib.Path(kept)) as temporary:
        temporary.mkdir()
        for name in _COPIED:
            shutil.copy(run_folder.path / name, temporary / name)
        np.savetxt(
            temporary / _LOSSES,
            np.stack([losses, counts], axis=1),
            fmt=["%.4f", "%d"],
            delimiter=",",
        )


def _test_losses(experiment, model):
    """Losses of test sentences, or 1 for each pair that is told wrong."""
    if experiment.kind != CLASSIFIER:
        return sentence_losses(
            model, evaluation_batches(experiment, model, "test")
        )
    wrong = []
    for inputs, labels, *weights in experiment.corpus.batches("test", 64):
        told = keras.ops.argmax(model.predict_on_batch(inputs), axis=-1)
        found = keras.ops.convert_to_numpy(told) != labels
        counted = weights[0] > 0 if weights else np.ones(len(found), "bool")
        wrong.append(found[counted])
    wrong = np.concatenate(wrong)
    return wrong.astype("float64"), np.ones(len(wrong), "int64")


def _losses(model, kept):
    """The `Losses` of all seeds of a model that are kept, `None` of none."""
    found = []
    all_seeds = glob.escape(model.run(0).folder.name.removesuffix("0"))
    for path in sorted(kept.glob(f"{all_seeds}*/{_LOSSES}")):
        with files.reading(path, "losses of a run", "Delete its folder."):
            found.append(np.loadtxt(path, delimiter=",", ndmin=2))
    if not found:
        return None
    counts = found[0][:, 1].astype("int64")
    return Losses(np.stack([losses[:, 0] for losses in found]), counts)

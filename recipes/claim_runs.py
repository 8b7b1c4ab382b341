"""Models that the papers' claims compare, and runs that train the models."""

import dataclasses
import math
import pathlib
from collections.abc import Mapping

import logs
import paper_claims
from memlm_keras.experiments.options import OVERRIDES
from memlm_keras.experiments.options import as_flag
from memlm_keras.experiments.tables import runs
from memlm_keras.experiments.tables.table import row_experiment
from paper_claims import Setting


@dataclasses.dataclass(frozen=True)
class Model:
    """A model that a claim compares: preset, setting and changed options."""

    preset: str
    changes: Mapping
    setting: Setting

    def run(self, seed, folder, run_dir="runs", data_dir=None, **trial):
        """Returns the `ClaimRun` with this seed and with its log in `folder`.
        `trial` overrides options of the setting."""
        options = {**self.setting.options, **trial}
        flags = {**options, **self.changes}
        overrides, changes = [
            {k: v for k, v in values.items() if k in OVERRIDES}
            for values in ({**options, "data_dir": data_dir}, self.changes)
        ]
        running = {k: v for k, v in flags.items() if k not in OVERRIDES}
        experiment = row_experiment(
            self.preset, self.setting.dataset, seed, overrides, changes
        )
        study = pathlib.Path(folder, f"{self.setting.size}.jsonl")
        return ClaimRun(experiment, running, run_dir, study)


class ClaimRun(runs.Run):
    """A training run of a `Model` with one seed."""

    def __init__(self, experiment, running, run_dir, study):
        self.experiment = experiment
        self.recipe = experiment.recipe
        self.running = running
        self.folder = pathlib.Path(run_dir, experiment.name)
        self.study = study
        super().__init__(
            runs.short_command(self.recipe, **running), self._finished()
        )

    def _finished(self):
        run = logs.read(self.study).get(self.experiment.name, {})
        return run["results"] if logs.LOSSES in run else None

    def train(self, stop):
        failure = runs.train_in_process(
            self.folder, self.recipe, self.running, stop
        )
        if failure is None:
            runs.in_fresh_process(logs.keep, self.folder, self.study)
            self.results = self._finished()
        return failure


def models_of(claims, size=None):
    """Returns a dict from (name of a setting, label) to the claims' `Model`s. A
    claim without a setting of the size "small" keeps its "paper" settings."""
    models, settings = {}, paper_claims.SETTINGS
    for name, setting in settings.items():
        for claim in claims:
            sizes = [
                paper_claims.SETTINGS[each].size for each in claim.settings
            ]
            only = size == "small" and size not in sizes
            if name in claim.settings and (
                only or size in (None, setting.size)
            ):
                for label, (preset, _), changes in zip(
                    labels(claim), claim.models, claim.changes
                ):
                    models[name, label] = Model(
                        f"{claim.paper}/{preset}", changes, setting
                    )
    return models


def labels(claim):
    """Returns the names of the two models of a claim."""
    return [
        " ".join([preset, *(as_flag(k, v) for k, v in changes.items())])
        for (preset, _), changes in zip(claim.models, claim.changes)
    ]


def train(every, jobs=1, minutes=math.inf):
    """Trains the `ClaimRun`s without results; returns the number of
    failures."""
    missing = [run for run in every if run.results is None]
    # Loading each corpus first reports a missing file before the training.
    datasets = [run.experiment.dataset for run in missing]
    for dataset in {each.name: each for each in datasets}.values():
        dataset.load()
    return runs.run_all(missing, jobs=jobs, minutes=minutes)

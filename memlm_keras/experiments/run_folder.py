"""Run folders: what a run is, how far it came, and what came of it."""

import csv
import json
import pathlib
import shlex

from memlm_keras import files
from memlm_keras import registry
from memlm_keras.experiments.options import KNESER_NEY
from memlm_keras.experiments.options import UsageError
from memlm_keras.experiments.options import nearest
from memlm_keras.experiments.provenance import provenance
from memlm_keras.experiments.provenance import typed
from memlm_keras.experiments.tasks import kind_of

CONFIG = "config.json"
RESULTS = "results.json"
# No settings: how `Experiment` is told again what the run is, and what was
# typed.
_RECIPE, _COMMAND = "experiment", "command"
_REMEDY = (
    "Put it right, or give --overwrite to move the run aside and begin anew."
)


class RunFolder:
    """The folder of one run.

    | file | |
    |---|---|
    | `config.json` | settings that say what the run is, and how it was asked for |
    | `log.csv` | one line an epoch |
    | `checkpoint.npz` | from which training goes on |
    | `model.keras` | the model of the best epoch, with its vocabulary |
    | `results.json` | what was measured, how, when and on what |

    and pictures. Each file is written whole or not at all.

    Args:
        path: path of the folder, which need not be there.

    Example:

    >>> RunFolder("runs/none").is_run
    False
    """  # noqa: E501

    def __init__(self, path):
        self.path = pathlib.Path(path)
        self.checkpoint = self.path / "checkpoint.npz"
        self.log_path = self.path / "log.csv"
        self.model_path = self.path / "model.keras"

    @property
    def is_run(self):
        """Whether a run was begun here."""
        return (self.path / CONFIG).exists()

    def open(self, settings, epochs=None, patience=None):
        """Says what is to be done here, and makes the folder if need be.

        Args:
            settings: dict of plain values that say what the run is.
            epochs, patience: integers that are asked for; `None` stands for
                those of the run that is here.

        Returns:
            `"finished"`, `"interrupted"` or `"new"`.

        Raises:
            UsageError: if the folder holds a run of other settings, or what is
                no run.
            ValueError: if a file of the run is damaged.
            OSError: if the folder cannot be made.
        """
        if not self.is_run:
            held = [
                f for f in (RESULTS, "model.keras") if (self.path / f).exists()
            ]
            if held:
                raise UsageError(
                    f"{self.path} holds {held[0]} and no {CONFIG}, so nobody "
                    "knows what it is of. Choose another --run_dir, or give "
                    "--overwrite to move it aside."
                )
            self.path.mkdir(parents=True, exist_ok=True)
            return "new"
        changed = self.changed(settings)
        if changed:
            told = ", ".join(
                f"{name} {before!r} there and {now!r} now"
                for name, (before, now) in changed.items()
            )
            raise UsageError(
                f"{self.path} holds a run of other settings: {told}. Choose "
                "another --run_dir, or give --overwrite to move it aside."
            )
        if self.finished_results(epochs, patience) is not None:
            return "finished"
        return "interrupted" if self.checkpoint.exists() else "new"

    def changed(self, settings):
        """Compares the settings of the run that is here with others.

        Returns:
            Dict of `(here, there)` by name; empty where all are equal.
        """
        before = self.settings()
        # As they are once written.
        settings = json.loads(json.dumps(settings))
        return {
            name: (before.get(name), settings.get(name))
            for name in sorted({*before, *settings})
            if before.get(name) != settings.get(name)
        }

    def settings(self):
        """The settings that say what the run is."""
        found = self._read(CONFIG)
        for name in (_RECIPE, _COMMAND):
            found.pop(name, None)
        return found

    def recipe(self):
        """Arguments of the `Experiment` that the run is."""
        config = self._read(CONFIG)
        if _RECIPE not in config:
            raise ValueError(
                f"{self.path / CONFIG} does not say how its run was asked for."
            )
        return config[_RECIPE]

    def results(self):
        """Content of `results.json`, or `None` if it is not there yet."""
        if not (self.path / RESULTS).exists():
            return None
        return self._read(RESULTS)

    def finished_results(self, epochs=None, patience=None):
        """Content of `results.json`, `None` if the run can go on.

        A run has come to its end with the epochs that are asked for, when
        patience ended, when its loss was not finite, or if it has no epochs.
        """
        results = self.results()
        if results is None:
            return None
        with files.reading(self.path / RESULTS, "results of a run", _REMEDY):
            waited = results["epochs"] - results["best_epoch"]
            epochs = results["most_epochs"] if epochs is None else epochs
            patience = results["patience"] if patience is None else patience
        ended = (
            results["epochs"] >= epochs
            or waited >= max(1, patience)
            or not results.get("finite", True)
            or results.get("ended", False)
        )
        return results if ended else None

    def log(self):
        """List of dicts of floats, one an epoch.

        An epoch that was repeated counts once, the last time.

        Raises:
            ValueError: if the log is damaged.
        """
        with files.reading(self.log_path, "log", _REMEDY):
            with open(self.log_path, newline="", encoding="utf-8") as file:
                rows = {row["epoch"]: row for row in csv.DictReader(file)}
            log = [{k: float(v) for k, v in r.items()} for r in rows.values()]
            if not log:
                raise ValueError("it has no epoch")
        return log

    def model(self):
        """The trained model, not compiled.

        Raises:
            FileNotFoundError: if there is none yet.
            ValueError: if it cannot be read.
        """
        if not self.model_path.exists():
            raise FileNotFoundError(self._why_no_model())
        return load_model(self.model_path)

    def _why_no_model(self):
        if self.results() is None:
            told = (
                f"Training in {self.path} is not finished, so there is no "
                "model yet."
            )
            command = self._read(CONFIG).get(_COMMAND)
            # Folders of older versions do not say.
            if command is None:
                return f"{told} The command that began it goes on."
            parts = shlex.split(command)
            kept = [p for p in parts if not p.startswith("--overwrite")]
            return f"{told} This goes on: {shlex.join(kept)}"
        if kind_of(self.recipe()["preset"]) == KNESER_NEY:
            return (
                f"{self.path} is of an n-gram model, which is counted again "
                "where it is needed, and keeps no model. Use memlm evaluate or "
                "memlm surprisal."
            )
        return (
            f"There is no trained model at {self.model_path}, though training "
            "is finished. Put it there again, or train anew with --overwrite."
        )

    def save(self, model):
        """Saves a trained model."""
        with files.atomic_path(self.model_path) as temporary:
            model.save(temporary)

    def write_config(self, settings, recipe, command=None):
        """Writes what the run is.

        Args:
            settings: dict of plain values that say what the run is.
            recipe: dict, all arguments of its `Experiment`.
            command: string, what was typed; `None` asks the process.
        """
        command = command or typed()
        write_json(
            self.path / CONFIG,
            {**settings, _RECIPE: recipe, _COMMAND: command},
        )

    def write_results(self, settings, measured, epochs, patience, command=None):
        """Writes what came of the run.

        Args:
            settings: dict of plain values that say what the run is.
            measured: dict of plain values.
            epochs, patience: integers, what it was trained with.
            command: string, what was typed; `None` asks the process.

        Returns:
            All that was written.
        """
        results = {
            **settings,
            "most_epochs": epochs,
            "patience": patience,
            **measured,
            **provenance(command),
        }
        write_json(self.path / RESULTS, results)
        return results

    def add_results(self, others):
        """Adds plain values to the results; returns all of them."""
        results = {**self.results(), **others}
        write_json(self.path / RESULTS, results)
        return results

    def move_aside(self):
        """Renames the folder, if it is there, to a name that is free."""
        if not self.path.exists():
            return None
        number = 1
        while True:
            aside = self.path.with_name(f"{self.path.name}-old{number}")
            if not aside.exists():
                break
            number += 1
        self.path.rename(aside)
        print(f"What was in {self.path} is now in {aside}.")
        return aside

    def _read(self, name):
        what = f"{pathlib.Path(name).stem} of a run"
        found = files.read_json(self.path / name, what, _REMEDY)
        with files.reading(self.path / name, what, _REMEDY):
            if not isinstance(found, dict):
                raise ValueError("it is no object")
        return found


def load_model(path):
    """Loads a model of this package, not compiled.

    Raises:
        FileNotFoundError: if there is no such file.
        ValueError: if it cannot be read.
    """
    # Papers of other packages bring layers of their own.
    registry.papers()
    return files.load_model(path, "trained model")


def find(path):
    """The run folder that a path means: itself, or the only one in it.

    Args:
        path: path of a run folder, of a file in it, or of a folder that holds
            one run folder.

    Returns:
        `RunFolder`, or `None` for a `.keras` file without its folder.

    Raises:
        UsageError: if the path is none of these.
    """
    path = pathlib.Path(path)
    if path.is_file():
        folder = RunFolder(path.parent)
        if path.suffix != ".keras":
            raise UsageError(
                f"RUN must be a run folder or a .keras file. Received: {path}"
            )
        return folder if folder.is_run and path == folder.model_path else None
    if not path.is_dir():
        raise UsageError(
            f"There is no run folder and no .keras file {path}."
            f"{_nearest_folder(path)}"
        )
    if RunFolder(path).is_run:
        return RunFolder(path)
    runs = sorted(p.parent for p in path.glob(f"*/{CONFIG}"))
    if len(runs) == 1:
        return RunFolder(runs[0])
    if runs:
        names = ", ".join(map(str, runs[:9])) + ", ..." * (len(runs) > 9)
        raise UsageError(f"{path} holds several runs; name one: {names}")
    raise UsageError(f"{path} is no run folder: it has no {CONFIG}.")


def write_json(path, values):
    """Writes plain values as JSON, whole or not at all."""
    with files.atomic_path(path) as temporary:
        temporary.write_text(json.dumps(values, indent=2) + "\n")


def _nearest_folder(path):
    parent = path.parent
    names = [str(p) for p in parent.iterdir()] if parent.is_dir() else []
    return nearest(path, names)

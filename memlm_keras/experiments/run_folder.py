"""Run folders, with the settings, progress and results of a run."""

import csv
import itertools
import json
import pathlib
import shlex

from memlm_keras import files
from memlm_keras import registry
from memlm_keras.experiments import options
from memlm_keras.experiments import process
from memlm_keras.experiments.choice import find_preset

CONFIG = "config.json"
RESULTS = "results.json"
# Keys in `config.json` that are not settings: the arguments of `Experiment`,
# the command, and the kind of model.
_RECIPE, _COMMAND, _KIND = "experiment", "command", "kind"
# Types of the values in `config.json` and `results.json`, by key.
_TYPES = {
    **dict.fromkeys(
        "experiment validation test cache dynamic dynamic_with_cache "
        "comparison unigram kneser_ney kneser_ney_with_cache averaged before "
        "monte_carlo by_mode by_samples completion cbt test_by_beams "
        "last_epoch".split(),
        dict,
    ),
    **dict.fromkeys(
        "epochs best_epoch most_epochs patience parameters perplexity accuracy "
        "token_accuracy sequence_accuracy loss theta weight predicted_tokens "
        "seconds_per_epoch tokens_per_second pairs_per_second "
        "bits_per_word bits_per_character".split(),
        (int, float),
    ),
    "spelling_bits_per_word": (int, float, type(None)),
    **dict.fromkeys(
        "preset dataset date backend command kind unit".split(), str
    ),
    "gained": [list],
    "generated": [str],
    "seed": int,
    "size": int,
    "finite": bool,
    "ended": bool,
}
_REMEDY = (
    "Repair it, or give --overwrite to move the run aside and start again."
)


class RunFolder:
    """The folder of a run.

    | file | |
    |---|---|
    | `config.json` | settings that identify the run, arguments, command |
    | `log.csv` | one line per epoch |
    | `checkpoint.npz` | state from which training continues |
    | `model.keras` | the model of the best epoch, with its vocabulary |
    | `results.json` | measurements, their date, versions and hardware |

    A run folder may also contain pictures. Each file is written atomically.

    Args:
        path: path of the folder, which may not exist yet.

    Example:

    >>> RunFolder("runs/none").is_run
    False
    """

    def __init__(self, path):
        self.path = pathlib.Path(path)
        self.checkpoint = self.path / "checkpoint.npz"
        self.log_path = self.path / "log.csv"
        self.model_path = self.path / "model.keras"

    @property
    def is_run(self):
        """Whether the folder contains a run."""
        return (self.path / CONFIG).exists()

    def open(self, settings, epochs=None, patience=None):
        """Creates the folder if necessary, and returns the state of its run.

        Args:
            settings: dict of JSON values that identify the run.
            epochs, patience: integers; `None` for the run's values.

        Returns:
            `"finished"`, `"interrupted"` or `"new"`.

        Raises:
            UsageError: if the folder has a run with other settings, or has
                results or a model but no `config.json`.
            ValueError: if a file of the run is damaged.
            OSError: if the folder cannot be created.
        """
        remedy = (
            "Choose another --run_dir, or give --overwrite to move it aside."
        )
        if not self.is_run:
            for name in (RESULTS, self.model_path.name):
                if (self.path / name).exists():
                    raise options.UsageError(
                        f"{self.path} holds {name} but no {CONFIG}, so its "
                        f"run is unknown. {remedy}"
                    )
            self.path.mkdir(parents=True, exist_ok=True)
            return "new"
        changed = ", ".join(
            f"{name} {before!r} there and {now!r} now"
            for name, (before, now) in self.changed(settings).items()
        )
        if changed:
            raise options.UsageError(
                f"{self.path} holds a run with other settings: {changed}. "
                f"{remedy}"
            )
        if self.finished_results(epochs, patience) is not None:
            return "finished"
        return "interrupted" if self.checkpoint.exists() else "new"

    def changed(self, settings):
        """Returns a dict from the names of changed settings to `(old, new)`."""
        before = self.settings()
        # JSON turns tuples into lists.
        settings = json.loads(json.dumps(settings))
        return {
            name: (before.get(name), settings.get(name))
            for name in sorted({*before, *settings})
            if before.get(name) != settings.get(name)
        }

    def settings(self):
        """Returns the settings that identify the run."""
        config = self._read(CONFIG)
        others = (_RECIPE, _COMMAND, _KIND)
        return {k: v for k, v in config.items() if k not in others}

    @property
    def is_of_1_0(self):
        """Whether version 1.0 started the run: it recorded no kind of model."""
        return self.is_run and _KIND not in self._read(CONFIG)

    @property
    def kind(self):
        """Kind of the run's model; version 1.0 did not record it, so it is
        inferred from the preset's name."""
        kind = self._read(CONFIG).get(_KIND)
        kind = kind or find_preset(self.recipe()["preset"]).kind
        if kind not in options.KINDS:
            raise ValueError(
                f"{self.path / CONFIG} has an unknown kind of model: {kind!r}. "
                f"{_REMEDY}"
            )
        return kind

    def recipe(self):
        """Returns the arguments of the run's `Experiment`."""
        config = self._read(CONFIG)
        if _RECIPE not in config:
            raise ValueError(
                f"{self.path / CONFIG} lacks {_RECIPE!r}, the arguments of its "
                "experiment."
            )
        recipe = config[_RECIPE]
        return {"preset": recipe["preset"], **recipe}

    def results(self):
        """Returns the contents of `results.json`, or `None` if missing."""
        if not (self.path / RESULTS).exists():
            return None
        return self._read(RESULTS)

    def finished_results(self, epochs=None, patience=None):
        """Returns the contents of `results.json`; `None` if there is no such
        file or training can continue. Training can continue if the loss is
        finite, and neither `epochs` nor `patience` is reached."""
        if (results := self.results()) is None:
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
        """Reads the log; returns a dict of floats for each epoch. If an epoch
        was repeated, its last line is used. An incomplete last line of the file
        is ignored. Raises `ValueError` if the log is damaged."""
        with files.reading(self.log_path, "log", _REMEDY):
            text = self.log_path.read_bytes().decode()
            lines = text.splitlines()[: None if text.endswith("\n") else -1]
            rows = {row["epoch"]: row for row in csv.DictReader(lines)}
            log = [{k: float(v) for k, v in r.items()} for r in rows.values()]
            if not log:
                raise ValueError("the log has no epoch")
            for place, row in enumerate(log, int(log[0]["epoch"])):
                if row["epoch"] != place:
                    raise ValueError(f"the log lacks epoch {place}")
        return log

    def model(self):
        """Loads the trained model without compiling it. Raises `ValueError` if
        the file cannot be read, and `FileNotFoundError` if there is none."""
        if self.model_path.exists():
            return load_file(self.model_path)
        if self.results() is None:
            # Older versions did not record the command in `config.json`.
            command = shlex.split(self._read(CONFIG).get(_COMMAND, ""))
            kept = [p for p in command if not p.startswith("--overwrite")]
            raise FileNotFoundError(
                f"Training in {self.path} is not finished, so there is no "
                "model yet. To continue: "
                f"{shlex.join(kept) or 'the command that started it'}"
            )
        if self.kind == options.KNESER_NEY:
            raise FileNotFoundError(
                f"{self.path} has no model file, because its n-grams are "
                "counted at each use. Use memlm evaluate, score or surprisal."
            )
        raise FileNotFoundError(self.missing_model)

    @property
    def missing_model(self):
        """Error message for a finished run whose model file is missing."""
        return (
            f"Training is finished, but {self.model_path} is missing. Put it "
            "back, or train again with --overwrite."
        )

    def save(self, model):
        """Saves a trained model in `model.keras`."""
        with files.atomic_path(self.model_path) as temporary:
            model.save(temporary)

    def write_config(self, settings, recipe, kind, command=None):
        """Writes the settings, the arguments of `Experiment`, the kind of model
        and the command (by default this process's) to `config.json`."""
        others = {
            _RECIPE: recipe,
            **({_KIND: kind} if kind else {}),
            _COMMAND: command or process.typed(),
        }
        write_json(self.path / CONFIG, settings | others)

    def write_results(self, settings, measured, epochs, patience, command=None):
        """Writes `settings` and `measured` to `results.json`; returns all
        results. Other arguments are as in `open` and `write_config`."""
        results = {
            **settings,
            "most_epochs": epochs,
            "patience": patience,
            **measured,
            **process.provenance(command),
        }
        write_json(self.path / RESULTS, results)
        return results

    def add_results(self, others):
        """Adds the dict `others` to the results and returns all. Removes the
        results `dynamic_with_cache` if `cache` now has another cache size."""
        results = {**self.results(), **others}
        combined = results.get("dynamic_with_cache")
        if combined and combined["size"] != results["cache"]["size"]:
            del results["dynamic_with_cache"]
        write_json(self.path / RESULTS, results)
        return results

    def move_aside(self):
        """Renames the folder, if it exists, to a name such as `<name>-old1`."""
        if not self.path.exists():
            return None
        names = (f"{self.path.name}-old{n}" for n in itertools.count(1))
        paths = map(self.path.with_name, names)
        aside = next(path for path in paths if not path.exists())
        with files.hold(self.path):
            self.path.rename(aside)
            (aside / files.LOCK).unlink()
        print(f"Renamed {self.path} to {aside}.")
        return aside

    def _read(self, name):
        what = f"{pathlib.Path(name).stem} of a run"
        return files.read_json(self.path / name, what, _REMEDY, _TYPES)


def load_file(path):
    """Loads a model from a `.keras` file without compiling it."""
    process.import_keras()
    # Imports papers from other packages, which register layers with Keras.
    registry.papers()
    return files.load_model(path, "trained model")


def write_json(path, values):
    """Writes JSON values to a file, atomically."""
    files.write_text(path, json.dumps(values, indent=2) + "\n")

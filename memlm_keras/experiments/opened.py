"""Finds the runs and models that commands name."""

import contextlib
import dataclasses
import functools
import itertools
import pathlib
import shlex
import sys

import memlm_keras as memlm
from memlm_keras import registry
from memlm_keras import trained
from memlm_keras.experiments import measurements
from memlm_keras.experiments import options
from memlm_keras.experiments.experiment import reopen
from memlm_keras.experiments.process import import_keras
from memlm_keras.experiments.run_folder import CONFIG
from memlm_keras.experiments.run_folder import RunFolder
from memlm_keras.experiments.run_folder import load_file


def open_run(path):
    """Returns an `Opened` for a run folder, its parent folder, a `.keras` file,
    or the name or folder of a trained model."""
    with options.wrong_use():
        preset = trained.find(path)
    folder = None if preset else _find_run(pathlib.Path(path))
    return Opened(str(path), folder, preset)


@dataclasses.dataclass
class Opened:
    """A run folder, or a model without a run folder."""

    path: str  # Path or name that the user typed.
    folder: RunFolder | None
    preset: pathlib.Path | None = None  # folder of a trained model

    @property
    def name(self):
        if self.folder is None:
            return pathlib.Path(self.path).resolve().stem
        return self.folder.path.resolve().name

    @property
    def counts(self):
        """Whether the model is an n-gram model. It is counted again for each
        use, because no file stores it."""
        return self.folder and self.folder.kind == options.KNESER_NEY

    @functools.cached_property
    def recipe(self):
        """Arguments of the model's `Experiment`; `None` if unknown."""
        if self.folder is not None:
            return self.folder.recipe()
        if self.preset is not None:
            return trained.read_metadata(self.preset).get("experiment")
        return None

    @functools.cached_property
    def kind(self):
        """Kind of the model; requires that `recipe` is not `None`."""
        if self.folder is not None:
            return self.folder.kind
        return trained.read_metadata(self.preset)["kind"]

    @functools.cached_property
    def experiment(self):
        """The experiment of the run, on its training text."""
        if self.folder is None:
            raise options.UsageError(
                f"{self.path} is not in a run folder, so its text and "
                "settings are unknown. Name a run folder."
            )
        return reopen(self.folder)

    @functools.cached_property
    def model(self):
        """The model, not compiled."""
        import_keras()
        # Imports papers from other packages, which register layers with Keras.
        registry.papers()
        if self.counts:
            # Only tables go to standard output.
            with contextlib.redirect_stdout(sys.stderr):
                return self.experiment.count(verbose=0)[1]
        if self.folder is not None:
            return self.folder.model()
        if self.preset is None:
            with options.wrong_use():
                return load_file(self.path)
        if self.kind not in options.KINDS:
            raise ValueError(
                f"The trained model {self.preset} has an unknown kind: "
                f"{self.kind!r}. Another version may have written it."
            )
        return getattr(memlm, self.kind).from_preset(str(self.preset))

    @property
    def vocabulary(self):
        if self.counts:
            return self.experiment.corpus.vocabulary
        if self.model.vocabulary is None:
            raise options.UsageError(
                f"{self.path} has no vocabulary. Make and save a model with "
                "the argument `vocabulary`."
            )
        return self.model.vocabulary

    def model_that(self, method=None, cache=False):
        """Returns the model, with its neural cache if `cache`. Raises
        `UsageError` if the model has no method `method` or no vocabulary."""
        if self.counts and cache:
            raise options.UsageError(
                f"{self.path} is an n-gram model; a neural cache needs a "
                "neural model. The preset kneser_ney_5_cache has its own cache."
            )
        if self.counts and method != "score":
            # `model()` raises an error: n-gram models have no model file.
            with options.wrong_use():
                self.folder.model()
        model = self.model
        if method is not None and not hasattr(model, method):
            other = "Name a language model, such as memlm/embedded_attention"
            if method == "classify":
                train = "memlm train weissenborn2016/gru_shared --dataset=FILE"
                other = f"Train a classifier: {train}"
            raise options.UsageError(
                f"{self.path} is of class {type(model).__name__}, which cannot "
                f"{method}. {other}"
            )
        if self.vocabulary and cache:
            return model.with_mixture(self.cache())
        return model

    def cache(self):
        """Returns the neural cache that was chosen for the run."""
        if self.folder is None:
            raise options.UsageError(
                "--cache needs a run folder, which has the cache that `memlm "
                f"train` chose. Received: the model {self.path}"
            )
        path = self.folder.path
        found = (self.folder.results() or {}).get("cache")
        if found is None:
            raise options.UsageError(
                f"No cache was chosen for {path}. Choose one: memlm evaluate "
                f"{shlex.quote(str(path))} --cache_size=500"
            )
        try:
            return measurements.cache_of(found)
        except ValueError as error:
            raise ValueError(f"The cache of {path}: {error}") from None


def average(runs, rate=None, cache=False):
    """Returns the model of a single run, or the average of several models.
    With `rate`, the model is wrapped in a `DynamicEvaluator`."""
    models = [run.model_that("score", cache) for run in runs]
    with options.wrong_use():
        model = models[0] if len(models) == 1 else memlm.Ensemble(models)
        if rate is not None:
            model = memlm.evaluation.DynamicEvaluator(model, rate)
    return model


def require_different(paths):
    """Raises `UsageError` if a path is given twice."""
    if len({*paths}) < len(paths):
        raise options.UsageError(
            f"The same RUN must not be given twice. Received: {' '.join(paths)}"
        )


def _find_run(path):
    """Returns the `RunFolder` of a run folder, of its `model.keras`, or of a
    folder with a single run; `None` for a `.keras` file outside a run."""
    if path.is_file():
        folder = RunFolder(path.parent)
        if path.suffix != ".keras":
            raise options.UsageError(
                f"RUN must be a run folder or a .keras file. Received: {path}"
            )
        return folder if folder.is_run and path == folder.model_path else None
    if not path.is_dir():
        if str(path) in registry.names():
            raise options.UsageError(
                f"{path} is a preset, with random weights until it is trained: "
                f"memlm train {path} --dataset=FILE"
            )
        # Run folders next to the path, or one level below.
        patterns = f"*/{CONFIG}", f"*/*/{CONFIG}"
        runs = itertools.chain(*map(path.parent.glob, patterns))
        runs = sorted(str(run.parent) for run in runs)
        known = [*runs, *path.parent.glob("*.keras")]
        known += [*trained.SOURCES, *trained.names()]
        some = f" Runs here: {', '.join(runs[:5])}." if runs else ""
        raise options.UsageError(
            f"There is no run folder and no .keras file {path}, and no trained "
            f"model of this name.{options.nearest(path, known) or some} "
            "`memlm presets 'memlm/*'` lists trained models."
        )
    if RunFolder(path).is_run:
        return RunFolder(path)
    runs = sorted(p.parent for p in path.glob(f"*/{CONFIG}"))
    if len(runs) == 1:
        return RunFolder(runs[0])
    if runs:
        names = ", ".join(map(str, runs[:9])) + ", ..." * (len(runs) > 9)
        raise options.UsageError(
            f"{path} holds several runs; name one: {names}"
        )
    raise options.UsageError(f"{path} is not a run folder: it has no {CONFIG}.")

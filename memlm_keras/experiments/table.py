"""Whole tables of a paper: a run for each row and seed, side by side.

Each run is `memlm train` in a process and a run folder of its own, so that
memory is freed in between and its peak is that of one run. Finished runs are
kept, interrupted ones go on, and the table is written after each.
"""

import dataclasses
import itertools
import pathlib

import numpy as np

from memlm_keras import analysis
from memlm_keras import presets
from memlm_keras.experiments import figures
from memlm_keras.experiments import measures as measuring
from memlm_keras.experiments import report
from memlm_keras.experiments.experiment import Experiment
from memlm_keras.experiments.experiment import name_parts
from memlm_keras.experiments.options import CLASSIFIER
from memlm_keras.experiments.options import NoUseError
from memlm_keras.experiments.options import UsageError
from memlm_keras.experiments.options import nearest
from memlm_keras.experiments.run_folder import RunFolder
from memlm_keras.experiments.settings import OVERRIDES
from memlm_keras.experiments.tasks import kind_of

_PICTURE = "mean_attention.png"


class TableRuns:
    """A table of a paper with what is to be trained for it.

    Args:
        name: string, `"paper/table"`, one of `memlm_keras.presets.tables()`.
        dataset: string, as of `Experiment`; `None` is the text that the table
            is made for, or else the embedded one.
        run_dir: path of the folder that run folders and the table's go in.
        rows: list of labels or presets of rows; `None` is all.
        grid: dict of lists of values by override: all combinations are trained
            of each row that has a use for them, and the best by the first
            measure is chosen. Where rows of the table have such a setting
            already, it chooses among them.
        overrides: dict of overrides of all rows that have a use for them.
        measures: dict of what is measured besides, as of `Experiment.run`.

    Raises:
        UsageError: for a table, a row, a dataset or a setting that there is
            not.
    """

    def __init__(
        self,
        name,
        dataset=None,
        run_dir="runs",
        rows=None,
        grid=None,
        overrides=None,
        measures=None,
    ):
        self.name = name
        tables = presets.tables()
        if name not in tables:
            raise UsageError(
                f"There is no table {name}."
                f"{nearest(name, tables)} Tables are {', '.join(tables)}."
            )
        self.table = tables[name]
        self.dataset = dataset or self.table.dataset or "embedded"
        self._check_dataset()
        self.overrides = dict(overrides or {})
        self.asked = dict(measures or {})
        self.grid = {k: _values(k, v) for k, v in (grid or {}).items()}
        self.rows = self._points(self._selected(rows))
        if not self.rows:
            raise UsageError(f"No row of {name} has what the grid asks for.")
        self.measures = [_required(m, self.asked) for m in self.table.measures]
        classifies = kind_of(preset_of(self.rows[0])) == CLASSIFIER
        self.speed = f"{'pairs' if classifies else 'tokens'}_per_second"
        paper = presets.papers()[name.partition("/")[0]]
        self.title = f"{paper.citation}, {self.table.title}"
        parts = [pathlib.Path(self.dataset.split(",")[0]).stem]
        parts += [name.replace("/", "-")]
        parts += name_parts(self.overrides)
        parts += ["grid"] * bool(self.grid)
        self.run_dir = pathlib.Path(run_dir)
        self.folder = self.run_dir / "-".join(parts)

    @property
    def has_published(self):
        """Whether the paper has numbers of the text that is trained on."""
        return any(row.published_on(self.dataset) for row in self.rows)

    @property
    def choose_by(self):
        """The measure that the best of a grid is chosen by, or `None`."""
        if not (self.grid or any(row.grid for row in self.table.rows)):
            return None
        name = self.table.choose_by
        found = [m for m in self.measures if m.name == name]
        return (found or self.measures)[0]

    def recipes(self, seeds):
        """Arguments of `Experiment` for all rows and seeds, in this order.

        Returns:
            List of pairs of a row and a dict.
        """
        return [
            (
                row,
                {
                    "preset": preset_of(row),
                    "dataset": self.dataset,
                    "seed": seed,
                    "overrides": self.overrides,
                    "changes": dict(row.changes),
                },
            )
            for seed in seeds
            for row in self.rows
        ]

    def pictures(self, progress):
        """Draws what the finished runs of a table show.

        Returns:
            List of the names of the pictures.
        """
        names = []
        means = {}
        for row in self.rows:
            found = [
                figures.read_mean_attention(run.folder)
                for run in progress.of(row, progress.finished)
            ]
            found = [mean for mean in found if mean is not None]
            if found and len({len(mean) for mean in found}) == 1:
                means[row.label] = np.mean(found, axis=0)
        if means:
            analysis.plot_mean_attention(
                means,
                self.folder / _PICTURE,
                title="Mean attention over the test text",
            )
            names.append(_PICTURE)
        return names + self._lines(progress) + self._sentences(progress)

    def _lines(self, progress):
        """A line for each preset, where the table is a figure of lines."""
        if self.table.lines is None:
            return []
        detail, name = self.table.lines
        measure = next(m for m in self.measures if m.name == name)
        panels = {self.dataset: {}, "paper": {}}
        for row in self.rows:
            x = row.details.get(detail)
            if x in (None, ""):
                continue
            label = str(row.details["preset"]).rpartition("/")[2]
            ours = [measure.of(r) for r in progress.results(row)]
            papers = [
                published.numbers[name]
                for published in row.published[:1]
                if published.numbers.get(name) is not None
            ]
            for panel, values in zip(panels.values(), (ours, papers)):
                summary = report.summarize(values)
                line = panel.setdefault(label, {})
                # The best of all else at each.
                if summary and (x not in line or summary.mean < line[x].mean):
                    line[x] = summary
        panels = {
            title: {label: line for label, line in lines.items() if line}
            for title, lines in panels.items()
        }
        if not panels[self.dataset]:
            return []
        picture = f"{self.table.name}.png"
        figures.draw_lines(
            {title: lines for title, lines in panels.items() if lines},
            self.folder / picture,
            x_label=detail,
            y_label=measure.name,
        )
        return [picture]

    def _sentences(self, progress):
        """Pictures of where models of sentences attend along one."""
        if not progress.is_complete:
            return []
        models, experiment = {}, None
        for row in self.rows:
            for run in progress.of(row, progress.finished)[:1]:
                folder = RunFolder(run.folder)
                if (folder.path / "sentence_attention.png").exists():
                    models[row.label.rpartition("/")[2]] = folder.model()
                    experiment = Experiment(**folder.recipe())
        if not models:
            return []
        picture = "sentence_attention.png"
        figures.draw_sentence(models, experiment.corpus, self.folder / picture)
        return [picture]

    def _check_dataset(self):
        made_for = self.table.dataset
        public = {t.dataset for t in presets.tables().values()} - {None}
        wrong = self.dataset != made_for and (
            self.table.only_dataset
            or (made_for is not None and self.dataset in public)
        )
        if wrong and self.dataset not in ("sick", "embedded"):
            raise UsageError(
                f"The table {self.name} needs --dataset={made_for}"
                f"{'' if self.table.only_dataset else ', or text of your own'}"
                f". Received: --dataset={self.dataset}"
            )

    def _selected(self, names):
        """Rows that are asked for, in their order."""
        rows = list(self.table.rows)
        if self.overrides.get("match_parameters"):
            rows = [row for row in rows if row.same_but_for_units is None]
        if names is None:
            return rows
        known = {}
        for row in rows:
            preset = preset_of(row)
            for name in (row.label, preset, preset.rpartition("/")[2]):
                known.setdefault(name, []).append(row)
        for name in names:
            if name not in known:
                raise UsageError(
                    f"There is no row {name} in {self.name}."
                    f"{nearest(name, known)}"
                )
        chosen = [row for name in names for row in known[name]]
        return [row for row in rows if row in chosen]

    def _points(self, rows):
        """Rows with all combinations of the values of the grid."""
        found = []
        for row in rows:
            grid = {**row.grid, **self.grid} if not self.grid else self.grid
            if any(
                key in row.details and row.details[key] not in values
                for key, values in grid.items()
                if key in row.changes or row.details.get(key)
            ):
                continue
            free = {
                key: values
                for key, values in grid.items()
                if not row.details.get(key) and _has_use(row, key, values[0])
            }
            for values in itertools.product(*free.values()):
                point = dict(zip(free, values))
                label = [row.label, *(f"{k} {v}" for k, v in point.items())]
                found.append(
                    dataclasses.replace(
                        row,
                        label=" ".join(label),
                        changes={**row.changes, **point},
                        details={**row.details, **point},
                    )
                )
        return found


def preset_of(row):
    """Name of the preset, or of the n-gram model, of a row of a table."""
    if row.ngrams is None:
        return row.preset
    order, cache = row.ngrams["order"], row.ngrams["cache"]
    return f"kneser_ney_{order}{'_cache' * cache}"


def _values(name, values):
    """The values of a grid, as what they should be."""
    if name not in OVERRIDES:
        raise UsageError(
            f"grid has no setting {name}.{nearest(name, OVERRIDES)}"
        )
    found = [OVERRIDES[name].read(value) for value in values]
    if not found:
        raise UsageError(f"grid must have values of {name}.")
    return found


def _has_use(row, name, value):
    """Whether a row has a use for an override."""
    try:
        Experiment(preset_of(row), **{name: value})
    except NoUseError:
        return False
    return True


def _required(measure, asked):
    """A measure that the flags ask for, which rows may not lack then."""
    size, files = None, ("questions", "answers")
    if measure.path[0] == measuring.COMPLETION:
        if not all(name in asked for name in files):
            raise UsageError(
                "This table needs --questions and --answers, the files of the "
                "Sentence Completion Challenge."
            )
        key = "files"
        size = measuring.identity([asked[name] for name in files])
    else:
        key, option = {
            "cache": ("size", "cache_size"),
            "monte_carlo": ("samples", "monte_carlo"),
            "test_by_beams": ("beams", "beams"),
        }.get(measure.path[0], (None, None))
        size = asked.get(option)
    if size is None:
        return measure
    made_with = ((measure.path[0], key), size)
    return dataclasses.replace(measure, optional=False, made_with=made_with)


def experiment_of(recipe):
    """The experiment of a recipe, without overrides that it has no use for.

    Args:
        recipe: dict, as of `TableRuns.recipes`.

    Raises:
        UsageError: for what cannot be, and if there is no use for one of its
            own changes.
    """
    overrides = {**recipe["overrides"], **recipe["changes"]}
    while True:
        try:
            return Experiment(
                recipe["preset"],
                recipe["dataset"],
                seed=recipe["seed"],
                **overrides,
            )
        except NoUseError as error:
            if error.option in recipe["changes"]:
                raise
            del overrides[error.option]


def describe(recipes):
    """Names and settings of experiments, read in a fresh process.

    Args:
        recipes: list of dicts, as of `TableRuns.recipes`.

    Returns:
        List of dicts of `name`, `recipe` and `settings`.

    Raises:
        UsageError: for what cannot be, and for an override that no row has a
            use for.
    """
    found, used, corpora = [], set(), {}
    for recipe in recipes:
        experiment = experiment_of(recipe)
        used |= set(experiment.overrides)
        key = (experiment.dataset.sentences, experiment.kind)
        if key in corpora:
            experiment.corpus = corpora[key]
        corpora[key] = experiment.corpus
        found.append(
            {
                "name": experiment.name,
                "recipe": experiment.recipe,
                "settings": experiment.settings,
            }
        )
    unused = {name for r in recipes for name in r["overrides"]} - used
    if unused:
        raise UsageError(f"No row of the table has a use for {min(unused)}.")
    return found

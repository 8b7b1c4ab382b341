"""Tables of the papers, with a run for each row and seed.

Each run is a separate process of `memlm train`, to measure its peak memory.
"""

import contextlib
import dataclasses
import itertools
import pathlib
import sys

import numpy as np

from memlm_keras import analysis
from memlm_keras import files
from memlm_keras import presets
from memlm_keras.experiments import figures
from memlm_keras.experiments import measurements
from memlm_keras.experiments import options
from memlm_keras.experiments.choice import find_preset
from memlm_keras.experiments.experiment import Experiment
from memlm_keras.experiments.experiment import name_parts
from memlm_keras.experiments.run_folder import RunFolder
from memlm_keras.experiments.tables import report
from memlm_keras.experiments.tables import runs


class TableRuns:
    """The runs of a paper's table.

    Args:
        name: string, `"paper/table"`, one of `memlm_keras.presets.tables()`.
        dataset: string, as for `Experiment`; `None` for the dataset that the
            paper's table needs, or `"embedded"` if it needs none.
        run_dir: path of a folder; each run and the table get a folder in it.
        rows: list of labels or presets of rows; `None` for all.
        grid: dict from overrides to lists of values. Each row is trained with
            all combinations of the overrides that it uses, and the best
            combination is chosen by the first measure. If a row of the paper's
            table sets one of these overrides, the row is trained only if the
            grid has the row's value.
        overrides: dict of overrides. An override that the preset of a row does
            not use is left out for this row.
        measures: dict of additional measures, as for `Experiment.run`.

    Raises:
        UsageError: for an unknown table, row, dataset or setting.
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
            raise options.UsageError(
                f"There is no table {name}."
                f"{options.nearest(name, tables)} Tables are "
                f"{', '.join(tables)}."
            )
        self.table = tables[name]
        self.dataset = dataset or self.table.dataset or "embedded"
        self._check_dataset()
        self.overrides = dict(overrides or {})
        self.measures = dict(measures or {})
        self.grid = {k: _grid_values(k, v) for k, v in (grid or {}).items()}
        self.rows = [
            point for row in self._chosen(rows) for point in self._points(row)
        ]
        if not self.rows:
            raise options.UsageError(
                f"No row of {name} has the settings of the grid."
            )
        self.columns = [
            _required(m, self.measures) for m in self.table.measures
        ]
        classifies = (
            find_preset(preset_of(self.rows[0])).kind == options.CLASSIFIER
        )
        self.speed = f"{'pairs' if classifies else 'tokens'}_per_second"
        paper = presets.papers()[name.partition("/")[0]]
        self.title = f"{paper.citation}, {self.table.title}"
        parts = [pathlib.Path(options.split_paths(self.dataset)[0]).stem]
        parts += [name.replace("/", "-"), *name_parts(self.overrides)]
        parts += ["grid"] * bool(self.grid)
        self.run_dir = pathlib.Path(run_dir)
        self.folder = self.run_dir / "-".join(parts)

    @property
    def has_published(self):
        """Whether the paper has numbers for the dataset."""
        return any(row.published_on(self.dataset) for row in self.rows)

    @property
    def choose_by(self):
        """Measure that selects the best settings; `None` without a grid."""
        if not (self.grid or any(row.grid for row in self.table.rows)):
            return None
        by_name = {measure.name: measure for measure in self.columns}
        return by_name.get(self.table.choose_by, self.columns[0])

    def fill(
        self,
        seeds,
        running=None,
        finished_only=False,
        overwrite=False,
        command="memlm table",
    ):
        """Trains each row with each seed, and writes the table.

        Finished runs are kept, and interrupted runs continue.

        Args:
            seeds: list of integers.
            running: dict of flags of `memlm train` for all runs, such as
                `epochs`.
            finished_only: whether to train nothing and write the table from the
                runs with results, even with fewer epochs than requested.
            overwrite: whether to train again after renaming older run folders.
            command: string, the command line to show in the table.

        Returns:
            Integer, the number of runs that failed.
        """
        queue = self._runs(seeds, running)
        for run in queue:
            if overwrite:
                RunFolder(run.folder).move_aside()
            run.read(finished_only)
        if finished_only:
            queue = [run for run in queue if run.results]
            if not queue:
                print(f"No run of {self.name} is finished; nothing is written.")
                return 0
        print(f"{self.title}: {len(queue)} runs, table in {self.folder}")

        def write():
            finished = [run for run in queue if run.results]
            pictures = self._draw_mean(finished) + self._draw_lines(finished)
            if all(run.results or run.failed for run in queue):
                pictures += self._draw_sentence(finished)
            report.write_table(self, queue, command, pictures)

        failed = runs.run_all(queue, after=write)
        write()
        self._choose(queue)
        print(f"See {self.folder / 'table.md'}")
        return failed

    def list_missing(self, seeds, running=None):
        """Prints the commands of all runs that `fill` would train."""
        queue = self._runs(seeds, running)
        for run in queue:
            run.read(any_epochs=False)
        runs.print_missing(queue)

    def _runs(self, seeds, running):
        """Returns the runs of all rows, ordered by seed."""
        rows = [(row, seed) for seed in seeds for row in self.rows]
        recipes = [
            {
                "preset": preset_of(row),
                "dataset": self.dataset,
                "seed": seed,
                "overrides": self.overrides,
                "changes": dict(row.changes),
            }
            for row, seed in rows
        ]
        # The end of a child process frees the memory of corpora and models.
        described = runs.in_fresh_process(describe, recipes)
        return [
            TableRun(self, row, found, {**(running or {}), **self.measures})
            for (row, _), found in zip(rows, described, strict=True)
        ]

    def _check_dataset(self):
        made_for = self.table.dataset
        public = {t.dataset for t in presets.tables().values()} - {None}
        wrong = self.dataset != made_for and (
            self.table.only_dataset
            or (made_for is not None and self.dataset in public)
        )
        if wrong and self.dataset not in ("sick", "embedded"):
            raise options.UsageError(
                f"The table {self.name} needs --dataset={made_for}"
                f"{'' if self.table.only_dataset else ', or your own text'}. "
                f"Received: --dataset={self.dataset}"
            )

    def _chosen(self, names):
        """Returns the rows with the given names, in the table's order."""
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
                raise options.UsageError(
                    f"There is no row {name} in {self.name}."
                    f"{options.nearest(name, known)}"
                )
        chosen = [row for name in names for row in known[name]]
        return [row for row in rows if row in chosen]

    def _points(self, row):
        """Yields a row for each combination of the grid's values."""
        grid = self.grid or row.grid
        if any(
            key in row.details and row.details[key] not in values
            for key, values in grid.items()
            if key in row.changes or row.details.get(key)
        ):
            return
        free = {
            key: values
            for key, values in grid.items()
            if not row.details.get(key) and _uses(row, key, values[0])
        }
        for values in itertools.product(*free.values()):
            point = dict(zip(free, values))
            label = [row.label, *(f"{k} {v}" for k, v in point.items())]
            yield dataclasses.replace(
                row,
                label=" ".join(label),
                changes={**row.changes, **point},
                details={**row.details, **point},
            )

    def _choose(self, queue):
        """Writes and prints the best settings in the grid for each preset."""
        measure = self.choose_by
        if measure is None:
            return
        points = {}
        for row in self.rows:
            results = [r.results for r in queue if r.row is row and r.results]
            means = {}
            for each in self.columns:
                if summary := report.summarize(map(each.of, results)):
                    means[each.name] = summary.mean
            if measure.name in means:
                points.setdefault(preset_of(row), []).append((row, means))
        better = report.better(measure.path[-1])
        names = [m.name for m in self.columns]
        rows = []
        for found in points.values():
            row, means = better(found, key=lambda each: each[1][measure.name])
            numbers = ", ".join(
                f"{m.name} {means[m.name]:.{m.digits}f}"
                for m in self.columns
                if m.name in means
            )
            print(f"Chosen: {row.label}: {numbers}")
            others = (means.get(name, "") for name in names)
            rows.append([row.label, means[measure.name], *others])
        header = ["row", f"chosen by {measure.name}", *names]
        files.write_csv(self.folder / "best.csv", header, rows)

    # === Pictures of finished runs: methods return lists of file names ===

    def _draw_mean(self, finished):
        means = {}
        for row in self.rows:
            paths = [
                run.folder / figures.MEAN_ATTENTION
                for run in finished
                if run.row is row
            ]
            weights = [
                np.loadtxt(path, delimiter=",", skiprows=1, ndmin=2)[:, 1]
                for path in paths
                if path.exists()
            ]
            if weights and len({len(each) for each in weights}) == 1:
                means[row.label] = np.mean(weights, axis=0)
        if not means:
            return []
        path = self.folder / "mean_attention.png"
        title = "Mean attention over the test text"
        analysis.plot_mean_attention(means, path, title=title)
        return [path.name]

    def _draw_lines(self, finished):
        """Draws a line for each preset, if the table has a line plot."""
        if self.table.lines is None:
            return []
        detail, name = self.table.lines
        measure = next(m for m in self.columns if m.name == name)
        panels = {self.dataset: {}, "paper": {}}
        for row in self.rows:
            x = row.details.get(detail)
            if x in (None, ""):
                continue
            label = str(row.details["preset"]).rpartition("/")[2]
            ours = [measure.of(r.results) for r in finished if r.row is row]
            theirs = [p.numbers.get(name) for p in row.published[:1]]
            for panel, values in zip(panels.values(), (ours, theirs)):
                if summary := report.summarize(values):
                    line = panel.setdefault(label, {})
                    # Several settings can have the same x: keep the best.
                    if x not in line or summary.mean < line[x].mean:
                        line[x] = summary
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

    def _draw_sentence(self, finished):
        """Draws the attention of the rows' models over the same sentence."""
        picture = "sentence_attention.png"
        models, experiment = {}, None
        for row in self.rows:
            for run in [r for r in finished if r.row is row][:1]:
                folder = RunFolder(run.folder)
                if (folder.path / picture).exists():
                    models[row.label.rpartition("/")[2]] = folder.model()
                    experiment = Experiment(**folder.recipe())
        if not models:
            return []
        figures.draw_sentence(models, experiment.corpus, self.folder / picture)
        return [picture]


class TableRun(runs.Run):
    """Trains a table's row with a seed. `described` is a dict from `describe`
    with the name, recipe and settings of the run."""

    def __init__(self, table, row, described, running):
        self.table = table
        self.row = row
        self.recipe = described["recipe"]
        self.settings = described["settings"]
        self.seed = self.settings["seed"]
        self.folder = table.run_dir / described["name"]
        self.running = running
        super().__init__(f"{row.label} seed {self.seed}")

    def read(self, any_epochs):
        """Reads the results if the run is finished."""
        folder = RunFolder(self.folder)
        if not folder.is_run or folder.changed(self.settings):
            return
        if any_epochs:
            results = folder.results()
        else:
            asked = map(self.running.get, ("epochs", "patience"))
            results = folder.finished_results(*asked)
        required = [m for m in self.table.columns if not m.optional]
        if results and all(measure.is_in(results) for measure in required):
            self.results = results

    def train(self, stop):
        failure = runs.train_in_process(
            self.folder, self.recipe, self.running, stop
        )
        if failure is None:
            self.results = RunFolder(self.folder).results()
        return failure

    def outcome(self):
        return report.outcome(self.results, self.table.columns)


def preset_of(row):
    """Returns the name of a row's preset or n-gram model."""
    if row.ngrams is None:
        return row.preset
    order, cache = row.ngrams["order"], row.ngrams["cache"]
    return f"kneser_ney_{order}{'_cache' * cache}"


def _grid_values(name, values):
    if name not in options.OVERRIDES:
        raise options.UsageError(
            f"There is no setting {name} for grid."
            f"{options.nearest(name, options.OVERRIDES)}"
        )
    if not values:
        raise options.UsageError(f"grid must have values of {name}.")
    return [options.OVERRIDES[name].read(value) for value in values]


def _uses(row, name, value):
    """Returns whether a setting has an effect on a row's preset."""
    try:
        Experiment(preset_of(row), **{name: value})
    except options.NoUseError:
        return False
    return True


def _required(measure, asked):
    """Returns the `Measure` of a table's column. If the options `asked` request
    this measure, returns a copy that every row must have."""
    key, option = {
        "cache": ("size", "cache_size"),
        "monte_carlo": ("samples", "monte_carlo"),
        "test_by_beams": ("beams", "beams"),
    }.get(measure.path[0], (None, None))
    value = asked.get(option)
    if measure.path[0] == measurements.COMPLETION:
        if not {"questions", "answers"} <= set(asked):
            raise options.UsageError(
                "This table needs --questions and --answers, the files of the "
                "Sentence Completion Challenge."
            )
        key = "files"
        value = measurements.identity([asked["questions"], asked["answers"]])
    if value is None:
        return measure
    made_with = ((measure.path[0], key), value)
    return dataclasses.replace(measure, optional=False, made_with=made_with)


def row_experiment(preset, dataset, seed, overrides, changes):
    """Makes an `Experiment` from two dicts of settings: all `changes`, and only
    the `overrides` that the preset uses."""
    overrides = {**overrides, **changes}
    while True:
        try:
            return Experiment(preset, dataset, seed=seed, **overrides)
        except options.NoUseError as error:
            if error.option in changes:
                raise
            del overrides[error.option]


def describe(recipes):
    """Returns a list of dicts with the name, recipe and settings of
    experiments. Raises `UsageError` for an override that no experiment uses."""
    described, used, corpora = [], set(), {}
    # `list_missing` prints commands, so other lines go to standard error.
    with contextlib.redirect_stdout(sys.stderr):
        for recipe in recipes:
            experiment = row_experiment(**recipe)
            used |= set(experiment.overrides)
            dataset = experiment.dataset
            reading = tuple(dataset.reading.items())
            key = (dataset.sentences, experiment.kind, reading)
            if key in corpora:
                experiment = experiment.with_corpus(corpora[key])
            corpora[key] = experiment.corpus
            described.append(
                {
                    "name": experiment.name,
                    "recipe": experiment.recipe,
                    "settings": experiment.settings,
                }
            )
    unused = {name for r in recipes for name in r["overrides"]} - used
    if unused:
        name = min(unused)
        raise options.UsageError(f"No row of the table uses {name}. Omit it.")
    return described

"""The papers' tables and figures, as lists of models to train."""

import dataclasses
from collections.abc import Mapping

# Names by which `memlm_keras.data.load` loads the texts of the papers.
DATASETS = {
    "Penn Treebank": "ptb",
    "WikiText-2": "wikitext-2",
    "Children's Book Test": "cbt",
    "SNLI": "snli",
}


@dataclasses.dataclass(frozen=True)
class Published:
    """Published numbers for one text.

    Args:
        corpus: string, the paper's description of the text.
        numbers: dict of floats; `None` for a number that is not in the paper.
    """

    corpus: str | None
    numbers: Mapping

    @property
    def dataset(self):
        """Name of the text for `memlm_keras.data.load`, or `None`."""
        return DATASETS.get(self.corpus)

    def by_measure(self, names):
        """Returns a copy with only the keys in `names`, renamed by `names`."""
        numbers = {
            names[key]: value
            for key, value in self.numbers.items()
            if key in names and value is not None
        }
        return Published(self.corpus, numbers)


def perplexities(corpus, validation=None, test=None, **others):
    """Returns the published perplexities for a text as `Published`."""
    return Published(
        corpus,
        {
            "validation_perplexity": validation,
            "test_perplexity": test,
            **others,
        },
    )


@dataclasses.dataclass(frozen=True)
class Measure:
    """One measured quantity, such as the test perplexity.

    Args:
        name: string, heading of the measure's column.
        path: tuple of strings, keys that lead to the value in a run's nested
            dict of results; the innermost dict also has the key `"protocol"`.
        digits: integer, number of digits after the decimal point.
        optional: whether some rows may lack the measure.
        made_with: `None`, or a pair `(path, value)`. Results have the measure
            only if the nested keys `path` lead to `value`.
    """

    name: str
    path: tuple
    digits: int = 2
    optional: bool = False
    made_with: tuple | None = None

    def is_in(self, results):
        """Returns whether the results of a run contain the measure."""
        path, expected = self.made_with or ((), results)
        made_so = _at(results, path) == expected
        return made_so and _at(results, self.path) is not None

    def of(self, results):
        """Returns the measured value in the results of a run, or `None`."""
        return _at(results, self.path) if self.is_in(results) else None

    def protocol(self, results):
        """Returns the description of the measurement's protocol, or `None`."""
        path = (*self.path[:-1], "protocol")
        return _at(results, path) if self.is_in(results) else None


def _at(results, path):
    for key in path:
        if key not in results:
            return None
        results = results[key]
    return results


PERPLEXITIES = (
    Measure("dev", ("validation", "perplexity")),
    Measure("test", ("test", "perplexity")),
)
OF_PERPLEXITIES = {"validation_perplexity": "dev", "test_perplexity": "test"}


@dataclasses.dataclass(frozen=True)
class TableRow:
    """One row of a table: the model to train, and the published numbers.

    Args:
        label: string, unique in the table.
        preset: string, name of a preset, or `None`.
        changes: dict, sizes and settings that replace the preset's.
        details: dict from headings to cells, the first columns of the row.
        published: tuple of `Published`, one for each text; the keys of
            `Published.numbers` are names of the table's measures.
        ngrams: dict with `order` and `cache`, if the row is an n-gram model
            instead of a preset; or `None`.
        grid: dict from settings to lists of values. `memlm table` trains a
            model for each combination of values.
        same_but_for_units: label of another row that differs only in `units`,
            or `None`. The option `--match_parameters` sets the units of all
            rows. Because both rows are then equal, the table omits this row.
    """

    label: str
    preset: str | None = None
    changes: Mapping = dataclasses.field(default_factory=dict)
    details: Mapping = dataclasses.field(default_factory=dict)
    published: tuple = ()
    ngrams: Mapping | None = None
    grid: Mapping = dataclasses.field(default_factory=dict)
    same_but_for_units: str | None = None

    def published_on(self, dataset):
        """Returns a dict from measures to published numbers for a dataset."""
        for published in self.published:
            if dataset is not None and published.dataset == dataset:
                return dict(published.numbers)
        return {}


@dataclasses.dataclass(frozen=True)
class Table:
    """A table or figure of a paper, as a list of models to train.

    Args:
        name: string, name of the table within the paper, such as `"models"`.
        title: string, such as `"Figure 2 (c), all models"`.
        rows: tuple of `TableRow`s.
        measures: tuple of `Measure`s.
        dataset: string, name of the paper's dataset, or `None`.
        only_dataset: whether the measures can be computed only on `dataset`.
        lines: `None`, or a pair of strings for a plot with a line for each
            preset: a heading in `details`, such as `"window"`, on the x-axis,
            and the name of a measure on the y-axis.
        choose_by: name of the measure that selects the best of the models with
            the values in `TableRow.grid`, or `None`.
    """

    name: str
    title: str
    rows: tuple
    measures: tuple = PERPLEXITIES
    dataset: str | None = None
    only_dataset: bool = False
    lines: tuple | None = None
    choose_by: str | None = None


def table_rows(
    paper, rows, measures=OF_PERPLEXITIES, corpus=None, details=None
):
    """Creates `TableRow`s from `rows`; with `corpus`, only from rows with
    numbers for that text. `details` returns a row's first columns."""
    made = []
    for name, row in rows.items():
        published = tuple(
            published.by_measure(measures)
            for published in row.published
            if published.corpus is not None
            and corpus in (None, published.corpus)
        )
        if published or corpus is None:
            preset = f"{paper}/{name}"
            label, others = preset, {}
            if details is not None:
                label, others = name, details(row)
            others = {"preset": label, **others}
            made.append(TableRow(label, preset, {}, others, published))
    return tuple(made)

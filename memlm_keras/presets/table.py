"""Tables and figures of the papers that are lists of runs, as data.

A table says what its rows are, what is measured, and what the paper published
for which text. Whoever runs one finds in `row.preset` and `row.changes` what to
train, and in `measure.path` where its results are to be found.
"""

import dataclasses
from collections.abc import Mapping

# Texts of the papers that `memlm_keras.data` loads by a name.
DATASETS = {
    "Penn Treebank": "ptb",
    "WikiText-2": "wikitext-2",
    "Children's Book Test": "cbt",
    "SNLI": "snli",
}


@dataclasses.dataclass(frozen=True)
class Published:
    """Published numbers of one text.

    Args:
        corpus: string, the text, as the paper describes it.
        numbers: dict of floats; `None` for those that were not printed.
    """

    corpus: str | None
    numbers: Mapping

    @property
    def dataset(self):
        """Name of the text in `memlm_keras.data.load`, or `None`."""
        return DATASETS.get(self.corpus)

    def by_measure(self, names):
        """The same numbers, by the names of measures.

        Args:
            names: dict of such names by the key of a number.

        Returns:
            A `Published` of the numbers that were printed.
        """
        return Published(
            self.corpus,
            {
                names[key]: value
                for key, value in self.numbers.items()
                if key in names and value is not None
            },
        )


def perplexities(corpus, validation=None, test=None, **others):
    """`Published` validation and test perplexity of a text."""
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
    """One measured quantity.

    Args:
        name: string, heading of its column.
        path: tuple of strings, keys that lead to it in the results of a run,
            where `"protocol"` stands beside it.
        digits: integer, digits behind the point.
        optional: whether rows may lack it.
        made_with: pair of keys that lead to a setting in the results and what
            it must be, or `None`.
    """

    name: str
    path: tuple
    digits: int = 2
    optional: bool = False
    made_with: tuple | None = None

    def is_in(self, results):
        """Whether it was measured, by the results of a run."""
        if self.made_with is not None:
            path, wanted = self.made_with
            if _found(results, path) != wanted:
                return False
        return _found(results, self.path) is not None

    def of(self, results):
        """Value of the measure in the results of a run, or `None`."""
        if self.optional and not self.is_in(results):
            return None
        return _found(results, self.path[:-1])[self.path[-1]]

    def protocol(self, results):
        """Protocol of the measurement, or `None`."""
        if self.optional and not self.is_in(results):
            return None
        return _found(results, self.path[:-1])["protocol"]


def _found(results, path):
    for key in path:
        if key not in results:
            return None
        results = results[key]
    return results


# Of language models.
DEV = Measure("dev", ("validation", "perplexity"))
TEST = Measure("test", ("test", "perplexity"))
PERPLEXITIES = (DEV, TEST)
OF_PERPLEXITIES = {"validation_perplexity": "dev", "test_perplexity": "test"}


@dataclasses.dataclass(frozen=True)
class TableRow:
    """One row of a table: what is trained for it, and what was published.

    Args:
        label: string, unlike that of any other row of the table.
        preset: string, name of a preset, or `None`.
        changes: dict, sizes and settings in place of the preset's.
        details: dict, first columns of the row: what sets it apart.
        published: tuple of `Published`, one for each text, by the names of the
            table's measures.
        ngrams: dict, in place of a preset: arguments of the n-gram model that
            is estimated, `order` and `cache`; or `None`.
        grid: dict of lists by setting: values that the paper tuned, of which
            all combinations are tried.
        same_but_for_units: label of a row that differs from this one by its
            units alone, so that this one is left out where the units of all are
            chosen by a number of parameters; or `None`.
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
        """Published numbers on a text that `memlm_keras.data` loads.

        Args:
            dataset: string, name of the text there.

        Returns:
            A dict by the names of measures; empty where nothing was published
            for this text.
        """
        for published in self.published:
            if dataset is not None and published.dataset == dataset:
                return dict(published.numbers)
        return {}


@dataclasses.dataclass(frozen=True)
class Table:
    """A table or figure of a paper that is a list of runs.

    Args:
        name: string, such as `"models"`.
        title: string, such as `"Figure 2 (c), all models"`.
        rows: tuple of `TableRow`s.
        measures: tuple of `Measure`s.
        dataset: string, name of the text that it is made for, or `None`; the
            numbers of other texts belong in a table of their own.
        only_dataset: whether no other text has what is measured.
        lines: `None`, or the pair of a detail and the name of a measure: the
            table as a picture, with a line for each preset.
        choose_by: name of the measure that the best of a row's grid is chosen
            by, or `None`.
    """

    name: str
    title: str
    rows: tuple
    measures: tuple = PERPLEXITIES
    dataset: str | None = None
    only_dataset: bool = False
    lines: tuple | None = None
    choose_by: str | None = None


def table_rows(paper, rows, measures=OF_PERPLEXITIES, corpus=None):
    """Rows of a table that are presets.

    Args:
        paper: string, name of the paper.
        rows: dict of `Row`s by name.
        measures: dict of the names of measures by the key of a number.
        corpus: string, a text: only what is published of it is told, and rows
            without are left out; `None` for all.

    Returns:
        A tuple of `TableRow`s.
    """
    made = []
    for name, row in rows.items():
        preset = f"{paper}/{name}"
        published = tuple(
            published.by_measure(measures)
            for published in row.published
            if published.corpus is not None
            and corpus in (None, published.corpus)
        )
        if published or corpus is None:
            details = {"preset": preset}
            made.append(TableRow(preset, preset, {}, details, published))
    return tuple(made)

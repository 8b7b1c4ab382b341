"""Tables and figures of the papers that are lists of runs, as data."""

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
        """Returns the printed numbers, by the values of `names`."""
        numbers = {
            names[key]: value
            for key, value in self.numbers.items()
            if key in names and value is not None
        }
        return Published(self.corpus, numbers)


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
        path: tuple of strings, the keys of the results of a run that lead to
            it; the dict that has it also has its `"protocol"`.
        digits: integer, digits after the decimal point.
        optional: whether rows may lack it.
        made_with: `None`, or a pair of the keys that lead to a setting in the
            results and the value that it must have.
    """

    name: str
    path: tuple
    digits: int = 2
    optional: bool = False
    made_with: tuple | None = None

    def is_in(self, results):
        """Whether the results of a run have it."""
        path, expected = self.made_with or ((), results)
        made_so = _at(results, path) == expected
        return made_so and _at(results, self.path) is not None

    def of(self, results):
        """Its value in the results of a run, or `None`."""
        return _at(results, self.path) if self.is_in(results) else None

    def protocol(self, results):
        """The protocol of its measurement, or `None`."""
        path = (*self.path[:-1], "protocol")
        return _at(results, path) if self.is_in(results) else None


def _at(results, path):
    for key in path:
        if key not in results:
            return None
        results = results[key]
    return results


# Of language models.
PERPLEXITIES = (
    Measure("dev", ("validation", "perplexity")),
    Measure("test", ("test", "perplexity")),
)
OF_PERPLEXITIES = {"validation_perplexity": "dev", "test_perplexity": "test"}


@dataclasses.dataclass(frozen=True)
class TableRow:
    """One row of a table: the model to train, and the published numbers.

    Args:
        label: string, different from the labels of the table's other rows.
        preset: string, name of a preset, or `None`.
        changes: dict, sizes and settings in place of the preset's.
        details: dict, the first columns of the row.
        published: tuple of `Published`, one for each text, by the names of the
            table's measures.
        ngrams: dict, in place of a preset: arguments of the n-gram model that
            is estimated, `order` and `cache`; or `None`.
        grid: dict of lists by setting: the values that the paper tuned. All
            combinations are tried.
        same_but_for_units: label of a row that differs from this one only in
            its units, or `None`. This row is left out where the units of all
            rows are chosen by a number of parameters.
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
        """Published numbers on a dataset of `memlm_keras.data`.

        Returns:
            A dict by the names of measures; empty if there are none.
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
        dataset: string, name of the dataset that it is made for, or `None`.
        only_dataset: whether the measures need this dataset.
        lines: `None`, or a pair of a detail and the name of a measure, the axes
            of a picture of the table with a line for each preset.
        choose_by: name of the measure that chooses the best of a row's grid,
            or `None`.
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
    """Makes `TableRow`s of a dict of `Row`s by name, those with numbers of a
    `corpus` if it is given; labels are without the paper if `details` is."""
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

"""Tables of the systems that Salton et al. (2017) compare with, and others.

Rows are presets of several papers, and the language models with an associative
memory. A cache and a Monte Carlo average are measured beside the plain
perplexities of the same run, and the numbers that a paper published with them
stand beside those.
"""

from memlm_keras.presets import gal2016
from memlm_keras.presets import grave2017
from memlm_keras.presets import merity2017
from memlm_keras.presets import press2016
from memlm_keras.presets import weissenborn2016
from memlm_keras.presets import zaremba2014
from memlm_keras.presets.table import OF_PERPLEXITIES
from memlm_keras.presets.table import PERPLEXITIES
from memlm_keras.presets.table import Measure
from memlm_keras.presets.table import Table
from memlm_keras.presets.table import table_rows
from memlm_keras.registry import Paper

PAPERS = (
    zaremba2014.PAPER,
    press2016.PAPER,
    gal2016.PAPER,
    grave2017.PAPER,
    merity2017.PAPER,
    weissenborn2016.PAPER,
)

MEASURES = (
    *PERPLEXITIES,
    Measure("dev, cache", ("cache", "validation", "perplexity"), optional=True),
    Measure("test, cache", ("cache", "test", "perplexity"), optional=True),
    Measure(
        "test, Monte Carlo",
        ("monte_carlo", "test", "perplexity"),
        optional=True,
    ),
)


def _rows(corpus):
    for paper in PAPERS:
        for name, row in paper.rows.items():
            if row.kind == "LanguageModel":
                cached = getattr(row, "cache_size", None) is not None
                names = {
                    key: f"{name}, cache" if cached else name
                    for key, name in OF_PERPLEXITIES.items()
                }
                names["monte_carlo_test_perplexity"] = "test, Monte Carlo"
                yield from table_rows(paper.name, {name: row}, names, corpus)


PAPER = Paper(
    name="baselines",
    rows={},
    title="Baselines of Salton et al. (2017), and others",
    tables=tuple(
        Table(
            name=name,
            title=corpus,
            rows=tuple(_rows(corpus)),
            measures=MEASURES,
            dataset=dataset,
        )
        for name, corpus, dataset in (
            ("ptb", "Penn Treebank", "ptb"),
            ("wikitext2", "WikiText-2", "wikitext-2"),
        )
    ),
)

import pytest

from memlm_keras import presets

TABLES = presets.tables()
every_table = pytest.mark.parametrize("name", TABLES)

PAPERS = """
    daniluk2017 tran2016 salton2017 zaremba2014 press2016 gal2016 grave2017
    merity2017 kong2019 weissenborn2016
""".split()


def by_label(name):
    return {row.label: row for row in TABLES[name].rows}


def test_papers():
    papers = presets.papers()
    assert set(papers) >= set(PAPERS)
    for name in PAPERS:
        paper = papers[name]
        assert name == f"{paper.authors[0].lower()}{paper.year}"
        assert paper.title and paper.where
    assert papers["weissenborn2016"].citation == "Weissenborn (2016)"
    assert papers["press2016"].citation == "Press and Wolf (2016)"
    assert papers["kong2019"].citation == "Kong et al. (2019)"
    names = """
        daniluk2017/windows daniluk2017/ngrams daniluk2017/models
        daniluk2017/cbt tran2016/perplexity tran2016/completion
        salton2017/ptb salton2017/wikitext2 kong2019/ptb kong2019/wikitext2
        kong2019/grid weissenborn2016/entailment weissenborn2016/autoencoding
        baselines/ptb baselines/wikitext2
    """
    assert set(TABLES) == set(names.split())


@every_table
def test_rows_can_be_run(name):
    table = TABLES[name]
    assert table.title and table.rows
    labels = [row.label for row in table.rows]
    assert len(set(labels)) == len(labels)
    kinds = set()
    for row in table.rows:
        if row.preset is None:
            assert set(row.ngrams) == {"order", "cache"}
            continue
        kinds.add(presets.get(row.preset, **row.changes)["kind"])
        assert row.same_but_for_units in (None, *labels)
    assert len(kinds) == 1


@every_table
def test_numbers_belong_to_measures_and_texts(name):
    table = TABLES[name]
    measures = {measure.name for measure in table.measures}
    for row in table.rows:
        corpora = [published.corpus for published in row.published]
        assert len(set(corpora)) == len(corpora) and all(corpora)
        for published in row.published:
            assert set(published.numbers) <= measures
            assert None not in published.numbers.values()
    if table.lines is not None:
        detail, measure = table.lines
        assert measure in measures
        assert all(detail in {**r.details, **r.grid} for r in table.rows) or (
            name == "kong2019/grid"
        )
    assert table.choose_by is None or table.choose_by in measures


@pytest.mark.parametrize(
    "table, label, corpus, numbers",
    [
        ("tran2016/perplexity", "rm_tm_gated", "ptb", {"test": 123.5}),
        ("tran2016/perplexity", "rm_tm_gated", "wikitext-2", {}),
        # The results of a model with a cache have their own measure.
        (
            *("baselines/wikitext2", "grave2017/wikitext2_cache_2000"),
            *("wikitext-2", {"test, cache": 68.9}),
        ),
        (
            *("baselines/ptb", "gal2016/large", "ptb"),
            {"dev": 77.9, "test": 75.2, "test, Monte Carlo": 73.4},
        ),
    ],
)
def test_published_numbers_of_a_row_on_a_text(table, label, corpus, numbers):
    row = by_label(table)[label]
    assert row.published_on(corpus) == numbers
    assert row.published_on("sick") == row.published_on(None) == {}


def test_rows_of_windows_and_of_a_grid():
    rows = by_label("daniluk2017/windows")
    assert len(rows) == 16 and not rows["key_value, window 10"].changes
    row = rows["key_value, window 15"]
    assert row.changes == {"window": 15}
    assert row.published[0].numbers == {"test": 78.9}
    (row,) = TABLES["kong2019/grid"].rows
    assert row.preset == "kong2019/vs_kneser_ney_512"
    assert row.grid == {"rate": [0.1, 0.2, 0.3, 0.4]}


def test_measures_in_results():
    _, test, *_, masked = TABLES["baselines/ptb"].measures
    results = {"test": {"perplexity": 80.5, "protocol": "standard"}}
    assert test.is_in(results) and test.of(results) == 80.5
    assert test.protocol(results) == "standard"
    assert not masked.is_in(results)
    assert masked.of(results) is masked.protocol(results) is None

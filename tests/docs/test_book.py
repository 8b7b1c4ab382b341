"""Tests the documentation's site, built by Sphinx."""

import inspect
import re
import shutil

import pytest
from told import ROOT
from told import python

import memlm_keras as memlm
from memlm_keras import trained
from memlm_keras.integrations.web import writer as web

pytestmark = pytest.mark.slow

pytest.importorskip("sphinx")
pytest.importorskip("myst_parser")
pytest.importorskip("furo")
EXAMPLES = sorted((ROOT / "docs" / "examples").glob("*.py"))
PAPERS = "daniluk2017 tran2016 salton2017 weissenborn2016 kong2019".split()


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """Builds the site from a copy, since pages are written next to their
    sources."""
    try:
        web.fetch_engine()
    except ConnectionError as error:
        pytest.skip(str(error))
    copy = tmp_path_factory.mktemp("book")
    shutil.copytree(
        ROOT / "docs",
        copy / "docs",
        ignore=shutil.ignore_patterns(
            "code_examples", "reference", "project", "pages"
        ),
    )
    for path in [*ROOT.glob("*.md"), ROOT / "saved_models" / "README.md"]:
        to = copy / path.relative_to(ROOT)
        to.parent.mkdir(exist_ok=True)
        shutil.copy(path, to)
    linked = ("memlm_keras", "benchmarks", "deploy", "recipes", ".ci")
    for name in linked:
        (copy / name).symlink_to(ROOT / name)
    python(*"-m sphinx -W -q -t models docs site".split(), folder=copy)
    return copy / "site"


def text_of(page):
    text = re.sub(r"<[^>]+>", "", page.read_text(encoding="utf-8"))
    return text.replace("&#39;", "'").replace("&quot;", '"')


def test_every_public_name_is_in_the_reference(site):
    pages = {
        path.stem: path.read_text(encoding="utf-8")
        for path in (site / "reference").glob("*.html")
    }
    assert set(pages) >= set(memlm.__all__)
    for name in memlm.__all__:
        thing = getattr(memlm, name)
        for member in getattr(thing, "__all__", ()):
            if inspect.ismodule(getattr(thing, member)):
                module = f"{name}.{member}"
                assert f'id="module-memlm_keras.{module}"' in pages[module]
            elif callable(getattr(thing, member)):
                assert f'id="memlm_keras.{name}.{member}"' in pages[name]


def test_signatures_show_the_arguments_of_layers(site):
    text = text_of(site / "reference" / "memory.html")
    assert "KeyValuePredict(window=5, kernel_initializer=" in text


@pytest.mark.parametrize("paper", PAPERS)
def test_equations_are_shown_with_their_code(site, paper):
    page = site / "papers" / f"{paper}.html"
    assert page.read_text(encoding="utf-8").count("<math") >= 2
    source = (ROOT / "docs" / "papers" / f"{paper}.md").read_text()
    shown = re.findall(r":pyobject: \S*?(\w+)\n", source)
    assert len(shown) >= 2
    text = text_of(page)
    for name in shown:
        assert re.search(rf"def {name}\(", text), name


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_examples_are_pages(site, example):
    page = site / "code_examples" / f"{example.stem}.html"
    text = text_of(page)
    source = example.read_text(encoding="utf-8")
    title = re.search("^Title: (.+)$", source, re.M)[1]
    assert title in text and "## " not in text and '\n"""\n' not in text
    for line in ("import keras", "keras.utils.set_random_seed(0)"):
        assert line in source and line in text
    assert "../_downloads/" in page.read_text(encoding="utf-8")


def test_trained_models_run_on_its_pages(site):
    front = (site / "index.html").read_text(encoding="utf-8")
    pages = re.findall(r'href="(memlm/[^"]+)"', front)
    names = [name for name in trained.SOURCES if name.startswith("memlm/")]
    assert {*pages} == {f"{name}/index.html" for name in names}
    assert all((site / page).is_file() for page in pages)


def test_nothing_is_loaded_from_elsewhere(site):
    for page in site.rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        loaded = re.findall(r'<(?:script|img)[^>]+src="([^"]+)"', text)
        loaded += re.findall(r'<link rel="stylesheet"[^>]+href="([^"]+)"', text)
        assert not [url for url in loaded if "://" in url]

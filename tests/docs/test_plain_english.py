"""Sentences of the documentation are short, and use the field's words."""

import ast
import re

import pytest
from told import ROOT

PAGES = [
    *ROOT.glob("*.md"),
    *(ROOT / "docs").rglob("*.md"),
    *(ROOT / "saved_models").glob("*.md"),
    *(ROOT / "deploy").glob("*.md"),
]
GENERATED = ("reference", "code_examples", "project")
PAGES = sorted(page for page in PAGES if page.parent.name not in GENERATED)
MOST_WORDS = 35
DIALECT = re.compile(
    r"\b(told|tells|so many|beside|whoever|somebody|parted|not told from|anew|"
    r"what is \w+(?: \w+)? is|of which the first|bears?|alike|dealt|"
    r"goes on|went on|go on|(?:is|are) had|as of|nothing else than|but for|"
    r"such as are|as there|one a (?:row|line|word)|hangs on|that which|"
    r"one's own|by heart)\b",
    re.IGNORECASE,
)


def prose(text):
    """Returns a page's sentences, without code, tables, link targets and
    comments."""
    text = re.sub(r"^(`{3,}).*?^\1`*$", "\n", text, flags=re.M | re.S)
    text = re.sub(r"<!--.*?-->", "\n", text, flags=re.S)
    text = re.sub(r"^( {4}|\|).*$", "", text, flags=re.M)
    text = re.sub(r"^#+ .*$", "", text, flags=re.M)
    text = re.sub(r"`[^`]+`", "code", text)
    text = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", text)
    text = re.sub(r"^ *(?:[*-]|\d+\.) ", "\n\n", text, flags=re.M)
    text = re.sub(r"\*+|[·|]", " ", text)
    for paragraph in re.split(r"\n\s*\n", text):
        joined = " ".join(paragraph.split())
        yield from re.split(r"(?<=[.!?])(?<!al\.) (?=[A-Z0-9(]|code)", joined)


@pytest.mark.parametrize(
    "page", PAGES, ids=lambda page: str(page.relative_to(ROOT))
)
def test_plain_english(page):
    sentences = list(prose(page.read_text(encoding="utf-8")))
    long = [each for each in sentences if len(each.split()) > MOST_WORDS]
    assert not long, "\n".join(long)
    odd = [each for each in sentences if DIALECT.search(each)]
    assert not odd, "\n".join(odd)


def remarks(path):
    """Docstrings and comments of a Python file."""
    text = path.read_text(encoding="utf-8")
    described = (ast.Module, ast.ClassDef, ast.FunctionDef)
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, described):
            yield ast.get_docstring(node) or ""
    yield from re.findall(r"^\s*# (.*)", text, re.M)


@pytest.mark.parametrize("folder", ["memlm_keras", "recipes", "benchmarks"])
def test_docstrings_and_comments_use_the_fields_words(folder):
    odd = [
        f"{path.name}: {found[0]}: {remark.splitlines()[0]}"
        for path in sorted((ROOT / folder).rglob("*.py"))
        for remark in remarks(path)
        if (found := DIALECT.search(remark))
    ]
    assert not odd, "\n".join(odd)

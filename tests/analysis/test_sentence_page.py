"""Tests the page of one sentence in a browser."""

import html.parser
import json
import re
import shutil
import subprocess

import keras
import numpy as np
import pytest

from memlm_keras import LanguageModel
from memlm_keras import analysis
from memlm_keras.data import Vocabulary
from memlm_keras.memory import KeyValuePredict

WORDS = ["</script>", "b&c", '"d"', "e", "f", "g"]
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")
BROWSER = next(filter(None, map(shutil.which, BROWSERS)), None)


@pytest.fixture(scope="module")
def predictions():
    keras.utils.set_random_seed(3)
    model = LanguageModel(
        embedding_dim=8,
        recurrent=[keras.layers.LSTM(12)],
        memory=KeyValuePredict(3),
        vocabulary=Vocabulary(WORDS),
    )
    for weight in model.weights:
        weight.assign(weight * 6.0)
    return analysis.sentence_predictions(
        model, ["e", "</script>", "b&c", "f", '"d"'], top=2
    )


class Page(html.parser.HTMLParser):
    """Parses a page's words with their weights, its tables, and loaded
    sources."""

    def __init__(self, text):
        super().__init__()
        self.words, self.rows, self.loaded, self._inside = [], [], [], ""
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        self._inside = tag
        self.loaded += [v for k, v in attributes.items() if k in _SOURCES]
        if tag == "button":
            share = re.search(r"--share: ([\d.]+)", attributes["style"])
            predicted = "predicted" in attributes["class"].split()
            self.words.append(["", float(share[1]), predicted])
        if tag == "tr":
            self.rows.append([attributes["class"] or ""])

    def handle_data(self, data):
        if self._inside == "span":
            self.words[-1][0] += data
        if self._inside == "td":
            self.rows[-1].append(data)

    def handle_endtag(self, tag):
        self._inside = ""


_SOURCES = ("src", "href", "data")


def opened(path, fragment="", script=""):
    """Returns the page from a browser, after a script has run."""
    if script:
        end = f"<script>{script}</script></body>"
        text = path.read_text().replace("</body>", end)
        path = path.with_name("scripted.html")
        path.write_text(text)
    found = subprocess.run(
        [
            BROWSER,
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            f"--user-data-dir={path.parent / 'profile'}",
            "--dump-dom",
            f"{path.as_uri()}{fragment}",
        ],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert found.returncode == 0, found.stderr
    return Page(found.stdout)


def expect(page, predictions, step):
    """Asserts that a page shows a step of a sentence."""
    read = [*predictions.read, predictions.next[-1]]
    weights = analysis.attention_by_word(predictions)[step]
    assert [word for word, _, _ in page.words] == read
    shares = [share for _, share, _ in page.words]
    np.testing.assert_allclose(shares, [*weights, 0], atol=1e-3)
    marked = [index for index, word in enumerate(page.words) if word[2]]
    assert marked == [step + 1]
    probabilities = np.exp(predictions.top_log_probabilities[step])
    for word, share, row in zip(
        predictions.top[step], probabilities, page.rows
    ):
        assert row[1:3] == [word, f"{100 * share:.1f}%"]
        assert ("follows" in row[0]) == (word == predictions.next[step])
    actual = np.exp(predictions.next_log_probabilities[step])
    (follows,) = (row for row in page.rows if "follows" in row[0])
    assert follows[1:3] == [predictions.next[step], f"{100 * actual:.1f}%"]
    distances = [int(row[1]) for row in page.rows[-3:]]
    assert distances == sorted(predictions.distances)


@pytest.mark.skipif(BROWSER is None, reason="there is no Chromium here")
def test_a_browser_shows_where_the_model_looked(predictions, tmp_path):
    path = tmp_path / "page.html"
    analysis.write_sentence_page(predictions, path, "A & <b>")
    last = len(predictions.next) - 1
    page = opened(path)
    assert page.loaded == []
    expect(page, predictions, last)
    expect(opened(path, "#3"), predictions, 2)
    point = (
        "document.querySelectorAll('.word')[2].dispatchEvent("
        "new MouseEvent('mouseover', {bubbles: true}));"
    )
    expect(opened(path, "", point), predictions, 1)
    leave = "sentence.dispatchEvent(new MouseEvent('mouseleave'));"
    expect(opened(path, "", point + leave), predictions, last)
    back = "document.dispatchEvent(new KeyboardEvent('keydown', {key: '%s'}));"
    keys = back % "ArrowLeft" + back % "ArrowLeft" + back % "ArrowRight"
    expect(opened(path, "", keys), predictions, last - 1)


def test_the_page_has_all_numbers_and_loads_nothing(predictions, tmp_path):
    path = tmp_path / "page.html"
    analysis.write_sentence_page(predictions, path, "A & <b>")
    text = path.read_text(encoding="utf-8")
    assert "http" not in text
    found = re.search(r'type="application/json">(.*)</script>', text)[1]
    assert "<" not in found
    data = json.loads(found)
    assert data["title"] == "A & <b>"
    assert tuple(data["next"]) == predictions.next
    np.testing.assert_allclose(data["weights"], predictions.weights, atol=1e-6)
    mean = predictions.weights.mean(axis=0)
    np.testing.assert_allclose(data["mean"], mean, atol=1e-6)


def test_numbers_that_are_none_are_refused(predictions, tmp_path):
    predictions.next_log_probabilities[0] = np.nan
    path = tmp_path / "page.html"
    with pytest.raises(ValueError, match="JSON"):
        analysis.write_sentence_page(predictions, path)
    assert list(tmp_path.iterdir()) == []

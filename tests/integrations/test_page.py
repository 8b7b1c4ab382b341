"""Tests the exported page in a browser, headless Chromium."""

import functools
import http.server
import shutil
import threading

import keras
import numpy as np
import pytest

import memlm_keras as memlm
from memlm_keras.integrations.web import writer as web
from memlm_keras.serving import export

pytestmark = pytest.mark.slow
pytest.importorskip("tf2onnx")
webdriver = pytest.importorskip("selenium.webdriver")

MARKUP = "<img/src=x/onerror=document.title=1>"
# Two words of the vocabulary are markup; the text ends with an unknown word.
WORDS = ["word_1", "word_2", "<b>word</b>", "word_3", MARKUP, "word_4"]
TEXT = f"word_1 <b>word</b> word_3 word_2 {MARKUP} word_1\nword_4 other"


@pytest.fixture(scope="module")
def lm():
    keras.utils.set_random_seed(3)
    return memlm.LanguageModel(
        vocabulary=memlm.data.Vocabulary(WORDS),
        embedding_dim=24,
        recurrent=[keras.layers.LSTM(30)],
        memory=memlm.memory.KeyValuePredict(window=3),
        initializer=keras.initializers.RandomUniform(-0.8, 0.8),
    )


@pytest.fixture(scope="module")
def folder(lm, tmp_path_factory):
    try:
        web.fetch_engine()
    except ConnectionError as error:
        pytest.skip(str(error))
    path = tmp_path_factory.mktemp("pages") / "small<b>"
    return export(lm, path, top_k=3, format="web")


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *arguments):
        pass


@pytest.fixture(scope="module")
def addresses(folder):
    """Yields the page's addresses: from a local HTTP server, and as a file."""
    server = http.server.ThreadingHTTPServer(
        ("127.0.0.1", 0), functools.partial(Quiet, directory=str(folder))
    )
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield {
        "http": f"http://127.0.0.1:{server.server_port}/",
        "file": (folder / "index.html").as_uri(),
    }
    server.shutdown()


@pytest.fixture(scope="module")
def browser():
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    driver = shutil.which("chromedriver")
    if not chromium or not driver:
        pytest.skip("there is no Chromium: install chromium, chromium-driver")
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    service = webdriver.ChromeService(driver)
    browser = webdriver.Chrome(options=options, service=service)
    yield browser
    browser.quit()


def opened(browser, address, width=1280):
    """Opens the page in a window of width `width`; waits for the first
    answer."""
    size = {"height": 900, "deviceScaleFactor": 1, "mobile": False}
    command = "Emulation.setDeviceMetricsOverride"
    browser.execute_cdp_cmd(command, {"width": width, **size})
    browser.get(address)
    wait(browser, lambda: found(browser, "#continue:enabled"))


def wait(browser, condition):
    from selenium.webdriver.support.ui import WebDriverWait

    WebDriverWait(browser, 120).until(lambda _: condition())


def found(browser, selector):
    return browser.find_elements("css selector", selector)


def numbers(browser, selector, name):
    return [float(e.get_attribute(name)) for e in found(browser, selector)]


def press(browser, *keys):
    for key in keys:
        webdriver.ActionChains(browser).send_keys(key).perform()


def text_of(browser):
    return found(browser, "#text")[0].get_property("value")


@pytest.mark.parametrize("scheme", ["http", "file"])
def test_numbers_are_those_of_the_model(scheme, browser, addresses, lm):
    opened(browser, addresses[scheme])
    found(browser, "#text")[0].send_keys(TEXT)
    words = TEXT.replace("\n", " \u21b5 ").split()
    wait(browser, lambda: len(found(browser, "#words button")) == len(words))
    first, second = map(lm.vocabulary.encode, TEXT.split("\n"))
    ids = np.concatenate([[0], first, [0], second])[None]
    bits = numbers(browser, "#words button", "data-bits")
    expected = -lm.score(ids)[0] / np.log(2)
    np.testing.assert_allclose(bits, expected, atol=1e-3)
    logits, _ = lm.step(ids, lm.initial_state(1))
    last = keras.ops.convert_to_numpy(keras.ops.log_softmax(logits[0, -1]))
    best = np.argsort(-last)
    np.testing.assert_allclose(
        numbers(browser, "#next button", "data-log-probability"),
        last[best],
        atol=1e-3,
    )
    shown = [
        button.get_attribute("data-token")
        for button in found(browser, "#next button")
    ]
    assert shown == lm.vocabulary.decode(best)
    # The attention on the page has the model's weights in descending order.
    weights = lm.attention(ids)[0, -1]
    drawn = numbers(browser, "#attention li", "data-weight")
    expected = sorted(weights, reverse=True)
    np.testing.assert_allclose(drawn, expected, atol=1e-3)
    # The page shows markup as text and does not run it.
    assert [e.text for e in found(browser, "#words button")] == words
    assert found(browser, "#name")[0].text == browser.title == "small<b>"
    assert not found(browser, "img, b")
    assert browser.get_log("browser") == []


@pytest.mark.parametrize("width", [400, 1280])
def test_it_fits_the_width(width, browser, addresses):
    opened(browser, addresses["http"], width)
    found(browser, "#text")[0].send_keys(f"{TEXT} {TEXT} {TEXT}" + "w" * 200)
    wait(browser, lambda: len(found(browser, "#words button")) == 27)
    assert browser.execute_script(
        "const page = document.documentElement;"
        "return [innerWidth, page.scrollWidth <= page.clientWidth]"
    ) == [width, True]


def test_the_keyboard_is_enough(browser, addresses):
    from selenium.webdriver.common.keys import Keys

    opened(browser, addresses["http"])
    press(browser, "word_1 word_2")
    wait(browser, lambda: len(found(browser, "#words button")) == 2)
    # The keys move over sampler, temperature and length to the button.
    press(browser, Keys.TAB, "d", Keys.TAB, Keys.TAB, Keys.TAB, Keys.ENTER)
    wait(browser, lambda: len(text_of(browser)) > len("word_1 word_2"))
    wait(browser, lambda: found(browser, "#continue:enabled"))
    written = text_of(browser)
    # The next key press is on a button that adds a probable token.
    press(browser, Keys.TAB, Keys.ENTER)
    wait(browser, lambda: text_of(browser) != written)
    wait(browser, lambda: found(browser, "#words button[tabindex='0']"))
    browser.execute_script(
        "document.querySelector(\"#words [tabindex='0']\").focus()"
    )
    press(browser, Keys.HOME)
    wait(browser, lambda: found(browser, "#words [aria-pressed='true']"))
    assert "word_1" in found(browser, "#word")[0].text
    press(browser, Keys.ARROW_RIGHT)
    assert "word_2" in found(browser, "#word")[0].text
    press(browser, Keys.ESCAPE)
    assert not found(browser, "#words [aria-pressed='true']")
    assert browser.get_log("browser") == []


def test_greedy_continuation_is_that_of_the_model(browser, addresses, lm):
    opened(browser, addresses["http"])
    found(browser, "#text")[0].send_keys("word_1")
    wait(browser, lambda: found(browser, "#words button"))
    found(browser, "#continue")[0].click()
    wait(browser, lambda: len(text_of(browser).split()) > 1)
    wait(browser, lambda: found(browser, "#continue:enabled"))
    # The page first reads an end of a sentence.
    expected = lm.generate(
        np.append(0, lm.vocabulary.encode("word_1")),
        max_length=32,
        sampler="greedy",
        stop_token_ids=[],
        suppress_token_ids=[0, lm.vocabulary.unknown_id],
    )
    expected = lm.vocabulary.detokenize(expected[1:])
    assert text_of(browser) == expected

"""Tests trained back-off models: scores, files and errors."""

import math

import numpy as np
import pytest

from memlm_keras import ngrams
from memlm_keras.ngrams import KneserNey
from memlm_keras.ngrams import backoff

pytestmark = pytest.mark.filterwarnings("ignore:Counts of counts")


def trained(text, **arguments):
    return KneserNey(40, **arguments).fit(text, verbose=0)


@pytest.fixture
def text(random):
    return random.zipf(1.3, 4000) % 40


@pytest.mark.parametrize("order", [1, 2, 4])
@pytest.mark.parametrize("chunk_tokens", [1, 2, 7])
def test_chunks_make_no_difference(text, order, chunk_tokens, monkeypatch):
    for boundaries in (True, False):
        model = trained(text, order=order, sentence_boundaries=boundaries)
        scores = model.score(text[:99])
        with monkeypatch.context() as patch:
            patch.setattr(backoff, "_CHUNK_TOKENS", chunk_tokens)
            np.testing.assert_array_equal(model.score(text[:99]), scores)


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"discounts": 0.7, "sentence_boundaries": False},
        {"discounts": [0.3, 0.6, (0.7, 1.1, 1.5)], "minimum_counts": [1, 1, 2]},
    ],
)
def test_save_and_load(text, arguments, tmp_path):
    model = trained(text, order=np.int64(3), **arguments)
    model.save(tmp_path / "model.npz")
    loaded = ngrams.load(tmp_path / "model.npz")
    assert isinstance(loaded, KneserNey)
    assert loaded.get_config() == model.get_config()
    assert loaded.description == model.description
    np.testing.assert_array_equal(loaded.found_discounts, model.found_discounts)
    np.testing.assert_array_equal(loaded.score(text), model.score(text))
    size = loaded.vocabulary_size
    assert loaded.log_probabilities_at(text, 5, 5).shape == (0, size)


def test_perplexity_says_what_it_counted(text, capsys):
    model = trained(text, order=3, minimum_counts=[1, 1, 2])
    result = model.perplexity(text[:100])
    mean = model.score(text[:100]).mean()
    assert result.perplexity == pytest.approx(math.exp(-mean))
    assert result.predicted_tokens == result.total_tokens == 100
    assert (
        "interpolated modified Kneser-Ney of order 3, cut-offs 1-1-2, context "
        "cut at each <eos>"
    ) in result.protocol
    assert str(result) in capsys.readouterr().out


def test_texts_that_it_refuses(text, tmp_path):
    model = KneserNey(40, order=2)
    for use in (model.score, lambda _: model.save(tmp_path / "model.npz")):
        with pytest.raises(ValueError, match="trained before.*fit"):
            use(text)
    for tokens, message in [
        ([], "must have a token"),
        ([1, 40], "below the vocabulary size 40.*: 40"),
        ([1, -1], "at least 0.*: -1"),
        (np.zeros((2, 3), "int32"), r"a 1-D array.*\(2, 3\)"),
        ([0.5], "integers.*float64"),
    ]:
        with pytest.raises(ValueError, match=message):
            model.fit(tokens)
    model.fit(text, verbose=0)
    with pytest.raises(ValueError, match="`contexts`.*a 2-D array"):
        model.log_probabilities([1, 2])
    with pytest.raises(ValueError, match="must have a token"):
        model.perplexity([])


def test_files_that_it_refuses(text, tmp_path):
    with pytest.raises(FileNotFoundError):
        ngrams.load(tmp_path / "none.npz")
    (tmp_path / "text.npz").write_text("no model")
    np.savez(tmp_path / "other.npz", a=1)
    trained(text, order=2).save(tmp_path / "model.npz")
    whole = (tmp_path / "model.npz").read_bytes()
    (tmp_path / "half.npz").write_bytes(whole[: len(whole) // 2])
    for name in ("text.npz", "other.npz", "half.npz"):
        with pytest.raises(ValueError, match=f"{name} is damaged"):
            ngrams.load(tmp_path / name)

"""Tests that sherpa-onnx finds the best of all paths with this package's
language models."""

import types

import engine_runs
import numpy as np
import pytest
import sherpa_runs
from sherpa_runs import PIECES

pytestmark = [pytest.mark.backend("tensorflow"), pytest.mark.slow]

for package in ("onnx", "tf2onnx", "sherpa_onnx"):
    pytest.importorskip(package)

FAMILIES = (
    "daniluk2017/key_value_predict",
    "grave2017/ptb_cache_500",
    "merity2017/ptb_pointer_sentinel",
    "weissenborn2016/am_gru_language_model",
)
FRAMES = 6


@pytest.fixture(scope="module", params=FAMILIES)
def recogniser(request, tmp_path_factory):
    """Makes transducers that emit one of two tokens in a frame, a language
    model, and the scores of all paths from each."""
    folder = tmp_path_factory.mktemp("recogniser")
    lm = sherpa_runs.model(request.param, folder)
    random = np.random.default_rng(1)
    heard = np.arange(sherpa_runs.FIRST, len(PIECES))
    made = sherpa_runs.Transducer(
        random.choice(heard, (FRAMES, 2), replace=False), random
    )
    made.write(folder / "online", streaming=True)
    made.write(folder / "offline", streaming=False)
    tokens, ends = sherpa_runs.scores(lm, made.paths)
    return types.SimpleNamespace(
        folder=folder,
        paths=made.paths,
        heard=made.scores(),
        tokens=tokens,
        online=tokens.sum(axis=1),
        offline=tokens.sum(axis=1) + ends,
    )


@pytest.mark.parametrize("kind", ["online", "offline"])
def test_decoding(kind, recogniser):
    """Decodes with scales 0 and 1, and with scales just below and above the one
    at which another text becomes the best."""
    heard, model = recogniser.heard, getattr(recogniser, kind)
    first = heard.argmax()
    better = np.flatnonzero(model > model[first])
    gains = model[better] - model[first]
    at = (heard[first] - heard[better]) / gains
    place = at.argmin()
    scales = [0.0, *(at[place] + np.array([-1e-3, 1e-3]) / gains[place]), 1.0]
    expected = [(heard + scale * model).argmax() for scale in scales]
    assert expected[:3] == [first, first, better[place]]
    streaming = kind == "online"
    results, _ = sherpa_runs.decode(
        recogniser.folder,
        [
            sherpa_runs.request(
                recogniser.folder, kind, streaming, scale, len(heard)
            )
            for scale in scales
        ],
        engine_runs.measured,
    )
    for result, scale, path in zip(results, scales, expected):
        pieces = [PIECES[id] for id in recogniser.paths[path]]
        assert result["tokens"] == pieces
        if streaming:
            # With scale 0, the result has no scores from the language model.
            own = recogniser.tokens[path] if scale else np.zeros(FRAMES)
            np.testing.assert_allclose(result["scores"], own, atol=1e-3)

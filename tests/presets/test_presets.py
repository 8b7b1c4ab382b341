"""Tests the presets' sizes, and the settings that users can change."""

import json

import keras
import numpy as np
import pytest
from preset_families import families

from memlm_keras import EntailmentClassifier
from memlm_keras import LanguageModel
from memlm_keras import presets
from memlm_keras import registry
from memlm_keras.embeddings import Embedding


def test_a_preset_is_the_callers_own():
    name = "daniluk2017/attention"
    preset = presets.get(name)
    preset["model"]["recurrent"][0]["config"]["units"] = 1
    preset["model"]["memory"]["config"].clear()
    preset["data"]["batch_size"] = 1
    fresh = presets.get(name)
    LanguageModel.from_config({"vocabulary_size": 11, **fresh["model"]})
    assert fresh["model"]["recurrent"][0]["config"]["units"] == 296
    assert fresh["model"]["memory"]["config"]["window"] == 10
    assert fresh["data"]["batch_size"] == 64


@pytest.mark.parametrize(
    "name",
    [
        name
        for name in presets.names("LanguageModel")
        # One preset of each kind; others differ in sizes and training.
        if name in families() and not name.startswith("weissenborn2016/")
    ],
)
def test_another_initial_range(name):
    limit = 0.35
    sizes = {"units": 60, "embedding_dim": 60, "initial_range": limit}
    if name == "tran2016/memn":
        del sizes["embedding_dim"]
    model = LanguageModel.from_preset(name, vocabulary_size=41, **sizes)
    for weight in model.trainable_variables:
        drawn = np.abs(keras.ops.convert_to_numpy(weight))
        if name[:7] == "daniluk" and weight.path.endswith("lstm_cell/bias"):
            assert (np.split(drawn, 4)[1] == 1).all()
        if drawn.ndim > 1 and min(drawn.shape) > 1:
            assert 0.9 * limit < drawn.max() <= limit, weight.path
        else:
            assert drawn[drawn != 1].max(initial=0.0) <= limit, weight.path
    # A changed range does not change the paper's own preset.
    assert '"maxval": 0.35' not in json.dumps(presets.get(name))


@pytest.mark.parametrize("name", presets.names())
def test_scaled_presets_divide(name):
    _, row = registry.find(name)
    for scale in (0.01, 0.1, 0.5):
        units = row.resized(name, scale).units
        assert units % row.units_divisor == 0
        assert abs(units - scale * row.units) <= row.units_divisor
    # The preset has the sizes of the resized row.
    preset = presets.get(name, scale=scale)
    assert preset["units"] == units
    assert preset["units_divisor"] == row.units_divisor


@pytest.mark.parametrize(
    "name, sizes, expected",
    [
        ("daniluk2017/attention", {"window": 7}, (296, 300, 7)),
        ("tran2016/memn", {"units": 6}, (6, 6, 15)),
        ("tran2016/rm_tm_gated", {"units": 6, "window": 4}, (6, 128, 4)),
        ("press2016/large_wt_bd", {"units": 6}, (6, 6, None)),
        ("press2016/large_wt_bd", {"embedding_dim": 6}, (6, 6, None)),
        ("salton2017/ptb_combined", {"units": 6, "window": 7}, (6, 6, 7)),
        ("merity2017/wikitext2_pointer_sentinel", {"units": 6}, (6, 650, 100)),
        ("weissenborn2016/am_gru_shared", {"scale": 0.1}, (10, 300, None)),
        ("weissenborn2016/gru_autoencoder", {"scale": 0.05}, (6, 6, None)),
        (
            "weissenborn2016/gru_language_model",
            {"units": 6, "embedding_dim": 5},
            (6, 5, None),
        ),
    ],
)
def test_sizes(name, sizes, expected):
    preset = presets.get(name, **sizes)
    model = preset["model"]
    part = model.get("memory") or model.get("mixture") or {"config": {}}
    size = model["embedding_dim"] or preset["units"]
    window = part["config"].get("window")
    assert (preset["units"], size, window) == expected


WITHOUT_WINDOW = """
    daniluk2017/lstm daniluk2017/ngram_3 daniluk2017/fofe_hornn tran2016/lstm_1
    salton2017/ptb_lstm zaremba2014/small press2016/small_pr gal2016/large
    grave2017/ptb_cache_500 merity2017/ptb_zoneout_variational
    kong2019/vs_linear_512 weissenborn2016/lstm
""".split()
TIED = """
    tran2016/memn salton2017/ptb_combined press2016/small_wt
    kong2019/vs_linear_512
""".split()


@pytest.mark.parametrize(
    "name, sizes, message",
    [
        ("daniluk2017/lstm", {"hidden": 3}, "Received: hidden"),
        (
            *("daniluk2017/lstm", {"scale": 2, "units": 3, "embedding_dim": 4}),
            "`scale` contradicts `units` and `embedding_dim`",
        ),
        ("daniluk2017/lstm", {"scale": 0}, "`scale` must be above 0.*scale=0"),
        ("daniluk2017/lstm", {"initial_range": 0}, "initial_range=0"),
        ("daniluk2017/lstm", {"embedding_range": 0.1}, "embedding_range=0.1"),
        *(
            (name, {"window": 3}, "`window` contradicts.*window=3")
            for name in WITHOUT_WINDOW
        ),
        ("weissenborn2016/lstm", {"initial_range": 0.1}, "initial_range=0.1"),
        ("weissenborn2016/lstm", {"key": "unit"}, "`key` contr.*key=unit"),
        *(
            (name, {"units": 3, "embedding_dim": 4}, "tied emb.*=3, emb.*=4")
            for name in TIED
        ),
    ],
)
def test_wrong_sizes(name, sizes, message):
    with pytest.raises(ValueError, match=message):
        presets.get(name, **sizes)


@pytest.mark.parametrize(
    "name, arguments, message",
    [
        ("daniluk2017/key_value", {"recurrent": None}, "recurrent.*=None"),
        ("daniluk2017/key_value", {"memory": None}, "fixes memory.*=None"),
        ("kong2019/vs_linear_512", {"embedding": None}, "fixes embedding"),
        ("gal2016/medium", {"embedding": None}, "/medium' fixes embedding"),
        ("daniluk2017/key_value_predict", {"units": 100}, "by 3.*units=100"),
        ("weissenborn2016/lstm", {}, "Entailment.*class `LanguageModel`"),
        ("weissenborn2016/lstm", {"top": None}, "fixes top.*`EntailmentClass"),
    ],
)
def test_wrong_arguments(name, arguments, message):
    kind = EntailmentClassifier if "top" in arguments else LanguageModel
    with pytest.raises(ValueError, match=message):
        kind.from_preset(name, 11, **arguments)


def test_arguments_that_a_preset_leaves_open():
    embedding = Embedding(11, 6, word_dropout=0.25)
    sizes = {"scale": 0.02, "dropout": 0.3, "embedding": embedding}
    model = LanguageModel.from_preset("daniluk2017/key_value", 11, **sizes)
    assert (model.dropout, model.embedding.word_dropout) == (0.3, 0.25)

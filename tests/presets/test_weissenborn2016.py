import keras
import numpy as np
import pytest

from memlm_keras import EntailmentClassifier
from memlm_keras import LanguageModel
from memlm_keras import SequenceAutoencoder
from memlm_keras import models
from memlm_keras import presets
from memlm_keras.cells import AssociativeGRUCell

# Without embeddings; the paper prints 321k, 329k, 321k, 5.6m, 252k thrice, and
# 3.4m.
COUNTS = {
    "gru_shared": 321_177,
    "am_gru_shared": 329_079,
    "dual_am_gru_shared": 321_103,
    "dual_am_gru_shared_large": 5_605_503,
    "lstm": 251_491,
    "lstm_shared": 251_223,
    "lstm_attention": 251_303,
    "lstm_network": 3_379_953,
}
every_row = pytest.mark.parametrize("row", COUNTS)


@every_row
def test_parameters(row, not_drawn):
    model = EntailmentClassifier.from_preset(f"weissenborn2016/{row}", 7)
    assert model.count_params() - 7 * 300 == COUNTS[row]
    units = presets.get(f"weissenborn2016/{row}")["units"]
    if row == "lstm_network":
        assert model.pooling == "mean" and model.recurrent.cell.fusion
    elif "lstm" in row:
        assert model.top is None and model.projection == units
    else:
        assert model.classifier_units == (units, units)
    shared = model.recurrent_hypothesis is None
    assert shared == row.endswith(("shared", "shared_large", "network"))
    if "am_gru" in row:
        assert model.recurrent.cell.num_copies == 8
    reads_source = "dual" in row or row == "lstm_network"
    assert model.conditioning == ("source" if reads_source else "memory")


def test_all_rows():
    names = presets.names("EntailmentClassifier")
    assert names == [f"weissenborn2016/{row}" for row in COUNTS]
    others = presets.names("SequenceAutoencoder")
    assert others == [
        "weissenborn2016/gru_autoencoder",
        "weissenborn2016/dual_am_gru_autoencoder",
    ]
    assert not {*names, *others} & set(presets.names("LanguageModel"))
    assert set(names) < set(presets.names())


@every_row
def test_training_of_the_paper(row):
    preset = presets.get(f"weissenborn2016/{row}")
    assert preset["kind"] == "EntailmentClassifier"
    assert preset["data"]["batch_size"] == 50
    optimizer = keras.optimizers.deserialize(preset["optimizer"])
    assert (optimizer.beta_1, optimizer.beta_2) == (0.0, 0.999)
    large = row.endswith("large")
    assert float(optimizer.learning_rate) == pytest.approx(
        1e-4 if large else 1e-3
    )
    assert preset["model"]["dropout"] == (0.2 if large else 0.1)
    assert preset["schedule"]["batches_between_checks"] == 1000


@pytest.mark.parametrize(
    "name",
    [n for n in presets.names() if n.startswith("weissenborn2016/")],
)
def test_embeddings_begin_with_the_size_of_gloves(name):
    """In all rows of the paper, so that what is compared begins alike."""
    preset = presets.get(name, scale=0.05)
    model = getattr(models, preset["kind"]).from_preset(name, 50, scale=0.05)
    drawn = np.abs(keras.ops.convert_to_numpy(model.embedding.embeddings))
    assert 0.45 < drawn.max() <= 0.5
    associative = "am_" in name
    assert ("'key': 'bound'" in str(presets.get(name))) == associative


def test_another_key_and_range():
    name = "weissenborn2016/dual_am_gru_shared"
    model = EntailmentClassifier.from_preset(
        name, 50, scale=0.1, key="unit", embedding_range=0.1
    )
    assert model.recurrent.cell.key == "unit"
    drawn = np.abs(keras.ops.convert_to_numpy(model.embedding.embeddings))
    assert 0.09 < drawn.max() <= 0.1
    assert "'key': 'unit'" not in str(presets.get(name))


def test_models_of_ones_own_begin_as_their_cells_need():
    def largest(model):
        return np.abs(keras.ops.convert_to_numpy(model.embedding.embeddings))

    for cell, limit in ((AssociativeGRUCell, 0.5), (keras.layers.GRU, 0.05)):
        for model in (
            EntailmentClassifier(50, 8, cell(4)),
            LanguageModel(50, 8, [cell(4)]),
            SequenceAutoencoder(50, 8, cell(4), cell(4), "memory"),
        ):
            assert 0.9 * limit < largest(model).max() <= limit
    said = EntailmentClassifier(
        50, 8, AssociativeGRUCell(4), embeddings_initializer="ones"
    )
    assert (largest(said) == 1).all()
    copy = EntailmentClassifier.from_config(said.get_config())
    assert (largest(copy) == 1).all()


def test_sizes():
    sizes = {"scale": 0.1, "embedding_dim": 7}
    preset = presets.get("weissenborn2016/am_gru_shared", **sizes)
    assert preset["units"] == 10
    model = EntailmentClassifier.from_preset(
        "weissenborn2016/am_gru_shared", 11, **sizes, dropout=0.5
    )
    assert model.embedding_dim == 7 and model.dropout == 0.5
    assert model.top.units == 10


@pytest.mark.parametrize(
    "make, message",
    [
        (
            lambda: LanguageModel.from_preset("weissenborn2016/lstm", 11),
            "is of a `memlm_keras.EntailmentClassifier`.*a `LanguageModel`",
        ),
        (
            lambda: EntailmentClassifier.from_preset("daniluk2017/lstm", 11),
            "is of a `memlm_keras.LanguageModel`",
        ),
        (
            lambda: EntailmentClassifier.from_preset(
                "weissenborn2016/lstm", 11, top=None
            ),
            "fixes top.*`EntailmentClassifier`",
        ),
        (
            lambda: presets.get("weissenborn2016/lstm", window=3),
            "`window` contradicts",
        ),
        (
            lambda: presets.get("weissenborn2016/lstm", initial_range=0.1),
            "`initial_range` contradicts.*initial_range=0.1",
        ),
        (
            lambda: presets.get("weissenborn2016/lstm", key="unit"),
            "`key` contradicts.*key=unit",
        ),
        (
            lambda: presets.get("daniluk2017/lstm", embedding_range=0.1),
            "`embedding_range` contradicts.*embedding_range=0.1",
        ),
    ],
)
def test_wrong_presets(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize("row", ["gru", "am_gru", "am_lstm"])
def test_language_models_with_an_associative_memory(row):
    """Streamed token by token, as any recurrent layer."""
    preset = f"weissenborn2016/{row}_language_model"
    lm = LanguageModel.from_preset(preset, 11, units=6, embedding_dim=5)
    tokens = np.arange(8)[None] % 11
    whole = keras.ops.convert_to_numpy(lm(tokens))
    state = lm.initial_state(1)
    for step in range(8):
        logits, state = lm.step(tokens[:, step : step + 1], state)
        np.testing.assert_allclose(
            keras.ops.convert_to_numpy(logits)[0, 0],
            whole[0, step],
            rtol=1e-4,
            atol=1e-5,
        )
    assert presets.get(preset, scale=0.05)["units"] == 10


@pytest.mark.parametrize("row", ["gru", "dual_am_gru"])
def test_autoencoders(row):
    preset = f"weissenborn2016/{row}_autoencoder"
    model = SequenceAutoencoder.from_preset(preset, 11, scale=0.05)
    assert model.embedding_dim == presets.get(preset, scale=0.05)["units"] == 6
    encoder, decoder = model.readers
    assert encoder is not decoder
    assert model.conditioning == ("source" if "dual" in row else "memory")

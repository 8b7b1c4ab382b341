import keras
import pytest

from memlm_keras import LanguageModel
from memlm_keras import presets
from memlm_keras.training import SentenceCrossEntropy

V = 10_000
D = 128
N = 15


def lstms(layers, d=D):
    """Four gates of each layer: W_x and W_h, both (d, d), and a bias."""
    return layers * 4 * (2 * d * d + d)


def memory_block(temporal, gated, d=D, rows=N, vocabulary_size=V):
    """M and C (V, d), T (n, d), and six matrices of the gate (d, d)."""
    return 2 * vocabulary_size * d + temporal * rows * d + gated * 6 * d * d


SOFTMAX = V * D + V
EMBEDDING = V * D
TABLE = {
    "memn": 3 * V * D + 2 * N * D + D * D,
    **{f"lstm_{n}": EMBEDDING + lstms(n) + SOFTMAX for n in (1, 2, 3)},
    **{
        f"{model}_{'tm' if temporal else 'notm'}_"
        f"{'gated' if gated else 'linear'}": EMBEDDING
        + lstms(layers)
        + memory_block(temporal, gated)
        + SOFTMAX
        for model, layers in (("rm", 1), ("rmr", 2))
        for temporal in (True, False)
        for gated in (True, False)
    },
}
every_row = pytest.mark.parametrize("row", TABLE)

# Units, words on each side, sides, published accuracy (Table 4).
COMPLETION = {
    "completion_lstm_256": (256, 0, 0, 0.560),
    "completion_rm_256": (256, 15, 1, 0.643),
    "completion_rm_512": (512, 15, 1, 0.692),
    "completion_birm_256": (256, 7, 2, 0.596),
    "completion_birm_512": (512, 10, 2, 0.670),
}
every_completion_row = pytest.mark.parametrize("row", COMPLETION)


def test_names():
    names = [name for name in presets.names() if "tran2016/" in name]
    assert set(names) == {f"tran2016/{row}" for row in (*TABLE, *COMPLETION)}


@every_completion_row
def test_parameters_of_the_models_that_complete_sentences(row, not_drawn):
    d, words, sides, _ = COMPLETION[row]
    size = 100
    model = LanguageModel.from_preset(f"tran2016/{row}", size)
    # Embedding and projection (V, d), and the bias of the latter.
    expected = 2 * size * d + size + lstms(3, d)
    if words:
        expected += memory_block(True, True, d, sides * words, size)
    assert model.count_params() == expected


@every_completion_row
def test_models_that_complete_sentences(row):
    d, words, sides, accuracy = COMPLETION[row]
    preset = presets.get(f"tran2016/{row}")
    assert preset["units"] == preset["model"]["embedding_dim"] == d
    assert preset["published"]["completion_accuracy"] == accuracy
    model = LanguageModel.from_preset(f"tran2016/{row}", 11, scale=0.05)
    assert (len(model.recurrent), len(model.recurrent_above)) == (3, 0)
    # "After each LSTM layer", and so not on the embeddings.
    rates = [layer.rate for layer in model.backbone.dropouts]
    assert rates == [0.0, 0.3, 0.3, 0.3]
    if words:
        assert model.memory.window == words
        assert (model.memory.temporal, model.memory.composition) == (
            *(True, "gated"),
        )
    assert model.causal == (sides < 2)


@every_row
def test_parameters_follow_from_the_equations(row, not_drawn):
    model = LanguageModel.from_preset(f"tran2016/{row}", V)
    assert model.count_params() == TABLE[row]


@every_row
def test_where_the_memory_stands(row):
    model = LanguageModel.from_preset(f"tran2016/{row}", 11, scale=0.05)
    layers = {"memn": (0, 0), "rm": (1, 0), "rmr": (1, 1)}
    layers |= {f"lstm_{n}": (n, 0) for n in (1, 2, 3)}
    expected = layers.get(row) or layers[row.split("_")[0]]
    assert (len(model.recurrent), len(model.recurrent_above)) == expected
    if row.startswith("rm"):
        assert model.memory.temporal == ("_tm_" in row)
        assert row.endswith(model.memory.composition)
        assert model.memory.window == N


@pytest.mark.parametrize("row", [*TABLE, *COMPLETION])
def test_training_of_the_paper(row):
    preset = presets.get(f"tran2016/{row}")
    assert preset["data"] == {"batch_size": 20, "sentences": True}
    assert preset["schedule"]["epochs"] == 15
    assert preset["schedule"]["halve_after"] == 4
    optimizer = keras.optimizers.deserialize(preset["optimizer"])
    assert isinstance(optimizer, keras.optimizers.SGD)
    assert float(optimizer.learning_rate) == 1.0
    assert optimizer.global_clipnorm == 5.0
    loss = keras.losses.deserialize(preset["loss"])
    assert isinstance(loss, SentenceCrossEntropy)


def test_published_perplexities():
    def published(row, corpus):
        found = presets.get(f"tran2016/{row}")["published"]
        return found[f"{corpus}_test_perplexity"]

    english = {row: published(row, "english") for row in TABLE}
    assert english == {
        "memn": 188.2,
        "lstm_1": 145.1,
        "lstm_2": 139.7,
        "lstm_3": 136.6,
        "rmr_tm_linear": 133.3,
        "rmr_notm_linear": 134.5,
        "rmr_tm_gated": 135.2,
        "rmr_notm_gated": 131.2,
        "rm_tm_linear": 127.2,
        "rm_notm_linear": 130.4,
        "rm_tm_gated": 128.8,
        "rm_notm_gated": 135.7,
    }
    assert published("rm_tm_gated", "german") == 118.6
    assert published("rm_tm_gated", "italian") == 88.9
    assert published("rm_tm_gated", "penn_treebank") == 123.5
    assert published("lstm_3", "penn_treebank") == 126.1


def test_sizes():
    preset = presets.get("tran2016/rm_tm_gated", units=6, window=4)
    assert preset["model"]["embedding_dim"] == D
    assert preset["model"]["memory"]["config"]["window"] == 4
    model = LanguageModel.from_preset("tran2016/memn", 11, units=6)
    assert model.embedding_dim == 6
    for name, sizes, message in [
        ("lstm_1", {"window": 3}, "`window` contradicts"),
        ("lstm_1", {"scale": -1}, "`scale` must be positive"),
        (
            "memn",
            {"units": 3, "embedding_dim": 4},
            "`units` and `embedding_dim` are one",
        ),
    ]:
        with pytest.raises(ValueError, match=message):
            presets.get(f"tran2016/{name}", **sizes)

import keras
import numpy as np
import pytest

from memlm_keras import LanguageModel
from memlm_keras import data
from memlm_keras import presets
from memlm_keras.evaluation import perplexity
from memlm_keras.training import SentenceCrossEntropy


def parameters(vocabulary_size, k, combined):
    """E (V, k) and its bias, two LSTM layers, W_s, W_q, v_s, W_c and b_t."""
    softmax = vocabulary_size * k + vocabulary_size
    lstms = 2 * 4 * (2 * k * k + k)
    memory = (1 + combined) * k * k + k + 2 * k * k + k
    return softmax + lstms + memory


# By hand, and as a number. The paper prints 14.5M, and 50M for WikiText-2,
# which its equations do not give.
COUNTS = {
    "ptb_single": (10_000, 650, 14_544_000),
    "ptb_combined": (10_000, 650, 14_966_500),
    "wikitext2_single": (33_278, 1000, 52_321_278),
    "wikitext2_combined": (33_278, 1000, 53_321_278),
}
every_row = pytest.mark.parametrize("row", COUNTS)


@every_row
def test_parameters(row, not_drawn):
    vocabulary_size, k, expected = COUNTS[row]
    model = LanguageModel.from_preset(f"salton2017/{row}", vocabulary_size)
    by_hand = parameters(vocabulary_size, k, "combined" in row)
    assert model.count_params() == by_hand == expected


@pytest.mark.parametrize("corpus", ["ptb", "wikitext2"])
def test_the_row_without_a_memory(corpus, not_drawn):
    """But for the memory it is the single row, in model and training."""
    lstm = presets.get(f"salton2017/{corpus}_lstm")
    single = presets.get(f"salton2017/{corpus}_single")
    assert lstm["model"].pop("memory") is None
    del single["model"]["memory"]
    for preset in (lstm, single):
        del preset["name"], preset["published"]
    assert lstm == single
    model = LanguageModel.from_preset(f"salton2017/{corpus}_lstm", 31)
    k = model.embedding_dim
    memory = k * k + k + 2 * k * k + k
    assert model.count_params() == parameters(31, k, False) - memory
    with pytest.raises(ValueError, match="`window` contradicts"):
        presets.get(f"salton2017/{corpus}_lstm", window=3)


@every_row
def test_the_model_of_the_paper(row):
    limit = 0.05
    model = LanguageModel.from_preset(f"salton2017/{row}", 31, scale=0.1)
    assert model.tie_embeddings
    assert row.endswith(model.memory.score)
    assert model.memory.window == (100 if "ptb" in row else 250)
    assert model.dropout == (0.5 if "ptb" in row else 0.65)
    assert len(model.recurrent) == 2
    for weight in model.trainable_variables:
        values = keras.ops.convert_to_numpy(weight)
        if weight.name == "bias":
            np.testing.assert_array_equal(values, 0.0, err_msg=weight.path)
        else:
            assert 0.8 * limit < np.abs(values).max() <= limit, weight.path


@every_row
def test_training_of_the_paper(row):
    preset = presets.get(f"salton2017/{row}")
    assert preset["data"] == {
        "batch_size": 32,
        "sentences": True,
        "longest": 35,
        "equal_lengths": False,
    }
    schedule = preset["schedule"]
    found = schedule["halve_after"], schedule["factor"], schedule["patience"]
    assert found == ((12, 0.5, 10) if "ptb" in row else (14, 1 / 1.15, 10))
    optimizer = keras.optimizers.deserialize(preset["optimizer"])
    assert isinstance(optimizer, keras.optimizers.SGD)
    assert float(optimizer.learning_rate) == 1.0
    assert optimizer.global_clipnorm == 5.0
    loss = keras.losses.deserialize(preset["loss"])
    assert isinstance(loss, SentenceCrossEntropy)


def test_published_perplexities():
    published = {
        row: tuple(
            presets.get(f"salton2017/{row}")["published"][f"{split}_perplexity"]
            for split in ("validation", "test")
        )
        for row in COUNTS
    }
    assert published == {
        "ptb_single": (71.7, 70.1),
        "ptb_combined": (72.6, 70.7),
        "wikitext2_single": (73.7, 69.7),
        "wikitext2_combined": (74.3, 70.8),
    }


def test_sizes():
    name = "salton2017/ptb_combined"
    for sizes in ({"units": 6}, {"embedding_dim": 6}):
        model = LanguageModel.from_preset(name, 11, window=7, **sizes)
        assert model.embedding_dim == model.memory.units == 6
        assert model.memory.window == 7
    with pytest.raises(ValueError, match="tied embeddings.*units=3, emb.*=4"):
        presets.get(name, units=3, embedding_dim=4)
    budget = parameters(100, 23, combined=True)
    assert presets.match_parameters(budget, name, 100) == 23


@pytest.mark.parametrize("row", ["ptb_single", "ptb_combined"])
def test_training_and_evaluation_sentence_by_sentence(row):
    """Cut and padded in training, whole in evaluation, in segments."""
    random = np.random.default_rng(0)
    sentences = [[*range(1, random.integers(1, 8)), 0] for _ in range(15)] + [
        [*range(1, 10), 0]
    ]
    split = data.Split(np.concatenate(sentences).astype("int32"))
    words = [chr(97 + index) for index in range(8)]
    corpus = data.Corpus("tiny", data.Vocabulary(words), split, split, split)
    preset = presets.get(f"salton2017/{row}", units=16)
    model = LanguageModel.from_preset(
        preset["name"], 10, units=16, window=10, dropout=0.0
    )
    model.compile(
        keras.optimizers.deserialize(preset["optimizer"]),
        keras.losses.deserialize(preset["loss"]),
    )
    train = corpus.sentence_batches(
        "train", 4, shuffle=True, longest=5, equal_lengths=False
    )
    evaluation = corpus.batches("test", 3, 4, sentences=True)
    before = perplexity(model, evaluation, verbose=0)
    model.fit(train, validation_data=evaluation, epochs=3, verbose=0)
    result = perplexity(model, evaluation, verbose=0, also=("salton2017",))
    assert result.perplexity < 0.97 * before.perplexity
    scores = [model.score(np.array([[0, *s]])).sum() for s in sentences]
    assert result.loss == pytest.approx(-sum(scores), rel=1e-4)
    assert result.predicted_tokens == len(split)
    others = result.others["salton2017"]
    assert others.predicted_tokens == len(split) - len(sentences)

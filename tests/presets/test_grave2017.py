import keras
import numpy as np
import pytest

from memlm_keras import LanguageModel
from memlm_keras import data
from memlm_keras import presets
from memlm_keras.evaluation import choose_cache
from memlm_keras.evaluation import perplexity
from memlm_keras.mixtures import NeuralCache

# Corpus, its vocabulary, cache size, published test perplexity.
TABLE = {
    "ptb_lstm": ("Penn Treebank", 10_000, None, 82.3),
    "ptb_cache_500": ("Penn Treebank", 10_000, 500, 72.1),
    "wikitext2_lstm": ("WikiText-2", 33_278, None, 99.3),
    "wikitext2_cache_100": ("WikiText-2", 33_278, 100, 81.6),
    "wikitext2_cache_2000": ("WikiText-2", 33_278, 2000, 68.9),
}
every_row = pytest.mark.parametrize("row", TABLE)


@every_row
def test_the_model_of_the_paper(row):
    preset = presets.get(f"grave2017/{row}")
    corpus, _, size, test = TABLE[row]
    assert (preset["cache"] or {"size": None})["size"] == size
    assert preset["published"] == {
        "corpus": corpus,
        "validation_perplexity": None,
        "test_perplexity": test,
    }
    model = LanguageModel.from_preset(f"grave2017/{row}", 31, scale=0.05)
    if size is None:
        assert model.mixture is None
    else:
        assert isinstance(model.mixture, NeuralCache)
        assert model.mixture.size == size
    assert [layer.units for layer in model.recurrent] == [51]
    assert model.dropout == 0.65
    for weight in model.trainable_variables:
        values = keras.ops.convert_to_numpy(weight)
        assert 0.025 < np.abs(values).max() <= 0.05, weight.path


@pytest.mark.parametrize("row", ["ptb_lstm", "wikitext2_cache_100"])
def test_parameters(row, not_drawn):
    """Embeddings, four gates, softmax; a cache has none."""
    vocabulary_size, h = TABLE[row][1], 1024
    model = LanguageModel.from_preset(f"grave2017/{row}", vocabulary_size)
    by_hand = 2 * vocabulary_size * h + vocabulary_size + 4 * (2 * h * h + h)
    assert model.count_params() == by_hand


@every_row
def test_training_of_the_paper(row):
    preset = presets.get(f"grave2017/{row}")
    assert preset["data"] == {"batch_size": 20, "segment_length": 30}
    # The loss of `compile` by itself, the mean over tokens.
    assert "loss" not in preset
    optimizer = keras.optimizers.deserialize(preset["optimizer"])
    assert isinstance(optimizer, keras.optimizers.Adagrad)
    assert float(optimizer.learning_rate) == pytest.approx(0.2)
    assert optimizer.global_clipnorm == 0.1
    assert optimizer.initial_accumulator_value == 0.0


def test_a_cache_is_chosen_for_the_trained_model():
    """A text that repeats itself is predicted better with a cache."""
    random = np.random.default_rng(0)
    words = random.integers(1, 30, size=12)
    tokens = np.tile(words, 12).astype("int32")
    split = data.Split(tokens)
    vocabulary = data.Vocabulary([f"word_{index}" for index in range(28)])
    corpus = data.Corpus("tiny", vocabulary, split, split, split)
    preset = presets.get("grave2017/ptb_cache_500", units=8)
    model = LanguageModel.from_preset("grave2017/ptb_lstm", 30, units=8)
    model.compile(keras.optimizers.deserialize(preset["optimizer"]))
    model.fit(corpus.batches("train", 2, 30), epochs=2, verbose=0)
    batches = corpus.batches("test", 1, 30)
    choice = choose_cache(model, batches, **preset["cache"], verbose=0)
    assert choice.cache.size == 500
    cached = model.with_mixture(choice.cache)
    result = perplexity(cached, batches, verbose=0)
    assert result.perplexity == pytest.approx(
        choice.perplexities.min(), rel=1e-4
    )
    assert result.perplexity < perplexity(model, batches, verbose=0).perplexity


def test_a_cache_from_the_preset_alone():
    """The text is remembered, without a word to `choose_cache`."""
    sizes = {"vocabulary_size": 30, "units": 8}
    cached = LanguageModel.from_preset("grave2017/ptb_cache_500", **sizes)
    plain = cached.with_mixture(None)
    tokens = np.tile(np.arange(1, 9), 4)[None]
    assert cached.score(tokens)[0, -8:].sum() > (
        plain.score(tokens)[0, -8:].sum() + 1
    )
    assert cached.count_params() == plain.count_params()


def test_a_window_contradicts():
    with pytest.raises(ValueError, match="`window` contradicts.*window=3"):
        presets.get("grave2017/ptb_cache_500", window=3)

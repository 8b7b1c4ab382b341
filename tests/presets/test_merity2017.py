import keras
import numpy as np
import pytest

from memlm_keras import LanguageModel
from memlm_keras import presets
from memlm_keras.training import SentenceCrossEntropy


def parameters(vocabulary_size, h):
    """Embeddings, two layers of four gates, softmax; W (h, h), b and s."""
    medium = 2 * vocabulary_size * h + vocabulary_size + 8 * (2 * h * h + h)
    return medium + h * h + 2 * h


# By hand, and as a number.
COUNTS = {
    "ptb_pointer_sentinel": (10_000, 20_199_000),
    "wikitext2_pointer_sentinel": (33_278, 50_483_678),
}
every_row = pytest.mark.parametrize("row", COUNTS)


@every_row
def test_parameters(row, monkeypatch):
    # Weights are zero: drawing them takes seconds a model.
    zeros = presets.serialized.from_keras("initializers", "Zeros", {})
    monkeypatch.setattr(presets.merity2017, "uniform", lambda limit: zeros)
    vocabulary_size, expected = COUNTS[row]
    model = LanguageModel.from_preset(f"merity2017/{row}", vocabulary_size)
    assert model.count_params() == parameters(vocabulary_size, 650) == expected


@every_row
def test_the_model_of_the_paper(row):
    model = LanguageModel.from_preset(f"merity2017/{row}", 31, scale=0.1)
    assert [layer.units for layer in model.recurrent] == [65, 65]
    assert not model.tie_embeddings
    assert model.dropout == 0.5
    assert model.mixture.window == 100
    for weight in model.trainable_variables:
        values = keras.ops.convert_to_numpy(weight)
        assert 0.025 < np.abs(values).max() <= 0.05, weight.path
    other = LanguageModel.from_preset(
        f"merity2017/{row}", 31, units=6, embedding_dim=4, window=7
    )
    assert (other.mixture.window, other.embedding_dim) == (7, 4)
    assert [layer.units for layer in other.recurrent] == [6, 6]


@every_row
def test_training_of_the_paper(row):
    preset = presets.get(f"merity2017/{row}")
    assert preset["data"] == {"batch_size": 32, "segment_length": 100}
    optimizer = keras.optimizers.deserialize(preset["optimizer"])
    assert isinstance(optimizer, keras.optimizers.SGD)
    assert float(optimizer.learning_rate) == 1.0
    assert optimizer.global_clipnorm == 1.0
    loss = keras.losses.deserialize(preset["loss"])
    assert isinstance(loss, SentenceCrossEntropy)
    halving = keras.callbacks.ReduceLROnPlateau(
        **preset["schedule"]["reduce_on_plateau"]
    )
    assert (halving.factor, halving.patience) == (0.5, 0)


def test_published_perplexities():
    published = {
        row: presets.get(f"merity2017/{row}")["published"] for row in COUNTS
    }
    assert published == {
        "ptb_pointer_sentinel": {
            "corpus": "Penn Treebank",
            "validation_perplexity": 72.4,
            "test_perplexity": 70.9,
        },
        "wikitext2_pointer_sentinel": {
            "corpus": "WikiText-2",
            "validation_perplexity": 84.8,
            "test_perplexity": 80.8,
        },
    }

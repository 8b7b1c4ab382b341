"""One small model for each kind of model among the presets."""

import functools

import keras
import numpy as np

import memlm_keras as memlm
from memlm_keras import registry
from memlm_keras.smoothing import StreamStatistics

V = 80
MODELS = ("LanguageModel", "EntailmentClassifier", "SequenceAutoencoder")
# Arguments for layers, which distinguish kinds of models. Sizes do not.
_PARTS = """
    embedding recurrent recurrent_hypothesis memory recurrent_above top encoder
    decoder head mixture
""".split()
# Classes that do not distinguish kinds: in every model, or only in training.
_PLAIN = ("Embedding", "OutputProjection")
_DRAWN = ("keras.initializers", "keras.regularizers")


@functools.cache
def families():
    """Returns a dict from the first preset of a kind to all presets of the
    kind."""
    found = {}
    for model in MODELS:
        for name in registry.names(model):
            config = registry.get(name)["model"]
            classes = _classes([config.get(part) for part in _PARTS])
            found.setdefault((model, frozenset(classes)), []).append(name)
    return {names[0]: names for names in found.values()}


def vocabulary():
    """Returns the vocabulary of the small models."""
    return memlm.data.Vocabulary([f"word_{id}" for id in range(V - 2)])


def small(name, scale=0.1, words=None):
    """Returns a small model of a preset, whose weights distinguish words.

    By default, the model has a matrix of more than 1,024 numbers, since LiteRT
    leaves smaller ones in float32, and the words of `vocabulary`.
    """
    words = words or vocabulary()
    keras.utils.set_random_seed(11)
    kind = getattr(memlm, registry.get(name)["kind"])
    model = kind.from_preset(name, vocabulary=words, scale=scale)
    for weight in model.trainable_weights:
        limit = 0.7 if len(weight.shape) < 2 else 2 / weight.shape[0] ** 0.5
        weight.assign(keras.random.uniform(weight.shape, -limit, limit))
    if getattr(model, "smoothing", None) is not None:
        tokens = [*range(V), 2, 2, 3, 5, 3, 2, 0]
        model.smoothing.adapt(StreamStatistics.count(tokens, V))
    return model


def inputs_of(model):
    """Returns inputs for a model; kept files have the outputs for them."""
    tokens = np.arange(3 * 2 * 5, dtype="int32").reshape(3, 2, 5) % 23
    lengths = np.array([5, 3], "int32")
    if isinstance(model, memlm.EntailmentClassifier):
        return {
            "premise": tokens[0],
            "premise_length": lengths,
            "hypothesis": tokens[1],
            "hypothesis_length": lengths[::-1].copy(),
        }
    if isinstance(model, memlm.SequenceAutoencoder):
        return {
            "source": tokens[0],
            "source_length": lengths,
            "target": tokens[2],
        }
    return tokens[0]


def _classes(config):
    if isinstance(config, list):
        for part in config:
            yield from _classes(part)
    if isinstance(config, dict):
        name = config.get("class_name")
        module = str(config.get("module"))
        if name not in (None, *_PLAIN) and module not in _DRAWN:
            yield name
        yield from _classes(list(config.values()))

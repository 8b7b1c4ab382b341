"""One small model for each kind that the presets of language models are of."""

import keras

from memlm_keras import LanguageModel
from memlm_keras import registry
from memlm_keras.smoothing import StreamStatistics

V = 17
# What makes models of two presets different, beside their sizes.
_PARTS = (
    "embedding",
    "recurrent",
    "memory",
    "recurrent_above",
    "head",
    "mixture",
)
# What is there anyway, and what matters while training alone.
_PLAIN = ("Embedding", "OutputProjection")
_DRAWN = ("keras.initializers", "keras.regularizers")


def families():
    """Dict from the first preset of each kind of model to all of its kind."""
    found = {}
    for name in registry.names("LanguageModel"):
        config = registry.get(name)["model"]
        kind = frozenset(_classes([config.get(part) for part in _PARTS]))
        found.setdefault(kind, []).append(name)
    return {names[0]: names for names in found.values()}


def small(name):
    """A small model of a preset, with weights that tell words apart."""
    keras.utils.set_random_seed(11)
    lm = LanguageModel.from_preset(name, V, scale=0.02)
    for weight in lm.trainable_weights:
        weight.assign(keras.random.uniform(weight.shape, -0.7, 0.7))
    if lm.smoothing is not None:
        tokens = [*range(V), 2, 2, 3, 5, 3, 2, 0]
        lm.smoothing.adapt(StreamStatistics.count(tokens, V))
    return lm


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

"""Perplexity, cloze accuracy and related measures."""

from memlm_keras.evaluation.cloze import ClozeAccuracy
from memlm_keras.evaluation.cloze import cloze_accuracy
from memlm_keras.evaluation.cloze import cloze_scores
from memlm_keras.evaluation.dynamic import DynamicChoice
from memlm_keras.evaluation.dynamic import DynamicEvaluator
from memlm_keras.evaluation.dynamic import choose_dynamic
from memlm_keras.evaluation.dynamic import mean_squared_gradients
from memlm_keras.evaluation.monte_carlo import monte_carlo_perplexity
from memlm_keras.evaluation.monte_carlo import sampled_perplexity
from memlm_keras.evaluation.neural_cache import CacheChoice
from memlm_keras.evaluation.neural_cache import choose_cache
from memlm_keras.evaluation.perplexity import Perplexity
from memlm_keras.evaluation.perplexity import perplexity
from memlm_keras.evaluation.perplexity import sentence_losses
from memlm_keras.evaluation.reconstruction import Reconstruction
from memlm_keras.evaluation.reconstruction import reconstruction
from memlm_keras.evaluation.text_bits import TextBits
from memlm_keras.evaluation.text_bits import text_bits
from memlm_keras.models.surprisal import Surprisal
from memlm_keras.models.surprisal import surprisal

__all__ = [
    "CacheChoice",
    "ClozeAccuracy",
    "DynamicChoice",
    "DynamicEvaluator",
    "Perplexity",
    "Reconstruction",
    "Surprisal",
    "TextBits",
    "choose_cache",
    "choose_dynamic",
    "cloze_accuracy",
    "cloze_scores",
    "mean_squared_gradients",
    "monte_carlo_perplexity",
    "perplexity",
    "reconstruction",
    "sampled_perplexity",
    "sentence_losses",
    "surprisal",
    "text_bits",
]

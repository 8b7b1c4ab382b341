"""Evaluation: numbers that mean one thing."""

from memlm_keras.evaluation.cloze import ClozeAccuracy
from memlm_keras.evaluation.cloze import cloze_accuracy
from memlm_keras.evaluation.cloze import cloze_scores
from memlm_keras.evaluation.monte_carlo import monte_carlo_perplexity
from memlm_keras.evaluation.monte_carlo import sampled_perplexity
from memlm_keras.evaluation.neural_cache import CacheChoice
from memlm_keras.evaluation.neural_cache import choose_cache
from memlm_keras.evaluation.perplexity import Perplexity
from memlm_keras.evaluation.perplexity import perplexity
from memlm_keras.evaluation.reconstruction import Reconstruction
from memlm_keras.evaluation.reconstruction import reconstruction
from memlm_keras.evaluation.sentences import sentence_losses

__all__ = [
    "CacheChoice",
    "ClozeAccuracy",
    "Perplexity",
    "Reconstruction",
    "choose_cache",
    "cloze_accuracy",
    "cloze_scores",
    "monte_carlo_perplexity",
    "perplexity",
    "reconstruction",
    "sampled_perplexity",
    "sentence_losses",
]

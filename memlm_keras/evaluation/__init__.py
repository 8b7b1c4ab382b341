"""Evaluation: numbers that mean one thing."""

from memlm_keras.evaluation.certify import Certificate
from memlm_keras.evaluation.certify import Check
from memlm_keras.evaluation.certify import certify
from memlm_keras.evaluation.cloze import ClozeAccuracy
from memlm_keras.evaluation.cloze import cloze_accuracy
from memlm_keras.evaluation.cloze import cloze_scores
from memlm_keras.evaluation.dynamic import DynamicChoice
from memlm_keras.evaluation.dynamic import DynamicEvaluator
from memlm_keras.evaluation.dynamic import choose_dynamic
from memlm_keras.evaluation.dynamic import mean_squared_gradients
from memlm_keras.evaluation.minimal_pairs import MinimalPairs
from memlm_keras.evaluation.minimal_pairs import PairAccuracy
from memlm_keras.evaluation.minimal_pairs import minimal_pairs
from memlm_keras.evaluation.minimal_pairs import read_minimal_pairs
from memlm_keras.evaluation.monte_carlo import monte_carlo_perplexity
from memlm_keras.evaluation.monte_carlo import sampled_perplexity
from memlm_keras.evaluation.neural_cache import CacheChoice
from memlm_keras.evaluation.neural_cache import choose_cache
from memlm_keras.evaluation.perplexity import Perplexity
from memlm_keras.evaluation.perplexity import perplexity
from memlm_keras.evaluation.perplexity import sentence_losses
from memlm_keras.evaluation.recency import RecencyPerplexity
from memlm_keras.evaluation.recency import perplexity_by_recency
from memlm_keras.evaluation.reconstruction import Reconstruction
from memlm_keras.evaluation.reconstruction import reconstruction
from memlm_keras.evaluation.stimuli import StimulusSurprisal
from memlm_keras.evaluation.stimuli import count_words
from memlm_keras.evaluation.stimuli import read_stimuli
from memlm_keras.evaluation.stimuli import stimulus_surprisal
from memlm_keras.evaluation.suites import Formula
from memlm_keras.evaluation.suites import Suite
from memlm_keras.evaluation.suites import SuiteAccuracy
from memlm_keras.evaluation.suites import SuiteResults
from memlm_keras.evaluation.suites import read_suites
from memlm_keras.evaluation.suites import suite_results
from memlm_keras.evaluation.text_bits import TextBits
from memlm_keras.evaluation.text_bits import text_bits
from memlm_keras.models.surprisal import Surprisal
from memlm_keras.models.surprisal import surprisal

__all__ = [
    "CacheChoice",
    "Certificate",
    "Check",
    "ClozeAccuracy",
    "DynamicChoice",
    "DynamicEvaluator",
    "Formula",
    "MinimalPairs",
    "PairAccuracy",
    "Perplexity",
    "RecencyPerplexity",
    "Reconstruction",
    "StimulusSurprisal",
    "Suite",
    "SuiteAccuracy",
    "SuiteResults",
    "Surprisal",
    "TextBits",
    "certify",
    "choose_cache",
    "choose_dynamic",
    "cloze_accuracy",
    "cloze_scores",
    "count_words",
    "mean_squared_gradients",
    "minimal_pairs",
    "monte_carlo_perplexity",
    "perplexity",
    "perplexity_by_recency",
    "read_minimal_pairs",
    "read_stimuli",
    "read_suites",
    "reconstruction",
    "sampled_perplexity",
    "sentence_losses",
    "stimulus_surprisal",
    "suite_results",
    "surprisal",
    "text_bits",
]

"""Linguistic tests of language models, and checks of their probabilities."""

from memlm_keras.linguistics.certify import Certificate
from memlm_keras.linguistics.certify import Check
from memlm_keras.linguistics.certify import certify
from memlm_keras.linguistics.minimal_pairs import MinimalPairs
from memlm_keras.linguistics.minimal_pairs import PairAccuracy
from memlm_keras.linguistics.minimal_pairs import minimal_pairs
from memlm_keras.linguistics.minimal_pairs import read_minimal_pairs
from memlm_keras.linguistics.recency import RecencyPerplexity
from memlm_keras.linguistics.recency import perplexity_by_recency
from memlm_keras.linguistics.stimuli import StimulusSurprisal
from memlm_keras.linguistics.stimuli import count_words
from memlm_keras.linguistics.stimuli import read_stimuli
from memlm_keras.linguistics.stimuli import stimulus_surprisal
from memlm_keras.linguistics.suites import Formula
from memlm_keras.linguistics.suites import Suite
from memlm_keras.linguistics.suites import SuiteAccuracy
from memlm_keras.linguistics.suites import SuiteResults
from memlm_keras.linguistics.suites import read_suites
from memlm_keras.linguistics.suites import suite_results

__all__ = [
    "Certificate",
    "Check",
    "Formula",
    "MinimalPairs",
    "PairAccuracy",
    "RecencyPerplexity",
    "StimulusSurprisal",
    "Suite",
    "SuiteAccuracy",
    "SuiteResults",
    "certify",
    "count_words",
    "minimal_pairs",
    "perplexity_by_recency",
    "read_minimal_pairs",
    "read_stimuli",
    "read_suites",
    "stimulus_surprisal",
    "suite_results",
]

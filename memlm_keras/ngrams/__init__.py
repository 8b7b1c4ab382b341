"""N-gram models: Kneser-Ney, caches and mixtures."""

from memlm_keras.ngrams.arpa import arpa_vocabulary
from memlm_keras.ngrams.arpa import read_arpa
from memlm_keras.ngrams.arpa import write_arpa
from memlm_keras.ngrams.backoff import BackoffModel
from memlm_keras.ngrams.backoff import load
from memlm_keras.ngrams.kneser_ney import KneserNey
from memlm_keras.ngrams.mixture import Mixture
from memlm_keras.ngrams.mixture import UnigramCache
from memlm_keras.ngrams.mixture import mix
from memlm_keras.ngrams.mixture import mixture_weights
from memlm_keras.ngrams.mixture import with_cache

__all__ = [
    "BackoffModel",
    "KneserNey",
    "Mixture",
    "UnigramCache",
    "arpa_vocabulary",
    "load",
    "mix",
    "mixture_weights",
    "read_arpa",
    "with_cache",
    "write_arpa",
]

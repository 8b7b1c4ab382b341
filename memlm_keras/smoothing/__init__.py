"""Noise and smoothing: words replaced by others, by statistics of the text."""

from memlm_keras.smoothing.noising import NoisedBatches
from memlm_keras.smoothing.statistics import StreamStatistics
from memlm_keras.smoothing.variational import VariationalSmoothing

__all__ = ["NoisedBatches", "StreamStatistics", "VariationalSmoothing"]

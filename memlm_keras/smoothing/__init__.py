"""Data noising and variational smoothing with statistics of a text."""

from memlm_keras.smoothing.kong2019 import SmoothedEmbedding
from memlm_keras.smoothing.kong2019 import SmoothedProjection
from memlm_keras.smoothing.kong2019 import VariationalSmoothing
from memlm_keras.smoothing.statistics import StreamStatistics
from memlm_keras.smoothing.xie2017 import NoisedBatches

__all__ = [
    "NoisedBatches",
    "SmoothedEmbedding",
    "SmoothedProjection",
    "StreamStatistics",
    "VariationalSmoothing",
]

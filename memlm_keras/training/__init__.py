"""Callbacks, losses, metrics and an optimizer that Keras lacks."""

from memlm_keras.training.callbacks import FreezeEmbeddings
from memlm_keras.training.callbacks import HalveOnDrop
from memlm_keras.training.callbacks import StopOnNaN
from memlm_keras.training.callbacks import Throughput
from memlm_keras.training.callbacks import halve_after
from memlm_keras.training.checkpoint import Checkpoint
from memlm_keras.training.compiling import FusedAdam
from memlm_keras.training.compiling import Nats
from memlm_keras.training.compiling import Perplexity
from memlm_keras.training.compiling import SentenceCrossEntropy
from memlm_keras.training.compiling import TokenCrossEntropy
from memlm_keras.training.compiling import TokenLoss
from memlm_keras.training.distribution import data_parallel

__all__ = [
    "Checkpoint",
    "FreezeEmbeddings",
    "FusedAdam",
    "HalveOnDrop",
    "Nats",
    "Perplexity",
    "SentenceCrossEntropy",
    "StopOnNaN",
    "Throughput",
    "TokenCrossEntropy",
    "TokenLoss",
    "data_parallel",
    "halve_after",
]

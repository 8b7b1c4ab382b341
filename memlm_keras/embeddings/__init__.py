"""Embeddings: from token ids to vectors."""

from memlm_keras.embeddings.gradient_mask import GradientMask
from memlm_keras.embeddings.lookup import Embedding
from memlm_keras.embeddings.lookup import look_up
from memlm_keras.embeddings.pretrained import WordVectors
from memlm_keras.embeddings.pretrained import read_vectors
from memlm_keras.embeddings.smoothed import SmoothedEmbedding

__all__ = [
    "Embedding",
    "GradientMask",
    "SmoothedEmbedding",
    "WordVectors",
    "look_up",
    "read_vectors",
]

"""Embeddings: from token ids to vectors."""

from memlm_keras.embeddings.embedding import Embedding
from memlm_keras.embeddings.embedding import GradientMask
from memlm_keras.embeddings.embedding import look_up
from memlm_keras.embeddings.pretrained import WordVectors
from memlm_keras.embeddings.pretrained import read_vectors

__all__ = [
    "Embedding",
    "GradientMask",
    "WordVectors",
    "look_up",
    "read_vectors",
]

"""Embeddings: from token ids to vectors."""

from memlm_keras.embeddings.lookup import Embedding
from memlm_keras.embeddings.lookup import look_up
from memlm_keras.embeddings.smoothed import SmoothedEmbedding

__all__ = ["Embedding", "SmoothedEmbedding", "look_up"]

"""Output projections: from the memory's outputs to next-token logits."""

from memlm_keras.heads.tied import TiedProjection

__all__ = ["TiedProjection"]

"""Output projections: from the memory's outputs to next-token logits."""

from memlm_keras.heads.smoothed import SmoothedProjection
from memlm_keras.heads.tied import TiedProjection

__all__ = ["SmoothedProjection", "TiedProjection"]

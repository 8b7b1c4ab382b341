"""Output projections: from the outputs of a memory to next-token logits."""

from memlm_keras.heads.projection import OutputProjection
from memlm_keras.heads.projection import TiedProjection
from memlm_keras.heads.projection import token_losses

__all__ = ["OutputProjection", "TiedProjection", "token_losses"]

"""Output projections: from the outputs of a memory to next-token logits."""

from memlm_keras.heads.losses import token_losses
from memlm_keras.heads.projection import OutputProjection
from memlm_keras.heads.projection import TiedProjection

__all__ = ["OutputProjection", "TiedProjection", "token_losses"]

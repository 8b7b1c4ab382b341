"""Output projections, which compute logits of the next token."""

from memlm_keras.heads.projection import OutputProjection
from memlm_keras.heads.projection import TiedProjection
from memlm_keras.heads.projection import token_losses

__all__ = ["OutputProjection", "TiedProjection", "token_losses"]

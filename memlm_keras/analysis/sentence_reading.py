"""Reading texts sentence by sentence, each from an empty history."""

import keras
import numpy as np

from memlm_keras.arguments import require_positive_integer
from memlm_keras.arguments import require_streaming
from memlm_keras.data.batches import Batches

_SEGMENT_LENGTH = 32


def token_ids(text):
    """Returns the ids of a `memlm_keras.data.Split`, or of an array of ids.

    Raises:
        ValueError: if there is no one-dimensional array of integers.
    """
    tokens = np.asarray(getattr(text, "tokens", text))
    if tokens.ndim != 1 or not np.issubdtype(tokens.dtype, np.integer):
        raise ValueError(
            "`text` must be a `memlm_keras.data.Split` or token ids of shape "
            f"(tokens,). Received: shape {tokens.shape} and dtype "
            f"{tokens.dtype}"
        )
    return tokens


def slot_distances(model, memory):
    """Words from what each slot holds to the word that is predicted.

    At step t slot j holds the token read at step
    `t - steps_back - (memory - 1 - j)`, and token t + 1 is predicted: 1 is the
    distance of neighbours.

    Args:
        model: a `memlm_keras.LanguageModel` with a memory that attends.
        memory: integer, number of slots.

    Returns:
        Integer array `(memory,)`, oldest slot first.
    """
    return np.arange(memory, 0, -1) + model.attending.steps_back


def sentence_attention(
    model, tokens, starts, batch_size=32, end_of_sentence_id=0, verbose=1
):
    """Reads a text sentence by sentence, and says where the model attends.

    Args:
        model: a `memlm_keras.LanguageModel` with a memory that attends.
        tokens: integer array `(tokens,)`, each sentence with its end.
        starts: integer array `(sentences,)`, offsets at which they begin.
        batch_size: integer, sentences that are read side by side. It changes
            time and memory, and no result.
        end_of_sentence_id: integer, the first input of each sentence.
        verbose: 0 or 1, whether to show a progress bar.

    Yields:
        Pairs `(positions, weights)`: integer `(n,)`, offsets in `tokens` of
        what is predicted; and float32 `(n, memory)`, where the model attends
        as it predicts it. Each token is predicted once, in no promised order.

    Raises:
        ValueError: if the model has no memory that attends or one that reads
            ahead, for ids outside the vocabulary, and for a batch size below 1.

    Example:

    >>> tokens = np.array([5, 7, 0, 6, 0])
    >>> for positions, weights in sentence_attention(lm, tokens, [0, 3]):
    ...     print(tokens[positions], weights.sum(axis=-1))
    """
    require_positive_integer("batch_size", batch_size)
    require_streaming("Attention by words back", model)
    layout = {
        "batch_size": min(batch_size, len(starts)),
        "segment_length": _SEGMENT_LENGTH,
        "document_starts": starts,
        "end_of_sentence_id": end_of_sentence_id,
    }
    batches = Batches(tokens, **layout)
    # A layout depends on the starts alone, so the offsets laid out as the
    # tokens are say where each token of a batch comes from.
    offsets = Batches(np.arange(len(tokens), dtype="int32"), **layout)
    progress = keras.utils.Progbar(
        len(tokens), verbose=verbose, unit_name="token"
    )
    attention = model.attention_batches(batches)
    for (_, positions, _), (weights, sample_weight) in zip(offsets, attention):
        counts = sample_weight > 0
        yield positions[counts], weights[counts]
        progress.add(int(counts.sum()))

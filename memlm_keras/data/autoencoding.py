"""Batches of sentences that are to be read and written again."""

import numpy as np

from memlm_keras.data.sentences import SentenceBatches


class AutoencodingBatches(SentenceBatches):
    """Batches of sentences for a `memlm_keras.SequenceAutoencoder`.

    Item `index` is `(inputs, targets, sample_weight)`:

    * `inputs["source"]`: int32 `(batch_size, time)`, each sentence with its end
    * `inputs["source_length"]`: int32 `(batch_size,)`, the end counted
    * `inputs["target"]`: int32 `(batch_size, time)`, what the decoder reads:
      the end of what came before, and all words
    * `targets`: int32 `(batch_size, time)`, all words and their end
    * `sample_weight`: float32 `(batch_size, time)`, 0 behind the end

    Args:
        *arguments, **keywords: as of `SentenceBatches`; with `longest`, longer
            sentences are read and written to there.

    Example:

    >>> tokens = np.array([5, 7, 0, 6, 0])
    >>> inputs, targets, _ = AutoencodingBatches(tokens, 2, longest=3)[0]
    >>> inputs["source_length"]
    array([2, 1], dtype=int32)
    """

    def _batch(self, index):
        inputs, targets, sample_weight = super()._batch(index)
        lengths = np.maximum(sample_weight.sum(axis=1), 1).astype("int32")
        inputs = {
            "source": targets,
            "source_length": lengths,
            "target": inputs["token_ids"],
        }
        return inputs, targets, sample_weight

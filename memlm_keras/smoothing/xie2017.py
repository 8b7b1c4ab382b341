"""Data noising of Xie et al. (2017): random words replace training words."""

import copy
import zlib

import keras
import numpy as np

from memlm_keras.arguments import require_instance
from memlm_keras.arguments import require_positive_integer
from memlm_keras.data.batches import TokenBatches
from memlm_keras.smoothing.statistics import AliasTable
from memlm_keras.smoothing.statistics import replacement


class NoisedBatches(keras.utils.PyDataset):
    """Batches with randomly replaced words, which differ in each epoch.

    Each input word x is replaced with probability gamma_x by a word drawn from
    the distribution q. The `scheme` selects both (Xie et al., 2017, Section 3
    and Table 1). `StreamStatistics` defines u, r, c and N1+:

    | scheme | gamma_x | q |
    |---|---|---|
    | `blank` | gamma_0 | the blank token |
    | `linear_interpolation` | gamma_0 | u |
    | `absolute_discounting` | gamma_0 N1+(x .) / c(x) | u |
    | `kneser_ney` | gamma_0 N1+(x .) / c(x) | r |

    With `kneser_ney`, the target of each replaced input word is replaced, too,
    by a word drawn from the Kneser-Ney distribution r. Other targets are kept.

    Noise does not change the shapes, rows or order of batches, so models carry
    the state between batches. NumPy draws the noise from `seed`, the epoch and
    the position of the batch, so the noise is the same on every backend and in
    a resumed run. For evaluation, use batches without noise, or
    `memlm_keras.evaluation.sampled_perplexity`.

    Args:
        batches: `memlm_keras.data.Batches` or `SentenceBatches` to train on.
            A `NoisedBatches` object has the attributes of `batches`.
        scheme: string, as above.
        rate: float in [0, 1], gamma_0.
        statistics: `StreamStatistics` of the training text.
        seed: integer, seed of the noise.
        blank_id: integer, id of the blank token, for the scheme `blank` only.
            `blank_id` may be the id of a token, such as `<unk>`, or a new id.

    Raises:
        ValueError: if an argument is not as described, or the batches contain
            ids outside the vocabulary of the statistics.

    Example:

    >>> tokens = np.arange(100) % 7
    >>> noised = NoisedBatches(
    ...     memlm_keras.data.Batches(tokens, batch_size=4, segment_length=5),
    ...     "kneser_ney",
    ...     rate=0.2,
    ...     statistics=memlm_keras.smoothing.StreamStatistics.count(tokens, 7),
    ... )
    >>> inputs, targets, sample_weight = noised[0]
    >>> inputs["token_ids"].shape
    (4, 5)
    """

    # Noise may remove the end of a sentence, or add another one.
    whole_sentences = False

    def __init__(
        self, batches, scheme, rate, statistics, seed=0, blank_id=None
    ):
        super().__init__()
        require_instance(
            "batches",
            batches,
            TokenBatches,
            "`memlm_keras.data.Batches` or `SentenceBatches`",
        )
        require_positive_integer("seed", seed, 0)
        rates, proposal = replacement(scheme, rate, statistics, blank_id)
        if batches.largest_id >= len(rates):
            raise ValueError(
                "`statistics` must have the vocabulary of the batches. "
                f"Received: statistics of {len(rates)} words, and the token id "
                f"{batches.largest_id}"
            )
        self.batches = batches
        self.scheme = scheme
        self.rate = float(rate)
        self.seed = int(seed)
        self.blank_id = blank_id
        self._rates = rates
        self._table = AliasTable.of(proposal)
        self._largest_proposed = int(np.flatnonzero(proposal).max())

    def __getattr__(self, name):
        if name == "batches":
            raise AttributeError(name)
        return getattr(self.batches, name)

    @property
    def largest_id(self):
        """Largest token id in the batches, before or after replacement."""
        return max(self.batches.largest_id, self._largest_proposed)

    def samples(self, number, seed=0):
        """Yields `number` copies of the batches, with noise from the seeds
        `seed`, `seed + 1` and so on."""
        for index in range(number):
            sample = copy.copy(self)
            sample.seed = seed + index
            yield sample

    def identity(self):
        """Returns plain values that identify the batches, for checkpoints."""
        noise = [self.scheme, self.rate, self.seed, self.blank_id]
        noise.append(zlib.crc32(self._rates.tobytes()))
        noise.append(zlib.crc32(self._table.aliases.tobytes()))
        return {**self.batches.identity(), "noise": noise}

    def __len__(self):
        return len(self.batches)

    def __getitem__(self, index):
        inputs, targets, sample_weight = self.batches[index]
        place = (self.batches.epoch, self.batches.start_batch + index)
        generator = np.random.default_rng(
            np.random.SeedSequence(self.seed, spawn_key=place)
        )
        token_ids = inputs["token_ids"]
        shape = token_ids.shape
        replaced = generator.random(shape) < self._rates[token_ids]
        drawn = self._table.draw(generator, shape)
        noised = {**inputs, "token_ids": np.where(replaced, drawn, token_ids)}
        if self.scheme == "kneser_ney":
            drawn = self._table.draw(generator, shape)
            targets = np.where(replaced, drawn, targets)
        return noised, targets, sample_weight

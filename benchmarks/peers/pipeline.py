"""Input pipelines of this package, without a model."""

import numpy as np

import memlm_keras as memlm
from benchmarks.peers.keras_training import Contender

_WORDS = 400_000


class Pipeline(Contender):
    """Makes batches of a long text, epoch after epoch."""

    def __init__(self, batches):
        self.batches = batches
        self.epoch = self.position = 0

    def next(self):
        if self.position == len(self.batches):
            self.epoch += 1
            self.batches.start_at(self.epoch)
            self.position = 0
        self.position += 1
        return self.batches[self.position - 1]

    def losses(self, steps):
        return float(np.mean([np.mean(self.next()[1]) for _ in range(steps)]))

    def steps(self, number):
        for _ in range(number):
            self.next()


def make(case, variant, precision):
    random = np.random.default_rng(0)
    tokens = 1 + random.zipf(1.3, _WORDS) % (case.vocabulary - 1)
    tokens = tokens.astype("int32")
    batches = memlm.data.Batches(tokens, case.batch, case.time)
    if variant == "batches":
        return Pipeline(batches)
    if variant == "noised_batches":
        return Pipeline(
            memlm.smoothing.NoisedBatches(
                batches,
                statistics=memlm.smoothing.StreamStatistics.count(
                    tokens, case.vocabulary
                ),
                seed=0,
                scheme="kneser_ney",
                rate=0.2,
            )
        )
    lengths = random.integers(5, 2 * case.time, _WORDS // case.time)
    sentences = [random.choice(tokens, length) for length in lengths]
    if variant == "sentence_batches":
        text = np.concatenate([[*sentence, 0] for sentence in sentences])
        return Pipeline(
            memlm.data.SentenceBatches(text, case.batch, shuffle=True)
        )
    half = len(sentences) // 2
    return Pipeline(
        memlm.data.PairBatches(
            sentences[:half],
            sentences[half : 2 * half],
            random.integers(0, 3, half),
            case.batch,
            shuffle=True,
        )
    )

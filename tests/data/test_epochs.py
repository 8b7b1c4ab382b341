"""Tests the epochs of all kinds of batches: orders and starting positions."""

import keras
import numpy as np
import pytest

from memlm_keras.data import Batches
from memlm_keras.data import PairBatches
from memlm_keras.data import SentenceBatches
from memlm_keras.data.recall import Copy
from memlm_keras.data.recall import MQARMix
from memlm_keras.data.recall import RecallBatches

RANDOM = np.random.default_rng(0)
TOKENS = np.arange(1, 61, dtype="int32")
# Twenty sentences of three words, and twenty of five.
SENTENCES = [*RANDOM.integers(1, 9, (20, 3)), *RANDOM.integers(1, 9, (20, 5))]
TEXT = np.concatenate([[*sentence, 0] for sentence in SENTENCES])
PAIRS = SENTENCES, SENTENCES[::-1], np.arange(40) % 3
MIX = MQARMix(((2, 16, 10), (4, 32, 7)), ((2, 16, 3),), 64, "zeros")
KINDS = {
    "documents": lambda **given: Batches(
        TOKENS, 2, 3, document_starts=np.arange(0, 60, 5), **given
    ),
    "sentences": lambda **given: SentenceBatches(TEXT, 4, **given),
    "sentences of all lengths": lambda **given: SentenceBatches(
        TEXT, 4, equal_lengths=False, **given
    ),
    "pairs": lambda **given: PairBatches(*PAIRS, 4, **given),
    "parts of passes": lambda **kw: PairBatches(
        *PAIRS, 4, batches_per_epoch=7, **kw
    ),
    "recall": lambda **given: RecallBatches(Copy(3), 40, 8, **given),
    "fresh": lambda **given: RecallBatches(Copy(3), 40, 8, fresh=True, **given),
    "mix": lambda **given: MIX.batches("training", 4, **given),
    "fresh mix": lambda **kw: MIX.batches("training", 4, fresh=True, **kw),
}
every_kind = pytest.mark.parametrize("kind", KINDS)


def items(batches):
    return [
        keras.tree.map_structure(np.ndarray.tolist, batches[index])
        for index in range(len(batches))
    ]


@every_kind
def test_shuffle_follows_seed_and_epoch(kind):
    def epoch(seed, number):
        batches = KINDS[kind](shuffle=True, seed=seed)
        batches.start_at(number)
        # Sort the batches: epochs differ in the batches' content, not only in
        # order.
        return sorted(map(str, items(batches)))

    assert epoch(0, 2) == epoch(0, 2)
    assert epoch(0, 2) != epoch(0, 3)
    assert epoch(0, 2) != epoch(1, 2)


@every_kind
@pytest.mark.parametrize("shuffle", [False, True])
def test_start_at_gives_the_rest_of_an_epoch(kind, shuffle):
    batches = KINDS[kind](shuffle=shuffle)
    first = items(batches)
    batches.start_at(3)
    whole = items(batches)
    assert (whole == first) == (
        not shuffle and kind not in ("fresh", "fresh mix", "parts of passes")
    )
    batches.start_at(3, 2)
    assert items(batches) == whole[2:]
    assert (batches.epoch, batches.start_batch) == (3, 2)
    batches.start_at(4)
    assert (batches.epoch, batches.start_batch) == (4, 0)
    assert len(batches) == batches.batches_per_epoch == len(whole)


def test_streams_that_begin_later_are_not_reset():
    streams = Batches(np.arange(40), batch_size=2, segment_length=3)
    streams.start_at(0, 2)
    assert not streams[0][0]["reset"].any()

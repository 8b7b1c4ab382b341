"""Measures how well an autoencoder reconstructs sequences."""

from typing import NamedTuple

import keras
import numpy as np


class Reconstruction(NamedTuple):
    """Accuracy of the sequences that an autoencoder reconstructed.

    Attributes:
        token_accuracy: Float, fraction of correct tokens and ends of sequences.
        sequence_accuracy: Float, fraction of sequences without an error.
        tokens, sequences: Integers, numbers of tokens and of sequences.
        protocol: String that describes how the accuracy was measured.
    """

    token_accuracy: float
    sequence_accuracy: float
    tokens: int
    sequences: int
    protocol: str


def reconstruction(model, batches, sampler="greedy", verbose=1):
    """Measures how well an autoencoder reconstructs sequences.

    The decoder reads the tokens that `sampler` chose, not the correct ones.

    Args:
        model: `memlm_keras.SequenceAutoencoder`.
        batches: `memlm_keras.data.AutoencodingBatches`.

    Example:

    >>> sentences = memlm_keras.data.AutoencodingBatches(
    ...     np.array([5, 7, 0, 6, 0]), 2
    ... )
    >>> model = memlm_keras.SequenceAutoencoder(
    ...     9, 4, keras.layers.GRU(4), keras.layers.GRU(4), "memory"
    ... )
    >>> reconstruction(model, sentences, verbose=0).tokens
    5
    """
    name = sampler if isinstance(sampler, str) else type(sampler).__name__
    bar = keras.utils.Progbar(len(batches), verbose=1 if verbose else 0)
    correct_tokens = correct = tokens = sequences = 0
    for index in range(len(batches)):
        inputs, targets, sample_weight = batches[index]
        nonempty = sample_weight[:, 0] > 0
        time = targets.shape[1]
        # Generate for empty rows, too, so that only one shape is compiled.
        sources = [
            row[:length]
            for row, length in zip(inputs["source"], inputs["source_length"])
        ]
        # Fill with -1, which is no token id and so matches no target.
        written = np.full((len(targets), time + 1), -1, targets.dtype)
        generated = model.generate(sources, sampler, max_length=time)
        for row, sequence in enumerate(generated):
            written[row, : len(sequence)] = sequence
            written[row, len(sequence)] = model.end_of_sentence_id
        written = written[:, :time]
        same = (written == targets) & (sample_weight > 0)
        correct_tokens += int(same.sum())
        tokens += int(sample_weight.sum())
        correct += int(
            (same.sum(axis=1) == sample_weight.sum(axis=1))[nonempty].sum()
        )
        sequences += int(nonempty.sum())
        bar.update(index + 1)
    return Reconstruction(
        correct_tokens / tokens,
        correct / sequences,
        tokens,
        sequences,
        "the decoder reads what it has written; tokens at their places, ends "
        f"counted; {name}",
    )

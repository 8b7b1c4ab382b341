"""Attention at sampled words: Tran et al. (2016), Figure 4."""

import dataclasses

import numpy as np

from memlm_keras.analysis import output
from memlm_keras.analysis.attention import sentence_attention
from memlm_keras.analysis.attention import slot_distances
from memlm_keras.analysis.attention import token_ids
from memlm_keras.arguments import require_positive_integer
from memlm_keras.arguments import require_vocabulary
from memlm_keras.data.sentences import sentence_starts


@dataclasses.dataclass(frozen=True, eq=False)
class AttentionColumns:
    """Attention of a model after each of some sampled words.

    Attributes:
        positions: integer array `(samples,)`, offsets of the words in the
            text, ascending.
        words: tuple of `samples` strings, the words, just read.
        predicted: tuple of `samples` strings, the words after them.
        weights: float32 array `(samples, memory)`, oldest slot first.
        distances: integer array `(memory,)`, words from what each slot holds
            to the predicted word.
    """

    positions: np.ndarray
    words: tuple
    predicted: tuple
    weights: np.ndarray
    distances: np.ndarray


def attention_columns(
    model, text, vocabulary=None, samples=100, seed=0, batch_size=32, verbose=1
):
    """Samples words of a text, and says where the model attends after each.

    Tran et al. (2016), Figure 4: 100 words of the test data. Each sentence is
    read from the initial state; ends of sentences are not sampled. Only the
    sentences of the sampled words are read.

    Args:
        model: a `memlm_keras.LanguageModel` with a memory that attends.
        text: `memlm_keras.data.Split`, or integers `(tokens,)`, each sentence
            with its end.
        vocabulary: `memlm_keras.data.Vocabulary` of the model's size; `None` is
            the model's own.
        samples: integer, number of words, each sampled at most once.
        seed: integer from which the sample follows.
        batch_size: integer, sentences that are read side by side.
        verbose: 0 or 1, whether to show a progress bar.

    Returns:
        `AttentionColumns`.

    Raises:
        ValueError: if the model has no memory that attends, the vocabulary is
            of another size, the text does not end with the end of a sentence,
            or it has fewer words than `samples`.

    Example:

    >>> columns = memlm_keras.analysis.attention_columns(
    ...     lm, corpus.test, corpus.vocabulary, samples=5
    ... )
    >>> columns.weights.shape
    (5, 3)
    """
    vocabulary = require_vocabulary(model, vocabulary)
    require_positive_integer("samples", samples)
    tokens = token_ids(text)
    end = vocabulary.end_of_sentence_id
    starts = sentence_starts(tokens, end)
    words = np.flatnonzero(tokens != end)
    if len(words) < samples:
        raise ValueError(
            f"`samples` must be at most {len(words)}, the number of words of "
            f"the text. Received: samples={samples}"
        )
    generator = np.random.default_rng(seed)
    chosen = np.sort(generator.choice(words, samples, replace=False))

    sentences = np.unique(np.searchsorted(starts, chosen, "right") - 1)
    ends = np.append(starts[1:], len(tokens))[sentences]
    lengths = ends - starts[sentences]
    read = np.concatenate(
        [np.arange(*span) for span in zip(starts[sentences], ends)]
    )
    weights = None
    for positions, found in sentence_attention(
        model,
        tokens[read],
        np.cumsum(lengths) - lengths,
        batch_size,
        end,
        verbose,
    ):
        if weights is None:
            weights = np.zeros((samples, found.shape[-1]), "float32")
        # What is predicted stands one behind the word just read.
        before = read[positions] - 1
        place = np.minimum(np.searchsorted(chosen, before), samples - 1)
        hit = chosen[place] == before
        weights[place[hit]] = found[hit]
    return AttentionColumns(
        chosen,
        tuple(vocabulary.decode(tokens[chosen])),
        tuple(vocabulary.decode(tokens[chosen + 1])),
        weights,
        slot_distances(model, weights.shape[-1]),
    )


def plot_attention_columns(columns, path, title=None):
    """Draws attention columns side by side, as PNG.

    Tran et al. (2016), Figure 4: darker is higher, the most recent position is
    at the bottom, and beneath each column stands the word just read.

    Args:
        columns: `AttentionColumns` of `attention_columns`.
        path: path of the PNG file.
        title: optional string.

    Example:

    >>> memlm_keras.analysis.plot_attention_columns(columns, "columns.png")
    """
    samples, memory = columns.weights.shape
    figure, axes = output.subplots(2.5 + 0.15 * samples, 2 + 0.15 * memory)
    image = axes.imshow(
        columns.weights.T, cmap="Blues", vmin=0.0, vmax=1.0, aspect="auto"
    )
    axes.set_xticks(
        range(samples),
        [output.literal(word) for word in columns.words],
        rotation=90,
        fontsize=7,
    )
    axes.set_yticks(range(memory), columns.distances, fontsize=7)
    axes.set_xlabel("word just read")
    axes.set_ylabel("words before the predicted one")
    output.save(figure, path, axes, title, image, "attention weight")


def write_attention_columns(columns, path):
    """Writes attention columns as CSV, a line for each sampled word.

    Its columns are `position`, `word`, `predicted` and, for each slot,
    `attention_` with its distance to the predicted word.

    Args:
        columns: `AttentionColumns` of `attention_columns`.
        path: path of the CSV file.

    Example:

    >>> memlm_keras.analysis.write_attention_columns(columns, "columns.csv")
    """
    names = ["position", "word", "predicted"]
    output.write_rows(
        path,
        names + output.distance_names(columns.distances),
        (
            [position, word, predicted, *weights]
            for position, word, predicted, weights in zip(
                columns.positions.tolist(),
                columns.words,
                columns.predicted,
                columns.weights.tolist(),
            )
        ),
    )

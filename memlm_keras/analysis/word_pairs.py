"""Pairs of words joined by distant attention: Tran et al. (2016), Table 3."""

import dataclasses

import keras
import numpy as np

from memlm_keras.analysis import output
from memlm_keras.analysis.attention import sentence_attention
from memlm_keras.analysis.attention import slot_distances
from memlm_keras.analysis.attention import token_ids
from memlm_keras.arguments import require_positive_integer
from memlm_keras.arguments import require_vocabulary
from memlm_keras.data.sentences import sentence_starts


@dataclasses.dataclass(frozen=True, eq=False)
class DistantPairs:
    """Pairs of a most-attended and a predicted word that stand far apart.

    An entry is a pair at a distance: a pair found at two has two entries.

    Attributes:
        attended: tuple of `pairs` strings, the most-attended words.
        predicted: tuple of `pairs` strings, the words to predict.
        distances: integer array `(pairs,)`, how many words the attended word
            stands before the predicted one.
        occurrences: integer array `(pairs,)`, how often it was found so.
        counted_distances: integer array `(distances,)`, ascending.
        counts: int64 array `(pairs, distances)`, how often the attended word
            stands exactly so many words before the predicted one, both in one
            sentence, in the training text.
    """

    attended: tuple
    predicted: tuple
    distances: np.ndarray
    occurrences: np.ndarray
    counted_distances: np.ndarray
    counts: np.ndarray

    @property
    def mean_counts(self):
        """Mean co-occurrence frequency by distance, as in Table 3.

        For each distance, the mean over the entries of this distance, each
        once, of how often their words co-occur at this very distance. float64
        `(distances,)`, not a number where there is no entry.
        """
        return self._means(
            np.where(self._own_distance(), self.counts, 0).sum(axis=-1)
        )

    @property
    def mean_counts_at_any_distance(self):
        """Mean co-occurrence frequency, counted at all distances together.

        The paper does not say which of the two it counts.
        """
        return self._means(self.counts.sum(axis=-1))

    @property
    def entries(self):
        """Number of entries by distance, integer `(distances,)`."""
        return self._own_distance().sum(axis=0)

    def _own_distance(self):
        return self.distances[:, None] == self.counted_distances

    def _means(self, frequencies):
        own = self._own_distance()
        sums = (own * frequencies[:, None]).sum(axis=0, dtype="float64")
        means = sums / np.maximum(self.entries, 1)
        return np.where(self.entries > 0, means, np.nan)


def distant_pairs(
    model,
    text,
    training_text,
    vocabulary=None,
    minimum_distance=7,
    batch_size=32,
    verbose=1,
):
    """Finds where the most-attended word is far, and counts in training data.

    Tran et al. (2016), Table 3. Each sentence of the text is read from the
    initial state. Of each step whose most-attended slot holds a word at least
    `minimum_distance` before the word to predict, the pair of the two is
    taken; of equal weights the most recent counts as the highest. Neither the
    beginning of a sentence nor its end is a word here; the unknown word is.

    Args:
        model: a `memlm_keras.LanguageModel` with a memory that attends.
        text: `memlm_keras.data.Split`, or integers `(tokens,)`, each sentence
            with its end.
        training_text: the same of the training data, in which the pairs are
            counted.
        vocabulary: `memlm_keras.data.Vocabulary` of the model's size; `None` is
            the model's own.
        minimum_distance: integer, 7 for "more than six positions to the left".
            Co-occurrences are counted at each distance from it on to that of
            the oldest slot: 7 to 15 for a memory block of 15 words.
        batch_size: integer, sentences that are read side by side.
        verbose: 0 or 1, whether to show progress bars.

    Returns:
        `DistantPairs`, sorted by distance, then by the ids of the words. There
        may be none.

    Raises:
        ValueError: if the model has no memory that attends or one that does
            not reach so far, the vocabulary is of another size, a text has ids
            outside it, or the text does not end with the end of a sentence.

    Example:

    >>> pairs = memlm_keras.analysis.distant_pairs(
    ...     lm, corpus.test, corpus.train, corpus.vocabulary, minimum_distance=2
    ... )
    >>> pairs.counted_distances.tolist()
    [2, 3, 4]
    """
    vocabulary = require_vocabulary(model, vocabulary)
    require_positive_integer("minimum_distance", minimum_distance)
    tokens = token_ids(text)
    end = vocabulary.end_of_sentence_id
    starts = sentence_starts(tokens, end)
    found = []
    for positions, weights in sentence_attention(
        model, tokens, starts, batch_size, end, verbose
    ):
        distances = slot_distances(model, weights.shape[-1])
        # The first of equals is taken, so the most recent is put first.
        slots = weights.shape[-1] - 1 - weights[:, ::-1].argmax(axis=-1)
        back = distances[slots]
        begins = starts[np.searchsorted(starts, positions, "right") - 1]
        taken = (back >= minimum_distance) & (positions - back >= begins)
        taken &= tokens[positions] != end
        back, positions = back[taken], positions[taken]
        found.append(
            np.stack([back, tokens[positions - back], tokens[positions]], -1)
        )
    if distances[0] < minimum_distance:
        raise ValueError(
            f"`minimum_distance` must be at most {distances[0]}, how far the "
            "memory of the model reaches. Received: minimum_distance="
            f"{minimum_distance}"
        )
    entries, occurrences = np.unique(
        np.concatenate(found), axis=0, return_counts=True
    )
    counted = np.arange(minimum_distance, distances[0] + 1)
    counts = cooccurrence_counts(
        entries[:, 1:],
        token_ids(training_text),
        counted,
        len(vocabulary),
        end,
        verbose,
    )
    return DistantPairs(
        tuple(vocabulary.decode(entries[:, 1])),
        tuple(vocabulary.decode(entries[:, 2])),
        entries[:, 0],
        occurrences,
        counted,
        counts,
    )


def plot_distant_pairs(pairs, path, title=None):
    """Draws the mean co-occurrence frequency by distance, as PNG.

    Tran et al. (2016), Table 3; above each bar stands the number of pairs.

    Args:
        pairs: `DistantPairs` of `distant_pairs`.
        path: path of the PNG file.
        title: optional string.

    Example:

    >>> memlm_keras.analysis.plot_distant_pairs(pairs, "pairs.png")
    """
    figure, axes = output.subplots(2 + 0.5 * len(pairs.counted_distances), 3.5)
    bars = axes.bar(
        pairs.counted_distances, np.nan_to_num(pairs.mean_counts), color="C0"
    )
    labels = [f"{number} pairs" for number in pairs.entries]
    axes.bar_label(bars, labels, fontsize=6)
    axes.set_xticks(pairs.counted_distances)
    axes.set_xlabel("words from the attended to the predicted word")
    axes.set_ylabel("mean co-occurrences in training")
    output.save(figure, path, axes, title)


def write_distant_pairs(pairs, path):
    """Writes distant pairs as CSV, a line for each pair at a distance.

    Its columns are `attended`, `predicted`, `distance`, `occurrences` and, for
    each distance, `training_count_` with the distance.

    Args:
        pairs: `DistantPairs` of `distant_pairs`.
        path: path of the CSV file.

    Example:

    >>> memlm_keras.analysis.write_distant_pairs(pairs, "pairs.csv")
    """
    names = ["attended", "predicted", "distance", "occurrences"]
    names += [f"training_count_{each}" for each in pairs.counted_distances]
    columns = zip(
        pairs.attended,
        pairs.predicted,
        pairs.distances.tolist(),
        pairs.occurrences.tolist(),
        pairs.counts.tolist(),
    )
    rows = ([*entry, *counts] for *entry, counts in columns)
    output.write_rows(path, names, rows)


def write_counts_by_distance(pairs, path):
    """Writes the mean co-occurrence frequency by distance as CSV.

    Tran et al. (2016), Table 3. The columns are `distance`, `pairs`, and the
    means `count` and `count_at_any_distance`, empty where there are no pairs.

    Args:
        pairs: `DistantPairs` of `distant_pairs`.
        path: path of the CSV file.

    Example:

    >>> memlm_keras.analysis.write_counts_by_distance(pairs, "table_3.csv")
    """
    means = np.stack([pairs.mean_counts, pairs.mean_counts_at_any_distance], -1)
    output.write_rows(
        path,
        ["distance", "pairs", "count", "count_at_any_distance"],
        (
            [distance, number, *(row if number else ("", ""))]
            for distance, number, row in zip(
                pairs.counted_distances.tolist(),
                pairs.entries.tolist(),
                means.tolist(),
            )
        ),
    )


_CHUNK = 1 << 20


def cooccurrence_counts(
    pairs, tokens, distances, vocabulary_size, end_of_sentence_id=0, verbose=1
):
    """Counts pairs of words in a text, at each of some distances.

    Args:
        pairs: integer array `(pairs, 2)`, ids of an earlier and a later word.
        tokens: integer array or memory map `(tokens,)`.
        distances: integer array `(distances,)`, each at least 1.
        vocabulary_size: integer.
        end_of_sentence_id: integer; no pair is counted across it.
        verbose: 0 or 1, whether to show a progress bar.

    Returns:
        int64 array `(pairs, distances)`: how often the earlier word stands
        exactly so many words before the later one, in one sentence.

    Raises:
        ValueError: if the text has ids outside the vocabulary.

    Example:

    >>> tokens = np.array([5, 7, 7, 0, 5, 0])
    >>> cooccurrence_counts([[5, 7]], tokens, [1, 2], 9, verbose=0)
    array([[1, 1]])
    """
    # Keys of two ids of 32 bits would overflow 32 bits.
    pairs = np.asarray(pairs, "int64").reshape(-1, 2)
    keys, place = np.unique(
        pairs[:, 0] * vocabulary_size + pairs[:, 1], return_inverse=True
    )
    counts = np.zeros((len(keys), len(distances)), "int64")
    # Most words are in no pair: asking two tables spares most searches.
    earlier = np.isin(np.arange(vocabulary_size), pairs[:, 0])
    later = np.isin(np.arange(vocabulary_size), pairs[:, 1])
    longest = int(max(distances))
    progress = keras.utils.Progbar(
        len(tokens), verbose=verbose, unit_name="token"
    )
    for begin in range(0, len(tokens) if len(keys) else 0, _CHUNK):
        first = max(0, begin - longest)
        window = np.asarray(tokens[first : begin + _CHUNK], "int64")
        _require_known(window, vocabulary_size)
        ends = np.cumsum(window == end_of_sentence_id)
        places = np.flatnonzero(later[window])
        places = places[places >= begin - first]
        for column, distance in enumerate(distances):
            at = places[places >= distance]
            before = at - distance
            # No end stands behind the earlier word, up to the later one.
            at = at[earlier[window[before]] & (ends[at] == ends[before])]
            found = window[at - distance] * vocabulary_size + window[at]
            row = np.minimum(np.searchsorted(keys, found), len(keys) - 1)
            counts[:, column] += np.bincount(
                row[keys[row] == found], minlength=len(keys)
            )
        progress.add(len(window) - (begin - first))
    return counts[place.reshape(-1)]


def _require_known(tokens, vocabulary_size):
    if tokens.min() < 0 or tokens.max() >= vocabulary_size:
        raise ValueError(
            "`training_text` must hold ids from 0 on below the vocabulary's "
            f"size {vocabulary_size}. Received: ids from {tokens.min()} to "
            f"{tokens.max()}. Encode it with the model's own vocabulary."
        )

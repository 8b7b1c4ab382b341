"""Attention along syntactic dependencies: Tran et al. (2016), Figure 6."""

import dataclasses

import numpy as np

from memlm_keras.analysis import output
from memlm_keras.analysis.attention import sentence_attention
from memlm_keras.analysis.attention import slot_distances
from memlm_keras.arguments import require_positive_integer
from memlm_keras.arguments import require_vocabulary

# The bins of the figure are in its image alone: these are a choice.
BINS = ((1, 1), (2, 2), (3, 3), (4, 4), (5, 5), (6, 7), (8, 10), (11, 15))


@dataclasses.dataclass(frozen=True, eq=False)
class DependencyAttention:
    """Attention by dependency and position.

    Attributes:
        dependencies: tuple of strings, sorted, `"ALL"` first: all pairs of
            words of a sentence, with or without a dependency. `"→obj"` says
            that the predicted word is an `obj` of the attended word, `"obj←"`
            that the attended word is one of the predicted word.
        bins: tuple of pairs `(nearest, farthest)` of integers, how many words
            the attended word stands before the predicted one.
        mass: float64 array `(dependencies, bins)`, sums of attention weights.
        counts: int64 array `(dependencies, bins)`, of how many pairs of words.
    """

    dependencies: tuple
    bins: tuple
    mass: np.ndarray
    counts: np.ndarray

    @property
    def means(self):
        """Mean attention weight of a pair, float64 `(dependencies, bins)`.

        Not a number where the parses hold no such pair: the white cells of
        Figure 6.
        """
        means = self.mass / np.maximum(self.counts, 1)
        return np.where(self.counts > 0, means, np.nan)

    def most_frequent(self, number):
        """The dependencies of the most pairs of words, at all distances.

        Args:
            number: integer, how many; all if there are fewer.

        Returns:
            List of strings, `"ALL"` and then the most frequent first.
        """
        order = np.argsort(-self.counts.sum(axis=-1), kind="stable")
        return [self.dependencies[at] for at in order[:number]]


def dependency_attention(
    model,
    sentences,
    vocabulary=None,
    bins=BINS,
    subtypes=True,
    batch_size=32,
    verbose=1,
):
    """Attention by dependency between attended and predicted word.

    Tran et al. (2016), Figure 6. Each sentence is read from the initial state,
    as its word forms. At each step that predicts a word, every slot that holds
    a word of the sentence gives one pair; the beginning and the end of the
    sentence are in none. The figure's positions are binned, the text does not
    say how.

    Args:
        model: a `memlm_keras.LanguageModel` with a memory that attends.
        sentences: list of `ParsedSentence`, as of `read_conllu`.
        vocabulary: `memlm_keras.data.Vocabulary` of the model's size; `None` is
            the model's own.
        bins: pairs `(nearest, farthest)` of distances in words, 1 for
            neighbours, ascending and apart. Distances in no bin are left out.
        subtypes: whether to tell subtypes of relations apart, such as
            `det:poss` from `det`.
        batch_size: integer, sentences that are read side by side.
        verbose: 0 or 1, whether to show a progress bar.

    Returns:
        `DependencyAttention`.

    Raises:
        ValueError: if the model has no memory that attends, the vocabulary is
            of another size, there are no sentences, or the bins are not as
            described above.

    Example:

    >>> sentence = memlm_keras.analysis.ParsedSentence(
    ...     words=("the", "young", "man", "said"),
    ...     heads=np.array([2, 2, 3, -1]),
    ...     relations=("det", "amod", "nsubj", "root"),
    ... )
    >>> found = memlm_keras.analysis.dependency_attention(
    ...     lm, [sentence], corpus.vocabulary
    ... )
    >>> found.dependencies
    ('ALL', 'det←')
    """
    vocabulary = require_vocabulary(model, vocabulary)
    bins = _checked_bins(bins)
    sentences = [sentence for sentence in sentences if sentence.words]
    if not sentences:
        raise ValueError(
            "`sentences` must hold at least one sentence with words. Received: "
            "none"
        )
    text = ParsedText(sentences, vocabulary, subtypes)
    shape = (len(text.names), len(bins))
    mass, counts = np.zeros(shape), np.zeros(shape, "int64")
    for positions, weights in sentence_attention(
        model,
        text.tokens,
        text.starts,
        batch_size,
        vocabulary.end_of_sentence_id,
        verbose,
    ):
        distances = slot_distances(model, weights.shape[-1])
        bin_of_slot = _bin_of(distances, bins)
        attended = positions[:, None] - distances
        labels = text.labels(positions[:, None], attended)
        pairs = text.holds_words(positions[:, None], attended)
        pairs &= bin_of_slot >= 0
        related = pairs & (labels >= 0)
        for rows, of_interest in ((labels, related), (0 * labels, pairs)):
            cells = (rows * len(bins) + bin_of_slot)[of_interest]
            mass += np.bincount(
                cells, weights[of_interest], minlength=mass.size
            ).reshape(shape)
            counts += np.bincount(cells, minlength=mass.size).reshape(shape)
    found = counts.any(axis=-1)
    found[0] = True
    return DependencyAttention(
        tuple(name for name, here in zip(text.names, found) if here),
        bins,
        mass[found],
        counts[found],
    )


def plot_dependency_attention(
    attention, path, dependencies=None, title=None, minimum_pairs=1
):
    """Draws mean attention by dependency and position, as PNG.

    Tran et al. (2016), Figure 6: cells of which the parses hold no pair are
    white, and the nearest position is at the right.

    Args:
        attention: `DependencyAttention` of `dependency_attention`.
        path: path of the PNG file.
        dependencies: list of those to draw, from top to bottom; `None` draws
            all.
        title: optional string.
        minimum_pairs: integer; cells of fewer pairs, whose mean may be that of
            a single word, are white as well.

    Raises:
        ValueError: if one of the dependencies is not in `attention`, and if
            `minimum_pairs` is not a positive integer.

    Example:

    >>> memlm_keras.analysis.plot_dependency_attention(
    ...     dependencies, "dependencies.png", ["ALL", "det←"]
    ... )
    """
    require_positive_integer("minimum_pairs", minimum_pairs)
    if dependencies is None:
        dependencies = attention.dependencies
    missing = set(dependencies) - set(attention.dependencies)
    if missing or not len(dependencies):
        raise ValueError(
            "`dependencies` must be some of those found, "
            f"{list(attention.dependencies)}. Received: {list(dependencies)}"
        )
    rows = [attention.dependencies.index(name) for name in dependencies]
    enough = attention.counts[rows] >= minimum_pairs
    grid = np.where(enough, attention.means[rows], np.nan)[:, ::-1]
    figure, axes = output.subplots(
        3 + 0.6 * len(attention.bins), 1.5 + 0.25 * len(rows)
    )
    highest = np.nanmax(grid, initial=1e-6)
    image = axes.imshow(
        grid, cmap="YlGnBu", vmin=0.0, vmax=highest, aspect="auto"
    )

    def label(row, column):
        mean = grid[row, column]
        return None if np.isnan(mean) else f"{mean:.2f}"

    output.label_cells(axes, grid, label, 0.6 * highest, fontsize=6)
    names = [_bin_name(each) for each in attention.bins[::-1]]
    axes.set_xticks(range(len(names)), names)
    labels = [output.literal(name) for name in dependencies]
    axes.set_yticks(range(len(rows)), labels, fontsize=8)
    axes.set_xlabel("words from the attended to the predicted word")
    output.save(figure, path, axes, title, image, "mean attention weight")


def write_dependency_attention(attention, path):
    """Writes attention by dependency as CSV, a line for each and each bin.

    Its columns are `dependency`, `nearest`, `farthest`, `pairs`, `mass` and
    `mean`, which is empty where there are no pairs.

    Args:
        attention: `DependencyAttention` of `dependency_attention`.
        path: path of the CSV file.

    Example:

    >>> memlm_keras.analysis.write_dependency_attention(
    ...     dependencies, "dependencies.csv"
    ... )
    """
    rows = []
    for row, column in np.ndindex(attention.counts.shape):
        pairs = int(attention.counts[row, column])
        mass = float(attention.mass[row, column])
        key = (attention.dependencies[row], *attention.bins[column])
        rows.append([*key, pairs, mass, mass / pairs if pairs else ""])
    names = ["dependency", "nearest", "farthest", "pairs", "mass", "mean"]
    output.write_rows(path, names, rows)


def _bin_of(distances, bins):
    """Index of the bin of each distance, or -1."""
    inside = [(low <= distances) & (distances <= high) for low, high in bins]
    inside = np.array(inside)
    return np.where(inside.any(axis=0), inside.argmax(axis=0), -1)


def _bin_name(pair):
    return str(pair[0]) if pair[0] == pair[1] else f"{pair[0]}-{pair[1]}"


def _checked_bins(bins):
    bins = tuple((int(low), int(high)) for low, high in bins)
    edges = [0, *(edge for pair in bins for edge in pair)]
    apart = all(low < high for low, high in zip(edges[::2], edges[1::2]))
    wide = all(low <= high for low, high in bins)
    if not bins or not apart or not wide:
        raise ValueError(
            "`bins` must be pairs (nearest, farthest) of distances from 1 on, "
            f"ascending and apart, such as {BINS[-3:]}. Received: {bins}"
        )
    return bins


ALL = "ALL"


class ParsedText:
    """Parsed sentences as one text, each with its end.

    Args:
        sentences: list of `ParsedSentence`, none without words.
        vocabulary: `memlm_keras.data.Vocabulary`.
        subtypes: whether to tell subtypes of relations apart.

    Attributes:
        tokens: int32 array `(tokens,)`, ids.
        starts: integer array `(sentences,)`, offsets at which they begin.
        names: list of strings, `"ALL"` and all dependencies, sorted.
    """

    def __init__(self, sentences, vocabulary, subtypes):
        end = [vocabulary.end_of_sentence_id]
        lengths = np.array([len(each.words) for each in sentences])
        ends = np.cumsum(lengths + 1) - 1
        self.starts = ends - lengths
        parts = []
        for sentence in sentences:
            parts += [vocabulary.encode(sentence.words), end]
        self.tokens = np.concatenate(parts).astype("int32")
        # A word may look like the end of a sentence: places tell.
        self._is_word = np.ones(len(self.tokens), bool)
        self._is_word[ends] = False
        self._begins = np.repeat(self.starts, lengths + 1)
        self._heads = np.full(len(self.tokens), -1)
        relations = []
        for start, sentence in zip(self.starts, sentences):
            heads = np.asarray(sentence.heads)
            heads = np.where(heads < 0, -1, heads + start)
            self._heads[start : start + len(heads)] = heads
            relations += [*sentence.relations, ""]
        if not subtypes:
            relations = [each.partition(":")[0] for each in relations]
        kinds, kind = np.unique(relations, return_inverse=True)
        names = [f"→{each}" for each in kinds] + [f"{each}←" for each in kinds]
        order = np.argsort(names)
        rank = np.argsort(order) + 1
        self.names = [ALL, *(names[at] for at in order)]
        self._towards, self._from = rank[kind], rank[kind + len(kinds)]

    def holds_words(self, predicted, attended):
        """Whether both are words of one sentence."""
        return self._is_word[predicted] & (attended >= self._begins[predicted])

    def labels(self, predicted, attended):
        """Index in `names` of the dependency of two places, or -1."""
        attended = np.maximum(attended, 0)
        backward = np.where(
            self._heads[attended] == predicted, self._from[attended], -1
        )
        depends = self._heads[predicted] == attended
        return np.where(depends, self._towards[predicted], backward)

"""Analyses of attention from Tran et al. (2016): Figure 4 (sampled words),
Figure 6 (dependencies) and Table 3 (distant pairs)."""

import dataclasses

import keras
import numpy as np

from memlm_keras import files
from memlm_keras.analysis import pictures
from memlm_keras.analysis.attention import sentence_attention
from memlm_keras.analysis.attention import slot_distances
from memlm_keras.arguments import require_integers
from memlm_keras.arguments import require_positive_integer
from memlm_keras.arguments import require_vocabulary
from memlm_keras.data.batches import sentence_starts

ALL = "ALL"
_CHUNK = 1 << 20
# The paper does not state the bins in Figure 6; these bins are our choice.
BINS = ((1, 1), (2, 2), (3, 3), (4, 4), (5, 5), (6, 7), (8, 10), (11, 15))


# === Sampled words ===


@dataclasses.dataclass(frozen=True, eq=False)
class AttentionColumns:
    """A model's attention after sampled words.

    Attributes:
        positions: Integer array `(samples,)`, ascending offsets of the words in
            the text.
        words: Tuple of `samples` strings, the words just read.
        predicted: Tuple of `samples` strings, the next words.
        weights: float32 array `(samples, memory)`, oldest slot first.
        distances: Integer array `(memory,)`, number of words from each slot's
            word to the predicted word.
    """

    positions: np.ndarray
    words: tuple
    predicted: tuple
    weights: np.ndarray
    distances: np.ndarray


def attention_columns(
    model, text, vocabulary=None, samples=100, seed=0, batch_size=32, verbose=1
):
    """Samples words from a text, and computes the attention after each.

    Tran et al. (2016), Figure 4, show 100 words of the test data, excluding
    ends of sentences. Each sentence is read from the initial state.

    Args:
        model: `memlm_keras.LanguageModel` with a memory that attends.
        text: `memlm_keras.data.Split`, or integers `(tokens,)`; every sentence
            ends with the end-of-sentence token.
        vocabulary: `Vocabulary`; `None` uses the model's own.
        samples: Integer, number of positions to sample.

    Raises:
        ValueError: The model has no memory that attends, the vocabulary has
            another size, or the text does not end with the end of a sentence or
            has fewer words than `samples`.

    Example:

    >>> columns = memlm_keras.analysis.attention_columns(
    ...     lm, corpus.test, corpus.vocabulary, samples=5
    ... )
    >>> columns.weights.shape
    (5, 3)
    """
    vocabulary = require_vocabulary(model, vocabulary)
    require_positive_integer("samples", samples)
    tokens = require_integers("text", text)
    end = vocabulary.end_of_sentence_id
    starts = sentence_starts(tokens, end)
    words = np.flatnonzero(tokens != end)
    if len(words) < samples:
        raise ValueError(
            f"`samples` must be at most {len(words)}, the number of words in "
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
    for positions, read_weights in sentence_attention(
        model,
        tokens[read],
        np.cumsum(lengths) - lengths,
        batch_size,
        end,
        verbose,
    ):
        if weights is None:
            weights = np.zeros((samples, read_weights.shape[-1]), "float32")
        # Subtract 1, since `positions` are those of the predicted words.
        before = read[positions] - 1
        place = np.minimum(np.searchsorted(chosen, before), samples - 1)
        hit = chosen[place] == before
        weights[place[hit]] = read_weights[hit]
    return AttentionColumns(
        chosen,
        tuple(vocabulary.decode(tokens[chosen])),
        tuple(vocabulary.decode(tokens[chosen + 1])),
        weights,
        slot_distances(model, weights.shape[-1]),
    )


def plot_attention_columns(columns, path, title=None):
    """Draws `AttentionColumns` side by side as a PNG file.

    As in Tran et al. (2016), Figure 4, dark cells have high weights, the most
    recent position is at the bottom, and the word just read is below.

    Example:

    >>> memlm_keras.analysis.plot_attention_columns(columns, "columns.png")
    """
    samples, memory = columns.weights.shape
    figure, axes = pictures.subplots(2.5 + 0.15 * samples, 2 + 0.15 * memory)
    image = axes.imshow(
        columns.weights.T, cmap="Blues", vmin=0.0, vmax=1.0, aspect="auto"
    )
    words = [pictures.literal(word) for word in columns.words]
    axes.set_xticks(range(samples), words, rotation=90, fontsize=7)
    axes.set_yticks(range(memory), columns.distances, fontsize=7)
    axes.set_xlabel("word just read")
    axes.set_ylabel("words before the predicted one")
    pictures.save(figure, path, axes, title, image, "attention weight")


def write_attention_columns(columns, path):
    """Writes `AttentionColumns` as a CSV file with one line per sampled word.

    The columns are `position`, `word`, `predicted` and, for each slot,
    `attention_` followed by its distance to the predicted word.

    Example:

    >>> memlm_keras.analysis.write_attention_columns(columns, "columns.csv")
    """
    names = [f"attention_{distance}" for distance in columns.distances]
    table = {
        "position": columns.positions.tolist(),
        "word": columns.words,
        "predicted": columns.predicted,
        **dict(zip(names, columns.weights.T.tolist())),
    }
    files.write_csv(path, table, zip(*table.values()))


# === Dependencies ===


@dataclasses.dataclass(frozen=True, eq=False)
class DependencyAttention:
    """Attention by dependency and distance.

    Attributes:
        dependencies: Sorted tuple of strings. `"ALL"` comes first and counts
            all pairs of words in a sentence. With `"→obj"`, the predicted word
            is an `obj` of the attended word; with `"obj←"`, the attended word
            is an `obj` of the predicted word. Longer paths from the attended to
            the predicted word list all relations, such as `"subj← →kon →cj"`.
        bins: Tuple of integer pairs `(nearest, farthest)`, distances in words
            from the attended to the predicted word.
        mass: float64 array `(dependencies, bins)`, sums of attention weights.
        counts: int64 array `(dependencies, bins)`, numbers of pairs of words.
    """

    dependencies: tuple
    bins: tuple
    mass: np.ndarray
    counts: np.ndarray

    @property
    def means(self):
        """Mean attention weight per pair, float64 `(dependencies, bins)`; NaN
        if there is no pair."""
        means = self.mass / np.maximum(self.counts, 1)
        return np.where(self.counts > 0, means, np.nan)

    def most_frequent(self, number):
        """Returns a list of the `number` names in `dependencies` with the most
        pairs of words, in descending order; the first is `"ALL"`."""
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
    longest_path=1,
):
    """Computes attention by dependency and distance between two words.

    Tran et al. (2016) show words that one dependency connects (Figure 6), and
    words that up to three connect (Section 5.2). Each sentence is read from the
    initial state. Each predicted word forms a pair with the word in each memory
    slot, if this word is from the same sentence.

    Args:
        model, vocabulary: See `attention_columns`.
        sentences: List of `ParsedSentence`, such as from `read_conllu`.
        bins: Ascending, disjoint pairs `(nearest, farthest)` of distances in
            words, 1 for adjacent words; the paper does not state its bins.
            Other distances are skipped.
        subtypes: Whether to distinguish subtypes of relations, such as
            `det:poss` from `det`.
        longest_path: Integer, largest number of dependencies between two words,
            such as 1 for Figure 6 and 3 for Section 5.2 of Tran et al. (2016).

    Raises:
        ValueError: See `attention_columns`; also if there are no sentences, or
            `bins` or `longest_path` is invalid.

    Example:

    >>> sentence = memlm_keras.analysis.ParsedSentence(
    ...     words=("the", "young", "man", "said"),
    ...     heads=np.array([2, 2, 3, -1]),
    ...     relations=("det", "amod", "nsubj", "root"),
    ... )
    >>> attention = memlm_keras.analysis.dependency_attention(
    ...     lm, [sentence], corpus.vocabulary
    ... )
    >>> attention.dependencies
    ('ALL', 'det←')
    """
    vocabulary = require_vocabulary(model, vocabulary)
    require_positive_integer("longest_path", longest_path)
    bins = tuple((int(low), int(high)) for low, high in bins)
    edges = [0, *(edge for pair in bins for edge in pair)]
    apart = all(low < high for low, high in zip(edges[::2], edges[1::2]))
    if not bins or not apart or any(low > high for low, high in bins):
        raise ValueError(
            "`bins` must be pairs (nearest, farthest) of distances from 1 on, "
            f"ascending and disjoint, such as {BINS[-3:]}. Received: {bins}"
        )
    sentences = [sentence for sentence in sentences if sentence.words]
    if not sentences:
        raise ValueError(
            "`sentences` must hold at least one sentence with words. Received: "
            "none"
        )
    text = ParsedText(
        sentences, vocabulary, subtypes, longest_path, farthest=bins[-1][1]
    )
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
        inside = np.array(
            [(low <= distances) & (distances <= high) for low, high in bins]
        )
        # -1 marks slots whose distance is in no bin.
        bin_of_slot = np.where(inside.any(axis=0), inside.argmax(axis=0), -1)
        attended = positions[:, None] - distances
        labels = text.labels(positions[:, None], distances)
        pairs = text.holds_words(positions[:, None], attended)
        pairs &= bin_of_slot >= 0
        related = pairs & (labels >= 0)
        # Row 0, "ALL", counts all pairs.
        for rows, chosen in ((labels, related), (0 * labels, pairs)):
            cells = (rows * len(bins) + bin_of_slot)[chosen]
            mass += np.bincount(
                cells, weights[chosen], minlength=mass.size
            ).reshape(shape)
            counts += np.bincount(cells, minlength=mass.size).reshape(shape)
    kept = counts.any(axis=-1)
    kept[0] = True
    return DependencyAttention(
        tuple(name for name, keep in zip(text.names, kept) if keep),
        bins,
        mass[kept],
        counts[kept],
    )


def plot_dependency_attention(
    attention, path, dependencies=None, title=None, minimum_pairs=1
):
    """Draws mean attention by dependency and distance as a PNG file.

    As in Tran et al. (2016), Figure 6, cells without pairs are white, and the
    nearest distance is at the right.

    Args:
        attention: `DependencyAttention` from `dependency_attention`.
        dependencies: List of dependencies to draw, from top to bottom; `None`
            draws all.
        minimum_pairs: Integer; a cell with fewer pairs of words stays white.

    Raises:
        ValueError: A name in `dependencies` is not in `attention`, or
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
            "`dependencies` must be among those in `attention`, "
            f"{list(attention.dependencies)}. Received: {list(dependencies)}"
        )
    rows = [attention.dependencies.index(name) for name in dependencies]
    enough = attention.counts[rows] >= minimum_pairs
    grid = np.where(enough, attention.means[rows], np.nan)[:, ::-1]
    figure, axes = pictures.subplots(
        3 + 0.6 * len(attention.bins), 1.5 + 0.25 * len(rows)
    )
    highest = np.nanmax(grid, initial=1e-6)
    image = axes.imshow(
        grid, cmap="YlGnBu", vmin=0.0, vmax=highest, aspect="auto"
    )

    pictures.label_cells(axes, grid, 0.6 * highest, fontsize=6)
    names = [
        str(low) if low == high else f"{low}-{high}"
        for low, high in attention.bins[::-1]
    ]
    axes.set_xticks(range(len(names)), names)
    pictures.label_words(axes, rows=dependencies)
    axes.set_xlabel("words from the attended to the predicted word")
    pictures.save(figure, path, axes, title, image, "mean attention weight")


def write_dependency_attention(attention, path):
    """Writes `DependencyAttention` as a CSV file, by dependency and bin.

    The columns are `dependency`, `nearest` and `farthest` (the bin), `pairs`
    (the number of pairs of words), `mass` (the sum of the pairs' attention
    weights) and `mean` (`mass / pairs`, or empty for no pairs).

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
    files.write_csv(path, names, rows)


class ParsedText:
    """Joins parsed sentences into one text with end-of-sentence tokens."""

    def __init__(self, sentences, vocabulary, subtypes, longest_path, farthest):
        lengths = np.array([len(each.words) for each in sentences])
        ends = np.cumsum(lengths + 1) - 1
        self.starts = ends - lengths
        self.tokens = np.concatenate(
            [vocabulary.encode_sentence(each.words) for each in sentences]
        )
        if len(self.tokens) != ends[-1] + 1:
            raise ValueError(
                "`vocabulary` must have words, not pieces of words. Received: "
                f"{len(self.tokens)} tokens for {ends[-1] + 1} words and ends "
                "of sentences"
            )
        # A parsed word may have the id of the end-of-sentence token, too.
        self._is_word = np.ones(len(self.tokens), bool)
        self._is_word[ends] = False
        self._begins = np.repeat(self.starts, lengths + 1)
        found = [
            (start + predicted, predicted - attended, path)
            for start, sentence in zip(self.starts, sentences)
            for attended, predicted, path in _paths(
                sentence, subtypes, longest_path
            )
            if predicted - attended <= farthest
        ]
        self.names = [ALL, *sorted({path for _, _, path in found})]
        index = {name: at for at, name in enumerate(self.names)}
        # Axes: position of the predicted word, and distance (0 is unused).
        shape = len(self.tokens), min(farthest, lengths.max()) + 1
        self._labels = np.full(shape, -1, "int32")
        for place, distance, path in found:
            self._labels[place, distance] = index[path]

    def holds_words(self, predicted, attended):
        """Returns whether two positions are words in the same sentence."""
        return self._is_word[predicted] & (attended >= self._begins[predicted])

    def labels(self, predicted, distances):
        """Returns indices in `names` of the paths that connect predicted words
        to the words at given distances before them, or -1 without a path."""
        far = distances >= self._labels.shape[1]
        return self._labels[predicted, np.where(far, 0, distances)]


def _paths(sentence, subtypes, longest):
    """Yields `(attended, predicted, path)`: the positions of two words, and the
    path of up to `longest` dependencies that connects them."""
    relations = sentence.relations
    if not subtypes:
        relations = [each.partition(":")[0] for each in relations]
    # For each word, the words on the path from it to the root.
    ways = []
    for word in range(len(sentence.words)):
        way = []
        while word >= 0 and len(way) <= longest:
            way.append(word)
            word = sentence.heads[word]
        ways.append(way)
    for predicted, below in enumerate(ways):
        for attended, above in enumerate(ways[:predicted]):
            top = next((word for word in above if word in below), None)
            if top is None:
                continue
            up, down = above[: above.index(top)], below[: below.index(top)]
            if len(up) + len(down) <= longest:
                path = [f"{relations[word]}←" for word in up]
                path += [f"→{relations[word]}" for word in reversed(down)]
                yield attended, predicted, " ".join(path)


# === Distant pairs ===


@dataclasses.dataclass(frozen=True, eq=False)
class DistantPairs:
    """Pairs of a predicted word and a distant word that is attended to most.

    If a pair of words occurs at two distances, it has two entries.

    Attributes:
        attended: Tuple of `pairs` strings, the most-attended words.
        predicted: Tuple of `pairs` strings, the predicted words.
        distances: Integer array `(pairs,)`, number of words from the attended
            to the predicted word.
        occurrences: Integer array `(pairs,)`, number of times in the text.
        counted_distances: Ascending integer array `(distances,)`.
        counts: int64 array `(pairs, distances)`, number of times that the two
            words occur at that distance within training sentences.
    """

    attended: tuple
    predicted: tuple
    distances: np.ndarray
    occurrences: np.ndarray
    counted_distances: np.ndarray
    counts: np.ndarray

    @property
    def mean_counts(self):
        """Mean co-occurrence frequency by distance, our reading of Table 3:
        float64 `(distances,)`, NaN for distances without entries."""
        return self._means(
            np.where(self._own_distance(), self.counts, 0).sum(axis=-1)
        )

    @property
    def mean_counts_at_any_distance(self):
        """Mean co-occurrence frequency by distance, where a pair's frequency is
        its sum over the counted distances. The paper does not say whether
        Table 3 shows such sums."""
        return self._means(self.counts.sum(axis=-1))

    @property
    def entries(self):
        """Number of word pairs at each distance, integers `(distances,)`."""
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
    """Finds distant most-attended words, and counts them in training data.

    See Tran et al. (2016), Table 3. Each sentence is read from the initial
    state. At each step, the word with the largest attention weight (in a tie,
    the most recent) and the predicted word form a pair. Pairs with a distance
    below `minimum_distance` are left out. Ends of sentences do not count as
    words; unknown words do.

    Args:
        model, text, vocabulary: See `attention_columns`.
        training_text: `Split` or integers, the text in which to count pairs.
        minimum_distance: Integer, 7 for "more than six positions to the left".
            Co-occurrences are counted from `minimum_distance` to the distance
            of the oldest slot, such as 7 to 15 for a memory of 15 words.

    Returns:
        `DistantPairs`, sorted by distance and then by word ids; may be empty.

    Raises:
        ValueError: See `attention_columns`; also if no slot is at least
            `minimum_distance` back, or a text has ids outside the vocabulary.

    Example:

    >>> pairs = memlm_keras.analysis.distant_pairs(
    ...     lm, corpus.test, corpus.train, corpus.vocabulary, minimum_distance=2
    ... )
    >>> pairs.counted_distances.tolist()
    [2, 3, 4]
    """
    vocabulary = require_vocabulary(model, vocabulary)
    require_positive_integer("minimum_distance", minimum_distance)
    tokens = require_integers("text", text)
    end = vocabulary.end_of_sentence_id
    starts = sentence_starts(tokens, end)
    pairs = []
    for positions, weights in sentence_attention(
        model, tokens, starts, batch_size, end, verbose
    ):
        distances = slot_distances(model, weights.shape[-1])
        # `argmax` returns the first maximum: reverse to find the most recent.
        slots = weights.shape[-1] - 1 - weights[:, ::-1].argmax(axis=-1)
        back = distances[slots]
        begins = starts[np.searchsorted(starts, positions, "right") - 1]
        taken = (back >= minimum_distance) & (positions - back >= begins)
        taken &= tokens[positions] != end
        back, positions = back[taken], positions[taken]
        pairs.append(
            np.stack([back, tokens[positions - back], tokens[positions]], -1)
        )
    if distances[0] < minimum_distance:
        raise ValueError(
            f"`minimum_distance` must be at most {distances[0]}, the reach of "
            f"the model's memory. Received: minimum_distance={minimum_distance}"
        )
    entries, occurrences = np.unique(
        np.concatenate(pairs), axis=0, return_counts=True
    )
    counted = np.arange(minimum_distance, distances[0] + 1)
    counts = cooccurrence_counts(
        entries[:, 1:],
        require_integers("training_text", training_text),
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
    """Draws `DistantPairs.mean_counts` (Tran et al., 2016, Table 3) as a PNG
    file, with the number of pairs above each bar.

    Example:

    >>> memlm_keras.analysis.plot_distant_pairs(pairs, "pairs.png")
    """
    figure, axes = pictures.subplots(
        2 + 0.5 * len(pairs.counted_distances), 3.5
    )
    bars = axes.bar(
        pairs.counted_distances, np.nan_to_num(pairs.mean_counts), color="C0"
    )
    labels = [f"{number} pairs" for number in pairs.entries]
    axes.bar_label(bars, labels, fontsize=6)
    axes.set_xticks(pairs.counted_distances)
    axes.set_xlabel("words from the attended to the predicted word")
    axes.set_ylabel("mean co-occurrences in training")
    pictures.save(figure, path, axes, title)


def write_distant_pairs(pairs, path):
    """Writes `DistantPairs` as a CSV file with one line per entry.

    The columns are `attended`, `predicted`, `distance`, `occurrences` and, for
    each distance, `training_count_` followed by the distance.

    Example:

    >>> memlm_keras.analysis.write_distant_pairs(pairs, "pairs.csv")
    """
    names = [f"training_count_{each}" for each in pairs.counted_distances]
    table = {
        "attended": pairs.attended,
        "predicted": pairs.predicted,
        "distance": pairs.distances.tolist(),
        "occurrences": pairs.occurrences.tolist(),
        **dict(zip(names, pairs.counts.T.tolist())),
    }
    files.write_csv(path, table, zip(*table.values()))


def write_counts_by_distance(pairs, path):
    """Writes a CSV file of mean co-occurrences (Tran et al., 2016, Table 3).

    The columns are `distance`, `pairs`, and the means `count` and
    `count_at_any_distance`, which are empty if there are no pairs.

    Example:

    >>> memlm_keras.analysis.write_counts_by_distance(pairs, "table_3.csv")
    """
    entries = zip(
        pairs.counted_distances.tolist(),
        pairs.entries.tolist(),
        pairs.mean_counts.tolist(),
        pairs.mean_counts_at_any_distance.tolist(),
    )
    rows = (
        [distance, number, *(means if number else ("", ""))]
        for distance, number, *means in entries
    )
    names = ["distance", "pairs", "count", "count_at_any_distance"]
    files.write_csv(path, names, rows)


def cooccurrence_counts(
    pairs, tokens, distances, vocabulary_size, end_of_sentence_id=0, verbose=1
):
    """Counts how often the two words of each pair occur in a sentence at each
    distance; returns an int64 array `(pairs, distances)`."""
    # A key made from two ids needs 64 bits.
    pairs = np.asarray(pairs, "int64").reshape(-1, 2)
    keys, place = np.unique(
        pairs[:, 0] * vocabulary_size + pairs[:, 1], return_inverse=True
    )
    counts = np.zeros((len(keys), len(distances)), "int64")
    # Most words are in no pair: two lookup tables exclude them quickly.
    earlier = np.isin(np.arange(vocabulary_size), pairs[:, 0])
    later = np.isin(np.arange(vocabulary_size), pairs[:, 1])
    longest = int(max(distances))
    progress = keras.utils.Progbar(
        len(tokens), verbose=verbose, unit_name="token"
    )
    for begin in range(0, len(tokens) if len(keys) else 0, _CHUNK):
        first = max(0, begin - longest)
        window = np.asarray(tokens[first : begin + _CHUNK], "int64")
        require_integers(
            "training_text", window, vocabulary_size=vocabulary_size
        )
        ends = np.cumsum(window == end_of_sentence_id)
        places = np.flatnonzero(later[window])
        places = places[places >= begin - first]
        for column, distance in enumerate(distances):
            at = places[places >= distance]
            before = at - distance
            # Keep pairs in which no sentence ends between the two words.
            at = at[earlier[window[before]] & (ends[at] == ends[before])]
            key = window[at - distance] * vocabulary_size + window[at]
            row = np.minimum(np.searchsorted(keys, key), len(keys) - 1)
            counts[:, column] += np.bincount(
                row[keys[row] == key], minlength=len(keys)
            )
        progress.add(len(window) - (begin - first))
    return counts[place.reshape(-1)]

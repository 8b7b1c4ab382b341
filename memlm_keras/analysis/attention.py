"""Attention over a text: by position, by sentence, at sampled words."""

import dataclasses

import keras
import numpy as np

from memlm_keras.analysis import pictures
from memlm_keras.arguments import require_integers
from memlm_keras.arguments import require_positive_integer
from memlm_keras.arguments import require_streaming
from memlm_keras.arguments import require_vocabulary
from memlm_keras.data.batches import Batches
from memlm_keras.data.batches import sentence_starts

_SEGMENT_LENGTH = 32


def mean_attention(model, batches):
    """Mean attention weight of each memory position over a text.

    Daniluk et al. (2017), Figure 3b. Steps whose memory is not full yet are
    left out, as fewer slots share their weight.

    Args:
        model: a `memlm_keras.LanguageModel` with a memory that attends.

    Returns:
        float64 array `(memory,)`, the oldest position first; it sums to one.

    Raises:
        ValueError: if the model has no memory that attends or one that reads
            ahead, or the text never fills it.
    """
    require_streaming("`mean_attention`", model)
    total, count = 0.0, 0
    steps_read = np.zeros((batches.batch_size, 1), "int64")
    attention = model.attention_batches(batches)
    for (inputs, _, _), (weights, sample_weight) in zip(batches, attention):
        _, time, memory = weights.shape
        steps_read[inputs["reset"]] = 0
        needed = memory - 1 + model.attending.steps_back
        full = (steps_read + np.arange(time) >= needed) & (sample_weight > 0)
        steps_read += time
        total = total + weights[full].sum(axis=0, dtype="float64")
        count += int(full.sum())
    if not count:
        raise ValueError(
            "The text is too short: its memory is never full. Received: "
            f"batches of {batches.num_tokens} tokens in {batches.batch_size} "
            "rows"
        )
    return total / count


def plot_attention(weights, tokens, path, title=None, steps_back=1):
    """Draws where each step of a passage attends, as PNG.

    Daniluk et al. (2017), Figure 3a: one row for each token read, with the
    token that is predicted there; one column for each position of the memory,
    the most recent at the right. Each cell names the token that it holds.

    Args:
        weights: float array `(time, memory)`, of `LanguageModel.attention`.
        tokens: list of `time` strings, the tokens read.
        steps_back: integer, `model.attending.steps_back`: 1 where the memory is
            of the steps before, 0 where it includes the current one.

    Raises:
        ValueError: if there is not one token for each row of weights.

    Example:

    >>> tokens = vocabulary.encode("the man who was born in york")
    >>> weights = lm.attention(tokens[None])[0]
    >>> memlm_keras.analysis.plot_attention(
    ...     weights, vocabulary.decode(tokens), "attention.png"
    ... )
    """
    weights = np.asarray(weights)
    if weights.ndim != 2 or len(weights) != len(tokens):
        raise ValueError(
            "`tokens` must hold one token for each row of `weights`. Received: "
            f"{len(tokens)} tokens and weights of shape {weights.shape}"
        )
    time, memory = weights.shape
    figure, axes = pictures.subplots(1.2 + 0.85 * memory, 1.2 + 0.26 * time)
    image = axes.imshow(
        weights, cmap="Blues", vmin=0.0, vmax=1.0, aspect="auto"
    )

    def held(step, position):
        read = step - steps_back - (memory - 1 - position)
        return pictures.literal(tokens[read]) if read >= 0 else ""

    pictures.label_cells(axes, weights, 0.6, held)
    steps = [f"{read} → {next}" for read, next in zip(tokens, tokens[1:])]
    # The token after the passage is not known.
    pictures.label_words(axes, rows=[*steps, f"{tokens[-1]} →"])
    _label_positions(axes, memory)
    axes.set_ylabel("token read → token predicted")
    pictures.save(figure, path, axes, title, image, "attention weight")


def plot_mean_attention(means, path, title=None):
    """Draws the mean attention of each memory position, as PNG.

    Daniluk et al. (2017), Figure 3b.

    Args:
        means: float array `(memory,)` of `mean_attention`, or a dict of such
            arrays by the name of their model; positions are aligned at the
            most recent.

    Raises:
        ValueError: if there is nothing to draw.
    """
    if not isinstance(means, dict):
        means = {"": means}
    if not means:
        raise ValueError("`means` must hold at least one model. Received: {}")
    longest = max(len(mean) for mean in means.values())
    grid = np.full((len(means), longest), np.nan)
    for row, mean in enumerate(means.values()):
        grid[row, longest - len(mean) :] = mean
    figure, axes = pictures.subplots(
        2.5 + 0.55 * longest, 1.5 + 0.5 * len(means)
    )
    image = axes.imshow(grid, cmap="Blues", vmin=0.0, aspect="auto")
    pictures.label_cells(axes, grid, 0.6 * np.nanmax(grid))
    axes.set_yticks(range(len(means)), list(means))
    _label_positions(axes, longest)
    pictures.save(figure, path, axes, title, image, "mean attention weight")


def _label_positions(axes, memory):
    axes.set_xticks(range(memory), range(-memory, 0))
    axes.set_xlabel("memory position (-1 is the most recent)")


def token_ids(name, text):
    """The ids of a `memlm_keras.data.Split` or an array `(tokens,)`,
    checked."""
    return require_integers(name, getattr(text, "tokens", text))


def slot_distances(model, memory):
    """Words from the token in each slot to the predicted word, `(memory,)`; the
    distance of neighbours is 1."""
    # At step t slot j holds the token read at step t - steps_back - (memory - 1
    # - j), and token t + 1 is predicted.
    return np.arange(memory, 0, -1) + model.attending.steps_back


def sentence_attention(
    model, tokens, starts, batch_size=32, end_of_sentence_id=0, verbose=1
):
    """Reads sentences from offsets `starts`; yields offsets `(n,)` of predicted
    tokens, in any order, and their attention, float32 `(n, memory)`."""
    require_positive_integer("batch_size", batch_size)
    require_streaming("Attention by words back", model)
    layout = {
        "batch_size": min(batch_size, len(starts)),
        "segment_length": _SEGMENT_LENGTH,
        "document_starts": starts,
        "end_of_sentence_id": end_of_sentence_id,
    }
    batches = Batches(tokens, **layout)
    # The layout depends on the starts alone: batches of offsets give the place
    # of each token.
    offsets = Batches(np.arange(len(tokens), dtype="int32"), **layout)
    progress = keras.utils.Progbar(
        len(tokens), verbose=verbose, unit_name="token"
    )
    attention = model.attention_batches(batches)
    for (_, positions, _), (weights, sample_weight) in zip(offsets, attention):
        counts = sample_weight > 0
        yield positions[counts], weights[counts]
        progress.add(int(counts.sum()))


# === Sampled words ===


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
    """Samples words of a text, and computes the attention after each.

    Tran et al. (2016), Figure 4: 100 words of the test data. Each sentence is
    read from the initial state; ends of sentences are not sampled. Only the
    sentences of the sampled words are read.

    Args:
        model: a `memlm_keras.LanguageModel` with a memory that attends.
        text: `memlm_keras.data.Split`, or integers `(tokens,)`, each sentence
            with its end.
        vocabulary: `None` for the model's own.
        samples: integer, number of words, each sampled at most once.

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
    tokens = token_ids("text", text)
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
        # The predicted word follows the word just read.
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
    """Draws `AttentionColumns` side by side, as PNG.

    Tran et al. (2016), Figure 4: darker is higher, the most recent position is
    at the bottom, and beneath each column stands the word just read.

    Example:

    >>> memlm_keras.analysis.plot_attention_columns(columns, "columns.png")
    """
    samples, memory = columns.weights.shape
    figure, axes = pictures.subplots(2.5 + 0.15 * samples, 2 + 0.15 * memory)
    image = axes.imshow(
        columns.weights.T, cmap="Blues", vmin=0.0, vmax=1.0, aspect="auto"
    )
    axes.set_xticks(
        range(samples),
        [pictures.literal(word) for word in columns.words],
        rotation=90,
        fontsize=7,
    )
    axes.set_yticks(range(memory), columns.distances, fontsize=7)
    axes.set_xlabel("word just read")
    axes.set_ylabel("words before the predicted one")
    pictures.save(figure, path, axes, title, image, "attention weight")


def write_attention_columns(columns, path):
    """Writes `AttentionColumns` as CSV, a line for each sampled word.

    Its columns are `position`, `word`, `predicted` and, for each slot,
    `attention_` with its distance to the predicted word.

    Example:

    >>> memlm_keras.analysis.write_attention_columns(columns, "columns.csv")
    """
    names = ["position", "word", "predicted"]
    pictures.write_rows(
        path,
        names + [f"attention_{distance}" for distance in columns.distances],
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

"""Computes and draws attention weights by position in the memory."""

import keras
import numpy as np

from memlm_keras.analysis import pictures
from memlm_keras.arguments import require_positive_integer
from memlm_keras.arguments import require_streaming
from memlm_keras.data.batches import Batches

_SEGMENT_LENGTH = 32


def mean_attention(model, batches):
    """Computes each memory position's mean attention weight in `batches`.

    See Daniluk et al. (2017), Figure 3b. Skips steps before the memory is full.

    Args:
        model: `memlm_keras.LanguageModel` with a memory that attends.

    Returns:
        float64 array `(memory,)` that sums to 1, oldest position first.

    Raises:
        ValueError: The model is not causal or has no memory that attends, or
            the text is too short to fill the memory.
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
            "The text is too short to fill the memory. Received: "
            f"batches of {batches.num_tokens} tokens in {batches.batch_size} "
            "rows"
        )
    return total / count


def plot_attention(weights, tokens, path, title=None, steps_back=1):
    """Draws the attention at each step of a passage as a PNG file.

    As in Daniluk et al. (2017), Figure 3a, each row is labelled with the token
    just read and the next one; columns are memory positions, the most recent
    at the right. Each cell shows the token in its memory slot.

    Args:
        weights: Float array `(time, memory)`, from `LanguageModel.attention`.
        tokens: List of `time` strings, the tokens read.
        steps_back: Integer, `model.attending.steps_back`: 0 if the memory
            includes the current step, 1 if it ends with the previous step.

    Raises:
        ValueError: The numbers of tokens and of rows of weights differ.

    Example:

    >>> tokens = vocabulary.encode("the man who was born in york")
    >>> weights = lm.attention(tokens[None])[0]
    >>> memlm_keras.analysis.plot_attention(
    ...     weights, vocabulary.decode(tokens), "attention.png"
    ... )
    """
    # A bidirectional memory has no `steps_back`.
    require_positive_integer("steps_back", steps_back, 0)
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

    def token_at(step, position):
        read = step - steps_back - (memory - 1 - position)
        return pictures.literal(tokens[read]) if read >= 0 else ""

    pictures.label_cells(axes, weights, 0.6, token_at)
    steps = [f"{read} → {next}" for read, next in zip(tokens, tokens[1:])]
    # The last token has no next token: its label ends with the arrow.
    pictures.label_words(axes, rows=[*steps, f"{tokens[-1]} →"])
    _label_positions(axes, memory)
    axes.set_ylabel("token read → token predicted")
    pictures.save(figure, path, axes, title, image, "attention weight")


def plot_mean_attention(means, path, title=None):
    """Draws the mean attention at each memory position as a PNG file.

    See Daniluk et al. (2017), Figure 3b.

    Args:
        means: Float array `(memory,)` from `mean_attention`, or a dict from
            names of models to such arrays, aligned at the newest position.

    Raises:
        ValueError: The dict is empty.
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


def slot_distances(model, memory):
    """Returns the distances `(memory,)`, in words, from the token in each slot
    to the predicted token; adjacent words have distance 1."""
    # The most recent slot has the token read `steps_back` steps ago, and the
    # predicted token is one step ahead: their distance is `steps_back + 1`.
    return np.arange(memory, 0, -1) + model.attending.steps_back


def sentence_attention(
    model, tokens, starts, batch_size=32, end_of_sentence_id=0, verbose=1
):
    """Reads the sentences that begin at offsets `starts`. Yields offsets `(n,)`
    of predicted tokens, in any order, and attention weights `(n, memory)`."""
    require_positive_integer("batch_size", batch_size)
    require_streaming("Attention by distance", model)
    batches = Batches(
        tokens,
        batch_size=min(batch_size, len(starts)),
        segment_length=_SEGMENT_LENGTH,
        document_starts=starts,
        end_of_sentence_id=end_of_sentence_id,
    )
    progress = keras.utils.Progbar(
        len(tokens), verbose=verbose, unit_name="token"
    )
    attention = model.attention_batches(batches)
    for (_, positions, _), (weights, sample_weight) in zip(
        batches.of_offsets(), attention
    ):
        counts = sample_weight > 0
        yield positions[counts], weights[counts]
        progress.add(int(counts.sum()))

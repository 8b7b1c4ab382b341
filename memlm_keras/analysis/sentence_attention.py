"""Attention by words along one sentence: Salton et al. (2017), Figures 2, 3."""

import numpy as np

from memlm_keras.analysis import output


def attention_by_word(predictions):
    """The weight of each word of a sentence as each later one is predicted.

    Args:
        predictions: `SentencePredictions` of `sentence_predictions`.

    Returns:
        float array `(time, time)`: entry `[t, i]` is the weight of
        `predictions.read[i]` as `predictions.next[t]` is predicted; zero where
        the memory does not hold that word.

    Example:

    >>> weights = memlm_keras.analysis.attention_by_word(found)
    """
    time, _ = predictions.weights.shape
    weights = np.zeros((time, time), predictions.weights.dtype)
    for slot, distance in enumerate(predictions.distances):
        steps = np.arange(distance - 1, time)
        weights[steps, steps + 1 - distance] = predictions.weights[steps, slot]
    return weights


def plot_sentence_attention(predictions, path, title=None):
    """Draws the attention along one sentence, of models side by side, as PNG.

    Salton et al. (2017), Figures 2 and 3: the input words from left to right,
    the predicted words from top to bottom, a panel for each model. The weight
    of a word stands in its square, but for weights that are 0 or 1.

    Args:
        predictions: dict by title of `SentencePredictions` of the same
            sentence, such as `{"combined": ..., "single": ...}`.
        path: path of the PNG file.
        title: optional string.

    Raises:
        ValueError: if there is nothing to draw, or the sentences differ.

    Example:

    >>> memlm_keras.analysis.plot_sentence_attention(
    ...     {"combined": found, "single": of_another_model}, "sentence.png"
    ... )
    """
    read = _one_sentence(predictions)
    time = len(read)
    size = 1.2 + 0.42 * time
    figure, panels = output.subplots(
        size * len(predictions) + 0.8, size, 1, len(predictions), squeeze=False
    )
    for axes, (name, found) in zip(panels[0], predictions.items()):
        weights = attention_by_word(found)
        image = axes.imshow(weights, cmap="Greys", vmin=0.0, vmax=1.0)
        for step, word in np.ndindex(time, time):
            number = f"{weights[step, word]:.2f}"
            if number not in ("0.00", "1.00"):
                axes.text(
                    word,
                    step,
                    number.removeprefix("0"),
                    ha="center",
                    va="center",
                    fontsize=6,
                    color="white" if weights[step, word] > 0.5 else "black",
                )
        axes.set_xticks(
            range(time), map(output.literal, read), rotation=90, fontsize=8
        )
        axes.set_yticks(
            range(time), map(output.literal, found.next), fontsize=8
        )
        axes.set(xlabel="input word", ylabel="predicted word", title=name)
    figure.colorbar(image, ax=panels[0], label="attention weight", shrink=0.8)
    if title:
        figure.suptitle(title)
    output.save(figure, path)


def _one_sentence(predictions):
    sentences = {found.read for found in predictions.values()}
    if len(sentences) != 1:
        received = "; ".join(" ".join(words) for words in sorted(sentences))
        raise ValueError(
            "`predictions` must be of one sentence, by one or more models. "
            f"Received: {received or predictions}"
        )
    return sentences.pop()

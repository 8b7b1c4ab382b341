"""Shows predictions and attention for one sentence, as in Tran et al. (2016),
Figure 5, and Salton et al. (2017), Figures 2 and 3."""

import dataclasses
import importlib.resources
import json

import keras
import numpy as np

from memlm_keras import files
from memlm_keras.analysis import pictures
from memlm_keras.analysis.attention import slot_distances
from memlm_keras.arguments import require_positive_integer
from memlm_keras.arguments import require_streaming
from memlm_keras.arguments import require_vocabulary


@dataclasses.dataclass(frozen=True, eq=False)
class SentencePredictions:
    """A model's predictions and attention at each step of a sentence.

    Attributes:
        read: Tuple of `time` strings, the token read at each step; the first
            is the end-of-sentence token.
        next: Tuple of `time` strings, the next token in the sentence.
        next_log_probabilities: float64 array `(time,)`, natural-log
            probability of the next token.
        top: Tuple of `time` tuples of strings, the most probable next tokens
            in descending order.
        top_log_probabilities: float64 array `(time, top)`, natural-log
            probabilities of these tokens.
        weights: float32 array `(time, memory)`, oldest slot first.
        distances: Integer array `(memory,)`, number of words from each slot's
            word to the predicted word.
    """

    read: tuple
    next: tuple
    next_log_probabilities: np.ndarray
    top: tuple
    top_log_probabilities: np.ndarray
    weights: np.ndarray
    distances: np.ndarray


def sentence_predictions(model, sentence, vocabulary=None, top=5):
    """Computes the most probable next words and the attention at each step.

    See Tran et al. (2016), Figure 5. The sentence is read from the initial
    state, and its end is predicted after its last word.

    Args:
        model: `memlm_keras.LanguageModel` with a memory that attends.
        sentence: String or list of words, without an end-of-sentence token.
        vocabulary: `Vocabulary`; `None` uses the model's own.
        top: Integer, number of most probable words; ties go to lower ids.

    Raises:
        ValueError: The model has no memory that attends, the model is not
            causal, the vocabulary has another size, the sentence has no words,
            or `top` is larger than the vocabulary.

    Example:

    >>> found = memlm_keras.analysis.sentence_predictions(
    ...     lm, "the man was born in york", corpus.vocabulary
    ... )
    >>> found.read[0], found.next[0], len(found.top[0])
    ('<eos>', 'the', 5)
    """
    from scipy import special

    vocabulary = require_vocabulary(model, vocabulary)
    require_positive_integer("top", top)
    require_streaming("`sentence_predictions`", model)
    if top > len(vocabulary):
        raise ValueError(
            f"`top` must be at most {len(vocabulary)}, the size of the "
            f"vocabulary. Received: top={top}"
        )
    words = vocabulary.encode(sentence)
    if not len(words):
        raise ValueError(
            "`sentence` must hold at least one word. Received: "
            f"sentence={sentence!r}"
        )
    end = [vocabulary.end_of_sentence_id]
    tokens = np.concatenate([end, words, end]).astype("int32")
    read, following = tokens[:-1], tokens[1:]
    weights = model.attention(read[None])[0]
    logits, _ = model.step(read[None], model.initial_state(1))
    logits = keras.ops.convert_to_numpy(keras.ops.cast(logits, "float32"))
    scores = special.log_softmax(logits[0].astype("float64"), axis=-1)
    best = np.argsort(-scores, axis=-1, kind="stable")[:, :top]
    return SentencePredictions(
        tuple(vocabulary.decode(read)),
        tuple(vocabulary.decode(following)),
        scores[np.arange(len(read)), following],
        tuple(tuple(vocabulary.decode(row)) for row in best),
        np.take_along_axis(scores, best, axis=-1),
        weights,
        slot_distances(model, weights.shape[-1]),
    )


def plot_sentence_predictions(predictions, path, title=None):
    """Draws `SentencePredictions` and their attention as a PNG file.

    As in Tran et al. (2016), Figure 5, each row shows a step, with the word
    just read on the left and the most probable next words with their
    natural-log probabilities on the right. The actual next word is framed.

    Example:

    >>> memlm_keras.analysis.plot_sentence_predictions(
    ...     predictions, "sentence.png"
    ... )
    """
    time, memory = predictions.weights.shape
    top = predictions.top_log_probabilities.shape[-1]
    widths = [0.7 * memory, 1.3 * top]
    figure, (left, right) = pictures.subplots(
        2 + sum(widths), 1.2 + 0.3 * time, 1, 2, width_ratios=widths
    )
    left.imshow(
        predictions.weights, cmap="Blues", vmin=0.0, vmax=1.0, aspect="auto"
    )

    def word_at(step, slot):
        place = step + 1 - predictions.distances[slot]
        return pictures.literal(predictions.read[place]) if place >= 0 else ""

    pictures.label_cells(left, predictions.weights, 0.6, word_at)
    pictures.label_words(left, rows=predictions.read)
    left.set_xticks(range(memory), predictions.distances)
    left.set_xlabel("words before the predicted one")
    left.set_ylabel("word just read")

    right.set(xlim=(-0.5, top - 0.5), ylim=left.get_ylim(), yticks=[])
    right.set_xticks(range(top), range(1, top + 1))
    right.set_xlabel("most probable next words, natural-log probability")
    for step, rank in np.ndindex(time, top):
        word = predictions.top[step][rank]
        score = predictions.top_log_probabilities[step, rank]
        follows = word == predictions.next[step]
        right.text(
            rank,
            step,
            f"{pictures.literal(word)} {score:.2f}",
            weight="bold" if follows else "normal",
            bbox={"fill": False, "pad": 1.5} if follows else None,
            ha="center",
            va="center",
            fontsize=7,
        )
    if title:
        figure.suptitle(title)
    pictures.save(figure, path)


def write_sentence_predictions(predictions, path):
    """Writes `SentencePredictions` as a CSV file with one line per step.

    The columns are `read`, `next`, `next_log_probability`; `word_1`,
    `log_probability_1` and so on for each rank; and for each slot `attention_`
    followed by its distance to the predicted word.

    Example:

    >>> memlm_keras.analysis.write_sentence_predictions(
    ...     predictions, "sentence.csv"
    ... )
    """
    table = {
        "read": predictions.read,
        "next": predictions.next,
        "next_log_probability": predictions.next_log_probabilities.tolist(),
    }
    scores = predictions.top_log_probabilities.T.tolist()
    for rank, words in enumerate(zip(*predictions.top), start=1):
        table[f"word_{rank}"] = words
        table[f"log_probability_{rank}"] = scores[rank - 1]
    for distance, weights in zip(predictions.distances, predictions.weights.T):
        table[f"attention_{distance}"] = weights.tolist()
    files.write_csv(path, table, zip(*table.values()))


def attention_by_word(predictions):
    """Computes a matrix of attention weights between the words of a sentence.

    Args:
        predictions: `SentencePredictions` from `sentence_predictions`.

    Returns:
        Float array `(time, time)`: entry `[t, i]` is the weight of
        `predictions.read[i]` when `predictions.next[t]` is predicted, or 0 if
        the memory does not hold that word.

    Example:

    >>> memlm_keras.analysis.attention_by_word(predictions).shape
    (7, 7)
    """
    time = len(predictions.weights)
    weights = np.zeros((time, time), predictions.weights.dtype)
    for slot, distance in enumerate(predictions.distances):
        steps = np.arange(distance - 1, time)
        weights[steps, steps + 1 - distance] = predictions.weights[steps, slot]
    return weights


def plot_sentence_attention(predictions, path, title=None):
    """Draws several models' attention for one sentence as a PNG file.

    As in Salton et al. (2017), Figures 2 and 3, there is one panel per model,
    with input words from left to right and predicted words from top to bottom.
    Each square shows its weight, unless the weight rounds to 0 or 1.

    Args:
        predictions: Dict from titles to `SentencePredictions` for the same
            sentence, such as `{"combined": ..., "single": ...}`.

    Raises:
        ValueError: The dict is empty, or the sentences differ.

    Example:

    >>> memlm_keras.analysis.plot_sentence_attention(
    ...     {"key-value-predict": predictions}, "sentence.png"
    ... )
    """
    sentences = {each.read for each in predictions.values()}
    if len(sentences) != 1:
        received = "; ".join(" ".join(words) for words in sorted(sentences))
        raise ValueError(
            "`predictions` must be models' predictions for one sentence. "
            f"Received: {received or predictions}"
        )
    (read,) = sentences
    size = 1.2 + 0.42 * len(read)
    figure, panels = pictures.subplots(
        size * len(predictions) + 0.8, size, 1, len(predictions), squeeze=False
    )
    for axes, (name, prediction) in zip(panels[0], predictions.items()):
        weights = attention_by_word(prediction)
        image = axes.imshow(weights, cmap="Greys", vmin=0.0, vmax=1.0)

        def label(step, word, weights=weights):
            number = f"{weights[step, word]:.2f}"
            return "" if number in ("0.00", "1.00") else number[1:]

        pictures.label_cells(axes, weights, 0.5, label, fontsize=6)
        pictures.label_words(axes, read, prediction.next)
        axes.set(xlabel="input word", ylabel="predicted word", title=name)
    figure.colorbar(image, ax=panels[0], label="attention weight", shrink=0.8)
    if title:
        figure.suptitle(title)
    pictures.save(figure, path)


# === HTML page ===


def write_sentence_page(predictions, path, title="Attention"):
    """Writes `SentencePredictions` and their attention as an HTML page.

    The page is a single file without external resources. Pointing at a word
    shows its probability, the most probable words, and the attention weights
    with which it is predicted. Each weight is shown with the mean weight at
    the same distance from the predicted word, over all words of the sentence.
    `page.html#3` opens the page at the third word.

    Raises:
        ValueError: A weight or probability is not finite.

    Example:

    >>> memlm_keras.analysis.write_sentence_page(predictions, "sentence.html")
    """
    folder = importlib.resources.files("memlm_keras.analysis")
    page = (folder / "sentence_page.html").read_text(encoding="utf-8")
    data = {
        "title": title,
        "read": predictions.read,
        "next": predictions.next,
        "next_log_probabilities": predictions.next_log_probabilities.tolist(),
        "top": predictions.top,
        "top_log_probabilities": predictions.top_log_probabilities.tolist(),
        "weights": np.round(predictions.weights, 6).tolist(),
        "by_word": attention_by_word(predictions).round(6).tolist(),
        "mean": predictions.weights.mean(axis=0).round(6).tolist(),
        "distances": predictions.distances.tolist(),
    }
    # Words such as "</script>" must not end the script.
    data = json.dumps(data, allow_nan=False).replace("<", "\\u003c")
    files.write_text(path, page.replace("{data}", data))

"""A page on which a sentence shows where a model looked back."""

import importlib.resources
import json

import numpy as np

from memlm_keras import files
from memlm_keras.analysis.sentence_predictions import attention_by_word

_TEMPLATE = "sentence_page.html"


def write_sentence_page(predictions, path, title="Attention"):
    """Writes a sentence with its attention and predictions as an HTML page.

    The page is one file that loads nothing from anywhere. Pointing at a word
    shows where the model looked back as it predicted that word, how probable it
    was beside the most probable ones, and the weights by distance beside their
    means. `page.html#3` opens it at the third word.

    Args:
        predictions: `SentencePredictions` of `sentence_predictions`.
        path: path of the HTML file.
        title: string.

    Raises:
        ValueError: if a weight or probability is not finite.

    Example:

    >>> memlm_keras.analysis.write_sentence_page(predictions, "sentence.html")
    """
    page = importlib.resources.files("memlm_keras.analysis") / _TEMPLATE
    data = json.dumps(_data(predictions, title), allow_nan=False)
    # A word may be "</script>".
    data = data.replace("<", "\\u003c")
    with files.atomic_path(path) as temporary:
        temporary.write_text(
            page.read_text(encoding="utf-8").replace("{data}", data),
            encoding="utf-8",
        )


def _data(predictions, title):
    return {
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

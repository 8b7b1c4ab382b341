"""Back-off n-gram models, whoever estimated them, and their files."""

import dataclasses
import json

import keras
import numpy as np

from memlm_keras.files import atomic_path
from memlm_keras.files import reading
from memlm_keras.ngrams.counts import END_OF_SENTENCE
from memlm_keras.ngrams.counts import NGramTable
from memlm_keras.ngrams.counts import contexts_of
from memlm_keras.ngrams.counts import find
from memlm_keras.ngrams.scorer import Scorer
from memlm_keras.ngrams.scorer import token_ids

FORMAT_VERSION = 1
# Tokens scored at once, which bounds the memory that a long text takes.
_CHUNK_TOKENS = 2**18


class BackoffModel(Scorer):
    """An n-gram model in back-off form, as ARPA files have it.

    The probability of a word w after a context c is

        p(w | c) = the one stored for (c, w), if there is one
                   backoff(c) p(w | c without its first word), otherwise

    where backoff(c) is 1 if c is not stored.

    Models come from `KneserNey`, `load` and `read_arpa`.

    Args:
        vocabulary_size: integer.
        sentence_boundaries: boolean, whether a context ends with its line.
        tables: list of `NGramTable`, from order 1 on, or `None` for a model
            that has yet to be trained.

    Example:

    >>> memlm_keras.ngrams.write_arpa(
    ...     kneser_ney, "kn5.arpa", corpus.vocabulary
    ... )
    >>> model = memlm_keras.ngrams.read_arpa("kn5.arpa", corpus.vocabulary)
    >>> model.score(corpus.test).shape == corpus.test.tokens.shape
    True
    """

    before = (END_OF_SENTENCE,)

    def __init__(self, vocabulary_size, sentence_boundaries=True, tables=None):
        self.vocabulary_size = vocabulary_size
        self.sentence_boundaries = sentence_boundaries
        self.tables = tables
        self.found_discounts = None

    @property
    def order(self):
        """Length of the longest n-grams."""
        return len(self.tables)

    @property
    def context_length(self):
        """Tokens that the next one depends on."""
        return self.order - 1

    @property
    def num_ngrams(self):
        """Tuple of integers: how many n-grams each order has."""
        return tuple(table.keys.size for table in self.tables)

    @property
    def description(self):
        """String that names the model in a protocol."""
        return f"back-off model of order {self.order}, {self._contexts()}"

    def _contexts(self):
        if self.sentence_boundaries:
            return "context cut at each <eos>"
        return "context carried through the text"

    def score(self, text, verbose=0):
        """Natural-log probability of each token, as `Scorer` has it.

        An end of sentence is taken to stand before the text. The text is
        read in chunks, so memory beyond the result does not depend on its
        length.

        Raises:
            ValueError: as of `Scorer`, and if the model is not trained.

        Example:

        >>> kneser_ney.score(corpus.vocabulary.encode("the cat")).shape
        (2,)
        """
        self.require_trained()
        tokens = token_ids(text, self.vocabulary_size)
        scores = np.empty(tokens.size)
        progress = keras.utils.Progbar(
            tokens.size, verbose=verbose, unit_name="token"
        )
        for begin in range(0, tokens.size, _CHUNK_TOKENS):
            end = min(begin + _CHUNK_TOKENS, tokens.size)
            first = begin - (self.order - 1)
            if first >= 0:
                before = tokens[first:begin]
            else:
                before = np.concatenate([[END_OF_SENTENCE], tokens[:begin]])
            chunk = np.concatenate([before, tokens[begin:end]])
            scores[begin:end] = self._score(chunk)[before.size :]
            progress.update(end)
        return scores

    def _score(self, tokens):
        scores = self.tables[0].log_probabilities[tokens]
        for table, below, contexts, ngrams in self._longer_ngrams(tokens):
            known = contexts >= 0
            scores[known] += below.log_backoffs[contexts[known]]
            found = ngrams >= 0
            scores[found] = table.log_probabilities[ngrams[found]]
        return scores

    def _longer_ngrams(self, tokens):
        """Finds the n-grams of a text, order by order from 2 on.

        Args:
            tokens: integer array `(..., time)`, each row read by itself.

        Yields:
            The table of the order, the one below, and integer arrays
            `(..., time)`: the place of the context of each token in the table
            below, and of the n-gram that ends with it, -1 for none.
        """
        # Places are -1 where there is none.
        ngrams = tokens = tokens.astype("int64")
        for order in range(2, self.order + 1):
            below, table = self.tables[order - 2 : order]
            contexts = contexts_of(
                ngrams, tokens, order - 1, self.sentence_boundaries
            )
            ngrams = find(table.keys, contexts, tokens, self.vocabulary_size)
            yield table, below, contexts, ngrams

    def log_probabilities(self, contexts):
        """Natural-log probability of every word, as `Scorer` has it.

        A context is read from its last end of sentence on, if the model has
        sentence boundaries. One that holds no end of sentence is not taken
        to begin a line: `[[]]` gives the probabilities of single words.

        Raises:
            ValueError: as of `Scorer`, and if the model is not trained.

        Example:

        >>> after_the = kneser_ney.log_probabilities([[vocabulary["the"]]])
        >>> np.exp(after_the).sum(axis=-1).round(6).tolist()
        [1.0]
        """
        self.require_trained()
        contexts = token_ids(contexts, self.vocabulary_size, "contexts", 2)
        result = np.tile(self.tables[0].log_probabilities, (len(contexts), 1))
        # Any word may stand in the place of the one to predict: only its
        # contexts are looked at.
        tokens = np.pad(contexts, ((0, 0), (0, 1)))
        for table, below, places, _ in self._longer_ngrams(tokens):
            for row, place in enumerate(places[:, -1]):
                if place >= 0:
                    self._lengthen(result[row], table, below, place)
        return result

    def _lengthen(self, row, table, below, context):
        """Makes the distribution of one context that of a longer one."""
        row += below.log_backoffs[context]
        first = context * self.vocabulary_size
        begin, end = np.searchsorted(
            table.keys, [first, first + self.vocabulary_size]
        )
        row[table.keys[begin:end] - first] = table.log_probabilities[begin:end]

    def save(self, path):
        """Writes the model, whole or not at all; `load` reads it.

        Args:
            path: path of the file, by custom `.npz`. It takes 24 bytes for
                each n-gram.

        Raises:
            OSError: the folder cannot be written.
            ValueError: the model is not trained.

        Example:

        >>> kneser_ney.save("runs/kn5.npz")
        """
        self.require_trained()
        arrays = {
            f"{name}_{order}": value
            for order, table in enumerate(self.tables, start=1)
            for name, value in vars(table).items()
        }
        config = {
            "format_version": FORMAT_VERSION,
            "class_name": type(self).__name__,
            "order": self.order,
            "config": self.get_config(),
            "found_discounts": self.found_discounts,
        }
        with atomic_path(path) as temporary, open(temporary, "wb") as file:
            np.savez(file, config=json.dumps(config), **arrays)

    def get_config(self):
        """Arguments of the model, all but its tables."""
        return {
            "vocabulary_size": self.vocabulary_size,
            "sentence_boundaries": self.sentence_boundaries,
        }

    @classmethod
    def from_config(cls, config):
        """A model of the same arguments, without tables."""
        return cls(**config)

    def require_trained(self):
        """Raises `ValueError` for a model that has no tables yet."""
        if self.tables is None:
            raise ValueError(
                "The model must be trained before it is used: call "
                "`fit(text)` first."
            )


def load(path):
    """Reads a model that `save` wrote.

    Args:
        path: path of the file.

    Returns:
        `KneserNey` or `BackoffModel`, as it was saved.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: it is damaged, or something else.

    Example:

    >>> kneser_ney.save("runs/kn5.npz")
    >>> kneser_ney = memlm_keras.ngrams.load("runs/kn5.npz")
    """
    remedy = "Train it anew, or put an intact copy in its place."
    with (
        reading(path, "n-gram model", remedy),
        np.load(path, allow_pickle=False) as file,
    ):
        saved = json.loads(str(file["config"]))
        if saved["format_version"] != FORMAT_VERSION:
            raise ValueError(
                f"it is of format {saved['format_version']}, and this package "
                f"reads format {FORMAT_VERSION}"
            )
        classes = (BackoffModel, *BackoffModel.__subclasses__())
        classes = {each.__name__: each for each in classes}
        model = classes[saved["class_name"]].from_config(saved["config"])
        names = [field.name for field in dataclasses.fields(NGramTable)]
        model.tables = [
            NGramTable(*(file[f"{name}_{order}"] for name in names))
            for order in range(1, saved["order"] + 1)
        ]
        model.found_discounts = saved["found_discounts"]
    return model

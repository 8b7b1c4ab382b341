"""N-gram models in back-off form, with their tables and files."""

import abc
import dataclasses
import json

import keras
import numpy as np

from memlm_keras.arguments import require_integers
from memlm_keras.data.batches import concatenate_batches
from memlm_keras.data.text_store import Split
from memlm_keras.evaluation.perplexity import Perplexity
from memlm_keras.files import atomic_path
from memlm_keras.files import reading

# With sentence boundaries, this id stands for <s> as the first word in an
# n-gram and for </s> as the last word.
END_OF_SENTENCE = 0
FORMAT_VERSION = 1
_CHUNK_TOKENS = 2**18

# === Tables ===


@dataclasses.dataclass(frozen=True, eq=False)
class NGramTable:
    """All n-grams of one order in a back-off model, as arrays `(ngrams,)`."""

    # Sorted. The key of an n-gram is the index of its first n - 1 words among
    # the (n - 1)-grams, times `vocabulary_size`, plus the last word's id. The
    # key of a 1-gram is the word's id.
    keys: np.ndarray
    log_probabilities: np.ndarray
    log_backoffs: np.ndarray  # An entry is 0 if nothing follows the n-gram.


def find(keys, prefixes, words, vocabulary_size):
    """Returns the indices of n-grams in the sorted `keys`, or -1. `prefixes`
    are the indices of each n-gram's first n - 1 words among (n - 1)-grams."""
    if not keys.size:
        return np.full(prefixes.shape, -1)
    searched = prefixes.astype("int64") * vocabulary_size + words
    places = np.searchsorted(keys, searched)
    places[places == keys.size] = 0
    return np.where(keys[places] == searched, places, -1)


def contexts_of(ngrams, tokens, order, sentence_boundaries):
    """Returns the index of each token's context, an n-gram, or -1. `ngrams`,
    `(..., time)`, has the index of the n-gram that ends at each token."""
    ends = ngrams[..., :-1]
    if sentence_boundaries and order > 1:
        ends = np.where(tokens[..., :-1] == END_OF_SENTENCE, -1, ends)
    none = np.full((*tokens.shape[:-1], 1), -1, ends.dtype)
    return np.concatenate([none, ends], axis=-1)


def words_of(tables, order, vocabulary_size):
    """Returns the words in the n-grams of an order, int32 `(ngrams, order)`."""
    keys = tables[order - 1].keys
    last = (keys % vocabulary_size).astype("int32")[:, None]
    if order == 1:
        return last
    first = words_of(tables, order - 1, vocabulary_size)
    return np.concatenate([first[keys // vocabulary_size], last], axis=1)


def token_ids(text, vocabulary_size, name="text", ndim=1):
    """Returns the token ids of a `Split` or array, which may be empty."""
    return require_integers(name, text, ndim, vocabulary_size, minimum_size=0)


# === Scores ===


def require_end_of_sentence(name, value):
    """Raises `ValueError` unless `value` ends sentences as n-gram models do."""
    if value.end_of_sentence_id != END_OF_SENTENCE:
        raise ValueError(
            f"`{name}` must end sentences with the id {END_OF_SENTENCE}, as "
            "n-gram models do. Received: end_of_sentence_id="
            f"{value.end_of_sentence_id}"
        )


class Scorer(abc.ABC):
    """Base class for models that give each token in a text a probability.

    Subclasses set `vocabulary_size` and define `score`, `log_probabilities` and
    `description`. `memlm_keras.evaluation.perplexity`, `cloze_accuracy` and
    `surprisal` accept a `Scorer` in place of a `memlm_keras.LanguageModel`.

    Attributes:
        before: Tuple of token ids that are assumed before a text.
        context_length: Integer, number of previous tokens that a score uses.
    """

    causal = True
    end_of_sentence_id = END_OF_SENTENCE
    before = ()
    context_length = 0

    @abc.abstractmethod
    def score(self, text, verbose=0):
        """Computes the natural-log probability of each token in a text.

        Args:
            text: `memlm_keras.data.Split`, or integers `(tokens,)`.

        Returns:
            float64 array `(tokens,)`.

        Raises:
            ValueError: The text is not one-dimensional, or an id is not in the
                vocabulary.
        """

    @abc.abstractmethod
    def log_probabilities(self, contexts):
        """Computes natural-log probabilities of all words after each context.

        Args:
            contexts: Integers `(contexts, length)`, the tokens before the
                predicted one, in the order of the text. `length` may be 0.

        Returns:
            float64 array `(contexts, vocabulary_size)`.

        Raises:
            ValueError: `contexts` has another shape, or an id is not in the
                vocabulary.
        """

    def log_probabilities_at(self, text, begin, end):
        """Computes the natural-log probability of every word at some positions.

        Args:
            text: See `score`; it is read as one document.
            begin, end: Integers, first position and end of the slice.

        Returns:
            float64 array `(end - begin, vocabulary_size)`. In row i, the entry
            of the word at position `begin + i` is the word's `score`.

        Example:

        >>> rows = kneser_ney.log_probabilities_at(corpus.test, 5, 7)
        >>> tokens = corpus.test.tokens[5:7]
        >>> np.allclose(
        ...     rows[[0, 1], tokens], kneser_ney.score(corpus.test)[5:7]
        ... )
        True
        """
        tokens = token_ids(text, self.vocabulary_size)[:end]
        tokens = np.concatenate([self.before, tokens]).astype("int64")
        length, offset = self.context_length, len(self.before)
        # Contexts near the beginning of the text are shorter.
        full = min(max(begin, length - offset), end)
        rows = [np.empty((0, self.vocabulary_size))]
        rows += [
            self.log_probabilities(tokens[None, : place + offset])
            for place in range(begin, full)
        ]
        if full < end:
            ends = np.arange(full, end)[:, None] + offset
            contexts = tokens[ends - length + np.arange(length)]
            rows.append(self.log_probabilities(contexts))
        return np.concatenate(rows)

    @property
    @abc.abstractmethod
    def description(self):
        """String that describes the model in reports."""

    def score_batches(self, batches, verbose=0):
        """Computes the natural-log probability of every target in batches.

        The context of a target begins at the last `reset` of its row.

        Args:
            batches: `Batches` or `SentenceBatches` with `end_of_sentence_id=0`.

        Returns:
            `(scores, sample_weight)`, float64 and float32 arrays `(batches *
            batch_size, longest time)`. Ignore scores with weight 0.

        Raises:
            ValueError: See `score`; or `end_of_sentence_id` is not 0.

        Example:

        >>> scores, sample_weight = kneser_ney.score_batches(
        ...     corpus.batches("test", batch_size=1, segment_length=100)
        ... )
        """
        require_end_of_sentence("batches", batches)
        inputs, targets, weights = zip(*batches)
        targets, weights = concatenate_batches(zip(targets, weights))
        # (batches, rows, time): a row continues in the next batch.
        shape = (len(inputs), -1, targets.shape[1])
        targets, weights = targets.reshape(shape), weights.reshape(shape)
        first = np.stack([arrays["token_ids"][:, 0] for arrays in inputs])
        reset = np.stack([arrays["reset"] for arrays in inputs])
        documents = batches.has_documents and batches.context_of == "document"
        scores = np.zeros(targets.shape)
        progress = keras.utils.Progbar(
            batches.num_tokens, verbose=verbose, unit_name="token"
        )
        for row in range(targets.shape[1]):
            begins = np.union1d([0], np.flatnonzero(reset[:, row]))
            for begin, end in zip(begins, [*begins[1:], len(targets)]):
                counted = weights[begin:end, row] > 0
                tokens = targets[begin:end, row][counted]
                # `score` itself assumes an end-of-sentence token before a text.
                context = first[[begin], row]
                context = context[context != END_OF_SENTENCE]
                text = np.concatenate([context, tokens]).astype("int32")
                if documents:
                    text = Split(text, np.zeros(1, "int64"))
                scores[begin:end, row][counted] = self.score(text)[
                    context.size :
                ]
                progress.add(tokens.size)
        time = targets.shape[-1]
        return scores.reshape(-1, time), weights.reshape(-1, time)

    def perplexity(self, text, verbose=1):
        """Computes the perplexity of a text, including end-of-sentence tokens.

        Args:
            text: See `score`; at least one token.
            verbose: 0 prints nothing, 1 a progress bar and the result.

        Returns:
            `memlm_keras.evaluation.Perplexity`.

        Example:

        >>> result = kneser_ney.perplexity(corpus.test)
        """
        scores = self.score(text, verbose=verbose)
        if not scores.size:
            raise ValueError("`text` must have a token. Received: none")
        result = Perplexity(
            loss=-float(scores.sum()),
            predicted_tokens=scores.size,
            total_tokens=scores.size,
            protocol=(
                "protocol standard: natural logarithm, every token with <eos> "
                f"predicted once; {self.description}"
            ),
        )
        if verbose:
            print(result)
        return result


# === Models ===


class BackoffModel(Scorer):
    """N-gram model in back-off form, as in ARPA files.

    The probability of a word w after a context c is

        p(w | c) = the stored probability of (c, w), if there is one
                   backoff(c) p(w | c without its first word), otherwise

    where backoff(c) is 1 if c is not stored. `KneserNey`, `load` and
    `read_arpa` make such models.

    Args:
        sentence_boundaries: Boolean, whether contexts stay within a sentence.
        tables: List of `NGramTable` from order 1; `None` before training.

    Example:

    >>> kneser_ney.score(corpus.test).shape == corpus.test.tokens.shape
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
        return self.order - 1

    @property
    def num_ngrams(self):
        """Tuple of integers, the number of n-grams in each order."""
        return tuple(table.keys.size for table in self.tables)

    @property
    def description(self):
        return f"back-off model of order {self.order}, {self._contexts()}"

    def _contexts(self):
        if self.sentence_boundaries:
            return "context cut at each <eos>"
        return "context carried through the text"

    def score(self, text, verbose=0):
        # Reading in chunks limits the memory for a long text.
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
            values = self.tables[0].log_probabilities[chunk]
            for table, below, contexts, ngrams in self._longer_ngrams(chunk):
                known = contexts >= 0
                values[known] += below.log_backoffs[contexts[known]]
                known = ngrams >= 0
                values[known] = table.log_probabilities[ngrams[known]]
            scores[begin:end] = values[before.size :]
            progress.update(end)
        return scores

    def _longer_ngrams(self, tokens):
        """Yields a tuple for each n from 2 on: `table` and `below`, the tables
        of n-grams and of (n - 1)-grams; `contexts`, the index in `below` of
        each token's context; and `ngrams`, the index in `table` of the n-gram
        that ends with each token. An index is -1 if the table has no entry."""
        ngrams = tokens = tokens.astype("int64")
        for order in range(2, self.order + 1):
            below, table = self.tables[order - 2 : order]
            contexts = contexts_of(
                ngrams, tokens, order - 1, self.sentence_boundaries
            )
            ngrams = find(table.keys, contexts, tokens, self.vocabulary_size)
            yield table, below, contexts, ngrams

    def log_probabilities(self, contexts):
        """Implements `Scorer.log_probabilities`. No token is assumed before a
        context, so for `[[]]` the result is the probabilities of 1-grams.

        Example:

        >>> after_the = kneser_ney.log_probabilities([[vocabulary["the"]]])
        >>> np.exp(after_the).sum(axis=-1).round(6).tolist()
        [1.0]
        """
        self.require_trained()
        contexts = token_ids(contexts, self.vocabulary_size, "contexts", ndim=2)
        result = np.tile(self.tables[0].log_probabilities, (len(contexts), 1))
        # Append any token, because only the token's context is used.
        tokens = np.pad(contexts, ((0, 0), (0, 1)))
        for table, below, places, _ in self._longer_ngrams(tokens):
            for row, place in zip(result, places[:, -1]):
                if place >= 0:
                    row += below.log_backoffs[place]
                    first = place * self.vocabulary_size
                    begin, end = np.searchsorted(
                        table.keys, [first, first + self.vocabulary_size]
                    )
                    words = table.keys[begin:end] - first
                    row[words] = table.log_probabilities[begin:end]
        return result

    def save(self, path):
        """Writes the model, atomically; `load` reads it.

        Args:
            path: Path of the `.npz` file, which takes 24 bytes per n-gram.

        Raises:
            OSError: The folder cannot be written.
            ValueError: The model is not trained.
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
            np.savez(file, config=json.dumps(config, default=int), **arrays)

    def get_config(self):
        """Returns the model's arguments, without its tables."""
        return {
            "vocabulary_size": self.vocabulary_size,
            "sentence_boundaries": self.sentence_boundaries,
        }

    @classmethod
    def from_config(cls, config):
        """Returns an untrained model with the arguments in `config`."""
        return cls(**config)

    def require_trained(self):
        """Raises `ValueError` if the model has no tables yet."""
        if self.tables is None:
            raise ValueError(
                "The model must be trained before it is used: call "
                "`fit(text)` first."
            )


def load(path):
    """Reads a `KneserNey` or `BackoffModel` from a file written by `save`.

    Raises:
        FileNotFoundError: The file does not exist.
        ValueError: The file is damaged or of another kind.

    Example:

    >>> kneser_ney.save("runs/kn5.npz")
    >>> kneser_ney = memlm_keras.ngrams.load("runs/kn5.npz")
    """
    remedy = "Train it again, or put an intact copy in its place."
    with (
        reading(path, "n-gram model", remedy),
        np.load(path, allow_pickle=False) as file,
    ):
        saved = json.loads(str(file["config"]))
        if saved["format_version"] != FORMAT_VERSION:
            raise ValueError(
                f"the file has format {saved['format_version']}, but this "
                f"version of memlm_keras needs format {FORMAT_VERSION}"
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

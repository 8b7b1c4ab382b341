"""N-grams as sorted numbers, and their counts.

An n-gram is known by its place in the table of its order. A table is sorted by
`key = place of the first n - 1 words * vocabulary_size + last word`, so that a
binary search finds an n-gram, those with the same first words stand together,
and no n-gram is a Python object. The table of order 1 has every word of the
vocabulary, at the place of its id.

With sentence boundaries, an n-gram never goes beyond the line that it ends in.
Then id 0 can be the first word only, where it is the end of the line before and
stands for `<s>`, or the last, where it is `</s>`.
"""

import dataclasses

import numpy as np

END_OF_SENTENCE = 0


@dataclasses.dataclass(frozen=True, eq=False)
class NGramTable:
    """The n-grams of one order, as a back-off model has them.

    Attributes:
        keys: int64 array `(ngrams,)`, sorted.
        log_probabilities: float64 array `(ngrams,)`, natural logarithm of the
            probability of the last word after the others.
        log_backoffs: float64 array `(ngrams,)`, natural logarithm of the
            weight of shorter contexts after these words; 0 where nothing is
            known to follow them, and in the table of the highest order.
    """

    keys: np.ndarray
    log_probabilities: np.ndarray
    log_backoffs: np.ndarray


def find(keys, prefixes, words, vocabulary_size):
    """Finds n-grams in the table of their order.

    Args:
        keys: int64 array `(ngrams,)`, sorted.
        prefixes: integer array, the place of the first words of each n-gram
            in the table of the order below, -1 for none.
        words: integer array of the same shape, the last words.
        vocabulary_size: integer.

    Returns:
        int64 array of the same shape, the place of each n-gram, -1 for none.
    """
    if not keys.size:
        return np.full(prefixes.shape, -1)
    wanted = prefixes.astype("int64") * vocabulary_size + words
    places = np.searchsorted(keys, wanted)
    places[places == keys.size] = 0
    return np.where(keys[places] == wanted, places, -1)


def contexts_of(ngrams, tokens, order, sentence_boundaries):
    """Shifts n-grams to the tokens that they are the context of.

    Args:
        ngrams: integer array `(..., time)`, the place of the n-gram that ends
            at each token, -1 for none.
        tokens: integer array `(..., time)`.
        order: integer, length of these n-grams.
        sentence_boundaries: boolean, whether a context ends with its line.

    Returns:
        Integer array `(..., time)`, the place of the n-gram that ends just
        before each token, -1 for none.
    """
    ends = ngrams[..., :-1]
    if sentence_boundaries and order > 1:
        ends = np.where(tokens[..., :-1] == END_OF_SENTENCE, -1, ends)
    nothing = np.full((*tokens.shape[:-1], 1), -1, ends.dtype)
    return np.concatenate([nothing, ends], axis=-1)


def words_of(tables, order, vocabulary_size):
    """Spells the n-grams of one order out.

    Args:
        tables: list of `NGramTable`, from order 1 on.
        order: integer.
        vocabulary_size: integer.

    Returns:
        int32 array `(ngrams, order)`.
    """
    keys = tables[order - 1].keys
    last = (keys % vocabulary_size).astype("int32")[:, None]
    if order == 1:
        return last
    first = words_of(tables, order - 1, vocabulary_size)
    return np.concatenate([first[keys // vocabulary_size], last], axis=1)


@dataclasses.dataclass(eq=False)
class Counts:
    """The n-grams of one order in a text.

    Attributes:
        keys: int64 array `(ngrams,)`, sorted, as in `tables`.
        suffixes: integer array `(ngrams,)`, the place of the last n - 1 words
            in the order below; for single words, zeros.
        occurrences: integer array `(ngrams,)`, how often each occurs.
        modified: integer array `(ngrams,)`, the counts that are smoothed: for
            the highest order occurrences, below it the number of distinct
            words before the n-gram (Kneser and Ney, 1995),

                N1+(. w_1 .. w_n) = |{v : c(v w_1 .. w_n) > 0}|

            or again occurrences, if the n-gram begins a sentence, where
            nothing comes before it.
    """

    keys: np.ndarray
    suffixes: np.ndarray
    occurrences: np.ndarray
    modified: np.ndarray


def count_ngrams(
    tokens, order, vocabulary_size, sentence_boundaries, update=None
):
    """Counts all n-grams of a text, from single words to a highest order.

    The text is read as if an end of sentence stood before it, which is part
    of n-grams but is no word that occurs.

    The n-grams of one order end where those of the order below ended, which
    makes one sort of the text for each order.

    Args:
        tokens: integer array `(tokens,)`.
        order: integer, length of the longest n-grams.
        vocabulary_size: integer.
        sentence_boundaries: boolean, whether n-grams stay within a line.
        update: function called with each order that was counted, or `None`.

    Returns:
        List of `Counts`, from order 1 on. The first has an entry for every
        word of the vocabulary.
    """
    # 32 bits number the n-grams of all but the longest texts.
    small = np.int32 if tokens.size < np.iinfo(np.int32).max else np.int64
    tokens = np.concatenate([[END_OF_SENTENCE], tokens]).astype(small)
    levels = [_count_words(tokens, vocabulary_size)]
    begins = np.arange(vocabulary_size) == END_OF_SENTENCE
    ngrams = tokens
    for length in range(2, order + 1):
        if update is not None:
            update(length - 1)
        prefixes = contexts_of(ngrams, tokens, length - 1, sentence_boundaries)
        level, ngrams = _count(prefixes, tokens, ngrams, vocabulary_size)
        _count_preceding(levels[-1], level, begins, length - 1)
        begins = begins[level.keys // vocabulary_size] & sentence_boundaries
        levels.append(level)
    if update is not None:
        update(order)
    return levels


def _count_words(tokens, vocabulary_size):
    occurrences = np.bincount(tokens[1:], minlength=vocabulary_size)
    return Counts(
        np.arange(vocabulary_size),
        np.zeros(vocabulary_size, tokens.dtype),
        occurrences,
        occurrences,
    )


def _count(prefixes, tokens, endings, vocabulary_size):
    """Counts the n-grams of one order, and says which ends at each token.

    Args:
        prefixes: integer array `(time,)`, the place of the n - 1 words before
            each token, -1 for none.
        tokens: integer array `(time,)`.
        endings: integer array `(time,)`, the place of the n - 1 words that
            end at each token.
        vocabulary_size: integer.

    Returns:
        Tuple of `Counts` and an integer array `(time,)`, -1 for none.
    """
    there = np.flatnonzero(prefixes >= 0).astype(tokens.dtype)
    keys = prefixes[there].astype("int64") * vocabulary_size + tokens[there]
    keys, inverse, occurrences = np.unique(
        keys, return_inverse=True, return_counts=True
    )
    ngrams = np.full(tokens.size, -1, tokens.dtype)
    ngrams[there] = inverse
    # Wherever an n-gram occurs, the same n - 1 words end there.
    suffixes = np.zeros(keys.size, tokens.dtype)
    suffixes[inverse] = endings[there]
    occurrences = occurrences.astype(tokens.dtype)
    return Counts(keys, suffixes, occurrences, occurrences), ngrams


def _count_preceding(level, longer, begins, length):
    """Sets the counts of an order to numbers of distinct words before it."""
    preceding = np.bincount(longer.suffixes, minlength=level.keys.size)
    preceding = preceding.astype(longer.suffixes.dtype)
    if length > 1:
        preceding = np.where(begins, level.occurrences, preceding)
    level.modified = preceding

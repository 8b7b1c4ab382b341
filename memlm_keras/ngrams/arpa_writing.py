"""Writing ARPA files, which all n-gram toolkits read."""

import math

import keras
import numpy as np

from memlm_keras.files import atomic_path
from memlm_keras.ngrams.tables import END_OF_SENTENCE
from memlm_keras.ngrams.tables import words_of

LN_10 = math.log(10.0)
# What ARPA files have in place of log10(0).
LOG_ZERO = -99.0
BEGIN, END, UNKNOWN = "<s>", "</s>", "<unk>"
_NGRAMS_AT_ONCE = 2**16


def write_arpa(model, path, vocabulary, verbose=1):
    """Writes a back-off model as an ARPA file, whole or not at all.

    An interpolated model is a back-off model whose stored probabilities have
    the lower orders in them, so any reader gives what `model.score` gives, to
    nine digits. With sentence boundaries the end of a sentence is written
    `<s>` where it begins an n-gram and `</s>` where it ends one; without, it
    is a word like others, and a reader must be told that sentences have no
    beginning and no end. The unknown token is written `<unk>`.

    Args:
        model: `memlm_keras.ngrams.BackoffModel`.
        path: path of the file.
        vocabulary: `memlm_keras.data.Vocabulary` of the model's size.
        verbose: 0 or 1, whether to show a progress bar.

    Raises:
        ValueError: if the vocabulary is not the model's, or has a token that
            cannot be written.
        OSError: the folder cannot be written.

    Example:

    >>> kneser_ney.write_arpa("kn5.arpa", corpus.vocabulary)
    """
    if len(vocabulary) != model.vocabulary_size:
        raise ValueError(
            "`vocabulary` must be the one that the model was trained with, of "
            f"{model.vocabulary_size} tokens. Received: one of "
            f"{len(vocabulary)} tokens"
        )
    names = _names(vocabulary, model.sentence_boundaries)
    beginning = int(model.sentence_boundaries)
    progress = keras.utils.Progbar(
        sum(model.num_ngrams), verbose=verbose, unit_name="ngram"
    )
    with (
        atomic_path(path) as temporary,
        open(temporary, "w", encoding="utf-8", newline="\n") as file,
    ):
        file.write("\\data\\\n")
        for order, count in enumerate(model.num_ngrams, start=1):
            count += beginning if order == 1 else 0
            file.write(f"ngram {order}={count}\n")
        for order in range(1, model.order + 1):
            file.write(f"\n\\{order}-grams:\n")
            if order == 1 and beginning:
                _write_beginning(file, model)
            _write_ngrams(file, model, order, names, progress)
        file.write("\n\\end\\\n")


def _names(vocabulary, sentence_boundaries):
    """Returns how each id is written, `<s>` excepted."""
    names = list(vocabulary.tokens)
    reserved = {BEGIN, END, UNKNOWN}
    names[vocabulary.unknown_id] = UNKNOWN
    if sentence_boundaries:
        names[vocabulary.end_of_sentence_id] = END
    for id, name in enumerate(names):
        special = id == vocabulary.unknown_id or (
            sentence_boundaries and id == vocabulary.end_of_sentence_id
        )
        blank = any(space in name for space in " \t\n\r\v\f")
        if blank or (name in reserved and not special):
            raise ValueError(
                f"`vocabulary` has a token that an ARPA file cannot hold. "
                f"Received: {name!r}. Tokens must have no white space, and "
                f"not be one of {sorted(reserved)} unless they are the "
                "unknown token or the end of a sentence."
            )
    return names


def _write_beginning(file, model):
    backoff = model.tables[0].log_backoffs[END_OF_SENTENCE] / LN_10
    # The highest order has none.
    weight = f"\t{backoff:.9g}" if model.order > 1 else ""
    file.write(f"{LOG_ZERO:.9g}\t{BEGIN}{weight}\n")


def _write_ngrams(file, model, order, names, progress):
    table = model.tables[order - 1]
    words = words_of(model.tables, order, model.vocabulary_size)
    first_names = np.array(names, object)
    last_names = first_names
    backoffs = table.log_backoffs / LN_10
    if model.sentence_boundaries:
        if order > 1:
            first_names = first_names.copy()
            first_names[END_OF_SENTENCE] = BEGIN
        # Of `<s>`, which alone is a context, or of nothing.
        backoffs = np.where(words[:, -1] == END_OF_SENTENCE, 0.0, backoffs)
    for begin in range(0, len(words), _NGRAMS_AT_ONCE):
        part = slice(begin, begin + _NGRAMS_AT_ONCE)
        columns = [first_names[column] for column in words[part, :-1].T]
        columns.append(last_names[words[part, -1]])
        probabilities = table.log_probabilities[part] / LN_10
        for probability, backoff, *ngram in zip(
            np.maximum(probabilities, LOG_ZERO).tolist(),
            backoffs[part].tolist(),
            *columns,
        ):
            # Readers take a missing back-off weight for 0.
            weight = f"\t{backoff:.9g}" if backoff else ""
            file.write(f"{probability:.9g}\t{' '.join(ngram)}{weight}\n")
        progress.add(len(columns[-1]))

"""The embedded corpus: generated documents whose perplexity limit is known.

Each document introduces a few people with their names, cities and years, and
asks for these facts again, most often 5 to 60 words later: a reader who
remembers is certain of many tokens that a reader who forgets must guess.
Nothing is downloaded. Sentences and words are in `grammar.py`.

Every token is predicted, `<eos>` included; the first one of a document from an
empty context. Where documents begin is known: no token stands for the end of a
document, as all have the same number of sentences.
"""

import functools
import itertools
import math
from typing import NamedTuple

import numpy as np

from memlm_keras.arguments import require_positive_integer
from memlm_keras.data.corpus import Corpus
from memlm_keras.data.synthetic.grammar import FACTS
from memlm_keras.data.synthetic.grammar import Grammar
from memlm_keras.data.synthetic.grammar import Speaker
from memlm_keras.data.synthetic.grammar import by_chance
from memlm_keras.data.synthetic.grammar import uniforms
from memlm_keras.data.token_store import Split
from memlm_keras.data.vocabulary import Vocabulary

GRAMMAR = Grammar(FACTS)


class Entropy(NamedTuple):
    """Exact expectations of one document.

    Attributes:
        nats: Expected negative natural-log probability.
        tokens: Expected number of tokens, `<eos>` included.
    """

    nats: float
    tokens: float

    @property
    def perplexity(self):
        """Perplexity of the grammar itself, which no model can better."""
        return math.exp(self.nats / self.tokens)


def generate(num_documents, seed, grammar=GRAMMAR):
    """Draws documents, the same ones for a seed on every platform.

    Args:
        num_documents: Number of documents. The first ones do not depend on how
            many follow.
        seed: Integer of at least 0, or list of such integers.
        grammar: `Grammar` to draw from.

    Returns:
        A pair of lists, both of length `num_documents`: documents, each a list
        of tokens; and natural-log probabilities, each a float64 array
        `(tokens,)`.

    Raises:
        ValueError: `num_documents` is negative.

    Example:

    >>> documents, log_probabilities = generate(1, seed=0)
    >>> " ".join(documents[0][:8])
    'john foster was born in wells in 1882'
    """
    if num_documents < 0:
        raise ValueError(
            "`num_documents` must be at least 0. Received: "
            f"num_documents={num_documents}"
        )
    choose = by_chance(uniforms(seed))
    speakers = [Speaker(choose) for _ in range(num_documents)]
    for speaker in speakers:
        grammar.document(speaker)
    documents = [speaker.tokens for speaker in speakers]
    return documents, [np.array(s.log_probabilities) for s in speakers]


def load(
    train_documents=1000, validation_documents=100, test_documents=200, seed=0
):
    """Generates the corpus.

    The default sizes make about 106,000, 10,600 and 21,200 tokens.

    Args:
        train_documents: Number of documents to train on.
        validation_documents: Number of documents to validate on.
        test_documents: Number of documents to test on.
        seed: Integer of at least 0. The splits are drawn independently.

    Returns:
        `memlm_keras.data.Corpus` named "embedded". Its vocabulary is that of
        the grammar, whatever the sample holds.

    Raises:
        ValueError: A number of documents is below 1.
    """
    sizes = {
        "train_documents": train_documents,
        "validation_documents": validation_documents,
        "test_documents": test_documents,
    }
    for name, size in sizes.items():
        require_positive_integer(name, size)
    vocabulary = Vocabulary(GRAMMAR.words)
    splits = []
    for index, size in enumerate(sizes.values()):
        documents, _ = generate(size, [seed, index])
        tokens = vocabulary.encode(itertools.chain.from_iterable(documents))
        lengths = [len(document) for document in documents]
        starts = np.cumsum([0, *lengths[:-1]], dtype=np.int64)
        splits.append(Split(tokens, starts))
    return Corpus("embedded", vocabulary, *splits)


def documents_of(split, vocabulary):
    """Turns a split of the corpus back into text.

    Args:
        split: `Split` with `document_starts`.
        vocabulary: `Vocabulary` that encoded it.

    Returns:
        List of documents, each a list of tokens.

    Example:

    >>> corpus = load()
    >>> limit = optimal_perplexity(documents_of(corpus.test, corpus.vocabulary))
    """
    documents = np.split(np.asarray(split.tokens), split.document_starts[1:])
    return [vocabulary.decode(document) for document in documents]


@functools.cache
def entropy(grammar=GRAMMAR):
    """Computes the exact expected information and length of a document.

    Args:
        grammar: `Grammar` to measure.

    Returns:
        `Entropy`.
    """

    ahead = {}

    def expect(people, left):
        # No more counts of the people than how many they are.
        key = len(people), left
        if key not in ahead:
            ahead[key] = np.zeros(2)
            for start in grammar.starts(people) if left else ():
                speaker = Speaker(_first_but_for(start))
                after = grammar.sentence(speaker, people)
                nats = -math.fsum(speaker.log_probabilities)
                ahead[key] += math.exp(speaker.log_probabilities[0]) * (
                    expect(after, left - 1) + (nats, len(speaker.tokens))
                )
        return ahead[key]

    return Entropy(*expect((), grammar.length).tolist())


def _first_but_for(start):
    """A `choose` of a `Speaker`: `start`, and then whatever comes first."""
    starts = iter([start])
    return lambda weights: next(starts, None) or next(iter(weights))


def optimal_perplexity(documents=None, grammar=GRAMMAR):
    """Computes the perplexity that a perfect model reaches.

    Args:
        documents: `None` for the exact expectation, or a list of documents,
            each a list of tokens, for the perplexity of that very text.
        grammar: `Grammar` that wrote them.

    Returns:
        A float.

    Raises:
        ValueError: The grammar cannot write `documents`, or there are none.
    """
    if documents is None:
        return entropy(grammar).perplexity
    num_tokens = sum(len(document) for document in documents)
    if not num_tokens:
        raise ValueError(
            "`documents` must hold at least one document. Received: none. "
            "Leave it out for the expected perplexity."
        )
    return math.exp(-optimal_log_likelihood(documents, grammar) / num_tokens)


def optimal_log_likelihood(documents, grammar=GRAMMAR):
    """Computes the exact natural-log probability of a text.

    Args:
        documents: List of documents, each a list of tokens.
        grammar: `Grammar` that wrote them.

    Returns:
        A float, the sum over all tokens of all documents.

    Raises:
        ValueError: The grammar cannot write `documents`.
    """
    per_document = (
        log_probabilities(document, grammar) for document in documents
    )
    return math.fsum(itertools.chain.from_iterable(per_document))


def log_probabilities(document, grammar=GRAMMAR):
    """Computes the exact natural-log probability of each token of a document.

    Args:
        document: List of tokens, from the opening to the closing sentence.
        grammar: `Grammar` that wrote it.

    Returns:
        Float64 array `(tokens,)`, each given all tokens before it.

    Raises:
        ValueError: The grammar cannot write `document`.
    """

    def read(weights):
        place = len(speaker.tokens)
        token = document[place] if place < len(document) else "its end"
        if token not in weights:
            raise ValueError(
                "`document` must be one whole text of the grammar. Received: "
                f"{token!r} as token {place}, after "
                f"{' '.join(speaker.tokens[-8:])!r}; the grammar allows one of "
                f"{sorted(weights)}"
            )
        return token

    speaker = Speaker(read)
    grammar.document(speaker)
    place = len(speaker.tokens)
    if place < len(document):
        raise ValueError(
            "`document` must end after its last sentence. Received: "
            f"{document[place]!r} as token {place}, after it; score each "
            "document by itself."
        )
    return np.array(speaker.log_probabilities)

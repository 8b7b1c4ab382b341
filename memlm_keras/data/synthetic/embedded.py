"""The embedded corpus: generated documents whose perplexity limit is known.

Each document introduces people with their names, cities, years and trades, and
later speaks of them again: a reader who remembers is certain of many tokens
that a reader who forgets must guess. Nothing is downloaded. The grammar is in
`grammar.py`, its words in `story.py`, and what is done with it in
`interpreters.py`.

Every token is predicted, `<eos>` included; the first one of a document from an
empty context. Where documents begin is known: no token stands for the end of a
document.
"""

import functools
import itertools
import math
from typing import NamedTuple

import numpy as np

from memlm_keras.arguments import require_positive_integer
from memlm_keras.data.corpus import Corpus
from memlm_keras.data.synthetic.grammar import Grammar
from memlm_keras.data.synthetic.interpreters import Sampler
from memlm_keras.data.synthetic.interpreters import Scorer
from memlm_keras.data.synthetic.interpreters import enumerate_paths
from memlm_keras.data.synthetic.interpreters import uniforms
from memlm_keras.data.synthetic.story import Story
from memlm_keras.data.token_store import Split
from memlm_keras.data.vocabulary import Vocabulary

GRAMMAR = Grammar()


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
    >>> " ".join(documents[0][:12])
    'george dawson was born in bath in 1882 and became a weaver'
    """
    if num_documents < 0:
        raise ValueError(
            "`num_documents` must be at least 0. Received: "
            f"num_documents={num_documents}"
        )
    numbers = uniforms(seed)
    samplers = [Sampler(numbers) for _ in range(num_documents)]
    for sampler in samplers:
        grammar.document(sampler)
    documents = [sampler.tokens for sampler in samplers]
    return documents, [np.array(s.log_probabilities) for s in samplers]


def load(
    train_documents=1250, validation_documents=125, test_documents=125, seed=0
):
    """Generates the corpus.

    The default sizes make about 150,000, 15,000 and 15,000 tokens.

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
    vocabulary = Vocabulary(GRAMMAR.words.all())
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

    def expect(story):
        if story.finished:
            return 0.0, 0.0
        if story.shape not in ahead:
            nats = tokens = 0.0
            for path, after in enumerate_paths(
                lambda c: grammar.sentence(c, story)
            ):
                nats_after, tokens_after = expect(after)
                nats += path.probability * (path.nats + nats_after)
                tokens += path.probability * (len(path.tokens) + tokens_after)
            ahead[story.shape] = nats, tokens
        return ahead[story.shape]

    return Entropy(*expect(Story()))


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
    scorer = Scorer(document)
    grammar.document(scorer)
    scorer.finish()
    return np.array(scorer.log_probabilities)

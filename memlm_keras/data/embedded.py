"""Generates the corpus `"embedded"`, whose documents state facts about people
and ask for the facts later; computes the perplexity of a perfect model."""

import functools
import itertools
import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from memlm_keras.arguments import require_positive_integer
from memlm_keras.data.corpus import Corpus
from memlm_keras.data.text_store import Split
from memlm_keras.data.vocabulary import Vocabulary

_RANDOM_BLOCK = 4096

# In a document, no two people share a first or last name, a city or a year.
FACTS = {
    "first": (
        "albert anna arthur clara david edith flora george grace helen john "
        "martha oliver peter ruth thomas"
    ),
    "last": (
        "barker carter dawson ellis foster harper lowe marsh palmer porter "
        "reid shaw turner walsh wood wright"
    ),
    "city": (
        "bath bristol chester derby dover durham exeter leeds lincoln oxford "
        "ripon swansea truro warwick wells york"
    ),
    "year": (
        "1841 1846 1849 1852 1857 1860 1863 1868 1871 1874 1879 1882 1885 1890 "
        "1893 1898"
    ),
}
INTRODUCTION = "{first} {last} was born in {city} in {year} <eos>".split()
# A reminder repeats facts about a person, whom its first field in braces
# identifies. `REMINDERS` maps the first word of a reminder to all its tokens.
REMINDERS = {
    sentence.split()[0]: sentence.split()
    for sentence in (
        "where was {first} {last} born ? in {city} <eos>",
        "when was {first} {last} born ? in {year} <eos>",
        "who came from {city} ? {first} {last} <eos>",
        "in {year} {first} {last} was born in {city} <eos>",
    )
}


@dataclass(frozen=True, eq=False)
class Grammar:
    """Generates random documents with `length` sentences. A sentence states
    facts about a new person, or repeats facts about a known person."""

    # Every choice is one token, so the probability of a text is the product of
    # its tokens' probabilities. All documents have the same number of
    # sentences, so no token ends them.

    facts: dict  # Maps fields, such as "city", to words joined by spaces.
    min_people: int = 2
    max_people: int = 4
    length: int = 12

    def __post_init__(self):
        require_positive_integer("min_people", self.min_people)
        if not self.min_people <= self.max_people <= self.length:
            raise ValueError(
                "`min_people`, `max_people` and `length` must be ascending, in "
                f"this order. Received: {self}"
            )
        shortest = min(len(words.split()) for words in self.facts.values())
        if shortest < self.max_people or len(set(self.words)) < len(self.words):
            raise ValueError(
                "Each value of `facts` must be a string of at least "
                f"{self.max_people} words. All words must differ, and must not "
                f"occur elsewhere in sentences. Received: {self.facts}"
            )

    @property
    def words(self):
        """Returns the vocabulary in a fixed order, `<eos>` first."""
        spoken = {*INTRODUCTION}.union(*REMINDERS.values())
        plain = sorted(token for token in spoken if not _fact(token))
        return plain + " ".join(self.facts.values()).split()

    def document(self, speaker):
        """Lets a `Speaker` generate a whole document."""
        people = ()
        for _ in range(self.length):
            people = self.sentence(speaker, people)

    def sentence(self, speaker, people):
        """Generates a sentence. Returns `people`, with any new person added."""
        # The function `entropy` generates one sentence for each first word. So
        # the first word must determine the sentence's length and, together with
        # `len(people)`, all probabilities.
        start = speaker.draw(self.starts(people))
        if start in REMINDERS:
            meant = people
            for token in REMINDERS[start][1:]:
                fact = _fact(token)
                if fact:
                    word = speaker.pick([person[fact] for person in meant])
                    meant = [p for p in meant if p[fact] == word]
                else:
                    speaker.pick([token])
            return people
        person = {"first": start}
        for token in INTRODUCTION[1:]:
            fact = _fact(token)
            if fact:
                person[fact] = speaker.pick(self._unused(fact, people))
            else:
                speaker.pick([token])
        return (*people, person)

    def starts(self, people):
        """Returns a dict from words that may start a sentence to weights."""
        weights = {}
        if len(people) >= self.min_people:
            weights = dict.fromkeys(REMINDERS, 1 / len(REMINDERS))
        if len(people) < self.max_people:
            names = self._unused("first", people)
            weights |= dict.fromkeys(names, 0.5 / len(names))
        return weights

    def _unused(self, fact, people):
        used = {person[fact] for person in people}
        return [word for word in self.facts[fact].split() if word not in used]


def _fact(token):
    """Returns `"first"` for the token `"{first}"`, and `None` for a word."""
    return token[1:-1] if token.startswith("{") else None


class Speaker:
    """Generates a text and records its log-probabilities. `choose` takes a dict
    from possible tokens to weights, and returns one of the tokens."""

    def __init__(self, choose):
        self.choose = choose
        self.tokens = []
        self.log_probabilities = []

    def pick(self, tokens):
        """Draws one of `tokens` with equal probabilities."""
        return self.draw(dict.fromkeys(tokens, 1))

    def draw(self, weights):
        """Returns a token from `choose`, and records its log-probability."""
        token = self.choose(weights)
        probability = weights[token] / sum(weights.values())
        self.tokens.append(token)
        self.log_probabilities.append(math.log(probability))
        return token


def uniforms(seed):
    """Yields random numbers in [0, 1) that are the same on every platform."""
    # NumPy guarantees the same raw bits in all versions, but not the numbers
    # that `Generator` computes from them.
    bits = np.random.PCG64(seed)
    while True:
        block = bits.random_raw(_RANDOM_BLOCK) >> np.uint64(11)
        yield from (block * 2.0**-53).tolist()


GRAMMAR = Grammar(FACTS)

# === Documents ===


def generate(num_documents, seed, grammar=GRAMMAR):
    """Returns documents, which are lists of tokens, and the log-probabilities
    of their tokens as arrays. A larger `num_documents` only adds documents."""
    require_positive_integer("num_documents", num_documents, minimum=0)
    numbers = uniforms(seed)

    def choose(weights):
        left = next(numbers) * sum(weights.values())
        for token, weight in weights.items():  # noqa: B007
            left -= weight
            if left < 0:
                break
        # After rounding errors, `left` may stay positive: take the last token.
        return token

    speakers = [Speaker(choose) for _ in range(num_documents)]
    for speaker in speakers:
        grammar.document(speaker)
    documents = [speaker.tokens for speaker in speakers]
    return documents, [np.array(s.log_probabilities) for s in speakers]


def load(
    train_documents=1000, validation_documents=100, test_documents=200, seed=0
):
    """Generates the corpus; by default, its splits have about 106,000, 10,600
    and 21,200 tokens."""
    sizes = {
        "train_documents": train_documents,
        "validation_documents": validation_documents,
        "test_documents": test_documents,
    }
    vocabulary = Vocabulary(GRAMMAR.words)
    splits = []
    for index, (name, size) in enumerate(sizes.items()):
        require_positive_integer(name, size)
        documents, _ = generate(size, [seed, index])
        tokens = vocabulary.encode(itertools.chain.from_iterable(documents))
        lengths = [len(document) for document in documents]
        starts = np.cumsum([0, *lengths[:-1]], dtype=np.int64)
        splits.append(Split(tokens, starts))
    return Corpus("embedded", vocabulary, *splits)


def documents_of(split, vocabulary):
    """Decodes a split into a list of documents, which are lists of tokens."""
    documents = np.split(np.asarray(split.tokens), split.document_starts[1:])
    return [vocabulary.decode(document) for document in documents]


# === Perplexity ===


class Entropy(NamedTuple):
    """Expected negative log-likelihood and length of a random document."""

    nats: float
    tokens: float  # including `<eos>`


@functools.cache
def entropy(grammar=GRAMMAR):
    """Computes the exact `Entropy` of a grammar."""

    @functools.cache
    def expect(count, left):
        # Any names, cities and years give the same entropy: use the first ones.
        people = tuple(
            {fact: words.split()[i] for fact, words in grammar.facts.items()}
            for i in range(count)
        )
        total = np.zeros(2)
        for start in grammar.starts(people) if left else ():
            # All sentences beginning with `start` have one length and
            # probability, so one sentence represents all of them.
            speaker = Speaker(
                lambda weights, start=start: (
                    start if start in weights else next(iter(weights))
                )
            )
            after = len(grammar.sentence(speaker, people))
            nats = -math.fsum(speaker.log_probabilities)
            total += math.exp(speaker.log_probabilities[0]) * (
                expect(after, left - 1) + (nats, len(speaker.tokens))
            )
        return total

    return Entropy(*expect(0, grammar.length).tolist())


def optimal_perplexity(documents=None, grammar=GRAMMAR):
    """Returns a perfect model's perplexity, by default on random documents."""
    if documents is None:
        nats, num_tokens = entropy(grammar)
        return math.exp(nats / num_tokens)
    num_tokens = sum(len(document) for document in documents)
    if not num_tokens:
        raise ValueError(
            "`documents` must have at least one document, or be None for the "
            "expected perplexity. Received: no document"
        )
    scores = (log_probabilities(document, grammar) for document in documents)
    total = math.fsum(itertools.chain.from_iterable(scores))
    return math.exp(-total / num_tokens)


def log_probabilities(document, grammar=GRAMMAR):
    """Returns the log-probability of each token of a document, `(tokens,)`.
    Raises `ValueError` if the grammar cannot generate the document."""

    def read(weights):
        place = len(speaker.tokens)
        token = document[place] if place < len(document) else "its end"
        if token not in weights:
            raise ValueError(
                "`document` must be one whole document of the grammar. "
                f"Received: {token!r} as token {place}, after "
                f"{' '.join(speaker.tokens[-8:])!r}; the grammar allows one of "
                f"{sorted(weights)}"
            )
        return token

    speaker = Speaker(read)
    grammar.document(speaker)
    place = len(speaker.tokens)
    if place < len(document):
        raise ValueError(
            "`document` must be one document. Received: more tokens after its "
            f"last sentence, from token {place}, {document[place]!r}. Score "
            "each document by itself."
        )
    return np.array(speaker.log_probabilities)

"""The grammar of the embedded corpus: facts that are said and asked again."""

import math
from dataclasses import dataclass

import numpy as np

from memlm_keras.arguments import require_positive_integer

_RANDOM_BLOCK = 4096

# What is known of a person, and the words that tell people apart.
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
# Of somebody introduced before, whom the first fact tells. Each sentence is
# told from the others by its first word.
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
    """Documents of a fixed number of sentences about a few people.

    A sentence introduces somebody by words that are nobody else's, or reminds
    of somebody introduced before. Every choice is spoken at once: a text has
    one derivation, and its probability is the product of that of its choices.

    Args:
        facts: dict from the name of a fact to its words, in one string.
        min_people: Introductions that a document begins with.
        max_people: Most introductions in a document.
        length: Number of sentences of a document.

    Raises:
        ValueError: The numbers are not in order, or `facts` has a word twice
            or too few words for so many people.
    """

    facts: dict
    min_people: int = 2
    max_people: int = 4
    length: int = 12

    def __post_init__(self):
        require_positive_integer("min_people", self.min_people)
        if not self.min_people <= self.max_people <= self.length:
            raise ValueError(
                "`min_people`, `max_people` and `length` must not fall in this "
                f"order. Received: {self}"
            )
        shortest = min(len(words.split()) for words in self.facts.values())
        if shortest < self.max_people or len(set(self.words)) < len(self.words):
            raise ValueError(
                f"`facts` must have at least {self.max_people} words of each "
                "kind, all different and none of them part of the sentences. "
                f"Received: {self.facts}"
            )

    @property
    def words(self):
        """List of all tokens, `<eos>` first, in a fixed order."""
        spoken = {*INTRODUCTION}.union(*REMINDERS.values())
        plain = sorted(token for token in spoken if not _fact(token))
        return plain + " ".join(self.facts.values()).split()

    def document(self, speaker):
        """Speaks a whole document through a `Speaker`."""
        people = ()
        for _ in range(self.length):
            people = self.sentence(speaker, people)

    def sentence(self, speaker, people):
        """Speaks the next sentence.

        After its first word, all words that may be spoken at any place are
        alike: the sentence goes on in as many tokens, as likely, whichever is.

        Args:
            speaker: `Speaker`.
            people: Tuple of dicts, the facts of everybody introduced.

        Returns:
            `people` after the sentence.
        """
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
        """Weights of the first words of the next sentence."""
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
    """The fact that a token of a sentence stands for, or nothing."""
    return token[1:-1] if token.startswith("{") else None


class Speaker:
    """Speaks a text one choice at a time.

    Args:
        choose: Function from a dict, of tokens and their weights, to one of
            these tokens.

    Attributes:
        tokens: What was spoken.
        log_probabilities: Natural-log probability of each token, given those
            before it.
    """

    def __init__(self, choose):
        self.choose = choose
        self.tokens = []
        self.log_probabilities = []

    def pick(self, tokens):
        """Speaks and returns one of `tokens`, which are equally likely."""
        return self.draw(dict.fromkeys(tokens, 1))

    def draw(self, weights):
        """Speaks and returns one token of `weights`, from token to weight."""
        token = self.choose(weights)
        probability = weights[token] / sum(weights.values())
        self.tokens.append(token)
        self.log_probabilities.append(math.log(probability))
        return token


def by_chance(numbers):
    """A `choose` of a `Speaker` that draws by `numbers` in [0, 1)."""

    def choose(weights):
        left = next(numbers) * sum(weights.values())
        for token, weight in weights.items():  # noqa: B007
            left -= weight
            if left < 0:
                break
        # Rounding may leave a little; the last token takes it.
        return token

    return choose


def uniforms(seed):
    """Yields numbers in [0, 1) without end, alike on every platform."""
    # NumPy promises that raw bits stay the same between its versions, and makes
    # no such promise of the numbers that its `Generator` draws from them.
    bits = np.random.PCG64(seed)
    while True:
        block = bits.random_raw(_RANDOM_BLOCK) >> np.uint64(11)
        yield from (block * 2.0**-53).tolist()

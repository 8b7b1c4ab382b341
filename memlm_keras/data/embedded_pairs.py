"""Generates labelled sentence pairs that state facts about people."""

import itertools

from memlm_keras.arguments import require_positive_integer
from memlm_keras.data.embedded import uniforms
from memlm_keras.data.pairs import LABELS
from memlm_keras.data.pairs import SentencePair

NAMES = tuple(
    "ada bert clara dan edith frank greta hugo "
    "ida jack kate leo mary noah olga paul".split()
)
# Each kind of fact: its verb, and the objects that can follow.
FACTS = (
    ("lives in", ("bath", "cork", "derby", "leeds", "oslo", "paris", "york")),
    ("works as a", ("baker", "judge", "nurse", "pilot", "tailor", "weaver")),
    ("keeps a", ("cat", "dog", "goat", "horse", "parrot", "rabbit")),
    ("likes", ("bread", "chess", "cider", "dancing", "opera", "tea")),
)
SIZES = {"train": 20_000, "validation": 1_000, "test": 1_000}


def generate_pairs(num_pairs, seed, people=(3, 5)):
    """Draws a list of `SentencePair`s; labels cycle through `LABELS`. `people`
    has the smallest and the largest number of people in a premise."""
    least, most = people
    require_positive_integer("num_pairs", num_pairs, minimum=0)
    if not 3 <= least <= most <= len(NAMES):
        raise ValueError(
            f"`people` must be two numbers from 3 to {len(NAMES)} in ascending "
            f"order. Received: people={people}"
        )
    draw = _Draws(uniforms(seed))
    labels = itertools.islice(itertools.cycle(LABELS), num_pairs)
    return [_pair(draw, label, least, most) for label in labels]


class _Draws:
    def __init__(self, numbers):
        self._numbers = numbers

    def one(self, items):
        return items[int(next(self._numbers) * len(items))]

    def some(self, items, count):
        """Returns `count` different items in random order."""
        left, chosen = list(items), []
        for _ in range(count):
            chosen.append(left.pop(int(next(self._numbers) * len(left))))
        return chosen


def _pair(draw, label, least, most):
    names = draw.some(NAMES, draw.one(range(least, most + 1)))
    asked, second, third, *_ = names
    kind = draw.one(range(len(FACTS)))
    own, others = draw.some(FACTS[kind][1], 2)
    # The hypothesis states a fact of kind `kind` about the person `asked`. The
    # premise states a fact of another kind about each person, and one of kind
    # `kind` about `asked`, the person `second`, and some of `names[3:]`.
    kinds = [k for k in range(len(FACTS)) if k != kind]
    first, different = draw.some(kinds, 2)
    known = [(name, draw.one(kinds)) for name in names[3:]]
    known += [(asked, first), (second, draw.one(kinds)), (third, different)]
    facts = [[name, k, draw.one(FACTS[k][1])] for name, k in known]
    swapped = facts[-1]
    facts += [[asked, kind, own], [second, kind, others]]
    holders = draw.some(names[3:], draw.one(range(len(names) - 2)))
    facts += [[name, kind, draw.one(FACTS[kind][1])] for name in holders]
    # In a contradiction, the hypothesis says about the person `asked` what the
    # premise says about the person `second`. In a neutral pair, `asked` and
    # `third` swap facts, so the premise says nothing of `kind` about `asked`.
    value = own if label == "entailment" else others
    if label == "neutral":
        value = draw.one((own, others))
        swapped[0], facts[len(known)][0] = asked, third
    premise = [
        token
        for fact in draw.some(facts, len(facts))
        for token in (*_say(*fact), ".")
    ]
    return SentencePair(tuple(premise), (*_say(asked, kind, value), "."), label)


def _say(name, kind, value):
    return [name, *FACTS[kind][0].split(), value]

"""Interpreters of a grammar: by chance, by a text, or by each path in turn.

A grammar is a function of an interpreter, written once, and the interpreter
makes it a sampler, a scorer or a sum over all texts. Each `draw` or `pick`
speaks one token, so each token has an exact probability given those before it.
"""

import math

import numpy as np

_RANDOM_BLOCK = 4096


class Interpreter:
    """Speaks tokens; subclasses tell where the draws come from.

    Attributes:
        tokens: What was spoken.
        log_probabilities: Natural-log probability of each token, given those
            before it.
    """

    def __init__(self):
        self.tokens = []
        self.log_probabilities = []

    def say(self, phrase):
        """Speaks the tokens of `phrase`, which are certain."""
        for token in phrase.split():
            self.draw({token: 1})

    def pick(self, tokens):
        """Speaks and returns one of `tokens`, which are alike."""
        return self.draw(dict.fromkeys(tokens, 1))

    def draw(self, weights):
        """Speaks and returns one token of `weights`, from token to weight."""
        if len(weights) == 1:
            (token,) = weights
        else:
            token = self._choose(weights)
        probability = weights[token] / sum(weights.values())
        self.tokens.append(token)
        self.log_probabilities.append(math.log(probability))
        return token

    def _choose(self, weights):
        raise NotImplementedError(
            f"{type(self).__name__} must implement `_choose`."
        )


class Sampler(Interpreter):
    """Draws at random, from an iterator of uniform numbers in [0, 1)."""

    def __init__(self, uniforms):
        super().__init__()
        self._uniforms = uniforms

    def _choose(self, weights):
        left = next(self._uniforms) * sum(weights.values())
        for token, weight in weights.items():  # noqa: B007
            left -= weight
            if left < 0:
                break
        # Rounding may leave a little; the last token takes it.
        return token


class Scorer(Interpreter):
    """Follows a given document."""

    def __init__(self, document):
        super().__init__()
        self._document = document

    def draw(self, weights):
        place = len(self.tokens)
        if place == len(self._document):
            raise ValueError(
                f"`document` must end after its closing sentence. Received: "
                f"{place} tokens, after which it must go on with one of "
                f"{sorted(weights)}"
            )
        if self._document[place] not in weights:
            raise ValueError(
                f"`document` must be a text of the grammar. Received: "
                f"{self._document[place]!r} as token {place}, after "
                f"{' '.join(self.tokens[-8:])!r}; the grammar allows one of "
                f"{sorted(weights)}"
            )
        return super().draw(weights)

    def _choose(self, weights):
        return self._document[len(self.tokens)]

    def finish(self):
        """Checks that the whole document was read."""
        if len(self.tokens) < len(self._document):
            raise ValueError(
                "`document` must end after its closing sentence. Received: "
                f"{self._document[len(self.tokens)]!r} as token "
                f"{len(self.tokens)}, after it; score each document by itself."
            )


class Enumerator(Interpreter):
    """Takes one path, and notes the paths that branch off it.

    Attributes:
        probability: Of all paths like this one, but for words that are alike.
        others: For each path that branches off, the choices that lead to it.
    """

    def __init__(self, choices, expand_alike):
        super().__init__()
        self._choices = choices
        self._expand_alike = expand_alike
        self._taken = []
        self.probability = 1.0
        self.others = []

    @property
    def nats(self):
        return -math.fsum(self.log_probabilities)

    def pick(self, tokens):
        if self._expand_alike:
            return super().pick(tokens)
        self.tokens.append(tokens[0])
        self.log_probabilities.append(-math.log(len(tokens)))
        return tokens[0]

    def _choose(self, weights):
        if len(self._taken) < len(self._choices):
            token = self._choices[len(self._taken)]
        else:
            token, *rest = weights
            self.others.extend((*self._taken, other) for other in rest)
        self._taken.append(token)
        self.probability *= weights[token] / sum(weights.values())
        return token


def enumerate_paths(program, expand_alike=False):
    """Takes every path through a program that speaks through an interpreter.

    Args:
        program: Function of an interpreter.
        expand_alike: Whether each of several words that are alike makes a path
            of its own; otherwise the first stands for all.

    Yields:
        Pairs of an `Enumerator` and what `program` returned. The probabilities
        of the enumerators sum to 1.
    """
    pending = [()]
    while pending:
        enumerator = Enumerator(pending.pop(), expand_alike)
        result = program(enumerator)
        pending.extend(enumerator.others)
        yield enumerator, result


def uniforms(seed):
    """Yields numbers in [0, 1) without end, alike on every platform."""
    # NumPy promises that raw bits stay the same between its versions, and makes
    # no such promise of the numbers that its `Generator` draws from them.
    bits = np.random.PCG64(seed)
    while True:
        block = bits.random_raw(_RANDOM_BLOCK) >> np.uint64(11)
        yield from (block * 2.0**-53).tolist()

"""Naive reference of interpolated Kneser-Ney smoothing, with dictionaries.

Counts and discounts are dictionaries from tuples of words to numbers, and the
equations are computed word by word. `<s>` and `</s>` are separate words: "<s>"
begins each line, and "</s>" ends the line in place of the id 0.
"""

import collections


def lines_of(tokens, boundaries):
    """Returns lists of words; the first word of a list is only context."""
    if not boundaries:
        return [[0, *tokens]]
    lines, line = [], ["<s>"]
    for token in tokens:
        line.append("</s>" if token == 0 else token)
        if token == 0:
            lines.append(line)
            line = ["<s>"]
    return [*lines, line]


class Reference:
    """Computes p(w | c) from the n-grams of a text.

    Args:
        tokens: list of integers.
        order, size: integers, the model's order and the vocabulary's size.
        discounts: "modified", "original", or a list of three discounts for each
            order.
        cut_offs: list of integers, one for each order.
        boundaries: whether lines are independent.
    """

    def __init__(self, tokens, order, size, discounts, cut_offs, boundaries):
        self.order, self.size, self.boundaries = order, size, boundaries
        occurrences = collections.Counter()
        for line in lines_of(tokens, boundaries):
            for end in range(1, len(line)):
                for length in range(1, min(order, end + 1) + 1):
                    occurrences[tuple(line[end - length + 1 : end + 1])] += 1
        self.kept = {
            ngram
            for ngram, count in occurrences.items()
            if count >= cut_offs[len(ngram) - 1]
        }
        self.counts = {}
        for ngram, count in occurrences.items():
            if len(ngram) < order and ngram[0] != "<s>":
                count = len({x for x in occurrences if x[1:] == ngram})
            self.counts[ngram] = count
        self.discounts = [
            self._discounts(length, discounts) for length in range(1, order + 1)
        ]

    def _discounts(self, length, discounts):
        if not isinstance(discounts, str):
            return discounts[length - 1]
        n = [
            sum(
                len(ngram) == length and count == i
                for ngram, count in self.counts.items()
            )
            for i in range(5)
        ]
        if discounts == "original":
            if n[1] == 0 or n[2] == 0:
                return (0.5, 0.5, 0.5)
            return (n[1] / (n[1] + 2 * n[2]),) * 3
        if 0 in n[1:]:
            return (0.5, 1.0, 1.5)
        y = n[1] / (n[1] + 2 * n[2])
        found = (
            1 - 2 * y * n[2] / n[1],
            2 - 3 * y * n[3] / n[2],
            3 - 4 * y * n[4] / n[3],
        )
        return found if min(found) > 0 else (0.5, 1.0, 1.5)

    def probability(self, word, context):
        """Computes p(word | context) for words as in `lines_of`."""
        context = tuple(context)[max(0, len(context) - self.order + 1) :]
        lower = 1 / self.size
        for start in range(len(context), -1, -1):
            lower = self._interpolated(word, context[start:], lower)
        return lower

    def _interpolated(self, word, context, lower):
        following = {
            ngram: count
            for ngram, count in self.counts.items()
            if ngram[:-1] == context
        }
        total = sum(following.values())
        if total == 0:
            return lower
        discounts = self.discounts[len(context)]

        def remaining(ngram):
            count = following.get(ngram, 0)
            if count == 0 or ngram not in self.kept:
                return 0.0
            return max(count - discounts[min(count, 3) - 1], 0.0)

        left = sum(remaining(ngram) for ngram in following)
        backoff = (total - left) / total
        return remaining((*context, word)) / total + backoff * lower

    def score(self, tokens):
        """Returns a list of p(w | c) for each token of a text."""
        return [
            self.probability(line[end], line[:end])
            for line in lines_of(tokens, self.boundaries)
            for end in range(1, len(line))
        ]

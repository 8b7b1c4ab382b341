"""Texts as they enter: boundary marks that others wrote, and characters that a
vocabulary lacks."""

import collections
import re

# A smaller share of unknown characters is not reported.
_LEAST_SHARE = 0.001
_EXAMPLES = 5
_MARKS = re.compile(
    r"^(\s*<(s|bos|sos)>(?!\S))+|((?<!\S)<(/s|eos)>\s*)+$", re.IGNORECASE
)


def unmarked(line):
    """A line without the `<s>` before it and the `</s>` or `<eos>` after it
    with which some programs write texts, as its end is the mark here."""
    return _MARKS.sub("", line) if "<" in line else line


class EnteredText:
    """Removes boundary marks from lines, and counts these lines and the unknown
    characters."""

    def __init__(self, vocabulary):
        self.vocabulary = vocabulary
        self.marked = self.characters = 0
        self.unseen = collections.Counter()

    def line(self, text):
        """Returns a line without marks."""
        bare = unmarked(text)
        self.marked += bare != text
        self.characters += sum(map(len, bare.split()))
        self.unseen.update(self.vocabulary.unseen_characters(bare))
        return bare

    def notes(self):
        """Yields sentences about the text, for the screen."""
        if self.marked:
            yield (
                "Lines that begin with <s> or end with </s> or <eos>: "
                f"{self.marked:,}. These marks are left out, as each line is a "
                "sentence."
            )
        number = self.unseen.total()
        if number > _LEAST_SHARE * self.characters:
            unit = getattr(self.vocabulary, "unit", "words").removesuffix("s")
            examples = ", ".join(
                f"{character!r} ({count})"
                for character, count in self.unseen.most_common(_EXAMPLES)
            )
            yield (
                f"{number:,} of {self.characters:,} characters are in no "
                f"{unit} of the vocabulary: {examples}. The model hardly knows "
                "them. If its training text has others for them, use those."
            )

"""Computes bits per word and per character, comparable between vocabularies."""

import collections
import dataclasses
import math

# Number of characters from which the next character is predicted.
_CONTEXT = 2
# Number of code points in Unicode, plus the end of a word.
_SYMBOLS = 0x110000 + 1
# Symbols before and after a word, which no word contains.
_BEGIN, _END = "\0", "\n"


@dataclasses.dataclass(frozen=True)
class TextBits:
    """Number of bits with which a model encodes a text.

    Attributes:
        bits: Float, bits for all tokens, ends of lines and spellings of
            unknown words.
        spelling: Float, the part of `bits` that spells unknown words.
        words: Integer, number of words separated by white space.
        characters: Integer, number of characters; any white space between two
            words counts as one, and so does each end of a line.
    """

    bits: float
    spelling: float
    words: int
    characters: int

    @property
    def per_word(self):
        """bits / words."""
        return self.bits / self.words

    @property
    def per_character(self):
        """bits / characters."""
        return self.bits / self.characters


def text_bits(result, split, vocabulary):
    """Computes bits per word and per character.

    Perplexities per token cannot be compared between models that split a text
    into different tokens, or that replace different words by `<unk>`. This
    function divides the bits of a text by the numbers of its words and
    characters. The bits of an unknown word `w` include the bits of its
    spelling, as in "Spell Once, Summon Anywhere" (Mielke and Eisner, 2019):

        -log2 p(<unk> | context) - sum_i log2 p_2(c_i | c_{i-2} c_{i-1})

    where `c_i` are the characters of `w` and an end symbol. The spelling model
    is a character trigram over the vocabulary's words, each counted once, with
    the smoothing of Witten and Bell (1991):

        p_k(c | h) = (n(h c) + t(h) p_{k-1}(c | h')) / (n(h) + t(h))

    where `n` is a count, `t(h)` the number of different characters after `h`,
    and `h'` is `h` without its first character. `p_0` has no context and backs
    off to a uniform distribution over all code points and the end symbol.

    The tokenizer still matters: a model that lower-cases, or drops the spaces
    before punctuation, has less to predict. If the text itself has `<unk>` in
    place of a word, the spelling of this word is unknown and adds no bits.

    Args:
        result: `Perplexity` of the whole split, or its summed loss in nats.
        split: `memlm_keras.data.Split` from a corpus that was loaded from text.
        vocabulary: `Vocabulary` of the corpus.

    Returns:
        `TextBits`.

    Raises:
        ValueError: The split was made from token ids, without a text.

    Example:

    >>> corpus = memlm_keras.data.load_text(
    ...     "train.txt", "valid.txt", "test.txt", vocabulary=lm.vocabulary
    ... )
    >>> batches = corpus.batches("test", 1, 100)
    >>> result = memlm_keras.evaluation.perplexity(lm, batches, verbose=0)
    >>> bits = text_bits(result, corpus.test, lm.vocabulary)
    >>> bits.per_word > bits.per_character
    True
    """
    if (counts := split.counts) is None:
        raise ValueError(
            "`split` must be from a corpus that was loaded from text, such as "
            "by `memlm_keras.data.load_text`. Received: only token ids"
        )
    spelling = 0.0
    if counts.unknown:
        special = (vocabulary.unknown, vocabulary.end_of_sentence)
        bits = _spelling_bits(t for t in vocabulary.tokens if t not in special)
        spelling = sum(n * bits(word) for word, n in counts.unknown.items())
    loss = getattr(result, "loss", result)
    return TextBits(
        loss / math.log(2) + spelling, spelling, counts.words, counts.characters
    )


def _spelling_bits(words):
    """Returns a function that computes the bits for spelling a word."""
    following = collections.defaultdict(collections.Counter)
    for word in words:
        for context, character in _characters(word):
            for begin in range(_CONTEXT + 1):
                following[context[begin:]][character] += 1
    totals = {context: each.total() for context, each in following.items()}

    def probability(context, character):
        shorter = 1 / _SYMBOLS
        if context:
            shorter = probability(context[1:], character)
        if context not in totals:
            return shorter
        counts, total = following[context], totals[context]
        share = counts[character] + len(counts) * shorter
        return share / (total + len(counts))

    return lambda word: (
        -sum(math.log2(probability(*each)) for each in _characters(word))
    )


def _characters(word):
    """Yields `(context, character)` for a word's characters and its end."""
    text = _BEGIN * _CONTEXT + word + _END
    for end in range(_CONTEXT, len(text)):
        yield text[end - _CONTEXT : end], text[end]

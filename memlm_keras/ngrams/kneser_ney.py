"""Interpolated Kneser-Ney smoothing."""

import keras

from memlm_keras.arguments import require_positive_integer
from memlm_keras.ngrams.backoff import BackoffModel
from memlm_keras.ngrams.counts import count_ngrams
from memlm_keras.ngrams.discounting import estimated_discounts
from memlm_keras.ngrams.discounting import explicit_discounts
from memlm_keras.ngrams.discounting import smoothed_tables
from memlm_keras.ngrams.discounting import warn_of_fallback
from memlm_keras.ngrams.scorer import token_ids


class KneserNey(BackoffModel):
    """Interpolated Kneser-Ney language model of any order.

    With a the counts of the order of (c, w), c' the context c without its
    first word and D the discounts of that order,

        p(w | c) = max(a(c w) - D(a(c w)), 0) / sum_v a(c v)
                   + backoff(c) p(w | c')
        backoff(c) = what the discounts took off / sum_v a(c v)

    where a are counts of occurrences for the highest order, and below it
    N1+(. c w), the number of distinct words before (c, w). Below single words
    stands the uniform distribution, p = 1 / vocabulary_size: every word of the
    vocabulary has a probability, the unknown one among them. An unseen context
    has backoff 1.

    **Sentences.** Lines are independent of each other by default. The line
    `w_1 .. w_n <eos>` is what SRILM and KenLM read as `<s> w_1 .. w_n </s>`:
    `<eos>`, id 0, is `</s>` where it is predicted and `<s>` where it begins a
    context, which goes back no further. `<s>` is never predicted: it is no
    word that is counted, and has no share of the uniform distribution. As
    nothing comes before `<s>`, n-grams that begin with it keep their
    occurrences as counts in all orders, as in both programs; they also count
    as one more word before what follows them. With
    `sentence_boundaries=False` the text is one stream, in which `<eos>` is a
    word like others. Either way, one `<eos>` stands before the text.

    **Cut-offs.** N-grams that occur fewer than `minimum_counts` times are left
    out and their mass goes to the order below, as with KenLM's `--prune`.
    Discounts, and the counts of lower orders, are of the whole text.

    Documents make no difference.

    **Memory.** Training takes up to 60 bytes, and the model 24, for each
    distinct n-gram of all orders; or, for texts of few distinct n-grams, up to
    75 bytes for each token. A text has at most `order` times as many as
    tokens; Penn Treebank has 2.5 a token at order 5, which makes 130 MB.

    Args:
        vocabulary_size: integer, at least 2.
        order: integer, length of the longest n-grams.
        discounts: `"modified"` (three for each order, for counts of 1, 2, and 3
            or more; Chen and Goodman, 1998) or `"original"` (one), both
            estimated from counts of counts; or one number for all; or a list
            of `order` entries from order 1 on, each a number or three. Words
            that never occurred are impossible if the discount of order 1 is
            0. Where counts of counts do not do, fixed ones stand in, and
            `fit` warns: see `discounting.estimated_discounts`.
        minimum_counts: integer for all orders from 2 on, or a list of `order`
            integers from order 1 on, none smaller than the one before. 1 keeps
            all n-grams.
        sentence_boundaries: boolean, whether each line stands for itself.

    Attributes:
        found_discounts: after `fit`, list of three floats for each order.

    Raises:
        ValueError: if an argument is none of the above.

    Example:

    >>> model = KneserNey(len(corpus.vocabulary), order=5).fit(corpus.train)
    >>> result = model.perplexity(corpus.test)
    >>> result.predicted_tokens == len(corpus.test)
    True

    References: Kneser and Ney, 1995, *Improved backing-off for m-gram
    language modeling*; Chen and Goodman, 1998, *An empirical study of
    smoothing techniques for language modeling*, TR-10-98.
    """

    def __init__(
        self,
        vocabulary_size,
        order=5,
        discounts="modified",
        minimum_counts=1,
        sentence_boundaries=True,
    ):
        require_positive_integer("vocabulary_size", vocabulary_size, 2)
        require_positive_integer("order", order)
        super().__init__(vocabulary_size, sentence_boundaries)
        self._order = order
        self._explicit_discounts = explicit_discounts(discounts, order)
        self.discounts = self._explicit_discounts or discounts
        self.minimum_counts = minimum_counts
        self._cut_offs = _cut_offs(minimum_counts, order)

    @property
    def order(self):
        """Length of the longest n-grams."""
        return self._order

    @property
    def description(self):
        """String that names the model in a protocol."""
        kind = "" if self._explicit_discounts else f" {self.discounts}"
        cut_offs = ""
        if max(self._cut_offs) > 1:
            cut_offs = f", cut-offs {'-'.join(map(str, self._cut_offs))}"
        return (
            f"interpolated{kind} Kneser-Ney of order {self.order}{cut_offs}, "
            f"{self._contexts()}"
        )

    def fit(self, text, verbose=1):
        """Counts the n-grams of a text and smooths the counts.

        Args:
            text: `memlm_keras.data.Split`, or integers `(tokens,)`.
            verbose: 0 or 1, whether to show a progress bar.

        Returns:
            The model itself.

        Raises:
            ValueError: if the text has no token, is not one-dimensional, or
                has an id outside the vocabulary.
        """
        tokens = token_ids(text, self.vocabulary_size)
        if not tokens.size:
            raise ValueError("`text` must have a token. Received: none")
        progress = keras.utils.Progbar(
            self.order, verbose=verbose, unit_name="order"
        )
        levels = count_ngrams(
            tokens,
            self.order,
            self.vocabulary_size,
            self.sentence_boundaries,
            progress.update,
        )
        self.found_discounts = self._explicit_discounts
        if self.found_discounts is None:
            self.found_discounts, fallen_back = estimated_discounts(
                levels, self.discounts
            )
            if fallen_back:
                warn_of_fallback(levels, fallen_back, self.discounts)
        self.tables = smoothed_tables(
            levels, self.found_discounts, self._cut_offs
        )
        return self

    def get_config(self):
        """Arguments of the model."""
        return {
            "vocabulary_size": self.vocabulary_size,
            "order": self.order,
            "discounts": self.discounts,
            "minimum_counts": self.minimum_counts,
            "sentence_boundaries": self.sentence_boundaries,
        }


def _cut_offs(minimum_counts, order):
    """Returns the cut-off of each order, having checked the argument."""
    cut_offs = minimum_counts
    if isinstance(minimum_counts, int):
        cut_offs = [1] + [minimum_counts] * (order - 1)
    valid = (
        isinstance(cut_offs, (list, tuple))
        and len(cut_offs) == order
        and all(isinstance(least, int) and least >= 1 for least in cut_offs)
        and list(cut_offs) == sorted(cut_offs)
        and (minimum_counts is cut_offs or minimum_counts >= 1)
    )
    if not valid:
        raise ValueError(
            "`minimum_counts` must be an integer of at least 1, or a list of "
            f"order={order} such integers, none smaller than the one before. "
            f"Received: minimum_counts={minimum_counts!r}"
        )
    return list(cut_offs)

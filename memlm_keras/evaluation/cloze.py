"""Evaluates cloze tests: scores the query with each candidate in its gap, and
chooses the candidate with the highest score."""

import dataclasses
import statistics

import keras
import numpy as np

from memlm_keras.arguments import require_positive_integer
from memlm_keras.arguments import require_vocabulary
from memlm_keras.data import Split
from memlm_keras.evaluation.perplexity import require_method

# Pad queries to multiples of this length, so that few shapes are compiled.
_QUERY_MULTIPLE = 8
# Quantile of the normal distribution for 95% intervals.
Z_95 = statistics.NormalDist().inv_cdf(0.975)


def wilson_interval(correct, number):
    """Returns Wilson's (1927) 95% confidence interval of `correct / number`."""
    # Import scipy.stats only here, since that takes half a second.
    from scipy import stats

    found = stats.binomtest(correct, number).proportion_ci(method="wilson")
    return float(found.low), float(found.high)


@dataclasses.dataclass(frozen=True)
class ClozeAccuracy:
    """Accuracy in a cloze test.

    Attributes:
        correct: Integer, number of correct answers.
        questions: Integer, number of questions.
        chosen: Tuple of strings, the candidate chosen for each question.
        unknown_answers: Integer, number of questions with an answer outside the
            vocabulary, which ties with other unknown candidates.
        causal: Whether the model predicted words from earlier words only.
    """

    correct: int
    questions: int
    chosen: tuple = dataclasses.field(repr=False)
    unknown_answers: int = 0
    causal: bool = True

    @property
    def accuracy(self):
        """Fraction of correct answers."""
        return self.correct / self.questions

    @property
    def interval(self):
        """95% confidence interval of the accuracy (Wilson, 1927), a pair."""
        return wilson_interval(self.correct, self.questions)

    @property
    def protocol(self):
        """String that describes how the model chose its answers."""
        chosen = (
            "with which the whole query, <eos> included, is most probable "
            "after its context"
            if self.causal
            else "for which the probabilities of all words of the query, <eos> "
            "included, each given the words before and after it, have the "
            "highest product"
        )
        return (
            f"protocol cloze: the candidate {chosen}, the first of equals; "
            "each question from the initial state"
        )

    def __str__(self):
        low, high = self.interval
        return (
            f"accuracy {self.accuracy:.4f} = {self.correct} / "
            f"{self.questions} questions, 95% interval {low:.4f} to "
            f"{high:.4f} (Wilson); {self.unknown_answers} answers out of "
            f"vocabulary; {self.protocol}"
        )


def cloze_accuracy(model, questions, vocabulary=None, batch_size=32, verbose=1):
    """Computes the accuracy of a language model in a cloze test.

    The model reads the context of each question and chooses the candidate that
    makes the query most probable, as in Daniluk et al. (2017) and Hill et al.
    (2016). Ties go to the first candidate; repeated candidates tie, and so do
    candidates outside the vocabulary.

    Args:
        model: `memlm_keras.LanguageModel` or `memlm_keras.Ensemble`; or a model
            with `score` but without state, such as an n-gram model, which
            scores the whole text of each question with each candidate.
        questions: Iterable of `memlm_keras.data.ClozeQuestion`.
        vocabulary: `Vocabulary`; `None` uses the model's own.
        batch_size: Integer, number of rows that the model reads at once;
            affects scores only by rounding.
        verbose: 0 prints nothing, 1 a progress bar and the result.

    Raises:
        ValueError: See `cloze_scores`.

    Example:

    >>> question = memlm_keras.data.ClozeQuestion(
    ...     context=(("the", "man", "was", "born", "in", "york"),),
    ...     query=("the", "XXXXX", "said"),
    ...     answer="man",
    ...     candidates=("man", "york"),
    ... )
    >>> result = memlm_keras.evaluation.cloze_accuracy(
    ...     lm, [question], corpus.vocabulary
    ... )
    >>> result.questions
    1
    """
    questions = list(questions)
    scores = cloze_scores(model, questions, vocabulary, batch_size, verbose)
    vocabulary = require_vocabulary(model, vocabulary)
    chosen = tuple(
        question.candidates[int(np.argmax(of_candidates))]
        for question, of_candidates in zip(questions, scores)
    )
    correct = sum(
        choice == question.answer for choice, question in zip(chosen, questions)
    )
    unknown = sum(
        vocabulary.unknown_id
        in vocabulary.encode(question.word(question.answer))
        for question in questions
    )
    result = ClozeAccuracy(
        correct=correct,
        questions=len(questions),
        chosen=chosen,
        unknown_answers=unknown,
        causal=model.causal,
    )
    if verbose:
        print(result)
    return result


def cloze_scores(model, questions, vocabulary=None, batch_size=32, verbose=1):
    """Computes the log-probability of each query with each candidate.

    An end-of-sentence token ends every sentence and precedes the first. A
    bidirectional model scores each word given the words before and after it.

    Args:
        model, questions, vocabulary, batch_size: See `cloze_accuracy`.

    Returns:
        List with a float64 array `(candidates,)` for each question: the
        natural-log probability summed over the query's words and its end.
        Candidates with the same ids have the same score.

    Raises:
        ValueError: The model has no `score`, or is bidirectional and a question
            has a context; there are no questions; `vocabulary` has another size
            than the model's; or `batch_size` is not positive.

    Example:

    >>> scores = memlm_keras.evaluation.cloze_scores(
    ...     kneser_ney, [question], corpus.vocabulary
    ... )
    >>> scores[0].shape
    (2,)
    """
    questions = list(questions)
    vocabulary = _require_questions(model, questions, vocabulary, batch_size)
    encoded = [_Encoded(question, vocabulary) for question in questions]
    # Sort by length, so that a batch has contexts of similar lengths.
    order = sorted(range(len(encoded)), key=lambda at: len(encoded[at].context))
    progress = keras.utils.Progbar(
        len(encoded), verbose=verbose, unit_name="question"
    )
    for begin in range(0, len(order), batch_size):
        batch = [encoded[at] for at in order[begin : begin + batch_size]]
        if hasattr(model, "read"):
            rows = min(batch_size, len(encoded))
            _score(model, batch, batch_size, rows)
        else:
            for question in batch:
                for place, ids in enumerate(question.sentences):
                    # Omit the first token, which only recurrent models read.
                    text = np.concatenate([question.context, ids])[1:]
                    text = Split(text, np.zeros(1, "int64"))
                    query = model.score(text)[1 - len(ids) :]
                    question.scores[place] = query.sum()
        progress.add(len(batch))
    return [question.scores[question.places] for question in encoded]


class _Encoded:
    """A question as token ids: its context, and a query for each candidate. A
    query is a sentence between two end-of-sentence tokens."""

    # Candidates with the same ids share a query, so that rounding cannot make
    # their scores differ.

    def __init__(self, question, vocabulary):
        end = np.array([vocabulary.end_of_sentence_id], "int32")
        read = [vocabulary.encode_sentence(s) for s in question.context]
        # The last end-of-sentence token is the first input of the query.
        self.context = np.concatenate([end, *read])[:-1]
        filled = [
            np.concatenate(
                [end, vocabulary.encode_sentence(question.filled(candidate))]
            )
            for candidate in question.candidates
        ]
        distinct = {ids.tobytes(): ids for ids in filled}
        self.sentences = list(distinct.values())
        keys = list(distinct)
        self.places = [keys.index(ids.tobytes()) for ids in filled]
        self.scores = np.zeros(len(self.sentences))


def _score(model, batch, batch_size, rows):
    """Scores a batch of questions with a recurrent model."""
    contexts = [question.context for question in batch]
    # Add empty rows to the last batch, so that all batches have one shape.
    contexts += [np.zeros(0, "int32")] * (rows - len(batch))
    state = model.read(contexts) if model.causal else None
    waiting = [
        (owner, place, ids)
        for owner, question in enumerate(batch)
        for place, ids in enumerate(question.sentences)
    ]
    waiting.sort(key=lambda sentence: len(sentence[2]))
    for begin in range(0, len(waiting), batch_size):
        chunk = waiting[begin : begin + batch_size]
        owners, places, sentences = zip(*chunk)
        sums = _score_sentences(model, state, owners, sentences, batch_size)
        for owner, place, score in zip(owners, places, sums):
            batch[owner].scores[place] = score


def _score_sentences(model, state, owners, sentences, batch_size):
    """Computes the log-probability of each sentence, float64. The model reads
    sentence `i` from the state in row `owners[i]` of `state`."""
    predicted = np.array([len(ids) - 1 for ids in sentences])
    steps = -(-predicted.max() // _QUERY_MULTIPLE) * _QUERY_MULTIPLE
    # Bidirectional models ignore end-of-sentence tokens after a sentence.
    tokens = np.full((batch_size, steps + 1), sentences[0][-1], "int32")
    for row, ids in enumerate(sentences):
        tokens[row, : len(ids)] = ids
    if state is not None:
        begins = np.zeros(batch_size, "int32")
        begins[: len(owners)] = owners
        begins = keras.ops.convert_to_tensor(begins)
        state = {
            name: keras.ops.take(value, begins, axis=0)
            for name, value in state.items()
        }
    scores = model.score(tokens, state)[: len(sentences)].astype("float64")
    counts = np.arange(steps) < predicted[:, None]
    return np.sum(scores, axis=1, where=counts)


def require_end_of_reader(reader, vocabulary):
    """Raises `ValueError` if a reader of sentences has another end id."""
    end = vocabulary.end_of_sentence_id
    own_end = getattr(reader, "end_of_sentence_id", end)
    if own_end != end:
        raise ValueError(
            "`vocabulary` must have the end-of-sentence id of the model's "
            f"{type(reader).__name__}, {own_end}. Received: "
            f"end_of_sentence_id={end}"
        )


def _require_questions(model, questions, vocabulary, batch_size):
    require_method("score", model)
    require_positive_integer("batch_size", batch_size)
    if not questions:
        raise ValueError(
            "`questions` must hold at least one question. Received: none"
        )
    vocabulary = require_vocabulary(model, vocabulary)
    reader = model if model.causal else model.memory
    require_end_of_reader(reader, vocabulary)
    if model.causal:
        return vocabulary
    name = type(reader).__name__
    for index, question in enumerate(questions):
        if question.context:
            raise ValueError(
                "`questions` must have no context for a bidirectional model: "
                f"its {name} reads single sentences. Received: question "
                f"{index} with a context of {len(question.context)} sentences"
            )
    return vocabulary

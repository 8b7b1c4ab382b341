"""Adapts weights to the text: dynamic evaluation (Krause et al., 2018)."""

import copy
import dataclasses
import functools

import keras
import numpy as np
from keras import ops

from memlm_keras.arguments import require_instance
from memlm_keras.arguments import require_number
from memlm_keras.arguments import require_streaming
from memlm_keras.data import Batches
from memlm_keras.data.batches import concatenate_batches
from memlm_keras.evaluation.perplexity import lowest
from memlm_keras.evaluation.perplexity import require_beginning
from memlm_keras.gradients import value_and_gradients
from memlm_keras.models.backbone import compile_inference
from memlm_keras.models.language_model import LanguageModel
from memlm_keras.models.streaming import read_batches
from memlm_keras.models.surprisal import measures_of_logits

# Steps per segment: the paper's, and the maximum in `measure_words`.
_STEPS, _LONGEST = 5, 128
# Values that `choose_dynamic` tries: rates for each rule, and decays.
RATES = {"rms": (3e-5, 1e-4, 3e-4), "sgd": (0.01, 0.03, 0.1)}
DECAYS = (0.0, 1e-3, 1e-2)


class DynamicEvaluator:
    """Language model that learns from the text that it scores.

    Krause, Kahembwe, Murray and Renals (2018), "Dynamic Evaluation of Neural
    Sequence Models", Sections 3 and 4. Each segment of a text is first scored
    with the current weights w. Then the gradient g of the segment's mean loss
    updates w, and a decay pulls w back to the trained weights w_g:

        w <- w - rate g + decay (w_g - w)                           "sgd"
        w <- w - rate g / (R + epsilon)
               + min(1, decay R / mean(R)) (w_g - w)                "rms"

    R is the square root of the mean squared gradient on training text. mean(R)
    is the mean over all weights; the authors' code averages the matrices'
    means. Dropout is off. A model's `mixture` contributes to its predictions.

    The updated weights are copies: the model does not change. Pass an evaluator
    instead of a model to `memlm_keras.evaluation.perplexity`, with batches of
    one row; each text begins with the trained weights.

    Args:
        lm: Causal `memlm_keras.LanguageModel`.
        rate: Float of at least 0.
        decay: Float in [0, 1].
        mean_squares: Result of `mean_squared_gradients`, for the rule `"rms"`;
            `None` for the rule `"sgd"`.
        epsilon: Float above 0, for the rule `"rms"`.

    Attributes:
        weights: List of tensors, the current weights, in the order of
            `lm.trainable_variables`.

    Raises:
        ValueError: An argument is invalid.

    Example:

    >>> batches = corpus.batches("test", batch_size=1, segment_length=5)
    >>> evaluator = memlm_keras.evaluation.DynamicEvaluator(lm, rate=0.01)
    >>> result = memlm_keras.evaluation.perplexity(evaluator, batches)
    """

    causal = True

    def __init__(self, lm, rate, decay=0.0, mean_squares=None, epsilon=2e-5):
        _require_model(lm)
        self.lm = lm
        self.mean_squares = mean_squares
        self.epsilon = epsilon
        self.vocabulary = lm.vocabulary
        self.vocabulary_size = lm.vocabulary_size
        self._differentiate = _gradients_of(lm)
        self._update = compile_inference(lm, _updated)
        self.set_rates(rate, decay)

    def set_rates(self, rate, decay):
        """Sets rate and decay, and resets the weights to the model's."""
        require_number("rate", rate, at_least=0)
        require_number("decay", decay, at_least=0, at_most=1)
        require_number("epsilon", self.epsilon, above=0)
        self.rate, self.decay = rate, decay
        variables, squares = self.lm.trainable_variables, self.mean_squares
        steps, pulls = [rate] * len(variables), [decay] * len(variables)
        if squares is not None:
            shapes = [tuple(variable.shape) for variable in variables]
            received = [np.shape(each) for each in squares]
            if shapes != received:
                raise ValueError(
                    "`mean_squares` must have the shapes of the model's "
                    f"trainable weights, {shapes}. Received: the shapes "
                    f"{received}"
                )
            roots = [np.sqrt(each) for each in squares]
            mean = sum(map(np.sum, roots)) / sum(map(np.size, roots))
            steps = [rate / (root + self.epsilon) for root in roots]
            # A decay above 1 would move a weight past its trained value.
            pulls = [np.minimum(1.0, decay * root / mean) for root in roots]
        self._steps, self._pulls = [
            [ops.convert_to_tensor(part, "float32") for part in parts]
            for parts in (steps, pulls)
        ]
        self.reset()

    @property
    def description(self):
        """String with the rule, rate and decay, for reports."""
        rule = "sgd" if self.mean_squares is None else "rms"
        return (
            f"dynamic evaluation by the rule {rule}, rate={self.rate:g}, "
            f"decay={self.decay:g}"
        )

    def reset(self):
        """Resets the weights to the model's trained weights."""
        self._trained = self.weights = [
            ops.copy(ops.stop_gradient(variable.value))
            for variable in self.lm.trainable_variables
        ]

    def read(self, token_ids, targets, state, sample_weight=None):
        """Scores a segment, and then learns from it.

        Args:
            token_ids: int32 tensor `(1, time)`.
            targets: int32 tensor `(1, time)`, the next tokens.
            state: Dict of tensors, such as `lm.initial_state(1)`.
            sample_weight: Float tensor `(1, time)`, 0 for tokens that do not
                count; `None` for all ones.

        Returns:
            `(log_probability, state)`: each target's natural-log probability
            before learning, float32 `(1, time)`; state after the segment.
        """
        if sample_weight is None:
            sample_weight = np.ones(np.shape(targets), "float32")
        return self._learn(
            self._differentiate, token_ids, targets, sample_weight, state
        )

    def _learn(self, differentiate, token_ids, targets, sample_weight, state):
        (_, result), gradients = differentiate(
            self.weights,
            ops.convert_to_tensor(token_ids, "int32"),
            ops.convert_to_tensor(targets, "int32"),
            ops.convert_to_tensor(sample_weight, "float32"),
            state,
        )
        if np.any(ops.convert_to_numpy(sample_weight)):
            self.weights = self._update(
                self.weights, self._trained, gradients, self._steps, self._pulls
            )
        return result

    @functools.cached_property
    def _measure(self):
        return _gradients_of(self.lm, measured=True)

    def measure_words(
        self, tokens, starts, end_of_sentence_id=0, segment_length=None
    ):
        """Like `LanguageModel.measure_words`, but learns after each segment."""
        if segment_length is None:
            longest = int(np.diff(starts, append=len(tokens)).max())
            segment_length = min(longest, _LONGEST)
            if len(starts) == 1:
                segment_length = _STEPS
        batches = Batches(
            tokens,
            batch_size=1,
            segment_length=segment_length,
            document_starts=starts,
            end_of_sentence_id=end_of_sentence_id,
        )
        left, measured = len(tokens), []

        def read(token_ids, targets, state, weight):
            nonlocal left
            weight = np.array(ops.convert_to_numpy(weight))
            count = int(weight.sum())
            left -= count
            if not left:
                weight[0, count - 1] = 0
            return self._learn(self._measure, token_ids, targets, weight, state)

        self.reset()
        for part, weight in read_batches(self.lm, read, batches, weighted=True):
            part = ops.convert_to_numpy(part)[0, : int(weight.sum())]
            measured.append(part.astype("float64"))
        return np.concatenate(measured)

    def score_batches(self, batches, verbose=0, segments=None):
        """Computes the natural-log probability of each token in a text.

        Args:
            batches: `memlm_keras.data.Batches` with one row. With several rows,
                weights would learn from text before it is scored. Weights are
                updated after each segment, which has 5 steps in the paper.
            segments: Integer, largest number of segments; `None` for all.

        Returns:
            `(scores, sample_weight)`, float32 arrays `(segments, time)`.

        Raises:
            ValueError: Batches have more than one row.
        """
        if batches.batch_size != 1:
            raise ValueError(
                "`batches` must have one row, since other rows hold later "
                f"text. Received: batch_size={batches.batch_size}"
            )
        self.reset()
        return concatenate_batches(
            read_batches(
                self.lm,
                self.read,
                batches,
                segments=segments,
                verbose=verbose,
                weighted=True,
            )
        )


def mean_squared_gradients(lm, batches, verbose=0, segments=None):
    """Computes mean squared gradients, for `DynamicEvaluator`.

    The gradients are computed from the mean loss of each batch, in one pass
    over the training text without updates (Krause et al., 2018, Section 4).

    Args:
        lm: Causal `memlm_keras.LanguageModel`.
        batches: `memlm_keras.data.Batches` of the training text; the authors
            use 100 rows, and the same segment length as for scoring.
        verbose: 1 shows a progress bar.
        segments: Integer, maximum number of batches to read; `None` for all.

    Returns:
        List of float32 arrays with the shapes of `lm.trainable_variables`.

    Example:

    >>> batches = corpus.batches("train", batch_size=8, segment_length=5)
    >>> squares = memlm_keras.evaluation.mean_squared_gradients(lm, batches)
    >>> len(squares) == len(lm.trainable_variables)
    True
    """
    _require_model(lm)
    differentiate = _gradients_of(lm)
    weights = [ops.stop_gradient(v.value) for v in lm.trainable_variables]
    sums = [np.zeros(weight.shape, "float32") for weight in weights]

    def add(token_ids, targets, state, sample_weight):
        (_, result), gradients = differentiate(
            weights, token_ids, targets, sample_weight, state
        )
        for total, gradient in zip(sums, gradients, strict=True):
            total += np.square(ops.convert_to_numpy(gradient))
        return result

    results = read_batches(
        lm, add, batches, verbose=verbose, weighted=True, segments=segments
    )
    read = sum(1 for _ in results)
    return [total / read for total in sums]


@dataclasses.dataclass(frozen=True)
class DynamicChoice:
    """Perplexities with dynamic evaluation, by rate and decay.

    Attributes:
        rates, decays: Tuples of floats, the grid.
        perplexities: float64 array `(rates, decays)`.
        evaluator: `DynamicEvaluator` with the lowest perplexity.
    """

    rates: tuple
    decays: tuple
    perplexities: np.ndarray = dataclasses.field(repr=False)
    evaluator: DynamicEvaluator = dataclasses.field(repr=False)


def choose_dynamic(
    lm,
    batches,
    mean_squares=None,
    rates=None,
    decays=DECAYS,
    segments=None,
    verbose=1,
):
    """Chooses rate and decay for dynamic evaluation on development text.

    Args:
        lm, mean_squares: See `DynamicEvaluator`.
        batches: `memlm_keras.data.Batches` with one row.
        rates, decays: Sequences of floats to try; `rates=None` uses `RATES`.
        segments: Integer, largest number of segments; `None` for all.
        verbose: 0 prints nothing, 1 a progress bar and the result of each pass.

    Raises:
        ValueError: There are no rates or decays, no perplexity is finite, or an
            argument of `DynamicEvaluator` is invalid.

    Example:

    >>> batches = corpus.batches("validation", batch_size=1, segment_length=5)
    >>> choice = memlm_keras.evaluation.choose_dynamic(
    ...     lm, batches, rates=(0.01, 0.1), decays=(0.0,), verbose=0
    ... )
    >>> choice.perplexities.shape
    (2, 1)
    """
    if rates is None:
        rates = RATES["sgd" if mean_squares is None else "rms"]
    rates, decays = tuple(rates), tuple(decays)
    if not (rates and decays):
        raise ValueError(
            "`rates` and `decays` must hold at least one number each. "
            f"Received: rates={rates}, decays={decays}"
        )
    require_beginning(batches)
    evaluator = DynamicEvaluator(lm, rates[0], decays[0], mean_squares)
    grid = np.zeros((len(rates), len(decays)))
    for number, (row, column) in enumerate(np.ndindex(grid.shape), 1):
        evaluator.set_rates(rates[row], decays[column])
        if verbose:
            print(f"Pass {number} of {grid.size}, {evaluator.description}:")
        scores, weights = evaluator.score_batches(batches, verbose, segments)
        # If the weights diverge, the perplexity is infinite or NaN.
        with np.errstate(over="ignore", invalid="ignore"):
            nats = -np.sum(scores.astype("float64") * weights) / weights.sum()
            grid[row, column] = np.exp(nats)
        if verbose:
            found = f"perplexity {grid[row, column]:.2f}"
            if not np.isfinite(grid[row, column]):
                found = "diverged: this rate is too high, and is not chosen"
            print(found)
    row, column = lowest(grid)
    best = copy.copy(evaluator)
    best.set_rates(rates[row], decays[column])
    return DynamicChoice(rates, decays, grid, best)


def _require_model(lm):
    """Raises `ValueError` unless `lm` is a single causal language model."""
    what = "a single `memlm_keras.LanguageModel`"
    require_instance("lm", lm, LanguageModel, what)
    require_streaming("Dynamic evaluation", lm)


def _gradients_of(lm, measured=False):
    """Returns a function that computes log-probabilities or, if `measured`,
    `measures_of_logits`, and also the new state and gradients."""

    def loss(weights, token_ids, targets, sample_weight, state):
        mapping = list(zip(lm.trainable_variables, weights))
        with keras.StatelessScope(state_mapping=mapping):
            prediction, state = lm.backbone.forward(
                token_ids,
                state,
                targets=targets,
                sample_weight=None if measured else sample_weight,
            )
        total = ops.sum(sample_weight * prediction.loss)
        mean = total / ops.maximum(ops.sum(sample_weight), 1.0)
        if measured:
            return mean, (measures_of_logits(prediction.logits, targets), state)
        return mean, (prediction.log_probability, state)

    return value_and_gradients(loss)


def _updated(weights, trained, gradients, steps, pulls):
    """Updates the weights after a segment."""
    return [
        weight - step * gradient + pull * (origin - weight)
        for weight, origin, gradient, step, pull in zip(
            weights, trained, gradients, steps, pulls
        )
    ]

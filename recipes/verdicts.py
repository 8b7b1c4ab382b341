"""Verdicts on the claims: intervals over seeds and sentences, and the document.

Verdicts depend only on the logs of the finished runs.
"""

import dataclasses
import math
import re
import statistics

import numpy as np
from scipy import special

import logs
import paper_claims
from claim_runs import labels
from memlm_keras import presets
from memlm_keras.experiments import report

HOLDS = "holds"
DOES_NOT_HOLD = "does not hold"
NOT_DECIDED = "not decided at this size"
NOT_RUN = "not run"
SEEN = "seen, not compared"

# Probability that an interval misses, or that any verdict is wrong.
_LEVEL = 0.05
# Nats per token, or share of pairs, that is too small for a claim.
_SMALLEST = 0.005

# === Statistics ===


@dataclasses.dataclass(frozen=True, eq=False)
class Losses:
    """Losses of a model on the sentences of a test text, or on pairs."""

    losses: np.ndarray  # (seeds, sentences)
    counts: np.ndarray  # predictions in each sentence, (sentences,)
    parameters: int | None = None

    @property
    def by_seed(self):
        """Mean loss of a prediction, `(seeds,)`."""
        return self.losses.sum(axis=1) / self.counts.sum()


@dataclasses.dataclass(frozen=True)
class Difference:
    """The difference of two models, in nats per token or share of pairs."""

    mean: float
    seeds: int
    seed_error: float  # standard error of the mean; infinite for one seed
    freedom: float  # degrees of freedom of `seed_error`, by Welch
    sentence_error: float = 0.0  # standard error over the test sentences
    sentences: int = 2

    def interval(self, level=_LEVEL):
        """Returns the interval that misses with probability `level`."""
        if math.isinf(self.seed_error):
            return -math.inf, math.inf
        # Welch's interval over seeds, and the interval over sentences.
        half = np.hypot(
            *special.stdtrit([self.freedom, self.sentences - 1], 1 - level / 2)
            * [self.seed_error, self.sentence_error]
        )
        return self.mean - half, self.mean + half


def difference(better, than):
    """Compares two `Losses`; positive where `better` is better."""
    counts = better.counts
    if not np.array_equal(counts, than.counts):
        raise ValueError(
            "`better` and `than` must be of the same sentences. Received: "
            f"{len(counts)} sentences of {counts.sum()} "
            f"predictions, and {len(than.counts)} of {than.counts.sum()}"
        )
    seeds = [len(side.losses) for side in (better, than)]
    mean = than.by_seed.mean() - better.by_seed.mean()
    error, freedom = math.inf, 1.0
    if min(seeds) > 1:
        squares = [
            side.by_seed.var(ddof=1) / n
            for side, n in zip((better, than), seeds)
        ]
        error = math.sqrt(sum(squares))
        if error:
            parts = sum(s**2 / (n - 1) for s, n in zip(squares, seeds))
            freedom = sum(squares) ** 2 / parts
    # Both models read the same sentences.
    apart = than.losses.mean(axis=0) - better.losses.mean(axis=0)
    number = len(counts)
    spread = ((apart - mean * counts) ** 2).sum() * number / (number - 1)
    return Difference(
        mean=float(mean),
        seeds=min(seeds),
        seed_error=error,
        freedom=freedom,
        sentence_error=float(math.sqrt(spread) / counts.sum()),
        sentences=number,
    )


def verdict(claim, low, high):
    """The verdict on a claim, from the interval of the difference."""
    if claim.margin is not None:
        if -claim.margin < low and high < claim.margin:
            return HOLDS
        apart = low > claim.margin or high < -claim.margin
        return DOES_NOT_HOLD if apart else NOT_DECIDED
    if low > 0:
        return HOLDS
    return DOES_NOT_HOLD if high < _SMALLEST else NOT_DECIDED


def verdicts(tests):
    """Decides triples of a `Claim`, a `Difference` or `None`, and the required
    seeds; any verdict is wrong with a probability of at most 0.05."""
    words = [NOT_DECIDED] * len(tests)
    undecided = [
        index
        for index, (_, between, seeds) in enumerate(tests)
        if between is not None and between.seeds >= seeds
    ]
    # Holm: while n tests are undecided, each interval misses with 0.05 / n.
    before = None
    while len(undecided) != before:
        before = len(undecided)
        for index in undecided:
            claim, between, _ = tests[index]
            words[index] = verdict(claim, *between.interval(_LEVEL / before))
        undecided = [i for i in undecided if words[i] == NOT_DECIDED]
    return words


def losses_of(model, folder):
    """The `Losses` of all seeds of a `Model` in a folder of logs, or `None`."""
    first = model.run(0, folder)
    of_model = re.escape(first.experiment.name.removesuffix("0")) + r"\d+"
    found = [
        run
        for name, run in sorted(logs.read(first.study).items())
        if logs.LOSSES in run and re.fullmatch(of_model, name)
    ]
    if not found:
        return None
    return Losses(
        np.stack([run[logs.LOSSES][:, 0] for run in found]),
        found[0][logs.LOSSES][:, 1].astype("int64"),
        found[-1]["results"]["parameters"],
    )


# === The document ===

_INTRODUCTION = """# Claims

Each claim of the five papers about which model is better, with the published
numbers and with ours.

* A difference is in per cent of the perplexity of the second model, or in
  points of accuracy for pairs. It is positive where the claim is right.
* Its interval of 95% is Welch's interval over the seeds of both models, widened
  by the spread over the test sentences, which both models read. Few seeds give
  a wide interval: t is 4.3 to 12.7 for two seeds, and 2.0 for many.
* A claim *holds* if the whole interval is above zero. It *does not hold* if all
  of it is below half a per cent, or half a point. For equal models (*as good
  as*) the interval must lie within 2%.
* Verdicts use wider intervals than those shown, by Holm's correction for the
  number of claims. All verdicts together are right with a probability of 95%,
  so an interval above zero may still be *not decided*.
* With fewer seeds than a setting needs, nothing is decided. *Not run* means
  that one of the models was never trained.
* A setting without runs is left out if another setting tests the claim. Its
  commands are below.
* Where a setting is not the paper's, compare the paper's numbers only with each
  other. Numbers of parameters are in brackets.
"""
_COLUMNS = (
    "claim",
    "theirs",
    "setting",
    "ours",
    "difference",
    "seeds",
    "verdict",
)


def write(path, models, losses, command):
    """Writes the document; both dicts are by setting and label."""
    lines = [_INTRODUCTION, f"    {command}", ""]
    rows = _rows(losses)
    for paper in dict.fromkeys(claim.paper for claim in paper_claims.CLAIMS):
        lines += [f"## {presets.papers()[paper].citation}", ""]
        lines += report.markdown_table(
            _COLUMNS, [cells for claim, cells in rows if claim.paper == paper]
        )
        lines.append("")
    lines += ["## Settings and runs", ""]
    for name, setting in paper_claims.SETTINGS.items():
        keys = [key for key in models if key[0] == name]
        finished = sum(
            min(len(losses[key].losses), setting.seeds)
            for key in keys
            if losses[key]
        )
        lines += [
            f"### {name}",
            "",
            f"{setting.description}.",
            "",
            *(f"    {models[key].run(0, path.parent).title}" for key in keys),
            "",
            f"{finished} of {setting.seeds * len(keys)} runs are finished.",
            "",
        ]
    report.write_lines(path, lines)


def _rows(losses):
    """Pairs of a claim and the cells of a row, in the order of the claims."""
    tests = []
    for claim in paper_claims.CLAIMS:
        names = claim.settings if claim.models else ()
        both = {n: [losses[n, label] for label in labels(claim)] for n in names}
        # Settings in which a model has run, or all if none has.
        shown = [name for name in names if any(both[name])] or names
        tests += [(claim, name, both[name]) for name in shown]
    between = [
        None if None in both else difference(*both) for _, _, both in tests
    ]
    words = verdicts(
        [
            (claim, found, paper_claims.SETTINGS[name].seeds)
            for (claim, name, _), found in zip(tests, between)
        ]
    )
    rows = []
    for (claim, name, both), found, word in zip(tests, between, words):
        text = f"*{NOT_RUN if found is None else word}*"
        if claim.caution and found is not None:
            text += f", but {claim.caution}"
        seeds, needed = (
            found.seeds if found else 0,
            paper_claims.SETTINGS[name].seeds,
        )
        pairs = claim.paper == "weissenborn2016"
        numbers = " against ".join(number for _, number in claim.models)
        cells = [
            _stated(claim),
            f"{claim.metric} {numbers}; {claim.text}",
            name,
            ", ".join(
                f"{label} {_level(side, pairs)}"
                for label, side in zip(labels(claim), both)
            ),
            "" if found is None else _in_percent(found, pairs),
            str(seeds) if seeds >= needed else f"{seeds} of {needed}",
            text,
        ]
        rows.append((claim, cells))
    for claim in paper_claims.CLAIMS:
        if not claim.models:
            shown = claim.seen or claim.missing
            word = SEEN if claim.seen else NOT_RUN
            cells = [_stated(claim), claim.published, "", shown, "", ""]
            rows.append((claim, [*cells, f"*{word}*"]))
    return sorted(rows, key=lambda row: paper_claims.CLAIMS.index(row[0]))


def _stated(claim):
    return f"`{claim.paper}/{claim.name}`: {claim.statement} ({claim.where})"


def _level(losses, pairs):
    """Mean and standard deviation of a perplexity, or of an accuracy."""
    if losses is None:
        return "?"
    values = 100 * (1 - losses.by_seed) if pairs else np.exp(losses.by_seed)
    text = f"{values.mean():.1f}"
    if len(values) > 1:
        text += f" ± {statistics.stdev(values):.1f}"
    if losses.parameters is not None:
        text += f" ({losses.parameters / 1e6:.2f}M)"
    return text


def _in_percent(found, pairs):
    """A `Difference` and its interval, in per cent or points."""

    def percent(number):
        return 100 * (number if pairs else 1 - math.exp(-number))

    if math.isinf(found.seed_error):
        return f"{percent(found.mean):.1f} (one seed has no interval)"
    low, high = map(percent, found.interval())
    return f"{percent(found.mean):.1f} ({low:.1f} to {high:.1f})"

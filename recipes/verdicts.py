"""Tests the papers' claims with the logs of finished runs.

A verdict depends on a confidence interval over seeds and sentences.
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
from memlm_keras import files
from memlm_keras import presets

HOLDS = "holds"
DOES_NOT_HOLD = "does not hold"
NOT_DECIDED = "not decided"
NOT_RUN = "not run"
SEEN = "seen"

# Significance level of a single interval and of all verdicts together.
_LEVEL = 0.05
# Smaller differences, in nats per token or share of pairs, count as zero.
_SMALLEST = 0.005

# === Statistics ===


@dataclasses.dataclass(frozen=True, eq=False)
class Losses:
    """A model's losses on the sentences or pairs of a test set."""

    losses: np.ndarray  # Array `(seeds, sentences)`.
    counts: np.ndarray  # Predictions in each sentence, `(sentences,)`.
    parameters: int | None = None

    @property
    def by_seed(self):
        """Mean loss per prediction for each seed, array `(seeds,)`."""
        return self.losses.sum(axis=1) / self.counts.sum()


@dataclasses.dataclass(frozen=True)
class Difference:
    """Difference between two models: in nats per token, or in accuracy."""

    mean: float
    seeds: int
    seed_error: float  # Standard error over seeds, infinite for one seed.
    freedom: float  # Welch's degrees of freedom of `seed_error`.
    sentence_error: float = 0.0  # Standard error over the test sentences.
    sentences: int = 2

    def interval(self, level=_LEVEL):
        """Returns the confidence interval with this significance level."""
        if math.isinf(self.seed_error):
            return -math.inf, math.inf
        # Combine the half-widths of Welch's interval over seeds and of an
        # interval over sentences.
        half = np.hypot(
            *special.stdtrit([self.freedom, self.sentences - 1], 1 - level / 2)
            * [self.seed_error, self.sentence_error]
        )
        return self.mean - half, self.mean + half


def difference(better, than):
    """Returns a `Difference`: positive if `better` has the lower mean loss."""
    counts = better.counts
    if not np.array_equal(counts, than.counts):
        raise ValueError(
            "`better` and `than` must have losses of the same sentences. "
            f"Received: {len(counts)} sentences with {counts.sum()} "
            f"predictions, and {len(than.counts)} with {than.counts.sum()}"
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
    # The models read the same sentences, so losses are compared pair by pair.
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
    """Returns the verdict on a claim, given the interval of its difference."""
    if claim.margin is not None:
        if -claim.margin < low and high < claim.margin:
            return HOLDS
        apart = low > claim.margin or high < -claim.margin
        return DOES_NOT_HOLD if apart else NOT_DECIDED
    if low > 0:
        return HOLDS
    return DOES_NOT_HOLD if high < _SMALLEST else NOT_DECIDED


def verdicts(tests):
    """Returns a verdict for each tuple (`Claim`, `Difference` or `None`, number
    of required seeds). With probability 0.95, all verdicts are right."""
    words = [NOT_DECIDED] * len(tests)
    undecided = [
        index
        for index, (_, between, seeds) in enumerate(tests)
        if between is not None and between.seeds >= seeds
    ]
    # Holm's correction: the level is 0.05 / n for n undecided tests.
    before = None
    while len(undecided) != before:
        before = len(undecided)
        for index in undecided:
            claim, between, _ = tests[index]
            words[index] = verdict(claim, *between.interval(_LEVEL / before))
        undecided = [i for i in undecided if words[i] == NOT_DECIDED]
    return words


def losses_of(model, folder):
    """Returns a `Model`'s `Losses` of all seeds, or `None` without a log."""
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

The tables test the papers' claims that one model is better than another.

* A difference is in per cent of the second model's perplexity, or in points of
  accuracy for pairs. A positive difference agrees with the claim.
* Brackets contain the 95% interval, which is Welch's interval over seeds,
  widened by the variance over test sentences.
* A claim *holds* if the interval is above zero, and *does not hold* if the
  interval is below half a per cent or half a point. For a claim that models are
  equal, the interval must be within 2%.
* For verdicts, Holm's correction widens the intervals, so that all verdicts are
  right with a probability of 95%.
* If a setting is not the paper's, do not compare our numbers with published
  numbers. *Not run* means that one of the models has no run.
"""
_COLUMNS = ("claim", "published", "ours", "difference", "verdict")


def write(path, losses, command):
    """Writes claims.md; `losses` maps (setting, label) to `Losses`."""
    rows = _rows(losses)
    lines = [
        _INTRODUCTION,
        f"    {command}",
        "",
        "`--queue` prints the commands of missing runs.",
        "",
    ]
    for paper in dict.fromkeys(claim.paper for claim in paper_claims.CLAIMS):
        of_paper = [c for c in paper_claims.CLAIMS if c.paper == paper]
        lines += [f"## {presets.papers()[paper].citation}", ""]
        for name, setting in paper_claims.SETTINGS.items():
            cells = [row for c, of, row in rows if c in of_paper and of == name]
            if cells:
                lines += [
                    f"`{name}` uses {setting.description}, and "
                    f"{setting.seeds} seeds.",
                    "",
                    *_table([_COLUMNS, "-" * len(_COLUMNS), *cells]),
                    "",
                ]
        lines += [f"* {_source(of_paper)}", *map(_alone, of_paper), ""]
    lines = [line for line in lines if line is not None]
    files.write_text(path, "\n".join([*lines, ""]))


def _rows(losses):
    """Returns `(claim, name of the setting, cells)` for each row of tables."""
    tests = []
    for claim in paper_claims.CLAIMS:
        names = claim.settings if claim.models else ()
        both = {n: [losses[n, label] for label in labels(claim)] for n in names}
        # Show all settings that have a run, or else only the first setting.
        shown = [name for name in names if any(both[name])] or names[:1]
        tests += [(claim, name, both[name]) for name in shown]
    between = [
        None if None in both else difference(*both) for _, _, both in tests
    ]
    needed = [paper_claims.SETTINGS[name].seeds for _, name, _ in tests]
    words = verdicts(
        [(claim, *of) for (claim, *_), *of in zip(tests, between, needed)]
    )
    rows = []
    for (claim, name, both), found, seeds, word in zip(
        tests, between, needed, words
    ):
        pairs = claim.paper == "weissenborn2016"
        text = f"*{NOT_RUN if found is None else word}*"
        if found is not None and found.seeds < seeds:
            text += f" ({found.seeds} of {seeds} seeds)"
        if found is not None and claim.caution:
            text += f"; {claim.caution}"
        relation = "as good as" if claim.margin else "better than"
        cells = [
            f"`{claim.name}`: {f' {relation} '.join(labels(claim))}",
            ", ".join(number for _, number in claim.models),
            ", ".join(_level(side, pairs) for side in both),
            "" if found is None else _in_percent(found, pairs),
            text,
        ]
        rows.append((claim, name, cells))
    return rows


def _table(rows):
    """Returns the lines of a Markdown table."""
    return [f"|{'|'.join(cells)}|" for cells in rows]


def _source(claims):
    """Returns a line that names the sources of the published numbers."""
    names = {}
    for claim in filter(lambda claim: claim.models, claims):
        source = f"{claim.metric}, {claim.text} ({claim.where})"
        names.setdefault(source, []).append(f"`{claim.name}`")
    most = max(names, key=lambda source: len(names[source]))
    others = [f"{', '.join(n)}: {s}" for s, n in names.items() if s != most]
    return "; ".join([f"Published numbers: {most}", *others]) + "."


def _alone(claim):
    """Returns a line about a claim, or `None` if the claim compares models."""
    if claim.models:
        return None
    word, shown = (SEEN, claim.seen) if claim.seen else (NOT_RUN, claim.missing)
    stated = f"* `{claim.name}`: {claim.statement} ({claim.where})."
    return f"{stated} *{word}*: {shown}."


def _level(losses, pairs):
    """Formats mean and standard deviation of perplexities or accuracies."""
    if losses is None:
        return "?"
    values = 100 * (1 - losses.by_seed) if pairs else np.exp(losses.by_seed)
    text = f"{values.mean():.1f}"
    if len(values) > 1:
        text += f"±{statistics.stdev(values):.1f}"
    return text


def _in_percent(found, pairs):
    """Formats a `Difference` and its interval, in per cent."""

    def percent(number):
        return 100 * (number if pairs else 1 - math.exp(-number))

    if math.isinf(found.seed_error):
        return f"{percent(found.mean):.1f} (no interval)"
    low, high = map(percent, found.interval())
    return f"{percent(found.mean):.1f} ({low:.1f} to {high:.1f})"

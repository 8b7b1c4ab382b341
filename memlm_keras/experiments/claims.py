"""The `memlm claims` command: models are compared, and verdicts written.

Verdicts depend only on small files that are kept of the finished runs.
"""

import dataclasses
import glob
import json
import math
import pathlib
import shutil
import statistics
from collections.abc import Mapping

import keras
import numpy as np

from memlm_keras import files
from memlm_keras import presets
from memlm_keras.evaluation import sentence_losses
from memlm_keras.experiments import report
from memlm_keras.experiments import runs
from memlm_keras.experiments.datasets import evaluation_batches
from memlm_keras.experiments.experiment import again
from memlm_keras.experiments.options import CLASSIFIER
from memlm_keras.experiments.options import OVERRIDES
from memlm_keras.experiments.options import UsageError
from memlm_keras.experiments.options import as_flag
from memlm_keras.experiments.options import nearest
from memlm_keras.experiments.paper_claims import CLAIMS
from memlm_keras.experiments.paper_claims import SETTINGS
from memlm_keras.experiments.paper_claims import Setting
from memlm_keras.experiments.run_folder import RunFolder
from memlm_keras.experiments.table import experiment_of

HOLDS = "holds"
DOES_NOT_HOLD = "does not hold"
NOT_DECIDED = "not decided at this size"
NOT_RUN = "not run"
SEEN = "seen, not compared"

LOSSES = "test_losses.csv"
_COPIED = ("results.json", "log.csv")

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
        half = math.hypot(
            t_quantile(level, self.freedom) * self.seed_error,
            t_quantile(level, self.sentences - 1) * self.sentence_error,
        )
        return self.mean - half, self.mean + half


def t_quantile(tail, freedom):
    """Returns the t of Student's distribution with P(|T| > t) = `tail`."""
    # The density of t = sqrt(freedom) tan(angle) is cos(angle)^(freedom - 1).
    angles = np.linspace(np.pi / 2, 0, 100_001)
    density = np.maximum(np.cos(angles), 0) ** (freedom - 1)
    outside = np.cumsum((density[1:] + density[:-1]) / 2)
    angle = np.interp(tail, outside / outside[-1], angles[1:])
    return float(np.sqrt(freedom) * np.tan(angle))


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


# === Runs ===


@dataclasses.dataclass(frozen=True)
class Model:
    """A preset in a setting, with `changes` of it that the preset must use."""

    preset: str
    changes: Mapping
    setting: Setting

    def run(self, seed, logs, run_dir="runs", data_dir=None, **trial):
        """The `ClaimRun` of a seed, whose files are kept in a folder of `logs`;
        `trial` replaces options of the setting."""
        options = {**self.setting.options, **trial}
        flags = {**options, **self.changes}
        overrides, changes = [
            {k: v for k, v in values.items() if k in OVERRIDES}
            for values in ({**options, "data_dir": data_dir}, self.changes)
        ]
        running = {k: v for k, v in flags.items() if k not in OVERRIDES}
        experiment = experiment_of(
            self.preset, self.setting.dataset, seed, overrides, changes
        )
        kept = pathlib.Path(logs, self.setting.size)
        return ClaimRun(experiment, running, run_dir, kept)


class ClaimRun(runs.Run):
    """A model of a claim trained with one seed; its title is the command."""

    def __init__(self, experiment, running, run_dir, kept):
        self.experiment = experiment
        self.recipe = experiment.recipe
        self.running = running
        self.folder = pathlib.Path(run_dir, experiment.name)
        self.kept = kept / experiment.name
        losses = self.kept / LOSSES
        super().__init__(
            runs.short_command(self.recipe, **running),
            losses if losses.exists() else None,
        )

    def train(self, stop):
        failure = runs.train_in_process(
            self.folder, self.recipe, self.running, stop
        )
        if failure is None:
            runs.in_fresh_process(keep, self.folder, self.kept)
            self.results = self.kept / LOSSES
        return failure


def models_of(claims, size=None):
    """The `Model`s of claims, by the name of a setting and a label; those of a
    size, where "small" is the published one of claims without a smaller."""
    models = {}
    for name, setting in SETTINGS.items():
        for claim in claims:
            sizes = [SETTINGS[each].size for each in claim.settings]
            only = size == "small" and size not in sizes
            if name in claim.settings and (
                only or size in (None, setting.size)
            ):
                for label, (preset, _), changes in zip(
                    labels(claim), claim.models, claim.changes
                ):
                    models[name, label] = Model(
                        f"{claim.paper}/{preset}", changes, setting
                    )
    return models


def labels(claim):
    """Names of the two models of a claim."""
    return [
        " ".join([preset, *(as_flag(k, v) for k, v in changes.items())])
        for (preset, _), changes in zip(claim.models, claim.changes)
    ]


def claims(positional, values, command):
    """Trains missing runs, and writes the verdicts; returns the exit status."""
    if values.get("queue") and values.get("finished_only"):
        raise UsageError(
            "--queue shows the missing runs, and --finished_only trains "
            "nothing. Give one of them."
        )
    out = pathlib.Path(values.get("out", "claims"))
    logs = out / "logs"
    models = _chosen(
        positional.claim, values.get("setting"), values.get("size", "small")
    )
    run_dir, data_dir = values.get("run_dir", "runs"), values.get("data_dir")
    # All models of a setting are trained with the first seed first.
    every = [
        model.run(seed, logs, run_dir, data_dir)
        for setting in SETTINGS.values()
        for seed in range(setting.seeds)
        for model in models.values()
        if model.setting is setting
    ]
    failed = 0
    if values.get("queue"):
        runs.print_missing(every)
        return 0
    if not values.get("finished_only"):
        failed = train(
            every, values.get("jobs", 1), values.get("minutes", math.inf)
        )
    elif not any(run.results for run in every):
        print(
            f"None of {len(every)} runs is finished in {logs}. Published runs "
            "are in a clone of the package's repository: --out=docs/results."
        )
    # The document has all claims, also those that were not asked for.
    models = models_of(CLAIMS)
    losses = {key: losses_of(model, logs) for key, model in models.items()}
    path = out / "claims.md"
    write(path, models, losses, command)
    print(f"See {path}")
    return 1 if failed else 0


def train(every, jobs=1, minutes=math.inf):
    """Trains the `ClaimRun`s without results; returns how many failed."""
    missing = [run for run in every if run.results is None]
    # A corpus that cannot be read is an error before any training.
    datasets = [run.experiment.dataset for run in missing]
    for dataset in {each.name: each for each in datasets}.values():
        dataset.load()
    return runs.run_all(missing, jobs=jobs, minutes=minutes)


def _chosen(names, setting, size):
    """The models of the claims with these names, in a setting or in all."""
    known = {f"{claim.paper}/{claim.name}": claim for claim in CLAIMS}
    chosen = []
    for name in names or [""]:
        matches = [
            claim
            for full, claim in known.items()
            if name in ("", claim.paper, full)
        ]
        if not matches:
            papers = list(dict.fromkeys(claim.paper for claim in CLAIMS))
            raise UsageError(
                f"There is no claim {name}.{nearest(name, [*papers, *known])} "
                f"Claims are all of a paper, {', '.join(papers)}, or one: "
                f"{', '.join(known)}."
            )
        chosen += matches
    if setting is not None and setting not in SETTINGS:
        raise UsageError(
            f"There is no setting {setting}.{nearest(setting, list(SETTINGS))} "
            f"Settings are {', '.join(SETTINGS)}."
        )
    models = models_of(chosen, size if setting is None else None)
    others = ", ".join(dict.fromkeys(name for name, _ in models))
    models = {k: m for k, m in models.items() if setting in (None, k[0])}
    if not models:
        raise UsageError(
            f"No run of setting {setting} tests {', '.join(names)}. Settings "
            f"that do: {others}."
            if others
            else f"No runs test {', '.join(names)}: `memlm claims "
            "--finished_only` writes why."
        )
    return models


# === Kept files of a run ===


def keep(folder, kept):
    """Copies the small files of a finished run, and adds its test losses."""
    run_folder = RunFolder(folder)
    experiment = again(run_folder)
    losses, counts = _test_losses(experiment, run_folder.model())
    with files.atomic_path(pathlib.Path(kept)) as temporary:
        temporary.mkdir()
        for name in _COPIED:
            shutil.copy(run_folder.path / name, temporary / name)
        np.savetxt(
            temporary / LOSSES,
            np.stack([losses, counts], axis=1),
            fmt=["%.4f", "%d"],
            delimiter=",",
        )


def _test_losses(experiment, model):
    """Losses of test sentences, or 1 for each pair with a wrong label."""
    if experiment.kind != CLASSIFIER:
        return sentence_losses(
            model, evaluation_batches(experiment, model, "test")
        )
    wrong = []
    for inputs, targets, *weights in experiment.corpus.batches("test", 64):
        predicted = keras.ops.argmax(model.predict_on_batch(inputs), axis=-1)
        errors = keras.ops.convert_to_numpy(predicted) != targets
        wrong.append(errors[weights[0] > 0] if weights else errors)
    wrong = np.concatenate(wrong)
    return wrong.astype("float64"), np.ones(len(wrong), "int64")


def losses_of(model, logs):
    """The `Losses` of all kept seeds of a `Model`; `None` if there are none."""
    losses, parameters = [], None
    kept = model.run(0, logs).kept
    all_seeds = glob.escape(kept.name.removesuffix("0"))
    for path in sorted(kept.parent.glob(f"{all_seeds}*/{LOSSES}")):
        with files.reading(path, "losses of a run", "Delete its folder."):
            losses.append(np.loadtxt(path, delimiter=",", ndmin=2))
            results = json.loads(path.with_name("results.json").read_text())
            parameters = results["parameters"]
    if not losses:
        return None
    counts = losses[0][:, 1].astype("int64")
    return Losses(np.stack([each[:, 0] for each in losses]), counts, parameters)


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
    for paper in dict.fromkeys(claim.paper for claim in CLAIMS):
        lines += [f"## {presets.papers()[paper].citation}", ""]
        lines += report.markdown_table(
            _COLUMNS, [cells for claim, cells in rows if claim.paper == paper]
        )
        lines.append("")
    lines += ["## Settings and runs", ""]
    for name, setting in SETTINGS.items():
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
    for claim in CLAIMS:
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
            (claim, found, SETTINGS[name].seeds)
            for (claim, name, _), found in zip(tests, between)
        ]
    )
    rows = []
    for (claim, name, both), found, word in zip(tests, between, words):
        text = f"*{NOT_RUN if found is None else word}*"
        if claim.caution and found is not None:
            text += f", but {claim.caution}"
        seeds, needed = found.seeds if found else 0, SETTINGS[name].seeds
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
    for claim in CLAIMS:
        if not claim.models:
            shown = claim.seen or claim.missing
            word = SEEN if claim.seen else NOT_RUN
            cells = [_stated(claim), claim.published, "", shown, "", ""]
            rows.append((claim, [*cells, f"*{word}*"]))
    return sorted(rows, key=lambda row: CLAIMS.index(row[0]))


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

"""Draws how the cost of a step grows with a size.

    python -m benchmarks.growth --out=grown.json --pictures=docs/pictures
    python -m benchmarks.growth --sizes=window,copies
    python -m benchmarks.growth --show=grown.json --pictures=docs/pictures

At each size, the contenders take turns, as in `python -m benchmarks`. Dashed
lines show the limits in `Growth.limits`.
"""

import dataclasses
import json
import pathlib
import statistics
import sys

from absl import app
from absl import flags

from benchmarks import report
from benchmarks import runner
from benchmarks.suites import CASES

FLAGS = flags.FLAGS
flags.DEFINE_list("sizes", None, "Sizes to vary; by default all.")
flags.DEFINE_string("backend", "torch", "Backend of the contenders.")
flags.DEFINE_integer("threads", 2, "Threads of each process.", lower_bound=1)
flags.DEFINE_integer("rounds", 3, "Turns of each contender.", lower_bound=1)
flags.DEFINE_float("turn", 1.0, "Seconds of a turn.", lower_bound=0.01)
flags.DEFINE_string("out", None, "JSON file for the results.")
flags.DEFINE_string("show", None, "JSON file to draw, without measuring.")
flags.DEFINE_string("pictures", None, "Folder of the pictures.")


@dataclasses.dataclass(frozen=True)
class Growth:
    """A case with several values of one size.

    Attributes:
        case: string, name of the case.
        field: string, name of the size.
        sizes: tuple of integers.
        variants: tuple of strings, or `None` for all variants of the backend.
        measure: `"ratio"` to the baseline, `"memory"` in GiB, or `"speed"` in
            tokens per second.
        limits: dict from labels to limits; for `"memory"`, as a share of plain
            Keras' memory.
        other: dict of the sizes that do not vary.
    """

    case: str
    field: str
    sizes: tuple
    variants: tuple | None = None
    measure: str = "ratio"
    limits: dict = dataclasses.field(default_factory=dict)
    other: dict = dataclasses.field(default_factory=dict)

    def at(self, size):
        """Returns the case with this value of the size."""
        return dataclasses.replace(
            CASES[self.case], **self.other, **{self.field: size}
        )

    def contenders(self, backend):
        """Returns the contenders of a backend, and their baselines."""
        case = CASES[self.case]
        own = [c for c in case.contenders if c.backend == backend]
        own = [c for c in own if c.precision == "float32"]
        if self.variants is None:
            return [c for c in own if c.variant == "plain"]
        asked = [
            c for c in own if c.peer == "package" and c.variant in self.variants
        ]
        bases = {case.base(c) for c in asked}
        return [c for c in own if c in asked or c.name in bases]


GROWTH = {
    "window": Growth(
        "long_window",
        "window",
        (4, 8, 16, 32, 64, 128),
        ("attention", "key_value", "key_value_predict"),
        limits={"limit at 64": 2.0},
    ),
    "time": Growth(
        "memories",
        "time",
        (10, 20, 40, 80, 160),
        ("key_value_predict", "attentive_single", "attentive_combined"),
        limits={"limit of a combined score": 1.25, "limit of others": 1.1},
        other={"batch": 16, "units": 300, "vocabulary": 5_000},
    ),
    "vocabulary": Growth(
        "vocabulary_77003",
        "vocabulary",
        (2_000, 10_000, 33_278, 77_003),
        measure="memory",
        limits={"limit": 0.4},
    ),
    "copies": Growth(
        "associative_layer",
        "copies",
        (1, 2, 4, 8, 16),
        ("associative_gru", "dual_associative_gru"),
        limits={"limit of 8 copies": 2.5, "limit of a dual cell": 3.0},
    ),
    "delta_rule": Growth(
        "delta_rule_layer",
        "time",
        (64, 256, 1024, 4096),
        ("delta_rule",),
        limits={"limit at 64": 1.25},
    ),
    "batch": Growth("zaremba_medium", "batch", (1, 4, 16, 64), measure="speed"),
}


def measure(growth, backend, log):
    """Measures all contenders. Returns the values to draw and, for `"speed"`,
    the limit that matrix products set."""
    recorded = {"sizes": list(growth.sizes), "heights": {}, "limit": []}
    for size in growth.sizes:
        log(f"{growth.field} {size}")
        case, contenders = growth.at(size), growth.contenders(backend)
        results = runner.run(
            case, contenders, FLAGS.threads, FLAGS.rounds, FLAGS.turn, log=log
        )
        timed = {r.contender: r for r in results if r.refused is None}
        if growth.measure == "speed":
            peak = max(result.peak for result in timed.values())
            recorded["limit"].append(case.tokens * peak / case.flop)
        for contender in contenders:
            result = timed.get(contender.name)
            heights = recorded["heights"].setdefault(contender.name, [])
            heights.append(
                None if result is None else _height(growth, case, result, timed)
            )
    return recorded


def _height(growth, case, result, timed):
    if growth.measure == "memory":
        return result.memory / 2**30
    if growth.measure == "speed":
        return case.tokens / statistics.median(result.seconds)
    (contender,) = (c for c in case.contenders if c.name == result.contender)
    return runner.ratios(result, timed[case.base(contender)])[0]


_LABELS = {
    "ratio": "step time relative to the baseline",
    "memory": "GiB above the model's weights",
    "speed": "tokens a second",
}


def draw(name, recorded, folder):
    """Draws a `Growth` as a PNG file; returns the path of the file."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    growth, sizes = GROWTH[name], recorded["sizes"]
    figure, axes = plt.subplots(figsize=(6, 4), layout="constrained")
    for contender, heights in recorded["heights"].items():
        if growth.measure == "ratio" and all(h == 1 for h in heights):
            continue
        heights = [float("nan") if h is None else h for h in heights]
        axes.plot(sizes, heights, marker="o", label=contender)
        if growth.measure == "memory" and "plain_keras" in contender:
            share = growth.limits["limit"]
            axes.plot(
                sizes,
                [share * h for h in heights],
                "k--",
                label=f"limit, {share:.0%} of plain Keras",
            )
    if growth.measure == "ratio":
        for index, (label, height) in enumerate(growth.limits.items()):
            style = ("--", ":")[index]
            axes.axhline(height, color="black", linestyle=style, label=label)
    if recorded["limit"]:
        axes.plot(
            sizes, recorded["limit"], "k--", label="matrix products alone"
        )
    axes.set_xscale("log", base=2)
    axes.set_xticks(sizes, [f"{size:,}" for size in sizes])
    axes.minorticks_off()
    axes.set_ylim(bottom=0)
    axes.set_xlabel(growth.field)
    axes.set_ylabel(_LABELS[growth.measure])
    axes.legend(fontsize="small")
    path = pathlib.Path(folder) / f"growth_{name}.png"
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)
    plt.close(figure)
    return path


def main(argv):
    if argv[1:]:
        raise app.UsageError(f"Unknown arguments: {' '.join(argv[1:])}")
    unknown = set(FLAGS.sizes or ()) - set(GROWTH)
    if unknown:
        raise app.UsageError(
            f"--sizes must be of {', '.join(GROWTH)}. Received: "
            f"{', '.join(sorted(unknown))}"
        )
    if FLAGS.show:
        recorded = json.loads(pathlib.Path(FLAGS.show).read_text())
    else:
        recorded = report.record({}, FLAGS.threads, FLAGS.rounds)
        recorded["growth"] = {}
    for name in FLAGS.sizes or GROWTH:
        if not FLAGS.show:
            recorded["growth"][name] = measure(
                GROWTH[name],
                FLAGS.backend,
                lambda line: print(line, file=sys.stderr),
            )
            print(name, json.dumps(recorded["growth"][name]))
            if FLAGS.out:
                report.write(FLAGS.out, recorded)
        if FLAGS.pictures and name in recorded["growth"]:
            print(draw(name, recorded["growth"][name], FLAGS.pictures))


if __name__ == "__main__":
    app.run(main)

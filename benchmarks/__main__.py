"""Compares the speed of this package with other implementations.

    python -m benchmarks --suite=cpu
    python -m benchmarks --cases=zaremba_medium,memories --contenders=jax
    python -m benchmarks --show=docs/performance.json

All contenders of a case take turns, each in its own process, so that a slower
machine affects all of them. Before timing, all must have the same losses with
the same weights.
"""

import json
import pathlib
import sys

from absl import app
from absl import flags

from benchmarks import report
from benchmarks import runner
from benchmarks.suites import CASES
from benchmarks.suites import SUITES

FLAGS = flags.FLAGS
flags.DEFINE_enum("suite", "cpu", sorted(SUITES), "Suite of cases to measure.")
flags.DEFINE_list("cases", None, "Cases to measure, instead of a suite.")
flags.DEFINE_list(
    "contenders", None, "Only contenders whose name contains one of these."
)
flags.DEFINE_integer("threads", 2, "Threads of each process.", lower_bound=1)
flags.DEFINE_integer("rounds", 5, "Turns of each contender.", lower_bound=1)
flags.DEFINE_float("turn", 2.0, "Seconds of a turn.", lower_bound=0.01)
flags.DEFINE_string("out", None, "JSON file for the results.")
flags.DEFINE_string("show", None, "JSON file to print, without measuring.")


def main(argv):
    if argv[1:]:
        raise app.UsageError(f"Unknown arguments: {' '.join(argv[1:])}")
    if FLAGS.show:
        recorded = json.loads(pathlib.Path(FLAGS.show).read_text())
        print(report.document(recorded))
        return
    measured = {}
    for name in FLAGS.cases or SUITES[FLAGS.suite]:
        if name not in CASES:
            raise app.UsageError(
                f"Unknown case {name}. Cases are {', '.join(CASES)}."
            )
        contenders = [
            contender
            for contender in CASES[name].contenders
            if FLAGS.contenders is None
            or any(part in contender.name for part in FLAGS.contenders)
        ]
        measured[name] = runner.run(
            CASES[name],
            contenders,
            threads=FLAGS.threads,
            rounds=FLAGS.rounds,
            turn=FLAGS.turn,
            log=lambda line: print(line, file=sys.stderr),
        )
        recorded = report.record(measured, FLAGS.threads, FLAGS.rounds)
        print(
            "\n".join([f"\n{name}", *report.table(CASES[name], measured[name])])
        )
        if FLAGS.out:
            report.write(FLAGS.out, recorded)


if __name__ == "__main__":
    app.run(main)

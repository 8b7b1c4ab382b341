"""Compares the speed of this package with other implementations.

    python -m benchmarks --suite=cpu
    python -m benchmarks --suite=gpu --out=measured.json
    python -m benchmarks --cases=zaremba_medium,memories --contenders=jax
    python -m benchmarks --show=docs/performance.json

All contenders of a case take turns, each in its own process, so that a slower
machine affects all contenders. Before timing, contenders with the same weights
must have the same losses.
"""

import dataclasses
import json
import pathlib
import sys
import time

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
flags.DEFINE_integer(
    "rounds", None, "Turns of each contender; by default 5.", lower_bound=1
)
flags.DEFINE_float(
    "turn", None, "Seconds of a turn; by default 2.", lower_bound=0.01
)
flags.DEFINE_float("minutes", None, "Skip cases that would end later.")
flags.DEFINE_bool("trial", False, "Whether to run once, at tiny sizes.")
flags.DEFINE_string("out", None, "JSON file for the results.")
flags.DEFINE_string("show", None, "JSON file to print, without measuring.")


# The GPU suite lasts less than eight minutes. `warm` steps are not timed.
_GPU = {"rounds": 3, "turn": 0.4, "minutes": 7.5, "warm": runner.RECORDED}
_TRIAL = {"rounds": 1, "turn": 0.01, "warm": 1}
_TINY = {
    "batch": 2,
    "time": 3,
    "vocabulary": 50,
    "units": 12,
    "embedding": 12,
    "window": 2,
}


def main(argv):
    if argv[1:]:
        raise app.UsageError(f"Unknown arguments: {' '.join(argv[1:])}")
    if FLAGS.show:
        recorded = json.loads(pathlib.Path(FLAGS.show).read_text())
        print(report.document(recorded))
        return
    measured = {}
    settings = {"rounds": 5, "turn": 2.0, "minutes": None, "warm": 0}
    settings |= _GPU if FLAGS.suite == "gpu" and not FLAGS.cases else {}
    settings |= _TRIAL if FLAGS.trial else {}
    given = {name: getattr(FLAGS, name) for name in settings if name != "warm"}
    settings |= {k: v for k, v in given.items() if v is not None}
    minutes, begin, longest = settings.pop("minutes"), time.monotonic(), 0
    for name in FLAGS.cases or SUITES[FLAGS.suite]:
        started = time.monotonic()
        if minutes and started - begin + longest > 60 * minutes:
            print(f"\n{name} was left out: {minutes} minutes are too few.")
            continue
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
        case = CASES[name]
        if FLAGS.trial:
            case = dataclasses.replace(case, **_TINY)
        measured[name] = runner.run(
            case,
            contenders,
            threads=FLAGS.threads,
            log=lambda line: print(line, file=sys.stderr),
            **settings,
        )
        longest = max(longest, time.monotonic() - started)
        recorded = report.record(measured, FLAGS.threads, settings["rounds"])
        print("\n".join([f"\n{name}", *report.table(case, measured[name])]))
        if FLAGS.out:
            report.write(FLAGS.out, recorded)


if __name__ == "__main__":
    app.run(main)

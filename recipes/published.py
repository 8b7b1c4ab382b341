"""Trains the models of the papers' tables at the published sizes.

    python recipes/published.py --list
    python recipes/published.py --seeds=1 --jobs=4 --minutes=180 kong zaremba
    python recipes/published.py --data_dir=FOLDER tran2016

FOLDER has a folder for each corpus: `ptb`, `wikitext-2`, `sick`. Arguments are
names of papers or of entries in `QUEUE`; the default is the whole queue. Each
run is a process of `memlm train`. Repeat a command to continue interrupted
runs. Finished runs are logged in `docs/results/logs/paper.jsonl`. Then run
`claims.py --finished_only --out=docs/results` to write the verdicts.

`--list` prints the commands of missing runs to standard output, and a table of
the rows to standard error.
"""

import dataclasses
import itertools
import math
import pathlib
import sys
from collections.abc import Mapping

from absl import flags

import memlm_keras as memlm
import programs
from memlm_keras.experiments import process
from memlm_keras.experiments.options import UsageError
from memlm_keras.experiments.options import nearest
from paper_claims import SETTINGS
from paper_claims import Setting

LOGS = pathlib.Path(__file__).parents[1] / "docs" / "results" / "logs"
FLAGS = flags.FLAGS
flags.DEFINE_bool("list", False, "Only print the missing runs.")
flags.DEFINE_integer("jobs", 1, "Number of runs at the same time.", 1)
flags.DEFINE_float("minutes", math.inf, "Minutes until the program stops.", 0.0)
flags.DEFINE_integer("seeds", 99, "Largest number of seeds of a row.", 1)
flags.DEFINE_string("data_dir", None, "Folder with a folder per corpus.")
flags.DEFINE_enum("backend", None, process.BACKENDS, "Keras backend.")
flags.DEFINE_enum(
    "matmul_precision", None, [*process.PRECISIONS], "As in memlm train."
)
flags.DEFINE_string("run_dir", "runs", "Folder of the run folders.")
flags.DEFINE_string("logs", str(LOGS), "Folder of the logs.")
flags.DEFINE_multi_string("trial", [], "Option such as units=8, to test a run.")
# With one of these flags, `--list` prints commands with this machine's paths.
HERE = ("data_dir", "backend", "matmul_precision", "run_dir")


@dataclasses.dataclass(frozen=True)
class Entry:
    """Rows of a paper's table that are trained in one setting."""

    name: str
    table: str
    rows: str  # Presets, separated by spaces; "" means all rows.
    setting: Setting
    seeds: int
    hours: float  # Estimated hours of a run on two CPU cores.
    minutes: float  # Estimated minutes of a run on an H100.
    decides: str
    changes: Mapping = dataclasses.field(default_factory=dict)

    @property
    def paper(self):
        return self.table.partition("/")[0]


_PTB = Setting("Penn Treebank, as published", "ptb", {})
_WIKITEXT2 = Setting("WikiText-2, as published", "wikitext-2", {})
_TRAN, _SICK = SETTINGS["tran2016"], SETTINGS["weissenborn2016"]
_DANILUK = SETTINGS["daniluk2017_penn_treebank"]
_ENTAILMENT, _PERPLEXITY = "weissenborn2016/entailment", "tran2016/perplexity"
_BASELINES = "baselines/ptb"
_CLAIMED = (
    "lstm attention key_value key_value_predict_786 ngram_4 lstm_projected "
    "rm_tm_gated gated_hornn"
)

# The first entries give the most results per hour of training.
# fmt: off
QUEUE = (
    Entry("tran", _PERPLEXITY, "rm_tm_gated lstm_3 lstm_1 rm_notm_gated "
          "rm_tm_linear rmr_tm_gated memn", _TRAN, 3, 0.5, 3,
          "Penn Treebank's two numbers, and all claims of Table 2"),
    # `halve_after` has the preset's value, and only gives the run a new name.
    Entry("tran_last", _PERPLEXITY, "rm_tm_gated lstm_3", _TRAN, 1, 0.8, 4,
          "whether the paper tested its last epoch, not its best",
          {"halve_after": 4, "patience": 15, "test_last": True}),
    Entry("daniluk", "daniluk2017/models", _CLAIMED, _DANILUK, 3, 0.8, 4,
          "nine claims at the printed sizes, on another corpus"),
    Entry("daniluk_attention", "daniluk2017/windows", "attention", _DANILUK, 3,
          0.8, 4, "the claim that one past output is enough"),
    Entry("sick", _ENTAILMENT, "", _SICK, 5, 0.4, 2,
          "the order of Table 1 at the printed sizes, on another corpus"),
    Entry("sick_keys", _ENTAILMENT, "am_gru_shared dual_am_gru_shared", _SICK,
          5, 0.1, 1, "whether short keys and halving reduce accuracy on SICK",
          {"halve": False, "key": "unit"}),
    Entry("sick_rate", _ENTAILMENT, "gru_shared lstm_attention", _SICK, 5, 0.1,
          1, "whether halving alone reduces accuracy", {"halve": False}),
    Entry("zaremba_small", _BASELINES, "zaremba2014/small", _PTB, 3, 0.7, 2,
          "114.5, without dropout"),
    Entry("press_small", _BASELINES, "small_wt small_pr small_wt_pr", _PTB, 3,
          0.7, 2, "112.4, 111.7 and 100.9, with tied embeddings"),
    Entry("zaremba", _BASELINES, "zaremba2014/medium", _PTB, 3, 6.7, 7,
          "82.7, on a text that many have"),
    Entry("salton", "salton2017/ptb", "", _PTB, 3, 5.8, 6,
          "Table 1, with and without attention, and the control"),
    Entry("kong", "kong2019/ptb", "vanilla_tied_512", _PTB, 3, 8, 5,
          "Table 2, 512 units: without smoothing"),
    Entry("kong_kneser_ney", "kong2019/ptb", "vs_kneser_ney_512 "
          "dn_kneser_ney_512", _PTB, 3, 11, 7,
          "the paper's main claim, and samples in Section 5.4",
          {"samples": 20}),
    Entry("kong_512", "kong2019/ptb", "vanilla_untied_512 dn_linear_512 "
          "vs_linear_512 vs_elementwise_512", _PTB, 3, 10, 7,
          "the other rows of 512 units"),
    Entry("grave", _BASELINES, "grave2017/ptb_cache_500", _PTB, 3, 9, 8,
          "82.3 without a cache and 72.1 with it, by one run"),
    Entry("daniluk_wikitext2", "daniluk2017/models", _CLAIMED,
          SETTINGS["daniluk2017"], 2, 2.8, 10, "nine claims, more text"),
    Entry("daniluk_wikitext2_attention", "daniluk2017/windows", "attention",
          SETTINGS["daniluk2017"], 2, 2.8, 10, "the claim of one past output"),
    Entry("tran_all", _PERPLEXITY, "", _TRAN, 3, 0.5, 3, "rows of Table 2"),
    Entry("daniluk_all", "daniluk2017/models", "", _DANILUK, 3, 0.8, 4,
          "the other rows of Figure 2 (b) and (c)"),
    Entry("daniluk_windows", "daniluk2017/windows", "", _DANILUK, 1, 0.8, 4,
          "Figure 2 (a)"),
    Entry("merity", _BASELINES, "ptb_zoneout_variational ptb_pointer_sentinel",
          _PTB, 3, 12, 15, "80.6, and 70.9 with a pointer"),
    Entry("gal", _BASELINES, "gal2016/medium", _PTB, 3, 9, 15,
          "79.7, and 78.6 as an average", {"monte_carlo": 100}),
    *(Entry(f"kong_rate_{rate}", "kong2019/grid", "", _PTB, 1, 11, 7,
            "Figure 1", {"rate": rate}) for rate in (0.1, 0.3, 0.4)),
    Entry("averages", _BASELINES, "zaremba2014/medium", _PTB, 10, 6.7, 7,
          "77.0, 73.3, 72.0 by memlm evaluate of 2, 5 and 10 runs"),
    Entry("kong_1024", "kong2019/ptb", "", _PTB, 3, 29, 12, "Table 2"),
    Entry("large", _BASELINES, "zaremba2014/large large_wt large_wt_bd", _PTB,
          1, 38, 20, "78.4, and 73.2 with tied embeddings"),
    Entry("gal_large", _BASELINES, "gal2016/large", _PTB, 1, 45, 40,
          "75.2, and 73.4 as an average", {"monte_carlo": 100}),
    Entry("salton_wikitext2", "salton2017/wikitext2", "", _WIKITEXT2, 1, 45,
          30, "Table 2, with and without attention, and the control"),
    Entry("baselines_wikitext2", "baselines/wikitext2",
          "wikitext2_cache_100 wikitext2_cache_2000 wikitext2_variational_lstm "
          "wikitext2_zoneout_variational wikitext2_pointer_sentinel",
          _WIKITEXT2, 1, 45, 40, "what Salton et al. compare with"),
    Entry("kong_wikitext2", "kong2019/wikitext2", "", _WIKITEXT2, 1, 85, 40,
          "Table 2, WikiText-2"),
)
# fmt: on

# Tables that the queue leaves out, since their texts are missing or too large.
ELSEWHERE = {
    "daniluk2017/models, windows, ngrams": "needs articles of Wikipedia "
    "(goo.gl/s8cyYa); models read Penn Treebank and WikiText-2 in their place",
    "daniluk2017/cbt": "needs the Children's Book Test, 120 MB: memlm table "
    "daniluk2017/cbt",
    "tran2016/perplexity": "needs German, Italian and English news; models "
    "read Penn Treebank in their place",
    "tran2016/completion": "needs 522 novels and the questions: memlm table "
    "tran2016/completion",
    "weissenborn2016/entailment": "needs SNLI; models read SICK in their place",
}


def rows_of(entry):
    """Returns the `TableRow`s of an `Entry`."""
    names = set(entry.rows.split())
    return [
        row
        for row in memlm.presets.tables()[entry.table].rows
        if row.preset is not None
        and (not names or names & {row.preset, row.preset.split("/")[1]})
    ]


def runs_of(entries):
    """Yields `(entry, row, runs)`, without runs of an earlier `Entry`."""
    from claim_runs import Model

    seen = set()
    trial = dict(each.split("=", 1) for each in FLAGS.trial)
    for entry in entries:
        data_dir = (
            FLAGS.data_dir and f"{FLAGS.data_dir}/{entry.setting.dataset}"
        )
        for row in rows_of(entry):
            changes = {**row.changes, **entry.changes}
            model = Model(row.preset, changes, entry.setting)
            runs = [
                model.run(seed, FLAGS.logs, FLAGS.run_dir, data_dir, **trial)
                for seed in range(min(entry.seeds, FLAGS.seeds))
            ]
            yield entry, row, [run for run in runs if run.folder not in seen]
            seen |= {run.folder for run in runs}


def chosen(names):
    """Returns the entries of the queue with these names or papers."""
    known = [name for e in QUEUE for name in (e.name, e.paper)]
    for name in names:
        if name not in known:
            raise UsageError(f"There is no entry {name}.{nearest(name, known)}")
    return [e for e in QUEUE if not names or {e.name, e.paper} & set(names)]


def describe(found):
    """Prints a table of rows, published numbers, seeds and expected times."""
    line, cells, total = "  {:38} {:>9} {:>6} {:>7} {:>8}", {}, (0, 0)
    lines = [line.format("row", "published", "seeds", "hours", "GPU min.")]
    for entry, group in itertools.groupby(found, lambda each: each[0]):
        lines.append(f"{entry.name}: {entry.decides}")
        for _, row, runs in filter(lambda each: each[2], group):
            left = sum(run.results is None for run in runs)
            times = left * entry.hours, left * entry.minutes
            total = total[0] + times[0], total[1] + times[1]
            number = ""
            if numbers := row.published_on(entry.setting.dataset):
                number = f"{[*numbers.values()][-1]:.1f}"
                cells.setdefault((entry.table, row.label), left < len(runs))
            label = row.label.removeprefix(f"{entry.paper}/")
            seeds = f"{len(runs) - left}/{len(runs)}"
            times = (f"{each:.1f}" for each in times)
            lines.append(line.format(label, number, seeds, *times))
    lines.append(
        f"{sum(cells.values())} of {len(cells)} rows with a published number "
        "for the same text have a run. The missing runs take about "
        f"{total[0]:,.0f} hours on two cores, or {total[1] / 60:,.0f} hours on "
        "an H100 that trains one run at a time."
    )
    lines += [f"Left out: {table}: {why}." for table, why in ELSEWHERE.items()]
    print(*lines, sep="\n", file=sys.stderr)


def main(names):
    # The backend must be selected before Keras is imported.
    process.import_keras(FLAGS.backend, FLAGS.matmul_precision)
    import claim_runs
    from memlm_keras.experiments.tables import runs

    found = list(runs_of(chosen(names)))
    every = []
    for _, group in itertools.groupby(found, lambda each: each[0]):
        # Train all rows of an entry with seed 0 first, then with seed 1.
        by_seed = itertools.zip_longest(*(of_row for *_, of_row in group))
        every += filter(None, itertools.chain(*by_seed))
    if FLAGS.list:
        describe(found)
        runs.print_missing(every, short=not any(FLAGS[n].present for n in HERE))
        return 0
    return claim_runs.train(every, FLAGS.jobs, FLAGS.minutes) > 0


if __name__ == "__main__":
    programs.run(main)

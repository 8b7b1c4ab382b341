r"""Trains models on recall tasks: questions about an earlier part of a text.

    python recipes/recall.py --filler=zeros --epochs=3 \
        --rows=lstm,pointer_sentinel,attention_without_lstm
    python recipes/recall.py                     # all models, 4 pairs
    python recipes/recall.py --pairs=2,4,8,16    # accuracy by number of pairs
    python recipes/recall.py --task=copy --distances=1,10
    python recipes/recall.py --setting=mix       # one model for 4 to 32 pairs
    python recipes/recall.py --setting=zoology_mix --units=64,128,256

On a CPU core, the first command takes about a minute, and the second about 90
minutes. Tasks are multi-query associative recall (Arora et al., 2023,
"Zoology"), copying a token from a distance, and remembering which thing each
person has. Repeat a command to continue an interrupted run.
"""

from absl import flags

import programs
from memlm_keras.experiments import process
from memlm_keras.experiments.options import UsageError
from recall_rows import ROWS
from recall_rows import SETTINGS

# Flags of each task; models are compared for each value of the first flag.
TASKS = {
    "mqar": ("pairs", "filler", "forgetting"),
    "copy": ("distances",),
    "binding": ("people",),
}
RUNS = "setting run_dir rows units seeds shift epochs filler forgetting".split()


class List(flags.ArgumentParser):
    """Parses values separated by commas, and drops repeated values."""

    def __init__(self, item):
        self.item = item

    def parse(self, text):
        return list(dict.fromkeys(map(self.item.parse, text.split(","))))


def define(name, default, help, item):
    flags.DEFINE(List(item), name, default, help, serializer=COMMAS)


COMMAS = flags.ListSerializer(",")
COUNT = flags.IntegerParser(lower_bound=1)
FLAGS = flags.FLAGS
flags.DEFINE_enum("backend", None, process.BACKENDS, "Keras backend.")
flags.DEFINE_enum("task", "mqar", [*TASKS], "Recall task.")
flags.DEFINE_enum("setting", "small", [*SETTINGS], "Sizes and training flags.")
names = f"Models: {', '.join(ROWS)}."
define("rows", ",".join(ROWS), names, flags.EnumParser([*ROWS]))
define("pairs", None, "Pairs of mqar; default: the setting's.", COUNT)
define("distances", "1,5,10,20,40", "Distances in the task copy.", COUNT)
define("people", "2,4,8", "Numbers of people in binding.", COUNT)
flags.DEFINE_enum("filler", "uniform", ["uniform", "zeros"], "Filler of mqar.")
flags.DEFINE_integer("forgetting", 0, "Keys of mqar with a second value.")
define("units", "64", "Sizes of the models.", COUNT)
define("seeds", "0", "Random seeds.", flags.IntegerParser(lower_bound=0))
flags.DEFINE_integer("epochs", None, "Maximum epochs; default: by setting.", 1)
flags.DEFINE_bool("shift", False, "Layers also read the previous embedding.")
flags.DEFINE_string(
    "run_dir", "runs/recall", "Folder of recall.jsonl, the runs, and pictures."
)


def main(arguments):
    """Trains and compares the models; returns the exit status."""
    require_effect(arguments)
    process.import_keras(FLAGS.backend)
    import recall_runs

    try:
        runs = recall_runs.make_runs(
            FLAGS.task,
            FLAGS[TASKS[FLAGS.task][0]].value,
            **{name: FLAGS[name].value for name in RUNS},
        )
    except ValueError as error:
        raise UsageError(error) from None
    every = [run for each in runs.values() for run in each]
    setting = SETTINGS[FLAGS.setting]
    sequences = (FLAGS.epochs or setting.epochs) * setting.rows
    time = "hours" if sequences > 1_000_000 else "minutes"
    print(
        f"Models to train: {sum(len(run.settings) for run in every)}, on up to "
        f"{sequences:,} sequences each, which takes {time} a model on a CPU "
        f"core. Finished runs in {FLAGS.run_dir} are not trained again."
    )
    recall_runs.runs.run_all(every)
    recall_runs.write(runs, FLAGS.task, FLAGS.setting, FLAGS.run_dir)
    return 0


def require_effect(arguments):
    """Raises `UsageError` for flags that have no effect."""
    if arguments:
        raise UsageError(
            "Arguments must be flags, and lists have commas without spaces. "
            f"Received: {arguments[0]}"
        )
    for task, names in TASKS.items():
        for name in names:
            if task != FLAGS.task and FLAGS[name].present:
                raise UsageError(
                    f"--{name} is for --task={task} only. Received: "
                    f"--task={FLAGS.task}"
                )


if __name__ == "__main__":
    programs.run(main)

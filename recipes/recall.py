r"""Recall: does the memory remember? Which model answers, and at what price.

    python recipes/recall.py --epochs=3 \
        --rows=lstm,pointer_sentinel,attention_without_lstm
    python recipes/recall.py                     # all models, 4 pairs
    python recipes/recall.py --pairs=2,4,8,16    # accuracy by number of pairs
    python recipes/recall.py --task=copy --distances=1,5,10,20,40
    python recipes/recall.py --task=binding --people=2,4,8
    python recipes/recall.py --rows=attention,key_value --setting=large --shift
    python recipes/recall.py --setting=zoology_64 --units=64,128,256,512

The first takes about a minute, the second about 90 of a busy core.

Multi-query associative recall as Zoology has it (Arora et al., 2023), copying
from a distance, and binding people to what they have. A run that is finished is
read and not run again, so the same command goes on where it was interrupted.
Prints a table and draws accuracy against bytes of state and, of several pairs,
distances or people, against these. Exit status 2: wrong use, nothing was
trained.
"""

import itertools
import pathlib
import sys

from absl import app
from absl import flags

from memlm_keras.experiments import command_line
from memlm_keras.experiments import process
from memlm_keras.experiments.options import UsageError
from memlm_keras.experiments.options import nearest

# --help lists these before there is a backend to import their module on.
ROWS = (
    "lstm gru gated_hornn ngram_4 attention_10 attention key_value_10 "
    "key_value key_value_predict_5 key_value_predict memory_block_15 "
    "memory_block attentive_single attentive_combined am_gru am_gru_unit "
    "am_lstm am_lstm_unit pointer_sentinel attention_without_lstm"
).split()
SETTINGS = "small large large_128 zoology_64 zoology_128 zoology_256".split()
# The flags that a task has and others have not, the numbers of its axis first.
FLAGS_OF = {
    "mqar": ("pairs", "filler", "forgetting"),
    "copy": ("distances",),
    "binding": ("people",),
}
AXES = {"mqar": "pairs", "copy": "distance", "binding": "people"}

FLAGS = flags.FLAGS
flags.DEFINE_enum("backend", None, process.BACKENDS, "Keras backend.")
flags.DEFINE_enum("task", "mqar", list(FLAGS_OF), "The task.")
flags.DEFINE_string(
    "setting",
    "small",
    "How models are trained: small, large (a vocabulary of 8,192), large_128, "
    "or one of Zoology's Figure 2: zoology_64, zoology_128, zoology_256.",
)
flags.DEFINE_list(
    "rows", None, f"Models, instead of all. There are {', '.join(ROWS)}."
)
flags.DEFINE_list("pairs", None, "Pairs of mqar, instead of the setting's.")
flags.DEFINE_list("distances", ["1", "5", "10", "20", "40"], "Of copy.")
flags.DEFINE_list("people", ["2", "4", "8"], "Of binding.")
flags.DEFINE_enum(
    "filler", "zeros", ("zeros", "uniform"), "Between queries of mqar."
)
flags.DEFINE_integer("forgetting", 0, "Keys of mqar written a second time.")
flags.DEFINE_list("units", ["64"], "Sizes of the models.")
flags.DEFINE_list("seeds", ["0"], "Seeds of everything random.")
flags.DEFINE_integer("epochs", None, "At most, instead of the setting's.")
flags.DEFINE_bool("shift", False, "Read the previous word's embedding as well.")
flags.DEFINE_string("run_dir", "runs/recall", "Folder of runs and pictures.")


def main(argv):
    """Runs the recipe; returns the exit status."""
    try:
        require_flags(argv)
        numbers, units, names, seeds = lists()
        command_line.import_keras(FLAGS.backend)
        from memlm_keras.experiments import recall

        setting = recall.SETTINGS[FLAGS.setting]
        runs = list(
            itertools.product(
                tasks(numbers or [setting.pairs], setting).items(),
                units,
                names,
                seeds,
            )
        )
        require_units(units, [recall.ROWS[name] for name in names])
    except UsageError as error:
        return failed(error)
    print(cost(runs, setting))
    found = {}
    for number, ((x, task), size, name, seed) in enumerate(runs, start=1):
        print(f"{number}/{len(runs)} {name}, {size} units: {task}", flush=True)
        folder = pathlib.Path(FLAGS.run_dir, FLAGS.setting, recall.slug(task))
        shift = "-shift" * FLAGS.shift
        results = recall.run(
            name,
            task,
            FLAGS.setting,
            folder / f"{name}{shift}-{size}-seed{seed}",
            units=size,
            shift=FLAGS.shift,
            seed=seed,
            epochs=FLAGS.epochs,
        )
        found.setdefault(x, []).append(results)
    report(found)
    return 0


def report(found):
    """Prints a table of each number of the task's axis, and draws them."""
    from memlm_keras.experiments import recall

    axis = AXES[FLAGS.task]
    run_dir = pathlib.Path(FLAGS.run_dir)
    for x, results in found.items():
        title = f"{FLAGS.task}, {axis} {x}, {FLAGS.setting}"
        path = run_dir / f"{FLAGS.task}_{FLAGS.setting}_{x}_bytes.png"
        print(f"\n{title}\n")
        print("\n".join(recall.lines(results)))
        recall.draw_bytes(results, path, title)
        print("\n" + recall.cut_short(results) + f"Picture: {path}")
    if len(found) > 1:
        path = run_dir / f"{FLAGS.task}_{FLAGS.setting}.png"
        recall.draw_lines(found, path, FLAGS.task, axis)
        print(f"Picture: {path}")
    print(f"\n{recall.VERDICTS}")


def cost(runs, setting):
    """A line on what is about to be trained."""
    from memlm_keras.experiments import recall

    models = sum(
        len(recall.rates_of(recall.ROWS[name], setting))
        for _, _, name, _ in runs
    )
    epochs = setting.epochs if FLAGS.epochs is None else FLAGS.epochs
    sequences = epochs * setting.rows
    return (
        f"Models to train: {models}, on up to {sequences:,} sequences each, "
        f"which takes {'hours' if sequences > 1_000_000 else 'minutes'} a "
        f"model on a CPU core. Those finished in {FLAGS.run_dir} are not "
        "trained again."
    )


# === What was typed ===


def require_flags(argv):
    """Refuses names that there are not, and flags that have no effect."""
    if argv[1:]:
        raise UsageError(
            "Arguments must be flags, and lists have commas without spaces. "
            f"Received: {argv[1]}"
        )
    for flag, known in (("rows", ROWS), ("setting", SETTINGS)):
        names = FLAGS[flag].value
        if names is None:
            continue
        for name in [names] if isinstance(names, str) else names or [""]:
            if name not in known:
                raise UsageError(
                    f"--{flag} must be of {', '.join(known)}. Received: "
                    f"{name or 'nothing'}.{nearest(name, known)}"
                )
    for task, names in FLAGS_OF.items():
        for name in names:
            if task != FLAGS.task and FLAGS[name].present:
                raise UsageError(
                    f"--{name} is for --task={task} only. Received: "
                    f"--task={FLAGS.task}"
                )
    if FLAGS.epochs is not None and FLAGS.epochs < 1:
        raise UsageError(
            f"--epochs must be at least 1. Received: {FLAGS.epochs}"
        )


def lists():
    """The lists of numbers, units, names and seeds, each thing in them once.

    Numbers are those of the task's axis, `None` where the setting's count.
    """
    numbers = FLAGS_OF[FLAGS.task][0]
    return (
        None if FLAGS[numbers].value is None else integers(numbers),
        integers("units"),
        ROWS if FLAGS.rows is None else list(dict.fromkeys(FLAGS.rows)),
        integers("seeds", minimum=0),
    )


def integers(flag, minimum=1):
    """The integers of a flag, each once."""
    found = {}
    for text in FLAGS[flag].value or [""]:
        try:
            number = int(text)
        except ValueError:
            number = minimum - 1
        if number < minimum:
            raise UsageError(
                f"--{flag} must be integers of at least {minimum}, with commas "
                f"between. Received: {text or 'nothing'}"
            )
        found[number] = True
    return list(found)


def tasks(numbers, setting):
    """Dict of the tasks by the number that pictures have on their axis."""
    from memlm_keras.data.recall import MQAR
    from memlm_keras.data.recall import Binding
    from memlm_keras.data.recall import Copy

    flag = FLAGS_OF[FLAGS.task][0]
    if FLAGS.task == "copy":
        make, most = Copy, Copy.length - Copy.queries
        why = (
            f"sequences of {Copy.length} tokens, {Copy.queries} of which are "
            "asked for"
        )
    elif FLAGS.task == "binding":
        make, most = Binding, Binding.names
        why = f"{Binding.names} people in all"
    else:
        most = (setting.length - 2 * FLAGS.forgetting) // 4
        why = f"--setting={FLAGS.setting} and --forgetting={FLAGS.forgetting}"
        if not 0 <= FLAGS.forgetting <= min(numbers):
            raise UsageError(
                "--forgetting must be at least 0, and at most the number of "
                f"pairs, {min(numbers)}. Received: {FLAGS.forgetting}"
            )

        def make(pairs):
            return MQAR(
                setting.vocabulary_size,
                setting.length,
                pairs,
                FLAGS.filler,
                FLAGS.forgetting,
            )

    if max(numbers) > most:
        raise UsageError(
            f"--{flag} must be at most {most} with {why}. Received: "
            f"{max(numbers)}"
        )
    return {number: make(number) for number in numbers}


def require_units(units, rows):
    """Refuses a size of which there is no layer of one of the rows."""
    for row, size in itertools.product(rows, units):
        try:
            if row.layer is not None:
                row.layer(size * row.parts)
        except ValueError as error:
            raise UsageError(f"--units: {error}") from None


def parse(argv):
    """Reads the flags; ends the program where one is wrong."""
    try:
        return FLAGS(argv)
    except flags.Error as error:
        sys.exit(failed(error))


def failed(error):
    """Prints an error as one line; returns the exit status."""
    print("recall.py:", " ".join(str(error).split()), file=sys.stderr)
    return 2


if __name__ == "__main__":
    app.run(main, flags_parser=parse)

"""Recall: does the memory remember? Which row answers, and at what price.

    python recipes/recall.py                     # 4 pairs in rows of 64 tokens
    python recipes/recall.py --pairs=2,4,8,16    # accuracy by number of pairs
    python recipes/recall.py --task=copy --distances=1,5,10,20,40
    python recipes/recall.py --task=binding --people=2,4,8
    python recipes/recall.py --rows=attention,key_value --setting=large --shift
    python recipes/recall.py --setting=zoology_64 --units=64,128,256,512

Multi-query associative recall as Zoology has it (Arora et al., 2023), copying
from a distance, and binding people to what they have. A run that is finished is
read and not run again, so the same command goes on where it was interrupted.
Prints a table and draws accuracy against bytes of state and, of several pairs,
distances or people, against these.
"""

import itertools
import pathlib

from absl import app
from absl import flags

from memlm_keras.experiments import command_line
from memlm_keras.experiments import subcommands

FLAGS = flags.FLAGS
flags.DEFINE_enum("backend", None, subcommands.BACKENDS, "Keras backend.")
flags.DEFINE_enum("task", "mqar", ("mqar", "copy", "binding"), "The task.")
flags.DEFINE_string(
    "setting",
    "small",
    "How rows are trained: small, large (a vocabulary of 8,192), large_128, or "
    "one of Zoology's Figure 2: zoology_64, zoology_128, zoology_256.",
)
flags.DEFINE_list("rows", None, "Rows to run, instead of all.")
flags.DEFINE_list("pairs", None, "Pairs of mqar, instead of the setting's.")
flags.DEFINE_list("distances", ["1", "5", "10", "20", "40"], "Of copy.")
flags.DEFINE_list("people", ["2", "4", "8"], "Of binding.")
flags.DEFINE_enum("filler", "zeros", ("zeros", "uniform"), "Between queries.")
flags.DEFINE_integer("forgetting", 0, "Keys of mqar written a second time.")
flags.DEFINE_list("units", ["64"], "Sizes of the models.")
flags.DEFINE_list("seeds", ["0"], "Seeds of everything random.")
flags.DEFINE_integer("epochs", None, "At most, instead of the setting's.")
flags.DEFINE_bool("shift", False, "Read the previous word's embedding as well.")
flags.DEFINE_string("run_dir", "runs/recall", "Folder of runs and pictures.")

AXES = {"mqar": "pairs", "copy": "distance", "binding": "people"}


def main(argv):
    del argv
    command_line.import_keras(FLAGS.backend)
    from memlm_keras.experiments import recall

    names = FLAGS.rows or list(recall.ROWS)
    require_known("rows", names, recall.ROWS)
    require_known("setting", [FLAGS.setting], recall.SETTINGS)
    run_dir = pathlib.Path(FLAGS.run_dir)
    runs = list(
        itertools.product(
            tasks(recall.SETTINGS[FLAGS.setting]).items(),
            map(int, FLAGS.units),
            names,
            map(int, FLAGS.seeds),
        )
    )
    found = {}
    for number, ((x, task), units, name, seed) in enumerate(runs, start=1):
        print(f"{number}/{len(runs)} {name}, {units} units: {task}", flush=True)
        folder = run_dir / FLAGS.setting / recall.slug(task)
        shift = "-shift" * FLAGS.shift
        results = recall.run(
            name,
            task,
            FLAGS.setting,
            folder / f"{name}{shift}-{units}-seed{seed}",
            units=units,
            shift=FLAGS.shift,
            seed=seed,
            epochs=FLAGS.epochs,
        )
        found.setdefault(x, []).append(results)

    for x, results in found.items():
        title = f"{FLAGS.task}, {AXES[FLAGS.task]} {x}, {FLAGS.setting}"
        path = run_dir / f"{FLAGS.task}_{FLAGS.setting}_{x}_bytes.png"
        print(f"\n{title}\n")
        print("\n".join(recall.lines(results)))
        recall.draw_bytes(results, path, title)
        print(f"\nPicture: {path}")
    if len(found) > 1:
        path = run_dir / f"{FLAGS.task}_{FLAGS.setting}.png"
        recall.draw_lines(found, path, FLAGS.task, AXES[FLAGS.task])
        print(f"Picture: {path}")


def tasks(setting):
    """Tasks by the number that pictures have on their axis."""
    from memlm_keras.data import recall

    if FLAGS.task == "copy":
        return {int(d): recall.Copy(int(d)) for d in FLAGS.distances}
    if FLAGS.task == "binding":
        return {int(n): recall.Binding(int(n)) for n in FLAGS.people}
    return {
        int(pairs): recall.MQAR(
            setting.vocabulary_size,
            setting.length,
            int(pairs),
            FLAGS.filler,
            FLAGS.forgetting,
        )
        for pairs in FLAGS.pairs or [setting.pairs]
    }


def require_known(flag, names, known):
    """Ends the program where one of the names is not known."""
    for name in names:
        if name not in known:
            raise app.UsageError(
                f"--{flag} must be of {', '.join(known)}. Received: {name}"
            )


if __name__ == "__main__":
    app.run(main)

"""The recall suite: which memories answer what was read, and at what price.

A run of one model on one task of `memlm_keras.data.recall` leaves
`results.json` and `log.csv`. Rows are models there, and training rows the
sequences that they are trained on, as in files that are kept.
"""

import collections
import dataclasses
import time

import keras

from memlm_keras import files
from memlm_keras.arguments import require_positive_integer
from memlm_keras.data.recall import RecallBatches
from memlm_keras.experiments import figures
from memlm_keras.experiments import run_folder
from memlm_keras.experiments.process import provenance
from memlm_keras.experiments.recall_rows import ROWS
from memlm_keras.experiments.recall_rows import SETTINGS
from memlm_keras.experiments.recall_rows import make_model
from memlm_keras.experiments.recall_rows import make_optimizer
from memlm_keras.experiments.recall_rows import state_bytes
from memlm_keras.experiments.report import summarize
from memlm_keras.experiments.report import write_csv

# Training stops above this, as Zoology's does.
_ENOUGH = 0.99
# What counts as learnt, and by how much more than chance a part of it.
_LEARNT = 0.9
_MORE = 0.02
_TEST_SEED = 1_000_000

VERDICTS = (
    f"Learnt is an accuracy above {_LEARNT}; in part, more than {_MORE} above "
    "chance; not decided, any other, which more sequences or another seed may "
    "move; expected to fail, one of these with a reason. More in "
    "docs/results/recall.md."
)


def run(
    name,
    task,
    setting,
    folder,
    units=64,
    shift=False,
    seed=0,
    epochs=None,
    verbose="auto",
):
    """Trains a row on a task, unless that is done: then its results are read.

    A run of another number of epochs is another run, in a folder of its own:
    no weights are kept from which one could go on, and rates that fall along a
    schedule depend on that number from the first step.

    Args:
        name: string, one of `ROWS`.
        task: of `memlm_keras.data.recall`.
        setting: string, one of `SETTINGS`.
        folder: `pathlib.Path` of the run, in which each rate has its own.
        units, shift: as of `make_model`.
        seed: integer.
        epochs: integer, at most; `None` is the setting's.
        verbose: as of `fit`.

    Returns:
        Dict of plain values: the results of the rate that is best on
        held-out sequences.

    Raises:
        ValueError: if `epochs` is no integer of at least 1.
    """
    if epochs is None:
        epochs = SETTINGS[setting].epochs
    require_positive_integer("epochs", epochs)
    found = []
    for rate in rates_of(ROWS[name], SETTINGS[setting]):
        what = {
            "row": name,
            "task": repr(task),
            "setting": setting,
            "units": units,
            "shift": shift,
            "seed": seed,
            "rate": rate,
            "most_epochs": epochs,
        }
        path, results = _finished(what, folder)
        if results is None:
            path = _path(what, folder)
            # Another run stands there only if somebody put it there.
            run_folder.RunFolder(path).move_aside()
            results = _train(what, task, path, verbose)
        found.append((path, results))
    if len(found) == 1:
        return results
    # Test sequences choose nothing.
    return max(found, key=lambda pair: _validation_accuracy(pair[0]))[1]


def _validation_accuracy(path):
    """Accuracy on held-out sequences at the end of a run's training."""
    return run_folder.RunFolder(path).log()[-1]["val_accuracy"]


def rates_of(row, setting):
    """Learning rates of a row, of which the best counts."""
    if row.rate is not None and len(setting.rates) == 1:
        return (row.rate,)
    return setting.rates


def _path(what, folder):
    return folder / f"rate{what['rate']:g}-epochs{what['most_epochs']}"


def _finished(what, folder):
    """Folder and results of a run; `None` twice if it is not finished."""
    # Without epochs in their names are the runs of docs/results/logs.
    for path in (_path(what, folder), folder / f"rate{what['rate']:g}"):
        path = path / run_folder.RESULTS
        if path.exists():
            results = files.read_json(path, "results of a run")
            if what.items() <= results.items():
                return path.parent, results
    return None, None


def _train(what, task, path, verbose):
    row, setting = ROWS[what["row"]], SETTINGS[what["setting"]]
    keras.utils.set_random_seed(what["seed"])
    model = make_model(row, setting, task, what["units"], what["shift"])

    def batches(rows, seed, **arguments):
        return RecallBatches(
            task, rows, setting.batch_size, seed=seed, **arguments
        )

    held_out = _TEST_SEED + what["seed"]
    train = batches(
        setting.rows,
        what["seed"],
        fresh=setting.fresh,
        shuffle=not setting.fresh,
    )
    test = batches(3_000, held_out)
    validation = batches(setting.validation_rows, held_out + 1)
    model.compile(
        make_optimizer(setting, what["rate"], len(train) * what["most_epochs"]),
        weighted_metrics=["accuracy"],
    )
    begin = time.time()
    log = model.fit(
        train,
        validation_data=validation,
        epochs=what["most_epochs"],
        verbose=verbose,
        callbacks=[
            keras.callbacks.TerminateOnNaN(),
            keras.callbacks.LambdaCallback(
                on_epoch_end=lambda epoch, logs: _stop(model, logs)
            ),
        ],
    ).history
    seconds = time.time() - begin
    accuracy = model.evaluate(test, verbose=0, return_dict=True)["accuracy"]
    epochs = len(log["loss"])
    results = {
        **what,
        "accuracy": float(accuracy),
        "chance": task.chance,
        "state_bytes": state_bytes(model),
        "parameters": model.count_params(),
        "training_rows": epochs * setting.rows,
        "seconds": round(seconds, 1),
        **provenance(),
    }
    with files.atomic_path(path) as temporary:
        temporary.mkdir()
        write_csv(
            temporary / "log.csv",
            [
                {
                    "epoch": 1 + epoch,
                    **{k: round(v[epoch], 5) for k, v in log.items()},
                }
                for epoch in range(epochs)
            ],
        )
        run_folder.write_json(temporary / run_folder.RESULTS, results)
    return results


def _stop(model, logs):
    if logs["val_accuracy"] > _ENOUGH:
        model.stop_training = True


def slug(task):
    """Name of the folder of a task, such as `mqar-512-64-4-zeros-0-0.01`."""
    values = dataclasses.asdict(task).values()
    return "-".join([type(task).__name__.lower(), *map(str, values)])


def verdict(results):
    """A word for the accuracy of a run.

    An expected failure is named only where it is one, and in a task whose
    pairs lie at places that vary: a place tells the word in the others.
    """
    accuracy = results["accuracy"]
    if accuracy > _LEARNT:
        return "learnt"
    if accuracy > results["chance"] + _MORE:
        return "in part"
    reason = ROWS[results["row"]].expected_failure
    if reason and results["task"].startswith("MQAR"):
        return f"expected to fail: {reason}"
    return "not decided"


def lines(found):
    """The lines of a table of results, in Markdown, seeds side by side."""
    yield (
        "| model | accuracy | chance | verdict | bytes of state | parameters | "
        "training sequences | seconds |"
    )
    yield "|---|---|---|---|---|---|---|---|"
    by_row = {}
    for results in found:
        key = results["row"], results["shift"], results["units"]
        by_row.setdefault(key, []).append(results)
    several = len({units for _, _, units in by_row}) > 1
    for (name, shift, units), runs in by_row.items():
        first = runs[0]
        size = f", {units} units" * several
        accuracies = ", ".join(f"{run['accuracy']:.3f}" for run in runs)
        rows, seconds = (
            sum(run[what] for run in runs) / len(runs)
            for what in ("training_rows", "seconds")
        )
        yield (
            f"| {name}{' + shift' * shift}{size} | {accuracies} | "
            f"{first['chance']:.3f} | {_verdict_of_seeds(runs)} | "
            f"{first['state_bytes']:,} | {first['parameters']:,} | "
            f"{rows:,.0f} | {seconds:.0f} |"
        )


def _verdict_of_seeds(runs):
    """The verdict on which seeds agree, or how many have which."""
    counts = collections.Counter(verdict(run) for run in runs)
    if len(counts) == 1:
        return verdict(runs[0])
    return ", ".join(
        f"{word} by {count} of {len(runs)}"
        for word, count in counts.most_common()
    )


def cut_short(found):
    """A line on the runs that `epochs` ended; empty if there is none."""
    setting = SETTINGS[found[0]["setting"]]
    most = found[0]["most_epochs"]
    names = {
        results["row"]: True
        for results in found
        if results["training_rows"] == most * setting.rows
        and results["accuracy"] <= _ENOUGH
    }
    if most >= setting.epochs or not names:
        return ""
    return (
        f"Training was cut at {most * setting.rows:,} sequences by --epochs, "
        f"of {setting.epochs * setting.rows:,} that the setting has: "
        f"{', '.join(names)} may come further.\n"
    )


def draw_bytes(found, path, title):
    """Draws accuracy against bytes of state, a point for each run, as PNG.

    Args:
        found: list of results.
        path: path of the file.
        title: string.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 5), layout="constrained")
    axes = figure.subplots()
    names = list(dict.fromkeys(results["row"] for results in found))
    for index, name in enumerate(names):
        points = sorted(
            (results["state_bytes"], results["accuracy"])
            for results in found
            if results["row"] == name
        )
        axes.plot(
            *zip(*points),
            label=name,
            color=f"C{index % 10}",
            marker="osD^v"[index // 10],
        )
    axes.axhline(found[0]["chance"], color="grey", linestyle=":")
    axes.set_xscale("log")
    axes.set_ylim(-0.03, 1.03)
    axes.set_title(title)
    axes.set_xlabel("bytes of state")
    axes.set_ylabel("accuracy")
    axes.legend(loc="center left", bbox_to_anchor=(1, 0.5), fontsize="small")
    with files.atomic_path(path) as temporary:
        figure.savefig(temporary, format="png", dpi=150)


def draw_lines(found, path, title, label):
    """Draws accuracy of each model against a number of the task, as PNG.

    Args:
        found: dict by that number of lists of results.
        path: path of the file.
        title, label: strings, of the picture and of that number.
    """
    by_row = {}
    for x, runs in found.items():
        for results in runs:
            points = by_row.setdefault(results["row"], {})
            points.setdefault(x, []).append(results["accuracy"])
    panel = {
        name: {x: summarize(values) for x, values in points.items()}
        for name, points in by_row.items()
    }
    figures.draw_lines({title: panel}, path, label, "accuracy")

"""Trains models on recall tasks, and reports their accuracies.

In the results, `row` is the name of a model, and `training_rows` is the number
of training sequences.
"""

import collections
import dataclasses
import pathlib
import time

import keras
import numpy as np
from keras import ops

import logs
from memlm_keras import files
from memlm_keras.data import recall
from memlm_keras.experiments import figures
from memlm_keras.experiments.process import provenance
from memlm_keras.experiments.tables import report
from memlm_keras.experiments.tables import runs
from memlm_keras.models import LanguageModel
from recall_rows import PUBLISHED
from recall_rows import ROWS
from recall_rows import SETTINGS

# For each task, the field that is the horizontal axis of the figure.
AXES = {"mqar": "pairs", "copy": "distance", "binding": "people"}
# Training stops at this accuracy, as in Zoology.
_ENOUGH = 0.99
_LEARNT = 0.9
# A model has learnt "in part" if its accuracy is more than 0.02 above chance.
_MORE = 0.02
_TEST_SEED = 1_000_000
_TEST_ROWS = 3_000
# Initializers by `RecallSetting.zoology`; their constructors draw a seed.
_INITIALIZERS = {
    False: keras.initializers.RandomUniform(-0.5, 0.5),
    True: keras.initializers.RandomNormal(stddev=0.02),
}

VERDICTS = (
    f"Learnt: accuracy above {_LEARNT}. In part: more than {_MORE} above "
    "chance. Not decided: a lower accuracy, which more sequences or another "
    "seed may raise. Expected to fail: a lower accuracy for a known reason. "
    "See docs/results/recall.md."
)
_COLUMNS = (
    "model",
    "accuracy",
    "chance",
    "verdict",
    "bytes of state",
    "parameters",
    "training sequences",
    "seconds",
)

# === Models ===


@keras.saving.register_keras_serializable(package="memlm_keras")
class PreviousInputCell(keras.layers.Layer):
    """Recurrent cell that returns the current and the previous input. A memory
    that reads these outputs can find a value by the key before the value."""

    def __init__(self, units, **kwargs):
        super().__init__(**kwargs)
        self.units = self.state_size = units
        self.output_size = 2 * units

    def call(self, inputs, states, training=None):
        return ops.concatenate([inputs, states[0]], axis=-1), [inputs]

    def get_initial_state(self, batch_size=None):
        return [ops.zeros((batch_size, self.units), self.compute_dtype)]

    def get_config(self):
        return {**super().get_config(), "units": self.units}


def make_model(row, setting, task, units=64, shift=False):
    """Makes the model for a `RecallRow`; with `shift`, recurrent layers also
    read the previous embedding."""
    window = row.window or task.length
    recurrent = []
    if shift or row.layer is None:
        recurrent.append(PreviousInputCell(units))
    if row.layer is not None:
        if setting.zoology:
            recurrent.append(row.layer(units))
        recurrent.append(row.layer(units * row.parts))
    return LanguageModel(
        vocabulary_size=task.vocabulary_size,
        embedding_dim=units,
        recurrent=recurrent,
        memory=row.memory and row.memory(window),
        mixture=row.mixture and row.mixture(window),
        # Without a layer, outputs are larger than embeddings, so do not tie.
        tie_embeddings=row.tied or (setting.zoology and row.layer is not None),
        initializer=_INITIALIZERS[setting.zoology],
    )


def make_optimizer(setting, rate, steps):
    """Makes the optimizer for a run with `steps` updates."""
    if not setting.zoology:
        return keras.optimizers.Adam(rate)
    schedule = keras.optimizers.schedules.CosineDecay(rate, decay_steps=steps)
    return keras.optimizers.AdamW(schedule, weight_decay=0.1)


def state_bytes(model):
    """Returns the size of a model's state for one row, in bytes."""
    return sum(
        ops.convert_to_numpy(value).nbytes
        for value in model.initial_state(1).values()
    )


# === Runs ===


class RecallRun(runs.Run):
    """Trains a model on a task, once with each learning rate."""

    def __init__(
        self,
        name,
        task,
        setting,
        study,
        units=64,  # Size of embeddings and of each part of an output.
        shift=False,
        seed=0,
        epochs=None,  # Maximum; `None` means the setting's maximum.
        verbose="auto",
    ):
        super().__init__(f"{name}, {units} units: {task}")
        if epochs is None:
            epochs = SETTINGS[setting].epochs
        row = ROWS[name]
        if row.layer is not None:
            # The layer raises an error if the size is invalid.
            row.layer(units * row.parts)
        self.task = task
        self.study = study
        self.verbose = verbose
        self.settings = [
            {
                "row": name,
                "task": repr(task),
                "setting": setting,
                "units": units,
                "shift": shift,
                "seed": seed,
                "rate": rate,
                "most_epochs": epochs,
            }
            for rate in rates_of(row, SETTINGS[setting])
        ]
        self._read()

    def _read(self):
        self.finished = [self._finished(what) for what in self.settings]
        if all(self.finished):
            # Choose the rate by accuracy on held-out, not test, sequences.
            self.results = max(self.finished, key=lambda each: each[0])[1]

    def _finished(self, what):
        """Returns held-out accuracy and results, or `None` if not finished."""
        finished = logs.read(self.study).get(name_of(self.task, what))
        if finished is None:
            return None
        return finished["log"]["val_accuracy"][-1], finished["results"]

    def train(self, stop=None):
        for what, finished in zip(self.settings, self.finished):
            if finished is None:
                trained = _train(what, self.task, self.verbose)
                logs.add(self.study, name_of(self.task, what), trained)
        self._read()

    def outcome(self):
        return f"accuracy {self.results['accuracy']:.3f}"


def run(name, task, setting, study, **arguments):
    """Trains a `RecallRun` that is not finished; returns its results with the
    learning rate whose held-out accuracy is best."""
    recall_run = RecallRun(name, task, setting, study, **arguments)
    if recall_run.results is None:
        recall_run.train()
    return recall_run.results


def make_runs(
    task,
    numbers,
    setting,
    run_dir,
    rows,
    units,
    seeds,
    filler,
    forgetting,
    **others,
):
    """Returns a dict from values of the field in `AXES` to lists of runs."""
    sizes = SETTINGS[setting]
    make = {
        "mix": lambda name: recall.MQARMix(
            sizes.training,
            sizes.test,
            sizes.vocabulary_size,
            filler,
            forgetting,
        ),
        "mqar": lambda pairs: recall.MQAR(
            sizes.vocabulary_size, sizes.length, pairs, filler, forgetting
        ),
        "copy": recall.Copy,
        "binding": recall.Binding,
    }
    kind, made = task, {}
    if sizes.training and task == "mqar":
        if numbers:
            raise ValueError(
                "`pairs` must be the default if a setting is a mix. Received: "
                f"setting={setting}, pairs={numbers}"
            )
        kind, numbers = "mix", ["mixed"]
    for number in numbers or [sizes.pairs]:
        try:
            one = make[kind](number)
        except ValueError as error:
            raise ValueError(
                f"{task}, {AXES[task]} {number}: {error}"
            ) from None
        made[number] = [
            RecallRun(
                name,
                one,
                setting,
                pathlib.Path(run_dir, "recall.jsonl"),
                units=size,
                seed=seed,
                **others,
            )
            for size in units
            for name in rows
            for seed in seeds
        ]
    return made


def rates_of(row, setting):
    """Returns the learning rates to try for a model."""
    if row.rate is not None and len(setting.rates) == 1:
        return (row.rate,)
    return setting.rates


def make_batches(task, setting, seed):
    """Returns training batches, held-out batches, and a list with the test
    batches of each task of a mix."""
    size, held_out = setting.batch_size, _TEST_SEED + seed
    train = {"fresh": not setting.zoology, "shuffle": setting.zoology}
    make = recall.RecallBatches
    if not isinstance(task, recall.MQARMix):
        return (
            make(task, setting.rows, size, seed=seed, **train),
            make(task, setting.validation_rows, size, seed=held_out + 1),
            [make(task, _TEST_ROWS, size, seed=held_out)],
        )
    # Test sequences are longer, so test batches are smaller, as in Zoology.
    test_size = size // 8 if setting.zoology else size
    rows = setting.validation_rows
    return (
        task.batches("training", size, seed, **train),
        task.batches("test", test_size, held_out + 1, rows),
        task.batches("test", test_size, held_out).parts,
    )


def _train(what, task, verbose):
    """Trains a model; returns its run as a dict like those of `logs.read`."""
    row, setting = ROWS[what["row"]], SETTINGS[what["setting"]]
    keras.utils.set_random_seed(what["seed"])
    model = make_model(row, setting, task, what["units"], what["shift"])
    train, validation, tests = make_batches(task, setting, what["seed"])
    model.compile(
        make_optimizer(setting, what["rate"], len(train) * what["most_epochs"]),
        weighted_metrics=["accuracy"],
    )

    def stop(epoch, logs):
        model.stop_training |= logs["val_accuracy"] > _ENOUGH

    begin = time.time()
    log = model.fit(
        train,
        validation_data=validation,
        epochs=what["most_epochs"],
        verbose=verbose,
        callbacks=[
            keras.callbacks.TerminateOnNaN(),
            keras.callbacks.LambdaCallback(on_epoch_end=stop),
        ],
    ).history
    seconds = time.time() - begin
    accuracies = [
        float(model.evaluate(part, verbose=0, return_dict=True)["accuracy"])
        for part in tests
    ]
    rows = [part.rows for part in tests]
    epochs = len(log["loss"])
    results = {
        **what,
        "accuracy": float(np.average(accuracies, weights=rows)),
        "chance": task.chance,
        "state_bytes": state_bytes(model),
        "parameters": model.count_params(),
        "training_rows": epochs * setting.rows,
        "seconds": round(seconds, 1),
        **provenance(),
    }
    if len(tests) > 1:
        names = [f"{t.task.pairs} pairs, {t.task.length} tokens" for t in tests]
        results["accuracies"] = dict(zip(names, accuracies))
    log = {k: [round(value, 5) for value in v] for k, v in log.items()}
    return {
        "results": results,
        "log": {"epoch": [*range(1, 1 + epochs)], **log},
    }


# === Reports ===


def write(runs, task, setting, run_dir):
    """Prints and draws the results of runs from `make_runs`."""
    results = {x: [run.results for run in each] for x, each in runs.items()}
    axis, path = AXES[task], pathlib.Path(run_dir, f"{task}_{setting}")
    for number, each in results.items():
        title = f"{task}, {axis} {number}, {setting}"
        picture = f"{path}_{number}_bytes.png"
        draw_bytes(each, picture, title)
        table = "\n".join(lines(each))
        print(f"\n{title}\n\n{table}\n\n{cut_short(each)}Picture: {picture}")
    if len(results) > 1:
        accuracies = {}
        for number, each in results.items():
            for one in each:
                points = accuracies.setdefault(one["row"], {})
                points.setdefault(number, []).append(one["accuracy"])
        panel = {
            name: {x: report.summarize(values) for x, values in points.items()}
            for name, points in accuracies.items()
        }
        figures.draw_lines({task: panel}, f"{path}.png", axis, "accuracy")
        print(f"Picture: {path}.png")
    print(f"\n{VERDICTS}")


def name_of(task, what):
    """Returns the name of a run, such as
    `small/copy-1-64-64-8/lstm-64-seed0/rate0.01-epochs25`."""
    values = dataclasses.asdict(task).values()
    # Leave out the tasks of a mix, which the setting's name identifies.
    values = [value for value in values if not isinstance(value, tuple)]
    slug = "-".join([type(task).__name__.lower(), *map(str, values)])
    shift = "-shift" * what["shift"]
    return (
        f"{what['setting']}/{slug}/"
        f"{what['row']}{shift}-{what['units']}-seed{what['seed']}/"
        # With a schedule, learning rates depend on the number of epochs.
        f"rate{what['rate']:g}-epochs{what['most_epochs']}"
    )


def verdict(results):
    """Returns "learnt", "in part", "expected to fail" or "not decided"."""
    accuracy = results["accuracy"]
    if accuracy > _LEARNT:
        return "learnt"
    if accuracy > results["chance"] + _MORE:
        return "in part"
    reason = ROWS[results["row"]].expected_failure
    # Positions of words are enough to solve tasks other than MQAR.
    if reason and results["task"].startswith("MQAR"):
        return f"expected to fail: {reason}"
    return "not decided"


def lines(results):
    """Returns a Markdown table with one row for each model."""
    by_model = {}
    for each in results:
        key = each["row"], each["shift"], each["units"]
        by_model.setdefault(key, []).append(each)
    several = len({units for _, _, units in by_model}) > 1
    rows = []
    for (name, shift, units), seeds in by_model.items():
        counts = collections.Counter(map(verdict, seeds))
        size = f", {units} units" * several
        trained, seconds = (
            sum(each[key] for each in seeds) / len(seeds)
            for key in ("training_rows", "seconds")
        )
        rows.append(
            [
                f"{name}{' + shift' * shift}{size}",
                ", ".join(f"{each['accuracy']:.3f}" for each in seeds),
                f"{seeds[0]['chance']:.3f}",
                ", ".join(
                    f"{word} by {count} of {len(seeds)}"
                    for word, count in counts.most_common()
                )
                if len(counts) > 1
                else verdict(seeds[0]),
                f"{seeds[0]['state_bytes']:,}",
                f"{seeds[0]['parameters']:,}",
                f"{trained:,.0f}",
                f"{seconds:.0f}",
            ]
        )
    return report.markdown_table(_COLUMNS, rows)


def cut_short(results):
    """Returns a line with the runs that `--epochs` stopped early, or ""."""
    setting = SETTINGS[results[0]["setting"]]
    most = results[0]["most_epochs"]
    names = dict.fromkeys(
        each["row"]
        for each in results
        if each["training_rows"] == most * setting.rows
        and each["accuracy"] <= _ENOUGH
    )
    if most >= setting.epochs or not names:
        return ""
    return (
        f"--epochs stopped training at {most * setting.rows:,} of the "
        f"{setting.epochs * setting.rows:,} sequences. With all sequences, "
        f"these models may be better: {', '.join(names)}.\n"
    )


def draw_bytes(results, path, title):
    """Draws a PNG file of accuracies over bytes of state, a point per run."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 5), layout="constrained")
    axes = figure.subplots()
    by_name = {}
    for each in results:
        point = each["state_bytes"], each["accuracy"]
        by_name.setdefault(each["row"], []).append(point)
    for index, (name, points) in enumerate(by_name.items()):
        axes.plot(
            *zip(*sorted(points)),
            label=name,
            color=f"C{index % 10}",
            marker="osD^v"[index // 10],
        )
    if SETTINGS[results[0]["setting"]].training:
        for marker, (name, points) in zip("x+1234|_", PUBLISHED.items()):
            label = f"{name}, published, zoology_mix"
            axes.plot(
                *zip(*points), color="grey", marker=marker, lw=0.5, label=label
            )
    axes.axhline(results[0]["chance"], color="grey", linestyle=":")
    axes.set_xscale("log")
    axes.set_ylim(-0.03, 1.03)
    axes.set_title(title)
    axes.set_xlabel("bytes of state")
    axes.set_ylabel("accuracy")
    axes.legend(loc="center left", bbox_to_anchor=(1, 0.5), fontsize="small")
    with files.atomic_path(path) as temporary:
        figure.savefig(temporary, format="png", dpi=150)

"""Run folders of the recipes: training to the best epoch, and its results."""

import json
import os
import pathlib
import platform
import re
import resource
import shlex
import signal
import statistics
import sys
import time

import numpy as np
from absl import app
from absl import flags

FLAGS = flags.FLAGS

MEAN_ATTENTION = "mean_attention.csv"


def open_run_dir(run_dir, settings):
    """Makes a run folder ready: emptied of an older run, or to be resumed.

    A run of other settings is not lost: its folder is moved aside.

    Args:
        run_dir: `pathlib.Path` of the run folder.
        settings: dict of plain values that say what this run is.

    Raises:
        app.UsageError: if the run to resume has other settings.
        OSError: if the folder cannot be written.
    """
    changed = changed_settings(run_dir, settings)
    if changed and FLAGS.resume:
        raise app.UsageError(
            f"{run_dir} holds a run of other settings. Received, as "
            f"(before, now): {changed}. Resume with the same flags, choose "
            "another --run_dir, or leave out --resume to begin anew."
        )
    if changed:
        print(f"A run of other settings is now in {move_aside(run_dir)}.")
    run_dir.mkdir(parents=True, exist_ok=True)
    kept = (run_dir / "checkpoint.npz").exists() or finished_results(run_dir)
    if not (FLAGS.resume and kept):
        for name in (
            "checkpoint.npz",
            "log.csv",
            "results.json",
            MEAN_ATTENTION,
        ):
            (run_dir / name).unlink(missing_ok=True)


def changed_settings(run_dir, settings):
    """Compares the settings of the run in a folder with others.

    Returns:
        Dict of `(before, now)` by name; empty where all are equal, and where
        the folder holds no run.
    """
    config = run_dir / "config.json"
    if not config.exists():
        return {}
    before = json.loads(config.read_text())
    return {
        name: (before.get(name), settings.get(name))
        for name in sorted({*before, *settings})
        if before.get(name) != settings.get(name)
    }


def finished_results(run_dir, whatever_epochs=False):
    """Returns what `results.json` of a run holds, `None` if it can go on.

    A run has come to its end with the epochs that are asked for, when patience
    ended, when its loss was not finite, or if it has no epochs; with
    `whatever_epochs`, once there are results. Where no epochs or patience are
    asked for, those that it was trained with count.
    """
    path = run_dir / "results.json"
    if not path.exists():
        return None
    results = json.loads(path.read_text())
    waited = results["epochs"] - results["best_epoch"]
    epochs, patience = (
        results[key] if FLAGS[flag].value is None else FLAGS[flag].value
        for flag, key in (("epochs", "most_epochs"), ("patience", "patience"))
    )
    ended = (
        whatever_epochs
        or results["epochs"] >= epochs
        or waited >= max(1, patience)
        or not results.get("finite", True)
        or results.get("ended", False)
    )
    return results if ended else None


def finished_model(run_dir, settings):
    """Loads the trained model of a run folder, if it is not to go on.

    Unless `--epochs` or `--resume` asks for more, a run is finished once it has
    results, however many epochs it had.

    Args:
        run_dir: `pathlib.Path` of the run folder.
        settings: dict of plain values that say what the run is.

    Returns:
        `LanguageModel`, not compiled; `None` if the folder holds no finished
        run of these settings.
    """
    import keras

    import memlm_keras  # noqa: F401 - registers what the file names.

    path = run_dir / "model.keras"
    any_epochs = not (FLAGS["epochs"].present or FLAGS.resume)
    finished = (
        path.exists()
        and not changed_settings(run_dir, settings)
        and finished_results(run_dir, any_epochs) is not None
    )
    return keras.saving.load_model(path, compile=False) if finished else None


def move_aside(run_dir):
    """Renames a run folder to a name that is free, and returns its new path."""
    number = 1
    while (aside := run_dir.with_name(f"{run_dir.name}-old{number}")).exists():
        number += 1
    return run_dir.rename(aside)


def run(
    model,
    corpus,
    batches,
    validation,
    evaluation,
    run_dir,
    settings,
    callbacks=(),
    measure=None,
    also=(),
):
    """Trains a model in a run folder, and measures it.

    Args:
        model, corpus, batches, validation, run_dir, settings, callbacks: as
            for `train`.
        evaluation: dict by split of the `Batches` to report perplexity on.
        measure: function without arguments, called when the model is trained,
            that returns a dict of plain values for `results.json`; or `None`.
        also: tuple of strings, other protocols to report perplexity by.

    Returns:
        What `results.json` holds.
    """
    from memlm_keras.evaluation import perplexity

    parameters = model.count_params()
    print(
        f"{settings['preset']}: {parameters:,} parameters, run folder {run_dir}"
    )
    finite = train(
        model, corpus, batches, validation, run_dir, settings, callbacks
    )
    evaluations = {
        split: perplexity(model, batches, verbose=FLAGS.verbose, also=also)
        for split, batches in evaluation.items()
    }
    results = write_results(
        run_dir,
        settings,
        parameters,
        finite=finite,
        **plain_perplexities(evaluations),
    )
    if measure is not None:
        results = add_results(run_dir, measure())
    print(
        f"Best of {results['epochs']} epochs: validation "
        f"{results['validation']['perplexity']:.1f}, test "
        f"{results['test']['perplexity']:.1f}; "
        f"{results['tokens_per_second']:.0f} tokens a second. See {run_dir}"
    )
    # The pictures are of what was read before.
    if model.attending is not None and model.causal:
        name = settings["preset"].rpartition("/")[2]
        draw_attention(model, name, corpus, evaluation["test"], run_dir)
    return results


def train(
    model,
    corpus,
    batches,
    validation,
    run_dir,
    settings,
    callbacks=(),
    monitor="val_perplexity",
):
    """Trains to the best epoch on validation data, in a run folder.

    Writes `config.json`, `log.csv`, `checkpoint.npz`, `model.keras` and
    `vocabulary.json`.

    Args:
        model: compiled model.
        corpus: `Corpus` or `PairCorpus`.
        batches: batches to train on.
        validation: batches to choose the best epoch on.
        run_dir: `pathlib.Path` of the run folder.
        settings: dict of plain values that say what this run is.
        callbacks: list of callbacks besides those that every run has.
        monitor: string, the metric to choose by.

    Returns:
        `True`, or `False` if the loss was not finite and training stopped.
    """
    import keras

    from memlm_keras import files
    from memlm_keras import training

    # Ends as an exception does, so that no file is left half-written.
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    checkpoint_path = run_dir / "checkpoint.npz"
    resume = FLAGS.resume and checkpoint_path.exists()
    if FLAGS.resume and not resume:
        print(f"Nothing to resume in {run_dir}: beginning anew.")
    write_config(run_dir, settings)
    stop_on_nan = training.StopOnNaN()
    callbacks = [
        *callbacks,
        training.Throughput(batches),
        stop_on_nan,
        keras.callbacks.EarlyStopping(
            monitor=monitor,
            mode=_better(monitor).__name__,
            patience=FLAGS.patience,
            restore_best_weights=True,
            verbose=FLAGS.verbose,
        ),
        keras.callbacks.CSVLogger(str(run_dir / "log.csv"), append=resume),
    ]
    if FLAGS.tensorboard:
        callbacks.append(
            keras.callbacks.TensorBoard(str(run_dir / "tensorboard"))
        )
    checkpoint = training.Checkpoint(
        checkpoint_path,
        batches,
        callbacks,
        frequency=FLAGS.checkpoint_frequency,
    )
    if checkpoint.resumed_from:
        epoch, batch = checkpoint.resumed_from
        print(f"Resuming {run_dir} in epoch {epoch + 1} at batch {batch}.")
    model.fit(
        batches,
        epochs=FLAGS.epochs,
        validation_data=validation,
        callbacks=[*callbacks, checkpoint],
        verbose=FLAGS.verbose,
    )
    with files.atomic_path(run_dir / "model.keras") as temporary:
        model.save(temporary)
    corpus.vocabulary.save(run_dir / "vocabulary.json")
    if stop_on_nan.stopped:
        print("The loss was not finite; the last good weights were kept.")
    return not stop_on_nan.stopped


def write_config(run_dir, settings):
    """Writes `config.json` of a run: the settings that say what it is."""
    write_json(run_dir / "config.json", settings)


def write_results(
    run_dir, settings, parameters, log=None, monitor="val_perplexity", **others
):
    """Writes `results.json` of a run and returns what it holds.

    Args:
        run_dir: `pathlib.Path` of the run folder, with its `log.csv`.
        settings: dict of plain values that say what this run is.
        parameters: integer, parameters of the model.
        log: list of dicts, as of `read_log`; `None` reads `log.csv`.
        monitor: string, the metric that the best epoch was chosen by.
        **others: other plain values to write.
    """
    log = read_log(run_dir / "log.csv") if log is None else log
    speed = next(name for name in log[0] if name.endswith("_per_second"))
    best = _better(monitor)(range(len(log)), key=lambda e: log[e][monitor])
    results = {
        **settings,
        "parameters": parameters,
        "epochs": len(log),
        "most_epochs": FLAGS.epochs,
        "patience": FLAGS.patience,
        "best_epoch": 1 + best,
        "seconds_per_epoch": statistics.median(r["seconds"] for r in log),
        speed: statistics.median(row[speed] for row in log),
        **provenance(),
        **others,
    }
    write_json(run_dir / "results.json", results)
    return results


def _better(monitor):
    """`max` where more is better, else `min`; of equals, the first."""
    return max if monitor.endswith("accuracy") else min


def provenance():
    """How, when and where results came about, as plain values."""
    return {
        "peak_memory_mib": peak_memory_mib(),
        "command": shlex.join(["python", *sys.argv]),
        "date": time.strftime("%Y-%m-%d"),
        **environment(),
    }


def write_json(path, values):
    """Writes plain values as JSON, whole or not at all."""
    from memlm_keras import files

    with files.atomic_path(path) as temporary:
        temporary.write_text(json.dumps(values, indent=2) + "\n")


def plain_perplexities(evaluations):
    """`plain_perplexity` of a dict of `Perplexity` by split."""
    return {
        split: plain_perplexity(result) for split, result in evaluations.items()
    }


def plain_perplexity(result):
    """A `Perplexity` as plain values, those of other protocols by their names.

    Args:
        result: `Perplexity`.
    """
    return {
        "perplexity": result.perplexity,
        "loss": result.loss,
        "predicted_tokens": result.predicted_tokens,
        "total_tokens": result.total_tokens,
        "protocol": result.protocol,
        **{
            name: plain_perplexity(other)
            for name, other in result.others.items()
        },
    }


def add_results(run_dir, others):
    """Adds plain values to the `results.json` of a run, or replaces them.

    Returns all that it holds.
    """
    path = run_dir / "results.json"
    results = {**json.loads(path.read_text()), **others}
    write_json(path, results)
    return results


def answer(model, questions, vocabulary):
    """Answers cloze questions; returns plain values for `results.json`.

    Args:
        model: `LanguageModel`.
        questions: list of `ClozeQuestion`s.
        vocabulary: `Vocabulary`.
    """
    from memlm_keras.evaluation import cloze_accuracy

    result = cloze_accuracy(model, questions, vocabulary, verbose=FLAGS.verbose)
    return {
        "accuracy": result.accuracy,
        "interval": result.interval,
        "correct": result.correct,
        "questions": result.questions,
        "unknown_answers": result.unknown_answers,
        "protocol": result.protocol,
    }


def read_log(path):
    """Reads a CSV log; an epoch that was repeated counts once, the last time.

    Returns:
        List of dicts of floats, one an epoch.
    """
    import csv

    with open(path, newline="") as file:
        rows = {row["epoch"]: row for row in csv.DictReader(file)}
    return [
        {name: float(value) for name, value in row.items()}
        for row in rows.values()
    ]


def draw_attention(model, name, corpus, batches, run_dir):
    """Draws where a model attends: in a passage, and in the mean.

    The passage begins the test text; of models of sentences it is the first.

    Args:
        model: `LanguageModel`.
        name: string, its name in the pictures.
        corpus: `Corpus`.
        batches: `Batches` of the test text.
        run_dir: `pathlib.Path` of the run folder.
    """
    from memlm_keras import analysis

    tokens = corpus.test.tokens
    if batches.has_documents and batches.context_of == "sentence":
        # As it is read: begun by the end of another, and no further.
        end = corpus.vocabulary.end_of_sentence_id
        first = tokens[: np.flatnonzero(tokens == end)[0]]
        tokens = np.concatenate([[end], first])
    tokens = tokens[: FLAGS.passage]
    # Slots before these have nothing in them yet.
    weights = model.attention(tokens[None])[0][:, -len(tokens) :]
    analysis.plot_attention(
        weights,
        corpus.vocabulary.decode(tokens),
        run_dir / "attention.png",
        title=f"{name} on {corpus.name}",
        steps_back=model.attending.steps_back,
    )
    try:
        mean = analysis.mean_attention(model, batches)
    except ValueError as error:
        print(f"Mean attention is not drawn: {error}")
        return
    write_mean_attention(run_dir, mean)
    analysis.plot_mean_attention(
        {name: mean},
        run_dir / "mean_attention.png",
        title=f"Mean attention, test text of {corpus.name}",
    )


def write_mean_attention(run_dir, mean):
    """Writes mean attention weights by position, the most recent -1."""
    import numpy as np

    from memlm_keras import files

    with files.atomic_path(run_dir / MEAN_ATTENTION) as temporary:
        np.savetxt(
            temporary,
            np.stack([np.arange(-len(mean), 0), mean], axis=1),
            fmt=("%d", "%.8f"),
            delimiter=",",
            header="position,weight",
            comments="",
        )


def read_mean_attention(run_dir):
    """Reads what `write_mean_attention` wrote; `None` if it wrote nothing."""
    import numpy as np

    path = run_dir / MEAN_ATTENTION
    if not path.exists():
        return None
    return np.loadtxt(path, delimiter=",", skiprows=1, ndmin=2)[:, 1]


def peak_memory_mib():
    """Largest memory that this process has held, in MiB."""
    status = pathlib.Path("/proc/self/status")
    if status.exists():
        # What `getrusage` tells on Linux includes the process that began this
        # one, up to that moment.
        return int(re.search(r"VmHWM:\s+(\d+)", status.read_text())[1]) // 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak // (2**20 if sys.platform == "darwin" else 1024)


def environment():
    """Versions and hardware, as plain values."""
    import keras

    backend = keras.backend.backend()
    version = __import__(backend).__version__
    return {
        "backend": f"{backend} {version}",
        "keras": keras.__version__,
        "python": platform.python_version(),
        "hardware": ", ".join(
            [
                f"{os.cpu_count()} CPU cores",
                platform.machine(),
                *accelerators(),
            ]
        ),
    }


def accelerators():
    """Names of the accelerators that the backend sees."""
    import keras

    backend = keras.backend.backend()
    if backend == "jax":
        import jax

        found = [d.device_kind for d in jax.devices() if d.platform != "cpu"]
    elif backend == "tensorflow":
        import tensorflow as tf

        details = tf.config.experimental.get_device_details
        found = [
            details(device).get("device_name", device.name)
            for device in tf.config.list_physical_devices("GPU")
        ]
    else:
        import torch

        found = [
            torch.cuda.get_device_name(index)
            for index in range(torch.cuda.device_count())
        ]
    return found

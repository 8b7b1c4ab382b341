"""Reads and writes logs of runs: a file for each study, a line for each run.

    python recipes/logs.py docs/results/logs/pairs.jsonl
    python recipes/logs.py docs/results/logs/tutorial.jsonl small
    python recipes/logs.py keep docs/results/logs/paper.jsonl runs/NAME

The first command prints the perplexities and accuracies of all runs, with mean
and standard deviation over seeds. The second command prints the run `small`.
The third command adds a run folder, or the runs of another study, to a study.
Adding a run folder computes the losses of sentences with its `model.keras`.
"""

import base64
import collections
import csv
import fcntl
import functools
import json
import os
import pathlib
import re
import shlex
import statistics
import zlib

import numpy as np

import programs
from memlm_keras import files
from memlm_keras.experiments import process
from memlm_keras.experiments.options import UsageError
from memlm_keras.experiments.options import nearest

RESULTS, LOSSES = "results.json", "test_losses"
# Losses are stored as integers, in units of 1/10,000 nats.
_PARTS = 10_000
# Keras' logs are float32, which has seven significant digits.
_DIGITS = 7


def read(study):
    """Reads the runs of a study.

    Args:
        study: path of a file in `docs/results/logs`; no file means no runs.

    Returns:
        Dict of the runs by name. Each run is a dict with some of these keys:
        `"results"`: the content of `results.json`, including the command;
        `"log"` and other keys that end in `log`: a dict from columns to lists
        with a value for each epoch;
        `"test_losses"`: float array of shape `(sentences, 2)`, the summed loss
        and the number of predictions of each test sentence. For a pair of
        sentences, the loss is 1 for a wrong label and 0 for a right one;
        `"text"`: the output of a program.

    Raises:
        ValueError: if the file is damaged.
    """
    try:
        status = os.stat(study)
    except FileNotFoundError:
        return {}
    return _read(os.fspath(study), status.st_mtime_ns, status.st_size)


@functools.lru_cache
def _read(study, *version):
    runs = {}
    with files.reading(study, "study", "Restore it."):
        for name, line in _lines(study).items():
            run = json.loads(line)
            del run["name"]
            if LOSSES in run:
                run[LOSSES] = _unpack(run[LOSSES])
            runs[name] = run
    return runs


def _lines(study):
    """Returns a dict from the names of runs to their lines in a study."""
    lines = pathlib.Path(study).read_text("utf-8").rstrip("\n").split("\n")
    return {json.loads(line)["name"]: line for line in lines}


def add(study, name, run):
    """Adds a run to a study, or replaces the run with this name. `run` is a
    dict like those of `read`. The file is locked and replaced atomically."""
    study = pathlib.Path(study)
    study.parent.mkdir(parents=True, exist_ok=True)
    lock = os.open(study.parent, os.O_RDONLY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        # Copy the lines of other runs without decoding their losses.
        lines = _lines(study) if read(study) else {}
        lines[name] = _line(name, run)
        with files.atomic_path(study) as temporary:
            text = "".join(f"{lines[name]}\n" for name in sorted(lines))
            temporary.write_text(text, "utf-8")
    finally:
        os.close(lock)


def keep(folder, study):
    """Adds a run, named like its folder, or another study's runs to a study.

    Args:
        folder: path of another study's file, of a run folder of `memlm train`,
            or of a folder with `results.json`, `log.csv` and optionally
            `test_losses.csv`. If `test_losses.csv` is missing, the losses are
            computed with `model.keras`, if the folder has one.
        study: path of the study's file.
    """
    folder = pathlib.Path(folder)
    if folder.is_file():
        for name, run in read(folder).items():
            add(study, name, run)
        return
    results = files.read_json(folder / RESULTS, "results of a run")
    if "command" in results:
        results["command"] = _portable(results["command"])
    run = {"results": results}
    for path in sorted(folder.glob("*log.csv")):
        with path.open(encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        run[path.stem] = {
            name: [_rounded(row[name]) for row in rows] for name in rows[0]
        }
    losses = folder / f"{LOSSES}.csv"
    if losses.exists():
        run[LOSSES] = np.loadtxt(losses, delimiter=",", ndmin=2)
    elif (
        folder.joinpath("model.keras").exists()
        and (found := test_losses(folder)) is not None
    ):
        run[LOSSES] = found
    else:
        process.print_notes(
            f"{folder} has no {losses.name} and no model.keras that predicts "
            "each token, so the losses of its test sentences are missing, and "
            "claims.py skips the run."
        )
    add(study, folder.name, run)


def _portable(command):
    """Returns a command without the paths of this machine."""
    parts = []
    for part in shlex.split(command):
        flag, _, value = part.partition("=")
        if flag == "--data_dir":
            part = f"{flag}=path/to/{pathlib.Path(value).name}"
        if flag != "--run_dir":
            parts.append(part)
    return shlex.join(parts)


def test_losses(folder):
    """Returns the loss and the number of predictions for each test sentence.
    For a pair of sentences, the loss is 1 if the label is wrong, or else 0."""
    # Only this function needs Keras, which takes seconds to import.
    process.import_keras()
    import keras

    from memlm_keras.evaluation import sentence_losses
    from memlm_keras.experiments import RunFolder
    from memlm_keras.experiments.datasets import evaluation_batches
    from memlm_keras.experiments.experiment import reopen
    from memlm_keras.experiments.options import CLASSIFIER
    from memlm_keras.experiments.options import LANGUAGE_MODEL

    run_folder = RunFolder(folder)
    experiment, model = reopen(run_folder), run_folder.model()
    if experiment.kind not in (CLASSIFIER, LANGUAGE_MODEL):
        return None
    if experiment.kind == LANGUAGE_MODEL:
        batches = evaluation_batches(experiment, model, "test")
        return np.stack(sentence_losses(model, batches), axis=1)
    wrong = []
    for inputs, targets, *weights in experiment.corpus.batches("test", 64):
        predicted = keras.ops.argmax(model.predict_on_batch(inputs), axis=-1)
        errors = keras.ops.convert_to_numpy(predicted) != targets
        wrong.append(errors[weights[0] > 0] if weights else errors)
    wrong = np.concatenate(wrong)
    return np.stack([wrong, np.ones(len(wrong))], axis=1)


def numbers(study):
    """Returns a dict of the numbers in a study. A key is a tuple of a run's
    name, without the seed, and of keys of its results. A value is a list with a
    number for each seed."""
    by_seed = collections.defaultdict(list)

    def collect(place, value):
        if isinstance(value, list):
            value = dict(enumerate(value))
        if isinstance(value, dict):
            for key, entry in value.items():
                collect((*place, str(key)), entry)
        elif isinstance(value, float):
            by_seed[place].append(value)

    for name, run in read(study).items():
        collect((re.sub(r"-?seed\d+", "", name),), run.get("results"))
    return by_seed


def main(arguments):
    if arguments[:1] == ["keep"] and len(arguments) > 2:
        for path in arguments[2:]:
            keep(path, arguments[1])
        return
    example = "Name a study, such as docs/results/logs/pairs.jsonl."
    if arguments and not arguments[0].endswith(".jsonl"):
        raise UsageError(f"{arguments[0]} is not a study. {example}")
    if not arguments or not read(arguments[0]):
        raise UsageError(example)
    study, *names = arguments
    for name in names:
        run = {**read(study).get(name, {})}
        if not run:
            raise UsageError(
                f"{study} has no run {name}.{nearest(name, read(study))}"
            )
        print(run.pop("text", ""), end="")
        if LOSSES in run:
            run[LOSSES] = run[LOSSES].tolist()
        if run:
            print(json.dumps(run, indent=1))
    if names:
        return
    for name, run in read(study).items():
        if "text" in run:
            print(f"{name}: {len(run['text'].splitlines())} lines of text")
    for (name, *place), values in numbers(study).items():
        if place[-1].endswith(("perplexity", "accuracy")):
            text = ", ".join(f"{value:.4f}" for value in values)
            if len(values) > 1:
                text += f"; mean {statistics.mean(values):.4f}"
                text += f", deviation {statistics.stdev(values):.4f}"
            print(f"{name}: {' '.join(place)}: {text}")


def _line(name, run):
    run = {"name": name, **run}
    if LOSSES in run:
        run[LOSSES] = _pack(run[LOSSES])
    return json.dumps(run, separators=(",", ":"), ensure_ascii=False)


def _pack(losses):
    """Compresses an array of losses to a string."""
    whole = np.round(losses * [_PARTS, 1]).astype("<i4")
    # Storing all first bytes of the integers, then all second, saves space.
    planes = whole.T.ravel().view("u1").reshape(-1, 4).T.tobytes()
    return base64.b64encode(zlib.compress(planes, 9)).decode()


def _unpack(text):
    planes = np.frombuffer(zlib.decompress(base64.b64decode(text)), "u1")
    whole = planes.reshape(4, -1).T.copy().view("<i4").reshape(2, -1)
    return whole.T / [_PARTS, 1]


def _rounded(text):
    value = float(f"{float(text):.{_DIGITS}g}")
    return int(value) if value.is_integer() else value


if __name__ == "__main__":
    programs.run(main)

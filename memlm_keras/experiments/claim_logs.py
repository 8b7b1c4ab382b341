"""Small text files of the runs that claims rest on, from which verdicts can
be drawn anew without the models.
"""

import glob
import json
import pathlib
import shutil

import keras
import numpy as np

from memlm_keras import files
from memlm_keras.evaluation import sentence_losses
from memlm_keras.experiments.claims import Losses
from memlm_keras.experiments.datasets import evaluation_batches
from memlm_keras.experiments.experiment import again
from memlm_keras.experiments.options import CLASSIFIER
from memlm_keras.experiments.run_folder import RunFolder

LOSSES = "test_losses.csv"
_COPIED = ("results.json", "log.csv")


def keep(folder, kept):
    """Copies what is known of a finished run, with the losses of its test.

    Args:
        folder: path of the run folder.
        kept: path of a folder, which is made whole or not at all.
    """
    run_folder = RunFolder(folder)
    experiment = again(run_folder)
    losses, counts = _test_losses(experiment, run_folder.model())
    with files.atomic_path(pathlib.Path(kept)) as temporary:
        temporary.mkdir()
        for name in _COPIED:
            shutil.copy(run_folder.path / name, temporary / name)
        np.savetxt(
            temporary / LOSSES,
            np.stack([losses, counts], axis=1),
            fmt=["%.4f", "%d"],
            delimiter=",",
        )


def _test_losses(experiment, model):
    """Losses of test sentences, or 1 for each pair that is told wrong."""
    if experiment.kind != CLASSIFIER:
        return sentence_losses(
            model, evaluation_batches(experiment, model, "test")
        )
    wrong = []
    for inputs, labels, *weights in experiment.corpus.batches("test", 64):
        told = keras.ops.argmax(model.predict_on_batch(inputs), axis=-1)
        found = keras.ops.convert_to_numpy(told) != labels
        counted = weights[0] > 0 if weights else np.ones(len(found), "bool")
        wrong.append(found[counted])
    wrong = np.concatenate(wrong)
    return wrong.astype("float64"), np.ones(len(wrong), "int64")


def losses_of(model, kept):
    """Reads what is kept of a model.

    Args:
        model: `claim_runs.Model`.
        kept: `pathlib.Path` of the folder of all runs that are kept.

    Returns:
        `Losses` of all seeds that there are, or `None` if there are none.
    """
    found, parameters = [], None
    all_seeds = glob.escape(model.run(0).folder.name.removesuffix("0"))
    for path in sorted(kept.glob(f"{all_seeds}*/{LOSSES}")):
        with files.reading(path, "losses of a run", "Delete its folder."):
            found.append(np.loadtxt(path, delimiter=",", ndmin=2))
            results = json.loads(path.with_name("results.json").read_text())
            parameters = results["parameters"]
    if not found:
        return None
    counts = found[0][:, 1].astype("int64")
    losses = np.stack([losses[:, 0] for losses in found])
    return Losses(losses, counts, parameters)

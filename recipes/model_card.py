"""Saves trained models with a model card.

    python recipes/model_card.py RUN_FOLDER FOLDER/PAPER/ROW_CORPUS [int8]

Saves the model of a finished run in a folder that `memlm evaluate` can measure.
"""

import math
import pathlib
import shlex

import memlm_keras as memlm
import programs
from memlm_keras import trained
from memlm_keras.experiments import process
from memlm_keras.experiments.options import UsageError

# For each text, its description, and the licence of models trained on it.
TEXTS = {
    "ptb": (
        "Penn Treebank as prepared by Mikolov, not part of this package",
        "Apache-2.0, like the package; the text is licensed by the LDC",
    ),
    "sick": (
        "SICK, 4,500 pairs of sentences, not part of this package",
        "CC BY-NC-SA 3.0, like the text",
    ),
}
_FOLDER = "FOLDER_OF_THE_TEXT"


def save_trained(model, folder, dtype, batches, card):
    """Saves a trained model, and a card with the `Perplexity` of the stored
    weights on `batches`; returns this `Perplexity`."""
    model.save_to_preset(folder, dtype)
    stored = type(model).from_preset(folder)
    test = memlm.evaluation.perplexity(stored, batches)
    full = memlm.evaluation.perplexity(model, batches)
    characters = model.vocabulary.count_characters(batches.tokens)
    facts = process.provenance(card["command"])
    card = card | {
        "perplexity": round(test.perplexity, 3),
        "perplexity before storing": round(full.perplexity, 3),
        "bits per character": round(test.loss / math.log(2.0) / characters, 3),
        "perplexity of": f"test text, {test.predicted_tokens:,} tokens",
        "protocol": test.protocol,
        **_origin(facts),
    }
    if test.words is not None:
        card["perplexity per word"] = round(test.per_word, 3)
        card["words"] = "separated by white space, and ends of lines"
    stored.save_to_preset(folder, dtype, card)
    return test


def save_run(path, folder, dtype="int8"):
    """Saves the model of a run on a text in `TEXTS`; returns the model's card.
    The path `folder` must end in PAPER/ROW_CORPUS."""
    from memlm_keras.experiments.opened import open_run

    run = open_run(path)
    experiment, results = run.experiment, run.folder.results()
    run.model.save_to_preset(folder, dtype)
    stored = type(run.model).from_preset(folder)
    found = {
        split: values
        for split, values in experiment.measure(stored).items()
        if split in ("validation", "test")
    }
    measure = "accuracy" if "accuracy" in found["test"] else "perplexity"
    paper = memlm.presets.papers()[experiment.preset_name.partition("/")[0]]
    text, licence = TEXTS[experiment.dataset.name]
    here = ("--data_dir", "--run_dir", "--backend", "--verbose")
    command = shlex.split(results["command"])
    command = [part for part in command if not part.startswith(here)]
    card = {
        "description": f"`{experiment.preset_name}` of {paper.citation}, "
        f"{paper.title}, at its published size.",
        "text": text,
        "licence": licence,
        "command": shlex.join([*command, f"--data_dir={_FOLDER}"]),
        "epoch": f"{results['best_epoch']} of {results['epochs']}",
        measure: round(found["test"][measure], 3),
        f"{measure} before storing": round(results["test"][measure], 3),
        f"validation {measure}": round(found["validation"][measure], 3),
        "protocol": found["test"]["protocol"],
        "measured by": f"memlm evaluate {folder.parent.name}/{folder.name} "
        f"--dataset={experiment.dataset.name} --data_dir={_FOLDER}",
        **_origin(results),
    }
    # Leave out the path of the text, which differs on other machines.
    recipe = {k: v for k, v in run.recipe.items() if k != "data_dir"}
    trained.save(stored, folder, dtype, card, recipe)
    return card


def _origin(facts):
    """Returns backend, commit, hardware and date of a run, for the card."""
    return {
        "backend": f"{facts['backend'].split()[0]}, Keras {facts['keras']}",
        "commit": facts["memlm_keras"],
        "hardware": facts["hardware"],
        "date": facts["date"],
    }


def main(arguments):
    if len(arguments) not in (2, 3):
        raise UsageError(f"Received: {arguments}. {__doc__}")
    process.import_keras()
    path, folder, *dtype = arguments
    for name, value in save_run(path, pathlib.Path(folder), *dtype).items():
        print(f"{name}: {value}")
    print(f"Written: {folder}, {trained.size_of(folder) / 1e6:.1f} MB")


if __name__ == "__main__":
    programs.run(main)

"""Recipes: which experiments of a paper are run, and how.

A recipe is a script that hands its steps, `memlm` commands by name, to `main`.
"""

import itertools
import math
import shlex
import sys

import memlm_keras as memlm
from memlm_keras.experiments import command_line
from memlm_keras.experiments import process
from memlm_keras.experiments.options import nearest


def main(steps, description, arguments=None):
    """Runs the requested steps, lists of `memlm` arguments by name; returns the
    exit status."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    names = list(
        itertools.takewhile(lambda a: not a.startswith("-"), arguments)
    )
    more = arguments[len(names) :]
    instead = [a for a in more if a.startswith(("--model=", "--table="))]
    if "--help" in more or not (names or instead):
        print(f"{description.strip()}\n")
        for name, step in steps.items():
            print(f"  {name}: memlm {shlex.join(step)}")
        return 0
    unknown = [name for name in names if name not in steps]
    if unknown:
        print(
            f"There is no step {unknown[0]}.{nearest(unknown[0], steps)} "
            f"Steps are {', '.join(steps)}.",
            file=sys.stderr,
        )
        return 2
    # The later of two equal flags wins.
    commands = [[*steps[name], *more] for name in names]
    # `--model=ROW` and `--table=TABLE` replace steps.
    if instead:
        rest = [a for a in more if a not in instead]
        verbs = {"--model": "train", "--table": "table"}
        commands = [
            [verbs[flag], _complete(value, steps), *rest]
            for flag, _, value in (a.partition("=") for a in instead)
        ]
    for command in commands:
        print(f"memlm {shlex.join(command)}", flush=True)
        status = command_line.main(command)
        if status:
            return status
    return 0


def _complete(name, steps):
    """A row or a table of the recipe's own paper, with the paper's name."""
    if "/" in name or name.startswith("kneser_ney"):
        return name
    paper = next(iter(steps.values()))[1].partition("/")[0]
    return f"{paper}/{name}"


def save_trained(model, folder, dtype, batches, card):
    """Writes a trained model, with the perplexity on batches that its stored
    weights reach, and returns that `Perplexity`."""
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
        "backend": f"{facts['backend']}, Keras {facts['keras']}",
        "commit": facts["memlm_keras"],
        "hardware": facts["hardware"],
        "date": facts["date"],
    }
    if test.words is not None:
        card["perplexity per word"] = round(test.per_word, 3)
        card["words"] = "separated by white space, and ends of lines"
    stored.save_to_preset(folder, dtype, card)
    return test

"""`memlm train`."""

import pathlib
import shlex

from memlm_keras.experiments import datasets
from memlm_keras.experiments import measurements
from memlm_keras.experiments import options
from memlm_keras.experiments import process
from memlm_keras.experiments.command_line import command
from memlm_keras.experiments.experiment import Experiment
from memlm_keras.experiments.experiment import run_name
from memlm_keras.experiments.tables.report import outcome

_ENGLISH = "memlm/english"
# `memlm train` adapts a paper's preset to the text, unless a user sets sizes or
# training options. Options in this tuple do not prevent the adaptation.
_FITTED_TOO = ("halve", "optimizer", "distribution")


@command(
    "Trains a model in a run folder, or continues an interrupted run. Without "
    "PRESET, chooses a model that suits the text. If PRESET is the name or "
    "folder of a trained model, trains it further.",
    {"PRESET": "?"},
    options.DATASET,
    options.Option(
        "as_published",
        bool,
        "Train a paper's preset on your own text with the paper's sizes and "
        "rates, which suit millions of words.",
    ),
    options.RUN_DIR,
    options.OVERWRITE,
    options.seed("Seed of weights, dropout and shuffling; by default 0."),
    options.VERBOSE,
    overrides=tuple(options.OVERRIDES.values()),
    running=options.RUNNING,
    measures=options.MEASURING,
    pictures=options.PICTURES,
)
def train(
    preset: str | None,
    verbose: int,
    overrides: dict,
    running: dict,
    measures: dict,
    pictures: dict,
    typed: str,
    dataset: str | None = None,
    as_published: bool = False,
    run_dir: str = "runs",
    overwrite: bool = False,
    seed: int | None = None,
):
    from memlm_keras.experiments.choice import SMALLEST
    from memlm_keras.experiments.choice import choose_preset
    from memlm_keras.experiments.figures import CURVE

    values = overrides if seed is None else {"seed": seed, **overrides}
    with process.quiet(verbose):
        if dataset is None:
            dataset = "embedded"
            print(
                "Without --dataset, this run trains on the package's small "
                "text. --dataset=FILE reads your own."
            )
        if as_published and preset is None:
            raise options.UsageError(
                "--as_published needs the name of a paper's preset."
            )
        # Wrong options raise an error before a text is read.
        experiment = Experiment(preset or SMALLEST, dataset, **values)
        language_model = experiment.kind == options.LANGUAGE_MODEL
        name, choice = experiment.name, None
        own_text = dataset not in options.TEXTS
        sized = any(
            o.name in values
            for o in (*options.SIZES, *options.TRAINING)
            if o.name not in _FITTED_TOO
        )
        if preset is None or (own_text and not (as_published or sized)):
            experiment.check(measures, pictures, running.get("devices"))
            choice = choose_preset(dataset, preset, **values, **running)
        if choice is not None:
            label = experiment.dataset.label
            name = run_name(
                label, choice.preset, experiment.overrides, experiment.seed
            )
            name += "" if choice.is_own else "-fitted"
            experiment = Experiment(
                choice.preset,
                dataset,
                corpus=choice.corpus,
                **values,
                **choice.options,
            )
            experiment.check_measures(measures)
            _print_choice(choice, preset, dataset, values, running)
            running = {**choice.running, **running}
        elif "trained" in experiment.preset:
            if as_published:
                raise options.UsageError(
                    "--as_published needs a paper's preset. Received: "
                    f"{preset}, a trained model"
                )
            print(f"{preset} is trained further, and keeps its vocabulary.")
        elif own_text and sized and language_model and not as_published:
            print(
                "You set a size or a rate, so all others are as published. "
                "If you set none, they are fitted to the text."
            )
        if own_text and language_model:
            if datasets.can_be_counted(experiment.corpus):
                measures = {"compare": True, **measures}
        folder = pathlib.Path(run_dir, name)
        results = experiment.run(
            folder,
            **running,
            verbose=verbose,
            measures=measures,
            pictures=pictures,
            overwrite=overwrite,
            command=typed,
        )
    _print_results(experiment, results, measures, verbose)
    print(f"All results are in {folder}")
    if not results.get("finite", True):
        kept = results["best_epoch"]
        raise RuntimeError(
            f"Training diverged in epoch {results['epochs']}: its loss or "
            f"perplexity was not finite. {folder} holds the weights "
            f"{f'of epoch {kept}' if kept else 'from before training'}. Try a "
            "lower --learning_rate."
        )
    path = shlex.quote(str(folder))
    lines = experiment.examples(path)
    if {picture.name for picture in folder.glob("*.png")} - {CURVE}:
        lines.insert(1, f"memlm attention {path}")
    if lines and verbose:
        print("\n  ".join(["Next, for instance:", *lines]))


def _print_choice(choice, preset, dataset, values, running):
    print("\n".join(choice.reasons))
    chosen = {**values, **choice.options, **choice.running, **running}
    print(f"Chosen: {_command(choice.preset, dataset, chosen)}")
    if preset is None:
        print("Flags change these choices: see memlm train --help.")
        if choice.is_english and (further := _further(dataset, values)):
            print(
                "This is English. For prose such as novels, a trained model "
                f"can be trained further: {further}"
            )


def _command(preset, dataset, values):
    flags = [options.as_flag(name, value) for name, value in values.items()]
    return shlex.join(
        ["memlm", "train", preset, f"--dataset={dataset}", *flags]
    )


def _further(dataset, values):
    """Returns the command that trains the package's English model on a text,
    with the options that apply; `None` if the model cannot read the text."""
    try:
        Experiment(_ENGLISH, dataset, **values)
    except options.NoUseError as error:
        rest = {k: v for k, v in values.items() if k != error.option}
        return _further(dataset, rest)
    except options.UsageError:
        return None
    return _command(_ENGLISH, dataset, values)


def _print_results(experiment, results, measures, verbose):
    print(outcome(results, experiment.columns))
    if bits := measurements.describe_bits(results.get("test", {})):
        print(f"test: {bits}")
    requests = measurements.requests(experiment, measures, results)
    measurements.print_requested(results, requests)
    if "cache" in results and verbose:
        print(
            "With --cache, `memlm score`, `surprisal`, `generate` and `export` "
            "use this cache."
        )

"""Tests the papers' claims: trains the models that a claim compares, and writes
a verdict on each claim.

    python recipes/claims.py --queue --out=docs/results
    python recipes/claims.py kong2019/noise --setting=kong2019_little_text
    python recipes/claims.py daniluk2017 --size=paper --jobs=2 --minutes=9
    python recipes/claims.py --finished_only --out=docs/results

Arguments are names of papers or of claims (PAPER/CLAIM); the default is all
claims. Repeat a command to continue interrupted runs. The last command
recomputes the verdicts from the logs in this repository.
"""

import math
import pathlib

from absl import flags

import paper_claims
import programs
from memlm_keras.experiments import process
from memlm_keras.experiments.options import UsageError
from memlm_keras.experiments.options import nearest

FLAGS = flags.FLAGS
flags.DEFINE_string("setting", None, "Train only models of this setting.")
flags.DEFINE_enum(
    "size",
    "small",
    ["small", "paper"],
    "Models to train: the smallest that test a claim, or models of the "
    "published size.",
)
flags.DEFINE_bool("queue", False, "Only print a command for each missing run.")
flags.DEFINE_bool("finished_only", False, "Only write claims.md.")
flags.DEFINE_float("minutes", math.inf, "Minutes until the program stops.", 0.0)
flags.DEFINE_integer("jobs", 1, "Number of runs at the same time.", 1)
flags.DEFINE_string("out", "claims", "Folder of claims.md and of its logs.")
flags.DEFINE_string("run_dir", "runs", "Folder of the run folders.")
flags.DEFINE_string("data_dir", None, "Folder with the files of the corpus.")
flags.DEFINE_enum("backend", None, process.BACKENDS, "Keras backend.")


def main(names):
    """Trains missing runs, and writes the verdicts; returns the exit status."""
    if FLAGS.queue and FLAGS.finished_only:
        raise UsageError(
            "Give only one of --queue, which lists missing runs, and "
            "--finished_only, which trains nothing."
        )
    # The backend must be selected before Keras is imported.
    process.import_keras(FLAGS.backend)
    import claim_runs
    import verdicts
    from memlm_keras.experiments.tables import runs

    out = pathlib.Path(FLAGS.out)
    logs = out / "logs"
    models = choose(names, FLAGS.setting, FLAGS.size)
    # Train all models of a setting with seed 0 first, then with seed 1.
    every = [
        model.run(seed, logs, FLAGS.run_dir, FLAGS.data_dir)
        for setting in paper_claims.SETTINGS.values()
        for seed in range(setting.seeds)
        for model in models.values()
        if model.setting is setting
    ]
    if FLAGS.queue:
        runs.print_missing(every)
        return 0
    failed = 0
    if not FLAGS.finished_only:
        failed = claim_runs.train(every, FLAGS.jobs, FLAGS.minutes)
    elif not any(run.results for run in every):
        print(
            f"None of {len(every)} runs in {logs} is finished. In a clone of "
            "the repository, --out=docs/results has the published runs."
        )
    # The page shows all claims, not only the named ones.
    models = claim_runs.models_of(paper_claims.CLAIMS)
    losses = {k: verdicts.losses_of(model, logs) for k, model in models.items()}
    verdicts.write(out / "claims.md", losses, process.typed())
    print(f"See {out / 'claims.md'}")
    return 1 if failed else 0


def choose(names, setting, size):
    """Returns the models of the named claims, of all settings or of one."""
    import claim_runs

    claims, settings = paper_claims.CLAIMS, paper_claims.SETTINGS
    known = {f"{claim.paper}/{claim.name}": claim for claim in claims}
    chosen = []
    for name in names or [""]:
        matches = [
            claim
            for full, claim in known.items()
            if name in ("", claim.paper, full)
        ]
        if not matches:
            papers = list(dict.fromkeys(claim.paper for claim in claims))
            raise UsageError(
                f"There is no claim {name}.{nearest(name, [*papers, *known])} "
                f"Name a paper, {', '.join(papers)}, or a claim: "
                f"{', '.join(known)}."
            )
        chosen += matches
    if setting is not None and setting not in settings:
        raise UsageError(
            f"There is no setting {setting}.{nearest(setting, list(settings))} "
            f"Settings are {', '.join(settings)}."
        )
    models = claim_runs.models_of(chosen, size if setting is None else None)
    others = ", ".join(dict.fromkeys(name for name, _ in models))
    models = {k: m for k, m in models.items() if setting in (None, k[0])}
    if not models:
        raise UsageError(
            f"Setting {setting} has no runs for {', '.join(names)}. Settings "
            f"with runs: {others}."
            if others
            else f"{', '.join(names)} cannot be tested. For the reason, run "
            "`claims.py --finished_only`."
        )
    return models


if __name__ == "__main__":
    programs.run(main)

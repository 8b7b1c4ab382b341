"""Trains the systems that Salton et al. (2017) compare with, and others.

    python recipes/baselines.py --model=zaremba2014/small --dataset=ptb
    python recipes/baselines.py --model=zaremba2014/small --dataset=ptb \
        --cache_size=500  # a neural cache on top; nothing is trained again
    python recipes/baselines.py --model=merity2017/ptb_pointer_sentinel \
        --dataset=ptb
    python recipes/baselines.py --table=ptb --dataset=ptb
    python recipes/baselines.py --dataset=ptb \
        --average=runs/a/model.keras,runs/b/model.keras
    python recipes/baselines.py --model=gal2016/medium --dataset=ptb \
        --monte_carlo=50  # the mean of 50 draws of its dropout masks

A preset of zaremba2014, press2016, gal2016, grave2017 or merity2017, or one of
the language models of weissenborn2016, is trained as it stands: its data,
optimizer, loss and schedule. Tables have rows without published numbers too, as
zaremba2014/small. A run folder is written,
as by recipes/daniluk2017.py. With a cache, its theta and weight are chosen on
the validation text, and the perplexities with it are written beside those
without; so is the test perplexity of a Monte Carlo average. --average reads
models of finished runs, and averages what they predict.
"""

import json
import pathlib

import common
import preset_runs
import run_folders
import tables
from absl import app
from absl import flags

PAPERS = (
    *("zaremba2014", "press2016", "gal2016", "grave2017", "merity2017"),
    "weissenborn2016",
)
RUNS = preset_runs.PresetRuns(PAPERS)
FLAGS = flags.FLAGS
common.define_flags(run_dir="runs/baselines")
tables.define_flags(preset_runs.TABLES)
preset_runs.define_flags()
# So that --help tells of them.
for module in (common, tables, preset_runs):
    flags.adopt_module_key_flags(module)
flags.DEFINE_string(
    "model", "zaremba2014/small", f"Preset of {', '.join(PAPERS)}."
)
flags.DEFINE_integer(
    "cache_size",
    None,
    "Outputs in a neural cache (Grave et al., 2017) on top of the trained "
    "model; the preset's, if it has one.",
    lower_bound=1,
)
flags.DEFINE_integer(
    "monte_carlo",
    None,
    "Samples of a Monte Carlo average (Gal and Ghahramani, 2016) of the test "
    "text, of a model trained with dropout; it is read so many times.",
    lower_bound=1,
)
flags.DEFINE_list(
    "average",
    None,
    "Instead of training: files model.keras of trained models of the corpus, "
    "or their run folders. The mean of their probabilities is evaluated.",
)


def main(argv):
    if len(argv) > 1:
        raise app.UsageError(f"Unknown arguments: {' '.join(argv[1:])}")
    tables.check_flags((), ("model", "average"))
    common.choose_backend(FLAGS.backend)
    if FLAGS.table is not None:
        return RUNS.fill_table(
            "Baselines of Salton et al. (2017) and others, "
            f"{preset_runs.TABLES[FLAGS.table]}",
            measures(),
        )
    if FLAGS.average is not None:
        wrong = [
            name
            for name in ("model", "cache_size", "monte_carlo")
            if FLAGS[name].present
        ]
        if wrong:
            raise app.UsageError(f"--{wrong[0]} contradicts --average.")
        return average()
    cache = RUNS.preset(FLAGS.model).get("cache")
    if FLAGS.cache_size is not None:
        cache = {**(cache or {}), "size": FLAGS.cache_size}

    def measure(model, corpus, evaluation):
        found = {}
        if cache is not None:
            found["cache"] = read_with_cache(model, evaluation, cache)
        if FLAGS.monte_carlo is not None:
            found["monte_carlo"] = read_with_masks(model, evaluation["test"])
        return found

    wanted = cache is not None or FLAGS.monte_carlo is not None
    RUNS.train(FLAGS.model, measure if wanted else None, check)


def measures():
    """What a table measures; what flags ask for, all its rows must have."""
    size, samples = FLAGS.cache_size, FLAGS.monte_carlo
    cached = [
        tables.Measure(
            f"{name}, cache",
            ("cache", split, "perplexity"),
            2,
            optional=size is None,
            made_with=size and (("cache", "size"), size),
        )
        for name, split in (("dev", "validation"), ("test", "test"))
    ]
    masked = tables.Measure(
        "test, Monte Carlo",
        ("monte_carlo", "test", "perplexity"),
        2,
        optional=samples is None,
        made_with=samples and (("monte_carlo", "samples"), samples),
    )
    return [*tables.PERPLEXITIES, *cached, masked]


def check(model):
    """Refuses what a model cannot be measured by, before it is trained."""
    from memlm_keras.models import copies

    if FLAGS.cache_size is not None and model.mixture is not None:
        raise app.UsageError(
            "--cache_size is of models without a mixture of their own. "
            f"Received: --model={FLAGS.model}, with a "
            f"{type(model.mixture).__name__}"
        )
    if FLAGS.monte_carlo is not None:
        if not copies.drops(model):
            raise app.UsageError(
                "--monte_carlo is of models with dropout. Received: "
                f"--model={FLAGS.model}, without"
            )
        try:
            copies.require_masks(model)
        except ValueError as error:
            raise app.UsageError(
                f"--monte_carlo cannot read --model={FLAGS.model}: {error}"
            ) from error


def read_with_masks(model, batches):
    """Perplexity of a Monte Carlo average, as plain values."""
    from memlm_keras.evaluation import monte_carlo_perplexity

    found = monte_carlo_perplexity(
        model,
        batches,
        samples=FLAGS.monte_carlo,
        seed=FLAGS.seed,
        verbose=int(FLAGS.verbose == 1),
    )
    return {
        "samples": FLAGS.monte_carlo,
        **run_folders.plain_perplexities({"test": found}),
    }


def read_with_cache(model, evaluation, cache):
    """Perplexities with a neural cache, as plain values.

    Args:
        model: trained `LanguageModel`.
        evaluation: dict by split of the batches to evaluate on.
        cache: dict, arguments of `memlm_keras.evaluation.choose_cache`.
    """
    from memlm_keras.evaluation import choose_cache
    from memlm_keras.evaluation import perplexity

    choice = choose_cache(
        model, evaluation["validation"], verbose=FLAGS.verbose, **cache
    )
    chosen = choice.cache
    cached = model.with_mixture(chosen)
    return {
        "size": chosen.size,
        "theta": chosen.theta,
        "weight": chosen.weight,
        **run_folders.plain_perplexities(
            {
                split: perplexity(cached, batches, verbose=FLAGS.verbose)
                for split, batches in evaluation.items()
            }
        ),
    }


def average():
    """Evaluates the mean of several trained models."""
    import keras

    import memlm_keras as memlm

    paths = [pathlib.Path(name) for name in FLAGS.average]
    paths = [p / "model.keras" if p.is_dir() else p for p in paths]
    missing = [str(path) for path in paths if not path.is_file()]
    if missing:
        raise app.UsageError(
            f"--average must list models. There is no file {missing[0]}."
        )
    corpus, sentences = _read_by(paths)
    ensemble = memlm.Ensemble(
        [keras.saving.load_model(path, compile=False) for path in paths]
    )
    if ensemble.vocabulary_size != len(corpus.vocabulary):
        raise app.UsageError(
            f"--average lists models of {ensemble.vocabulary_size:,} words; "
            f"the vocabulary of --dataset={FLAGS.dataset} has "
            f"{len(corpus.vocabulary):,}."
        )
    found = {
        split: memlm.evaluation.perplexity(
            ensemble, batches, verbose=FLAGS.verbose
        )
        for split, batches in preset_runs.batches_to_evaluate(
            corpus, sentences
        ).items()
    }
    name = f"{common.dataset_name()}-average{len(paths)}"
    run_dir = pathlib.Path(FLAGS.run_dir, name)
    models = [str(path) for path in paths]
    if (run_dir / "results.json").is_file():
        before = json.loads((run_dir / "results.json").read_text())["models"]
        if before != models:
            aside = run_folders.move_aside(run_dir)
            print(f"An average of other models is now in {aside}.")
    run_dir.mkdir(parents=True, exist_ok=True)
    run_folders.write_json(
        run_dir / "results.json",
        {
            "models": models,
            "dataset": common.dataset_name(),
            "corpus": corpus.fingerprint,
            "vocabulary_size": len(corpus.vocabulary),
            "parameters": ensemble.count_params(),
            **run_folders.provenance(),
            **run_folders.plain_perplexities(found),
        },
    )
    print(
        f"Average of {len(paths)}: validation "
        f"{found['validation'].perplexity:.2f}, test "
        f"{found['test'].perplexity:.2f}. See {run_dir}"
    )


def _read_by(paths):
    """The corpus as the runs of models read it, and whether by sentences.

    By the `config.json` beside each model; one without is taken to read text as
    one stream.
    """
    configs = [path.with_name("config.json") for path in paths]
    configs = [
        json.loads(path.read_text()) if path.is_file() else {}
        for path in configs
    ]
    by_sentences = [
        any(key in config for key in ("longest", "length_multiple"))
        for config in configs
    ]
    if len(set(by_sentences)) > 1:
        raise app.UsageError(
            "--average must list models that all read sentences, or none. "
            f"Received: {paths[by_sentences.index(True)]}, which does, and "
            f"{paths[by_sentences.index(False)]}, which does not."
        )
    corpus = common.load_corpus(sentences=by_sentences[0])
    for path, config in zip(paths, configs):
        if config.get("corpus", corpus.fingerprint) != corpus.fingerprint:
            raise app.UsageError(
                f"--average lists {path}, trained on another text than that of "
                f"--dataset={FLAGS.dataset}, or with another vocabulary."
            )
    return corpus, by_sentences[0]


if __name__ == "__main__":
    app.run(main)

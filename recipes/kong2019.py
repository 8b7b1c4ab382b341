"""Trains the models of Kong et al. (2019): noised and smoothed language models.

    python recipes/kong2019.py --model=kong2019/vs_kneser_ney_512 --dataset=ptb
    python recipes/kong2019.py --model=kong2019/vs_elementwise_512 --rate=0.3 \\
        --dataset=ptb --samples=20  # other predictions than by the mean, too
    python recipes/kong2019.py --model=kong2019/vs_kneser_ney_512 \\
        --memory=key_value_predict --dataset=ptb
    python recipes/kong2019.py --table=ptb --dataset=ptb
    python recipes/kong2019.py --table=grid --dataset=ptb --scale=0.4 \\
        --rows=kong2019/vs_linear_512,kong2019/dn_linear_512 \\
        --rates=0.1,0.2,0.3,0.4 --l2s=0.0001,0.001

The statistics of the training text are counted, and noise and smoothing follow
from them. Perplexities are those by the mean of the smoothed matrices. A run
folder is written, as by recipes/daniluk2017.py. A grid trains each row with all
values that are listed; best.csv has the choice of each by its validation
perplexity, and rates.png the paper's Figure 1.
"""

import csv
import itertools

import common
import preset_runs
import run_folders
import table_files
import tables
from absl import app
from absl import flags

PAPER = "kong2019"
GRID = "grid"
# Flags that list what a grid tries, and the flag of one run for each.
LISTS = {"rates": "rate", "l2s": "l2", "learning_rates": "learning_rate"}

FLAGS = flags.FLAGS
common.define_flags(run_dir=f"runs/{PAPER}")
tables.define_flags(
    {**preset_runs.TABLES, GRID: "validation perplexity by gamma, Figure 1"}
)
preset_runs.define_flags()
# So that --help tells of them.
for module in (common, tables, preset_runs):
    flags.adopt_module_key_flags(module)
flags.DEFINE_string(
    "model", "kong2019/vs_kneser_ney_512", f"Preset of {PAPER}."
)
flags.DEFINE_float(
    "rate",
    None,
    "gamma_0, how much is noised or smoothed, instead of the preset's 0.2.",
    lower_bound=0.0,
    upper_bound=1.0,
)
flags.DEFINE_float(
    "l2",
    None,
    "Weight of the divergence of smoothed models, instead of 0.0001; of "
    "others, that of the squares of their embeddings, instead of 0.",
    lower_bound=0.0,
)
flags.DEFINE_enum(
    "other_words",
    None,
    ["mean", "mode"],
    "Of Kneser-Ney smoothing: which output vectors the words that are not the "
    "target have while training, instead of their means.",
)
flags.DEFINE_enum(
    "memory",
    None,
    ["key_value_predict"],
    "A memory above the recurrent layers, the last of which then has three "
    "times the units; the paper has none.",
)
flags.DEFINE_integer(
    "window",
    5,
    "Outputs that the memory of --memory attends to.",
    lower_bound=1,
)
flags.DEFINE_integer(
    "samples",
    None,
    "Of smoothed models, evaluate the validation text by the mode and by the "
    "mean of so many samples as well.",
    lower_bound=1,
)
for name, flag in LISTS.items():
    flags.DEFINE_list(name, None, f"With --table={GRID}: values of --{flag}.")


class KongRuns(preset_runs.PresetRuns):
    """Presets whose noise, smoothing and memory are as the flags say."""

    table_settings = ("rate", "l2", "other_words", "memory", "window")

    def change(self, preset):
        """Returns a preset as the flags want it."""
        from memlm_keras.presets import kong2019

        smoothing = preset["model"].get("smoothing")
        if FLAGS.rate is not None and preset["noise"]:
            preset["noise"]["rate"] = FLAGS.rate
        if not smoothing and FLAGS.l2:
            preset["model"]["smoothing"] = kong2019.plain_l2(FLAGS.l2)
        if smoothing:
            for flag in ("rate", "l2"):
                smoothing["config"][flag] = common.given(
                    flag, smoothing["config"][flag]
                )
            if FLAGS.other_words is not None:
                smoothing["config"]["other_words"] = FLAGS.other_words
        if FLAGS.memory is not None:
            _put_memory(preset["model"])
        return preset

    def settings(self, preset):
        """Returns further settings of a run, as plain values."""
        smoothing = preset["model"].get("smoothing") or {"config": {}}
        noise = preset["noise"] or {}
        memory = FLAGS.memory
        return {
            "rate": noise.get("rate", smoothing["config"].get("rate")),
            "l2": smoothing["config"].get("l2"),
            "other_words": FLAGS.other_words,
            "memory": memory,
            "window": memory and FLAGS.window,
        }

    def folder_parts(self):
        """Returns further parts of a run folder's name."""
        given = ((flag, FLAGS[flag].value) for flag in LISTS.values())
        parts = [
            f"{flag}{value:g}" for flag, value in given if value is not None
        ]
        if FLAGS.other_words is not None:
            parts.append(f"others_{FLAGS.other_words}")
        if FLAGS.memory is not None:
            parts.append(f"{FLAGS.memory}{FLAGS.window}")
        return parts

    def prepare(self, model, corpus, batches, preset):
        """Counts statistics, for the noise or the smoothing."""
        from memlm_keras import smoothing

        if not preset["noise"] and model.smoothing is None:
            return batches
        statistics = smoothing.StreamStatistics.count(
            corpus.train.tokens, len(corpus.vocabulary)
        )
        if model.smoothing is not None:
            model.smoothing.adapt(statistics)
        if not preset["noise"]:
            return batches
        return smoothing.NoisedBatches(
            batches, statistics=statistics, seed=FLAGS.seed, **preset["noise"]
        )

    def describe(self, corpus, model, seed, **values):
        """As of `PresetRuns`, with values of the grid's flags."""
        _set_flags(values)
        return super().describe(corpus, model, seed)

    def run_folder(self, model, seed, **values):
        """As of `PresetRuns`, with values of the grid's flags."""
        _set_flags(values)
        return super().run_folder(model, seed)

    def rows(self):
        """As of `PresetRuns`; those of a grid with all values."""
        if FLAGS.table != GRID:
            return super().rows()
        from memlm_keras import presets

        names = [n for n in presets.names() if n.startswith(f"{PAPER}/")]
        return [
            tables.Row(
                label=" ".join([name, *(f"{k} {v}" for k, v in point.items())]),
                flags={"model": name, **point},
                details={"preset": name, **point},
                published={},
            )
            for name in tables.selected(names)
            for point in _points(presets.get(name))
        ]


RUNS = KongRuns((PAPER,))


def main(argv):
    if len(argv) > 1:
        raise app.UsageError(f"Unknown arguments: {' '.join(argv[1:])}")
    tables.check_flags(tuple(LISTS), ("model",))
    _check_flags()
    common.choose_backend(FLAGS.backend)
    if FLAGS.table is None:
        _check_uses()
        RUNS.train(FLAGS.model, read_otherwise if FLAGS.samples else None)
        return
    title = f"Kong et al. (2019), {preset_runs.TABLES.get(FLAGS.table, GRID)}"
    status = RUNS.fill_table(
        title,
        tables.PERPLEXITIES,
        draw_rates if FLAGS.table == GRID else None,
        left_out=tuple(LISTS),
    )
    if FLAGS.table == GRID:
        choose(tables.folder(common.size_parts()))
    return status


def read_otherwise(model, corpus, evaluation):
    """Validation perplexity by the mode and by samples, as plain values."""
    from memlm_keras.evaluation import perplexity
    from memlm_keras.evaluation import sampled_perplexity

    batches = evaluation["validation"]
    mode = model.with_prediction("mode")
    sampled = sampled_perplexity(
        model, batches, FLAGS.samples, FLAGS.seed, FLAGS.verbose
    )
    return {
        "by_mode": run_folders.plain_perplexity(
            perplexity(mode, batches, verbose=FLAGS.verbose)
        ),
        "by_samples": {
            "samples": FLAGS.samples,
            **run_folders.plain_perplexity(sampled),
        },
    }


def draw_rates(table, progress):
    """Draws validation perplexity by gamma, the best of all else at each."""
    lines = {}
    for row in table.rows:
        name, rate = row.details["preset"], row.details.get("rate")
        found = [
            tables.PERPLEXITIES[0].of(results)
            for results in progress.results(row)
        ]
        if found and rate is not None:
            line = lines.setdefault(name.partition("/")[2], {})
            summary = table_files.summarize(found)
            if rate not in line or summary.mean < line[rate].mean:
                line[rate] = summary
    if not lines:
        return []
    table_files.draw_lines(
        {common.dataset_name(): lines},
        table.folder / "rates.png",
        x_label="gamma",
        y_label="validation perplexity",
    )
    return ["rates.png"]


def choose(folder):
    """Writes the best point of each row of a grid, by validation perplexity."""
    from memlm_keras import files

    if not (folder / "table.csv").exists():
        return
    with open(folder / "table.csv", newline="", encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if row["dev"]]
    best = {}
    for row in sorted(rows, key=lambda row: float(row["dev"])):
        best.setdefault(row["preset"], row)
    with files.atomic_path(folder / "best.csv") as temporary:
        with open(temporary, "w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, list(rows[0]) if rows else ["preset"])
            writer.writeheader()
            writer.writerows(best.values())
    for name, row in best.items():
        print(f"{name}: dev {row['dev']}, test {row['test']}; see best.csv")


def _points(preset):
    """All combinations of the values listed that a preset has a use for."""
    uses = {
        "rate": preset["noise"] or preset["model"].get("smoothing"),
        "l2": True,
        "learning_rate": True,
    }
    lists = {
        flag: [float(value) for value in FLAGS[name].value]
        for name, flag in LISTS.items()
        if FLAGS[name].value and uses[flag]
    }
    for values in itertools.product(*lists.values()):
        yield dict(zip(lists, values))


def _set_flags(values):
    if FLAGS.table == GRID:
        for flag in LISTS.values():
            FLAGS[flag].value = values.get(flag)


def _put_memory(model):
    import keras

    from memlm_keras.memory import KeyValuePredict

    last = model["recurrent"][-1]["config"]["cell"]["config"]
    last["units"] *= 3
    model["memory"] = keras.saving.serialize_keras_object(
        KeyValuePredict(window=FLAGS.window)
    )


def _check_uses():
    """Checks that a run has a use for the flags that were given."""
    from memlm_keras import presets

    RUNS.preset(FLAGS.model)
    # As it is without --l2, which is of all.
    preset = presets.get(FLAGS.model)
    smooths = preset["model"].get("smoothing")
    if FLAGS.samples and not smooths:
        raise app.UsageError(
            "--samples needs a smoothed model, such as kong2019/vs_linear_512. "
            f"Received: --model={FLAGS.model}"
        )
    kneser_ney = smooths and smooths["config"]["scheme"] == "kneser_ney"
    if FLAGS.other_words is not None and not kneser_ney:
        raise app.UsageError(
            "--other_words is of Kneser-Ney smoothing, such as "
            f"kong2019/vs_kneser_ney_512. Received: --model={FLAGS.model}"
        )
    if FLAGS.rate is not None and not (smooths or preset["noise"]):
        raise app.UsageError(
            "--rate is of models that are noised or smoothed. Received: "
            f"--model={FLAGS.model}"
        )


def _check_flags():
    if FLAGS.table != GRID:
        wrong = [name for name in LISTS if FLAGS[name].present]
        if wrong:
            raise app.UsageError(f"--{wrong[0]} needs --table={GRID}.")
    elif any(FLAGS[flag].present for flag in LISTS.values()):
        raise app.UsageError(
            f"--table={GRID} has lists of values: --{', --'.join(LISTS)}."
        )
    for name in LISTS:
        try:
            [float(value) for value in FLAGS[name].value or ()]
        except ValueError as error:
            raise app.UsageError(
                f"--{name} must list numbers. Received: {FLAGS[name].value}"
            ) from error
    if FLAGS["window"].present and FLAGS.memory is None:
        raise app.UsageError("--window needs --memory.")
    if FLAGS.samples is not None and FLAGS.table is not None:
        raise app.UsageError("--samples contradicts --table.")


if __name__ == "__main__":
    app.run(main)

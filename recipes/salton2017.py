"""Trains the attentive language models of Salton et al. (2017).

    python recipes/salton2017.py --model=salton2017/ptb_single --dataset=ptb
    python recipes/salton2017.py --model=salton2017/wikitext2_combined \
        --dataset=wikitext-2
    python recipes/salton2017.py --table=ptb --dataset=ptb --scale=0.3
    python recipes/baselines.py --table=ptb --dataset=ptb  # what they compare

Every sentence is read from an empty history, cut at 35 words in training and
whole in evaluation. The learning rate is kept for some epochs and then
multiplied by a factor at each one; ten epochs without a better validation
perplexity end the training, and the best epoch is kept. Perplexities are
printed by the standard protocol and by the paper's, side by side.

A run folder is written, as by recipes/daniluk2017.py, and in it
sentence_attention.png: where the model attends along one sentence. A table
draws both scores side by side, the paper's Figures 2 and 3.
"""

import common
import drawn_sentence
import preset_runs
import tables
from absl import app
from absl import flags

PAPER = "salton2017"
MEASURES = [
    *tables.PERPLEXITIES,
    tables.Measure("test by their protocol", ("test", PAPER, "perplexity"), 2),
]
PICTURE = "sentence_attention.png"
RUNS = preset_runs.PresetRuns((PAPER,))

FLAGS = flags.FLAGS
common.define_flags(run_dir=f"runs/{PAPER}")
tables.define_flags(preset_runs.TABLES)
preset_runs.define_flags()
drawn_sentence.define_flags("For the picture: ")
# So that --help tells of them.
for module in (common, tables, preset_runs, drawn_sentence):
    flags.adopt_module_key_flags(module)
flags.DEFINE_string(
    "model",
    "salton2017/ptb_single",
    "Preset of the paper: salton2017/ptb_single, ptb_combined, "
    "wikitext2_single, wikitext2_combined, or ptb_lstm and wikitext2_lstm, the "
    "same without a memory.",
)


def main(argv):
    if len(argv) > 1:
        raise app.UsageError(f"Unknown arguments: {' '.join(argv[1:])}")
    tables.check_flags((), ("model",))
    drawn_sentence.check_flags()
    common.choose_backend(FLAGS.backend)
    if FLAGS.table is not None:
        return RUNS.fill_table(
            f"Salton et al. (2017), {preset_runs.TABLES[FLAGS.table]}",
            MEASURES,
            draw_table,
            left_out=("sentence",),
        )
    model, corpus, run_dir = RUNS.train(FLAGS.model)
    if model.attending is not None:
        name = FLAGS.model.rpartition("/")[2]
        draw({name: model}, corpus, run_dir / PICTURE)


def draw(models, corpus, path):
    """Draws where models attend along one sentence, side by side."""
    from memlm_keras import analysis

    words = drawn_sentence.words(corpus)
    found = {
        name: analysis.sentence_predictions(model, words, corpus.vocabulary)
        for name, model in models.items()
    }
    analysis.plot_sentence_attention(found, path)


def draw_table(table, progress):
    """Draws where the models of a table attend along one sentence."""
    import keras

    import memlm_keras  # noqa: F401 - registers what the files name.

    models = {}
    for row in table.rows:
        for run in progress.of(row, progress.finished)[:1]:
            model = keras.saving.load_model(
                run.folder / "model.keras", compile=False
            )
            if model.attending is not None:
                models[row.label.rpartition("/")[2]] = model
    if not models:
        return []
    corpus = preset_runs.load_corpus(RUNS.preset(table.rows[0].label))
    draw(models, corpus, table.folder / PICTURE)
    return [PICTURE]


if __name__ == "__main__":
    app.run(main)

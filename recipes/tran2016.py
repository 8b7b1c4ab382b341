"""Trains the models of Tran et al. (2016), one or a table of them.

    python recipes/tran2016.py --model=rm_tm_gated --dataset=embedded
    python recipes/tran2016.py --model=lstm_3 --dataset=ptb \
        --data_dir=path/to/ptb
    python recipes/tran2016.py --model=kneser_ney_5_cache --dataset=ptb
    python recipes/tran2016.py --table=perplexity --dataset=ptb \
        --rows=kneser_ney_5,lstm_3,rm_tm_gated

Every sentence is read from an empty history, in training and evaluation. The
learning rate is kept for four epochs and then halved at each one; the best of
15 epochs is tested.

A run folder is written, as by recipes/daniluk2017.py. The paper's analyses are
drawn there too; of a finished run they are drawn without training it again:

    python recipes/tran2016.py --model=rm_tm_gated --dataset=ptb \
        --analyses=columns,predictions,pairs

Models for the Sentence Completion Challenge, with novels of
memlm_keras.data.prepare_novels in folders train, valid and test, answer its
questions when they are trained, or when they are finished:

    python recipes/tran2016.py --model=completion_rm_256 --dataset=novels \
        --vocabulary_size=64000 \
        --questions=Holmes.machine_format.questions.txt \
        --answers=Holmes.machine_format.answers.txt
    python recipes/tran2016.py --table=completion --dataset=novels ...
"""

import functools
import pathlib
import time

import analyses
import common
import completion
import run_folders
import table_files
import tables
from absl import app
from absl import flags

TABLES = {
    "perplexity": "Table 2, perplexity",
    completion.TABLE: "Table 4, accuracy in sentence completion",
}
# Rows without a neural network, and their published test perplexities.
KNESER_NEY = {
    "kneser_ney_5": {"german": 225.8, "italian": 167.5, "english": 219.0},
    "kneser_ney_5_cache": {},
}
# Whose numbers stand beside those of a corpus that --language does not tell of.
PUBLISHED = {"ptb": "penn_treebank", "embedded": None, "wikitext-2": None}
TABLE_FLAGS = ("language",)
# Bytes of the logits of a batch that are worth a word before training.
LARGE_LOGITS = 2**30
ROW_FLAGS = ("model",)

FLAGS = flags.FLAGS
common.define_flags(run_dir="runs/tran2016")
tables.define_flags(TABLES)
analyses.define_flags()
completion.define_flags()
# So that --help tells of them.
for module in (common, tables, analyses, completion):
    flags.adopt_module_key_flags(module)
FLAGS.set_default("epochs", 15)
FLAGS.set_default("patience", 15)
flags.DEFINE_enum(
    "language",
    "english",
    ["german", "italian", "english"],
    "With --table and texts of your own: whose published perplexities are put "
    "beside ours.",
)
flags.DEFINE_string(
    "model",
    "rm_tm_gated",
    "Row of the paper's table, as the presets tran2016/ name it, or "
    "kneser_ney_5 or kneser_ney_5_cache.",
)
flags.DEFINE_float("scale", 1.0, "Factor on the paper's units.")
flags.DEFINE_integer(
    "window",
    None,
    "Words in the memory, of rows with one; the preset's: 15, mostly.",
    lower_bound=1,
)
flags.DEFINE_float(
    "dropout",
    None,
    "Dropout rate; the preset's: 0.3 for completion_..., else 0, as the paper "
    "states none.",
    lower_bound=0.0,
    upper_bound=1.0,
)
flags.DEFINE_integer(
    "batch_size",
    None,
    "Sentences of a batch; preset: 20.",
    lower_bound=1,
)
flags.DEFINE_integer(
    "length_multiple",
    8,
    "Sentences are padded, without effect, to a multiple of this length, so "
    "that few shapes are compiled.",
    lower_bound=1,
)
flags.DEFINE_float("learning_rate", None, "Of SGD; the preset's: 1.")
flags.DEFINE_integer(
    "halve_after",
    None,
    "Epochs before halving; the preset's: 4.",
    lower_bound=0,
)


def main(argv):
    if len(argv) > 1:
        raise app.UsageError(f"Unknown arguments: {' '.join(argv[1:])}")
    tables.check_flags(TABLE_FLAGS, ROW_FLAGS)
    analyses.check_flags()
    completion.check_flags()
    if FLAGS["language"].present and FLAGS.dataset in PUBLISHED:
        raise app.UsageError(
            f"--language contradicts --dataset={FLAGS.dataset}; it tells of "
            "texts of your own."
        )
    common.choose_backend(FLAGS.backend)
    if FLAGS.table is not None:
        return fill_table()
    if FLAGS.model in KNESER_NEY:
        return count_ngrams()
    train_one()


def train_one():
    """Trains one model in a run folder, evaluates and analyses it."""
    import keras

    import memlm_keras as memlm

    # Before the corpus is read: a wrong name shows at once.
    preset = get_preset(FLAGS.model)
    analyses.check_run(preset["model"]["memory"])
    completion.check_run(can_answer=True)
    corpus = load_corpus()
    settings = describe(corpus, FLAGS.model, FLAGS.seed)
    run_dir = run_folder(FLAGS.model, FLAGS.seed)
    if FLAGS.analyses or FLAGS.questions:
        model = run_folders.finished_model(run_dir, settings)
        if model is not None:
            print(f"{run_dir} is finished, and is not trained again.")
            analyses.draw(model, corpus, run_dir, settings)
            run_folders.add_results(
                run_dir, completion.answer(model, corpus.vocabulary)
            )
            return
    tell_of_long_sentences(corpus, settings["batch_size"])
    run_folders.open_run_dir(run_dir, settings)
    if run_folders.finished_results(run_dir) is not None:
        print(f"{run_dir} is finished: {run_dir / 'results.json'}")
        return
    analyses.remove(run_dir)
    keras.utils.set_random_seed(FLAGS.seed)
    model = memlm.LanguageModel.from_preset(
        settings["preset"],
        settings["vocabulary_size"],
        scale=FLAGS.scale,
        dropout=settings["dropout"],
        **_window(FLAGS.model),
    )
    optimizer = keras.saving.deserialize_keras_object(preset["optimizer"])
    optimizer.learning_rate = settings["learning_rate"]
    loss = keras.saving.deserialize_keras_object(preset["loss"])
    model.compile(optimizer, loss)

    def sentence_batches(split, **arguments):
        return corpus.sentence_batches(
            split,
            settings["batch_size"],
            length_multiple=settings["length_multiple"],
            **arguments,
        )

    evaluation = {
        split: sentence_batches(split)
        if not model.causal
        else corpus.batches(split, 64, 32, sentences=True)
        for split in ("validation", "test")
    }
    run_folders.run(
        model,
        corpus,
        sentence_batches("train", shuffle=True, seed=FLAGS.seed),
        evaluation["validation"],
        evaluation,
        run_dir,
        settings,
        callbacks=[
            keras.callbacks.LearningRateScheduler(
                memlm.training.halve_after(settings["halve_after"])
            )
        ],
        measure=functools.partial(completion.answer, model, corpus.vocabulary),
    )
    analyses.draw(model, corpus, run_dir, settings)


def tell_of_long_sentences(corpus, batch_size):
    """Prints how large the largest batch is, if that may be too large."""
    import numpy as np

    from memlm_keras.data import sentence_starts

    tokens = np.asarray(corpus.train.tokens)
    starts = sentence_starts(tokens, corpus.vocabulary.end_of_sentence_id)
    longest = int(np.diff([*starts, len(tokens)]).max())
    size = 4 * batch_size * longest * len(corpus.vocabulary)
    if size > LARGE_LOGITS:
        print(
            f"The longest sentence of the training text has {longest:,} "
            f"tokens: the logits of {batch_size} such rows take "
            f"{size / 2**30:.1f} GiB, and training several times that. "
            "Lower --batch_size, or divide such lines in the text."
        )


def count_ngrams():
    """Estimates the n-gram model of the paper, and evaluates it."""
    from memlm_keras import ngrams

    analyses.check_run(None)
    completion.check_run(can_answer=False)
    corpus = load_corpus()
    settings = describe(corpus, FLAGS.model, FLAGS.seed)
    run_dir = run_folder(FLAGS.model, FLAGS.seed)
    run_folders.open_run_dir(run_dir, settings)
    begin = time.perf_counter()
    model = ngrams.KneserNey(len(corpus.vocabulary), order=5)
    model.fit(corpus.train)
    seconds = time.perf_counter() - begin
    parameters = sum(model.num_ngrams)
    if FLAGS.model.endswith("cache"):
        model = ngrams.with_cache(model, corpus.validation)
    evaluations = {
        split: model.perplexity(getattr(corpus, split))
        for split in ("validation", "test")
    }
    run_folders.write_config(run_dir, settings)
    log = {
        "epoch": 0,
        "val_perplexity": evaluations["validation"].perplexity,
        "seconds": seconds,
        "tokens_per_second": len(corpus.train) / seconds,
    }
    run_folders.write_results(
        run_dir,
        settings,
        parameters,
        log=[log],
        ended=True,
        **run_folders.plain_perplexities(evaluations),
    )
    print(f"See {run_dir}")


def load_corpus():
    """The corpus in sentences, where its lines hold several."""
    return common.load_corpus(sentences=True)


def get_preset(model):
    """The preset of a row at the scale that is asked for."""
    import memlm_keras as memlm

    return memlm.presets.get(
        f"tran2016/{model}", scale=FLAGS.scale, **_window(model)
    )


def describe(corpus, model, seed):
    """Returns the settings that say what one run is, as plain values.

    Raises:
        ValueError: if there is no such model, or none of the size asked for.
    """
    corpus_settings = {
        "dataset": common.dataset_name(),
        "corpus": corpus.fingerprint,
        "vocabulary_size": len(corpus.vocabulary),
        **common.reading_settings(),
    }
    if model in KNESER_NEY:
        return {
            "preset": model,
            "units": "",
            **corpus_settings,
            "seed": seed,
        }
    preset = get_preset(model)
    learning_rate = preset["optimizer"]["config"]["learning_rate"]
    return {
        "preset": preset["name"],
        "units": preset["units"],
        **corpus_settings,
        "scale": FLAGS.scale,
        "window": FLAGS.window,
        "dropout": common.given("dropout", preset["model"].get("dropout", 0.0)),
        "batch_size": common.given("batch_size", preset["data"]["batch_size"]),
        "length_multiple": FLAGS.length_multiple,
        "learning_rate": common.given("learning_rate", learning_rate),
        "halve_after": common.given(
            "halve_after", preset["schedule"]["halve_after"]
        ),
        "seed": seed,
    }


def run_folder(model, seed):
    parts = [common.dataset_name(), model, *_size_parts(), f"seed{seed}"]
    return pathlib.Path(FLAGS.run_dir, "-".join(parts))


def fill_table():
    """Trains the rows of a table; returns the exit status."""
    table = tables.Table(
        title=f"Tran et al. (2016), {TABLES[FLAGS.table]}",
        folder=tables.folder(_size_parts()),
        rows=table_rows(),
        measures=(
            completion.measures()
            if FLAGS.table == completion.TABLE
            else tables.PERPLEXITIES
        ),
        settings=(
            *("dataset", "vocabulary_size", "scale", "dropout", "batch_size"),
            *("length_multiple", "learning_rate", "halve_after", "patience"),
        ),
        draw=table_files.draw_mean_attention,
    )
    return tables.fill(
        table, describe, run_folder, TABLE_FLAGS, load_corpus=load_corpus
    )


def table_rows():
    """Rows of the table that is asked for, n-gram models first."""
    from memlm_keras.presets import tran2016

    names = {
        "perplexity": [*KNESER_NEY, *tran2016.PERPLEXITY_ROWS],
        completion.TABLE: tran2016.COMPLETION_ROWS,
    }[FLAGS.table]
    rows = []
    for name in tables.selected(names):
        published = KNESER_NEY.get(name)
        details = {"preset": name, "layers": "", "window": ""}
        if published is None:
            preset = get_preset(name)
            published = {
                key.removesuffix("_test_perplexity"): value
                for key, value in preset["published"].items()
            }
            model = preset["model"]
            memory = model["memory"] or {"config": {}}
            details["layers"] = len(model["recurrent"]) + len(
                model["recurrent_above"]
            )
            details["window"] = memory["config"].get("window", "")
        corpus = PUBLISHED.get(FLAGS.dataset, FLAGS.language)
        rows.append(
            tables.Row(
                label=name,
                flags={"model": name},
                details=details,
                published={
                    "test": published.get(corpus),
                    "accuracy": published.get("completion_accuracy"),
                },
            )
        )
    return rows


def _window(model):
    without = FLAGS.window is None or "lstm" in model
    return {} if without else {"window": FLAGS.window}


def _size_parts():
    parts = common.size_parts()
    return parts if FLAGS.window is None else [*parts, f"window{FLAGS.window}"]


if __name__ == "__main__":
    app.run(main)

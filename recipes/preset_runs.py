"""A run of any preset: its data, optimizer, loss and schedule as they stand."""

import pathlib

import common
import run_folders
import table_files
import tables
from absl import app
from absl import flags

FLAGS = flags.FLAGS

PERPLEXITIES = [
    tables.Measure("dev", ("validation", "perplexity"), 2),
    tables.Measure("test", ("test", "perplexity"), 2),
]
# Tables by the corpus that their numbers are of.
TABLES = {"ptb": "Penn Treebank", "wikitext2": "WikiText-2"}
_DATASETS = {"ptb": "ptb", "wikitext2": "wikitext-2"}

# Which of our perplexities a paper's own protocol stands beside.
_ALSO = {"salton2017": ("salton2017",)}


def define_flags():
    """Defines the flags of recipes whose rows are presets of several papers."""
    # The preset says how long.
    FLAGS.set_default("epochs", None)
    FLAGS.set_default("patience", None)
    flags.DEFINE_float("scale", 1.0, "Factor on the paper's units.")
    flags.DEFINE_float(
        "initial_range",
        None,
        "Weights are drawn from U(-r, r) with this r instead of the paper's.",
        lower_bound=0.0,
    )
    flags.DEFINE_float("dropout", None, "Dropout rate instead of the preset's.")
    flags.DEFINE_integer(
        "batch_size", None, "Rows of a batch instead of the preset's."
    )
    flags.DEFINE_integer(
        "segment_length",
        None,
        "Steps of back-propagation, or, where the preset reads sentences, the "
        "length that they are cut at in training.",
    )
    flags.DEFINE_float("learning_rate", None, "Instead of the preset's.")
    flags.DEFINE_integer(
        "halve_after",
        None,
        "Epochs at the initial learning rate, instead of the preset's.",
    )


def get_preset(name):
    """The preset of a row, at the scale that is asked for."""
    import memlm_keras as memlm

    return memlm.presets.get(name, scale=FLAGS.scale, **_initial_range())


def check_table(papers):
    """Refuses a table of another corpus than the one that is to be read.

    Args:
        papers: what is in the table, for the message.

    Raises:
        app.UsageError: for such a table.
    """
    if FLAGS.dataset in _DATASETS.values() and (
        FLAGS.dataset != _DATASETS[FLAGS.table]
    ):
        raise app.UsageError(
            f"--table={FLAGS.table} needs --dataset={_DATASETS[FLAGS.table]}, "
            f"or a corpus of your own, for the rows of {papers}. Received: "
            f"--dataset={FLAGS.dataset}"
        )


def load_corpus(preset):
    """Loads the corpus, in sentences where the preset reads sentences."""
    return common.load_corpus(sentences=_reads_sentences(preset))


def describe(corpus, model, seed):
    """Returns the settings that say what one run is, as plain values.

    Raises:
        ValueError: if there is no such preset, or none of the size asked for.
    """
    preset = get_preset(model)
    data, schedule = preset["data"], preset["schedule"]
    length = "longest" if _reads_sentences(preset) else "segment_length"
    return {
        "preset": preset["name"],
        "units": preset["units"],
        "dataset": common.dataset_name(),
        "corpus": corpus.fingerprint,
        "vocabulary_size": len(corpus.vocabulary),
        **common.reading_settings(),
        "scale": FLAGS.scale,
        **_initial_range(),
        "dropout": common.given("dropout", preset["model"].get("dropout", 0.0)),
        "batch_size": common.given("batch_size", data["batch_size"]),
        length: common.given("segment_length", data[length]),
        "learning_rate": common.given(
            "learning_rate", preset["optimizer"]["config"]["learning_rate"]
        ),
        "halve_after": common.given("halve_after", schedule.get("halve_after")),
        "factor": schedule.get("factor"),
        "seed": seed,
    }


def run_folder(model, seed):
    """Path of the run folder of a preset and a seed."""
    parts = [
        common.dataset_name(),
        model.replace("/", "-"),
        *common.size_parts(),
        f"seed{seed}",
    ]
    return pathlib.Path(FLAGS.run_dir, "-".join(parts))


def fill_table(title, papers, measures, draw=None, left_out=()):
    """Trains the rows of `--table`; returns the exit status.

    Args:
        title: string.
        papers: tuple of strings, the papers whose presets are its rows.
        measures: list of `tables.Measure`s.
        draw: as for `tables.Table`.
        left_out: as for `tables.fill`.
    """
    from memlm_keras import presets

    check_table(", ".join(papers))
    rows = []
    names = [
        name
        for name in presets.names()
        if name.partition("/")[0] in papers
        and presets.get(name)["published"]["corpus"] == TABLES[FLAGS.table]
    ]
    for name in tables.selected(names):
        published = get_preset(name)["published"]
        rows.append(
            tables.Row(
                label=name,
                flags={"model": name},
                details={"preset": name},
                published={
                    "dev": published["validation_perplexity"],
                    "test": published["test_perplexity"],
                },
            )
        )
    table = tables.Table(
        title=title,
        folder=tables.folder(common.size_parts()),
        rows=rows,
        measures=measures,
        settings=(
            *("dataset", "vocabulary_size", "scale", "initial_range"),
            *("dropout", "batch_size", "segment_length", "longest"),
            *("learning_rate", "halve_after", "factor", "patience"),
        ),
        draw=draw
        or (
            lambda table, progress: table_files.draw_mean_attention(
                table, progress, "mean_attention.png"
            )
        ),
    )
    # The rows of a table may differ in what they read.
    return tables.fill(table, describe, run_folder, left_out=left_out)


def use_schedule(preset):
    """Sets the flags of epochs and patience that were not given."""
    schedule = preset["schedule"]
    if FLAGS.epochs is None:
        FLAGS.epochs = schedule["epochs"]
    if FLAGS.patience is None:
        FLAGS.patience = schedule.get("patience", FLAGS.epochs)


def train(model, measure=None):
    """Trains a preset in its run folder, or finds it finished there.

    Args:
        model: string, name of the preset.
        measure: function of the trained model, the corpus and the batches to
            evaluate on by split, that returns plain values for `results.json`;
            or `None`. It is called for a finished run as well, where any of
            them is missing.

    Returns:
        `(model, corpus, run_dir)`.
    """
    import keras

    import memlm_keras as memlm

    # Before the corpus is read: a wrong name shows at once.
    preset = get_preset(model)
    use_schedule(preset)
    run_dir = run_folder(model, FLAGS.seed)
    corpus = load_corpus(preset)
    settings = describe(corpus, model, FLAGS.seed)
    evaluation = evaluation_batches(preset, corpus)
    finished = run_folders.finished_model(run_dir, settings)
    if finished is not None:
        print(f"{run_dir} is finished, and is not trained again.")
        if measure is not None:
            run_folders.add_results(
                run_dir, measure(finished, corpus, evaluation)
            )
        return finished, corpus, run_dir
    run_folders.open_run_dir(run_dir, settings)
    keras.utils.set_random_seed(FLAGS.seed)
    lm = memlm.LanguageModel.from_preset(
        settings["preset"],
        settings["vocabulary_size"],
        scale=FLAGS.scale,
        dropout=settings["dropout"],
        **_initial_range(),
    )
    lm.compile(*_optimizer_and_loss(preset, settings["learning_rate"]))
    batches, validation = _training_batches(preset, corpus, settings)
    run_folders.run(
        lm,
        corpus,
        batches,
        validation,
        evaluation,
        run_dir,
        settings,
        callbacks=_learning_rates(preset, settings),
        measure=measure and (lambda: measure(lm, corpus, evaluation)),
        also=_ALSO.get(preset["name"].partition("/")[0], ()),
    )
    return lm, corpus, run_dir


def evaluation_batches(preset, corpus):
    """Dict by split of the batches that perplexities are reported on."""
    return {
        split: corpus.batches(split, 64, 32, sentences=True)
        if _reads_sentences(preset)
        # One row reads the text as one stream, as published figures do.
        else corpus.batches(split, 1, 100)
        for split in ("validation", "test")
    }


def _training_batches(preset, corpus, settings):
    size = settings["batch_size"]
    if not _reads_sentences(preset):
        return (
            corpus.batches(split, size, settings["segment_length"])
            for split in ("train", "validation")
        )
    batches = corpus.sentence_batches(
        "train",
        size,
        shuffle=True,
        seed=settings["seed"],
        longest=settings["longest"],
        equal_lengths=preset["data"]["equal_lengths"],
    )
    return batches, corpus.batches("validation", 64, 32, sentences=True)


def _optimizer_and_loss(preset, learning_rate):
    import keras

    optimizer = keras.saving.deserialize_keras_object(preset["optimizer"])
    optimizer.learning_rate = learning_rate
    loss = preset.get("loss") or "auto"
    return optimizer, keras.saving.deserialize_keras_object(loss)


def _learning_rates(preset, settings):
    import keras

    from memlm_keras import training

    if settings["halve_after"] is None:
        plateau = preset["schedule"].get("reduce_on_plateau")
        if plateau is None:
            return []
        return [keras.callbacks.ReduceLROnPlateau(**plateau)]
    schedule = training.halve_after(
        settings["halve_after"], settings["factor"] or 0.5
    )
    return [keras.callbacks.LearningRateScheduler(schedule)]


def _reads_sentences(preset):
    return preset["data"].get("sentences", False)


def _initial_range():
    """As a dict, empty where the preset's is kept."""
    if FLAGS.initial_range is None:
        return {}
    return {"initial_range": FLAGS.initial_range}

"""Runs of any preset: its data, optimizer, loss and schedule as they stand."""

import functools
import pathlib

import common
import run_folders
import table_files
import tables
from absl import app
from absl import flags

FLAGS = flags.FLAGS

# Tables by the corpus that their numbers are of.
TABLES = {"ptb": "Penn Treebank", "wikitext2": "WikiText-2"}
_DATASETS = {"ptb": "ptb", "wikitext2": "wikitext-2"}

# Arguments of a model that are rates of dropout.
DROPOUTS = ("dropout", "embedding_dropout", "output_dropout")

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
    flags.DEFINE_float(
        "dropout",
        None,
        "Dropout rate instead of the preset's: of embeddings, layers and "
        "outputs, those of them that it drops; not of recurrent connections.",
    )
    flags.DEFINE_integer(
        "batch_size", None, "Rows of a batch instead of the preset's."
    )
    flags.DEFINE_integer(
        "segment_length",
        None,
        "Steps of back-propagation, or, where the preset reads sentences, the "
        "length that they are cut at in training; by autoencoders, always.",
    )
    flags.DEFINE_float("learning_rate", None, "Instead of the preset's.")
    flags.DEFINE_integer(
        "halve_after",
        None,
        "Epochs at the initial learning rate, instead of the preset's.",
    )


def reads_sentences(preset):
    """Whether a preset reads each sentence from an empty history."""
    return preset["data"].get("sentences", False)


def load_corpus(preset):
    """Loads the corpus, in sentences where the preset reads sentences."""
    return common.load_corpus(sentences=reads_sentences(preset))


class PresetRuns:
    """Runs of presets as they stand; subclasses say what they change.

    Args:
        papers: tuple of strings, the papers whose presets they are.
    """

    # What the presets are of.
    kind = "LanguageModel"
    # Further settings that rows of a table share.
    table_settings = ()

    def __init__(self, papers):
        self.papers = papers

    # === What subclasses change ===

    def change(self, preset):
        """Returns a preset as the flags want it."""
        return preset

    def settings(self, preset):
        """Returns further settings of a run, as plain values."""
        return {}

    def folder_parts(self):
        """Returns further parts of a run folder's name."""
        return []

    def prepare(self, model, corpus, batches, preset):
        """Makes a new model ready; returns the batches to train on."""
        return batches

    # === A run ===

    def preset(self, name):
        """The preset of a row, at the scale that is asked for."""
        from memlm_keras import presets

        if name.partition("/")[0] not in self.papers:
            raise app.UsageError(
                f"--model must be a preset of {', '.join(self.papers)}. "
                f"Received: --model={name}"
            )
        limit = FLAGS.initial_range
        sizes = {} if limit is None else {"initial_range": limit}
        preset = presets.get(name, scale=FLAGS.scale, **sizes)
        if preset["kind"] != self.kind:
            raise app.UsageError(
                f"--model must be a preset of a {self.kind}. Received: "
                f"--model={name}, of a {preset['kind']}"
            )
        preset = self.change(preset)
        if FLAGS.dropout is not None:
            _set_dropout(preset["model"], FLAGS.dropout)
        if preset.get("cache"):
            # It is put on top of the trained model.
            preset["model"].pop("mixture")
        return preset

    def describe(self, corpus, model, seed):
        """Returns the settings that say what one run is, as plain values.

        Raises:
            ValueError: if there is no such preset, or none of the size asked
                for.
        """
        preset = self.preset(model)
        data, schedule = preset["data"], preset["schedule"]
        length = "longest" if reads_sentences(preset) else "segment_length"
        settings = {
            "preset": preset["name"],
            "units": preset["units"],
            "dataset": common.dataset_name(),
            "corpus": corpus.fingerprint,
            "vocabulary_size": len(corpus.vocabulary),
            **common.reading_settings(),
            "scale": FLAGS.scale,
            "initial_range": FLAGS.initial_range,
            "dropout": 0.0,
            **{k: v for k, v in preset["model"].items() if k in DROPOUTS},
            "batch_size": common.given("batch_size", data["batch_size"]),
            length: common.given("segment_length", data[length]),
            "learning_rate": common.given(
                "learning_rate", preset["optimizer"]["config"]["learning_rate"]
            ),
            "halve_after": common.given(
                "halve_after", schedule.get("halve_after")
            ),
            "factor": schedule.get("factor"),
            **self.settings(preset),
            "seed": seed,
        }
        return {k: v for k, v in settings.items() if v is not None}

    def run_folder(self, model, seed):
        """Path of the run folder of a preset and a seed."""
        parts = [
            common.dataset_name(),
            model.replace("/", "-"),
            *common.size_parts(),
            *self.folder_parts(),
            f"seed{seed}",
        ]
        return pathlib.Path(FLAGS.run_dir, "-".join(parts))

    def train(self, model, measure=None, check=None):
        """Trains a preset in its run folder, or finds it finished there.

        Args:
            model: string, name of the preset.
            measure: function of the trained model, the corpus and the batches
                to evaluate on by split, that returns plain values for
                `results.json`; or `None`. It is called for a finished run too.
            check: function of the model before it is trained, that raises
                `app.UsageError` if it will not be able to measure it; or
                `None`.

        Returns:
            `(model, corpus, run_dir)`.
        """
        import keras

        import memlm_keras as memlm

        # Before the corpus is read: a wrong name shows at once.
        preset = self.preset(model)
        use_schedule(preset["schedule"])
        run_dir = self.run_folder(model, FLAGS.seed)
        corpus = load_corpus(preset)
        settings = self.describe(corpus, model, FLAGS.seed)
        evaluation = batches_to_evaluate(corpus, reads_sentences(preset))
        finished = run_folders.finished_model(run_dir, settings)
        if finished is not None:
            print(f"{run_dir} is finished, and is not trained again.")
            if measure is not None:
                run_folders.add_results(
                    run_dir, measure(finished, corpus, evaluation)
                )
            return finished, corpus, run_dir
        keras.utils.set_random_seed(FLAGS.seed)
        lm = memlm.LanguageModel.from_config(
            {"vocabulary_size": len(corpus.vocabulary), **preset["model"]}
        )
        if check is not None:
            check(lm)
        run_folders.open_run_dir(run_dir, settings)
        batches, validation = _training_batches(preset, corpus, settings)
        batches = self.prepare(lm, corpus, batches, preset)
        lm.compile(*optimizer_and_loss(preset, settings["learning_rate"]))
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

    # === A table ===

    def rows(self):
        """Rows of `--table`: the presets whose numbers are of its corpus."""
        from memlm_keras import presets

        corpus = TABLES[FLAGS.table]
        published = {}
        for name in presets.names("LanguageModel"):
            if name.partition("/")[0] in self.papers:
                numbers = _published(presets.get(name), corpus)
                if numbers is not None:
                    published[name] = numbers
        return [
            tables.Row(
                label=name,
                flags={"model": name},
                details={"preset": name},
                published=published[name],
            )
            for name in tables.selected(list(published))
        ]

    def fill_table(self, title, measures, draw=None, left_out=()):
        """Trains the rows of `--table`; returns the exit status.

        Args:
            title: string.
            measures: list of `tables.Measure`s.
            draw: as for `tables.Table`.
            left_out: as for `tables.fill`.
        """
        _check_corpus()
        rows = self.rows()
        # They all read sentences, or none does.
        preset = self.preset(rows[0].details["preset"])
        table = tables.Table(
            title=title,
            folder=tables.folder(common.size_parts()),
            rows=rows,
            measures=measures,
            settings=(
                *("dataset", "vocabulary_size", "scale", "initial_range"),
                *(*DROPOUTS, "batch_size", "segment_length", "longest"),
                *("learning_rate", "halve_after", "factor", "patience"),
                *self.table_settings,
            ),
            draw=draw or table_files.draw_mean_attention,
        )
        return tables.fill(
            *(table, self.describe, self.run_folder, left_out),
            load_corpus=functools.partial(load_corpus, preset),
        )


def batches_to_evaluate(corpus, sentences):
    """Dict by split of the batches that perplexities are reported on.

    Args:
        corpus: `Corpus`.
        sentences: whether each is read from an empty history.
    """
    return {
        split: corpus.batches(split, 64, 32, sentences=True)
        if sentences
        # One row reads the text as one stream, as published figures do.
        else corpus.batches(split, 1, 100)
        for split in ("validation", "test")
    }


def _published(preset, corpus):
    """Published perplexities on a corpus, by the names of their measures.

    `None` where there are none.
    """
    # With a cache, the numbers are those with it.
    suffix = ", cache" if preset.get("cache") else ""
    for numbers in (preset["published"], preset.get("also_published", {})):
        if numbers.get("corpus") == corpus:
            return {
                f"dev{suffix}": numbers["validation_perplexity"],
                f"test{suffix}": numbers["test_perplexity"],
                "test, Monte Carlo": numbers.get("monte_carlo_test_perplexity"),
            }
    return None


def _check_corpus():
    needed = _DATASETS.get(FLAGS.table)
    public = needed is not None and FLAGS.dataset in _DATASETS.values()
    if public and FLAGS.dataset != needed:
        raise app.UsageError(
            f"--table={FLAGS.table} needs --dataset={needed}, or a corpus of "
            f"your own. Received: --dataset={FLAGS.dataset}"
        )


def use_schedule(schedule):
    """Sets the flags of epochs and patience that were not given."""
    if FLAGS.epochs is None:
        FLAGS.epochs = schedule["epochs"]
    if FLAGS.patience is None:
        FLAGS.patience = schedule.get("patience", FLAGS.epochs)


def _set_dropout(model, rate):
    """Sets the rates of dropout that a model has, or that of all layers."""
    layers = [layer["config"] for layer in model.get("recurrent", ())]
    stated = [(model, name) for name in DROPOUTS if model.get(name)]
    stated += [(layer, "dropout") for layer in layers if layer.get("dropout")]
    for config, name in stated or [(model, "dropout")]:
        config[name] = rate


def _training_batches(preset, corpus, settings):
    size = settings["batch_size"]
    if not reads_sentences(preset):
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


def optimizer_and_loss(preset, learning_rate):
    """The optimizer of a preset, at another rate, and its loss."""
    import keras

    optimizer = keras.saving.deserialize_keras_object(preset["optimizer"])
    optimizer.learning_rate = learning_rate
    loss = preset.get("loss") or "auto"
    return optimizer, keras.saving.deserialize_keras_object(loss)


def _learning_rates(preset, settings):
    import keras

    from memlm_keras import training

    if "halve_after" not in settings:
        plateau = preset["schedule"].get("reduce_on_plateau")
        if plateau is None:
            return []
        return [keras.callbacks.ReduceLROnPlateau(**plateau)]
    schedule = training.halve_after(
        settings["halve_after"], settings.get("factor", 0.5)
    )
    return [keras.callbacks.LearningRateScheduler(schedule)]

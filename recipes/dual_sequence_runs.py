"""Runs of presets that read two sequences: classifiers and autoencoders."""

import abc
import math

import common
import preset_runs
import run_folders
import tables
from absl import app
from absl import flags

FLAGS = flags.FLAGS

_PAIRS = ("embedded", "sick", "snli")


def define_flags():
    """Defines the flags of recipes whose models read two sequences."""
    flags.DEFINE_integer(
        "embedding_dim",
        None,
        "Size of the embeddings, instead of the preset's.",
    )
    flags.DEFINE_string(
        "vectors",
        None,
        "Of classifiers: file of word vectors, such as glove.840B.300d.txt or "
        "its .zip. They are kept as they are for one pass over the pairs, and "
        "then trained.",
    )
    flags.DEFINE_float(
        "embedding_range",
        None,
        "Of classifiers: embeddings begin as U(-r, r) instead of r = 0.05; "
        "those of GloVe are about as large as with r = 0.5.",
        lower_bound=0.0,
    )
    flags.DEFINE_bool(
        "halve",
        True,
        "Of classifiers: halve the learning rate when accuracy falls over a "
        "pass.",
    )
    flags.DEFINE_bool(
        "lowercase", False, "Of classifiers: lower-case all tokens."
    )
    flags.DEFINE_integer(
        "beams",
        None,
        "Of autoencoders: write by beam search of so many beams as well.",
        lower_bound=2,
    )


class DualSequenceRuns(preset_runs.PresetRuns, abc.ABC):
    """What runs of both kinds have in common; subclasses train and measure."""

    monitor = "val_accuracy"
    # Key of `results.json` that says how fast they train.
    speed = "tokens_per_second"

    def preset(self, name):
        """As of `PresetRuns`, with the embeddings that are asked for."""
        preset = super().preset(name)
        if FLAGS.embedding_dim is not None:
            preset["model"]["embedding_dim"] = FLAGS.embedding_dim
        return preset

    @abc.abstractmethod
    def load_corpus(self):
        """Loads what is trained on."""

    def measure_more(self, model, corpus, settings):
        """What flags ask for besides, of finished runs too, as plain values."""
        return {}

    @abc.abstractmethod
    def batches(self, corpus, settings):
        """Returns the batches to train on, and those to validate on."""

    @abc.abstractmethod
    def more_settings(self, preset, corpus, batch_size):
        """Returns the settings that only runs of this kind have."""

    def begin(self, model, corpus, settings):
        """Makes a new model ready; returns callbacks of its own."""
        return []

    @abc.abstractmethod
    def measure(self, model, corpus, settings):
        """Measures a trained model; returns plain values by split."""

    def describe(self, corpus, model, seed):
        """As of `PresetRuns`."""
        preset = self.preset(model)
        config = preset["optimizer"]["config"]
        size = common.given("batch_size", preset["data"]["batch_size"])
        settings = {
            "preset": preset["name"],
            "units": preset["units"],
            "embedding_dim": preset["model"]["embedding_dim"],
            "dataset": common.dataset_name(),
            "corpus": corpus.fingerprint,
            "vocabulary_size": len(corpus.vocabulary),
            "scale": FLAGS.scale,
            "dropout": preset["model"].get("dropout", 0.0),
            "batch_size": size,
            "learning_rate": common.given(
                "learning_rate", config["learning_rate"]
            ),
            **self.more_settings(preset, corpus, size),
            "seed": seed,
        }
        return {k: v for k, v in settings.items() if v is not None}

    def train(self, model):
        """Trains a preset in its run folder, or finds it finished there.

        Args:
            model: string, name of the preset.

        Returns:
            `(model, corpus, run_dir)`.
        """
        import keras

        # Before the corpus is read: a wrong name shows at once.
        preset = self.preset(model)
        run_dir = self.run_folder(model, FLAGS.seed)
        corpus = self.load_corpus()
        settings = self.describe(corpus, model, FLAGS.seed)
        self.use_schedule(preset, settings)
        finished = run_folders.finished_model(run_dir, settings)
        if finished is not None:
            print(f"{run_dir} is finished, and is not trained again.")
            more = self.measure_more(finished, corpus, settings)
            run_folders.add_results(run_dir, more)
            return finished, corpus, run_dir
        keras.utils.set_random_seed(FLAGS.seed)
        made = _made(preset, len(corpus.vocabulary))
        parameters = made.count_params()
        print(f"{model}: {parameters:,} parameters, run folder {run_dir}")
        batches, validation = self.batches(corpus, settings)
        # What can be wrong with the flags shows before a run is cleared away.
        callbacks = self.begin(made, corpus, settings)
        run_folders.open_run_dir(run_dir, settings)
        made.compile(
            *preset_runs.optimizer_and_loss(preset, settings["learning_rate"])
        )
        finite = run_folders.train(
            *(made, corpus, batches, validation, run_dir, settings, callbacks),
            monitor=self.monitor,
        )
        results = run_folders.write_results(
            run_dir,
            settings,
            parameters,
            monitor=self.monitor,
            finite=finite,
            **self.measure(made, corpus, settings),
            **self.measure_more(made, corpus, settings),
        )
        print(
            f"Best of {results['epochs']} epochs: "
            + ", ".join(self.told(results))
            + f". See {run_dir}"
        )
        return made, corpus, run_dir

    def use_schedule(self, preset, settings):
        """Sets the flags of epochs and patience that were not given."""
        preset_runs.use_schedule(preset["schedule"])

    def published(self, preset):
        """Published values on the dataset, by the names of their measures."""
        return {}

    def told(self, results):
        """What `measure` measured, as strings."""
        return [
            f"{measure.name} {measure.of(results):.{measure.digits}f}"
            for measure in self.measures
            if measure.of(results) is not None
        ]

    def fill_table(self, title):
        """Trains the rows of a table; returns the exit status."""
        from memlm_keras import presets

        rows = [
            tables.Row(
                label=name,
                flags={"model": name},
                details={"preset": name},
                published=self.published(presets.get(name)),
            )
            for name in tables.selected(presets.names(self.kind))
        ]
        table = tables.Table(
            title=title,
            folder=tables.folder(common.size_parts()),
            rows=rows,
            measures=self.measures,
            settings=(
                *("dataset", "vocabulary_size", "scale", "embedding_dim"),
                *("dropout", "batch_size", "learning_rate", "patience"),
                *self.table_settings,
            ),
            speed=self.speed,
        )
        return tables.fill(
            *(table, self.describe, self.run_folder),
            load_corpus=self.load_corpus,
        )


class EntailmentRuns(DualSequenceRuns):
    """Runs of classifiers of sentence pairs."""

    kind = "EntailmentClassifier"
    table_settings = (
        *("batches_per_epoch", "embedding_range", "halve"),
        *("lowercase", "vectors"),
    )
    speed = "pairs_per_second"
    # In percent, as the paper has them.
    measures = [
        tables.Measure("dev", ("validation", "accuracy"), 2),
        tables.Measure("test", ("test", "accuracy"), 2),
    ]

    def folder_parts(self):
        """As of `PresetRuns`."""
        parts = [] if FLAGS.halve else ["nohalve"]
        if FLAGS.embedding_range is not None:
            parts.append(f"embeddings{FLAGS.embedding_range:g}")
        return parts

    def load_corpus(self):
        """Loads pairs of sentences."""
        from memlm_keras import data

        if FLAGS.dataset not in _PAIRS:
            raise app.UsageError(
                f"Classifiers are trained on --dataset={', '.join(_PAIRS)}. "
                f"Received: --dataset={FLAGS.dataset}"
            )
        return data.load_pairs(
            FLAGS.dataset,
            FLAGS.data_dir,
            vocabulary_size=FLAGS.vocabulary_size,
            minimum_count=common.given("minimum_count", 1),
            lowercase=FLAGS.lowercase,
        )

    def more_settings(self, preset, corpus, batch_size):
        """Batches between two looks at the validation pairs, and vectors."""
        a_pass = math.ceil(len(corpus.train) / batch_size)
        between = preset["schedule"]["batches_between_checks"]
        return {
            "batches_per_epoch": min(a_pass, between),
            "epochs_of_a_pass": math.ceil(a_pass / min(a_pass, between)),
            "embedding_range": FLAGS.embedding_range,
            "halve": None if FLAGS.halve else False,
            "lowercase": FLAGS.lowercase,
            "vectors": FLAGS.vectors,
        }

    def use_schedule(self, preset, settings):
        """The paper's epochs are passes; ours may be parts of them."""
        if FLAGS.epochs is None:
            passes = preset["schedule"]["epochs"]
            FLAGS.epochs = passes * settings["epochs_of_a_pass"]
        if FLAGS.patience is None:
            FLAGS.patience = FLAGS.epochs

    def batches(self, corpus, settings):
        """Shuffled pairs to train on, and all pairs to validate on."""
        size = settings["batch_size"]
        train = corpus.batches(
            "train",
            size,
            shuffle=True,
            seed=settings["seed"],
            batches_per_epoch=settings["batches_per_epoch"],
        )
        return train, corpus.batches("validation", size)

    def begin(self, model, corpus, settings):
        """Reads vectors; the rate is halved when accuracy falls in a pass."""
        import keras

        from memlm_keras import embeddings
        from memlm_keras import training

        a_pass = settings["epochs_of_a_pass"]
        callbacks = []
        if FLAGS.halve:
            callbacks.append(training.HalveOnDrop(self.monitor, a_pass))
        if FLAGS.embedding_range is not None:
            limit = FLAGS.embedding_range
            draw = keras.initializers.RandomUniform(-limit, limit, FLAGS.seed)
            table = model.embedding.embeddings
            table.assign(draw(table.shape))
        if FLAGS.vectors is not None:
            vectors = embeddings.read_vectors(
                FLAGS.vectors, corpus.vocabulary.tokens, FLAGS.verbose
            )
            vectors.assign_to(model.embedding)
            found = int(vectors.found.sum())
            print(f"Vectors of {found:,} of {len(vectors.found):,} words.")
            callbacks.append(training.FreezeEmbeddings(a_pass, vectors.found))
        return callbacks

    def measure(self, model, corpus, settings):
        """Accuracies in percent."""
        return {
            split: _accuracy(model, corpus.batches(split, 64))
            for split in ("validation", "test")
        }

    def published(self, preset):
        """As of `DualSequenceRuns`; all are of SNLI."""
        if FLAGS.dataset != "snli":
            return {}
        return {"test": preset["published"]["test_accuracy"]}


class AutoencoderRuns(DualSequenceRuns):
    """Runs of autoencoders."""

    kind = "SequenceAutoencoder"
    table_settings = ("longest",)

    @property
    def measures(self):
        """As of `DualSequenceRuns`; those by the beams that are asked for."""
        beams = FLAGS.beams
        return [
            tables.Measure("dev tokens", ("validation", "token_accuracy"), 2),
            tables.Measure("test tokens", ("test", "token_accuracy"), 2),
            tables.Measure("test sequences", ("test", "sequence_accuracy"), 2),
            tables.Measure(
                "test sequences, beams",
                ("test_by_beams", "sequence_accuracy"),
                2,
                optional=beams is None,
                made_with=beams and (("test_by_beams", "beams"), beams),
            ),
        ]

    def load_corpus(self):
        """Loads a text in sentences."""
        return common.load_corpus(sentences=True)

    def more_settings(self, preset, corpus, batch_size):
        """The length that sentences are cut at."""
        longest = preset["data"]["longest"]
        return {"longest": common.given("segment_length", longest)}

    def batches(self, corpus, settings):
        """Shuffled sentences to train on, and all to validate on."""
        size, longest = settings["batch_size"], settings["longest"]
        train = _sentences(corpus.train, size, longest, True, settings["seed"])
        return train, _sentences(corpus.validation, size, longest)

    def measure(self, model, corpus, settings):
        """Accuracies of what is written again, in percent."""
        return {
            split: _rewritten(model, getattr(corpus, split), settings, "greedy")
            for split in ("validation", "test")
        }

    def measure_more(self, model, corpus, settings):
        """Those of beam search, if that is asked for."""
        import keras_nlp

        if FLAGS.beams is None:
            return {}
        beams = keras_nlp.samplers.BeamSampler(num_beams=FLAGS.beams)
        found = _rewritten(model, corpus.test, settings, beams)
        return {"test_by_beams": {"beams": FLAGS.beams, **found}}


def _made(preset, vocabulary_size):
    import memlm_keras

    return getattr(memlm_keras, preset["kind"]).from_config(
        {"vocabulary_size": vocabulary_size, **preset["model"]}
    )


def _accuracy(model, batches):
    found = model.evaluate(batches, verbose=FLAGS.verbose, return_dict=True)
    return {
        "accuracy": 100 * float(found["accuracy"]),
        "pairs": batches.num_pairs,
        "protocol": "accuracy in percent, over all pairs that have a label",
    }


def _rewritten(model, text, settings, sampler):
    from memlm_keras.evaluation import reconstruction

    batches = _sentences(text, 50, settings["longest"])
    found = reconstruction(model, batches, sampler, FLAGS.verbose)
    return {
        **found._asdict(),
        "token_accuracy": 100 * found.token_accuracy,
        "sequence_accuracy": 100 * found.sequence_accuracy,
    }


def _sentences(split, batch_size, longest, shuffle=False, seed=0):
    from memlm_keras.data import AutoencodingBatches

    return AutoencodingBatches(
        split.tokens,
        batch_size,
        shuffle=shuffle,
        seed=seed,
        longest=longest,
    )

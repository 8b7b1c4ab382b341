"""Experiments with models of two sequences: classifiers and autoencoders."""

import math

from memlm_keras import analysis
from memlm_keras import embeddings
from memlm_keras import presets
from memlm_keras import training
from memlm_keras.data import AutoencodingBatches
from memlm_keras.evaluation import reconstruction
from memlm_keras.experiments import figures
from memlm_keras.experiments.options import AUTOENCODER
from memlm_keras.experiments.options import CLASSIFIER
from memlm_keras.experiments.tasks import Task

# Rows of batches that are only measured.
_ROWS = {CLASSIFIER: 64, AUTOENCODER: 50}


class DualSequenceTask(Task):
    """Common parts of experiments of both kinds."""

    monitor = "val_accuracy"

    def preset(self, name, overrides):
        """Extends `Task`: the size of embeddings is free of all others."""
        sizes = dict(overrides)
        embedding_dim = sizes.pop("embedding_dim", None)
        preset = super().preset(name, sizes)
        if embedding_dim is not None:
            preset["model"]["embedding_dim"] = embedding_dim
        return preset

    def draw(self, experiment, model, folder, pictures, verbose):
        """See `Task`."""
        return draw_associations(experiment, model, folder, pictures)


class ClassifierTask(DualSequenceTask):
    """A classifier of sentence pairs."""

    kind = CLASSIFIER
    # In percent, as the paper has them.
    measures = [
        presets.Measure("validation accuracy", ("validation", "accuracy")),
        presets.Measure("test accuracy", ("test", "accuracy")),
    ]

    def settings(self, experiment):
        """Extends `Task`: with batches between two looks at the validation
        pairs, and vectors."""
        overrides, model = experiment.overrides, experiment.preset["model"]
        settings = super().settings(experiment)
        batches = math.ceil(
            len(experiment.corpus.train) / settings["batch_size"]
        )
        between = experiment.preset["schedule"]["batches_between_checks"]
        between = min(batches, between)
        return {
            **settings,
            "batches_per_epoch": between,
            "epochs_of_a_pass": math.ceil(batches / between),
            "embedding_range": model["embeddings_initializer"]["config"][
                "maxval"
            ],
            "halve": None if overrides.get("halve", True) else False,
            "lowercase": overrides.get("lowercase", False),
            "vectors": overrides.get("vectors"),
        }

    def epochs(self, experiment, epochs, patience):
        """The paper's epochs are passes; ours may be parts of them."""
        if epochs is None:
            passes = experiment.preset["schedule"]["epochs"]
            epochs = passes * experiment.settings["epochs_of_a_pass"]
        return epochs, epochs if patience is None else patience

    def training_batches(self, experiment, model):
        """Shuffled pairs to train on, and all pairs to validate on."""
        settings, corpus = experiment.settings, experiment.corpus
        size = settings["batch_size"]
        batches = corpus.batches(
            "train",
            size,
            shuffle=True,
            seed=experiment.seed,
            batches_per_epoch=settings["batches_per_epoch"],
        )
        return batches, corpus.batches("validation", size)

    def make(self, experiment):
        """Extends `Task`: with labels."""
        return super().make(experiment, labels=experiment.corpus.labels)

    def callbacks(self, experiment, model):
        """The rate is halved when accuracy falls; vectors are kept a pass."""
        overrides = experiment.overrides
        a_pass = experiment.settings["epochs_of_a_pass"]
        callbacks = []
        if overrides.get("halve", True):
            callbacks.append(training.HalveOnDrop(self.monitor, a_pass))
        if "vectors" in overrides:
            vectors = embeddings.read_vectors(
                overrides["vectors"], experiment.corpus.vocabulary.tokens
            )
            vectors.assign_to(model.embedding)
            found = int(vectors.found.sum())
            print(f"Vectors of {found:,} of {len(vectors.found):,} words.")
            callbacks.append(training.FreezeEmbeddings(a_pass, vectors.found))
        return callbacks

    def measure(self, experiment, model, verbose):
        """Accuracies in percent."""
        found = {}
        for split in ("validation", "test"):
            batches = experiment.corpus.batches(split, _ROWS[CLASSIFIER])
            logs = model.evaluate(batches, verbose=verbose, return_dict=True)
            found[split] = {
                "accuracy": 100 * float(logs["accuracy"]),
                "pairs": batches.num_pairs,
                "protocol": "accuracy in percent, over all pairs that have a "
                "label",
            }
        return found


class AutoencoderTask(DualSequenceTask):
    """An autoencoder, which writes again what it has read."""

    kind = AUTOENCODER
    measures = [
        presets.Measure("test tokens", ("test", "token_accuracy")),
        presets.Measure("test sequences", ("test", "sequence_accuracy")),
    ]

    def settings(self, experiment):
        """Extends `Task`: with the length that sentences are cut at."""
        longest = experiment.overrides.get(
            "segment_length", experiment.preset["data"]["longest"]
        )
        return {**super().settings(experiment), "longest": longest}

    def training_batches(self, experiment, model):
        """Shuffled sentences to train on, and all to validate on."""
        corpus, settings = experiment.corpus, experiment.settings
        size, longest = settings["batch_size"], settings["longest"]
        train = AutoencodingBatches(
            corpus.train.tokens,
            size,
            shuffle=True,
            seed=experiment.seed,
            longest=longest,
        )
        validation = AutoencodingBatches(
            corpus.validation.tokens, size, longest=longest
        )
        return train, validation

    def measure(self, experiment, model, verbose):
        """Accuracies of what is written again, in percent."""
        return {
            split: _rewritten(experiment, model, split, "greedy", verbose)
            for split in ("validation", "test")
        }

    def wanted(self, experiment, measures):
        """Accuracies of beam search, if that is asked for."""
        if "beams" not in measures:
            return {}
        beams = measures["beams"]

        def make(model, verbose):
            # Loaded where it is needed, as it takes seconds.
            import keras_nlp

            sampler = keras_nlp.samplers.BeamSampler(num_beams=beams)
            found = _rewritten(experiment, model, "test", sampler, verbose)
            return {"beams": beams, **found}

        return {"test_by_beams": ({"beams": beams}, make)}


def _rewritten(experiment, model, split, sampler, verbose):
    batches = AutoencodingBatches(
        getattr(experiment.corpus, split).tokens,
        _ROWS[AUTOENCODER],
        longest=experiment.settings["longest"],
    )
    found = reconstruction(model, batches, sampler, verbose)
    return {
        **found._asdict(),
        "token_accuracy": 100 * found.token_accuracy,
        "sequence_accuracy": 100 * found.sequence_accuracy,
    }


def draw_associations(experiment, model, folder, pictures):
    """Draws what an associative memory read of what was written.

    Args:
        experiment: `Experiment` of a classifier or an autoencoder.
        model: trained model.
        folder: `pathlib.Path` of the run folder.
        pictures: dict, by the names of `settings.PICTURES`.

    Returns:
        List of the paths of the pictures; empty for models without an
        associative memory.
    """
    cells = [getattr(reader, "cell", None) for reader in model.readers]
    if not all(hasattr(cell, "trace") for cell in cells):
        return []
    source, target = _pair(experiment, pictures)
    encode = experiment.corpus.vocabulary.encode
    written = pictures.get("written", "written")
    found = analysis.associations(
        model, encode(source), encode(target), written
    )
    path = folder / "associations.png"
    name = experiment.preset_name.partition("/")[2]
    analysis.plot_associations(found.similarity, source, target, path, name)
    analysis.write_associations(
        found.similarity, source, target, path.with_suffix(".csv")
    )
    return [path]


def _pair(experiment, pictures):
    """The two sequences to draw: given, or of the test."""
    corpus = experiment.corpus
    if experiment.kind == CLASSIFIER:
        if "premise" in pictures:
            return pictures["premise"].split(), pictures["hypothesis"].split()
        decode = corpus.vocabulary.decode
        test = corpus.test
        return decode(test.premises[0]), decode(test.hypotheses[0])
    words = figures.drawn_words(corpus, pictures.get("sentence"))
    end = corpus.vocabulary.tokens[corpus.vocabulary.end_of_sentence_id]
    # As it is read, and as the decoder reads it.
    return [*words, end], [end, *words]

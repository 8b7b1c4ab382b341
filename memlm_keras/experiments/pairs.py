"""Trains classifiers and autoencoders, and predicts labels for a file."""

import math
import shlex

import numpy as np

import memlm_keras as memlm
from memlm_keras.data import pair_corpora
from memlm_keras.data.tables import naming
from memlm_keras.experiments import figures
from memlm_keras.experiments import measurements
from memlm_keras.experiments import options
from memlm_keras.experiments.experiment import Experiment
from memlm_keras.experiments.experiment import read_preset
from memlm_keras.presets import Measure

_ROWS = 64  # Batch size of evaluation.


class PairExperiment(Experiment):
    """Base class for models of two sequences. Subclasses define `sequences`,
    which returns the sequences to draw, as lists of tokens."""

    monitor = "val_accuracy"
    mode = "max"

    def _make_preset(self):
        # Classifiers and autoencoders compute no other size from
        # `embedding_dim`, so it is set after `read_preset`.
        sizes = dict(self.overrides)
        embedding_dim = sizes.pop("embedding_dim", None)
        preset = read_preset(self.preset_name, sizes)
        if embedding_dim is not None:
            preset["model"]["embedding_dim"] = embedding_dim
        return preset

    def draw(self, model, folder, pictures=None, verbose=0):
        """Draws what the associative memory reads, if the model has one."""
        cells = [getattr(reader, "cell", None) for reader in model.readers]
        if not all(hasattr(cell, "trace") for cell in cells):
            return []
        analysis, pictures = memlm.analysis, pictures or {}
        source, target = self.sequences(pictures)
        encode = self.corpus.vocabulary.encode
        written = pictures.get("written", "written")
        similarity = analysis.associations(
            model, encode(source), encode(target), written
        ).similarity
        path = folder / "associations.png"
        name = self.preset_name.partition("/")[2]
        analysis.plot_associations(similarity, source, target, path, name)
        analysis.write_associations(
            similarity, source, target, path.with_suffix(".csv")
        )
        return [path]


class ClassifierExperiment(PairExperiment):
    """Experiment with a classifier of sentence pairs."""

    kind = options.CLASSIFIER
    # Accuracies are percentages, as in the papers.
    columns = [
        Measure("validation accuracy", ("validation", "accuracy")),
        Measure("test accuracy", ("test", "accuracy")),
    ]

    def _settings(self):
        overrides = self.overrides
        initializer = self.preset["model"]["embeddings_initializer"]
        settings = super()._settings()
        pairs = len(self.corpus.train)
        batches = math.ceil(pairs / settings["batch_size"])
        between = self.preset["schedule"]["batches_between_checks"]
        between = min(batches, between)
        return {
            **settings,
            "batches_per_epoch": between,
            "epochs_of_a_pass": math.ceil(batches / between),
            "embedding_range": initializer["config"]["maxval"],
            "halve": None if overrides.get("halve", True) else False,
            "lowercase": overrides.get("lowercase", False),
            "vectors": overrides.get("vectors"),
        }

    def epochs(self, epochs=None, patience=None):
        # The paper's epoch, a pass over the pairs, can be several epochs here.
        if epochs is None:
            passes = self.preset["schedule"]["epochs"]
            epochs = passes * self.settings["epochs_of_a_pass"]
        return epochs, epochs if patience is None else patience

    def training_batches(self, model):
        settings, corpus = self.settings, self.corpus
        size = settings["batch_size"]
        batches = corpus.batches(
            "train",
            size,
            shuffle=True,
            seed=self.seed,
            batches_per_epoch=settings["batches_per_epoch"],
        )
        return batches, corpus.batches("validation", size)

    def _model_config(self):
        return {**super()._model_config(), "labels": self.corpus.labels}

    def _callbacks(self, model):
        """Returns the callbacks that halve the learning rate and freeze word
        vectors."""
        overrides, training = self.overrides, memlm.training
        epochs_of_a_pass = self.settings["epochs_of_a_pass"]
        callbacks = []
        if overrides.get("halve", True):
            halve = training.HalveOnDrop(self.monitor, epochs_of_a_pass)
            callbacks.append(halve)
        if "vectors" in overrides:
            with options.wrong_use():
                vectors = memlm.embeddings.read_vectors(
                    overrides["vectors"], self.corpus.vocabulary.tokens
                )
            vectors.assign_to(model.embedding)
            number = int(vectors.found.sum())
            print(f"{number:,} of {len(vectors.found):,} words have vectors.")
            callbacks.append(
                training.FreezeEmbeddings(epochs_of_a_pass, vectors.found)
            )
        return callbacks

    def measure(self, model, verbose=0):
        results, corpus = {}, self.corpus
        if not model.compiled:
            model.compile()
        has_parts = corpus.validation is not corpus.test
        rows = memlm.training.distribution.divisible(_ROWS, model)
        for split in ("validation", "test") if has_parts else ("test",):
            batches = corpus.batches(split, rows)
            logs = model.evaluate(batches, verbose=verbose, return_dict=True)
            results[split] = {
                "accuracy": 100 * float(logs["accuracy"]),
                "pairs": batches.num_pairs,
                "protocol": "accuracy in percent, over all pairs that have a "
                "label",
            }
        label = np.bincount(corpus.train.labels).argmax()
        print(
            f"The most frequent label, {corpus.labels[label]}, is right for "
            f"{100 * np.mean(corpus.test.labels == label):.2f} percent of the "
            "test pairs."
        )
        return results

    def sequences(self, pictures):
        vocabulary = self.corpus.vocabulary
        if "premise" in pictures:
            typed = (pictures[name] for name in ("premise", "hypothesis"))
            return tuple(map(vocabulary.tokenizer.tokenize, typed))
        decode = vocabulary.decode
        test = self.corpus.test
        return decode(test.premises[0]), decode(test.hypotheses[0])

    def examples(self, path):
        pair = shlex.join(map(" ".join, self.sequences({})))
        return [f"memlm predict {path} {pair}", f"memlm export {path}"]


class AutoencoderExperiment(PairExperiment):
    """Experiment with an autoencoder, which reproduces the sentence it read."""

    kind = options.AUTOENCODER
    columns = [
        Measure("test tokens", ("test", "token_accuracy")),
        Measure("test sequences", ("test", "sequence_accuracy")),
    ]

    def _settings(self):
        longest = self.overrides.get(
            "segment_length", self.preset["data"]["longest"]
        )
        return {**super()._settings(), "longest": longest}

    def training_batches(self, model):
        corpus, settings = self.corpus, self.settings

        def batches(split, **arguments):
            return memlm.data.AutoencodingBatches(
                split.tokens,
                settings["batch_size"],
                longest=settings["longest"],
                **arguments,
            )

        train = batches(corpus.train, shuffle=True, seed=self.seed)
        return train, batches(corpus.validation)

    def measure(self, model, verbose=0):
        return {
            split: measurements.reconstruction(
                self, model, split, "greedy", verbose
            )
            for split in ("validation", "test")
        }

    def sequences(self, pictures):
        vocabulary = self.corpus.vocabulary
        words = figures.drawn_words(self.corpus, pictures.get("sentence"))
        end = vocabulary.tokens[vocabulary.end_of_sentence_id]
        # Inputs of the encoder and of the decoder.
        return [*words, end], [end, *words]


def predict_pairs(model, path):
    """Predicts the labels of the pairs in a file. Returns a table as text, and
    notes, which give the accuracy if the file has labels."""
    from memlm_keras.data.tables import table_text

    rows = [row for _, row in pair_corpora.read_pairs(path, ("label",))]
    sentences = [[r[name] for r in rows] for name in ("premise", "hypothesis")]
    with naming(path):
        found = model.classify(*sentences)
    names = dict.fromkeys(name for row in rows for name in row)
    columns = {name: [row.get(name, "") for row in rows] for name in names}
    predicted = [max(each, key=each.get) for each in found]
    own = {"predicted": predicted}
    for label in found[0]:
        probabilities = [each[label] for each in found]
        own[f"probability_{label}"] = np.array(probabilities)
    for name, values in own.items():
        columns[f"memlm_{name}" if name in columns else name] = values
    labels, notes = [*map(str, found[0])], []
    given = [
        (row["label"], str(label))
        for label, row in zip(predicted, rows)
        if row.get("label")
    ]
    right = [a == b for a, b in given if a in labels]
    if unknown := len(given) - len(right):
        notes.append(
            f"{unknown:,} of {len(given):,} labels are unknown; the model's: "
            f"{', '.join(labels)}"
        )
    if right:
        notes.append(
            f"accuracy {100 * np.mean(right):.2f} percent, on the "
            f"{len(right):,} of {len(rows):,} pairs with a label of the model"
        )
    return table_text(columns), notes

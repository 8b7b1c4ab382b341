"""The texts and pairs that experiments are of, and how they are read."""

import functools
import pathlib
import re

import numpy as np

from memlm_keras import data
from memlm_keras.experiments.options import AUTOENCODER
from memlm_keras.experiments.options import CLASSIFIER
from memlm_keras.experiments.options import MissingTextError
from memlm_keras.experiments.options import UsageError
from memlm_keras.experiments.options import nearest
from memlm_keras.training.distribution import num_devices

PUBLIC = ("embedded", "ptb", "wikitext-2", "cbt")
PAIRS = ("embedded", "snli", "sick")

_SPLITS = (("train",), ("valid", "validation", "dev"), ("test",))
_TREEBANK = ("train", "dev", "test")
_TREEBANK_FILE = re.compile(rf"(?:(.+)-ud-)?({'|'.join(_TREEBANK)})\b.*")


class Dataset:
    """A corpus that is described, and loaded where it is first needed.

    Args:
        name: `"embedded"`, `"ptb"`, `"wikitext-2"` or `"cbt"`; of classifiers
            `"embedded"`, `"snli"` or `"sick"`; or text of one's own: a file,
            which is split as `memlm_keras.data.load_text` does; three files
            with commas between; a folder that holds train, valid and test
            (`.txt` files, or folders of documents); a folder that holds a
            treebank in CoNLL-U; or documents to be dealt to the three, as a
            folder of one `.txt` file each, or as one file with
            `document_start`.
        kind: string, the kind of model that reads it.
        sentences: whether lines that hold several sentences are split at them.
        reading: dict of the options of `settings.READING` that are given.

    Raises:
        UsageError: if there is no such corpus, or options contradict it.
    """

    def __init__(self, name, kind, sentences=False, reading=None):
        self.name = str(name)
        self.kind = kind
        self.sentences = sentences
        self.reading = dict(reading or {})
        self.paths = [pathlib.Path(part) for part in self.name.split(",")]
        self._check()

    @property
    def label(self):
        """Name in run folders and tables."""
        train_on = self.reading.get("cbt_train_on", "books")
        if self.name == "cbt" and train_on != "books":
            return f"cbt-{train_on}"
        path = self.paths[0]
        if len(self.paths) > 1:
            return path.resolve().parent.name
        return path.stem if path.suffix == ".txt" else path.resolve().name

    @functools.cached_property
    def treebank(self):
        """Lists of the paths of training, validation and test of the treebank
        that it is, or `None`."""
        folder = self.paths[0]
        if len(self.paths) > 1 or self.name in PUBLIC or not folder.is_dir():
            return None
        files = sorted(folder.glob("*.conllu"))
        # Beside a text, its parses may stand.
        if not files or _find_splits(folder) is not None:
            return None
        matches = [(_TREEBANK_FILE.fullmatch(f.stem), f) for f in files]
        names = {match[1] for match, _ in matches if match}
        found = [
            [file for match, file in matches if match and match[2] == split]
            for split in _TREEBANK
        ]
        if len(names) > 1 or not all(found):
            raise UsageError(
                f"dataset={folder} must hold one treebank, as files "
                "NAME-ud-train.conllu, NAME-ud-dev.conllu and "
                "NAME-ud-test.conllu, or the same without NAME-ud-. Received: "
                f"{', '.join(file.name for file in files)}"
            )
        return found

    def load(self, vocabulary=None):
        """Loads it, and prints what was decided for who did not decide.

        Args:
            vocabulary: `Vocabulary` to read it with; `None` builds one of the
                training text.

        Returns:
            `memlm_keras.data.Corpus`, or `PairCorpus` for classifiers.
        """
        corpus = self._load(vocabulary)
        lines = self.reading.get("training_lines")
        return corpus if lines is None else corpus.with_first_lines(lines)

    def _load(self, vocabulary):
        data_dir = self.reading.get("data_dir")
        if vocabulary is None:
            words = self._those("vocabulary_size", "minimum_count")
        else:
            words = {"vocabulary": vocabulary}
        if self.kind == CLASSIFIER:
            lowercase = self.reading.get("lowercase", False)
            return data.load_pairs(
                self.name, data_dir, lowercase=lowercase, **words
            )
        if self.name == "cbt":
            train_on = self.reading.get("cbt_train_on", "books")
            return data.load_cbt(train_on, data_dir, **words)
        if self.name in PUBLIC:
            if self.name == "wikitext-2":
                words["sentences"] = self.sentences
            return data.load(self.name, data_dir=data_dir, **words)
        return self._load_own(words)

    def _load_own(self, words):
        words.update(self._those("document_start", "tokenize"))
        if self.treebank:
            return data.load_conllu(*self.treebank, **words)
        paths = self.paths
        one_text = paths[0].is_file() and "document_start" not in words
        if len(paths) == 1 and not one_text:
            paths = _find_splits(paths[0])
        if paths is None:
            corpus = data.load_documents(self.paths[0], **words)
        else:
            corpus = data.load_text(*paths, **words)
        if corpus.description:
            print(corpus.description)
        known = corpus.vocabulary
        unknown = np.mean(np.asarray(corpus.train.tokens) == known.unknown_id)
        print(
            f"The vocabulary has {len(known):,} words; {unknown:.1%} of the "
            f"training text is {known.unknown}, as it is written there or for "
            "rarer words (--minimum_count and --vocabulary_size say which)."
        )
        return corpus

    def _check(self):
        known = PAIRS if self.kind == CLASSIFIER else PUBLIC
        if self.kind == CLASSIFIER:
            if self.name not in known:
                raise UsageError(
                    f"Classifiers are trained on {', '.join(PAIRS)}. Received: "
                    f"dataset={self.name}.{nearest(self.name, known)}"
                )
            return
        wrong = [] if self.name == "cbt" else ["cbt_train_on"]
        if self.name in PUBLIC or self.treebank:
            wrong += ["document_start", "tokenize"]
            if self.name in PUBLIC and self.name != "cbt":
                wrong.append("minimum_count")
        else:
            missing = [str(path) for path in self.paths if not path.exists()]
            if missing:
                raise MissingTextError(
                    f"There is no file, folder or corpus {missing[0]}; corpora "
                    f"are {', '.join(known)}.{nearest(missing[0], known)}"
                )
            if len(self.paths) not in (1, 3):
                raise UsageError(
                    "dataset must be one path, or three with commas between: "
                    "of training, validation and test. Received: "
                    f"{self.name}"
                )
        for option in self._those(*wrong):
            raise UsageError(
                f"{option} cannot be given for dataset={self.name}, which is "
                "always read in the same way."
            )

    def _those(self, *names):
        return {k: self.reading[k] for k in names if k in self.reading}


def _find_splits(path):
    """Paths of the three splits in a folder, or `None` if it has none."""
    found = [
        [
            path / f"{name}{ending}"
            for name in names
            for ending in ("", ".txt")
            if (path / f"{name}{ending}").exists()
        ]
        for names in _SPLITS
    ]
    if not any(found):
        return None
    for names, paths in zip(_SPLITS, found):
        if not paths:
            raise UsageError(
                f"dataset={path} must hold {names[0]}.txt, or a folder "
                f"{names[0]} of documents, as it holds other splits."
            )
    return [paths[0] for paths in found]


# === How the text of an experiment is read ===


def reads_sentences(preset):
    """Whether the model of a preset reads each sentence by itself."""
    return preset["kind"] == AUTOENCODER or preset["data"].get(
        "sentences", False
    )


def has_documents(corpus, wanted=False):
    """Whether a corpus says where documents begin.

    Raises:
        UsageError: if it does not, and that is wanted.
    """
    has = corpus.train.document_starts is not None
    if wanted and not has:
        raise UsageError(
            "documents needs a corpus that says where they begin; "
            f"{corpus.name} does not. Give --document_start, or a folder of "
            "documents."
        )
    return has


def reads_documents(experiment):
    """Whether an experiment begins each document afresh."""
    wanted = experiment.overrides.get("documents")
    has = has_documents(experiment.corpus, wanted)
    if wanted is None:
        wanted = experiment.preset["data"].get("documents", False)
    return bool(wanted and has)


def sentence_batches(experiment, split, **arguments):
    """Batches of whole sentences of an experiment's corpus."""
    settings = experiment.settings
    return experiment.corpus.sentence_batches(
        split,
        settings["batch_size"],
        length_multiple=settings["length_multiple"],
        seed=experiment.seed,
        **arguments,
    )


def evaluation_batches(experiment, model, split):
    """The batches of a split that perplexities are reported on."""
    corpus, settings = experiment.corpus, experiment.settings
    if reads_sentences(experiment.preset):
        if model.causal:
            return corpus.batches(split, 64, 32, sentences=True)
        return sentence_batches(experiment, split)
    if not settings["documents"]:
        # One row reads a continuous text as published figures do.
        return corpus.batches(split, 1, 100)
    # Documents are independent, so more rows change nothing, empty ones that
    # give each device as many neither.
    starts = getattr(corpus, split).document_starts
    rows = min(settings["batch_size"], len(starts))
    return corpus.batches(
        split,
        batch_size=rows + -rows % num_devices(model),
        segment_length=settings["segment_length"],
        documents=True,
    )

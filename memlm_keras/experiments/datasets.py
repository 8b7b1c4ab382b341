"""Loads the texts and sentence pairs of experiments, and makes batches."""

import dataclasses
import functools
import pathlib
import re

import memlm_keras as memlm
from memlm_keras.experiments import options

_SPLITS = (("train",), ("valid", "validation", "dev"), ("test",))
_TREEBANK = ("train", "dev", "test")
_TREEBANK_FILE = re.compile(rf"(?:(.+)-ud-)?({'|'.join(_TREEBANK)})\b.*")


class Dataset:
    """The corpus that the option `dataset` names. Raises `UsageError` for a
    missing corpus, or an option in `reading` that the corpus does not use."""

    def __init__(self, name, kind, sentences=False, reading=None):
        self.name = str(name)
        self.kind = kind
        # Whether the lines of WikiText-2 are split into sentences.
        self.sentences = sentences
        self.reading = dict(reading or {})
        self.paths = [
            pathlib.Path(part) for part in options.split_paths(self.name)
        ]
        self._check()

    @property
    def label(self):
        """Name of the dataset in run folders and tables."""
        train_on = self.reading.get("cbt_train_on", "books")
        if self.name == "cbt" and train_on != "books":
            return f"cbt-{train_on}"
        path = self.paths[0]
        if len(self.paths) > 1:
            return path.resolve().parent.name
        is_file = path.suffix.lower() in memlm.data.pair_corpora.SUFFIXES
        return path.stem if is_file else path.resolve().name

    @functools.cached_property
    def treebank(self):
        """Three lists of the training, validation and test files of a treebank;
        `None` if the dataset is not a treebank."""
        folder = self.paths[0]
        named = self.name in options.TEXTS or self.kind == options.CLASSIFIER
        if len(self.paths) > 1 or named or not folder.is_dir():
            return None
        files = sorted(folder.glob("*.conllu"))
        # A folder with texts is not a treebank, even if it contains parses.
        if not files or _find_splits(folder) is not None:
            return None
        matches = [(_TREEBANK_FILE.fullmatch(f.stem), f) for f in files]
        names = {match[1] for match, _ in matches if match}
        paths = [
            [file for match, file in matches if match and match[2] == split]
            for split in _TREEBANK
        ]
        if len(names) > 1 or not all(paths):
            raise options.UsageError(
                f"dataset={folder} must hold one treebank, as files "
                "NAME-ud-train.conllu, NAME-ud-dev.conllu and "
                "NAME-ud-test.conllu, or train.conllu and so on. Received: "
                f"{', '.join(file.name for file in files)}"
            )
        return paths

    def load(self, vocabulary=None, labels=None, whole=False):
        """Loads the corpus. A `vocabulary` or `labels` of `None` is taken from
        the training text. If `whole`, a single file of pairs becomes the test
        set and is not split."""
        with options.wrong_use():
            corpus = self._load(vocabulary, labels, whole)
            if (lines := self.reading.get("training_lines")) is not None:
                corpus = corpus.with_first_lines(lines)
        if self.kind != options.CLASSIFIER and self.name not in options.TEXTS:
            _describe(corpus, vocabulary is None)
        return corpus

    def _load(self, vocabulary, labels, whole):
        data = memlm.data
        words = {"vocabulary": vocabulary}
        if vocabulary is None:
            words = self._given("vocabulary_size", "minimum_count")
        words["data_dir"] = self.reading.get("data_dir")
        if self.kind == options.CLASSIFIER:
            words |= {"labels": labels, **self._given("lowercase", "tokenize")}
            if self.name in options.PAIRS:
                return data.load_pairs(self.name, **words)
            path, *others = self.paths
            whole = whole and not others and path.is_file()
            paths = [path] * 3 if whole else self.paths if others else path
            corpus = data.load_pairs(paths, **words)
            if whole:
                test = corpus.test
                text = f"{self.name}: all {len(test):,} pairs are test pairs."
                corpus = dataclasses.replace(
                    corpus, train=test, validation=test, description=text
                )
            print(corpus.description)
            return corpus
        if self.name == "cbt":
            train_on = self.reading.get("cbt_train_on", "books")
            return data.load_cbt(train_on, **words)
        if self.name in options.TEXTS:
            corpus = data.load(self.name, sentences=self.sentences, **words)
            own = corpus.vocabulary.tokens
            if vocabulary is not None and own != vocabulary.tokens:
                raise options.UsageError(
                    f"dataset={self.name} has a vocabulary of its own, which "
                    "is not the model's. Give --dataset=FILE."
                )
            return corpus
        del words["data_dir"]
        words.update(self._given("document_start", "tokenize"))
        if self.treebank:
            return data.load_conllu(*self.treebank, **words)
        paths = self.paths
        one_text = paths[0].is_file() and "document_start" not in words
        if len(paths) == 1 and not one_text:
            paths = _find_splits(paths[0])
        if paths is None:
            return data.load_documents(self.paths[0], **words)
        return data.load_text(*paths, **words)

    def _check(self):
        classifies = self.kind == options.CLASSIFIER
        corpora = options.PAIRS if classifies else options.TEXTS
        is_public = self.name in corpora
        tables = {*memlm.data.pair_corpora.SUFFIXES} - {".txt"}
        for path in () if is_public else self.paths:
            if not path.exists():
                raise options.MissingTextError(
                    f"There is no file, folder or corpus {path}; corpora are "
                    f"{', '.join(corpora)}.{options.nearest(path, corpora)}"
                )
            if not (path.is_file() or path.is_dir()):
                raise options.UsageError(
                    f"{path} is a pipe or a device, but a text is read "
                    "several times. Save it to a file first."
                )
            if path.suffix.lower() in tables and not classifies:
                raise options.UsageError(
                    f"{path} is a table, but a language model is trained on "
                    "running text. Pairs of sentences with labels train a "
                    "classifier: memlm train weissenborn2016/gru_shared "
                    f"--dataset={path}"
                )
        if not is_public and len(self.paths) not in (1, 3):
            raise options.UsageError(
                "dataset must be one path, or three separated by commas: for "
                f"training, validation and test. Received: {self.name}"
            )
        wrong = [] if self.name == "cbt" else ["cbt_train_on"]
        if is_public or self.treebank:
            wrong += ["document_start", "tokenize"]
        if not is_public:
            wrong.append("data_dir")
        if is_public and not classifies and self.name != "cbt":
            wrong.append("minimum_count")
        for option in self._given(*wrong):
            raise options.UsageError(
                f"{option} cannot be given for dataset={self.name}, which does "
                f"not use it. Omit {option}."
            )

    def _given(self, *names):
        return {k: self.reading[k] for k in names if k in self.reading}


def _find_splits(path):
    """Returns the paths of three splits in a folder; `None` without splits."""
    found = {}
    for names in _SPLITS:
        paths = [path / f"{n}{end}" for n in names for end in ("", ".txt")]
        found[names[0]] = next(filter(pathlib.Path.exists, paths), None)
    if not any(found.values()):
        return None
    for name, split in found.items():
        if split is None:
            raise options.UsageError(
                f"dataset={path} must hold {name}.txt, or a folder {name} of "
                "documents, because it holds other splits."
            )
    return [*found.values()]


# === How the text of an experiment is read ===


def reads_sentences(preset):
    """Returns whether a preset's model reads each sentence separately."""
    return preset["kind"] == options.AUTOENCODER or preset["data"].get(
        "sentences", False
    )


def has_documents(corpus, required=False):
    """Returns whether a corpus has documents. If `required`, a corpus without
    documents raises `UsageError`."""
    has = corpus.train.document_starts is not None
    if required and not has:
        raise options.UsageError(
            "--documents needs a corpus with documents; "
            f"{corpus.name} has none. Give --document_start, or a folder of "
            "documents."
        )
    return has


def _describe(corpus, is_counted):
    """Prints how a text was read and its share of unknown words; `is_counted`
    means that the vocabulary was built from this text."""
    if corpus.description:
        print(corpus.description)
    known = corpus.vocabulary
    unknown = (corpus.train.tokens == known.unknown_id).mean()
    line = (
        f"The vocabulary has {len(known):,} {unit_of(known)}; {unknown:.1%} of "
        f"the training text is {known.unknown}"
    )
    if is_counted:
        line += ", either written in the text or in place of rare words (see "
        line += "--minimum_count and --vocabulary_size)"
    print(f"{line}.")


def unit_of(vocabulary):
    """Returns the unit of a vocabulary's tokens, such as "words"."""
    if not all(map(vocabulary.begins_word, vocabulary.tokens)):
        return "pieces of words"
    split = vocabulary.tokenizer.get_config().get("split")
    return "characters" if split == "characters" else "words"


def can_be_counted(corpus):
    """Returns whether n-gram models can be fitted to a corpus. N-gram models
    need a vocabulary in which the end of a sentence has the id 0."""
    # `memlm_keras.ngrams` has a constant for 0, but imports Keras.
    return corpus.vocabulary.end_of_sentence_id == 0


def require_counts(experiment, asked):
    """Raises `UsageError` if `--compare` is given but not possible."""
    corpus = experiment.corpus
    if asked.get("compare") and not can_be_counted(corpus):
        raise options.UsageError(
            "--compare needs a vocabulary in which the end of a sentence has "
            f"the id 0. Received: the id {corpus.vocabulary.end_of_sentence_id}"
            f" in the vocabulary of preset={experiment.preset_name}"
        )


def smoothing_of(model):
    """Returns the smoothing config of a preset's model, or `None`."""
    embedding = model.get("embedding") or {"config": {}}
    smoothing = embedding["config"].get("smoothing")
    return smoothing and smoothing["config"]


def reads_documents(experiment):
    """Returns whether the model starts each document from its initial state."""
    documents = experiment.overrides.get("documents")
    has = has_documents(experiment.corpus, documents)
    if documents is None:
        documents = experiment.preset["data"].get("documents", False)
    return bool(documents and has)


def sentence_batches(experiment, split, **arguments):
    """Returns batches of whole sentences from a split of the corpus."""
    settings = experiment.settings
    return experiment.corpus.sentence_batches(
        split,
        settings["batch_size"],
        length_multiple=settings["length_multiple"],
        seed=experiment.seed,
        **arguments,
    )


def evaluation_batches(experiment, model, split):
    """Returns the batches of a split for computing its perplexity."""
    corpus, settings = experiment.corpus, experiment.settings
    divisible = memlm.training.distribution.divisible
    if reads_sentences(experiment.preset):
        if model.causal:
            rows = divisible(64, model)
            return corpus.batches(split, rows, 32, sentences=True)
        return sentence_batches(experiment, split)
    if not settings["documents"]:
        # Papers compute perplexity on one continuous text, with batch size 1.
        return corpus.batches(split, 1, 100)
    # Documents are independent, so the batch size does not change results.
    # Empty rows are added, so that all devices get the same number of rows.
    starts = getattr(corpus, split).document_starts
    rows = min(settings["batch_size"], len(starts))
    return corpus.batches(
        split,
        batch_size=divisible(rows, model),
        segment_length=settings["segment_length"],
        documents=True,
    )

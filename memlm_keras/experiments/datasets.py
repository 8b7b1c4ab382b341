"""The texts and pairs that experiments are of: by name, or of one's own."""

import functools
import hashlib
import pathlib
import re

from memlm_keras import data
from memlm_keras.data.corpus import cache_folder
from memlm_keras.experiments.options import AUTOENCODER
from memlm_keras.experiments.options import CLASSIFIER
from memlm_keras.experiments.options import UsageError
from memlm_keras.experiments.options import nearest
from memlm_keras.files import atomic_path

PUBLIC = ("embedded", "ptb", "wikitext-2", "cbt")
PAIRS = ("embedded", "snli", "sick")

_SPLITS = (("train",), ("valid", "validation", "dev"), ("test",))
_TREEBANK = ("train", "dev", "test")
_TREEBANK_FILE = re.compile(rf"(?:(.+)-ud-)?({'|'.join(_TREEBANK)})\b.*")
# Of one file: a tenth of its lines each.
_SHARE = 10
# Of text without a word for the unknown, words seen once teach one.
_MINIMUM_COUNT = 2
_UNKNOWN = "<unk>"


class Dataset:
    """A corpus that is described, and loaded where it is first needed.

    Args:
        name: `"embedded"`, `"ptb"`, `"wikitext-2"` or `"cbt"`; of classifiers
            `"embedded"`, `"snli"` or `"sick"`; or text of one's own: a file,
            which is split into training, validation and test; three files with
            commas between; a folder that holds train, valid and test (`.txt`
            files, or folders of documents); a folder that holds a treebank in
            CoNLL-U; or documents to be dealt to the three, as a folder of one
            `.txt` file each, or as one file with `document_start`.
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
        if self.name == "cbt" and self._given("cbt_train_on", "books") != (
            "books"
        ):
            return f"cbt-{self.reading['cbt_train_on']}"
        path = self.paths[0]
        if len(self.paths) > 1:
            return path.resolve().parent.name
        return path.stem if path.suffix == ".txt" else path.resolve().name

    def load(self):
        """Loads it.

        Returns:
            `memlm_keras.data.Corpus`, or `PairCorpus` for classifiers.
        """
        if self.kind == CLASSIFIER:
            return data.load_pairs(
                self.name,
                self.reading.get("data_dir"),
                vocabulary_size=self.reading.get("vocabulary_size"),
                minimum_count=self._given("minimum_count", 1),
                lowercase=self._given("lowercase", False),
            )
        building = self._those("vocabulary_size")
        if self.name == "cbt":
            return data.load_cbt(
                self._given("cbt_train_on", "books"),
                self.reading.get("data_dir"),
                minimum_count=self._given("minimum_count", 2),
                **building,
            )
        if self.name in PUBLIC:
            if self.sentences and self.name == "wikitext-2":
                building["sentences"] = True
            data_dir = self.reading.get("data_dir")
            return data.load(self.name, data_dir=data_dir, **building)
        return self._load_own(building)

    def treebank(self):
        """Files of the treebank that it is.

        Returns:
            Lists of the paths of training, validation and test, or `None`.
        """
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

    def _check(self):
        known = PAIRS if self.kind == CLASSIFIER else PUBLIC
        if self.kind == CLASSIFIER:
            if self.name not in known:
                raise UsageError(
                    f"Classifiers are trained on {', '.join(PAIRS)}. Received: "
                    f"dataset={self.name}.{nearest(self.name, known)}"
                )
            return
        own = ("document_start", "tokenize")
        if self.name in PUBLIC or self.treebank():
            wrong = [option for option in own if option in self.reading]
        else:
            missing = [str(path) for path in self.paths if not path.exists()]
            if missing:
                raise UsageError(
                    f"There is no file, folder or corpus {missing[0]}; corpora "
                    f"are {', '.join(known)}.{nearest(missing[0], known)}"
                )
            if len(self.paths) not in (1, 3):
                raise UsageError(
                    "dataset must be one path, or three with commas between: "
                    "of training, validation and test. Received: "
                    f"{self.name}"
                )
            wrong = []
        if self.name != "cbt":
            wrong += [o for o in ("cbt_train_on",) if o in self.reading]
        if self.name in PUBLIC and self.name != "cbt":
            wrong += [o for o in ("minimum_count",) if o in self.reading]
        if wrong:
            raise UsageError(
                f"{wrong[0]} cannot be given for dataset={self.name}, which is "
                "always read in the same way."
            )

    def _load_own(self, building):
        treebank = self.treebank()
        own = self._those("document_start", "tokenize")
        if treebank:
            count = self._given("minimum_count", 1)
            return data.load_conllu(
                *treebank, minimum_count=count, **own, **building
            )
        path = self.paths[0]
        splits = self.paths if len(self.paths) == 3 else _find_splits(path)
        if splits is None and path.is_file() and "document_start" not in own:
            splits = split_file(path)
        if splits is None:
            return data.load_documents(path, **own, **building)
        count = self._given("minimum_count", _least_count(splits[0]))
        return data.load_text(*splits, minimum_count=count, **own, **building)

    def _given(self, option, default):
        return self.reading.get(option, default)

    def _those(self, *names):
        return {k: self.reading[k] for k in names if k in self.reading}


def split_file(path):
    """Splits a file of one's own by its lines.

    The last tenth of its lines that are not blank is the test text, the tenth
    before it the validation text, and the rest is trained on. The three stand
    in the cache, in a folder named after the file and what it holds.

    Args:
        path: `pathlib.Path` of a UTF-8 text file.

    Returns:
        List of the paths of training, validation and test.

    Raises:
        UsageError: if it has too few lines, or is no text.
    """
    content = path.read_bytes()
    digest = hashlib.sha256(content).hexdigest()[:16]
    folder = cache_folder() / "split" / f"{path.stem}-{digest}" / path.stem
    paths = [folder / f"{names[0]}.txt" for names in _SPLITS]
    try:
        lines = [t for t in content.decode("utf-8").split("\n") if t.strip()]
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is not UTF-8: {error}") from None
    if len(lines) < _SHARE:
        raise UsageError(
            f"{path} has {len(lines)} lines with words; at least {_SHARE} are "
            "needed to split it, one sentence a line."
        )
    share = len(lines) // _SHARE
    ends = len(lines) - 2 * share, len(lines) - share
    parts = lines[: ends[0]], lines[ends[0] : ends[1]], lines[ends[1] :]
    _tell_once(
        f"{path} is one text: its first {len(parts[0]):,} lines are trained "
        f"on, the next {share:,} are for validation, the last {share:,} for "
        "the test."
    )
    if not all(part.exists() for part in paths):
        with atomic_path(folder) as temporary:
            temporary.mkdir()
            for part, part_lines in zip(paths, parts, strict=True):
                text = "\n".join(part_lines) + "\n"
                (temporary / part.name).write_text(text, encoding="utf-8")
    return paths


@functools.cache
def _tell_once(line):
    print(line)


def _least_count(train):
    """1 where the text itself has unknown words, else what makes some."""
    files = sorted(train.glob("*.txt")) if train.is_dir() else [train]
    marked = any(_UNKNOWN.encode() in file.read_bytes() for file in files)
    if marked:
        return 1
    _tell_once(
        f"Words seen once in training become {_UNKNOWN}, so that the model "
        "knows what an unknown word is like; --minimum_count=1 keeps them."
    )
    return _MINIMUM_COUNT


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


def reads_sentences(preset):
    """Whether the model of a preset reads each sentence by itself."""
    return preset["kind"] == AUTOENCODER or preset["data"].get(
        "sentences", False
    )

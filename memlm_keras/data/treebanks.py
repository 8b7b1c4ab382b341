"""Corpora of the sentences of treebanks."""

import pathlib

from memlm_keras.data.conllu import read_words
from memlm_keras.data.corpora import encode_sources
from memlm_keras.data.corpora import name_of
from memlm_keras.data.corpus import SPLITS
from memlm_keras.data.text import files_identity


def load_conllu(
    train,
    validation,
    test,
    *,
    vocabulary=None,
    vocabulary_size=None,
    minimum_count=1,
    numbers=None,
    cache_dir=None,
):
    """Loads a corpus from CoNLL-U files, such as a treebank's.

    Every sentence becomes its word forms and an end of sentence. The words are
    those that a tree joins, as for `memlm_keras.analysis.read_conllu`: of a
    multiword token its parts (of Italian `del`, `di` and `il`), and no empty
    nodes. Parses are not needed, and not looked at.

    Args:
        train, validation, test: Path of a UTF-8 file each, or a list of such
            paths, which are read one after the other.
        vocabulary: `Vocabulary` to encode with; `None` builds one of the
            training text, as the next three arguments say.
        vocabulary_size, minimum_count, numbers: As `size`,
            `minimum_count` and `numbers` of `Vocabulary.build`.
        cache_dir: As for `memlm_keras.data.load`.

    Returns:
        `Corpus`.

    Raises:
        FileNotFoundError: A file is not there.
        ValueError: A file is not UTF-8, or is no CoNLL-U; a text has no
            sentence; or `vocabulary` is given together with arguments to
            build one.
        OSError: The cache cannot be written.

    Example:

    >>> corpus = load_conllu(
    ...     "de_gsd-ud-train.conllu",
    ...     "de_gsd-ud-dev.conllu",
    ...     "de_gsd-ud-test.conllu",
    ...     minimum_count=6,
    ... )
    """
    sources = {
        split: ConlluSource(paths)
        for split, paths in zip(SPLITS, (train, validation, test))
    }
    return encode_sources(
        name_of(sources["train"].path).partition("-ud-")[0],
        sources,
        cache_dir,
        vocabulary,
        size=vocabulary_size,
        minimum_count=minimum_count,
        numbers=numbers,
    )


class ConlluSource:
    """The sentences of CoNLL-U files, as `TextSource` gives those of a text.

    Args:
        paths: Path of a file, or list of paths.

    Raises:
        FileNotFoundError: A file is not there.
        ValueError: The list is empty.

    Example:

    >>> source = ConlluSource("de_gsd-ud-dev.conllu")
    >>> next(source.sentences())
    (['Manasse', 'ist', 'ein', 'einzigartiger', 'Parfümeur', '.'], False)
    """

    has_articles = False

    def __init__(self, paths):
        if isinstance(paths, (str, pathlib.Path)):
            paths = [paths]
        self.files = [pathlib.Path(path) for path in paths]
        if not self.files:
            raise ValueError(
                "A text must be of at least one CoNLL-U file. Received: none"
            )
        for file in self.files:
            if not file.is_file():
                raise FileNotFoundError(f"There is no CoNLL-U file {file}.")

    @property
    def path(self):
        return self.files[0]

    def identity(self):
        """Describes the files: equal as long as the text is."""
        return {"conllu": files_identity(self.files)}

    def sentences(self):
        """Reads the text once, as `TextSource.sentences`."""
        for file in self.files:
            for words in read_words(file):
                yield words, False

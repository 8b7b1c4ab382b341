"""Cloze questions, and the Children's Book Test (Hill et al., 2016), whose
questions ask for a missing word after twenty sentences of context."""

import dataclasses
import sys

from memlm_keras.arguments import require_one_of
from memlm_keras.data.corpora import public_files
from memlm_keras.data.corpora import public_sources
from memlm_keras.data.corpus import encode_sources
from memlm_keras.data.tables import naming
from memlm_keras.data.text_store import FileSource
from memlm_keras.data.text_store import read_lines

BLANK = "XXXXX"
WORD_TYPES = ("NE", "CN", "V", "P")

_CONTEXT_SENTENCES = 20
_FILE_ENDINGS = {
    "train": "train.txt",
    "validation": "valid_2000ex.txt",
    "test": "test_2500ex.txt",
}


@dataclasses.dataclass(frozen=True, slots=True)
class ClozeQuestion:
    """A sentence with a blank, its context, and words to choose from.

    The blank is the string `XXXXX` in one token, such as `XXXXX's`.

    Args:
        context: Tuple of sentences, which are tuples of tokens, or `()`.
        query: Tuple of tokens with one blank.
        answer: String, one of the candidates.
        candidates: Tuple of non-empty strings, which may repeat.

    Raises:
        ValueError: An argument is invalid.

    Example:

    >>> question = ClozeQuestion(
    ...     context=(("the", "king", "rose", "."),),
    ...     query=("`", "XXXXX", "!", "'"),
    ...     answer="King",
    ...     candidates=("Queen", "King"),
    ... )
    >>> question.filled("Queen")
    ('`', 'Queen', '!', "'")
    """

    context: tuple
    query: tuple
    answer: str
    candidates: tuple

    def __post_init__(self):
        sentences = {
            "query": [self.query],
            "candidates": [self.candidates],
            "context": [self.context, *self.context],
        }
        for name, values in sentences.items():
            for value in values:
                if isinstance(value, str):
                    raise ValueError(
                        f"`{name}` must be a tuple of tokens, not one "
                        f"string. Received: {value[:40]!r}. Split it first."
                    )
        blanks = sum(token.count(BLANK) for token in self.query)
        if blanks != 1:
            raise ValueError(
                f"`query` must have exactly one blank {BLANK}. Received: "
                f"{blanks} in {' '.join(self.query)!r}"
            )
        if not all(self.candidates):
            raise ValueError(
                "`candidates` must not be empty strings. Received: "
                f"{self.candidates!r}"
            )
        if self.answer not in self.candidates:
            raise ValueError(
                "`answer` must be one of the candidates. Received: "
                f"answer={self.answer!r}, candidates={self.candidates!r}"
            )

    def word(self, candidate):
        """Returns the token that has the blank, with `candidate` in it."""
        token = next(token for token in self.query if BLANK in token)
        return token.replace(BLANK, candidate)

    def filled(self, candidate):
        """Returns the query as a tuple of tokens, with `candidate` in the
        blank. The candidate is split at white space."""
        place = next(i for i, token in enumerate(self.query) if BLANK in token)
        words = self.word(candidate).split()
        return (*self.query[:place], *words, *self.query[place + 1 :])


# === The Children's Book Test ===


def cbt_questions(word_type, split, data_dir=None, cache_dir=None):
    """Loads questions of the Children's Book Test.

    Each `word_type` has 2,000 questions for validation, 2,500 for testing and
    more than 100,000 for training. To read a file's questions one by one, call
    `read_cloze_questions`.

    Args:
        word_type: Type of the missing word: `"NE"` for named entities, `"CN"`
            for common nouns, `"V"` for verbs or `"P"` for prepositions.
        split: `"train"`, `"validation"` or `"test"`.
        data_dir, cache_dir: See `memlm_keras.data.load`.

    Returns:
        List of `ClozeQuestion`.

    Raises:
        ValueError: `word_type` or `split` is unknown, or the file is damaged.
        FileNotFoundError: The file is not in `data_dir`.
        OSError: The download failed.

    Example:

    >>> questions = cbt_questions("NE", "test", data_dir="CBTest/data")
    >>> len(questions[0].context), len(questions[0].candidates)
    (20, 10)
    """
    require_one_of("word_type", word_type, WORD_TYPES)
    require_one_of("split", split, _FILE_ENDINGS)
    file = f"cbtest_{word_type}_{_FILE_ENDINGS[split]}"
    (path,) = public_files("cbt", [file], data_dir, cache_dir)
    return list(read_cloze_questions(path))


def load_cbt(
    train_on="books",
    data_dir=None,
    cache_dir=None,
    vocabulary=None,
    vocabulary_size=None,
    minimum_count=None,
    numbers=None,
):
    """Loads the texts of the Children's Book Test that `train_on` names.

    * `"books"`: 98 books for training, 5 for validation, 5 for testing; each
      is a document. The title lines, which are file names, are dropped.
    * `"NE"`, `"CN"`, `"V"` or `"P"`: the questions of one type; each is a
      document of 20 sentences and the query with its answer filled in.
      Neighbouring questions share sentences, so sentences repeat.

    Args:
        data_dir, cache_dir: See `memlm_keras.data.load`.
        vocabulary, vocabulary_size, minimum_count, numbers: See
            `memlm_keras.data.load_text`.

    Returns:
        `Corpus` named `"cbt"` for books, and `"cbt-NE"` for the type `"NE"`.

    Raises:
        ValueError: `train_on` is unknown.
        Exception: See `memlm_keras.data.load` and `load_text`.

    Example:

    >>> corpus = load_cbt(data_dir="CBTest/data", minimum_count=2)
    >>> corpus.has_documents
    True
    """
    require_one_of("train_on", train_on, ("books", *WORD_TYPES))
    if train_on == "books":
        name, sources = "cbt", public_sources("cbt", data_dir, cache_dir)
    else:
        name = f"cbt-{train_on}"
        files = [
            f"cbtest_{train_on}_{ending}" for ending in _FILE_ENDINGS.values()
        ]
        paths = public_files("cbt", files, data_dir, cache_dir)
        sources = {
            split: FileSource("cloze_questions", [path], _texts, True)
            for split, path in zip(_FILE_ENDINGS, paths)
        }
    return encode_sources(
        name,
        sources,
        cache_dir,
        vocabulary,
        vocabulary_size,
        minimum_count,
        numbers=numbers,
    )


def read_cloze_questions(path):
    r"""Reads a file of questions one by one.

    A question is twenty lines `1 tokens ...` to `20 tokens ...` and a line
    `21 query<TAB>answer<TAB><TAB>candidate|...|candidate`. One tab after the
    answer is valid, too. Blank lines are skipped. Empty candidates would win
    with a shorter sentence, so they are dropped. Repeated ones are kept.

    Yields:
        `ClozeQuestion`.

    Raises:
        FileNotFoundError: The file does not exist.
        ValueError: The file is not UTF-8, or a question is invalid or missing.

    Example:

    >>> question = next(read_cloze_questions("cbtest_V_train.txt"))
    """
    context, number, expected = [], 0, 0
    for number, line in enumerate(read_lines(path), 1):
        if not line.strip():
            continue
        expected = len(context) + 1
        first, *rest = line.split(maxsplit=1)
        if first != str(expected):
            raise ValueError(
                f"{path}, line {number}: the lines of a question must be "
                f"numbered 1 to {_CONTEXT_SENTENCES + 1}. Expected number "
                f"{expected}. Received: {line[:40]!r}"
            )
        text = "".join(rest)
        if expected <= _CONTEXT_SENTENCES:
            context.append(_tokens(text))
            continue
        with naming(f"{path}, line {number}"):
            question = ClozeQuestion(tuple(context), *_parse_query(text))
        yield question
        context = []
    if context:
        raise ValueError(
            f"{path}, line {number}: the file ends after {len(context)} "
            f"sentences of a question. Expected {_CONTEXT_SENTENCES} and a "
            "query."
        )
    if not expected:
        raise ValueError(
            f"The file {path} is empty: expected at least one question."
        )


def _parse_query(text):
    query, *fields = text.split("\t")
    if len(fields) not in (2, 3) or (len(fields) == 3 and fields[1].strip()):
        raise ValueError(
            "The query must be followed by a tab, the answer, two tabs and "
            f"the candidates. Received the fields {fields}"
        )
    candidates = (word.strip() for word in fields[-1].split("|"))
    return _tokens(query), fields[0].strip(), tuple(filter(None, candidates))


def _tokens(text):
    # Words recur in many questions: one string object per word saves memory.
    return tuple(map(sys.intern, text.split()))


def _texts(path):
    """Yields `(tokens, whether a question begins)` for each sentence."""
    for question in read_cloze_questions(path):
        begins = True
        for tokens in (*question.context, question.filled(question.answer)):
            yield list(tokens), begins
            begins = False

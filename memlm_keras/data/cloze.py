"""Cloze questions: of the Children's Book Test and of Sentence Completion.

Hill et al. (2016): `CBTest.tgz` holds the books and, for each of four kinds of
words, questions that ask for one word of a sentence after twenty others.

Zweig and Burges (2011), *The Microsoft Research Sentence Completion Challenge*:
its README describes the files. Tran et al. (2016), *Recurrent Memory Networks
for Language Modeling*, answer it by the probability of the whole sentence.
"""

import dataclasses
import itertools
import pathlib
import re
import sys

from memlm_keras.data.corpora import public_files
from memlm_keras.data.corpora import public_sources
from memlm_keras.data.corpus import encode_sources
from memlm_keras.data.text_store import files_identity
from memlm_keras.data.text_store import read_lines
from memlm_keras.data.tokenizer import word_splitter

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

    The blank, `XXXXX`, is most often a token of its own. If it is part of a
    token, as in `XXXXX's`, a candidate replaces it within that token.

    Args:
        context: Tuple of sentences, tuples of tokens; any number, even none.
        query: Tuple of tokens with one blank.
        answer: String, one of the candidates.
        candidates: Tuple of non-empty strings; they may repeat.

    Raises:
        ValueError: The query has no or more than one blank, a candidate is
            empty, the answer is not among the candidates, or a sentence is a
            string instead of its tokens.

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
                        f"`{name}` must be made of tokens, not of one string. "
                        f"Received: {value[:40]!r}. Split it first."
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
                f"{self.answer!r}, of the candidates {self.candidates!r}"
            )

    def word(self, candidate):
        """Returns the token of the blank, with `candidate` for the blank."""
        (token,) = (token for token in self.query if BLANK in token)
        return token.replace(BLANK, candidate)

    def filled(self, candidate):
        """Fills the blank.

        Args:
            candidate: String; white space separates its tokens.

        Returns:
            Tuple of tokens, the whole sentence.
        """
        tokens = []
        for token in self.query:
            if BLANK in token:
                tokens.extend(self.word(candidate).split())
            else:
                tokens.append(token)
        return tuple(tokens)


def cbt_questions(word_type, split, data_dir=None, cache_dir=None):
    """Loads questions of the Children's Book Test.

    Each type has 2,000 for validation and 2,500 for testing. The training
    questions, more than 100,000, take much memory as a list:
    `read_cloze_questions` yields them one by one.

    Args:
        word_type: `"NE"`, `"CN"`, `"V"` or `"P"`: questions for named
            entities, common nouns, verbs or prepositions.
        split: `"train"`, `"validation"` or `"test"`.
        data_dir, cache_dir: As for `memlm_keras.data.load`.

    Returns:
        List of `ClozeQuestion`.

    Raises:
        ValueError: There is no such type or split, or the file is damaged.
        FileNotFoundError: The file is not in `data_dir`.
        OSError: The download failed.

    Example:

    >>> questions = cbt_questions("NE", "test", data_dir="CBTest/data")
    >>> len(questions[0].context), len(questions[0].candidates)
    (20, 10)
    """
    if word_type not in WORD_TYPES:
        raise ValueError(
            f"`word_type` must be one of {WORD_TYPES}. Received: "
            f"word_type={word_type!r}"
        )
    if split not in _FILE_ENDINGS:
        raise ValueError(
            f"`split` must be one of {tuple(_FILE_ENDINGS)}. Received: "
            f"split={split!r}"
        )
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
    """Loads the texts of the Children's Book Test.

    * `"books"`: 98 books for training, 5 for validation, 5 for testing, each
      a document. The lines with their titles, names of files, are no text.
    * `"NE"`, `"CN"`, `"V"` or `"P"`: the questions of that type, each a
      document of its 20 sentences and the query with the answer in place.
      Neighbouring questions share sentences, so text is seen many times.

    Args:
        train_on: One of the names above.
        data_dir, cache_dir: As for `memlm_keras.data.load`.
        vocabulary, vocabulary_size, minimum_count, numbers: As for
            `memlm_keras.data.load_text`.

    Returns:
        `Corpus` of the name `"cbt"` or, for questions, such as `"cbt-NE"`.

    Raises:
        ValueError: `train_on` is none of these names, a file is damaged, or
            `vocabulary` is given together with arguments to build one.
        FileNotFoundError: A file is not in `data_dir`.
        OSError: The download failed, or the cache cannot be written.

    Example:

    >>> corpus = load_cbt(data_dir="CBTest/data", minimum_count=2)
    >>> corpus.has_documents
    True
    """
    if train_on == "books":
        name, sources = "cbt", public_sources("cbt", data_dir, cache_dir)
    elif train_on in WORD_TYPES:
        name = f"cbt-{train_on}"
        files = [
            f"cbtest_{train_on}_{ending}" for ending in _FILE_ENDINGS.values()
        ]
        paths = public_files("cbt", files, data_dir, cache_dir)
        sources = dict(zip(_FILE_ENDINGS, map(_QuestionTexts, paths)))
    else:
        raise ValueError(
            f"`train_on` must be one of {('books', *WORD_TYPES)}. Received: "
            f"train_on={train_on!r}"
        )
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
    `21 query<TAB>answer<TAB><TAB>candidate|...|candidate`. The empty field may
    be missing, and blank lines are skipped. An empty candidate is left out: it
    would shorten the sentence, and so win. Repeated candidates are kept.

    Args:
        path: Path of the file, in UTF-8.

    Yields:
        `ClozeQuestion`.

    Raises:
        FileNotFoundError: There is no such file.
        ValueError: The file is not UTF-8 or holds no question, a line has not
            the number that must follow, or a question is not as
            `ClozeQuestion` must be.

    Example:

    >>> question = next(read_cloze_questions("cbtest_V_train.txt"))
    """
    context, number, last = [], 0, None
    for number, line in enumerate(read_lines(path), 1):
        if not line.strip():
            continue
        last = len(context) + 1
        first, *rest = line.split(maxsplit=1)
        if first != str(last):
            raise ValueError(
                f"{path}, line {number}: a question has lines numbered 1 to "
                f"{_CONTEXT_SENTENCES + 1}, the last of them its query. "
                f"Expected number {last}. Received: {line[:40]!r}"
            )
        text = "".join(rest)
        if last <= _CONTEXT_SENTENCES:
            context.append(_tokens(text))
            continue
        try:
            question = ClozeQuestion(
                tuple(context), *_parse_query("".join(text))
            )
        except ValueError as error:
            raise ValueError(f"{path}, line {number}: {error}") from error
        yield question
        context = []
    if last is None:
        raise ValueError(
            f"The file {path} is empty: expected at least one question."
        )
    if context:
        raise ValueError(
            f"{path}, line {number}: the file ends after {len(context)} "
            f"sentences of a question. Expected {_CONTEXT_SENTENCES} and a "
            "query."
        )


def _parse_query(text):
    query, *fields = text.split("\t")
    if len(fields) not in (2, 3) or (len(fields) == 3 and fields[1].strip()):
        raise ValueError(
            "The query must be followed by a tab, the answer, two tabs and "
            f"the candidates. Received the fields {fields}"
        )
    candidates = (word.strip() for word in fields[-1].split("|"))
    return (
        _tokens(query),
        fields[0].strip(),
        tuple(word for word in candidates if word),
    )


def _tokens(text):
    # Contexts overlap and words recur: keep one string of each.
    return tuple(map(sys.intern, text.split()))


class _QuestionTexts:
    """The texts of questions, with the interface of `TextSource`."""

    has_documents = True

    def __init__(self, path):
        self.path = pathlib.Path(path)

    def identity(self):
        return {"cloze_questions": files_identity([self.path])}

    def sentences(self):
        for question in read_cloze_questions(self.path):
            begins = True
            for tokens in (*question.context, question.filled(question.answer)):
                yield list(tokens), begins
                begins = False


# === The Sentence Completion Challenge ===

_LETTERS = "abcde"
_NUMBERED = re.compile(r"(\d+)([a-z])\)\s*([^\[\]]*)\[([^\[\]]+)\]([^\[\]]*)$")
_ENCLOSED = re.compile(r"<s>\s(.*)\s</s>$")


def completion_questions(questions, answers, lowercase=True, tokenize="syntok"):
    """Loads the questions of the challenge, in either of its forms.

    * `Holmes.machine_format.questions.txt` and `...answers.txt`: lines
      `1a) You are [crying] alone.` to `1e) ...`, and the right one of each
      question. They are numbered one by one, from any number on.
    * `Holmes.lm_format.questions.txt` and `...answers.txt`: the sentences
      `<s> You are crying alone </s>`, without the stop at their ends. The
      blank is where the five differ.

    The first line determines the form. Blank lines are skipped. To train on
    novels of `prepare_novels`, give both the same `lowercase` and `tokenize`,
    and take the machine form: the other lacks the stop that ends sentences.
    The archive recommends the first 520 of the 1,040 questions for validation
    and the last 520 for testing; Tran et al. report all of them.

    Args:
        questions, answers: Paths of the two files, in UTF-8.
        lowercase: Whether to lower-case sentences and candidates.
        tokenize: `"syntok"`, `None` to split at white space, or a function
            from a string to its list of tokens.

    Returns:
        List of `memlm_keras.data.ClozeQuestion` with an empty context and five
        candidates.

    Raises:
        FileNotFoundError: A file is not there.
        ValueError: A file is empty, not UTF-8 or of another form, a line is
            not the expected one, an answer is none of its question's
            candidates, or the numbers of questions and answers differ.
        ImportError: `"syntok"` is not installed.

    Example:

    >>> questions = completion_questions(
    ...     "Holmes.machine_format.questions.txt",
    ...     "Holmes.machine_format.answers.txt",
    ... )
    >>> questions[0].query, questions[0].answer
    (('you', 'are', 'XXXXX', 'alone', '.'), 'crying')
    """
    split = word_splitter(tokenize)
    case = str.lower if lowercase else str
    lines, solutions = _numbered_lines(questions), _numbered_lines(answers)
    enclosed = lines[0][1].startswith("<s>")
    read = _read_enclosed if enclosed else _read_numbered
    made = []
    for group, answer in read(questions, lines, answers, solutions):
        place, before, after, candidates = group
        try:
            question = ClozeQuestion(
                context=(),
                query=tuple(split(f"{case(before)}{BLANK}{case(after)}")),
                answer=" ".join(split(case(answer))),
                candidates=tuple(
                    " ".join(split(case(candidate))) for candidate in candidates
                ),
            )
        except ValueError as error:
            raise ValueError(f"{questions}, line {place}: {error}") from error
        made.append(question)
    return made


def _numbered_lines(path):
    lines = [
        (number, line.removeprefix("\ufeff").strip())
        for number, line in enumerate(read_lines(path), 1)
    ]
    lines = [(number, line) for number, line in lines if line]
    if not lines:
        raise ValueError(
            f"The file {path} is empty: expected at least one line of text."
        )
    return lines


def _read_numbered(questions, lines, answers, solutions):
    first = _parse_numbered(questions, *lines[0])[0]
    groups = []
    for index, (place, line) in enumerate(lines):
        question, letter = divmod(index, 5)
        expected = (first + question, _LETTERS[letter])
        *received, before, word, after = _parse_numbered(questions, place, line)
        if tuple(received) != expected:
            raise ValueError(
                f"{questions}, line {place}: questions are numbered one by "
                f"one, with lines a to e. Expected {first + question}"
                f"{_LETTERS[letter]}). Received: {line[:40]!r}"
            )
        if not letter:
            groups.append((place, before, after, []))
        if (before, after) != groups[-1][1:3]:
            raise ValueError(
                f"{questions}, line {place}: the five sentences of a question "
                "must differ only in the words in brackets. Received: "
                f"{line!r}, other than line {groups[-1][0]}"
            )
        groups[-1][3].append(word)
    _check_counts(questions, lines, answers, solutions)
    for index, (group, (place, line)) in enumerate(zip(groups, solutions)):
        number, letter, _, answer, _ = _parse_numbered(answers, place, line)
        if number != first + index:
            raise ValueError(
                f"{answers}, line {place}: expected the answer of question "
                f"{first + index}. Received: {line[:40]!r}"
            )
        right = dict(zip(_LETTERS, group[3])).get(letter)
        if answer != right:
            raise _no_candidate(answers, place, line, questions, group)
        yield group, answer


def _parse_numbered(path, place, line):
    match = _NUMBERED.match(line)
    if not match or not match[4].strip():
        raise ValueError(
            f"{path}, line {place}: expected a number, a letter and a sentence "
            "with one word in brackets, such as '1a) You are [crying] alone.'. "
            f"Received: {line[:80]!r}"
        )
    return int(match[1]), match[2], match[3], match[4].strip(), match[5]


def _read_enclosed(questions, lines, answers, solutions):
    sentences = [_parse_enclosed(questions, *line) for line in lines]
    _check_counts(questions, lines, answers, solutions)
    for index, (place, line) in enumerate(solutions):
        five = sentences[5 * index : 5 * index + 5]
        begin, end = _blank(five)
        first = lines[5 * index][0]
        if not begin and not end:
            raise ValueError(
                f"{questions}, line {first}: the five sentences from here on "
                "must differ in one place only. Received: sentences that "
                "neither begin nor end alike. Lines may be missing before."
            )
        candidates = [
            " ".join(words[begin : len(words) - end]) for words in five
        ]
        words = five[0]
        before = "".join(f"{word} " for word in words[:begin])
        after = "".join(f" {word}" for word in words[len(words) - end :])
        group = (first, before, after, candidates)
        answer = _parse_enclosed(answers, place, line)
        if answer not in five:
            raise _no_candidate(answers, place, line, questions, group)
        yield group, candidates[five.index(answer)]


def _parse_enclosed(path, place, line):
    match = _ENCLOSED.match(line)
    if not match or not match[1].strip():
        raise ValueError(
            f"{path}, line {place}: expected a sentence '<s> ... </s>', of the "
            f"form of the first question. Received: {line[:80]!r}"
        )
    return match[1].split()


def _blank(sentences):
    """Numbers of words that sentences share at the beginning and at the end,
    leaving at least one word of each, its candidate."""
    shortest = min(map(len, sentences))

    def shared(sentences, most):
        columns = itertools.islice(zip(*sentences), most)
        same = itertools.takewhile(lambda words: len(set(words)) == 1, columns)
        return sum(1 for _ in same)

    begin = shared(sentences, shortest - 1)
    backwards = [words[::-1] for words in sentences]
    return begin, shared(backwards, shortest - 1 - begin)


def _check_counts(questions, lines, answers, solutions):
    if len(lines) != 5 * len(solutions):
        raise ValueError(
            f"{questions} must have five lines for each line of {answers}. "
            f"Received: {len(lines)} lines, the last of them line "
            f"{lines[-1][0]}, for {len(solutions)} answers, the last of them "
            f"line {solutions[-1][0]}. Take both files of the same form, whole."
        )


def _no_candidate(answers, place, line, questions, group):
    return ValueError(
        f"{answers}, line {place}: the answer must be one of the candidates "
        f"{group[3]} of the question at line {group[0]} of {questions}. "
        f"Received: {line!r}"
    )

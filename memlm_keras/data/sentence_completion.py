"""The Sentence Completion Challenge (Zweig and Burges, 2011): reads its
questions, and prepares its novels as training text."""

import codecs
import pathlib
import re
import warnings

from memlm_keras.data.cloze import BLANK
from memlm_keras.data.cloze import ClozeQuestion
from memlm_keras.data.tables import naming
from memlm_keras.data.text_store import load_syntok
from memlm_keras.data.text_store import read_lines
from memlm_keras.files import atomic_path

_LETTERS = "abcde"
_NUMBERED = re.compile(r"(\d+)([a-z])\)\s*([^\[\]]*)\[([^\[\]]+)\]([^\[\]]*)$")
_ENCLOSED = re.compile(r"<s>\s(.*)\s</s>$")

_GUTENBERG = r"(THE |THIS )?(COPYRIGHTED )?PROJECT GUTENBERG"
_HEADER = re.compile(
    rf"\s*(\*{{3}} ?START OF {_GUTENBERG}|\*END ?\*? ?THE SMALL PRINT)", re.I
)
_FOOTER = re.compile(rf"\s*(\*{{3}} ?)?(THE )?END OF {_GUTENBERG}", re.I)
_MARKER_END = re.compile(r"(\*{3}|\*END\*)\s*$")

_STRAIGHT_QUOTES = str.maketrans("‘’“”", "''\"\"")

# === Questions ===


def completion_questions(questions, answers, lowercase=True, tokenize="syntok"):
    """Loads the questions and answers of the Sentence Completion Challenge.

    * `Holmes.machine_format.questions.txt` and `...answers.txt`: lines
      `1a) You are [crying] alone.` to `1e) ...`, and the correct line for each
      question. Questions are numbered consecutively.
    * `Holmes.lm_format.questions.txt` and `...answers.txt`: the sentences
      `<s> You are crying alone </s>`, without the final full stop. The five
      sentences of a question differ at the blank.

    The first line determines the format. For a model that was trained on novels
    from `prepare_novels`, pass the same `lowercase` and `tokenize` as to
    `prepare_novels`, and the `machine_format` files. The `machine_format` files
    have final full stops, as the novels do. The challenge's archive recommends
    the first 520 of the 1,040 questions for validation and the others for
    testing; Tran et al. (2016) report results for all questions.

    Args:
        questions, answers: Paths of the two UTF-8 files.
        lowercase: Whether to lowercase sentences and candidates.
        tokenize: `"syntok"`, `None` to split at white space, or a function
            from a string to a list of tokens.

    Returns:
        List of `ClozeQuestion` with an empty context and five candidates.

    Raises:
        FileNotFoundError: A file does not exist.
        ValueError: A file is empty, not UTF-8 or in another format, an answer
            is not a candidate, or the numbers of questions and answers differ.
        ImportError: `"syntok"` is not installed.

    Example:

    >>> questions = completion_questions(
    ...     "Holmes.machine_format.questions.txt",
    ...     "Holmes.machine_format.answers.txt",
    ... )
    >>> questions[0].query, questions[0].answer
    (('you', 'are', 'XXXXX', 'alone', '.'), 'crying')
    """
    split = _word_splitter(tokenize)
    case = str.lower if lowercase else str
    lines, solutions = _lines(questions), _lines(answers)
    read = _read_numbered
    if lines[0][1].startswith("<s>"):
        read = _read_enclosed
    result = []
    for place, before, after, candidates, answer in read(
        questions, lines, answers, solutions
    ):
        with naming(f"{questions}, line {place}"):
            question = ClozeQuestion(
                context=(),
                query=tuple(split(f"{case(before)}{BLANK}{case(after)}")),
                answer=" ".join(split(case(answer))),
                candidates=tuple(
                    " ".join(split(case(candidate))) for candidate in candidates
                ),
            )
        result.append(question)
    return result


def _lines(path):
    """Returns pairs `(line number, line)`, without blank lines."""
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


# Each format has its own reader. For each question, a reader yields the line
# number, the text before and after the blank, candidates and answer.


def _read_numbered(questions, lines, answers, solutions):
    first = _parse_numbered(questions, *lines[0])[0]
    groups = []
    for index, (place, line) in enumerate(lines):
        question, letter = divmod(index, 5)
        *label, before, word, after = _parse_numbered(questions, place, line)
        if label != [first + question, _LETTERS[letter]]:
            raise ValueError(
                f"{questions}, line {place}: lines must be numbered in order. "
                f"Expected {first + question}{_LETTERS[letter]}). Received: "
                f"{line[:40]!r}"
            )
        if not letter:
            groups.append((place, before, after, []))
        if (before, after) != groups[-1][1:3]:
            raise ValueError(
                f"{questions}, line {place}: the five sentences of a question "
                "must differ only in the words in brackets. Received: "
                f"{line!r}, unlike line {groups[-1][0]}"
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
        if answer != dict(zip(_LETTERS, group[3])).get(letter):
            raise _no_candidate(answers, place, line, questions, group)
        yield *group, answer


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
        # Each candidate has at least one word.
        longest = min(map(len, five)) - 1
        begin = _shared(five, longest)
        end = _shared([words[::-1] for words in five], longest - begin)
        first = lines[5 * index][0]
        if not begin and not end:
            raise ValueError(
                f"{questions}, line {first}: the five sentences from here on "
                "must differ in one place only. Received: sentences without "
                "a common beginning or end. Earlier lines may be missing."
            )
        candidates = [
            " ".join(words[begin : len(words) - end]) for words in five
        ]
        before = "".join(f"{word} " for word in five[0][:begin])
        after = "".join(f" {word}" for word in five[0][len(five[0]) - end :])
        group = (first, before, after, candidates)
        answer = _parse_enclosed(answers, place, line)
        if answer not in five:
            raise _no_candidate(answers, place, line, questions, group)
        yield *group, candidates[five.index(answer)]


def _parse_enclosed(path, place, line):
    match = _ENCLOSED.match(line)
    if not match or not match[1].strip():
        raise ValueError(
            f"{path}, line {place}: expected a sentence '<s> ... </s>', like "
            f"the first question. Received: {line[:80]!r}"
        )
    return match[1].split()


def _shared(sentences, longest):
    """Counts the words with which all sentences begin, up to `longest`."""
    for place in range(longest):
        if len({words[place] for words in sentences}) > 1:
            return place
    return longest


def _check_counts(questions, lines, answers, solutions):
    if len(lines) != 5 * len(solutions):
        raise ValueError(
            f"{questions} must have five lines for each line of {answers}. "
            f"Received: {len(lines)} lines for {len(solutions)} answers. Give "
            "both complete files in one format."
        )


def _no_candidate(answers, place, line, questions, group):
    return ValueError(
        f"{answers}, line {place}: the answer must be one of the candidates "
        f"{group[3]} of the question at line {group[0]} of {questions}. "
        f"Received: {line!r}"
    )


# === Novels ===


def prepare_novels(
    folder,
    output,
    lowercase=True,
    tokenize="syntok",
    encoding="cp1252",
    verbose=1,
):
    """Prepares novels from Project Gutenberg as training text.

    Each `.txt` file becomes a file of the same name, with one sentence per line
    and spaces between tokens. `load_documents(output)` splits the novels into
    training, validation and test; `load_text` reads one folder for each split.
    Project Gutenberg's headers and footers are removed, and so are sentences
    without a letter or digit. `tokenize="syntok"` also separates dashes,
    straightens quotes and removes underscores, which mark italics.

    The rules of the challenge exclude the sources of its questions: *The Sign
    of the Four*, *The Hound of the Baskervilles*, *The Adventures* and *The
    Memoirs of Sherlock Holmes* and *The Valley of Fear*.

    Args:
        output: Path of the new folder, written completely or not at all.
        lowercase: Whether to lowercase the text.
        tokenize: See `completion_questions`. If `tokenize` is a function, the
            function is called once for each sentence.
        encoding: Encoding of files that are not UTF-8.

    Returns:
        Two integers: the number of sentences, and the number of tokens.

    Raises:
        FileNotFoundError: There is no `.txt` file in `folder`.
        FileExistsError: `output` exists.
        ValueError: Two files differ only in `.txt` and `.TXT`, the
            encoding is unknown or wrong for a file, or a novel has no sentence.
        ImportError: `syntok`, which splits sentences, is not installed.
        OSError: `output` cannot be written.

    Warns:
        UserWarning: A file lacks a marker line before or after the novel, and
            is read from its first line or to its last line.

    Example:

    >>> prepare_novels("Holmes_Training_Data", "novels")
    >>> corpus = memlm_keras.data.load_documents(
    ...     "novels", validation=0.01, test=0.01, vocabulary_size=64_000
    ... )
    """
    # Fail early if syntok is not installed.
    load_syntok("segmenter")
    split = _word_splitter(tokenize)
    case = str.lower if lowercase else str
    try:
        codecs.lookup(encoding)
    except LookupError as error:
        raise ValueError(
            "`encoding` must name an encoding of Python, such as 'cp1252' "
            f"or 'latin-1'. Received: encoding={encoding!r}"
        ) from error
    files = _novels(pathlib.Path(folder), pathlib.Path(output))
    # Read all files before writing, so that errors come early.
    unmarked = [file.name for file in files if not _read(file, encoding)[1]]
    if unmarked:
        warnings.warn(
            f"{len(unmarked)} of {len(files)} novels lack a marker line of "
            "Project Gutenberg, and are read from the first line, or to the "
            f"last: {', '.join(unmarked[:10])}",
            stacklevel=2,
        )
    sentences = tokens = 0
    from keras.utils import Progbar

    progress = Progbar(len(files), verbose=verbose, unit_name="novel")
    with atomic_path(output) as temporary:
        temporary.mkdir()
        for file in files:
            text, _ = _read(file, encoding)
            lines = [split(case(sentence)) for sentence in _sentences(text)]
            if not lines:
                raise ValueError(
                    f"The novel {file} holds no sentence between its markers. "
                    "Correct or remove it."
                )
            written = "".join(f"{' '.join(line)}\n" for line in lines)
            (temporary / f"{file.stem}.txt").write_bytes(written.encode())
            sentences += len(lines)
            tokens += sum(map(len, lines))
            progress.add(1)
    return sentences, tokens


def _novels(folder, output):
    if output.exists():
        raise FileExistsError(
            f"`output` must be a new folder. Received: {output}, which exists. "
            "Remove it, or choose another."
        )
    # The novels of the Sentence Completion Challenge end with `.TXT`.
    files = sorted(
        path
        for path in folder.glob("*")
        if path.suffix.lower() == ".txt" and path.is_file()
    )
    if not files:
        raise FileNotFoundError(
            f"`folder` must have novels as .txt files. Received: {folder}, "
            "which has none."
        )
    if len({path.stem for path in files}) < len(files):
        raise ValueError(
            f"`folder` must not hold two files that differ only in `.txt` and "
            f"`.TXT`. Received: {folder}. Rename one of them."
        )
    return files


def _read(file, encoding):
    """Returns `(text between the markers, whether both markers exist)`."""
    data = file.read_bytes()
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        try:
            text = data.decode(encoding)
        except UnicodeDecodeError as error:
            raise ValueError(
                f"The novel {file} is neither UTF-8 nor {encoding}: byte "
                f"0x{data[error.start]:02x} at byte offset {error.start}. "
                "Give another `encoding`, such as 'latin-1'."
            ) from error
    lines = re.split("\r\n|\r|\n", text)
    # Project Gutenberg's license follows the footer of a novel, and may contain
    # a header line, too. So only lines before the footer are searched.
    footers = (at for at, line in enumerate(lines) if _FOOTER.match(line))
    end = next(footers, None)
    headers = [at for at, line in enumerate(lines[:end]) if _HEADER.match(line)]
    begin = headers[-1] + 1 if headers else 0
    if headers:
        # A header may have several lines; the last ends with `***` or `*END*`.
        marker = lines[begin - 1 : begin + 3]
        ends = (
            at for at, line in enumerate(marker) if _MARKER_END.search(line)
        )
        begin += next(ends, 0)
    return "\n".join(lines[begin:end]), bool(headers) and end is not None


def _sentences(text):
    """Yields the sentences of a text as strings without line breaks."""
    segmenter, words = load_syntok("segmenter"), _syntok_words()
    for paragraph in re.split(r"\n\s*\n", text):
        paragraph = " ".join(paragraph.split())
        for tokens in segmenter.segment(words.tokenize(paragraph)):
            sentence = "".join(map(str, tokens)).strip()
            # Drop sentences without a letter or digit, such as lines of stars.
            if any(map(str.isalnum, sentence)):
                yield sentence


# === Words ===


def _word_splitter(tokenize):
    """Returns a function from a string to its tokens."""
    if tokenize is None:
        return str.split
    if callable(tokenize):
        return tokenize
    if tokenize != "syntok":
        raise ValueError(
            '`tokenize` must be "syntok", None (white space) or a function '
            f"from a string to its tokens. Received: tokenize={tokenize!r}"
        )
    words = _syntok_words()

    def split(text):
        text = text.translate(_STRAIGHT_QUOTES).replace("_", " ")
        # syntok does not split at dashes without spaces around them.
        text = re.sub("-{2,}|—", " -- ", text)
        return [token.value for token in words.tokenize(text)]

    return split


def _syntok_words():
    # By default syntok drops hyphens and turns "n't" into "not".
    return load_syntok("tokenizer").Tokenizer(
        emit_hyphen_or_underscore_sep=True, replace_not_contraction=False
    )

"""The Microsoft Research Sentence Completion Challenge: its questions.

Sources: Zweig and Burges (2011), *The Microsoft Research Sentence Completion
Challenge*, and the README of its archive, which describes the files. Tran et
al. (2016), *Recurrent Memory Networks for Language Modeling*, answer it by the
probability of the whole sentence.
"""

import itertools
import re

from memlm_keras.data.cloze import BLANK
from memlm_keras.data.cloze import ClozeQuestion
from memlm_keras.data.segmentation import tokenizer
from memlm_keras.data.text import read_lines

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
      blank is what the five do not have in common.

    The first line tells the form. Blank lines mean nothing. To learn on novels
    of `prepare_novels`, give the same `lowercase` and `tokenize` to both, and
    take the machine form: the other lacks the stop that ends their sentences.
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
            not the one that must follow, an answer is none of its question's
            candidates, or the files do not hold as many questions.
        ImportError: `"syntok"` is not installed.

    Example:

    >>> questions = completion_questions(
    ...     "Holmes.machine_format.questions.txt",
    ...     "Holmes.machine_format.answers.txt",
    ... )
    >>> questions[0].query, questions[0].answer
    (('you', 'are', 'XXXXX', 'alone', '.'), 'crying')
    """
    split = tokenizer(tokenize)
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
        number, found, *parts = _parse_numbered(questions, place, line)
        if (number, found) != expected:
            raise ValueError(
                f"{questions}, line {place}: questions are numbered one by "
                f"one, with lines a to e. Expected {first + question}"
                f"{_LETTERS[letter]}). Received: {line[:40]!r}"
            )
        if not letter:
            groups.append((place, *parts[::2], []))
        if parts[::2] != list(groups[-1][1:3]):
            raise ValueError(
                f"{questions}, line {place}: the five sentences of a question "
                "must be the same but for the words in brackets. Received: "
                f"{line!r}, other than line {groups[-1][0]}"
            )
        groups[-1][3].append(parts[1])
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
                "must be the same but for one place. Received: sentences that "
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
    """Counts the words that sentences share, at the begin and at the end.

    At least one word of each is left, which is its candidate.
    """
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

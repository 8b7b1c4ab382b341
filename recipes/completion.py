"""The Sentence Completion Challenge, answered by the models of a recipe."""

import functools
import pathlib
import zlib

import run_folders
import tables
from absl import app
from absl import flags

FLAGS = flags.FLAGS

TABLE = "completion"
_FILES = ("questions", "answers")


def define_flags():
    """Defines the flags of recipes that answer the questions."""
    flags.DEFINE_string(
        "questions",
        None,
        "Questions of the Sentence Completion Challenge to answer when the "
        "model is trained; a finished run is not trained again. A file such as "
        "Holmes.machine_format.questions.txt, for a model of novels prepared "
        "by memlm_keras.data.prepare_novels.",
    )
    flags.DEFINE_string("answers", None, "With --questions: their answers.")


def check_flags():
    """Refuses flags that contradict each other, and files that are not there.

    Raises:
        app.UsageError: if there are such.
    """
    given = [name for name in _FILES if FLAGS[name].value is not None]
    if len(given) == 1 or (FLAGS.table == TABLE and not given):
        raise app.UsageError(
            f"--questions and --answers need each other, and --table={TABLE} "
            f"needs both. Received: {', '.join(given) or 'none of them'}"
        )
    if given and FLAGS.table not in (None, TABLE):
        raise app.UsageError(
            f"--questions contradicts --table={FLAGS.table}; choose one run "
            f"with --model, or --table={TABLE}."
        )
    for name in given:
        if not pathlib.Path(FLAGS[name].value).is_file():
            raise app.UsageError(
                f"There is no file --{name}={FLAGS[name].value}."
            )


def check_run(can_answer):
    """Refuses a model that cannot answer, and files that cannot be read.

    Called before anything is trained.

    Args:
        can_answer: bool, whether the model is a neural one.

    Raises:
        app.UsageError: if the model cannot answer.
        ValueError: of `memlm_keras.data.completion_questions`.
    """
    if FLAGS.questions is None:
        return
    if not can_answer:
        raise app.UsageError(
            "--questions needs a neural model, such as completion_rm_256. "
            f"Received: --model={FLAGS.model}"
        )
    _questions()


def answer(model, vocabulary):
    """Accuracy on all questions, as plain values for `results.json`.

    Args:
        model: `LanguageModel`.
        vocabulary: `Vocabulary`.

    Returns:
        A dict; empty if there are no questions to answer.
    """
    if FLAGS.questions is None:
        return {}
    found = run_folders.answer(model, _questions(), vocabulary)
    return {TABLE: {**found, "files": _identity()}}


def measures():
    """What a table measures: the accuracy on these very questions."""
    made_with = FLAGS.questions and ((TABLE, "files"), _identity())
    return [
        tables.Measure("accuracy", (TABLE, "accuracy"), 3, made_with=made_with)
    ]


def _identity():
    """Numbers that say which questions and answers these are."""
    return [
        zlib.crc32(pathlib.Path(FLAGS[name].value).read_bytes())
        for name in ("questions", "answers")
    ]


@functools.cache
def _questions():
    from memlm_keras.data import completion_questions

    return completion_questions(FLAGS.questions, FLAGS.answers)

"""The sentence that pictures show: a given one, or one of the test text."""

import numpy as np
from absl import app
from absl import flags

FLAGS = flags.FLAGS

_LONGEST = 20  # Words of a sentence that is chosen to be drawn.


def define_flags(condition=""):
    """Defines the flag of recipes that draw a sentence.

    Args:
        condition: string, begins what --help says of it.
    """
    flags.DEFINE_string(
        "sentence",
        None,
        f"{condition}the sentence, its words as the corpus has them, with "
        "spaces between them; by default the longest of the test text with at "
        f"most {_LONGEST} words, all of them known.",
    )


def check_flags():
    """Refuses a sentence without words.

    Raises:
        app.UsageError: for such a sentence.
    """
    if FLAGS.sentence is not None and not FLAGS.sentence.split():
        raise app.UsageError(
            "--sentence must hold at least one word. Received: "
            f"{FLAGS.sentence!r}"
        )


def words(corpus):
    """Words of the sentence to draw, as `--sentence` says.

    Args:
        corpus: `Corpus`.
    """
    from memlm_keras.data import sentence_starts

    vocabulary = corpus.vocabulary
    unknown = vocabulary.unknown_id
    if FLAGS.sentence is not None:
        given = FLAGS.sentence.split()
        known = vocabulary.encode(given) != unknown
        if not known.all():
            lacking = [word for word, has in zip(given, known) if not has]
            print("The vocabulary lacks, of --sentence:", " ".join(lacking))
        return given
    tokens = np.asarray(corpus.test.tokens)

    def preference(sentence):
        short = len(sentence) <= _LONGEST + 1
        length = len(sentence) if short else -len(sentence)
        return short, unknown not in sentence, length

    starts = sentence_starts(tokens, vocabulary.end_of_sentence_id)
    chosen = max(np.split(tokens, starts[1:]), key=preference)
    return vocabulary.decode(chosen[:-1])

"""Scores sentences with an exported language model.

    python recipes/score_exported.py saved_models/<name>/<version> "a sentence"
    python recipes/score_exported.py saved_models/<name>/<version> < sentences

Prints the natural log-probability of each word and of the end of the sentence,
their sum and the perplexity. Needs TensorFlow, absl and a model exported by
`memlm_keras.serving.export`, but neither Keras nor memlm_keras. Models whose
tokens are subwords, such as memlm/english, also need tensorflow-text.
"""

import math
import pathlib
import sys

from absl import app

END = "(end of sentence)"


def main(arguments):
    if len(arguments) < 2:
        raise app.UsageError(
            "Give the folder of an exported model, such as "
            "saved_models/<name>/<version>, and sentences to score."
        )
    folder, *sentences = arguments[1:]
    score = load_score(pathlib.Path(folder))
    total, length = 0.0, 0
    count = 0
    for sentence in sentences or read_lines():
        words, log_probabilities = score(sentence)
        report(words, log_probabilities)
        total += sum(log_probabilities)
        length += len(log_probabilities)
        count += 1
    if count > 1:
        print(f"{count} sentences: {summary(total, length)}")


def load_score(folder):
    """Returns a function that maps a sentence to its tokens and
    log-probabilities."""
    if not (folder / "saved_model.pb").is_file():
        versions = sorted(path.parent for path in folder.glob("*/*.pb"))
        hint = f" Try: {versions[-1]}" if versions else ""
        raise app.UsageError(
            "The first argument must be the folder of an exported model, "
            f"saved_models/<name>/<version>. Received: {folder}, which holds "
            f"no saved_model.pb.{hint}"
        )
    # Import TensorFlow, which takes seconds, after the checks.
    import tensorflow as tf

    if b"SentencepieceOp" in (folder / "saved_model.pb").read_bytes():
        try:
            # This import registers SentencePiece's operators with TensorFlow.
            import tensorflow_text  # noqa: F401
        except ImportError:
            raise app.UsageError(
                "This model splits words into pieces and needs "
                "tensorflow-text: pip install tensorflow-text"
            ) from None
    signatures = tf.saved_model.load(str(folder)).signatures
    if "score" not in signatures:
        raise app.UsageError(
            "The model must have a signature `score`, as "
            "`memlm_keras.serving.export` writes for language models. "
            f"Received: {folder} with {sorted(signatures)}"
        )

    def score(sentence):
        outputs = signatures["score"](text=tf.constant([sentence]))
        words = [word.decode() for word in outputs["tokens"][0].numpy()]
        log_probabilities = outputs["log_probabilities"][0].numpy().tolist()
        return [*words[:-1], END], log_probabilities

    return score


def read_lines():
    if sys.stdin.isatty():
        print("Type sentences, one per line, and end with Ctrl-D:")
    for line in sys.stdin:
        yield line.rstrip("\n")


def report(words, log_probabilities):
    width = max(len(word) for word in words)
    for word, value in zip(words, log_probabilities, strict=True):
        print(f"{word:{width}} {value:10.4f}")
    print(summary(sum(log_probabilities), len(words)), end="\n\n")


def summary(total, length):
    return (
        f"log-probability {total:.4f}, {length} predicted tokens, perplexity "
        f"{math.exp(-total / length):.2f}"
    )


if __name__ == "__main__":
    app.run(main)

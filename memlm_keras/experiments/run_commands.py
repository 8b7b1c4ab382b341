"""Commands that use a trained model: what each does, once Keras is there."""

import math
import pathlib
import sys

import keras
import numpy as np

from memlm_keras import serving
from memlm_keras.data import PairBatches
from memlm_keras.data import Vocabulary
from memlm_keras.experiments import figures
from memlm_keras.experiments import run_folder
from memlm_keras.experiments import settings
from memlm_keras.experiments.experiment import again
from memlm_keras.experiments.options import UsageError
from memlm_keras.experiments.options import read_options
from memlm_keras.models import EntailmentClassifier

_END = "(end of sentence)"
_TOP_K = 10


def score(positional, values, command):
    """Prints the log-probability of each word, and of the end."""
    model, vocabulary = _load(positional.run, "score")
    total, length, count = 0.0, 0, 0
    end = vocabulary.end_of_sentence_id
    for text in positional.text or _lines():
        ids = [end, *vocabulary.encode(text), end]
        found = np.asarray(model.score(np.asarray([ids], "int32")))[0]
        words = [*vocabulary.decode(ids[1:-1]), _END]
        width = max(map(len, words))
        for word, value in zip(words, found, strict=True):
            print(f"{word:{width}} {value:10.4f}")
        print(_summary(found.sum(), len(found)), end="\n\n")
        total, length = total + found.sum(), length + len(found)
        count += 1
    if count > 1:
        print(f"{count} sentences: {_summary(total, length)}")


def _lines():
    if sys.stdin.isatty():
        print("Type sentences, one a line, and end with Ctrl-D:")
    for line in sys.stdin:
        if line.strip():
            yield line.rstrip("\n")


def _summary(total, length):
    return (
        f"log-probability {total:.4f}, {length} predicted tokens, perplexity "
        f"{math.exp(-total / length):.2f}"
    )


def generate(positional, values, command):
    """Prints what a model goes on with."""
    model, vocabulary = _load(positional.run, "generate")
    if "seed" in values:
        keras.utils.set_random_seed(values["seed"])
    prompt = positional.prompt or vocabulary.end_of_sentence
    texts = model.generate(
        [prompt] * values.get("sentences", 3),
        values.get("max_length", 50),
        values.get("sampler", "top_k"),
        vocabulary=vocabulary,
        stop_token_ids=[vocabulary.end_of_sentence_id],
    )
    end = vocabulary.end_of_sentence
    for text in texts:
        print(text.removeprefix(end).removesuffix(end).strip())


def attention(positional, values, command):
    """Draws what a trained model shows."""
    verbose = values.pop("verbose", 1)
    values = read_options(settings.PICTURES, values)
    folder = _run(positional.run)
    experiment = again(folder.recipe(), folder)
    figures.check_pictures(experiment, values)
    drawn = experiment.task.draw(
        experiment, folder.model(), folder, values, verbose
    )
    if not drawn:
        raise UsageError(
            f"{experiment.preset_name} attends to nothing that could be drawn."
        )
    for path in drawn:
        print(path)


def export(positional, values, command):
    """Writes a SavedModel."""
    model, vocabulary = _load(positional.run)
    folder = run_folder.find(positional.run)
    name = pathlib.Path(positional.run).resolve()
    name = name.stem if folder is None else folder.path.resolve().name
    path = pathlib.Path(positional.folder or pathlib.Path("saved_models", name))
    if not path.name.isdecimal():
        versions = [int(p.name) for p in path.glob("*") if p.name.isdecimal()]
        path = path / str(max(versions, default=0) + 1)
    if isinstance(model, EntailmentClassifier):
        extra = {"labels": _run(positional.run).results()["labels"]}
    else:
        extra = {"top_k": min(_TOP_K, model.vocabulary_size)}
    serving.export(model, path, vocabulary=vocabulary, **extra)
    print(f"Exported for TensorFlow Serving: {path}")
    print(
        "  tensorflow_model_server --rest_api_port=8501 "
        f"--model_name={path.parent.name} "
        f"--model_base_path={path.parent.resolve()}"
    )


def predict(positional, values, command):
    """Prints what a classifier says of a pair."""
    folder = _run(positional.run)
    model, vocabulary = _load(positional.run)
    if not isinstance(model, EntailmentClassifier):
        raise UsageError(
            f"{positional.run} is no classifier of sentence pairs."
        )
    ids = [
        vocabulary.encode(t)
        for t in (positional.premise, positional.hypothesis)
    ]
    if not all(map(len, ids)):
        raise UsageError("PREMISE and HYPOTHESIS must hold words.")
    batches = PairBatches([ids[0]], [ids[1]], [0], 1)
    logits = model.predict(batches, verbose=0)
    probabilities = keras.ops.convert_to_numpy(keras.ops.softmax(logits))[0]
    labels = folder.results()["labels"]
    for index in np.argsort(-probabilities):
        print(f"{probabilities[index]:.3f} {labels[index]}")


def _run(path):
    folder = run_folder.find(path)
    if folder is None:
        raise UsageError(
            f"{path} is a model without its run folder, which this needs."
        )
    return folder


def _load(path, method=None):
    """The model of a run, which must have a method, and its vocabulary."""
    folder = run_folder.find(path)
    model_path = pathlib.Path(path) if folder is None else folder.model_path
    model = run_folder.load_model(model_path)
    if method is not None and not hasattr(model, method):
        raise UsageError(
            f"{path} is no language model, and cannot {method}: it is of a "
            f"{type(model).__name__}."
        )
    vocabulary = getattr(model, "vocabulary", None)
    if vocabulary is None:
        words = model_path.with_name("vocabulary.json")
        if not words.is_file():
            raise UsageError(
                f"{model_path} does not know its words: there is no {words}."
            )
        vocabulary = Vocabulary.from_file(words)
    return model, vocabulary

"""Commands that use a trained model: what each does, once Keras is there."""

import contextlib
import math
import pathlib
import shlex
import sys

import keras
import numpy as np

from memlm_keras import analysis
from memlm_keras import presets
from memlm_keras import serving
from memlm_keras.data.text_store import read_lines
from memlm_keras.evaluation import DynamicEvaluator
from memlm_keras.evaluation import surprisal as surprisals
from memlm_keras.experiments import figures
from memlm_keras.experiments import run_folder
from memlm_keras.experiments import settings
from memlm_keras.experiments.experiment import again
from memlm_keras.experiments.options import KNESER_NEY
from memlm_keras.experiments.options import UsageError
from memlm_keras.experiments.options import read_options
from memlm_keras.experiments.tasks import kind_of
from memlm_keras.models import Ensemble

_END = "(end of sentence)"
_TOP_K = 10
# Where a run is written, by its name.
_WHERE = {
    "tf_saved_model": "saved_models/{name}",
    "onnx": "{name}.onnx",
    "litert": "{name}.tflite",
    "triton": "model_repository/{name}",
}


def score(positional, values, command):
    """Prints the log-probability of each word, and of the end."""
    model = _load(positional.run, "score")
    vocabulary = model.vocabulary
    total, length, count = 0.0, 0, 0
    for text in positional.text or _lines():
        found = np.asarray(model.score(text))
        words = [*vocabulary.decode(vocabulary.encode(text)), _END]
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


def surprisal(positional, values, command):
    """Writes a table of the words of a file, a line each."""
    models = [
        _counted(path) or (_load(path, "score"), None)
        for path in positional.run
    ]
    model, vocabulary = models[0]
    if len(models) > 1:
        model = Ensemble([each for each, _ in models])
    if "rate" in values:
        model = DynamicEvaluator(model, values["rate"])
    elif "segment_length" in values:
        raise UsageError("--segment_length is for --rate.")
    lines = list(read_lines(positional.file))
    if not any(map(str.strip, lines)):
        raise UsageError(f"{positional.file} has no word.")
    found = surprisals(
        model,
        lines,
        vocabulary,
        unit=values.get("unit", "bits"),
        reset=values.get("reset", False),
        segment_length=values.get("segment_length"),
    )
    if "out" in values:
        found.write(values["out"])
    else:
        print(found.to_tsv(), end="")
    if unknown := found.unknown.sum():
        print(
            f"{unknown} of {len(found)} tokens are the unknown word, or are "
            "read as it.",
            file=sys.stderr,
        )


def _counted(path):
    """The model of a run that only counts, and its vocabulary; or `None`.

    It takes seconds, and no file keeps it.
    """
    folder = run_folder.find(path)
    if folder is None or kind_of(folder.recipe()["preset"]) != KNESER_NEY:
        return None
    # What is said of the corpus is no part of a table.
    with contextlib.redirect_stdout(sys.stderr):
        experiment = again(folder)
        _, model = experiment.task.count(experiment, verbose=0)
    return model, experiment.corpus.vocabulary


def generate(positional, values, command):
    """Prints what a model goes on with."""
    model = _load(positional.run, "generate")
    if "seed" in values:
        keras.utils.set_random_seed(values["seed"])
    end = model.vocabulary.end_of_sentence
    for text in model.generate(
        [positional.prompt or end] * values.get("sentences", 3),
        values.get("max_length", 50),
        values.get("sampler", "top_k"),
    ):
        print(text.removeprefix(end).removesuffix(end).strip())


def attention(positional, values, command):
    """Draws what a trained model shows."""
    if "out" in values:
        _write_page(positional, values)
        return
    verbose = values.pop("verbose", 1)
    pictures = read_options(
        settings.PICTURES, {**values, "sentence": positional.text}
    )
    folder = run_folder.find(positional.run)
    if folder is None:
        raise UsageError(
            f"{positional.run} is a model without its run folder, which this "
            "needs."
        )
    experiment = again(folder)
    figures.check_pictures(experiment, pictures)
    drawn = experiment.task.draw(
        experiment, folder.model(), folder.path, pictures, verbose
    )
    if not drawn:
        raise UsageError(
            f"{experiment.preset_name} attends to nothing that could be drawn."
        )
    for path in drawn:
        print(path)


def _write_page(positional, values):
    """Writes the page of one text."""
    if positional.text is None or len(values) > 1:
        raise UsageError(
            "--out needs a TEXT, and no other option: memlm attention RUN "
            '"some words" --out=map.html'
        )
    model = _load(positional.run, "attention")
    # Classifiers attend from one sentence to another, and have no such page.
    if getattr(model, "attending", None) is None:
        raise UsageError(
            f"{positional.run} attends to nothing that could be drawn."
        )
    found = analysis.sentence_predictions(
        model, positional.text, top=min(_TOP_K, model.vocabulary_size)
    )
    name = _name_of(positional.run, run_folder.find(positional.run))
    analysis.write_sentence_page(found, values["out"], f"Attention of {name}")
    print(values["out"])


def export(positional, values, command):
    """Writes a model in a format that others run."""
    if "for" in values and "format" in values:
        raise UsageError("--for says the format: leave out --format.")
    format = values.get("for") or values.get("format", "tf_saved_model")
    model = _load(positional.run)
    folder = run_folder.find(positional.run)
    where = _WHERE[format].format(name=_name_of(positional.run, folder))
    path = serving.export(
        model,
        positional.folder or where,
        top_k=min(_TOP_K, model.vocabulary_size),
        overwrite=values.get("overwrite", False),
        format=format,
        quantize=values.get("quantize"),
        contract=values.get("contract"),
        tokens=values.get("tokens"),
        card=_known_of(folder) if format == "tf_saved_model" else None,
    )
    if format == "onnx":
        print(f"Exported for onnxruntime: {path}")
    elif format == "litert":
        print(f"Exported for LiteRT: {path}")
    elif format == "triton":
        print(f"Exported for Triton: {path}")
        place = shlex.quote(str(path.parent.resolve()))
        print(f"  tritonserver --model-repository={place}")
    else:
        print(f"Exported for TensorFlow Serving: {path}")
        print(
            "  tensorflow_model_server --rest_api_port=8501 "
            f"--model_name={shlex.quote(path.resolve().parent.name)} "
            f"--model_base_path={shlex.quote(str(path.parent.resolve()))}"
        )


def _known_of(folder):
    """Facts of a model that its run folder has; none of `None`."""
    results = folder and folder.results()
    if not results:
        return {}
    papers = presets.papers()
    paper = papers.get(results["preset"].partition("/")[0])
    found = {
        "preset": results["preset"],
        "paper": paper and paper.source(),
        "data": results["dataset"],
        "seed": results.get("seed"),
        **{
            f"{split} {name}": f"{results[split][name]:.2f}"
            for split in ("validation", "test")
            for name in ("perplexity", "accuracy")
            if name in results.get(split, {})
        },
        # What a perplexity counts.
        "perplexity": results.get("test", {}).get("protocol"),
        "trained": f"{results['date']}, {results['backend']}",
    }
    return {key: value for key, value in found.items() if value is not None}


def predict(positional, values, command):
    """Prints what a classifier says of a pair."""
    model = _load(positional.run, "classify")
    found = model.classify(positional.premise, positional.hypothesis)
    for label, probability in sorted(found.items(), key=lambda i: -i[1]):
        print(f"{probability:.3f} {label}")


def _name_of(path, folder):
    """Name of a run folder, or of the file of a model without one."""
    if folder is None:
        return pathlib.Path(path).resolve().stem
    return folder.path.resolve().name


def _load(path, method=None):
    """The model of a run, which must have a method and a vocabulary."""
    folder = run_folder.find(path)
    model = run_folder.load_model(path) if folder is None else folder.model()
    if method is not None and not hasattr(model, method):
        raise UsageError(
            f"{path} is of a {type(model).__name__}, which cannot {method}."
        )
    if model.vocabulary is None:
        raise UsageError(
            f"{path} does not know its words: it was made without `vocabulary`."
        )
    return model

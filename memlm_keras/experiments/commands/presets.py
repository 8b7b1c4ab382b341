"""`memlm presets`."""

import fnmatch
import itertools
import re

import memlm_keras as memlm
from memlm_keras import registry
from memlm_keras import trained
from memlm_keras.experiments import options
from memlm_keras.experiments import process
from memlm_keras.experiments.choice import NGRAM_MODELS
from memlm_keras.experiments.command_line import command
from memlm_keras.experiments.datasets import smoothing_of


@command(
    "Lists trained models, and the rows of the papers' tables with their "
    "units, parameters and a description.",
    {"PATTERN": "?"},
    options.OVERRIDES["vocabulary_size"],
    options.OVERRIDES["scale"],
)
def presets(
    pattern: str | None,
    vocabulary_size: int | None = None,
    scale: float | None = None,
):
    pattern, size = pattern or "*", vocabulary_size or 10_000
    rows = memlm.presets.names()
    listed = [*rows, *NGRAM_MODELS]
    names = [*dict.fromkeys((*listed, *trained.SOURCES, *trained.names()))]
    matches = [n for n in names if pattern in n or fnmatch.fnmatch(n, pattern)]
    if not matches:
        raise options.UsageError(
            f"No preset matches {pattern!r}.{options.nearest(pattern, names)}"
        )
    sizes = {} if scale is None else {"scale": scale}
    width = max(map(len, matches))
    print(
        f"{'preset':{width}} {'units':>5} {f'V={size:,}':>12}  "
        "description; weights are random until training"
    )
    last = None
    for name in [name for name in matches if name in rows]:
        paper, row = registry.find(name)
        if paper is not last:
            print(f"\n{paper.source()}")
            last = paper
        if registry.resized(name, row, sizes).parameters is None:
            # Counting parameters needs a model, which needs Keras.
            process.import_keras()
        preset = registry.get(name, **sizes)
        count = memlm.presets.count_params(name, size, **sizes)
        print(
            f"{name:{width}} {preset['units']:>5} {count:>12,}  "
            f"{describe(preset)}",
            flush=True,
        )
    if counted := [name for name in matches if name in NGRAM_MODELS]:
        print("\nModels that count n-grams")
    for name in counted:
        print(f"{name:{width}} {'':>5} {'':>12}  {NGRAM_MODELS[name]}")
    if weights := [name for name in matches if name not in listed]:
        print("\nTrained models, each with its own vocabulary")
    for name in weights:
        count, words = describe_trained(name)
        print(f"{name:{width}} {'':>5} {count:>12}  {words}")


def describe_trained(name):
    """Returns the parameter count and a description of a trained model."""
    if name not in trained.names():
        return "", f"not installed. {trained.SOURCES[name]}"
    folder = trained.find(name)
    metadata = trained.read_metadata(folder)
    card = metadata["card"]
    words = f"{trained.size_of(folder) / 1e6:.1f} MB"
    for measure in ("perplexity", "accuracy"):
        if measure in card:
            words += f", {measure} {card[measure]:.2f}"
    if "text" in card:
        words += f", {card['text']}"
    return f"{metadata['parameters']:,}", words


def describe(preset):
    """Describes a preset, as in "LSTM 834, key value predict of window 5"."""
    model = preset["model"]
    parts = [model[key] for key in ("encoder", "decoder") if key in model]
    layers = model.get("recurrent", parts)
    layers = layers if isinstance(layers, list) else [layers]
    layers += [
        model[k] for k in ("recurrent_hypothesis", "top") if model.get(k)
    ]
    layers += model.get("recurrent_above") or []
    words = []
    for text, equal in itertools.groupby(map(_describe_layer, layers)):
        count = len(list(equal))
        words.append(text if count == 1 else f"{count} x {text}")
    words += [
        _describe_layer(model[part])
        for part in ("memory", "mixture")
        if model.get(part) is not None
    ]
    for kind, noise in (
        ("smoothing", smoothing_of(model)),
        ("data noising", preset.get("noise")),
    ):
        if noise:
            scheme = noise["scheme"].replace("_", " ")
            each = "element-wise " * noise.get("element_wise", False)
            words.append(f"{each}{scheme} {kind}")
    if model.get("tie_embeddings"):
        words.append("tied embeddings")
    return ", ".join(words)


def _describe_layer(layer):
    """Returns a layer's name and main size as text, such as "LSTM 834"."""
    while "cell" in layer["config"]:
        layer = layer["config"]["cell"]
    name = layer["class_name"].removesuffix("Cell")
    # Split camel case into words, but keep acronyms.
    words = re.findall(r"[A-Z]+(?![a-z])|[A-Z][a-z]+", name)
    text = " ".join(w if w.isupper() else w.lower() for w in words)
    config = layer["config"]
    kind = config.get("composition") or config.get("score")
    text = f"{kind} {text}" if kind else text
    if "units" in config:
        return f"{text} {config['units']}"
    for size in ("window", "order", "size"):
        if config.get(size) is not None:
            return f"{text} of {size} {config[size]}"
    return text

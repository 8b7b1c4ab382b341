"""Presets: every row of every paper's tables as a named configuration."""

from memlm_keras.presets import daniluk2017
from memlm_keras.presets import gal2016
from memlm_keras.presets import grave2017
from memlm_keras.presets import kong2019
from memlm_keras.presets import merity2017
from memlm_keras.presets import press2016
from memlm_keras.presets import salton2017
from memlm_keras.presets import tran2016
from memlm_keras.presets import weissenborn2016
from memlm_keras.presets import zaremba2014
from memlm_keras.presets.matching import match_parameters
from memlm_keras.presets.serialized import with_range

__all__ = ["get", "match_parameters", "model_config", "names"]

_PAPERS = {
    "daniluk2017": daniluk2017,
    "tran2016": tran2016,
    "salton2017": salton2017,
    "zaremba2014": zaremba2014,
    "press2016": press2016,
    "gal2016": gal2016,
    "grave2017": grave2017,
    "merity2017": merity2017,
    "kong2019": kong2019,
    "weissenborn2016": weissenborn2016,
}
_SIZES = ("scale", "units", "embedding_dim", "window", "initial_range")
# Arguments that make a row what it is, by the kind of model.
_FIXED = {
    "LanguageModel": (
        *("recurrent", "memory", "recurrent_above", "mixture"),
        "smoothing",
    ),
    "EntailmentClassifier": (
        *("recurrent", "recurrent_hypothesis", "conditioning", "memory"),
        *("top", "pooling", "projection"),
    ),
    "SequenceAutoencoder": ("encoder", "decoder", "conditioning"),
}


def names(kind=None):
    """Returns the names of all presets, `"paper/row"`, in table order.

    Args:
        kind: `None`, or `"LanguageModel"`, `"EntailmentClassifier"` or
            `"SequenceAutoencoder"`: only the presets of such models.
    """
    return [
        f"{paper}/{row}"
        for paper, module in _PAPERS.items()
        for row in module.ROWS
        if kind in (None, _kind_of(module, row))
    ]


def _kind_of(module, row):
    return getattr(module, "KINDS", {}).get(row, "LanguageModel")


def get(name, /, **sizes):
    """Returns a preset as a plain, printable value.

    Args:
        name: string, one of `names()`.
        **sizes: `scale` (float, factor on all sizes; classifiers keep that of
            their embeddings) or `units` and `embedding_dim` (integers),
            `window` (integer), and `initial_range` (float r, weights drawn
            from U(-r, r)), each in place of the paper's. A product of a vector
            of n numbers with such weights grows as r sqrt(n): models of s
            times the paper's sizes begin as the paper's do with 1 / sqrt(s)
            times its range.

    Returns:
        A dict with the keys `name`, `kind` (`"LanguageModel"`,
        `"EntailmentClassifier"` or `"SequenceAutoencoder"`), `source`,
        `model` (arguments of that class but the vocabulary size), `data`,
        `optimizer`, `schedule`, `published`, `units` (of the recurrent layer)
        and `units_divisor`; where the paper's loss is not the mean over tokens,
        `loss`; for `grave2017`, `cache`: the arguments of
        `evaluation.choose_cache` for the trained model, or `None`; and for
        `kong2019`, `noise`: arguments of `smoothing.NoisedBatches`, or `None`,
        `tuned`: the values that were tried, and `also_published`: the numbers
        for a second corpus. It is the caller's own.

    Raises:
        ValueError: for an unknown name, an unknown size, a size that the row
            does not have, a scale or an initial range that is not positive, an
            initial range of a row without one, or `scale` together with the
            size that it scales.

    Example:

    >>> preset = memlm_keras.presets.get("daniluk2017/ngram_4")
    >>> preset["units"]
    968
    """
    paper, _, row = name.partition("/")
    if paper not in _PAPERS or row not in _PAPERS[paper].ROWS:
        raise ValueError(
            f"Unknown preset. Received: {name!r}. Presets are: "
            f"{', '.join(names())}"
        )
    unknown = sorted(set(sizes) - set(_SIZES))
    if unknown:
        raise ValueError(
            f"The sizes of a preset are {', '.join(_SIZES)}. Received: "
            f"{', '.join(unknown)}"
        )
    for size in ("scale", "initial_range"):
        if sizes.get(size, 1.0) <= 0:
            raise ValueError(
                f"`{size}` must be positive. Received: {size}={sizes[size]}"
            )
    scaled = [size for size in ("units", "embedding_dim") if size in sizes]
    if len(scaled) == 2 and "scale" in sizes:
        raise ValueError(
            "`scale` contradicts `units` and `embedding_dim`, which leave "
            f"nothing to scale. Received: {sizes}"
        )
    limit = sizes.pop("initial_range", None)
    preset = {
        "kind": _kind_of(_PAPERS[paper], row),
        **_PAPERS[paper].preset(row, **sizes),
    }
    if limit is not None:
        if "RandomUniform" not in repr(preset["model"]):
            raise ValueError(
                f"The weights of {name!r} are not drawn from a range. "
                f"Received: initial_range={limit}"
            )
        preset["model"] = with_range(preset["model"], limit)
    return preset


def model_config(name, kind="LanguageModel", /, **overrides):
    """Returns the arguments of the model of a preset.

    Args:
        name: string, one of `names()`.
        kind: string, the class that the model is to be of.
        **overrides: sizes as in `get`, and arguments of the model that the
            preset leaves open.

    Raises:
        ValueError: for what `get` refuses, a preset of another kind, and for
            arguments that make the row what it is.
    """
    sizes = {key: overrides.pop(key) for key in _SIZES if key in overrides}
    preset = get(name, **sizes)
    if preset["kind"] != kind:
        raise ValueError(
            f"The preset {name!r} is of a `memlm_keras.{preset['kind']}`: use "
            f"its `from_preset`. Received: a preset for a `{kind}`"
        )
    fixed = sorted(set(overrides) & set(_FIXED[kind]))
    if fixed:
        received = ", ".join(f"{key}={overrides[key]!r}" for key in fixed)
        raise ValueError(
            f"The preset {name!r} fixes {' and '.join(fixed)}; to change them, "
            f"make one of your own (`{kind}`) or choose another preset. "
            f"Received: {received}"
        )
    return {**preset["model"], **overrides}

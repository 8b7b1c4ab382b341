"""Registry of papers and their presets.

This module imports no layers and no models, so that models can import it.
"""

import dataclasses
import difflib
import importlib.metadata
import os
import warnings
from collections.abc import Mapping

from memlm_keras import files
from memlm_keras import trained
from memlm_keras.arguments import require_number

ENTRY_POINTS = "memlm_keras.presets"

SIZES = (
    "scale",
    "units",
    "embedding_dim",
    "window",
    "initial_range",
    "embedding_range",
    "key",
    "l2",
    "output_bias",
    "num_sampled",
)

# Constructor arguments that a preset sets and a user cannot change, by class.
_FIXED = {
    "LanguageModel": {"recurrent", "memory", "recurrent_above", "mixture"},
    "EntailmentClassifier": {
        "recurrent",
        "recurrent_hypothesis",
        "conditioning",
        "memory",
        "top",
        "pooling",
        "projection",
    },
    "SequenceAutoencoder": {"encoder", "decoder", "conditioning"},
}
# Arguments that a user can change only in presets that do not set them.
_FIXED_IF_SET = {"embedding", "head"}

_PAPERS = {}
# Entry points not loaded yet; `None` until installed packages are searched.
_TO_LOAD = None


@dataclasses.dataclass(frozen=True, eq=False)
class Paper:
    """A paper, with its citation, its presets and its tables.

    Args:
        name: string, such as `"daniluk2017"`.
        rows: dict of `memlm_keras.presets.Row`s by name, in the paper's order.
        title: string, or `None`.
        authors: tuple of strings, their last names.
        year: integer, or `None`.
        where: string, conference or archive, or `None`.
        tables: tuple of `memlm_keras.presets.Table`s.
        matched_to: name of a row, or `None`. The hidden sizes of the paper's
            other rows were chosen to give this row's number of parameters.
        unmatched: tuple of strings, names of rows with another number.
    """

    name: str
    rows: Mapping
    title: str | None = None
    authors: tuple = ()
    year: int | None = None
    where: str | None = None
    tables: tuple = ()
    matched_to: str | None = None
    unmatched: tuple = ()

    @property
    def citation(self):
        """String of authors and year, such as `"Daniluk et al. (2017)"`."""
        if not self.authors:
            return self.name
        authors = " and ".join(self.authors)
        if len(self.authors) > 2:
            authors = f"{self.authors[0]} et al."
        return authors if self.year is None else f"{authors} ({self.year})"

    def source(self, where=None):
        """Returns citation, title and place in the paper as one string."""
        parts = (self.citation, self.title, where)
        return ", ".join(part for part in parts if part)


def register(paper, rows=None, **details):
    """Registers a paper, whose rows become presets, and returns the `Paper`.

    An installed package can add papers by an entry point of the group
    `memlm_keras.presets`, which names a module or a function that registers
    papers, and is loaded when presets are first used.

    Args:
        paper: string, the name of the paper, with which preset names begin; or
            a `Paper` without other arguments.
        rows: dict of `memlm_keras.presets.Row`s by name.
        **details: `title`, `authors`, `year`, `where` and `tables` of `Paper`.

    Raises:
        ValueError: if the name is taken, a name is empty or contains a slash,
            there are neither rows nor tables, or a row is not a `Row`.

    Example:

    >>> @dataclasses.dataclass(frozen=True, kw_only=True)
    ... class Row(memlm_keras.presets.Row):
    ...     window: int = 5
    ...
    ...     def model(self):
    ...         return {
    ...             "embedding_dim": self.embedding_dim,
    ...             "recurrent": [keras.layers.GRU(self.units)],
    ...             "memory": memlm_keras.memory.Attention(self.window),
    ...         }
    >>> paper = memlm_keras.presets.register(
    ...     "doctest2027", {"small": Row(units=16, embedding_dim=8)}
    ... )
    >>> lm = memlm_keras.LanguageModel.from_preset(
    ...     "doctest2027/small", vocabulary_size=100, window=3
    ... )
    """
    if not isinstance(paper, Paper):
        paper = Paper(paper, {} if rows is None else rows, **details)
    elif rows is not None or details:
        raise ValueError(
            "`paper` must be a string, not a `Paper`, if other arguments are "
            f"given. Received: paper={paper!r}"
        )
    names_given = [("paper", paper.name), *(("rows", n) for n in paper.rows)]
    for argument, name in names_given:
        if not isinstance(name, str) or not name or "/" in name:
            raise ValueError(
                f"`{argument}`: names must be nonempty strings without a "
                f"slash. Received: {name!r}"
            )
    if not (paper.rows or paper.tables):
        raise ValueError(
            f"`rows` must have at least one row. Received: rows={paper.rows!r}"
        )
    needed = ("kind", "where", "resized", "preset")
    for name, row in paper.rows.items():
        if not all(hasattr(row, method) for method in needed):
            raise ValueError(
                "`rows` must be a dict of `memlm_keras.presets.Row`s by name. "
                f"Received: {row!r} for {name!r}"
            )
    if paper.name in _PAPERS:
        raise ValueError(
            f"`paper` {paper.name!r} is registered already; choose a name "
            f"other than {', '.join(_PAPERS)}"
        )
    _PAPERS[paper.name] = paper
    return paper


def papers():
    """Returns a dict of all `Paper`s by name."""
    global _TO_LOAD
    if _TO_LOAD is None:
        _TO_LOAD = list(importlib.metadata.entry_points(group=ENTRY_POINTS))
    # `pop` comes before loading, since the loaded module may call `papers`.
    while _TO_LOAD:
        load_entry_point(_TO_LOAD.pop(0))
    return dict(_PAPERS)


def tables():
    """Returns a dict of all `Table`s by name, `"paper/table"`."""
    return {
        f"{paper.name}/{table.name}": table
        for paper in papers().values()
        for table in paper.tables
    }


def names(kind=None):
    """Returns the names of all presets, `"paper/row"`, in table order.

    Args:
        kind: class of the models, `"LanguageModel"`, `"EntailmentClassifier"`
            or `"SequenceAutoencoder"`; `None` for all presets.
    """
    return [
        f"{paper.name}/{name}"
        for paper in papers().values()
        for name, row in paper.rows.items()
        if kind in (None, row.kind)
    ]


def get(name, /, **sizes):
    """Returns a preset as a dict of plain values.

    Args:
        name: string, one of `names()`.
        **sizes: values that replace the paper's. `units`, `embedding_dim` and
            `window` are integers. `scale`, a float, multiplies the sizes;
            classifiers keep the size of their embeddings. `initial_range` is
            the limit r of U(-r, r), from which weights are drawn. A sum of n
            inputs with such weights is of the order r sqrt(n), so models with s
            times the paper's units need r / sqrt(s) to keep sums of the same
            size. Presets of `weissenborn2016` have `embedding_range`, the limit
            r of embeddings; those with an associative memory also have `key`,
            `"bound"` or `"unit"`. Presets of `kong2019` have `l2` and
            `output_bias` (bool). Presets of `memlm` have `num_sampled` of
            `heads.TiedProjection`; with 0, training uses all words.

    Returns:
        A new dict with the keys `name`, `kind` (the class, such as
        `"LanguageModel"`), `source`, `model` (arguments of the class except the
        vocabulary size), `data`, `optimizer`, `schedule`, `published`, `units`
        (of the recurrent layer) and `units_divisor`. Some presets have a `loss`
        other than the mean over tokens. Presets of `grave2017` and `memlm` have
        `cache`, the arguments of `evaluation.choose_cache`, or `None`. A
        `NeuralCache` as `mixture` has no weights: training omits it. Presets
        of `memlm` have `dynamic`, the settings of dynamic evaluation, and
        `validation_tokens`. Presets of `kong2019` have `noise` (arguments of
        `smoothing.NoisedBatches`, or `None`), `l2`, `tuned` (the values that
        were tried) and `also_published` (the numbers for a second corpus).
        Layers, optimizer and loss are serialized as in Keras, without defaults.

    Raises:
        ValueError: if the name or a size is unknown, the preset has no such
            size, a scale or range is not positive, or `scale`, `units` and
            `embedding_dim` are all given.

    Example:

    >>> preset = memlm_keras.presets.get("daniluk2017/ngram_4")
    >>> preset["units"]
    968
    """
    paper, row = find(name)
    row = resized(name, row, sizes)
    return {
        "name": name,
        "kind": row.kind,
        "source": paper.source(row.where),
        **row.preset(),
    }


def model_config(name, kind="LanguageModel", /, **overrides):
    """Returns the constructor arguments of a preset's model.

    Args:
        name: string, one of `names()`.
        kind: string, the class of the model.
        **overrides: sizes as in `get`, and arguments of the model that the
            preset does not fix.

    Raises:
        ValueError: as `get`, for a preset of another kind, and for arguments
            that the preset fixes.
    """
    sizes = {key: overrides.pop(key) for key in SIZES if key in overrides}
    _, row = find(name)
    row = resized(name, row, sizes)
    if row.kind != kind:
        raise ValueError(
            f"The preset {name!r} is for a `memlm_keras.{row.kind}`: use the "
            f"`from_preset` of that class. Received: the class `{kind}`"
        )
    config = row.preset()["model"]
    fixed = _FIXED.get(kind, set()) | (_FIXED_IF_SET & set(config))
    if fixed := sorted(fixed & set(overrides)):
        received = ", ".join(f"{key}={overrides[key]!r}" for key in fixed)
        raise ValueError(
            f"The preset {name!r} fixes {' and '.join(fixed)}. Choose another "
            f"preset, or create a `{kind}` yourself. Received: {received}"
        )
    return {**config, **overrides}


def find(name):
    """Returns the `Paper` and the row of a preset, or raises `ValueError`."""
    known = papers()
    paper, _, row = str(name).partition("/")
    if paper in known and row in known[paper].rows:
        return known[paper], known[paper].rows[row]
    if trained.find(name) is not None:
        raise ValueError(
            f"The preset must be one with random weights. Received: {name!r}, "
            "a trained model, which `from_preset` loads"
        )
    if os.path.exists(name):
        raise ValueError(
            "A preset is one of `memlm_keras.presets.names()`, or the name or "
            f"folder of a trained model. Received: {name!r}. Load the model of "
            "a run with `keras.saving.load_model('RUN/model.keras')`."
        )
    raise ValueError(
        f"Unknown preset. Received: {name!r}.{_nearest(str(name), known)} "
        "`memlm_keras.presets.names()` and `trained_names()` list all."
    )


def _nearest(name, known):
    """Returns a sentence that names the most similar preset, or `""`."""
    spellings = {
        spelling: f"{paper.name}/{key}"
        for paper in reversed(known.values())
        for key in reversed(paper.rows)
        for spelling in (key, f"{paper.name}/{key}")
    }
    spellings |= {key: key for key in [*trained.SOURCES, *trained.names()]}
    matches = difflib.get_close_matches(name, spellings, n=1)
    return f" The nearest is {spellings[matches[0]]!r}." if matches else ""


def resized(name, row, sizes):
    """Returns a preset's `Row` with other sizes; checks the sizes."""
    if unknown := sorted(set(sizes) - set(SIZES)):
        raise ValueError(
            f"The sizes of a preset are {', '.join(SIZES)}. Received: "
            f"{', '.join(unknown)}"
        )
    for size in ("scale", "initial_range", "embedding_range"):
        require_number(size, sizes.get(size, 1.0), above=0)
    if {"scale", "units", "embedding_dim"} <= {*sizes}:
        raise ValueError(
            "`scale` contradicts `units` and `embedding_dim`: leave out "
            f"`scale` or the other two. Received: {sizes}"
        )
    return row.resized(name, **sizes) if sizes else row


def load_entry_point(entry_point):
    """Imports an entry point's object, and calls it if it is a function."""
    try:
        with files.silent_stderr():
            loaded = entry_point.load()
            return loaded() if callable(loaded) else loaded
    except Exception as error:
        # An error in another package must not prevent the use of presets.
        what = entry_point.group.rpartition(".")[2]
        warnings.warn(
            f"The entry point {entry_point.name!r} = {entry_point.value!r} of "
            f"the group {entry_point.group!r} could not be loaded, so its "
            f"{what} are missing: {type(error).__name__}: {error}",
            stacklevel=2,
        )

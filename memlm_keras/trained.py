"""Trained models: folders with weights, which are found by name.

Keras is imported where a model is saved or loaded.
"""

import hashlib
import json
import os
import pathlib
import tempfile
import time

from memlm_keras import files
from memlm_keras.version import __version__

# Folders, as in `PATH`, that hold `memlm/english` and the like.
VARIABLE = "MEMLM_PRESETS"
METADATA, CONFIG, WEIGHTS = "metadata.json", "config.json", "model.weights.h5"
DTYPES = ("float32", "float16", "int8")
FORMAT = 1
# Names of this package, and how to get each from a clone.
_COPY = "Copy it from `memlm_keras/presets/trained` of a clone"
_BUILD = "Build it in a clone with `python recipes/"
SOURCES = {
    "memlm/embedded_attention": f"{_BUILD}trained.py --backend=jax`",
    "memlm/embedded_lstm": f"{_BUILD}trained.py --backend=jax`",
    "memlm/english": f"{_BUILD}english.py --data_dir=FOLDER_OF_BOOKS`",
    "memlm/english_large": _COPY,
    "tran2016/rm_tm_gated_ptb": _COPY,
    "weissenborn2016/am_gru_shared_sick": _COPY,
}
_SCALES = "scales"
# Types of facts, by name.
_TYPES = {
    **dict.fromkeys(("sha256", "card", "experiment"), dict),
    **dict.fromkeys((CONFIG, WEIGHTS, "kind", "text", "dtype"), str),
    **dict.fromkeys(("parameters", "perplexity", "accuracy"), (int, float)),
}
_OWN = pathlib.Path(__file__).parent / "presets" / "trained"

# === Names ===


def roots():
    """Folders in which names are searched, in this order."""
    paths = os.environ.get(VARIABLE, "").split(os.pathsep)
    return [*map(pathlib.Path, filter(None, paths)), _OWN]


def names():
    """Returns the names of all trained models that are installed.

    These are folders that `save_to_preset` wrote: those of the package, of
    which a clone has more, and those in the folders of the environment variable
    `MEMLM_PRESETS`, whose paths are separated like those of `PATH`.

    Example:

    >>> [name for name in names() if name.startswith("memlm/")][:2]
    ['memlm/embedded_attention', 'memlm/embedded_lstm']
    """
    found = {
        path.parent.relative_to(root).as_posix()
        for root in roots()
        for pattern in (f"*/{METADATA}", f"*/*/{METADATA}")
        for path in root.glob(pattern)
    }
    return sorted(found)


def find(name):
    """Returns the folder of a trained model by path or name, or `None`; raises
    `FileNotFoundError` for a name of this package that is not installed."""
    for folder in (pathlib.Path(name), *(root / name for root in roots())):
        if any((folder / file).is_file() for file in (METADATA, WEIGHTS)):
            return folder
    if str(name) in SOURCES:
        raise FileNotFoundError(
            f"The trained model {name} is not installed: it is in none of "
            f"{', '.join(map(str, roots()))}. {SOURCES[str(name)]}, or put "
            "its folder into one of these; the environment variable "
            f"{VARIABLE} adds folders"
        )
    return None


def read_metadata(folder):
    """Returns the facts of a trained model, a dict; no weights are read."""
    path = pathlib.Path(folder) / METADATA
    metadata = files.read_json(
        path, "facts of a trained model", _remedy({}), _TYPES
    )
    with files.reading(path, "facts of a trained model", _remedy({})):
        if metadata["format"] != FORMAT:
            raise ValueError(
                f"it has the format {metadata['format']!r}, and memlm_keras "
                f"{__version__} reads {FORMAT}"
            )
        if not {CONFIG, WEIGHTS} <= set(metadata["sha256"]):
            raise ValueError(f"it lacks the SHA-256 of {CONFIG} or {WEIGHTS}")
    return metadata


def read_config(folder):
    """Returns the configuration of a trained model, a dict."""
    _require_intact(folder, CONFIG, read_metadata(folder))
    path = pathlib.Path(folder) / CONFIG
    what = "config of a trained model"
    config = files.read_json(path, what, _remedy({}))
    with files.reading(path, what, _remedy({})):
        return config["config"]


def size_of(folder):
    """Bytes of the files of a trained model."""
    return sum(path.stat().st_size for path in pathlib.Path(folder).iterdir())


def _remedy(card):
    command = card.get("command")
    built = f", or build the model again: `{command}`" if command else ""
    return f"Put an intact copy of the file in its place{built}"


# === Loading ===


def load(folder, cls, **changes):
    """Returns the model of a folder, of a class with `preset_kind`, with some
    arguments changed that change no weights."""
    folder = pathlib.Path(folder)
    metadata = read_metadata(folder)
    if metadata["kind"] != cls.preset_kind:
        raise ValueError(
            f"{folder} is of a `memlm_keras.{metadata['kind']}`: use its "
            f"`from_preset`. Received: a trained model for a "
            f"`{cls.preset_kind}`"
        )
    for file in metadata["sha256"]:
        _require_intact(folder, file, metadata)
    model = cls.from_config({**read_config(folder), **changes})
    with tempfile.TemporaryDirectory() as temporary:
        widened = pathlib.Path(temporary, WEIGHTS)
        _widen(folder / WEIGHTS, widened)
        model.load_weights(widened)
    return model


def _require_intact(folder, file, metadata):
    """Raises an error unless a file of a trained model is as it was written."""
    path, expected = pathlib.Path(folder) / file, metadata["sha256"][file]
    remedy = _remedy(metadata["card"])
    if not path.is_file():
        raise FileNotFoundError(
            f"The trained model {folder} has no file {path}, of SHA-256 "
            f"{expected}. {remedy}"
        )
    received = _sha256(path)
    if received != expected:
        raise ValueError(
            f"The file {path} is damaged or another one. Expected SHA-256 "
            f"{expected}. Received: {received}. {remedy}"
        )


def _sha256(path):
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _widen(path, widened):
    """Copies a file of weights, with the products of int8 and scales."""
    import h5py

    with h5py.File(path) as stored, h5py.File(widened, "w") as file:
        for name in stored:
            stored.copy(name, file)

        def multiply(name, scale):
            if isinstance(scale, h5py.Dataset):
                values = file[name][()] * scale[()]
                del file[name]
                file[name] = values

        file.pop(_SCALES).visititems(multiply)


# === Saving ===


def save(model, folder, dtype, card, experiment=None):
    """Writes a model as a folder that `load` reads, whole or not at all;
    `experiment` has the arguments of the `Experiment` that trained it, which
    say how `memlm evaluate` measures it."""
    import keras

    folder = pathlib.Path(folder)
    if dtype not in DTYPES:
        raise ValueError(
            f"`dtype` must be one of {DTYPES}. Received: dtype={dtype!r}"
        )
    known = (METADATA, CONFIG, WEIGHTS)
    if folder.is_dir() and any(folder.iterdir()):
        if not all((folder / file).is_file() for file in known):
            raise ValueError(
                "`folder` must be a new or empty folder, or one of a trained "
                f"model, which is replaced. Received: folder={str(folder)!r}, "
                "with other files"
            )
    config = keras.saving.serialize_keras_object(model)
    config.pop("compile_config", None)
    card = dict(card or {})
    with files.atomic_path(folder) as temporary:
        temporary.mkdir()
        text = json.dumps(config, ensure_ascii=False)
        (temporary / CONFIG).write_text(text, encoding="utf-8")
        _write_weights(model, temporary / WEIGHTS, dtype)
        metadata = {
            "format": FORMAT,
            "kind": model.preset_kind,
            "memlm_keras": __version__,
            "keras": keras.__version__,
            "date": time.strftime("%Y-%m-%d"),
            "parameters": model.count_params(),
            "vocabulary_size": model.vocabulary_size,
            "dtype": dtype,
            "sha256": {f: _sha256(temporary / f) for f in (CONFIG, WEIGHTS)},
            "card": card,
        }
        if experiment is not None:
            metadata["experiment"] = experiment
        text = json.dumps(metadata, indent=2, ensure_ascii=False) + "\n"
        (temporary / METADATA).write_text(text, encoding="utf-8")
        page = _page(folder.resolve().name, metadata)
        (temporary / "README.md").write_text(page, encoding="utf-8")


def _write_weights(model, path, dtype):
    """Writes weights as Keras does, with matrices of another dtype."""
    import h5py

    with tempfile.TemporaryDirectory() as temporary:
        full = pathlib.Path(temporary, WEIGHTS)
        model.save_weights(full)
        with h5py.File(full) as weights, h5py.File(path, "w") as stored:
            scales = stored.create_group(_SCALES)

            def write(name, item):
                # A compiled model has its optimizer in the file too.
                if name.partition("/")[0] == "optimizer":
                    return
                if isinstance(item, h5py.Group):
                    written = stored.require_group(name)
                else:
                    values, scale = narrow(item[()], dtype)
                    written = stored.create_dataset(name, data=values)
                    if scale is not None:
                        scales[name] = scale
                written.attrs.update(item.attrs)

            weights.visititems(write)


def narrow(values, dtype):
    """A matrix of float32 as `dtype`, and the scale of int8 or `None`; other
    values are small, or no float32, and stay."""
    import numpy as np

    if values.dtype != "float32" or values.ndim < 2 or dtype == "float32":
        return values, None
    if dtype == "float16":
        return values.astype(dtype), None
    # A scale for each word of a table, and for each unit of a kernel.
    others = [*range(values.ndim)]
    others.remove(int(np.argmax(values.shape)))
    scale = np.abs(values).max(axis=tuple(others), keepdims=True) / 127
    scale = np.where(scale == 0, 1, scale).astype("float32")
    return np.rint(values / scale).astype("int8"), scale


def _page(name, metadata):
    """The text of a model card."""
    card = dict(metadata["card"])
    description = card.pop("description", "A trained model.")
    facts = {
        "parameters": f"{metadata['parameters']:,}",
        "vocabulary": f"{metadata['vocabulary_size']:,} tokens",
        "stored as": metadata["dtype"],
        **card,
        "memlm_keras": metadata["memlm_keras"],
    }
    rows = [
        f"| {key} | {str(value).replace('|', '/')} |"
        for key, value in facts.items()
    ]
    cls = f"memlm_keras.{metadata['kind']}"
    return "\n".join(
        [
            f"# {name}",
            "",
            description,
            "",
            f"`{cls}.from_preset(path_of_this_folder)` loads it.",
            "",
            "| | |",
            "|---|---|",
            *rows,
            "",
        ]
    )

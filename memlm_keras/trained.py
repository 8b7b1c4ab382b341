"""Trained models: folders with weights, which are found by name."""

import hashlib
import json
import os
import pathlib
import tempfile
import time

from memlm_keras import files
from memlm_keras.arguments import require_one_of
from memlm_keras.version import __version__

# Environment variable that lists folders with trained models.
VARIABLE = "MEMLM_PRESETS"
METADATA, CONFIG, WEIGHTS = "metadata.json", "config.json", "model.weights.h5"
DTYPES, _SCALES = ("float32", "float16", "int8"), "scales"
FORMAT = 1
# How to get each trained model of this package from a clone of the repository.
_COPY = "A clone contains it: run `pip install -e .` there"
_BUILD = "Build it in a clone with `python recipes/"
SOURCES = {
    "memlm/embedded_attention": f"{_BUILD}trained.py --backend=jax`",
    "memlm/embedded_lstm": f"{_BUILD}trained.py --backend=jax`",
    "memlm/english": f"{_BUILD}english.py --data_dir=FOLDER_OF_BOOKS`",
    "memlm/english_large": _COPY,
    "daniluk2017/key_value_predict_786_ptb": _COPY,
    "tran2016/rm_tm_gated_ptb": _COPY,
    "weissenborn2016/am_gru_shared_sick": _COPY,
}
# The types of values in the metadata, by key.
_TYPES = {
    **dict.fromkeys(("sha256", "card", "experiment"), dict),
    **dict.fromkeys((CONFIG, WEIGHTS, "kind", "text", "dtype"), str),
    **dict.fromkeys(("parameters", "perplexity", "accuracy"), (int, float)),
}
_OWN = pathlib.Path(__file__).parent / "presets" / "trained"

# === Names ===


def roots():
    """Returns the folders that are searched for trained models, in order."""
    paths = os.environ.get(VARIABLE, "").split(os.pathsep)
    return [*map(pathlib.Path, filter(None, paths)), _OWN]


def names():
    """Returns the names of all trained models that are installed.

    A trained model is a folder that `save_to_preset` wrote. The package
    contains some trained models; its repository contains more. The environment
    variable `MEMLM_PRESETS` lists further folders, separated as in `PATH`.

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
    """Returns the folder of a trained model with this path or name, or `None`;
    raises `FileNotFoundError` for a known model that is not installed."""
    for folder in (pathlib.Path(name), *(root / name for root in roots())):
        if any((folder / file).is_file() for file in (METADATA, WEIGHTS)):
            return folder
    if str(name) in SOURCES:
        raise FileNotFoundError(
            f"The trained model {name} is not installed. Its folder can be in "
            f"{', '.join(map(str, roots()))}; the environment variable "
            f"{VARIABLE} adds folders. {SOURCES[str(name)]}"
        )
    return None


def read_metadata(folder):
    """Returns the dict of metadata of a trained model."""
    path = pathlib.Path(folder) / METADATA
    what = "metadata of a trained model"
    metadata = files.read_json(path, what, _remedy({}), _TYPES)
    with files.reading(path, what, _remedy({})):
        if metadata["format"] != FORMAT:
            raise ValueError(
                f"the format is {metadata['format']!r}, but memlm_keras "
                f"{__version__} reads format {FORMAT}"
            )
        if not {CONFIG, WEIGHTS} <= set(metadata["sha256"]):
            raise ValueError(
                f"`sha256` must have the keys {CONFIG} and {WEIGHTS}. "
                f"Received: {sorted(metadata['sha256'])}"
            )
    return metadata


def read_config(folder):
    """Returns the configuration of a trained model as a dict."""
    _require_intact(folder, CONFIG, read_metadata(folder))
    path = pathlib.Path(folder) / CONFIG
    what = "config of a trained model"
    config = files.read_json(path, what, _remedy({}))
    with files.reading(path, what, _remedy({})):
        return config["config"]


def size_of(folder):
    """Returns the total size of a trained model's files in bytes."""
    return sum(path.stat().st_size for path in pathlib.Path(folder).iterdir())


def _remedy(card):
    command = card.get("command")
    built = f", or build the model again: `{command}`" if command else ""
    return f"Put an intact copy of the file in its place{built}"


# === Loading ===


def load(folder, cls, **changes):
    """Loads a trained model of the class `cls`; `changes` replace saved
    constructor arguments, and must not change the shapes of weights."""
    folder = pathlib.Path(folder)
    metadata = read_metadata(folder)
    if metadata["kind"] != cls.preset_kind:
        raise ValueError(
            f"{folder} is for a `memlm_keras.{metadata['kind']}`: use the "
            "`from_preset` of that class. Received: the "
            f"class `{cls.preset_kind}`"
        )
    for file in metadata["sha256"]:
        _require_intact(folder, file, metadata)
    with files.blank_weights():
        model = cls.from_config({**read_config(folder), **changes})
    with tempfile.TemporaryDirectory() as temporary:
        widened = pathlib.Path(temporary, WEIGHTS)
        _widen(folder / WEIGHTS, widened)
        model.load_weights(widened)
    return model


def _require_intact(folder, file, metadata):
    """Raises an error unless a file has the SHA-256 given in the metadata."""
    path, expected = pathlib.Path(folder) / file, metadata["sha256"][file]
    remedy = _remedy(metadata["card"])
    if not path.is_file():
        raise FileNotFoundError(
            f"The trained model {folder} lacks the file {path} with SHA-256 "
            f"{expected}. {remedy}"
        )
    received = _sha256(path)
    if received != expected:
        raise ValueError(
            f"The file {path} was changed or damaged. Expected SHA-256 "
            f"{expected}. Received: {received}. {remedy}"
        )


def _sha256(path):
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _widen(path, widened):
    """Copies a weights file, with int8 values multiplied by their scales."""
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
    """Writes a model atomically as a folder for `load`. `memlm evaluate` reads
    `experiment`, the arguments of the model's `Experiment`."""
    import keras

    model.require_not_quantized("become a trained model with float weights")
    folder = pathlib.Path(folder)
    require_one_of("dtype", dtype, DTYPES)
    if folder.is_dir() and any(folder.iterdir()):
        known = (METADATA, CONFIG, WEIGHTS)
        if not all((folder / file).is_file() for file in known):
            raise ValueError(
                "`folder` must be new, empty, or the folder of a trained "
                "model, which is replaced. Received: "
                f"folder={str(folder)!r}, with other files"
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
        text = json.dumps(metadata, indent=2, ensure_ascii=False, default=float)
        (temporary / METADATA).write_text(text + "\n", encoding="utf-8")
        page = _page(folder.resolve().name, metadata)
        (temporary / "README.md").write_text(page, encoding="utf-8")


def _write_weights(model, path, dtype):
    """Writes weights as Keras does, with matrices converted to `dtype`."""
    import h5py

    with tempfile.TemporaryDirectory() as temporary:
        full = pathlib.Path(temporary, WEIGHTS)
        model.save_weights(full)
        with h5py.File(full) as weights, h5py.File(path, "w") as stored:
            scales = stored.create_group(_SCALES)

            def write(name, item):
                # A compiled model's file also contains the optimizer's state.
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
    """Converts a float32 matrix to `dtype`, and leaves other values unchanged.
    Also returns the scale of int8 values, or `None` for other types."""
    import numpy as np

    if values.dtype != "float32" or values.ndim < 2 or dtype == "float32":
        return values, None
    if dtype == "float16":
        return values.astype(dtype), None
    # Each element of the longest axis, such as each word, has one scale.
    others = [*range(values.ndim)]
    others.remove(int(np.argmax(values.shape)))
    scale = np.abs(values).max(axis=tuple(others), keepdims=True) / 127
    scale = np.where(scale == 0, 1, scale).astype("float32")
    return np.rint(values / scale).astype("int8"), scale


def _page(name, metadata):
    """Returns the text of a model card."""
    card = dict(metadata["card"])
    description = card.pop("description", "A trained model.")
    facts = {
        "parameters": f"{metadata['parameters']:,}",
        "vocabulary": f"{metadata['vocabulary_size']:,} tokens",
        "stored as": metadata["dtype"],
        **card,
        "memlm_keras": metadata["memlm_keras"],
    }
    rows = "".join(
        f"| {key} | {str(value).replace('|', '/')} |\n"
        for key, value in facts.items()
    )
    return (
        f"# {name}\n\n{description}\n\n`memlm_keras.{metadata['kind']}."
        "from_preset(path_of_this_folder)` loads it.\n\n| | |\n|---|---|\n"
        f"{rows}"
    )

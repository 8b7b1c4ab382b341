"""The paths that models are exported to."""

import pathlib

from memlm_keras.serving import formats

# Servers read versions as int64.
_LARGEST_VERSION = 2**63 - 1


def check_path(path, overwrite=False, format="tf_saved_model"):
    """The path that `export` writes to, known before there is a model.

    Args:
        path, overwrite, format: as for `export`.

    Returns:
        `pathlib.Path`; with the next version where `path` has none.

    Raises:
        ValueError: for another format, and a path that does not end as that
            format wants it: with its suffix, or with a version that is below
            2^63 and begins with no 0.
        FileExistsError: if something is at `path` and `overwrite` is not set,
            or what is there is no SavedModel.

    Example:

    >>> memlm_keras.serving.check_path("saved_models/key_value_predict")
    PosixPath('saved_models/key_value_predict/1')
    """
    path = pathlib.Path(path)
    suffix = formats.get(format).suffix
    if suffix is not None:
        _check_file(path, overwrite, format, suffix)
        return path
    for other, about in formats.FORMATS.items():
        if about.suffix and path.suffix == about.suffix:
            raise ValueError(
                '`path` must be a folder of versions where format="'
                f'{format}". Received: path={path}. Did you mean '
                f'format="{other}"?'
            )
    if (path / "saved_model.pb").exists() and not _is_number(path.name):
        raise FileExistsError(
            "`path` must be a folder of versions, and is a SavedModel itself. "
            f"Received: path={path}. Choose another path."
        )
    if not _is_number(path.name):
        return path / str(_next_version(path))
    if path.name != str(int(path.name)) or int(path.name) > _LARGEST_VERSION:
        raise ValueError(
            "The version that `path` ends with must be below 2^63 and begin "
            "with no 0, as TensorFlow Serving reads it. Received: "
            f"path={path}. Try: {path.parent}, which has its next version "
            "written"
        )
    if path.exists() and not overwrite:
        raise FileExistsError(
            f"There is something at `path` already. Received: path={path}. "
            "Export the next version, "
            f"{path.with_name(str(_next_version(path.parent)))}, or pass "
            "`overwrite=True` (--overwrite of `memlm export`)."
        )
    if path.exists() and not (path / "saved_model.pb").exists():
        raise FileExistsError(
            "`overwrite=True` replaces a SavedModel, and what is at `path` is "
            f"none. Received: path={path}. Move it away, or choose another "
            "path."
        )
    return path


def _check_file(path, overwrite, format, suffix):
    """`check_path` of a format that is one file, or a folder of any name."""
    if suffix and path.suffix != suffix:
        raise ValueError(
            f'`path` must end with {suffix} where format="{format}". '
            f"Received: path={path}. Try: {path.with_suffix(suffix)}"
        )
    ours = path.is_file() if suffix else (path / "config.pbtxt").exists()
    if path.exists() and not (overwrite and ours):
        raise FileExistsError(
            f"There is something at `path` already. Received: path={path}. "
            "Choose another path, or pass `overwrite=True` to replace what "
            "this format has written (--overwrite of `memlm export`)."
        )


def _next_version(folder):
    """The version after the highest that servers see in a folder."""
    names = [entry.name for entry in folder.glob("*") if entry.is_dir()]
    versions = [int(name) for name in names if _is_number(name)]
    return max((v for v in versions if v < _LARGEST_VERSION), default=0) + 1


def _is_number(name):
    return name.isascii() and name.isdecimal()

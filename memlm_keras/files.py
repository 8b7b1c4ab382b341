"""Files: written whole or not at all, and read with errors that help."""

import contextlib
import json
import os
import pathlib
import shutil
import struct
import tokenize
import uuid
import zipfile
import zlib

import keras


@contextlib.contextmanager
def atomic_path(path):
    """Gives a temporary path that becomes `path` once all went well.

    The temporary path stands in the same folder and ends with the same
    name, so writers that look at the extension (`.keras`, `.weights.h5`)
    behave as usual. A file or a folder may be made there. If the block
    raises, it is removed and what stood at `path` before is untouched.

    Args:
        path: Path to write, as a string or `pathlib.Path`. Its parent
            folders are made where missing.

    Yields:
        `pathlib.Path` to write to, which does not exist yet.

    Raises:
        OSError: The parent folder cannot be made or written
            (`PermissionError` where that is the cause), or the block wrote
            nothing.

    Example:

    >>> with atomic_path("results/summary.txt") as temporary:
    ...     temporary.write_text("perplexity 85.2")
    """
    path = pathlib.Path(path)
    _make_writable_parent(path)
    temporary = _sibling(path)
    try:
        yield temporary
        if not temporary.exists():
            raise FileNotFoundError(
                f"Nothing was written for {path}: the block under "
                f"`atomic_path` must write to the path that it is given, "
                f"{temporary.name}."
            )
        _move_into_place(temporary, path)
    except BaseException:
        _remove(temporary)
        raise


def _make_writable_parent(path):
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OSError(
            error.errno,
            f"Cannot write {path}: its folder cannot be made "
            f"({error.strerror}). Choose a path in a writable folder",
            str(path.parent),
        ) from error
    if not os.access(path.parent, os.W_OK | os.X_OK):
        raise PermissionError(
            f"Cannot write {path}: its folder is not writable. Choose a path "
            "in a writable folder."
        )


def _sibling(path):
    return path.with_name(f".{uuid.uuid4().hex[:8]}.{path.name}")


def _move_into_place(temporary, path):
    if not path.is_dir():
        os.replace(temporary, path)
        return
    # os.replace does not replace a folder that has something in it.
    previous = _sibling(path)
    os.replace(path, previous)
    try:
        os.replace(temporary, path)
    except BaseException:
        os.replace(previous, path)
        raise
    _remove(previous)


def _remove(path):
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def read_json(path, what, remedy="Delete it to make it anew."):
    """Reads a file of JSON, such as `memlm_keras` writes.

    Args:
        path: path of the file.
        what: string, what the file holds, for the errors: "vocabulary".
        remedy: string, what helps where it is damaged.

    Returns:
        The value that the file holds.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: the file is damaged.

    Example:

    >>> config = read_json("run/config.json", "configuration of a run")
    """
    with reading(path, what, remedy):
        return json.loads(pathlib.Path(path).read_text(encoding="utf-8"))


def load_model(path, what="model", remedy="Put an intact copy in its place."):
    """Loads a `.keras` file, and tells a damaged one from a foreign one.

    Args:
        path: path of the file.
        what: string, what the file holds, for the errors.
        remedy: string, what helps where it is damaged.

    Returns:
        The model, not compiled.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: the file is damaged, or whole but not to be loaded.

    Example:

    >>> lm = load_model("run/model.keras")
    """
    with reading(path, what, remedy), zipfile.ZipFile(path) as archive:
        spoilt = archive.testzip()
        if spoilt is not None:
            raise zipfile.BadZipFile(f"the checksum of {spoilt} is wrong")
    try:
        return keras.saving.load_model(path, compile=False)
    except Exception as error:
        # The file is whole: it needs what is not here, or another version.
        # Of Keras' explanations within explanations, the innermost says why.
        reason = str(error).rpartition("Exception encountered: ")[2]
        reason = reason.strip().partition("\n")[0] or repr(error)
        raise ValueError(
            f"The {what} {path} cannot be loaded: {reason} Was it written by "
            "another version, or with layers of a package that is not imported?"
        ) from error


@contextlib.contextmanager
def reading(path, what, remedy):
    """Turns whatever reading a damaged file raises into one clear error.

    Args:
        path: path of the file that the block reads.
        what: string, what the file holds, for the errors.
        remedy: string, what helps where it is damaged.

    Raises:
        FileNotFoundError: there is no such file.
        PermissionError: the file may not be read.
        ValueError: the file is damaged.

    Example:

    >>> with reading(path, "statistics", "Delete it to count anew."):
    ...     counts = np.load(path)
    """
    try:
        yield
    except (FileNotFoundError, NotADirectoryError) as error:
        raise FileNotFoundError(f"There is no {what} at {path}.") from error
    except PermissionError:
        raise
    except _UNREADABLE as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise ValueError(
            f"The {what} {path} is damaged and cannot be read ({reason}). "
            f"{remedy}"
        ) from error


# What readers of JSON, of archives and of arrays raise at damaged files.
_UNREADABLE = (
    ArithmeticError,
    AttributeError,
    EOFError,
    LookupError,
    MemoryError,
    OSError,
    RuntimeError,
    SyntaxError,
    TypeError,
    ValueError,
    struct.error,
    tokenize.TokenError,
    zipfile.BadZipFile,
    zlib.error,
)

"""Files: written whole or not at all, and read with errors that help."""

import contextlib
import ctypes
import errno
import json
import lzma
import os
import pathlib
import re
import shutil
import struct
import tokenize
import uuid
import zipfile
import zlib

import keras

try:
    import fcntl
except ImportError:
    # Not on Windows.
    fcntl = None


@contextlib.contextmanager
def atomic_path(path):
    """Gives a temporary path that becomes `path` once all went well.

    The temporary path has the same name, so writers that look at the extension
    (`.keras`, `.weights.h5`) behave as usual. A file or a folder may be made
    there. If the block raises, it is removed and what stood at `path` before is
    untouched. Of several processes that write the same path at once, each
    replaces it whole.

    The temporary path stands in a folder of its own, beside `path`, and what
    else is put into that folder goes with it. Of a process that was killed such
    a folder is left; the next to write beside it removes it.

    Args:
        path: Path to write, as a string or `pathlib.Path`. Its parent
            folders are made where missing.

    Yields:
        `pathlib.Path` to write to, which does not exist yet.

    Raises:
        OSError: The parent folder cannot be made or written
            (`PermissionError` where that is the cause), the disk is full, or
            the block wrote nothing.

    Example:

    >>> with atomic_path("results/summary.txt") as temporary:
    ...     temporary.write_text("perplexity 85.2")
    """
    path = pathlib.Path(path)
    _make_writable_parent(path)
    _sweep(path.parent)
    try:
        with _workshop(path.parent) as folder:
            temporary = folder / _NEW / path.name
            temporary.parent.mkdir()
            yield temporary
            if not os.path.lexists(temporary):
                raise FileNotFoundError(
                    f"Nothing was written for {path}: the block under "
                    f"`atomic_path` must write to the path that it is given, "
                    f"{temporary}."
                )
            _move_into_place(temporary, path, folder)
    except Exception as error:
        if not _says_disk_is_full(error):
            raise
        raise OSError(
            errno.ENOSPC,
            f"Cannot write {path}: the disk is full, or a quota or limit of "
            "file sizes is reached. What stood there before is untouched. Free "
            "some space, or choose another folder",
        ) from error


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


# === Folders of writers ===
# Each holds a file whose lock the writer has until it ends, in whatever way:
# the kernel takes it back from a killed process too, and, unlike the number of
# a process, a lock means the same in another container.

_NAME = re.compile(r"\.memlm-[0-9a-f]{12}\.partial")
_LOCK, _NEW, _OLD = "lock", "new", "old"


@contextlib.contextmanager
def _workshop(parent):
    """Gives a new folder that no one else touches, and removes it."""
    lock = None
    while lock is None:
        folder = parent / f".memlm-{uuid.uuid4().hex[:12]}.partial"
        folder.mkdir()
        try:
            # Another writer may take it for a left one before it is locked.
            lock = _lock(folder)
        except OSError:
            folder.rmdir()
            raise
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)


def _sweep(parent):
    """Removes the folders of writers that are no more."""
    left = []
    with contextlib.suppress(OSError), os.scandir(parent) as entries:
        left = [parent / entry.name for entry in entries if _is_ours(entry)]
    for folder in left:
        with contextlib.suppress(OSError):
            lock = _lock(folder, or_fail=True)
            if lock is None:
                continue
            try:
                _put_back(folder)
                shutil.rmtree(folder, ignore_errors=True)
            finally:
                os.close(lock)


def _is_ours(entry):
    return bool(_NAME.fullmatch(entry.name)) and entry.is_dir()


def _lock(folder, or_fail=False):
    """Returns a descriptor that locks the folder of a writer, or `None`.

    Where the system or the file system has no locks, writers go without, and
    with `or_fail` there is an `OSError`: nobody knows whether they live.
    """
    file = folder / _LOCK
    try:
        lock = os.open(file, os.O_RDWR | os.O_CREAT, 0o666)
    except FileNotFoundError:
        return None
    try:
        if fcntl is None:
            raise OSError(errno.ENOTSUP, "no locks on this system")
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # Whoever had it before may have removed the file.
        if os.path.samestat(os.fstat(lock), os.stat(file)):
            return lock
    except (BlockingIOError, FileNotFoundError):
        pass
    except OSError:
        if not or_fail:
            return lock
        os.close(lock)
        raise
    os.close(lock)
    return None


# === Into place ===


def _move_into_place(temporary, path, folder):
    old = folder / _OLD / path.name
    while True:
        try:
            os.replace(temporary, path)
            return
        except OSError as error:
            # Nor does `os.replace` replace a folder that has something in it.
            if error.errno not in _SOMETHING_IN_THE_WAY:
                _put_back(folder)
                raise
        if _exchange(temporary, path):
            return
        # Here `path` is nowhere for a moment. Who else writes it may be first.
        shutil.rmtree(old.parent, ignore_errors=True)
        old.parent.mkdir()
        with contextlib.suppress(FileNotFoundError):
            os.replace(path, old)


_SOMETHING_IN_THE_WAY = (
    errno.EEXIST,
    errno.EISDIR,
    errno.ENOTDIR,
    errno.ENOTEMPTY,
)


def _put_back(folder):
    """Puts back what was taken away, where nothing new has come instead."""
    if (folder / _OLD).is_dir():
        for old in (folder / _OLD).iterdir():
            target = folder.parent / old.name
            if not os.path.lexists(target):
                os.replace(old, target)


def _exchange(one, other):
    """Lets two paths change places at once; returns whether they did."""
    try:
        call = ctypes.CDLL(None).renameat2
    except (AttributeError, OSError, TypeError):
        return False
    paths = (os.fsencode(one), os.fsencode(other))
    here, flags = -100, 2  # AT_FDCWD, RENAME_EXCHANGE of Linux
    return call(here, paths[0], here, paths[1], flags) == 0


def _says_disk_is_full(error):
    while error is not None:
        if getattr(error, "errno", None) in _FULL:
            return True
        # Of NumPy, of HDF5 and of TensorFlow, which give no number.
        if re.search(r"requested and \d+ written|errno = 28", str(error)):
            return True
        if any(os.strerror(number) in str(error) for number in _FULL):
            return True
        error = error.__cause__ or error.__context__
    return False


_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


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

    >>> with atomic_path("run/config.json") as temporary:
    ...     temporary.write_text('{"seed": 1}')
    >>> read_json("run/config.json", "configuration of a run")
    {'seed': 1}
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

    >>> lm.save("model.keras")
    >>> lm = load_model("model.keras")
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

    >>> with atomic_path("counts.txt") as temporary:
    ...     temporary.write_text("3 1 4")
    >>> with reading("counts.txt", "statistics", "Delete it to count anew."):
    ...     counts = pathlib.Path("counts.txt").read_text().split()
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
    lzma.LZMAError,
    struct.error,
    tokenize.TokenError,
    zipfile.BadZipFile,
    zlib.error,
)

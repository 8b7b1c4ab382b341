"""Atomic writes, reads with clear errors, and suppression of standard error."""

import contextlib
import csv
import ctypes
import errno
import fcntl
import functools
import glob
import gzip
import importlib
import io
import json
import os
import pathlib
import re
import shutil
import socket
import stat
import sys
import threading
import time
import uuid
import zipfile

# === Writing ===


@contextlib.contextmanager
def atomic_path(path):
    """Yields a temporary path that replaces `path` if the block succeeds.

    A file replaces a file, and a folder replaces a folder; anything else
    raises a `ValueError`. If `path` is a symbolic link, its target is replaced.
    """
    path = pathlib.Path(path)
    if path.is_symlink():
        path = path.resolve()
    if _kind(path) == "device":
        raise ValueError(
            f"Cannot write {path}: it is a device or a pipe. Choose another "
            "path"
        )
    _make_writable_parent(path)
    # Several processes may replace the same path at once. A killed process
    # leaves a hidden folder, which the next writing process removes.
    _remove_folders_of_killed_writers(path.parent)
    try:
        with _writer_folder(path.parent) as folder:
            temporary = folder / _NEW / path.name
            temporary.parent.mkdir()
            yield temporary
            if not os.path.lexists(temporary):
                raise FileNotFoundError(
                    f"Nothing was written for {path}: the block under "
                    f"`atomic_path` must write to {temporary}."
                )
            if (kind := _kind(path)) not in (None, _kind(temporary)):
                raise ValueError(
                    f"Cannot write {path}: it is a {kind}, which would be "
                    "lost. Choose another path"
                )
            _move_into_place(temporary, path, folder)
    except Exception as error:
        if not _is_disk_full(error):
            raise
        raise OSError(
            errno.ENOSPC,
            f"Cannot write {path}: the disk is full, or a quota is reached. "
            "The previous file is unchanged. Free some space, or choose "
            "another folder",
        ) from error


def _kind(path):
    """Returns `"file"`, `"folder"`, `"device"`, or `None` if nothing exists."""
    with contextlib.suppress(OSError):
        # One system call, since another process may move the path between two.
        mode = os.stat(path).st_mode
        if stat.S_ISDIR(mode):
            return "folder"
        return "file" if stat.S_ISREG(mode) else "device"


def write_text(path, text):
    """Writes a UTF-8 file."""
    with atomic_path(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_csv(path, names, rows):
    """Writes a CSV file with the header `names`."""
    with atomic_path(path) as temporary:
        with open(temporary, "w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(names)
            writer.writerows(rows)


def _make_writable_parent(path):
    held = _held.get(os.path.abspath(path.parent))
    if held is not None and not _is_at(held, path.parent / LOCK):
        raise FileNotFoundError(
            f"Cannot write {path}: the folder {path.parent} was moved or "
            "deleted while it was in use. Start again in another folder"
        )
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OSError(
            error.errno,
            f"Cannot write {path}: its folder cannot be created "
            f"({error.strerror}). Choose a path in a writable folder",
            str(path.parent),
        ) from error
    if not os.access(path.parent, os.W_OK | os.X_OK):
        raise PermissionError(
            f"Cannot write {path}: its folder is not writable. Choose a path "
            "in a writable folder."
        )


# Each writing process locks a file in its own folder. The kernel releases the
# locks of a killed process, even in other containers.
_LOCK, _NEW, _OLD = "lock", "new", "old"


@contextlib.contextmanager
def _writer_folder(parent):
    """Creates and locks a temporary folder, and removes it after the block."""
    lock = None
    while lock is None:
        folder = parent / f".memlm-{uuid.uuid4().hex[:12]}.partial"
        folder.mkdir()
        try:
            # Another process may remove the folder before it is locked.
            lock = _lock(folder / _LOCK)
        except OSError:
            folder.rmdir()
            raise
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)


def _remove_folders_of_killed_writers(parent):
    for name in glob.glob(f".memlm-{'?' * 12}.partial", root_dir=parent):
        with contextlib.suppress(OSError):
            if (lock := _lock(parent / name / _LOCK, required=True)) is None:
                continue
            try:
                _put_back(parent / name)
                shutil.rmtree(parent / name, ignore_errors=True)
            finally:
                os.close(lock)


def _lock(file, required=False):
    """Locks a file; returns a descriptor, or `None` if it is locked or gone."""
    try:
        lock = os.open(file, os.O_RDWR | os.O_CREAT, 0o666)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # The process that had the lock may have removed the file.
        if _is_at(lock, file):
            return lock
    except BlockingIOError:
        pass
    except OSError:
        # Without locks, nothing shows whether the file's creator is running.
        if not required:
            return lock
        os.close(lock)
        raise
    os.close(lock)
    return None


def _is_at(lock, file):
    """Returns whether the path `file` still refers to the open file `lock`."""
    try:
        return os.path.samestat(os.fstat(lock), os.stat(file))
    except FileNotFoundError:
        return False


# Name of the lock file, whose text identifies the process with the lock.
LOCK = ".lock"
# Descriptors of the locks that this process holds, by folder.
_held = {}


@contextlib.contextmanager
def hold(folder):
    """Locks a folder for this process during the block.

    The folder is created if necessary. `BlockingIOError` names the process that
    holds the lock. If the folder is moved or deleted in the meantime,
    `atomic_path` raises an error instead of writing to the folder.
    """
    folder = pathlib.Path(folder)
    file = folder / LOCK
    _make_writable_parent(file)
    if (lock := _lock(file)) is None:
        who = "another process"
        with contextlib.suppress(OSError):
            who = file.read_text(encoding="utf-8") or who
        raise BlockingIOError(
            f"{folder} is in use by {who}. Wait until it ends, or use "
            "another folder"
        )
    now = time.strftime("%Y-%m-%d %H:%M:%S")
    who = f"process {os.getpid()} of {socket.gethostname()} since {now}"
    key = os.path.abspath(folder)
    try:
        os.ftruncate(lock, 0)
        os.write(lock, who.encode())
        _held[key] = lock
        yield
    finally:
        _held.pop(key, None)
        if _is_at(lock, file):
            file.unlink()
        os.close(lock)


def _move_into_place(temporary, path, folder):
    old = folder / _OLD / path.name
    while True:
        try:
            os.replace(temporary, path)
            return
        except OSError as error:
            # `os.replace` cannot replace a folder that is not empty.
            taken = (errno.EEXIST, errno.EISDIR, errno.ENOTDIR, errno.ENOTEMPTY)
            if error.errno not in taken:
                _put_back(folder)
                raise
        if _exchange(temporary, path):
            return
        # For a moment `path` does not exist, and another process may create it.
        shutil.rmtree(old.parent, ignore_errors=True)
        old.parent.mkdir()
        with contextlib.suppress(FileNotFoundError):
            os.replace(path, old)


def _put_back(folder):
    """Moves old files back to their paths, unless new files exist there."""
    if (folder / _OLD).is_dir():
        for old in (folder / _OLD).iterdir():
            target = folder.parent / old.name
            if not os.path.lexists(target):
                os.replace(old, target)


def _exchange(one, other):
    """Swaps two files or folders atomically; returns whether it succeeded."""
    working_folder, exchange = -100, 2  # AT_FDCWD, RENAME_EXCHANGE
    one, other = os.fsencode(one), os.fsencode(other)
    # Only Linux has this function.
    rename = getattr(ctypes.CDLL(None), "renameat2", lambda *arguments: -1)
    return not rename(working_folder, one, working_folder, other, exchange)


def _is_disk_full(error):
    full = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
    while error is not None:
        if getattr(error, "errno", None) in full:
            return True
        # Errors of NumPy, HDF5 and TensorFlow have no `errno`.
        if re.search(r"requested and \d+ written|errno = 28", str(error)):
            return True
        if any(os.strerror(number) in str(error) for number in full):
            return True
        error = error.__cause__ or error.__context__
    return False


# === Reading ===


def read_json(path, what, remedy="Delete it to create it again.", types=None):
    """Reads a JSON file; raises the errors that `reading` describes.

    `types` is a dict from keys to types. With `types`, the file must hold an
    object whose values, at any depth, have these types. Looking up a missing
    key then raises a `ValueError` that calls the file damaged.
    """

    def make(values):
        return _Object(values, path, what, remedy)

    with reading(path, what, remedy):
        text = pathlib.Path(path).read_text(encoding="utf-8")
        if types is None:
            return json.loads(text)
        content = json.loads(text, object_hook=make)
        if not isinstance(content, dict):
            raise ValueError("the file does not contain a JSON object")
        _require_types(content, types)
        return content


class _Object(dict):
    """Dict of a JSON object; looking up a missing key raises `ValueError`."""

    def __init__(self, values, *arguments):
        super().__init__(values)
        self._arguments = arguments

    def __missing__(self, key):
        with reading(*self._arguments):
            raise ValueError(f"it lacks {key!r}")


def _require_types(values, types):
    for name, value in values.items():
        expected = types.get(name, object)
        parts = [value]
        if isinstance(expected, list):
            # In `types`, `[int]` means a list of integers.
            (expected,) = expected
            parts = value if isinstance(value, list) else [None]
        if not all(isinstance(part, expected) for part in parts):
            raise ValueError(f"{name} is {value!r}")
        if isinstance(value, dict):
            _require_types(value, types)


def load_model(path, what="model", remedy="Put an intact copy in its place."):
    """Loads a `.keras` file without compiling, or raises `ValueError`."""
    import keras

    with reading(path, what, remedy), zipfile.ZipFile(path) as archive:
        if (damaged := archive.testzip()) is not None:
            raise zipfile.BadZipFile(f"the checksum of {damaged} is wrong")
    try:
        with blank_weights():
            return keras.saving.load_model(path, compile=False)
    except Exception as error:
        # Keras nests error messages; the innermost one names the cause.
        reason = str(error).rpartition("Exception encountered: ")[2]
        reason = reason.strip().partition("\n")[0] or repr(error)
        raise ValueError(
            f"The {what} {path} cannot be loaded: {reason} Was it written by "
            "another version, or with layers of a package that is not imported?"
        ) from error


_making_blank = threading.RLock()
# Keras' random initializers that define `__call__`.
_RANDOM = (
    "Orthogonal",
    "RandomNormal",
    "RandomUniform",
    "TruncatedNormal",
    "VarianceScaling",
)


@contextlib.contextmanager
def blank_weights():
    """Within this context, initializers without a seed return zeros in this
    thread, since JAX would compile their random draws for each shape."""
    import keras
    import numpy as np

    thread = threading.get_ident()

    def zeros_in_place_of(draw):
        @functools.wraps(draw)
        def make(self, shape, dtype=None, **kwargs):
            seeded = self.get_config().get("seed") is not None
            if seeded or threading.get_ident() != thread:
                return draw(self, shape, dtype, **kwargs)
            zeros = np.zeros(shape, "float32")
            return keras.ops.convert_to_tensor(zeros, dtype)

        return make

    with _making_blank, contextlib.ExitStack() as stack:
        # With several devices, Keras' initializers also place the weights.
        if keras.distribution.distribution() is None:
            for name in _RANDOM:
                cls = getattr(keras.initializers, name)
                stack.callback(setattr, cls, "__call__", cls.__call__)
                cls.__call__ = zeros_in_place_of(cls.__call__)
        yield


@contextlib.contextmanager
def reading(path, what, remedy):
    """Raises `FileNotFoundError` if the file is missing; turns most other
    errors into a `ValueError` that calls `what` damaged and gives `remedy`."""
    try:
        yield
    except (FileNotFoundError, NotADirectoryError) as error:
        raise FileNotFoundError(f"There is no {what} at {path}.") from error
    except (PermissionError, ImportError):
        raise
    # Readers of JSON, archives and arrays raise errors of almost any type.
    except Exception as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise ValueError(
            f"The {what} {path} is damaged and cannot be read ({reason}). "
            f"{remedy}"
        ) from error


@contextlib.contextmanager
def open_lines(path):
    """Opens a text file, which gzip or zip may have compressed, for reading
    bytes. Yields the file, positioned after any byte order mark, and a function
    that returns the fraction of the file read so far."""
    with contextlib.ExitStack() as stack:
        raw = file = stack.enter_context(open(path, "rb"))
        size = os.fstat(raw.fileno()).st_size
        magic = raw.peek(2)[:2]
        if magic == b"\x1f\x8b":
            file = stack.enter_context(gzip.GzipFile(fileobj=raw))
        elif magic == b"PK":
            archive = stack.enter_context(zipfile.ZipFile(raw))
            members = [info for info in archive.infolist() if not info.is_dir()]
            if len(members) != 1:
                raise ValueError(
                    "the zip archive must hold one file. Received: "
                    f"{[info.filename for info in members]}"
                )
            file = stack.enter_context(archive.open(members[0]))
        file = io.BufferedReader(file)
        if file.peek(3)[:3] == b"\xef\xbb\xbf":
            file.read(3)
        if b"\0" in file.peek(4096)[:4096]:
            raise ValueError("the file must be UTF-8 text, but has zero bytes")
        yield file, lambda: raw.tell() / max(1, size)


# === Standard error ===


@contextlib.contextmanager
def silent_stderr():
    """Discards standard error in the block, since TensorFlow's import writes
    messages there before TensorFlow reads the log level."""
    if sys.stderr is not None:
        sys.stderr.flush()
    try:
        stderr = os.dup(2)
    except OSError:  # Standard error is closed.
        yield
        return
    with open(os.devnull, "wb") as nowhere:
        os.dup2(nowhere.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(stderr, 2)
        os.close(stderr)


def import_package(module, user, package=None):
    """Imports an optional module without TensorFlow's log. The `ImportError`
    names the package to install and `user`, which needs it."""
    try:
        with silent_stderr():
            return importlib.import_module(module)
    except ImportError as error:
        package = package or module
        raise ImportError(
            f"{user} needs {package}. Install it with `pip install {package}`. "
            f"Received: {error}"
        ) from error

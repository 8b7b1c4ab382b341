"""Files, written whole or not at all, and read with errors that help. The last
one is the standard error."""

import contextlib
import csv
import ctypes
import errno
import fcntl
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
import sys
import time
import uuid
import zipfile

# === Writing ===


@contextlib.contextmanager
def atomic_path(path):
    """Yields a temporary path that replaces `path` if the block succeeds.

    A file replaces a file, and a folder a folder; all else stays, with a
    `ValueError`. Of a symbolic link, the target is replaced.
    """
    path = pathlib.Path(path)
    if path.is_symlink():
        path = path.resolve()
    if path.exists() and not (path.is_file() or path.is_dir()):
        raise ValueError(
            f"Cannot write {path}: it is a device or a pipe. Choose the path "
            "of a file"
        )
    _make_writable_parent(path)
    # Writers of one path at once each replace it whole; a killed one leaves a
    # hidden folder, which the next removes.
    _remove_folders_of_killed_writers(path.parent)
    try:
        with _writer_folder(path.parent) as folder:
            temporary = folder / _NEW / path.name
            temporary.parent.mkdir()
            yield temporary
            if not os.path.lexists(temporary):
                raise FileNotFoundError(
                    f"Nothing was written for {path}: the block under "
                    f"`atomic_path` must write to the path that it is given, "
                    f"{temporary}."
                )
            if path.exists() and path.is_dir() != temporary.is_dir():
                is_what = "folder" if path.is_dir() else "file"
                raise ValueError(
                    f"Cannot write {path}: it is a {is_what}, which would be "
                    "lost. Choose another path"
                )
            _move_into_place(temporary, path, folder)
    except Exception as error:
        if not _is_disk_full(error):
            raise
        raise OSError(
            errno.ENOSPC,
            f"Cannot write {path}: the disk is full, or a quota or limit of "
            "file sizes is reached. The previous file is untouched. Free some "
            "space, or choose another folder",
        ) from error


def write_csv(path, records):
    """Writes dicts with equal keys as CSV."""
    with atomic_path(path) as temporary:
        with open(temporary, "w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, list(records[0]) if records else [])
            writer.writeheader()
            writer.writerows(records)


def _make_writable_parent(path):
    held = _held.get(os.path.abspath(path.parent))
    if held is not None and not _is_at(held, path.parent / LOCK):
        raise FileNotFoundError(
            f"{path.parent} was moved or deleted while it was in use, so "
            "nothing more is written there. Begin anew, in a folder that stays"
        )
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


# Each writer has a folder with a file that it locks until it ends. The kernel
# releases the lock of a killed process too, and, unlike a process id, a lock
# means the same in another container.
_LOCK, _NEW, _OLD = "lock", "new", "old"


@contextlib.contextmanager
def _writer_folder(parent):
    """Makes and locks a folder that no other writer uses, and removes it."""
    lock = None
    while lock is None:
        folder = parent / f".memlm-{uuid.uuid4().hex[:12]}.partial"
        folder.mkdir()
        try:
            # Before it is locked, another writer may remove it as abandoned.
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
            lock = _lock(parent / name / _LOCK, required=True)
            if lock is None:
                continue
            try:
                _put_back(parent / name)
                shutil.rmtree(parent / name, ignore_errors=True)
            finally:
                os.close(lock)


def _lock(file, required=False):
    """Returns a locked file, or `None` if it is locked or its folder gone."""
    try:
        lock = os.open(file, os.O_RDWR | os.O_CREAT, 0o666)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # The previous owner of the lock may have removed the file.
        if _is_at(lock, file):
            return lock
    except BlockingIOError:
        pass
    except OSError:
        # A file system without locks: whether the writer lives is not known.
        if not required:
            return lock
        os.close(lock)
        raise
    os.close(lock)
    return None


def _is_at(lock, file):
    """Whether an open file is still the one at a path."""
    try:
        return os.path.samestat(os.fstat(lock), os.stat(file))
    except FileNotFoundError:
        return False


# A file in a folder that only one process may use at a time, which it names.
LOCK = ".lock"
# Locks of such folders of this process, by path.
_held = {}


@contextlib.contextmanager
def hold(folder):
    """Keeps other processes out of a folder, which is made if necessary, until
    the block or this process ends; raises `BlockingIOError` that says who is
    there.

    `atomic_path` refuses to write into it once it was moved or deleted.
    """
    folder = pathlib.Path(folder)
    file = folder / LOCK
    _make_writable_parent(file)
    lock = _lock(file)
    if lock is None:
        who = "another process"
        with contextlib.suppress(OSError):
            who = file.read_text(encoding="utf-8") or who
        raise BlockingIOError(
            f"{folder} is in use by {who}. Wait until that ends, or use "
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
            # `os.replace` does not replace a folder that is not empty.
            if error.errno not in _PATH_IS_TAKEN:
                _put_back(folder)
                raise
        if _exchange(temporary, path):
            return
        # `path` is missing for a moment; another writer may make it first.
        shutil.rmtree(old.parent, ignore_errors=True)
        old.parent.mkdir()
        with contextlib.suppress(FileNotFoundError):
            os.replace(path, old)


_PATH_IS_TAKEN = (errno.EEXIST, errno.EISDIR, errno.ENOTDIR, errno.ENOTEMPTY)


def _put_back(folder):
    """Restores what a writer moved away, unless its path is taken again."""
    if (folder / _OLD).is_dir():
        for old in (folder / _OLD).iterdir():
            target = folder.parent / old.name
            if not os.path.lexists(target):
                os.replace(old, target)


def _exchange(one, other):
    """Swaps two paths atomically; returns whether the file system could."""
    working_folder, exchange = -100, 2  # AT_FDCWD, RENAME_EXCHANGE
    one, other = os.fsencode(one), os.fsencode(other)
    return not ctypes.CDLL(None).renameat2(
        working_folder, one, working_folder, other, exchange
    )


def _is_disk_full(error):
    full = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
    while error is not None:
        if getattr(error, "errno", None) in full:
            return True
        # Messages of NumPy, HDF5 and TensorFlow, whose errors have no number.
        if re.search(r"requested and \d+ written|errno = 28", str(error)):
            return True
        if any(os.strerror(number) in str(error) for number in full):
            return True
        error = error.__cause__ or error.__context__
    return False


# === Reading ===


def read_json(path, what, remedy="Delete it to make it anew.", types=None):
    """Reads a JSON file, with the errors of `reading`.

    With `types`, it must be an object; values of these names, in whatever
    object, must be of these types, and a missing key of an object is such an
    error too, also later.
    """

    def make(values):
        return _Object(values, path, what, remedy)

    with reading(path, what, remedy):
        text = pathlib.Path(path).read_text(encoding="utf-8")
        if types is None:
            return json.loads(text)
        content = json.loads(text, object_hook=make)
        if not isinstance(content, dict):
            raise ValueError("it is no object")
        _require_types(content, types)
        return content


class _Object(dict):
    """An object of a JSON file; a missing key is an error of the file."""

    def __init__(self, values, *of):
        super().__init__(values)
        self._of = of

    def __missing__(self, key):
        with reading(*self._of):
            raise ValueError(f"it lacks {key!r}")


def _require_types(values, types):
    for name, value in values.items():
        expected = types.get(name, object)
        parts = [value]
        if isinstance(expected, list):
            # The type is that of the list's elements.
            (expected,) = expected
            parts = value if isinstance(value, list) else [None]
        if not all(isinstance(part, expected) for part in parts):
            raise ValueError(f"{name} is {value!r}")
        if isinstance(value, dict):
            _require_types(value, types)


def load_model(path, what="model", remedy="Put an intact copy in its place."):
    """Loads a `.keras` file, not compiled; errors are `ValueError`s."""
    import keras

    with reading(path, what, remedy), zipfile.ZipFile(path) as archive:
        damaged = archive.testzip()
        if damaged is not None:
            raise zipfile.BadZipFile(f"the checksum of {damaged} is wrong")
    try:
        return keras.saving.load_model(path, compile=False)
    except Exception as error:
        # Keras nests explanations; the innermost has the cause.
        reason = str(error).rpartition("Exception encountered: ")[2]
        reason = reason.strip().partition("\n")[0] or repr(error)
        raise ValueError(
            f"The {what} {path} cannot be loaded: {reason} Was it written by "
            "another version, or with layers of a package that is not imported?"
        ) from error


@contextlib.contextmanager
def reading(path, what, remedy):
    """Turns errors of reading a damaged file into a `ValueError` that names its
    content, `what`, and a `remedy`; a missing file is a `FileNotFoundError`."""
    try:
        yield
    except (FileNotFoundError, NotADirectoryError) as error:
        raise FileNotFoundError(f"There is no {what} at {path}.") from error
    except (PermissionError, ImportError):
        raise
    # Readers of JSON, archives and arrays raise almost any error.
    except Exception as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise ValueError(
            f"The {what} {path} is damaged and cannot be read ({reason}). "
            f"{remedy}"
        ) from error


@contextlib.contextmanager
def open_lines(path):
    """Opens a file of lines for reading bytes, behind a byte order mark.

    Its first bytes tell whether it is packed: by gzip, or as the one file of a
    zip archive. Yields the file, and a function of the share that was read."""
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
                    "the archive must hold one file. Received: "
                    f"{[info.filename for info in members]}"
                )
            file = stack.enter_context(archive.open(members[0]))
        file = io.BufferedReader(file)
        if file.peek(3)[:3] == b"\xef\xbb\xbf":
            file.read(3)
        if b"\0" in file.peek(4096)[:4096]:
            raise ValueError("it must be UTF-8 text, and has zero bytes")
        yield file, lambda: raw.tell() / max(1, size)


# === Standard error ===


@contextlib.contextmanager
def silent_stderr():
    """Hides what TensorFlow writes when it is imported, before it reads its log
    level, and not through Python. Errors come as exceptions."""
    if sys.stderr is not None:
        sys.stderr.flush()
    try:
        stderr = os.dup(2)
    except OSError:  # There is none.
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
    """Imports a module that few programs need, without TensorFlow's log; raises
    an `ImportError` that names its user and its package."""
    try:
        with silent_stderr():
            return importlib.import_module(module)
    except ImportError as error:
        package = package or module
        raise ImportError(
            f"{user} needs {package}. Install it with `pip install {package}`. "
            f"Received: {error}"
        ) from error

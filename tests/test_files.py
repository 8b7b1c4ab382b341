"""Tests atomic writes by one or several processes, and errors of damaged
files."""

import errno
import functools
import multiprocessing
import os
import re
import resource
import shutil
import signal

import keras
import numpy as np
import pytest

from memlm_keras import files
from memlm_keras.files import atomic_path
from memlm_keras.files import load_model
from memlm_keras.files import read_json


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def write(path, text="new", file=None, error=None):
    """Writes a file, or a folder with the file `file`; then raises `error`."""
    with atomic_path(path) as temporary:
        if file:
            temporary.mkdir()
            temporary /= file
        temporary.write_text(text)
        if error:
            raise error


def test_what_is_written_is_moved_into_place(tmp_path):
    target = tmp_path / "new" / "model.weights.h5"
    with atomic_path(target) as temporary:
        assert temporary.name == "model.weights.h5"
        temporary.write_text("whole")
        assert not target.exists()
    assert target.read_text() == "whole"
    with pytest.raises(FileNotFoundError, match="Nothing was written for"):
        with atomic_path(target.parent / "nothing"):
            pass
    assert names(target.parent) == ["model.weights.h5"]


@pytest.mark.parametrize("kind", ["folder", "file", "pipe"])
def test_nothing_of_another_kind_is_replaced(tmp_path, kind):
    path = tmp_path / "path"
    if kind == "folder":
        (path / "thesis").mkdir(parents=True)
    elif kind == "file":
        path.write_text("thesis")
    else:
        os.mkfifo(path)
    before = path.lstat()
    with pytest.raises(ValueError, match="Cannot write .*path: it is a"):
        write(path, file="new" if kind == "file" else None)
    assert path.lstat() == before and names(tmp_path) == ["path"]


def test_the_target_of_a_link_is_replaced(tmp_path):
    (tmp_path / "target").write_text("old")
    (tmp_path / "link").symlink_to(tmp_path / "target")
    write(tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "target").read_text() == "new"


@pytest.mark.parametrize("file", [None, "part"])
def test_failure_leaves_what_was_there(tmp_path, file):
    target = tmp_path / "result"
    target.write_text("old")
    with pytest.raises(KeyboardInterrupt):
        write(target, file=file, error=KeyboardInterrupt())
    assert target.read_text() == "old"
    assert names(tmp_path) == ["result"]


@pytest.mark.parametrize("below", ["file/result", "file/deeper/result"])
def test_parents_that_cannot_be_made_or_written(tmp_path, below, monkeypatch):
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(OSError, match=f"Cannot write .*{below}"):
        write(tmp_path / below)
    # Replace `os.access`, since file modes do not restrict the super-user.
    monkeypatch.setattr("os.access", lambda path, mode: False)
    with pytest.raises(PermissionError, match="Cannot write .*result"):
        write(tmp_path / "result")


# === Damaged JSON files ===


@pytest.mark.parametrize(
    "content",
    [b"", b'{"a": 1', b"\xff\xfe{}", b"[" * 100_000, b"\x00\x01", b"{}}"],
    ids=["empty", "cut", "no_utf8", "deep", "binary", "more"],
)
def test_damaged_json_is_named(tmp_path, content):
    path = tmp_path / "config.json"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"config.json is damaged.*Make") as e:
        read_json(path, "configuration", remedy="Make it anew.")
    assert "\n" not in str(e.value)


def test_missing_files_are_named(tmp_path):
    for read in (read_json, load_model):
        with pytest.raises(FileNotFoundError, match="no vocabulary at .*v.x"):
            read(tmp_path / "v.x", "vocabulary")
    (tmp_path / "words.json").write_text('{"ä": [1]}', encoding="utf-8")
    assert read_json(tmp_path / "words.json", "words") == {"ä": [1]}


# === Concurrent writers and killed writers ===


def in_processes(function, count):
    """Runs `function(index)` in `count` processes; returns their exit codes."""
    context = multiprocessing.get_context("fork")
    processes = [
        context.Process(target=function, args=(index,))
        for index in range(count)
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join(60)
    return [process.exitcode for process in processes]


@pytest.mark.parametrize("exchange", [True, False])
def test_processes_that_write_the_same_folder(tmp_path, monkeypatch, exchange):
    if not exchange:
        monkeypatch.setattr(files.ctypes, "CDLL", lambda name: object())
    target = tmp_path / "cache" / "tokens"
    barrier = multiprocessing.get_context("fork").Barrier(4)

    def write_often(index):
        barrier.wait(60)
        for number in range(40):
            with atomic_path(target) as temporary:
                temporary.mkdir()
                for name in ("first", "second"):
                    (temporary / name).write_text(f"{index} {number}")
            # If folders are swapped, the target exists at any time.
            assert target.is_dir() or not exchange

    assert in_processes(write_often, 4) == [0] * 4
    assert (target / "first").read_text() == (target / "second").read_text()
    assert names(target.parent) == ["tokens"]


def test_folders_of_killed_writers_are_removed(tmp_path):
    target = tmp_path / "result"
    target.write_text("old")

    def be_killed(index):
        with atomic_path(target) as temporary:
            temporary.mkdir()
            (temporary / "part").write_text("half")
            os.kill(os.getpid(), signal.SIGKILL)

    assert in_processes(be_killed, 3) == [-signal.SIGKILL] * 3
    # A later writer may have removed the folders of earlier ones.
    left = set(names(tmp_path)) - {"result"}
    assert left
    for name in left:
        assert re.fullmatch(r"\.memlm-[0-9a-f]{12}\.partial", name)
    assert target.read_text() == "old"
    (tmp_path / ".hidden.partial").mkdir()
    write(tmp_path / "another")
    assert names(tmp_path) == [".hidden.partial", "another", "result"]


def test_folders_of_living_writers_stay(tmp_path):
    with atomic_path(tmp_path / "slow") as slow:
        slow.mkdir()
        (slow / "part").write_text("half")
        quick = functools.partial(write, tmp_path / "quick", "whole")
        assert in_processes(lambda index: quick(), 2) == [0, 0]
        quick()
        assert (slow / "part").read_text() == "half"
    assert names(tmp_path) == ["quick", "slow"]


def test_killed_between_old_and_new(tmp_path, monkeypatch):
    """Where two folders cannot be swapped, the next writer restores the old
    one."""
    monkeypatch.setattr(files, "_exchange", lambda one, other: False)
    target = tmp_path / "export"
    replace = os.replace

    def kill_when_old_is_away(source, destination):
        replace(source, destination)
        if source == target:
            os.kill(os.getpid(), signal.SIGKILL)

    def be_killed(index):
        files.os.replace = kill_when_old_is_away
        write(target, file="new")

    write(target, file="old")
    assert in_processes(be_killed, 1) == [-signal.SIGKILL]
    assert not target.exists()
    write(tmp_path / "other")
    assert names(target) == ["old"]
    assert names(tmp_path) == ["export", "other"]
    write(target, file="newer")
    assert names(target) == ["newer"]
    assert names(tmp_path) == ["export", "other"]


# === Folders that one process locks ===


def test_a_folder_is_held_by_one_process(tmp_path):
    folder = tmp_path / "new" / "run"

    def be_refused(index):
        with pytest.raises(BlockingIOError, match=rf"run is in use by {who}"):
            with files.hold(folder):
                pytest.fail("the block must not run")

    def be_killed(index):
        with files.hold(folder):
            os.kill(os.getpid(), signal.SIGKILL)

    with files.hold(folder):
        who = f"process {os.getpid()} of .+ since 20"
        assert in_processes(be_refused, 2) == [0, 0]
        be_refused(2)
    assert names(folder) == []
    assert in_processes(be_killed, 1) == [-signal.SIGKILL]
    assert names(folder) == [files.LOCK]
    with files.hold(folder):
        write(folder / "result")
    assert names(folder) == ["result"]


@pytest.mark.parametrize("again", [False, True])
def test_a_held_folder_that_was_deleted_is_not_made_again(tmp_path, again):
    folder = tmp_path / "run"
    with files.hold(folder):
        shutil.rmtree(folder)
        if again:
            folder.mkdir()
        with pytest.raises(FileNotFoundError, match="run was moved or deleted"):
            write(folder / "result")
    assert folder.exists() == again


# === Full disks ===


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.ENOSPC, "No space left on device"),
        OSError("4096 requested and 512 written"),
        RuntimeError("Can't write data (file write failed: errno = 28, ...)"),
        RuntimeError("1/saved_model.pb.tmp8; No space left on device"),
    ],
)
def test_full_disk_is_one_line(tmp_path, error):
    target = tmp_path / "result"
    target.write_text("old")
    with pytest.raises(OSError, match="result: the disk is full.*Free") as e:
        write(target, error=error)
    assert e.value.errno == errno.ENOSPC and "\n" not in str(e.value)
    assert target.read_text() == "old"
    assert names(tmp_path) == ["result"]


def test_real_limit_of_file_sizes(tmp_path):
    def write(index):
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
        with pytest.raises(OSError, match="result: the disk is full"):
            with atomic_path(tmp_path / "result") as temporary:
                np.save(temporary, np.zeros(100_000))

    assert in_processes(write, 1) == [0]
    assert names(tmp_path) == []


# === Damaged models ===


@pytest.fixture
def model_path(tmp_path):
    path = tmp_path / "model.keras"
    inputs = keras.Input((3,))
    keras.Model(inputs, keras.layers.Dense(40)(inputs)).save(path)
    return path


def test_damaged_models_are_named(model_path, random):
    assert load_model(model_path).count_params() == 160
    content = model_path.read_bytes()
    for _ in range(60):
        damaged = bytearray(content)
        position = int(random.integers(len(damaged)))
        if random.random() < 0.5:
            del damaged[position:]
        else:
            # Overwrite 8 bytes: a single changed bit of a ZIP flag may have no
            # effect.
            damaged[position : position + 8] = random.bytes(8)
        model_path.write_bytes(bytes(damaged))
        try:
            model = load_model(model_path)
        except ValueError as error:
            assert "model.keras" in str(error) and "\n" not in str(error)
        else:
            assert model.count_params() == 160
    model_path.write_bytes(content[:-30])
    with pytest.raises(ValueError, match="is damaged.*Put an intact copy"):
        load_model(model_path)


def test_a_foreign_model_is_not_damaged(tmp_path):
    @keras.saving.register_keras_serializable("elsewhere")
    class Foreign(keras.layers.Dense):
        pass

    path = tmp_path / "model.keras"
    keras.Sequential([keras.Input((3,)), Foreign(2)]).save(path)
    keras.saving.get_custom_objects().pop("elsewhere>Foreign")
    with pytest.raises(ValueError, match="cannot be loaded: .*Foreign") as e:
        load_model(path)
    assert "\n" not in str(e.value)

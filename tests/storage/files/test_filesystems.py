"""The file systems: one set of rules for all, what a crash may leave, errors as `DiskError`."""

from __future__ import annotations

import os
import random
import subprocess
import sys

import pytest
from nyala.errors import DiskError, StoreLocked
from nyala.storage.files.memory_filesystem import CrashableFileSystem, FaultyFileSystem, MemoryFileSystem
from nyala.storage.files.os_filesystem import OsFileSystem


@pytest.fixture(params=["os", "memory", "crashable", "faulty"])
def place(request, tmp_path):
    """A file system and an existing directory in it."""
    if request.param == "os":
        return OsFileSystem(), str(tmp_path)
    fs = {"memory": MemoryFileSystem, "crashable": CrashableFileSystem}.get(request.param, MemoryFileSystem)()
    fs.make_directory("/dir")
    return (FaultyFileSystem(fs) if request.param == "faulty" else fs), "/dir"


def write(fs, path: str, data: bytes, sync: bool = False) -> None:
    file = fs.create(path)
    file.write(data)
    if sync:
        file.sync()
    file.close()


def content(fs, path: str) -> bytes:
    file = fs.open(path)
    try:
        return file.read_at(0, file.size)
    finally:
        file.close()


def test_files_are_written_read_appended_and_cut(place):
    fs, root = place
    path = f"{root}/file"
    write(fs, path, b"hello")
    file = fs.append(path)
    assert file.size == 5
    file.write(memoryview(b" world"))
    assert file.size == 11
    file.close()
    reader = fs.open(path)
    assert (reader.size, reader.read_at(6, 3), reader.read_at(6, 99), reader.read_at(99, 1)) == (
        11,
        b"wor",
        b"world",
        b"",
    )
    reader.close()
    fs.truncate(path, 4)
    assert content(fs, path) == b"hell"
    write(fs, path, b"new")
    assert content(fs, path) == b"new"


def test_names_move_and_go(place):
    fs, root = place
    fs.make_directory(f"{root}/a/b")
    fs.make_directory(f"{root}/a/b")
    write(fs, f"{root}/a/b/one", b"1")
    write(fs, f"{root}/a/b/two", b"2")
    assert fs.list(f"{root}/a/b") == ["one", "two"]
    fs.rename(f"{root}/a/b/one", f"{root}/a/b/two")
    assert fs.list(f"{root}/a/b") == ["two"]
    assert content(fs, f"{root}/a/b/two") == b"1"
    fs.remove(f"{root}/a/b/two")
    assert not fs.exists(f"{root}/a/b/two")
    fs.sync_directory(f"{root}/a/b")
    fs.remove_tree(f"{root}/a")
    fs.remove_tree(f"{root}/a")
    assert fs.list(root) == []


@pytest.mark.parametrize("action", ["open", "append", "remove", "truncate", "list", "sync_directory", "create"])
def test_errors_name_the_path(place, action):
    fs, root = place
    path = f"{root}/nowhere/file"
    arguments = {"truncate": (path, 0)}.get(action, (path,))
    with pytest.raises(DiskError, match=r"nowhere.*No such file or directory"):
        getattr(fs, action)(*arguments)


def test_a_lock_has_one_holder(place):
    fs, root = place
    lock = fs.lock(f"{root}/LOCK")
    with pytest.raises(StoreLocked, match="this process"):
        fs.lock(f"{root}/LOCK")
    lock.release()
    lock.release()
    fs.lock(f"{root}/LOCK").release()


def test_a_lock_of_another_process_names_it(tmp_path):
    script = (
        "import sys; from nyala.storage.files.os_filesystem import OsFileSystem as F;"
        f"lock = F().lock({str(tmp_path / 'LOCK')!r}); print('locked', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout.readline() == "locked\n"
        with pytest.raises(StoreLocked, match=f"process {process.pid};"):
            OsFileSystem().lock(str(tmp_path / "LOCK"))
        process.kill()
    # The system gave the lock back.
    OsFileSystem().lock(str(tmp_path / "LOCK")).release()


def test_a_closed_file_writes_nowhere(tmp_path):
    file = OsFileSystem().create(str(tmp_path / "file"))
    file.close()
    other = os.open(tmp_path / "other", os.O_RDWR | os.O_CREAT)  # most likely the same descriptor
    try:
        for action in (lambda: file.write(b"x"), file.sync):
            with pytest.raises(DiskError, match="Bad file descriptor"):
                action()
    finally:
        os.close(other)
    assert (tmp_path / "other").read_bytes() == b""


# ---- crashes -----------------------------------------------------------------------------------------------------


def test_a_crash_keeps_synced_bytes_under_synced_names_only():
    fs = CrashableFileSystem()
    fs.make_directory("d")
    fs.sync_directory("")
    write(fs, "d/kept", b"synced", sync=True)
    fs.sync_directory("d")
    file = fs.append("d/kept")
    file.write(b" and not")
    write(fs, "d/nameless", b"synced", sync=True)
    crashed = fs.crash(0.0, random.Random(1))
    assert crashed.list("d") == ["kept"]
    assert content(crashed, "d/kept") == b"synced"
    everything = fs.crash(1.0, random.Random(7))
    assert everything.list("d") == ["kept", "nameless"]
    # The file system that crashed is still in use.
    assert content(fs, "d/kept") == b"synced and not"


def test_a_crash_undoes_unsynced_renames_and_removals():
    fs = CrashableFileSystem()
    for name in ("a", "b"):
        write(fs, name, name.encode(), sync=True)
    fs.sync_directory("")
    fs.rename("a", "b")
    assert fs.crash(0.0, random.Random(1)).list("") == ["a", "b"]
    assert content(fs.crash(0.0, random.Random(1)), "b") == b"b"
    assert fs.crash(1.0, random.Random(1)).list("") == ["b"]
    fs.remove("b")
    fs.sync_directory("")
    assert fs.crash(0.0, random.Random(1)).list("") == []


def test_a_crash_may_leave_holes_in_unsynced_bytes():
    fs = CrashableFileSystem()
    write(fs, "file", b"x" * 10_000)
    fs.sync_directory("")
    found = {content(fs.crash(0.5, random.Random(seed)), "file") for seed in range(20)}
    assert any(b"\0" in data for data in found)
    assert len({len(data) for data in found}) > 1


# ---- faults ------------------------------------------------------------------------------------------------------


def test_faults_hit_the_nth_matching_operation_and_leave_half_a_write():
    fs = FaultyFileSystem(MemoryFileSystem())
    fs.fail("write", "*.log", nth=2, times=1)
    other, file = fs.create("a.txt"), fs.create("a.log")
    for data in (b"one", b"two"):
        other.write(data)
    file.write(b"first ")
    with pytest.raises(DiskError, match=r"cannot write a\.log: No space left on device"):
        file.write(b"second")
    file.write(b"third")
    assert content(fs, "a.log") == b"first secthird"
    assert fs.failures == 1

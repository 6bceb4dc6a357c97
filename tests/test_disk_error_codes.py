"""Disk errors, as a program sees them: class, `sqlstate` and `retryable` depend on the system's error code alone,
not on the operation."""

from __future__ import annotations

import errno
import os
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import nyala
import pytest
from nyala.errors import DiskError, DiskFull, Error, FileAccessError, InterfaceError, StoreLocked
from nyala.model.disk_errors import disk_error
from nyala.storage.database import Database
from nyala.storage.files.memory_filesystem import CrashableFileSystem, FaultyFileSystem
from nyala.storage.files.os_filesystem import OsFileSystem
from tablet_support import definition, insert, load

pytestmark = pytest.mark.slow

NEVER = (
    "EACCES EPERM EEXIST ENOTDIR EISDIR ENAMETOOLONG ENOENT EROFS ELOOP EINVAL EXDEV ENOTEMPTY EFBIG EBADF ETXTBSY "
    "ENODEV ENXIO ENOSYS EOPNOTSUPP EMLINK"
)
PASSING = "EIO EINTR EAGAIN EMFILE ENFILE ENOMEM EBUSY ENOLCK ESTALE ETIMEDOUT"


@pytest.mark.parametrize("name", NEVER.split())
def test_what_the_same_call_meets_again_is_not_retryable(name: str) -> None:
    error = disk_error("cannot open a", OSError(getattr(errno, name), os.strerror(getattr(errno, name))))
    assert (type(error), error.retryable, error.errno) == (FileAccessError, False, getattr(errno, name))


@pytest.mark.parametrize("name", PASSING.split())
def test_what_may_pass_is_retryable(name: str) -> None:
    error = disk_error("cannot read a", OSError(getattr(errno, name), "why"))
    assert (type(error), error.retryable, error.sqlstate) == (DiskError, True, "58030")


@pytest.mark.parametrize("name", ["ENOSPC", "EDQUOT"])
def test_a_full_disk_has_one_code(name: str) -> None:
    error = disk_error("cannot write a", OSError(getattr(errno, name), "why"))
    assert (type(error), error.retryable, error.sqlstate) == (DiskFull, True, "53100")
    again = error.repeated()
    assert (type(again), str(again), again.errno) == (DiskFull, str(error), error.errno)


def raised(action: Callable[[], object]) -> Error:
    with pytest.raises(Error) as caught:
        action()
    return caught.value


def test_the_file_system_tells_reasons_apart(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    fs = OsFileSystem()
    actions: list[Callable[[], object]] = [
        lambda: fs.open(str(tmp_path / "none")),
        lambda: fs.open(str(tmp_path / ("n" * 300))),
        lambda: fs.open(str(tmp_path / "loop")),
        lambda: fs.create(str(tmp_path)),
        lambda: fs.list(str(tmp_path / "file")),
        lambda: fs.remove(str(tmp_path / "none")),
        lambda: fs.make_directory(str(tmp_path / "file" / "below")),
        lambda: fs.rename(str(tmp_path / "none"), str(tmp_path / "other")),
    ]
    for action in actions:
        error = raised(action)
        assert (type(error), error.retryable) == (FileAccessError, False), error
    full = fs.create("/dev/full")
    assert type(raised(lambda: full.write(b"x"))) is DiskFull


@pytest.mark.parametrize("target", ["", " ", "a\0b", None, 7, b"dir"])
def test_a_target_that_names_no_store_is_refused(target: object) -> None:
    error = raised(lambda: nyala.connect(target))  # type: ignore[arg-type]
    assert type(error) is InterfaceError


def test_places_that_cannot_hold_a_store_are_not_worth_a_retry(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    for target in (tmp_path / "file", tmp_path / "file" / "below", tmp_path / ("n" * 300)):
        error = raised(lambda target=target: nyala.connect(target))
        assert (error.retryable, isinstance(error, DiskError)) == (False, True), error
    with Database(tmp_path / "db"):
        assert raised(lambda: Database(tmp_path / "db")).retryable  # another one's lock passes
        assert type(raised(lambda: Database(tmp_path / "db"))) is StoreLocked


def test_a_full_disk_is_the_same_in_log_flush_load_and_ddl() -> None:
    fs = FaultyFileSystem(CrashableFileSystem())
    with Database("db", fs=fs, background=False) as db:
        table = db.create_table(definition())
        insert(db, table, range(5))
        actions: list[Callable[[], object]] = [
            lambda: insert(db, table, [10]),
            lambda: db.write_row(table, 1, {"k": 11, "v": "x"}),
            db.flush,
            lambda: load(db, table, range(100, 110)),
            lambda: db.create_table(definition("other")),
            lambda: db.drop_table("t"),
            lambda: db.analyze_table(table),
        ]
        for action in actions:
            fs.fail("write")
            error = raised(action)
            fs.heal()
            assert (type(error), error.sqlstate) == (DiskFull, "53100"), error


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_copy_to_a_full_disk_says_so(tmp_path: Path, suffix: str) -> None:
    script = f"""
import resource, signal, nyala
from nyala.errors import Error
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
connection = nyala.connect(":memory:")
connection.execute("CREATE TABLE t (k INT PRIMARY KEY)")
import nyala.executor.files.file_writing as writing, os, errno
def full(descriptor):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
writing.os.fsync = full
try:
    connection.execute("COPY (SELECT 1 AS a) TO '{tmp_path}/x.{suffix}'")
except Error as error:
    print(type(error).__name__, error.sqlstate, error.retryable)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120, check=False)
    assert done.stdout.split() == ["DiskFull", "53100", "True"], done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "arguments",
    [
        ["shell", "-c", "SELECT 1"],
        ["shell", "-c", "SELECT * FROM generate_series(1, 50000) AS g(n)", "--format", "csv"],
        ["shell", "-c", "SELECT 1 AS n", "--format", "parquet"],
        ["shell", "-c", "\\?"],
        ["completion", "bash"],
    ],
    ids=["one row", "many rows", "parquet", "command", "completion"],
)
def test_standard_output_on_a_full_disk_is_one_line_and_an_exit_code(arguments: list[str]) -> None:
    with Path("/dev/full").open("wb") as full:
        done = run_nyala(arguments, full)
    assert done.returncode == 1
    assert done.stderr == "nyala: error: cannot write to standard output: No space left on device\n"


def test_an_output_file_on_a_full_disk_is_one_line() -> None:
    done = run_nyala(["shell", "-c", "SELECT 1", "--output", "/dev/full"], subprocess.DEVNULL)
    assert (done.returncode, done.stderr) == (1, "error: cannot write /dev/full: No space left on device\n")


def test_a_reader_that_leaves_ends_the_command_without_a_traceback() -> None:
    query = "SELECT * FROM generate_series(1, 500000) AS g(n)"
    process = subprocess.Popen(
        [sys.executable, "-m", "nyala", "shell", "-c", query, "--format", "csv"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None and process.stderr is not None
    process.stdout.readline()
    process.stdout.close()
    with process.stderr:
        assert process.stderr.read() == ""
    assert process.wait(60) == 1


def test_a_closed_standard_output_is_no_traceback() -> None:
    command = f"{sys.executable} -m nyala shell -c 'SELECT 1' >&-"
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, timeout=120, check=False)
    assert done.stderr == ""


def run_nyala(arguments: list[str], out: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "nyala", *arguments],
        stdout=out,  # type: ignore[call-overload]
        stderr=subprocess.PIPE,
        text=True,
        timeout=120,
        check=False,
    )


def test_too_many_open_files_may_pass(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    fs, held = OsFileSystem(), []
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(soft, 256), hard))
    try:
        error = raised(lambda: [held.append(fs.open(str(tmp_path / "file"))) for _ in range(1000)])
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        del held[:]
    assert (type(error), error.errno, error.retryable) == (DiskError, errno.EMFILE, True)

"""Log files within bounds: nothing is lost that is to be kept, whatever fails, and the metric has their size."""

# ruff: noqa: PTH116, PTH119, PTH202, PTH208

from __future__ import annotations

import json
import logging
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from nyala.cluster.wire.process.log_files import Retention, RotatingLogHandler, log_bytes, rotate, rotated_files
from nyala.doors.audit import AuditLog
from nyala.errors import DiskError, InterfaceError
from nyala.model.metrics import collect


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "server.log")


@pytest.fixture
def handler(path: str) -> Iterator[RotatingLogHandler]:
    handler = RotatingLogHandler(path, Retention(1000, 3))
    yield handler
    handler.close()


def record(number: int) -> logging.LogRecord:
    return logging.LogRecord("nyala", logging.INFO, "", 0, f"line {number:093}", (), None)


def lines(path: str) -> list[int]:
    """The numbers of all lines, oldest first."""
    found = [*sorted(rotated_files(path), key=lambda name: -int(name.rpartition(".")[2])), path]
    return [int(line.split()[1]) for name in found for line in Path(name).read_text().splitlines()]


def shown(kind: str) -> float:
    return next(s.value for s in collect() if s.name == "nyala_log_file_bytes" and s.labels == (kind,))  # type: ignore


def test_a_log_has_its_newest_lines_in_files_of_bounded_size(path, handler):
    for number in range(100):
        handler.emit(record(number))
    assert [os.path.basename(name) for name in rotated_files(path)] == [f"server.log.{n}" for n in (1, 2, 3)]
    kept = lines(path)
    assert kept == list(range(100 - len(kept), 100)) and len(kept) >= 31
    assert all(os.path.getsize(name) <= 1100 for name in rotated_files(path))
    assert shown("server") == log_bytes(path) == sum(os.path.getsize(n) for n in (path, *rotated_files(path)))


def test_lines_of_several_threads_are_all_kept_whole(path):
    handler = RotatingLogHandler(path, Retention(1000, 100))
    threads = [
        threading.Thread(target=lambda first=first: [handler.handle(record(first + n)) for n in range(50)])
        for first in range(0, 200, 50)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    handler.close()
    handler.close()
    assert sorted(lines(path)) == list(range(200))


def test_old_files_are_removed_and_other_files_are_not(path, tmp_path):
    for name, days in (("server.log.1", 0), ("server.log.2", 11), ("server.log.old", 99), ("server.logs.1", 99)):
        (tmp_path / name).write_text("line 1\n")
        os.utime(tmp_path / name, (time.time() - days * 86400,) * 2)
    Path(path).write_text("line 2\n")
    rotate(path, Retention(1, 5, 10.0))
    assert sorted(os.listdir(tmp_path)) == ["server.log.1", "server.log.2", "server.log.old", "server.logs.1"]
    assert Path(f"{path}.1").read_text() == "line 2\n"


def test_a_rotation_that_fails_loses_no_line(path, handler, monkeypatch):
    def refuse(old: str, new: str) -> None:
        raise PermissionError(13, "not allowed", old)

    with monkeypatch.context() as patch:
        patch.setattr(os, "rename", refuse)
        for number in range(30):
            handler.emit(record(number))
    assert lines(path) == list(range(30)) and not list(rotated_files(path))
    handler.emit(record(30))
    assert lines(path) == list(range(31)) and len(list(rotated_files(path))) == 1


def test_no_size_is_no_rotation(path):
    handler = RotatingLogHandler(path, Retention(0))
    for number in range(100):
        handler.emit(record(number))
    handler.close()
    assert lines(path) == list(range(100)) and not list(rotated_files(path))


@pytest.mark.parametrize("files, days", [(0, 1.0), (-1, 1.0), (1, 0.0), (1, -1.0)])
def test_a_retention_that_keeps_nothing_is_refused(files, days):
    with pytest.raises(InterfaceError):
        Retention(1, files, days)


def test_an_audit_log_is_rotated_for_its_owner_alone(tmp_path):
    path = str(tmp_path / "audit")
    log = AuditLog(path, Retention(500, 50))
    for number in range(40):
        log.write("statement", number=number)
    assert shown("audit") == log_bytes(path)
    log.close()
    names = [*sorted(rotated_files(path), key=lambda name: -int(name.rpartition(".")[2])), path]
    assert len(names) > 5 and {os.stat(name).st_mode & 0o777 for name in names} == {0o600}
    found = [json.loads(line)["number"] for name in names for line in Path(name).read_text().splitlines()]
    assert found == list(range(40))


def test_an_audit_log_that_cannot_be_rotated_refuses_the_event(tmp_path, monkeypatch):
    log = AuditLog(tmp_path / "audit", Retention(1, 1))
    log.write("login")
    with monkeypatch.context() as patch:
        patch.setattr(os, "rename", lambda old, new: (_ for _ in ()).throw(OSError(30, "read-only")))
        with pytest.raises(DiskError, match="the audit log cannot be written: read-only"):
            log.write("login")
    log.write("login")
    log.close()
    assert log_bytes(str(tmp_path / "audit")) > 0

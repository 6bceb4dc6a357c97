"""The masters that a tablet server remembers over restarts."""

from __future__ import annotations

import logging

import pytest
from nyala.cluster.tserver.known_masters import KnownMasters
from nyala.storage.files.memory_filesystem import MemoryFileSystem

OLD, NEW = ("a:1", "b:1"), ("b:1", "c:1")


def test_a_stale_command_line_is_completed_and_a_changed_one_counts_alone(
    memory: MemoryFileSystem, caplog: pytest.LogCaptureFixture
) -> None:
    known = KnownMasters(memory, "d", OLD)
    assert known.first == OLD
    with caplog.at_level(logging.WARNING):
        known.note(NEW)
    assert "--masters is stale" in caplog.text
    assert KnownMasters(memory, "d", OLD).first == ("b:1", "c:1", "a:1")
    assert KnownMasters(memory, "d", ("b:1", "a:1")).first == ("b:1", "c:1", "a:1"), "in another order, the same"
    assert KnownMasters(memory, "d", ("x:1",)).first == ("x:1",), "another cluster, on purpose"
    assert KnownMasters(memory, "d", ()).first == ()


def test_masters_as_configured_leave_no_file(memory: MemoryFileSystem) -> None:
    KnownMasters(memory, "d", OLD).note(("b:1", "a:1"))
    assert not memory.exists("d/masters")


def test_a_damaged_file_does_not_count(memory: MemoryFileSystem, caplog: pytest.LogCaptureFixture) -> None:
    KnownMasters(memory, "d", OLD).note(NEW)
    file = memory.create("d/masters")
    file.write(b"nonsense")
    file.sync()
    file.close()
    assert KnownMasters(memory, "d", OLD).first == OLD
    assert "cannot be read" in caplog.text


@pytest.fixture
def memory() -> MemoryFileSystem:
    fs = MemoryFileSystem()
    fs.make_directory("d")
    return fs

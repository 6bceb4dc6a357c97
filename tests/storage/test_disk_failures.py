"""Disks that fail: each step of a workload meets a full disk once, or for a while, and goes on when space returns."""

from __future__ import annotations

import random

import pytest
from nyala.errors import DiskError
from nyala.storage.database import Database
from nyala.storage.memory_filesystem import CrashableFileSystem, FaultyFileSystem
from nyala.storage.store import Op
from tablet_support import HASHED, ONE_TABLET, definition, insert, keys_of, load


class Stubborn:
    """Tries each action until it succeeds; heals the disk after the first `patience` failures."""

    def __init__(self, fs: FaultyFileSystem, patience: int):
        self.fs = fs
        self.patience = patience
        self.failures = 0

    def __call__(self, action):
        for _ in range(20):
            try:
                return action()
            except DiskError as error:
                assert "No space left on device" in str(error)
                self.failures += 1
                if self.failures >= self.patience:
                    self.fs.heal()
        raise AssertionError("it never works again")


def run(operation: str, nth: int, times: int, partitions) -> tuple[Stubborn, list[int]]:
    disk = CrashableFileSystem()
    fs = FaultyFileSystem(disk)
    expected: list[int] = []
    with Database("db", fs=fs, segment_bytes=3000) as db:
        table = db.create_table(definition(partitions=partitions))
        persist = Stubborn(fs, patience=3)
        fs.fail(operation, nth=nth, times=times)
        # Where a batch goes to one tablet, a failed write has left nothing: INSERT again must not find its rows.
        op = Op.INSERT if partitions is ONE_TABLET else Op.INSERT_IGNORE

        def write(keys):
            result = persist(lambda: insert(db, table, keys, op=op))
            assert result.errors == ()
            expected.extend(keys)
            assert set(keys) <= set(keys_of(db, table))

        for start in range(0, 40, 4):
            write(range(start, start + 4))
        persist(db.flush)
        write(range(40, 50))
        persist(lambda: load(db, table, range(100, 200)))
        expected.extend(range(100, 200))
        write(range(50, 60))
        persist(lambda: db.create_table(definition("other")))
        persist(lambda: db.drop_table("other"))
        write(range(60, 70))
        persist(db.flush)
        fs.heal()
        assert keys_of(db, table) == sorted(expected)
        db.check()
    with Database("db", fs=disk) as db:
        assert keys_of(db, db.table("t")) == sorted(expected)
        assert [t.name for t in db.tables()] == ["t"]
        db.check()
    return persist, expected


@pytest.mark.parametrize("partitions", [ONE_TABLET, HASHED], ids=["one", "three"])
@pytest.mark.parametrize("operation", ["write", "sync", "create", "rename", "sync_directory", "remove", "truncate"])
@pytest.mark.parametrize("times", [1, 10**6], ids=["once", "until healed"])
def test_nothing_is_lost_and_all_works_when_space_returns(operation, partitions, times):
    failed = 0
    end, step = (40, 1 if partitions is ONE_TABLET else 3) if operation in ("write", "sync") else (16, 2)
    for nth in range(1, end, step):
        persist, _ = run(operation, nth, times, partitions)
        failed += persist.failures
    assert failed or operation in ("remove", "truncate")


def test_a_full_log_refuses_writes_until_there_is_space():
    fs = FaultyFileSystem(CrashableFileSystem())
    with Database("db", fs=fs) as db:
        table = db.create_table(definition())
        insert(db, table, range(10))
        fs.fail("write", "*/wal/*")
        for _ in range(3):
            with pytest.raises(DiskError, match=r"cannot write db/tables/.*/wal/.*: No space left on device"):
                insert(db, table, [10])
        assert keys_of(db, table) == list(range(10))
        # A duplicate is known without the log.
        assert [e.row for e in insert(db, table, [5]).errors] == [0]
        fs.heal()
        assert insert(db, table, [10]).applied == 1


def test_a_row_whose_sync_failed_refuses_nobody():
    fs = FaultyFileSystem(CrashableFileSystem())
    with Database("db", fs=fs) as db:
        table = db.create_table(definition())
        insert(db, table, [1])
        fs.fail("sync", "*/wal/*", times=1)
        with pytest.raises(DiskError, match="cannot sync"):
            insert(db, table, [2])
        assert keys_of(db, table) == [1]
        assert insert(db, table, [2]).errors == ()
        assert keys_of(db, table) == [1, 2]


def test_a_flush_that_fails_keeps_the_rows_readable_and_is_repeated():
    fs = FaultyFileSystem(CrashableFileSystem())
    with Database("db", fs=fs) as db:
        table = db.create_table(definition())
        insert(db, table, range(100))
        fs.fail("write", "*/rowsets/*")
        with pytest.raises(DiskError):
            db.flush()
        insert(db, table, range(100, 150))
        assert keys_of(db, table) == list(range(150))
        assert [e.row for e in insert(db, table, [7, 120, 500]).errors] == [0, 1]
        fs.heal()
        db.flush()  # or the maintenance thread, whoever is first
        assert db._stores[table.id].tablets[0].state.flushing is None
        assert keys_of(db, table) == [*range(150), 500]
        db.check()


def test_a_load_that_happened_is_finished_though_the_disk_fails_afterwards():
    disk = CrashableFileSystem()
    fs = FaultyFileSystem(disk)
    with Database("db", fs=fs) as db:
        table = db.create_table(definition(partitions=HASHED))
        fs.fail("create", "*/metadata.tmp")
        assert load(db, table, range(100)) == 100
        assert keys_of(db, table) == list(range(100))
        assert any(name.startswith("load-") for name in disk.list(f"db/tables/{table.id}"))
        fs.heal()
        assert insert(db, table, [5]).applied == 0
    with Database("db", fs=disk) as db:
        assert keys_of(db, table) == list(range(100))
        assert not any(name.startswith("load-") for name in disk.list(f"db/tables/{table.id}"))


@pytest.mark.parametrize("keep", [0.0, 1.0])
def test_a_drop_of_unknown_fate_is_undone_before_anything_else_is_written(keep):
    disk = CrashableFileSystem()
    fs = FaultyFileSystem(disk)
    with Database("db", fs=fs) as db:
        table = db.create_table(definition())
        fs.fail("sync_directory", "db", times=2)
        with pytest.raises(DiskError):
            db.drop_table("t")
        with pytest.raises(DiskError):
            insert(db, table, [5])
        assert insert(db, table, [5]).applied == 1
        crashed = disk.crash(keep, random.Random(1))
    with Database("db", fs=crashed) as db:
        assert keys_of(db, db.table("t")) == [5]


def test_a_load_record_of_unknown_fate_is_removed_before_anything_else_is_written():
    disk = CrashableFileSystem()
    fs = FaultyFileSystem(disk)
    with Database("db", fs=fs) as db:
        table = db.create_table(definition())
        fs.fail("sync_directory", f"db/tables/{table.id}", times=3)
        with pytest.raises(DiskError):
            load(db, table, range(10))
        with pytest.raises(DiskError):
            insert(db, table, [3])
        assert insert(db, table, [3]).applied == 1
        assert load(db, table, range(10, 20)) == 10
    with Database("db", fs=disk) as db:
        assert keys_of(db, table) == [3, *range(10, 20)]

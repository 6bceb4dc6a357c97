"""Disks that fail: each step of a workload meets a full disk once, or for a while, and goes on when space returns."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
from examples import some
from nyala.errors import DiskError, HistoryGone
from nyala.model.alterations import AddColumn
from nyala.model.schema import ColumnSchema
from nyala.model.store import Op, Timestamp, WriteBatch
from nyala.model.types import INT
from nyala.storage.database import Database
from nyala.storage.files.memory_filesystem import CrashableFileSystem, FaultyFileSystem
from nyala.storage.maintenance.delta_compaction import compact_major, compact_minor
from nyala.storage.maintenance.history import collect
from nyala.storage.maintenance.rowset_compaction import compact_rowsets
from nyala.storage.maintenance.tablet_flush import flush_deltas
from nyala.storage.rowsets.stored_rowset import StoredRowSet
from nyala.storage.tablet.tablet import Tablet
from tablet_support import HASHED, ONE_TABLET, batch, definition, insert, keys_of, load, read


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

        def write(keys):
            # A failed write has left nothing in any tablet: INSERT again must not find its rows.
            result = persist(lambda: insert(db, table, keys, op=Op.INSERT))
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


@pytest.mark.slow
@pytest.mark.parametrize("partitions", [ONE_TABLET, HASHED], ids=["one", "three"])
@pytest.mark.parametrize("operation", ["write", "sync", "create", "rename", "sync_directory", "remove", "truncate"])
@pytest.mark.parametrize("times", [1, 10**6], ids=["once", "until healed"])
def test_nothing_is_lost_and_all_works_when_space_returns(operation, partitions, times):
    failed = 0
    end, step = (40, 1 if partitions is ONE_TABLET else 3) if operation in ("write", "sync") else (16, 2)
    for nth in some(range(1, end, step), 0 if times == 1 else 1):
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


def test_a_write_that_failed_does_not_come_back_with_a_crash():
    disk = CrashableFileSystem()
    fs = FaultyFileSystem(disk)
    with Database("db", fs=fs, background=False) as db:
        table = db.create_table(definition())
        insert(db, table, [1])
        fs.fail("sync", "*/wal/*", times=1)
        with pytest.raises(DiskError):
            insert(db, table, [2])
        after = disk.crash(1.0, random.Random(1))  # which keeps all that was written
    with Database("db", fs=after, background=False) as db:
        assert keys_of(db, db.table("t")) == [1]


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
        db.flush()  # or the maintenance thread, whichever is first
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


# ---- every kind of work, every call of the disk --------------------------------------------------------------------


@pytest.fixture(scope="module")
def prepared() -> tuple[CrashableFileSystem, list[Timestamp]]:
    """A store with two rowsets that have UNDO and REDO files, and with inserts, updates and deletes in memory; and
    times of its past."""
    disk, times = CrashableFileSystem(), []
    with Database("db", fs=disk, background=False, segment_bytes=1500) as db:
        table = db.create_table(definition())
        load(db, table, range(0, 40, 2))
        times.append(db.now())
        for text in ("b", "c"):
            insert(db, table, range(0, 20, 2), text, Op.UPDATE)
            flush_deltas(db._tablets()[0], db._tablets()[0].state.rowsets[0])
        times.append(db.now())
        insert(db, table, range(1, 20, 2))
        insert(db, table, range(1, 9, 2), "b", Op.UPDATE)
        db.write(table, WriteBatch(batch([3, 4]), Op.DELETE))
        db.flush()
        times.append(db.now())
        insert(db, table, range(10), "d", Op.UPSERT)
        insert(db, table, range(70, 75))
        db.write(table, WriteBatch(batch([5, 6, 71]), Op.DELETE))
    return disk, times


def on_tablet(work: Callable[[Tablet, tuple[StoredRowSet, ...]], object]) -> Callable[[Database], object]:
    return lambda db: work(db._tablets()[0], db._tablets()[0].state.rowsets)


def alter(db: Database) -> None:
    if "n" not in db.table("t").schema:
        db.alter_table("t", [AddColumn(ColumnSchema("n", INT, default=7))])


WRITES: dict[str, Callable[[Database], object]] = {
    "insert": lambda db: insert(db, db.table("t"), [50, 51]),
    "update": lambda db: insert(db, db.table("t"), [0, 1, 8, 30], "e", Op.UPDATE),
    "delete": lambda db: db.write(db.table("t"), WriteBatch(batch([0, 1, 8, 30]), Op.DELETE_IGNORE)),
    "update a row": lambda db: db.write_row(db.table("t"), Op.UPDATE, {"k": 0, "v": "e"}),
    "delete a row": lambda db: db.write_row(db.table("t"), Op.DELETE_IGNORE, {"k": 30}),
}
WORK: dict[str, Callable[[Database], object]] = {
    "flush": lambda db: db.flush(),
    "delta flush": on_tablet(lambda tablet, rowsets: [flush_deltas(tablet, stored) for stored in rowsets]),
    "minor": on_tablet(lambda tablet, rowsets: compact_minor(tablet, rowsets[0])),
    "major": on_tablet(lambda tablet, rowsets: compact_major(tablet, rowsets[0])),
    "merge": on_tablet(compact_rowsets),
    "compact table": lambda db: db.compact_table(db.table("t")),
    "alter": alter,
    "load": lambda db: load(db, db.table("t"), [60, 61]) if db.read_row(db.table("t"), [60], ("k",)) is None else 0,
}


def state_of(db: Database, times: list[Timestamp]) -> list[Any]:
    """The table at some times of the past, and now."""
    table = db.table("t")
    names = tuple(table.schema.names)
    return [names, *(read(db, table, names, snapshot=time) for time in (*times, db.now()))]


@pytest.mark.parametrize("operation", ["write", "sync", "create", "rename", "sync_directory", "remove", "open"])
@pytest.mark.parametrize("name", [*WRITES, *WORK])
def test_work_that_the_disk_refuses_is_undone_and_done_again(prepared, name, operation):
    disk, times = prepared
    work = WRITES.get(name) or WORK[name]
    rng = random.Random(f"{name}/{operation}")
    with Database("db", fs=disk.crash(1.0, rng), background=False) as db:
        before = state_of(db, times)
        work(db)
        after = state_of(db, times)
    # What is written last counts most; in the middle of a file one place is like another.
    for nth in some([1, 2, 3, 4, 6, 9, 13, 18, 24, 31], len(name) % 2):
        image = disk.crash(1.0, rng)
        fs = FaultyFileSystem(image)
        with Database("db", fs=fs, background=False) as db:
            state_of(db, times)
            fs.fail(operation, nth=nth, times=rng.choice([1, 10**6]), message="Input/output error")
            is_done = True
            try:
                work(db)
            except DiskError as error:
                assert "Input/output error" in str(error)
                is_done = False
            crashed = image.crash(rng.choice([0.0, 0.5, 1.0]), rng)
            was_met = fs.failures > 0
            if operation == "open":
                fs.heal()  # readers open files too
            assert state_of(db, times) == (after if is_done else before), f"{operation} {nth}"
            fs.heal()
            if not is_done:
                work(db)
                assert state_of(db, times) == after
            db.check()
            crashed_later = image.crash(rng.choice([0.0, 0.5, 1.0]), rng)
        for fs_left, allowed in ((crashed, [after] if is_done else [before, after]), (crashed_later, [after])):
            with Database("db", fs=fs_left, background=False) as db:
                assert state_of(db, times) in allowed, f"{operation} {nth}, then a crash"
                work(db)
                assert state_of(db, times)[0] == after[0]
                db.check()
        if not was_met:
            break


def test_history_that_cannot_be_collected_is_still_there(prepared):
    disk, times = prepared
    rng = random.Random(1)
    for operation in ("write", "sync", "create", "rename", "sync_directory", "remove"):
        for nth in (1, 2, 3, 5):
            image = disk.crash(1.0, rng)
            fs = FaultyFileSystem(image)
            with Database("db", fs=fs, background=False) as db:
                before = state_of(db, times)
                tablet = db._tablets()[0]
                fs.fail(operation, nth=nth)
                try:
                    collect(tablet, int(times[2]))
                except DiskError:
                    assert state_of(db, times) == before
                fs.heal()
                collect(tablet, int(times[2]))
                crashed = image.crash(0.5, rng)
                for again in (db, Database("db", fs=crashed, background=False)):
                    assert state_of(again, times[2:])[1:] == before[3:]
                    with pytest.raises(HistoryGone):
                        state_of(again, times)
                    again.check()

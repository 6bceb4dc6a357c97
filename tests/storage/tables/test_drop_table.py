"""DROP beside everything else: flushes, compactions, loads, writers and readers of what is dropped; no file stays."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from nyala.errors import AlreadyPresent, DiskError, TabletGone, UnknownTable
from nyala.model.alterations import DropRangePartition
from nyala.model.schema import RangePartition
from nyala.model.store import ScanSpec
from nyala.storage.database import Database
from nyala.storage.files.memory_filesystem import CrashableFileSystem, FaultyFileSystem, MemoryFileSystem
from nyala.storage.maintenance.tablet_flush import flush
from tablet_support import HASHED, RANGED, batch, definition, insert, keys_of, load, rowset_loader


class Gate(MemoryFileSystem):
    """Blocks the thread that creates a file of a kind until it is let through."""

    def __init__(self, part: str):
        super().__init__()
        self.part = part
        self.reached, self.opened = threading.Event(), threading.Event()

    def create(self, path: str) -> Any:
        if self.part in path and not self.reached.is_set():
            self.reached.set()
            assert self.opened.wait(60)
        return super().create(path)


def in_thread(action: Callable[[], object]) -> tuple[threading.Thread, list[BaseException]]:
    errors: list[BaseException] = []

    def work() -> None:
        try:
            action()
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    return thread, errors


def folders(fs: Any, path: str = "db/tables") -> list[str]:
    return list(fs.list(path))


def until(holds: Callable[[], bool], seconds: float = 90.0) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, "it never came"
        time.sleep(0.01)


@pytest.mark.slow
def test_no_folder_stays_where_tables_are_dropped_while_they_are_flushed(tmp_path):
    with Database(tmp_path / "db", durability="os", memrowset_bytes=1 << 12) as db:
        kept = db.create_table(definition("kept"))
        insert(db, kept, range(2000))
        stop = threading.Event()

        def flush_all() -> None:
            while not stop.is_set():
                for tablet in db._tablets():
                    try:
                        flush(tablet)
                    except TabletGone:
                        continue

        thread, errors = in_thread(flush_all)
        for number in range(30):
            table = db.create_table(definition(f"t{number}", partitions=HASHED))
            insert(db, table, range(200))
            db._maintenance.wake()
            if number % 3 == 0:
                insert(db, table, range(200, 400))
            db.drop_table(table.name)
        stop.set()
        thread.join()
        assert errors == []
        until(lambda: [p.name for p in (tmp_path / "db/tables").iterdir()] == [kept.id])
        assert [o for o in db.maintenance_status().completed if o.error] == []
        assert keys_of(db, kept) == list(range(2000))
    assert [p.name for p in (tmp_path / "db/tables").iterdir()] == [kept.id]


def test_a_flush_that_runs_ends_before_the_files_go(monkeypatch):
    monkeypatch.setattr("nyala.storage.tables.data_definition._DROP_PATIENCE", 0.0)
    fs = Gate(".col")
    with Database("db", fs=fs, background=False) as db:
        table = db.create_table(definition())
        insert(db, table, range(50))
        tablet = db.open_table(table).tablets[0]
        thread, errors = in_thread(lambda: flush(tablet))
        assert fs.reached.wait(20)
        db.drop_table("t")
        assert db.tables() == []
        assert folders(fs) == [table.id]
        fs.opened.set()
        thread.join()
        assert [type(error) for error in errors] == [TabletGone]
        with pytest.raises(TabletGone, match="tablet t000001-p0000 of table t is gone"):
            flush(tablet)
        db.maintain()
        assert folders(fs) == []


def test_drop_waits_for_a_flush_that_is_soon_over():
    fs = Gate(".col")
    with Database("db", fs=fs, background=False) as db:
        table = db.create_table(definition())
        insert(db, table, range(50))
        tablet = db.open_table(table).tablets[0]
        flusher, _ = in_thread(lambda: flush(tablet))
        assert fs.reached.wait(20)
        threading.Timer(0.2, fs.opened.set).start()
        db.drop_table("t")
        assert folders(fs) == []
        flusher.join()


def test_a_folder_that_cannot_be_removed_is_tried_again_and_said_once(caplog):
    disk = MemoryFileSystem()
    fs = FaultyFileSystem(disk)
    with Database("db", fs=fs, background=False) as db:
        table = db.create_table(definition())
        insert(db, table, range(5))
        fs.fail("remove", f"db/tables/{table.id}", message="Device or resource busy")
        db.drop_table("t")
        db.maintain()
        assert folders(disk) == [table.id]
        said = [r for r in caplog.records if "dropped table t" in r.getMessage()]
        assert [(r.name, r.levelname) for r in said] == [("nyala.storage", "WARNING")]
        assert "Device or resource busy" in said[0].getMessage()
        fs.heal()
        db.maintain()
        assert folders(disk) == []


@pytest.mark.parametrize("operation", ["create", "write", "sync", "sync_directory", "rename"])
def test_a_create_table_that_failed_leaves_nothing(operation):
    for nth in range(1, 30):
        disk = CrashableFileSystem()
        fs = FaultyFileSystem(disk)
        with Database("db", fs=fs, background=False) as db:
            db.create_table(definition("kept"))
            fs.fail(operation, nth=nth, times=1)
            try:
                db.create_table(definition(partitions=HASHED))
            except DiskError:
                fs.heal()
                db.maintain()
                assert folders(disk) == ["t000001"]
                table = db.create_table(definition())
                assert insert(db, table, [1]).applied == 1
            else:
                assert nth > 1
                return
    raise AssertionError("it never succeeds")


def test_a_dropped_range_partition_goes_though_it_is_being_flushed(monkeypatch):
    monkeypatch.setattr("nyala.storage.tables.data_definition._DROP_PATIENCE", 0.0)
    fs = MemoryFileSystem()
    with Database("db", fs=fs, background=False) as db:
        table = db.create_table(definition(partitions=RANGED))
        first = db.open_table(table).layout.partitioner.partitions[0].range
        dropped = db.open_table(table).tablets[0]
        with dropped.flush_lock:
            # The ALTER itself flushes nothing here: it needs the lock only for a moment.
            thread, errors = in_thread(
                lambda: db.alter_table("t", [DropRangePartition(RangePartition(*bounds(first)))])
            )
            time.sleep(0.1)
        thread.join()
        assert errors == []
        until(lambda: (db.maintain(), dropped.id not in folders(fs, f"db/tables/{table.id}"))[1])
        with pytest.raises(TabletGone):
            dropped.check_not_dropped()


def bounds(range_: Any) -> tuple[Any, Any]:
    return range_.lower, range_.upper


def test_a_load_in_flight_ends_with_the_table_and_leaves_nothing():
    fs = Gate(".bloom")
    with Database("db", fs=fs, background=False) as db:
        table = db.create_table(definition(partitions=HASHED))
        loader = rowset_loader(db, table)
        loader.append(batch(range(100)))
        thread, errors = in_thread(loader.finish)
        assert fs.reached.wait(20)
        db.drop_table("t")
        assert folders(fs) == [table.id]
        fs.opened.set()
        thread.join()
        del loader
        db.maintain()
        assert folders(fs) == []
        assert all(isinstance(error, (UnknownTable, DiskError)) for error in errors)
        other = db.bulk_loader(db.create_table(definition("other")))
        db.drop_table("other")
        with pytest.raises(UnknownTable, match="other has been dropped"):
            other.append(batch(range(3)))
        assert folders(fs) == []


def test_statements_beside_a_drop_work_or_say_that_the_table_was_dropped():
    def ask(db: Database, table: Any, number: int) -> None:
        ways: list[Callable[[], object]] = [
            lambda: insert(db, table, range(number, number + 5)),
            lambda: db.write_row(table, 1, {"k": -number, "v": "x"}),
            lambda: db.read_row(table, [number], ("v",)),
            lambda: [list(db.scan(token)) for token in db.scan_tokens(table, ScanSpec(("k", "v")))],
            lambda: db.statistics(table),
            lambda: db.compact_table(table),
            lambda: db.analyze_table(table),
            lambda: db.table_storage(table),
            lambda: load(db, table, range(10_000 + 7 * number, 10_007 + 7 * number)),
        ]
        ways[number % len(ways)]()

    with Database(":memory:", background=False) as db:
        for _ in range(25):
            table = db.create_table(definition())
            insert(db, table, range(50_000, 50_100))
            db.flush(table)
            gone: list[BaseException] = []
            numbers = iter(range(10_000))

            def work(table: Any, gone: list[BaseException], numbers: Any) -> None:
                while not gone:
                    try:
                        ask(db, table, next(numbers))
                    except AlreadyPresent:
                        continue
                    except BaseException as failure:
                        gone.append(failure)

            threads = [in_thread(partial(work, table, gone, numbers))[0] for _ in range(3)]
            time.sleep(0.02)
            db.drop_table("t")
            for thread in threads:
                thread.join()
            assert {(type(error), str(error)) for error in gone} == {(UnknownTable, "table t has been dropped")}
            db.maintain()
            assert db._folders.dropped_count == 0

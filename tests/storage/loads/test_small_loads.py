"""Loads of few rows, which take the path of writes: nothing but the files may differ from larger loads."""

from __future__ import annotations

import logging
import random
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from nyala.errors import AlreadyPresent, DiskError, Error, OutcomeUnknown
from nyala.model.alterations import DropColumn
from nyala.model.schema import Table
from nyala.model.store import BulkLoader, Op
from nyala.storage.database import Database
from nyala.storage.files.memory_filesystem import CrashableFileSystem, FaultyFileSystem
from nyala.storage.loads.loading import SMALL_ROWS
from tablet_support import HASHED, ONE_TABLET, RANGED, batch, definition, insert, keys_of, read, rowset_loader

Starts = Callable[[Database, Table], BulkLoader]

WAYS = {"log": Database.bulk_loader, "rowsets": rowset_loader}


def rowsets(db: Database) -> int:
    return sum(len(tablet.state.rowsets) for tablet in db._tablets())


def test_many_small_loads_leave_one_rowset() -> None:
    with Database(background=False) as db:
        table = db.create_table(definition())
        for key in range(300):
            with db.bulk_loader(table) as loader:
                loader.append(batch([key]))
                assert loader.finish() == 1
        assert rowsets(db) == 0
        assert read(db, table) == [(key, f"v{key}") for key in range(300)]
        db.flush()
        assert rowsets(db) == 1
        db.check()


def test_the_way_depends_on_the_rows_and_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "nyala.storage.loads")
    with Database(background=False) as db:
        table = db.create_table(definition(partitions=HASHED))
        for count, text in ((SMALL_ROWS, "v"), (SMALL_ROWS + 1, "v"), (1_000, "long" * 500), (0, "")):
            first = len(keys_of(db, table))
            with db.bulk_loader(table) as loader:
                loader.append(batch(range(first, first + count), text))
                assert loader.finish() == count
        assert [record.getMessage() for record in caplog.records] == [
            f"loaded {SMALL_ROWS} rows into table t through its log",
            f"loaded {SMALL_ROWS + 1} rows into table t as rowsets",
            "loaded 1000 rows into table t as rowsets",
            "loaded 0 rows into table t as rowsets",
        ]
        db.check()


CASES: dict[str, list[Any]] = {
    "twice in the load": [batch([1, 2]), batch([3, 1])],
    "in memory": [batch([700, 41])],
    "in a rowset": [batch([21, 22])],
    "deleted": [batch([31, 3])],
    "NULL as key": [pa.table({"k": [1, None], "v": ["a", "b"]})],
    "no partition": [batch([5]), batch([6, 300])],
    "wrong type": [pa.table({"k": ["1"]})],
    "unknown column": [pa.table({"k": [1], "w": [1]})],
    "missing column": [pa.table({"k": [1, 170]})],
    "all well": [batch([1, 101]), batch([2, 102])],
}


@pytest.mark.parametrize("case", CASES)
def test_errors_and_rows_are_those_of_larger_loads(case: str) -> None:
    found = []
    for start in WAYS.values():
        with Database(background=False) as db:
            table = db.create_table(definition(partitions=RANGED))
            insert(db, table, range(20, 40))
            db.flush()
            insert(db, table, range(40, 60))
            insert(db, table, [31], op=Op.DELETE)
            before = db.now()
            outcome: Any
            try:
                with start(db, table) as loader:
                    for rows in CASES[case]:
                        loader.append(rows)
                    outcome = loader.finish()
                assert read(db, table, snapshot=before) != read(db, table)
            except Error as error:
                outcome = type(error), str(error), error.sqlstate
                assert read(db, table, snapshot=before) == read(db, table)
            found.append((outcome, read(db, table)))
            db.check()
    assert found[0] == found[1]


@pytest.mark.parametrize("partitions", [ONE_TABLET, HASHED])
@pytest.mark.parametrize("durability", ["fsync", "os"])
def test_a_finished_load_survives_a_power_failure(partitions: Any, durability: str) -> None:
    fs = CrashableFileSystem()
    with Database("db", fs=fs, background=False, durability=durability) as db:
        table = db.create_table(definition(partitions=partitions))
        for first in range(0, 40, 8):
            with db.bulk_loader(table) as loader:
                loader.append(batch(range(first, first + 8)))
                loader.finish()
            with Database("db", fs=fs.crash(0.0, random.Random(1)), background=False) as found:
                assert keys_of(found, found.table("t")) == list(range(first + 8))


@pytest.mark.parametrize("durability", ["fsync", "os"])
def test_a_disk_that_refuses_the_log_is_reported(durability: str) -> None:
    fs = FaultyFileSystem(CrashableFileSystem())
    with Database("db", fs=fs, background=False, durability=durability) as db:
        table = db.create_table(definition())
        insert(db, table, range(5))
        loader = db.bulk_loader(table)
        loader.append(batch(range(5, 25)))
        fs.fail("sync", "*/wal/*")
        with pytest.raises(DiskError) as failure:
            loader.finish()
        fs.heal()
        is_unknown = isinstance(failure.value, OutcomeUnknown)
        assert is_unknown == (durability == "os"), "with os, the rows were visible before the sync"
        assert keys_of(db, table) == list(range(25 if is_unknown else 5))


def test_tables_that_are_altered_meanwhile() -> None:
    for start in WAYS.values():
        with Database(background=False) as db:
            table = db.create_table(definition())
            with start(db, table) as loader:
                loader.append(batch([1, 2]))
                db.alter_table("t", [DropColumn("v")])
                assert loader.finish() == 2
            assert read(db, db.table("t"), ("k",)) == [(1,), (2,)]
            db.check()


def test_a_key_that_comes_meanwhile_fails_the_load() -> None:
    with Database(background=False) as db:
        table = db.create_table(definition(partitions=HASHED))
        with db.bulk_loader(table) as loader:
            loader.append(batch(range(10)))
            insert(db, table, [7])
            with pytest.raises(AlreadyPresent, match=r"a row with key .* is in table t already"):
                loader.finish()
        assert keys_of(db, table) == [7]
        assert db._fs.list(db._tablets()[0].rowset_directory) == []

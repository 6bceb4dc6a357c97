"""Bulk loads: sorting, spilling, keys that are there twice, all or nothing."""

from __future__ import annotations

import random
import threading

import numpy as np
import pyarrow as pa
import pytest
from nyala.errors import (
    AlreadyPresent,
    InterfaceError,
    NoPartition,
    NotNullViolation,
    StoreClosed,
    TypeMismatch,
    UnknownTable,
)
from nyala.storage.database import Database
from nyala.storage.files.memory_filesystem import MemoryFileSystem
from nyala.storage.loads.bulk_load import TableBulkLoader
from tablet_support import HASHED, ONE_TABLET, RANGED, batch, definition, insert, keys_of, load, read


@pytest.fixture(params=["one", "three"])
def db(request):
    with Database(":memory:") as database:
        database.create_table(definition(partitions=ONE_TABLET if request.param == "one" else HASHED))
        yield database
        database.check()


@pytest.fixture
def table(db):
    return db.table("t")


def small_loader(db, table, buffer_bytes=3000):
    """A loader that writes a run every hundred rows or so."""
    return TableBulkLoader(db._stores[table.id], db._pool, db.tables, buffer_bytes)


def rowset_files(db: Database, table) -> int:
    fs = db._fs
    assert isinstance(fs, MemoryFileSystem)
    tablets = db._stores[table.id].tablets
    return sum(len(fs.list(tablet.rowset_directory)) for tablet in tablets)


def test_rows_in_any_order_and_form_arrive_once(db, table):
    keys = list(range(150_000))
    random.Random(1).shuffle(keys)
    with db.bulk_loader(table) as loader:
        loader.append(batch(keys[:100_000]))
        loader.append(pa.Table.from_batches([batch(keys[n : n + 5]) for n in range(100_000, 100_500, 5)]))
        loader.append(pa.table(batch(keys[100_500:])))
        loader.append(batch([]))
        assert loader.finish() == 150_000
    assert read(db, table) == [(k, f"v{k}") for k in range(150_000)]
    assert db.statistics(table).row_count == 150_000


def test_runs_are_written_on_the_way_and_found_apart(db, table):
    keys = list(range(4000))
    random.Random(2).shuffle(keys)
    with small_loader(db, table) as loader:
        for start in range(0, 4000, 50):
            loader.append(batch(keys[start : start + 50]))
        assert rowset_files(db, table) > 0
        assert keys_of(db, table) == []
        assert loader.finish() == 4000
    assert len(db._stores[table.id].tablets[0].state.rowsets) > 5
    assert keys_of(db, table) == list(range(4000))


@pytest.mark.parametrize("where", ["batch", "runs", "memory", "flushed", "loaded"])
def test_a_key_that_is_there_twice_leaves_no_trace(db, table, where):
    expected = [700] if where in ("memory", "flushed", "loaded") else []
    if where == "loaded":
        load(db, table, [700])
    elif expected:
        insert(db, table, [700], "old")
    if where == "flushed":
        db.flush()
    before = rowset_files(db, table)
    told = "in this load of table t twice" if where in ("batch", "runs") else "in table t already"
    with pytest.raises(AlreadyPresent, match=rf"key \(k = 700\) is {told}"), small_loader(db, table) as loader:
        loader.append(batch(range(500, 1000)))
        loader.append(batch(range(499)))
        if where == "batch":
            loader.append(batch([1500, 700, 1501, 700]))
        elif where == "runs":
            loader.append(batch([700, 5000]))
        loader.finish()
    assert keys_of(db, table) == expected
    assert rowset_files(db, table) == before
    assert load(db, table, range(800, 900)) == 100


def test_leaving_without_finish_leaves_no_trace(db, table):
    with small_loader(db, table) as loader:
        loader.append(batch(range(2000)))
        assert rowset_files(db, table) > 0
    assert rowset_files(db, table) == 0
    assert keys_of(db, table) == []
    for call in (loader.finish, lambda: loader.append(batch([1]))):
        with pytest.raises(InterfaceError, match="this load of table t has ended"):
            call()


def test_bad_rows_end_the_load():
    with Database(":memory:") as db:
        table = db.create_table(definition(partitions=RANGED))
        bad = [
            (pa.table({"k": [1, None], "v": ["a", "b"]}), NotNullViolation, "column k of table t is NOT NULL"),
            (batch([5, 300]), NoPartition, r"no partition of table t covers the row with key \(k = 300\)"),
            (pa.table({"k": ["1"]}), TypeMismatch, "column k of table t is BIGINT"),
        ]
        for rows, error, message in bad:
            with db.bulk_loader(table) as loader:
                loader.append(batch([1]))
                with pytest.raises(error, match=message):
                    loader.append(rows)
                with pytest.raises(InterfaceError):
                    loader.finish()
        assert keys_of(db, table) == []


def test_a_load_outlives_neither_its_table_nor_its_store(tmp_path):
    db = Database(tmp_path / "db")
    table = db.create_table(definition())
    with db.bulk_loader(table) as loader:
        loader.append(batch([1]))
        db.drop_table("t")
        with pytest.raises(UnknownTable, match="table t has been dropped"):
            loader.finish()
    table = db.create_table(definition())
    with db.bulk_loader(table) as loader:
        loader.append(batch([1]))
        db.close()
        with pytest.raises(StoreClosed):
            loader.append(batch([2]))


def test_a_load_appears_all_at_once(db, table):
    stop = threading.Event()
    seen: set[int] = set()

    def look():
        while not stop.is_set():
            seen.add(len(keys_of(db, table)))

    thread = threading.Thread(target=look)
    thread.start()
    for start in range(0, 50_000, 10_000):
        load(db, table, range(start, start + 10_000))
    stop.set()
    thread.join()
    assert seen <= {0, 10_000, 20_000, 30_000, 40_000, 50_000}


def test_inserts_meanwhile_and_the_load_never_share_a_key(db, table):
    """The second of the two is refused: the writer row by row, the load as a whole."""
    outcomes = []
    for base in range(0, 40_000, 2000):
        wrote = []
        writer = threading.Thread(target=lambda base=base, wrote=wrote: wrote.append(insert(db, table, [base + 7])))
        with db.bulk_loader(table) as loader:
            loader.append(batch(range(base, base + 2000)))
            writer.start()
            try:
                loader.finish()
                loaded = True
            except AlreadyPresent:
                loaded = False
        writer.join()
        assert wrote[0].applied == (0 if loaded else 1)
        outcomes.append(loaded)
    assert len(set(keys_of(db, table))) == len(keys_of(db, table)) == 2000 * sum(outcomes) + outcomes.count(False)


def test_loaded_rows_have_one_time(db, table):
    before = db.now()
    load(db, table, range(100))
    assert read(db, table, snapshot=before) == []
    assert len(read(db, table, snapshot=db.now())) == 100


def test_defaults_and_types_fill_up_like_a_write(db, table):
    with db.bulk_loader(table) as loader:
        loader.append(pa.table({"k": pa.array(np.arange(3))}))
        loader.append(pa.table({"v": pa.array(["x"]).dictionary_encode(), "k": [5]}))
        loader.finish()
    assert [(k, v) for k, v in sorted(read(db, table, ("k", "v")), key=lambda row: row[0])] == [
        (0, None),
        (1, None),
        (2, None),
        (5, "x"),
    ]

"""The embedded store behind the `Store` seam: DDL, writes, scans, flushes, opening and closing."""

from __future__ import annotations

import os
import threading
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from nyala.errors import (
    CorruptionError,
    DataError,
    DuplicateTable,
    HistoryGone,
    InterfaceError,
    InvalidTableDefinition,
    NoPartition,
    NotNullViolation,
    OperationalError,
    ProgrammingError,
    StoreClosed,
    StoreLocked,
    TextTooLong,
    TypeMismatch,
    UnknownColumn,
    UnknownTable,
    UnsupportedFormat,
)
from nyala.model.predicates import BitmapFilter, InList, Range
from nyala.model.schema import ColumnSchema, HashRule, PartitionSchema, RangePartition, RangeRule, Schema
from nyala.model.store import EvenSplit, Op, ScanCounters, ScanSpec, Store, Timestamp, WriteBatch
from nyala.model.types import BIGINT, BINARY, DATE, DECIMAL, DOUBLE, INT, STRING, DataType, Kind
from nyala.storage.database import Database
from nyala.storage.single_rows import rows_write
from nyala.storage.writing import tablet_write
from tablet_support import HASHED, RANGED, batch, definition, insert, keys_of, load, read, read_tokens


@pytest.fixture(params=["memory", "directory"])
def db(request, tmp_path):
    with Database(":memory:" if request.param == "memory" else tmp_path / "db") as database:
        yield database
        if not database._closed:
            database.check()


@pytest.fixture
def table(db):
    return db.create_table(definition(partitions=HASHED))


def errors_of(result) -> list[tuple[int, str]]:
    return [(error.row, f"{type(error.error).__name__}: {error.error}") for error in result.errors]


# ---- the catalog -------------------------------------------------------------------------------------------------


def test_tables_come_and_go(db):
    store: Store = db  # the protocol, as the type checker sees it
    assert list(store.tables()) == []
    before = store.catalog_version
    made = store.create_table(definition("b", HASHED))
    store.create_table(definition("a"))
    assert [t.name for t in store.tables()] == ["a", "b"]
    assert store.table("b") == made
    assert [c.id for c in made.schema.columns] == [0, 1]
    assert (store.tablet_count(made), store.tablet_count(store.table("a"))) == (3, 1)
    assert store.catalog_version == before + 2
    with pytest.raises(DuplicateTable, match="table a exists already"):
        store.create_table(definition("a"))
    with pytest.raises(UnknownTable, match="table c does not exist; there are a, b"):
        store.table("c")
    store.drop_table("b")
    again = store.create_table(definition("b"))
    assert again.id != made.id
    with pytest.raises(UnknownTable, match="table b has been dropped"):
        store.scan_tokens(made, ScanSpec(("k",)))


def test_impossible_tables_are_refused(db):
    rule = PartitionSchema((HashRule(("v",), 2),))
    with pytest.raises(InvalidTableDefinition, match="HASH column v is not part of the primary key"):
        db.create_table(definition(partitions=rule))
    assert list(db.tables()) == []


def test_a_catalog_of_everything_survives(tmp_path):
    wide = DECIMAL(38, 2)
    columns = (
        ColumnSchema("k", BIGINT, False, comment="the key"),
        ColumnSchema("d", DATE, False),
        ColumnSchema("w", wide, default=10**30),
        ColumnSchema("b", BINARY, default=b"\0\1"),
        ColumnSchema("f", DOUBLE, default=0.5),
        ColumnSchema("s", DataType(Kind.STRING, length=7), default="x"),
    )
    ranges = RangeRule(("d",), (RangePartition(None, (10,)), RangePartition((10,), None)))
    partitions = PartitionSchema((HashRule(("k",), 4, seed=3),), ranges)
    with Database(tmp_path / "db") as db:
        made = db.create_table(definition("everything", partitions, Schema(columns, 2)))
        db.write(made, WriteBatch(pa.record_batch({"k": [1], "d": pa.array([5], pa.date32())})))
        version = db.catalog_version
        rows = read(db, made, ("k", "w", "b", "f", "s"))
    with Database(tmp_path / "db") as db:
        assert db.table("everything") == made
        assert db.catalog_version == version
        assert read(db, made, ("k", "w", "b", "f", "s")) == rows
        assert rows[0][2:] == (b"\0\1", 0.5, "x")


# ---- writes ------------------------------------------------------------------------------------------------------


def test_rows_are_there_when_write_returns(db, table):
    result = insert(db, table, range(100))
    assert (result.applied, result.errors) == (100, ())
    assert 0 < result.timestamp <= db.now()
    assert read(db, table) == [(k, f"v{k}") for k in range(100)]


@pytest.mark.parametrize("where", ["memory", "flushed", "loaded"])
def test_a_present_key_is_refused_row_by_row(db, table, where):
    if where == "loaded":
        load(db, table, range(10))
    else:
        insert(db, table, range(10))
    if where == "flushed":
        db.flush()
    result = insert(db, table, [20, 3, 21, 7, 20], "new")
    assert result.applied == 2
    assert errors_of(result) == [
        (1, "AlreadyPresent: a row with key (k = 3) is in table t already"),
        (3, "AlreadyPresent: a row with key (k = 7) is in table t already"),
        (4, "AlreadyPresent: key (k = 20) is twice among the rows for table t"),
    ]
    ignored = insert(db, table, [3, 22, 22], "new", Op.INSERT_IGNORE)
    assert (ignored.applied, ignored.errors) == (1, ())
    assert dict(read(db, table))[3] == "v3"
    assert keys_of(db, table) == [*range(10), 20, 21, 22]


def test_all_or_none_refuses_the_rows_of_every_tablet(db, table):
    insert(db, table, [1])
    assert db.tablet_count(table) > 1
    result = db.write(table, WriteBatch(batch(range(50)), all_or_none=True))
    assert result.applied == 0
    assert [error.row for error in result.errors] == [1]
    assert keys_of(db, table) == [1]
    assert db.write(table, WriteBatch(batch(range(2, 50)), all_or_none=True)).applied == 48


def test_ops_may_differ_by_row(db, table):
    insert(db, table, [1, 2])
    ops = np.array([Op.INSERT, Op.INSERT_IGNORE, Op.INSERT, Op.INSERT_IGNORE], np.uint8)
    result = db.write(table, WriteBatch(batch([1, 2, 3, 3]), ops))
    assert result.applied == 1
    assert [error.row for error in result.errors] == [0]


def test_an_op_that_there_is_not_is_named(db, table):
    with pytest.raises(ProgrammingError, match="there is no op code 9; there are 1 INSERT, 2 INSERT_IGNORE, 3 UPSERT"):
        db.write(table, WriteBatch(batch([1]), np.array([9], np.uint8)))


def test_batches_that_do_not_fit_the_table_are_refused_whole(db):
    schema = Schema((ColumnSchema("k", INT, False), ColumnSchema("s", DataType(Kind.STRING, length=3))), 1)
    table = db.create_table(definition(schema=schema))

    def write(**columns):
        return db.write(table, WriteBatch(pa.record_batch(columns)))

    k = pa.array([1], pa.int32())
    with pytest.raises(UnknownColumn, match="column kk does not exist in table t; table t has k, s"):
        write(k=k, kk=k)
    with pytest.raises(TypeMismatch, match=r"column k of table t is INT, Arrow type int32; the batch has int64"):
        write(k=pa.array([1], pa.int64()))
    with pytest.raises(NotNullViolation, match="key column k of table t is missing"):
        write(s=pa.array(["x"]))
    with pytest.raises(TextTooLong, match=r"a text of 4 characters is too long for column s .* VARCHAR\(3\)"):
        write(k=k, s=pa.array(["four"]))
    assert write(k=k, s=pa.array(["äöü"])).applied == 1  # three characters, six bytes
    for number, texts in enumerate([pa.array(["a"]).dictionary_encode(), pa.array(["a"], pa.large_string())]):
        assert write(k=pa.array([2 + number], pa.int32()), s=texts).applied == 1


def test_nulls_and_gaps_are_refused_row_by_row(db):
    schema = Schema((ColumnSchema("k", BIGINT, False), ColumnSchema("n", STRING, False)), 1)
    table = db.create_table(definition(partitions=RANGED, schema=schema))
    rows = pa.record_batch({"k": [1, None, 250, 3, 150], "n": ["a", "b", "c", None, "e"]})
    result = db.write(table, WriteBatch(rows))
    assert result.applied == 2
    assert errors_of(result) == [
        (1, "NotNullViolation: column k of table t is NOT NULL; row 2 has NULL: k = NULL, n = 'b'"),
        (2, "NoPartition: no partition of table t covers the row with key (k = 250); it has: k < 100; 100 <= k < 200"),
        (3, "NotNullViolation: column n of table t is NOT NULL; row 4 has NULL: k = 3, n = NULL"),
    ]
    assert isinstance(result.errors[1].error, NoPartition)
    missing = db.write(table, WriteBatch(pa.record_batch({"k": [5]})))
    assert [type(e.error) for e in missing.errors] == [NotNullViolation]
    assert keys_of(db, table) == [1, 150]


def test_the_callers_arrays_may_change_afterwards(db, table):
    values = np.arange(10)
    db.write(table, WriteBatch(pa.record_batch({"k": pa.array(values)})))
    values[:] = 99
    assert keys_of(db, table) == list(range(10))


def test_an_empty_batch_is_fine(db, table):
    result = insert(db, table, [])
    assert (result.applied, result.errors) == (0, ())


# ---- scans -------------------------------------------------------------------------------------------------------


def test_tokens_tile_a_table_over_memory_and_disk(db, table):
    load(db, table, range(0, 800_000, 2))
    insert(db, table, range(1, 2000, 2))
    db.flush()
    insert(db, table, range(2001, 3000, 2))
    expected = sorted([*range(0, 800_000, 2), *range(1, 3000, 2)])
    for split_rows in (None, 1, 65_536, 10**9):
        spec = ScanSpec(("k",), (), None, split_rows)
        tokens = db.scan_tokens(table, spec)
        assert [row[0] for row in read_tokens(db, tokens)] == expected
        assert sum(token.rows for token in tokens) == len(expected)
        assert len(tokens) == 3 if split_rows in (None, 10**9) else len(tokens) > 3
    few = len(db.scan_tokens(table, ScanSpec(("k",), split_rows=10**9)))
    for even, is_divided in (
        (EvenSplit(few + 1, 0), True),
        (EvenSplit(few + 1, len(expected), len(expected)), True),
        (EvenSplit(few, 0), False),
        (EvenSplit(few + 1, len(expected) + 1), False),
        (EvenSplit(few + 1, 0, len(expected) - 1), False),
    ):
        tokens = db.scan_tokens(table, ScanSpec(("k",), split_rows=10**9, split_evenly=even))
        assert (len(tokens) > few) is is_divided, even
        assert [row[0] for row in read_tokens(db, tokens)] == expected


def test_predicates_hold_in_memory_and_on_disk(db, table):
    load(db, table, range(1000))
    insert(db, table, range(1000, 2000))
    assert [k for k, _ in read(db, table, predicates=(Range("k", 990, 1010),))] == list(range(990, 1011))
    assert read(db, table, ("k",), (InList("v", ("v1500", "v5")),)) == [(5,), (1500,)]
    bits = np.zeros(50, bool)
    bits[[0, 49]] = True
    assert keys_of(db, table)[:1] == [0]
    assert read(db, table, ("k",), (BitmapFilter("k", 960, bits),)) == [(960,), (1009,)]


def test_an_empty_projection_counts(db, table):
    load(db, table, range(100))
    insert(db, table, range(100, 150))
    assert read(db, table, ()) == [()] * 150


def test_pruning_leaves_out_tablets_and_rowsets(db):
    table = db.create_table(definition(partitions=RANGED))
    load(db, table, range(50))
    load(db, table, range(50, 200))
    assert {t.tablet_id for t in db.scan_tokens(table, ScanSpec(("k",), (Range("k", 0, 10),)))} == {f"{table.id}-p0000"}
    counters = ScanCounters()
    tokens = db.scan_tokens(table, ScanSpec(("k",), (Range("k", 0, 10),)))
    assert sum(token.rows for token in tokens) == 50
    assert len(read_tokens(db, tokens, counters)) == 11
    assert counters.rows_returned == 11
    assert db.scan_tokens(table, ScanSpec(("k",), (Range("k", 1000, None),))) == []


def test_unknown_columns_are_named_at_once(db, table):
    for spec in (ScanSpec(("kk",)), ScanSpec((), (Range("kk", 1),))):
        with pytest.raises(UnknownColumn, match="column kk does not exist"):
            db.scan_tokens(table, spec)


def test_a_snapshot_stays_what_it_was(db, table):
    insert(db, table, range(10))
    old = db.now()
    tokens = db.scan_tokens(table, ScanSpec(("k",)))
    insert(db, table, range(10, 20))
    assert keys_of(db, table) == list(range(20))
    db.flush()
    load(db, table, range(20, 30))
    insert(db, table, range(30, 40))
    db.flush()
    assert [k for (k,) in read_tokens(db, tokens)] == list(range(10))
    # New tokens at the old time too: the rowset holds rows from before and after it.
    assert read(db, table, ("k",), snapshot=old) == [(k,) for k in range(10)]
    assert read(db, table, ("v",), (Range("k", 5, 15),), snapshot=old) == [(f"v{k}",) for k in range(5, 10)]
    assert keys_of(db, table) == list(range(40))


def test_the_past_is_read_after_flush_and_reopening_unless_it_is_forgotten(tmp_path):
    with Database(tmp_path / "db") as db:
        table = db.create_table(definition())
        insert(db, table, [1])
        between = db.now()
        insert(db, table, [2])
        db.flush()
        assert read(db, table, ("k",), snapshot=between) == [(1,)]
    with Database(tmp_path / "db") as db:
        assert read(db, table, ("k",), snapshot=between) == [(1,)]
        tablet = db._stores[table.id].tablets[0]
        with tablet.metadata_lock:
            tablet.write_metadata(replace(tablet.metadata, ancient_history_mark=between + 1))
        assert keys_of(db, table) == [1, 2]
    with Database(tmp_path / "db") as db:
        with pytest.raises(HistoryGone, match=r"cannot read table t as of .* its history is kept only since"):
            read(db, table, snapshot=between)
        assert keys_of(db, table) == [1, 2]


def test_the_future_cannot_be_read(db, table):
    later = Timestamp(db.now() + (10_000_000 << 12))
    with pytest.raises(DataError, match=r"cannot read table t as of 2.* it is only 2"):
        read(db, table, snapshot=later)


def test_scans_outlive_drop_and_files_go_with_the_last_of_them(tmp_path):
    with Database(tmp_path / "db") as db:
        table = db.create_table(definition())
        load(db, table, range(200_000))
        folder = tmp_path / "db" / "tables" / table.id
        tokens = db.scan_tokens(table, ScanSpec(("k", "v")))
        batches = db.scan(tokens[0])
        first = next(batches)
        db.drop_table("t")
        del tokens, batches
        # The batch alone still holds the files: its columns have not been read.
        db._folders.remove_dropped()
        assert folder.exists()
        assert first.column(1).to_arrow()[5].as_py() == "v5"
        del first
        db._folders.remove_dropped()
        assert not folder.exists()


def test_memory_limit_flushes_in_the_background():
    with Database(":memory:", memrowset_bytes=200_000) as db:
        table = db.create_table(definition())
        for start in range(0, 50_000, 500):
            insert(db, table, range(start, start + 500))
        assert db.statistics(table).row_count == 50_000
        assert db._stores[table.id].tablets[0].state.rowsets
        assert keys_of(db, table) == list(range(50_000))
        db.check()


def test_statistics_cover_memory_and_disk(db, table):
    assert db.statistics(table).row_count == 0
    insert(db, table, range(100))
    seen = db.statistics(table)
    assert (seen.row_count, seen.columns["k"].low, seen.columns["k"].high) == (100, 0, 99)
    assert seen.columns["v"].distinct_count == 100
    load(db, table, range(1000, 3000))
    seen = db.statistics(table)
    assert (seen.row_count, seen.columns["k"].low, seen.columns["k"].high) == (2100, 0, 2999)
    assert db.statistics(table).columns is seen.columns  # kept while nothing changes


def test_writers_and_readers_at_once_see_whole_batches(db, table):
    """One write spans three tablets; every snapshot has all of its rows or none."""
    stop = threading.Event()
    torn: list[int] = []

    def look():
        while not stop.is_set():
            count = len(keys_of(db, table))
            if count % 50:
                torn.append(count)

    readers = [threading.Thread(target=look) for _ in range(2)]
    for thread in readers:
        thread.start()

    def write(first):
        for start in range(first, first + 1000, 50):
            insert(db, table, range(start, start + 50))

    writers = [threading.Thread(target=write, args=(n * 5000,)) for n in range(3)]
    for thread in writers:
        thread.start()
    for _ in range(5):
        db.flush()
    for thread in writers:
        thread.join()
    stop.set()
    for thread in readers:
        thread.join()
    assert torn == []
    assert len(set(keys_of(db, table))) == 3000


def test_two_writers_of_one_key_agree_on_one(db, table):
    results = []
    start = threading.Barrier(6)

    def write(n):
        start.wait()
        results.append((insert(db, table, range(200), f"w{n}-").applied, n))

    threads = [threading.Thread(target=write, args=(n,)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(applied for applied, _ in results) == 200
    assert keys_of(db, table) == list(range(200))


# ---- opening and closing -----------------------------------------------------------------------------------------


def test_a_second_opener_is_refused_and_told_who(tmp_path):
    told = rf"{tmp_path}/db is open in this process \(pid {os.getpid()}\) already"
    with Database(tmp_path / "db"), pytest.raises(StoreLocked, match=told):
        Database(tmp_path / "db")
    Database(tmp_path / "db").close()


def test_a_closed_store_says_so(db, table):
    insert(db, table, range(10))
    batches = db.scan(db.scan_tokens(table, ScanSpec(("k",)))[0])
    db.close()
    db.close()
    calls = [
        lambda: db.tables(),
        lambda: db.table("t"),
        lambda: db.now(),
        lambda: insert(db, table, [1]),
        lambda: db.scan_tokens(table, ScanSpec(("k",))),
        lambda: db.bulk_loader(table),
        lambda: db.create_table(definition("u")),
        lambda: db.drop_table("t"),
        lambda: db.statistics(table),
        lambda: next(batches),
    ]
    for call in calls:
        with pytest.raises(StoreClosed, match="is closed; open it again"):
            call()


def test_bad_targets_are_refused(tmp_path):
    (tmp_path / "letter.txt").write_text("dear store")
    with pytest.raises(OperationalError, match=r"is no nyala store and not empty \(it holds letter.txt\)"):
        Database(tmp_path)
    for number in range(5):
        (tmp_path / f"a{number}").write_text("")
    with pytest.raises(OperationalError, match=r"\(it holds a0, a1, a2, a3, a4, \.\.\.\)"):
        Database(tmp_path)
    for number in range(5):
        (tmp_path / f"a{number}").unlink()
    with pytest.raises(InterfaceError, match="durability='sometimes'"):
        Database(":memory:", durability="sometimes")
    with Database(tmp_path / "db"):
        pass
    (tmp_path / "db" / "FORMAT").write_text("nyala store, format 2\n")
    with pytest.raises(UnsupportedFormat, match="says 'nyala store, format 2'; this nyala reads format 1"):
        Database(tmp_path / "db")


def test_damage_and_loss_are_named(tmp_path):
    with Database(tmp_path / "db") as db:
        table = db.create_table(definition())
        insert(db, table, range(10))
        db.flush()
    tablet = tmp_path / "db" / "tables" / table.id / f"{table.id}-p0000"
    catalog = tmp_path / "db" / "catalog"
    for path in (catalog, tablet / "metadata"):
        good = path.read_bytes()
        for place in range(0, len(good), 3):
            bad = bytearray(good)
            bad[place] ^= 0x40
            path.write_bytes(bad)
            with pytest.raises((CorruptionError, UnsupportedFormat), match=str(path)), Database(tmp_path / "db") as db:
                keys_of(db, table)
        path.write_bytes(good)
    column = next(tablet.glob("rowsets/*.col"))
    column.rename(tmp_path / "elsewhere")
    missing = pytest.raises(CorruptionError, match=rf"{column}: whole file: the file is missing")
    with Database(tmp_path / "db") as db, missing:
        keys_of(db, table)
    (tmp_path / "elsewhere").rename(column)
    with Database(tmp_path / "db") as db:
        assert keys_of(db, table) == list(range(10))


@pytest.mark.parametrize("also", ["nothing", "catalog"])
def test_a_store_whose_format_file_is_missing_is_never_made_anew(tmp_path, also):
    with Database(tmp_path / "db") as db:
        insert(db, db.create_table(definition()), [1, 2])
    kept = (tmp_path / "db" / "FORMAT").read_bytes()
    (tmp_path / "db" / "FORMAT").unlink()
    if also == "catalog":
        catalog = (tmp_path / "db" / "catalog").read_bytes()
        (tmp_path / "db" / "catalog").unlink()
    for _ in range(2):
        with pytest.raises(CorruptionError, match=r"FORMAT: whole file: .* but the store holds tables"):
            Database(tmp_path / "db")
    (tmp_path / "db" / "FORMAT").write_bytes(kept)
    if also == "catalog":
        (tmp_path / "db" / "catalog").write_bytes(catalog)
    with Database(tmp_path / "db") as db:
        assert keys_of(db, db.table("t")) == [1, 2]


def test_leftovers_of_crashes_are_cleaned(tmp_path):
    with Database(tmp_path / "db") as db:
        table = db.create_table(definition())
        load(db, table, range(10))
    tables = tmp_path / "db" / "tables"
    tablet = tables / table.id / f"{table.id}-p0000"
    leftovers = [tables / "t000099" / "x", tablet / "rowsets" / "rowset-00000077.bloom", tablet / "metadata.tmp"]
    (tables / "t000099").mkdir()
    for path in leftovers:
        path.write_bytes(b"refuse")
    with Database(tmp_path / "db") as db:
        assert keys_of(db, table) == list(range(10))
    assert not any(path.exists() for path in leftovers)
    assert not (tables / "t000099").exists()


def test_durability_os_survives_the_process(tmp_path):
    db = Database(tmp_path / "db", durability="os")
    table = db.create_table(definition())
    insert(db, table, range(100))
    db._lock.release()  # as if the process had died
    with Database(tmp_path / "db") as again:
        assert keys_of(again, table) == list(range(100))
        insert(again, table, [100])
    db._maintenance.stop()


@pytest.mark.parametrize(
    ("path", "name", "count"),
    [(tablet_write, "encode_write", 500), (rows_write, "encode_write", 40), (rows_write, "encode_row", 1)],
)
def test_rows_that_cannot_be_encoded_leave_nobody_waiting(db, table, monkeypatch, path, name, count):
    encoded = getattr(path, name)

    def fail_once(*arguments):
        monkeypatch.setattr(path, name, encoded)
        raise MemoryError

    insert(db, table, [1, 2, 3])
    monkeypatch.setattr(path, name, fail_once)
    with pytest.raises(MemoryError):
        insert(db, table, range(10, 10 + count))
    assert keys_of(db, table) == [1, 2, 3]
    insert(db, table, range(10, 10 + count))
    assert keys_of(db, table) == [1, 2, 3, *range(10, 10 + count)]

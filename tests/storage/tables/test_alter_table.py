"""ALTER TABLE on a store: rows from before, running scans, writers, crashes at every sync, disks that fail."""

from __future__ import annotations

import gc
import random
import threading
import zipfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from examples import some
from nyala.errors import (
    AlreadyPresent,
    DiskError,
    DuplicateTable,
    HistoryGone,
    IntegrityError,
    NoPartition,
    UnknownColumn,
    UnknownTable,
)
from nyala.model.alterations import (
    AddColumn,
    AddRangePartition,
    AlterStep,
    DropColumn,
    DropRangePartition,
    RenameColumn,
    RenameTable,
    SetDefault,
    SetStorage,
)
from nyala.model.predicates import IsNull, Range
from nyala.model.schema import (
    AUTO_INCREMENT_COLUMN,
    ColumnSchema,
    Encoding,
    PartitionSchema,
    RangePartition,
    TableDefinition,
    non_unique_key,
)
from nyala.model.store import Op, ScanSpec, Timestamp, WriteBatch
from nyala.model.types import BIGINT, INT, STRING
from nyala.storage.database import Database
from nyala.storage.files.filesystem import FileSystem
from nyala.storage.files.memory_filesystem import CrashableFileSystem, FaultyFileSystem
from tablet_support import HASHED, ONE_TABLET, RANGED, batch, definition, insert, keys_of, load, read, read_tokens

NUMBER = ColumnSchema("n", INT, nullable=False, default=7)
LAST = RangePartition((200,), (300,))


@pytest.fixture
def fs() -> CrashableFileSystem:
    return CrashableFileSystem()


@pytest.fixture
def db(fs: FileSystem) -> Any:
    with Database("db", fs=fs) as opened:
        yield opened


def tablet_folders(fs: FileSystem) -> list[str]:
    return sorted(name for name in fs.list("db/tables/t000001") if "-p" in name)


# ---- rows from before --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("partitions", [ONE_TABLET, HASHED], ids=["one", "three"])
def test_rows_from_before_show_the_altered_table_wherever_they_lie(db: Database, fs: Any, partitions: Any) -> None:
    table = db.create_table(definition(partitions=partitions))
    load(db, table, range(10))
    insert(db, table, range(10, 20))
    db.flush()
    insert(db, table, range(20, 30))  # in memory, with mutations in each place
    db.write(table, WriteBatch(batch([3, 13, 23], "new"), Op.UPDATE))
    altered = db.alter_table("t", [AddColumn(NUMBER), RenameColumn("k", "key"), RenameColumn("v", "text")])
    db.write(altered, WriteBatch(pa.record_batch({"key": [4, 24], "n": pa.array([1, 2], pa.int32())}), Op.UPDATE))
    db.write(altered, WriteBatch(pa.record_batch({"key": [30], "text": ["v30"]})))
    altered = db.alter_table("t", [SetDefault("n", 9)])
    db.write(altered, WriteBatch(pa.record_batch({"key": [31], "text": ["v31"]})))
    updated = {4: 1, 24: 2, 31: 9}
    expected = [(k, f"{'new' if k in (3, 13, 23) else 'v'}{k}", updated.get(k, 7)) for k in range(32)]

    def verify(store: Database) -> None:
        now = store.table("t")
        assert read(store, now, ("key", "text", "n")) == expected
        assert read(store, now, ("key",), (Range.equal("n", 7),)) == [(k,) for k, _, n in expected if n == 7]
        assert read(store, now, ("n",), (Range("key", 4, 4),)) == [(1,)]
        store.check()

    verify(db)
    with Database("db", fs=fs.crash(0.0, random.Random(1))) as crashed:
        verify(crashed)
        crashed.flush()
        verify(crashed)
    db.flush()
    verify(db)
    with Database("db", fs=fs.crash(0.0, random.Random(1))) as crashed:
        verify(crashed)


def test_a_dropped_column_does_not_come_back(db: Database) -> None:
    table = db.create_table(definition())
    load(db, table, [1])
    insert(db, table, [2])
    db.alter_table("t", [DropColumn("v")])
    altered = db.alter_table("t", [AddColumn(ColumnSchema("v", STRING))])
    assert read(db, altered) == [(1, None), (2, None)]
    assert read(db, altered, ("k",), (IsNull("v"),)) == [(1,), (2,)]
    insert(db, altered, [3])
    db.flush()
    assert read(db, altered) == [(1, None), (2, None), (3, "v3")]


def test_the_past_is_read_by_the_schema_of_today(db: Database) -> None:
    table = db.create_table(definition())
    insert(db, table, [1])
    before = db.now()
    altered = db.alter_table("t", [AddColumn(NUMBER)])
    db.write(altered, WriteBatch(pa.record_batch({"k": [1], "n": pa.array([5], pa.int32())}), Op.UPDATE))
    for _ in range(2):
        assert read(db, altered, ("k", "n"), snapshot=before) == [(1, 7)]
        assert read(db, altered, ("k", "n")) == [(1, 5)]
        db.flush()


def test_storage_holds_for_new_files(db: Database) -> None:
    table = db.create_table(definition())
    insert(db, table, range(5000))
    db.flush()
    altered = db.alter_table("t", [SetStorage("v", Encoding.PLAIN, block_size=1024)])
    insert(db, altered, range(5000, 10_000))
    db.flush()
    readers = [r.rowset._readers[1].footer for r in db._tablets()[0].state.rowsets]
    assert (readers[0].encoding, readers[1].encoding) != (Encoding.PLAIN, Encoding.PLAIN)
    assert readers[1].encoding is Encoding.PLAIN and readers[1].page_rows <= 128
    assert len(read(db, altered)) == 10_000


def test_a_renamed_table_keeps_everything_but_its_name(db: Database, fs: Any) -> None:
    insert(db, db.create_table(definition()), range(5))
    db.create_table(definition("other"))
    version = db.catalog_version
    with pytest.raises(DuplicateTable):
        db.alter_table("t", [RenameTable("other")])
    with pytest.raises(UnknownTable, match="table tt does not exist"):
        db.alter_table("tt", [RenameTable("x")])
    assert db.catalog_version == version
    db.alter_table("t", [RenameTable("renamed")])
    assert db.catalog_version == version + 1
    assert [t.name for t in db.tables()] == ["other", "renamed"]
    insert(db, db.table("renamed"), [5])
    with Database("db", fs=fs.crash(0.0, random.Random(1))) as again:
        assert keys_of(again, again.table("renamed")) == list(range(6))


# ---- what goes on meanwhile --------------------------------------------------------------------------------------


def test_scans_that_have_begun_finish_with_the_old_schema(db: Database) -> None:
    table = db.create_table(definition(partitions=HASHED))
    load(db, table, range(50))
    insert(db, table, range(50, 60))
    tokens = db.scan_tokens(table, ScanSpec(("k", "v"), (Range("v", "v"),)))
    db.alter_table("t", [DropColumn("v"), RenameColumn("k", "v")])
    db.flush()
    assert read_tokens(db, tokens) == [(k, f"v{k}") for k in range(60)]
    with pytest.raises(UnknownColumn, match="another one since the table was altered"):
        db.scan_tokens(table, ScanSpec(("v",)))
    assert read(db, db.table("t"), ("v",)) == [(k,) for k in range(60)]


def test_writers_and_readers_go_on_while_a_table_is_altered(db: Database) -> None:
    table = db.create_table(definition(partitions=HASHED))
    done = threading.Event()
    written: list[list[int]] = [[], []]
    failures: list[BaseException] = []

    def guarded(work: Any) -> None:
        try:
            work()
        except BaseException as error:
            failures.append(error)
            done.set()

    def write(writer: int) -> None:
        key = writer
        while not done.is_set():
            keys = range(key, key + 20, 2)
            assert insert(db, table, keys, text="v").errors == ()
            written[writer] += keys
            key += 20

    def scan() -> None:
        while not done.is_set():
            rows = read(db, db.table("t"))
            assert [text for _, text in rows] == [f"v{k}" for k, _ in rows]

    threads = [threading.Thread(target=guarded, args=(w,)) for w in (lambda: write(0), lambda: write(1), scan)]
    for thread in threads:
        thread.start()
    for number in range(12):
        db.alter_table("t", [AddColumn(ColumnSchema(f"x{number}", INT, default=number))])
        if number % 3 == 2:
            db.alter_table("t", [DropColumn(f"x{number - 1}")])
            db.flush()
    done.set()
    for thread in threads:
        thread.join()
    assert failures == []
    found = read(db, db.table("t"), ("k", "x0", "x11"))
    assert [k for k, _, _ in found] == sorted(written[0] + written[1])
    assert {row[1:] for row in found} == {(0, 11)}
    db.check()


def test_a_load_goes_on_while_its_table_is_altered(db: Database) -> None:
    table = db.create_table(definition(partitions=RANGED))
    with db.bulk_loader(table) as loader:
        loader.append(batch([1, 150]))
        db.alter_table("t", [AddColumn(NUMBER), AddRangePartition(LAST)])
        loader.append(batch([2]))
        loader.finish()
    assert read(db, db.table("t"), ("k", "v", "n")) == [(1, "v1", 7), (2, "v2", 7), (150, "v150", 7)]
    with db.bulk_loader(table) as loader:
        loader.append(batch([3, 160]))
        db.alter_table("t", [DropRangePartition(RangePartition((100,), (200,)))])
        with pytest.raises(NoPartition, match="lost a range partition"):
            loader.finish()
    assert keys_of(db, table) == [1, 2]
    db.check()


# ---- range partitions --------------------------------------------------------------------------------------------


def test_range_partitions_come_and_go_with_their_rows(db: Database, fs: Any) -> None:
    table = db.create_table(definition(partitions=RANGED))
    insert(db, table, [5, 150])
    db.flush()
    assert isinstance(insert(db, table, [250]).errors[0].error, NoPartition)
    table = db.alter_table("t", [AddRangePartition(LAST)])
    assert insert(db, table, [6, 250]).applied == 2
    assert db.tablet_count(table) == 3
    tokens = db.scan_tokens(table, ScanSpec(("k",)))
    table = db.alter_table("t", [DropRangePartition(RangePartition((100,), (200,)))])
    assert keys_of(db, table) == [5, 6, 250]
    assert isinstance(insert(db, table, [151]).errors[0].error, NoPartition)
    assert read_tokens(db, tokens) == [(5,), (6,), (150,), (250,)]
    assert len(tablet_folders(fs)) == 3
    del tokens
    gc.collect()
    db._folders.remove_dropped()
    assert len(tablet_folders(fs)) == 2
    table = db.alter_table("t", [AddRangePartition(RangePartition((100,), (200,)))])
    assert keys_of(db, table) == [5, 6, 250]
    insert(db, table, [151])
    with Database("db", fs=fs.crash(0.0, random.Random(1))) as again:
        assert keys_of(again, again.table("t")) == [5, 6, 151, 250]
        assert "t000001-p0003" in tablet_folders(again._fs)


def test_all_range_partitions_may_go(db: Database) -> None:
    table = db.create_table(definition(partitions=RANGED))
    assert RANGED.range_rule is not None
    table = db.alter_table("t", [DropRangePartition(p) for p in RANGED.range_rule.partitions])
    assert keys_of(db, table) == []
    assert "it has no range at all" in str(insert(db, table, [1]).errors[0].error)
    table = db.alter_table("t", [AddRangePartition(RangePartition(None, None)), AddColumn(NUMBER)])
    insert(db, table, [1])
    assert read(db, table, ("k", "n")) == [(1, 7)]


# ---- crashes and disks -------------------------------------------------------------------------------------------

STEPS: list[list[AlterStep]] = [
    [AddColumn(NUMBER), AddRangePartition(LAST)],
    [RenameColumn("v", "w"), RenameTable("renamed")],
    [DropColumn("n"), DropRangePartition(RangePartition((100,), (200,))), RenameTable("t")],
    [AddColumn(ColumnSchema("n", INT)), RenameColumn("w", "v")],
]


def state(db: Database) -> Any:
    """The names of columns and all rows, whatever the table is called."""
    (table,) = db.tables()
    names = tuple(table.schema.names)
    return table.name, names, read(db, table, names)


def run_alterations(db: Database, note: Any) -> None:
    """Writes between alterations; `note` is called whenever the state has changed."""
    table = db.create_table(definition(partitions=RANGED))
    note(state(db))
    load(db, table, range(6))
    note(state(db))
    for number, steps in enumerate(STEPS):
        table = db.alter_table(db.tables()[0].name, steps)
        note(state(db))
        key = 10 + number
        rows = pa.record_batch({"k": [key], table.schema.names[1]: [f"v{key}"]})
        db.write(table, WriteBatch(rows))
        note(state(db))
        if number % 2:
            db.flush()


@pytest.mark.parametrize("keep", [0.0, 0.5, 1.0])
def test_a_crash_at_any_sync_leaves_the_table_before_or_after(keep: float) -> None:
    images: list[tuple[int, CrashableFileSystem]] = []
    states: list[Any] = []
    rng = random.Random(7)
    fs = CrashableFileSystem(lambda what: images.append((len(states), fs.crash(keep, rng))))
    with Database("db", fs=fs) as db:
        run_alterations(db, states.append)
    assert len(images) > 40
    for done, image in some(images, int(keep * 2)):
        with Database("db", fs=image) as db:
            if not db.tables():
                assert done == 0
                continue
            found = state(db)
            # An acknowledged state, or the next one, which was under way.
            assert found in states[max(done - 1, 0) : done + 1]
            db.check()
            name = db.tables()[0].name
            db.alter_table(name, [AddColumn(ColumnSchema("more", INT, default=1))])
            assert state(db)[2] == [(*row, 1) for row in found[2]]
            owned = {tablet.id for tablet in db._tablets()}
            assert set(tablet_folders(image)) == owned


@pytest.mark.parametrize("operation", ["write", "sync", "create", "rename", "sync_directory", "remove"])
def test_an_alteration_that_the_disk_refuses_has_not_happened(operation: str) -> None:
    refused = 0
    for nth in range(1, 14):
        disk = CrashableFileSystem()
        fs = FaultyFileSystem(disk)
        with Database("db", fs=fs) as db:
            table = db.create_table(definition(partitions=RANGED))
            load(db, table, range(3))
            insert(db, table, [3, 150])
            before = state(db)
            fs.fail(operation, nth=nth, times=1)
            try:
                altered = db.alter_table("t", [AddColumn(NUMBER), AddRangePartition(LAST)])
            except DiskError:
                refused += 1
                assert state(db) == before
                assert insert(db, table, [4]).applied == 1
                fs.heal()
                altered = db.alter_table("t", [AddColumn(NUMBER), AddRangePartition(LAST)])
            fs.heal()
            insert(db, altered, [5, 250])
            expected = [row for row in state(db)[2] if row[0] != 4]
            assert expected == [(k, f"v{k}", 7) for k in (0, 1, 2, 3, 5, 150, 250)]
            after = state(db)
        with Database("db", fs=disk) as db:
            assert state(db) == after
            db.check()
    assert refused or operation in ("remove",)


# ---- non-unique keys and loads over deleted rows -----------------------------------------------------------------

PAIRS = TableDefinition(
    "pairs", non_unique_key((ColumnSchema("k", BIGINT, False), ColumnSchema("v", STRING)), 1), PartitionSchema()
)


def test_a_non_unique_key_holds_equal_rows_from_writes_and_loads(fs: Any) -> None:
    def numbers(db: Database) -> list[int]:
        return [row[0] for row in read(db, db.table("pairs"), (AUTO_INCREMENT_COLUMN,))]

    with Database("db", fs=fs) as db:
        table = db.create_table(PAIRS)
        insert(db, table, [1, 1, 2])
        load(db, table, [1, 2, 2], [1])
        insert(db, table, [2])
        assert read(db, table) == sorted((k, f"v{k}") for k in (1, 1, 2, 1, 2, 2, 1, 2))
        assert len(set(numbers(db))) == 8
        db.flush()
        with pytest.raises(IntegrityError, match="assigned by the store"), db.bulk_loader(table) as loader:
            loader.append(pa.record_batch({"k": [1], AUTO_INCREMENT_COLUMN: [5]}))
        db.check()
    with Database("db", fs=fs.crash(0.0, random.Random(3))) as db:
        load(db, db.table("pairs"), [1])
        insert(db, db.table("pairs"), [1])
        assert len(set(numbers(db))) == 10
        db.check()


@pytest.mark.parametrize("flushed", [False, True])
def test_a_load_may_bring_back_deleted_keys(db: Database, fs: Any, flushed: bool) -> None:
    table = db.create_table(definition())
    load(db, table, range(10), text="old")
    insert(db, table, range(10, 20), text="old")
    if flushed:
        db.flush()
    before = db.now()
    db.write(table, WriteBatch(pa.record_batch({"k": [3, 4, 13, 14]}), Op.DELETE))
    with pytest.raises(AlreadyPresent, match=r"k = (5|15)"):
        load(db, table, [3, 5, 15])
    load(db, table, [3, 13], text="new")
    expected = [(k, f"{'new' if k in (3, 13) else 'old'}{k}") for k in range(20) if k not in (4, 14)]
    for store in (db, Database("db", fs=fs.crash(0.0, random.Random(1)))):
        assert read(store, table) == expected
        assert read(store, table, snapshot=before) == [(k, f"old{k}") for k in range(20)]
        store.check()
        store.flush()
        assert read(store, table) == expected
    store.close()
    db.write(table, WriteBatch(pa.record_batch({"k": [3]}), Op.DELETE))
    assert read(db, table, ("k",), (Range("k", 2, 4),)) == [(2,)]


def test_a_loaded_row_is_not_seen_before_the_load(db: Database) -> None:
    table = db.create_table(definition())
    before = db.now()
    load(db, table, range(5))
    assert read(db, table, snapshot=before) == []
    assert len(read(db, table)) == 5


# ---- stores of before --------------------------------------------------------------------------------------------


def test_a_store_from_before_updates_opens_and_goes_on(tmp_path: Path) -> None:
    """`old_files/store.zip` was written when stores knew INSERT alone: a load, a flush of two writes, a log."""
    zipfile.ZipFile(Path(__file__).parent / "old_files" / "store.zip").extractall(tmp_path)
    rows = [*(f"load{k}" for k in range(10)), *(f"one{k}" for k in range(20, 24)), *(f"two{k}" for k in range(24, 27))]
    keys = [*range(10), *range(20, 27), 30, 31, *range(150, 155), 160]
    texts = [*rows, "log30", "log31", *(f"load{k}" for k in range(150, 155)), "log160"]
    between = Timestamp(7353620435238551552)
    with Database(tmp_path) as db:
        table = db.table("t")
        assert read(db, table) == list(zip(keys, texts))
        db.check()
        with pytest.raises(HistoryGone, match="history is kept only since"):
            read(db, table, snapshot=between)
        table = db.alter_table("t", [AddColumn(ColumnSchema("m", INT, default=1))])
        db.write(table, WriteBatch(batch([5, 21, 30], "new"), Op.UPDATE))
        db.write(table, WriteBatch(pa.record_batch({"k": [6, 22, 31]}), Op.DELETE))
    with Database(tmp_path) as db:
        expected = [(k, f"new{k}" if k in (5, 21, 30) else t, 1) for k, t in zip(keys, texts) if k not in (6, 22, 31)]
        assert read(db, db.table("t"), ("k", "v", "m")) == expected
        db.flush()
        assert read(db, db.table("t"), ("k", "v", "m")) == expected
        db.check()

"""A COMMIT with changes of the catalog is all or nothing: tables, views and rows, on disks that fail and after crashes;
others that change the same conflict with it."""

from __future__ import annotations

import random
import threading

import pytest
from crash_support import CrashImages
from examples import some
from nyala.errors import DiskError, HistoryGone, OutcomeUnknown, SerializationFailure, UnknownTable
from nyala.model.alterations import (
    AddColumn,
    AddRangePartition,
    DropColumn,
    DropRangePartition,
    RenameColumn,
    RenameTable,
    SetComment,
)
from nyala.model.predicates import Range
from nyala.model.schema import ColumnSchema, RangePartition, View
from nyala.model.store import ChangeRange, Op, ScanSpec, Timestamp, WriteBatch
from nyala.model.transactions import Isolation, TransactionOptions
from nyala.model.types import INT
from nyala.storage.database import Database
from nyala.storage.files.memory_filesystem import CrashableFileSystem, FaultyFileSystem
from nyala.storage.inspect.check.check_store import check_store
from tablet_support import HASHED, RANGED, batch, definition, insert, read

VIEW = View("v", "SELECT k FROM made", ("k",))
BEFORE = {
    "kept": {k: (f"v{k}",) for k in range(20)},
    "gone": {1: ("v1",)},
    "altered": {k: (f"v{k}",) for k in range(10)},
    "ranged": {1: ("v1",), 150: ("v150",)},
}
AFTER = {
    "kept": {**BEFORE["kept"], **{k: (f"new{k}",) for k in range(5)}},
    "renamed": {**{k: (f"v{k}", 3) for k in range(2, 10)}, 1: ("x1", 3), 0: ("v0", 5), 50: ("v50", 3)},
    "made": {k: (f"v{k}",) for k in range(30)},
    "ranged": {1: ("v1",), 250: ("v250",)},
}


def prepare(db: Database) -> None:
    """`BEFORE`, partly in files."""
    for name in BEFORE:
        partitions = RANGED if name == "ranged" else HASHED
        table = db.create_table(definition(name, partitions))
        for key in BEFORE[name]:
            insert(db, table, [key])
        if name == "altered":
            db.flush()
            db.write(table, WriteBatch(batch([3]), Op.UPSERT))


def change(db: Database, *, options: TransactionOptions = TransactionOptions()):  # noqa: B008
    """A transaction from `BEFORE` to `AFTER`, open."""
    inside = db.begin(options)
    inside.write(inside.table("kept"), WriteBatch(batch(range(5), "new"), Op.UPDATE))
    inside.write(inside.table("gone"), WriteBatch(batch([7]), Op.INSERT))
    inside.drop_table("gone")
    made = inside.create_table(definition("made", HASHED))
    inside.write(made, WriteBatch(batch(range(30)), Op.INSERT))
    inside.write(inside.table("altered"), WriteBatch(batch([1], "x"), Op.UPDATE))
    inside.write(inside.table("altered"), WriteBatch(batch([50]), Op.INSERT))
    altered = inside.alter_table("altered", [AddColumn(ColumnSchema("n", INT, default=3)), RenameTable("renamed")])
    inside.write_row(altered, Op.UPDATE, {"k": 0, "n": 5})
    dropped, added = RangePartition((100,), (200,)), RangePartition((200,), (300,))
    ranged = inside.alter_table("ranged", [DropRangePartition(dropped), AddRangePartition(added)])
    inside.write(ranged, WriteBatch(batch([250]), Op.INSERT))
    inside.create_view(VIEW)
    return inside


def state(store, snapshot: Timestamp | None = None) -> dict[str, dict[int, tuple]]:
    found = {}
    for table in store.tables():
        names = table.schema.names
        found[table.name] = {row[0]: row[1:] for row in read(store, table, names, snapshot=snapshot)}
    return found


def is_after(db: Database) -> bool:
    """True if all of the transaction is there, False if nothing is."""
    found, views = state(db), list(db.views())
    assert (found, views) in ((BEFORE, []), (AFTER, [VIEW])), (found, views)
    return found == AFTER


def reopened(fs: CrashableFileSystem, keep: float = 0.0) -> bool:
    """`is_after` after a loss of power now."""
    image = fs.crash(keep, random.Random(7))
    assert not check_store(image, "db").errors
    with Database("db", fs=image, background=False) as db:
        db.check()
        return is_after(db)


def folders(fs: CrashableFileSystem, db: Database) -> None:
    """Assert that there are no folders but those of the catalog's tablets."""
    db.maintain()
    entries = {entry.table.id: entry for entry in db.catalog.entries.values()}
    assert set(fs.list("db/tables")) == set(entries)
    for table_id, entry in entries.items():
        assert {name for name in fs.list(f"db/tables/{table_id}") if "-p" in name} == set(entry.tablet_ids)


# ---- all or nothing --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", ["memory", "flushed", "compacted", "reopened", "os"])
def test_all_changes_happen_at_one_timestamp(way):
    fs = CrashableFileSystem()
    durability = "os" if way == "os" else "fsync"
    with Database("db", fs=fs, background=False, durability=durability) as db:
        prepare(db)
        if way == "flushed":
            db.flush()
        inside = change(db)
        assert state(inside) == AFTER and state(db) == BEFORE
        assert not db.views() and inside.view("v") == VIEW
        timestamp = inside.commit()
        folders(fs, db)
        if way == "os":
            db.flush()
    with Database("db", fs=fs.crash(0.0, random.Random(1)) if way == "reopened" else fs, background=False) as db:
        if way == "flushed":
            db.flush()
        if way == "compacted":
            for table in db.tables():
                db.compact_table(table)
        assert is_after(db) and state(db, timestamp) == AFTER
        past = state(db, Timestamp(timestamp - 1))
        assert past["made"] == {} and past["kept"] == BEFORE["kept"]
        assert past["renamed"] == {k: (*row, 3) for k, row in BEFORE["altered"].items()}
        made = db.table("made")
        spec = ScanSpec(("_changed_at",), changes=ChangeRange(Timestamp(timestamp - 1), True))
        at = [row for token in db.scan_tokens(made, spec) for part in db.scan(token) for row in part.rows()]
        assert at == [(timestamp,)] * 30
        db.check()


def test_a_crash_at_any_sync_leaves_all_or_nothing():
    """Of the COMMIT, and of what is done with the store afterwards."""
    fs = CrashableFileSystem()
    with Database("db", fs=fs, background=False) as db:
        prepare(db)
        inside = change(db)
        crashes = CrashImages(fs)
        fs.on_sync = crashes.note
        inside.commit()
        acknowledged = crashes.acknowledge()
        insert(db, db.table("kept"), [1000])
        db.write(db.table("kept"), WriteBatch(batch([1000]).select(["k"]), Op.DELETE))
        db.flush()
        db.create_view(View("other", "SELECT 1", ("a",)))
        db.drop_views(["other"])
        for name in ("kept", "renamed"):
            db.compact_table(db.table(name))
        db.maintain()
        fs.on_sync = None
    outcomes = {}
    for number, (what, image) in some(list(enumerate(crashes.images))):
        assert not check_store(image, "db").errors, what
        with Database("db", fs=image, background=False) as db:
            db.check()
            outcomes[number] = after_or_later(db)
            folders(image, db)
            if not outcomes[number]:
                change(db).commit()
            assert after_or_later(db)
        with Database("db", fs=image.crash(0.0, random.Random(1)), background=False) as db:
            assert after_or_later(db)
    assert all(happened for number, happened in outcomes.items() if number >= acknowledged)
    assert not all(outcomes.values())


def after_or_later(db: Database) -> bool:
    """`is_after`, whatever was done with the key 1000 and another view afterwards."""
    found, views = state(db), [view for view in db.views() if view.name != "other"]
    found["kept"].pop(1000, None)
    assert (found, views) in ((BEFORE, []), (AFTER, [VIEW])), (found, views)
    return found == AFTER


STEPS = [
    *(("write", path) for path in ("*/wal/*", "*/catalog*")),
    *(("sync", path) for path in ("*/wal/*", "*/catalog*", "*/metadata*")),
    *(("create", path) for path in ("*/wal/*", "*/catalog*", "*/metadata*")),
    ("rename", "*/catalog*"),
    ("sync_directory", "*/tables*"),
    ("sync_directory", "db"),
]


@pytest.mark.parametrize(("operation", "pattern"), STEPS)
@pytest.mark.parametrize(("nth", "durability"), [(1, "fsync"), (3, "fsync"), (2, "os")])
def test_a_commit_that_fails_has_changed_nothing(operation, pattern, nth, durability):
    disk = CrashableFileSystem()
    fs = FaultyFileSystem(disk)
    with Database("db", fs=fs, background=False, durability=durability) as db:
        prepare(db)
        db.flush()
        inside = change(db)
        fs.fail(operation, pattern, nth=nth, times=1, message="No space left on device")
        try:
            inside.commit()
        except DiskError as error:
            assert error.retryable
            assert not is_after(db)
            if durability == "fsync":
                assert not reopened(disk) and not reopened(disk, 1.0)
            fs.heal()
            insert(db, db.table("altered"), [2000])
            db.write(db.table("altered"), WriteBatch(batch([2000]).select(["k"]), Op.DELETE))
            change(db).commit()
        assert is_after(db)
        fs.heal()
        db.flush()
        db.check()
        assert reopened(disk)
        folders(disk, db)


@pytest.mark.parametrize(
    ("operation", "pattern"), [("write", "*/commits/*"), ("sync", "*/commits/*"), ("create", "*/commits*")]
)
def test_a_record_that_cannot_be_made_is_made_later(operation, pattern):
    """The catalog has decided: a commit log that fails afterwards changes nothing."""
    disk = CrashableFileSystem()
    fs = FaultyFileSystem(disk)
    with Database("db", fs=fs, background=False) as db:
        prepare(db)
        inside = change(db)
        fs.fail(operation, pattern, message="Input/output error")
        inside.commit()
        assert is_after(db) and reopened(disk) and reopened(disk, 1.0)
        db.write_row(db.table("kept"), Op.UPSERT, {"k": 0, "v": "new0"})
        fs.heal()
        assert reopened(disk)
        db.flush()
        assert reopened(disk)
        again = db.begin()
        again.create_view(View("other", "SELECT 1", ("a",)))
        again.write_row(again.table("kept"), Op.UPSERT, {"k": 0, "v": "new0"})
        again.commit()
        assert not db.catalog.decided
    with Database("db", fs=disk.crash(0.0, random.Random(1)), background=False) as db:
        assert after_or_later(db) and db.view("other") is not None


def test_a_commit_in_doubt_blocks_writes_until_it_is_settled():
    disk = CrashableFileSystem()
    fs = FaultyFileSystem(disk)
    with Database("db", fs=fs, background=False) as db:
        prepare(db)
        inside = change(db)
        fs.fail("sync_directory", "db", nth=2, message="Input/output error")
        fs.fail("create", "*/catalog*", nth=3, message="Input/output error")
        with pytest.raises(OutcomeUnknown) as raised:
            inside.commit()
        assert not raised.value.retryable
        assert not is_after(db)
        outcomes = {reopened(disk, keep) for keep in (0.0, 1.0)}
        assert True in outcomes
        for action in (lambda: insert(db, db.table("kept"), [1000]), lambda: db.flush(db.table("ranged"))):
            with pytest.raises(DiskError):
                action()
        assert {reopened(disk, keep) for keep in (0.0, 1.0)} == outcomes
        fs.heal()
        insert(db, db.table("kept"), [1000])
        db.flush()
        assert not after_or_later(db) and not any(after_crash(disk, keep) for keep in (0.0, 1.0))
        change(db).commit()
        assert after_or_later(db) and all(after_crash(disk, keep) for keep in (0.0, 1.0))


def after_crash(fs: CrashableFileSystem, keep: float) -> bool:
    with Database("db", fs=fs.crash(keep, random.Random(7)), background=False) as db:
        return after_or_later(db)


# ---- others ----------------------------------------------------------------------------------------------------------


def outside(db: Database, what: str) -> None:
    """A change by another transaction or statement."""
    if what == "alters":
        db.alter_table("altered", [SetComment(None, "x")])
    elif what == "drops":
        db.drop_table("altered")
    elif what == "drops the dropped":
        db.drop_table("gone")
    elif what == "creates":
        db.create_table(definition("made"))
    elif what == "takes the new name":
        db.create_table(definition("renamed"))
    elif what == "takes the name for a view":
        db.create_view(View("renamed", "SELECT 1", ("a",)))
    elif what == "creates the view":
        db.create_view(VIEW)
    elif what == "creates another view":
        db.create_view(View("w", "SELECT k FROM gone", ("k",)))
    elif what == "writes to the dropped":
        insert(db, db.table("gone"), [9])
    elif what == "writes to the partition":
        insert(db, db.table("ranged"), [160])
    elif what == "writes the same row":
        db.write_row(db.table("altered"), Op.UPDATE, {"k": 1, "v": "y"})
    else:
        raise AssertionError(what)


@pytest.mark.parametrize(
    ("what", "message"),
    [
        ("alters", "table altered was altered"),
        ("drops", "table (altered|renamed) was dropped"),
        ("drops the dropped", "table gone was dropped"),
        ("creates", "table made was created"),
        ("takes the new name", "table renamed was created"),
        ("takes the name for a view", "view renamed was created"),
        ("creates the view", "view v was created"),
        ("creates another view", "view w was created"),
        ("writes to the dropped", r"key \(k = 9\) of table gone"),
        ("writes to the partition", r"key \(k = 160\) of table ranged"),
        ("writes the same row", r"key \(k = 1\) of table renamed"),
    ],
)
def test_others_that_change_the_same_conflict(what, message):
    fs = CrashableFileSystem()
    with Database("db", fs=fs, background=False) as db:
        prepare(db)
        inside = change(db)
        outside(db, what)
        found = state(db)
        if what == "drops":
            with pytest.raises(SerializationFailure, match=message):
                state(inside)
        else:
            assert state(inside) == AFTER
        with pytest.raises(SerializationFailure, match=message) as raised:
            inside.commit()
        assert raised.value.retryable
        assert state(db) == found
        folders(fs, db)
        db.check()


def test_others_that_change_something_else_do_not_conflict():
    with Database(background=False) as db:
        prepare(db)
        inside = change(db)
        insert(db, db.table("kept"), [900])
        insert(db, db.table("altered"), [901])
        insert(db, db.table("altered"), [902])
        db.create_table(definition("other"))
        db.alter_table("kept", [AddColumn(ColumnSchema("m", INT))])
        inside.commit()
        found = state(db)
        assert found["kept"][900] == ("v900", None) and found["kept"][0] == ("new0", None)
        assert found["renamed"][901] == ("v901", 3) and found["other"] == {}


@pytest.mark.parametrize("step", [DropColumn("v"), DropRangePartition(RangePartition((100,), (200,)))])
def test_removed_values_conflict_with_changes_of_rows(step):
    with Database(background=False) as db:
        prepare(db)
        name = "ranged"
        inside = db.begin()
        inside.alter_table(name, [step])
        insert(db, db.table(name), [2])
        with pytest.raises(SerializationFailure, match="table ranged"):
            inside.commit()
        inside = db.begin()
        inside.alter_table(name, [step])
        inside.commit()
        inside = db.begin()
        inside.alter_table(name, [RenameColumn("k", "key")])
        db.write_row(db.table(name), Op.INSERT, {"k": 3})
        inside.commit()
        assert db.table(name).schema.names[0] == "key"


def test_a_transaction_sees_the_catalog_of_its_beginning():
    with Database(background=False) as db:
        prepare(db)
        reader = db.begin()
        change(db).commit()
        assert [table.name for table in reader.tables()] == sorted(BEFORE) and not reader.views()
        assert dict(read(reader, reader.table("kept"))) == {k: row[0] for k, row in BEFORE["kept"].items()}
        assert dict(read(reader, reader.table("altered"))) == {k: row[0] for k, row in BEFORE["altered"].items()}
        with pytest.raises(SerializationFailure, match="table gone was dropped by another transaction"):
            read(reader, reader.table("gone"))
        with pytest.raises(UnknownTable):
            reader.table("made")
        reader.write_row(reader.table("altered"), Op.UPDATE, {"k": 4, "v": "late"})
        reader.commit()
        assert state(db)["renamed"][4] == ("late", 3)
        reader = db.begin()
        assert state(reader)["renamed"][4] == ("late", 3)


def test_writers_of_a_dropped_table_or_column_conflict():
    with Database(background=False) as db:
        prepare(db)
        for name in ("gone", "altered"):
            writer, other = db.begin(), db.begin()
            writer.write_row(writer.table(name), Op.UPSERT, {"k": 1, "v": "z"})
            if name == "gone":
                other.drop_table(name)
            else:
                other.alter_table(name, [DropColumn("v")])
            other.commit()
            with pytest.raises(SerializationFailure, match=name):
                writer.commit()


def test_open_scans_and_tokens_of_others_go_on():
    fs = CrashableFileSystem()
    with Database("db", fs=fs, background=False) as db:
        prepare(db)
        tokens = {name: db.scan_tokens(db.table(name), ScanSpec(("k", "v"))) for name in BEFORE}
        change(db).commit()
        for name, some in tokens.items():
            rows = {row[0]: row[1:] for token in some for part in db.scan(token) for row in part.rows()}
            assert rows == BEFORE[name]
        del tokens, some
        folders(fs, db)


def missing(store) -> None:
    with pytest.raises(UnknownTable):
        store.table("made")


def test_a_serializable_transaction_validates_names():
    serializable = TransactionOptions(Isolation.SERIALIZABLE)
    for looked_up in (lambda s: s.view("made"), missing, lambda s: s.tables()):
        with Database(background=False) as db:
            prepare(db)
            inside = db.begin(serializable)
            looked_up(inside)
            inside.write_row(inside.table("kept"), Op.UPSERT, {"k": 0, "v": "z"})
            db.create_table(definition("made"))
            with pytest.raises(SerializationFailure, match="table made was created"):
                inside.commit()
            inside = db.begin(serializable)
            inside.write_row(inside.table("kept"), Op.UPSERT, {"k": 0, "v": "z"})
            db.create_table(definition("unrelated"))
            db.alter_table("altered", [RenameTable("other")])
            inside.commit()


def test_a_serializable_transaction_validates_reads_of_altered_tables():
    serializable = TransactionOptions(Isolation.SERIALIZABLE)
    for changes_row in (True, False):
        with Database(background=False) as db:
            prepare(db)
            inside = db.begin(serializable)
            read(inside, inside.table("altered"), predicates=(Range("k", 5, 5),))
            altered = inside.alter_table("altered", [RenameColumn("k", "key"), AddColumn(ColumnSchema("n", INT))])
            read(inside, altered, ("key", "n"), predicates=(Range("key", 6, 6), Range("n", 1, 1)))
            assert inside.read_row(altered, [7], ["v", "n"]) == ("v7", None)
            inside.write_row(altered, Op.UPDATE, {"key": 1, "n": 4})
            made = inside.create_table(definition("made"))
            read(inside, made)
            key = random.choice([5, 6, 7]) if changes_row else 8
            db.write_row(db.table("altered"), Op.UPDATE, {"k": key, "v": "z"})
            if changes_row:
                with pytest.raises(SerializationFailure, match=f"k = {key}"):
                    inside.commit()
            else:
                inside.commit()
                assert db.read_row(db.table("altered"), [1], ["n"]) == (4,)


def test_commits_of_ddl_beside_writers_and_readers():
    """Nothing blocks for ever, and no snapshot sees half of a move of all rows into another table."""
    stop, wrong = threading.Event(), []
    with Database(background=False) as db:
        for name in ("a", "b"):
            insert(db, db.create_table(definition(name, HASHED)), range(10))

        def guarded(action) -> None:
            while not stop.is_set() and not wrong:
                try:
                    action()
                except (SerializationFailure, HistoryGone):
                    continue
                except BaseException as error:
                    wrong.append(repr(error))

        def swap() -> None:
            inside = db.begin()
            inside.drop_table("a")
            inside.alter_table("b", [RenameTable("a")])
            fresh = inside.create_table(definition("b", HASHED))
            inside.write(fresh, WriteBatch(batch(range(10)), Op.INSERT))
            inside.commit()

        def write() -> None:
            inside = db.begin()
            for name in ("a", "b"):
                inside.write(inside.table(name), WriteBatch(batch(range(10), "w"), Op.UPSERT))
            inside.commit()

        def look() -> None:
            inside = db.begin()
            if [len(rows) for rows in state(inside).values()] != [10, 10]:
                wrong.append(f"{state(inside)}")

        threads = [threading.Thread(target=guarded, args=[action]) for action in (write, write, look)]
        for thread in threads:
            thread.start()
        done = 0
        while done < 15 and not wrong:
            try:
                swap()
                done += 1
            except SerializationFailure:
                continue
        stop.set()
        for thread in threads:
            thread.join(60)
        assert not wrong and done == 15
        db.check()

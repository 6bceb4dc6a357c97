"""A COMMIT over several tables and tablets is all or nothing: on disks that fail, after crashes, beside DDL, readers
and writers; all of it has one timestamp."""

from __future__ import annotations

import random
import threading

import pyarrow as pa
import pytest
from crash_support import CrashImages, distinct_crashes
from examples import some
from nyala.errors import (
    CorruptionError,
    DiskError,
    DiskFull,
    NotNullViolation,
    OutcomeUnknown,
    SchemaChanged,
    SerializationFailure,
    UnknownTable,
)
from nyala.model.alterations import AddColumn, AddRangePartition, DropColumn, DropRangePartition
from nyala.model.predicates import Range
from nyala.model.schema import ColumnSchema, RangePartition, Table
from nyala.model.store import ChangeRange, Op, ScanSpec, TableWrite, Timestamp, TransactionChanges, WriteBatch
from nyala.model.transactions import TableRead
from nyala.model.types import INT
from nyala.storage.database import Database
from nyala.storage.files.memory_filesystem import CrashableFileSystem, FaultyFileSystem
from nyala.storage.inspect.check.check_store import check_store
from nyala.storage.maintenance.tablet_flush import flush
from row_path_support import both_paths
from tablet_support import HASHED, RANGED, batch, definition, insert, read

each_path = pytest.fixture(params=["rows", "batches"], autouse=True, scope="module")(both_paths)

TABLES = ("accounts", "log", "one")
BEFORE = {"accounts": {k: f"v{k}" for k in range(30)}, "log": {}, "one": {1: "v1", 2: "v2"}}
AFTER = {
    "accounts": {**{k: f"new{k}" for k in range(10)}, **{k: f"v{k}" for k in range(15, 30)}, 40: "v40"},
    "log": {k: f"v{k}" for k in range(20)},
    "one": {1: "x1", 2: "v2"},
}
STEPS = [("write", "*/wal/*"), ("sync", "*/wal/*"), ("write", "*/commits/*"), ("sync", "*/commits/*"),
         ("create", "*/commits*"), ("sync_directory", "*/commits"), ("sync_directory", "db")]  # fmt: skip


def made(db: Database) -> None:
    """The state before: single rows, so that the commit log is not begun."""
    accounts, _, one = (
        db.create_table(definition("accounts", HASHED)),
        db.create_table(definition("log", HASHED)),
        db.create_table(definition("one")),
    )
    for key in range(30):
        insert(db, accounts, [key])
    for key in (1, 2):
        insert(db, one, [key])


def changes(db: Database, snapshot: Timestamp | None = None) -> TransactionChanges:
    """From `BEFORE` to `AFTER`: all ops, several batches of a table, each with its own columns."""
    accounts, log, one = map(db.table, TABLES)
    writes = (
        TableWrite(one, WriteBatch(batch([1], "x"), Op.UPDATE, all_or_none=True)),
        TableWrite(accounts, WriteBatch(batch(range(10), "new"), Op.UPDATE, all_or_none=True)),
        TableWrite(log, WriteBatch(batch(range(20)), Op.INSERT, all_or_none=True)),
        TableWrite(accounts, WriteBatch(batch(range(10, 15)).select(["k"]), Op.DELETE, all_or_none=True)),
        TableWrite(accounts, WriteBatch(batch([40]), Op.UPSERT, all_or_none=True)),
        TableWrite(accounts, WriteBatch(batch([99]).select(["k"]), Op.DELETE_IGNORE, all_or_none=True)),
    )
    return TransactionChanges(db.now() if snapshot is None else snapshot, writes, (TableRead(accounts), TableRead(one)))


def state(db: Database, snapshot: Timestamp | None = None) -> dict[str, dict[int, str]]:
    return {name: dict(read(db, db.table(name), snapshot=snapshot)) for name in TABLES}


def reopened(fs: CrashableFileSystem) -> dict[str, dict[int, str]]:
    """State after a loss of power now; asserts that it is the same for each fate of unsynced bytes."""
    found = []
    for image in distinct_crashes(fs, random.Random(7)):
        assert not check_store(image, "db").errors
        with Database("db", fs=image, background=False) as db:
            db.check()
            found.append(state(db))
    assert all(each == found[0] for each in found)
    return found[0]


# ---- one timestamp ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", ["memory", "flushed", "compacted", "reopened"])
def test_all_changes_have_one_timestamp(way):
    fs = CrashableFileSystem()
    with Database("db", fs=fs, background=False) as db:
        made(db)
        if way != "memory":
            db.flush()
        before = db.now()
        timestamp = db.commit_transaction(changes(db))
    with Database("db", fs=fs.crash(0.0, random.Random(1)) if way == "reopened" else fs, background=False) as db:
        if way == "flushed":
            db.flush()
        if way == "compacted":
            for name in TABLES:
                db.compact_table(db.table(name))
        assert state(db, timestamp) == state(db) == AFTER
        assert state(db, Timestamp(timestamp - 1)) == state(db, before) == BEFORE
        kinds = {}
        for name in TABLES:
            table = db.table(name)
            found = []
            for token in db.scan_tokens(table, ScanSpec(("_change", "_changed_at"), changes=ChangeRange(before, True))):
                for part in db.scan(token):
                    found += zip(*(column.to_arrow().to_pylist() for column in part.columns()))
            assert len({at for _, at in found}) == 1
            kinds[name] = sorted(kind for kind, _ in found)
        assert kinds == {
            "accounts": ["delete"] * 5 + ["insert"] + ["update"] * 10,
            "log": ["insert"] * 20,
            "one": ["update"],
        }
        db.check()


def test_one_tablet_needs_one_log_entry_and_no_commit_record():
    syncs: list[str] = []
    fs = CrashableFileSystem(lambda what: syncs.append(what) if what.startswith("sync db") else None)
    with Database("db", fs=fs, background=False) as db:
        made(db)
        one, accounts = db.table("one"), db.table("accounts")
        syncs.clear()
        write = TableWrite(one, WriteBatch(batch([1, 5], "x"), Op.UPSERT, all_or_none=True))
        db.commit_transaction(TransactionChanges(db.now(), (write,), (TableRead(accounts),)))
        assert len(syncs) == 1 and not fs.exists("db/commits")
        void = TableWrite(accounts, WriteBatch(batch([77]).select(["k"]), Op.DELETE_IGNORE, all_or_none=True))
        db.commit_transaction(TransactionChanges(db.now(), (write, void)))
        assert len(syncs) == 2 and not fs.exists("db/commits")
        db.commit_transaction(TransactionChanges(db.now(), (void,)))
        assert len(syncs) == 2
        insert(db, db.table("log"), range(500, 509))  # begins the commit log, and those of the table
        syncs.clear()
        db.commit_transaction(changes(db))
        assert len(syncs) == 7 + 1


# ---- disks that fail, crashes ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("operation", "pattern"), STEPS)
@pytest.mark.parametrize("nth", [1, 2, 3, 7])
def test_a_commit_that_fails_at_one_log_has_changed_nothing(operation, pattern, nth):
    # What the disk says decides the class of the error alone: each step has it both ways, but not at each call.
    message = "No space left on device" if nth in (2, 7) else "Input/output error"
    disk = CrashableFileSystem()
    fs = FaultyFileSystem(disk)
    with Database("db", fs=fs, background=False) as db:
        made(db)
        fs.fail(operation, pattern, nth=nth, times=1, message=message)
        try:
            db.commit_transaction(changes(db))
        except DiskError as error:
            assert error.retryable and "nothing was written to any of the 7 tablets" in str(error)
            assert isinstance(error, DiskFull) is (message == "No space left on device")
            assert state(db) == BEFORE and reopened(disk) == BEFORE
            db.commit_transaction(changes(db))
        assert state(db) == AFTER and reopened(disk) == AFTER
        db.flush()
        db.check()
        assert reopened(disk) == AFTER


def test_a_crash_at_any_sync_leaves_all_or_nothing():
    """Of the COMMIT, and of what the background does with it afterwards."""
    fs = CrashableFileSystem()
    with Database("db", fs=fs, background=False) as db:
        made(db)
        flush(db.open_table(db.table("accounts")).tablets[0])
        crashes = CrashImages(fs)
        fs.on_sync = crashes.note
        db.commit_transaction(changes(db))
        acknowledged = crashes.acknowledge()
        db.flush()
        for name in TABLES:
            db.compact_table(db.table(name))
        db.maintain()
        fs.on_sync = None
    outcomes = {}
    for number, (what, image) in some(list(enumerate(crashes.images))):
        assert not check_store(image, "db").errors, what
        with Database("db", fs=image, background=False) as db:
            found = state(db)
            assert found in (BEFORE, AFTER), what
            outcomes[number] = found == AFTER
            db.check()
            if found == BEFORE:
                db.commit_transaction(changes(db))
                assert state(db) == AFTER
    assert all(happened for number, happened in outcomes.items() if number >= acknowledged)
    assert not all(outcomes.values())


def test_a_commit_in_doubt_blocks_all_of_its_tables_until_it_is_settled():
    disk = CrashableFileSystem()
    fs = FaultyFileSystem(disk)
    with Database("db", fs=fs, background=False) as db:
        made(db)
        other = db.create_table(definition("other", HASHED))
        insert(db, other, range(9))  # begins the commit log
        fs.fail("sync", "*/commits/*", message="Input/output error")
        fs.fail("truncate", "*/commits/*", message="Input/output error")
        with pytest.raises(OutcomeUnknown) as raised:
            db.commit_transaction(changes(db))
        assert raised.value.sqlstate == "40003" and not raised.value.retryable
        assert state(db) == BEFORE
        outcomes = []
        for keep in (0.0, 1.0):
            with Database("db", fs=disk.crash(keep, random.Random(1))) as again:
                outcomes.append(state(again))
        assert outcomes == [BEFORE, AFTER]
        for name in TABLES:
            with pytest.raises(DiskError):
                insert(db, db.table(name), [1000])
            with pytest.raises(DiskError):
                db.write_row(db.table(name), Op.INSERT, {"k": 1000, "v": "x"})
        insert(db, other, [10])
        fs.heal()
        for name in TABLES:
            db.write_row(db.table(name), Op.INSERT, {"k": 1000, "v": "x"})
        assert state(db) == {name: {**BEFORE[name], 1000: "x"} for name in TABLES}
    assert reopened(disk) == {name: {**BEFORE[name], 1000: "x"} for name in TABLES}


class StoppedLog(FaultyFileSystem):
    """Blocks one sync of a log until it is released; then it fails."""

    def __init__(self, inner: CrashableFileSystem) -> None:
        super().__init__(inner)
        self.pattern = ""
        self.reached = threading.Event()
        self.go = threading.Event()

    def check(self, operation: str, path: str) -> None:
        if operation == "sync" and self.pattern and self.pattern in path:
            self.pattern = ""
            self.reached.set()
            assert self.go.wait(20)
            super().fail("sync", path, times=1, message="Input/output error")
        super().check(operation, path)


def test_a_change_that_is_none_only_because_of_a_write_that_fails_takes_the_others_with_it():
    """A row is deleted, which is not durable yet: the transaction need not delete it. Then the deletion fails."""
    disk = CrashableFileSystem()
    fs = StoppedLog(disk)
    with Database("db", fs=fs, background=False) as db:
        made(db)
        one, accounts = db.table("one"), db.table("accounts")
        failures: list[BaseException] = []

        def caught(action) -> None:
            try:
                action()
            except DiskError as error:
                failures.append(error)

        fs.pattern = f"/{one.id}/"
        first = threading.Thread(target=caught, args=[lambda: db.write_row(one, Op.DELETE, {"k": 1})])
        first.start()
        assert fs.reached.wait(20)
        both = (
            TableWrite(one, WriteBatch(batch([1]).select(["k"]), Op.DELETE_IGNORE, all_or_none=True)),
            TableWrite(accounts, WriteBatch(batch([1], "x"), Op.UPDATE, all_or_none=True)),
        )
        snapshot = db.now()
        second = threading.Thread(
            target=caught, args=[lambda: db.commit_transaction(TransactionChanges(snapshot, both))]
        )
        second.start()
        second.join(0.2)
        assert second.is_alive()
        fs.go.set()
        first.join(20)
        second.join(20)
        assert len(failures) == 2
        assert state(db) == BEFORE
        db.check()
    assert reopened(disk) == BEFORE


def test_a_damaged_commit_log_refuses_what_needs_it_alone():
    fs = CrashableFileSystem()
    with Database("db", fs=fs, background=False) as db:
        made(db)
        db.commit_transaction(changes(db))
        db.flush()
    (name,) = (name for name in fs.list("db/commits") if name.endswith(".log"))
    path = f"db/commits/{name}"
    data = fs.open(path).read_at(0, 1 << 20)
    fs.create(path).write(data[:100] + bytes([data[100] ^ 1]) + data[101:])
    with Database("db", fs=fs, background=False) as db:
        with pytest.raises(CorruptionError, match="writes over several tablets are refused"):
            rows = WriteBatch(batch(range(50, 70)), Op.INSERT, all_or_none=True)
            db.commit_transaction(TransactionChanges(db.now(), (TableWrite(db.table("log"), rows),)))
        write = TableWrite(db.table("one"), WriteBatch(batch([9]), Op.UPSERT, all_or_none=True))
        void = TableWrite(db.table("log"), WriteBatch(batch([777]).select(["k"]), Op.DELETE_IGNORE, all_or_none=True))
        db.commit_transaction(TransactionChanges(db.now(), (write, void), (TableRead(db.table("one")),)))
        assert 9 in state(db)["one"]


# ---- errors and DDL --------------------------------------------------------------------------------------------------


def test_a_row_that_is_refused_refuses_everything():
    with Database(background=False) as db:
        made(db)
        null = pa.record_batch({"k": pa.array([None], pa.int64()), "v": ["x"]})
        bad = TableWrite(db.table("one"), WriteBatch(null, Op.UPSERT, all_or_none=True))
        good = changes(db)
        with pytest.raises(NotNullViolation):
            db.commit_transaction(TransactionChanges(good.snapshot, (*good.writes, bad)))
        assert state(db) == BEFORE


def test_tables_that_are_altered_or_dropped_meanwhile():
    with Database(background=False) as db:
        made(db)
        old = changes(db)
        db.alter_table("log", [AddColumn(ColumnSchema("n", INT, default=3))])
        db.commit_transaction(old)
        assert state(db) == AFTER
        assert {row[0] for row in read(db, db.table("log"), ("n",))} == {3}
        old = TransactionChanges(db.now(), changes(db).writes[2:3])
        db.alter_table("log", [DropColumn("v")])
        with pytest.raises(SchemaChanged, match="column v of table log is gone"):
            db.commit_transaction(old)
        old = TransactionChanges(db.now(), changes(db, old.snapshot).writes[:1], (TableRead(db.table("log")),))
        db.drop_table("log")
        with pytest.raises(UnknownTable):
            db.commit_transaction(old)
        assert dict(read(db, db.table("one"))) == AFTER["one"]


def test_a_dropped_range_partition_is_a_change_of_all_its_rows():
    with Database(background=False) as db:
        table, one = db.create_table(definition("t", RANGED)), db.create_table(definition("one"))
        insert(db, table, [1, 150])
        write = (TableWrite(one, WriteBatch(batch([1]), Op.UPSERT, all_or_none=True)),)
        old = TransactionChanges(db.now(), write, (TableRead(table, (Range("k", 120, 180),)),))
        new = RangePartition((200,), (300,))
        db.alter_table("t", [AddRangePartition(new)])
        db.commit_transaction(old)
        old = TransactionChanges(db.now(), write, (TableRead(table, (Range("k", 220, 280),)),))
        insert(db, db.table("t"), [250])
        with pytest.raises(SerializationFailure, match=r"key \(k = 250\) of table t"):
            db.commit_transaction(old)
        old = TransactionChanges(db.now(), write, (TableRead(table),))
        db.alter_table("t", [DropRangePartition(RangePartition((100,), (200,)))])
        db.alter_table("t", [AddRangePartition(RangePartition((100,), (200,)))])
        with pytest.raises(SerializationFailure, match="a range partition of table t was dropped"):
            db.commit_transaction(old)
        db.commit_transaction(TransactionChanges(db.now(), write, (TableRead(db.table("t")),)))


def test_commits_beside_alterations():
    """Each finds the tables in one version; nothing blocks."""
    stop, wrong = threading.Event(), []
    with Database(background=False) as db:
        made(db)

        def alter() -> None:
            while not stop.is_set():
                for name in TABLES:
                    db.alter_table(name, [AddColumn(ColumnSchema("n", INT))])
                    db.alter_table(name, [DropColumn("n")])

        def write(text: str) -> None:
            try:
                for number in range(60):
                    rows = WriteBatch(batch(range(10), f"{text}{number}-"), Op.UPSERT, all_or_none=True)
                    parts = [TableWrite(db.table(name), rows) for name in random.sample(TABLES, 3)]
                    try:
                        db.commit_transaction(TransactionChanges(db.now(), tuple(parts)))
                    except SerializationFailure:
                        continue
            except BaseException as error:
                wrong.append(repr(error))

        threads = [threading.Thread(target=write, args=[text]) for text in "ab"]
        altering = threading.Thread(target=alter)
        for thread in (*threads, altering):
            thread.start()
        for thread in threads:
            thread.join(60)
        stop.set()
        altering.join(60)
        assert not wrong
        values = {name: {k: v for k, v in rows.items() if k < 10} for name, rows in state(db).items()}
        assert values["accounts"] == values["log"] == values["one"]
        assert len({value.split("-")[0] for value in values["one"].values()}) == 1


# ---- histories of many threads ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_serializable", [False, True])
def test_concurrent_transactions_and_direct_writes_are_isolated(is_serializable):
    """Transfers between accounts of two tables, a direct write between, maintenance beside: the sum never changes, in
    any snapshot. A transaction that reads the sum of a pair and takes from one of both keeps the pair above zero only
    where reads are validated."""
    accounts = 12
    stop, wrong, done = threading.Event(), [], []
    options = {"memrowset_bytes": 20_000, "deltamemstore_bytes": 4000, "segment_bytes": 20_000}
    fs = CrashableFileSystem()
    with Database("db", fs=fs, **options) as db:
        tables = [db.create_table(definition(name, HASHED)) for name in ("left", "right")]
        for table in tables:
            db.write(table, _balances(dict.fromkeys(range(accounts), 100)))

        def balance(table: Table, key: int, snapshot: Timestamp) -> int:
            row = db.read_row(table, [key], ["v"], snapshot)
            assert row is not None
            return int(row[0])

        def transfer(rng: random.Random) -> None:
            snapshot = db.now()
            key, amount = rng.randrange(accounts), rng.randrange(1, 60)
            pair = [balance(table, key, snapshot) for table in tables]
            if is_serializable and sum(pair) < amount:
                return
            source = rng.randrange(2)
            other = rng.choice([k for k in range(accounts) if k != key])
            target = balance(tables[1], other, snapshot)
            writes = {0: {}, 1: {other: target + amount}}
            writes[source][key] = pair[source] - amount
            reads = tuple(TableRead(t, (Range("k", key, key),)) for t in tables) if is_serializable else ()
            db.commit_transaction(
                TransactionChanges(
                    snapshot, tuple(TableWrite(tables[t], _balances(w)) for t, w in writes.items() if w), reads
                )
            )
            done.append(1)

        def add_directly(rng: random.Random) -> None:
            # A statement's write: it moves between two keys of one table, unless they were changed since.
            snapshot, (one, two) = db.now(), rng.sample(range(accounts), 2)
            found = {key: balance(tables[0], key, snapshot) for key in (one, two)}
            moved = _balances({one: found[one] + 5, two: found[two] - 5})
            db.write(tables[0], WriteBatch(moved.rows, Op.UPDATE, all_or_none=True, unchanged_since=snapshot))

        def look(rng: random.Random) -> None:
            snapshot = db.now()
            total = sum(int(value) for table in tables for _, value in read(db, table, snapshot=snapshot))
            if total != 200 * accounts:
                wrong.append(f"sum {total} at {snapshot}")

        def repeat(action, seed: int) -> None:
            rng = random.Random(seed)
            while not stop.is_set() and not wrong:
                try:
                    action(rng)
                except SerializationFailure:
                    continue
                except BaseException as error:
                    wrong.append(repr(error))
                    raise

        actions = [transfer, transfer, transfer, look] + ([] if is_serializable else [add_directly])
        threads = [threading.Thread(target=repeat, args=[action, seed]) for seed, action in enumerate(actions)]
        for thread in threads:
            thread.start()
        waited = 0
        while len(done) < 150 and not wrong and waited < 600:
            threading.Event().wait(0.1)
            waited += 1
            if is_serializable:
                snapshot = db.now()
                for key in range(accounts):
                    if sum(balance(table, key, snapshot) for table in tables) < 0:
                        wrong.append(f"pair {key} is below zero")
        stop.set()
        for thread in threads:
            thread.join(30)
        assert not wrong and len(done) >= 150
        db.check()
    with Database("db", fs=fs.crash(0.0, random.Random(3)), background=False) as db:
        tables = [db.table(name) for name in ("left", "right")]
        assert sum(int(value) for table in tables for _, value in read(db, table)) == 200 * accounts


def _balances(values: dict[int, int]) -> WriteBatch:
    rows = pa.record_batch({"k": pa.array(list(values), pa.int64()), "v": [str(value) for value in values.values()]})
    return WriteBatch(rows, Op.UPSERT, all_or_none=True)

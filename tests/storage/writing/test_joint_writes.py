"""Writes over several tablets are all or nothing: beside readers and writers, on disks that fail, after crashes."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa
import pytest
from crash_support import distinct_crashes
from examples import few
from nyala.errors import DiskError, OutcomeUnknown
from nyala.model.schema import Table
from nyala.model.store import Op, ScanSpec, WriteBatch
from nyala.storage.database import Database
from nyala.storage.files.memory_filesystem import CrashableFileSystem, FaultyFileSystem
from nyala.storage.inspect.check.check_store import check_store
from nyala.storage.log import commit_log
from nyala.storage.maintenance.tablet_flush import flush, flush_deltas
from nyala.storage.tables import housekeeping
from nyala.storage.tables.housekeeping import flush_commit_holders
from tablet_support import HASHED, batch, definition, insert, keys_of, read, read_tokens, rowset_loader

KEYS = range(30)
STEPS = [("write", "*/wal/*"), ("sync", "*/wal/*"), ("write", "*/commits/*"), ("sync", "*/commits/*"),
         ("create", "*/commits*"), ("sync_directory", "*/commits"), ("sync_directory", "db")]  # fmt: skip
OPS = [Op.INSERT, Op.UPSERT, Op.UPDATE, Op.DELETE]


def state(db: Database) -> dict[int, str]:
    return dict(read(db, db.table("t")))


def reopened(fs: CrashableFileSystem) -> dict[int, str]:
    """State after a loss of power now; asserts that it is the same for each fate of unsynced bytes."""
    found = []
    for image in distinct_crashes(fs, random.Random(7)):
        assert not check_store(image, "db").errors
        with Database("db", fs=image) as db:
            db.check()
            found.append(state(db))
    assert all(each == found[0] for each in found)
    return found[0]


def changed(op: Op, keys: range, text: str) -> WriteBatch:
    rows = batch(keys, text)
    return WriteBatch(rows.select(["k"]) if op is Op.DELETE else rows, op, all_or_none=True)


# ---- disks that fail -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("op", few(OPS, 2), ids=lambda op: op.name)
@pytest.mark.parametrize(("operation", "pattern"), few(STEPS))
@pytest.mark.parametrize("nth", few([1, 2, 3], 2))
def test_a_write_that_fails_at_one_log_has_changed_nothing(operation, pattern, nth, op):
    disk = CrashableFileSystem()
    fs = FaultyFileSystem(disk)
    keys = KEYS if op is not Op.INSERT else range(100, 130)
    with Database("db", fs=fs, background=False) as db:
        table = db.create_table(definition(partitions=HASHED))
        for key in KEYS:  # single rows: the commit log is not begun
            insert(db, table, [key])
        before = state(db)
        fs.fail(operation, pattern, nth=nth, times=1, message="Input/output error")
        try:
            db.write(table, changed(op, keys, "new"))
        except DiskError as error:
            assert error.retryable and "nothing was written to any of the 3 tablets" in str(error)
            assert state(db) == before
            assert reopened(disk) == before
            db.write(table, changed(op, keys, "new"))  # what `retryable` says
        after = {**before, **{k: f"new{k}" for k in keys}} if op is not Op.DELETE else {}
        assert state(db) == after
        assert reopened(disk) == after
        db.flush()
        db.check()
        assert reopened(disk) == after
    assert reopened(disk) == after


def test_only_a_commit_that_cannot_be_taken_back_is_in_doubt():
    disk = CrashableFileSystem()
    fs = FaultyFileSystem(disk)
    with Database("db", fs=fs, background=False) as db:
        table = db.create_table(definition(partitions=HASHED))
        insert(db, table, KEYS)
        before = state(db)
        fs.fail("sync", "*/commits/*", message="Input/output error")
        fs.fail("truncate", "*/commits/*", message="Input/output error")
        with pytest.raises(OutcomeUnknown, match="check whether the rows exist") as raised:
            insert(db, table, range(100, 130))
        assert not raised.value.retryable and raised.value.sqlstate == "40003"
        assert state(db) == before
        # A crash finds all of it or nothing. Nothing may be built on either before the disk works again: no write
        # of the table, no metadata of a tablet.
        outcomes = []
        for keep in (0.0, 1.0):
            with Database("db", fs=disk.crash(keep, random.Random(1))) as again:
                outcomes.append(state(again))
                again.check()
        assert outcomes == [before, {**before, **{k: f"v{k}" for k in range(100, 130)}}]
        for refused in (
            lambda: insert(db, table, [100]),
            lambda: db.write_row(table, Op.INSERT, {"k": 101, "v": "other"}),
            lambda: insert(db, table, range(200, 230)),
            db.flush,
        ):
            with pytest.raises(DiskError):
                refused()
        fs.heal()
        db.write_row(table, Op.INSERT, {"k": 101, "v": "other"})
        db.flush()
        assert state(db) == {**before, 101: "other"}
        db.check()
    assert reopened(disk) == {**before, 101: "other"}


def test_a_log_that_cannot_be_cut_leaves_one_tablets_write_in_doubt():
    disk = CrashableFileSystem()
    fs = FaultyFileSystem(disk)
    with Database("db", fs=fs, background=False) as db:
        table = db.create_table(definition())
        insert(db, table, [1])
        fs.fail("sync", "*/wal/*")
        fs.fail("truncate", "*/wal/*")
        with pytest.raises(OutcomeUnknown):
            insert(db, table, [2, 3])
        assert keys_of(db, table) == [1]
        for keep, expected in ((0.0, [1]), (1.0, [1, 2, 3])):
            with Database("db", fs=disk.crash(keep, random.Random(1))) as again:
                assert keys_of(again, again.table("t")) == expected
        fs.heal()


# ---- writers and readers beside it -----------------------------------------------------------------------------------


class SlowCommits(CrashableFileSystem):
    """Blocks the sync of the commit log until it is released."""

    def __init__(self) -> None:
        super().__init__(self._wait)
        self.is_slow = False
        self.reached = threading.Event()
        self.go = threading.Event()

    def _wait(self, what: str) -> None:
        if self.is_slow and "commits" in what:
            self.is_slow = False
            self.reached.set()
            assert self.go.wait(20)


@contextmanager
def undecided(fs: SlowCommits, db: Database, rows: WriteBatch) -> Iterator[threading.Thread]:
    """Inside, a write over several tablets is durable in all of their logs and not decided."""
    fs.is_slow = True
    writer = threading.Thread(target=lambda: db.write(db.table("t"), rows))
    writer.start()
    assert fs.reached.wait(20)
    try:
        yield writer
    finally:
        fs.go.set()
        writer.join(20)


def test_other_keys_are_written_and_the_past_is_read_while_a_write_is_undecided():
    fs = SlowCommits()
    with Database("db", fs=fs, background=False) as db:
        table = db.create_table(definition(partitions=HASHED))
        insert(db, table, KEYS)
        old = db.now()
        with undecided(fs, db, changed(Op.UPSERT, KEYS, "new")):
            insert(db, table, [1000])
            db.write_row(table, Op.INSERT, {"k": 1001, "v": "x"})
            # (A reader of the newest state waits for what is older than the newest that was acknowledged.)
            assert db.read_row(table, [5], ["v"], old) == ("v5",)
            assert dict(read(db, table, snapshot=old)) == {k: f"v{k}" for k in KEYS}
            with Database("db", fs=fs.crash(1.0, random.Random(1))) as again:
                # Its commit is durable, though it is not acknowledged yet.
                assert state(again) == {**{k: f"new{k}" for k in KEYS}, 1000: "v1000", 1001: "x"}
        assert state(db) == {**{k: f"new{k}" for k in KEYS}, 1000: "v1000", 1001: "x"}


@pytest.mark.parametrize("way", ["row", "batch", "load", "flush", "compact"])
def test_what_touches_an_undecided_key_or_moves_it_waits(way):
    fs = SlowCommits()
    with Database("db", fs=fs, background=False) as db:
        table = db.create_table(definition(partitions=HASHED))
        insert(db, table, KEYS)
        db.flush()
        actions = {
            "row": lambda: db.write_row(table, Op.UPDATE, {"k": 5, "v": "mine"}),
            "batch": lambda: insert(db, table, [5, 6, 7, 8], "mine", Op.UPSERT),
            "load": lambda: _load(db, table),
            "flush": lambda: [flush_deltas(t, s) for t in db.open_table(table).tablets for s in t.state.rowsets],
            "compact": lambda: db.compact_table(table),
        }
        done: list[float] = []

        def act() -> None:
            actions[way]()
            done.append(time.monotonic())

        with undecided(fs, db, changed(Op.UPSERT, KEYS, "new")):
            other = threading.Thread(target=act)
            other.start()
            time.sleep(0.2)
            assert not done
        other.join(20)
        assert done
        expected = {k: f"new{k}" for k in KEYS}
        changes = {"row": {5: "mine"}, "batch": {k: f"mine{k}" for k in (5, 6, 7, 8)}, "load": {2000: "v2000"}}
        assert state(db) == {**expected, **changes.get(way, {})}
        db.check()
    assert reopened(fs) == {**expected, **changes.get(way, {})}


def _load(db: Database, table: Table) -> None:
    with rowset_loader(db, table) as loader:
        loader.append(batch([2000]))
        loader.finish()


@pytest.mark.parametrize("failing", [False, True])
def test_readers_and_look_ups_never_see_half_of_a_write(failing):
    """Every statement gives all rows one value: a reader that finds two values has seen half of one."""
    disk = CrashableFileSystem()
    fs = FaultyFileSystem(disk)
    stop, wrong, failed = threading.Event(), [], []
    with Database("db", fs=fs, memrowset_bytes=20_000, deltamemstore_bytes=2000, segment_bytes=5000) as db:
        table = db.create_table(definition(partitions=HASHED))
        insert(db, table, KEYS)
        db.write(table, _same("0"))

        def run(action) -> None:
            while not stop.is_set():
                try:
                    action()
                except DiskError:
                    failed.append(1)
                except BaseException as error:
                    wrong.append(repr(error))
                    raise

        def upsert() -> None:
            db.write(table, _same(str(random.random())))

        def scan() -> None:
            values = {value for _, value in read_tokens(db, db.scan_tokens(table, ScanSpec(("k", "v"))))}
            if len(values) > 1:
                wrong.append(f"scan: {values}")

        seen: dict[str, int] = {}
        order: list[str] = []

        def look_up() -> None:
            # One thread: what it has seen in one tablet it sees in the others from then on.
            for key in random.sample(range(30), 8):
                found = db.read_row(table, [key], ["v"])
                assert found is not None
                if found[0] not in seen:
                    seen[found[0]] = len(order)
                    order.append(found[0])
                elif seen[found[0]] < len(order) - 1:
                    wrong.append(f"look-up of {key}: back to an older value")

        def keep() -> None:
            for tablet in db.open_table(table).tablets:
                flush(tablet)
            db.maintain()
            time.sleep(0.01)

        def disturb() -> None:
            time.sleep(0.03)
            if failing:
                fs.fail("sync", random.choice(["*/wal/*", "*/commits/*"]), times=random.choice([1, 2]))
                time.sleep(0.02)
                fs.heal()

        threads = [
            threading.Thread(target=run, args=[action]) for action in (upsert, upsert, scan, look_up, keep, disturb)
        ]
        for thread in threads:
            thread.start()
        ends = time.monotonic() + 60
        while time.monotonic() < ends and not wrong and (len(order) <= 20 or (failing and not failed)):
            time.sleep(0.1)
        stop.set()
        for thread in threads:
            thread.join(20)
        assert not wrong
        assert len(order) > 20 and (failed or not failing)
        assert len(set(state(db).values())) == 1
        db.check()
    with Database("db", fs=disk) as db:
        assert len(set(state(db).values())) == 1
        changes = read_tokens(db, db.scan_tokens(db.table("t"), ScanSpec(("v",), changes=None)))
        assert len(changes) == 30
        db.check()


def _same(value: str) -> WriteBatch:
    return WriteBatch(pa.record_batch({"k": pa.array(KEYS, pa.int64()), "v": [value] * len(KEYS)}), Op.UPSERT, True)


# ---- the commit log ----------------------------------------------------------------------------------------------


def commit_files(fs: CrashableFileSystem) -> list[str]:
    """The names of its segments."""
    names = fs.list("db/commits") if fs.exists("db/commits") else []
    return [name for name in names if name.endswith(".log")]


def test_one_tablet_alone_needs_no_commit():
    fs = CrashableFileSystem()
    with Database("db", fs=fs, background=False) as db:
        table = db.create_table(definition())
        insert(db, table, KEYS)
        hashed = db.create_table(definition("h", HASHED))
        for key in KEYS:
            insert(db, hashed, [key])
            db.write_row(hashed, Op.UPSERT, {"k": key, "v": "x"})
        assert not fs.exists("db/commits")


def test_commits_are_forgotten_when_no_tablet_will_replay_their_parts(monkeypatch):
    monkeypatch.setattr(commit_log, "SEGMENT_BYTES", 600)
    monkeypatch.setattr(commit_log, "CHUNK_RECORDS", 2)
    fs = CrashableFileSystem()
    with Database("db", fs=fs, background=False) as db:
        table = db.create_table(definition(partitions=HASHED))
        for start in range(0, 300, 10):
            insert(db, table, range(start, start + 10))
        many = commit_files(fs)
        first, *others = db.open_table(table).tablets
        for tablet in others:
            flush(tablet)
        db.maintain()
        assert commit_files(fs) == many, "one tablet still needs all of them"
        assert reopened(fs) == {k: f"v{k}" for k in range(300)}
        flush(first)
        db.maintain()
        assert len(commit_files(fs)) <= 1 < len(many)
        assert reopened(fs) == {k: f"v{k}" for k in range(300)}
        other = db.create_table(definition("other", HASHED))
        for start in range(0, 300, 10):
            insert(db, other, range(start, start + 10))
        db.drop_table("other")
        db.maintain()
        assert len(commit_files(fs)) <= 1, "of a table that was dropped nobody needs them"
        insert(db, table, range(300, 310))
    assert reopened(fs) == {k: f"v{k}" for k in range(310)}


def test_a_commit_log_that_has_grown_large_has_the_tablets_flushed_that_hold_it(monkeypatch):
    monkeypatch.setattr(commit_log, "SEGMENT_BYTES", 600)
    monkeypatch.setattr(commit_log, "CHUNK_RECORDS", 2)
    monkeypatch.setattr(housekeeping, "COMMIT_LOG_BYTES", 2000)
    fs = CrashableFileSystem()
    with Database("db", fs=fs, background=False) as db:
        table = db.create_table(definition(partitions=HASHED))
        insert(db, table, KEYS)
        db.flush()
        for round_ in range(30):
            insert(db, table, KEYS, f"{round_}-", Op.UPSERT)
        assert len(commit_files(fs)) > 3
        flush_commit_holders(db.open_table(table).tablets, db._commits)
        db.maintain()
        assert len(commit_files(fs)) <= 1
    assert reopened(fs) == {k: f"29-{k}" for k in KEYS}


def test_a_part_without_a_commit_stays_out_of_every_later_opening():
    """Also where its tablet is flushed and its log goes on."""
    disk = CrashableFileSystem()
    fs = FaultyFileSystem(disk)
    with Database("db", fs=fs, background=False) as db:
        table = db.create_table(definition(partitions=HASHED))
        insert(db, table, KEYS)
        fs.fail("sync", "*/commits/*", times=1)
        with pytest.raises(DiskError):
            db.write(table, changed(Op.UPDATE, KEYS, "lost"))
        for key in KEYS:
            db.write_row(table, Op.UPDATE, {"k": key, "v": "single"})
    for round_ in range(3):
        with Database("db", fs=disk, background=False) as db:
            assert set(state(db).values()) == {"single" if not round_ else f"{round_}{k}" for k in KEYS} or round_ == 0
            insert(db, db.table("t"), KEYS, f"{round_ + 1}", Op.UPSERT)
            if round_ == 1:
                db.flush()


def test_a_damaged_commit_log_is_found_by_the_check():
    fs = CrashableFileSystem()
    with Database("db", fs=fs, background=False) as db:
        table = db.create_table(definition(partitions=HASHED))
        for start in range(0, 50, 10):
            insert(db, table, range(start, start + 10))
    (name,) = commit_files(fs)
    path = f"db/commits/{name}"
    data = fs.open(path).read_at(0, 1 << 20)
    file = fs.create(path)
    file.write(data[:200] + bytes([data[200] ^ 1]) + data[201:])
    file.close()
    errors = check_store(fs, "db").errors
    assert errors and all("commits" in finding.path for finding in errors)


def test_a_write_over_several_tablets_costs_one_sync_more():
    syncs: list[str] = []
    fs = CrashableFileSystem(lambda what: syncs.append(what) if what.startswith("sync db") else None)
    with Database("db", fs=fs, background=False) as db:
        hashed, one = db.create_table(definition(partitions=HASHED)), db.create_table(definition("one"))
        for table in (hashed, one):
            insert(db, table, KEYS)
            syncs.clear()
            insert(db, table, range(100, 130))
            assert len(syncs) == (4 if table is hashed else 1)
            syncs.clear()
            db.write_row(table, Op.INSERT, {"k": 1000, "v": "x"})
            insert(db, table, [1001])
            assert len(syncs) == 2

"""Flushes of MemRowSets and DeltaMemStores with updates and deletes: neither present nor past rows are lost,
with concurrent writers, failures and crashes at any point."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

import numpy as np
import pytest
from examples import some
from nyala.errors import DiskError
from nyala.model.store import Op, Timestamp, WriteBatch
from nyala.storage.database import Database
from nyala.storage.files.memory_filesystem import CrashableFileSystem, FaultyFileSystem
from nyala.storage.maintenance import tablet_flush
from nyala.storage.maintenance.tablet_flush import flush, flush_deltas
from nyala.storage.rowsets import rowset_writer
from nyala.storage.tablet.tablet import Tablet
from nyala.storage.writing.incoming_rows import incoming
from nyala.storage.writing.tablet_write import TabletWrite
from tablet_support import batch, definition, insert, read


@dataclass
class Versions:
    """All versions of all rows: per acknowledged write its time and what it made of keys (None: deleted)."""

    writes: list[tuple[int, dict[int, str | None]]] = field(default_factory=list)

    def state(self, time: int | None = None) -> dict[int, str]:
        rows: dict[int, str | None] = {}
        for stamp, changes in sorted(self.writes, key=lambda w: w[0]):
            if time is None or stamp <= time:
                rows.update(changes)
        return {key: text for key, text in rows.items() if text is not None}

    def verify(self, db: Database, every: int = 1) -> None:
        """Asserts that the store shows this state now, and as of every `every`-th write the state of that time."""
        table = db.table("t")
        assert dict(read(db, table)) == self.state()
        for stamp, _ in self.writes[::every]:
            assert dict(read(db, table, snapshot=Timestamp(stamp))) == self.state(stamp), f"as of {stamp}"

    def add(self, part: TabletWrite, op: Op, keys: Iterable[int], text: str = "") -> None:
        """Keep what a write of one tablet did."""
        assert part._logged is not None
        self.writes.append((part._logged.timestamp, changes(op, keys, text)))

    def write(self, db: Database, op: Op, keys: Iterable[int], text: str) -> None:
        """Write, and keep what it did; no row must be refused."""
        keys = list(keys)
        result = db.write(db.table("t"), WriteBatch(batch(keys, text), op))
        assert result.errors == ()
        self.writes.append((result.timestamp, changes(op, keys, text)))


def changes(op: Op, keys: Iterable[int], text: str) -> dict[int, str | None]:
    return {key: None if op is Op.DELETE else f"{text}{key}" for key in keys}


@pytest.fixture
def fs():
    return FaultyFileSystem(CrashableFileSystem())


@pytest.fixture
def db(fs):
    with Database("db", fs=fs, background=False) as database:
        database.create_table(definition())
        yield database
        if not database._closed:
            database.check()


@pytest.fixture
def tablet(db) -> Tablet:
    return tablet_of(db)


def tablet_of(db: Database) -> Tablet:
    return db._stores[db.table("t").id].tablets[0]


def flush_all_deltas(tablet: Tablet) -> int:
    return sum(flush_deltas(tablet, stored) for stored in tablet.state.rowsets)


def begin(tablet: Tablet, op: Op, keys: Iterable[int], text: str = "v") -> TabletWrite:
    """A write that is in the log and in memory; `finish` is still to come."""
    rows = incoming(tablet.table, WriteBatch(batch(keys, text), op))
    part = TabletWrite(tablet, tablet.table, rows, np.arange(len(rows)))
    part.probe()
    with tablet.write_lock:
        part.check()
        part.encode()
        part.apply(tablet.mvcc.start())
    return part


def reopened(fs: FaultyFileSystem, seen: Versions) -> None:
    """Asserts that a crash at this moment leaves exactly the acknowledged writes."""
    with Database("db", fs=fs._inner.crash(0.0, random.Random(1))) as again:
        seen.verify(again)
        again.check()


# ---- what a flush writes -----------------------------------------------------------------------------------------


def test_rows_of_one_batch_need_no_undo_file(db, tablet):
    insert(db, db.table("t"), range(1000))
    db.flush()
    (stored,) = tablet.state.rowsets
    assert stored.metadata.undo_files == stored.metadata.redo_files == ()
    assert stored.metadata.inserted == stored.metadata.newest_undo > 0


def test_a_scan_of_the_present_reads_no_undo(db, tablet):
    seen = Versions()
    seen.write(db, Op.INSERT, range(100), "a")
    seen.write(db, Op.INSERT, range(100, 200), "b")
    seen.write(db, Op.UPDATE, range(50, 150), "c")
    db.flush()
    (stored,) = tablet.state.rowsets
    assert stored.metadata.newest_undo == seen.writes[-1][0]
    assert stored.view(stored.metadata.newest_undo).all_patches is None
    seen.verify(db)


def test_ghosts_stay_until_nobody_can_read_them(db, tablet):
    seen = Versions()
    seen.write(db, Op.INSERT, range(10), "a")
    seen.write(db, Op.DELETE, range(5), "")
    tablet.metadata = replace(tablet.metadata, ancient_history_mark=seen.writes[0][0])
    flush(tablet)
    (stored,) = tablet.state.rowsets
    assert (stored.row_count, stored.live_count) == (10, 5)
    seen.verify(db)
    seen.write(db, Op.INSERT, range(100, 110), "b")
    seen.write(db, Op.DELETE, range(100, 109), "")
    tablet.metadata = replace(tablet.metadata, ancient_history_mark=seen.writes[-1][0])
    flush(tablet)
    stored = tablet.state.rowsets[-1]
    assert (stored.row_count, stored.metadata.undo_files, stored.metadata.redo_files) == (1, (), ())
    assert dict(read(db, db.table("t"))) == seen.state()


def test_a_memrowset_of_ancient_ghosts_leaves_nothing(fs, db, tablet):
    seen = Versions()
    seen.write(db, Op.INSERT, range(10), "a")
    seen.write(db, Op.DELETE, range(10), "")
    tablet.metadata = replace(tablet.metadata, ancient_history_mark=seen.writes[-1][0])
    assert flush(tablet) == 0
    assert tablet.state.rowsets == ()
    assert fs.list(f"{tablet.directory}/wal") == []


def test_delta_flushes_follow_each_other(fs, db, tablet):
    seen = Versions()
    seen.write(db, Op.INSERT, range(100), "a")
    db.flush()
    for number in range(4):
        seen.write(db, Op.UPDATE, range(number, 100, 5), f"u{number}-")
        seen.write(db, Op.DELETE, [number * 20], "")
        reopened(fs, seen)
        assert flush_all_deltas(tablet) == 21 - number // 4
        reopened(fs, seen)
        seen.write(db, Op.INSERT, [number * 20], "again")
    assert flush_all_deltas(tablet) == 0
    (stored,) = tablet.state.rowsets
    assert len(stored.redo) == 4
    seen.verify(db)
    db.flush()
    assert fs.list(f"{tablet.directory}/wal") == []
    reopened(fs, seen)


# ---- while writers go on -----------------------------------------------------------------------------------------


def test_what_comes_after_the_cut_moves_to_the_rowset_that_has_the_row(fs, db, tablet, monkeypatch):
    monkeypatch.setattr(rowset_writer, "ROW_GROUP_ROWS", 128)
    tablet.options = replace(tablet.options, rowset_bytes=1)
    keys = random.Random(1).sample(range(300), 300)
    seen = Versions()
    seen.write(db, Op.INSERT, keys[:200], "a")
    seen.write(db, Op.INSERT, keys[200:], "b")
    seen.write(db, Op.UPDATE, range(0, 300, 10), "before")
    held = begin(tablet, Op.UPDATE, [7, 150, 299], "held")
    thread = threading.Thread(target=lambda: flush(tablet))
    thread.start()
    while tablet.state.flushing is None:
        pass
    late = begin(tablet, Op.UPDATE, [7, 8, 127, 128, 298], "late")
    dead = begin(tablet, Op.DELETE, [9, 129, 297])
    for part in (held, late, dead):
        part.finish()
    seen.add(held, Op.UPDATE, [7, 150, 299], "held")
    seen.add(late, Op.UPDATE, [7, 8, 127, 128, 298], "late")
    seen.add(dead, Op.DELETE, [9, 129, 297])
    thread.join()
    assert [stored.row_count for stored in tablet.state.rowsets] == [128, 128, 44]
    assert [stored.deleted.count for stored in tablet.state.rowsets] == [1, 1, 1]
    assert [stored.memstore.count for stored in tablet.state.rowsets] == [4, 2, 2]
    seen.verify(db)
    reopened(fs, seen)
    flush_all_deltas(tablet)
    seen.verify(db)
    reopened(fs, seen)


def test_flushes_while_writers_go_on(fs, db, tablet):
    seen, lock, stop = Versions(), threading.Lock(), threading.Event()
    failures: list[BaseException] = []

    def write(number: int) -> None:
        rng = random.Random(number)
        mine: set[int] = set()
        try:
            for step in range(60):
                op = rng.choice([Op.INSERT, Op.UPSERT, Op.UPDATE, Op.DELETE])
                keys = set(rng.sample(range(number, 200, 3), rng.choice([1, 5, 20])))
                keys = keys - mine if op is Op.INSERT else keys & mine if op in (Op.UPDATE, Op.DELETE) else keys
                if keys:
                    text = f"w{number}-{step}-"
                    result = db.write(db.table("t"), WriteBatch(batch(sorted(keys), text), op))
                    assert result.errors == ()
                    with lock:
                        seen.writes.append((result.timestamp, changes(op, keys, text)))
                    mine = mine - keys if op is Op.DELETE else mine | keys
        except BaseException as error:
            failures.append(error)

    def work() -> None:
        try:
            while not stop.is_set():
                flush(tablet)
                flush_all_deltas(tablet)
        except BaseException as error:
            failures.append(error)

    writers = [threading.Thread(target=write, args=(number,)) for number in range(3)]
    worker = threading.Thread(target=work)
    for thread in (*writers, worker):
        thread.start()
    for thread in writers:
        thread.join()
    stop.set()
    worker.join()
    assert failures == []
    seen.verify(db, every=7)
    db.check()
    reopened(fs, seen)


# ---- where the disk fails ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("operation", "pattern"),
    [("sync", "*.col"), ("sync", "*.delta"), ("sync_directory", "*/rowsets"), ("rename", "*/metadata*")],
)
def test_a_flush_that_failed_is_done_again_with_what_came_since(fs, db, tablet, operation, pattern):
    seen = Versions()
    seen.write(db, Op.INSERT, range(50), "a")
    seen.write(db, Op.UPDATE, range(20), "b")
    fs.fail(operation, pattern)
    with pytest.raises(DiskError):
        flush(tablet)
    seen.write(db, Op.UPDATE, range(10, 30), "c")
    seen.write(db, Op.DELETE, range(5), "")
    seen.write(db, Op.INSERT, range(3), "d")
    reopened(fs, seen)
    fs.heal()
    flush(tablet)
    seen.verify(db)
    reopened(fs, seen)


@pytest.mark.parametrize(
    ("operation", "pattern"),
    [("sync", "*.delta"), ("sync_directory", "*/rowsets"), ("rename", "*/metadata*")],
)
def test_a_delta_flush_that_failed_is_done_again(fs, db, tablet, operation, pattern):
    seen = Versions()
    seen.write(db, Op.INSERT, range(50), "a")
    db.flush()
    seen.write(db, Op.UPDATE, range(20), "b")
    fs.fail(operation, pattern)
    with pytest.raises(DiskError):
        flush_all_deltas(tablet)
    seen.write(db, Op.UPDATE, range(10, 30), "c")
    seen.write(db, Op.DELETE, range(5), "")
    reopened(fs, seen)
    fs.heal()
    assert flush_all_deltas(tablet) == 45
    assert len(tablet.state.rowsets[0].redo) == 2
    seen.verify(db)
    reopened(fs, seen)


@pytest.mark.parametrize("deltas", [False, True])
def test_log_entries_that_failed_during_a_flush_are_in_no_file(fs, db, tablet, deltas):
    seen = Versions()
    seen.write(db, Op.INSERT, range(50), "a")
    if deltas:
        db.flush()
        seen.write(db, Op.UPDATE, range(10), "b")
    first, second = begin(tablet, Op.UPDATE, [1, 2], "lost"), begin(tablet, Op.DELETE, [3], "")
    thread = threading.Thread(target=lambda: flush_all_deltas(tablet) if deltas else flush(tablet))
    thread.start()
    while not any([tablet.state.flushing, *(stored.flushing for stored in tablet.state.rowsets)]):
        pass
    fs.fail("sync", "*/wal/*", times=1)
    for part in (second, first):
        with pytest.raises(DiskError):
            part.finish()
    # Its entry has an index that one of the failed had.
    seen.write(db, Op.UPDATE, [4, 5], "c")
    thread.join()
    seen.verify(db)
    reopened(fs, seen)
    seen.write(db, Op.UPDATE, [3, 4], "d")
    flush_all_deltas(tablet)
    seen.verify(db)
    reopened(fs, seen)


# ---- crashes -----------------------------------------------------------------------------------------------------


class Recorder:
    """A file system that records, at every sync, the image after a crash, and the acknowledged and requested writes."""

    def __init__(self, seed: int, keep: float):
        self.fs = CrashableFileSystem(self.record)
        self.seen = Versions()
        self.asked: dict[int, str | None] = {}
        self.images: list[tuple[str, CrashableFileSystem, Versions, dict[int, str | None]]] = []
        self._rng = random.Random(seed)
        self._keep = keep

    def record(self, what: str) -> None:
        name = f"crash {len(self.images)} after {what}"
        image = self.fs.crash(self._keep, self._rng)
        self.images.append((name, image, Versions(list(self.seen.writes)), self.asked))

    def write(self, db: Database, op: Op, keys: Iterable[int], text: str) -> None:
        keys = list(keys)
        self.asked = changes(op, keys, text)
        self.seen.write(db, op, keys, text)
        self.asked = {}


@pytest.mark.slow
@pytest.mark.parametrize("keep", [0.0, 0.5, 1.0])
def test_a_crash_at_any_sync_leaves_every_version(keep):
    recorder = Recorder(int(keep * 10), keep)
    with Database("db", fs=recorder.fs, segment_bytes=2500) as db:
        db.create_table(definition())
        tablet = tablet_of(db)
        recorder.write(db, Op.INSERT, range(40), "a")
        recorder.write(db, Op.UPDATE, range(0, 40, 2), "b")
        recorder.write(db, Op.DELETE, range(0, 40, 5), "")
        recorder.write(db, Op.INSERT, range(0, 40, 10), "c")
        flush(tablet)
        recorder.write(db, Op.UPDATE, range(1, 5), "d")
        recorder.write(db, Op.INSERT, [5, 50, 51], "e")
        flush_all_deltas(tablet)
        recorder.write(db, Op.DELETE, [5, 50, 1], "")
        recorder.write(db, Op.UPSERT, [5, 1, 2, 60], "f")
        flush(tablet)
        recorder.write(db, Op.DELETE, [5, 2], "")
        flush_all_deltas(tablet)
        recorder.write(db, Op.INSERT, [5], "g")
        flush(tablet)
        flush_all_deltas(tablet)
    assert len(recorder.images) > 60
    for number, (where, image, seen, asked) in some(list(enumerate(recorder.images)), int(keep * 2)):
        open_and_verify(image, seen, asked, where, number)


def open_and_verify(
    image: CrashableFileSystem, seen: Versions, asked: dict[int, str | None], where: str, number: int
) -> None:
    """Asserts that the requested write happened or did not, and that three earlier states are unchanged."""
    with Database("db", fs=image) as db:
        if not db.tables():
            assert not seen.writes, where
            return
        found = dict(read(db, db.table("t")))
        if found != seen.state():
            seen.writes.append((db.now(), asked))
        assert found == seen.state(), where
        for stamp, _ in random.Random(number).sample(seen.writes[:-1], min(3, len(seen.writes[:-1]))):
            assert dict(read(db, db.table("t"), snapshot=Timestamp(stamp))) == seen.state(stamp), where
        db.check()
        seen.write(db, Op.UPSERT, [1, 5, 1000], "later")
        db.flush()
        flush_all_deltas(tablet_of(db))
        assert dict(read(db, db.table("t"))) == seen.state(), where
        db.check()


def test_an_index_that_is_given_again_stays_in_the_log(fs, db, tablet):
    seen = Versions()
    seen.write(db, Op.INSERT, range(50), "a")
    db.flush()
    first, second = begin(tablet, Op.INSERT, [100]), begin(tablet, Op.UPDATE, [1], "lost")
    fs.fail("sync", "*/wal/*", times=1)
    for part in (first, second):
        with pytest.raises(DiskError):
            part.finish()
    seen.write(db, Op.UPDATE, [4, 5], "c")
    seen.write(db, Op.INSERT, [200], "d")
    flush(tablet)
    seen.verify(db)
    reopened(fs, seen)


def test_of_writers_that_wait_for_a_flush_one_flushes(monkeypatch: pytest.MonkeyPatch) -> None:
    with Database(":memory:", background=False, memrowset_bytes=1 << 20) as db:
        db.create_table(definition())
        tablet, keys = tablet_of(db), iter(range(10_000_000))
        runs: list[int] = []
        run = tablet_flush._Flush.run

        def run_and_write(this: tablet_flush._Flush) -> int:
            runs.append(run(this))
            insert(db, db.table("t"), [next(keys) for _ in range(10)])  # as others do while one of them flushes
            return runs[-1]

        while not tablet_flush.is_overfull(tablet):
            insert(db, db.table("t"), [next(keys) for _ in range(1000)])
        monkeypatch.setattr(tablet_flush._Flush, "run", run_and_write)
        threads = [threading.Thread(target=tablet_flush.flush_overfull, args=(tablet,)) for _ in range(8)]
        with tablet.flush_lock:
            for thread in threads:
                thread.start()
        for thread in threads:
            thread.join(30)
        assert len(runs) == 1
        assert tablet.state.memrowset.row_count == 10

"""Compactions of a whole store: COMPACT TABLE, beside writers, on failing disks, across crashes."""

from __future__ import annotations

import random
import threading
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pytest
from examples import cases, some
from nyala.errors import DiskError, HistoryGone
from nyala.model.clock import LOGICAL_BITS
from nyala.model.store import Op, WriteBatch
from nyala.storage.database import Database
from nyala.storage.files.memory_filesystem import CrashableFileSystem, FaultyFileSystem
from nyala.storage.maintenance import delta_compaction, history, maintenance_ops, precedence, rowset_compaction
from nyala.storage.maintenance.tablet_flush import flush_deltas
from nyala.storage.rowsets.rowset_metadata import rowset_files
from nyala.storage.tablet.tablet import Tablet
from store_model import TableModel
from tablet_support import HASHED, ONE_TABLET, definition, insert, keys_of, load, read

OPS = [Op.INSERT_IGNORE, Op.UPSERT, Op.UPDATE_IGNORE, Op.DELETE_IGNORE]


class Workload:
    """Random writes and background work on one table; every version is known."""

    def __init__(self, db: Database, seed: int, partitions: Any = ONE_TABLET, keys: int = 12):
        self.db = db
        self.rng = random.Random(seed)
        self.table = db.create_table(definition(partitions=partitions))
        self.model = TableModel(self.table.schema)
        self.begun = int(db.now())
        self.keys = keys

    def write(self) -> None:
        """One batch; the model has it before the store, so that a crash in between can be judged."""
        count = self.rng.randint(1, 6)
        ops = [self.rng.choice(OPS) for _ in range(count)]
        rows = [{"k": self.rng.randrange(self.keys), "v": self.rng.choice([None, "a", "bb"])} for _ in range(count)]
        outcome = self.model.resolve(ops, rows)
        batch = pa.record_batch([[r["k"] for r in rows], pa.array([r["v"] for r in rows], pa.string())], ["k", "v"])
        result = self.db.write(self.table, WriteBatch(batch, pa.array([int(o) for o in ops], pa.uint8()).to_numpy()))
        assert not result.errors
        self.model.commit(outcome, int(result.timestamp))

    def background(self) -> None:
        """One piece of background work on a random tablet."""
        tablet: Tablet = self.rng.choice(self.db._tablets())
        kind = self.rng.choice(["flush", "deltas", "minor", "major", "column", "rowsets", "collect"])
        stored = self.rng.choice(tablet.state.rowsets) if tablet.state.rowsets else None
        if kind == "flush" or stored is None:
            self.db.flush(self.table)
        elif kind == "deltas":
            flush_deltas(tablet, stored)
        elif kind == "minor":
            delta_compaction.compact_minor(tablet, stored)
        elif kind == "major":
            delta_compaction.compact_major(tablet, stored)
        elif kind == "column":
            delta_compaction.compact_major(tablet, stored, {1})
        elif kind == "rowsets":
            chosen = [r for r in tablet.state.rowsets if self.rng.random() < 0.7]
            rowset_compaction.compact_rowsets(tablet, chosen)
        else:
            history.collect(tablet, self.begun)

    def check(self, db: Database | None = None) -> None:
        """Hold all states since the beginning against the model."""
        db = db or self.db
        for time in [self.begun, *self.model.timestamps, int(db.now())]:
            found = read(db, db.table("t"), snapshot=time)
            assert found == self.model.rows(["k", "v"], time), f"at {time}"
        db.check()


@pytest.mark.parametrize("seed", range(cases(12)))
def test_background_work_changes_no_state(seed):
    with Database("db", fs=CrashableFileSystem(), background=False) as db:
        work = Workload(db, seed, HASHED if seed % 3 == 0 else ONE_TABLET)
        for _ in range(25):
            work.write()
            work.background()
        work.check()
        result = db.compact_table(work.table)
        work.check()
        assert result.rowsets_after <= len(db._tablets())
        again = db.compact_table(work.table)
        assert again.bytes_written == 0
        assert (again.rowsets_before, again.bytes_before) == (again.rowsets_after, again.bytes_after)
        assert (again.rowsets_after, again.bytes_after) == (result.rowsets_after, result.bytes_after)


def test_a_compact_table_needs_no_deltas_to_be_read():
    with Database("db", fs=CrashableFileSystem(), background=False, history_seconds=0) as db:
        work = Workload(db, 5)
        for _ in range(30):
            work.write()
            work.background()
        db.compact_table(work.table)
        for tablet in db._tablets():
            for stored in tablet.state.rowsets:
                assert (stored.undo, stored.redo, stored.memstore.count) == ((), (), 0)
        assert read(db, work.table) == work.model.rows(["k", "v"], int(db.now()))


def test_large_rowsets_are_merged_piece_by_piece(monkeypatch):
    monkeypatch.setattr(rowset_compaction, "PIECE_ROWS", 10_000)
    with Database("db", fs=CrashableFileSystem(), background=False) as db:
        table = db.create_table(definition())
        load(db, table, range(0, 60_000, 2))
        load(db, table, range(1, 60_000, 4))
        before = db.now()
        insert(db, table, range(0, 60_000, 5), "new", Op.UPDATE_IGNORE)
        insert(db, table, range(0, 60_000, 7), "", Op.DELETE_IGNORE)
        insert(db, table, range(0, 60_000, 49), "again", Op.INSERT_IGNORE)
        old, new = read(db, table, snapshot=before), read(db, table)
        db.flush()
        (tablet,) = db._tablets()
        rowset_compaction.compact_rowsets(tablet, tablet.state.rowsets)
        assert len(tablet.state.rowsets) > 3
        spans = sorted((s.metadata.min_key, s.metadata.max_key) for s in tablet.state.rowsets)
        assert all(one[1] < other[0] for one, other in pairwise(spans))
        assert read(db, table, snapshot=before) == old
        assert read(db, table) == new
        db.check()


def test_rowsets_that_overlap_are_merged_together_with_their_neighbours(monkeypatch):
    merged, perform = [], rowset_compaction.perform
    monkeypatch.setattr(rowset_compaction, "perform", lambda *given: (merged.append(len(given[1])), perform(*given))[1])
    with Database("db", fs=CrashableFileSystem(), background=False) as db:
        table = db.create_table(definition())
        load(db, table, range(0, 4_000, 2))
        load(db, table, range(1, 3_000, 2))
        load(db, table, range(5_000, 6_000))
        load(db, table, range(8_000, 8_100, 3))
        load(db, table, range(7_000, 9_000, 3))
        before = db.now()
        insert(db, table, range(3_000, 7_500, 5), "new", Op.UPDATE_IGNORE)
        old, new = read(db, table, snapshot=before), read(db, table)
        db.compact_table(table)
        assert merged == [5]
        assert read(db, table, snapshot=before) == old
        assert read(db, table) == new
        db.check()


@pytest.mark.parametrize("seed", range(6))
def test_loads_and_insertions_are_read_at_any_time_after_merges(seed):
    rng = random.Random(seed)
    with Database("db", fs=CrashableFileSystem(), background=False) as db:
        table = db.create_table(definition())
        if seed % 2:
            insert(db, table, rng.sample(range(1, 100, 2), 9), "before")
        states: dict[int, Any] = {int(db.now()): read(db, table)}
        free = list(range(0, 100, 2))
        rng.shuffle(free)
        for _ in range(4):
            load(db, table, sorted(free.pop() for _ in range(8)))
            insert(db, table, rng.sample(range(100), 10), "insert", Op.INSERT_IGNORE)
            states[int(db.now())] = read(db, table)
            insert(db, table, rng.sample(range(100), 10), "update", Op.UPDATE_IGNORE)
            insert(db, table, rng.sample(range(100), 9), "", Op.DELETE_IGNORE)
            states[int(db.now())] = read(db, table)
            free = [k for k in free if k not in keys_of(db, table)]
            if rng.random() < 0.6:
                db.flush()
                (tablet,) = db._tablets()
                rowset_compaction.compact_rowsets(tablet, tablet.state.rowsets)
            for time, state in states.items():
                assert read(db, table, snapshot=time) == state, f"at {time}"
        db.compact_table(table)
        (stored,) = db._tablets()[0].state.rowsets
        assert bool(stored.metadata.inserted) == (seed % 2 == 0), "all were inserted then or later"
        times = sorted(states)
        for mark in times:
            history.collect(db._tablets()[0], mark)
            for time in times:
                if time >= mark:
                    assert read(db, table, snapshot=time) == states[time], f"at {time} with the mark at {mark}"
        db.check()


@pytest.mark.parametrize("seed", range(8))
def test_dead_rows_leave_in_the_background_and_no_readable_state_changes(seed):
    with Database("db", fs=CrashableFileSystem(), background=False, history_seconds=100) as db:
        work = Workload(db, seed, keys=40)
        for _ in range(12):
            for _ in range(4):
                work.write()
            db.flush()
            # A mark between two writes that have been, as if the clock had gone on.
            lost = db._tablets()[0].metadata.ancient_history_mark
            mark = work.rng.choice([time for time in work.model.timestamps if time >= lost])
            db.clock.steady = lambda mark=mark: (mark >> LOGICAL_BITS) + 100_000_000
            db._maintenance.manager._known.clear()
            records = db.maintain()
            assert [record.error for record in records if record.error] == []
            lost = db._tablets()[0].metadata.ancient_history_mark
            assert lost <= mark + (1 << LOGICAL_BITS)
            for time in [work.begun, *work.model.timestamps, int(db.now())]:
                if time < lost:
                    with pytest.raises(HistoryGone):
                        read(db, work.table, snapshot=time)
                else:
                    assert read(db, work.table, snapshot=time) == work.model.rows(["k", "v"], time), f"at {time}"
            db.check()
            for stored in db._tablets()[0].state.rowsets:
                assert history.dead_share(stored, (mark >> LOGICAL_BITS) << LOGICAL_BITS) == 0.0


# ---- beside the background ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["CompactRowSets", "MajorDeltaCompaction"])
def test_a_merge_in_the_background_gives_way(monkeypatch, kind):
    began = threading.Event()

    def giving_way(tablet):
        check = precedence.giving_way(tablet)

        def wait() -> None:
            began.set()
            for _ in range(1000):
                if precedence.is_compacted(tablet):
                    break
                threading.Event().wait(0.01)
            check()

        return wait

    monkeypatch.setattr(maintenance_ops, "giving_way", giving_way)
    with Database("db", fs=CrashableFileSystem(), background=False, rowset_bytes=1 << 20) as db:
        table = db.create_table(definition())
        for part in range(4 if kind == "CompactRowSets" else 1):
            load(db, table, range(part, 8_000, 4))
        if kind == "MajorDeltaCompaction":
            insert(db, table, range(0, 8_000, 8), "new", Op.UPDATE_IGNORE)
            for stored in db._tablets()[0].state.rowsets:
                flush_deltas(db._tablets()[0], stored)
        expected = read(db, table)
        records: list[Any] = []
        thread = threading.Thread(target=lambda: records.extend(db.maintain()))
        thread.start()
        assert began.wait(10)
        result = db.compact_table(table)
        thread.join()
        assert result.rowsets_after == 1
        assert [(record.kind, record.error) for record in records] == [(kind, "")]
        assert records[0].reason.endswith("; gave way to COMPACT TABLE")
        assert read(db, table) == expected
        assert db.maintain() == [], "it is not repeated"
        (stored,) = db._tablets()[0].state.rowsets
        files = db._fs.list(db._tablets()[0].rowset_directory)
        assert sorted(files) == sorted(rowset_files(stored.metadata)), "nothing is left of it"
        db.check()


def test_the_background_flushes_but_merges_nothing_meanwhile():
    with Database("db", fs=CrashableFileSystem(), background=False, memrowset_bytes=10_000) as db:
        table = db.create_table(definition())
        for part in range(4):
            load(db, table, range(part, 8_000, 8))
        insert(db, table, range(4, 8_000, 8), "new")
        with precedence.preceding(db._tablets()[0]):
            assert [record.kind for record in db.maintain()] == ["FlushMemRowSet"]
        assert "CompactRowSets" in [record.kind for record in db.maintain()]


def test_rowsets_that_come_meanwhile_are_left_for_later(monkeypatch):
    perform, merged = rowset_compaction.perform, []
    with Database("db", fs=CrashableFileSystem(), background=False) as db:
        table = db.create_table(definition())
        for part in range(3):
            load(db, table, range(part * 50, 4_000, 200))

        def beside_loads(tablet, rowsets, *more):
            merged.append(len(rowsets))
            done = perform(tablet, rowsets, *more)
            if len(merged) < 5:
                load(db, table, range(len(merged), 4_000, 100))
            return done

        monkeypatch.setattr(rowset_compaction, "perform", beside_loads)
        assert db.compact_table(table).rowsets_after == 2
        assert merged == [3]
        db.compact_table(table)
        assert merged == [3, 2]
        db.check()


# ---- beside writers ----------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(cases(3)))
def test_writers_and_readers_go_on_meanwhile(seed):
    with Database("db", fs=CrashableFileSystem(), background=False, memrowset_bytes=20_000) as db:
        work = Workload(db, seed, keys=60)
        stop = threading.Event()
        errors: list[BaseException] = []

        def guarded(action) -> None:
            try:
                while not stop.is_set():
                    action()
            except BaseException as error:
                errors.append(error)
                stop.set()

        def look() -> None:
            snapshot = db.now()
            assert read(db, work.table, snapshot=snapshot) == read(db, work.table, snapshot=snapshot)

        background = Workload.__new__(Workload)
        background.db, background.table, background.rng, background.begun = db, work.table, random.Random(seed), 0
        threads = [threading.Thread(target=guarded, args=(a,)) for a in (background.background, look)]
        for thread in threads:
            thread.start()
        for _ in range(250):
            work.write()
            if stop.is_set():
                break
        stop.set()
        for thread in threads:
            thread.join()
        assert not errors, errors
        db.compact_table(work.table)
        now = int(db.now())
        for time in [*random.Random(seed).sample(work.model.timestamps, 20), now]:
            assert read(db, work.table, snapshot=time) == work.model.rows(["k", "v"], time)
        db.check()


# ---- crashes and failing disks -----------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("keep", [0.0, 0.5, 1.0])
def test_a_crash_at_any_sync_loses_nothing(keep):
    rng = random.Random(int(keep * 10))
    images: list[tuple[CrashableFileSystem, int]] = []
    fs = CrashableFileSystem(lambda what: images.append((fs.crash(keep, rng), len(steps))))
    steps: list[int] = []
    """Up to when everything was acknowledged, after each write."""
    with Database("db", fs=fs, background=False, segment_bytes=2000) as db:
        work = Workload(db, 3)
        for _ in range(12):
            work.write()
            steps.append(int(db.now()))
            work.background()
            work.background()
        db.compact_table(work.table)
    assert len(images) > 60
    for number, (image, step) in some(list(enumerate(images)), int(keep * 2)):
        with Database("db", fs=image, background=False) as again:
            if not again.tables():
                assert not step
                continue
            acknowledged = steps[step - 1] if step else work.begun
            under_way = steps[step] if step < len(steps) else acknowledged
            found = read(again, again.table("t"))
            assert found in [work.model.rows(["k", "v"], time) for time in (acknowledged, under_way)], f"crash {number}"
            for time in work.model.timestamps:
                if time <= acknowledged:
                    assert read(again, again.table("t"), snapshot=time) == work.model.rows(["k", "v"], time)
            again.check()
            work.db, work.table = again, again.table("t")
            again.compact_table(work.table)
            assert read(again, work.table) == found


@pytest.mark.slow
@pytest.mark.parametrize("operation", ["write", "sync", "create", "rename", "sync_directory", "remove"])
def test_a_failing_disk_changes_nothing(operation):
    disk = CrashableFileSystem()
    fs = FaultyFileSystem(disk)
    failures = 0
    with Database("db", fs=fs, background=False) as db:
        work = Workload(db, 11)
        for nth in range(1, 40):
            work.write()
            fs.fail(operation, nth=1 if operation == "rename" else 1 + nth % 7, times=1)
            try:
                work.background()
            except DiskError:
                failures += 1
            fs.heal()
            if nth % 4 == 0:
                work.check()
        work.check()
        db.compact_table(work.table)
        work.check()
        for tablet in db._tablets():
            tablet.remove_retired()
            named = {
                name
                for m in tablet.metadata.rowsets
                for name in (*m.column_files.values(), m.bloom_file, *m.undo_files, *m.redo_files)
            }
            surplus = set(fs.list(tablet.rowset_directory)) - named
            assert not surplus or operation == "sync_directory"
    assert failures > 3 or operation == "remove"
    with Database("db", fs=disk, background=False) as db:
        work.check(db)

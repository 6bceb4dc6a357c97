"""Background work: what runs next, what it leaves behind, and what happens when the disk fails."""

from __future__ import annotations

import gc
import threading
import time

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from nyala.errors import CorruptionError, DiskError, HistoryGone, InternalError
from nyala.model.store import Op, WriteBatch
from nyala.storage.columns.column_reader import ColumnReader
from nyala.storage.database import Database
from nyala.storage.files.memory_filesystem import MemoryFileSystem
from nyala.storage.maintenance import maintenance_ops
from nyala.storage.maintenance.background import Rounds
from nyala.storage.maintenance.compaction_policy import CompactionPolicy
from nyala.storage.maintenance.maintenance_policy import OpKind, OpStatistics, StoreCondition, flush_score, pick
from nyala.storage.maintenance.manager import MaintenanceManager
from nyala.storage.maintenance.rowset_compaction import Compacted
from nyala.storage.maintenance.tablet_flush import flush, flush_deltas
from nyala.storage.tablet.tablet import Tablet
from tablet_support import HASHED, batch, definition, insert, keys_of, load, read

MIB = 1 << 20


@pytest.fixture
def db():
    with Database(background=False, rowset_bytes=1 << 20) as database:
        yield database
        if not database._closed:
            database.check()


@pytest.fixture
def table(db):
    return db.create_table(definition())


class Clock:
    """A clock that advances only when it is set."""

    def __init__(self):
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(db):
    """Of the store's maintenance; begins with the real time, since DeltaMemStores note that."""
    clock = db._maintenance.manager._clock = Clock()
    clock.now = time.monotonic()
    return clock


def kinds(records) -> list[str]:
    assert not [record.error for record in records if record.error]
    return [record.kind for record in records]


def update(db, table, keys, text) -> None:
    assert not insert(db, table, keys, text, Op.UPDATE).errors


# ---- choosing ----------------------------------------------------------------------------------------------------

operations = st.lists(
    st.builds(
        OpStatistics,
        st.sampled_from(OpKind),
        st.integers(0, 100),
        st.integers(0, 100),
        st.integers(0, 100),
        st.floats(0, 10),
    ),
    max_size=8,
)


@given(operations, st.booleans(), st.integers(0, 200), st.booleans())
def test_the_most_pressing_operation_is_picked(found, memory_is_short, log_bytes, favours_disk):
    picked = pick(found, StoreCondition(memory_is_short, log_bytes, favours_disk, log_target_bytes=100))
    gc_bytes = [o.log_bytes for o in found if o.kind is OpKind.LOG_GC and o.log_bytes]
    if picked is None:
        assert not gc_bytes
        assert not any(o.score or o.disk_bytes for o in found)
        return
    chosen = found[picked[0]]
    if gc_bytes:
        assert chosen.kind is OpKind.LOG_GC
    elif memory_is_short and any(o.ram_bytes for o in found):
        assert chosen.ram_bytes == max(o.ram_bytes for o in found)
    elif log_bytes > 100 and any(o.log_bytes for o in found):
        assert chosen.log_bytes == max(o.log_bytes for o in found)
    else:
        best = max(o.score for o in found)
        assert chosen.score == best > 0 or chosen.disk_bytes == max(o.disk_bytes for o in found) > 0
        if favours_disk and any(o.disk_bytes for o in found):
            assert chosen.disk_bytes


@given(st.integers(0, 300 * MIB), st.integers(0, 300 * MIB), st.floats(0, 7200), st.floats(0, 7200))
def test_flushes_gain_with_size_and_age(size, larger, age, older):
    score = flush_score(size, 128 * MIB, age)
    assert (score >= 1) == (size >= 128 * MIB or (size > 0 and age >= 3600))
    if larger >= size and older >= age:
        assert flush_score(larger, 128 * MIB, older) >= score


# ---- flushing ----------------------------------------------------------------------------------------------------


def test_a_memrowset_is_flushed_when_it_is_large_or_old(db, table, clock):
    insert(db, table, range(10))
    assert db.maintain() == []
    clock.now += 60
    assert db.maintain() == []
    clock.now += 61
    records = db.maintain()
    assert kinds(records) == ["FlushMemRowSet"]
    assert db.maintain() == []
    assert keys_of(db, table) == list(range(10))


def test_a_full_memrowset_is_flushed_at_once():
    with Database(background=False, memrowset_bytes=20_000) as db:
        table = db.create_table(definition())
        insert(db, table, range(200))
        assert kinds(db.maintain()) == ["FlushMemRowSet"]


def test_deltas_are_flushed_joined_and_brought_into_base_data(db, table, clock):
    insert(db, table, range(1000))
    db.flush()
    done: list[str] = []
    for number in range(4):
        update(db, table, range(40), f"new{number}")
        clock.now += 121
        done += kinds(db.maintain())
    assert done == ["FlushDeltaMemStores"] * 3 + ["MajorDeltaCompaction", "FlushDeltaMemStores"]
    assert read(db, table)[39] == (39, "new339")


def test_many_small_redo_files_are_joined(db, table, clock):
    insert(db, table, range(10_000))
    db.flush()
    done: list[str] = []
    for number in range(6):
        update(db, table, range(10), f"new{number}")
        clock.now += 121
        done += kinds(db.maintain())
    assert done.count("MinorDeltaCompaction") >= 1
    assert all(len(stored.redo) < 4 for tablet in db._tablets() for stored in tablet.state.rowsets)
    assert read(db, table)[9] == (9, "new59")


def test_log_above_the_target_is_let_go(db, table, clock):
    db._maintenance.manager._log_target_bytes = 50_000
    insert(db, table, range(100))
    assert db.maintain() == []
    insert(db, table, range(100, 5000))
    records = db.maintain()
    assert kinds(records) == ["FlushMemRowSet"]
    assert "log" in records[0].reason
    assert db._tablets()[0].log.size < 50_000


# ---- compaction --------------------------------------------------------------------------------------------------


def overlapping(db, table, count) -> None:
    """As many rowsets, each over all keys."""
    for part in range(count):
        insert(db, table, range(part, 4000, count))
        db.flush()


def test_overlapping_rowsets_are_merged(db, table):
    overlapping(db, table, 4)
    records = db.maintain()
    assert kinds(records) == ["CompactRowSets"]
    assert len(db._tablets()[0].state.rowsets) == 1
    assert keys_of(db, table) == list(range(4000))


def test_a_merge_stays_within_its_budget():
    with Database(background=False, compaction_budget_bytes=60_000) as db:
        table = db.create_table(definition())
        overlapping(db, table, 8)
        sizes = [stored.metadata.data_bytes for stored in db._tablets()[0].state.rowsets]
        [record] = db.maintain(until_idle=False)
        assert record.kind == "CompactRowSets"
        merged = int(record.target.split()[0])
        assert 2 <= merged < 8
        assert sum(sorted(sizes)[:merged]) <= 60_000
        assert keys_of(db, table) == list(range(4000))


def test_what_came_out_of_a_merge_is_not_merged_again_by_itself():
    # Rowsets hold at least 131,072 rows, so they do not become as small as they should, nor as few as expected.
    with Database(background=False, rowset_bytes=50_000) as db:
        table = db.create_table(definition())
        for part in range(2):
            db.write(table, WriteBatch(batch(range(part, 300_000, 2))))
            db.flush()
        assert len(kinds(db.maintain())) <= 2
        insert(db, table, range(-10, 0))
        db.flush()
        assert len(kinds(db.maintain())) <= 2
        assert len(keys_of(db, table)) == 300_010


def test_files_that_scans_read_stay_and_go_afterwards(tmp_path):
    with Database(tmp_path, background=False) as db:
        table = db.create_table(definition())
        overlapping(db, table, 3)
        view = db._tablets()[0].pin()
        files = set(tmp_path.glob("tables/*/*/rowsets/*"))
        assert kinds(db.maintain()) == ["CompactRowSets"]
        assert files <= set(tmp_path.glob("tables/*/*/rowsets/*"))
        del view
        gc.collect()
        db.maintain()
        assert not files & set(tmp_path.glob("tables/*/*/rowsets/*"))


def test_deleted_rowsets_and_old_history_are_collected():
    with Database(background=False, history_seconds=0) as db:
        table = db.create_table(definition())
        insert(db, table, range(100))
        db.flush()
        rows = pa.record_batch({"k": pa.array(range(100), pa.int64())})
        assert not db.write(table, WriteBatch(rows, Op.DELETE)).errors
        done = kinds(db.maintain())
        assert "DeletedRowsetGC" in done
        assert db._tablets()[0].state.rowsets == ()
        assert keys_of(db, table) == []


@pytest.mark.parametrize("share", [0.1, 0.75])
def test_rows_that_were_deleted_long_ago_leave_the_disk(share):
    """A rowset with many dead rows is rewritten in the background, once no reader can see them."""
    with Database(background=False, history_seconds=100) as db:
        table = db.create_table(definition())
        load(db, table, range(20_000))
        kept = [k for k in range(20_000) if k % 100 >= 100 * share]
        before = db.now()
        deleted = sorted(set(range(20_000)).difference(kept))
        db.write(table, WriteBatch(batch(deleted).select(["k"]), Op.DELETE))
        (tablet,) = db._tablets()
        flush_deltas(tablet, tablet.state.rowsets[0])
        size = disk_bytes(tablet)
        assert db.maintain() == [], "the past is still to be read"
        assert len(read(db, table, snapshot=before)) == 20_000
        after, expected = db.now(), read(db, table)
        wall = db.clock.steady()
        db.clock.steady = lambda: wall + 100_000_001
        db._maintenance.manager._known.clear()  # it would look again after a minute
        done = db.maintain()
        assert [(r.kind, r.target, r.error) for r in done] == ([("DeadRowGC", "rowset 1", "")] if share > 0.25 else [])
        assert keys_of(db, table) == kept
        assert read(db, table, snapshot=after) == expected
        assert db.maintain() == [], "once is enough"
        if done:
            assert disk_bytes(tablet) < 0.5 * size
            assert [(stored.row_count, stored.redo) for stored in tablet.state.rowsets] == [(len(kept), ())]
            with pytest.raises(HistoryGone):
                read(db, table, snapshot=before)
        db.check()


def disk_bytes(tablet: Tablet) -> int:
    return sum(stored.metadata.data_bytes for stored in tablet.state.rowsets)


# ---- several tablets, failures -----------------------------------------------------------------------------------


def test_everything_at_once_keeps_every_row():
    random = np.random.default_rng(5)
    with Database(background=False, memrowset_bytes=40_000, rowset_bytes=200_000) as db:
        table = db.create_table(definition(partitions=HASHED))
        expected: dict[int, str] = {}
        for number in range(25):
            new = [int(k) for k in random.integers(0, 5000, 300) if int(k) not in expected]
            new = list(dict.fromkeys(new))
            insert(db, table, new)
            expected |= {k: f"v{k}" for k in new}
            changed = [int(k) for k in random.choice(sorted(expected), 50, replace=False)]
            update(db, table, changed, f"u{number}-")
            expected |= {k: f"u{number}-{k}" for k in changed}
            assert not [record for record in db.maintain() if record.error]
        assert read(db, table) == sorted(expected.items())
        db.check()


def test_a_failing_disk_ends_the_round_and_is_tried_later(db, table, clock, monkeypatch):
    insert(db, table, range(10))
    attempts: list[float] = []

    def fail(tablet, workers: int):
        attempts.append(clock.now)
        raise DiskError("no space")

    with monkeypatch.context() as patch:
        patch.setattr(maintenance_ops, "flush", fail)
        db.maintain()  # sees the MemRowSet
        clock.now += 121
        began = clock.now
        for _ in range(70):
            records = db.maintain()
            assert [record.error for record in records] in ([], ["DiskError: no space"])
            clock.now += 1
        assert [round(at - began) for at in attempts] == [0, 1, 3, 7, 15, 31, 63]
    clock.now += 60
    assert kinds(db.maintain()) == ["FlushMemRowSet"]
    status = db.maintenance_status()
    assert [record.error for record in status.completed][:2] == ["", "DiskError: no space"]


def test_an_operation_that_changes_nothing_is_not_repeated(db, table, monkeypatch):
    overlapping(db, table, 3)
    monkeypatch.setattr(maintenance_ops, "compact_rowsets", lambda *_: Compacted((), 0))
    assert kinds(db.maintain()) == ["CompactRowSets"]
    assert db.maintain() == []


def test_status_shows_what_runs_and_what_could(db, table, monkeypatch):
    overlapping(db, table, 3)
    insert(db, table, range(4000, 4010))
    found = {candidate.kind: candidate for candidate in db.maintenance_status().candidates}
    assert found["CompactRowSets"].score > 0
    assert found["FlushMemRowSet"].ram_bytes > 0
    assert found["FlushMemRowSet"].log_bytes > 0
    runs, goes_on = threading.Event(), threading.Event()

    def wait(*_):
        runs.set()
        goes_on.wait(10)
        return Compacted((), 0)

    monkeypatch.setattr(maintenance_ops, "compact_rowsets", wait)
    thread = threading.Thread(target=db.maintain)
    thread.start()
    assert runs.wait(10)
    status = db.maintenance_status()
    samples = {(each.name, *each.labels): each.value for each in db._maintenance.samples()}
    goes_on.set()
    thread.join()
    running = status.running
    assert running is not None
    assert (running.kind, running.table, running.target) == ("CompactRowSets", "t", "3 rowsets")
    # What it was chosen from stays visible for as long as it runs, without it.
    assert {each.kind for each in status.candidates} == {"FlushMemRowSet"}
    assert {each.kind: each.running for each in status.kinds if each.running} == {"CompactRowSets": 1}
    assert samples["nyala_maintenance_running", "CompactRowSets"] == 1
    assert samples["nyala_maintenance_queued", "CompactRowSets"] == 0


def test_the_background_does_it_by_itself():
    with Database(memrowset_bytes=30_000) as db:
        table = db.create_table(definition())
        for part in range(8):
            db.write(table, WriteBatch(batch(range(part, 4000, 8))))
        for _ in range(300):
            if len(db._tablets()[0].state.rowsets) == 1 and not db._tablets()[0].state.memrowset.row_count:
                break
            db._maintenance.wake()
            threading.Event().wait(0.05)
        assert keys_of(db, table) == list(range(4000))
        assert any(record.kind == "FlushMemRowSet" for record in db.maintenance_status().completed)


def test_tablets_that_others_work_on_are_left_alone(db, table):
    overlapping(db, table, 3)
    tablet = db._tablets()[0]
    manager = MaintenanceManager(lambda: [tablet], CompactionPolicy(), lambda: False)
    with tablet.flush_lock:
        assert manager.run_one() is None
    assert manager.run_one() is not None


def test_what_was_flushed_is_in_the_cache(db, table):
    insert(db, table, range(20_000))
    db.flush(table)
    assert len(db._cache) == 0, "a flush that somebody asks for leaves the cache to those who read"
    insert(db, table, range(20_000, 40_000))
    maintenance_ops.TabletOperations(db._stores[table.id].tablets[0], CompactionPolicy())._flush()
    (flushed,) = db._stores[table.id].tablets[0].state.rowsets[1:]
    held = {id(page) for page in db._cache._hand.values()}
    for reader in flushed.rowset._readers.values():
        assert {id(page) for page in reader._cached.values()} <= held
        assert len(reader._cached) == len(reader.footer.pages)
    assert len(read(db, table)) == 40_000


def test_warming_takes_no_more_than_the_room_that_there_is():
    with Database(background=False, cache_bytes=100_000) as db:
        table = db.create_table(definition())
        for start in range(0, 60_000, 20_000):
            insert(db, table, range(start, start + 20_000), text="some text of a row ")
            maintenance_ops.TabletOperations(db._stores[table.id].tablets[0], CompactionPolicy())._flush()
            if not start:
                first = list(db._cache._hand)
        assert first and list(db._cache._hand)[: len(first)] == first, "nothing had to go"
        assert len(read(db, table)) == 60_000


def test_damage_shows_to_readers_not_to_the_flush(tmp_path, monkeypatch):
    with Database(str(tmp_path), background=False) as db:
        table = db.create_table(definition())
        insert(db, table, range(1_000))
        read_page = ColumnReader._read_page

        def damaged(self, record, name):
            raise CorruptionError("flipped", self.path, name)

        monkeypatch.setattr(ColumnReader, "_read_page", damaged)
        maintenance_ops.TabletOperations(db._stores[table.id].tablets[0], CompactionPolicy())._flush()
        with pytest.raises(CorruptionError):
            read(db, table)
        monkeypatch.setattr(ColumnReader, "_read_page", read_page)
        assert len(read(db, table)) == 1_000


def test_what_cannot_be_asked_of_one_tablet_stops_nobody_else(db, table, clock, monkeypatch):
    other = db.create_table(definition("other"))
    insert(db, table, range(10))
    insert(db, other, range(10))
    assert db.maintain() == []
    broken = db._tablets()[0]
    asked = maintenance_ops.TabletOperations.candidates

    def candidates(operations, now):
        if operations.tablet is broken:
            raise DiskError("cannot open a file")
        return asked(operations, now)

    monkeypatch.setattr(maintenance_ops.TabletOperations, "candidates", candidates)
    clock.now += 1000
    done = db.maintain()
    assert {record.table for record in done} == {"t", "other"} - {broken.table.name}
    status = db.maintenance_status()
    assert [(r.kind, r.error) for r in status.completed if r.error] == [("look", "DiskError: cannot open a file")]
    monkeypatch.undo()
    clock.now += 1000
    assert {record.table for record in db.maintain()} == {broken.table.name}


def test_a_round_that_fails_is_followed_by_others(caplog):
    class Work:
        rounds = 0

        def round(self):
            Work.rounds += 1
            raise ValueError("once more")

    work = Work()
    rounds = Rounds("nyala-test", work.round)
    try:
        for number in (1, 2, 3):
            deadline = time.monotonic() + 90
            while Work.rounds < number and time.monotonic() < deadline:
                rounds.wake()
                time.sleep(0.01)
            assert Work.rounds >= number
    finally:
        rounds.stop()
    assert "a round of nyala-test failed" in caplog.text


def test_flushes_of_deltas_keep_hints_and_leave_nothing_in_the_cache(db, table):
    insert(db, table, range(2000))
    db.flush()
    tablet = db._tablets()[0]

    def change(round_: int) -> None:
        for key in range(50):
            db.write_row(table, Op.UPDATE, {"k": key, "v": f"{round_}-{key}"})
        for stored in tablet.state.rowsets:
            flush_deltas(tablet, stored)

    change(0)
    places, owners = tablet.state.places, len(tablet.cache._owners)
    for round_ in range(1, 4):
        change(round_)
    assert tablet.state.places._home is places._home
    assert tablet.state.places._rowsets == tablet.state.rowsets
    assert len(tablet.cache._owners) <= owners + 3  # the delta files
    assert dict(read(db, table))[7] == "3-7"


def test_an_operation_that_ended_between_files_and_state_is_not_done_again(monkeypatch):
    disk = MemoryFileSystem()
    with Database("db", fs=disk, background=False) as db:
        table = db.create_table(definition())
        insert(db, table, range(100))
        tablet = db._tablets()[0]
        with monkeypatch.context() as patch:
            patch.setattr(Tablet, "swap", lambda self: (_ for _ in ()).throw(MemoryError("no room")))
            with pytest.raises(MemoryError):
                flush(tablet)
        with pytest.raises(InternalError, match="close the store and open it again"):
            flush(tablet)
    with Database("db", fs=disk, background=False) as db:
        assert keys_of(db, db.table("t")) == list(range(100))

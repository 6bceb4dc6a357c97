"""Collecting ancient history: what is above the mark stays readable, and what is below it takes no space."""

from __future__ import annotations

from datetime import datetime

import pytest
from compaction_support import History
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from nyala.errors import HistoryGone
from nyala.model.clock import LOGICAL_BITS, timestamp_from_datetime, wall_microseconds
from nyala.model.store import ChangeRange, Op, ScanSpec, Timestamp, WriteBatch
from nyala.storage.database import Database
from nyala.storage.deltas.deltas import DeltaKind
from nyala.storage.maintenance import delta_compaction
from nyala.storage.maintenance import history as ancient
from tablet_support import HASHED, batch, definition, insert, load, read, read_tokens


def grown(seed: int, rounds: int = 3) -> History:
    """Rowsets with several UNDO files."""
    history = History(seed)
    for _ in range(rounds):
        history.write(12)
        history.flush()
        for stored in history.rowsets:
            history.flush_deltas(stored)
        for stored in history.rowsets:
            delta_compaction.compact_major(history.tablet, stored)
    return history


@settings(max_examples=examples(30), deadline=None)
@given(st.integers(0, 10**6), st.data())
def test_what_is_above_the_mark_stays(seed, data):
    history = grown(seed, data.draw(st.integers(1, 3)))
    for _ in range(2):
        mark = data.draw(st.integers(0, history.time))
        ancient.collect(history.tablet, mark)
        history.check()
        assert ancient.collect(history.tablet, mark).written == 0, "it is done"
        history.write(3)
        history.flush()
        history.check()


def test_all_of_it_goes_once_it_is_ancient():
    history = grown(1)
    expected = sum(ancient.ancient_bytes(stored, history.time) for stored in history.rowsets)
    assert ancient.collect(history.tablet, history.time).freed == expected > 0
    history.check()
    for stored in history.rowsets:
        assert (stored.undo, stored.metadata.newest_undo, stored.metadata.inserted) == ((), 0, 0)
    with pytest.raises(HistoryGone):
        history.tablet.view(history.time - 1)
    files = history.tablet.fs.list(history.tablet.rowset_directory)
    assert not [name for name in files if "undo" in name]


def test_a_rowset_whose_rows_are_all_deleted_disappears():
    history = History(2)
    history.write(8)
    history.flush()
    (stored,) = history.rowsets
    for key, versions in history.versions.items():
        if versions and versions[-1][1] is not None:
            history.time += 10
            versions.append((history.time, None))
            history.apply(key, DeltaKind.DELETE, {})
    history.tablet.newest = history.time
    assert ancient.ancient_bytes(stored, history.time - 1) < stored.metadata.data_bytes
    ancient.collect(history.tablet, history.time - 10)
    assert history.rowsets
    ancient.collect(history.tablet, history.time)
    assert not history.rowsets
    assert history.tablet.fs.list(history.tablet.rowset_directory) == []
    history.check()


def test_the_mark_follows_the_clock_and_never_goes_back():
    history = History(1, history_seconds=100)
    now = wall_microseconds()
    assert ancient.next_mark(history.tablet, now) == (now - 100_000_000) << LOGICAL_BITS
    ancient.collect(history.tablet)
    assert history.tablet.metadata.ancient_history_mark == 0, "there was nothing to collect"


def test_a_table_that_has_lost_nothing_can_be_read_at_any_time():
    """Before its creation a table was empty, and all changes since ever are there, whatever was compacted."""
    with Database(":memory:", background=False) as db:
        table = db.create_table(definition(partitions=HASHED))
        insert(db, table, range(30))
        db.flush()
        insert(db, table, range(10, 40), "new", Op.UPSERT)
        db.write(table, WriteBatch(batch(range(5)).select(["k"]), Op.DELETE))
        load(db, table, range(100, 130))
        db.compact_table(table)
        db.maintain()
        assert read(db, table, snapshot=Timestamp(0)) == []
        assert read(db, table, snapshot=timestamp_from_datetime(datetime(2020, 1, 1))) == []
        assert db.read_row(table, (7,), ("v",), Timestamp(1)) is None
        for history_too in (False, True):
            spec = ScanSpec(("k",), changes=ChangeRange(Timestamp(0), history=history_too))
            changes = read_tokens(db, db.scan_tokens(table, spec))
            assert len(changes) == (30 + 20 + 10 + 5 + 30 if history_too else 35 + 30)
        assert all(t.metadata.ancient_history_mark == 0 for t in db.open_table(table).tablets)


def test_the_mark_is_the_newest_of_what_was_lost():
    with Database(":memory:", background=False, history_seconds=0) as db:
        table = db.create_table(definition())
        first = insert(db, table, range(10)).timestamp
        second = insert(db, table, range(10), "new", Op.UPSERT).timestamp
        db.compact_table(table)
        (tablet,) = db.open_table(table).tablets
        assert tablet.metadata.ancient_history_mark == second
        assert len(read(db, table, snapshot=second)) == 10
        for moment in (Timestamp(second - 1), first, Timestamp(0)):
            with pytest.raises(HistoryGone):
                read(db, table, snapshot=moment)

"""Collecting ancient history: what is above the mark stays readable, and what is below it takes no space."""

from __future__ import annotations

import pytest
from compaction_support import History
from hypothesis import given, settings
from hypothesis import strategies as st
from nyala.errors import HistoryGone
from nyala.storage.clock import LOGICAL_BITS, wall_microseconds
from nyala.storage.deltas.deltas import DeltaKind
from nyala.storage.maintenance import delta_compaction
from nyala.storage.maintenance import history as ancient


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


@settings(max_examples=30, deadline=None)
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

"""A tablet held against its invariants; for tests and tools."""

from __future__ import annotations

import numpy as np

from ...model.clock import HybridClock
from ...model.keys.keys import Keys
from ...model.store import ScanCounters, ScanSpec
from ..rowsets.memrowset import index_keys
from ..rowsets.stored_rowset import StoredRowSet
from ..tablet.tablet import Tablet
from .tablet_scan import cut, scan_view


def check_tablet(tablet: Tablet, clock: HybridClock) -> None:
    """Raise `AssertionError` or `CorruptionError` where something is wrong; costs a read of everything."""
    with tablet.flush_lock:
        with tablet.swap() as state:
            metadata = tablet.metadata
            # In any order: a load may be named after a flush, and be in the state before it.
            named = {rowset.id: rowset for rowset in metadata.rowsets}
            assert {r.metadata.id: r.metadata for r in state.rowsets} == named, "state and metadata differ"
            assert len(state.rowsets) == len(metadata.rowsets), "a rowset occurs twice"
            assert metadata.replay_index <= metadata.durable_index <= tablet.log.last_index, "metadata against the log"
            for stored in state.rowsets:
                assert stored.metadata.redo_index <= tablet.log.last_index, "a rowset is ahead of the log"
                _check_deleted(stored, tablet.newest)
        for stored in state.rowsets:
            stored.rowset.check()
            for file in (*stored.undo, *stored.redo):
                file.read(0, stored.row_count)
    _check_unique(tablet, clock)


def _check_deleted(stored: StoredRowSet, newest: int) -> None:
    """Compare the deleted rows that writers see with those that readers see. No write may run at the same time."""
    hidden = stored.patches(newest, 0, stored.row_count, ()).hidden
    deleted = np.flatnonzero(stored.deleted.contains(np.arange(stored.row_count)))
    assert np.array_equal(hidden, deleted), f"rowset {stored.metadata.id}: other rows are deleted than are hidden"
    assert stored.live_count == stored.row_count - len(hidden), f"rowset {stored.metadata.id} counts its rows wrongly"


def _check_unique(tablet: Tablet, clock: HybridClock) -> None:
    """No key is alive twice."""
    schema = tablet.table.schema
    view = tablet.view(clock.now())
    spec = ScanSpec(tuple(column.name for column in schema.key))
    types = tuple(column.type for column in schema.key)
    seen: set[int | bytes] = set()
    for pieces in cut(view, spec):
        for batch in scan_view(view, pieces, spec, ScanCounters()):
            keys = index_keys(Keys(types, tuple(batch.columns())))
            before = len(seen)
            seen.update(keys)
            assert len(seen) == before + len(keys), f"tablet {tablet.id} has a key twice"

"""Flushing a tablet's MemRowSet into DiskRowSets, while it is read and written.

1. Under `write_lock` a new MemRowSet takes the inserts; the old one stays readable as `state.flushing`.
2. When all its writes are decided, its rows are sorted and written as rowsets, durable but unnamed.
3. The tablet's metadata is replaced: it names the rowsets and the last log entry that they hold. This is the moment
   of the flush; a crash before it leaves files that no metadata names, and the log.
4. The state is replaced: rowsets in, old MemRowSet out. No reader sees a row twice or not at all.
5. Log segments below are removed.

Where the disk fails on the way, the old MemRowSet stays, and the next flush begins with it.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa

from .disk_rowset import DiskRowSet
from .keys import Keys
from .memrowset import MemRowSet
from .rowset_metadata import RowSetMetadata
from .rowset_writer import write_rowsets
from .tablet import StoredRowSet, Tablet, TabletState
from .vector import Array


def needs_flush(tablet: Tablet) -> bool:
    """Has the MemRowSet grown enough, or did a flush fail before?"""
    state = tablet.state
    return state.flushing is not None or state.memrowset.nbytes >= tablet.options.memrowset_bytes


def flush_overfull(tablet: Tablet) -> None:
    """Make a writer wait, and see the `DiskError`, where flushes cannot keep up: memory stays bounded."""
    if tablet.state.memrowset.nbytes >= 2 * tablet.options.memrowset_bytes:
        flush(tablet)


def flush(tablet: Tablet) -> int:
    """Flush what the MemRowSet holds now; how many rows that were. `DiskError` where the disk fails."""
    with tablet.flush_lock:
        rows = 0
        if tablet.state.flushing is not None:
            rows += _flush_old(tablet)
        if _swap_memrowset(tablet):
            rows += _flush_old(tablet)
        return rows


def _swap_memrowset(tablet: Tablet) -> bool:
    with tablet.write_lock, tablet.metadata_lock:
        state = tablet.state
        if not state.memrowset.row_count:
            return False
        fresh = MemRowSet(tablet.table.schema)
        tablet.state = TabletState(fresh, state.memrowset, state.rowsets, state.tree)
        return True


def _flush_old(tablet: Tablet) -> int:
    old = tablet.state.flushing
    assert old is not None
    tablet.mvcc.wait_until_clean(old.newest)
    rows, stamps = old.snapshot().to_table()
    written, inserted = _write_sorted(tablet, rows, stamps)
    with tablet.metadata_lock:
        index = max(old.durable_index, tablet.metadata.durable_index)
        metadata = tablet.metadata.with_flush(written, tablet.unused_rowset_id, index)
        metadata.write(tablet.fs, tablet.directory)
        added = [_open(tablet, m, mine) for m, mine in zip(written, inserted)]
        tablet.add_rowsets(metadata, added, old)
    tablet.log.remove_through(index)
    return int(rows.num_rows)


def _write_sorted(tablet: Tablet, rows: pa.Table, stamps: Array) -> tuple[list[RowSetMetadata], list[Array]]:
    if not rows.num_rows:
        return [], []
    schema = tablet.table.schema
    keys = Keys.from_rows(schema, rows)
    if not keys.is_strictly_ascending():
        order = keys.order()
        rows, stamps = rows.combine_chunks().take(pa.array(order)), stamps[order]
    written = write_rowsets(
        tablet.fs,
        tablet.rowset_directory,
        schema,
        rows,
        next_id=tablet.next_rowset_id,
        timestamp=int(stamps.max()),
        rowset_bytes=tablet.options.rowset_bytes,
    )
    pieces = np.split(stamps, np.cumsum([m.row_count for m in written])[:-1])
    dated = [
        replace(m, newest_undo=int(p.max()), extra={**m.extra, "oldest": int(p.min())}) for m, p in zip(written, pieces)
    ]
    return dated, pieces


def _open(tablet: Tablet, metadata: RowSetMetadata, inserted: Array) -> StoredRowSet:
    rowset = DiskRowSet.open(tablet.fs, tablet.rowset_directory, tablet.table.schema, metadata, tablet.cache)
    oldest, newest = metadata.extra["oldest"], metadata.newest_undo
    return StoredRowSet(rowset, oldest, newest, None if oldest == newest else inserted)


def forget_insertion_times(tablet: Tablet, before: int) -> None:
    """Drop the insertion times of rowsets all of whose rows are older than a timestamp: no snapshot needs them."""
    with tablet.metadata_lock:
        state = tablet.state
        if any(r.inserted is not None and r.newest < before for r in state.rowsets):
            kept = [replace(r, inserted=None) if r.newest < before else r for r in state.rowsets]
            tablet.state = TabletState.of(state.memrowset, state.flushing, kept)

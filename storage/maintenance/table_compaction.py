"""COMPACT TABLE: everything in base data, in rowsets that do not overlap, at once and by the caller's thread.

    before   MemRowSet, DeltaMemStores     after   ├───────────┤├───────────┤├───────────┤
             ├────────┤R R  ├───┤├──┤              in key order, of full size where there are enough rows;
                ├─────────────┤R                   no REDO deltas but the DELETEs of rows that the past still shows

Background maintenance weighs costs and gains; here nothing is weighed. What is compact already is left alone: a second
call writes nothing.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence

from ...errors import TabletGone
from ...model.store import CompactionResult
from ..rowsets.rowset_writer import WORKERS
from ..rowsets.stored_rowset import StoredRowSet
from ..tablet.tablet import Tablet
from . import delta_compaction, history, rowset_compaction
from .precedence import preceding
from .tablet_flush import flush, flush_deltas


def compact_tablets(tablets: Iterable[Tablet], check: Callable[[], None] | None = None) -> CompactionResult:
    """Compact tablets, one after the other.

    Reads and writes continue; concurrent writes may stay in memory, and rowsets that are flushed or loaded meanwhile
    stay as they are. Acquires `flush_lock` for each step, so that the background can flush in between; its merges give
    way (`precedence`). Costs about a read and a write of all data that is not compact.

    Raises `DiskError` where the disk fails, and what `check` raises, which is called before each step (a flush, or the
    rewriting of one group of rowsets) and before each column: finished steps remain.
    """
    before, after, sizes_before, sizes_after, written = 0, 0, 0, 0, 0
    for tablet in tablets:
        rowsets = tablet.state.rowsets
        before += len(rowsets)
        sizes_before += _size(rowsets)
        with preceding(tablet), contextlib.suppress(TabletGone):  # its range partition has been dropped meanwhile
            written += _compact_tablet(tablet, check or (lambda: None))
        after += len(tablet.state.rowsets)
        sizes_after += _size(tablet.state.rowsets)
    return CompactionResult(before, after, sizes_before, sizes_after, written)


def _size(rowsets: Iterable[StoredRowSet]) -> int:
    return sum(stored.metadata.data_bytes for stored in rowsets)


def _compact_tablet(tablet: Tablet, check: Callable[[], None]) -> int:
    """Compact one tablet: the bytes written."""
    size = _size(tablet.state.rowsets)
    check()
    flush(tablet)
    written = _size(tablet.state.rowsets) - size
    mark = history.next_mark(tablet)
    for step in _Steps(tablet, mark, check).run():
        written += step
    with tablet.flush_lock:
        written += history.perform(tablet, tablet.state.rowsets, mark).written
    return written


class _Steps:
    """The steps for one tablet. They end although others flush and load meanwhile: only rowsets from before, and those
    that were made of them, are rewritten, and each step leaves fewer of them, or fewer deltas."""

    def __init__(self, tablet: Tablet, mark: int, check: Callable[[], None]):
        self._tablet = tablet
        self._mark = mark
        self._check = check
        self._ids = {stored.metadata.id for stored in tablet.state.rowsets}
        """Of the rowsets from before, and of those that were made of them."""

    def run(self) -> Iterator[int]:
        """Run the steps, yielding the bytes written by each."""
        tablet, check = self._tablet, self._check
        # Merges read the deltas in memory as they are; those of the other rowsets are flushed behind them.
        yield from self._merges()
        for stored in self._rowsets():
            check()
            size = stored.metadata.data_bytes
            flush_deltas(tablet, stored)
            sizes = {current.metadata.id: current.metadata.data_bytes for current in tablet.state.rowsets}
            yield max(sizes.get(stored.metadata.id, size) - size, 0)
        for stored in self._rowsets():
            check()
            yield delta_compaction.compact_major(tablet, stored, None, check)
        for stored in self._rowsets():
            check()
            yield delta_compaction.compact_minor(tablet, stored)

    def _rowsets(self) -> list[StoredRowSet]:
        return [stored for stored in self._tablet.state.rowsets if stored.metadata.id in self._ids]

    def _merges(self) -> Iterator[int]:
        tablet = self._tablet
        while True:
            self._check()
            with tablet.flush_lock:
                group = next(_to_merge(self._rowsets(), tablet.options.rowset_bytes, self._mark), None)
                if group is None:
                    return
                merged = rowset_compaction.perform(tablet, group, self._mark, WORKERS, self._check)
            self._ids.update(stored.metadata.id for stored in merged.rowsets)
            yield merged.bytes_written


def _to_merge(rowsets: Sequence[StoredRowSet], rowset_bytes: int, mark: int) -> Iterator[list[StoredRowSet]]:
    """Rowsets that should be merged: those that overlap, neighbours that fill one rowset together, and those with rows
    that cannot be read any more. Rowsets that overlap are merged together with neighbours, so that rows are written
    once."""
    group: list[StoredRowSet] = []
    for overlapping in _overlapping(rowsets):
        if group and not _fit_into_one([*group, *overlapping], rowset_bytes):
            if len(group) > 1:
                yield group
            group = []
        group += overlapping
    if len(group) > 1:
        yield group
    for stored in rowsets:
        if history.dead_rows(stored, mark):
            yield [stored]


def _fit_into_one(rowsets: Sequence[StoredRowSet], rowset_bytes: int) -> bool:
    rows = sum(stored.row_count for stored in rowsets)
    return _size(rowsets) <= rowset_bytes and rows <= rowset_compaction.PIECE_ROWS


def _overlapping(rowsets: Iterable[StoredRowSet]) -> Iterator[list[StoredRowSet]]:
    """The rowsets in key order; those whose intervals of keys hang together, together."""
    group: list[StoredRowSet] = []
    highest = b""
    for stored in sorted(rowsets, key=lambda stored: stored.metadata.min_key):
        if group and stored.metadata.min_key > highest:
            yield group
            group = []
        group.append(stored)
        highest = max(highest, stored.metadata.max_key)
    if group:
        yield group

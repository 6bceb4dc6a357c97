"""Removal of history: the ancient history mark of a tablet, and the data below it that cannot be read any more.

                      ancient history mark
    UNDO 1  [t1 ... t4]    │                        all of it is ancient: removed
    UNDO 2       [t3 ... t5│... t9]                 partly: rewritten, once enough of it is
    UNDO 3                 │  [t8 ... t12]          kept
    ───────────────────────┴──────────────────────► time

The *ancient history mark* of a tablet is a timestamp below which reads are refused (`HistoryGone`). History at or below
the clock less `StoreOptions.history_seconds` (`next_mark`) may be removed. The tablet's own mark is the greatest
timestamp of removed history, so a tablet without removed history can be read at any timestamp. It only grows. An UNDO
delta at t serves reads below t, so those at or below the mark serve no read. A rowset whose rows were all deleted at or
below it is empty, and one with many such rows is rewritten without them (`dead_share`).

The mark becomes durable in the same replacement of the tablet's metadata that stops naming the files. Running scans are
not affected: they pin the state that they read, and its files stay until they end.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from ...model.clock import LOGICAL_BITS
from ...model.lazy_dataclass import dataclass
from ..deltas.delta_file import DeltaFile
from ..deltas.version_merge import above, combined
from ..rowsets.rowset_metadata import RowSetMetadata
from ..rowsets.rowset_source import RowSetSource
from ..rowsets.stored_rowset import StoredRowSet
from ..tablet.tablet import Cut, Tablet
from ..tablet.tablet_metadata import TabletMetadata
from .rewrite import NewFiles, exchange

REWRITE_SHARE = 0.5
"""An UNDO file is rewritten without its ancient deltas once they are likely to be half of it: the bytes written are at
most the bytes freed."""
DEAD_SHARE = 0.25
"""A rowset is rewritten once this share of its rows was deleted at or below the mark: the bytes written are at most
three times the bytes freed, and dead rows are at most a third of those that live."""


def next_mark(tablet: Tablet, now: int | None = None) -> int:
    """The greatest ancient history mark that the tablet may have now, never below the present one. Every write at or
    below it is decided when this returns.

    `now` are microseconds since 1970, by default those of the store's `SteadyClock`, or of the wall clock.
    """
    microseconds = (tablet.mvcc.clock.steady() if now is None else now) - tablet.options.history_seconds * 1_000_000
    mark = max(tablet.metadata.ancient_history_mark, microseconds << LOGICAL_BITS)
    tablet.mvcc.wait_until_clean(mark)
    return mark


# ---- what there is to collect ------------------------------------------------------------------------------------


def ancient_bytes(stored: StoredRowSet, mark: int) -> int:
    """About how many bytes `collect` would free of a rowset, from the footers of its files alone."""
    if is_dead(stored, mark):
        return stored.metadata.data_bytes
    return sum(int(_share(file, mark) * file.size) for file in stored.undo if _is_due(file, mark))


def is_dead(stored: StoredRowSet, mark: int) -> bool:
    """True if all rows were deleted at or below the mark."""
    if stored.live_count:
        return False
    return _newest_delta(stored) <= mark


def dead_rows(stored: StoredRowSet, mark: int) -> int:
    """Number of rows that were deleted for good at or below the mark: no reader can see them. Reads the existence
    deltas, but nothing if no delta can be such a deletion."""
    if not stored.deleted.count:
        return 0
    in_files = any(file.statistics.deletes and file.statistics.oldest <= mark for file in stored.redo)
    in_memory = any(run.oldest <= mark for memstore in stored.memstores for run in memstore.snapshot())
    if not in_files and not in_memory:
        return 0
    died = RowSetSource(stored, mark).deaths()
    return int(np.count_nonzero((died > 0) & (died <= np.uint64(mark))))


def dead_share(stored: StoredRowSet, mark: int) -> float:
    """Share of `dead_rows` among the rows; 0 if it is below `DEAD_SHARE`: then nearly nothing is read."""
    if stored.deleted.count < DEAD_SHARE * stored.row_count:
        return 0.0
    share = dead_rows(stored, mark) / stored.row_count
    return share if share >= DEAD_SHARE else 0.0


def _newest_delta(stored: StoredRowSet) -> int:
    return max([*(file.statistics.newest for file in stored.redo), *(m.newest for m in stored.memstores)])


def _share(file: DeltaFile, mark: int) -> float:
    """Approximate share of a file's deltas at or below the mark, assuming that they are spread evenly over time."""
    statistics = file.statistics
    if statistics.newest <= mark:
        return 1.0
    if statistics.oldest > mark:
        return 0.0
    return (mark - statistics.oldest + 1) / (statistics.newest - statistics.oldest + 1)


def _is_due(file: DeltaFile, mark: int) -> bool:
    return _share(file, mark) >= REWRITE_SHARE


# ---- collecting --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Collected:
    """Result of a collection, in bytes."""

    freed: int = 0
    written: int = 0


def collect(tablet: Tablet, mark: int | None = None) -> Collected:
    """`perform`, which takes `flush_lock`, for all rowsets, with the mark that the tablet may have now."""
    with tablet.flush_lock:
        return perform(tablet, tablet.state.rowsets, next_mark(tablet) if mark is None else mark)


def perform(tablet: Tablet, rowsets: Iterable[StoredRowSet], mark: int) -> Collected:
    """Remove the ancient history of rowsets of the tablet's state, and those that are wholly deleted.

    Needs `flush_lock`; takes `metadata_lock` for the metadata and `write_lock` for the swap. Costs next to nothing for
    files that go as a whole, and reading and writing those of which a part stays; base data is not read. Where there
    is nothing to do, nothing is written, and the mark stays where it was.

    Raises `DiskError` where the disk fails; nothing has changed then.
    """
    stays = list(rowsets)
    dead = [stored for stored in stays if is_dead(stored, mark)]
    with NewFiles(tablet) as new:
        changes = [
            (stored, _without_ancient(tablet, new, stored, mark))
            for stored in stays
            if stored not in dead and any(_is_due(file, mark) for file in stored.undo)
        ]
        if not dead and not changes:
            return Collected()

        def update(metadata: TabletMetadata) -> TabletMetadata:
            metadata = metadata.with_rowsets([stored.metadata.id for stored in dead], ())
            for stored, changed in changes:
                metadata = metadata.with_rowsets([stored.metadata.id], [changed])
            return metadata

        lost = max(_lost(stored, mark, stored in dead) for stored in [*dead, *(stored for stored, _ in changes)])
        cut = _settled_cut(tablet) if dead else None
        memstores = [memstore for stored in dead for memstore in stored.memstores]
        with tablet.between_transactions():
            new.publish(update, mark=lost, cut=cut, flushed=memstores)
            exchange(tablet, changes, dead)
    freed = sum(stored.metadata.data_bytes for stored in dead)
    freed += sum(stored.metadata.data_bytes - changed.data_bytes for stored, changed in changes)
    return Collected(freed, new.size)


def _lost(stored: StoredRowSet, mark: int, dies: bool) -> int:
    """The greatest timestamp of the removed history of a rowset."""
    if dies:
        return _newest_delta(stored)
    newest = max(min(file.statistics.newest, mark) for file in stored.undo if _is_due(file, mark))
    return max(newest, stored.metadata.inserted if stored.metadata.inserted <= mark else 0)


def _settled_cut(tablet: Tablet) -> Cut:
    """A cut whose writes are decided: the log of rows that go needs no later flush to be unneeded, too."""
    with tablet.nothing_prepared():
        cut = tablet.cut()
    tablet.wait_for(cut)
    return cut


def _without_ancient(tablet: Tablet, new: NewFiles, stored: StoredRowSet, mark: int) -> RowSetMetadata:
    """Write what stays of the UNDO files that are due, as one file; the rowset's metadata with it."""
    stored.deleted.load()  # before `publish`: see `reopened`
    before = stored.metadata
    due = [file for file in stored.undo if _is_due(file, mark)]
    partly = [file for file in due if file.statistics.newest > mark]
    rest = combined([above(file.read(0, stored.row_count), mark) for file in partly])
    kept = [(name, file) for name, file in zip(before.undo_files, stored.undo) if file not in due]
    written_before = new.size
    names = new.write_deltas("undo", before.id, before.undo_files, rest.only_columns(rest.columns))
    inserted = before.inserted if before.inserted > mark else 0
    after = replace(
        before,
        undo_files=(*(name for name, _ in kept), *names),
        newest_undo=max([inserted, rest.newest, *(file.statistics.newest for _, file in kept)]),
        inserted=inserted,
    )
    return new.resized(before, after, new.size - written_before)

"""Look-ups of one row by its primary key, without a scan's batches and vectors.

The life of a look-up (`Store.read_row`):
1. `RowCodec.take_key` converts the key to physical values, `Partitioner.route_one` finds its tablet.
2. `MvccManager.newest_clean` returns a timestamp at which all writes are decided, at or above every write that was
   acknowledged before the call. A look-up in the past has its own timestamp, and waits for the writes below it.
3. The state is pinned. The hint (`KeyPlaces`) is tried first; then the places from newest to oldest: the MemRowSets by
   their index; of the rowsets whose interval contains the key, those whose Bloom filter passes it, by their key index.
   A key may be in several places, and is visible in at most one of them.
4. In a DiskRowSet, the row's newest deltas are looked up (`row_deltas`), DeltaMemStores before REDO files; other cells
   are read from the pages. Only a time before the base data needs patches, as a scan does.

Safety with concurrent flushes, compactions and writers: files are closed and removed only after all older pins are
released (`Tablet.retire`), and a look-up holds one until it has its values: `Tablet.shared_pin`, which look-ups of the
same state share. The pin is taken after the writes up to the timestamp were decided, so all of them are in the pinned
state; later changes of its MemRowSets and DeltaMemStores have a greater timestamp and are ignored. For a look-up of the
newest state, a concurrent removal of history is harmless: the newer state was committed before it returns. A tablet of
a dropped range partition is removed when it has no pins, so the table's version is compared after taking the pin.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Final, TypeAlias

from ...model.keys.key_codec import KeyCodec
from ...model.partitions.partition import Partitioner
from ...model.schema import ColumnSchema
from ...model.store import ScanCounters, Timestamp
from ..deltas.delta_file import DeltaFile
from ..deltas.deltas import DeltaKind, resolve
from ..keys.bloom import BloomProbe
from ..rowsets.memrowset import MemRowSet
from ..rowsets.stored_rowset import StoredRowSet
from ..tablet.tablet import Tablet, TabletState
from .row_codec import RowCodec
from .row_deltas import look_up_run, rows_in_run

_DELETE = DeltaKind.DELETE
_NOTHING: Final[Mapping[int, Any]] = {}

Row: TypeAlias = "tuple[Any, ...]"


class Altered(Exception):
    """Raised if the table has been altered: retry with its new version. Nothing was changed."""


class RowReader:
    """Looks up rows of one table, in one version of its schema. Safe for several threads.

    Parameters
    ----------
    codec : RowCodec
    partitioner : Partitioner
    tablets : sequence of Tablet
        Beside the partitioner's partitions.
    is_current : callable
        Are table and tablets still these?
    """

    def __init__(
        self, codec: RowCodec, partitioner: Partitioner, tablets: Sequence[Tablet], is_current: Callable[[], bool]
    ):
        self.codec = codec
        self._partitioner = partitioner
        self._tablets = tuple(tablets)
        self._is_current = is_current

    def read(
        self,
        key: Sequence[Any],
        names: Sequence[str],
        snapshot: Timestamp | None = None,
        counters: ScanCounters | None = None,
    ) -> Row | None:
        """`Store.read_row`. Raises `Altered` where the table has another version by now, `HistoryGone` where the past
        is forgotten."""
        codec = self.codec
        columns = codec.projection(tuple(names))
        values = codec.take_key(key)
        place = self._partitioner.route_one(values)
        if place < 0:
            return None
        tablet = self._tablets[place]
        if snapshot is None:
            timestamp = tablet.mvcc.newest_clean()
        else:
            timestamp = snapshot
            tablet.mvcc.wait_until_clean(timestamp)
        pin = tablet.shared_pin()
        if not self._is_current():
            raise Altered
        if snapshot is not None:
            tablet.check_history(snapshot)
        return find_row(pin.state, codec.key, values, columns, timestamp, counters)


def find_row(
    state: TabletState,
    codec: KeyCodec,
    key: Sequence[Any],
    columns: Sequence[ColumnSchema],
    timestamp: int,
    counters: ScanCounters | None = None,
) -> Row | None:
    """The row with a primary key of physical values, in a pinned state, at a timestamp whose writes are decided: its
    `columns` as Python values; None where there is no such row."""
    index = codec.index_key(key)
    hash_ = codec.hash_32(index)
    hint = state.places.get(hash_)
    if hint is not None and hint[0].rowset.holds(hint[1], key, counters):
        # Where the row is to be seen at this time, it is nowhere else.
        found = stored_row(hint[0], hint[1], columns, timestamp, counters)
        if found is not None:
            return found
    memrowset: MemRowSet | None = state.memrowset
    while memrowset is not None:
        row = memrowset.find_one(index)
        if row >= 0 and (found := memrowset.get(row, columns, timestamp)) is not None:
            return found
        memrowset = state.flushing if memrowset is state.memrowset else None
    candidates = state.tree.containing(codec.encoded_of(index))
    # A key that is looked up is there, as a rule: one rowset's pages are read anyway.
    probe = BloomProbe(codec.hash(key)) if len(candidates) > 1 else None
    for stored in candidates:
        row = stored.rowset.find_one(key, probe, counters)
        if row >= 0 and (found := stored_row(stored, row, columns, timestamp, counters)) is not None:
            state.places.note(hash_, stored, row)
            return found
    return None


def stored_row(
    stored: StoredRowSet,
    row: int,
    columns: Sequence[ColumnSchema],
    timestamp: int,
    counters: ScanCounters | None = None,
) -> Row | None:
    """A row of a DiskRowSet at a timestamp whose writes are decided; None where it does not exist then."""
    if is_past(stored, timestamp):
        return _past_row(stored, row, columns, timestamp, counters)
    if not stored.memstore.count and stored.flushing is None and not stored.redo:
        return stored.rowset.cells(columns, row, _NOTHING, counters)
    by_column: dict[int, Any] = {}
    if look_up_deltas(stored, row, timestamp, [column.id for column in columns], by_column) is _DELETE:
        return None
    return stored.rowset.cells(columns, row, by_column, counters)


def is_past(stored: StoredRowSet, timestamp: int) -> bool:
    """True if a timestamp is before some of the base data."""
    metadata = stored.metadata
    return timestamp < metadata.newest_undo or timestamp < metadata.inserted


def look_up_deltas(
    stored: StoredRowSet, row: int, timestamp: int, columns: Sequence[int], found: dict[int, Any]
) -> DeltaKind | None:
    """Looks up a row in the REDO deltas in memory and in files: see `look_up_run`."""
    kind = stored.memstore.look_up(row, timestamp, columns, found)
    if kind is None and stored.flushing is not None:
        kind = stored.flushing.look_up(row, timestamp, columns, found)
    if kind is not None:
        return kind
    for file in reversed(stored.redo):
        kind = _look_up_file(file, row, timestamp, columns, found)
        if kind is not None:
            return kind
    return None


def changed_rows(stored: StoredRowSet, rows: range) -> Iterable[int]:
    """Those of some rows, at least one, that may have REDO deltas, at any timestamp."""
    changed: set[int] = set()
    for memstore in stored.memstores:
        changed.update(memstore.changed(rows))
    for file in stored.redo:
        for number, block in enumerate(file.footer.blocks):
            if block.first_row < rows.stop and block.last_row >= rows.start:
                changed.update(rows_in_run(file.read_head(number), rows))
    return changed


def _look_up_file(
    file: DeltaFile, row: int, timestamp: int, columns: Sequence[int], found: dict[int, Any]
) -> DeltaKind | None:
    blocks = file.footer.blocks
    for number in range(len(blocks) - 1, -1, -1):
        if blocks[number].first_row <= row <= blocks[number].last_row:
            read = partial(file.read_column, number)
            kind = look_up_run(file.read_head(number), row, timestamp, columns, found, read)
            if kind is not None:
                return kind
    return None


def _past_row(
    stored: StoredRowSet, row: int, columns: Sequence[ColumnSchema], timestamp: int, counters: ScanCounters | None
) -> Row | None:
    """A row at a time before some of the base data."""
    undo, redo = stored.deltas(row, row + 1, [column.id for column in columns])
    patches = resolve(undo, redo, timestamp)
    # A row without an UNDO delta for its insertion was inserted with the others.
    is_unborn = timestamp < stored.metadata.inserted and not len(resolve(undo, (), 0, ()).hidden)
    if is_unborn or len(patches.hidden):
        return None
    found = {column: patched.values[0].as_py() for column, patched in patches.columns.items()}
    return stored.rowset.cells(columns, row, found, counters)

"""Looking up one row by its primary key, without a scan's batches and vectors.

The life of a look-up (`Store.read_row`):
1. `RowCodec.take_key` makes physical values of the key, `Partitioner.route_one` finds its tablet.
2. `MvccManager.newest_clean` gives a timestamp at which all writes are decided, at or above every write that was
   acknowledged before the call. A look-up in the past brings its own, and waits for the writes below it.
3. The state is pinned, then asked where the key may be (`KeyPlaces`); then from the newest place to the
   oldest: the MemRowSets by their index; of the rowsets whose interval holds the key, those whose Bloom filter does not
   rule it out, by their key index. A key may stand in several places, and is visible in at most one of them.
4. In a DiskRowSet, the row's newest deltas are looked up (`row_deltas`), DeltaMemStores before REDO files; the cells
   that they leave open come from the pages. Only a time before the base data needs patches, as a scan does.

Why this is safe beside flushes, compactions and writers: files are closed and removed only when all pins taken before
they went out of use are gone (`Tablet.retire`), and a look-up holds one until it has its values: `Tablet.shared_pin`,
which look-ups of the same state have in common. The pin is taken after the writes up to the timestamp were decided, so
all of them are in the pinned state; what comes into its MemRowSets and DeltaMemStores later has a greater timestamp and
is passed over. A look-up of the newest state need not mind history that is forgotten meanwhile: what it then sees
instead was committed before it returns. A tablet whose range partition is dropped goes when it has no pins, so the
table's version is compared after the pin was taken.
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
    """The table has been altered: go on with its new version. Nothing has been done."""


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
    found: dict[int, Any] = {}
    if look_up_deltas(stored, row, timestamp, [column.id for column in columns], found) is _DELETE:
        return None
    return stored.rowset.cells(columns, row, found, counters)


def is_past(stored: StoredRowSet, timestamp: int) -> bool:
    """Is a time before some of the base data?"""
    metadata = stored.metadata
    return timestamp < metadata.newest_undo or timestamp < metadata.inserted


def look_up_deltas(
    stored: StoredRowSet, row: int, timestamp: int, columns: Sequence[int], found: dict[int, Any]
) -> DeltaKind | None:
    """What the REDO deltas in memory and in files make of a row: see `look_up_run`."""
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
    """Those of some rows, at least one, of which REDO deltas may tell something, whatever the time."""
    found: set[int] = set()
    for memstore in stored.memstores:
        found.update(memstore.changed(rows))
    for file in stored.redo:
        for number, block in enumerate(file.footer.blocks):
            if block.first_row < rows.stop and block.last_row >= rows.start:
                found.update(rows_in_run(file.read_head(number), rows))
    return found


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
    # A row of whose insertion no UNDO delta tells was inserted with the others.
    is_unborn = timestamp < stored.metadata.inserted and not len(resolve(undo, (), 0, ()).hidden)
    if is_unborn or len(patches.hidden):
        return None
    found = {column: patched.values[0].as_py() for column, patched in patches.columns.items()}
    return stored.rowset.cells(columns, row, found, counters)

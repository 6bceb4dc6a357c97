"""Reading a tablet: cutting a view into tokens, and a token into batches.

A token holds the `TabletView` it was cut from. So a token reads the same rows whenever it is read: a flush in between
replaces the tablet's state, not the view's, whose MemRowSet and rowsets stay in memory and on disk as long as a
token, a scan or a batch refers to them. The tokens of one call share one view per tablet; together they cover each
row exactly once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import chain, pairwise
from typing import Any, TypeAlias

import numpy as np

from ...model.lazy_dataclass import dataclass
from ...model.partitions.pruning import predicate_bounds
from ...model.predicates import ColumnPredicate
from ...model.schema import ColumnSchema, Schema
from ...model.store import ScanCounters, ScanSpec
from ...model.vectors.row_batch import RowBatch
from ...model.vectors.vector import Array, Batch, LazyColumn, Vector
from ..columns.column_file import ROW_GROUP_ROWS
from ..rowsets.changed_rows_overlay import judge
from ..rowsets.stored_rowset import StoredRowSetView
from ..tablet.tablet import Tablet, TabletView
from .changes import scan_changes
from .key_interval import KeyInterval, short_interval
from .ordered_scan import scan_ordered
from .short_scan import scan_short

_FIRST_BACKWARD = 2048
"""Rows that a descending scan reads first of a rowset: as a rule it is for few rows."""
_TEXT_BOUND = 64
"""Length in characters to which bounds of texts in sketches are cut."""


@dataclass(frozen=True, slots=True)
class Piece:
    """Rows `start` to `stop` (exclusive) of one rowset of a view, or of one of its MemRowSets."""

    source: int
    """Place among the view's rowsets, followed by its MemRowSets."""
    start: int
    stop: int


Part: TypeAlias = Sequence[Piece] | KeyInterval
"""Extent of a token: pieces, or a key interval for a short scan."""


# ---- tokens ------------------------------------------------------------------------------------------------------


def cut(view: TabletView, spec: ScanSpec) -> list[tuple[Piece, ...]]:
    """Divides a tablet into tokens of about `spec.split_rows` rows each; a single token if that is None, and for scans
    in key order or of changes.

    Rowsets whose statistics exclude a predicate are skipped. Pieces are cut at multiples of 131,072 rows.
    """
    schema = view.table.schema
    if spec.changes is not None:
        # Predicates are about the values shown, which may be of any time.
        sources = [r.row_count for r in view.rowsets]
    else:
        sources = [r.row_count if may_match(schema, r, spec.predicates) else 0 for r in view.rowsets]
    sources += [m.row_count for m in view.memory]
    whole = spec.split_rows is None or spec.ordered or spec.changes is not None
    size = None if whole else -(-max(spec.split_rows or 1, 1) // ROW_GROUP_ROWS) * ROW_GROUP_ROWS
    tokens: list[tuple[Piece, ...]] = []
    group: list[Piece] = []
    grouped = 0
    for source, rows in enumerate(sources):
        for piece in _pieces(source, rows, size):
            if group and size is not None and grouped + piece.stop - piece.start > size:
                tokens.append(tuple(group))
                group, grouped = [], 0
            group.append(piece)
            grouped += piece.stop - piece.start
    return [*tokens, tuple(group)] if group else tokens


def even_rows(spec: ScanSpec, tokens: Sequence[int]) -> int | None:
    """Rows per token by `spec.split_evenly` of a scan whose tokens would have `tokens` rows; None if these stay as they
    are."""
    even, rows = spec.split_evenly, sum(tokens)
    if even is None or spec.split_rows is None or len(tokens) >= even.tokens or rows < even.least_rows:
        return None
    return None if even.most_rows is not None and rows > even.most_rows else max(1, rows // even.tokens)


def _pieces(source: int, rows: int, size: int | None) -> list[Piece]:
    if size is None or rows <= size:
        return [Piece(source, 0, rows)] if rows else []
    # Even parts, so that the last is not a small rest that one thread does while the others have nothing left.
    groups = -(-rows // ROW_GROUP_ROWS)
    parts = -(-rows // size)
    bounds = [min(rows, part * groups // parts * ROW_GROUP_ROWS) for part in range(parts)] + [rows]
    return [Piece(source, start, stop) for start, stop in pairwise(bounds)]


def may_match(schema: Schema, stored: StoredRowSetView, predicates: Sequence[ColumnPredicate]) -> bool:
    """True unless the bounds of its columns show that no row of the rowset satisfies all predicates.

    Bounds are of base values: if they exclude a predicate, the values that deltas set in its column are examined.
    """
    bounded = [(p, bounds) for p in predicates if (bounds := predicate_bounds(p)) is not None]
    if not bounded:
        return True
    sketches = stored.rowset.statistics()
    for predicate, (lower, upper) in bounded:
        column = schema.column(predicate.column)
        sketch = sketches.get(column.id)
        if sketch is None or sketch.low is None or not _is_outside(lower, upper, sketch.low, sketch.high):
            continue
        if schema.position(predicate.column) < schema.key_columns:
            return False  # keys never change
        patches = stored.all_patches
        if patches is None or not judge(patches, predicate, column, 0, stored.row_count).passed.any():
            return False
    return True


def _is_outside(lower: Any, upper: Any, low: Any, high: Any) -> bool:
    """True if the bounds of the values that satisfy a predicate exclude all values from `low` to `high`."""
    if isinstance(lower, (str, bytes)):
        # The bound itself may be longer than what the sketch kept of it.
        lower = lower[:_TEXT_BOUND]
    return bool((lower is not None and lower > high) or (upper is not None and upper < low))


# ---- batches -----------------------------------------------------------------------------------------------------


def scan_view(view: TabletView, pieces: Part, spec: ScanSpec, counters: ScanCounters) -> Iterator[Batch]:
    """The rows of some pieces that satisfy the spec's predicates, in batches of at most 131,072 rows."""
    if isinstance(pieces, KeyInterval):
        batches = scan_short(view, spec, pieces, counters)
    elif spec.changes is not None:
        batches = scan_changes(view, spec, counters)
    elif (interval := short_interval(view.table.schema, spec)) is not None:
        batches = scan_short(view, spec, interval, counters)
    elif spec.ordered:
        batches = scan_ordered(view, spec, partial(_scan_source, view, pieces, spec, counters))
    else:
        columns = [view.table.schema.column(name) for name in spec.columns]
        batches = chain.from_iterable(_scan_piece(view, piece, columns, spec, counters) for piece in pieces)
    for batch in batches if spec.limit is None else first_rows(batches, spec.limit):
        yield _pinned(batch, view)


def _scan_piece(
    view: TabletView, piece: Piece, columns: Sequence[ColumnSchema], spec: ScanSpec, counters: ScanCounters
) -> Iterator[Batch]:
    if piece.source >= len(view.rowsets):
        snapshot = view.memrowsets[piece.source - len(view.rowsets)]
        return snapshot.scan(columns, spec.predicates, piece.start, piece.stop, view.timestamp, counters)
    stored = view.rowsets[piece.source]
    schema = view.table.schema
    return stored.rowset.scan(
        columns, spec.predicates, piece.start, piece.stop, counters, stored.all_patches, schema, spec.ordered
    )


def _scan_source(
    view: TabletView,
    pieces: Sequence[Piece],
    spec: ScanSpec,
    counters: ScanCounters,
    source: int,
    columns: Sequence[ColumnSchema],
) -> Iterator[Batch]:
    """Everything of one source that the pieces cover; of a rowset in the order of the scan."""
    mine = [piece for piece in pieces if piece.source == source]
    if spec.descending and source < len(view.rowsets):
        return chain.from_iterable(_scan_backward(view, piece, columns, spec, counters) for piece in reversed(mine))
    return chain.from_iterable(_scan_piece(view, piece, columns, spec, counters) for piece in mine)


def _scan_backward(
    view: TabletView, piece: Piece, columns: Sequence[ColumnSchema], spec: ScanSpec, counters: ScanCounters
) -> Iterator[Batch]:
    """The rows of a piece of a rowset from its end on, in growing parts of row groups, each reversed."""
    stop, size = piece.stop, _FIRST_BACKWARD
    while stop > piece.start:
        start = max(piece.start, (stop - 1) // ROW_GROUP_ROWS * ROW_GROUP_ROWS, stop - size)
        size = min(8 * size, ROW_GROUP_ROWS)
        group = Piece(piece.source, start, stop)
        for batch in reversed(list(_scan_piece(view, group, columns, spec, counters))):
            yield batch.select(np.arange(batch.length - 1, -1, -1))
        stop = start


def first_rows(batches: Iterator[Batch], limit: int) -> Iterator[Batch]:
    """The first `limit` rows."""
    while limit > 0 and (batch := next(batches, None)) is not None:
        batch = batch.slice(0, limit)
        limit -= batch.length
        yield batch


def _pinned(batch: Batch, view: TabletView) -> Batch:
    """The same batch, holding on to the view for as long as a column may still have to be read from its files."""
    if isinstance(batch, RowBatch):
        return batch
    slots: list[Vector | LazyColumn] = [
        LazyColumn(partial(_load, slot, view), slot.selection) if isinstance(slot, LazyColumn) else slot
        for slot in batch.slots()
    ]
    return Batch(slots, batch.length)


def _load(slot: LazyColumn, view: TabletView, selection: Array | None) -> Vector:
    return slot.get() if selection is None else slot.select(selection, selection).get()


# ---- statistics for the planner --------------------------------------------------------------------------------------


def tablet_tokens(tablet: Tablet, spec: ScanSpec, timestamp: int) -> list[tuple[TabletView, Part, int]]:
    """(view, part, rows before predicates) of each token of a tablet."""
    view = tablet.view(timestamp)
    if spec.changes is not None:
        tablet.check_history(spec.changes.since)
    elif (interval := short_interval(view.table.schema, spec)) is not None:
        if not view.memory and not any(interval.meets(rowset.metadata) for rowset in view.rowsets):
            return []
        rows = sum(rowset.row_count for rowset in view.rowsets) + sum(m.row_count for m in view.memory)
        return [(view, interval, min(rows, spec.limit or 0))]
    return cut_tokens(view, spec)


def cut_tokens(view: TabletView, spec: ScanSpec) -> list[tuple[TabletView, Part, int]]:
    """The tokens of `tablet_tokens` that `cut` makes of a view."""
    return [(view, pieces, sum(p.stop - p.start for p in pieces)) for pieces in cut(view, spec)]

"""Reading a tablet: cutting a view into tokens, and a token into batches.

A token holds the `TabletView` it was cut from. So a token reads the same rows whenever it is read: a flush in between
replaces the tablet's state, not the view's, whose MemRowSet and rowsets stay in memory and on disk as long as a
token, a scan or a batch refers to them. The tokens of one call share one view per tablet; together they cover each
row exactly once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np

from .column_file import ROW_GROUP_ROWS
from .predicate_eval import evaluate
from .predicates import BitmapFilter, ColumnPredicate, InList, Range
from .schema import ColumnSchema, Schema, Table
from .store import ScanCounters, ScanSpec
from .tablet import StoredRowSet, Tablet, TabletView
from .vector import Array, Batch, LazyColumn, Vector

_TEXT_BOUND = 64
"""Bounds of texts in sketches are cut after so many characters."""


@dataclass(frozen=True, slots=True)
class Piece:
    """Rows `start` to `stop` (exclusive) of one rowset of a view, or of one of its MemRowSets."""

    source: int
    """Place among the view's rowsets, followed by its MemRowSets."""
    start: int
    stop: int


# ---- tokens ------------------------------------------------------------------------------------------------------


def cut(view: TabletView, spec: ScanSpec) -> list[tuple[Piece, ...]]:
    """What the tokens of a tablet cover: about `spec.split_rows` rows each, all in one where that is None.

    Rowsets whose statistics rule out a predicate are left out. Pieces are cut at multiples of 131,072 rows.
    """
    schema = view.table.schema
    sources = [r.rowset.row_count if may_match(schema, r, spec.predicates) else 0 for r in view.rowsets]
    sources += [m.row_count for m in view.memrowsets]
    size = None if spec.split_rows is None else -(-max(spec.split_rows, 1) // ROW_GROUP_ROWS) * ROW_GROUP_ROWS
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


def _pieces(source: int, rows: int, size: int | None) -> list[Piece]:
    if size is None or rows <= size:
        return [Piece(source, 0, rows)] if rows else []
    # Even parts, so that the last is not a small rest that one thread does while the others have nothing left.
    groups = -(-rows // ROW_GROUP_ROWS)
    parts = -(-rows // size)
    bounds = [min(rows, part * groups // parts * ROW_GROUP_ROWS) for part in range(parts)] + [rows]
    return [Piece(source, start, stop) for start, stop in pairwise(bounds)]


def may_match(schema: Schema, stored: StoredRowSet, predicates: Sequence[ColumnPredicate]) -> bool:
    """Could some row of the rowset satisfy all predicates, as far as its columns' bounds tell?"""
    if not any(isinstance(p, (Range, InList, BitmapFilter)) for p in predicates):
        return True
    sketches = stored.rowset.statistics()
    for predicate in predicates:
        sketch = sketches.get(schema.column(predicate.column).id)
        if sketch is not None and sketch.low is not None and _is_outside(predicate, sketch.low, sketch.high):
            return False
    return True


def _is_outside(predicate: ColumnPredicate, low: Any, high: Any) -> bool:
    if isinstance(predicate, Range):
        lower, upper = predicate.lower, predicate.upper
    elif isinstance(predicate, InList) and predicate.values:
        lower, upper = predicate.values[0], predicate.values[-1]
    elif isinstance(predicate, BitmapFilter):
        lower, upper = predicate.base, predicate.base + len(predicate.bits) - 1
    else:
        return False
    if isinstance(lower, (str, bytes)):
        # The bound itself may be longer than what the sketch kept of it.
        lower = lower[:_TEXT_BOUND]
    return bool((lower is not None and lower > high) or (upper is not None and upper < low))


# ---- batches -----------------------------------------------------------------------------------------------------


def scan_view(view: TabletView, pieces: Sequence[Piece], spec: ScanSpec, counters: ScanCounters) -> Iterator[Batch]:
    """The rows of some pieces that satisfy the spec's predicates, in batches of at most 131,072 rows."""
    schema = view.table.schema
    columns = [schema.column(name) for name in spec.columns]
    for piece in pieces:
        if piece.source >= len(view.rowsets):
            snapshot = view.memrowsets[piece.source - len(view.rowsets)]
            yield from snapshot.scan(columns, spec.predicates, piece.start, piece.stop, view.timestamp, counters)
            continue
        stored = view.rowsets[piece.source]
        visible = stored.visible_rows(view.timestamp, view.table.name)
        if visible is None:
            batches = stored.rowset.scan(columns, spec.predicates, piece.start, piece.stop, counters)
        else:
            batches = _scan_visible(stored, columns, spec.predicates, piece, visible, view.table, counters)
        for batch in batches:
            yield _pinned(batch, view)


def _scan_visible(
    stored: StoredRowSet,
    columns: Sequence[ColumnSchema],
    predicates: Sequence[ColumnPredicate],
    piece: Piece,
    visible: Array,
    table: Table,
    counters: ScanCounters,
) -> Iterator[Batch]:
    """A rowset at a snapshot that does not see all of its rows: rare, and soon over."""
    extra = [table.schema.column(p.column) for p in predicates]
    row = piece.start
    counted = ScanCounters()
    for whole in stored.rowset.scan([*columns, *extra], (), piece.start, piece.stop, counted):
        rows = np.flatnonzero(visible[row : row + whole.length])
        row += whole.length
        batch = whole.select(rows)
        for place, predicate in enumerate(predicates, len(columns)):
            batch = batch.select(evaluate(predicate, batch.column(place)))
        if batch.length:
            counted.rows_returned += batch.length - whole.length
            yield batch.project(range(len(columns)))
        else:
            counted.rows_returned -= whole.length
    counters.add(counted)


def _pinned(batch: Batch, view: TabletView) -> Batch:
    """The same batch, holding on to the view for as long as a column may still have to be read from its files."""
    slots: list[Vector | LazyColumn] = [
        LazyColumn(partial(_load, slot, view), slot.selection) if isinstance(slot, LazyColumn) else slot
        for slot in batch.slots()
    ]
    return Batch(slots, batch.length)


def _load(slot: LazyColumn, view: TabletView, selection: Array | None) -> Vector:
    return slot.get() if selection is None else slot.select(selection, selection).get()


# ---- what the planner wants to know ------------------------------------------------------------------------------


def tablet_tokens(tablet: Tablet, spec: ScanSpec, timestamp: int) -> list[tuple[TabletView, tuple[Piece, ...], int]]:
    """(view, pieces, rows before predicates) of each token of a tablet."""
    view = tablet.view(timestamp)
    return [(view, pieces, sum(p.stop - p.start for p in pieces)) for pieces in cut(view, spec)]

"""Routing of rows: the tablet of each row, and pieces that fit into one message.

WriteBatch ─ incoming, row_errors ─► rows of the table's types ─ route ─► one `Part` per tablet ─ cut ─► `Piece`s

Errors of a batch or a row that do not depend on the table's content are detected here, with the embedded store's own
code and messages. The tablets report those that depend on existing rows.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from ....model.keys.keys import Keys
from ....model.lazy_dataclass import dataclass
from ....model.store import Op, RowError, Timestamp, WriteBatch
from ....model.vectors.vector import Array
from ....storage.writing.by_tablet import spans
from ....storage.writing.incoming_rows import (
    IncomingRows,
    incoming,
    incomplete_rows,
    no_partition,
    row_errors,
    rows_without,
)
from ..catalog.catalog_cache import KnownTable

PIECE_BYTES = 4 << 20
"""Bytes of Arrow data in one request: half of a message's limit."""
PIECE_ROWS = 1 << 17
_REFUSABLE = np.zeros(max(Op) + 1, np.bool_)
_REFUSABLE[[Op.INSERT, Op.UPDATE, Op.DELETE]] = True
_ADDING = np.zeros(max(Op) + 1, np.bool_)
_ADDING[[Op.INSERT_IGNORE, Op.UPSERT, Op.UPSERT_IGNORE]] = True


@dataclass(frozen=True, slots=True, eq=False)
class Piece:
    """Rows for one tablet that are sent together.

    Parameters
    ----------
    tablet_id : str
    batch : WriteBatch
        Only the columns that the rows give, of the table's types.
    numbers : ndarray of intp, shape (n_rows,)
        The rows' numbers in the caller's batch.
    """

    tablet_id: str
    batch: WriteBatch
    numbers: Array


@dataclass(frozen=True, slots=True, eq=False)
class Routed:
    """A batch by tablet.

    Parameters
    ----------
    pieces : list of Piece
        In the order of tablets. All rows of a key are in one piece, in their order, so that pieces may be sent in
        parallel.
    errors : list of RowError
        Errors of rows that do not depend on the table's content; these rows are in no piece.
    is_refusable : bool
        True if the tablets may refuse rows.
    """

    pieces: list[Piece]
    errors: list[RowError]
    is_refusable: bool


def route(known: KnownTable, batch: WriteBatch) -> Routed:
    """Routes the rows of a batch to their tablets.

    Raises errors of the batch as a whole: `UnknownColumn`, `TypeMismatch`, `NotNullViolation` (a key column is
    missing), `NumericOutOfRange`.
    """
    table = known.table
    rows = incoming(table, batch)
    errors = row_errors(table, rows)
    numbers = rows_without(len(rows), errors)
    rows = rows.take(numbers)
    if not len(rows):
        return Routed([], errors, False)
    places = known.partitioner.route(rows.rows)
    for row in np.flatnonzero(places < 0).tolist():
        errors.append(RowError(int(numbers[row]), no_partition(table, known.partitioner, rows.rows, row)))
    errors.sort(key=lambda error: error.row)
    pieces: list[Piece] = []
    for tablet_id, part, mine in _parts(known, rows, numbers, places):
        keys = None if _fits(part.rows) else Keys.from_rows(table.schema, part.rows)
        key_starts = None
        if keys is not None and len(keys.duplicates()):
            order = keys.order()
            part, mine, key_starts = _taken(part, order), mine[order], _key_starts(keys.take(order))
        pieces += _pieces(tablet_id, part, mine, key_starts, batch.all_or_none)
    return Routed(pieces, errors, _is_refusable(known, rows))


def _parts(
    known: KnownTable, rows: IncomingRows, numbers: Array, places: Array
) -> Iterator[tuple[str, IncomingRows, Array]]:
    """Returns the rows by tablet: one stable sort by a small integer, one copy, of which the tablets get slices."""
    low, high = int(places.min()), int(places.max())
    if low == high:
        if low >= 0:
            yield known.tablet_ids[low], rows, numbers
        return
    order, row_spans = spans(places)
    sorted_rows, sorted_numbers = _taken(rows, order), numbers[order]
    for place, start, stop in row_spans:
        yield known.tablet_ids[place], _slice(sorted_rows, start, stop), sorted_numbers[start:stop]


def _taken(rows: IncomingRows, order: Array) -> IncomingRows:
    given = tuple(mask if isinstance(mask, bool) else mask[order] for mask in rows.given)
    return IncomingRows(rows.rows.take(pa.array(order)), given, rows.ops[order], rows.unchanged_since)


def _slice(rows: IncomingRows, start: int, stop: int) -> IncomingRows:
    given = tuple(mask if isinstance(mask, bool) else mask[start:stop] for mask in rows.given)
    return IncomingRows(rows.rows.slice(start, stop - start), given, rows.ops[start:stop], rows.unchanged_since)


# ---- pieces ----------------------------------------------------------------------------------------------------------


def _fits(rows: pa.RecordBatch) -> bool:
    return bool(rows.num_rows <= PIECE_ROWS and rows.nbytes <= PIECE_BYTES)


def _key_starts(keys: Keys) -> Array:
    """Returns the positions at which a new key begins, of ordered keys: ndarray of intp."""
    is_first = np.ones(len(keys), np.bool_)
    is_first[keys.duplicates()] = False
    return np.flatnonzero(is_first)


def _pieces(
    tablet_id: str, rows: IncomingRows, numbers: Array, key_starts: Array | None, all_or_none: bool
) -> Iterator[Piece]:
    for start, stop in cut(_given(rows), 0, len(rows), key_starts):
        yield Piece(tablet_id, message_batch(rows, start, stop, all_or_none), numbers[start:stop])


def _given(rows: IncomingRows) -> pa.RecordBatch:
    """Returns the rows with the columns that some of them give."""
    return rows.rows.select([field.name for field, given in zip(rows.rows.schema, rows.given) if given is not False])


def message_batch(rows: IncomingRows, start: int, stop: int, all_or_none: bool) -> WriteBatch:
    """Returns rows from `start` to `stop` (exclusive) as a batch of the columns that some of all rows give."""
    isset = {
        field.name: mask[start:stop] for field, mask in zip(rows.rows.schema, rows.given) if not isinstance(mask, bool)
    }
    since = None if rows.unchanged_since is None else Timestamp(rows.unchanged_since)
    sent = _given(rows).slice(start, stop - start)
    return WriteBatch(sent, _ops(rows.ops[start:stop]), all_or_none, isset, since)


def message_batches(rows: IncomingRows, all_or_none: bool) -> list[WriteBatch]:
    """Returns rows as batches that fit into a message each, in their order; none if there are no rows."""
    if not len(rows):
        return []
    return [message_batch(rows, start, stop, all_or_none) for start, stop in cut(_given(rows), 0, len(rows))]


def cut(rows: pa.RecordBatch, start: int, stop: int, places: Array | None = None) -> Iterator[tuple[int, int]]:
    """Yields parts of some rows that fit into a message each, halved as often as needed; only at `places` (ascending
    row numbers), if these are given. A single row is not divided."""
    if not _fits(rows.slice(start, stop - start)):
        middle = (start + stop) // 2
        if places is not None:
            after = int(np.searchsorted(places, middle))
            near = [int(place) for place in places[max(0, after - 1) : after + 1] if start < place < stop]
            middle = min(near, key=lambda place: abs(place - middle), default=start)
        if start < middle < stop:
            yield from cut(rows, start, middle, places)
            yield from cut(rows, middle, stop, places)
            return
    yield start, stop


def _ops(ops: Array) -> Op | Array:
    first = ops[0]
    return Op(int(first)) if (ops == first).all() else ops


def _is_refusable(known: KnownTable, rows: IncomingRows) -> bool:
    """True if the tablets may refuse some of the rows; False if the result does not depend on existing rows."""
    if rows.unchanged_since is not None or _REFUSABLE[rows.ops].any():
        return True
    table = known.table
    if _ADDING[rows.ops].any() and incomplete_rows(table, rows.given, len(rows)) is not None:
        return True
    changes_immutable = any(
        column.immutable and given is not False for column, given in zip(table.schema.columns, rows.given)
    )
    return changes_immutable and bool((rows.ops == Op.UPSERT).any())

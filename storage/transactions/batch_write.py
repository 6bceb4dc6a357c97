"""Batches written in a transaction: resolved against the store and the own rows, as a tablet does; see `OwnRun`."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa

from ...model.arrow_arrays import arrow_array
from ...model.keys.keys import Keys
from ...model.lazy_dataclass import dataclass
from ...model.store import Op, RowError, WriteBatch, WriteResult
from ...model.vectors.vector import Array
from ..writing.incoming_rows import (
    IncomingRows,
    incoming,
    incomplete_rows,
    no_partition,
    row_errors,
    rows_without,
)
from ..writing.op_resolution import Given, OpBatch, Resolution, resolve_ops
from ..writing.refused_rows import refused_rows
from .gathering import gathered
from .own_rows import NOTHING, OwnRows, OwnVersion
from .own_run import OwnRun, Presence

_UPSERTS = (Op.UPSERT, Op.UPSERT_IGNORE)


@dataclass(frozen=True, slots=True, eq=False)
class _Known:
    """State of a batch's keys before it.

    Parameters
    ----------
    which, row : ndarray of int64, shape (n_rows,)
        Of the own entries: `OwnVersion.find`.
    base : ndarray of uint8, shape (n_rows,)
        `Presence` in the store.
    present : ndarray of bool, shape (n_rows,)
        The transaction sees a row; False also for keys of which nothing is known.
    looked_up : ndarray of intp
        The rows whose keys were looked up in the store.
    """

    which: Array
    row: Array
    base: Array
    present: Array
    looked_up: Array


def write_batch(
    own: OwnRows,
    batch: WriteBatch,
    take_numbers: Callable[[int, int], int],
    note_read: Callable[[Keys], None] | None,
) -> WriteResult:
    """Apply a batch to the own rows of its table; the transaction's lock is held.

    Parameters
    ----------
    own : OwnRows
    batch : WriteBatch
        Its `unchanged_since` has no meaning here.
    take_numbers : callable
        `(partition, count)`: returns the first of `count` numbers for the AUTO_INCREMENT column.
    note_read : callable, optional
        Receives the keys that were looked up in the store and are not written: the result relies on them.
    """
    table = own.context.table
    rows = incoming(table, batch)
    errors = row_errors(table, rows)
    numbers = rows_without(len(rows), errors)
    rows = rows.take(numbers)
    rows, numbers, is_numbered = _routed(own, rows, numbers, errors, take_numbers)
    keys = Keys.from_rows(table.schema, rows.rows)
    is_blind = _are_whole_upserts(own, rows)
    version = NOTHING if is_blind else own.version()
    known = _known(own, version, rows, keys, is_numbered, is_blind)
    values = slice(table.schema.key_columns, None)
    resolution = resolve_ops(
        OpBatch(
            keys=keys,
            ops=rows.ops,
            given=rows.given[values],
            immutable=[column.immutable for column in table.schema.columns[values]],
            incomplete=incomplete_rows(table, rows.given, len(rows)),
        ),
        known.present,
    )
    errors += refused_rows(table, rows.given, keys, resolution.refusals, known.present, numbers)
    errors.sort(key=lambda error: error.row)
    is_refused = batch.all_or_none and bool(errors)
    changed = np.concatenate([resolution.inserts, resolution.updates, resolution.deletes])
    if note_read is not None:
        unwritten = known.looked_up if is_refused else np.setdiff1d(known.looked_up, changed)
        if len(unwritten):
            note_read(keys.take(unwritten))
    if is_refused:
        return WriteResult(0, tuple(errors), own.base.snapshot)
    if len(changed):
        own.add(_run(own, version, rows, known, resolution, changed))
    return WriteResult(resolution.applied, tuple(errors), own.base.snapshot)


def _routed(
    own: OwnRows,
    rows: IncomingRows,
    numbers: Array,
    errors: list[RowError],
    take_numbers: Callable[[int, int], int],
) -> tuple[IncomingRows, Array, Array | None]:
    """The rows that have a partition, with their AUTO_INCREMENT numbers; which of them got one (None: none)."""
    context = own.context
    table = context.table
    if not len(rows) or not (context.has_ranges or table.schema.auto_increment):
        return rows, numbers, None
    places = context.partitioner.route(rows.rows)
    outside = np.flatnonzero(places < 0)
    for row in outside.tolist():
        errors.append(RowError(int(numbers[row]), no_partition(table, context.partitioner, rows.rows, row)))
    if len(outside):
        kept = np.flatnonzero(places >= 0)
        rows, numbers, places = rows.take(kept), numbers[kept], places[kept]
    if not table.schema.auto_increment:
        return rows, numbers, None
    is_numbered = ~np.broadcast_to(rows.given[table.schema.key_columns - 1], len(rows))
    return _numbered(own, rows, places, is_numbered, take_numbers), numbers, is_numbered


def _numbered(
    own: OwnRows, rows: IncomingRows, places: Array, is_numbered: Array, take_numbers: Callable[[int, int], int]
) -> IncomingRows:
    found = np.unique(places[is_numbered]).tolist()
    if not found:
        return rows
    taken = np.empty(np.count_nonzero(is_numbered), np.int64)
    for place in found:
        mine = np.flatnonzero(places[is_numbered] == place)
        first = take_numbers(place, len(mine))
        taken[mine] = np.arange(first, first + len(mine))
    schema = own.context.table.schema
    place = schema.key_columns - 1
    column = rows.rows.column(place).to_numpy().copy()
    column[is_numbered] = taken
    numbered = rows.rows.set_column(place, rows.rows.schema.field(place), arrow_array(column))
    return IncomingRows(numbered, rows.given, rows.ops)


def _known(
    own: OwnRows, version: OwnVersion, rows: IncomingRows, keys: Keys, is_numbered: Array | None, is_blind: bool
) -> _Known:
    which, row = version.find(keys)
    base = np.full(len(keys), Presence.UNKNOWN, np.uint8)
    present = np.zeros(len(keys), np.bool_)
    for number, run in enumerate(version.runs):
        mine = np.flatnonzero(which == number)
        base[mine] = run.base[row[mine]]
        present[mine] = ~run.is_deleted[row[mine]]
    looked_up = np.empty(0, np.intp)
    if not is_blind:
        lacking = which < 0
        if is_numbered is not None:
            base[is_numbered & lacking] = Presence.ABSENT
            lacking &= ~is_numbered
        looked_up = np.flatnonzero(lacking)
        if len(looked_up):
            found = own.base.present(keys if len(looked_up) == len(keys) else keys.take(looked_up))
            base[looked_up] = np.where(found, Presence.PRESENT, Presence.ABSENT)
            present[looked_up] = found
    return _Known(which, row, base, present, looked_up)


def _are_whole_upserts(own: OwnRows, rows: IncomingRows) -> bool:
    """True if the outcome depends neither on the store nor on earlier entries: rows of all columns, which replace any
    others."""
    context = own.context
    if context.immutable or not np.isin(rows.ops, _UPSERTS).all():
        return False
    return all(given is True for given in rows.given[context.table.schema.key_columns :])


def _run(
    own: OwnRows, version: OwnVersion, rows: IncomingRows, known: _Known, resolution: Resolution, changed: Array
) -> OwnRun:
    """The entries of the changed keys."""
    schema = own.context.table.schema
    width = schema.key_columns
    inserted, deleted = len(resolution.inserts), len(resolution.deletes)
    which = known.which[changed]
    # What an UPDATE does not set, an earlier entry may have set.
    carries = np.zeros(len(changed), np.bool_)
    carries[inserted : len(changed) - deleted] = which[inserted : len(changed) - deleted] >= 0
    arrays: list[pa.Array] = []
    isset: list[Given] = []
    nothing = np.full(deleted, -1)
    is_all = len(changed) == len(rows) and bool((changed == np.arange(len(rows))).all())
    for place in range(len(schema.columns)):
        if is_all and (place < width or _are_given(resolution, place - width)):
            # A copy: the caller may go on to change arrays under its own batch.
            values = rows.rows.column(place)
            arrays.append(pa.concat_arrays([values, values.slice(0, 0)]))
            isset.append(True)
            continue
        if place < width:
            source = changed
        else:
            number = place - width
            source = np.concatenate([resolution.insert_sources[number], resolution.update_sources[number], nothing])
        is_set = source >= 0
        carried = ~is_set & carries
        if carried.any():
            array, is_set = _with_earlier(version, known, rows.rows.column(place), place, source, carried, changed)
        else:
            array = _taken(rows.rows.column(place), source, is_set)
        arrays.append(array)
        isset.append(True if is_set.all() else is_set if is_set.any() else False)
    is_deleted = np.zeros(len(changed), np.bool_)
    is_deleted[len(changed) - deleted :] = True
    batch = pa.RecordBatch.from_arrays(arrays, schema=schema.arrow)
    return OwnRun(own.context.table, batch, isset, known.base[changed], is_deleted)


def _are_given(resolution: Resolution, number: int) -> bool:
    """True if each changed row gives a value column itself."""
    inserts, updates = resolution.insert_sources[number], resolution.update_sources[number]
    return not len(resolution.deletes) and inserts is resolution.inserts and updates is resolution.updates


def _taken(values: pa.Array, source: Array, is_set: Array) -> pa.Array:
    """Some cells; NULL where the source is -1."""
    return values.take(arrow_array(source, mask=None if is_set.all() else ~is_set))


def _with_earlier(
    version: OwnVersion, known: _Known, values: pa.Array, place: int, source: Array, carried: Array, changed: Array
) -> tuple[pa.Array, Array]:
    """The cells of a column, those carried from earlier entries, and which of them are set."""
    which, row = known.which[changed], known.row[changed]
    is_set = source >= 0
    for number, run in enumerate(version.runs):
        mine = np.flatnonzero(carried & (which == number))
        is_set[mine] = run.is_set(place)[row[mine]]
    cells = [values, *(run.rows.column(place) for run in version.runs)]
    taken_from = np.where(source >= 0, 0, np.where(carried & is_set, which + 1, -1))
    return gathered(cells, taken_from, np.where(source >= 0, source, np.maximum(row, 0)), values.type), is_set

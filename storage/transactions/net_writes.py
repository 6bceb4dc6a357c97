"""Net changes of a transaction: the newest entry of each key in a `TableWrite`, as columns or as rows."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ...model.arrow_arrays import arrow_array
from ...model.store import Op, TableWrite, WriteBatch
from ...model.vectors.vector import Array
from ..single_rows.row_changes import RowChange, RowChanges
from ..single_rows.row_codec import MISSING
from ..writing.tablet_part import are_few
from .own_rows import OwnRows, OwnVersion
from .own_run import OwnRun, Presence

_OPS = (
    (Presence.ABSENT, False, Op.INSERT),
    (Presence.PRESENT, False, Op.UPDATE),
    (Presence.UNKNOWN, False, Op.UPSERT),
    (Presence.PRESENT, True, Op.DELETE),
    (Presence.UNKNOWN, True, Op.DELETE_IGNORE),
)


def net_changes(own: OwnRows) -> Iterator[TableWrite]:
    """The net changes of a table: as rows while they have not been needed as columns."""
    if own.runs or not are_few(len(own.singles.entries), 0):
        yield from net_writes(own.version())
    elif (changes := net_rows(own)) is not None:
        yield changes


def net_rows(own: OwnRows) -> RowChanges | None:
    """The net changes of a table that has single entries and no runs; None if nothing is changed. As `net_writes`."""
    context = own.context
    codec, columns = context.codec, context.table.schema.columns
    width = codec.key_columns
    rows: list[RowChange] = []
    for index, entry in own.singles.entries.items():
        base, stored, key = entry
        if stored is None:
            if base != Presence.ABSENT:
                op = Op.DELETE if base == Presence.PRESENT else Op.DELETE_IGNORE
                names = [columns[place].type.to_python(value) for place, value in enumerate(key)]
                rows.append(RowChange(op, [*names, *codec.nothing[width:]], key, index))
        elif base == Presence.PRESENT:
            again = any(stored[place] is not MISSING for place in context.immutable)
            rows.append(RowChange(Op.UPDATE, stored, key, index, again))
        else:
            is_insert = base == Presence.ABSENT and codec.number is None
            rows.append(RowChange(Op.INSERT if is_insert else Op.UPSERT, stored, key, index))
    return RowChanges(context.table, rows, own.singles.nbytes) if rows else None


def net_writes(version: OwnVersion) -> Iterator[TableWrite]:
    """The net changes of a table, in the order in which they are to be made; a key that was absent and is deleted
    changes nothing.

    A row that is deleted and inserted again may change IMMUTABLE columns: it is a DELETE, then an INSERT. An INSERT
    must leave AUTO_INCREMENT numbers to the store, so that rows with numbers are an UPSERT.
    """
    for run, current in zip(version.runs, version.current):
        for base, is_deleted, op in _OPS:
            rows = np.flatnonzero(current & (run.base == base) & (run.is_deleted == is_deleted))
            if op is Op.UPDATE and len(again := rows[_are_reinserted(run)[rows]]):
                yield _write(run, again, Op.DELETE)
                yield _write(run, again, Op.INSERT)
                rows = np.setdiff1d(rows, again)
            if op is Op.INSERT and run.table.schema.auto_increment is not None:
                op = Op.UPSERT
            if len(rows):
                yield _write(run, rows, op)


def _are_reinserted(run: OwnRun) -> Array:
    """The rows that set an IMMUTABLE column: ndarray of bool, shape (n_rows,)."""
    found = np.zeros(len(run), np.bool_)
    for place, column in enumerate(run.table.schema.columns):
        if column.immutable:
            found |= run.is_set(place)
    return found


def _write(run: OwnRun, rows: Array, op: Op) -> TableWrite:
    schema = run.table.schema
    names: list[str] = []
    isset: dict[str, Array] = {}
    for place, column in enumerate(schema.columns):
        is_key = place < schema.key_columns
        if is_key or op in (Op.INSERT, Op.UPSERT):
            names.append(column.name)
        elif op is Op.UPDATE:
            mask = run.is_set(place)[rows]
            if mask.any():
                names.append(column.name)
                if not mask.all():
                    isset[column.name] = mask
    batch = run.rows.select(names)
    if len(rows) < len(run):
        batch = batch.take(arrow_array(rows))
    return TableWrite(run.table, WriteBatch(batch, op, all_or_none=True, isset=isset))

"""Restores a tablet's rows as of a time from its backups: a merge by key in which the last row wins.

    rows at t1, by key     a1    c1       e1       k1
    changes up to t        a: update      e: delete     z: insert       (the last one of each key)
                           ─────────────────────────────────────────
    rows at t              a2    c1                k1   z1

Rows are read a batch at a time, in key order; only the changes are kept in memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..model.keys.keys import Keys, search_encoded
from ..model.schema import ColumnSchema, Table
from ..model.store import CHANGE_COLUMN, CHANGED_AT_COLUMN, Timestamp

_HYBRID_TIME = pa.decimal128(20)
"""Holds every hybrid timestamp: in tables of changes, BIGINT and DECIMAL, see `model.change_columns`."""


def fold(
    definition: Table, rows: Iterable[pa.RecordBatch], changes: Sequence[pa.Table], at: Timestamp
) -> Iterator[pa.RecordBatch]:
    """The rows of a tablet as of a time.

    Parameters
    ----------
    definition : Table
        The target definition: all batches have its columns (`conformed`).
    rows : iterable of pa.RecordBatch
        An earlier state, ascending by primary key.
    changes : sequence of pa.Table
        The changes since, in the order of time; with the columns `_change` and `_changed_at` after the table's.
    at : Timestamp
        Later changes are ignored.

    Yields
    ------
    pa.RecordBatch
        Ascending by primary key, never empty.
    """
    latest = _latest(definition, changes, at)
    encoded = Keys.from_rows(definition.schema, latest).encoded()
    done = 0
    for batch in rows:
        if not batch.num_rows:
            continue
        last = Keys.from_rows(definition.schema, batch.slice(batch.num_rows - 1)).encoded()
        end = int(search_encoded(encoded, last, right=True)[0])
        yield from _existing(_merged(definition, batch, latest.slice(done, end - done)))
        done = end
    for batch in latest.slice(done).to_batches():
        yield from _existing(batch)


def _latest(definition: Table, changes: Sequence[pa.Table], at: Timestamp) -> pa.Table:
    """The last change of each key up to a time, by key; without `_changed_at`."""
    schema = definition.schema.arrow.append(pa.field(CHANGE_COLUMN, pa.string()))
    moment = pa.scalar(int(at), _HYBRID_TIME)
    parts = [
        table.filter(pc.less_equal(table[CHANGED_AT_COLUMN].cast(_HYBRID_TIME), moment)).select(schema.names)
        for table in changes
    ]
    joined = pa.concat_tables([pa.Table.from_batches([], schema), *(part.cast(schema) for part in parts)])
    return joined.take(_last_of_each_key(definition, joined)) if joined.num_rows else joined


def _merged(definition: Table, batch: pa.RecordBatch, changed: pa.Table) -> pa.RecordBatch:
    """Rows and changes of the same span of keys, by key; a change replaces the row."""
    if not changed.num_rows:
        return batch
    unchanged = pa.nulls(batch.num_rows, pa.string())
    before = pa.Table.from_arrays([*batch.columns, unchanged], schema=changed.schema)
    joined = pa.concat_tables([before, changed]).combine_chunks()
    return joined.take(_last_of_each_key(definition, joined)).combine_chunks().to_batches()[0]


def _last_of_each_key(definition: Table, rows: pa.Table) -> pa.Array:
    """The positions of the last row of each key, in key order."""
    keys = Keys.from_rows(definition.schema, rows)
    order = keys.order()  # equal keys stay in row order
    ordered = keys.take(order).encoded()
    is_last = np.ones(len(order), np.bool_)
    if len(order) > 1:
        is_last[:-1] = pc.not_equal(ordered[:-1], ordered[1:]).to_numpy(zero_copy_only=False)
    return pa.array(order[is_last])


def _existing(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """The batch without deleted rows, in the table's columns."""
    if CHANGE_COLUMN in batch.schema.names:
        there = pc.fill_null(pc.not_equal(batch[CHANGE_COLUMN], "delete"), True)
        batch = batch.filter(there).drop_columns([CHANGE_COLUMN])
    if batch.num_rows:
        yield batch


# ---- columns of other days -------------------------------------------------------------------------------------------


def conformed(batch: pa.RecordBatch, saved: Table, wanted: Table, extra: Sequence[str] = ()) -> pa.RecordBatch:
    """Converts rows saved under one definition of a table to the columns of a later one.

    Columns are matched by their permanent ids: renamed ones are found, dropped ones left out, and columns added since
    have the value that the table returns for older rows. `extra` columns are kept unchanged.
    """
    names = {column.id: column.name for column in saved.schema.columns}
    arrays = [
        batch[names[column.id]].cast(column.type.arrow) if column.id in names else _initial(column, batch.num_rows)
        for column in wanted.schema.columns
    ]
    fields = [*wanted.schema.arrow, *(batch.schema.field(name) for name in extra)]
    return pa.RecordBatch.from_arrays([*arrays, *(batch[name] for name in extra)], schema=pa.schema(fields))


def _initial(column: ColumnSchema, rows: int) -> Any:
    if column.initial is None:
        return pa.nulls(rows, column.type.arrow)
    return pa.repeat(pa.scalar(column.type.to_python(column.initial), column.type.arrow), rows)

"""Changes of single rows, as `rows_write` writes them: net changes of a transaction, or the rows of a small batch."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from ...errors import Error
from ...model.arrow_arrays import arrow_array
from ...model.schema import Table
from ...model.store import Op, TableWrite, WriteBatch
from .row_codec import MISSING, RowCodec
from .row_rules import RULES, BatchPathNeeded, prepare_row

ROW_BYTES = 200
"""About the memory that a row takes besides its long texts."""


class RowChange(NamedTuple):
    """One op on one key.

    Parameters
    ----------
    op : Op
    stored : list
        Values as `RowCodec.take` returns them, `MISSING` where a cell is not set; of deletions the key's alone.
    key : tuple
        Physical values of the key.
    index_key : int or bytes
        `KeyCodec.index_key` of them.
    replaces : bool
        Of an UPDATE of all columns: the row is deleted and inserted again, which may change IMMUTABLE columns.
    """

    op: Op
    stored: list[Any]
    key: tuple[Any, ...]
    index_key: int | bytes
    replaces: bool = False


class RowChanges(TableWrite):
    """The net changes of a transaction to one table, as rows; as a batch only where that is needed.

    Parameters
    ----------
    table : Table
    rows : sequence of RowChange
        Of distinct keys.
    nbytes : int
        About the bytes of long texts.
    """

    def __init__(self, table: Table, rows: Sequence[RowChange], nbytes: int):
        super().__init__(table)
        self.rows = rows
        self._nbytes = nbytes

    @property
    def row_count(self) -> int:
        return len(self.rows)

    @property
    def nbytes(self) -> int:
        return self._nbytes + ROW_BYTES * len(self.rows)

    @cached_property
    def batch(self) -> WriteBatch:
        rows: list[tuple[Op, list[Any]]] = []
        key_columns = self.table.schema.key_columns
        for row in self.rows:
            if row.replaces:
                nothing = [MISSING] * (len(row.stored) - key_columns)
                rows += [(Op.DELETE, [*row.stored[:key_columns], *nothing]), (Op.INSERT, row.stored)]
            else:
                rows.append((row.op, row.stored))
        names: list[str] = []
        arrays: list[pa.Array] = []
        isset: dict[str, np.ndarray[Any, Any]] = {}
        for place, column in enumerate(self.table.schema.columns):
            array, is_set = cells([stored for _, stored in rows], place, column.type.arrow)
            if is_set is not None and not is_set.any():
                continue
            names.append(column.name)
            arrays.append(array)
            if is_set is not None:
                isset[column.name] = is_set
        fields = [self.table.schema.arrow.field(name) for name in names]
        batch = pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))
        ops = np.array([op for op, _ in rows], np.uint8)
        return WriteBatch(batch, ops, all_or_none=True, isset=isset)


def cells(
    rows: Sequence[Sequence[Any]], place: int, type_: pa.DataType
) -> tuple[pa.Array, np.ndarray[Any, Any] | None]:
    """A column of some rows of stored values, NULL where a cell is `MISSING`; which cells are set, None for all."""
    values = [row[place] for row in rows]
    if MISSING not in values:
        return arrow_array(values, type_), None
    is_set = np.array([value is not MISSING for value in values], np.bool_)
    return arrow_array([None if value is MISSING else value for value in values], type_), is_set


def rows_of(codec: RowCodec, batch: WriteBatch) -> list[RowChange]:
    """The rows of a small batch; `BatchPathNeeded` if a row is invalid, or a key is repeated, or numbered by the
    store."""
    count, names = batch.rows.num_rows, batch.rows.schema.names
    if codec.number is not None or len(set(names)) < len(names) or not batch.isset.keys() <= set(names):
        raise BatchPathNeeded
    for name, type_ in zip(names, batch.rows.schema.types):
        if name not in codec.table.schema.names or codec.columns[codec.place(name)].schema.type.arrow != type_:
            raise BatchPathNeeded
    values = [column.to_pylist() for column in batch.rows.columns]
    for place, name in enumerate(names):
        if name in batch.isset:
            mask = np.asarray(batch.isset[name]).tolist()
            values[place] = [value if is_set else MISSING for value, is_set in zip(values[place], mask)]
    ops = [batch.ops] * count if isinstance(batch.ops, Op) else [_OPS.get(op) for op in np.asarray(batch.ops).tolist()]
    if None in ops or len(ops) != count or any(len(column) != count for column in values):
        raise BatchPathNeeded
    width = codec.key_columns
    changes = []
    for op, row in zip(ops, zip(*values)):
        assert op is not None
        given = {name: value for name, value in zip(names, row) if value is not MISSING}
        try:
            physical, stored = codec.take(given)
        except Error:
            raise BatchPathNeeded from None
        prepare_row(codec, RULES[op], physical, stored)
        key = tuple(physical[:width])
        changes.append(RowChange(op, stored, key, codec.key.index_key(key)))
    if len({change.index_key for change in changes}) < len(changes):
        raise BatchPathNeeded
    return changes


_OPS: Final = {int(op): op for op in Op}

"""Reads of a transaction, for COMMIT to validate: `TableRead`s, merged and bounded."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from ...model.arrow_arrays import arrow_array
from ...model.keys.keys import Keys
from ...model.predicates import AnyOf, ColumnPredicate, InList, IsNull, Range
from ...model.schema import Table
from ...model.transactions import TableRead

_MOST_CONDITIONS = 256
"""Conjunctions of a table; beyond, the whole table counts as read."""
_MOST_VALUES = 1000
"""Values of a list; a longer one becomes a range."""
_MOST_KEYS = 100_000
"""Keys of a table; beyond, the range of their first column counts as read."""


class TableReads:
    """Reads of one table. The transaction's lock is held."""

    def __init__(self, table: Table):
        self._table = table
        self._conditions: dict[tuple[ColumnPredicate, ...], None] = {}
        self._is_whole = False
        self._rows: dict[tuple[Any, ...], None] = {}
        """Keys of Python values."""
        self._keys: list[pa.RecordBatch] = []
        self._key_count = 0

    def note_scan(self, predicates: Sequence[ColumnPredicate]) -> None:
        """Rows that satisfy the conjunction of `predicates` were read."""
        if self._is_whole:
            return
        kept = tuple(found for predicate in predicates if (found := _recorded(predicate)) is not None)
        self._conditions[kept] = None
        if not kept or len(self._conditions) > _MOST_CONDITIONS:
            self._widen()

    def note_row(self, key: tuple[Any, ...]) -> None:
        """The row with a key of Python values was read, or found missing."""
        if not self._is_whole:
            self._rows[key] = None
            if len(self._rows) > _MOST_KEYS:
                self._settle_rows()

    def note_keys(self, keys: pa.RecordBatch) -> None:
        """The rows with these keys (key columns by name) were read, or found missing."""
        if self._is_whole or not keys.num_rows:
            return
        self._keys.append(keys)
        self._key_count += keys.num_rows
        if self._key_count > _MOST_KEYS:
            self._bound_keys()

    def reads(self) -> list[TableRead]:
        """Everything so far."""
        if self._is_whole:
            return [TableRead(self._table)]
        self._settle_rows()
        found = [TableRead(self._table, predicates) for predicates in self._conditions]
        if self._keys:
            found.append(TableRead(self._table, (), _joined(self._keys)))
        return found

    def _widen(self) -> None:
        self._is_whole = True
        self._conditions.clear()
        self._rows.clear()
        self._keys.clear()

    def _settle_rows(self) -> None:
        if self._rows:
            schema = self._table.schema
            columns = zip(schema.key, zip(*self._rows))
            arrays = [arrow_array(list(values), column.type.arrow) for column, values in columns]
            names = [column.name for column in schema.key]
            self._rows = {}
            self.note_keys(pa.RecordBatch.from_arrays(arrays, names=names))

    def _bound_keys(self) -> None:
        """Let the range of the keys' first column stand for them."""
        keys = Keys.from_rows(self._table.schema, _joined(self._keys))
        order = keys.order()
        low, high = keys.values_at(int(order[0]))[0], keys.values_at(int(order[-1]))[0]
        self._keys, self._key_count = [], 0
        self.note_scan((Range(self._table.schema.columns[0].name, low, high),))


def _joined(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    return pa.Table.from_batches(batches).combine_chunks().to_batches()[0]


def _recorded(predicate: ColumnPredicate) -> ColumnPredicate | None:
    """The predicate, or a wider one that takes less memory; None for none."""
    if isinstance(predicate, InList) and len(predicate.values) > _MOST_VALUES:
        return Range(predicate.column, predicate.values[0], predicate.values[-1])
    if isinstance(predicate, AnyOf):
        members = [_recorded(member) for member in predicate.members]
        return AnyOf(predicate.column, tuple(m for m in members if isinstance(m, Range | InList | IsNull)))
    return predicate if isinstance(predicate, Range | InList | IsNull) else None

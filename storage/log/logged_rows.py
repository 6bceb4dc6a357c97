"""Rows of many log entries as columns: for replay, which works on thousands of entries at once.

row       0       1       2       3
entry     17      17      18      19        ascending
op        INSERT  INSERT  UPDATE  DELETE
key       4       9       4       9
column 3  "x"     "y"     -       -         sparse, as in `deltas`: only the rows that set the column
column 4  NULL    1.0     5.0     -
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import pyarrow as pa

from ...model.arrow_arrays import arrow_array, arrow_scalar
from ...model.keys.keys import Keys
from ...model.lazy_dataclass import dataclass
from ...model.schema import ColumnSchema, Schema
from ...model.vectors.vector import Array
from ..deltas.deltas import DeltaColumn, Deltas
from ..single_rows.wal_row import RowPart, joined_rows
from .wal_format import COLUMN_ID, WritePart


@dataclass(frozen=True, slots=True, eq=False)
class LoggedPart:
    """A part of a logged write, and where it comes from; `schema` is that of its segment."""

    part: WritePart | RowPart
    schema: pa.Schema
    index: int
    timestamp: int


@dataclass(frozen=True, slots=True, eq=False)
class LoggedRows:
    """See the module's page.

    Parameters
    ----------
    schema : Schema
        The table's today.
    keys : Keys
    indexes, timestamps, ops : ndarrays of int64, uint64, uint8, shape (n_rows,)
        Of the entry, and what it did; ascending but for the ops.
    columns : mapping of int to DeltaColumn
        Key columns too; by permanent id, those that the table has no more left out.
    """

    schema: Schema
    keys: Keys
    indexes: Array
    timestamps: Array
    ops: Array
    columns: Mapping[int, DeltaColumn]

    def __len__(self) -> int:
        return len(self.ops)

    @classmethod
    def of(cls, parts: Sequence[LoggedPart], schema: Schema) -> LoggedRows:
        """Rows of some parts (at least one), in their order."""
        counts = np.array([logged.part.row_count for logged in parts])
        starts = np.cumsum(counts) - counts
        columns = _columns(parts, starts, counts, schema)
        key = [columns[column.id].values for column in schema.key]
        return cls(
            schema,
            Keys.from_rows(schema, pa.RecordBatch.from_arrays(key, [column.name for column in schema.key])),
            np.repeat(np.array([logged.index for logged in parts], np.int64), counts),
            np.repeat(np.array([logged.timestamp for logged in parts], np.uint64), counts),
            np.repeat(np.array([logged.part.op for logged in parts], np.uint8), counts),
            columns,
        )

    def slice(self, start: int, stop: int) -> LoggedRows:
        """Some of the rows."""
        if start == 0 and stop == len(self):
            return self
        columns = {}
        for column, given in self.columns.items():
            low, high = (int(i) for i in np.searchsorted(given.places, (start, stop)))
            columns[column] = DeltaColumn(given.places[low:high] - start, given.values[low:high])
        keys = self.keys.slice(start, stop)
        some = slice(start, stop)
        return LoggedRows(self.schema, keys, self.indexes[some], self.timestamps[some], self.ops[some], columns)

    def whole_rows(self, chosen: Array) -> pa.RecordBatch:
        """Rows that were inserted (ndarray of intp, ascending) in the table's schema; columns that came later show
        their initial value."""
        arrays = [self._whole_column(column, chosen) for column in self.schema.columns]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema.arrow)

    def _whole_column(self, column: ColumnSchema, chosen: Array) -> pa.Array:
        initial = arrow_scalar(column.type.to_python(column.initial), column.type.arrow)
        places, values = self._picked(column.id, chosen)
        if len(places) == len(chosen):
            return values
        source = np.full(len(chosen), len(values))
        source[places] = np.arange(len(places))
        return pa.concat_arrays([values, pa.repeat(initial, 1)]).take(arrow_array(source))

    def _picked(self, column: int, chosen: Array) -> tuple[Array, pa.Array]:
        """Which of the chosen rows set a column (ndarray of intp), and to what."""
        given = self.columns.get(column)
        if given is None or not len(given.places):
            return np.empty(0, np.intp), pa.nulls(0, self._type(column))
        if len(chosen) == len(self) == len(given.places):
            return chosen, given.values
        at = np.searchsorted(given.places, chosen)
        hit = (
            np.flatnonzero(given.places[np.minimum(at, len(given.places) - 1)] == chosen)
            if len(given.places)
            else at[:0]
        )
        return hit, given.values.take(arrow_array(at[hit]))

    def _type(self, column: int) -> pa.DataType:
        return next(c.type.arrow for c in self.schema.columns if c.id == column)

    def deltas(self, chosen: Array, rows: Array, kinds: Array) -> Deltas:
        """Deltas of stored rows by the chosen rows (ndarray of intp, ascending): `rows` are the offsets, `kinds` the
        kinds of the deltas, both parallel to `chosen`."""
        columns = {}
        for column in self.schema.columns[self.schema.key_columns :]:
            places, values = self._picked(column.id, chosen)
            if len(places):
                columns[column.id] = DeltaColumn(places, values)
        return Deltas(rows, self.timestamps[chosen], kinds, columns).renumbered(rows)


def _columns(parts: Sequence[LoggedPart], starts: Array, counts: Array, schema: Schema) -> dict[int, DeltaColumn]:
    found: dict[int, list[DeltaColumn]] = {column.id: [] for column in schema.columns}
    for members in _alike(parts):
        batch = _batch([parts[i].part for i in members])
        sizes = counts[members]
        # Row numbers: each part's first one, and from there on.
        rows = np.repeat(starts[members] - (np.cumsum(sizes) - sizes), sizes) + np.arange(batch.num_rows)
        first = parts[members[0]]
        for place, values in zip(first.part.places, batch.columns):
            column = int(first.schema.field(place).metadata[COLUMN_ID])
            if column not in found:
                continue
            if place in first.part.isset:
                mask = np.concatenate([parts[i].part.isset[place] for i in members])
                found[column].append(DeltaColumn(rows[mask], values.filter(arrow_array(mask))))
            else:
                found[column].append(DeltaColumn(rows, values))
    return {column: _joined(given) for column, given in found.items() if given}


def _batch(parts: Sequence[WritePart | RowPart]) -> pa.RecordBatch:
    """The rows of parts that are alike."""
    single = [part for part in parts if isinstance(part, RowPart)]
    return joined_rows(single) if single else pa.concat_batches([part.rows for part in parts])


def _alike(parts: Sequence[LoggedPart]) -> Iterable[list[int]]:
    """The numbers of parts with the same columns, together."""
    groups: dict[tuple[object, ...], list[int]] = {}
    for number, logged in enumerate(parts):
        part = logged.part
        groups.setdefault((type(part), id(logged.schema), part.places, *part.isset), []).append(number)
    return groups.values()


def _joined(given: Sequence[DeltaColumn]) -> DeltaColumn:
    if len(given) == 1:
        return given[0]
    places = np.concatenate([part.places for part in given])
    order = np.argsort(places, kind="stable")
    values = pa.concat_arrays([part.values for part in given])
    return DeltaColumn(places[order], values.take(arrow_array(order)))

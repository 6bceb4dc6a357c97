"""Rows in whatever form a caller has them, brought to the columns and types of a table.

| given | is |
|---|---|
| dict (any mapping) | one row by column names; columns that it lacks are left out of that row alone |
| tuple | one row in column order (DELETE: in key order) |
| dataclass instance | one row by its fields |
| `pa.RecordBatch`, `pa.Table`, anything with `__arrow_c_stream__` or `__arrow_c_array__` | rows, columns by name |
| pandas DataFrame | rows, columns by name; a named index is a column; NaN and NaT are NULL |
| list, iterator, any other iterable | of the above, one after the other |

A column that no row gives takes its default where the row is inserted, and stays as it is where it is updated. DELETE
looks at the key alone; other columns of the table may be there.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from ...errors import (
    DataError,
    InterfaceError,
    InvalidText,
    NotNullViolation,
    ProgrammingError,
    TypeMismatch,
    UnknownColumn,
    did_you_mean,
)
from ...executor.given_values import column_from_arrow, column_from_values, column_value
from ...model.lazy_dataclass import dataclass
from ...model.schema import ColumnSchema, Schema, Table
from ...model.store import Op
from ...model.vectors.vector import Array

Rows: TypeAlias = Any
"""A row or many, in one of the forms of this page's table."""
Cells: TypeAlias = dict[str, Any]
"""One row: Python values by the names of the table's columns."""

CHUNK_ROWS = 1 << 16
"""Rows that are written at a time."""
INSERTS = (Op.INSERT, Op.INSERT_IGNORE)
DELETES = (Op.DELETE, Op.DELETE_IGNORE)


@dataclass(frozen=True, slots=True, eq=False)
class GivenRows:
    """Rows with the table's column names and Arrow types; `isset` marks the rows that have a value, for columns that
    only some rows have."""

    rows: pa.RecordBatch
    isset: Mapping[str, Array] = dataclasses.field(default_factory=dict)


def given_rows(table: Table, op: Op, source: Rows, chunk_rows: int | None = CHUNK_ROWS) -> Iterator[GivenRows]:
    """The rows of a source in pieces of at most `chunk_rows` (None: all in one piece), in their order.

    Raises `InterfaceError` for what is no row, `UnknownColumn`, `InvalidText`, `NumericOutOfRange` or `DataError` for a
    value that its column does not take.
    """
    pieces = (from_arrow(table, op, p) if isinstance(p, pa.Table) else _from_rows(table, op, p) for p in runs(source))
    if chunk_rows is None:
        yield from _in_one(list(pieces))
        return
    for piece in pieces:
        for start in range(0, piece.rows.num_rows, chunk_rows):
            stop = start + chunk_rows
            yield GivenRows(piece.rows.slice(start, chunk_rows), {n: m[start:stop] for n, m in piece.isset.items()})


def is_row(source: Rows) -> bool:
    """True for one row of Python values."""
    if type(source) is dict:  # the usual case; `isinstance` of abstract classes takes a microsecond
        return True
    return isinstance(source, Mapping | tuple) or (dataclasses.is_dataclass(source) and not isinstance(source, type))


def cells_of(table: Table, op: Op, row: Any) -> Cells:
    """One row of Python values by column name, each of which its column takes; raises as `tables.given_rows` does."""
    named = _named(table, op, row)
    for column in table.schema.key:
        if column.name not in named and column.default is None and not (column.auto_increment and op in INSERTS):
            raise NotNullViolation(
                f"key column {column.name} of table {table.name} is missing; every row needs its whole primary key"
            )
    schema = table.schema
    return {name: _taken(schema, name, value) for name, value in named.items()}


def _taken(schema: Schema, name: str, value: Any) -> Any:
    """A Python value as a column has it; the error with the column's name where it takes none such."""
    exact, check = schema.plain[name]
    if value is None or (type(value) is exact and (check is None or check(value))):
        return value
    type_ = schema.by_name[name].type
    try:
        return column_value(type_, value)
    except (DataError, InterfaceError) as error:
        raise type(error)(f"column {name}: {error}") from error


def key_of(table: Table, key: Any) -> tuple[Any, ...]:
    """A primary key in key order, given as a row to be deleted is, or as its bare value where it is one column.

    Raises as `cells_of` does; `TypeMismatch` for NULL.
    """
    columns = table.schema.key
    if len(columns) == 1 and (type(key) is str or type(key) is int):  # the usual key, by the shortest way
        return (_taken(table.schema, columns[0].name, key),)
    if not is_row(key):
        if len(columns) > 1:
            names = ", ".join(column.name for column in columns)
            raise InterfaceError(
                f"a {type(key).__name__} is no key of table {table.name}: give a tuple or a dict of ({names})"
            )
        key = (key,)
    cells = cells_of(table, Op.DELETE, key)
    for column in columns:
        if cells.setdefault(column.name, column.type.to_python(column.default)) is None:
            raise TypeMismatch(f"key column {column.name} of table {table.name} is never NULL")
    return tuple([cells[column.name] for column in columns])


def rows_from_cells(table: Table, rows: Sequence[Cells]) -> GivenRows:
    """Many such rows, each with the columns that it has."""
    given = {name for row in rows for name in row}
    names = [name for name in table.schema.names if name in given]
    arrays, isset = [], {}
    for name in names:
        values = [row.get(name) for row in rows]
        arrays.append(column_from_values(table.schema.column(name).type, values, name))
        if any(value is None for value in values):
            mask = np.fromiter((name in row for row in rows), np.bool_, len(rows))
            if not mask.all():
                isset[name] = mask
    return GivenRows(pa.RecordBatch.from_arrays(arrays, names=names), isset)


# ---- the forms -------------------------------------------------------------------------------------------------------


def runs(source: Rows) -> Iterator[pa.Table | list[Any]]:
    """The source as Arrow tables and lists of at most 65,536 single rows. `InterfaceError` for any other source."""
    if is_row(source):
        yield [source]
        return
    found = arrow_tables(source)
    if found is not None:
        yield from found
        return
    if isinstance(source, str | bytes) or not isinstance(source, Iterable):
        raise InterfaceError(_no_row(source))
    rows: list[Any] = []
    for item in source:
        if is_row(item):
            rows.append(item)
            if len(rows) == CHUNK_ROWS:
                yield rows
                rows = []
            continue
        tables = arrow_tables(item)
        if tables is None:
            raise InterfaceError(_no_row(item))
        if rows:
            yield rows
            rows = []
        yield from tables
    if rows:
        yield rows


def _no_row(source: Any) -> str:
    return (
        f"a {type(source).__name__} is no row: give a dict, a tuple, a dataclass, a list of these, Arrow data or a "
        "DataFrame"
    )


def arrow_tables(source: Any) -> Iterator[pa.Table] | None:
    """Arrow data as tables, one at a time; None where it is something else."""
    if isinstance(source, pa.Table):
        return iter([source])
    if isinstance(source, pa.RecordBatch):
        return iter([pa.Table.from_batches([source])])
    if type(source).__module__.partition(".")[0] == "pandas" and hasattr(source, "columns"):
        return iter([_from_pandas(source)])
    if hasattr(source, "__arrow_c_stream__"):
        return (pa.Table.from_batches([batch]) for batch in pa.RecordBatchReader.from_stream(source))
    if hasattr(source, "__arrow_c_array__"):
        return iter([pa.Table.from_batches([pa.record_batch(source)])])
    return None


def _from_pandas(frame: Any) -> pa.Table:
    """The columns of a DataFrame, and its index where that has a name."""
    named = [name for name in frame.index.names if name is not None]
    rows = frame.reset_index() if named else frame
    try:
        return pa.Table.from_pandas(rows, preserve_index=False)
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise InvalidText(f"the DataFrame has a column of several types: {error}") from error


def from_arrow(table: Table, op: Op, rows: pa.Table) -> GivenRows:
    """Arrow rows by the names and types of a table's columns."""
    arrays: dict[str, pa.Array] = {}
    for given, array in zip(rows.column_names, rows.columns):
        column = column_named(table, given)
        if column.name in arrays:
            raise ProgrammingError(f"column {column.name} is given twice")
        arrays[column.name] = _cast(table, column, array)
    kept = {name: array for name, array in arrays.items() if _is_asked(table, op, name)}
    batches = pa.table(kept).combine_chunks().to_batches()
    if len(batches) > 1:
        raise DataError("the texts of one column pass 2 GiB; write the rows in several calls")
    return GivenRows(batches[0] if batches else pa.RecordBatch.from_pylist([], schema=pa.table(kept).schema))


def _cast(table: Table, column: ColumnSchema, array: pa.ChunkedArray) -> pa.ChunkedArray:
    try:
        return column_from_arrow(array, column.type)
    except DataError as error:
        raise type(error)(f"column {table.name}.{column.name}: {array.type} is no {column.type}: {error}") from error


def _from_rows(table: Table, op: Op, rows: Sequence[Any]) -> GivenRows:
    length = len(rows[0]) if isinstance(rows[0], tuple) else -1
    if all(isinstance(row, tuple) and len(row) == length for row in rows):
        # Most rows come so, and need no names of their own.
        names = _order(table, op, length)
        arrays = [column_from_values(table.schema.column(n).type, c, n) for n, c in zip(names, zip(*rows))]
        return GivenRows(pa.RecordBatch.from_arrays(arrays, names=names))
    return rows_from_cells(table, [_named(table, op, row) for row in rows])


def _named(table: Table, op: Op, row: Any) -> Cells:
    """The values of a row by the names of the table's columns."""
    if isinstance(row, tuple):
        names = _order(table, op, len(row))
        return dict(zip(names, row))
    if type(row) is not dict and not isinstance(row, Mapping):
        row = {field.name: getattr(row, field.name) for field in dataclasses.fields(row)}
    if row.keys() <= table.schema.by_name.keys():
        cells = dict(row)
    else:
        cells = {column_named(table, name).name: value for name, value in row.items()}
    if op in DELETES:
        return {name: value for name, value in cells.items() if _is_asked(table, op, name)}
    return cells


def _order(table: Table, op: Op, count: int) -> list[str]:
    """The columns that the values of a tuple are for."""
    schema = table.schema
    columns = schema.visible_columns if op in INSERTS else schema.key if op in DELETES else schema.columns
    names = [column.name for column in columns]
    if count != len(names):
        what = "the primary key" if op in DELETES else "a row"
        raise InterfaceError(
            f"a tuple of {count} values is not {what} of table {table.name}, which has {len(names)} columns: "
            f"{', '.join(names)}"
        )
    return names


def _is_asked(table: Table, op: Op, name: str) -> bool:
    return op not in DELETES or table.schema.position(name) < table.schema.key_columns


def column_named(table: Table, name: Any) -> ColumnSchema:
    """A column by its name, in lower case where that fits better, as SQL has it."""
    for known in (str(name), str(name).lower()):
        if known in table.schema:
            return table.schema.column(known)
    hint = did_you_mean(str(name), table.schema.names, f"table {table.name} has")
    raise UnknownColumn(f"column {name} does not exist in table {table.name}{hint}")


def _in_one(pieces: list[GivenRows]) -> Iterator[GivenRows]:
    """All pieces as one."""
    if len(pieces) < 2:
        yield from pieces
        return
    names = list(dict.fromkeys(name for piece in pieces for name in piece.rows.schema.names))
    rows = pa.concat_tables([pa.Table.from_batches([p.rows]) for p in pieces], promote_options="default")
    batches = rows.combine_chunks().to_batches()
    if len(batches) > 1:
        raise DataError("the texts of one column pass 2 GiB; such a batch cannot be written all or none")
    masks = {name: np.concatenate([_mask(piece, name) for piece in pieces]) for name in names}
    isset = {name: mask for name, mask in masks.items() if not mask.all()}
    yield from (GivenRows(batch, isset) for batch in batches)


def _mask(piece: GivenRows, name: str) -> Array:
    count = piece.rows.num_rows
    if name not in piece.rows.schema.names:
        return np.zeros(count, np.bool_)
    return piece.isset.get(name, np.ones(count, np.bool_))

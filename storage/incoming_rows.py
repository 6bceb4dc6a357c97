"""Rows on their way in: brought to the table's columns and types, and held against NOT NULL.

What is wrong with the batch as a whole (an unknown column, a wrong type) is raised; what is wrong with a row is
answered per row.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..errors import NotNullViolation, NumericOutOfRange, ProgrammingError, TypeMismatch, UnknownColumn, did_you_mean
from .schema import ColumnSchema, Table
from .store import RowError
from .types import DataType
from .vector import Array


def conform(table: Table, rows: pa.RecordBatch | pa.Table) -> pa.Table | pa.RecordBatch:
    """The rows with all columns of the table in its order and Arrow types; columns left out get their default.

    Raises `UnknownColumn`, `TypeMismatch`, `NotNullViolation` (a key column is missing) or `NumericOutOfRange` (a
    text too long for its VARCHAR(n)).
    """
    given: dict[str, Any] = {}
    for name, array in zip(rows.schema.names, rows.columns):
        if name not in table.schema:
            hint = did_you_mean(name, table.schema.names, f"table {table.name} has")
            raise UnknownColumn(f"there is no column {name} in table {table.name}{hint}")
        if name in given:
            raise ProgrammingError(f"column {name} is given twice")
        given[name] = array
    keys = {column.name for column in table.schema.key}
    arrays = []
    for column in table.schema.columns:
        if column.name in given:
            arrays.append(_typed(table, column, given[column.name]))
        elif column.name in keys and column.default is None:
            raise NotNullViolation(
                f"key column {column.name} of table {table.name} is missing; every row needs its whole primary key"
            )
        else:
            arrays.append(_default(column, rows.num_rows))
    # Nullability is checked below, row by row: Arrow itself never looks.
    build = pa.RecordBatch if isinstance(rows, pa.RecordBatch) else pa.Table
    return build.from_arrays(arrays, schema=table.schema.arrow)


def null_errors(table: Table, rows: pa.RecordBatch | pa.Table) -> list[RowError]:
    """The rows with a NULL in a NOT NULL column, ascending, each with its first such column."""
    found: dict[int, str] = {}
    for column, array in zip(table.schema.columns, rows.columns):
        if column.nullable or not array.null_count:
            continue
        for row in np.flatnonzero(array.is_null().to_numpy(zero_copy_only=False)).tolist():
            found.setdefault(row, column.name)
    return [
        RowError(row, NotNullViolation(f"column {found[row]} of table {table.name} is NOT NULL; row {row} has NULL"))
        for row in sorted(found)
    ]


def _typed(table: Table, column: ColumnSchema, array: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    wanted = column.type.arrow
    if array.type != wanted:
        if not _says_the_same(column.type, array.type):
            raise TypeMismatch(
                f"column {column.name} of table {table.name} is {column.type}, Arrow type {wanted}; "
                f"the batch has {array.type}"
            )
        array = array.cast(wanted)
    if column.type.length is not None:
        _check_length(table, column, array, column.type.length)
    return array


def _says_the_same(type_: DataType, given: pa.DataType) -> bool:
    """Other Arrow layouts of the same values: dictionaries, views, 64-bit offsets; NULLs without a type."""
    if pa.types.is_null(given):
        return True
    if pa.types.is_dictionary(given):
        return bool(given.value_type == type_.arrow) or _says_the_same(type_, given.value_type)
    if pa.types.is_large_string(given) or pa.types.is_string_view(given):
        return bool(type_.arrow == pa.string())
    return bool(pa.types.is_large_binary(given) or pa.types.is_binary_view(given)) and bool(type_.arrow == pa.binary())


def _check_length(table: Table, column: ColumnSchema, array: pa.Array, limit: int) -> None:
    # A text has at most as many characters as bytes: counting those is far cheaper and nearly always enough.
    if (pc.max(pc.binary_length(array)).as_py() or 0) <= limit:
        return
    longest = pc.max(pc.utf8_length(array)).as_py()
    if longest > limit:
        raise NumericOutOfRange(
            f"a text of {longest} characters is too long for column {column.name} of table {table.name}, {column.type}"
        )


def _default(column: ColumnSchema, rows: int) -> pa.Array:
    if column.default is None:
        return pa.nulls(rows, column.type.arrow)
    return pa.repeat(pa.scalar(column.type.to_python(column.default), column.type.arrow), rows)


def describe_key(table: Table, values: tuple[Any, ...]) -> str:
    """A primary key for people: `(o_orderkey = 7, o_region = 'north')`."""
    parts = []
    for column, value in zip(table.schema.key, values):
        shown = column.type.to_python(value)
        parts.append(f"{column.name} = {str(shown) if column.type.is_numeric else repr(str(shown))}")
    return f"({', '.join(parts)})"


def rows_without(count: int, errors: list[RowError]) -> Array:
    """The row numbers below `count` that have no error, ascending: ndarray of intp."""
    kept = np.ones(count, np.bool_)
    kept[[error.row for error in errors]] = False
    return np.flatnonzero(kept)

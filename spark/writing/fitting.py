"""Converts Spark's rows to those of a table: names, types, NULLs, and the table's limits.

Columns are checked before any task runs (`Fitting`); values are checked by the tasks, which report the first invalid
row. Values change their type if their meaning is preserved exactly:

| from | to | error |
|---|---|---|
| integers, DECIMAL, FLOAT, DOUBLE | integers | a fraction, out of range |
| integers, DECIMAL | DECIMAL(p, s) | too many digits |
| integers, DECIMAL, FLOAT, DOUBLE | FLOAT, DOUBLE | out of range; takes the nearest value, as usual for these types |
| DATE, TIMESTAMP, TIMESTAMP_NTZ | TIMESTAMP | out of range |
| DATE, TIMESTAMP, TIMESTAMP_NTZ | DATE | a time of day |
| STRING | STRING, VARCHAR(n) | too long |

Other conversions need a cast in Spark.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ...errors import (
    DataError,
    InterfaceError,
    NotNullViolation,
    NotSupportedError,
    NumericOutOfRange,
    TextTooLong,
    TypeMismatch,
    UnknownColumn,
    did_you_mean,
    listed,
)
from ...model.partitions.partition import Partitioner
from ...model.schema import ColumnSchema, Table
from ...model.types import MAX_PRECISION, DataType, Kind
from ...storage.writing.incoming_rows import conform, limit_errors, no_partition
from .operations import Operation

_INTEGER_DIGITS: Final = 19
_SHOWN_COLUMNS: Final = 8
_SHOWN_CHARACTERS: Final = 60


class Fitting:
    """The conversion of rows of one schema to those of a table.

    Parameters
    ----------
    table : Table
    operation : Operation
    given : pa.Schema
        The columns of the rows.

    Raises
    ------
    UnknownColumn
        If a column is not the table's.
    NotNullViolation
        If a column that each row needs is missing.
    TypeMismatch
        If a column's type cannot be converted to the table's.
    InterfaceError
        If two columns map to one, as names are also matched in lower case.
    NotSupportedError
        If the operation is not possible with this table.
    """

    def __init__(self, table: Table, operation: Operation, given: pa.Schema):
        self._table = table
        self._operation = operation
        _check_operation(table, operation)
        named = [_column(table, name) for name in given.names]
        _check_twice(table, named, given.names)
        _check_missing(table, operation, {column.name for column in named})
        for column, field in zip(named, given):
            _check_type(table, column, field)
        _check_immutable(table, operation, named)
        chosen = {column.name: place for place, column in enumerate(named)}
        columns = table.schema.key if operation.deletes else table.schema.columns
        self.columns: tuple[ColumnSchema, ...] = tuple(column for column in columns if column.name in chosen)
        """The columns of the rows, in the table's order; for a deletion the key only."""
        self._places = [chosen[column.name] for column in self.columns]
        self._partitioner = Partitioner(table.schema, table.partitions)

    def rows(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Rows of the given shape under the table's names and types.

        Raises `DataError` or `IntegrityError` for the first row that the table cannot store, with its values.
        """
        arrays = []
        for column, place in zip(self.columns, self._places):
            array = batch.column(place)
            if not column.nullable and array.null_count:
                row = int(np.flatnonzero(array.is_null().to_numpy(zero_copy_only=False))[0])
                raise NotNullViolation(
                    f"column {column.name} of table {self._table.name} is NOT NULL: {_example(batch, row)}"
                )
            arrays.append(self._cast(batch, column, array))
        rows = pa.RecordBatch.from_arrays(arrays, names=[column.name for column in self.columns])
        self._check_limits(batch, rows)
        return rows

    def _cast(self, batch: pa.RecordBatch, column: ColumnSchema, array: pa.Array) -> pa.Array:
        wanted = column.type.arrow
        if array.type == wanted:
            return array
        try:
            return _cast(array, column.type)
        except (pa.ArrowInvalid, NumericOutOfRange) as error:
            row = _first_bad(array, column.type)
            raise DataError(
                f"column {column.name} of table {self._table.name} is {column.type} and cannot hold "
                f"{array[row].as_py()!r}: {_example(batch, row)}"
            ) from error

    def _check_limits(self, batch: pa.RecordBatch, rows: pa.RecordBatch) -> None:
        try:
            whole = conform(self._table, rows)
        except TextTooLong as error:
            raise TextTooLong(f"{error}: {_example(batch, _too_long(self.columns, rows))}") from error
        errors = limit_errors(self._table, whole)
        if errors:
            raise errors[0].error
        places = self._partitioner.route(whole)
        if len(places) and int(places.min()) < 0:
            raise no_partition(self._table, self._partitioner, whole, int(np.argmin(places)))


# ---- the columns -----------------------------------------------------------------------------------------------------


def _column(table: Table, name: str) -> ColumnSchema:
    for known in (name, name.lower()):
        if known in table.schema:
            return table.schema.column(known)
    hint = did_you_mean(name, table.schema.names, f"table {table.name} has")
    raise UnknownColumn(f"the DataFrame has a column {name}, which table {table.name} does not have{hint}")


def _check_operation(table: Table, operation: Operation) -> None:
    number = table.schema.auto_increment
    if number is not None and operation is not Operation.INSERT:
        raise NotSupportedError(
            f"operation={operation.value} needs the key of each row, and table {table.name} has a NON UNIQUE PRIMARY "
            f"KEY, the last part of which ({number.name}) the store assigns: only operation=insert is possible"
        )


def _check_twice(table: Table, named: Sequence[ColumnSchema], given: Sequence[str]) -> None:
    names = [column.name for column in named]
    for name in names:
        if names.count(name) > 1:
            both = " and ".join(g for g, n in zip(given, names) if n == name)
            raise InterfaceError(f"the DataFrame's columns {both} are both column {name} of table {table.name}")


def _check_missing(table: Table, operation: Operation, given: set[str]) -> None:
    for place, column in enumerate(table.schema.columns):
        if column.auto_increment:
            if column.name in given:
                raise InterfaceError(
                    f"column {column.name} of table {table.name} is assigned by the store; leave it out"
                )
            continue
        is_key = place < table.schema.key_columns
        needed = is_key or (operation.adds and not column.nullable)
        if needed and column.name not in given and column.default is None:
            what = "is part of the primary key" if is_key else "is NOT NULL and has no default"
            raise NotNullViolation(f"the DataFrame lacks column {column.name} of table {table.name}, which {what}")
    if not operation.adds and not operation.deletes and given <= {column.name for column in table.schema.key}:
        raise InterfaceError(
            f"operation={operation.value}: the DataFrame has only the key of table {table.name}, so nothing would "
            "change; add the columns that are to be updated"
        )


def _check_immutable(table: Table, operation: Operation, named: Sequence[ColumnSchema]) -> None:
    refused = (Operation.UPSERT, Operation.UPDATE)
    fixed = [column.name for column in named if column.immutable]
    if fixed and operation in refused:
        instead = "upsert_ignore" if operation is Operation.UPSERT else "update_ignore"
        raise NotSupportedError(
            f"operation={operation.value} cannot give column {fixed[0]} of table {table.name}, which is IMMUTABLE; "
            f"leave it out, or use operation={instead}, which keeps the values of existing rows"
        )


# ---- types -----------------------------------------------------------------------------------------------------------


def _check_type(table: Table, column: ColumnSchema, field: pa.Field) -> None:
    if not _becomes(field.type, column.type):
        raise TypeMismatch(
            f"column {column.name} of table {table.name} is {column.type}, the DataFrame has {field.type} there; "
            "cast it in Spark"
        )


def _becomes(given: pa.DataType, wanted: DataType) -> bool:
    """True if values of the given type can be converted to the requested one."""
    types = pa.types
    if given == wanted.arrow or types.is_null(given):
        return True
    if wanted.is_float:
        return _is_numeric(given)
    if wanted.is_integer:
        return _is_numeric(given)
    if wanted.is_decimal:
        return bool(types.is_integer(given) or types.is_decimal(given))
    if wanted.kind in (Kind.DATE, Kind.TIMESTAMP):
        return bool(types.is_date(given) or types.is_timestamp(given))
    if wanted.kind is Kind.STRING:
        return bool(types.is_large_string(given) or types.is_string_view(given) or _has_texts(given))
    return wanted.kind is Kind.BINARY and bool(types.is_large_binary(given) or types.is_binary_view(given))


def _is_numeric(type_: pa.DataType) -> bool:
    return bool(pa.types.is_integer(type_) or pa.types.is_floating(type_) or pa.types.is_decimal(type_))


def _has_texts(type_: pa.DataType) -> bool:
    return bool(pa.types.is_dictionary(type_) and type_.value_type == pa.string())


def _cast(array: pa.Array, type_: DataType) -> pa.Array:
    """Casts an array; raises `pa.ArrowInvalid` or `NumericOutOfRange` if a value does not keep its meaning."""
    wanted = type_.arrow
    if pa.types.is_timestamp(array.type) and array.type.tz is not None:
        # The same instants, whatever the name of the zone: values are stored in UTC.
        array = array.cast(pa.timestamp(array.type.unit, "UTC")).cast(pa.timestamp(array.type.unit))
    if type_.kind is Kind.DATE and pa.types.is_timestamp(array.type):
        return _dates(array)
    if type_.is_decimal and pa.types.is_integer(array.type):
        # Arrow would reject every type that cannot hold all integers of the given one.
        digits = _INTEGER_DIGITS + wanted.scale
        array = array.cast(pa.decimal128(digits, wanted.scale) if digits <= MAX_PRECISION else pa.string())
    if not type_.is_float or not _is_numeric(array.type):
        return array.cast(wanted)
    return _nearest(array, wanted)


def _dates(array: pa.Array) -> pa.Array:
    """Midnights as dates; Arrow itself would drop the time of day."""
    dates = array.cast(pa.date32())
    if pc.any(pc.not_equal(dates.cast(array.type), array)).as_py():
        raise NumericOutOfRange("a time of day")
    return dates


def _nearest(array: pa.Array, wanted: pa.DataType) -> pa.Array:
    cast = array.cast(wanted, safe=False)
    lost = pc.and_(pc.is_inf(cast), pc.is_finite(array.cast(pa.float64(), safe=False)))
    if pc.any(lost).as_py():
        raise NumericOutOfRange("out of range")
    return cast


def _first_bad(array: pa.Array, type_: DataType) -> int:
    """The first row that cannot be cast, in an array that has one."""
    low, high = 0, len(array)
    while high - low > 1:
        middle = (low + high) // 2
        try:
            _cast(array.slice(low, middle - low), type_)
            low = middle
        except (pa.ArrowInvalid, NumericOutOfRange):
            high = middle
    return low


def _too_long(columns: Sequence[ColumnSchema], rows: pa.RecordBatch) -> int:
    """The first row with a text that is too long for its column; 0 if there is none."""
    for column, array in zip(columns, rows.columns):
        if column.type.length is not None:
            long = pc.greater(pc.utf8_length(array), column.type.length).fill_null(False)
            if pc.any(long).as_py():
                return int(pc.index(long, True).as_py())
    return 0


def _example(batch: pa.RecordBatch, row: int) -> str:
    """A row for display."""
    values: dict[str, Any] = batch.slice(row, 1).to_pylist()[0]
    shown = [
        f"{name} = {str(value)[:_SHOWN_CHARACTERS]!r}" if isinstance(value, str) else f"{name} = {value}"
        for name, value in values.items()
    ]
    return f"the row with {listed(shown, _SHOWN_COLUMNS)}"

"""Rows on their way in: brought to the table's columns and types, and held against NOT NULL and the store's limits.

What is wrong with the batch as a whole (an unknown column, a wrong type) is raised; what is wrong with a row is
answered per row. Whether a row may lack a column is known only where it is known whether it will be inserted:
`op_resolution`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from ...errors import (
    AlreadyPresent,
    IntegrityError,
    LimitExceeded,
    NoPartition,
    NotFound,
    NotNullViolation,
    ProgrammingError,
    RowChanged,
    SerializationFailure,
    TextTooLong,
    TypeMismatch,
    UnknownColumn,
    did_you_mean,
    listed,
)
from ...model import arrow_functions as pc
from ...model.arrow_arrays import arrow_array, arrow_scalar, fill_nulls, numpy_array
from ...model.keys.keys import Keys
from ...model.lazy_dataclass import dataclass
from ...model.partitions.partition import Partitioner
from ...model.schema import ColumnSchema, Schema, Table
from ...model.store import Op, RowError, WriteBatch
from ...model.types import DataType
from ...model.vectors.vector import Array
from .op_resolution import Given

MAX_KEY_BYTES = 16 << 10
"""Of an encoded primary key; as in Kudu."""
MAX_CELL_BYTES = 1 << 20
"""Of one value; 16 times Kudu's default. Pages and log entries hold many values, and must stay far below 2 GiB."""

_INSERTS = (Op.INSERT, Op.INSERT_IGNORE)
_DELETES = (Op.DELETE, Op.DELETE_IGNORE)


@dataclass(frozen=True, slots=True, eq=False)
class IncomingRows:
    """A batch in its table's schema.

    Parameters
    ----------
    rows : pa.RecordBatch
        All columns of the table; cells that are not given hold the column's default.
    given : tuple of Given
        Per column: which rows give it.
    ops : ndarray of uint8, shape (n_rows,)
    unchanged_since : int, optional
        As `WriteBatch.unchanged_since`.
    """

    rows: pa.RecordBatch
    given: tuple[Given, ...]
    ops: Array
    unchanged_since: int | None = None

    def __len__(self) -> int:
        return len(self.ops)

    def take(self, chosen: Array) -> IncomingRows:
        """Some of the rows (ndarray of intp, ascending)."""
        if len(chosen) == len(self):
            return self
        given = tuple(mask if isinstance(mask, bool) else mask[chosen] for mask in self.given)
        first, count = int(chosen[0]) if len(chosen) else 0, len(chosen)
        if count and int(chosen[-1]) - first == count - 1:
            # One behind the other, as rows that were scanned tablet by tablet: nothing is copied.
            return IncomingRows(
                self.rows.slice(first, count), given, self.ops[first : first + count], self.unchanged_since
            )
        return IncomingRows(self.rows.take(arrow_array(chosen)), given, self.ops[chosen], self.unchanged_since)


def incoming(table: Table, batch: WriteBatch) -> IncomingRows:
    """A batch in its table's schema. Raises as `conform` does."""
    count = batch.rows.num_rows
    ops = np.full(count, batch.ops, np.uint8) if isinstance(batch.ops, Op) else np.asarray(batch.ops, np.uint8)
    if len(ops) != count:
        raise ValueError(f"{len(ops)} ops for {count} rows")
    if count and not min(Op) <= int(ops.min()) <= int(ops.max()) <= max(Op):
        unknown = next(op for op in ops.tolist() if op not in Op._value2member_map_)
        raise ProgrammingError(f"there is no op code {unknown}; there are {', '.join(f'{op} {op.name}' for op in Op)}")
    rows = conform(table, batch.rows)
    names = set(batch.rows.schema.names)
    given: list[Given] = [column.name in names for column in table.schema.columns]
    if batch.isset or table.schema.key[-1].auto_increment:
        rows = _without_unset(table, rows, given, batch.isset)
    return IncomingRows(rows, tuple(given), ops, batch.unchanged_since)


def with_numbers(schema: Schema, batch: IncomingRows, take_numbers: Callable[[int], int]) -> IncomingRows:
    """The batch with numbers in the AUTO_INCREMENT column of rows that are inserted; `take_numbers(count)` returns the
    first of `count` consecutive ones."""
    place = schema.key_columns - 1
    if not schema.columns[place].auto_increment:
        return batch
    fresh = np.flatnonzero(~np.broadcast_to(batch.given[place], len(batch)))
    if not len(fresh):
        return batch
    values = batch.rows.column(place).to_numpy().copy()
    first = take_numbers(len(fresh))
    values[fresh] = np.arange(first, first + len(fresh))
    rows = batch.rows.set_column(place, batch.rows.schema.field(place), arrow_array(values))
    return IncomingRows(rows, batch.given, batch.ops, batch.unchanged_since)


def _without_unset(
    table: Table, rows: pa.RecordBatch, given: list[Given], isset: Mapping[str, Array]
) -> pa.RecordBatch:
    """The rows with defaults where a cell is not set; fills in `given`."""
    arrays = rows.columns
    for name, which in isset.items():
        place = table.schema.position(name)
        which = np.asarray(which, np.bool_)
        if given[place] is False or len(which) != rows.num_rows:
            raise ValueError(f"isset of column {name}: the batch has {rows.num_rows} rows of it, not {len(which)}")
        if not which.all():
            given[place] = which
    for place, column in enumerate(table.schema.columns):
        mask = given[place]
        if column.auto_increment:
            # A number that the tablet will assign: NULL says as much as left out.
            present = numpy_array(arrays[place].is_valid())
            given[place] = present & mask
            arrays[place] = fill_nulls(arrays[place], 0)
        elif not isinstance(mask, bool):
            arrays[place] = pc.if_else(arrow_array(mask), arrays[place], _default(column, 1)[0])
    return pa.RecordBatch.from_arrays(arrays, schema=rows.schema)


def conform(table: Table, rows: pa.RecordBatch | pa.Table) -> pa.Table | pa.RecordBatch:
    """The rows with all columns of the table in its order and Arrow types; columns left out get their default.

    Raises `UnknownColumn`, `TypeMismatch`, `NotNullViolation` (a key column is missing) or `TextTooLong`.
    """
    given: dict[str, Any] = {}
    for name, array in zip(rows.schema.names, rows.columns):
        if name not in table.schema:
            hint = did_you_mean(name, table.schema.names, f"table {table.name} has")
            raise UnknownColumn(f"column {name} does not exist in table {table.name}{hint}")
        if name in given:
            raise ProgrammingError(f"column {name} is given twice")
        given[name] = array
    keys = {column.name for column in table.schema.key if not column.auto_increment}
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


# ---- what is wrong with single rows ------------------------------------------------------------------------------


def row_errors(table: Table, batch: IncomingRows) -> list[RowError]:
    """The rows that are refused whatever the table holds, ascending, each with its first error.

    DELETE looks at the key alone; the others may not set a NOT NULL column to NULL.
    """
    errors: dict[int, IntegrityError] = {}
    deletes = np.isin(batch.ops, _DELETES)
    columns = zip(table.schema.columns, batch.rows.columns, batch.given)
    for place, (column, array, given) in enumerate(columns):
        is_key = place < table.schema.key_columns
        if given is False and not is_key and column.default is None:
            continue
        if column.auto_increment:
            _check_numbers(table, column, batch, errors)
        elif not column.nullable and (array.null_count or (is_key and not isinstance(given, bool))):
            bad = numpy_array(array.is_null())
            if is_key:
                bad = bad if isinstance(given, bool) else bad | ~given
            else:
                bad = bad & given & ~deletes
            for row in np.flatnonzero(bad).tolist():
                errors.setdefault(row, _null_error(table, column, batch.rows, row))
        if column.type.is_text:
            too_long = _long_cells(array)
            for row in too_long[~deletes[too_long] | is_key].tolist():
                errors.setdefault(row, _cell_error(table, column, array[row], row))
    _check_key_lengths(table, batch.rows, errors)
    return [RowError(row, errors[row]) for row in sorted(errors)]


def null_errors(table: Table, rows: pa.RecordBatch | pa.Table) -> list[RowError]:
    """The rows with a NULL in a NOT NULL column, ascending, each with its first such column."""
    errors: dict[int, IntegrityError] = {}
    for column, array in zip(table.schema.columns, rows.columns):
        if column.nullable or not array.null_count:
            continue
        for row in np.flatnonzero(numpy_array(array.is_null())).tolist():
            errors.setdefault(row, _null_error(table, column, rows, row))
    return [RowError(row, errors[row]) for row in sorted(errors)]


def limit_errors(table: Table, rows: pa.RecordBatch) -> list[RowError]:
    """The rows, without NULLs in their keys, with a value or a key that passes the store's limits, ascending."""
    errors: dict[int, IntegrityError] = {}
    for column, array in zip(table.schema.columns, rows.columns):
        if column.type.is_text:
            for row in _long_cells(array).tolist():
                errors.setdefault(row, _cell_error(table, column, array[row], row))
    _check_key_lengths(table, rows, errors)
    return [RowError(row, errors[row]) for row in sorted(errors)]


def incomplete_rows(table: Table, given: Sequence[Given], count: int) -> Array | None:
    """The rows that cannot be inserted, since they leave out a NOT NULL column without a default: ndarray of bool,
    shape (n_rows,); None where there is none."""
    incomplete: Array | None = None
    for column, mask in zip(table.schema.columns[table.schema.key_columns :], given[table.schema.key_columns :]):
        if mask is True or column.nullable or column.default is not None:
            continue
        lacking = np.ones(count, np.bool_) if mask is False else ~mask
        incomplete = lacking if incomplete is None else incomplete | lacking
    return incomplete


def missing_column(table: Table, given: Sequence[Given], row: int) -> str:
    """The name of the first column for which `incomplete_rows` names a row."""
    for column, mask in zip(table.schema.columns, given):
        if not column.nullable and column.default is None and (mask is False or (mask is not True and not mask[row])):
            return column.name
    raise AssertionError("the row lacks no column")


def _null_error(table: Table, column: ColumnSchema, rows: pa.RecordBatch | pa.Table, row: int) -> NotNullViolation:
    """Rows are counted from 1 in texts; their values are shown as far as they are short."""
    return NotNullViolation(
        f"column {column.name} of table {table.name} is NOT NULL; row {row + 1} has NULL: {_shown(rows, row)}"
    )


def _shown(rows: pa.RecordBatch | pa.Table, row: int) -> str:
    """The first values of a row, the key's before others: `k = 1, v = NULL`."""
    shown = []
    for name, value in rows.select(rows.schema.names[:_SHOWN_COLUMNS]).slice(row, 1).to_pylist()[0].items():
        text = "NULL" if value is None else repr(value) if isinstance(value, str | bytes) else str(value)
        shown.append(f"{name} = {text[:40]}{'...' if len(text) > 40 else ''}")
    return ", ".join(shown) + (", ..." if rows.num_columns > _SHOWN_COLUMNS else "")


_SHOWN_COLUMNS = 6


def _check_numbers(table: Table, column: ColumnSchema, batch: IncomingRows, found: dict[int, IntegrityError]) -> None:
    """INSERT leaves the number to the tablet, all other ops must name it."""
    given = batch.given[table.schema.position(column.name)]
    inserts = np.isin(batch.ops, _INSERTS)
    for row in np.flatnonzero(inserts & given).tolist():
        message = f"column {column.name} of table {table.name} is assigned by the store; INSERT must leave it out"
        found.setdefault(row, IntegrityError(message))
    for row in np.flatnonzero(~inserts & ~np.broadcast_to(given, len(batch))).tolist():
        op = Op(batch.ops[row]).name
        message = (
            f"key column {column.name} of table {table.name} is missing in row {row + 1}; {op} needs the whole key"
        )
        found.setdefault(row, NotNullViolation(message))


def _long_cells(array: pa.Array) -> Array:
    if array.nbytes <= MAX_CELL_BYTES:
        return np.empty(0, np.intp)
    return np.flatnonzero(numpy_array(fill_nulls(pc.binary_length(array), 0)) > MAX_CELL_BYTES)


def _cell_error(table: Table, column: ColumnSchema, value: pa.Scalar, row: int) -> LimitExceeded:
    size = value.as_buffer().size
    return LimitExceeded(
        f"column {column.name} of table {table.name}: the value in row {row + 1} takes {size:,} bytes; "
        f"the limit is {MAX_CELL_BYTES:,}"
    )


def _check_key_lengths(table: Table, rows: pa.RecordBatch, found: dict[int, IntegrityError]) -> None:
    texts = [array for column, array in zip(table.schema.key, rows.columns) if column.type.is_text]
    # An encoded text takes at most two bytes for each of its own, and two more; other values at most 16.
    longest = sum(2 * (pc.max(pc.binary_length(array)).as_py() or 0) + 2 for array in texts)
    if not texts or longest + 16 * table.schema.key_columns <= MAX_KEY_BYTES:
        return
    sound = np.setdiff1d(np.arange(rows.num_rows), list(found))
    encoded = Keys.from_rows(table.schema, rows.take(arrow_array(sound))).encoded()
    for row, size in zip(sound.tolist(), pc.binary_length(encoded).to_pylist()):
        if size > MAX_KEY_BYTES:
            found[row] = LimitExceeded(
                f"the primary key of row {row + 1} takes {size:,} bytes in table {table.name}; "
                f"the limit is {MAX_KEY_BYTES:,}"
            )


# ---- types -------------------------------------------------------------------------------------------------------


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
        raise TextTooLong(
            f"a text of {longest} characters is too long for column {column.name} of table {table.name}, {column.type}"
        )


def _default(column: ColumnSchema, rows: int) -> pa.Array:
    if column.default is None:
        return _nulls(column.type.arrow, rows)
    return pa.repeat(arrow_scalar(column.type.to_python(column.default), column.type.arrow), rows)


def _nulls(type_: pa.DataType, rows: int) -> pa.Array:
    """NULLs that nothing reads as a rule. Many take no memory until they are read: numpy has zeros from the operating
    system, whereas Arrow writes them (measured: six columns of 1.4 M rows take 130 ms)."""
    if rows < _MANY_NULLS:
        return pa.nulls(rows, type_)
    zeros = pa.py_buffer(np.zeros(16 * (rows + 1), np.uint8))
    is_text = pa.types.is_string(type_) or pa.types.is_binary(type_)
    if not is_text and not pa.types.is_primitive(type_) and not pa.types.is_decimal128(type_):
        return pa.nulls(rows, type_)
    return pa.Array.from_buffers(type_, rows, [zeros] * (3 if is_text else 2), null_count=rows)


_MANY_NULLS = 65_536


# ---- for messages ------------------------------------------------------------------------------------------------


def describe_key(table: Table, values: tuple[Any, ...]) -> str:
    """A primary key for people: `(o_orderkey = 7, o_region = 'north')`."""
    parts = []
    for column, value in zip(table.schema.key, values):
        shown = column.type.to_python(value)
        parts.append(f"{column.name} = {str(shown) if column.type.is_numeric else repr(str(shown))}")
    return f"({', '.join(parts)})"


def no_partition(table: Table, partitioner: Partitioner, rows: pa.RecordBatch, row: int) -> NoPartition:
    """The error of a row that no range covers."""
    key = describe_key(table, Keys.from_rows(table.schema, rows.slice(row, 1)).values_at(0))
    ranges = partitioner.describe_ranges()
    having = f"it has: {listed(ranges, 6, '; ')}" if ranges else "it has no range at all"
    return NoPartition(f"no partition of table {table.name} covers the row with key {key}; {having}")


def rows_without(count: int, errors: list[RowError]) -> Array:
    """The row numbers below `count` that have no error, ascending: ndarray of intp."""
    kept = np.ones(count, np.bool_)
    kept[[error.row for error in errors]] = False
    return np.flatnonzero(kept)


def as_conflict(error: IntegrityError) -> Exception:
    """Returns the error of a transaction for a row that was refused, although it was possible at the snapshot."""
    if isinstance(error, AlreadyPresent | NotFound | RowChanged):
        return SerializationFailure(f"{error}: it was changed by another transaction; retry the transaction")
    return error

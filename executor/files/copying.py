"""COPY table FROM 'path': loads files with a table's bulk loader, all rows or none."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TypeAlias

import pyarrow as pa

from ...errors import DataError, Error, NotNullViolation, ProgrammingError, UnknownColumn, did_you_mean
from ...model import arrow_functions as pc
from ...model.schema import Table
from ...model.store import BulkLoader
from ...model.types import DataType
from ...sql.bound import CopyFrom
from ...sql.files import FileSource
from ...storage.writing.incoming_rows import MAX_CELL_BYTES
from ..given_values import column_from_arrow
from ..run.context import ExecutionContext
from . import csv_files, parquet_files
from .files import expand

PlaceOf: TypeAlias = Callable[[int], str]
"""Describes the source of a row of a batch, given its 0-based number: `x.csv, line 7`."""


def copy_from(statement: CopyFrom, context: ExecutionContext) -> int:
    """Load a file, a folder of files, or the files that match a pattern; return the number of rows.

    Columns are matched by name (in lower case if that matches better), or by position with a column list. Raises
    `UnknownColumn` or `NotNullViolation` before anything is read, `DataError` if a value does not convert.
    """
    table = statement.table
    paths = expand(FileSource(statement.format, (statement.path,)))
    if context.tracker is not None:
        context.tracker.opened(0, _expected_rows(statement.format, paths), len(paths))
    with context.store.bulk_loader(table) as loader:
        for path in paths:
            for append, count in appends(loader, statement, path):
                context.watch(0)
                append()
                context.watch(count)
            if context.tracker is not None:
                context.tracker.part_done(0)
        context.check()
        rows = loader.finish()
    context.finish()
    return rows


def appends(loader: BulkLoader, statement: CopyFrom, path: str) -> Iterator[tuple[Callable[[], None], int]]:
    """Read a file piece by piece: yield a function that passes each piece to the loader, and its number of rows."""
    for batch, place_of in _batches(statement, path):
        rows = conform(batch, statement.table, statement.columns, path)
        refuse_nulls(rows, statement.table, place_of)
        yield partial(_append, loader, rows, statement.table, place_of), batch.num_rows


def _append(loader: BulkLoader, rows: pa.Table, table: Table, place_of: PlaceOf) -> None:
    """Pass rows to the loader; its error names the position of the first row that it refuses."""
    try:
        loader.append(rows)
    except Error as error:
        row = _too_long(rows, table)
        if row is None:
            raise
        raise type(error)(f"{place_of(row)}: {error}") from error


def _too_long(rows: pa.Table, table: Table) -> int | None:
    """Return the first row with a text that is too long for its column."""
    first_rows = []
    for name in rows.column_names:
        type_ = table.schema.column(name).type
        if type_.is_text:
            long = pc.greater(pc.binary_length(rows[name]), MAX_CELL_BYTES)
            if type_.length is not None:
                long = pc.or_(long, pc.greater(pc.utf8_length(rows[name]), type_.length))
            first_rows.append(pc.index(long, True).as_py())
    return min((row for row in first_rows if row >= 0), default=None)


def _expected_rows(format_: str, paths: Sequence[str]) -> int | None:
    """Number of rows of the files; None if unknown."""
    return sum(parquet_files.footer_of(path).num_rows for path in paths) if format_ == "parquet" else None


def _batches(statement: CopyFrom, path: str) -> Iterator[tuple[pa.RecordBatch, PlaceOf]]:
    """Yield the rows of one file, and the position of each of them in it."""
    if statement.format == "parquet":
        before = 0
        for batch in parquet_files.read(path):
            yield batch, partial(_row_of_file, path, before)
            before += batch.num_rows
        return
    for rows_read in _csv_rows(statement, path):
        yield rows_read.rows, partial(_line_of_file, path, rows_read)


def _row_of_file(path: str, before: int, row: int) -> str:
    return f"{path}, row {before + row + 1}"


def _line_of_file(path: str, found: csv_files.CsvRows, row: int) -> str:
    return f"{path}, line {found.line_of(row)}"


def _csv_rows(statement: CopyFrom, path: str) -> Iterator[csv_files.CsvRows]:
    """Yield the rows of one CSV file; values are read as the table's types, so nothing is guessed."""
    if statement.format != "csv":
        raise ProgrammingError(f"COPY reads parquet and csv, not {statement.format}")
    options, schema = dict(statement.options), statement.table.schema
    names = list(statement.columns or (column.name for column in schema.visible_columns))
    types = {name: schema.column(name).type.arrow for name in names}
    if not options.get("header", True):
        return csv_files.read(path, options, types, None, names)
    header = csv_files.names_of(path, options)
    if statement.columns is not None:  # matched by position; the header is ignored
        _refuse_count(header, names, path)
        return csv_files.read(path, options, types, None, names)
    _targets(header, statement.table, None, path)
    return csv_files.read(path, options, {given: types[given.lower()] for given in header if given.lower() in types})


def _refuse_count(found: Sequence[str], wanted: Sequence[str], path: str) -> None:
    if len(found) != len(wanted):
        raise ProgrammingError(f"{path} has {len(found)} columns, and the COPY lists {len(wanted)}")


def conform(rows: pa.RecordBatch, table: Table, columns: Sequence[str] | None, path: str) -> pa.Table:
    """Return the same rows under the table's column names and Arrow types; missing columns take their defaults."""
    schema = table.schema
    names = _targets(rows.schema.names, table, columns, path)
    arrays = {n: _cast(a, schema.column(n).type, f"{table.name}.{n}") for n, a in zip(names, rows.columns)}
    for column in schema.visible_columns:
        if column.name not in arrays and column.default is None and not column.nullable:
            raise NotNullViolation(f"{path} lacks column {column.name}, which is NOT NULL in table {table.name}")
    return pa.table({name: arrays[name] for name in schema.names if name in arrays})


def refuse_nulls(rows: pa.Table, table: Table, place_of: PlaceOf) -> None:
    """Refuse NULL in a NOT NULL column, naming the row's position in its source."""
    for name in rows.column_names:
        column, array = table.schema.column(name), rows[name]
        if array.null_count and not column.nullable and not column.auto_increment:
            row = pc.index(pc.is_null(array), True).as_py()
            raise NotNullViolation(f"{place_of(row)}: NULL in column {name} of table {table.name}, which is NOT NULL")


def _targets(found: Sequence[str], table: Table, columns: Sequence[str] | None, path: str) -> list[str]:
    if columns is not None:
        _refuse_count(found, columns, path)
        return list(columns)
    names: list[str] = []
    for name in found:
        target = name if name in table.schema else name.lower()
        if target not in table.schema:
            hint = did_you_mean(name, table.schema.names, f"table {table.name} has")
            raise UnknownColumn(f"column {name} of {path} is not in table {table.name}{hint}")
        if target in names:
            raise ProgrammingError(f"{path} has column {name} twice")
        names.append(target)
    return names


def _cast(array: pa.Array, type_: DataType, where: str) -> pa.Array:
    try:
        return column_from_arrow(array, type_)
    except DataError as error:
        raise type(error)(f"column {where}: {array.type} does not convert to {type_.arrow}: {error}") from error

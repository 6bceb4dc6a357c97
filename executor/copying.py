"""COPY table FROM 'path': files into a table's bulk loader, all rows or none."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import pyarrow.dataset as ds

from ..errors import DataError, NotNullViolation, OperationalError, ProgrammingError, UnknownColumn, did_you_mean
from ..sql.bound import CopyFrom
from ..storage.schema import Table
from .context import ExecutionContext

_ROWS_AT_ONCE = 1 << 17
_OPTIONS = ("delimiter", "header", "null", "quote", "escape")


def copy_from(statement: CopyFrom, context: ExecutionContext) -> int:
    """Load a file, or a directory of files; how many rows there were.

    Columns are matched by name (in lower case where that fits better), or by position with a column list. Raises
    `UnknownColumn` or `NotNullViolation` before anything is read, `DataError` where a value does not convert.
    """
    table = statement.table
    rows = 0
    with context.store.bulk_loader(table) as loader:
        for batch in _batches(statement):
            context.check()
            loader.append(conform(batch, table, statement.columns, statement.path))
            rows += batch.num_rows
            if context.progress is not None:
                context.progress(rows)
        return loader.finish()


def _batches(statement: CopyFrom) -> Iterator[pa.RecordBatch]:
    path, options = statement.path, dict(statement.options)
    if not Path(path).exists():
        raise OperationalError(f"there is no file {path}")
    try:
        dataset = ds.dataset(path, format=_format(statement, options))
        yield from dataset.to_batches(batch_size=_ROWS_AT_ONCE, batch_readahead=2, fragment_readahead=1)
    except (pa.ArrowInvalid, OSError) as error:
        raise DataError(f"{path}: {error}") from error


def _format(statement: CopyFrom, options: dict[str, Any]) -> Any:
    """The dataset's format; CSV values are read as the table's types, so nothing is guessed."""
    if statement.format == "parquet":
        if options:
            raise ProgrammingError(f"a Parquet file has no option {min(options)}")
        return "parquet"
    if statement.format != "csv":
        raise ProgrammingError(f"COPY reads parquet and csv, not {statement.format}")
    unknown = sorted(options.keys() - set(_OPTIONS))
    if unknown:
        raise ProgrammingError(f"CSV has no option {unknown[0]}{did_you_mean(unknown[0], _OPTIONS, 'it has')}")
    schema = statement.table.schema
    names = list(statement.columns or (column.name for column in schema.visible_columns))
    parse = pa_csv.ParseOptions(
        delimiter=options.get("delimiter", ","),
        quote_char=options.get("quote", '"'),
        escape_char=options.get("escape", False),
    )
    convert = pa_csv.ConvertOptions(
        column_types={name: schema.column(name).type.arrow for name in names},
        null_values=[options.get("null", "")],
        strings_can_be_null=True,
        quoted_strings_can_be_null=False,
    )
    has_header = options.get("header", True) in (True, "true", "on", 1)
    read = pa_csv.ReadOptions(column_names=None if has_header else names)
    return ds.CsvFileFormat(parse_options=parse, convert_options=convert, read_options=read)


def conform(rows: pa.RecordBatch, table: Table, columns: Sequence[str] | None, path: str) -> pa.Table:
    """The same rows under the table's column names and Arrow types; columns that are missing take their defaults."""
    schema = table.schema
    names = _targets(rows.schema.names, table, columns, path)
    arrays = {n: _cast(a, schema.column(n).type.arrow, f"{table.name}.{n}") for n, a in zip(names, rows.columns)}
    for column in schema.visible_columns:
        if column.name not in arrays and column.default is None and not column.nullable:
            raise NotNullViolation(f"{path} lacks column {column.name}, which is NOT NULL in table {table.name}")
    return pa.table({name: arrays[name] for name in schema.names if name in arrays})


def _targets(found: Sequence[str], table: Table, columns: Sequence[str] | None, path: str) -> list[str]:
    if columns is not None:
        if len(found) != len(columns):
            raise ProgrammingError(f"{path} has {len(found)} columns, and the COPY lists {len(columns)}")
        return list(columns)
    names = []
    for name in found:
        target = name if name in table.schema else name.lower()
        if target not in table.schema:
            hint = did_you_mean(name, table.schema.names, f"table {table.name} has")
            raise UnknownColumn(f"column {name} of {path} is not in table {table.name}{hint}")
        names.append(target)
    return names


def _cast(array: pa.Array, type_: pa.DataType, where: str) -> pa.Array:
    if array.type == type_:
        return array
    try:
        return pc.cast(array, type_)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise DataError(f"column {where}: {array.type} does not convert to {type_}: {error}") from error

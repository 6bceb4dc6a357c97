"""Bulk loads: Arrow data or files, streamed into a table's `BulkLoader`.

A source is read a batch at a time and each batch is brought to the table's columns and types, so that memory holds one
batch and what the loader keeps, however large the source is.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from ..errors import DataError, InterfaceError, NotNullViolation, OperationalError, UnknownColumn, did_you_mean
from ..storage.schema import Schema, Table
from ..storage.store import Store

Source: TypeAlias = Any
"""pa.Table, pa.RecordBatch, anything with `__arrow_c_stream__`, an iterable of batches, or the path of a file."""

BATCH_ROWS = 1 << 17
"""Rows per batch of a Parquet file: large enough that a column's cast costs little per row, some 20 MB of lineitem."""


def load(store: Store, table: Table, source: Source, progress: Callable[[int], None] | None = None) -> int:
    """Add all rows of `source` to `table`, all or none; how many there were.

    `progress` is called with the number of rows read so far. Raises `AlreadyPresent` for a repeated key, `DataError`
    where a value does not fit its column, `UnknownColumn` where the source has a column that the table lacks.
    """
    rows = 0
    with store.bulk_loader(table) as loader:
        for batch in batches(source, table.schema):
            loader.append(conform(batch, table))
            rows += batch.num_rows
            if progress is not None:
                progress(rows)
        return loader.finish()


def batches(source: Source, schema: Schema) -> Iterator[pa.RecordBatch | pa.Table]:
    """The source as Arrow batches; `schema` says which columns a file is asked for and how a CSV file is read."""
    if isinstance(source, str | os.PathLike):
        yield from _file_batches(Path(source), schema)
    elif isinstance(source, pa.RecordBatch | pa.Table):
        yield source
    elif hasattr(source, "__arrow_c_stream__"):
        yield from pa.RecordBatchReader.from_stream(source)
    elif isinstance(source, Iterable):
        for item in source:
            yield from batches(item, schema)
    else:
        raise InterfaceError(
            f"cannot load from a {type(source).__name__}: give a path, an Arrow table, batches or a stream of them"
        )


def _file_batches(path: Path, schema: Schema) -> Iterator[pa.RecordBatch]:
    if path.is_dir():
        files = sorted([*path.glob("*.parquet"), *path.glob("*.csv")])
        if not files:
            raise OperationalError(f"there is no .parquet or .csv file in {path}")
        for file in files:
            yield from _file_batches(file, schema)
    elif not path.exists():
        raise OperationalError(f"there is no file {path}")
    else:
        try:
            yield from _parquet(path) if path.suffix == ".parquet" else _csv(path, schema)
        except (pa.ArrowInvalid, OSError) as error:
            raise DataError(f"{path}: {error}") from error


def _parquet(path: Path) -> Iterator[pa.RecordBatch]:
    with pq.ParquetFile(path, memory_map=True) as file:
        yield from file.iter_batches(BATCH_ROWS)


def _csv(path: Path, schema: Schema) -> Iterator[pa.RecordBatch]:
    if path.suffix != ".csv":
        raise OperationalError(f"{path}: the name must end in .parquet or .csv, which says how to read the file")
    types = {field.name: field.type for field in schema.arrow}
    convert = pa_csv.ConvertOptions(column_types=types, strings_can_be_null=True, quoted_strings_can_be_null=False)
    with pa_csv.open_csv(path, convert_options=convert) as reader:
        yield from reader


def conform(rows: pa.RecordBatch | pa.Table, table: Table) -> pa.Table:
    """The same rows with the table's column names and Arrow types.

    Columns that the table has and `rows` does not are left out: they take their defaults. Names match exactly or in
    lower case. Raises `UnknownColumn`, `NotNullViolation` (a missing key column) or `DataError`.
    """
    schema = table.schema
    arrays: dict[str, Any] = {}
    for name, array in zip(rows.schema.names, rows.columns):
        target = name if name in schema else name.lower()
        if target not in schema:
            hint = did_you_mean(name, schema.names, f"table {table.name} has")
            raise UnknownColumn(f"the source's column {name} is not in table {table.name}{hint}")
        arrays[target] = _cast(array, schema.column(target).type.arrow, f"{table.name}.{target}")
    for column in schema.key:
        if column.name not in arrays and column.default is None:
            raise NotNullViolation(f"the source lacks column {column.name}, which is in the key of table {table.name}")
    return pa.table({name: arrays[name] for name in schema.names if name in arrays})


def _cast(array: pa.Array | pa.ChunkedArray, type_: pa.DataType, where: str) -> pa.Array | pa.ChunkedArray:
    if array.type == type_:
        return array
    try:
        return array.cast(type_)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise DataError(f"column {where}: {array.type} does not convert to {type_}: {error}") from error

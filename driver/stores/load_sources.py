"""Sources of `Connection.load`, as pieces for a bulk loader.

| given | is |
|---|---|
| str or path | a Parquet or CSV file, a folder of them, a pattern such as `part*.parquet` |
| dict of lists, arrays or Series | columns by name |
| dict, tuple, dataclass instance | one row, as in `tables.given_rows`; a column that it lacks takes its default |
| Arrow table, batch or stream, DataFrame | rows, columns by name |
| list, iterator, any other iterable | of the above, one after the other: the load is all or none together |

A tuple is a row unless it holds rows, Arrow data or path objects.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from ...errors import InterfaceError, OperationalError
from ...executor.files.copying import appends, conform
from ...executor.files.files import expand
from ...executor.given_values import column_from_arrow, column_from_values
from ...model import arrow_functions as pc
from ...model.schema import Table
from ...model.store import BulkLoader, Op
from ...sql.bound import CopyFrom
from ...sql.file_options import format_of
from ...sql.files import FileSource
from ..tables.given_rows import CHUNK_ROWS, GivenRows, arrow_tables, column_named, given_rows, is_row

Piece: TypeAlias = tuple[Callable[[], None], int]
"""A function that passes rows to the loader, and the number of rows."""

_DEEPEST = 20
"""Lists within lists."""


def file_source(table: Table, path: str | os.PathLike[str]) -> CopyFrom:
    """A path as the statement that loads it."""
    return CopyFrom(table, os.fspath(path), _format(os.fspath(path)))


def _format(written: str) -> str:
    """A file's format by its name, a directory's by its first file's."""
    path = Path(written)
    is_pattern = not path.exists() and any(mark in written for mark in "*?[")
    if not path.exists() and not is_pattern:
        raise OperationalError(f"there is no file {path}")
    names = sorted(map(str, path.iterdir())) if path.is_dir() else [written]
    for name in names:
        format_ = format_of(name)
        if format_ is not None:
            return format_
    if path.is_dir():
        raise OperationalError(f"there is no .parquet or .csv file in {path}")
    raise OperationalError(f"{path}: the name must end in .parquet or .csv, which says how to read the file")


def given_pieces(table: Table, source: Any, loader: BulkLoader, depth: int = 0) -> Iterator[Piece]:
    """The rows of a source, piece by piece. Raises `InterfaceError` for an unsupported source."""
    if isinstance(source, str | os.PathLike):
        statement = file_source(table, source)
        for path in expand(FileSource(statement.format, (statement.path,))):
            yield from appends(loader, statement, path)
        return
    try:
        tables = arrow_tables(source)
    except (pa.ArrowInvalid, TypeError, ValueError):  # an array, which has values and no columns
        raise InterfaceError(_no_source(source)) from None
    if tables is not None:
        for rows in tables:
            yield partial(loader.append, conform(rows, table, None, "the source")), rows.num_rows
    elif isinstance(source, Mapping) and _are_columns(source):
        rows = _columns(table, source)
        yield partial(loader.append, rows), rows.num_rows
    elif _is_row(source):
        yield from _rows(table, [source], loader)
    elif isinstance(source, bytes | bytearray | memoryview | pa.Scalar) or not isinstance(source, Iterable):
        raise InterfaceError(_no_source(source))
    elif depth == _DEEPEST:
        raise InterfaceError(f"cannot load from lists that are {depth} deep in each other")
    else:
        yield from _items(table, source, loader, depth)


def _items(table: Table, source: Iterable[Any], loader: BulkLoader, depth: int) -> Iterator[Piece]:
    rows: list[Any] = []
    for item in source:
        if _is_row(item):
            rows.append(item)
            if len(rows) < CHUNK_ROWS:
                continue
            item = None
        yield from _rows(table, rows, loader)
        rows = []
        if item is not None:
            yield from given_pieces(table, item, loader, depth + 1)
    yield from _rows(table, rows, loader)


def _no_source(source: Any) -> str:
    name = type(source).__name__
    return (
        f"cannot load from {'an' if name[:1].lower() in 'aeiou' and name != 'int' else 'a'} {name}: give the path of a "
        "Parquet or CSV file, Arrow data, a DataFrame, a dict of columns, rows (dicts, tuples, dataclasses), or a list "
        "or iterator of any of these"
    )


# ---- rows and columns --------------------------------------------------------------------------------------------


def _is_row(source: Any) -> bool:
    if isinstance(source, Mapping):
        return not _are_columns(source)
    if isinstance(source, tuple):
        return not any(_holds_rows(item) for item in source)
    return is_row(source)


def _holds_rows(item: Any) -> bool:
    is_arrow = hasattr(item, "__arrow_c_stream__") or hasattr(item, "__arrow_c_array__")
    return is_arrow or isinstance(item, Mapping | tuple | list | os.PathLike)


def _are_columns(source: Mapping[Any, Any]) -> bool:
    """True if a mapping's values are columns: no column of a table holds lists."""
    return any(isinstance(value, _COLUMNS) or _is_series(value) for value in source.values())


_COLUMNS = (list, tuple, range, np.ndarray, pa.Array, pa.ChunkedArray)


def _is_series(value: Any) -> bool:
    return type(value).__module__.partition(".")[0] in ("pandas", "polars") and hasattr(value, "__len__")


def _columns(table: Table, source: Mapping[Any, Any]) -> pa.Table:
    arrays: dict[str, Any] = {}
    for given, values in source.items():
        if not isinstance(values, _COLUMNS) and not _is_series(values):
            raise InterfaceError(f"column {given} is a {type(values).__name__}, where others are lists of values")
        column = column_named(table, given)
        arrays[column.name] = values
    lengths = {name: len(values) for name, values in arrays.items()}
    if len(set(lengths.values())) > 1:
        raise InterfaceError(f"the columns have different lengths: {', '.join(f'{n} {c}' for n, c in lengths.items())}")
    return conform(
        pa.table({name: _array(table, name, values) for name, values in arrays.items()}), table, None, "the source"
    )


def _array(table: Table, name: str, values: Any) -> Any:
    type_ = table.schema.column(name).type
    if isinstance(values, pa.Array | pa.ChunkedArray):
        return column_from_arrow(values, type_)
    if isinstance(values, np.ndarray):
        values = values.tolist() if values.dtype.kind in "biuf" else list(values)
    elif _is_series(values):
        return column_from_arrow(pa.array(values, from_pandas=True), type_)
    return column_from_values(type_, list(values), name)


def _rows(table: Table, rows: list[Any], loader: BulkLoader) -> Iterator[Piece]:
    for piece in given_rows(table, Op.INSERT, rows) if rows else ():
        whole = pa.Table.from_batches([_with_defaults(table, piece)])
        yield partial(loader.append, conform(whole, table, None, "the source")), whole.num_rows


def _with_defaults(table: Table, piece: GivenRows) -> pa.RecordBatch:
    """The rows with the default of each column where a row does not give it."""
    arrays = []
    for name, array in zip(piece.rows.schema.names, piece.rows.columns):
        column, mask = table.schema.column(name), piece.isset.get(name)
        if mask is not None and column.default is not None:
            default = pa.scalar(column.type.to_python(column.default), column.type.arrow)
            array = pc.if_else(pa.array(mask), array, default)
        arrays.append(array)
    return pa.RecordBatch.from_arrays(arrays, names=piece.rows.schema.names)

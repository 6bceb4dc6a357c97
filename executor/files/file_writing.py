"""COPY ... TO: a query's rows into a Parquet or CSV file, batch by batch.

The file is written under a temporary name in the same folder, and renamed when it is complete and synced to disk. So a
reader sees the old file, the new one, or none.
"""

from __future__ import annotations

import contextlib
import os
import secrets
from abc import ABC, abstractmethod
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from ...errors import NotSupportedError, OperationalError, ProgrammingError
from ...model import arrow_functions as pc
from ...model.arrow_arrays import arrow_array
from ...model.disk_errors import disk_error
from ...model.types import Kind
from ...planner import Plan
from ...sql.bound import CopyTo
from ...sql.expressions import Column
from ...sql.file_options import compression_of
from ..run.context import ExecutionContext
from ..statements.results import arrow_batches
from .csv_values import spelt_bytes

ROW_GROUP_SIZE = 1 << 17
"""Rows of a Parquet row group, unless the statement says otherwise."""


def copy_to(statement: CopyTo, plan: Plan, context: ExecutionContext) -> int:
    """Write the rows of the query; return their number."""
    options = dict(statement.options)
    make = _Parquet if statement.format == "parquet" else _Csv
    rows = 0
    with _replacing(statement.path) as path, make(path, plan.columns, options, statement.path) as sink:
        for batch in arrow_batches(plan, context):
            context.check()
            sink.write(batch)
            rows += batch.num_rows
        context.check()
    return rows


@contextlib.contextmanager
def _replacing(path: str) -> Iterator[str]:
    """Yield a temporary name in the folder of `path` for a file that replaces it at the end; it is removed after an
    error."""
    target = Path(path)
    if target.is_dir():
        raise OperationalError(f"{path} is a folder; COPY ... TO writes one file")
    if not target.parent.is_dir():
        raise OperationalError(f"there is no folder {target.parent}")
    temporary = target.with_name(f".{target.name}.{os.getpid()}-{secrets.token_hex(4)}.tmp")
    try:
        yield str(temporary)
        with temporary.open("rb+") as file:
            os.fsync(file.fileno())
        temporary.replace(target)
    except OSError as error:
        raise disk_error(f"{path} cannot be written", error) from error
    finally:
        with contextlib.suppress(OSError):  # the original error is more specific
            temporary.unlink(missing_ok=True)


class _Sink(ABC):
    """Target of the rows; a context manager that completes the file."""

    @abstractmethod
    def write(self, rows: pa.RecordBatch) -> None:
        """Add rows."""

    @abstractmethod
    def __enter__(self) -> _Sink: ...

    @abstractmethod
    def __exit__(self, kind: Any, error: Any, trace: Any) -> None: ...


class _Parquet(_Sink):
    """Buffers rows up to a row group, so that groups are full for any size of batches."""

    def __init__(self, path: str, columns: tuple[Column, ...], options: dict[str, Any], shown: str):
        import pyarrow.parquet as pq  # imported when it is needed: it takes longer than most statements

        _refuse_repeated(columns, shown)
        schema = pa.schema([pa.field(column.name, column.type.arrow, column.nullable) for column in columns])
        compression = options.get("compression", "zstd")
        # Decimals as integers are read six times as fast as the fixed-size byte arrays that are the default.
        self._writer = pq.ParquetWriter(path, schema, compression=compression, store_decimal_as_integer=True)
        self._schema = schema
        self._size = options.get("row_group_size", ROW_GROUP_SIZE)
        self._waiting: list[pa.RecordBatch] = []
        self._rows = 0

    def __enter__(self) -> _Parquet:
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if kind is None and self._waiting:
            self._flush(self._rows)
        self._writer.close()

    def write(self, rows: pa.RecordBatch) -> None:
        self._waiting.append(rows)
        self._rows += rows.num_rows
        if self._rows >= self._size:
            self._flush(self._rows - self._rows % self._size)

    def _flush(self, count: int) -> None:
        """Write the first `count` buffered rows."""
        arrays = [[batch.column(i).cast(field.type) for batch in self._waiting] for i, field in enumerate(self._schema)]
        table = pa.table([pa.chunked_array(a, field.type) for a, field in zip(arrays, self._schema)], self._schema)
        self._writer.write_table(table.slice(0, count), row_group_size=self._size)
        rest = table.slice(count)
        self._waiting = rest.to_batches()
        self._rows = rest.num_rows


def _refuse_repeated(columns: tuple[Column, ...], shown: str) -> None:
    names = [column.name for column in columns]
    for name in names:
        if names.count(name) > 1:
            raise ProgrammingError(f"{shown} would have two columns {name}; give one of them another name with AS")


_MOST_TEXT = 1 << 27
"""Bytes of a batch that is converted to text at once: Arrow's texts end at 2 GiB; a byte of BINARY is two digits."""


class _Csv(_Sink):
    """Writes text: NULL as the option specifies, values in quotes if they could be misread."""

    def __init__(self, path: str, columns: tuple[Column, ...], options: dict[str, Any], shown: str):
        for column in columns:
            if column.type.kind is Kind.INTERVAL:
                raise NotSupportedError(
                    f"column {column.name} of type {column.type} has no text form in CSV files; cast it to STRING, or "
                    "write a Parquet file"
                )
        self._is_single = len(columns) == 1
        self._delimiter = options.get("delimiter", ",")
        self._quote = options.get("quote", '"')
        self._escape = options.get("escape", self._quote)
        self._null = options.get("null", "")
        compression = options.get("compression", compression_of(shown))
        self._stream = pa.output_stream(path, compression=None if compression == "none" else compression)
        if options.get("header", True):
            self._put([arrow_array([column.name]) for column in columns])

    def __enter__(self) -> _Csv:
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        self._stream.close()

    def write(self, rows: pa.RecordBatch) -> None:
        if rows.nbytes > _MOST_TEXT and rows.num_rows > 1:
            middle = rows.num_rows // 2
            self.write(rows.slice(0, middle))
            self.write(rows.slice(middle))
        elif rows.num_rows and rows.num_columns:
            self._put([array.dictionary_decode() if pa.types.is_dictionary(array.type) else array for array in rows])

    def _put(self, arrays: list[pa.Array]) -> None:
        lines = pc.binary_join_element_wise(*(self._texts(array) for array in arrays), self._delimiter)
        whole = pc.binary_join(pa.ListArray.from_arrays([0, len(lines)], lines), "\n")
        self._stream.write(whole[0].as_buffer())
        self._stream.write(b"\n")

    def _texts(self, array: pa.Array) -> pa.Array:
        """Format a column as it is written to the file."""
        text = spelt_bytes(array) if pa.types.is_binary(array.type) else array.cast(pa.string())
        doubtful = pc.equal(text, self._null)
        if self._is_single:  # PostgreSQL before 18 reads a line of these two characters as the end of the file
            doubtful = pc.or_(doubtful, pc.equal(text, "\\."))
        for mark in (self._delimiter, self._quote, self._escape, "\n", "\r"):
            doubtful = pc.or_(doubtful, pc.match_substring(text, mark))
        if pc.any(doubtful).as_py():
            inner = text
            for mark in dict.fromkeys((self._escape, self._quote)):
                inner = pc.replace_substring(inner, mark, self._escape + mark)
            quoted = pc.binary_join_element_wise(self._quote, inner, self._quote, "")
            text = pc.if_else(doubtful, quoted, text)
        return text.fill_null(self._null) if text.null_count else text

"""Writes sorted rows as DiskRowSets of bounded size: for flushes, bulk loads and compactions alike."""

from __future__ import annotations

import contextlib
import os
import posixpath
from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import ParamSpec, TypeVar

import pyarrow as pa

from ...errors import InternalError, OperationalError
from ...model.keys.keys import Keys
from ...model.schema import ColumnSchema, Schema
from ..columns.column_file import ROW_GROUP_ROWS
from ..columns.column_writer import encoded_bytes, write_column
from ..files.filesystem import FileSystem
from ..keys.bloom import write_bloom
from .rowset_metadata import RowSetMetadata

T = TypeVar("T")
P = ParamSpec("P")

SAMPLE_SHARE = 16
"""One row in 16, at most one row group, is encoded beforehand to see how many bytes a row takes."""
WORKERS = min(4, os.cpu_count() or 1)
"""Number of columns written at the same time, while a caller waits."""
BACKGROUND_WORKERS = 1
"""The same for maintenance, which leaves the other processors to statements. (Measured on two processors: while 200 MB
were flushed, 16 threads did 2,900 to 4,000 operations of YCSB's workload A per second beside two, 4,000 beside one,
4,900 to 5,400 beside none; the flush took 4.7 to 6.7 s with two, 5.4 to 7.9 s with one.)"""


class _Here(Executor):
    """Executes work in the calling thread; errors are raised at once."""

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        done: Future[T] = Future()
        done.set_result(fn(*args, **kwargs))
        return done


def writers(workers: int) -> Executor:
    """Executor that writes `workers` columns at the same time. With one worker, the caller's thread writes: another
    thread would only add switches of the interpreter."""
    return _Here() if workers == 1 else ThreadPoolExecutor(workers, "nyala-rowset-writer")


def write_rowsets(
    fs: FileSystem,
    directory: str,
    schema: Schema,
    rows: pa.Table,
    *,
    next_id: Callable[[], int],
    timestamp: int,
    rowset_bytes: int = 64 << 20,
    workers: int = WORKERS,
) -> list[RowSetMetadata]:
    """Write rows as one or more DiskRowSets, durable when this returns.

    Parameters
    ----------
    directory : str
        Made if it is missing.
    rows : pa.Table
        All columns of the schema by name, strictly ascending by primary key (`InternalError` otherwise).
    next_id : callable
        Gives a new rowset id at each call; file names contain it.
    timestamp : int
        Hybrid time of the rows' insertion.
    rowset_bytes : int
        Aimed at per rowset, encoded; a rowset holds a multiple of 131,072 rows, but for the last.
    workers : int
        Threads that write columns.

    Returns
    -------
    list of RowSetMetadata
        In key order; empty where there are no rows. On an error the files written so far are removed.
    """
    keys = Keys.from_rows(schema, rows)
    if not keys.is_strictly_ascending():
        raise InternalError("rows of a DiskRowSet must be strictly ascending by primary key")
    fs.make_directory(directory)
    length = _rowset_rows(schema, rows, rowset_bytes)
    written: list[str] = []
    try:
        with writers(workers) as pool:
            result = []
            for start in range(0, rows.num_rows, length):
                part = rows.slice(start, length)
                written_rowset = write_rowset(
                    fs,
                    directory,
                    schema,
                    keys.slice(start, start + length),
                    partial(column_array, rows=part),
                    rowset=next_id(),
                    pool=pool,
                    written=written,
                )
                result.append(replace(written_rowset, newest_undo=timestamp))
        fs.sync_directory(directory)
    except BaseException:
        for path in written:
            # The current error is more useful than a second one from cleanup.
            with contextlib.suppress(OperationalError):
                if fs.exists(path):
                    fs.remove(path)
        raise
    return result


def write_rowset(
    fs: FileSystem,
    directory: str,
    schema: Schema,
    keys: Keys,
    values: Callable[[ColumnSchema], pa.Array],
    *,
    rowset: int,
    pool: Executor,
    written: list[str],
) -> RowSetMetadata:
    """Write one DiskRowSet column by column; durable but for the names of its files.

    Parameters
    ----------
    keys : Keys
        Of all rows, strictly ascending; not empty.
    values : callable
        Gives all values of a column; called once per column, in `pool`.
    rowset : int
        Its id.
    written : list of str
        The paths of the files are added to it before they are made. Where this raises, the caller removes them, after
        the pool's threads are done.
    """
    names = {c.id: f"rowset-{rowset:08d}-column-{c.id:04d}.col" for c in schema.columns}
    bloom = f"rowset-{rowset:08d}.bloom"
    written.extend(posixpath.join(directory, name) for name in (*names.values(), bloom))
    is_key = {c.id for c in schema.key}

    def write(column: ColumnSchema) -> int:
        path = posixpath.join(directory, names[column.id])
        return write_column(fs, path, column, values(column), is_key=column.id in is_key)

    futures = [pool.submit(lambda: write_bloom(fs, posixpath.join(directory, bloom), keys.hashes()))]
    futures += [pool.submit(write, column) for column in schema.columns]
    sizes = [future.result() for future in futures]
    return RowSetMetadata(
        id=rowset,
        row_count=len(keys),
        min_key=keys.encode_one(0),
        max_key=keys.encode_one(len(keys) - 1),
        column_files=names,
        bloom_file=bloom,
        data_bytes=sum(sizes),
    )


def column_array(column: ColumnSchema, rows: pa.Table) -> pa.Array:
    """One column of Arrow rows as a single array of the column's Arrow type."""
    chunks = rows.column(column.name)
    if chunks.type != column.type.arrow:
        chunks = chunks.cast(column.type.arrow)
    return chunks.chunk(0) if chunks.num_chunks == 1 else chunks.combine_chunks()


def _rowset_rows(schema: Schema, rows: pa.Table, rowset_bytes: int) -> int:
    """Number of rows of each rowset: a multiple of 131,072, evenly spread over the rowsets."""
    if rows.num_rows <= ROW_GROUP_ROWS:
        return ROW_GROUP_ROWS
    sample_rows = min(ROW_GROUP_ROWS, rows.num_rows // SAMPLE_SHARE)
    sample = rows.slice((rows.num_rows - sample_rows) // 2, sample_rows)
    sampled = sum(encoded_bytes(c, column_array(c, sample)) for c in schema.columns)
    rowsets = max(1, round(sampled * (rows.num_rows / sample_rows) / rowset_bytes))
    groups = -(-rows.num_rows // ROW_GROUP_ROWS)
    per_rowset: int = -(-groups // rowsets)
    return per_rowset * ROW_GROUP_ROWS

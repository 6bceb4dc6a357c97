"""Staging tables: where tasks put their rows until the job is published.

    _nyala_staging_<when, hex>_<random>
        _staged_partition  _staged_attempt  _staged_row  _staged_part  |  _staged_data
        └──────────────────────── primary key ─────────────────────┘

Rows are staged as they come, many together: an Arrow stream, compressed, in as many cells as it takes. Nobody looks for
single rows there, so the store need not take them apart, only to put them together again when they are published.

A partition's rows lie in one tablet. The rows of an attempt count only if the job's record names it. The table is made
by the first task that has more rows than its commit message takes, and dropped when the job has ended; what is left of
dead jobs is dropped by the next one (`drop_leftovers`). Beside it lies, for operations that have to look for keys, a
table with the job's keys (`staged_keys`).
"""

from __future__ import annotations

import re
import time
import uuid
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

import numpy as np
import pyarrow as pa

from ...driver.connection import Connection
from ...driver.tables.table_scans import scan_of
from ...errors import DuplicateTable, InternalError, UnknownTable
from ...model.predicates import InList
from ...model.schema import (
    ColumnSchema,
    Compression,
    Encoding,
    HashRule,
    PartitionSchema,
    Schema,
    Table,
    TableDefinition,
)
from ...model.store import Op, WriteBatch
from ...model.types import BIGINT, BINARY, INT
from .arrow_streams import batches_of, stream_buffer
from .jobs import JobRecord, Jobs, State

STAGING_PREFIX: Final = "_nyala_staging_"
PARTITION: Final = "_staged_partition"
ATTEMPT: Final = "_staged_attempt"
ROW: Final = "_staged_row"
PART: Final = "_staged_part"
DATA: Final = "_staged_data"
CELL_BYTES: Final = 1 << 20
"""Of a stream that a cell takes: as much as a cell of a table may have."""
COMPRESSION: Final = "zstd"
"""Of the streams. Its time is less than what the larger streams of a faster one cost on their way and on the disk."""
_KEY: Final = (
    ColumnSchema(PARTITION, INT, nullable=False),
    ColumnSchema(ATTEMPT, BIGINT, nullable=False),
    ColumnSchema(ROW, BIGINT, nullable=False),
    ColumnSchema(PART, INT, nullable=False),
)
_DATA: Final = ColumnSchema(
    # Each cell has a page of its own, since cells are read one at a time.
    DATA,
    BINARY,
    nullable=False,
    encoding=Encoding.PLAIN,
    compression=Compression.NONE,
    block_size=CELL_BYTES,
)
BUCKETS: Final = 4
"""Tablets of a staging table: as many tasks write side by side."""
LEFTOVER_AGE: Final = timedelta(days=1)
"""After which a job that nobody has heard of is dead."""
RECORD_AGE: Final = timedelta(days=30)
"""How long records of jobs without a key of the user's are kept."""
RUN_PREFIX: Final = "run "
"""Keys of such jobs begin so."""
KEYS_SUFFIX: Final = "_keys"
"""The table of a job's keys has the name of its staging table and this."""
_NAME: Final = re.compile(f"(?P<staging>{STAGING_PREFIX}(?P<created>[0-9a-f]+)_[0-9a-f]+)(?:{KEYS_SUFFIX})?")
_OPEN_TRIES: Final = 100
_READERS: Final = 3
"""Pieces that are read while another one is used."""


def staging_name() -> str:
    """A new name, which tells when it was made."""
    return f"{STAGING_PREFIX}{int(time.time()):08x}_{uuid.uuid4().hex[:16]}"


class StagingTable:
    """The staging table of one run of a job; it need not be there yet. Safe for several threads."""

    def __init__(self, connection: Connection, name: str):
        self._connection = connection
        self.name = name

    def create(self, replicas: int | None) -> None:
        """Make it, unless another task has."""
        schema = Schema((*_KEY, _DATA), len(_KEY))
        partitions = PartitionSchema((HashRule((PARTITION,), BUCKETS),))
        create_once(self._connection, TableDefinition(self.name, schema, partitions, replicas=replicas))

    def exists(self) -> bool:
        """Is it there?"""
        return is_there(self._connection, self.name)

    def append(self, partition: int, attempt: int, first_row: int, rows: pa.RecordBatch) -> None:
        """Add a piece of an attempt's rows, which it counts from `first_row` on. A piece that is repeated is there
        once."""
        stream = stream_buffer([rows], COMPRESSION)
        ends = np.append(np.arange(0, stream.size, CELL_BYTES, dtype=np.int32), np.int32(stream.size))
        parts = len(ends) - 1
        arrays = [
            pa.array(np.full(parts, partition, np.int32)),
            pa.array(np.full(parts, attempt, np.int64)),
            pa.array(np.full(parts, first_row, np.int64)),
            pa.array(np.arange(parts, dtype=np.int32)),
            pa.Array.from_buffers(pa.binary(), parts, [None, pa.py_buffer(ends), stream]),
        ]
        cells = pa.RecordBatch.from_arrays(arrays, names=[*(column.name for column in _KEY), DATA])
        store = self._connection.store
        result = store.write(store.table(self.name), WriteBatch(cells, Op.INSERT_IGNORE))
        if result.errors:
            raise result.errors[0].error

    def rows(self, attempts: Sequence[int]) -> Iterator[pa.RecordBatch]:
        """The rows of some attempts, each time in the same order: by partition, attempt, and as they were appended."""
        if not attempts:
            return
        table = self._connection.store.table(self.name)
        running: deque[Future[list[pa.RecordBatch]]] = deque()
        with ThreadPoolExecutor(_READERS, thread_name_prefix="nyala-spark-staged") as pool:
            try:
                for piece in self._pieces(table, attempts):
                    running.append(pool.submit(self._read, table, piece))
                    if len(running) > _READERS:
                        yield from running.popleft().result()
                while running:
                    yield from running.popleft().result()
            finally:
                for future in running:
                    future.cancel()
                wait(running)

    def _pieces(self, table: Table, attempts: Sequence[int]) -> list[_Piece]:
        """The pieces of some attempts, in order."""
        store = self._connection.store
        names = [column.name for column in _KEY]
        chosen = InList(ATTEMPT, tuple(sorted(set(attempts))))
        with scan_of(lambda: store, table, names, [chosen], store.now()) as scan:
            cells = scan.to_arrow().select(names[:-1])
        counted = (
            cells.group_by(names[:-1])
            .aggregate([([], "count_all")])
            .sort_by([(name, "ascending") for name in names[:-1]])
        )
        return [_Piece(*found.values()) for found in counted.select([*names[:-1], "count_all"]).to_pylist()]

    def _read(self, table: Table, piece: _Piece) -> list[pa.RecordBatch]:
        cells = []
        for part in range(piece.parts):
            found = self._connection.store.read_row(table, (piece.partition, piece.attempt, piece.row, part), (DATA,))
            if found is None:
                raise InternalError(f"staging table {self.name} lacks part {part} of {piece.parts} of {piece}")
            cells.append(found[0])
        return batches_of(b"".join(cells) if piece.parts > 1 else cells[0])

    def drop(self) -> None:
        """Drop it and the table of the job's keys, where they are there."""
        for name in (self.name + KEYS_SUFFIX, self.name):
            drop(self._connection, name)


@dataclass(frozen=True, slots=True)
class _Piece:
    """Rows that were appended together, and how many cells they take."""

    partition: int
    attempt: int
    row: int
    parts: int


# ---- tables ----------------------------------------------------------------------------------------------------------


def create_once(connection: Connection, definition: TableDefinition) -> None:
    """Make a table, unless it is there; also where another task is making it."""
    if is_there(connection, definition.name):
        return
    with suppress(DuplicateTable):
        connection.store.create_table(definition)
    for _ in range(_OPEN_TRIES):
        if is_there(connection, definition.name):
            return
        time.sleep(0.05)  # another task is making it


def is_there(connection: Connection, name: str) -> bool:
    """Is there a table of that name?"""
    with suppress(UnknownTable):
        connection.store.table(name)
        return True
    return False


def drop(connection: Connection, name: str) -> None:
    """Drop a table, if it is there."""
    with suppress(UnknownTable):
        connection.store.drop_table(name)


# ---- what dead jobs leave --------------------------------------------------------------------------------------------


def drop_leftovers(connection: Connection, age: timedelta = LEFTOVER_AGE, keep: str = "") -> list[str]:
    """Drop what dead jobs have left behind; the names of the staging tables that were dropped.

    These are the tables of jobs that have ended, and of jobs that were begun so long ago and have not been heard of for
    so long. What an interrupted publication needs stays. `keep` is a table that the caller uses.
    """
    found = [_NAME.fullmatch(table.name) for table in connection.store.tables()]
    names = sorted({match["staging"] for match in found if match is not None})
    if not names:
        return []
    jobs = Jobs(connection)
    records = {record.staging: record for record in jobs.all()}
    dropped = []
    for name in names:
        if name != keep and _is_leftover(name, records.get(name), jobs, age):
            StagingTable(connection, name).drop()
            dropped.append(name)
    return dropped


def _is_leftover(name: str, record: JobRecord | None, jobs: Jobs, age: timedelta) -> bool:
    if record is not None and record.state is not State.WRITING:
        return record.state is not State.PUBLISHING
    if record is not None and jobs.now() - record.updated <= age:
        return False
    found = _NAME.fullmatch(name)
    return found is not None and time.time() - int(found["created"], 16) > age.total_seconds()

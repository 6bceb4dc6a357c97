"""Staging tables: hold the rows of tasks until the job is published.

    _nyala_staging_<when, hex>_<random>
        _staged_partition  _staged_attempt  _staged_row  _staged_part  |  _staged_data
        └──────────────────────── primary key ─────────────────────┘

Rows are staged in the order of arrival, many together: a compressed Arrow stream, in as many cells as it needs. Single
rows are never looked up there, so the store need not split them, only reassemble them when they are published.

A partition's rows lie in one tablet. The rows of an attempt count only if the job's record names it. The table is
created by the first task that has more rows than its commit message holds, and dropped when the job has ended. Tables
of dead jobs are dropped by the next one (`drop_leftovers`). For operations that look up keys, there is also a table
with the job's keys (`staged_keys`).
"""

from __future__ import annotations

import re
import time
import uuid
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from datetime import timedelta
from typing import Final

import numpy as np
import pyarrow as pa

from ...driver.connection import Connection
from ...driver.tables.table_scans import scan_of
from ...errors import DuplicateTable, InternalError, UnknownTable
from ...model.lazy_dataclass import dataclass
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
"""Maximum bytes of a stream in a cell: the limit of a table's cells."""
COMPRESSION: Final = "zstd"
"""Compression of the streams. It takes less time than a faster one would cost by larger streams on network and disk."""
_KEY: Final = (
    ColumnSchema(PARTITION, INT, nullable=False),
    ColumnSchema(ATTEMPT, BIGINT, nullable=False),
    ColumnSchema(ROW, BIGINT, nullable=False),
    ColumnSchema(PART, INT, nullable=False),
)
_DATA: Final = ColumnSchema(
    # Each cell has a separate page, since cells are read one at a time.
    DATA,
    BINARY,
    nullable=False,
    encoding=Encoding.PLAIN,
    compression=Compression.NONE,
    block_size=CELL_BYTES,
)
BUCKETS: Final = 4
"""Number of tablets of a staging table, to which tasks write concurrently."""
LEFTOVER_AGE: Final = timedelta(days=1)
"""Time without an update after which a job is dead."""
RECORD_AGE: Final = timedelta(days=30)
"""Retention of the records of jobs without a user's key."""
RUN_PREFIX: Final = "run "
"""Prefix of the keys of such jobs."""
KEYS_SUFFIX: Final = "_keys"
"""Suffix of the name of the table of a job's keys, after that of its staging table."""
_NAME: Final = re.compile(f"(?P<staging>{STAGING_PREFIX}(?P<created>[0-9a-f]+)_[0-9a-f]+)(?:{KEYS_SUFFIX})?")
_OPEN_TRIES: Final = 100
_READERS: Final = 3
"""Number of pieces that are prefetched."""


def staging_name() -> str:
    """A new name, which contains its creation time."""
    return f"{STAGING_PREFIX}{int(time.time()):08x}_{uuid.uuid4().hex[:16]}"


class StagingTable:
    """The staging table of one run of a job; it need not exist yet. Thread-safe."""

    def __init__(self, connection: Connection, name: str):
        self._connection = connection
        self.name = name

    def create(self, replicas: int | None) -> None:
        """Creates it, unless another task has."""
        schema = Schema((*_KEY, _DATA), len(_KEY))
        partitions = PartitionSchema((HashRule((PARTITION,), BUCKETS),))
        create_once(self._connection, TableDefinition(self.name, schema, partitions, replicas=replicas))

    def exists(self) -> bool:
        """True if it exists."""
        return is_there(self._connection, self.name)

    def append(self, partition: int, attempt: int, first_row: int, rows: pa.RecordBatch) -> None:
        """Adds a piece of an attempt's rows, numbered from `first_row`. A repeated piece is stored once."""
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
            row = self._connection.store.read_row(table, (piece.partition, piece.attempt, piece.row, part), (DATA,))
            if row is None:
                raise InternalError(f"staging table {self.name} lacks part {part} of {piece.parts} of {piece}")
            cells.append(row[0])
        return batches_of(b"".join(cells) if piece.parts > 1 else cells[0])

    def drop(self) -> None:
        """Drops it and the table of the job's keys, if they exist."""
        for name in (self.name + KEYS_SUFFIX, self.name):
            drop(self._connection, name)


@dataclass(frozen=True, slots=True)
class _Piece:
    """Rows that were appended together, and the number of their cells."""

    partition: int
    attempt: int
    row: int
    parts: int


# ---- tables ----------------------------------------------------------------------------------------------------------


def create_once(connection: Connection, definition: TableDefinition) -> None:
    """Creates a table unless it exists, or another task is creating it."""
    if is_there(connection, definition.name):
        return
    with suppress(DuplicateTable):
        connection.store.create_table(definition)
    for _ in range(_OPEN_TRIES):
        if is_there(connection, definition.name):
            return
        time.sleep(0.05)  # another task is making it


def is_there(connection: Connection, name: str) -> bool:
    """True if there is a table of that name."""
    with suppress(UnknownTable):
        connection.store.table(name)
        return True
    return False


def drop(connection: Connection, name: str) -> None:
    """Drops a table if it exists."""
    with suppress(UnknownTable):
        connection.store.drop_table(name)


# ---- what dead jobs leave --------------------------------------------------------------------------------------------


def drop_leftovers(connection: Connection, age: timedelta = LEFTOVER_AGE, keep: str = "") -> list[str]:
    """Drops the tables of dead jobs; returns the names of the dropped staging tables.

    These are the tables of jobs that have ended, and of jobs that were started more than `age` ago without an update
    since. Tables that an interrupted publication needs are kept. `keep` is a table that the caller uses.
    """
    matches = [_NAME.fullmatch(table.name) for table in connection.store.tables()]
    names = sorted({match["staging"] for match in matches if match is not None})
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

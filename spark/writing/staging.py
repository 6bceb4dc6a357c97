"""Staging tables: where tasks put their rows until the job is published.

    _nyala_staging_<when, hex>_<random>
        _staged_partition  _staged_attempt  _staged_row  |  the columns that the rows give, all nullable
        └────────────── primary key ─────────────────┘

A partition's rows lie in one tablet, in the order in which its attempts wrote them. The rows of an attempt count only
if the job's record names it. The table is made by the first task that has more rows than its commit message takes, and
dropped when the job has ended; what is left of dead jobs is dropped by the next one (`drop_leftovers`).
"""

from __future__ import annotations

import re
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import Final

import numpy as np
import pyarrow as pa

from ...driver.connection import Connection
from ...driver.scans import scan_of
from ...errors import DuplicateTable, InterfaceError, UnknownTable
from ...storage.predicates import InList
from ...storage.schema import ColumnSchema, HashRule, PartitionSchema, Schema, Table, TableDefinition
from ...storage.store import Op, WriteBatch
from ...storage.types import BIGINT, INT
from .jobs import JobRecord, Jobs, State

STAGING_PREFIX: Final = "_nyala_staging_"
PARTITION: Final = "_staged_partition"
ATTEMPT: Final = "_staged_attempt"
ROW: Final = "_staged_row"
_KEY: Final = (
    ColumnSchema(PARTITION, INT, nullable=False),
    ColumnSchema(ATTEMPT, BIGINT, nullable=False),
    ColumnSchema(ROW, BIGINT, nullable=False),
)
BUCKETS: Final = 4
"""Tablets of a staging table: as many tasks write side by side."""
LEFTOVER_AGE: Final = timedelta(days=1)
"""After which a job that nobody has heard of is dead."""
RECORD_AGE: Final = timedelta(days=30)
"""How long records of jobs without a key of the user's are kept."""
RUN_PREFIX: Final = "run "
"""Keys of such jobs begin so."""
_NAME: Final = re.compile(f"{STAGING_PREFIX}(?P<created>[0-9a-f]+)_[0-9a-f]+")
_OPEN_TRIES: Final = 100


def staging_name() -> str:
    """A new name, which tells when it was made."""
    return f"{STAGING_PREFIX}{int(time.time()):08x}_{uuid.uuid4().hex[:16]}"


class StagingTable:
    """The staging table of one run of a job; it need not be there yet. Safe for several threads."""

    def __init__(self, connection: Connection, name: str):
        self._connection = connection
        self.name = name

    def create(self, columns: Sequence[ColumnSchema], replicas: int | None) -> None:
        """Make it, unless another task has."""
        for column in columns:
            if column.name in (PARTITION, ATTEMPT, ROW):
                raise InterfaceError(f"a column {column.name} cannot be staged; write with option staged=false")
        staged = [ColumnSchema(column.name, column.type) for column in columns]
        partitions = PartitionSchema((HashRule((PARTITION,), BUCKETS),))
        schema = Schema((*_KEY, *staged), len(_KEY))
        store = self._connection.store
        if self.exists():
            return
        with suppress(DuplicateTable):
            store.create_table(TableDefinition(self.name, schema, partitions, replicas=replicas))
        for _ in range(_OPEN_TRIES):
            if self.exists():
                return
            time.sleep(0.05)  # another task is making it

    def exists(self) -> bool:
        """Is it there?"""
        with suppress(UnknownTable):
            self._connection.store.table(self.name)
            return True
        return False

    def append(self, partition: int, attempt: int, first_row: int, rows: pa.RecordBatch) -> None:
        """Add an attempt's rows, which it counts from `first_row` on. A batch that is repeated is there once."""
        count = rows.num_rows
        keys = [
            pa.array(np.full(count, partition, np.int32)),
            pa.array(np.full(count, attempt, np.int64)),
            pa.array(np.arange(first_row, first_row + count, dtype=np.int64)),
        ]
        names = [column.name for column in _KEY]
        batch = pa.RecordBatch.from_arrays([*keys, *rows.columns], names=[*names, *rows.schema.names])
        table = self._connection.store.table(self.name)
        result = self._connection.store.write(table, WriteBatch(batch, Op.INSERT_IGNORE))
        if result.errors:
            raise result.errors[0].error

    def rows(self, attempts: Sequence[int]) -> Iterator[pa.RecordBatch]:
        """The rows of some attempts, each time in the same order; without the key."""
        if not attempts:
            return
        table = self._connection.table(self.name)
        names = [column.name for column in table.columns[len(_KEY) :]]
        for tablet in table.tablets:
            yield from self._tablet_rows(table.definition, names, tablet.id, attempts)

    def _tablet_rows(
        self, table: Table, names: Sequence[str], tablet: str, attempts: Sequence[int]
    ) -> Iterator[pa.RecordBatch]:
        store = self._connection.store
        chosen = InList(ATTEMPT, tuple(sorted(set(attempts))))
        with scan_of(lambda: store, table, names, [chosen], store.now(), tablet=tablet) as scan:
            yield from scan

    def drop(self) -> None:
        """Drop it, if it is there."""
        with suppress(UnknownTable):
            self._connection.store.drop_table(self.name)


def drop_leftovers(connection: Connection, age: timedelta = LEFTOVER_AGE, keep: str = "") -> list[str]:
    """Drop what dead jobs have left behind; the names of the staging tables that were dropped.

    These are the tables of jobs that have ended, and of jobs that were begun so long ago and have not been heard of for
    so long. What an interrupted publication needs stays. `keep` is a table that the caller uses.
    """
    names = [table.name for table in connection.store.tables() if _NAME.fullmatch(table.name)]
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

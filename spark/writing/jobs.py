"""The record of jobs: the progress of each write from Spark, kept in the store that it writes to.

    (none) ─► writing ──► publishing ──► published
                 │            │
                 └──► aborted ◄┘          an aborted job may begin again

Changes are compare-and-set operations. The table's key is (job, guard). The record is the row with guard 0; a second
row has the record's step as its guard. A change replaces that row by the next one, together with the record, all or
none, as the table's single tablet applies a write atomically. Of two writers that change the same record, one finds the
guard missing.

    begin   INSERT ("nightly", 1)                           INSERT ("nightly", 0)  step 1  writing
    change  DELETE ("nightly", 4)  INSERT ("nightly", 5)    UPSERT ("nightly", 0)  step 5  publishing
"""

from __future__ import annotations

import enum
import time
import zlib
from collections.abc import Sequence
from dataclasses import fields, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import numpy as np
import pyarrow as pa

from ...driver.connection import Connection
from ...errors import AlreadyPresent, DuplicateTable, InterfaceError, NotFound, OperationalError, UnknownTable
from ...model.codec.packing import unpack
from ...model.lazy_dataclass import dataclass
from ...model.schema import Table
from ...model.store import Op, WriteBatch
from .operations import Operation

JOBS_TABLE: Final = "_nyala_spark_jobs"
_DEFINITION: Final = f"""CREATE TABLE IF NOT EXISTS {JOBS_TABLE} (
    job STRING NOT NULL, guard BIGINT NOT NULL COMMENT '0: the record; others: rows that guard its step',
    target STRING, operation STRING, state STRING, owner STRING, step BIGINT,
    staging STRING, moment BIGINT, attempts BINARY, few BINARY, rows BIGINT, published BIGINT,
    started TIMESTAMP, updated TIMESTAMP, message STRING,
    PRIMARY KEY (job, guard))"""
_CREATE_TRIES: Final = 20
MAX_JOB_BYTES: Final = 1024
"""Maximum length of a job's key in UTF-8: far below the limit of the store's keys."""
_MESSAGE_CHARACTERS: Final = 100_000
_PACKED: Final = b"z"
"""Prefix of packed attempts; MessagePack's arrays begin with other bytes."""


def check_job(job: str) -> None:
    """Raises `InterfaceError` for an invalid job key."""
    if not job.strip():
        raise InterfaceError("idempotencyKey is empty: give each job a unique name, or leave the option out")
    size = len(job.encode("utf-8", "surrogatepass"))
    if size > MAX_JOB_BYTES or "\0" in job:
        raise InterfaceError(
            f"idempotencyKey {job[:40]!r}... has {size:,} bytes; it may have {MAX_JOB_BYTES:,}, and no zero bytes"
        )


class State(enum.StrEnum):
    """The progress of a job."""

    WRITING = "writing"
    """Tasks write into the staging table."""
    PUBLISHING = "publishing"
    """Its rows are fixed, and are being applied to the target: by the owner, or by a later run of the job."""
    PUBLISHED = "published"
    """All rows are applied. This state is final."""
    ABORTED = "aborted"
    """No row is applied. The job may start again."""


@dataclass(frozen=True, slots=True)
class JobRecord:
    """The progress of one job.

    Attributes
    ----------
    job : str
        Its key: chosen by the user, or generated for this run.
    step : int
        Number of changes of the record, from 1.
    target, operation : str, Operation
        The table that it writes to, and its operation.
    state : State
    owner : str
        The process that changed it last (`lease.owner_name`).
    staging : str
        The table that holds its rows until they are published, unless they are few.
    moment : int, optional
        Hybrid time at which `publishing` began: the target's state at that time determines the rejected rows.
    attempts : tuple of int
        The attempts of tasks whose rows in the staging table count.
    few : bytes, optional
        An Arrow stream of the rows that are not in a staging table.
    rows, published : int
        Its number of rows; the number of them that changed the target, by its owner's last count.
    started, updated : datetime
        UTC, by the store's clock.
    message : str, optional
        The reason why it was aborted.
    """

    job: str
    target: str
    operation: Operation
    state: State
    owner: str
    step: int = 0
    staging: str = ""
    moment: int | None = None
    attempts: tuple[int, ...] = ()
    few: bytes | None = None
    rows: int = 0
    published: int = 0
    started: datetime = datetime(1970, 1, 1)  # the store's TIMESTAMP has no zone
    updated: datetime = datetime(1970, 1, 1)
    message: str | None = None


_COLUMNS: Final = tuple(field.name for field in fields(JobRecord))


class Jobs:
    """The record of jobs of one store. Thread-safe."""

    def __init__(self, connection: Connection):
        self._connection = connection

    # ---- reading -------------------------------------------------------------------------------------------------

    def find(self, job: str) -> JobRecord | None:
        """One job's record; None if there is none."""
        try:
            table = self._connection.store.table(JOBS_TABLE)
        except UnknownTable:
            return None
        row = self._connection.store.read_row(table, (job, 0), _COLUMNS)
        return None if row is None else _record(dict(zip(_COLUMNS, row)))

    def all(self, prefix: str = "") -> list[JobRecord]:
        """All records whose keys have a prefix, by job, without their rows (`few`)."""
        try:
            table = self._connection.table(JOBS_TABLE)
        except UnknownTable:
            return []
        predicates = [("guard", "==", 0), *([("job", "starts_with", prefix)] if prefix else [])]
        with table.scan([name for name in _COLUMNS if name != "few"], predicates, ordered=True) as scan:
            return [_record(row) for row in scan.to_arrow().to_pylist()]

    def now(self) -> datetime:
        """The store's time, UTC."""
        return _datetime(self._connection.store.now())

    # ---- changing ------------------------------------------------------------------------------------------------

    def change(self, before: JobRecord | None, after: JobRecord) -> JobRecord | None:
        """Replaces the record that the caller has read by `after` (None: there was none).

        Returns the record with its step and times, or None, without a change, if the record has changed since. Raises
        the store's error if it rejects the record for any other reason: a retry would fail too.
        """
        now = self.now()
        step = 1 if before is None else before.step + 1
        started = now if before is None or before.state is State.ABORTED else before.started
        after = replace(after, step=step, started=started, updated=now)
        table = self._table()
        rows, ops = _rows(table, before, after)
        try:
            result = self._connection.store.write(table, WriteBatch(rows, ops, all_or_none=True))
        except OperationalError:
            # The outcome may be unknown, but the record names its owner.
            current = self.find(after.job)
            if current is not None and (current.step, current.owner, current.state) == (step, after.owner, after.state):
                return after
            raise
        for refusal in result.errors:
            if not isinstance(refusal.error, AlreadyPresent | NotFound):
                raise refusal.error
        return None if result.errors else after

    def touch(self, job: str) -> None:
        """Updates the time of a job that is being written, so that other processes do not consider it dead."""
        record = self.find(job)
        if record is not None and record.state is State.WRITING:
            # Without a guard: if the record has advanced meanwhile, this only updates its time.
            row = {"job": job, "guard": 0, "updated": self.now()}
            self._connection.store.write_row(self._table(), Op.UPDATE_IGNORE, row)

    def forget(self, records: Sequence[JobRecord]) -> None:
        """Deletes the records of the jobs that have not changed since they were read."""
        for record in records:
            keys = {"job": [record.job, record.job], "guard": pa.array([record.step, 0], pa.int64())}
            batch = WriteBatch(pa.record_batch(keys), Op.DELETE, all_or_none=True)
            self._connection.store.write(self._table(), batch)

    def forget_before(self, age: timedelta, prefix: str) -> None:
        """Deletes the records of jobs with a key prefix that ended more than `age` ago."""
        limit = self.now() - age
        ended = (State.PUBLISHED, State.ABORTED)
        self.forget([r for r in self.all(prefix) if r.state in ended and r.updated < limit])

    def _table(self) -> Table:
        """The table, created by the first process that needs it."""
        for _ in range(_CREATE_TRIES):
            try:
                return self._connection.store.table(JOBS_TABLE)
            except UnknownTable:
                try:
                    self._connection.execute(_DEFINITION)
                except DuplicateTable:
                    # Another process is creating it, and it cannot be opened yet.
                    time.sleep(0.1)
        return self._connection.store.table(JOBS_TABLE)


def _rows(table: Table, before: JobRecord | None, after: JobRecord) -> tuple[pa.RecordBatch, Any]:
    """The rows of a change and their ops: the guards, and the record."""
    fields = {**{name: getattr(after, name) for name in _COLUMNS}, "guard": 0}
    fields["attempts"] = pack_attempts(after.attempts)
    fields["message"] = after.message and after.message[:_MESSAGE_CHARACTERS]
    rows: list[dict[str, Any]] = [{"job": after.job, "guard": after.step}, fields]
    ops = [Op.INSERT, Op.INSERT if before is None else Op.UPSERT]
    if before is not None:
        rows.insert(0, {"job": before.job, "guard": before.step})
        ops.insert(0, Op.DELETE)
    return pa.RecordBatch.from_pylist(rows, table.schema.arrow), np.array(ops, np.uint8)


def pack_attempts(attempts: Sequence[int]) -> bytes:
    """Sorted numbers in few bytes, stored in one cell: about 12 kB for a million tasks.

    >>> unpack_attempts(pack_attempts((3, 4, 1 << 40)))
    (3, 4, 1099511627776)
    """
    steps = np.diff(np.array(sorted(attempts), np.int64), prepend=np.int64(0))
    return _PACKED + zlib.compress(steps.astype("<i8").tobytes())


def unpack_attempts(packed: bytes | None) -> tuple[int, ...]:
    """The numbers; also from records written by earlier versions."""
    if not packed:
        return ()
    if not packed.startswith(_PACKED):
        return tuple(unpack(packed))
    steps = np.frombuffer(zlib.decompress(packed[len(_PACKED) :]), "<i8")
    return tuple(np.cumsum(steps).tolist())


def _record(row: dict[str, Any]) -> JobRecord:
    attempts = unpack_attempts(row.pop("attempts", None))
    operation, state = Operation(row.pop("operation")), State(row.pop("state"))
    return JobRecord(operation=operation, state=state, attempts=attempts, **row)


def _datetime(timestamp: int) -> datetime:
    """A hybrid timestamp as a TIMESTAMP of the store: UTC, without a zone."""
    return datetime.fromtimestamp(0, UTC).replace(tzinfo=None) + timedelta(microseconds=timestamp >> 12)

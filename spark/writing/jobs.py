"""The record of jobs: how far each write from Spark has come, kept in the store that it writes to.

    (none) ─► writing ──► publishing ──► published
                 │            │
                 └──► aborted ◄┘          an aborted job may begin again

Whoever changes a record must have seen it as it is. The table's key is (job, guard). The record is the row with guard
0, and beside it lies one whose guard is the record's step. A change exchanges that one for the next, and with it the
record, all or none, which the table's one tablet does in one go: a compare and set. Of two who change the same
record, one finds the guard gone.

    begin   INSERT ("nightly", 1)                           INSERT ("nightly", 0)  step 1  writing
    change  DELETE ("nightly", 4)  INSERT ("nightly", 5)    UPSERT ("nightly", 0)  step 5  publishing
"""

from __future__ import annotations

import enum
import time
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import msgpack
import numpy as np
import pyarrow as pa

from ...driver.connection import Connection
from ...errors import AlreadyPresent, DuplicateTable, InterfaceError, NotFound, OperationalError, UnknownTable
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
"""Of a job's key in UTF-8: far below what a key of the store may have."""
_MESSAGE_CHARACTERS: Final = 100_000
_PACKED: Final = b"z"
"""In front of attempts that are packed; MessagePack's arrays begin with other bytes."""


def check_job(job: str) -> None:
    """Raise `InterfaceError` for what cannot be the key of a job."""
    if not job.strip():
        raise InterfaceError("idempotencyKey is empty: give each job a name of its own, or leave the option out")
    size = len(job.encode("utf-8", "surrogatepass"))
    if size > MAX_JOB_BYTES or "\0" in job:
        raise InterfaceError(
            f"idempotencyKey {job[:40]!r}... has {size:,} bytes; it may have {MAX_JOB_BYTES:,}, and no zero bytes"
        )


class State(enum.StrEnum):
    """How far a job has come."""

    WRITING = "writing"
    """Tasks write into the staging table."""
    PUBLISHING = "publishing"
    """Its rows are fixed, and go into the target. The owner does that, or whoever runs the job again."""
    PUBLISHED = "published"
    """They are all there. It stays so."""
    ABORTED = "aborted"
    """None is there. The job may begin again."""


@dataclass(frozen=True, slots=True)
class JobRecord:
    """How far one job has come.

    Attributes
    ----------
    job : str
        Its key: what the user chose, or one made up for this run.
    step : int
        Counts the changes of the record, from 1.
    target, operation : str, Operation
        The table that it writes to, and how.
    state : State
    owner : str
        Who changed it last (`lease.owner_name`).
    staging : str
        The table that holds its rows until they are published, unless they are few.
    moment : int, optional
        Hybrid time at which `publishing` began: how the target was then decides what of the job is refused.
    attempts : tuple of int
        The attempts of tasks whose rows in the staging table count.
    few : bytes, optional
        An Arrow stream of the rows that are in no staging table.
    rows, published : int
        How many rows it has; how many of them have changed the target, by its owner's last count.
    started, updated : datetime
        UTC, by the store's clock.
    message : str, optional
        Why it was aborted.
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
    """The record of jobs of one store. Safe for several threads."""

    def __init__(self, connection: Connection):
        self._connection = connection

    # ---- reading -------------------------------------------------------------------------------------------------

    def find(self, job: str) -> JobRecord | None:
        """One job's record; None where there is none."""
        try:
            table = self._connection.store.table(JOBS_TABLE)
        except UnknownTable:
            return None
        found = self._connection.store.read_row(table, (job, 0), _COLUMNS)
        return None if found is None else _record(dict(zip(_COLUMNS, found)))

    def all(self, prefix: str = "") -> list[JobRecord]:
        """All records whose keys start so, by job, without their rows (`few`)."""
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
        """Put `after` in the place of the record that the caller has seen (None: there was none).

        Returns the record with its step and times, or None, with nothing done, where it is not as it was seen any
        more. Raises what the store says where it refuses the record for any other reason: trying again would be
        refused again.
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
            # Nobody may know what became of it; but a record says whose it is.
            found = self.find(after.job)
            if found is not None and (found.step, found.owner, found.state) == (step, after.owner, after.state):
                return after
            raise
        for refusal in result.errors:
            if not isinstance(refusal.error, AlreadyPresent | NotFound):
                raise refusal.error
        return None if result.errors else after

    def touch(self, job: str) -> None:
        """Note that a job is still being written, if it is: others may take it for dead otherwise."""
        record = self.find(job)
        if record is not None and record.state is State.WRITING:
            # Not guarded: where the record has come further meanwhile, it is only younger by that.
            row = {"job": job, "guard": 0, "updated": self.now()}
            self._connection.store.write_row(self._table(), Op.UPDATE_IGNORE, row)

    def forget(self, records: Sequence[JobRecord]) -> None:
        """Delete the records of those of the jobs that are still as they were seen."""
        for record in records:
            keys = {"job": [record.job, record.job], "guard": pa.array([record.step, 0], pa.int64())}
            batch = WriteBatch(pa.record_batch(keys), Op.DELETE, all_or_none=True)
            self._connection.store.write(self._table(), batch)

    def forget_before(self, age: timedelta, prefix: str) -> None:
        """Delete the records of jobs that have ended so long ago, of those whose keys start so."""
        limit = self.now() - age
        ended = (State.PUBLISHED, State.ABORTED)
        self.forget([r for r in self.all(prefix) if r.state in ended and r.updated < limit])

    def _table(self) -> Table:
        """The table, made by whoever is first."""
        for _ in range(_CREATE_TRIES):
            try:
                return self._connection.store.table(JOBS_TABLE)
            except UnknownTable:
                try:
                    self._connection.execute(_DEFINITION)
                except DuplicateTable:
                    # Somebody else is making it, and it cannot be opened yet.
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
    """Sorted numbers in few bytes, as a cell of the store holds them: of a million tasks, about 12 kB.

    >>> unpack_attempts(pack_attempts((3, 4, 1 << 40)))
    (3, 4, 1099511627776)
    """
    steps = np.diff(np.array(sorted(attempts), np.int64), prepend=np.int64(0))
    return _PACKED + zlib.compress(steps.astype("<i8").tobytes())


def unpack_attempts(packed: bytes | None) -> tuple[int, ...]:
    """The numbers; also of records that an earlier nyala wrote."""
    if not packed:
        return ()
    if not packed.startswith(_PACKED):
        return tuple(msgpack.unpackb(packed))
    steps = np.frombuffer(zlib.decompress(packed[len(_PACKED) :]), "<i8")
    return tuple(np.cumsum(steps).tolist())


def _record(row: dict[str, Any]) -> JobRecord:
    attempts = unpack_attempts(row.pop("attempts", None))
    operation, state = Operation(row.pop("operation")), State(row.pop("state"))
    return JobRecord(operation=operation, state=state, attempts=attempts, **row)


def _datetime(timestamp: int) -> datetime:
    """A hybrid timestamp as the store's TIMESTAMP has it: UTC, without a zone."""
    return datetime.fromtimestamp(0, UTC).replace(tzinfo=None) + timedelta(microseconds=timestamp >> 12)

"""The work of one task with its rows.

batches ─► Fitting ─┬─ at most FEW_BYTES ─► the commit message
                    └─ more ─► batches of `batch_rows` ─► staging table, written while others arrive
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Final, NoReturn

import pyarrow as pa

from ...driver.connection import Connection
from ...errors import OperationalError
from ...model.lazy_dataclass import dataclass
from ...model.schema import Table
from ...model.store import WriteBatch
from .arrow_streams import stream_of
from .fitting import Fitting
from .jobs import JobRecord, Jobs, State
from .lease import owner_name
from .operations import Operation
from .staging import StagingTable

FEW_BYTES: Final = 1 << 20
"""Maximum bytes of Arrow data in a commit message; larger data are cheaper to stage than to send twice."""
FEW_ROWS: Final = 1 << 16
PIECE_BYTES: Final = 32 << 20
"""Approximate bytes of Arrow data in one write."""
WRITES_IN_FLIGHT: Final = 2


@dataclass(frozen=True, slots=True)
class JobPlan:
    """The plan shared by all tasks of a job; plain data, which is sent to them.

    Attributes
    ----------
    job : str
        Its key in the record of jobs.
    target : str
        The table.
    operation : Operation
    staging : str
        The name of this run's staging table, which need not exist; it is unique to the run.
    batch_rows : int
        Maximum number of rows in one write.
    is_staged : bool
        False: tasks write directly into the target.
    """

    job: str
    target: str
    operation: Operation
    staging: str
    batch_rows: int = 65_536
    is_staged: bool = True


@dataclass(frozen=True, slots=True)
class TaskRows:
    """The result of a task.

    Attributes
    ----------
    partition, attempt : int
        The task; the attempt's number is unique in its application.
    rows : int
        Its number of rows.
    staging : str, optional
        The table that holds them; None if they are few.
    few : bytes, optional
        An Arrow stream of them.
    applied : int
        The number of rows that already changed the target, if the task writes directly into it.
    timestamp : int
        Hybrid time at which all of them were stored.
    """

    partition: int
    attempt: int
    rows: int
    staging: str | None = None
    few: bytes | None = None
    applied: int = 0
    timestamp: int = 0


def write_task(
    connection: Connection, plan: JobPlan, partition: int, attempt: int, batches: Iterable[pa.RecordBatch]
) -> TaskRows:
    """Stores a task's rows for its job's commit.

    Raises the errors of `Fitting` for rows that the table cannot store, and those of the store.
    """
    table = connection.store.table(plan.target)
    fitted = _fitted(table, plan.operation, batches)
    pieces = joined(fitted, plan.batch_rows)
    if not plan.is_staged:
        rows, applied = _write_direct(connection, plan, table, pieces)
        return TaskRows(partition, attempt, rows, applied=applied, timestamp=connection.store.now())
    begun, is_all = _beginning(pieces)
    if is_all:
        rows = sum(piece.num_rows for piece in begun)
        return TaskRows(partition, attempt, rows, few=stream_of(begun), timestamp=connection.store.now())
    staging = open_staging(connection, plan)
    rows = _in_flight(
        _chain(begun, pieces),
        lambda piece, first: staging.append(partition, attempt, first, piece),
        WRITES_IN_FLIGHT,
    )
    return TaskRows(partition, attempt, rows, staging.name, timestamp=connection.store.now())


def open_staging(connection: Connection, plan: JobPlan) -> StagingTable:
    """The job's staging table, created if necessary, with a record that the job is being written.

    Raises `OperationalError` if this run of the job has ended: Spark may abandon a task that is still running.
    """
    table = connection.store.table(plan.target)
    staging = StagingTable(connection, plan.staging)
    jobs = Jobs(connection)
    if not staging.exists():
        _begin(jobs, plan)
        staging.create(table.replicas)
        # A run is ended by changing the record first and dropping the table then, so the task notices one of the two.
        record = jobs.find(plan.job)
        if record is not None and _has_ended(record, plan):
            staging.drop()
            _refuse_ended(record)
    jobs.touch(plan.job)
    return staging


def _begin(jobs: Jobs, plan: JobPlan) -> None:
    """Records that the job is being written, unless another run of it has advanced further."""
    before = jobs.find(plan.job)
    if before is not None and _has_ended(before, plan):
        _refuse_ended(before)
    if before is None or before.state is State.ABORTED:
        # If another task or run is first, the result is the same.
        record = JobRecord(plan.job, plan.target, plan.operation, State.WRITING, owner_name(), staging=plan.staging)
        jobs.change(before, record)


def _has_ended(record: JobRecord, plan: JobPlan) -> bool:
    """True if this run of the job has ended. Other runs of it have other staging tables."""
    return record.staging == plan.staging and record.state in (State.ABORTED, State.PUBLISHED)


def _refuse_ended(record: JobRecord) -> NoReturn:
    raise OperationalError(f"job {record.job} is {record.state.value} already; this task is no longer needed")


def _write_direct(
    connection: Connection, plan: JobPlan, table: Table, pieces: Iterator[pa.RecordBatch]
) -> tuple[int, int]:
    """Writes the rows directly; returns the number of rows, and of those that changed the table."""
    applied: list[int] = []

    def write(piece: pa.RecordBatch, first: int) -> None:
        result = connection.store.write(table, WriteBatch(piece, plan.operation.repeated))
        if result.errors:
            raise result.errors[0].error
        applied.append(result.applied)

    # In order: of two rows with one key, the later wins.
    return _in_flight(pieces, write, 1), sum(applied)


# ---- pieces ----------------------------------------------------------------------------------------------------------


def _fitted(table: Table, operation: Operation, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    fitting: Fitting | None = None
    for batch in batches:
        if fitting is None:
            fitting = Fitting(table, operation, batch.schema)
        if batch.num_rows:
            yield fitting.rows(batch)


def joined(batches: Iterable[pa.RecordBatch], rows: int, size: int = PIECE_BYTES) -> Iterator[pa.RecordBatch]:
    """The same rows in batches of about `rows` rows or `size` bytes, none with more rows than that."""
    held: list[pa.RecordBatch] = []
    count = held_size = 0
    for batch in batches:
        for start in range(0, batch.num_rows, rows):
            part = batch.slice(start, rows)
            if held and (count + part.num_rows > rows or held_size >= size):
                yield pa.concat_batches(held)
                held, count, held_size = [], 0, 0
            held.append(part)
            count, held_size = count + part.num_rows, held_size + part.nbytes
    if held:
        yield pa.concat_batches(held)


def _beginning(pieces: Iterator[pa.RecordBatch]) -> tuple[list[pa.RecordBatch], bool]:
    """The first pieces, until they exceed the limit; True if these are all."""
    begun: list[pa.RecordBatch] = []
    size = rows = 0
    for piece in pieces:
        begun.append(piece)
        size, rows = size + piece.nbytes, rows + piece.num_rows
        if size > FEW_BYTES or rows > FEW_ROWS:
            return begun, False
    return begun, True


def _chain(begun: list[pa.RecordBatch], rest: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    while begun:
        yield begun.pop(0)
    yield from rest


def _in_flight(pieces: Iterator[pa.RecordBatch], write: Callable[[pa.RecordBatch, int], None], count: int) -> int:
    """Writes the pieces, `count` of them concurrently, while the next ones are prepared; returns the number of rows."""
    running: deque[Future[None]] = deque()
    rows = 0
    with ThreadPoolExecutor(count, thread_name_prefix="nyala-spark-write") as pool:
        try:
            for piece in pieces:
                while len(running) > count:
                    running.popleft().result()
                running.append(pool.submit(write, piece, rows))
                rows += piece.num_rows
            while running:
                running.popleft().result()
        finally:
            wait(running)
    return rows

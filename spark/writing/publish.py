"""Publishes a job's rows into its table, once.

    Jobs.find(job) ─┬─ none, writing, aborted ─► publishing, with my rows ─► apply ─► published
                    ├─ publishing, abandoned ──► mine, with its rows ──────► apply ─► published
                    ├─ publishing, by another ─► wait
                    └─ published ──────────────► nothing to do

The process may end between any two steps: the record then holds the remaining work, and the next run of the job does
it. The step to `publishing` fixes a job's rows: from then on these are the rows, whichever process applies them, and
whatever another run of the job has written.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final

import pyarrow as pa

from ...driver.connection import Connection
from ...errors import DataError, Error, IntegrityError, InterfaceError, OperationalError, ProgrammingError
from ...model.lazy_dataclass import dataclass
from ...model.store import Timestamp
from .applying import apply
from .arrow_streams import batches_of, stream_of
from .jobs import JobRecord, Jobs, State
from .lease import Lease, is_abandoned, owner_name
from .staging import RECORD_AGE, RUN_PREFIX, StagingTable, drop_leftovers
from .tasks import JobPlan, TaskRows, open_staging

RECORD_BYTES: Final = 768 << 10
"""Maximum size of an Arrow stream in a record: a cell of a table has at most 1 MiB."""
TRIES: Final = 3
"""Number of attempts of a publication before it is left to the next run."""
_FAILED: Final = "its tasks have failed"
_POLL_SECONDS: Final = (0.05, 1.0)
_REFUSALS: Final = (IntegrityError, DataError, ProgrammingError)

log = logging.getLogger("nyala.spark")


@dataclass(frozen=True, slots=True)
class Published:
    """The result of `publish`.

    Attributes
    ----------
    record : JobRecord
        In state `published`.
    is_repeated : bool
        True if the rows in the table are those of an earlier run of the job, not of this one.
    """

    record: JobRecord
    is_repeated: bool


def publish(connection: Connection, plan: JobPlan, tasks: Sequence[TaskRows], owner: str | None = None) -> Published:
    """Publishes the rows that a job's tasks have written, unless the job has been published before.

    When it returns, the rows are in the table and the staging table is dropped. `owner` is this process's name in the
    record (`lease.owner_name`); for tests.

    Raises
    ------
    IntegrityError, DataError, ProgrammingError
        If the table rejects the rows; none is written, and the job is `aborted`.
    OperationalError, NotSupportedError
        If the publication is interrupted; it is finished by the next run of the job.
    InterfaceError
        If the key belongs to a job with another table or operation.
    """
    jobs = Jobs(connection)
    owner = owner or owner_name()
    _observe(connection, tasks)
    with suppress(Error):
        drop_leftovers(connection, keep=plan.staging)
    wanted: JobRecord | None = None
    for pause in _pauses():
        before = jobs.find(plan.job)
        _check_same(before, plan)
        if before is not None and before.state is State.PUBLISHED:
            _drop(connection, plan.staging, before.staging)
            return Published(before, is_repeated=before.staging != plan.staging)
        if before is not None and before.state is State.PUBLISHING:
            if is_abandoned(before, jobs.now()):
                mine = jobs.change(before, replace(before, owner=owner))
                if mine is not None:
                    return Published(_finish(connection, jobs, mine, plan, resumed=True), is_repeated=True)
            time.sleep(pause)
            continue
        wanted = wanted or _gathered(connection, plan, tasks, owner)
        mine = jobs.change(before, replace(wanted, moment=connection.store.now()))
        if mine is not None:
            return Published(_finish(connection, jobs, mine, plan, resumed=False), is_repeated=False)
    raise AssertionError("the pauses have no end")


def resume(connection: Connection, job: str, batch_rows: int = 65_536) -> Published | None:
    """Finishes the publication of an interrupted job; returns None if there is no such job, or nothing to finish.

    Raises as `publish` does, and `OperationalError` if its owner is still publishing it.
    """
    jobs = Jobs(connection)
    record = jobs.find(job)
    if record is None or record.state is not State.PUBLISHING:
        return None
    if not is_abandoned(record, jobs.now()):
        raise OperationalError(f"job {job} is being published by {record.owner}, last seen at {record.updated}")
    plan = JobPlan(job, record.target, record.operation, record.staging, batch_rows)
    mine = jobs.change(record, replace(record, owner=owner_name()))
    if mine is None:
        return resume(connection, job, batch_rows)
    return Published(_finish(connection, jobs, mine, plan, resumed=True), is_repeated=True)


def abandon(connection: Connection, plan: JobPlan) -> None:
    """Abandons a run of a job whose tasks have failed, and drops its staging table.

    A job that is published, or being published, is not affected.
    """
    jobs = Jobs(connection)
    record = jobs.find(plan.job)
    if record is not None and record.state is State.PUBLISHING and record.staging == plan.staging:
        return
    if record is None or (record.state is State.WRITING and record.staging == plan.staging):
        # Also if no task has staged anything: a task that Spark has abandoned may be about to.
        aborted = JobRecord(
            plan.job, plan.target, plan.operation, State.ABORTED, owner_name(), staging=plan.staging, message=_FAILED
        )
        if jobs.change(record, aborted) is None:
            abandon(connection, plan)
            return
    _drop(connection, plan.staging)


def is_published(connection: Connection, plan: JobPlan) -> bool:
    """True if the job has been published, so that its tasks have nothing to do.

    Raises `InterfaceError` if the key belongs to another job.
    """
    record = Jobs(connection).find(plan.job)
    _check_same(record, plan)
    return record is not None and record.state is State.PUBLISHED


# ---- the rows --------------------------------------------------------------------------------------------------------


def _gathered(connection: Connection, plan: JobPlan, tasks: Sequence[TaskRows], owner: str) -> JobRecord:
    """The record of a job with its rows: those of its tasks' messages in the record itself or, if there are too
    many, in the staging table with the others."""
    attempts = [task.attempt for task in tasks if task.staging is not None]
    with_few = [task for task in tasks if task.few is not None]
    few = _stream([batch for task in with_few for batch in batches_of(task.few)])
    if few is not None and len(few) > RECORD_BYTES:
        for task in with_few:
            _stage(connection, plan, task)
        attempts += [task.attempt for task in with_few]
        few = None
    return JobRecord(
        job=plan.job,
        target=plan.target,
        operation=plan.operation,
        state=State.PUBLISHING,
        owner=owner,
        staging=plan.staging,
        attempts=tuple(sorted(attempts)),
        few=few,
        rows=sum(task.rows for task in tasks),
        published=sum(task.applied for task in tasks),
    )


def _stream(batches: list[pa.RecordBatch]) -> bytes | None:
    return stream_of(pa.Table.from_batches(batches).combine_chunks().to_batches()) if batches else None


def _stage(connection: Connection, plan: JobPlan, task: TaskRows) -> None:
    batches = batches_of(task.few)
    staging = open_staging(connection, plan)
    first = 0
    for batch in batches:
        staging.append(task.partition, task.attempt, first, batch)
        first += batch.num_rows


# ---- the end ---------------------------------------------------------------------------------------------------------


def _finish(connection: Connection, jobs: Jobs, mine: JobRecord, plan: JobPlan, resumed: bool) -> JobRecord:
    """Applies the rows of a record that this process owns, and updates the record."""
    with Lease(jobs, mine) as lease:
        for tries_left in reversed(range(TRIES)):
            try:
                apply(connection, lease, plan.batch_rows, resumed)
                break
            except _REFUSALS as error:
                if lease.published == mine.published:
                    _refused(connection, lease, plan, error)
                else:
                    _note_interrupted(error, lease.record)
                raise
            except Error as error:
                if not (error.retryable and tries_left):
                    _note_interrupted(error, lease.record)
                    raise
                resumed = True
        record = lease.finish(State.PUBLISHED)
    log.info("job %s: %d rows, %d changed table %s", record.job, record.rows, record.published, record.target)
    with suppress(Error):  # otherwise the next job drops it
        _drop(connection, plan.staging, record.staging)
    if record.job.startswith(RUN_PREFIX):
        with suppress(Error):
            jobs.forget_before(RECORD_AGE, RUN_PREFIX)
    return record


def _refused(connection: Connection, lease: Lease, plan: JobPlan, error: Error) -> None:
    notes = getattr(error, "__notes__", [])
    staging = lease.record.staging
    lease.finish(State.ABORTED, "; ".join([str(error), *notes]))
    with suppress(Error):
        _drop(connection, plan.staging, staging)


def _note_interrupted(error: Error, record: JobRecord) -> None:
    error.add_note(
        f"job {record.job} is half published: {record.published} of {record.rows} rows have changed table "
        f"{record.target}; run it again with the same idempotencyKey, or call nyala.spark.writing.publish.resume, to "
        "finish it"
    )


def _drop(connection: Connection, *names: str) -> None:
    for name in dict.fromkeys(names):
        if name:
            StagingTable(connection, name).drop()


def _observe(connection: Connection, tasks: Sequence[TaskRows]) -> None:
    """Advances this process's timestamp, so that its later reads include the rows written by the tasks."""
    update: Any = getattr(connection.store, "update", None)
    if update is not None:
        update(Timestamp(max((task.timestamp for task in tasks), default=0)))


def _check_same(record: JobRecord | None, plan: JobPlan) -> None:
    if record is not None and (record.target, record.operation) != (plan.target, plan.operation):
        raise InterfaceError(
            f"idempotencyKey {plan.job} belongs to a job with operation={record.operation.value} of table "
            f"{record.target}; this one is {plan.operation.value} of table {plan.target}"
        )


def _pauses() -> Any:
    """The pauses between attempts, in seconds, without end."""
    pause, longest = _POLL_SECONDS
    while True:
        yield pause
        pause = min(2 * pause, longest)

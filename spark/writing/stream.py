"""The sink of streams: each micro-batch is a job whose key is the query's id and the batch's number.

Spark repeats a batch, with the same number and offsets, when a query restarts from its checkpoint, even if the batch
was written before. The record of jobs has that information: a published batch is not published again, and an
interrupted publication is finished with its original rows.

    tasks    write(batches) ─► message: query, batch, rows          (the ids are properties of the task)
    driver   commit(messages, batch) ─► publish "stream <query> <batch>"

Spark creates the committing object anew, in another process than those of the tasks: everything it needs from them is
in their messages.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage

from ...driver.connection import Connection
from ...errors import Error, InternalError
from ...model.lazy_dataclass import dataclass
from .. import workers
from ..source.options import Use, parse
from .jobs import Jobs, State
from .planning import STREAM_PREFIX, plan_of
from .publish import abandon, is_published, publish
from .tasks import JobPlan, TaskRows, write_task

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

KEPT_BATCHES: Final = 1000
"""Number of records kept for a query. Spark itself can repeat the last 100 batches (minBatchesToRetain)."""
_FORGET_EVERY: Final = 100
_QUERY: Final = "sql.streaming.queryId"
_BATCH: Final = "streaming.sql.batchId"


@dataclass(frozen=True, slots=True)
class BatchMessage(WriterCommitMessage):
    """The message of a task to the driver: the query and batch of its rows, and their location."""

    query: str
    batch: int
    staging: str
    rows: TaskRows


class StreamSink(DataSourceStreamArrowWriter):
    """Writes the batches of a query into a table, each once.

    Parameters
    ----------
    options : mapping of str to str
        The options of `source.options` for a stream write.
    schema : StructType
        The columns of the rows.
    overwrite : bool
        True if each batch replaces the table's rows: output mode `complete`.

    Raises
    ------
    InterfaceError, UnknownTable, UnknownColumn, TypeMismatch, NotNullViolation, NotSupportedError
        If the write is not possible; nothing has been done.
    """

    def __init__(self, options: Mapping[str, str], schema: StructType, overwrite: bool):
        self._given = parse(options, Use.SINK)
        self._plan = plan_of(self._planning(), self._given, schema, overwrite)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> BatchMessage:
        """Stores one task's rows for `commit`."""
        context = TaskContext.get()
        assert context is not None, "Spark calls write in a task"
        query, batch = context.getLocalProperty(_QUERY), context.getLocalProperty(_BATCH)
        if query is None or batch is None:
            raise InternalError(f"Spark has not set the batch of this task: {_QUERY}={query}, {_BATCH}={batch}")
        plan = self._batch_plan(query, int(batch))
        partition, attempt = context.partitionId(), context.taskAttemptId()
        if is_published(self._connection(), plan):
            deque(iterator, maxlen=0)
            rows = TaskRows(partition, attempt, 0)
        else:
            rows = write_task(self._connection(), plan, partition, attempt, iterator)
        return BatchMessage(query, int(batch), plan.staging, rows)

    def commit(self, messages: Sequence[BatchMessage | None], batchId: int) -> None:
        """Publishes a batch; raises as `publish.publish` does. A batch without tasks has no rows."""
        told = [message for message in messages if message is not None]
        if not told:
            return
        connection = self._planning()
        publish(connection, self._plan_of(told[0]), [message.rows for message in told])
        if batchId % _FORGET_EVERY == 0:
            with suppress(Error):
                _forget(Jobs(connection), told[0].query, batchId - KEPT_BATCHES)

    def abort(self, messages: Sequence[BatchMessage | None], batchId: int) -> None:
        """Drops the staged rows of the tasks whose messages arrived. Spark also calls this if `commit` has raised an
        error."""
        told = [message for message in messages if message is not None]
        if told:
            abandon(self._connection(), self._plan_of(told[0]))

    def _batch_plan(self, query: str, batch: int) -> JobPlan:
        # One object may serve the tasks of several batches, whose staging tables differ.
        return replace(self._plan, job=batch_job(query, batch), staging=f"{self._plan.staging}{batch:x}")

    def _plan_of(self, message: BatchMessage) -> JobPlan:
        return replace(self._plan, job=batch_job(message.query, message.batch), staging=message.staging)

    def _connection(self) -> Connection:
        return workers.connection(self._given["url"], **self._given.client())

    def _planning(self) -> Connection:
        """A connection with a refreshed catalog, because the table may just have been recreated."""
        return workers.planning(self._given["url"], **self._given.client())

    def __getstate__(self) -> dict[str, Any]:
        """The state without a password, for the tasks and the commit."""
        return {**vars(self), "_given": self._given.for_tasks(self._connection().store)}


def batch_job(query: str, batch: int) -> str:
    """The key of a batch in the record of jobs."""
    return f"{_query_prefix(query)}{batch}"


def _query_prefix(query: str) -> str:
    return f"{STREAM_PREFIX}{query} "


def _forget(jobs: Jobs, query: str, before: int) -> None:
    """Deletes the records of batches that Spark cannot repeat any more."""
    prefix = _query_prefix(query)
    ended = [record for record in jobs.all(prefix) if record.state is State.PUBLISHED]
    jobs.forget([record for record in ended if int(record.job.removeprefix(prefix)) < before])

"""Implements Spark's batch writes: `DataFrame.write.format("nyala").mode("append").save()`.

    driver      TableWriter(...)      options, table, columns; checks if the job is already published
    each task     write(batches)      rows into the commit message, or the staging table
    driver        commit(messages)    publish the rows of the attempts that count
                  abort(messages)     drop the staged rows

Spark creates the writer in one process, sends it to the tasks, and calls `commit` or `abort` in another.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from ...driver.connection import Connection
from ...model.lazy_dataclass import dataclass
from .. import workers
from ..source.options import Use, parse
from .planning import plan_of
from .publish import abandon, is_published, publish
from .tasks import TaskRows, write_task

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


@dataclass(frozen=True, slots=True)
class TaskMessage(WriterCommitMessage):
    """The message of a task to the driver."""

    rows: TaskRows


class TableWriter(DataSourceArrowWriter):
    """Writes a DataFrame's rows into a table, all or none, once.

    Parameters
    ----------
    options : mapping of str to str
        The options of `source.options` for a write.
    schema : StructType
        The DataFrame's columns.
    overwrite : bool
        True if the rows replace those of the table.

    Raises
    ------
    InterfaceError, UnknownTable, UnknownColumn, TypeMismatch, NotNullViolation, NotSupportedError
        If the write is not possible; nothing has been done.
    """

    def __init__(self, options: Mapping[str, str], schema: StructType, overwrite: bool):
        self._given = parse(options, Use.WRITE)
        connection = self._planning()
        self._plan = plan_of(connection, self._given, schema, overwrite)
        self._is_published = is_published(connection, self._plan)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> TaskMessage:
        """Stores one task's rows for `commit`."""
        context = TaskContext.get()
        assert context is not None, "Spark calls write in a task"
        partition, attempt = context.partitionId(), context.taskAttemptId()
        if self._is_published:
            deque(iterator, maxlen=0)
            return TaskMessage(TaskRows(partition, attempt, 0))
        return TaskMessage(write_task(self._connection(), self._plan, partition, attempt, iterator))

    def commit(self, messages: Sequence[TaskMessage | None]) -> None:
        """Publishes the rows of the attempts that Spark has chosen; raises as `publish.publish` does."""
        publish(self._planning(), self._plan, [message.rows for message in messages if message is not None])

    def abort(self, messages: Sequence[TaskMessage | None]) -> None:
        """Drops the staged rows of the tasks. Spark also calls this if `commit` has raised an error."""
        abandon(self._connection(), self._plan)

    def _connection(self) -> Connection:
        return workers.connection(self._given["url"], **self._given.client())

    def _planning(self) -> Connection:
        """A connection with a refreshed catalog, because the table may just have been recreated."""
        return workers.planning(self._given["url"], **self._given.client())

    def __getstate__(self) -> dict[str, Any]:
        """The state without a password, for the tasks and the commit."""
        return {**vars(self), "_given": self._given.for_tasks(self._connection().store)}

"""Batch writes, as Spark asks for them: `DataFrame.write.format("nyala").mode("append").save()`.

    driver      TableWriter(...)      options, table, columns; has the job been published already?
    each task     write(batches)      rows into the commit message, or the staging table
    driver        commit(messages)    publish the rows of the attempts that count
                  abort(messages)     drop what was staged

Spark makes the writer in one process, sends it to the tasks, and calls `commit` or `abort` in another.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from ...driver.connection import Connection
from .. import workers
from ..source.options import Use, parse
from .planning import plan_of
from .publish import abandon, is_published, publish
from .tasks import TaskRows, write_task

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


@dataclass(frozen=True, slots=True)
class TaskMessage(WriterCommitMessage):
    """What a task tells the driver."""

    rows: TaskRows


class TableWriter(DataSourceArrowWriter):
    """Writes a DataFrame's rows into a table, all or none, once.

    Parameters
    ----------
    options : mapping of str to str
        Those of `source.options` for a write.
    schema : StructType
        The DataFrame's columns.
    overwrite : bool
        The rows replace those of the table.

    Raises
    ------
    InterfaceError, UnknownTable, UnknownColumn, TypeMismatch, NotNullViolation, NotSupportedError
        It cannot be written so; nothing has been done.
    """

    def __init__(self, options: Mapping[str, str], schema: StructType, overwrite: bool):
        self._given = parse(options, Use.WRITE)
        connection = self._planning()
        self._plan = plan_of(connection, self._given, schema, overwrite)
        self._is_published = is_published(connection, self._plan)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> TaskMessage:
        """Take one task's rows to where `commit` finds them."""
        context = TaskContext.get()
        assert context is not None, "Spark calls write in a task"
        partition, attempt = context.partitionId(), context.taskAttemptId()
        if self._is_published:
            deque(iterator, maxlen=0)
            return TaskMessage(TaskRows(partition, attempt, 0))
        return TaskMessage(write_task(self._connection(), self._plan, partition, attempt, iterator))

    def commit(self, messages: Sequence[TaskMessage | None]) -> None:
        """Publish the rows of the attempts that Spark has chosen; see `publish.publish` for what it raises."""
        publish(self._planning(), self._plan, [message.rows for message in messages if message is not None])

    def abort(self, messages: Sequence[TaskMessage | None]) -> None:
        """Drop what the tasks have staged. Spark calls this also where `commit` has raised."""
        abandon(self._connection(), self._plan)

    def _connection(self) -> Connection:
        return workers.connection(self._given["url"], **self._given.client())

    def _planning(self) -> Connection:
        """For whoever looks the table up by its name: it may have been made anew a moment ago."""
        return workers.planning(self._given["url"], **self._given.client())

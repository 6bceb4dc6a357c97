"""A stream of a table's changes: each insert, update and delete once, in the order of batches.

    offset {"ts": hybrid timestamp}      a batch has the changes after one offset and up to another

| offset | |
|---|---|
| `{"ts": -1}` | the start: the first batch has the existing rows at its end, as inserts |
| `{"ts": -1, "snapshot": s, "after": key}` | of the rows as of s, those up to this key have been read (`paging`) |
| `{"ts": t}` | all changes up to t have been read |

An offset is the complete state, so Spark's checkpoint suffices: a batch that is repeated after a crash is the same diff
scan between the same two times. It returns the same changes, as long as the store keeps the history
(`history_seconds`). Otherwise the query fails with `HistoryGone`, and does not skip changes.

Without changes there are no batches: before an offset advances, the tablets are queried for a change.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from ...driver.connection import Connection
from ...errors import InterfaceError, NotSupportedError
from ...model.store import Timestamp
from .. import workers
from ..types import arrow_of
from . import changes, partitions, scanning
from .options import Use, parse
from .paging import AFTER, SNAPSHOT, TIME, end_of_changes, end_of_page, narrowed, snapshot_of
from .read_limits import HAS_LIMITS, ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from .schemas import declared

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads the changes of one table; see the module docstring.

    One instance lives as long as the query, in a separate process, and returns offsets and partitions. Others, created
    with the same options, read partitions in the tasks. Those have no password: each partition brings the token of its
    batch, since a query may run for longer than any token is valid.
    """

    def __init__(self, options: Mapping[str, str], schema: StructType):
        self._given = parse(options, Use.STREAM)
        if "startingTimestamp" not in self._given:
            raise InterfaceError(
                "option startingTimestamp is missing: a stream reads changes, from earliest, latest, or a time on"
            )
        if "maxRowsPerTrigger" in self._given and not HAS_LIMITS:
            raise NotSupportedError("option maxRowsPerTrigger needs PySpark 4.2 or newer")
        self._schema = arrow_of(schema)
        connection = workers.planning(self._given["url"], **self._given.client())
        self._columns = declared(connection, self._given, schema)
        self._initial: dict[str, Any] | None = None
        self._last: dict[str, Any] | None = None
        self._target: Timestamp | None = None

    def __getstate__(self) -> dict[str, Any]:
        """The state without a password, for the tasks."""
        return {**vars(self), "_given": self._given.for_tasks(self._connection().store)}

    # ---- offsets -----------------------------------------------------------------------------------------------------

    def initialOffset(self) -> dict[str, Any]:
        """The start of a query without a checkpoint: the same time at every call."""
        if self._initial is None:
            self._initial = {TIME: changes.starting_time(self._connection(), self._given)}
            self._last = self._initial
        return dict(self._initial)

    def getDefaultReadLimit(self) -> ReadLimit:
        """The maximum number of rows of a batch, by the options."""
        most = self._given["maxRowsPerTrigger"]
        return ReadAllAvailable() if most is None else ReadMaxRows(most)

    def prepareForTriggerAvailableNow(self) -> None:
        """Fixes the end of the query at the current time."""
        self._target = self._connection().store.now()

    def latestOffset(self, start: Mapping[str, Any] | None = None, limit: ReadLimit | None = None) -> dict[str, Any]:
        """The time up to which the next batch reads: now, or `start` if nothing has changed since; with a limit, at
        most that many rows.

        PySpark 4.1 does not pass `start`: the reader's last result is used instead.
        """
        connection = self._connection()
        if start is None:
            start = self._last or {TIME: connection.store.now()}
        self._last = self._latest(connection, start, limit)
        return self._last

    def _latest(self, connection: Connection, start: Mapping[str, Any], limit: ReadLimit | None) -> dict[str, Any]:
        since = Timestamp(start[TIME])
        until = connection.store.now() if self._target is None else self._target
        most = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        if since == changes.BEFORE_ALL:
            if most is None:
                return {TIME: start.get(SNAPSHOT, until)}
            return end_of_page(connection, self._given, start, until, most)
        if until <= since or not changes.has_changes(connection, self._given, since, until, self._columns):
            return dict(start)
        return {TIME: until} if most is None else end_of_changes(connection, self._given, since, until, most)

    # ---- batches -----------------------------------------------------------------------------------------------------

    def partitions(self, start: Mapping[str, Any], end: Mapping[str, Any]) -> Sequence[InputPartition]:
        """One partition for each tablet that may have changes."""
        since, until = Timestamp(start[TIME]), Timestamp(end[TIME])
        if dict(start) == dict(end):
            return []
        connection, given = self._connection(), self._given
        if since == changes.BEFORE_ALL:
            until = snapshot_of(start, end)
            if AFTER in start or AFTER in end:
                given = narrowed(connection, given, start, end)
        planned = changes.plan_changes(connection, given, since, until, self._columns)
        token = given.for_tasks(connection.store).client().get(workers.TOKEN)
        return [InputPartition((part, token)) for part in partitions.make_parts(connection, planned, until)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The changes of one tablet, by key and then by time."""
        part, token = partition.value
        if token is not None:
            self._given = self._given.replaced(token=token)
        return scanning.read(self._connection(), part, self._schema, self._given["fetchsize"])

    def _connection(self) -> Connection:
        return workers.observing(
            workers.connection(self._given["url"], **self._given.client()), self._given["observed"]
        )

"""A stream of a table's changes: each insert, update and delete once, in the order of batches.

    offset {"ts": hybrid timestamp}      a batch is what happened after one offset and up to another

| offset | |
|---|---|
| `{"ts": -1}` | before anything: the first batch is the rows that there are at its end, as inserts |
| `{"ts": t}` | all that happened up to t has been read |

An offset says all there is to say, so Spark's checkpoint is the whole state: a batch that is repeated after a crash is
the same diff scan between the same two times, and gives the same changes, as long as the store keeps the past
(`history_seconds`). Where it does not any more, the query fails with `HistoryGone`, and does not skip what it missed.

While nothing happens there are no batches: before an offset is moved on, tablets are asked whether there is a change.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow

from ...driver.connection import Connection
from ...errors import InterfaceError
from ...storage.store import Timestamp
from .. import workers
from ..types import arrow_of
from . import changes, partitions, scanning
from .options import Use, parse
from .relation import Relation
from .schemas import declared

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

_TIME: Final = "ts"


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads the changes of one table; see the module's page.

    One lives as long as the query, in a process of its own, and gives out offsets and partitions; others, made of the
    same options, read partitions in the tasks.
    """

    def __init__(self, options: Mapping[str, str], schema: StructType):
        self._given = parse(options, Use.STREAM)
        if "startingTimestamp" not in self._given:
            raise InterfaceError(
                "option startingTimestamp is missing: a stream reads changes, from earliest, latest, or a time on"
            )
        self._schema = arrow_of(schema)
        connection = workers.planning(self._given["url"], **self._given.client())
        self._columns = declared(connection, self._given, schema)
        self._target: Timestamp | None = None

    # ---- offsets -----------------------------------------------------------------------------------------------------

    def initialOffset(self) -> dict[str, int]:
        """Where a query without a checkpoint begins."""
        return {_TIME: changes.starting_time(self._given, self._connection().store.now())}

    def prepareForTriggerAvailableNow(self) -> None:
        """The query is to end with what has happened by now."""
        self._target = self._connection().store.now()

    def latestOffset(self, start: Mapping[str, int], limit: ReadLimit) -> dict[str, int]:
        """The time up to which the next batch reads: now, or `start` where nothing has happened since."""
        connection = self._connection()
        since = Timestamp(start[_TIME])
        until = connection.store.now() if self._target is None else self._target
        if until <= since or not self._has_changes(connection, since, until):
            return dict(start)
        return {_TIME: until}

    def _has_changes(self, connection: Connection, since: Timestamp, until: Timestamp) -> bool:
        if since == changes.BEFORE_ALL:
            return True
        found = self._relation(connection, since, until)
        assert found.scan is not None
        bare = replace(found.scan, names=(changes.CHANGE_COLUMNS[0],), predicates=(), fragment=b"")
        parts = partitions.made(connection, replace(found, scan=bare), until)
        return any(scanning.has_rows(connection, part) for part in parts)

    # ---- batches -----------------------------------------------------------------------------------------------------

    def partitions(self, start: Mapping[str, int], end: Mapping[str, int]) -> Sequence[InputPartition]:
        """One for each tablet that may have changes."""
        since, until = Timestamp(start[_TIME]), Timestamp(end[_TIME])
        if since == until:
            return []
        connection = self._connection()
        found = self._relation(connection, since, until)
        return [InputPartition(part) for part in partitions.made(connection, found, until)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The changes of one tablet, by key and then by time."""
        return scanning.read(self._connection(), partition.value, self._schema, self._given["fetchsize"])

    def _relation(self, connection: Connection, since: Timestamp, until: Timestamp) -> Relation:
        return changes.of(connection, self._given, since, until, self._columns)

    def _connection(self) -> Connection:
        return workers.connection(self._given["url"], **self._given.client())

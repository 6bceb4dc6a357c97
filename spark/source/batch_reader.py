"""Reads a relation as of one snapshot: the interface that Spark's planner and its tasks call.

Spark requests the partitions once in the life of a relation, when it first plans a query with it. The snapshot
timestamp is chosen then, so every later query reads the same snapshot.

There are two classes, because Spark checks a class for `pushFilters`, and rejects a reader with that method if its
setting is off. The one with the method is used only on request: Spark 4.3 keeps the filters of all uses of one relation
in one place, so that one use's filters affect another's partitions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from ...driver.connection import Connection
from ...driver.tables.timestamps import hybrid_time
from ...errors import InterfaceError
from ...model.predicates import ColumnPredicate
from ...model.store import Timestamp
from .. import workers
from ..types import arrow_of
from . import changes, partitions, relation, scanning
from .options import SourceOptions, Use, parse
from .pushed_filters import pushed
from .relation import Relation
from .schemas import declared

if TYPE_CHECKING:
    from pyspark.sql.datasource import Filter
    from pyspark.sql.types import StructType


def reader(options: Mapping[str, str], schema: StructType) -> DataSourceReader:
    """The reader that the options select."""
    given = parse(options, Use.READ)
    return FilteringReader(given, schema) if given["pushdown"] else BatchReader(given, schema)


class BatchReader(DataSourceReader):
    """Reads a relation; created in the planning process, and sent to the tasks."""

    def __init__(self, given: SourceOptions, schema: StructType):
        self._given = given
        self._schema = arrow_of(schema)
        connection = workers.planning(given["url"], **given.client())
        self._columns = declared(connection, given, schema)

    def __getstate__(self) -> dict[str, Any]:
        """The state without a password, for the tasks."""
        return {**vars(self), "_given": self._given.for_tasks(self._connection().store)}

    def partitions(self) -> list[InputPartition]:
        """One partition per task; chooses the snapshot timestamp."""
        connection, given = self._connection(), self._given
        now = connection.store.now()
        snapshot = now if given["asOf"] is None else hybrid_time(given["asOf"], now)
        planned = self._narrowed(self._relation(connection, snapshot))
        parts = partitions.make_parts(connection, planned, snapshot, given["numPartitions"], given["splitSize"])
        return [InputPartition(part) for part in parts]

    def _relation(self, connection: Connection, snapshot: Timestamp) -> Relation:
        if "startingTimestamp" not in self._given:
            return relation.plan_relation(connection, self._given, self._columns)
        since = changes.starting_time(connection, self._given)
        return changes.plan_changes(connection, self._given, since, snapshot, self._columns)

    def _narrowed(self, found: Relation) -> Relation:
        return found

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one partition."""
        if partition.value is None:  # Spark's own, if there is no partition
            return iter(())
        return scanning.read(self._connection(), partition.value, self._schema, self._given["fetchsize"])

    def _connection(self) -> Connection:
        return workers.observing(
            workers.connection(self._given["url"], **self._given.client()), self._given["observed"]
        )


class FilteringReader(BatchReader):
    """A reader that accepts Spark's filters; the module docstring explains why it is not the default."""

    def __init__(self, given: SourceOptions, schema: StructType):
        super().__init__(given, schema)
        self._predicates: tuple[ColumnPredicate, ...] = ()

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        """Records the filters that tablets can evaluate. Returns all filters, so that Spark evaluates them again."""
        connection = self._connection()
        planned = relation.plan_relation(connection, self._given, self._columns)
        if planned.scan is None or "startingTimestamp" in self._given:
            raise InterfaceError(
                "pushdown=true is for tables, and queries that filter and project one table; leave it out here"
            )
        self._predicates = pushed(planned.scan, filters)
        return filters

    def _narrowed(self, found: Relation) -> Relation:
        return found.narrowed(self._predicates)

"""Reading a relation at one time: what Spark's planner and its tasks ask for.

Spark asks for the partitions once in the life of a relation, when it first plans a query with it. The time is drawn
then, so whatever is read of the relation later, by any query, is of that time.

There are two classes, as Spark looks at a class for `pushFilters`, and refuses a reader that has it while its setting
is off. The one that has it is for those who ask for it: Spark 4.3 keeps the filters of all uses of one relation in one
place, so that one use's filters reach another's partitions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

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
from .options import Given, Use, parse
from .pushed_filters import pushed
from .relation import Relation
from .schemas import declared

if TYPE_CHECKING:
    from pyspark.sql.datasource import Filter
    from pyspark.sql.types import StructType


def reader(options: Mapping[str, str], schema: StructType) -> DataSourceReader:
    """The reader that the options ask for."""
    given = parse(options, Use.READ)
    return FilteringReader(given, schema) if given["pushdown"] else BatchReader(given, schema)


class BatchReader(DataSourceReader):
    """Reads a relation; made in the process that plans, and sent to the tasks."""

    def __init__(self, given: Given, schema: StructType):
        self._given = given
        self._schema = arrow_of(schema)
        connection = workers.planning(given["url"], **given.client())
        self._columns = declared(connection, given, schema)

    def partitions(self) -> list[InputPartition]:
        """One per task; the time is drawn here."""
        connection, given = self._connection(), self._given
        now = connection.store.now()
        snapshot = now if given["asOf"] is None else hybrid_time(given["asOf"], now)
        found = self._narrowed(self._relation(connection, snapshot))
        parts = partitions.made(connection, found, snapshot, given["numPartitions"], given["splitSize"])
        return [InputPartition(part) for part in parts]

    def _relation(self, connection: Connection, snapshot: Timestamp) -> Relation:
        if "startingTimestamp" not in self._given:
            return relation.of(connection, self._given, self._columns)
        since = changes.starting_time(connection, self._given)
        return changes.of(connection, self._given, since, snapshot, self._columns)

    def _narrowed(self, found: Relation) -> Relation:
        return found

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one partition."""
        if partition.value is None:  # Spark's own, where there was none
            return iter(())
        return scanning.read(self._connection(), partition.value, self._schema, self._given["fetchsize"])

    def _connection(self) -> Connection:
        return workers.connection(self._given["url"], **self._given.client())


class FilteringReader(BatchReader):
    """A reader that takes Spark's filters; see the module's page for why nobody gets it unasked."""

    def __init__(self, given: Given, schema: StructType):
        super().__init__(given, schema)
        self._predicates: tuple[ColumnPredicate, ...] = ()

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        """Note what tablets can evaluate. All filters are given back: Spark evaluates them on what comes, too."""
        connection = self._connection()
        found = relation.of(connection, self._given, self._columns)
        if found.scan is None or "startingTimestamp" in self._given:
            raise InterfaceError(
                "pushdown=true is for tables, and queries that filter and project one table; leave it out here"
            )
        self._predicates = pushed(found.scan, filters)
        return filters

    def _narrowed(self, found: Relation) -> Relation:
        return found.narrowed(self._predicates)

"""A job's keys as a table, for operations that look them up: existing keys, repeated keys.

    _nyala_staging_..._keys
        _staged_number  |  the columns of the target's key
        primary key

It is created from the job's rows when it is needed, and dropped with the staging table.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np
import pyarrow as pa

from ...driver.connection import Connection
from ...model.schema import ColumnSchema, HashRule, PartitionSchema, Schema, TableDefinition
from ...model.store import Op, WriteBatch
from ...model.types import BIGINT
from ...sql.binding.tables.show_create import quoted_name
from .staging import BUCKETS, KEYS_SUFFIX, create_once

_NUMBER: Final = "_staged_number"


class StagedKeys:
    """The keys of the rows of a staging table.

    Parameters
    ----------
    staging : str
        The staging table's name.
    key : sequence of ColumnSchema
        The target's key.
    """

    def __init__(self, connection: Connection, staging: str, key: Sequence[ColumnSchema], replicas: int | None):
        self._connection = connection
        self._name = staging + KEYS_SUFFIX
        self._key = key
        self._replicas = replicas
        self._number = _NUMBER
        while self._number in {column.name for column in key}:
            self._number += "_"

    def fill(self, batches: Iterable[pa.RecordBatch]) -> bool:
        """Fills the table with the keys of the job's rows; returns True if there are any.

        May be repeated with the same rows in the same order.
        """
        first = 0
        for batch in batches:
            if not first:
                create_once(self._connection, self._definition())
            self._append(first, batch)
            first += batch.num_rows
        return first > 0

    @property
    def query(self) -> str:
        """A subquery of all keys."""
        return f"(SELECT {', '.join(quoted_name(column.name) for column in self._key)} FROM {quoted_name(self._name)})"

    def _definition(self) -> TableDefinition:
        number = ColumnSchema(self._number, BIGINT, nullable=False)
        schema = Schema((number, *(ColumnSchema(column.name, column.type) for column in self._key)), 1)
        partitions = PartitionSchema((HashRule((self._number,), BUCKETS),))
        return TableDefinition(self._name, schema, partitions, replicas=self._replicas)

    def _append(self, first: int, rows: pa.RecordBatch) -> None:
        names = [column.name for column in self._key]
        numbers = pa.array(np.arange(first, first + rows.num_rows, dtype=np.int64))
        columns = [rows.column(name) for name in names]
        batch = pa.RecordBatch.from_arrays([numbers, *columns], names=[self._number, *names])
        store = self._connection.store
        result = store.write(store.table(self._name), WriteBatch(batch, Op.INSERT_IGNORE))
        if result.errors:
            raise result.errors[0].error

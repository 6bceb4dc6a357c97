"""nyala in this process, by its tables without SQL: `TableHandle.get`, `update`, `insert` and `scan`.

Threads share one connection, as its users' threads would. A row is text columns with a primary key, in one tablet;
every option except `durability` has its default. A load inserts batches, each of them durable when the call returns.
After a load the table is compacted, as PostgreSQL's is vacuumed: otherwise the merges of the loaded rows would run
during the first seconds of the first workload only. From then on flushes and compactions run in the background as
usual.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

import pyarrow as pa

from ....driver.connection import Connection, connect
from ....driver.tables.conditions import col
from ....driver.tables.table_handle import TableHandle
from ....errors import NotFound
from ....model.version import __version__
from ..model import COLUMNS, FIELD_NAMES, KEY, TABLE, Client, Durability, Fields

CREATE = f"CREATE TABLE {TABLE} ({', '.join(f'{name} STRING NOT NULL' for name in COLUMNS)}, PRIMARY KEY ({KEY}))"
_FIELDS = list(FIELD_NAMES)


class NyalaBinding:
    """The embedded store; see the module docstring."""

    name: ClassVar[str] = "nyala"
    spreads: ClassVar[bool] = False

    def __init__(self, home: Path, durability: Durability) -> None:
        self._home = home
        self._durability = durability
        self._connection: Connection | None = None

    def start(self) -> None:
        """Opens the store, creates the table."""
        self._connection = connect(self._home, durability=self._durability)
        self._connection.execute(CREATE)

    @property
    def connection(self) -> Connection:
        """The connection that all threads share."""
        if self._connection is None:
            self._connection = connect(self._home, durability=self._durability)
        return self._connection

    def client(self) -> Client:
        """A client with its own handle on the shared connection."""
        return TableClient(self.connection.table(TABLE))

    def settle(self) -> None:
        """COMPACT TABLE."""
        self.connection.execute(f"COMPACT TABLE {TABLE}")

    def stop(self) -> None:
        """Closes the store."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def version(self) -> str:
        """nyala's version."""
        return nyala_version()


class TableClient:
    """YCSB's operations on a table without SQL, for any store; with `owned`, closing it closes the connection."""

    def __init__(self, table: TableHandle, owned: Connection | None = None) -> None:
        self._table = table
        self._owned = owned

    def load(self, keys: Sequence[str], rows: Sequence[Fields]) -> None:
        """One batch of Arrow columns, durable when this returns."""
        columns = [pa.array(keys), *(pa.array(values) for values in zip(*rows, strict=True))]
        self._table.insert(pa.RecordBatch.from_arrays(columns, names=list(COLUMNS)))

    def read(self, key: str) -> Fields:
        """All fields of a row, by its key."""
        row = self._table.get(key, _FIELDS)
        if row is None:
            raise NotFound(f"there is no row with key {key}")
        return tuple(row.values())

    def update(self, key: str, field: int, value: str) -> None:
        """Sets one field; the store rejects a missing key."""
        self._table.update({KEY: key, FIELD_NAMES[field]: value})

    def insert(self, key: str, fields: Fields) -> None:
        """Adds a row; the store rejects an existing key."""
        self._table.insert((key, *fields))

    def scan(self, first: str, count: int) -> Sequence[Fields]:
        """A scan in key order with a lower bound and a limit."""
        with self._table.scan(_FIELDS, col(KEY) >= first, limit=count, ordered=True) as scan:
            return list(scan.rows())

    def close(self) -> None:
        """Closes the connection, if it is this client's own."""
        if self._owned is not None:
            self._owned.close()


def nyala_version() -> str:
    """The version for the report."""
    return f"nyala {__version__}"

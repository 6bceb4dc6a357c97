"""nyala in this process, by SQL: prepared statements of PEP 249 cursors, without further help.

Store, table and load are those of `nyala`; each client has a cursor on the shared connection. Texts are the same at
every call, with `?` for what differs, so that each is parsed, bound and planned once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from ....driver.cursor import Cursor
from ....errors import NotFound
from ..model import FIELD_NAMES, KEY, TABLE, Fields
from .nyala import COLUMNS, NyalaBinding, TableClient

_FIELDS = ", ".join(FIELD_NAMES)
_READ = f"SELECT {_FIELDS} FROM {TABLE} WHERE {KEY} = ?"
_UPDATES = tuple(f"UPDATE {TABLE} SET {name} = ? WHERE {KEY} = ?" for name in FIELD_NAMES)
_INSERT = f"INSERT INTO {TABLE} ({', '.join(COLUMNS)}) VALUES ({', '.join('?' for _ in COLUMNS)})"
_SCAN = f"SELECT {_FIELDS} FROM {TABLE} WHERE {KEY} >= ? ORDER BY {KEY} LIMIT ?"


class NyalaSqlBinding(NyalaBinding):
    """The embedded store by SQL; see the module's page."""

    name: ClassVar[str] = "nyala-sql"

    def client(self) -> SqlClient:
        """A client with a cursor of its own."""
        return SqlClient(TableClient(self.connection.table(TABLE)), self.connection.cursor())


class SqlClient:
    """YCSB's operations as statements; a load is that of a table without SQL."""

    def __init__(self, table: TableClient, cursor: Cursor) -> None:
        self._cursor = cursor
        self.load = table.load

    def read(self, key: str) -> Fields:
        """SELECT of all fields by the key."""
        row = self._cursor.execute(_READ, (key,)).fetchone()
        if row is None:
            raise NotFound(f"there is no row with key {key}")
        return row

    def update(self, key: str, field: int, value: str) -> None:
        """UPDATE of one field by the key."""
        if self._cursor.execute(_UPDATES[field], (value, key)).rowcount != 1:
            raise NotFound(f"there is no row with key {key}")

    def insert(self, key: str, fields: Fields) -> None:
        """INSERT of one row."""
        self._cursor.execute(_INSERT, (key, *fields))

    def scan(self, first: str, count: int) -> Sequence[Fields]:
        """SELECT with a lower bound, ORDER BY and LIMIT."""
        return self._cursor.execute(_SCAN, (first, count)).fetchall()

    def close(self) -> None:
        """Close the cursor."""
        self._cursor.close()

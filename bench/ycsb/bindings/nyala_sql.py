"""nyala in this process, by SQL: prepared statements of PEP 249 cursors, without further help.

Store, table and load are those of `nyala`; each client has a cursor on the shared connection. Texts are the same at
every call, with `?` for the values, so that each is parsed, bound and planned once.
"""

from __future__ import annotations

from typing import ClassVar

from ....driver.cursor import Cursor
from ..model import TABLE
from .nyala import NyalaBinding, TableClient
from .statements import CursorClient, statements


class NyalaSqlBinding(NyalaBinding):
    """The embedded store by SQL; see the module docstring."""

    name: ClassVar[str] = "nyala-sql"

    def client(self) -> SqlClient:
        """A client with its own cursor."""
        return SqlClient(TableClient(self.connection.table(TABLE)), self.connection.cursor())


class SqlClient(CursorClient):
    """YCSB's operations as statements; a load is that of a table without SQL."""

    def __init__(self, table: TableClient, cursor: Cursor) -> None:
        super().__init__(cursor, statements("?"))
        self.load = table.load

    def close(self) -> None:
        """Closes the cursor."""
        self._cursor.close()

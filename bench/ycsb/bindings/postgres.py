"""PostgreSQL over loopback, by psycopg 3; see `nyala.bench.postgres` for the server and its settings.

The key and the fields are texts; the key is ordered by its bytes, as in the other stores. Each client has a connection,
whose every statement is a transaction (autocommit) and is prepared at its first use. Rows are loaded by COPY, a
transaction for each batch; `settle` is VACUUM ANALYZE, and autovacuum stays on.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from ...postgres import PostgresServer, connect
from ..model import FIELD_NAMES, KEY, TABLE, Durability, Fields
from .statements import CursorClient, statements

if TYPE_CHECKING:
    import psycopg

_CREATE = f"""CREATE TABLE IF NOT EXISTS {TABLE} (
    {KEY} text COLLATE "C" PRIMARY KEY, {", ".join(f"{name} text NOT NULL" for name in FIELD_NAMES)})"""
_LOAD = f"COPY {TABLE} FROM STDIN"


class PostgresBinding:
    """A separate server; see the module docstring. A copy of it, in another process, connects to the same server."""

    name: ClassVar[str] = "postgres"
    spreads: ClassVar[bool] = True

    def __init__(self, home: Path, durability: Durability) -> None:
        self._server: PostgresServer | None = PostgresServer(home, durability)
        self._dsn = ""

    def __getstate__(self) -> dict[str, Any]:
        return {"_server": None, "_dsn": self._dsn}

    def start(self) -> None:
        """Starts the server, creates the table."""
        assert self._server is not None
        self._server.start()
        try:
            self._dsn = self._server.dsn
            self._execute(_CREATE)
        except BaseException:
            self.stop()
            raise

    def client(self) -> PostgresClient:
        """A client with its own connection."""
        return PostgresClient(self._dsn)

    def settle(self) -> None:
        """VACUUM ANALYZE."""
        self._execute(f"VACUUM (ANALYZE) {TABLE}")

    def stop(self) -> None:
        """Stops the server, if it was started by this process."""
        if self._server is not None:
            self._server.stop()

    def version(self) -> str:
        """The version of the server."""
        return PostgresServer.version()

    def _execute(self, statement: str) -> None:
        with connect(self._dsn, autocommit=True) as connection:
            connection.execute(statement)


class PostgresClient(CursorClient):
    """YCSB's operations as prepared statements on a connection."""

    def __init__(self, dsn: str) -> None:
        self._connection: psycopg.Connection[Any] = connect(dsn, autocommit=True, prepare_threshold=0)
        super().__init__(self._connection.cursor(), statements("%s"))

    def load(self, keys: Sequence[str], rows: Sequence[Fields]) -> None:
        """One COPY, which is a transaction."""
        with self._cursor.copy(_LOAD) as copy:
            for key, fields in zip(keys, rows, strict=True):
                copy.write_row((key, *fields))

    def close(self) -> None:
        """Closes the connection."""
        self._connection.close()

"""The engines under test, each with the configuration that its users would choose for many small transactions.

| engine | process | a transaction |
|---|---|---|
| nyala | this process, one connection per client | BEGIN, snapshot isolation; a conflict is retried |
| sqlite | this process, WAL mode, `synchronous = FULL` (fsync) or `OFF` (os) | BEGIN IMMEDIATE: writers take turns |
| duckdb | this process, a cursor per client | BEGIN; a conflict is retried |
| postgres | a server on loopback, a connection per client | REPEATABLE READ; a conflict is retried |

All have the same tables, with primary keys and no other index.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar, Final

from ...driver.connection import Connection, connect
from ...errors import SerializationFailure, WriteConflict
from ...model.version import __version__
from ...tpch.peers.peer import missing_module
from ..postgres import MISSING, PostgresServer, is_installed
from ..postgres import connect as postgres_connect
from .model import Client, Engine, Rollback, Row

_FSYNC_MODE: Final = {"fsync": "STANDARD", "os": "NONE"}
_BUSY_SECONDS: Final = 60.0


class _SqlClient:
    """A client over a PEP 249 connection in autocommit mode."""

    begin: ClassVar[str] = "BEGIN"
    conflicts: tuple[type[BaseException], ...] = ()

    def execute(self, text: str, parameters: Sequence[Any] = ()) -> list[Row]:
        raise NotImplementedError

    def transact(self, work: Callable[[Client], None]) -> int:
        tries = 0
        while True:
            self.execute(self.begin)
            try:
                work(self)
                self.execute("COMMIT")
                return tries
            except Rollback:
                self.execute("ROLLBACK")
                return tries
            except self.conflicts:
                tries += 1
                self._roll_back()

    def _roll_back(self) -> None:
        self.execute("ROLLBACK")

    def insert(self, table: str, rows: Sequence[Row]) -> None:
        text = f"INSERT INTO {table} VALUES ({', '.join('?' * len(rows[0]))})"

        def work(client: Client) -> None:
            for row in rows:
                client.execute(text, row)

        self.transact(work)

    def close(self) -> None:
        """Nothing to close."""


class _NyalaClient(_SqlClient):
    conflicts = (SerializationFailure, WriteConflict)

    def __init__(self, connection: Connection):
        self._connection = connection
        self._cursor = connection.cursor()

    def execute(self, text: str, parameters: Sequence[Any] = ()) -> list[Row]:
        self._cursor.execute(text, parameters)
        return self._cursor.fetchall() if self._cursor.description else []

    def _roll_back(self) -> None:
        if self._connection.in_transaction:
            self._connection.rollback()

    def insert(self, table: str, rows: Sequence[Row]) -> None:
        self._connection.table(table).insert(rows)

    def close(self) -> None:
        self._connection.close()


class Nyala:
    """The embedded store."""

    name: ClassVar[str] = "nyala"

    @staticmethod
    def missing() -> str | None:
        return None

    def __init__(self, home: Path, durability: str) -> None:
        self._home = home / "nyala"
        self._options: dict[str, Any] = {"durability": durability}
        self._connection = connect(self._home, **self._options)

    def client(self) -> Client:
        return _NyalaClient(connect(self._home, **self._options))

    def version(self) -> str:
        return f"nyala {__version__}"

    def close(self) -> None:
        self._connection.close()


class _SqliteClient(_SqlClient):
    begin = "BEGIN IMMEDIATE"

    def __init__(self, path: Path, durability: str):
        self._connection = sqlite3.connect(
            path, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False, cached_statements=512
        )
        self.execute("PRAGMA journal_mode = WAL")
        self.execute(f"PRAGMA synchronous = {'FULL' if durability == 'fsync' else 'OFF'}")

    def execute(self, text: str, parameters: Sequence[Any] = ()) -> list[Row]:
        return self._connection.execute(text, parameters).fetchall()

    def close(self) -> None:
        self._connection.close()


class Sqlite:
    """SQLite, in its own file."""

    name: ClassVar[str] = "sqlite"

    @staticmethod
    def missing() -> str | None:
        return None

    def __init__(self, home: Path, durability: str) -> None:
        self._path, self._durability = home / "transactions.sqlite", durability

    def client(self) -> Client:
        return _SqliteClient(self._path, self._durability)

    def version(self) -> str:
        return f"SQLite {sqlite3.sqlite_version}"

    def close(self) -> None:
        """Each client closes its own connection."""


class _DuckDBClient(_SqlClient):
    def __init__(self, cursor: Any, conflict: type[Exception]):
        self._cursor = cursor
        self.conflicts = (conflict,)

    def execute(self, text: str, parameters: Sequence[Any] = ()) -> list[Row]:
        found: list[Row] = self._cursor.execute(text, parameters or None).fetchall()
        return found


class DuckDB:
    """DuckDB, in its own file."""

    name: ClassVar[str] = "duckdb"

    @staticmethod
    def missing() -> str | None:
        return missing_module("duckdb", "DuckDB", "bench")

    def __init__(self, home: Path, durability: str) -> None:
        import duckdb

        self._duckdb: Any = duckdb
        settings = {"fsync_mode": _FSYNC_MODE[durability]}
        self._connection = duckdb.connect(str(home / "transactions.duckdb"), config=settings)

    def client(self) -> Client:
        return _DuckDBClient(self._connection.cursor(), self._duckdb.TransactionException)

    def version(self) -> str:
        return f"DuckDB {self._duckdb.__version__}"

    def close(self) -> None:
        self._connection.close()


class _PostgresClient(_SqlClient):
    begin = "BEGIN ISOLATION LEVEL REPEATABLE READ"

    def __init__(self, connection: Any):
        import psycopg

        self._connection = connection
        self._cursor = connection.cursor()
        self.conflicts = (psycopg.errors.SerializationFailure, psycopg.errors.DeadlockDetected)

    def execute(self, text: str, parameters: Sequence[Any] = ()) -> list[Row]:
        self._cursor.execute(text.replace("?", "%s"), parameters, prepare=bool(parameters))
        found: list[Row] = self._cursor.fetchall() if self._cursor.description else []
        return found

    def close(self) -> None:
        self._connection.close()


class Postgres:
    """A PostgreSQL server."""

    name: ClassVar[str] = "postgres"

    @staticmethod
    def missing() -> str | None:
        return missing_module("psycopg", "psycopg", "bench") or (None if is_installed() else MISSING)

    def __init__(self, home: Path, durability: str) -> None:
        self._server = PostgresServer(home, "fsync" if durability == "fsync" else "os")
        self._server.__enter__()

    def client(self) -> Client:
        return _PostgresClient(postgres_connect(self._server.dsn))

    def version(self) -> str:
        return str(self._server.version)

    def close(self) -> None:
        self._server.__exit__(None, None, None)


ENGINES: Final[dict[str, type[Engine]]] = {engine.name: engine for engine in (Nyala, Sqlite, DuckDB, Postgres)}

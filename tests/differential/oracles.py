"""Second engines for statements in transactions: each with BEGIN, savepoints, COMMIT and ROLLBACK.

SQLite and PostgreSQL have all of it. DuckDB has no savepoints, and refuses a key that its transaction has deleted
before, so it commits each statement, and copies of the tables stand for savepoints.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Any, Protocol

import duckdb

Row = tuple[Any, ...]


class Refused(Exception):
    """The engine does not accept a statement; nothing has changed."""


class Oracle(Protocol):
    """An engine that is compared with."""

    def execute(self, text: str) -> Sequence[Row]:
        """The rows of a query or of RETURNING; raises `Refused`."""

    def begin(self) -> None:
        """Begins a transaction."""

    def end(self, commits: bool) -> None:
        """Ends the transaction."""

    def savepoint(self, name: str) -> None:
        """Sets a savepoint; one with the same name is hidden until this one is released."""

    def rollback_to(self, name: str) -> None:
        """Undoes what came after a savepoint, which remains."""

    def release(self, name: str) -> None:
        """Forgets a savepoint and those after it."""

    def close(self) -> None:
        """Ends the engine."""


class SqlTransactions:
    """Transactions by the SQL statements for them."""

    def run(self, text: str) -> Sequence[Row]:
        """Execute a statement; errors of the engine pass."""
        raise NotImplementedError

    def begin(self) -> None:
        """See `Oracle.begin`."""
        self.run("BEGIN")

    def end(self, commits: bool) -> None:
        """See `Oracle.end`."""
        self.run("COMMIT" if commits else "ROLLBACK")

    def savepoint(self, name: str) -> None:
        """See `Oracle.savepoint`."""
        self.run(f"SAVEPOINT {name}")

    def rollback_to(self, name: str) -> None:
        """See `Oracle.rollback_to`."""
        self.run(f"ROLLBACK TO {name}")

    def release(self, name: str) -> None:
        """See `Oracle.release`."""
        self.run(f"RELEASE {name}")


class SQLite(SqlTransactions):
    """SQLite in memory."""

    def __init__(self) -> None:
        self._connection = sqlite3.connect(":memory:", isolation_level=None)
        self._connection.execute("PRAGMA case_sensitive_like = ON")

    def run(self, text: str) -> Sequence[Row]:
        """See `SqlTransactions.run`."""
        return self._connection.execute(text).fetchall()

    def execute(self, text: str) -> Sequence[Row]:
        """See `Oracle.execute`."""
        try:
            return self.run(text)
        except sqlite3.Error as error:
            raise Refused from error

    def close(self) -> None:
        """See `Oracle.close`."""
        self._connection.close()


class PostgreSQL(SqlTransactions):
    """A PostgreSQL server. An error would end its transaction, so each statement has a savepoint."""

    def __init__(self, dsn: str) -> None:
        import psycopg

        self._error = psycopg.Error
        self._connection = psycopg.connect(dsn, autocommit=True)
        self._in_transaction = False

    def run(self, text: str) -> Sequence[Row]:
        """See `SqlTransactions.run`."""
        cursor = self._connection.execute(text)  # type: ignore[call-overload]
        return cursor.fetchall() if cursor.description else []

    def begin(self) -> None:
        """See `Oracle.begin`."""
        super().begin()
        self._in_transaction = True

    def end(self, commits: bool) -> None:
        """See `Oracle.end`."""
        super().end(commits)
        self._in_transaction = False

    def execute(self, text: str) -> Sequence[Row]:
        """See `Oracle.execute`."""
        if self._in_transaction:
            self.run("SAVEPOINT around_statement")
        try:
            return self.run(text)
        except self._error as error:
            if self._in_transaction:
                self.run("ROLLBACK TO around_statement")
            raise Refused from error
        finally:
            if self._in_transaction:
                self.run("RELEASE around_statement")

    def close(self) -> None:
        """See `Oracle.close`."""
        for (name,) in self.run("SELECT tablename FROM pg_tables WHERE schemaname = 'public'"):
            self.run(f"DROP TABLE {name}")
        self._connection.close()


class DuckDB:
    """DuckDB in memory."""

    def __init__(self) -> None:
        self._connection = duckdb.connect(config={"threads": 1})
        self._connection.execute("SET integer_division = true")
        # It prunes the groups of rows that a top-N needs, where others were deleted (DuckDB 2.0.1).
        self._connection.execute("SET disabled_optimizers = 'row_group_pruner'")
        self._saved: list[tuple[str, dict[str, str]]] = []
        self._copies = 0

    def execute(self, text: str) -> Sequence[Row]:
        """See `Oracle.execute`."""
        try:
            return self._connection.execute(text).fetchall()
        except duckdb.Error as error:
            raise Refused from error

    def begin(self) -> None:
        """See `Oracle.begin`."""
        self.savepoint("")

    def end(self, commits: bool) -> None:
        """See `Oracle.end`."""
        if not commits:
            self.rollback_to("")
        self.release("")

    def savepoint(self, name: str) -> None:
        """See `Oracle.savepoint`."""
        tables = self.execute("SELECT table_name FROM duckdb_tables() WHERE NOT temporary")
        self._copies += 1
        copies = {table: f"{table}_{self._copies}" for (table,) in tables}
        for table, copy in copies.items():
            self.execute(f"CREATE TEMP TABLE {copy} AS FROM {table}")
        self._saved.append((name, copies))

    def rollback_to(self, name: str) -> None:
        """See `Oracle.rollback_to`."""
        place = self._place(name)
        self._drop(place + 1)
        for table, copy in self._saved[place][1].items():
            self.execute(f"DELETE FROM {table}")
            self.execute(f"INSERT INTO {table} FROM {copy}")

    def release(self, name: str) -> None:
        """See `Oracle.release`."""
        self._drop(self._place(name))

    def close(self) -> None:
        """See `Oracle.close`."""
        self._connection.close()

    def _place(self, name: str) -> int:
        return max(place for place, (known, _) in enumerate(self._saved) if known == name)

    def _drop(self, start: int) -> None:
        for _, copies in self._saved[start:]:
            for copy in copies.values():
                self.execute(f"DROP TABLE {copy}")
        del self._saved[start:]

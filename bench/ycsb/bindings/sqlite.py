"""SQLite in this process, by Python's sqlite3, in WAL mode: readers and a writer do not block each other.

| durability | `synchronous` | |
|---|---|---|
| fsync | FULL | a commit syncs the log |
| os | NORMAL | a commit writes the log; a checkpoint syncs it |

Each client has a connection, and each of its statements is a separate transaction; sqlite3 keeps its statements
prepared. SQLite has one writer at a time. A connection that finds another one writing sleeps and retries
(`busy_timeout`), finally every 100 ms. Among the threads of a process, a lock is passed on at once, as in programs with
several threads; only processes retry.

The table has row ids and an index of the keys, pages the usual 4 kB. WITHOUT ROWID is for rows far shorter than a page
(SQLite's documentation: a twentieth); rows of 1 kB took two to five times the time to load and insert that way. With
pages of 16 kB it was faster in scans, equal in reads, and slower in writes.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

from ..model import FIELD_NAMES, KEY, TABLE, Durability, Fields
from .statements import CursorClient, statements

_BUSY_SECONDS = 60.0
_PRAGMAS = ("cache_size = -65536", f"mmap_size = {2 << 30}")
"""64 MB of pages for each connection, and the file mapped."""
_SYNCHRONOUS = {"fsync": "FULL", "os": "NORMAL"}
_CREATE = f"""CREATE TABLE IF NOT EXISTS {TABLE} (
    {KEY} TEXT NOT NULL PRIMARY KEY, {", ".join(f"{name} TEXT NOT NULL" for name in FIELD_NAMES)})"""


class SqliteBinding:
    """A database file; see the module docstring. A copy of it, in another process, opens the same file."""

    name: ClassVar[str] = "sqlite"
    spreads: ClassVar[bool] = True

    def __init__(self, home: Path, durability: Durability) -> None:
        self._file = home / "sqlite.db"
        self._durability = durability
        self._writing = threading.Lock()

    def __getstate__(self) -> dict[str, Any]:
        return {"_file": self._file, "_durability": self._durability}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._writing = threading.Lock()

    def start(self) -> None:
        """Creates the file, which stays in WAL mode, and the table."""
        connection = self._connect()
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute(_CREATE)
        finally:
            connection.close()

    def client(self) -> SqliteClient:
        """A client with its own connection."""
        return SqliteClient(self._connect(), self._writing)

    def settle(self) -> None:
        """ANALYZE."""
        connection = self._connect()
        try:
            connection.execute("ANALYZE")
        finally:
            connection.close()

    def stop(self) -> None:
        """Does nothing: the connections are the clients'."""

    def version(self) -> str:
        """The version of Python's SQLite library."""
        return f"SQLite {sqlite3.sqlite_version}"

    def _connect(self) -> sqlite3.Connection:
        # A client may be created in one thread, and used in another.
        connection = sqlite3.connect(self._file, _BUSY_SECONDS, isolation_level=None, check_same_thread=False)
        for setting in (*_PRAGMAS, f"synchronous = {_SYNCHRONOUS[self._durability]}"):
            connection.execute(f"PRAGMA {setting}")
        return connection


class SqliteClient(CursorClient):
    """YCSB's operations as statements on a connection; `writing` is held during a write."""

    def __init__(self, connection: sqlite3.Connection, writing: threading.Lock) -> None:
        super().__init__(connection, statements("?"))  # sqlite3's connections create a cursor for each statement
        self._connection = connection
        self._writing = writing

    def load(self, keys: Sequence[str], rows: Sequence[Fields]) -> None:
        """One transaction of a prepared INSERT."""
        with self._writing:
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                self._connection.executemany(
                    self._statements.insert, [(key, *fields) for key, fields in zip(keys, rows, strict=True)]
                )
            except BaseException:
                self._connection.execute("ROLLBACK")
                raise
            self._connection.execute("COMMIT")

    def update(self, key: str, field: int, value: str) -> None:
        """UPDATE of one field by the key; a missing key is an error."""
        with self._writing:
            super().update(key, field, value)

    def insert(self, key: str, fields: Fields) -> None:
        """INSERT of one row; the store rejects an existing key."""
        with self._writing:
            super().insert(key, fields)

    def close(self) -> None:
        """Closes the connection."""
        self._connection.close()

"""DuckDB in this process: one database, and a cursor for each client, whose every statement is a transaction.

| durability | `fsync_mode` | |
|---|---|---|
| fsync | STANDARD | a commit syncs the log |
| os | NONE | a commit writes the log |

The key is declared, so look-ups and updates use its index. DuckDB is optimistic: of two transactions that change the
same row at once, one fails and is to be retried. A client does so until its operation is done, and the time of all
attempts is the operation's. Statements are parsed once by each client (DuckDB's client for Python plans them anew each
time). A load is an INSERT from an Arrow table. Threads and memory have DuckDB's defaults.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa

from ....errors import NotFound, OperationalError
from ..model import COLUMNS, FIELD_NAMES, KEY, TABLE, Durability, Fields
from .statements import CursorClient, Statements, statements

_FSYNC_MODE = {"fsync": "STANDARD", "os": "NONE"}
_CREATE = f"""CREATE TABLE IF NOT EXISTS {TABLE} (
    {KEY} VARCHAR PRIMARY KEY, {", ".join(f"{name} VARCHAR NOT NULL" for name in FIELD_NAMES)})"""
_LOAD = f"INSERT INTO {TABLE} SELECT * FROM loaded"


class DuckdbBinding:
    """A database file; see the module docstring."""

    name: ClassVar[str] = "duckdb"
    spreads: ClassVar[bool] = False

    def __init__(self, home: Path, durability: Durability) -> None:
        self._file = home / "duckdb.db"
        self._durability = durability
        self._database: Any = None

    def start(self) -> None:
        """Opens the database, creates the table."""
        duckdb = _duckdb()
        self._database = duckdb.connect(str(self._file), config={"fsync_mode": _FSYNC_MODE[self._durability]})
        self._database.execute(_CREATE)

    def client(self) -> DuckdbClient:
        """A client with its own cursor."""
        return DuckdbClient(self._database.cursor())

    def settle(self) -> None:
        """Does nothing: DuckDB updates statistics as it writes."""

    def stop(self) -> None:
        """Closes the database."""
        if self._database is not None:
            self._database.close()
            self._database = None

    def version(self) -> str:
        """The version of the library."""
        return f"DuckDB {_duckdb().__version__}"


class DuckdbClient(CursorClient):
    """YCSB's operations as statements on a cursor."""

    def __init__(self, cursor: Any) -> None:
        def parsed(text: str) -> Any:
            (statement,) = cursor.extract_statements(text)
            return statement

        texts = statements("?")
        updates = [parsed(update) for update in texts.updates]
        super().__init__(cursor, Statements(parsed(texts.read), parsed(texts.scan), parsed(texts.insert), updates))
        self._load = parsed(_LOAD)
        self._conflict = _duckdb().TransactionException

    def load(self, keys: Sequence[str], rows: Sequence[Fields]) -> None:
        """One INSERT from Arrow columns."""
        columns = [pa.array(keys), *(pa.array(values) for values in zip(*rows, strict=True))]
        self._cursor.register("loaded", pa.table(columns, names=list(COLUMNS)))
        self._until_done(self._load)
        self._cursor.unregister("loaded")

    def update(self, key: str, field: int, value: str) -> None:
        """Sets one field; a missing key is an error."""
        if self._until_done(self._statements.updates[field], (value, key)).fetchone() != (1,):
            raise NotFound(f"there is no row with key {key}")

    def insert(self, key: str, fields: Fields) -> None:
        """Adds a row; the store rejects an existing key."""
        self._until_done(self._statements.insert, (key, *fields))

    def close(self) -> None:
        """Closes the cursor."""
        self._cursor.close()

    def _until_done(self, statement: Any, values: Sequence[str] = ()) -> Any:
        while True:
            try:
                return self._cursor.execute(statement, values)
            except self._conflict:
                continue


def _duckdb() -> Any:
    try:
        import duckdb
    except ImportError as error:
        raise OperationalError("duckdb is not installed; try: pip install 'nyala[bench]'") from error
    return duckdb

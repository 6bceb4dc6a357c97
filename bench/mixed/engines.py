"""The engines under test, each with the configuration that its users would choose for this load.

| engine | process | upserts |
|---|---|---|
| nyala | this process; tablets by hash of the order key | `TableHandle.upsert`, one row each |
| duckdb | this process | UPDATE, and INSERT if that found no row; a cursor per thread |
| postgres | a server on loopback | INSERT ... ON CONFLICT DO UPDATE, prepared; a connection per thread |

All three have lineitem's types, NOT NULL and primary key as in TPC-H, and no index: none helps Q1, and one for Q6 alone
would not pay for this table. DuckDB's key is added after its load, which is its fastest way to load. PostgreSQL's is
too, followed by VACUUM and ANALYZE, as in its manual. A query may use `Setting.threads` threads on every engine. All
have the same durability. DuckDB supports INSERT ... ON CONFLICT as well, but at more than twice the cost (measured: 10
ms of a processor each, on six million rows). Transactions that it rejects for a conflict are retried, as its users
must.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar, Final

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from ...driver.connection import Connection, connect
from ...driver.tables.table_handle import TableHandle
from ...model.version import __version__
from ...tpch.peers.peer import missing_module, quoted
from ...tpch.schema import LINEITEM
from ..postgres import MISSING, PostgresServer, is_installed
from ..postgres import connect as postgres_connect
from .model import Engine, Row, Setting, Writer
from .rows import COLUMNS, plain

_KEY: Final = ", ".join(LINEITEM.key)
_FSYNC_MODE: Final = {"fsync": "STANDARD", "os": "NONE"}
"""DuckDB's setting: whether a commit syncs its log."""


class Nyala:
    """The embedded store."""

    name: ClassVar[str] = "nyala"

    @staticmethod
    def missing() -> str | None:
        return None

    def __init__(self, home: Path, setting: Setting) -> None:
        self._home = home
        self._setting = setting
        self._connection: Connection | None = None

    def load(self, source: Path) -> None:
        connection = connect(self._home, durability=self._setting.durability, threads=self._setting.threads)
        self._connection = connection
        connection.execute(LINEITEM.create_table(self._setting.buckets))
        connection.load("lineitem", source)

    def query(self, text: str) -> Sequence[Row]:
        assert self._connection is not None, "load must be called first"
        return self._connection.execute(text).fetchall()

    def writer(self) -> Writer:
        assert self._connection is not None, "load must be called first"
        return _TableWriter(self._connection.table("lineitem"))

    def version(self) -> str:
        return f"nyala {__version__}"

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


class _TableWriter:
    def __init__(self, table: TableHandle) -> None:
        self._table = table

    def upsert(self, row: Row) -> None:
        self._table.upsert(row)

    def close(self) -> None:
        """Does nothing: the connection is not the writer's."""


class DuckDB:
    """DuckDB, in its own file."""

    name: ClassVar[str] = "duckdb"

    @staticmethod
    def missing() -> str | None:
        return missing_module("duckdb", "DuckDB", "bench")

    def __init__(self, home: Path, setting: Setting) -> None:
        import duckdb

        self._duckdb: Any = duckdb
        self._path = home / "lineitem.duckdb"
        self._settings = {"threads": setting.threads, "fsync_mode": _FSYNC_MODE[setting.durability]}
        self._connection: Any = None

    def load(self, source: Path) -> None:
        self._connection = self._duckdb.connect(str(self._path), config=self._settings)
        columns = ", ".join(f"{name} {type_} NOT NULL" for name, type_ in LINEITEM.columns)
        self._connection.execute(f"CREATE TABLE lineitem ({columns})")
        self._connection.execute(
            f"INSERT INTO lineitem SELECT {', '.join(COLUMNS)} FROM read_parquet({quoted(source)})"
        )
        self._connection.execute(f"ALTER TABLE lineitem ADD PRIMARY KEY ({_KEY})")
        self._connection.execute("CHECKPOINT")

    def query(self, text: str) -> Sequence[Row]:
        rows: Sequence[Row] = self._connection.execute(text).fetchall()
        return rows

    def writer(self) -> Writer:
        return _DuckDBWriter(self._connection.cursor(), self._duckdb.TransactionException)

    def version(self) -> str:
        return f"DuckDB {self._duckdb.__version__}"

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


class _DuckDBWriter:
    def __init__(self, cursor: Any, conflict: type[Exception]) -> None:
        self._cursor = cursor
        self._conflict = conflict
        values = COLUMNS[len(LINEITEM.key) :]
        where = " AND ".join(f"{name} = ?" for name in LINEITEM.key)
        self._update = f"UPDATE lineitem SET {', '.join(f'{name} = ?' for name in values)} WHERE {where}"
        self._insert = f"INSERT INTO lineitem VALUES ({', '.join('?' * len(COLUMNS))})"

    def upsert(self, row: Row) -> None:
        while not self._try(row):
            pass

    def _try(self, row: Row) -> bool:
        """Tries an upsert; returns False if it must be retried."""
        keys = len(LINEITEM.key)
        try:
            if not self._cursor.execute(self._update, (*row[keys:], *row[:keys])).fetchone()[0]:
                self._cursor.execute(self._insert, row)
        except self._conflict:
            return False
        return True

    def close(self) -> None:
        self._cursor.close()


class Postgres:
    """A server on this machine (`bench.postgres`), for the duration of the run."""

    name: ClassVar[str] = "postgres"

    @staticmethod
    def missing() -> str | None:
        return missing_module("psycopg", "psycopg", "bench") or (None if is_installed() else MISSING)

    def __init__(self, home: Path, setting: Setting) -> None:
        # The leader of a query works, too.
        workers = {"max_parallel_workers_per_gather": str(setting.threads - 1)}
        self._server = PostgresServer(home, setting.durability, workers)
        self._connection: Any = None

    def load(self, source: Path) -> None:
        self._server.start()
        self._connection = postgres_connect(self._server.dsn, autocommit=True)
        columns = ", ".join(f"{name} {type_} NOT NULL" for name, type_ in LINEITEM.columns)
        self._connection.execute(f"CREATE TABLE lineitem ({columns})")
        with self._connection.cursor() as cursor, cursor.copy("COPY lineitem FROM STDIN (FORMAT csv)") as copy:
            for batch in pq.ParquetFile(source).iter_batches(1 << 16, columns=list(COLUMNS)):
                sink = pa.BufferOutputStream()
                pa_csv.write_csv(plain(batch), sink, pa_csv.WriteOptions(include_header=False))
                copy.write(sink.getvalue())
        self._connection.execute(f"ALTER TABLE lineitem ADD PRIMARY KEY ({_KEY})")
        self._connection.execute("VACUUM (ANALYZE) lineitem")

    def query(self, text: str) -> Sequence[Row]:
        rows: Sequence[Row] = self._connection.execute(text).fetchall()
        return rows

    def writer(self) -> Writer:
        return _PostgresWriter(postgres_connect(self._server.dsn, autocommit=True))

    def version(self) -> str:
        return self._server.version()

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        self._server.stop()


class _PostgresWriter:
    def __init__(self, connection: Any) -> None:
        self._connection = connection
        self._cursor = connection.cursor()
        assigned = ", ".join(f"{name} = excluded.{name}" for name in COLUMNS[len(LINEITEM.key) :])
        self._text = (
            f"INSERT INTO lineitem VALUES ({', '.join(['%s'] * len(COLUMNS))}) "
            f"ON CONFLICT ({_KEY}) DO UPDATE SET {assigned}"
        )

    def upsert(self, row: Row) -> None:
        self._cursor.execute(self._text, row, prepare=True)

    def close(self) -> None:
        self._connection.close()


ENGINES: Final[dict[str, type[Engine]]] = {engine.name: engine for engine in (Nyala, DuckDB, Postgres)}
DEFAULT: Final = ",".join(ENGINES)

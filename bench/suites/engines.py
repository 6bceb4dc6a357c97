"""The engines that run a suite's queries, each a small class that implements the protocol `Engine`.

    nyala             the embedded store in a directory
    duckdb            DuckDB's own tables in a file: the reference of answers and times
    duckdb-parquet    DuckDB on the Parquet files
    sqlite            SQLite, one thread
    deltalake         Delta tables, queried by the engine of delta-rs
    chdb              ClickHouse in the process, MergeTree tables

All are in one process, so that they can run in turn; an answer is complete when it is an Arrow table. SQLite, delta-rs
and chDB receive texts that sqlglot translates; a query that one of them rejects is reported as failed.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, Protocol

import pyarrow as pa
import pyarrow.parquet as pq
import sqlglot
from sqlglot.optimizer.normalize_identifiers import normalize_identifiers

from ...driver.connection import Connection, connect
from ...model.version import __version__
from ...tpch.peers.peer import missing_module, quoted
from ..files import disk_bytes
from .model import REFERENCE, US, Query, TableFile


class Engine(Protocol):
    """One engine. Its life: `missing` of the class, construction in an empty directory, `load`, any `run`, `close`."""

    name: str

    def version(self) -> str: ...

    def load(self, tables: Sequence[TableFile]) -> None:
        """Loads all tables; the data are durable afterwards."""
        ...

    def run(self, query: Query) -> pa.Table:
        """Runs a query to its end."""
        ...

    def disk_bytes(self) -> int: ...

    def close(self) -> None: ...


class Nyala:
    """The embedded store."""

    name = US

    def __init__(self, home: Path, threads: int, buckets: int = 1) -> None:
        self._home, self._buckets = home, buckets
        self.connection: Connection = connect(home, threads=threads)

    @staticmethod
    def missing() -> str | None:
        return None

    def version(self) -> str:
        return f"nyala {__version__}"

    def load(self, tables: Sequence[TableFile]) -> None:
        for table in tables:
            self.connection.execute(table.spec.create_table(self._buckets))
            self.connection.load(table.spec.name, table.path)

    def run(self, query: Query) -> pa.Table:
        return self.connection.execute(query.text).arrow()

    def disk_bytes(self) -> int:
        return disk_bytes(self._home)

    def close(self) -> None:
        self.connection.close()


class DuckDB:
    """DuckDB's own tables without keys, in a file; NULLs sort as in PostgreSQL."""

    name = REFERENCE
    native = True

    def __init__(self, home: Path, threads: int, buckets: int = 1) -> None:
        import duckdb

        self._home, self._duckdb = home, duckdb
        self.connection: Any = duckdb.connect(str(home / "suite.duckdb"), config={"threads": threads})
        self.connection.execute("SET default_null_order = 'postgres'")

    @staticmethod
    def missing() -> str | None:
        return missing_module("duckdb", "DuckDB", "bench")

    def version(self) -> str:
        return f"DuckDB {self._duckdb.__version__}"

    def load(self, tables: Sequence[TableFile]) -> None:
        kind = "TABLE" if self.native else "VIEW"
        for table in tables:
            self.connection.execute(
                f"CREATE {kind} {table.spec.name} AS SELECT * FROM read_parquet({quoted(table.path)})"
            )
        self.connection.execute("CHECKPOINT")

    def run(self, query: Query) -> pa.Table:
        return self.run_text(query.reference_text)

    def run_text(self, text: str) -> pa.Table:
        """Runs a statement in DuckDB's dialect."""
        table: pa.Table = self.connection.sql(text).to_arrow_table()
        return table

    def disk_bytes(self) -> int:
        return disk_bytes(self._home)

    def close(self) -> None:
        self.connection.close()


class DuckDBOnParquet(DuckDB):
    """DuckDB on the Parquet files; nothing is loaded."""

    name = "duckdb-parquet"
    native = False


class SQLite:
    """SQLite in a file, with the primary keys; dates and times are texts, decimals are doubles."""

    name = "sqlite"
    _BATCH: Final = 1 << 16

    def __init__(self, home: Path, threads: int, buckets: int = 1) -> None:
        self._home = home
        self.connection = sqlite3.connect(home / "suite.sqlite")
        self.connection.execute("PRAGMA journal_mode = WAL")

    @staticmethod
    def missing() -> str | None:
        return None

    def version(self) -> str:
        return f"SQLite {sqlite3.sqlite_version}"

    def load(self, tables: Sequence[TableFile]) -> None:
        for table in tables:
            spec = table.spec
            columns = ", ".join(field.name for field in spec.schema)
            self.connection.execute(f"CREATE TABLE {spec.name} ({columns}, PRIMARY KEY ({', '.join(spec.key)}))")
            insert = f"INSERT INTO {spec.name} VALUES ({', '.join('?' * len(spec.schema))})"
            for batch in pq.ParquetFile(table.path).iter_batches(self._BATCH):
                cells = [_for_sqlite(column).to_pylist() for column in batch.columns]
                self.connection.executemany(insert, zip(*cells, strict=True))
            self.connection.commit()
        self.connection.execute("ANALYZE")

    def run(self, query: Query) -> pa.Table:
        cursor = self.connection.execute(translated(query.text, "sqlite"))
        rows = cursor.fetchall()
        names = [f"c{number}" for number in range(len(cursor.description))]
        columns = [list(column) for column in zip(*rows)] or [[] for _ in names]
        return pa.Table.from_arrays([pa.array(column) for column in columns], names)

    def disk_bytes(self) -> int:
        return disk_bytes(self._home)

    def close(self) -> None:
        self.connection.close()


def _for_sqlite(column: pa.Array) -> pa.Array:
    if pa.types.is_decimal(column.type):
        return column.cast(pa.float64())
    if pa.types.is_temporal(column.type):
        return column.cast(pa.string())
    return column


class DeltaLake:
    """Delta tables, written and queried by delta-rs."""

    name = "deltalake"

    def __init__(self, home: Path, threads: int, buckets: int = 1) -> None:
        import deltalake

        self._home, self._deltalake = home, deltalake
        self._builder: Any = deltalake.QueryBuilder()

    @staticmethod
    def missing() -> str | None:
        return missing_module("deltalake", "delta-rs", "bench")

    def version(self) -> str:
        return f"delta-rs {self._deltalake.__version__}"

    def load(self, tables: Sequence[TableFile]) -> None:
        for table in tables:
            place = str(self._home / table.spec.name)
            file = pq.ParquetFile(table.path)
            reader = pa.RecordBatchReader.from_batches(file.schema_arrow, file.iter_batches())
            self._deltalake.write_deltalake(place, reader)
            self._builder.register(table.spec.name, self._deltalake.DeltaTable(place))

    def run(self, query: Query) -> pa.Table:
        return pa.table(self._builder.execute(translated(query.text, "postgres")).read_all())

    def disk_bytes(self) -> int:
        return disk_bytes(self._home)

    def close(self) -> None:
        self._builder = None


class ChDB:
    """ClickHouse in the process."""

    name = "chdb"

    def __init__(self, home: Path, threads: int, buckets: int = 1) -> None:
        import chdb
        from chdb.session import Session

        self._home, self._chdb = home, chdb
        self._session: Any = Session(str(home))
        self._threads = threads

    @staticmethod
    def missing() -> str | None:
        return missing_module("chdb", "chDB", "bench")

    def version(self) -> str:
        return f"chDB {self._chdb.__version__}"

    def load(self, tables: Sequence[TableFile]) -> None:
        self._session.query("CREATE DATABASE IF NOT EXISTS suite ENGINE = Atomic")
        self._session.query("USE suite")
        for table in tables:
            self._session.query(
                f"CREATE TABLE {table.spec.name} ENGINE = MergeTree ORDER BY ({', '.join(table.spec.key)}) "
                f"SETTINGS allow_nullable_key = 1 AS SELECT * FROM file({quoted(table.path)}, Parquet)"
            )

    def run(self, query: Query) -> pa.Table:
        text = f"{translated(query.text, 'clickhouse')} SETTINGS max_threads = {self._threads}"
        return pa.ipc.open_file(self._session.query(text, "Arrow").bytes()).read_all()

    def disk_bytes(self) -> int:
        return disk_bytes(self._home)

    def close(self) -> None:
        self._session.close()


def translated(text: str, dialect: str) -> str:
    """A query in another engine's dialect, its names in lower case: delta-rs and ClickHouse fold none.

    >>> translated("SELECT COUNT(*) FROM Hits WHERE URL LIKE '%A%'", "sqlite")
    "SELECT COUNT(*) FROM hits WHERE url LIKE '%A%'"
    """
    return str(normalize_identifiers(sqlglot.parse_one(text, dialect="postgres"), dialect="postgres").sql(dialect))


ENGINES: Final[dict[str, Callable[[Path, int, int], Engine]]] = {
    engine.name: engine for engine in (Nyala, DuckDB, DuckDBOnParquet, SQLite, DeltaLake, ChDB)
}
DEFAULT: Final = f"{US},{REFERENCE}"


def missing(name: str) -> str | None:
    """The installation advice for an engine's package; None if the engine can be used."""
    found: str | None = ENGINES[name].missing()  # type: ignore[attr-defined]
    return found

"""The engines of the suite `mutations`: one table `m`, changed in bulk and scanned."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, Protocol

import pyarrow as pa

from ...driver.connection import connect
from ...model.version import __version__
from ...tpch.peers.peer import missing_module
from ..files import disk_bytes
from .model import US, TableSpec


class Changes(Protocol):
    """An engine with one table. Each call ends with the change durable."""

    def version(self) -> str: ...

    def load(self, spec: TableSpec, rows: pa.Table) -> None:
        """Creates the table `m` and loads the rows."""
        ...

    def upsert(self, rows: pa.Table) -> None:
        """Inserts rows, or replaces those with the same key."""
        ...

    def append(self, rows: pa.Table) -> None:
        """Inserts rows with new keys, the way that the engine recommends for bulk data."""
        ...

    def execute(self, text: str) -> None:
        """Runs an UPDATE or a DELETE."""
        ...

    def compact(self) -> None: ...

    def query(self, text: str) -> pa.Table: ...

    def disk_bytes(self) -> int: ...

    def close(self) -> None: ...


class NyalaChanges:
    """The embedded store, with its default durability: every write is synced."""

    def __init__(self, home: Path, threads: int) -> None:
        self._home = home
        self._connection = connect(home, threads=threads)

    def version(self) -> str:
        return f"nyala {__version__}"

    def load(self, spec: TableSpec, rows: pa.Table) -> None:
        self._connection.execute(spec.create_table())
        self._connection.load("m", rows)

    def upsert(self, rows: pa.Table) -> None:
        self._connection.table("m").upsert(rows, all_or_none=True)

    def append(self, rows: pa.Table) -> None:
        self._connection.load("m", rows)

    def execute(self, text: str) -> None:
        self._connection.execute(text)

    def compact(self) -> None:
        self._connection.execute("COMPACT TABLE m")

    def query(self, text: str) -> pa.Table:
        return self._connection.execute(text).arrow()

    def disk_bytes(self) -> int:
        return disk_bytes(self._home)

    def close(self) -> None:
        self._connection.close()


class DuckDBChanges:
    """DuckDB with a primary key, added after the load: its fastest order."""

    has_key = True

    def __init__(self, home: Path, threads: int) -> None:
        import duckdb

        self._home, self._duckdb = home, duckdb
        self._connection: Any = duckdb.connect(str(home / "m.duckdb"), config={"threads": threads})

    def version(self) -> str:
        return f"DuckDB {self._duckdb.__version__}"

    def load(self, spec: TableSpec, rows: pa.Table) -> None:
        self._by("CREATE TABLE m AS SELECT * FROM source", rows)
        if self.has_key:
            self._connection.execute(f"ALTER TABLE m ADD PRIMARY KEY ({', '.join(spec.key)})")
        self._connection.execute("CHECKPOINT")

    def upsert(self, rows: pa.Table) -> None:
        assigned = ", ".join(f"{name} = excluded.{name}" for name in rows.column_names[1:])
        self._by(f"INSERT INTO m SELECT * FROM source ON CONFLICT (k) DO UPDATE SET {assigned}", rows)

    def append(self, rows: pa.Table) -> None:
        self._by("INSERT INTO m SELECT * FROM source", rows)

    def _by(self, text: str, rows: pa.Table) -> None:
        self._connection.register("source", rows)
        try:
            self._connection.execute(text)
        finally:
            self._connection.unregister("source")

    def execute(self, text: str) -> None:
        self._connection.execute(text)

    def compact(self) -> None:
        self._connection.execute("CHECKPOINT")

    def query(self, text: str) -> pa.Table:
        table: pa.Table = self._connection.sql(text).to_arrow_table()
        return table

    def disk_bytes(self) -> int:
        return disk_bytes(self._home)

    def close(self) -> None:
        self._connection.close()


class DuckDBMerge(DuckDBChanges):
    """DuckDB without a key; upserts are MERGE."""

    has_key = False

    def upsert(self, rows: pa.Table) -> None:
        names = rows.column_names
        assigned = ", ".join(f"{name} = source.{name}" for name in names[1:])
        values = ", ".join(f"source.{name}" for name in names)
        self._by(
            f"MERGE INTO m USING source ON m.k = source.k WHEN MATCHED THEN UPDATE SET {assigned} "
            f"WHEN NOT MATCHED THEN INSERT VALUES ({values})",
            rows,
        )


class SQLiteChanges:
    """SQLite in WAL mode; every transaction is synced."""

    def __init__(self, home: Path, threads: int) -> None:
        self._home = home
        self._connection = sqlite3.connect(home / "m.sqlite")
        self._connection.execute("PRAGMA journal_mode = WAL")
        self._connection.execute("PRAGMA synchronous = FULL")

    def version(self) -> str:
        return f"SQLite {sqlite3.sqlite_version}"

    def load(self, spec: TableSpec, rows: pa.Table) -> None:
        self._connection.execute(f"CREATE TABLE m ({', '.join(rows.column_names)}, PRIMARY KEY (k)) WITHOUT ROWID")
        self.append(rows)

    def upsert(self, rows: pa.Table) -> None:
        self._insert(rows, "INSERT OR REPLACE")

    def append(self, rows: pa.Table) -> None:
        self._insert(rows, "INSERT")

    def _insert(self, rows: pa.Table, how: str) -> None:
        plain = rows.set_column(4, "c", rows["c"].cast(pa.float64())).set_column(7, "ts", rows["ts"].cast(pa.string()))
        with self._connection:
            self._connection.executemany(
                f"{how} INTO m VALUES ({', '.join('?' * plain.num_columns)})",
                zip(*(column.to_pylist() for column in plain.columns), strict=True),
            )

    def execute(self, text: str) -> None:
        with self._connection:
            self._connection.execute(text)

    def compact(self) -> None:
        self._connection.execute("VACUUM")

    def query(self, text: str) -> pa.Table:
        rows = self._connection.execute(text).fetchall()
        return pa.table({f"c{number}": pa.array(column) for number, column in enumerate(zip(*rows))})

    def disk_bytes(self) -> int:
        return disk_bytes(self._home)

    def close(self) -> None:
        self._connection.close()


class DeltaChanges:
    """A Delta table of delta-rs."""

    def __init__(self, home: Path, threads: int) -> None:
        import deltalake

        self._home, self._deltalake = home, deltalake
        self._place = str(home / "m")
        self._table: Any = None

    def version(self) -> str:
        return f"delta-rs {self._deltalake.__version__}"

    def load(self, spec: TableSpec, rows: pa.Table) -> None:
        self._deltalake.write_deltalake(self._place, rows)
        self._table = self._deltalake.DeltaTable(self._place)

    def upsert(self, rows: pa.Table) -> None:
        merge = self._table.merge(rows, "t.k = s.k", source_alias="s", target_alias="t")
        merge.when_matched_update_all().when_not_matched_insert_all().execute()

    def append(self, rows: pa.Table) -> None:
        self._deltalake.write_deltalake(self._table, rows, mode="append")
        self._table.update_incremental()

    def execute(self, text: str) -> None:
        head, _, where = text.partition(" WHERE ")
        if head.startswith("DELETE"):
            self._table.delete(where)
            return
        assigned = (part.partition(" = ")[::2] for part in head.partition(" SET ")[2].split(", "))
        self._table.update(updates=dict(assigned), predicate=where or None)

    def compact(self) -> None:
        self._table.optimize.compact()

    def query(self, text: str) -> pa.Table:
        return pa.table(self._deltalake.QueryBuilder().register("m", self._table).execute(text).read_all())

    def disk_bytes(self) -> int:
        return disk_bytes(self._home)

    def close(self) -> None:
        self._table = None


MUTATION_ENGINES: Final[dict[str, Callable[[Path, int], Changes]]] = {
    US: NyalaChanges,
    "duckdb": DuckDBChanges,
    "duckdb-merge": DuckDBMerge,
    "sqlite": SQLiteChanges,
    "deltalake": DeltaChanges,
}
_MODULES: Final = {"duckdb": ("duckdb", "DuckDB"), "deltalake": ("deltalake", "delta-rs")}


def missing(name: str) -> str | None:
    """The reason why an engine cannot take part; None if it can."""
    if name not in MUTATION_ENGINES:
        return "it takes no part in changes"
    found = _MODULES.get(name.removesuffix("-merge"))
    return missing_module(*found, "bench") if found is not None else None

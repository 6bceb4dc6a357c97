"""DuckDB as a second opinion and as a peer, on the Parquet files or on tables of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa

from ..errors import OperationalError
from .generate import parquet_file
from .schema import TABLES


class DuckDB:
    """The eight tables in DuckDB.

    Parameters
    ----------
    data : Path
        The directory of the Parquet files.
    threads : int, optional
    native : bool
        False: views over the files. True: tables in DuckDB's own format, filled now.
    database : Path, optional
        DuckDB's file where `native`; None keeps the tables in memory.
    """

    def __init__(self, data: Path, threads: int | None = None, *, native: bool = False, database: Path | None = None):
        self._connection = _duckdb().connect(":memory:" if database is None else str(database))
        if threads is not None:
            self._connection.execute(f"SET threads = {threads:d}")
        self.name = "duckdb" if native else "duckdb-parquet"
        for spec in TABLES:
            path = str(parquet_file(data, spec.name)).replace("'", "''")
            kind = "TABLE" if native else "VIEW"
            self._connection.execute(f"CREATE OR REPLACE {kind} {spec.name} AS SELECT * FROM read_parquet('{path}')")

    def query(self, text: str) -> pa.Table:
        """Run a query; its whole result."""
        table: pa.Table = self._connection.sql(text).to_arrow_table()
        return table

    def close(self) -> None:
        self._connection.close()

    def __enter__(self) -> DuckDB:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def _duckdb() -> Any:
    try:
        import duckdb
    except ImportError:
        raise OperationalError(
            "DuckDB is not installed, and it is the peer to compare with; try: pip install 'nyala[bench]'"
        ) from None
    return duckdb

"""DuckDB, on the Parquet files or on its own tables."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa

from ..generate import parquet_file
from ..schema import TABLES
from .peer import missing_module, quoted


class DuckDB:
    """DuckDB as a peer, and as a second opinion on answers.

    Parameters
    ----------
    native : bool
        False: views over the files. True: tables in DuckDB's own format, in memory, filled by `prepare`.
    """

    def __init__(self, *, native: bool = False):
        self._native = native
        self._connection: Any = None

    @property
    def name(self) -> str:
        return "duckdb" if self._native else "duckdb-parquet"

    @property
    def version(self) -> str:
        import duckdb

        return str(duckdb.__version__)

    def missing(self) -> str | None:
        return missing_module("duckdb", "DuckDB", "tpch")

    def prepare(self, data: Path, threads: int) -> None:
        import duckdb

        self._connection = duckdb.connect(":memory:", config={"threads": threads})
        for spec in TABLES:
            kind = "TABLE" if self._native else "VIEW"
            source = quoted(parquet_file(data, spec.name))
            self._connection.execute(f"CREATE {kind} {spec.name} AS SELECT * FROM read_parquet({source})")

    def run(self, text: str) -> pa.Table:
        table: pa.Table = self._connection.sql(text).to_arrow_table()
        return table

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

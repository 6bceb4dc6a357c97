"""DuckDB, in its own file."""

from __future__ import annotations

from typing import Any, ClassVar

from ....errors import OperationalError
from ..model import KEY, TABLE, EngineJob, Query, Row


class DuckDB:
    """`CREATE TABLE AS`, an index on the order key, then a checkpoint.

    The other stores find an order by their primary key. DuckDB's cannot serve that look-up: it requires a value of each
    of its columns. Its manual advises against a key if no constraint is needed. An index on the first column makes the
    look-up a fifth faster than the minima and maxima of row groups do. It costs a larger file and a slower load.
    (`nyala bench load` loads into DuckDB without an index.)
    """

    name: ClassVar[str] = "duckdb"
    settings: ClassVar[str] = "embedded, own file, defaults; no primary key, an index on l_orderkey"

    def __init__(self, job: EngineJob) -> None:
        try:
            import duckdb
        except ImportError:
            raise OperationalError("DuckDB is not installed; try: pip install 'nyala[bench]'") from None
        self._duckdb = duckdb
        self._job = job
        self._file = job.home / "lineitem.duckdb"
        self._connection: Any = None

    def load(self) -> bool:
        source = str(self._job.source)
        self._connection.execute(f"CREATE TABLE {TABLE} AS SELECT * FROM read_parquet(?)", (source,))
        self._connection.execute(f"CREATE INDEX by_order ON {TABLE} ({KEY[0]})")
        self._connection.execute("CHECKPOINT")
        return True

    def open(self) -> None:
        self._connection = self._duckdb.connect(str(self._file), config={"threads": self._job.threads})
        self._connection.execute("SET enable_progress_bar = false")

    def run(self, query: Query) -> list[Row]:
        rows: list[Row] = self._connection.execute(query.text).fetchall()
        return rows

    def converted(self, query: Query, rows: list[Row]) -> list[Row]:
        return rows

    def disk_bytes(self) -> int:
        return self._file.stat().st_size

    def version(self) -> str:
        return f"DuckDB {self._duckdb.__version__}"

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

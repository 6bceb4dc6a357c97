"""SQLite, in WAL mode.

It has neither decimals nor dates. Decimals become integers of hundredths, which is the exact one of the two usual ways
(the other is REAL), needs fewer bytes and is summed faster; TPC-H's Q1 is written accordingly. Its sums are 64-bit
integers of 10^-6, which suffices up to scale factor 100. Dates become texts with the same order.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from decimal import Decimal
from typing import ClassVar, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ..model import KEY, TABLE, EngineJob, Query, Row

BATCH_ROWS: Final = 1 << 16
HUNDREDTHS: Final = Decimal(100)

_TEXTS: Final = {
    "Q1": f"""
        SELECT l_returnflag, l_linestatus, sum(l_quantity), sum(l_extendedprice),
               sum(l_extendedprice * (100 - l_discount)),
               sum(l_extendedprice * (100 - l_discount) * (100 + l_tax)),
               avg(l_quantity), avg(l_extendedprice), avg(l_discount), count(*)
        FROM {TABLE} WHERE l_shipdate <= date('1998-12-01', '-90 day')
        GROUP BY l_returnflag, l_linestatus ORDER BY l_returnflag, l_linestatus""",
    "Q3": f"SELECT count(*) FROM {TABLE} WHERE l_quantity = 4800",
}
"""Queries whose text differs from that of the other engines."""
_PLACES: Final = {"Q1": {2: 2, 3: 2, 4: 4, 5: 6, 6: 2, 7: 2, 8: 2}}
"""Decimal places of an answer's columns that are integers for decimals (or averages of such)."""


class SQLite:
    """One transaction of `executemany`, ANALYZE, and a checkpoint of the whole WAL into the file."""

    name: ClassVar[str] = "sqlite"
    settings: ClassVar[str] = (
        "embedded; WAL, synchronous FULL, 1 GB of cache; decimals as integers of hundredths, dates as texts; "
        "a query has one thread"
    )

    def __init__(self, job: EngineJob) -> None:
        self._job = job
        self._file = job.home / "lineitem.sqlite"
        self._connection: sqlite3.Connection | None = None

    def load(self) -> bool:
        assert self._connection is not None, "open comes first"
        execute = self._connection.execute
        file = pq.ParquetFile(self._job.source)
        columns = [f"{field.name} {_type(field.type)} NOT NULL" for field in file.schema_arrow]
        execute(f"CREATE TABLE {TABLE} ({', '.join(columns)}, PRIMARY KEY ({', '.join(KEY)}))")
        insert = f"INSERT INTO {TABLE} VALUES ({', '.join('?' * len(columns))})"
        execute("BEGIN")
        for batch in file.iter_batches(BATCH_ROWS):
            self._connection.executemany(insert, _rows(batch))
        execute("COMMIT")
        execute("ANALYZE")
        execute("PRAGMA wal_checkpoint(TRUNCATE)")
        return True

    def open(self) -> None:
        self._connection = sqlite3.connect(self._file, isolation_level=None)
        for setting in ("journal_mode = WAL", "synchronous = FULL", "cache_size = -1000000"):
            self._connection.execute(f"PRAGMA {setting}")

    def run(self, query: Query) -> list[Row]:
        assert self._connection is not None, "open comes first"
        return self._connection.execute(_TEXTS.get(query.name, query.text)).fetchall()

    def converted(self, query: Query, rows: list[Row]) -> list[Row]:
        places = _PLACES.get(query.name, {})
        return [tuple(_value(value, places.get(column)) for column, value in enumerate(row)) for row in rows]

    def disk_bytes(self) -> int:
        return sum(file.stat().st_size for file in self._job.home.glob(f"{self._file.name}*"))

    def version(self) -> str:
        return f"SQLite {sqlite3.sqlite_version}"

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def _type(type_: pa.DataType) -> str:
    return "INTEGER" if pa.types.is_integer(type_) or pa.types.is_decimal(type_) else "TEXT"


def _rows(batch: pa.RecordBatch) -> Iterator[Row]:
    """The rows of a batch, converted by Arrow, so that Python creates only the objects that are bound."""
    return zip(*(_column(column).to_pylist() for column in batch.columns), strict=True)


def _column(column: pa.Array) -> pa.Array:
    if pa.types.is_decimal(column.type):
        return pc.multiply(column, pa.scalar(HUNDREDTHS, pa.decimal128(3, 0))).cast(pa.int64())
    if pa.types.is_date(column.type):
        return column.cast(pa.string())
    return column


def _value(value: object, places: int | None) -> object:
    if places is None:
        return value
    return value / 10**places if isinstance(value, float) else Decimal(str(value)).scaleb(-places)

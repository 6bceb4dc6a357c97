"""Results and loads of many rows, for `bench.doors`.

select            four columns of numbers by ADBC's driver for PostgreSQL, which reads binary COPY
select, DECIMAL   four columns of DECIMAL by the same driver, which returns them as texts
Flight SQL        the four columns of numbers by ADBC's driver for Flight SQL; nyala alone
copy out          all columns in the binary format, into memory
copy in           the same bytes into an empty table with a primary key
lineitem          binary COPY of TPC-H's lineitem into an empty table with its primary key
lineitem, block   the same between BEGIN and COMMIT

COPY is a transaction of its own, as psql's \\copy runs it, except for the last step.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from ..doors.postgres.values.copy_binary import HEADER, TRAILER
from ..doors.postgres.values.rows import COPY_DATA, encode_rows
from ..doors.postgres.values.types import BINARY_FORMAT
from ..model.types import type_from_arrow
from ..tpch.schema import LINEITEM
from .door_servers import Server
from .postgres import connect

if TYPE_CHECKING:
    import psycopg

CREATE: Final = "CREATE TABLE {} (k BIGINT PRIMARY KEY, big BIGINT, x DOUBLE PRECISION, price DECIMAL(15, 2))"
NUMBERS: Final = "SELECT k, big, x, big AS again FROM points"
NUMBERS_BYTES: Final = 32
"""Of a row of `NUMBERS` in Arrow."""
DECIMALS: Final = "SELECT price, price AS p2, price AS p3, price AS p4 FROM points"
_WRITE_BYTES: Final = 1 << 18
_BATCH_ROWS: Final = 1 << 15


def fill_points(connection: psycopg.Connection[Any], rows: int) -> None:
    """Fills the table `points` with the keys from 0, by binary COPY."""
    with connection.cursor() as cursor, cursor.copy("COPY points FROM STDIN (FORMAT binary)") as copy:
        copy.write(HEADER)
        for first in range(0, rows, _BATCH_ROWS):
            keys = np.arange(first, min(rows, first + _BATCH_ROWS))
            prices = pa.array(keys % 100_000).cast(pa.decimal128(21, 2)).cast(pa.decimal128(15, 2))
            arrays = [pa.array(keys), pa.array(keys * 7919), pa.array(keys / 3), prices]
            batch = pa.RecordBatch.from_arrays(arrays, names=["k", "big", "x", "price"])
            copy.write(b"".join(_bodies(_messages(batch))))
        copy.write(TRAILER)


def _messages(batch: pa.RecordBatch) -> bytes:
    types = [type_from_arrow(column.type) for column in batch.columns]
    # A Parquet file may have its texts as views or dictionaries.
    arrays = [column.cast(type_.arrow) for column, type_ in zip(batch.columns, types, strict=True)]
    batch = pa.RecordBatch.from_arrays(arrays, names=batch.schema.names)
    return encode_rows(batch, types, [BINARY_FORMAT] * len(types), COPY_DATA)


def select(server: Server, sql: str) -> float:
    """Seconds for the rows of a query by ADBC's driver for PostgreSQL, as an Arrow table."""
    import adbc_driver_postgresql.dbapi as adbc

    with adbc.connect(server.dsn) as connection:
        return _fetched(connection, sql)


def select_by_flight(server: Server, sql: str) -> float:
    """The same by ADBC's driver for Flight SQL."""
    import adbc_driver_flightsql.dbapi as adbc

    with adbc.connect(server.flight_sql) as connection:
        return _fetched(connection, sql)


def _fetched(connection: object, sql: str) -> float:
    with connection.cursor() as cursor:  # type: ignore[attr-defined]
        began = time.perf_counter()
        cursor.execute(sql)
        cursor.fetch_arrow_table()
        return time.perf_counter() - began


def copy_out(server: Server) -> tuple[float, list[bytes]]:
    """Seconds for binary COPY of the table `points`, and its data."""
    with connect(server.dsn) as connection, connection.cursor() as cursor:
        began = time.perf_counter()
        with cursor.copy("COPY points TO STDOUT (FORMAT binary)") as copy:
            pieces = [bytes(piece) for piece in copy]
        return time.perf_counter() - began, pieces


def copy_points_in(server: Server) -> float:
    """Seconds for binary COPY of the rows of `points` into another table."""
    data = memoryview(b"".join(copy_out(server)[1]))
    blocks = (data[place : place + _WRITE_BYTES] for place in range(0, len(data), _WRITE_BYTES))
    return _copied_in(server, "copied", CREATE.format("copied"), blocks)


def copy_lineitem_in(server: Server, data: Path, *, in_block: bool = False) -> float:
    """Seconds for binary COPY of lineitem from the file of `write_lineitem`; `in_block`: between BEGIN and COMMIT."""
    with data.open("rb") as file:
        blocks = iter(lambda: file.read(_WRITE_BYTES), b"")
        return _copied_in(server, LINEITEM.name, LINEITEM.create_table(1), blocks, in_block)


def _copied_in(
    server: Server, table: str, create: str, blocks: Iterable[bytes | memoryview], in_block: bool = False
) -> float:
    with connect(server.dsn, autocommit=True) as connection, connection.cursor() as cursor:
        cursor.execute(f"DROP TABLE IF EXISTS {table}")
        cursor.execute(create)
        connection.autocommit = not in_block
        began = time.perf_counter()
        with cursor.copy(f"COPY {table} FROM STDIN (FORMAT binary)") as copy:
            for block in blocks:
                copy.write(block)
        connection.commit()
        return time.perf_counter() - began


def write_lineitem(source: Path, target: Path) -> int:
    """Writes lineitem's Parquet file as data of binary COPY, columns in the order of `LINEITEM`; the number of rows."""
    names = [name for name, _ in LINEITEM.columns]
    rows = 0
    with pq.ParquetFile(source) as file, target.open("wb") as data:
        data.write(HEADER)
        for batch in file.iter_batches(_BATCH_ROWS, columns=names):
            batch = batch.select(names)
            data.writelines(_bodies(_messages(batch)))
            rows += batch.num_rows
        data.write(TRAILER)
    return rows


def _bodies(messages: bytes) -> Iterator[memoryview]:
    view, place = memoryview(messages), 0
    while place < len(view):
        end = place + 1 + int.from_bytes(view[place + 1 : place + 5], "big")
        yield view[place + 5 : end]
        place = end

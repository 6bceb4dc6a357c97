"""PostgreSQL, a server on loopback. The harness starts it: see `server`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, ClassVar, Final

import pyarrow as pa
import pyarrow.csv as csv
import pyarrow.parquet as pq

from ...arrow import without_string_views
from ...postgres import PostgresServer, connect
from ..model import KEY, TABLE, EngineJob, Query, Row

BATCH_ROWS: Final = 1 << 16


class Postgres:
    """One transaction creates the table, fills it by COPY and adds the primary key.

    That is the manual's way to populate a database, which at wal_level minimal syncs the files instead of writing them
    to the log as well. ANALYZE follows.

    COPY has FREEZE, as after a VACUUM, so that counts need only the index.
    """

    name: ClassVar[str] = "postgres"
    settings: ClassVar[str] = (
        "server on loopback; fsync on, wal_level minimal, shared_buffers a quarter of the memory up to 2 GB, with the "
        "leader as many parallel processes as threads; COPY, primary key (l_orderkey, l_linenumber), ANALYZE; numeric, "
        "date, text"
    )

    def __init__(self, job: EngineJob) -> None:
        self._job = job
        self._connection: Any = None

    def load(self) -> bool:
        file = pq.ParquetFile(self._job.source)
        columns = ", ".join(f"{field.name} {_type(field.type)} NOT NULL" for field in file.schema_arrow)
        with self._connection.transaction():
            self._connection.execute(f"CREATE TABLE {TABLE} ({columns})")
            copy = f"COPY {TABLE} ({', '.join(file.schema_arrow.names)}) FROM STDIN (FORMAT csv, FREEZE)"
            with self._connection.cursor() as cursor, cursor.copy(copy) as stream:
                for batch in file.iter_batches(BATCH_ROWS):
                    stream.write(_csv(batch))
            self._connection.execute(f"ALTER TABLE {TABLE} ADD PRIMARY KEY ({', '.join(KEY)})")
        self._connection.execute(f"ANALYZE {TABLE}")
        return True

    def open(self) -> None:
        self._connection = connect(self._job.server, autocommit=True)

    def run(self, query: Query) -> list[Row]:
        rows: list[Row] = self._connection.execute(query.text).fetchall()
        return rows

    def converted(self, query: Query, rows: list[Row]) -> list[Row]:
        return rows

    def disk_bytes(self) -> int:
        size: int = self._connection.execute("SELECT pg_total_relation_size(%s::regclass)", (TABLE,)).fetchone()[0]
        return size

    def version(self) -> str:
        number: str = self._connection.execute("SHOW server_version").fetchone()[0]
        return f"PostgreSQL {number.split()[0]}"

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


@contextmanager
def server(job: EngineJob) -> Iterator[EngineJob]:
    """The job with a running server in its home. Raises `OperationalError` if there is none."""
    with PostgresServer(job.home, "fsync", _settings(job.threads)) as running:
        yield replace(job, server=running.dsn)


def _settings(threads: int) -> dict[str, str]:
    """Settings in addition to those of `PostgresServer`.

    The leader of a parallel query works too, so it has one worker fewer than there are threads.
    """
    return {
        "wal_level": "minimal",
        "max_wal_senders": "0",
        "max_parallel_workers_per_gather": str(threads - 1),
        "max_parallel_maintenance_workers": str(threads - 1),
    }


def _type(type_: pa.DataType) -> str:
    """The column type; `text` for CHAR: the manual has no reason to prefer the padded type."""
    if pa.types.is_decimal(type_):
        return f"numeric({type_.precision}, {type_.scale})"
    if pa.types.is_date(type_):
        return "date"
    if pa.types.is_integer(type_):
        return "bigint" if type_.bit_width > 32 else "integer"
    return "text"


def _csv(batch: pa.RecordBatch) -> memoryview:
    """Lines for COPY."""
    sink = pa.BufferOutputStream()
    csv.write_csv(without_string_views(batch), sink, csv.WriteOptions(include_header=False))
    return memoryview(sink.getvalue())

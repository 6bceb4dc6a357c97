"""Runs one load in a separate process, to measure its own peak memory: `python -m nyala.bench.worker`.

Reads a `LoadJob` as JSON from standard input, prints an `Outcome` as JSON.
"""

from __future__ import annotations

import json
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from ..driver.connection import connect
from ..driver.process import forget_peak, held_memory, peak_memory
from ..model.lazy_dataclass import dataclass
from .files import disk_bytes


@dataclass(frozen=True, slots=True)
class LoadJob:
    """Load `source` (a Parquet file) into `table`, made by `create_table`, with `engine` nyala or duckdb.

    With `arrow` the file is read into memory first, which is not measured: both engines load the same Arrow table.
    """

    engine: str
    source: str
    table: str
    create_table: str
    target: str
    threads: int
    arrow: bool = False


@dataclass(frozen=True, slots=True)
class Outcome:
    """Seconds for the load alone, bytes of peak memory, bytes on disk afterwards.

    The memory is that of the whole process, or with `LoadJob.arrow` the increase from its start.
    """

    seconds: float
    peak_memory: int
    disk: int
    rows: int


def run(job: LoadJob) -> Outcome:
    """Executes the job in this process."""
    source: Any = pq.read_table(job.source) if job.arrow else job.source
    before = held_memory() if job.arrow else 0
    if job.arrow:
        forget_peak()
    started = time.perf_counter()
    rows = _load_nyala(job, source) if job.engine == "nyala" else _load_duckdb(job, source)
    return Outcome(time.perf_counter() - started, peak_memory() - before, disk_bytes(Path(job.target)), rows)


def _load_nyala(job: LoadJob, source: Any) -> int:
    with connect(job.target, threads=job.threads) as connection:
        connection.execute(job.create_table)
        return connection.load(job.table, source)


def _load_duckdb(job: LoadJob, source: Any) -> int:
    import duckdb

    with duckdb.connect(job.target) as connection:
        connection.execute(f"SET threads = {job.threads:d}")
        if job.arrow:
            connection.register("source", source)
            rows_of = "source"
        else:
            path = job.source.replace("'", "''")
            rows_of = f"read_parquet('{path}')"
        connection.execute(f"CREATE TABLE {job.table} AS SELECT * FROM {rows_of}")
        connection.execute("CHECKPOINT")
        (rows,) = connection.execute(f"SELECT count(*) FROM {job.table}").fetchone()
        return int(rows)


if __name__ == "__main__":
    print(json.dumps(asdict(run(LoadJob(**json.load(sys.stdin))))))

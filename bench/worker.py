"""One load in a process of its own, so that its peak memory is its own: `python -m nyala.bench.worker`.

Reads a `Job` as JSON from standard input, prints an `Outcome` as JSON.
"""

from __future__ import annotations

import json
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from ..driver.connection import connect
from ..driver.process import peak_memory


@dataclass(frozen=True, slots=True)
class Job:
    """Load `source` (a Parquet file) into `table`, made by `create_table`, with `engine` nyala or duckdb."""

    engine: str
    source: str
    table: str
    create_table: str
    target: str
    threads: int


@dataclass(frozen=True, slots=True)
class Outcome:
    """Seconds for the load alone, bytes of peak memory for the whole process, bytes on disk afterwards."""

    seconds: float
    peak_memory: int
    disk: int
    rows: int


def run(job: Job) -> Outcome:
    """Do the job in this process."""
    started = time.perf_counter()
    rows = _load_nyala(job) if job.engine == "nyala" else _load_duckdb(job)
    return Outcome(time.perf_counter() - started, peak_memory(), _size(Path(job.target)), rows)


def _load_nyala(job: Job) -> int:
    with connect(job.target, threads=job.threads) as connection:
        connection.execute(job.create_table)
        return connection.load(job.table, job.source)


def _load_duckdb(job: Job) -> int:
    import duckdb

    with duckdb.connect(job.target) as connection:
        connection.execute(f"SET threads = {job.threads:d}")
        source = job.source.replace("'", "''")
        connection.execute(f"CREATE TABLE {job.table} AS SELECT * FROM read_parquet('{source}')")
        connection.execute("CHECKPOINT")
        (rows,) = connection.execute(f"SELECT count(*) FROM {job.table}").fetchone()
        return int(rows)


def _size(target: Path) -> int:
    if target.is_file():
        return target.stat().st_size
    return sum(file.stat().st_size for file in target.rglob("*") if file.is_file())


if __name__ == "__main__":
    print(json.dumps(asdict(run(Job(**json.load(sys.stdin))))))

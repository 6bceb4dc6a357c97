"""Measures all engines in one run: each loads the same Parquet file, alone; then each query is run on all of them in
turn.

    load     nyala | duckdb | ...                         each in a process that ends afterwards
    Q1       nyala  duckdb ...  nyala  duckdb ...  ...    `runs` times, so that whatever else the machine does hits all
    Q2       nyala  duckdb ...  nyala  duckdb ...  ...    alike

The measure is the median of all runs, as in the paper, including the first. Every answer of every run is compared with
the first one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pyarrow.parquet as pq

from ...errors import Error, OperationalError
from ..work_directory import work_directory
from .engines import NAMES, engine_class
from .engines.postgres import Postgres, server
from .model import QUERIES, EngineJob, LineitemResult, Outcome, Query, Row, Timing, difference
from .worker import Worker


def measure(
    source: Path,
    create_table: str,
    *,
    engines: Sequence[str] = NAMES,
    runs: int = 10,
    threads: int = 2,
    work: Path | None = None,
    say: Callable[[str], None] = lambda _: None,
) -> LineitemResult:
    """Loads lineitem into each engine and runs each query `runs` times.

    Parameters
    ----------
    source : Path
        The Parquet file of lineitem.
    create_table : str
        Its DDL for nyala.
    engines : sequence of str, optional
        Some of `NAMES`. One that cannot be started or loaded is left out, and `LineitemResult.left_out` has the reason.
    threads : int
        Maximum number of threads of one query.
    work : Path, optional
        The directory for the databases, which are removed; the system's temporary directory by default.
    say : callable, optional
        Called with a description of each step.

    Raises
    ------
    InterfaceError
        If there is no engine of such a name.
    OperationalError
        If there is no such file.
    """
    for name in engines:
        engine_class(name)
    if not source.exists():
        raise OperationalError(f"there is no file {source}")
    result = LineitemResult(pq.read_metadata(source).num_rows, threads, runs)
    with work_directory(work) as directory, ExitStack() as stack:
        workers: dict[str, Worker] = {}
        for name in dict.fromkeys(engines):
            home = directory / name
            home.mkdir()
            say(f"loading {name}")
            try:
                with ExitStack() as started:
                    job = started.enter_context(_served(name, EngineJob(source.resolve(), create_table, home, threads)))
                    worker, outcome = _loaded(name, job, started)
                    stack.push(started.pop_all())
            except (Error, OSError) as error:
                result.left_out[name] = str(error)
            else:
                workers[name], result.engines[name] = worker, outcome
        for query in QUERIES:
            say(f"{query.name}, {runs} times")
            _measure_query(query, workers, result)
    return result


@contextmanager
def _served(name: str, job: EngineJob) -> Iterator[EngineJob]:
    """The job, with a running server for an engine that needs one."""
    if name != Postgres.name:
        yield job
        return
    with server(job) as served:
        yield served


def _loaded(name: str, job: EngineJob, stack: ExitStack) -> tuple[Worker, Outcome]:
    """An engine with its table, ready for queries in a process that has loaded nothing."""
    with Worker(name, job) as loader:
        loader.open()
        loaded = loader.load()
    worker = stack.enter_context(Worker(name, job))
    opened = worker.open()
    return worker, Outcome(opened.version, opened.settings, loaded.seconds, loaded.disk_bytes)


def _measure_query(query: Query, workers: dict[str, Worker], found: LineitemResult) -> None:
    """Runs `found.runs` rounds of the engines in turn; an engine with a wrong or missing answer is not run again."""
    timings = {name: Timing() for name in workers}
    expected: tuple[str, list[Row]] | None = None
    for _ in range(found.runs):
        for name, worker in workers.items():
            timing = timings[name]
            if timing.trouble:
                continue
            try:
                answer = worker.run(query)
            except OperationalError as error:
                timing.trouble = f"failed: {error}"
                continue
            timing.seconds.append(answer.seconds)
            expected = expected or (name, answer.rows)
            wrong = difference(query, answer.rows, expected[1])
            if wrong is not None:
                timing.trouble = f"not the answer of {expected[0]}: {wrong}"
    for name, timing in timings.items():
        found.engines[name].queries[query.name] = timing

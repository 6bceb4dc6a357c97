"""The mixed benchmark: upserts into lineitem at a fixed rate while TPC-H's Q1 and Q6 run repeatedly.

Per engine, after its load, on one table:

    alone        queries without upserts
                 upserts without queries
    together     both
    afterwards   queries without upserts, on the table after the upserts: shows whether a slow-down is permanent

One thread runs queries, Q1 and Q6 in turn, each as soon as the previous one ends; upserts follow `open_loop`. Clients
are threads of this process, so an embedded store shares the interpreter with them, as in an application that embeds it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack, closing
from decimal import Decimal
from pathlib import Path
from typing import Final

import pyarrow.parquet as pq

from ...errors import OperationalError
from ...tpch.queries import select
from ..work_directory import work_directory
from .engines import ENGINES
from .model import AFTERWARDS, ALONE, QUERIES, TOGETHER, Engine, EngineRun, MixedResult, Row, Setting
from .open_loop import OpenLoop
from .rows import RowStream, row_streams

_TEXTS: Final = dict(zip(QUERIES, (query.text for query in select("1,6")), strict=True))
_QUANTITY, _COUNT = 2, 9
"""Columns of Q1: sum(l_quantity), count(*)."""


def measure(source: Path, setting: Setting, engines: Iterable[str], work: Path | None = None) -> MixedResult:
    """Runs all phases with each engine.

    Parameters
    ----------
    source : Path
        A Parquet file of lineitem.
    setting : Setting
    engines : iterable of str
        Of `ENGINES`.
    work : Path, optional
        The directory for the databases, which are removed; the system's temporary directory by default.
    """
    if not source.exists():
        raise OperationalError(f"there is no file {source}")
    result = MixedResult(setting, pq.ParquetFile(source).metadata.num_rows)
    with work_directory(work) as directory:
        for name in engines:
            if (missing := ENGINES[name].missing()) is not None:
                result.left_out[name] = missing
                continue
            home = directory / name
            home.mkdir()
            with closing(ENGINES[name](home, setting)) as engine:
                engine.load(source)
                result.runs[name] = run_phases(engine, source, setting)
    return result


def run_phases(engine: Engine, source: Path, setting: Setting) -> EngineRun:
    """Runs all phases on an engine that was loaded with `source`."""
    streams = row_streams(source, setting.writers, setting.new_share, setting.seed)
    runner = _QueryRunner(engine, streams)
    run = runner.run
    with ExitStack() as stack:
        writers = [stack.enter_context(closing(engine.writer())) for _ in streams]
        runner.warm_up()
        runner.run_queries(ALONE, _until(setting.seconds))
        alone = OpenLoop(setting, writers, streams)
        alone.start()
        run.upserts[ALONE] = alone.finish()
        together = OpenLoop(setting, writers, streams)
        together.start()
        try:
            runner.run_queries(TOGETHER, lambda: together.is_running)
        except BaseException:
            together.halt()
            raise
        finally:
            run.upserts[TOGETHER] = together.finish()
        runner.run_queries(AFTERWARDS, _until(setting.seconds / 3))
    return run


def _until(seconds: float) -> Callable[[], bool]:
    end = time.perf_counter() + seconds
    return lambda: time.perf_counter() < end


class _QueryRunner:
    """Runs the queries, measures their times, and checks the answers of Q1 as `rows` describes."""

    def __init__(self, engine: Engine, streams: Sequence[RowStream]) -> None:
        self.run = EngineRun(engine.version())
        self._engine = engine
        self._streams = streams
        self._quantity, self._count = Decimal(0), 0

    def warm_up(self) -> None:
        """Runs each query once, before any upsert; later answers of Q1 are compared with this one."""
        for name in QUERIES:
            answer = self._engine.query(_TEXTS[name])
            if name == "q1":
                self._quantity, self._count = _totals(answer)

    def run_queries(self, phase: str, goes_on: Callable[[], bool]) -> None:
        """Runs the queries in turn, each at least once, while `goes_on` returns True."""
        times = self.run.queries[phase] = {name: [] for name in QUERIES}
        while True:
            for name in QUERIES:
                done = sum(stream.done for stream in self._streams)
                began = time.perf_counter()
                answer = self._engine.query(_TEXTS[name])
                times[name].append(1000 * (time.perf_counter() - began))
                if name == "q1":
                    self._check(answer, done, sum(stream.begun for stream in self._streams))
            if not goes_on():
                return

    def _check(self, answer: Sequence[Row], done: int, begun: int) -> None:
        quantity, count = _totals(answer)
        quantity, count = quantity - self._quantity, count - self._count
        self.run.checked += 1
        if not 0 <= quantity <= len(self._streams):
            most = len(self._streams)
            self.run.inconsistent.append(f"the sum of l_quantity is {quantity:+} off; in any snapshot +0 to +{most}")
        if not done <= count <= begun:
            self.run.inconsistent.append(f"there are {count} new rows; {done} were there before, {begun} at the end")


def _totals(answer: Sequence[Row]) -> tuple[Decimal, int]:
    """Over all groups of Q1: sum(l_quantity) and count(*)."""
    return sum((Decimal(row[_QUANTITY]) for row in answer), Decimal(0)), sum(int(row[_COUNT]) for row in answer)

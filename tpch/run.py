"""Runs the queries: one cold run, then warm ones, whose times count."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import field
from pathlib import Path
from typing import Any

import pyarrow as pa
from rich.console import Console
from rich.table import Table

from ..driver.connection import Connection
from ..model.lazy_dataclass import dataclass
from ..model.version import __version__
from . import check
from .manifest import Manifest
from .peers import DuckDB, opened
from .queries import Query


class Times:
    """The first run and the warm ones, in seconds. Warm runs count if there are any."""

    __slots__ = ()
    cold: float
    warm: list[float]

    @property
    def median(self) -> float:
        return statistics.median(self.warm or [self.cold])

    @property
    def best(self) -> float:
        return min(self.warm or [self.cold])


@dataclass(slots=True)
class QueryReport(Times):
    """One query's times in seconds; `wrong` is the result of its check, None if it was right or not checked."""

    number: int
    cold: float
    warm: list[float] = field(default_factory=list)
    rows: int = 0
    checked: bool = False
    wrong: str | None = None

    def as_json(self) -> dict[str, Any]:
        return {
            "cold": self.cold,
            "warm": self.warm,
            "median": self.median,
            "best": self.best,
            "rows": self.rows,
            "check": ("ok" if self.wrong is None else self.wrong) if self.checked else None,
        }


Checker = Callable[[Query, pa.Table], check.Difference | None]


def run(
    connection: Connection,
    queries: Iterable[Query],
    *,
    runs: int = 3,
    checker: Checker | None = None,
    progress: Callable[[Query], None] = lambda _: None,
) -> list[QueryReport]:
    """Runs each query once cold and `runs` times warm; with `checker`, checks the cold run's result."""
    reports = []
    for query in queries:
        progress(query)
        text = query.text
        seconds, table = timed(lambda text=text: connection.execute(text).arrow())  # type: ignore[misc]
        report = QueryReport(query.number, seconds, rows=table.num_rows)
        for _ in range(runs):
            report.warm.append(timed(lambda text=text: connection.execute(text).arrow())[0])  # type: ignore[misc]
        if checker is not None:
            difference = checker(query, table)
            report.checked, report.wrong = True, None if difference is None else difference.text
        reports.append(report)
    return reports


def timed(work: Callable[[], pa.Table]) -> tuple[float, pa.Table]:
    """Seconds and result of a piece of work."""
    started = time.perf_counter()
    result = work()
    return time.perf_counter() - started, result


@contextmanager
def checker_for(manifest: Manifest, threads: int) -> Iterator[Checker]:
    """The TPC's answers at scale factor 1; DuckDB on the same Parquet files at any other."""
    if manifest.scale_factor == 1:
        yield check.official
        return
    with opened(DuckDB(), Path(manifest.data), threads) as peer:
        yield lambda query, table: check.compare(query, table, peer.run(query.text))


def geometric_mean(values: Sequence[float]) -> float:
    """The mean for times and ratios; 0 for no value.

    >>> geometric_mean([1.0, 4.0])
    2.0
    """
    if not values:
        return 0.0
    return math.exp(sum(math.log(max(value, 1e-9)) for value in values) / len(values))


def summary(reports: Sequence[QueryReport], manifest: Manifest, threads: int | None) -> dict[str, Any]:
    """The report as plain data, for `--json`."""
    return {
        "benchmark": "tpch",
        "nyala": __version__,
        "scale_factor": manifest.scale_factor,
        "buckets": manifest.buckets,
        "threads": threads,
        "queries": {str(report.number): report.as_json() for report in reports},
        "geometric_mean": geometric_mean([report.median for report in reports]),
        "total": sum(report.median for report in reports),
    }


def show(reports: Sequence[QueryReport], manifest: Manifest, console: Console) -> None:
    """Print the table of times, in milliseconds."""
    table = Table(title=f"TPC-H, scale factor {manifest.scale_factor:g} (milliseconds)", title_justify="left")
    table.add_column("query")
    for name in ("cold", "median", "best", "rows"):
        table.add_column(name, justify="right")
    checked = any(report.checked for report in reports)
    if checked:
        table.add_column("answer")
    for report in reports:
        cells = [f"Q{report.number}", *(f"{1000 * t:,.1f}" for t in (report.cold, report.median, report.best))]
        cells.append(f"{report.rows:,}")
        if checked:
            cells.append("right" if report.wrong is None else f"WRONG: {report.wrong}")
        table.add_row(*cells)
    console.print(table)
    medians = [report.median for report in reports]
    console.print(
        f"geometric mean {1000 * geometric_mean(medians):,.1f} ms, total {sum(medians):,.2f} s", highlight=False
    )

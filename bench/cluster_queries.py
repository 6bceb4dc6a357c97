"""Compares queries on a cluster of three servers with the embedded store, on the same rows, in turn.

The cluster is created for the run, and loaded from the Parquet files of the embedded store; every tablet has three
replicas. Before a query is measured, both sides run it several times. Four processes that have just started are not
representative, and the first rounds of a query of some milliseconds take half as long again.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import field
from pathlib import Path

from rich.console import Console
from rich.table import Table as TextTable

from ..driver.connection import Connection, connect
from ..model.lazy_dataclass import dataclass
from .servers import started_cluster
from .work_directory import work_directory

WARM_UPS = 10
"""Rounds of each query that are not measured."""
MOST_RATIO = 2.0
"""Maximum ratio of a query's time on the cluster to its time embedded."""


@dataclass(slots=True)
class QueryTimes:
    """Seconds of one query, one number per round; True if both returned the same rows."""

    name: str
    cluster: list[float] = field(default_factory=list)
    embedded: list[float] = field(default_factory=list)
    is_equal: bool = True

    @property
    def ratio(self) -> float:
        return statistics.median(self.cluster) / statistics.median(self.embedded)


@dataclass(slots=True)
class Compared:
    """All queries, and the duration of the cluster's load in seconds, with its number of rows."""

    load_seconds: float
    rows: int
    queries: list[QueryTimes]

    @property
    def ratio(self) -> float:
        """The geometric mean of the ratios."""
        return statistics.geometric_mean(query.ratio for query in self.queries)


def measure(
    embedded: Path,
    tables: Mapping[str, tuple[str, Path]],
    queries: Mapping[str, str],
    *,
    runs: int,
    threads: int,
    work: Path | None,
) -> Compared:
    """Loads the tables ((CREATE TABLE, Parquet file) by name) into a cluster, and runs all queries on both sides."""
    with (
        work_directory(work) as directory,
        started_cluster(directory / "cluster") as cluster,
        connect(cluster.url, threads=threads) as remote,
        connect(embedded, threads=threads) as local,
    ):
        began, rows = time.perf_counter(), 0
        for name, (create, source) in tables.items():
            remote.execute(create)
            rows += remote.load(name, source)
        loaded = time.perf_counter() - began
        for name in tables:
            remote.execute(f"COMPACT TABLE {name}")
        found = [QueryTimes(name) for name in queries]
        for times in found:
            text = queries[times.name]
            times.is_equal = _rows(remote, text) == _rows(local, text)
            for number in range(WARM_UPS + runs):
                for connection, seconds in ((remote, times.cluster), (local, times.embedded)):
                    started = time.perf_counter()
                    connection.execute(text).arrow()
                    if number >= WARM_UPS:
                        seconds.append(time.perf_counter() - started)
    return Compared(loaded, rows, found)


def _rows(connection: Connection, text: str) -> Sequence[object]:
    rows = connection.execute(text).fetchall()
    rounded = [tuple(float(f"{v:.9g}") if isinstance(v, float) else v for v in row) for row in rows]
    return sorted(rounded, key=repr)


def show(found: Compared, console: Console) -> None:
    """Prints medians and ratios."""
    rate = found.rows / found.load_seconds
    console.print(f"loaded {found.rows:,} rows with 3 replicas in {found.load_seconds:.1f} s ({rate:,.0f} rows/s)")
    table = TextTable(title="milliseconds, medians", title_justify="left")
    for name in ("query", "cluster", "embedded", "ratio", ""):
        table.add_column(name, justify="left" if name in ("query", "") else "right")
    for query in found.queries:
        ours, theirs = (statistics.median(seconds) * 1000 for seconds in (query.cluster, query.embedded))
        told = "" if query.is_equal else "other rows"
        table.add_row(query.name, f"{ours:,.1f}", f"{theirs:,.1f}", f"{query.ratio:.2f}", told)
    console.print(table)
    worst = max(found.queries, key=lambda query: query.ratio)
    console.print(f"geometric mean {found.ratio:.2f}, worst {worst.name} {worst.ratio:.2f} (limit {MOST_RATIO:g} each)")

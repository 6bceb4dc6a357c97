"""Us and the peers in one run: the same queries in turn, the same number of threads, ratios of times.

The median of the warm runs is the measure. The best run is reported beside it, because on a machine with other work to
do it says more.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from rich.console import Console
from rich.table import Table

from ..driver.connection import Connection
from ..errors import InterfaceError, did_you_mean
from .manifest import Manifest
from .peers import DuckDB
from .queries import Query
from .run import geometric_mean, timed

US: Final = "nyala"
PEERS: Final = {"duckdb-parquet": False, "duckdb": True}
"""Peers by name; the value says whether DuckDB loads tables of its own."""

Runner = Callable[[str], pa.Table]


@dataclass(frozen=True, slots=True)
class Comparison:
    """One query: the seconds of the warm runs, by engine."""

    number: int
    seconds: dict[str, tuple[float, ...]]

    @property
    def medians(self) -> dict[str, float]:
        return {name: statistics.median(taken) for name, taken in self.seconds.items()}

    @property
    def best(self) -> dict[str, float]:
        return {name: min(taken) for name, taken in self.seconds.items()}

    def ratio(self, peer: str) -> float:
        """Our median over the peer's: below 1 we are faster."""
        return self.medians[US] / max(self.medians[peer], 1e-9)

    def best_ratio(self, peer: str) -> float:
        """Our best run over the peer's."""
        return self.best[US] / max(self.best[peer], 1e-9)


def parse_peers(text: str) -> list[str]:
    """The peers of a list such as "duckdb-parquet,duckdb"."""
    names = [name.strip() for name in text.split(",") if name.strip()]
    for name in names:
        if name not in PEERS:
            raise InterfaceError(f"there is no peer {name}{did_you_mean(name, PEERS)}")
    return names


def compare(
    connection: Connection,
    manifest: Manifest,
    queries: Iterable[Query],
    *,
    peers: Sequence[str] = ("duckdb-parquet",),
    runs: int = 3,
    threads: int | None = None,
    progress: Callable[[Query], None] = lambda _: None,
) -> list[Comparison]:
    """Run each query on every engine, once to warm up and `runs` times interleaved.

    `threads` is for the peers; give the connection as many.
    """
    results = []
    with ExitStack() as stack:
        runners: dict[str, Runner] = {US: lambda text: connection.execute(text).arrow()}
        for name in peers:
            peer = stack.enter_context(DuckDB(Path(manifest.data), threads, native=PEERS[name]))
            runners[name] = peer.query
        for query in queries:
            progress(query)
            results.append(Comparison(query.number, _interleaved(query.text, runners, runs)))
    return results


def _interleaved(text: str, runners: dict[str, Runner], runs: int) -> dict[str, tuple[float, ...]]:
    """In turn, so that whatever else the machine does hits all alike."""
    seconds: dict[str, list[float]] = {name: [] for name in runners}
    for number in range(runs + 1):
        for name, runner in runners.items():
            taken, _ = timed(lambda runner=runner: runner(text))  # type: ignore[misc]
            if number:
                seconds[name].append(taken)
    return {name: tuple(taken) for name, taken in seconds.items()}


def summary(results: Sequence[Comparison], manifest: Manifest, threads: int | None) -> dict[str, Any]:
    """The comparison as plain data, for `--json`."""
    peers = _peers(results)
    return {
        "benchmark": "tpch compare",
        "scale_factor": manifest.scale_factor,
        "threads": threads,
        "queries": {str(r.number): r.seconds for r in results},
        "ratios": {peer: geometric_mean([r.ratio(peer) for r in results]) for peer in peers},
        "best_ratios": {peer: geometric_mean([r.best_ratio(peer) for r in results]) for peer in peers},
    }


def _peers(results: Sequence[Comparison]) -> list[str]:
    return [name for name in (results[0].seconds if results else {}) if name != US]


def show(results: Sequence[Comparison], manifest: Manifest, console: Console) -> None:
    """Print the table of medians in milliseconds and of ratios."""
    peers = _peers(results)
    title = f"TPC-H, scale factor {manifest.scale_factor:g}: medians in milliseconds, ratio = {US} / peer"
    table = Table(title=title, title_justify="left")
    table.add_column("query")
    table.add_column(US, justify="right")
    for peer in peers:
        table.add_column(peer, justify="right")
        table.add_column("ratio", justify="right")
    for result in results:
        cells = [f"Q{result.number}", f"{1000 * result.medians[US]:,.1f}"]
        for peer in peers:
            cells += [f"{1000 * result.medians[peer]:,.1f}", f"{result.ratio(peer):.2f}"]
        table.add_row(*cells)
    console.print(table)
    for peer in peers:
        medians = geometric_mean([result.ratio(peer) for result in results])
        best = geometric_mean([result.best_ratio(peer) for result in results])
        console.print(
            f"geometric mean of {US} / {peer}: {medians:.2f} of medians, {best:.2f} of best runs", highlight=False
        )

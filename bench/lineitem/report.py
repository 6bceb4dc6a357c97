"""Reports the results: tables on the console, a section of the report. Both are made from the same grids."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from rich.console import Console
from rich.table import Table

from ..report.cells import ratio, shown
from ..report.model import Cell, Chart, Grid, Section
from .model import QUERIES, LineitemResult, Outcome, Timing

US: Final = "nyala"
NAMES: Final = tuple(query.name for query in QUERIES)
STEPS: Final = ("load", *NAMES)
PAPER: Final = (
    ("Phoenix-HBase", 2152.0, 219.0, 76.0, 131.0, 0.04),
    ("Impala-Kudu", 1918.0, 13.2, 1.7, 0.7, 0.15),
    ("Impala-Parquet", 155.0, 9.3, 1.4, 1.5, 1.37),
)
"""Seconds of the load and of Q1 to Q4, on the 62 GB of lineitem and the nine machines of 2015."""
_PAPER_TITLE: Final = "The paper's own, of 62 GB on nine machines of 2015: another machine, for orientation"
_TEXT: Final = (
    "Tables 2 and 3 of the Kudu paper (section 6.2). TPC-H's lineitem, here {rows:,} rows, is loaded from one Parquet "
    "file into each engine, by a process that ends afterwards. Then each query runs {runs} times, the engines in turn, "
    "each in a separate process, and the median of all runs is reported. A query may use {threads} threads (SQLite "
    "has one). A load ends when its rows are synced, with key and statistics if the engine has them. Times are the "
    "client's, including the whole result. All results of all runs are compared. Q4 looks up the paper's order 2000, "
    "which TPC-H leaves out; Q4b looks up an existing one."
)


def show(found: LineitemResult, console: Console) -> None:
    """Prints medians, ratios, sizes, and all faults."""
    for grid in (*_times(found), _engines(found)):
        console.print(_table(grid))
    for query in QUERIES:
        console.print(f"{query.name}: {query.what}", style="dim", highlight=False)
    for sentence in _notes(found):
        console.print(sentence, style="red", highlight=False, markup=False)


def section(data: dict[str, Any]) -> Section:
    """The section of the report, from the data saved by `--json`: `LineitemResult` as a dictionary."""
    result = LineitemResult.of(data)
    text = _TEXT.format(rows=result.rows, runs=result.runs, threads=result.threads)
    queries = "; ".join(f"{query.name}: {query.what}" for query in QUERIES)
    return Section(
        name="lineitem",
        title="Lineitem: load, scans and look-ups",
        text=" ".join((text, f"{queries}.", *_notes(result))),
        grids=(*_times(result), _first_and_fastest(result), _engines(result), _paper()),
        charts=_charts(result) if result.engines else (),
    )


def _charts(found: LineitemResult) -> Sequence[Chart]:
    times = {n: _milli([timing.median for timing in _timings(outcome)]) for n, outcome in found.engines.items()}
    loads = {name: [outcome.load_seconds] for name, outcome in found.engines.items()}
    sizes = {name: [outcome.disk_bytes / 1e6] for name, outcome in found.engines.items()}
    return (
        Chart("Queries of lineitem, medians", "ms", NAMES, times, "log"),
        Chart("Load of lineitem", "s", ("load",), loads),
        Chart("Lineitem on disk", "MB", ("size",), sizes),
    )


def _notes(found: LineitemResult) -> Iterator[str]:
    """A sentence for every fault."""
    yield from (f"{name} is left out: {reason}." for name, reason in found.left_out.items())
    yield from (f"Error: {trouble}." for trouble in found.troubles)


# ---- grids -----------------------------------------------------------------------------------------------------------


def _times(found: LineitemResult) -> Iterator[Grid]:
    """Medians; and nyala's over the others', if both exist."""
    title = f"Queries of lineitem, {found.rows:,} rows, {found.threads} threads: medians of {found.runs} runs"
    medians = {name: [timing.median for timing in _timings(outcome)] for name, outcome in found.engines.items()}
    yield Grid(title, ("engine", *NAMES), [(name, *_milli(times)) for name, times in medians.items()], "ms")
    others = [name for name in found.engines if name != US]
    if US in found.engines and others:
        steps = {name: [found.engines[name].load_seconds, *times] for name, times in medians.items()}
        rows = [(f"/ {name}", *map(ratio, steps[US], steps[name])) for name in others]
        yield Grid("nyala's times over the others': below 1, nyala is faster", ("", *STEPS), rows)


def _first_and_fastest(found: LineitemResult) -> Grid:
    rows: list[Sequence[Cell]] = []
    for name, outcome in found.engines.items():
        good = [[] if timing.median is None else timing.seconds for timing in _timings(outcome)]
        rows.append((f"{name}, first", *_milli([seconds[0] if seconds else None for seconds in good])))
        rows.append((f"{name}, fastest", *_milli([min(seconds, default=None) for seconds in good])))
    return Grid("The first run, and the fastest", ("", *NAMES), rows, "ms")


def _engines(found: LineitemResult) -> Grid:
    rows = [
        (name, outcome.load_seconds, round(outcome.disk_bytes / 1e6, 1), outcome.version, outcome.settings)
        for name, outcome in found.engines.items()
    ]
    return Grid("Load, size on disk, settings", ("engine", "load, s", "disk, MB", "version", "settings"), rows)


def _paper() -> Grid:
    return Grid(_PAPER_TITLE, ("system", *STEPS[:5]), PAPER, "s")


def _timings(outcome: Outcome) -> list[Timing]:
    """The timings in the order of `NAMES`."""
    return [outcome.queries.get(name, Timing()) for name in NAMES]


def _milli(seconds: Sequence[float | None]) -> list[float | None]:
    return [None if value is None else value * 1e3 for value in seconds]


def _table(grid: Grid) -> Table:
    table = Table(title=grid.title + (f", {grid.unit}" if grid.unit else ""), title_justify="left")
    texts = {place for row in grid.rows for place, cell in enumerate(row) if isinstance(cell, str)}
    for place, name in enumerate(grid.columns):
        table.add_column(name, justify="left" if place in texts else "right")
    for row in grid.rows:
        table.add_row(*map(shown, row))
    return table

"""Reports a run of YCSB: tables on the console, a section of the report, a chart, JSON.

Tables, section and chart are made from the same grids. Rows are workloads, columns are stores; a workload of the second
run, with uniform keys, has "uniform" after its letter.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from rich.console import Console
from rich.measure import Measurement
from rich.table import Table

from ..report.model import Cell, Chart, Grid, Section, Target
from .model import FIELD_BYTES, FIELDS, Kind, Outcome
from .runner import LOAD, YcsbResult

US: Final = "nyala"
"""The binding that the others are compared with."""
POSTGRES_WORKLOADS: Final = ("A", "B", "C", "D", "F")
SKEW_WORKLOADS: Final = ("A", "B", "C", "F")
SKEWED_AT_LEAST: Final = 0.8
"""Minimum ratio of the throughput with zipfian keys to that with uniform keys. Kudu's paper shows 0.23 on workload
B."""
# Okabe and Ito's colours, which are distinguishable with any kind of colour blindness.
_COLOURS: Final = ("#0072B2", "#56B4E9", "#009E73", "#E69F00", "#D55E00", "#CC79A7", "#F0E442")

Number = Callable[[Outcome], Cell]


def label(outcome: Outcome) -> str:
    """A workload's name in the tables: "load", "A", "A uniform"."""
    return outcome.workload + (" uniform" if outcome.distribution == "uniform" else "")


class Results:
    """The outcomes by workload's label and binding."""

    def __init__(self, found: YcsbResult) -> None:
        self._outcomes = {(label(one), one.binding): one for one in found.outcomes}
        self.labels = list(dict.fromkeys(label for label, _ in self._outcomes))
        self.bindings = list(dict.fromkeys(binding for _, binding in self._outcomes))

    def get(self, label: str, binding: str) -> Outcome | None:
        return self._outcomes.get((label, binding))

    def number(self, label: str, binding: str, number: Number) -> Cell:
        """A number of an outcome; None if the binding has not run the workload."""
        outcome = self.get(label, binding)
        return None if outcome is None else number(outcome)

    def ratio(self, one: tuple[str, str], other: tuple[str, str]) -> float | None:
        """The ratio of the throughputs of two workloads and bindings; None if one of them has none."""
        ours, theirs = self.get(*one), self.get(*other)
        if ours is None or theirs is None or not theirs.operations:
            return None
        return ours.per_second / theirs.per_second

    def has_failures(self, label: str, binding: str) -> bool:
        outcome = self.get(label, binding)
        return outcome is not None and outcome.failed > 0

    @property
    def failures(self) -> list[Outcome]:
        return [outcome for outcome in self._outcomes.values() if outcome.failed]


# ---- section ---------------------------------------------------------------------------------------------------------


def section(data: Mapping[str, Any] | YcsbResult) -> Section:
    """The benchmark as a section of the report, from results in memory or read from its file."""
    found = data if isinstance(data, YcsbResult) else YcsbResult.from_data(data)
    results = Results(found)
    return Section(
        "ycsb",
        "YCSB: single rows by their key",
        _text(found),
        [grid for grid in _grids(found, results) if grid.rows],
        list(_charts(results)),
        list(_targets(results)),
    )


def _text(found: YcsbResult) -> str:
    setting = found.setting
    processes = "one process" if setting.processes == 1 else f"up to {setting.processes} processes"
    bound = " (those of a process on one processor of it)" if setting.is_bound else ""
    durable = "the disk has it" if setting.durability == "fsync" else "the operating system has it"
    return (
        "The core workloads of the Yahoo Cloud Serving Benchmark, which the paper's section 6.3 ran on a cluster. "
        "Load inserts all rows in batches, A is 50% reads and 50% updates of one field, B 95% reads and 5% updates, C "
        "reads alone, D 95% reads of the newest rows and 5% inserts, E 95% scans of 1 to 100 rows and 5% inserts, F "
        "50% reads and 50% read-modify-writes. A read takes all fields of a row. "
        f"{setting.records:,} rows of {FIELDS} fields of {FIELD_BYTES} bytes; {setting.operations:,} operations per "
        f"workload, or as many as end within {setting.seconds:g} s; {setting.threads} client threads in {processes}, "
        f"on the machine on which the stores run{bound}. Every write is a separate transaction, acknowledged when "
        f"{durable} (a sync of this disk takes {found.sync_milliseconds:.2f} ms). Keys have a zipfian distribution, or "
        "a uniform one where a row says so. The workloads follow each other with no pause in the order load, A, B, C, "
        "F, D, E, and the store is loaded again before E. After a load each store gets the usual maintenance: nyala "
        "COMPACT TABLE, PostgreSQL VACUUM ANALYZE, SQLite ANALYZE. There are no warm-up runs, and no run is repeated."
    )


def _grids(found: YcsbResult, results: Results) -> Iterator[Grid]:
    stores = results.bindings
    yield Grid(
        "Throughput",
        ["workload", *stores],
        [[label, *(results.number(label, store, _per_second) for store in stores)] for label in results.labels],
        "operations/s",
    )
    peers = [store for store in stores if store != US] if US in stores else []
    yield Grid(
        f"Throughput of {US}, as a multiple of another store's",
        ["workload", *peers],
        [
            [label, *(results.ratio((label, US), (label, peer)) for peer in peers)]
            for label in results.labels
            if peers and results.get(label, US)
        ],
    )
    yield Grid(
        "Throughput with zipfian keys, as a multiple of that with uniform keys",
        ["workload", *stores],
        [
            [name, *(results.ratio((name, store), (f"{name} uniform", store)) for store in stores)]
            for name in results.labels
            if f"{name} uniform" in results.labels
        ],
    )
    for name in results.labels:
        yield _latencies(results, name)
    yield Grid(
        "Processor time of the client processes, an embedded store among them, per operation",
        ["workload", *stores],
        [[name, *(results.number(name, store, _cpu_per_operation) for store in stores)] for name in results.labels],
        "µs",
    )
    yield Grid(
        "On disk afterwards",
        ["workload", *stores],
        [[name, *(results.number(name, store, _megabytes) for store in stores)] for name in results.labels],
        "MB",
    )
    yield Grid("Versions", ["store", "version"], [[name, version] for name, version in found.versions.items()])
    yield Grid(
        "Failed operations",
        ["store", "workload", "failed", "the first error"],
        [[one.binding, label(one), one.failed, one.error] for one in results.failures],
    )
    yield Grid("Left out", ["store", "why"], [[name, reason] for name, reason in found.left_out.items()])


def _latencies(results: Results, name: str) -> Grid:
    outcomes = [outcome for store in results.bindings if (outcome := results.get(name, store)) is not None]
    rows: list[Sequence[Cell]] = [
        [outcome.binding, str(kind), took.operations, took.p50, took.p95, took.p99, took.p999, took.slowest, took.mean]
        for kind in Kind
        for outcome in outcomes
        if (took := outcome.latencies.get(kind)) is not None
    ]
    title = "Latency of the batches of the load" if name == LOAD else f"Latency under workload {name}"
    count = "batches" if name == LOAD else "operations"
    return Grid(title, ["store", "kind", count, "p50", "p95", "p99", "p99.9", "slowest", "mean"], rows, "ms")


def _per_second(outcome: Outcome) -> float:
    return outcome.per_second


def _cpu_per_operation(outcome: Outcome) -> Cell:
    return 1e6 * outcome.cpu_seconds / outcome.operations if outcome.operations else None


def _megabytes(outcome: Outcome) -> float:
    return outcome.disk_bytes / 1e6


def _charts(results: Results) -> Iterator[Chart]:
    """Charts like the paper's Figure 1: one for each distribution of keys."""
    for title, is_uniform in (("YCSB, zipfian keys", False), ("YCSB, uniform keys", True)):
        labels = [label for label in results.labels if label.endswith(" uniform") == is_uniform]
        if labels:
            series = {
                store: [_height(results.number(label, store, _per_second)) for label in labels]
                for store in results.bindings
            }
            yield Chart(title, "operations/s", [label.removesuffix(" uniform") for label in labels], series, "log")


def _height(number: Cell) -> float | None:
    # Zero has no position on a logarithmic scale.
    return float(number) if number else None


# ---- targets ---------------------------------------------------------------------------------------------------------


def _targets(results: Results) -> Iterator[Target]:
    """The targets of those bindings and workloads that were run."""
    against = {
        f"{US} ahead of DuckDB on every workload": ("duckdb", results.labels),
        f"{US} ahead of PostgreSQL over loopback on A, B, C, D and F": (
            "postgres",
            [label for label in results.labels if label.split()[0] in POSTGRES_WORKLOADS],
        ),
    }
    for what, (peer, labels) in against.items():
        pairs = [(label, (label, US), (label, peer)) for label in labels]
        yield from _target(results, what, pairs, lambda ratio: ratio > 1, "more than 1x of its throughput")
    pairs = [(label, (label, US), (f"{label} uniform", US)) for label in SKEW_WORKLOADS]
    wanted = f"at least {SKEWED_AT_LEAST:g}x of the throughput"
    what = f"{US} with zipfian keys, relative to uniform ones"
    yield from _target(results, what, pairs, lambda ratio: ratio >= SKEWED_AT_LEAST, wanted)


def _target(
    results: Results,
    what: str,
    pairs: Iterable[tuple[str, tuple[str, str], tuple[str, str]]],
    is_enough: Callable[[float], bool],
    wanted: str,
) -> Iterator[Target]:
    """A target, unless no part of it was run. A workload in which operations of nyala failed misses it."""
    ratios = [(name, results.ratio(ours, theirs), results.has_failures(*ours)) for name, ours, theirs in pairs]
    measured = [(name, ratio, failed) for name, ratio, failed in ratios if ratio is not None]
    if measured:
        texts = [f"{name} {ratio:.2f}x{' with failures' if failed else ''}" for name, ratio, failed in measured]
        is_met = all(is_enough(ratio) and not failed for _, ratio, failed in measured)
        yield Target(what, wanted, ", ".join(texts), is_met)


# ---- console, chart --------------------------------------------------------------------------------------------------


def show(found: YcsbResult, console: Console) -> None:
    """Prints all tables, the skipped stores, and the targets."""
    shown = section(found)
    for grid in shown.grids:
        table = _table(grid)
        if not console.is_terminal:  # a file has no width; a folded table is unreadable
            unbounded = console.options.update(width=10_000)
            console.width = max(console.width, Measurement.get(console, unbounded, table).maximum)
        unit = f", {grid.unit}" if grid.unit else ""
        # Not the table's own title, which would be folded to the width of a narrow table.
        console.print(f"\n{grid.title}{unit}", style="italic", highlight=False, soft_wrap=True, markup=False)
        console.print(table)
    for target in shown.targets:
        met = "met" if target.is_met else "MISSED"
        line = f"{met}: {target.what}: {target.found} (required: {target.required})"
        console.print(line, highlight=False, soft_wrap=True, markup=False)


def _table(grid: Grid) -> Table:
    table = Table()
    for number, column in enumerate(grid.columns):
        is_number = any(isinstance(row[number], int | float) for row in grid.rows)
        table.add_column(column, justify="right" if is_number else "left")
    for row in grid.rows:
        table.add_row(*(_shown(cell) for cell in row))
    return table


def _shown(cell: Cell) -> str:
    """A number with at least three digits."""
    if cell is None:
        return "-"
    if isinstance(cell, str | int):
        return f"{cell:,}" if isinstance(cell, int) else cell
    decimals = 0 if abs(cell) >= 100 or cell == 0 else 2 - math.floor(math.log10(abs(cell)))
    return f"{cell:,.{min(decimals, 4)}f}"


def draw(found: YcsbResult, path: Path) -> None:
    """Writes the charts below each other as PNG.

    Raises
    ------
    ImportError
        If there is no matplotlib.
    """
    from matplotlib.figure import Figure  # not pyplot, which keeps figures and looks for a display

    charts = section(found).charts
    figure = Figure(figsize=(10, 4.2 * max(1, len(charts)) + 0.6), layout="constrained")
    for axes, chart in zip(figure.subplots(max(1, len(charts)), squeeze=False)[:, 0], charts, strict=False):
        _bars(axes, chart)
    handles = {handle.get_label(): handle for axes in figure.axes for handle in axes.containers}
    figure.legend(handles=list(handles.values()), loc="outside lower center", ncols=max(1, len(handles)), frameon=False)
    figure.savefig(path, format="png", dpi=150)


def _bars(axes: Any, chart: Chart) -> None:
    width = 0.84 / max(1, len(chart.series))
    for number, (store, heights) in enumerate(chart.series.items()):
        offset = (number - (len(chart.series) - 1) / 2) * width
        bars = [(place + offset, height) for place, height in enumerate(heights) if height is not None]
        if bars:
            places, tops = zip(*bars, strict=True)
            axes.bar(places, tops, width, label=store, color=_COLOURS[number % len(_COLOURS)])
    axes.set_yscale(chart.scale)
    axes.set_xticks(range(len(chart.groups)), chart.groups)
    axes.set_xlim(-0.6, len(chart.groups) - 0.4)
    axes.set_ylabel(f"{chart.unit} (more is better)")
    axes.set_title(chart.title, loc="left")
    axes.grid(axis="y", which="major", alpha=0.3)
    axes.set_axisbelow(True)

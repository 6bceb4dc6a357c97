"""Reports the results, for the terminal and for the report."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from rich.console import Console
from rich.table import Table as TextTable

from ..report.model import Cell, Chart, Grid, Section, Target
from ..ycsb.model import Latencies
from .model import AFTERWARDS, ALONE, QUERIES, TOGETHER, EngineRun, MixedResult, Setting, Upserts

US: Final = "nyala"
SLOW_DOWN: Final = 2.0
"""Maximum slow-down of Q1 and Q6."""
P99_MILLISECONDS: Final = 20.0
_QUERY_COLUMNS: Final = ("", "alone", "together", "slow-down", "afterwards", "runs alone", "runs together")
_UPSERT_COLUMNS: Final = ("", "due/s", "reached/s", "p50", "p95", "p99", "p99.9", "slowest")
_WHEN: Final = {ALONE: "alone", TOGETHER: "with queries"}


def show(found: MixedResult, console: Console) -> None:
    """Prints all figures, the targets, and the faults."""
    for grid in _grids(found):
        table = TextTable(title=f"{grid.title}, {grid.unit}", title_justify="left")
        for name in grid.columns:
            table.add_column(name, justify="right" if name else "left")
        for row in grid.rows:
            table.add_row(*(_shown(cell) for cell in row))
        console.print(table)
    for target in _targets(found):
        met = "met" if target.is_met else "missed"
        console.print(f"{target.what}: {target.found}, required {target.required}: {met}", highlight=False)
    for name, why in found.left_out.items():
        console.print(f"{name} is left out: {why}", style="yellow", highlight=False, markup=False)
    for line in _consistency(found):
        console.print(line, highlight=False, markup=False)


def section(data: Mapping[str, Any]) -> Section:
    """The section of the report, from the data saved by `--json`: `MixedResult` as a dictionary."""
    result = _found(data)
    setting = result.setting
    text = (
        f"Upserts of single rows into TPC-H's lineitem ({result.rows:,} rows), {setting.rate:g} per second from "
        f"{setting.writers} threads, each a separate transaction with durability {setting.durability}, while one "
        f"connection runs Q1 and Q6 in turn, each with {setting.threads} threads: {setting.seconds:g} seconds of "
        "queries alone, of upserts alone, and of both together; afterwards queries alone again, on the upserted rows. "
        f"{100 * setting.new_share:g} % of the upserts have new keys, the others change random rows. An upsert's "
        "latency is measured from the time at which it was due, so a stall delays all upserts due in it. An engine "
        "that cannot hold the rate shows latencies of seconds and the rate that it reached. Query times are medians. "
    )
    left_out = [f"{name} is left out: {why}." for name, why in result.left_out.items()]
    return Section(
        name="mixed",
        title="Mixed load: upserts while queries run",
        text=text + " ".join([*_consistency(result), *left_out]),
        grids=_grids(result),
        charts=_charts(result),
        targets=_targets(result),
    )


def _found(data: Mapping[str, Any]) -> MixedResult:
    runs = {
        name: EngineRun(**{**run, "upserts": {phase: _upserts(upserts) for phase, upserts in run["upserts"].items()}})
        for name, run in data["runs"].items()
    }
    return MixedResult(Setting(**data["setting"]), data["rows"], runs, dict(data["left_out"]))


def _upserts(data: Mapping[str, Any]) -> Upserts:
    return Upserts(**{**data, "latencies": Latencies(**data["latencies"])})


# ---- figures ---------------------------------------------------------------------------------------------------------


def slow_down(run: EngineRun, query: str) -> float:
    """The ratio of a query's medians with and without upserts."""
    return _median(run, TOGETHER, query) / _median(run, ALONE, query)


def _median(run: EngineRun, phase: str, query: str) -> float:
    return statistics.median(run.queries[phase][query])


def _grids(found: MixedResult) -> list[Grid]:
    return [
        Grid("Queries, without and with upserts", _QUERY_COLUMNS, list(_query_rows(found)), "ms"),
        Grid("Upserts, without and with queries: latencies", _UPSERT_COLUMNS, list(_upsert_rows(found)), "ms"),
    ]


def _query_rows(found: MixedResult) -> Iterator[Sequence[Cell]]:
    for name, run in found.runs.items():
        for query in QUERIES:
            alone, together, afterwards = (_median(run, phase, query) for phase in (ALONE, TOGETHER, AFTERWARDS))
            counts = (len(run.queries[phase][query]) for phase in (ALONE, TOGETHER))
            yield f"{name} {query.upper()}", alone, together, together / alone, afterwards, *counts


def _upsert_rows(found: MixedResult) -> Iterator[Sequence[Cell]]:
    for name, run in found.runs.items():
        for phase, upserts in run.upserts.items():
            took = upserts.latencies
            rates = (found.setting.rate, upserts.per_second)
            yield f"{name} {_WHEN[phase]}", *rates, took.p50, took.p95, took.p99, took.p999, took.slowest


def _charts(found: MixedResult) -> list[Chart]:
    runs = found.runs
    return [
        Chart(
            "Slow-down of queries by upserts",
            "times as long",
            [query.upper() for query in QUERIES],
            {name: [slow_down(run, query) for query in QUERIES] for name, run in runs.items()},
        ),
        Chart(
            "Upserts with queries: latency from the due time",
            "ms",
            ["p50", "p95", "p99", "p99.9", "slowest"],
            {name: _percentiles(run.upserts[TOGETHER].latencies) for name, run in runs.items()},
            "log",
        ),
    ]


def _percentiles(took: Latencies) -> list[float]:
    return [took.p50, took.p95, took.p99, took.p999, took.slowest]


def _targets(found: MixedResult) -> list[Target]:
    run = found.runs.get(US)
    if run is None:
        return []
    p99 = run.upserts[TOGETHER].latencies.p99
    slow_downs = {query: slow_down(run, query) for query in QUERIES}
    return [
        *(
            Target(f"{query.upper()} under upserts", f"less than {SLOW_DOWN:g}x", f"{times:.2f}x", times < SLOW_DOWN)
            for query, times in slow_downs.items()
        ),
        Target(
            "p99 of upserts with queries",
            f"less than {P99_MILLISECONDS:g} ms",
            f"{p99:.1f} ms",
            p99 < P99_MILLISECONDS,
        ),
    ]


def _consistency(found: MixedResult) -> Iterator[str]:
    for name, run in found.runs.items():
        if run.inconsistent:
            yield f"{name}: {len(run.inconsistent)} of {run.checked} answers of Q1 were none of a consistent snapshot: "
            yield f"{run.inconsistent[0]}."
        else:
            yield f"{name}: all {run.checked} answers of Q1 were those of a consistent snapshot."


def _shown(cell: Cell) -> str:
    if isinstance(cell, float):
        return f"{cell:,.0f}" if cell >= 100 else f"{cell:.2f}"
    return "" if cell is None else str(cell)

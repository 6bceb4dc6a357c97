"""Reports the results, for the terminal and for the report."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any, Final

from rich.console import Console
from rich.table import Table as TextTable

from ..report.model import Cell, Grid, Section
from .measuring import WORKLOADS
from .model import TransactionResults, TransactionRun

US: Final = "nyala"


def show(found: TransactionResults, console: Console) -> None:
    """Prints the rates and the faults."""
    for grid in _grids(found):
        table = TextTable(title=f"{grid.title}, {grid.unit}", title_justify="left")
        for name in grid.columns:
            table.add_column(name, justify="right" if name else "left")
        for row in grid.rows:
            table.add_row(*(f"{cell:,.2f}" if isinstance(cell, float) else str(cell) for cell in row))
        console.print(table)
    for name, why in found.left_out.items():
        console.print(f"{name} is left out: {why}", style="yellow", highlight=False, markup=False)
    for fault in faults(found):
        console.print(fault, style="red", highlight=False, markup=False)


def faults(found: TransactionResults) -> list[str]:
    """Violated invariants."""
    return [
        f"{workload}, {count} clients, {engine}: {fault}"
        for workload, by_count in found.runs.items()
        for count, by_engine in by_count.items()
        for engine, runs in by_engine.items()
        for run in runs
        for fault in run.faults
    ]


def section(data: Mapping[str, Any]) -> Section:
    """The section of the report, from the data saved by `--json`: `TransactionResults` as a dictionary."""
    runs = {
        workload: {
            int(count): {engine: [TransactionRun(**run) for run in each] for engine, each in by_engine.items()}
            for count, by_engine in by_count.items()
        }
        for workload, by_count in data["runs"].items()
    }
    found = TransactionResults(runs, data["versions"], data["left_out"], data["durability"])
    text = (
        f"Transactions of several statements, durability {found.durability}: ten updates by key, transfers between two "
        "accounts, and New-Order and Payment of TPC-C with tables scaled down. Each client is a thread with a "
        "connection of its own. nyala, DuckDB and PostgreSQL retry after conflicts; SQLite's writers take turns. "
        "Medians; the last columns are nyala's rate divided by the peer's. "
    )
    left_out = [f"{name} is left out: {why}." for name, why in found.left_out.items()]
    return Section(
        name="transactions",
        title="Transactions",
        text=text + " ".join([*faults(found), *left_out]),
        grids=_grids(found),
        charts=[],
        targets=[],
    )


def _grids(found: TransactionResults) -> list[Grid]:
    engines = list(found.versions)
    others = [engine for engine in engines if engine != US]
    columns = ("", "clients", *engines, *(f"{US} / {other}" for other in others if US in engines), "conflicts")
    rows = [
        row
        for workload, by_count in found.runs.items()
        for count, by_engine in by_count.items()
        for row in [_row(WORKLOADS[workload].title, count, engines, others, by_engine)]
    ]
    return [Grid("Transactions", columns, rows, "per second")]


def _row(
    title: str, count: int, engines: Sequence[str], others: Sequence[str], runs: Mapping[str, list[TransactionRun]]
) -> Sequence[Cell]:
    rates = {engine: statistics.median(run.rate for run in runs[engine]) for engine in engines}
    ratios = [rates[US] / rates[other] for other in others] if US in rates else []
    conflicts = sum(run.conflicts for run in runs.get(US, ()))
    return (title, count, *rates.values(), *ratios, conflicts)

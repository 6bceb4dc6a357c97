"""Reports a comparison: a table on the console, a JSON file with everything, a chart."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy
import pyarrow as pa
from rich.console import Console
from rich.measure import Measurement
from rich.table import Table

from . import machine
from .compare import MEASURES, US, Comparison, Outcome, Report
from .run import geometric_mean


def show(report: Report, console: Console) -> None:
    """Prints the table of times in milliseconds and of ratios, the means, and the faults."""
    table = _table(report)
    if not console.is_terminal:  # a file has no width; a folded table is unreadable
        unbounded = console.options.update(width=10_000)
        console.width = max(console.width, Measurement.get(console, unbounded, table).maximum)
    console.print(table)
    for peer in report.peers:
        means = [report.mean_ratio(peer, measure) for measure in MEASURES]
        if any(mean is None for mean in means):
            _say(console, f"{US} and {peer} have no query in common that both answered correctly")
            continue
        median, best, cold = means
        count = len(report.ratios(peer))
        some = "" if count == len(report.results) else f", over {count} of {len(report.results)} queries"
        _say(
            console,
            f"geometric mean of {US} / {peer}: {median:.2f} of medians, {best:.2f} of best runs, {cold:.2f} of first "
            f"runs{some}",
        )
    for trouble in report.troubles:
        _say(console, f"WRONG OR FAILED: {trouble}")
    if not report.troubles:
        _say(console, f"answers equal on all {1 + len(report.peers)} engines")


def _say(console: Console, text: str) -> None:
    console.print(text, highlight=False, soft_wrap=True, markup=False)


def _table(report: Report) -> Table:
    title = (
        f"TPC-H, scale factor {report.manifest.scale_factor:g}, {report.threads} threads: milliseconds, "
        f"median of {report.runs} warm runs (first run); ratio = {US} / peer"
    )
    table = Table(title=title, title_justify="left", show_footer=True)
    table.add_column("query", "mean", no_wrap=True)
    table.add_column(US, _mean_time(report, US), justify="right", no_wrap=True)
    for peer in report.peers:
        table.add_column(peer, _mean_time(report, peer), justify="right", no_wrap=True)
        table.add_column("ratio", _ratio(report.mean_ratio(peer)), justify="right", no_wrap=True)
    for result in report.results:
        cells = [f"Q{result.number}", _time(result.outcomes[US])]
        for peer in report.peers:
            cells += [_time(result.outcomes[peer]), _ratio(result.ratio(peer))]
        table.add_row(*cells)
    return table


def _time(outcome: Outcome) -> str:
    if outcome.trouble:
        return "WRONG" if outcome.wrong else "failed"
    return f"{1000 * outcome.median:,.1f} ({1000 * outcome.cold:,.1f})"


def _ratio(ratio: float | None) -> str:
    return "-" if ratio is None else f"{ratio:.2f}"


def _mean_time(report: Report, name: str) -> str:
    right = [result.outcomes[name] for result in report.results if not result.outcomes[name].trouble]
    if not right:
        return "-"
    median, cold = (geometric_mean([getattr(o, measure) for o in right]) for measure in ("median", "cold"))
    return f"{1000 * median:,.1f} ({1000 * cold:,.1f})"


# ---- files -----------------------------------------------------------------------------------------------------------


def summary(report: Report) -> dict[str, Any]:
    """The comparison as plain data, times in seconds; null if there is no ratio."""
    return {
        "benchmark": "tpch compare",
        "finished": datetime.now(UTC).isoformat(timespec="seconds"),
        "scale_factor": report.manifest.scale_factor,
        "buckets": report.manifest.buckets,
        "rows": report.manifest.rows,
        "threads": report.threads,
        "runs": report.runs,
        "machine": machine.describe(),
        "versions": report.versions,
        "libraries": {"numpy": numpy.__version__, "pyarrow": pa.__version__},
        "skipped": report.skipped,
        "queries": {str(result.number): _query_summary(result, report.peers) for result in report.results},
        "ratios": {
            peer: {measure: report.mean_ratio(peer, measure) for measure in MEASURES}
            | {"queries": len(report.ratios(peer))}
            for peer in report.peers
        },
    }


def _query_summary(result: Comparison, peers: list[str]) -> dict[str, Any]:
    return {
        "engines": {name: _outcome_summary(outcome) for name, outcome in result.outcomes.items()},
        "ratios": {peer: result.ratio(peer) for peer in peers},
    }


def _outcome_summary(outcome: Outcome) -> dict[str, Any]:
    timed = not outcome.trouble
    return {
        "cold": outcome.cold if timed else None,
        "warm": outcome.warm,
        "median": outcome.median if timed else None,
        "best": outcome.best if timed else None,
        "rows": outcome.rows,
        "wrong": outcome.wrong,
        "failed": outcome.failed,
    }


def output_files(output: str, scale_factor: float) -> tuple[Path, Path]:
    """The JSON file and the chart of `--output`: in a folder, which exists or ends in a slash, or with a prefix.

    >>> [path.as_posix() for path in output_files("results/monday", 0.1)]
    ['results/monday.json', 'results/monday.png']
    >>> output_files("results/", 0.1)[0].as_posix()
    'results/tpch-compare-sf0.1.json'
    """
    is_folder = output.endswith(("/", os.sep)) or Path(output).is_dir()
    stem = Path(output, f"tpch-compare-sf{scale_factor:g}") if is_folder else Path(output)
    return stem.with_name(f"{stem.name}.json"), stem.with_name(f"{stem.name}.png")

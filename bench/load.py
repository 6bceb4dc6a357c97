"""Compares loading with DuckDB's `CREATE TABLE AS` into a file."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.table import Table

from ..errors import OperationalError
from .work_directory import work_directory
from .worker import LoadJob, Outcome

ENGINES: Final = ("nyala", "duckdb")


def compare(
    source: Path,
    table: str,
    create_table: str,
    *,
    runs: int = 3,
    threads: int = 2,
    work: Path | None = None,
    arrow: bool = False,
) -> dict[str, list[Outcome]]:
    """Loads a Parquet file `runs` times with each engine in turn.

    Parameters
    ----------
    source : Path
        The Parquet file.
    table, create_table : str
        The table's name and its DDL for nyala; DuckDB takes the file's columns unchanged.
    work : Path, optional
        The directory for the databases, which are removed; the system's temporary directory by default.
    arrow : bool
        Loads from an Arrow table in memory.
    """
    if not source.exists():
        raise OperationalError(f"there is no file {source}")
    outcomes: dict[str, list[Outcome]] = {engine: [] for engine in ENGINES}
    job = LoadJob("", str(source.resolve()), table, create_table, "", threads, arrow)
    for _ in range(runs):
        for engine in ENGINES:
            with work_directory(work) as directory:
                target = str(directory / ("database" if engine == "nyala" else "database.duckdb"))
                outcomes[engine].append(_in_child(replace(job, engine=engine, target=target)))
    return outcomes


def _in_child(job: LoadJob) -> Outcome:
    command = [sys.executable, "-m", "nyala.bench.worker"]
    done = subprocess.run(command, input=json.dumps(asdict(job)), capture_output=True, text=True, check=False)
    if done.returncode:
        last = done.stderr.strip().splitlines()[-1:] or ["no message"]
        raise OperationalError(f"loading with {job.engine} failed (exit {done.returncode}): {last[0]}")
    return Outcome(**json.loads(done.stdout))


def show(outcomes: dict[str, Sequence[Outcome]], console: Console) -> None:
    """Prints medians and ratios."""
    rows = outcomes["nyala"][0].rows
    table = Table(title=f"load of {rows:,} rows: medians", title_justify="left")
    for name, justify in (("", "left"), ("nyala", "right"), ("duckdb", "right"), ("ratio", "right")):
        table.add_column(name, justify=justify)  # type: ignore[arg-type]
    for label, field, unit in (("seconds", "seconds", 1.0), ("peak MB", "peak_memory", 1e6), ("disk MB", "disk", 1e6)):
        ours, theirs = (
            statistics.median(getattr(outcome, field) for outcome in outcomes[engine]) for engine in ENGINES
        )
        table.add_row(label, f"{ours / unit:,.2f}", f"{theirs / unit:,.2f}", f"{ours / max(theirs, 1e-9):.2f}")
    console.print(table)

"""`nyala tpch load`, `run` and `compare`."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from rich.console import Console

from ..driver.connection import connect
from . import compare, load, manifest, run
from .queries import Query, select


def load_command(arguments: argparse.Namespace) -> int:
    """`nyala tpch load`."""
    console = Console()
    report = load.load(
        arguments.directory,
        arguments.sf,
        buckets=arguments.buckets,
        data=arguments.data_dir,
        replace=arguments.replace,
        console=console,
        **_options(arguments),
    )
    rate = report.total_rows / max(report.total_seconds, 1e-9)
    console.print(
        f"loaded {report.total_rows:,} rows into {arguments.directory} in {report.total_seconds:.1f} s "
        f"({rate / 1e6:.2f} million rows/s), peak memory {report.peak_memory / 1e6:,.0f} MB",
        highlight=False,
        soft_wrap=True,
    )
    return 0


def run_command(arguments: argparse.Namespace) -> int:
    """`nyala tpch run`: 1 where an answer is wrong."""
    loaded = manifest.read(arguments.directory)
    queries = select(arguments.queries)
    checker = run.checker_for(loaded, arguments.threads) if arguments.check else None
    console = Console()
    with connect(arguments.directory, **_options(arguments)) as connection, _status(console) as progress:
        reports = run.run(connection, queries, runs=arguments.runs, checker=checker, progress=progress)
    run.show(reports, loaded, console)
    _write_json(arguments.json, run.summary(reports, loaded, arguments.threads))
    return int(any(report.wrong for report in reports))


def compare_command(arguments: argparse.Namespace) -> int:
    """`nyala tpch compare`: loads first where `--sf` is given and nothing is loaded yet."""
    console = Console()
    peers = compare.parse_peers(arguments.peers)
    if arguments.sf is not None and not (arguments.directory / manifest.NAME).exists():
        load.load(arguments.directory, arguments.sf, data=arguments.data_dir, console=console, **_options(arguments))
    loaded = manifest.read(arguments.directory)
    with connect(arguments.directory, **_options(arguments)) as connection, _status(console) as progress:
        results = compare.compare(
            connection,
            loaded,
            select(arguments.queries),
            peers=peers,
            runs=arguments.runs,
            threads=arguments.threads,
            progress=progress,
        )
    compare.show(results, loaded, console)
    _write_json(arguments.json, compare.summary(results, loaded, arguments.threads))
    return 0


def _options(arguments: argparse.Namespace) -> dict[str, Any]:
    return {} if arguments.threads is None else {"threads": arguments.threads}


class _status:
    """Says on a terminal which query runs."""

    def __init__(self, console: Console):
        self._status = console.status("starting")

    def __enter__(self) -> _status:
        self._status.start()
        return self

    def __call__(self, query: Query) -> None:
        self._status.update(f"query {query.number}")

    def __exit__(self, *exc: object) -> None:
        self._status.stop()


def _write_json(path: Path | None, data: dict[str, Any]) -> None:
    if path is not None:
        path.write_text(json.dumps(data, indent=2) + "\n", encoding="utf-8")

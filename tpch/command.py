"""`nyala tpch load`, `run` and `compare`."""

from __future__ import annotations

import argparse
import json
import os
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from rich.console import Console

from ..driver.connection import connect
from ..errors import InterfaceError
from . import chart, compare, compare_report, load, manifest, run
from .peers import SparkOverStore, Store, parse
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
    """`nyala tpch run`: returns 1 if an answer is wrong."""
    loaded = manifest.read(arguments.directory)
    queries = select(arguments.queries)
    console = Console()
    with ExitStack() as stack:
        threads = arguments.threads or os.cpu_count() or 1
        checker = stack.enter_context(run.checker_for(loaded, threads)) if arguments.check else None
        connection = stack.enter_context(
            connect(arguments.directory, memory_limit=arguments.memory_limit, **_options(arguments))
        )
        progress = stack.enter_context(_status(console))
        reports = run.run(connection, queries, runs=arguments.runs, checker=checker, progress=progress)
    run.show(reports, loaded, console)
    _write_json(arguments.json, run.summary(reports, loaded, arguments.threads))
    return int(any(report.wrong for report in reports))


def compare_command(arguments: argparse.Namespace) -> int:
    """`nyala tpch compare`: loads first if `--sf` is given and nothing is loaded yet; returns 1 if an answer is
    wrong."""
    console = Console()
    peers, queries = parse(arguments.peers), select(arguments.queries)
    directory = _compared(arguments, console)
    loaded = manifest.read(directory)
    for peer in peers:
        if isinstance(peer, SparkOverStore):
            peer.database = directory
    with connect(directory, threads=arguments.threads) as connection, _status(console) as progress:
        report = compare.compare(
            Store(connection),
            loaded,
            queries,
            peers,
            threads=arguments.threads,
            runs=arguments.runs,
            progress=progress,
            say=lambda text: console.print(text, highlight=False, soft_wrap=True, markup=False),
        )
    compare_report.show(report, console)
    _write_json(arguments.json, compare_report.summary(report))
    if arguments.output is not None:
        _write_output(arguments.output, report, console)
    return int(bool(report.troubles))


def _compared(arguments: argparse.Namespace, console: Console) -> Path:
    """The loaded directory: the named one, or one named after the scale factor. Loads it if necessary."""
    if arguments.directory is None and arguments.sf is None:
        raise InterfaceError("give a directory that `nyala tpch load` filled, or --sf N to load one")
    directory: Path = arguments.directory or Path(f"tpch-sf{arguments.sf:g}")
    if arguments.sf is not None:
        if not (directory / manifest.NAME).exists():
            load.load(directory, arguments.sf, data=arguments.data_dir, console=console, threads=arguments.threads)
        there = manifest.read(directory).scale_factor
        if there != arguments.sf:
            raise InterfaceError(
                f"{directory} holds scale factor {there:g}, not {arguments.sf:g}; leave --sf out, or give another "
                "directory"
            )
    return directory


def _write_output(output: str, report: compare.Report, console: Console) -> None:
    """Writes the JSON file and the chart, into the folder or with the prefix of `--output`."""
    numbers, picture = compare_report.output_files(output, report.manifest.scale_factor)
    numbers.parent.mkdir(parents=True, exist_ok=True)
    _write_json(numbers, compare_report.summary(report))
    missing = chart.missing()
    if missing is None:
        chart.draw(report, picture)
    told = f"wrote {numbers}" + (f" and {picture}" if missing is None else f"; {missing}")
    console.print(told, highlight=False, soft_wrap=True, markup=False)


def _options(arguments: argparse.Namespace) -> dict[str, Any]:
    return {} if arguments.threads is None else {"threads": arguments.threads}


class _status:
    """Shows the current step on a terminal."""

    def __init__(self, console: Console):
        self._status = console.status("starting")

    def __enter__(self) -> _status:
        self._status.start()
        return self

    def __call__(self, doing: Query | str) -> None:
        self._status.update(doing if isinstance(doing, str) else f"query {doing.number}")

    def __exit__(self, *exc: object) -> None:
        self._status.stop()


def _write_json(path: Path | None, data: dict[str, Any]) -> None:
    if path is not None:
        path.write_text(json.dumps(data, indent=2) + "\n", encoding="utf-8")

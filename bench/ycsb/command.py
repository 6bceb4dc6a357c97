"""`nyala bench ycsb`."""

from __future__ import annotations

import argparse
import sys
from dataclasses import asdict
from importlib.util import find_spec
from typing import Final

from rich.console import Console

from ...errors import OperationalError
from ...tpch.peers.peer import names_among
from ..files import save_json
from . import report, runner
from .bindings import BINDINGS
from .model import Distribution, Setting
from .processors import can_bind
from .workloads import WORKLOADS

DISTRIBUTIONS: Final[dict[str, tuple[Distribution, ...]]] = {
    "zipfian": ("zipfian",),
    "uniform": ("uniform",),
    "both": ("zipfian", "uniform"),
}


def ycsb_command(arguments: argparse.Namespace) -> int:
    """Runs YCSB with the options, prints the tables, saves numbers and chart. Returns 1 if no store could be
    measured."""
    bindings = {name: BINDINGS[name] for name in names_among(arguments.bindings, BINDINGS, "binding")}
    asked = arguments.workloads.upper()
    workloads = [WORKLOADS[name] for name in names_among(asked, WORKLOADS, "workload")] if asked.strip() else []
    _check_places(arguments)
    setting = Setting(
        records=arguments.records,
        operations=arguments.ops,
        threads=arguments.threads,
        processes=arguments.processes,
        durability=arguments.durability,
        seconds=arguments.seconds,
        seed=arguments.seed,
        is_bound=not arguments.unbound and can_bind(),
    )
    result = runner.measure(
        bindings,
        workloads,
        setting,
        arguments.work_dir,
        distributions=DISTRIBUTIONS[arguments.distribution],
        say=lambda line: print(line, file=sys.stderr, flush=True),
        keep=lambda result: save_json(asdict(result), arguments.json),
    )
    if arguments.png is not None and result.outcomes:
        report.draw(result, arguments.png)
    report.show(result, Console(width=140))
    return 0 if result.outcomes else 1


def _check_places(arguments: argparse.Namespace) -> None:
    """Checks the output paths before a run of an hour, not after it."""
    for file in (arguments.json, arguments.png):
        if file is not None and not file.absolute().parent.is_dir():
            raise OperationalError(f"there is no directory {file.absolute().parent} for {file.name}")
    if arguments.work_dir is not None and arguments.work_dir.exists() and not arguments.work_dir.is_dir():
        raise OperationalError(f"{arguments.work_dir} is no directory")
    if arguments.png is not None and find_spec("matplotlib") is None:
        raise OperationalError("--png needs matplotlib; try: pip install 'nyala[bench]'")

"""`nyala bench transactions`."""

from __future__ import annotations

import argparse
from dataclasses import asdict

from rich.console import Console

from ...tpch.peers.peer import names_among
from ..files import save_json
from .engines import ENGINES
from .measuring import WORKLOADS, measure
from .report import faults, show


def transactions_command(arguments: argparse.Namespace) -> int:
    """Measure transactions; returns 1 if an invariant was violated."""
    found = measure(
        names_among(arguments.engines, ENGINES, "engine"),
        names_among(arguments.workloads, WORKLOADS, "workload"),
        [int(count) for count in arguments.clients.split(",")],
        seconds=arguments.seconds,
        runs=arguments.runs,
        durability=arguments.durability,
        work_dir=arguments.work_dir,
    )
    show(found, Console(width=140))
    save_json(asdict(found), arguments.json)
    return 1 if faults(found) else 0

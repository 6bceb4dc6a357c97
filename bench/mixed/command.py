"""`nyala bench mixed`."""

from __future__ import annotations

import argparse
from dataclasses import asdict

from rich.console import Console

from ...tpch.peers.peer import names_among
from ..files import save_json
from ..lineitem_source import lineitem_source
from .engines import ENGINES
from .measuring import measure
from .model import Setting
from .report import show


def mixed_command(arguments: argparse.Namespace) -> int:
    """Measure concurrent upserts and queries, on lineitem.

    Returns 1 if an answer did not match a consistent snapshot.
    """
    source, _ = lineitem_source(arguments)
    setting = Setting(
        rate=arguments.rate,
        seconds=arguments.seconds,
        threads=arguments.threads,
        writers=arguments.writers,
        buckets=arguments.buckets,
        durability=arguments.durability,
    )
    result = measure(source, setting, names_among(arguments.engines, ENGINES, "engine"), arguments.work_dir)
    show(result, Console(width=140))
    save_json(asdict(result), arguments.json)
    return 1 if any(run.inconsistent for run in result.runs.values()) else 0

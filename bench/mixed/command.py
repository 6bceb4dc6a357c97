"""`nyala bench mixed`."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from pathlib import Path

from rich.console import Console

from ...tpch.peers.peer import names_among
from ..files import save_json
from .engines import ENGINES
from .measuring import measure
from .model import Setting
from .report import show


def mixed_command(arguments: argparse.Namespace, source: Path) -> int:
    """Measure upserts and queries together, on the Parquet file `source` of lineitem.

    1 where an answer was none of a consistent snapshot.
    """
    setting = Setting(
        rate=arguments.rate,
        seconds=arguments.seconds,
        threads=arguments.threads,
        writers=arguments.writers,
        buckets=arguments.buckets,
        durability=arguments.durability,
    )
    found = measure(source, setting, names_among(arguments.engines, ENGINES, "engine"), arguments.work_dir)
    show(found, Console(width=140))
    save_json(asdict(found), arguments.json)
    return 1 if any(run.inconsistent for run in found.runs.values()) else 0

"""`nyala bench load`."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from pathlib import Path

from rich.console import Console

from . import load


def load_command(arguments: argparse.Namespace, source: Path, create_table: str) -> int:
    """Load lineitem `--runs` times with each engine; `source` and `create_table` say what."""
    outcomes = load.compare(
        source, "lineitem", create_table, runs=arguments.runs, threads=arguments.threads, work=arguments.work_dir
    )
    load.show({engine: tuple(found) for engine, found in outcomes.items()}, Console())
    if arguments.json is not None:
        data = {engine: [asdict(outcome) for outcome in found] for engine, found in outcomes.items()}
        arguments.json.write_text(json.dumps(data, indent=2) + "\n", encoding="utf-8")
    return 0

"""`nyala bench load` and `nyala bench storage`."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from pathlib import Path

from rich.console import Console

from . import load, storage


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


def storage_command(arguments: argparse.Namespace, source: Path, create_table: str) -> int:
    """Measure the storage engine on lineitem; `source` and `create_table` say what."""
    found = storage.measure(
        source, create_table, runs=arguments.runs, threads=arguments.threads, work=arguments.work_dir
    )
    storage.show(found, Console(width=140))
    if arguments.json is not None:
        data = [asdict(line) | {"ratio": line.ratio} for line in found]
        arguments.json.write_text(json.dumps(data, indent=2) + "\n", encoding="utf-8")
    return 0

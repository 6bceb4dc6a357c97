"""`nyala bench lineitem`."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from pathlib import Path

from rich.console import Console

from ..files import save_json
from ..lineitem_source import lineitem_source
from .measuring import measure
from .report import show


def lineitem_command(arguments: argparse.Namespace) -> int:
    """`nyala bench lineitem`."""
    return compare_on(arguments, *lineitem_source(arguments))


def compare_on(arguments: argparse.Namespace, source: Path, create_table: str) -> int:
    """Measure, print and save, from the file `source` with the DDL `create_table`.

    Returns 1 if an answer is wrong or missing, or if no engine took part.
    """
    console = Console(width=140)
    result = measure(
        source,
        create_table,
        engines=[name.strip() for name in arguments.engines.split(",")],
        runs=arguments.runs,
        threads=arguments.threads,
        work=arguments.work_dir,
        say=lambda text: console.print(text, style="dim", highlight=False),
    )
    show(result, console)
    save_json(asdict(result), arguments.json)
    return 1 if result.troubles or not result.engines else 0

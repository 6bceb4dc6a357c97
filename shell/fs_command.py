"""`nyala fs`: check, dump and layout. What they say is made in `storage.inspect`; here is only how it is printed."""

from __future__ import annotations

import argparse
import json
import shutil
from dataclasses import asdict
from pathlib import Path

from ..storage.files.disk_errors import disk_error
from ..storage.files.os_filesystem import OsFileSystem
from ..storage.inspect.check import check_store
from ..storage.inspect.dump import describe_file
from ..storage.inspect.findings import describe_report
from ..storage.inspect.layout import table_layout
from ..storage.inspect.layout_svg import draw_layout
from ..storage.inspect.layout_text import describe_layout


def check_command(arguments: argparse.Namespace) -> int:
    """`nyala fs check DIR`: 1 where anything is wrong."""
    report = check_store(OsFileSystem(), str(arguments.directory))
    print(json.dumps(report.to_dict(), indent=2) if arguments.json else describe_report(report))
    return 0 if report.is_clean else 1


def dump_command(arguments: argparse.Namespace) -> int:
    """`nyala fs dump FILE`."""
    print(describe_file(OsFileSystem(), str(arguments.file.absolute()), arguments.rows))
    return 0


def layout_command(arguments: argparse.Namespace) -> int:
    """`nyala fs layout DIR TABLE`."""
    layout = table_layout(OsFileSystem(), str(arguments.directory), arguments.table)
    if arguments.json:
        print(json.dumps({**asdict(layout), "average_height": layout.average_height}, indent=2))
    else:
        print(describe_layout(layout, shutil.get_terminal_size((100, 24)).columns))
    if arguments.svg is not None:
        _write(arguments.svg, draw_layout(layout))
    return 0


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise disk_error(f"cannot write {path}", error) from error

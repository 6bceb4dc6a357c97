"""`nyala fs`: check, dump, layout, salvage and cut-log. The work is done in `storage.inspect`; here it is printed."""

from __future__ import annotations

import argparse
import json
import shutil
from dataclasses import asdict
from pathlib import Path

import pyarrow.parquet as pq

from ..cluster.consensus.log.entry_texts import open_entry
from ..errors import InterfaceError
from ..model.disk_errors import disk_error
from ..storage.files.os_filesystem import OsFileSystem
from ..storage.inspect.check.check_store import check_store
from ..storage.inspect.check.findings import describe_report
from ..storage.inspect.cut_log import cut_log
from ..storage.inspect.dump.dump_file import describe_file
from ..storage.inspect.layout.layout_svg import draw_layout
from ..storage.inspect.layout.layout_text import describe_layout
from ..storage.inspect.layout.table_layout import table_layout
from ..storage.inspect.salvage import salvage_table


def check_command(arguments: argparse.Namespace) -> int:
    """`nyala fs check DIR`: 1 where anything is wrong."""
    report = check_store(OsFileSystem(), str(arguments.directory))
    print(json.dumps(report.to_dict(), indent=2) if arguments.json else describe_report(report))
    return 0 if report.is_clean else 1


def dump_command(arguments: argparse.Namespace) -> int:
    """`nyala fs dump FILE`."""
    print(describe_file(OsFileSystem(), str(arguments.file.absolute()), arguments.rows, open_entry))
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


def salvage_command(arguments: argparse.Namespace) -> int:
    """`nyala fs salvage DIR TABLE FILE`: 1 where something of the table is lost."""
    salvage = salvage_table(OsFileSystem(), str(arguments.directory), arguments.table)
    rows = 0
    try:
        with pq.ParquetWriter(arguments.file, salvage.schema, compression="zstd") as writer:
            for batch in salvage.batches:
                writer.write_batch(batch)
                rows += batch.num_rows
    except OSError as error:
        raise disk_error(f"cannot write {arguments.file}", error) from error
    for line in salvage.lost:
        print(f"lost: {line}")
    print(
        f"{rows:,} rows of table {arguments.table} are in {arguments.file}; things that are lost: {len(salvage.lost)}"
    )
    return 1 if salvage.lost else 0


def cut_log_command(arguments: argparse.Namespace) -> int:
    """`nyala fs cut-log DIR TABLET`."""
    if not arguments.lose_acknowledged_writes:
        raise InterfaceError(
            f"cutting the log of tablet {arguments.tablet} LOSES ACKNOWLEDGED WRITES permanently: all after the first "
            "damaged entry, of this tablet alone, so statements over several tablets are undone in part. Restore "
            "a backup if there is one, and run `nyala fs salvage` first. To confirm, add --lose-acknowledged-writes"
        )
    done = cut_log(OsFileSystem(), str(arguments.directory), arguments.tablet)
    print(f"the log of tablet {arguments.tablet} ends with entry {done.last_index:,} now")
    print(f"ACKNOWLEDGED WRITES THAT ARE LOST: at least {done.known_lost:,} log entries")
    for path in done.kept:
        print(f"the bytes cut off are kept in {path}")
    return 0


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise disk_error(f"cannot write {path}", error) from error

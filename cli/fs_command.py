"""`nyala fs`: copy, dump, layout, salvage, cut-log (`check_command` has the check). `storage.inspect` does the work."""

from __future__ import annotations

import argparse
import json
import shutil
from dataclasses import asdict
from pathlib import Path

import pyarrow.parquet as pq

from ..cluster.consensus.log.entry_texts import open_entry
from ..errors import InterfaceError
from ..model.clock import format_timestamp
from ..model.disk_errors import disk_error
from ..model.store import Timestamp
from ..storage.files.io_limit import IoLimit
from ..storage.files.os_filesystem import OsFileSystem
from ..storage.inspect.copying.copy_store import copy_store
from ..storage.inspect.cut_log import cut_log
from ..storage.inspect.dump.dump_file import describe_file
from ..storage.inspect.layout.layout_svg import draw_layout
from ..storage.inspect.layout.layout_text import describe_layout
from ..storage.inspect.layout.table_layout import table_layout
from ..storage.inspect.salvage import salvage_table
from ..storage.inspect.text import format_bytes, plural
from .arguments import io_limit


def copy_command(arguments: argparse.Namespace) -> int:
    """`nyala fs copy DIR DEST`."""
    source, destination = arguments.directory.absolute(), arguments.destination.absolute()
    with IoLimit(io_limit(arguments.io_limit, "io-limit")).counted():
        done = copy_store(OsFileSystem(), str(source), str(destination), links=not arguments.no_links)
    if arguments.json:
        print(json.dumps(asdict(done), indent=2))
        return 0
    print(
        f"copied {plural(done.tables, 'table')}, {plural(done.tablets, 'tablet')} to {arguments.destination}, "
        f"as of {format_timestamp(Timestamp(done.timestamp))}"
    )
    linked = f"{plural(done.linked_files, 'file')} with {format_bytes(done.linked_bytes)}"
    copied = f"{plural(done.copied_files, 'file')} with {format_bytes(done.copied_bytes)}"
    print(f"files of rowsets: {linked} linked, {copied} copied; attempts: {done.rounds}")
    return 0


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

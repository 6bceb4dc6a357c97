"""`nyala backup` and `nyala restore`, and the output that they share with the commands on Spark."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..command_line import Outcome
from ..errors import InterfaceError
from ..storage.inspect.text import table_lines
from .arguments import io_limit, moment, names
from .progress import Reporter, print_outcome

if TYPE_CHECKING:
    from ..backup.backup import BackupResult
    from ..backup.manifest import Backup
    from ..backup.restore import RestoreResult


def backup_command(arguments: argparse.Namespace) -> int:
    """`nyala backup`, `--list` and `--verify`."""
    if arguments.listed is not None:
        return print_backups(arguments)
    from ..backup.backup import backup, verify

    with Reporter(sys.stderr) as report:
        if arguments.verify is not None:
            outcome = verify_outcome(
                *verify(arguments.verify, threads=_threads(arguments), progress=report, io_rate=_rate(arguments))
            )
        else:
            check_given(arguments)
            outcome = backup_outcome(
                backup(
                    arguments.store,
                    arguments.destination,
                    arguments.tables or None,
                    full=arguments.full,
                    threads=_threads(arguments),
                    progress=report,
                    io_rate=_rate(arguments),
                )
            )
    return print_outcome(outcome, arguments.json)


def restore_command(arguments: argparse.Namespace) -> int:
    """`nyala restore`."""
    from ..backup.restore import restore

    at, choice = moment(arguments.at), restored_tables(arguments)
    choice |= {"threads": _threads(arguments), "io_rate": _rate(arguments)}
    with Reporter(sys.stderr) as report:
        restored = restore(arguments.source, arguments.store, at=at, progress=report, **choice)
    return print_outcome(restore_outcome(restored), arguments.json)


def _rate(arguments: argparse.Namespace) -> int | None:
    return io_limit(arguments.io_limit, "io-limit")


def _threads(arguments: argparse.Namespace) -> int:
    from ..backup.running import THREADS

    if arguments.threads is None:
        return THREADS
    if arguments.threads < 1:
        raise InterfaceError(f"--threads {arguments.threads}: at least 1 is needed")
    threads: int = arguments.threads
    return threads


def check_given(arguments: argparse.Namespace) -> None:
    """Raises `InterfaceError` if store or destination are missing, which --list and --verify do without."""
    if arguments.store is None or arguments.destination is None:
        raise InterfaceError("backup STORE DEST: the store and the directory of the backups are needed")


def restored_tables(arguments: argparse.Namespace) -> dict[str, Any]:
    """The tables to restore, and their new names, as arguments of `restore`."""
    tables = names(arguments.tables) if arguments.tables else None
    return {"tables": tables, "renamed": _renamed(arguments.renamed, tables)}


def _renamed(given: Sequence[str], tables: Sequence[str] | None) -> dict[str, str]:
    names = {}
    for text in given:
        old, sign, new = text.partition("=")
        if not sign:
            if tables is None or len(tables) != 1:
                raise InterfaceError(f"--as {text}: of which table? Write --as OLD={text}, or name one with --tables")
            old, new = tables[0], text
        names[old.strip()] = new.strip()
    return names


# ---- output ----------------------------------------------------------------------------------------------------------


def print_backups(arguments: argparse.Namespace) -> int:
    """Prints the backups of a directory."""
    from ..backup.backup import describe
    from ..backup.manifest import read_all
    from ..backup.places import Place

    backups = [describe(backup) for backup in read_all(Place.of(arguments.listed))]
    if arguments.json:
        print(json.dumps(backups, indent=2))
        return 0
    head = ("backup", "kind", "moment", "tables", "rows", "bytes")
    rows = [
        (f"{b['number']}", b["kind"], b["snapshot_time"], f"{len(b['tables'])}", f"{b['rows']:,}", f"{b['bytes']:,}")
        for b in backups
    ]
    print("\n".join(table_lines(head, rows)) if rows else f"there are no backups in {arguments.listed}")
    return 0


def backup_outcome(result: BackupResult) -> Outcome:
    """The output of a backup."""
    made = result.to_dict()
    line = (
        f"backup {made['number']}, {made['kind']}, of {made['snapshot_time']}: {len(made['tables'])} tables, "
        f"{made['rows']:,} {'rows' if made['since'] is None else 'changes'}, {made['bytes']:,} bytes, "
        f"{made['seconds']:.1f} s"
    )
    return Outcome(made, [line])


def verify_outcome(backups: Sequence[Backup], wrong: Sequence[str]) -> Outcome:
    """The output of a verification: the backups, and their faults."""
    files = sum(1 for backup in backups for _ in backup.files)
    plain = {"backups": [backup.number for backup in backups], "files": files, "wrong": list(wrong)}
    return Outcome(plain, [*wrong, f"{len(backups)} backups, {files} files, {len(wrong)} wrong"], not wrong)


def restore_outcome(result: RestoreResult) -> Outcome:
    """The output of a restore."""
    plain = result.to_dict()
    rows = [(name, f"{count:,}") for name, count in sorted(result.tables.items())]
    summary = f"{plain['rows']:,} rows of {len(rows)} tables as of {plain['time']}, {result.seconds:.1f} s"
    return Outcome(plain, [*table_lines(("table", "rows"), rows), summary])

"""The commands `nyala backup` and `nyala restore`; those on Spark take the same arguments."""

from __future__ import annotations

from ...command_line import Command, argument
from .common import IO_LIMIT, STORE

BACKUP_ABOUT = (
    "Save one snapshot of all tables, or of those named, while the store is in use. The first backup in DEST is a full "
    "one, each later one has the changes since the previous one, so that any time between can be restored."
)
BACKUP_ARGUMENTS = (
    argument("store", nargs="?", metavar="STORE", help=STORE),
    argument(
        "destination",
        nargs="?",
        metavar="DEST",
        help="the directory of the backups, or its URL (s3://BUCKET/PATH, ...)",
    ),
    argument("tables", nargs="*", metavar="TABLE", help="only these (default: those of the previous backup)"),
    argument("--full", action="store_true", help="make a full backup"),
    argument("--list", dest="listed", metavar="DEST", help="list the backups, and exit"),
    argument("--verify", metavar="DEST", help="read all files, compare checksums, and exit"),
)
RESTORE_ABOUT = (
    "Restore tables from backups, as of the last one or of any time that the backups cover. "
    "Checksums are compared first; a table appears when all of its rows are restored."
)
RESTORE_ARGUMENTS = (
    argument("source", metavar="DEST", help="the directory of the backups, or its URL"),
    argument("store", metavar="STORE", help=f"{STORE}; a directory is created"),
    argument(
        "--at",
        metavar="MOMENT",
        help="restore as of this time, such as '2026-11-22 08:00' (default: the last backup)",
    ),
    argument("--tables", metavar="NAMES", help="only these: a,b"),
    argument(
        "--as",
        dest="renamed",
        action="append",
        default=[],
        metavar="[OLD=]NEW",
        help="new name of a restored table (may be repeated; OLD= is optional for one table)",
    ),
)
_COMMON = (
    argument("--threads", type=int, metavar="N", help="tablets at the same time (default: 2)"),
    IO_LIMIT,
    argument("--json", action="store_true", help="print the result as JSON"),
)

BACKUP = Command(
    "backup",
    "save a store's tables, then their changes",
    BACKUP_ABOUT,
    handler="cli.backup_command:backup_command",
    arguments=(*BACKUP_ARGUMENTS, *_COMMON),
    examples=(
        "nyala backup weather saved",
        "nyala backup nyala://10.0.0.1:7051 s3://company/saved readings stations --full",
        "nyala backup --list saved",
        "nyala backup --verify saved",
    ),
)

RESTORE = Command(
    "restore",
    "restore saved tables",
    RESTORE_ABOUT,
    handler="cli.backup_command:restore_command",
    arguments=(*RESTORE_ARGUMENTS, *_COMMON),
    examples=(
        "nyala restore saved weather2",
        "nyala restore saved weather --at '2026-11-22 08:00:00' --tables readings --as readings_before",
    ),
)

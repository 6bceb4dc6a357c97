"""The commands of files: `nyala fs`."""

from __future__ import annotations

from pathlib import Path

from ...command_line import Command, argument, natural
from .common import IO_LIMIT

FS = Command(
    "fs",
    "copy a store, inspect its files, salvage damaged ones",
    "Copy a store, or inspect its files. Only check --repair and cut-log change the store.",
    examples=("nyala fs check weather", "nyala fs layout weather readings"),
    commands=(
        Command(
            "check",
            "verify every file of a store, and repair it",
            "Verify every checksum and cross-reference of a store that is not open. Changes nothing without --repair, "
            "and prints what that would do. Exit code 1 if there are errors, or if some remain; notes are harmless.",
            handler="cli.check_command:check_command",
            arguments=(
                argument("directory", type=Path, metavar="DIR", help="the store's directory"),
                argument("--json", action="store_true", help="print the findings as JSON"),
                argument(
                    "--repair",
                    action="store_true",
                    help="rebuild Bloom filters, remove files that belong to nothing, save the rows of damaged tablets "
                    "as Parquet; no file with data is changed or removed",
                ),
                argument(
                    "--save-to", type=Path, metavar="FOLDER", help="folder of these rows (default: DIR.saved-TIME)"
                ),
            ),
            examples=("nyala fs check weather", "nyala fs check weather --json", "nyala fs check weather --repair"),
        ),
        Command(
            "copy",
            "copy a store, also while it is open",
            "Copy a store to a new directory, also while another process has it open and writes. The copy has the "
            "commits up to one timestamp, which is printed. Files that never change become hard links where the file "
            "system has them.",
            handler="cli.fs_command:copy_command",
            arguments=(
                argument("directory", type=Path, metavar="DIR", help="the store's directory; it may be open"),
                argument("destination", type=Path, metavar="DEST", help="a new directory"),
                argument("--no-links", action="store_true", help="copy all files, so that both share no disk block"),
                IO_LIMIT,
                argument("--json", action="store_true", help="print the result as JSON"),
            ),
            examples=("nyala fs copy weather weather-copy", "nyala fs copy weather /mnt/other/weather --json"),
        ),
        Command(
            "dump",
            "show the contents of a file",
            "Show the contents of one file of a store.",
            handler="cli.fs_command:dump_command",
            arguments=(
                argument(
                    "file", type=Path, metavar="FILE", help="a column file, Bloom filter, log segment, catalog, ..."
                ),
                argument("--rows", type=natural, default=10, metavar="N", help="rows to show (default 10)"),
            ),
            examples=("nyala fs dump weather/catalog", "nyala fs dump weather/tables/t000001/t000001-p0000/metadata"),
        ),
        Command(
            "layout",
            "show the layout of a table's rowsets",
            "Show the rowsets of each tablet over its keys, and the number of them that may contain a random key.",
            handler="cli.fs_command:layout_command",
            arguments=(
                argument("directory", type=Path, metavar="DIR", help="the store's directory; it may be open"),
                argument("table", metavar="TABLE", help="a table of the store"),
                argument("--json", action="store_true", help="print the layout as JSON"),
                argument("--svg", type=Path, metavar="FILE", help="also draw it to this file"),
            ),
            examples=("nyala fs layout weather readings", "nyala fs layout weather readings --svg readings.svg"),
        ),
        Command(
            "salvage",
            "save the rows of a damaged table to Parquet",
            "Write the readable rows of a table with damaged files, and report the losses. The "
            "store must not be open, and is not changed. Exit code 1 if anything is lost.",
            handler="cli.fs_command:salvage_command",
            arguments=(
                argument("directory", type=Path, metavar="DIR", help="the store's directory"),
                argument("table", metavar="TABLE", help="a table of the store"),
                argument("file", type=Path, metavar="FILE", help="the Parquet file to write"),
            ),
            examples=("nyala fs salvage weather readings readings.parquet",),
        ),
        Command(
            "cut-log",
            "drop the log after a damaged entry",
            "Cut the log of one tablet at its first damaged entry, so that the tablet opens again. "
            "ACKNOWLEDGED WRITES ARE LOST. The bytes cut off are kept next to the log.",
            handler="cli.fs_command:cut_log_command",
            arguments=(
                argument("directory", type=Path, metavar="DIR", help="the store's directory"),
                argument("tablet", metavar="TABLET", help="a tablet's id, as in errors and fs check"),
                argument(
                    "--lose-acknowledged-writes",
                    action="store_true",
                    help="confirm; without it, only a warning is printed",
                ),
            ),
            examples=("nyala fs cut-log weather t000001-p0000 --lose-acknowledged-writes",),
        ),
    ),
)

"""The commands of files: `nyala fs`."""

from __future__ import annotations

from pathlib import Path

from ...command_line import Command, argument, natural

FS = Command(
    "fs",
    "look at a store's files, and save what is left of damaged ones",
    "Look at a store's files. Nothing is changed but by cut-log.",
    examples=("nyala fs check weather", "nyala fs layout weather readings"),
    commands=(
        Command(
            "check",
            "verify every file of a store",
            "Verify every checksum and cross-reference of a store that nobody has open. Changes nothing. "
            "Exit code 1 if anything is wrong; notes are harmless.",
            handler="cli.fs_command:check_command",
            arguments=(
                argument("directory", type=Path, metavar="DIR", help="the store's directory"),
                argument("--json", action="store_true", help="print the findings as JSON"),
            ),
            examples=("nyala fs check weather", "nyala fs check weather --json"),
        ),
        Command(
            "dump",
            "show what a file holds",
            "Show what one file of a store holds.",
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
            "show how a table's rowsets lie",
            "Show the rowsets of each tablet over its keys, and how many of them a random key may be in.",
            handler="cli.fs_command:layout_command",
            arguments=(
                argument("directory", type=Path, metavar="DIR", help="the store's directory; it may be open"),
                argument("table", metavar="TABLE", help="a table of the store"),
                argument("--json", action="store_true", help="print the layout as JSON"),
                argument("--svg", type=Path, metavar="FILE", help="draw it here as well"),
            ),
            examples=("nyala fs layout weather readings", "nyala fs layout weather readings --svg readings.svg"),
        ),
        Command(
            "salvage",
            "save the rows of a damaged table to Parquet",
            "Write the rows that can be read of a table whose files are damaged, and say what is lost. The "
            "store must not be open; nothing of it is changed. Exit code 1 if anything is lost.",
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
            "give up what is behind a damaged log entry",
            "Cut the log of one tablet at its first damaged entry, so that the tablet opens again. "
            "ACKNOWLEDGED WRITES ARE GIVEN UP. What is cut off is kept beside the log.",
            handler="cli.fs_command:cut_log_command",
            arguments=(
                argument("directory", type=Path, metavar="DIR", help="the store's directory"),
                argument("tablet", metavar="TABLET", help="a tablet's id, as errors and fs check name it"),
                argument(
                    "--lose-acknowledged-writes",
                    action="store_true",
                    help="really: without it, nothing is done but a warning",
                ),
            ),
            examples=("nyala fs cut-log weather t000001-p0000 --lose-acknowledged-writes",),
        ),
    ),
)

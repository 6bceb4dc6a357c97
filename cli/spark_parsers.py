"""The command line of pipelines on Spark: `nyala spark ingest`, `export`, `backup`, `restore`, `tpch-etl`. Their
handlers are imported when they run, so that `nyala --help` answers at once, also where there is no Spark."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

Commands: TypeAlias = "argparse._SubParsersAction[Any]"
Handler: TypeAlias = Callable[[argparse.Namespace], int]

FORMATS = ("parquet", "csv", "json")
OPERATIONS = ("insert", "insert_ignore", "upsert", "update", "update_ignore", "delete", "delete_ignore")
_STORE = "a store's directory, or nyala://HOST:PORT"


def add_spark_commands(commands: Commands, tpch_etl: Handler) -> None:
    """Add all of them; `tpch_etl` is the handler of the command that knows TPC-H's tables."""
    spark = commands.add_parser(
        "spark",
        help="pipelines on Spark: ingest, export, backup, restore",
        description="Pipelines that run as Spark jobs: files into tables and out of them, backups. "
        "Needs: pip install 'nyala[spark]'.",
    )
    spark.examples = ("nyala spark ingest readings.parquet readings --to weather", "nyala spark backup weather saved")
    steps = spark.add_subparsers(title="commands", metavar="COMMAND", required=True)
    _add_ingest(steps)
    _add_export(steps)
    _add_backup(steps)
    _add_restore(steps)
    _add_tpch_etl(steps, tpch_etl)


def _add_ingest(steps: Commands) -> None:
    parser = steps.add_parser(
        "ingest",
        help="files into a table",
        description="Write the rows of Parquet, CSV or JSON files into a table. Rows that cannot be go to the file of "
        "--rejects with the reason; without it, one such row ends the command before anything is written.",
    )
    parser.add_argument("source", metavar="SRC", help="a file, a directory of files, or a pattern such as 'in/*.csv'")
    parser.add_argument("table", metavar="TABLE", help="the table that gets the rows")
    parser.add_argument("--to", default=".", metavar="STORE", help=f"{_STORE} (default: the working directory)")
    _add_format(parser)
    parser.add_argument(
        "--option",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="an option of Spark's reader, such as sep=';' or header=false (may be repeated)",
    )
    parser.add_argument(
        "--map",
        action="append",
        default=[],
        metavar="COLUMN=EXPRESSION",
        help="what a column of the table gets: a column of the source or an expression of Spark SQL (may be repeated; "
        "columns of the same name find each other)",
    )
    parser.add_argument(
        "--skip", action="append", default=[], metavar="COLUMN", help="leave out this column of the source"
    )
    parser.add_argument("--create", action="store_true", help="make the table from the source's columns")
    parser.add_argument("--primary-key", metavar="COLUMNS", help="of a table that is made: a,b")
    parser.add_argument(
        "--distribute-by", metavar="RULES", help="of a table that is made: 'HASH (a) INTO 4 BUCKETS, RANGE (b) (...)'"
    )
    parser.add_argument("--operation", choices=OPERATIONS, default="insert", help="what a row does (default insert)")
    parser.add_argument("--job", metavar="KEY", help="a name for this work: a job that has been done is not done again")
    _add_rejects(parser)
    parser.add_argument(
        "--sort",
        action=argparse.BooleanOptionalAction,
        default=None,
        help="bring the rows to their tablets' order first (default: where it pays)",
    )
    _add_common(parser)
    parser.examples = (
        "nyala spark ingest readings.csv readings --to weather --rejects bad.jsonl",
        "nyala spark ingest 'in/*.parquet' readings --to nyala://10.0.0.1:7051 --operation upsert --job 2026-11-22",
        "nyala spark ingest r.json readings --create --primary-key id --map at='to_timestamp(time)' --skip time",
    )
    parser.set_defaults(run=_ingest)


def _add_export(steps: Commands) -> None:
    parser = steps.add_parser(
        "export",
        help="a table into files",
        description="Write a table, as it is at one moment, into a directory of files: one or more per tablet, and "
        "_SUCCESS, which lists them, last.",
    )
    parser.add_argument("table", metavar="TABLE", help="the table")
    parser.add_argument("destination", metavar="DEST", help="the directory")
    parser.add_argument(
        "--from", dest="store", default=".", metavar="STORE", help=f"{_STORE} (default: the working directory)"
    )
    _add_format(parser)
    parser.add_argument("--columns", metavar="COLUMNS", help="these alone, in this order: a,b")
    parser.add_argument("--where", metavar="CONDITION", help="the rows for which this condition of SQL is true")
    parser.add_argument("--as-of", metavar="MOMENT", help="as the table was then, such as '2026-11-22 08:00'")
    parser.add_argument("--overwrite", action="store_true", help="replace what an earlier export left in DEST")
    _add_common(parser)
    parser.examples = (
        "nyala spark export readings out --from weather",
        "nyala spark export readings out.csv --columns city,degrees --where 'degrees >= 30' --format csv",
    )
    parser.set_defaults(run=_export)


def _add_backup(steps: Commands) -> None:
    parser = steps.add_parser(
        "backup",
        help="save tables, then what changed",
        description="Save all tables, or those named, as they are at one moment. The first backup in DEST is a full "
        "one, each later one has what happened since the one before, so that any moment between can be restored.",
    )
    parser.add_argument("store", nargs="?", metavar="STORE", help=_STORE)
    parser.add_argument("destination", nargs="?", metavar="DEST", help="the directory of the backups")
    parser.add_argument("tables", nargs="*", metavar="TABLE", help="these alone (default: those of the backup before)")
    parser.add_argument("--full", action="store_true", help="save everything anew")
    parser.add_argument("--list", dest="listed", metavar="DEST", help="show the backups that are there, and leave")
    parser.add_argument("--verify", metavar="DEST", help="read all files that are there, compare checksums, and leave")
    _add_common(parser)
    parser.examples = (
        "nyala spark backup weather saved",
        "nyala spark backup nyala://10.0.0.1:7051 /mnt/saved readings stations --full",
        "nyala spark backup --list saved",
        "nyala spark backup --verify saved",
    )
    parser.set_defaults(run=_backup)


def _add_restore(steps: Commands) -> None:
    parser = steps.add_parser(
        "restore",
        help="bring saved tables back",
        description="Make tables from backups, as they were at the last one or at any moment that the backups cover. "
        "Checksums are compared before anything is made; a table appears when all of its rows are there.",
    )
    parser.add_argument("source", metavar="DEST", help="the directory of the backups")
    parser.add_argument("store", metavar="STORE", help=f"{_STORE}; a directory is made")
    parser.add_argument("--at", metavar="MOMENT", help="such as '2026-11-22 08:00' (default: the last backup)")
    parser.add_argument("--tables", metavar="NAMES", help="these alone: a,b")
    parser.add_argument(
        "--as",
        dest="renamed",
        action="append",
        default=[],
        metavar="[OLD=]NEW",
        help="what a restored table is called (may be repeated; OLD= may be left out for one table)",
    )
    _add_common(parser)
    parser.examples = (
        "nyala spark restore saved weather2",
        "nyala spark restore saved weather --at '2026-11-22 08:00:00' --tables readings --as readings_before",
    )
    parser.set_defaults(run=_restore)


def _add_tpch_etl(steps: Commands, handler: Handler) -> None:
    parser = steps.add_parser(
        "tpch-etl",
        help="TPC-H's raw files into tables",
        description="Read the .tbl files of TPC-H's dbgen, whole or split (lineitem.tbl.1, ...), into typed tables.",
    )
    parser.add_argument("raw", type=Path, metavar="RAW_DIR", help="the directory of the .tbl files")
    parser.add_argument("store", metavar="STORE", help=f"{_STORE}; a directory is made")
    parser.add_argument("--sf", type=float, metavar="N", help="their scale factor (default: told by their row counts)")
    parser.add_argument("--buckets", type=int, default=4, metavar="N", help="tablets per large table (default 4)")
    parser.add_argument("--replace", action="store_true", help="drop tables of an earlier load first")
    _add_rejects(parser)
    _add_common(parser)
    parser.examples = ("nyala spark tpch-etl dbgen weather", "nyala spark tpch-etl dbgen tpch --rejects bad.jsonl")
    parser.set_defaults(run=handler)


def _add_format(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--format", choices=FORMATS, help="of the files (default: as the name ends, else parquet)")


def _add_rejects(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--rejects", type=Path, metavar="FILE", help="where bad rows go with their reasons: .jsonl or .parquet"
    )
    parser.add_argument(
        "--max-rejects",
        type=int,
        metavar="N",
        help="more bad rows end the command, and nothing is written (default 10,000; 0 without --rejects)",
    )


def _add_common(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--threads", type=int, metavar="N", help="tasks at a time (default: one per processor)")
    parser.add_argument("--json", action="store_true", help="print the result as JSON")


# ---- handlers --------------------------------------------------------------------------------------------------------


def _ingest(arguments: argparse.Namespace) -> int:
    from .spark_command import ingest_command

    return ingest_command(arguments)


def _export(arguments: argparse.Namespace) -> int:
    from .spark_command import export_command

    return export_command(arguments)


def _backup(arguments: argparse.Namespace) -> int:
    from .spark_command import backup_command

    return backup_command(arguments)


def _restore(arguments: argparse.Namespace) -> int:
    from .spark_command import restore_command

    return restore_command(arguments)

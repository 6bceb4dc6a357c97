"""The commands of pipelines on Spark: `nyala spark ingest`, `export`, `backup`, `restore` and `tpch-etl`."""

from __future__ import annotations

import argparse
from pathlib import Path

from ...command_line import Command, argument
from .backup import BACKUP_ABOUT, BACKUP_ARGUMENTS, RESTORE_ABOUT, RESTORE_ARGUMENTS
from .common import STORE

FORMATS = ("parquet", "csv", "json")
OPERATIONS = ("insert", "insert_ignore", "upsert", "update", "update_ignore", "delete", "delete_ignore")
_FORMAT = argument("--format", choices=FORMATS, help="format of the files (default: by their suffix, else parquet)")
_REJECTS = (
    argument("--rejects", type=Path, metavar="FILE", help="file of bad rows with their reasons: .jsonl or .parquet"),
    argument(
        "--max-rejects",
        type=int,
        metavar="N",
        help="limit of bad rows; beyond it nothing is written (default 10,000; 0 without --rejects)",
    ),
)
_COMMON = (
    argument("--threads", type=int, metavar="N", help="tasks at a time (default: one per processor)"),
    argument("--json", action="store_true", help="print the result as JSON"),
)

_INGEST = Command(
    "ingest",
    "files into a table",
    "Write the rows of Parquet, CSV or JSON files into a table. Invalid rows are written to the file of "
    "--rejects with the reason; without it, one invalid row ends the command before anything is written.",
    handler="cli.spark_command:ingest_command",
    arguments=(
        argument("source", metavar="SRC", help="a file, a directory of files, or a pattern such as 'in/*.csv'"),
        argument("table", metavar="TABLE", help="the target table"),
        argument("--to", default=".", metavar="STORE", help=f"{STORE} (default: the working directory)"),
        _FORMAT,
        argument(
            "--option",
            action="append",
            default=[],
            metavar="NAME=VALUE",
            help="an option of Spark's reader, such as sep=';' or header=false (may be repeated)",
        ),
        argument(
            "--map",
            action="append",
            default=[],
            metavar="COLUMN=EXPRESSION",
            help="source of a column of the table: a column of the files or an expression of Spark SQL (may "
            "be repeated; default: the column of the same name)",
        ),
        argument("--skip", action="append", default=[], metavar="COLUMN", help="omit this column of the source"),
        argument("--create", action="store_true", help="create the table from the source's columns"),
        argument("--primary-key", metavar="COLUMNS", help="primary key of the created table: a,b"),
        argument(
            "--distribute-by",
            metavar="RULES",
            help="partitions of the created table: 'HASH (a) INTO 4 BUCKETS, RANGE (b) (...)'",
        ),
        argument("--operation", choices=OPERATIONS, default="insert", help="operation of each row (default insert)"),
        argument("--job", metavar="KEY", help="a name for this job: a completed job is not repeated"),
        *_REJECTS,
        argument(
            "--sort",
            action=argparse.BooleanOptionalAction,
            default=None,
            help="sort the rows by tablet and key first (default: if it saves time)",
        ),
        *_COMMON,
    ),
    examples=(
        "nyala spark ingest readings.csv readings --to weather --rejects bad.jsonl",
        "nyala spark ingest 'in/*.parquet' readings --to nyala://10.0.0.1:7051 --operation upsert --job 2026-11-22",
        "nyala spark ingest r.json readings --create --primary-key id --map at='to_timestamp(time)' --skip time",
    ),
)

_EXPORT = Command(
    "export",
    "a table into files",
    "Write one snapshot of a table into a directory of files: one or more per tablet, and "
    "_SUCCESS, which lists them, last.",
    handler="cli.spark_command:export_command",
    arguments=(
        argument("table", metavar="TABLE", help="the table"),
        argument("destination", metavar="DEST", help="the directory"),
        argument(
            "--from", dest="store", default=".", metavar="STORE", help=f"{STORE} (default: the working directory)"
        ),
        _FORMAT,
        argument("--columns", metavar="COLUMNS", help="only these, in this order: a,b"),
        argument("--where", metavar="CONDITION", help="only rows for which this SQL condition is true"),
        argument("--as-of", metavar="MOMENT", help="the table as of this time, such as '2026-11-22 08:00'"),
        argument("--overwrite", action="store_true", help="replace an earlier export in DEST"),
        *_COMMON,
    ),
    examples=(
        "nyala spark export readings out --from weather",
        "nyala spark export readings out.csv --columns city,degrees --where 'degrees >= 30' --format csv",
    ),
)

_BACKUP = Command(
    "backup",
    "save tables, then their changes",
    f"{BACKUP_ABOUT} As `nyala backup`, by Spark's workers, which must all reach DEST.",
    handler="cli.spark_command:backup_command",
    arguments=(*BACKUP_ARGUMENTS, *_COMMON),
    examples=(
        "nyala spark backup weather saved",
        "nyala spark backup nyala://10.0.0.1:7051 /mnt/saved readings stations --full",
        "nyala spark backup --list saved",
        "nyala spark backup --verify saved",
    ),
)

_RESTORE = Command(
    "restore",
    "restore saved tables",
    RESTORE_ABOUT,
    handler="cli.spark_command:restore_command",
    arguments=(*RESTORE_ARGUMENTS, *_COMMON),
    examples=(
        "nyala spark restore saved weather2",
        "nyala spark restore saved weather --at '2026-11-22 08:00:00' --tables readings --as readings_before",
    ),
)

_TPCH_ETL = Command(
    "tpch-etl",
    "TPC-H's raw files into tables",
    "Read the .tbl files of TPC-H's dbgen, whole or split (lineitem.tbl.1, ...), into typed tables.",
    handler="cli.spark_command:tpch_etl_command",
    arguments=(
        argument("raw", type=Path, metavar="RAW_DIR", help="the directory of the .tbl files"),
        argument("store", metavar="STORE", help=f"{STORE}; a directory is created"),
        argument(
            "--sf", type=float, metavar="N", help="scale factor of the files (default: derived from their row counts)"
        ),
        argument("--buckets", type=int, default=4, metavar="N", help="tablets per large table (default 4)"),
        argument("--replace", action="store_true", help="drop tables of an earlier load first"),
        *_REJECTS,
        *_COMMON,
    ),
    examples=("nyala spark tpch-etl dbgen weather", "nyala spark tpch-etl dbgen tpch --rejects bad.jsonl"),
)


SPARK = Command(
    "spark",
    "pipelines on Spark: ingest, export, backup, restore",
    "Pipelines that run as Spark jobs: files into tables and out of them, backups. Needs: pip install 'nyala[spark]'.",
    examples=("nyala spark ingest readings.parquet readings --to weather", "nyala spark backup weather saved"),
    commands=(_INGEST, _EXPORT, _BACKUP, _RESTORE, _TPCH_ETL),
)

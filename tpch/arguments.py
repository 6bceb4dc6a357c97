"""The commands of `nyala tpch`, and the options that benchmarks share."""

from __future__ import annotations

import os
from pathlib import Path

from ..command_line import Argument, Command, argument, count, positive, threads

DATA = argument(
    "--data-dir",
    type=Path,
    metavar="DIR",
    help="the directory of the Parquet files, existing or to be created (default: tpch-parquet-sfN next to DIR)",
)
JSON = argument("--json", type=Path, metavar="FILE", help="also write the numbers to this file")
ALL_THREADS = threads(default=os.cpu_count() or 1)


def target(text: str) -> Path | str:
    """A store's directory, or the URL of a cluster."""
    return text if "://" in text else Path(text)


def _measurement(queries: str | None = None) -> tuple[Argument, ...]:
    """The options for the queries, the number of runs, and the file of their times."""
    return (
        argument("--queries", default=queries, metavar="LIST", help="such as 1,6,10-12 (default: all)"),
        argument("--runs", type=count, default=3, metavar="N", help="warm runs (default 3)"),
        JSON,
    )


def comparison(queries: str | None = None) -> tuple[Argument, ...]:
    """The options of a comparison with other engines; `queries` is the default of --queries."""
    return (
        argument(
            "directory",
            type=Path,
            nargs="?",
            metavar="DIR",
            help="a directory that `nyala tpch load` filled (default: tpch-sfN)",
        ),
        argument("--sf", type=positive, metavar="N", help="load this scale factor first if DIR is empty"),
        argument(
            "--peers",
            default="duckdb-parquet,duckdb,pyarrow-parquet",
            metavar="NAMES",
            help="some of duckdb-parquet, duckdb, pyarrow-parquet (nyala without its store), datafusion-parquet, "
            "spark-parquet, spark-nyala (default: the first three)",
        ),
        argument(
            "--output",
            metavar="DIR_OR_PREFIX",
            help="write the numbers (JSON) and a chart (PNG) into this folder, or to files with this prefix",
        ),
        DATA,
        *_measurement(queries),
        ALL_THREADS,
    )


TPCH = Command(
    "tpch",
    "the TPC-H benchmark",
    "The TPC-H benchmark: load its data, run and check its queries.",
    examples=("nyala tpch load --sf 0.1 demo", "nyala tpch run demo --check", "nyala tpch compare demo"),
    commands=(
        Command(
            "load",
            "generate the data and load it",
            "Generate TPC-H's data and load it.",
            handler="tpch.command:load_command",
            arguments=(
                argument("directory", type=target, metavar="DIR", help="the store's directory, or nyala://HOST:PORT"),
                argument(
                    "--sf", type=positive, required=True, metavar="N", help="scale factor: 1 is 6 million lineitems"
                ),
                argument("--buckets", type=count, default=4, metavar="N", help="tablets per large table (default 4)"),
                argument("--replace", action="store_true", help="drop tables of an earlier load first"),
                DATA,
                threads(),
            ),
            examples=(
                "nyala tpch load --sf 1 DIR",
                "nyala tpch load --sf 0.1 --replace DIR",
                "nyala tpch load --sf 0.1 nyala://127.0.0.1:7051",
            ),
        ),
        Command(
            "run",
            "run the queries",
            "Run the 22 queries, cold once and then warm.",
            handler="tpch.command:run_command",
            arguments=(
                argument(
                    "directory",
                    type=target,
                    metavar="DIR",
                    help="a store loaded by `nyala tpch load`: a directory, or nyala://HOST:PORT",
                ),
                argument(
                    "--check", action="store_true", help="compare with the TPC's answers (scale factor 1) or DuckDB's"
                ),
                argument(
                    "--memory-limit",
                    metavar="SIZE",
                    help="maximum memory of a query's state, such as 256MB (default: 60 %% of the machine's)",
                ),
                *_measurement(),
                threads(),
            ),
            examples=("nyala tpch run DIR --check", "nyala tpch run DIR --queries 1,6 --runs 5 --json times.json"),
        ),
        Command(
            "compare",
            "compare with other engines",
            "Run the queries on nyala and on other engines, in turn, with the same data and the same number of "
            "threads. Exit code 1 if an answer is wrong.",
            handler="tpch.command:compare_command",
            arguments=comparison(),
            examples=(
                "nyala tpch compare DIR",
                "nyala tpch compare DIR --peers duckdb,datafusion-parquet --output results/",
            ),
        ),
    ),
)

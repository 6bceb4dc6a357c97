"""The command line of `nyala tpch`, and the options that benchmarks have in common. Handlers import what they need when
they run, so that `nyala --help` answers at once."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import Any, TypeAlias

Commands: TypeAlias = "argparse._SubParsersAction[Any]"


def add_tpch_commands(commands: Commands) -> None:
    """Add `nyala tpch` and its commands."""
    tpch = commands.add_parser(
        "tpch", help="the TPC-H benchmark", description="The TPC-H benchmark: load its data, run and check its queries."
    )
    tpch.examples = ("nyala tpch load --sf 0.1 demo", "nyala tpch run demo --check", "nyala tpch compare demo")
    steps = tpch.add_subparsers(title="commands", metavar="COMMAND", required=True)

    load = steps.add_parser(
        "load", help="generate the data and load it", description="Generate TPC-H's data and load it."
    )
    load.add_argument("directory", type=target, metavar="DIR", help="the store's directory, or nyala://HOST:PORT")
    load.add_argument("--sf", type=positive, required=True, metavar="N", help="scale factor: 1 is 6 million lineitems")
    load.add_argument("--buckets", type=count, default=4, metavar="N", help="tablets per large table (default 4)")
    load.add_argument("--replace", action="store_true", help="drop tables of an earlier load first")
    add_data(load)
    add_threads(load)
    load.examples = (
        "nyala tpch load --sf 1 DIR",
        "nyala tpch load --sf 0.1 --replace DIR",
        "nyala tpch load --sf 0.1 nyala://127.0.0.1:7051",
    )
    load.set_defaults(run=_tpch_load)

    run = steps.add_parser("run", help="run the queries", description="Run the 22 queries, cold once and then warm.")
    run.add_argument(
        "directory",
        type=target,
        metavar="DIR",
        help="what `nyala tpch load` filled: a directory, or nyala://HOST:PORT",
    )
    run.add_argument("--check", action="store_true", help="compare with the TPC's answers (scale factor 1) or DuckDB's")
    run.add_argument(
        "--memory-limit",
        metavar="SIZE",
        help="how much memory a query's state may take, such as 256MB (default: 60 %% of the machine's)",
    )
    add_measurement(run)
    add_threads(run)
    run.examples = ("nyala tpch run DIR --check", "nyala tpch run DIR --queries 1,6 --runs 5 --json times.json")
    run.set_defaults(run=_tpch_run)

    compare = steps.add_parser(
        "compare",
        help="beside other engines",
        description="Run the queries beside other engines, in turn, with the same data and the same number of threads. "
        "Exit code 1 where an answer is wrong.",
    )
    add_compare(compare)
    compare.examples = (
        "nyala tpch compare DIR",
        "nyala tpch compare DIR --peers duckdb,datafusion-parquet --output results/",
    )


def add_compare(parser: argparse.ArgumentParser, queries: str | None = None) -> None:
    """The options of a comparison with other engines, and its handler; `queries` is the default of --queries."""
    parser.add_argument(
        "directory",
        type=Path,
        nargs="?",
        metavar="DIR",
        help="a directory that `nyala tpch load` filled (default: tpch-sfN)",
    )
    parser.add_argument("--sf", type=positive, metavar="N", help="load this scale factor first if DIR is empty")
    parser.add_argument(
        "--peers",
        default="duckdb-parquet,duckdb,pyarrow-parquet",
        metavar="NAMES",
        help="some of duckdb-parquet, duckdb, pyarrow-parquet (nyala without its store), datafusion-parquet, "
        "spark-parquet, spark-nyala (default: the first three)",
    )
    parser.add_argument(
        "--output",
        metavar="DIR_OR_PREFIX",
        help="write the numbers (JSON) and a chart (PNG) into this folder, or to files whose names begin so",
    )
    add_data(parser)
    add_measurement(parser, queries)
    add_threads(parser, default=os.cpu_count() or 1)
    parser.set_defaults(run=_tpch_compare)


def add_data(parser: argparse.ArgumentParser) -> None:
    """Where the Parquet files are."""
    parser.add_argument(
        "--data-dir",
        type=Path,
        metavar="DIR",
        help="where the Parquet files are or shall be kept (default: tpch-parquet-sfN beside the store)",
    )


def add_measurement(parser: argparse.ArgumentParser, queries: str | None = None) -> None:
    """Which queries are run, how often, and where their times are saved."""
    parser.add_argument("--queries", default=queries, metavar="LIST", help="such as 1,6,10-12 (default: all)")
    parser.add_argument("--runs", type=count, default=3, metavar="N", help="warm runs (default 3)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the numbers here as well")


def add_threads(parser: argparse.ArgumentParser, default: int | None = None) -> None:
    """How many threads a statement may use."""
    parser.add_argument(
        "--threads", type=count, default=default, metavar="N", help="threads per statement (default: all processors)"
    )


def target(text: str) -> Path | str:
    """A store's directory, or the URL of a cluster."""
    return text if "://" in text else Path(text)


def positive(text: str) -> float:
    """A number above 0."""
    value = float(text)
    if value <= 0:
        raise argparse.ArgumentTypeError(f"{text} is not above 0")
    return value


def count(text: str) -> int:
    """A whole number, 1 at least."""
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text} is not at least 1")
    return value


def natural(text: str) -> int:
    """A whole number, 0 at least."""
    value = int(text)
    if value < 0:
        raise argparse.ArgumentTypeError(f"{text} is below 0")
    return value


# ---- handlers --------------------------------------------------------------------------------------------------------


def _tpch_load(arguments: argparse.Namespace) -> int:
    from .command import load_command

    return load_command(arguments)


def _tpch_run(arguments: argparse.Namespace) -> int:
    from .command import run_command

    return run_command(arguments)


def _tpch_compare(arguments: argparse.Namespace) -> int:
    from .command import compare_command

    return compare_command(arguments)

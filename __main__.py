"""The `nyala` command.

    nyala shell [TARGET]                  SQL, interactive or from -c, -f or a pipe
    nyala fs check|dump|layout ...        look at a store's files from outside
    nyala serve DIR                       a store's directory, for several processes at once
    nyala cluster start --dir DIR         a cluster of processes on this machine; stop, status, ksck, rebalance, leave
    nyala tablet list|move ...            where a cluster's tablets are
    nyala master|tserver --dir DIR        run one server of a cluster
    nyala spark ingest|export|backup ...  pipelines on Spark: files into tables and out of them, backups
    nyala tpch load --sf N DIR            generate and load TPC-H
    nyala tpch run DIR [--check]          run the 22 queries, check the answers
    nyala tpch compare DIR                the same beside DuckDB, DataFusion, Spark, as ratios
    nyala bench load|storage|q6|tpch ...  micro-benchmarks beside DuckDB and Parquet
    nyala bench points [DIR]              single rows beside SQLite and DuckDB
    nyala bench driver                    statements through PEP 249 beside SQLite and DuckDB
    nyala bench cluster [DIR]             a cluster of three servers beside the embedded store
    nyala bench spark DIR                 Spark over a store beside Spark on Parquet
    nyala bench plan DIR                  what statements cost before they run
    nyala bench maintenance               hours of background work, simulated
    nyala completion bash|zsh|fish        what makes Tab complete all this in a shell

A mistake of the user's is one message on standard error and exit code 1; a wrong command line is exit code 2.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeAlias

from . import __version__
from .errors import Error, did_you_mean
from .shell.cluster_parsers import add_cluster_commands
from .shell.spark_parsers import add_spark_commands

EXIT_ERROR = 1
EXIT_INTERRUPTED = 130
"""As shells report an end by Ctrl-C."""

Commands: TypeAlias = "argparse._SubParsersAction[Parser]"


class Parser(argparse.ArgumentParser):
    """A parser whose help ends with `examples`, and that guesses what a misspelt command or option was meant to be."""

    examples: Sequence[str] = ()

    def format_help(self) -> str:
        lines = "".join(f"  $ {example}\n" for example in self.examples)
        return super().format_help() + (f"\nexamples:\n{lines}" if lines else "")

    def parse_known_args(self, args=None, namespace=None):  # type: ignore[no-untyped-def]
        # A command's own parser comes by here too, so it says what is wrong, with its own usage and options.
        known, unknown = super().parse_known_args(args, namespace)
        if unknown and unknown[0].startswith("-"):
            option = unknown[0].partition("=")[0]
            self.error(f"there is no option {option}{did_you_mean(option, self._option_string_actions)}")
        if unknown:
            self.error(f"unexpected argument {unknown[0]!r}")
        return known, unknown

    def _check_value(self, action: argparse.Action, value: object) -> None:
        if action.choices is not None and value not in action.choices:
            known = [str(choice) for choice in action.choices]
            raise argparse.ArgumentError(action, f"there is no {value!r}{did_you_mean(str(value), known)}")


# The handlers import what they need themselves, so that `nyala --help` answers at once.


def _shell(arguments: argparse.Namespace) -> int:
    from .shell.command import main as run

    return run(arguments)


def _tpch_load(arguments: argparse.Namespace) -> int:
    from .tpch.command import load_command

    return load_command(arguments)


def _tpch_run(arguments: argparse.Namespace) -> int:
    from .tpch.command import run_command

    return run_command(arguments)


def _tpch_compare(arguments: argparse.Namespace) -> int:
    from .tpch.command import compare_command

    return compare_command(arguments)


def _spark_tpch_etl(arguments: argparse.Namespace) -> int:
    from .shell.spark_command import run_pipeline
    from .tpch.etl import etl_pipeline

    return run_pipeline(arguments, etl_pipeline(arguments))


def _bench_load(arguments: argparse.Namespace) -> int:
    from .bench.command import load_command

    return load_command(arguments, *_lineitem(arguments))


def _bench_storage(arguments: argparse.Namespace) -> int:
    from .bench.command import storage_command

    return storage_command(arguments, *_lineitem(arguments))


def _bench_points(arguments: argparse.Namespace) -> int:
    from .bench.command import points_command

    return points_command(arguments, *_lineitem(arguments))


def _bench_driver(arguments: argparse.Namespace) -> int:
    from .bench.command import driver_command

    return driver_command(arguments)


def _bench_cluster(arguments: argparse.Namespace) -> int:
    from .bench.command import cluster_command, cluster_queries_command

    if arguments.directory is None:
        return cluster_command(arguments)
    from .tpch import manifest
    from .tpch.generate import parquet_file
    from .tpch.queries import QUERIES
    from .tpch.schema import TABLES

    loaded = manifest.read(arguments.directory)
    files = Path(loaded.data)
    tables = {spec.name: (spec.create_table(loaded.buckets), parquet_file(files, spec.name)) for spec in TABLES}
    return cluster_queries_command(arguments, tables, {f"q{query.number}": query.text for query in QUERIES})


def _bench_spark(arguments: argparse.Namespace) -> int:
    from .bench.command import spark_command
    from .tpch import manifest
    from .tpch.generate import parquet_file
    from .tpch.schema import LINEITEM

    loaded = manifest.read(arguments.directory)
    return spark_command(arguments, parquet_file(Path(loaded.data), "lineitem"), LINEITEM.create_table(loaded.buckets))


def _bench_plan(arguments: argparse.Namespace) -> int:
    from .bench.command import plan_command
    from .tpch.queries import QUERIES

    return plan_command(arguments, {f"q{query.number}": query.text for query in QUERIES})


def _bench_maintenance(arguments: argparse.Namespace) -> int:
    from .bench.command import maintenance_command

    return maintenance_command(arguments)


def _lineitem(arguments: argparse.Namespace) -> tuple[Path, str]:
    """The Parquet file of lineitem, and its CREATE TABLE."""
    from .tpch.generate import generate, parquet_file
    from .tpch.schema import LINEITEM

    directory = arguments.data_dir or Path(f"tpch-parquet-sf{arguments.sf:g}")
    generate(arguments.sf, directory.resolve(), print)
    return parquet_file(directory, "lineitem"), LINEITEM.create_table(arguments.buckets)


def _fs_check(arguments: argparse.Namespace) -> int:
    from .shell.fs_command import check_command

    return check_command(arguments)


def _fs_dump(arguments: argparse.Namespace) -> int:
    from .shell.fs_command import dump_command

    return dump_command(arguments)


def _fs_layout(arguments: argparse.Namespace) -> int:
    from .shell.fs_command import layout_command

    return layout_command(arguments)


def _completion(arguments: argparse.Namespace) -> int:
    from .shell.completion_scripts import completion_script

    print(completion_script(build_parser(), arguments.shell))
    return 0


def build_parser() -> Parser:
    """The command line."""
    parser = Parser(
        prog="nyala", description="A columnar SQL store in a directory. Each command has a --help of its own."
    )
    parser.examples = ("nyala shell weather", "nyala fs check weather", "nyala tpch load --sf 0.1 demo")
    parser.add_argument("--version", action="version", version=f"nyala {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    _add_shell(commands)
    _add_fs(commands)
    add_cluster_commands(commands)
    add_spark_commands(commands, _spark_tpch_etl)
    _add_tpch(commands)
    _add_bench(commands)
    _add_completion(commands)
    return parser


def _add_shell(commands: Commands) -> None:
    parser = commands.add_parser(
        "shell",
        help="run SQL",
        description="Run SQL: at a terminal interactively, else from -c, -f or standard input. "
        "Outside a terminal the first error ends the run with exit code 1.",
    )
    parser.add_argument(
        "target", nargs="?", metavar="TARGET", help="a store's directory, :memory: (the default), or nyala://HOST:PORT"
    )
    parser.add_argument("-c", "--command", action="append", metavar="SQL", help="run this and leave (may be repeated)")
    parser.add_argument(
        "-f", "--file", action="append", type=Path, metavar="FILE", help="run this file and leave (may be repeated)"
    )
    formats = ("table", "csv", "json", "markdown", "vertical", "parquet")
    parser.add_argument("--format", choices=formats, help="default: table, or as the name of --output ends")
    parser.add_argument("--output", type=Path, metavar="FILE", help="write results to this file")
    parser.add_argument("--keep-going", action="store_true", help="go on behind an error; the exit code tells of it")
    parser.add_argument("--no-rc", action="store_true", help="do not run ~/.nyalarc at the start of a session")
    parser.add_argument("--timing", action="store_true", help="print how long each statement takes")
    parser.add_argument("--engine", metavar="NAME", help="what runs queries: nyala (the default), or spark")
    _add_threads(parser)
    parser.examples = (
        "nyala shell weather",
        'nyala shell weather -c "SELECT count(*) FROM readings" --format json',
        'nyala shell weather --output rain.parquet -c "SELECT * FROM readings"',
    )
    parser.set_defaults(run=_shell)


def _add_fs(commands: Commands) -> None:
    fs = commands.add_parser(
        "fs", help="look at a store's files", description="Look at a store's files. Nothing is changed."
    )
    fs.examples = ("nyala fs check weather", "nyala fs layout weather readings")
    steps = fs.add_subparsers(title="commands", metavar="COMMAND", required=True)

    check = steps.add_parser(
        "check",
        help="verify every file of a store",
        description="Verify every checksum and cross-reference of a store that nobody has open. Changes nothing. "
        "Exit code 1 if anything is wrong; notes are harmless.",
    )
    check.add_argument("directory", type=Path, metavar="DIR", help="the store's directory")
    check.add_argument("--json", action="store_true", help="print the findings as JSON")
    check.examples = ("nyala fs check weather", "nyala fs check weather --json")
    check.set_defaults(run=_fs_check)

    dump = steps.add_parser("dump", help="show what a file holds", description="Show what one file of a store holds.")
    dump.add_argument("file", type=Path, metavar="FILE", help="a column file, Bloom filter, log segment, catalog, ...")
    dump.add_argument("--rows", type=_natural, default=10, metavar="N", help="rows to show (default 10)")
    dump.examples = ("nyala fs dump weather/catalog", "nyala fs dump weather/tables/t000001/t000001-p0000/metadata")
    dump.set_defaults(run=_fs_dump)

    layout = steps.add_parser(
        "layout",
        help="show how a table's rowsets lie",
        description="Show the rowsets of each tablet over its keys, and how many of them a random key may be in.",
    )
    layout.add_argument("directory", type=Path, metavar="DIR", help="the store's directory; it may be open")
    layout.add_argument("table", metavar="TABLE", help="a table of the store")
    layout.add_argument("--json", action="store_true", help="print the layout as JSON")
    layout.add_argument("--svg", type=Path, metavar="FILE", help="draw it here as well")
    layout.examples = ("nyala fs layout weather readings", "nyala fs layout weather readings --svg readings.svg")
    layout.set_defaults(run=_fs_layout)


def _add_tpch(commands: Commands) -> None:
    tpch = commands.add_parser(
        "tpch", help="the TPC-H benchmark", description="The TPC-H benchmark: load its data, run and check its queries."
    )
    tpch.examples = ("nyala tpch load --sf 0.1 demo", "nyala tpch run demo --check", "nyala tpch compare demo")
    steps = tpch.add_subparsers(title="commands", metavar="COMMAND", required=True)

    load = steps.add_parser(
        "load", help="generate the data and load it", description="Generate TPC-H's data and load it."
    )
    load.add_argument("directory", type=_target, metavar="DIR", help="the store's directory, or nyala://HOST:PORT")
    load.add_argument("--sf", type=_positive, required=True, metavar="N", help="scale factor: 1 is 6 million lineitems")
    load.add_argument("--buckets", type=_count, default=4, metavar="N", help="tablets per large table (default 4)")
    load.add_argument("--replace", action="store_true", help="drop tables of an earlier load first")
    _add_data(load)
    _add_threads(load)
    load.examples = (
        "nyala tpch load --sf 1 DIR",
        "nyala tpch load --sf 0.1 --replace DIR",
        "nyala tpch load --sf 0.1 nyala://127.0.0.1:7051",
    )
    load.set_defaults(run=_tpch_load)

    run = steps.add_parser("run", help="run the queries", description="Run the 22 queries, cold once and then warm.")
    run.add_argument(
        "directory",
        type=_target,
        metavar="DIR",
        help="what `nyala tpch load` filled: a directory, or nyala://HOST:PORT",
    )
    run.add_argument("--check", action="store_true", help="compare with the TPC's answers (scale factor 1) or DuckDB's")
    run.add_argument(
        "--memory-limit",
        metavar="SIZE",
        help="how much memory a query's state may take, such as 256MB (default: 60 %% of the machine's)",
    )
    _add_measurement(run)
    _add_threads(run)
    run.examples = ("nyala tpch run DIR --check", "nyala tpch run DIR --queries 1,6 --runs 5 --json times.json")
    run.set_defaults(run=_tpch_run)

    compare = steps.add_parser(
        "compare",
        help="beside other engines",
        description="Run the queries beside other engines, in turn, with the same data and the same number of threads. "
        "Exit code 1 where an answer is wrong.",
    )
    _add_compare(compare)
    compare.examples = (
        "nyala tpch compare DIR",
        "nyala tpch compare DIR --peers duckdb,datafusion-parquet --output results/",
    )


def _add_compare(parser: argparse.ArgumentParser, queries: str | None = None) -> None:
    parser.add_argument(
        "directory",
        type=Path,
        nargs="?",
        metavar="DIR",
        help="a directory that `nyala tpch load` filled (default: tpch-sfN)",
    )
    parser.add_argument("--sf", type=_positive, metavar="N", help="load this scale factor first if DIR is empty")
    parser.add_argument(
        "--peers",
        default="duckdb-parquet,duckdb,pyarrow-parquet",
        metavar="NAMES",
        help="some of duckdb-parquet, duckdb, pyarrow-parquet (nyala without its store), datafusion-parquet, "
        "spark-parquet (default: the first three)",
    )
    parser.add_argument(
        "--output",
        metavar="DIR_OR_PREFIX",
        help="write the numbers (JSON) and a chart (PNG) into this folder, or to files whose names begin so",
    )
    _add_data(parser)
    _add_measurement(parser, queries)
    _add_threads(parser, default=os.cpu_count() or 1)
    parser.set_defaults(run=_tpch_compare)


def _add_bench(commands: Commands) -> None:
    bench = commands.add_parser(
        "bench",
        help="micro-benchmarks beside DuckDB",
        description="Micro-benchmarks, most of them beside other stores in the same run.",
    )
    bench.examples = ("nyala bench points --sf 0.1", "nyala bench storage --json storage.json")
    steps = bench.add_subparsers(title="commands", metavar="COMMAND", required=True)

    load = steps.add_parser("load", help="load lineitem", description="Load lineitem: time, memory, size on disk.")
    _add_lineitem(load)
    load.examples = ("nyala bench load --sf 0.1",)
    load.set_defaults(run=_bench_load)
    storage = steps.add_parser(
        "storage", help="the storage engine", description="The storage engine on lineitem: loads, scans, updates."
    )
    _add_lineitem(storage)
    storage.examples = ("nyala bench storage --sf 0.1 --runs 5 --json storage.json",)
    storage.set_defaults(run=_bench_storage)

    points = steps.add_parser(
        "points", help="single rows", description="Single rows of lineitem, beside SQLite and DuckDB: writes, look-ups."
    )
    points.add_argument(
        "directory", type=Path, nargs="?", metavar="DIR", help="where the databases are made and removed"
    )
    _add_lineitem(points)
    points.examples = ("nyala bench points --sf 0.1",)
    points.set_defaults(run=_bench_points)

    driver = steps.add_parser(
        "driver",
        help="statements through PEP 249",
        description="Prepared statements, many rows of parameters and results, beside SQLite and DuckDB.",
    )
    driver.add_argument("--runs", type=_count, default=3, metavar="N", help="rounds (default 3)")
    driver.add_argument("--work-dir", type=Path, metavar="DIR", help="where the databases are made and removed")
    driver.add_argument("--json", type=Path, metavar="FILE", help="write the numbers here as well")
    driver.examples = ("nyala bench driver --runs 5",)
    driver.set_defaults(run=_bench_driver)

    cluster = steps.add_parser(
        "cluster",
        help="a cluster of three servers",
        description="A cluster of three tablet servers on this machine beside the embedded store: ingest, single rows "
        "and the time that the loss of a leader costs; or, with a DIR that `nyala tpch load` filled, its 22 queries.",
    )
    cluster.add_argument("directory", type=Path, nargs="?", metavar="DIR", help="run TPC-H's queries beside this store")
    cluster.add_argument("--runs", type=_count, default=3, metavar="N", help="rounds (default 3)")
    cluster.add_argument("--durability", choices=("fsync", "os"), default="fsync", help="of both sides (default fsync)")
    cluster.add_argument("--work-dir", type=Path, metavar="DIR", help="where the stores are made and removed")
    cluster.add_argument("--json", type=Path, metavar="FILE", help="write the numbers here as well")
    _add_threads(cluster, default=os.cpu_count() or 1)
    cluster.examples = ("nyala bench cluster --durability os", "nyala bench cluster tpch-sf1 --runs 5")
    cluster.set_defaults(run=_bench_cluster)

    spark = steps.add_parser(
        "spark",
        help="Spark over a store beside Spark on Parquet",
        description="Spark over nyala beside Spark on the same Parquet files: reads of lineitem, and its way into a "
        "table. `nyala tpch compare --peers spark-nyala,spark-parquet` has the 22 queries.",
    )
    spark.add_argument("directory", type=Path, metavar="DIR", help="a store into which TPC-H was loaded")
    spark.add_argument("--runs", type=_count, default=3, metavar="N", help="rounds (default 3)")
    spark.add_argument("--work-dir", type=Path, metavar="DIR", help="where the table is made and removed")
    spark.add_argument("--json", type=Path, metavar="FILE", help="write the numbers here as well")
    _add_threads(spark, default=os.cpu_count() or 1)
    spark.examples = ("nyala bench spark tpch-sf1 --runs 5",)
    spark.set_defaults(run=_bench_spark)

    plan = steps.add_parser(
        "plan", help="parsing and planning", description="What the queries of TPC-H cost before they run."
    )
    plan.add_argument("directory", type=Path, metavar="DIR", help="a store into which TPC-H was loaded")
    plan.add_argument("--runs", type=_count, default=5, metavar="N", help="rounds (default 5)")
    plan.add_argument("--json", type=Path, metavar="FILE", help="write the numbers here as well")
    plan.examples = ("nyala bench plan DIR",)
    plan.set_defaults(run=_bench_plan)

    maintenance = steps.add_parser(
        "maintenance",
        help="flushes and compactions, simulated",
        description="What the maintenance policies make of hours of a workload, without a single row.",
    )
    maintenance.add_argument(
        "--workload",
        action="append",
        metavar="NAME",
        help="uniform, time series, trickle, zipfian, mixed (default: all)",
    )
    maintenance.add_argument("--hours", type=_positive, default=2.0, metavar="N", help="of the workload (default 2)")
    maintenance.add_argument(
        "--price", type=_positive, default=2.0, metavar="N", help="what a rewritten byte must save (default 2)"
    )
    maintenance.add_argument("--json", type=Path, metavar="FILE", help="write the numbers here as well")
    maintenance.examples = ("nyala bench maintenance --workload zipfian --hours 4",)
    maintenance.set_defaults(run=_bench_maintenance)

    q6 = steps.add_parser("q6", help="a filtered scan", description="TPC-H query 6, as `nyala tpch compare` measures.")
    _add_compare(q6, queries="6")
    q6.examples = ("nyala bench q6 DIR",)
    tpch = steps.add_parser("tpch", help="all of TPC-H", description="The 22 queries, as `nyala tpch compare`.")
    _add_compare(tpch)
    tpch.examples = ("nyala bench tpch DIR --sf 1",)


def _add_completion(commands: Commands) -> None:
    parser = commands.add_parser(
        "completion",
        help="make Tab complete this command",
        description="Print the script that makes a shell complete `nyala`, its commands, options and files "
        "(needs shtab: pip install 'nyala[completion]').",
    )
    parser.add_argument("shell", choices=("bash", "zsh", "fish"), metavar="SHELL", help="bash, zsh or fish")
    parser.examples = (
        "nyala completion bash > ~/.local/share/bash-completion/completions/nyala",
        "nyala completion zsh > ~/.zfunc/_nyala",
        "nyala completion fish > ~/.config/fish/completions/nyala.fish",
    )
    parser.set_defaults(run=_completion)


def _add_lineitem(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--sf", type=_positive, default=1.0, metavar="N", help="scale factor (default 1)")
    parser.add_argument("--buckets", type=_count, default=4, metavar="N", help="tablets (default 4)")
    parser.add_argument("--runs", type=_count, default=3, metavar="N", help="runs per engine (default 3)")
    parser.add_argument("--work-dir", type=Path, metavar="DIR", help="where the databases are made and removed")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the numbers here as well")
    _add_data(parser)
    _add_threads(parser, default=os.cpu_count() or 1)


def _add_data(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--data-dir",
        type=Path,
        metavar="DIR",
        help="where the Parquet files are or shall be kept (default: tpch-parquet-sfN beside the store)",
    )


def _add_measurement(parser: argparse.ArgumentParser, queries: str | None = None) -> None:
    parser.add_argument("--queries", default=queries, metavar="LIST", help="such as 1,6,10-12 (default: all)")
    parser.add_argument("--runs", type=_count, default=3, metavar="N", help="warm runs (default 3)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the numbers here as well")


def _add_threads(parser: argparse.ArgumentParser, default: int | None = None) -> None:
    parser.add_argument(
        "--threads", type=_count, default=default, metavar="N", help="threads per statement (default: all processors)"
    )


def _target(text: str) -> Path | str:
    return text if "://" in text else Path(text)


def _positive(text: str) -> float:
    value = float(text)
    if value <= 0:
        raise argparse.ArgumentTypeError(f"{text} is not above 0")
    return value


def _count(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text} is not at least 1")
    return value


def _natural(text: str) -> int:
    value = int(text)
    if value < 0:
        raise argparse.ArgumentTypeError(f"{text} is below 0")
    return value


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; its exit code."""
    arguments = build_parser().parse_args(argv)
    handler: Callable[[argparse.Namespace], int] = arguments.run
    try:
        return handler(arguments)
    except Error as error:
        print(f"nyala: error: {error}", file=sys.stderr)
        return EXIT_ERROR
    except BrokenPipeError:
        # The reader of our output has left (`| head`). Python must not try to flush what nobody wants.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_ERROR
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return EXIT_INTERRUPTED


if __name__ == "__main__":
    sys.exit(main())

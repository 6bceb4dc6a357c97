"""The command line of `nyala bench`. Handlers import what they need when they run, so that `nyala --help` answers at
once.

A benchmark adds itself by an `_add_...` function here, called by `add_bench_commands`: its options, its examples, and
its handler.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import Any, TypeAlias

from ..tpch.arguments import add_compare, add_data, add_threads, count, positive

Commands: TypeAlias = "argparse._SubParsersAction[Any]"


def add_bench_commands(commands: Commands) -> None:
    """Add all of them."""
    bench = commands.add_parser(
        "bench",
        help="benchmarks beside other stores",
        description="Benchmarks, most of them beside other stores in the same run.",
    )
    bench.examples = ("nyala bench points --sf 0.1", "nyala bench storage --json storage.json")
    steps = bench.add_subparsers(title="commands", metavar="COMMAND", required=True)
    _add_load(steps)
    _add_storage(steps)
    _add_points(steps)
    _add_driver(steps)
    _add_cluster(steps)
    _add_spark(steps)
    _add_plan(steps)
    _add_maintenance(steps)
    _add_lineitem_tables(steps)
    _add_ycsb(steps)
    _add_mixed(steps)
    _add_queries(steps)
    _add_all(steps)


def _add_load(steps: Commands) -> None:
    parser = steps.add_parser("load", help="load lineitem", description="Load lineitem: time, memory, size on disk.")
    _add_lineitem(parser)
    parser.examples = ("nyala bench load --sf 0.1",)
    parser.set_defaults(run=_bench_load)


def _add_storage(steps: Commands) -> None:
    parser = steps.add_parser(
        "storage", help="the storage engine", description="The storage engine on lineitem: loads, scans, updates."
    )
    _add_lineitem(parser)
    parser.examples = ("nyala bench storage --sf 0.1 --runs 5 --json storage.json",)
    parser.set_defaults(run=_bench_storage)


def _add_points(steps: Commands) -> None:
    parser = steps.add_parser(
        "points", help="single rows", description="Single rows of lineitem, beside SQLite and DuckDB: writes, look-ups."
    )
    parser.add_argument(
        "directory",
        type=Path,
        nargs="?",
        metavar="DIR",
        help="where this benchmark makes its databases, and removes them at the end (default: a temporary directory)",
    )
    _add_lineitem(parser)
    parser.examples = ("nyala bench points --sf 0.1",)
    parser.set_defaults(run=_bench_points)


def _add_driver(steps: Commands) -> None:
    parser = steps.add_parser(
        "driver",
        help="statements through PEP 249",
        description="Prepared statements, many rows of parameters and results, beside SQLite and DuckDB.",
    )
    parser.add_argument("--runs", type=count, default=3, metavar="N", help="rounds (default 3)")
    parser.add_argument("--work-dir", type=Path, metavar="DIR", help="where the databases are made and removed")
    add_json(parser)
    parser.examples = ("nyala bench driver --runs 5",)
    parser.set_defaults(run=_bench_driver)


def _add_cluster(steps: Commands) -> None:
    parser = steps.add_parser(
        "cluster",
        help="a cluster of three servers",
        description="A cluster of three tablet servers on this machine beside the embedded store: ingest, single rows "
        "and the time that the loss of a leader costs; or, with a DIR that `nyala tpch load` filled, its 22 queries.",
    )
    parser.add_argument("directory", type=Path, nargs="?", metavar="DIR", help="run TPC-H's queries beside this store")
    parser.add_argument("--runs", type=count, default=3, metavar="N", help="rounds (default 3)")
    parser.add_argument("--durability", choices=("fsync", "os"), default="fsync", help="of both sides (default fsync)")
    parser.add_argument("--work-dir", type=Path, metavar="DIR", help="where the stores are made and removed")
    add_json(parser)
    add_threads(parser, default=os.cpu_count() or 1)
    parser.examples = ("nyala bench cluster --durability os", "nyala bench cluster tpch-sf1 --runs 5")
    parser.set_defaults(run=_bench_cluster)


def _add_spark(steps: Commands) -> None:
    parser = steps.add_parser(
        "spark",
        help="Spark over a store beside Spark on Parquet",
        description="Spark over nyala beside Spark on the same Parquet files: reads of lineitem, and its way into a "
        "table. `nyala tpch compare --peers spark-nyala,spark-parquet` has the 22 queries.",
    )
    parser.add_argument("directory", type=Path, metavar="DIR", help="a store into which TPC-H was loaded")
    parser.add_argument("--runs", type=count, default=3, metavar="N", help="rounds (default 3)")
    parser.add_argument("--work-dir", type=Path, metavar="DIR", help="where the table is made and removed")
    add_json(parser)
    add_threads(parser, default=os.cpu_count() or 1)
    parser.examples = ("nyala bench spark tpch-sf1 --runs 5",)
    parser.set_defaults(run=_bench_spark)


def _add_plan(steps: Commands) -> None:
    parser = steps.add_parser(
        "plan", help="parsing and planning", description="What the queries of TPC-H cost before they run."
    )
    parser.add_argument("directory", type=Path, metavar="DIR", help="a store into which TPC-H was loaded")
    parser.add_argument("--runs", type=count, default=5, metavar="N", help="rounds (default 5)")
    add_json(parser)
    parser.examples = ("nyala bench plan DIR",)
    parser.set_defaults(run=_bench_plan)


def _add_maintenance(steps: Commands) -> None:
    parser = steps.add_parser(
        "maintenance",
        help="flushes and compactions, simulated",
        description="What the maintenance policies make of hours of a workload, without a single row.",
    )
    parser.add_argument(
        "--workload",
        action="append",
        metavar="NAME",
        help="uniform, time series, trickle, zipfian, mixed (default: all)",
    )
    parser.add_argument("--hours", type=positive, default=2.0, metavar="N", help="of the workload (default 2)")
    parser.add_argument(
        "--price", type=positive, default=2.0, metavar="N", help="what a rewritten byte must save (default 2)"
    )
    add_json(parser)
    parser.examples = ("nyala bench maintenance --workload zipfian --hours 4",)
    parser.set_defaults(run=_bench_maintenance)


def _add_lineitem_tables(steps: Commands) -> None:
    parser = steps.add_parser(
        "lineitem",
        help="the paper's queries of lineitem",
        description="Load lineitem and run the four queries of the paper's tables 2 and 3, beside nyala on Parquet, "
        "DuckDB, PostgreSQL and SQLite. Exit code 1 where an answer is wrong or missing.",
    )
    parser.add_argument(
        "--engines",
        default="nyala,nyala-parquet,duckdb,postgres,sqlite",
        metavar="NAMES",
        help="some of nyala, nyala-parquet (nyala without its store), duckdb, postgres, sqlite (default: all)",
    )
    _add_lineitem(parser, runs=10)
    parser.examples = ("nyala bench lineitem --sf 0.1 --engines nyala,duckdb --json lineitem.json",)
    parser.set_defaults(run=_bench_lineitem)


def _add_ycsb(steps: Commands) -> None:
    parser = steps.add_parser(
        "ycsb",
        help="YCSB's workloads A to F",
        description="The load and the core workloads of YCSB on one store after the other, with the same operations "
        "and the same durability. A store that is not installed is left out. Exit code 1 if none could be measured.",
    )
    numbers = (
        ("--records", 1_000_000, "rows of 1,000 bytes that are loaded"),
        ("--ops", 200_000, "operations of each workload"),
        ("--threads", 16, "client threads"),
        ("--processes", 1, "processes for them, of stores that serve several"),
        ("--seed", 1, "what the operations are drawn from"),
    )
    for option, default, what in numbers:
        parser.add_argument(option, type=count, default=default, metavar="N", help=f"{what} (default {default:,})")
    parser.add_argument(
        "--bindings",
        default="nyala,nyala-sql,cluster,sqlite,duckdb,postgres,rocksdb",
        metavar="NAMES",
        help="the stores, in the order of the run (default: %(default)s)",
    )
    parser.add_argument(
        "--workloads", default="A,B,C,D,E,F", metavar="NAMES", help="default: %(default)s; '' for the load alone"
    )
    parser.add_argument(
        "--distribution",
        choices=("zipfian", "uniform", "both"),
        default="zipfian",
        help="of the keys that are asked for; both: one run after the other (default zipfian)",
    )
    parser.add_argument("--durability", choices=("fsync", "os"), default="fsync", help="of all stores (default fsync)")
    parser.add_argument(
        "--seconds", type=positive, default=60.0, metavar="N", help="a workload ends after so long (default 60)"
    )
    parser.add_argument(
        "--unbound",
        action="store_true",
        help="let the system move client threads between processors; by default those of a process stay on one",
    )
    parser.add_argument("--work-dir", type=Path, metavar="DIR", help="where the stores are made and removed")
    add_json(parser)
    parser.add_argument("--png", type=Path, metavar="FILE", help="draw a chart of the throughputs here")
    parser.examples = (
        "nyala bench ycsb --records 100000 --ops 20000",
        "nyala bench ycsb --bindings nyala,duckdb,postgres --workloads A,B --distribution both --json ycsb.json",
    )
    parser.set_defaults(run=_bench_ycsb)


def _add_mixed(steps: Commands) -> None:
    parser = steps.add_parser(
        "mixed",
        help="upserts while queries run",
        description="Upserts into lineitem at a fixed rate while TPC-H's Q1 and Q6 run, and both alone. Exit code 1 "
        "where an answer was none of a consistent snapshot.",
    )
    parser.add_argument("--sf", type=positive, default=1.0, metavar="N", help="scale factor (default 1)")
    parser.add_argument("--rate", type=positive, default=500.0, metavar="N", help="upserts per second (default 500)")
    parser.add_argument("--seconds", type=positive, default=30.0, metavar="N", help="of each phase (default 30)")
    parser.add_argument("--writers", type=count, default=4, metavar="N", help="threads that upsert (default 4)")
    parser.add_argument("--buckets", type=count, default=4, metavar="N", help="tablets of nyala's table (default 4)")
    parser.add_argument("--durability", choices=("fsync", "os"), default="fsync", help="of all engines (default fsync)")
    parser.add_argument(
        "--engines", default="nyala,duckdb,postgres", metavar="NAMES", help="in this order (default: %(default)s)"
    )
    parser.add_argument("--work-dir", type=Path, metavar="DIR", help="where the databases are made and removed")
    add_json(parser)
    add_data(parser)
    add_threads(parser, default=os.cpu_count() or 1)
    parser.examples = ("nyala bench mixed --sf 0.1 --rate 200 --seconds 10 --engines nyala,duckdb --json mixed.json",)
    parser.set_defaults(run=_bench_mixed)


def _add_queries(steps: Commands) -> None:
    q6 = steps.add_parser("q6", help="a filtered scan", description="TPC-H query 6, as `nyala tpch compare` measures.")
    add_compare(q6, queries="6")
    q6.examples = ("nyala bench q6 DIR",)
    tpch = steps.add_parser("tpch", help="all of TPC-H", description="The 22 queries, as `nyala tpch compare`.")
    add_compare(tpch)
    tpch.examples = ("nyala bench tpch DIR --sf 1",)


def add_json(parser: argparse.ArgumentParser) -> None:
    """The option by which a benchmark saves its numbers."""
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the numbers here as well")


def _add_all(steps: Commands) -> None:
    parser = steps.add_parser(
        "all",
        help="every benchmark, and a report",
        description="Run every benchmark, each in a process of its own, and write a report of them all to DIR: "
        "index.html, a page that needs nothing else, and benchmarks.md. A run that was interrupted goes on: what is "
        "done is not done again. Exit code 1 where one failed.",
    )
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="of the report, the numbers and logs")
    parser.add_argument("--sf", type=positive, metavar="N", help="scale factor of TPC-H (default 1, --quick 0.01)")
    names = "load, storage, points, maintenance, plan, tpch, lineitem, driver, ycsb, mixed, cluster, cluster-tpch, "
    records = "rows of YCSB (default 1000000)"
    parser.add_argument("--records", type=count, default=1_000_000, metavar="N", help=records)
    seconds = "for each workload of YCSB (default 20)"
    parser.add_argument("--seconds", type=positive, default=20.0, metavar="N", help=seconds)
    parser.add_argument("--only", metavar="NAMES", help=f"run these: some of {names}spark, spark-tpch")
    parser.add_argument("--skip", metavar="NAMES", help="run all but these")
    parser.add_argument("--again", action="store_true", help="run also what is done")
    parser.add_argument("--quick", action="store_true", help="small and once: a trial, whose numbers say little")
    limit = "end a benchmark that takes longer (default 240)"
    parser.add_argument("--limit", type=positive, default=240.0, metavar="MINUTES", help=limit)
    parser.add_argument("--work-dir", type=Path, metavar="DIR", help="of data and temporary files (default: DIR/work)")
    parser.add_argument("--keep", action="store_true", help="leave the data there for another run")
    parser.examples = ("nyala bench all --sf 1 --out results", "nyala bench all --quick --only points,tpch --out trial")
    parser.set_defaults(run=_bench_all)


def _add_lineitem(parser: argparse.ArgumentParser, runs: int = 3) -> None:
    parser.add_argument("--sf", type=positive, default=1.0, metavar="N", help="scale factor (default 1)")
    parser.add_argument("--buckets", type=count, default=4, metavar="N", help="tablets (default 4)")
    parser.add_argument("--runs", type=count, default=runs, metavar="N", help=f"runs per engine (default {runs})")
    parser.add_argument("--work-dir", type=Path, metavar="DIR", help="where the databases are made and removed")
    add_json(parser)
    add_data(parser)
    add_threads(parser, default=os.cpu_count() or 1)


# ---- handlers --------------------------------------------------------------------------------------------------------


def _bench_load(arguments: argparse.Namespace) -> int:
    from .command import load_command

    return load_command(arguments, *_lineitem(arguments))


def _bench_storage(arguments: argparse.Namespace) -> int:
    from .command import storage_command

    return storage_command(arguments, *_lineitem(arguments))


def _bench_points(arguments: argparse.Namespace) -> int:
    from .command import points_command

    return points_command(arguments, *_lineitem(arguments))


def _bench_driver(arguments: argparse.Namespace) -> int:
    from .command import driver_command

    return driver_command(arguments)


def _bench_cluster(arguments: argparse.Namespace) -> int:
    from .command import cluster_command, cluster_queries_command

    if arguments.directory is None:
        return cluster_command(arguments)
    from ..tpch import manifest
    from ..tpch.generate import parquet_file
    from ..tpch.queries import QUERIES
    from ..tpch.schema import TABLES

    loaded = manifest.read(arguments.directory)
    files = Path(loaded.data)
    tables = {spec.name: (spec.create_table(loaded.buckets), parquet_file(files, spec.name)) for spec in TABLES}
    return cluster_queries_command(arguments, tables, {f"q{query.number}": query.text for query in QUERIES})


def _bench_spark(arguments: argparse.Namespace) -> int:
    from ..tpch import manifest
    from ..tpch.generate import parquet_file
    from ..tpch.schema import LINEITEM
    from .command import spark_command

    loaded = manifest.read(arguments.directory)
    return spark_command(arguments, parquet_file(Path(loaded.data), "lineitem"), LINEITEM.create_table(loaded.buckets))


def _bench_plan(arguments: argparse.Namespace) -> int:
    from ..tpch.queries import QUERIES
    from .command import plan_command

    return plan_command(arguments, {f"q{query.number}": query.text for query in QUERIES})


def _bench_maintenance(arguments: argparse.Namespace) -> int:
    from .command import maintenance_command

    return maintenance_command(arguments)


def _bench_lineitem(arguments: argparse.Namespace) -> int:
    from .lineitem.command import lineitem_command

    return lineitem_command(arguments, *_lineitem(arguments))


def _bench_ycsb(arguments: argparse.Namespace) -> int:
    from .ycsb.command import ycsb_command

    return ycsb_command(arguments)


def _bench_mixed(arguments: argparse.Namespace) -> int:
    from .mixed.command import mixed_command

    return mixed_command(arguments, _lineitem(arguments)[0])


def _bench_all(arguments: argparse.Namespace) -> int:
    from .all import all_command

    return all_command(arguments)


def _lineitem(arguments: argparse.Namespace) -> tuple[Path, str]:
    """The Parquet file of lineitem, and its CREATE TABLE."""
    from ..tpch.generate import generate, parquet_file
    from ..tpch.schema import LINEITEM

    directory = arguments.data_dir or Path(f"tpch-parquet-sf{arguments.sf:g}")
    generate(arguments.sf, directory.resolve(), print)
    return parquet_file(directory, "lineitem"), LINEITEM.create_table(arguments.buckets)

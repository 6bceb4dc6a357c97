"""The commands of `nyala bench`: a benchmark adds itself to `BENCH`."""

from __future__ import annotations

from pathlib import Path

from ..command_line import Argument, Command, argument, count, positive
from ..tpch.arguments import ALL_THREADS, DATA, JSON, comparison


def _work_dir(what: str) -> Argument:
    """The option that `work_directory` takes; `what` is put there."""
    return argument(
        "--work-dir",
        type=Path,
        metavar="DIR",
        help=f"where the {what} are made, and removed at the end; made, too, if it is missing",
    )


def _lineitem(runs: int = 3) -> tuple[Argument, ...]:
    """The options of a benchmark that loads lineitem."""
    return (
        argument("--sf", type=positive, default=1.0, metavar="N", help="scale factor (default 1)"),
        argument("--buckets", type=count, default=4, metavar="N", help="tablets (default 4)"),
        argument("--runs", type=count, default=runs, metavar="N", help=f"runs per engine (default {runs})"),
        _work_dir("databases"),
        JSON,
        DATA,
        ALL_THREADS,
    )


def _against(engines: str) -> tuple[Argument, ...]:
    """The options of a benchmark that writes into several engines in one run."""
    return (
        argument(
            "--durability",
            choices=("fsync", "os"),
            default="fsync",
            help="durability of all engines (default fsync)",
        ),
        argument("--engines", default=engines, metavar="NAMES", help="in this order (default: %(default)s)"),
        _work_dir("databases"),
        JSON,
    )


BENCH = Command(
    "bench",
    "benchmarks against other stores",
    "Benchmarks, most of them against other stores in the same run.",
    examples=("nyala bench points --sf 0.1", "nyala bench storage --json storage.json"),
    commands=(
        Command(
            "load",
            "load lineitem",
            "Load lineitem: time, memory, size on disk.",
            handler="bench.command:load_command",
            arguments=_lineitem(),
            examples=("nyala bench load --sf 0.1",),
        ),
        Command(
            "storage",
            "the storage engine",
            "The storage engine on lineitem: loads, scans, updates.",
            handler="bench.command:storage_command",
            arguments=_lineitem(),
            examples=("nyala bench storage --sf 0.1 --runs 5 --json storage.json",),
        ),
        Command(
            "points",
            "single rows",
            "Single rows of lineitem, against SQLite and DuckDB: writes, look-ups.",
            handler="bench.command:points_command",
            arguments=(
                argument(
                    "directory",
                    type=Path,
                    nargs="?",
                    metavar="DIR",
                    help="the directory for the databases, removed at the end (default: a temporary directory)",
                ),
                *_lineitem(),
            ),
            examples=("nyala bench points --sf 0.1",),
        ),
        Command(
            "driver",
            "statements through PEP 249",
            "Prepared statements, many rows of parameters and results, against SQLite and DuckDB.",
            handler="bench.command:driver_command",
            arguments=(
                argument("--runs", type=count, default=3, metavar="N", help="rounds (default 3)"),
                _work_dir("databases"),
                JSON,
            ),
            examples=("nyala bench driver --runs 5",),
        ),
        Command(
            "doors",
            "the PostgreSQL protocol and Flight SQL",
            "The doors of nyala against PostgreSQL: look-ups and inserts of single rows by 1 and 8 clients, results, "
            "COPY, and TPC-H by psycopg against the same queries embedded.",
            handler="bench.command:doors_command",
            arguments=(
                argument("--runs", type=count, default=3, metavar="N", help="rounds (default 3)"),
                argument(
                    "--rows", type=count, default=1_000_000, metavar="N", help="rows of a result (default 1000000)"
                ),
                argument(
                    "--sf",
                    type=positive,
                    default=0.1,
                    metavar="N",
                    help="scale factor of lineitem and of the queries (default 0.1)",
                ),
                argument(
                    "--seconds",
                    type=positive,
                    default=2.0,
                    metavar="N",
                    help="seconds of each step with single rows (default 2)",
                ),
                argument(
                    "--parts", metavar="NAMES", help="some of rows,transfers,queries,spark (default: all but spark)"
                ),
                _work_dir("databases"),
                argument(
                    "--data-dir",
                    type=Path,
                    metavar="DIR",
                    help="the directory of the Parquet files, existing or to be created (default: removed at the end)",
                ),
                JSON,
            ),
            examples=(
                "nyala bench doors --rows 100000 --json doors.json",
                "nyala bench doors --parts transfers --rows 6000000 --sf 1",
                "nyala bench doors --parts spark",
            ),
        ),
        Command(
            "cluster",
            "a cluster of three servers",
            "A cluster of three tablet servers on this machine against the embedded store: ingest, single rows "
            "and the unavailability after the loss of a leader; or, with a DIR filled by `nyala tpch load`, its "
            "22 queries.",
            handler="bench.command:cluster_command",
            arguments=(
                argument(
                    "directory", type=Path, nargs="?", metavar="DIR", help="run TPC-H's queries against this store"
                ),
                argument("--runs", type=count, default=3, metavar="N", help="rounds (default 3)"),
                argument(
                    "--durability",
                    choices=("fsync", "os"),
                    default="fsync",
                    help="durability of both sides (default fsync)",
                ),
                _work_dir("stores"),
                JSON,
                ALL_THREADS,
            ),
            examples=("nyala bench cluster --durability os", "nyala bench cluster tpch-sf1 --runs 5"),
        ),
        Command(
            "kudu",
            "a cluster against real Kudu",
            "A cluster of nyala against real Kudu, with the same servers, replicas, rows, client threads and "
            "durability: ingest, single rows, YCSB, scans of lineitem, fail-over, restart, disk, memory. Exit code 1 "
            "if a step failed or answers differed.",
            handler="bench.kudu.command:kudu_command",
            arguments=(
                argument(
                    "--kudu",
                    type=Path,
                    required=True,
                    metavar="DIR",
                    help="a directory with Kudu's jars from Maven; without them, the error says how to get them",
                ),
                *(
                    argument(option, type=count, default=default, metavar="N", help=f"{what} (default {default:,})")
                    for option, default, what in (
                        ("--runs", 3, "rounds"),
                        ("--replicas", 3, "replicas, and tablet servers"),
                        ("--threads", 16, "client threads"),
                        ("--processes", 2, "processes for nyala's client threads"),
                        ("--rows", 400_000, "rows of the ingest"),
                        ("--singles", 6_000, "statements of each step of single rows"),
                        ("--records", 100_000, "loaded rows of YCSB"),
                        ("--ops", 50_000, "operations of each workload of YCSB"),
                    )
                ),
                argument(
                    "--sides",
                    default="kudu,nyala,processes",
                    metavar="NAMES",
                    help="the order of a round; processes: nyala with a process for each client thread "
                    "(default: %(default)s)",
                ),
                argument("--workloads", default="A,B,C,D,F", metavar="NAMES", help="of YCSB (default: %(default)s)"),
                argument(
                    "--sf",
                    type=float,
                    default=0.1,
                    metavar="N",
                    help="scale factor of lineitem, 0 for no scans (default 0.1)",
                ),
                argument(
                    "--idle-tablets",
                    type=int,
                    default=0,
                    metavar="N",
                    help="measure servers with N idle tablets (default: not)",
                ),
                argument(
                    "--durability", choices=("fsync", "os"), default="fsync", help="of both sides (default fsync)"
                ),
                argument(
                    "--seconds",
                    type=positive,
                    default=20.0,
                    metavar="N",
                    help="a workload ends after N seconds (default 20)",
                ),
                _work_dir("stores"),
                JSON,
                DATA,
            ),
            examples=("nyala bench kudu --kudu kudu-jars --runs 3 --json kudu.json",),
        ),
        Command(
            "spark",
            "Spark over a store against Spark on Parquet",
            "Spark over nyala against Spark on the same Parquet files: reads of lineitem, and ingest into a "
            "table. `nyala tpch compare --peers spark-nyala,spark-parquet` has the 22 queries.",
            handler="bench.command:spark_command",
            arguments=(
                argument("directory", type=Path, metavar="DIR", help="a store into which TPC-H was loaded"),
                argument("--runs", type=count, default=3, metavar="N", help="rounds (default 3)"),
                _work_dir("tables"),
                JSON,
                ALL_THREADS,
            ),
            examples=("nyala bench spark tpch-sf1 --runs 5",),
        ),
        Command(
            "plan",
            "parsing and planning",
            "Measure the parsing, binding and planning of TPC-H's queries.",
            handler="bench.command:plan_command",
            arguments=(
                argument("directory", type=Path, metavar="DIR", help="a store into which TPC-H was loaded"),
                argument("--runs", type=count, default=5, metavar="N", help="rounds (default 5)"),
                JSON,
            ),
            examples=("nyala bench plan DIR",),
        ),
        Command(
            "maintenance",
            "flushes and compactions, simulated",
            "The maintenance policies over hours of a workload, simulated without rows.",
            handler="bench.command:maintenance_command",
            arguments=(
                argument(
                    "--workload",
                    action="append",
                    metavar="NAME",
                    help="uniform, time series, trickle, zipfian, mixed (default: all)",
                ),
                argument("--hours", type=positive, default=2.0, metavar="N", help="hours of the workload (default 2)"),
                argument(
                    "--price",
                    type=positive,
                    default=2.0,
                    metavar="N",
                    help="minimum saving per rewritten byte (default 2)",
                ),
                JSON,
            ),
            examples=("nyala bench maintenance --workload zipfian --hours 4",),
        ),
        Command(
            "lineitem",
            "the paper's queries of lineitem",
            "Load lineitem and run the four queries of the paper's tables 2 and 3, against nyala on Parquet, "
            "DuckDB, PostgreSQL and SQLite. Exit code 1 if an answer is wrong or missing.",
            handler="bench.lineitem.command:lineitem_command",
            arguments=(
                argument(
                    "--engines",
                    default="nyala,nyala-parquet,duckdb,postgres,sqlite",
                    metavar="NAMES",
                    help="some of nyala, nyala-parquet (nyala without its store), duckdb, postgres, sqlite "
                    "(default: all)",
                ),
                *_lineitem(runs=10),
            ),
            examples=("nyala bench lineitem --sf 0.1 --engines nyala,duckdb --json lineitem.json",),
        ),
        Command(
            "ycsb",
            "YCSB's workloads A to F",
            "The load and the core workloads of YCSB on one store after the other, with the same operations "
            "and the same durability. A store that is not installed is skipped. Exit code 1 if none could be "
            "measured.",
            handler="bench.ycsb.command:ycsb_command",
            arguments=(
                *(
                    argument(option, type=count, default=default, metavar="N", help=f"{what} (default {default:,})")
                    for option, default, what in (
                        ("--records", 1_000_000, "number of loaded rows of 1,000 bytes"),
                        ("--ops", 200_000, "operations of each workload"),
                        ("--threads", 16, "client threads"),
                        ("--processes", 1, "client processes, for stores that serve several"),
                        ("--seed", 1, "seed of the random operations"),
                    )
                ),
                argument(
                    "--bindings",
                    default="nyala,nyala-sql,cluster,sqlite,duckdb,postgres,rocksdb",
                    metavar="NAMES",
                    help="the stores, in the order of the run (default: %(default)s)",
                ),
                argument(
                    "--workloads",
                    default="A,B,C,D,E,F",
                    metavar="NAMES",
                    help="default: %(default)s; '' for the load alone",
                ),
                argument(
                    "--distribution",
                    choices=("zipfian", "uniform", "both"),
                    default="zipfian",
                    help="distribution of the requested keys; both: one run after the other (default zipfian)",
                ),
                argument(
                    "--durability",
                    choices=("fsync", "os"),
                    default="fsync",
                    help="durability of all stores (default fsync)",
                ),
                argument(
                    "--seconds",
                    type=positive,
                    default=60.0,
                    metavar="N",
                    help="a workload ends after N seconds (default 60)",
                ),
                argument(
                    "--unbound",
                    action="store_true",
                    help="let the system move client threads between processors; by default those of a process "
                    "stay on one",
                ),
                _work_dir("stores"),
                JSON,
                argument("--png", type=Path, metavar="FILE", help="draw a chart of the throughputs to this file"),
            ),
            examples=(
                "nyala bench ycsb --records 100000 --ops 20000",
                "nyala bench ycsb --bindings nyala,duckdb,postgres --workloads A,B --distribution both --json "
                "ycsb.json",
            ),
        ),
        Command(
            "mixed",
            "upserts during queries",
            "Upserts into lineitem at a fixed rate while TPC-H's Q1 and Q6 run, and both alone. Exit code 1 "
            "if an answer did not match a consistent snapshot.",
            handler="bench.mixed.command:mixed_command",
            arguments=(
                argument("--sf", type=positive, default=1.0, metavar="N", help="scale factor (default 1)"),
                argument("--rate", type=positive, default=500.0, metavar="N", help="upserts per second (default 500)"),
                argument(
                    "--seconds", type=positive, default=30.0, metavar="N", help="seconds of each phase (default 30)"
                ),
                argument("--writers", type=count, default=4, metavar="N", help="threads that upsert (default 4)"),
                argument("--buckets", type=count, default=4, metavar="N", help="tablets of nyala's table (default 4)"),
                *_against("nyala,duckdb,postgres"),
                DATA,
                ALL_THREADS,
            ),
            examples=("nyala bench mixed --sf 0.1 --rate 200 --seconds 10 --engines nyala,duckdb --json mixed.json",),
        ),
        Command(
            "transactions",
            "transactions of several statements",
            "Transactions of several statements, against SQLite, DuckDB and PostgreSQL: ten updates by key, transfers, "
            "New-Order and Payment of TPC-C. Exit code 1 if an invariant was violated.",
            handler="bench.transactions.command:transactions_command",
            arguments=(
                argument("--workloads", default="tens,bank,tpcc", metavar="NAMES", help="(default: %(default)s)"),
                argument("--clients", default="1,8", metavar="N,N", help="numbers of clients (default: %(default)s)"),
                argument("--seconds", type=positive, default=5.0, metavar="N", help="seconds of each run (default 5)"),
                argument("--runs", type=count, default=3, metavar="N", help="runs per engine (default 3)"),
                *_against("nyala,sqlite,duckdb,postgres"),
            ),
            examples=("nyala bench transactions --workloads bank --clients 8 --engines nyala,sqlite --seconds 3",),
        ),
        Command(
            "suites",
            "suites of queries",
            "Queries on generated data that nyala was not tuned for, against DuckDB and others in one process: first "
            "and warm runs, wall and processor time, answers compared with DuckDB's. All suites, or the named ones. "
            "Exit code 1 if an answer of nyala is wrong or missing.",
            handler="bench.suites.command:suites_command",
            arguments=(
                argument(
                    "suites",
                    nargs="*",
                    metavar="SUITE",
                    help="some of clickbench, wide, cliff, functions, h2o, ssb, tpcds, timeseries, mutations, cold "
                    "(default: all)",
                ),
                argument("--rows", type=count, metavar="N", help="rows of suites that count in rows"),
                argument("--scale", type=positive, metavar="N", help="scale factor of suites that have one"),
                argument("--runs", type=count, default=5, metavar="N", help="warm runs (default 5)"),
                argument("--threads", type=count, default=2, metavar="N", help="threads of each engine (default 2)"),
                argument("--buckets", type=count, default=1, metavar="N", help="tablets of nyala's tables (default 1)"),
                argument("--queries", metavar="NAMES", help="run these queries of one suite, for instance 3,5"),
                argument(
                    "--engines",
                    default="nyala,duckdb",
                    metavar="NAMES",
                    help="some of nyala, duckdb, duckdb-parquet, sqlite, deltalake, chdb (default: %(default)s)",
                ),
                argument("--before", type=Path, metavar="FILE", help="show the numbers of this --json file beside"),
                _work_dir("databases"),
                JSON,
            ),
            examples=(
                "nyala bench suites clickbench --rows 1000000 --json after.json --before before.json",
                "nyala bench suites clickbench --queries 30,36 --engines nyala,duckdb,duckdb-parquet",
            ),
        ),
        Command(
            "q6",
            "a filtered scan",
            "Run TPC-H's query 6, as `nyala tpch compare` does.",
            handler="tpch.command:compare_command",
            arguments=comparison(queries="6"),
            examples=("nyala bench q6 DIR",),
        ),
        Command(
            "tpch",
            "all of TPC-H",
            "Run the 22 queries, as `nyala tpch compare` does.",
            handler="tpch.command:compare_command",
            arguments=comparison(),
            examples=("nyala bench tpch DIR --sf 1",),
        ),
        Command(
            "all",
            "every benchmark, and a report",
            "Run every benchmark, each in a separate process, and write a report of them all to DIR: "
            "index.html, a self-contained page, and benchmarks.md. A run that was interrupted continues: "
            "finished benchmarks are not repeated. Exit code 1 if one failed.",
            handler="bench.all:all_command",
            arguments=(
                argument(
                    "--out",
                    type=Path,
                    required=True,
                    metavar="DIR",
                    help="directory of the report, the numbers and the logs",
                ),
                argument("--sf", type=positive, metavar="N", help="scale factor of TPC-H (default 1, --quick 0.01)"),
                argument(
                    "--records", type=count, default=1_000_000, metavar="N", help="rows of YCSB (default 1000000)"
                ),
                argument(
                    "--seconds",
                    type=positive,
                    default=20.0,
                    metavar="N",
                    help="seconds of each workload of YCSB (default 20)",
                ),
                argument(
                    "--only",
                    metavar="NAMES",
                    help="run only these: load, storage, points, maintenance, plan, tpch, lineitem, suites, "
                    "driver, ycsb, mixed, transactions, doors, cluster, cluster-tpch, kudu, spark, spark-tpch",
                ),
                argument("--skip", metavar="NAMES", help="run all but these"),
                argument("--again", action="store_true", help="also repeat finished benchmarks"),
                argument(
                    "--quick",
                    action="store_true",
                    help="small data, one run: a trial whose numbers are not significant",
                ),
                argument(
                    "--limit",
                    type=positive,
                    default=240.0,
                    metavar="MINUTES",
                    help="end a benchmark that takes longer (default 240)",
                ),
                argument(
                    "--work-dir",
                    type=Path,
                    metavar="DIR",
                    help="directory of data and temporary files (default: DIR/work)",
                ),
                argument("--kudu", type=Path, metavar="DIR", help="directory of Kudu's jars, for `bench kudu`"),
                argument("--keep", action="store_true", help="keep the data for another run"),
            ),
            examples=("nyala bench all --sf 1 --out results", "nyala bench all --quick --only points,tpch --out trial"),
        ),
    ),
)
